"""What detectors tell where they stand: how often each says something, along the ways to it.

Ways shift the promises that detectors hear, and with them how often the least of these rises; so of a placement that is
known, that is followed once more (`telling.Standing`), and what was foreseen of detectors wherever they may be is put
right.
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
from distced.simulations.placement.history_figures.heartbeat_rates import Promises, spoken, steps
from distced.simulations.placement.history_figures.measuring import types_of
from distced.simulations.placement.problem import Instance


def followed_by(
    instance: Instance,
    detectors: Mapping[str, DetectorEntry],
    counting: Counting,
    events: Sequence[Event],
    beats: Mapping[str, Promises],
    begin: int,
    end: int,
) -> Instance:
    """The instance with what detectors tell where they stand.

    Args:
        counting: of the same stretch.
        beats: when each source promises beside its events, ns.
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
            said.setdefault(name, []).append(spoken(further, counting.found[name], end - begin))
    foreseen = dict(instance.foreseen)
    for name, each in said.items():
        # Mean over the hosts.
        loud, quiet = (sum(numbers) / len(each) / seconds for numbers in zip(*each, strict=True))
        frame, known = frame_size(name), foreseen[name]
        # What comes with composite events stays; how often something is said is known better.
        foreseen[name] = replace_entry(
            known,
            quiet=Told(known.quiet.size + (quiet - known.quiet.often) * frame, quiet),
            loud=Told(known.loud.size + (loud - known.loud.often) * frame, loud),
            part=Told(known.part.size + (loud - known.part.often) * frame, loud),
        )
    return replace(instance, foreseen=foreseen)


class _Places:
    """Detectors of a situation, and ways to them; of those with several hosts, to the one of this number."""

    def __init__(self, situation: Situation, detectors: Mapping[str, DetectorEntry], number: int) -> None:
        self.situation = situation
        self.detectors = detectors
        hosts = {name: list(hosting(entry).items()) for name, entry in detectors.items()}
        self.hosts = {name: each[min(number, len(each) - 1)] for name, each in hosts.items()}

    def from_source(self, source: str, detector: str) -> int:
        """ns from a source to a detector."""
        return round(from_source(self.situation, source, self.hosts[detector][0]))

    def from_detector(self, part: str, detector: str) -> int:
        """ns from a detector to one that reads it."""
        node, home = self.hosts[part]
        return round(self.situation.to_node(home, node) + self.situation.to_node(home, self.hosts[detector][0]))
