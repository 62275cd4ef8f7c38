"""Heartbeat rates of detectors, from the promises of their sources alone, without reading events.

The watermark of a guaranteed detector is the least of those of its sources (design, section 3). It is announced at
every advance where detectors read it, and again every two seconds for new readers; once a second at most where
applications alone do; and with every composite event. The advances follow from the instants at which each source
promises: with its events, where it publishes one type, and with its heartbeats.

Rates alone were rejected: "as often as the slowest of the sources, once for each" (`message_sizes`) is right where all
are as slow, and far off where one is not. A minute or two suffices, so no more is followed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import merge
from random import Random
from typing import Final, NamedTuple

from distced.brokers.node.node import STATUS_EVERY
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, parts_key
from distced.policies.distribution.estimate.delays import from_source
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.rates import hosting
from distced.policies.distribution.situation.situation import Situation
from distced.simulations.placement.optimum.search_space import SearchSpace

PROMISES: Final = 20_000
"""Most promises of all sources together that are followed."""

HEARTBEAT: Final = round(SECOND / message_sizes.HEARTBEATS)
"""Interval between promises of a source beside its events, ns."""

Promises = Sequence[int]
"""Instants of the promises of a source, ns, in order."""


class DetectorLocations:
    """Detectors of a situation, and delays to them; of those with several hosts to that of this number."""

    def __init__(self, situation: Situation, detectors: Mapping[str, DetectorEntry], number: int) -> None:
        self.situation = situation
        self.detectors = detectors
        hosts = {name: list(hosting(entry).items()) for name, entry in detectors.items()}
        self.hosts = {name: each[min(number, len(each) - 1)] for name, each in hosts.items()}

    def from_source(self, source: str, detector: str) -> int:
        """Delay from a source, ns."""
        return round(from_source(self.situation, source, self.hosts[detector][0]))

    def from_detector(self, part: str, detector: str) -> int:
        """Delay from a detector, ns."""
        node, home = self.hosts[part]
        return round(self.situation.to_node(home, node) + self.situation.to_node(home, self.hosts[detector][0]))


class WatermarkStep(NamedTuple):
    """An advance of a detector's watermark to `until`, at an instant, both ns."""

    at: int
    until: int


def promises_of(
    events: Sequence[Event], types: Mapping[str, Sequence[str]], begin: int, end: int, random: Random
) -> tuple[dict[str, Promises], int]:
    """Instants of the promises of each source, and the period they cover, ns; those of heartbeats are `random`."""
    often = len(types) * message_sizes.HEARTBEATS + len(events) * SECOND / max(end - begin, 1)
    end = min(end, begin + round(PROMISES / max(often, 1e-9) * SECOND))
    along: dict[str, list[int]] = {source: [] for source in types}
    for event in events:
        if event.hi > end:
            break
        # With one type the promise travels along.
        if event.source in along and len(types[event.source]) == 1 and event.hi > begin:
            along[event.source].append(event.hi)
    beats = {source: range(begin + random.randrange(1, HEARTBEAT + 1), end + 1, HEARTBEAT) for source in sorted(types)}
    return {source: list(merge(promised, beats[source])) for source, promised in along.items()}, max(end - begin, 0)


def steps(
    space: SearchSpace,
    promises: Mapping[str, Promises],
    types: Mapping[str, Sequence[str]],
    standing: DetectorLocations | None = None,
) -> dict[str, list[WatermarkStep]]:
    """Advances of each detector's watermark; without locations, those of whole detectors without delays."""
    found: dict[str, list[WatermarkStep]] = {}
    for name in space.ordered():
        plan = space.whole(name)
        if standing is not None:
            if name not in standing.detectors:
                continue
            plan = space.alternatives[name].get(parts_key(standing.detectors[name].parts), plan)
        read = plan.compiled.automaton.type_names()
        arrivals: list[list[tuple[int, str, int]]] = []
        for source in sorted(promises):
            if read is None or not read.isdisjoint(types[source]):
                latency = 0 if standing is None else standing.from_source(source, name)
                arrivals.append([(at + latency, source, at) for at in promises[source]])
        for other in (*plan.parts, *space.named(plan)):
            latency = 0 if standing is None else standing.from_detector(other, name)
            arrivals.append([(step.at + latency, other, step.until) for step in found[other]])
        found[name] = _steps(arrivals)
    return found


def heartbeat_counts(steps: Sequence[WatermarkStep], found: Sequence[int], duration: int) -> tuple[int, int]:
    """Messages of a detector with a watermark in `duration` ns, to detectors and to applications alone.

    Its composite events are given by their `hi`, ns, sorted.
    """
    quiet, before = 0, None
    said: int | None = None
    for at, until in steps:
        done = 0 if before is None else bisect_right(found, before)
        if said is None or bisect_right(found, until) > done or at - said >= SECOND:
            quiet += 1
            said = at
        before = until
    again = round(duration / STATUS_EVERY) if steps else 0
    return len(steps) + again, quiet


def _steps(arrivals: Sequence[Sequence[tuple[int, str, int]]]) -> list[WatermarkStep]:
    """Advances of the least promise of several."""
    known: dict[str, int | None] = {}
    found: list[WatermarkStep] = []
    heard = list(merge(*arrivals))
    for _, source, _ in heard:
        known[source] = None
    waiting, least = len(known), None
    for at, source, until in heard:
        before = known[source]
        waiting -= before is None
        known[source] = until
        if waiting or not (before is None or before == least):
            continue
        lowest = min(each for each in known.values() if each is not None)
        if least is None or lowest > least:
            least = lowest
            found.append(WatermarkStep(at, lowest))
    return found
