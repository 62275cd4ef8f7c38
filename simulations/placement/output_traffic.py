"""Output traffic of detectors at a known placement: rates of heartbeats, given the delays to each detector.

Delays shift the watermarks that detectors receive, and with them how often the least of these rises; so for a known
placement the rates are computed again (`heartbeat_rates.DetectorLocations`), and the figures that were estimated for
detectors anywhere are corrected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as replace_entry

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, Told
from distced.policies.distribution.estimate.delays import from_source
from distced.policies.distribution.situation.rates import hosting
from distced.policies.distribution.situation.situation import Situation
from distced.simulations.placement.history_figures.counting import Counting, frame_size
from distced.simulations.placement.history_figures.heartbeat_rates import Promises, heartbeat_counts, steps
from distced.simulations.placement.history_figures.measuring import types_of
from distced.simulations.placement.problem import PlacementProblem


def with_output_traffic(
    instance: PlacementProblem,
    detectors: Mapping[str, DetectorEntry],
    counting: Counting,
    events: Sequence[Event],
    beats: Mapping[str, Promises],
    begin: int,
    end: int,
) -> PlacementProblem:
    """The problem with the output traffic of detectors at their nodes.

    Args:
        counting: of the same stretch.
        beats: instants of each source's promises beside its events, ns.
    """
    space = instance.space
    types = types_of(instance.sources or {})
    promises = {
        source: sorted(
            {each for each in told if begin < each <= end}
            | {each.hi for each in events if each.source == source and len(types[source]) == 1}
        )
        for source, told in beats.items()
    }
    situation, seconds = instance.situation(detectors), (end - begin) / SECOND
    said: dict[str, list[tuple[int, int]]] = {}
    for number in range(max(len(hosting(entry)) for entry in detectors.values()) if detectors else 0):
        for name, further in steps(space, promises, types, _Places(situation, detectors, number)).items():
            said.setdefault(name, []).append(heartbeat_counts(further, counting.found[name], end - begin))
    foreseen = dict(instance.foreseen)
    for name, each in said.items():
        # Mean over the hosts.
        loud, quiet = (sum(numbers) / len(each) / seconds for numbers in zip(*each, strict=True))
        frame, known = frame_size(name), foreseen[name]
        # The share with composite events stays; the rate of heartbeats is corrected.
        foreseen[name] = replace_entry(
            known,
            quiet=Told(known.quiet.size + (quiet - known.quiet.often) * frame, quiet),
            loud=Told(known.loud.size + (loud - known.loud.often) * frame, loud),
            part=Told(known.part.size + (loud - known.part.often) * frame, loud),
        )
    return replace(instance, foreseen=foreseen)


class _Places:
    """Detectors of a situation, and paths to them; of those with several hosts, to the host of this number."""

    def __init__(self, situation: Situation, detectors: Mapping[str, DetectorEntry], number: int) -> None:
        self.situation = situation
        self.detectors = detectors
        hosts = {name: list(hosting(entry).items()) for name, entry in detectors.items()}
        self.hosts = {name: each[min(number, len(each) - 1)] for name, each in hosts.items()}

    def from_source(self, source: str, detector: str) -> int:
        """Delay from a source to a detector, ns."""
        return round(from_source(self.situation, source, self.hosts[detector][0]))

    def from_detector(self, part: str, detector: str) -> int:
        """Delay from a detector to its reader, ns."""
        node, home = self.hosts[part]
        return round(self.situation.to_node(home, node) + self.situation.to_node(home, self.hosts[detector][0]))
