"""How often detectors say how far they are: by the promises of their sources, without a look at any event.

Under guaranteed detection a detector has come as far as the source it has heard the least of (design, section 3), and
says so whenever it gets further: at once where detectors read it, once a second at most where applications alone do,
and with every composite event. So it is followed when each source promises what: with its events, where it publishes
one type, and with its heartbeats. What detectors read is told once more every two seconds, for those that have just
begun to listen. Where detectors stand is known of a placement only (`Standing`); without one, ways
take no time.

To go by rates alone was rejected: "as often as the slowest of the sources, once for each"
(`policies.distribution.situation.message_sizes`) is right where all are as slow, and far off where one is not. A minute
or two tell enough, so no more is looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import merge
from random import Random
from typing import Final, NamedTuple, Protocol

from distced.brokers.node.node import STATUS_EVERY
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, parts_key
from distced.policies.distribution.situation import message_sizes as sizes
from distced.simulations.placement.optimum.search_space import Space

PROMISES: Final = 20_000
"""So many promises of all sources together are followed at the most."""

HEARTBEAT: Final = round(SECOND / sizes.HEARTBEATS)
"""How often a source promises beside its events, ns."""

Promises = Sequence[int]
"""When a source promises to be that far, ns, in order."""


class Standing(Protocol):
    """Where detectors are, and how long ways take from their sources.

    Attributes:
        detectors: their entries.
    """

    @property
    def detectors(self) -> Mapping[str, DetectorEntry]: ...

    def from_source(self, source: str, detector: str) -> int:
        """ns."""
        ...

    def from_detector(self, part: str, detector: str) -> int:
        """ns."""
        ...


class Step(NamedTuple):
    """A detector has got further.

    Attributes:
        at: when, ns.
        until: how far.
    """

    at: int
    until: int


def promises_of(
    events: Sequence[Event], types: Mapping[str, Sequence[str]], begin: int, end: int, random: Random
) -> tuple[dict[str, Promises], int]:
    """When each source promises something, and how long that is told, ns.

    Args:
        events: in the order of consumption.
        types: what each source publishes.
        random: where the moments of heartbeats come from.
    """
    often = len(types) * sizes.HEARTBEATS + len(events) * SECOND / max(end - begin, 1)
    end = min(end, begin + round(PROMISES / max(often, 1e-9) * SECOND))
    along: dict[str, list[int]] = {source: [] for source in types}
    for event in events:
        if event.hi > end:
            break
        # With one type the promise travels along.
        if event.source in along and len(types[event.source]) == 1 and event.hi > begin:
            along[event.source].append(event.hi)
    beats = {source: range(begin + random.randrange(1, HEARTBEAT + 1), end + 1, HEARTBEAT) for source in sorted(types)}
    return {source: list(merge(told, beats[source])) for source, told in along.items()}, max(end - begin, 0)


def steps(
    space: Space, promises: Mapping[str, Promises], types: Mapping[str, Sequence[str]], standing: Standing | None = None
) -> dict[str, list[Step]]:
    """When each detector gets further, and how far.

    Args:
        standing: where detectors are; without it all are whole, and ways take no time.
    """
    found: dict[str, list[Step]] = {}
    for name in space.ordered():
        plan = space.whole(name)
        if standing is not None:
            if name not in standing.detectors:
                continue
            plan = space.ways[name].get(parts_key(standing.detectors[name].parts), plan)
        read = plan.compiled.automaton.type_names()
        told: list[list[tuple[int, str, int]]] = []
        for source in sorted(promises):
            if read is None or not read.isdisjoint(types[source]):
                way = 0 if standing is None else standing.from_source(source, name)
                told.append([(at + way, source, at) for at in promises[source]])
        for other in (*plan.parts, *space.named(plan)):
            way = 0 if standing is None else standing.from_detector(other, name)
            told.append([(step.at + way, other, step.until) for step in found[other]])
        found[name] = _steps(told)
    return found


def spoken(steps: Sequence[Step], found: Sequence[int], duration: int) -> tuple[int, int]:
    """How often a detector says something, when detectors read it and when applications alone do.

    Args:
        found: the `hi` of its composite events, ns, sorted.
        duration: how long it is listened to, ns.
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


def _steps(told: Sequence[Sequence[tuple[int, str, int]]]) -> list[Step]:
    """When the least of what several have promised rises."""
    known: dict[str, int | None] = {}
    found: list[Step] = []
    heard = list(merge(*told))
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
            found.append(Step(at, lowest))
    return found
