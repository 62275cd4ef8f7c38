"""A placement problem: a network, patterns with their subscribers, and expected figures of each detector.

The figures come from a history (`measuring`), or, in benchmarks, from the expectations of policies
(`expected_figures`). Policies, the optimum and the evaluation all use the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec.structs import replace as replace_entry

from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import (
    NO_HINTS,
    DetectorEntry,
    Foreseen,
    HintEntry,
    Measured,
    OutputTraffic,
    SourceEntry,
)
from distced.policies.distribution.choose.place_all import entry_of
from distced.policies.distribution.estimate.detector_estimate import Part, Rates, expected, streams_of
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.rates import hosting
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.explaining.deployment import entries_of
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.placement.optimum.search_space import SearchSpace


@dataclass(frozen=True)
class PlacementProblem:
    """A placement problem: expected figures of detectors by id, and known rates of events and heartbeats.

    Without sources these are the publishers of the topology.
    """

    topology: Topology
    space: SearchSpace
    foreseen: Mapping[str, Foreseen]
    streams: Mapping[Stream, OutputTraffic]
    sources: Mapping[str, SourceEntry] | None = None

    @cached_property
    def empty(self) -> Situation:
        """Situation without detectors; not to be changed."""
        return self.situation({})

    def situation(self, detectors: Mapping[str, DetectorEntry]) -> Situation:
        """Situation with these detectors and their expected figures."""
        entries = entries_of(self.topology)
        if self.sources is not None:
            entries.sources = dict(self.sources)
        entries.detectors = dict(detectors)
        situation = Situation.of(entries, self.topology)
        situation.measures.foreseen.update(self.foreseen)
        situation.measures.streams.update(self.streams)
        return situation

    def entry(self, plan: DetectorPlan, nodes: tuple[str, ...], *, distribution: str = "") -> DetectorEntry:
        """Entry of a detector on these nodes, the primary first, without listeners."""
        home = self.empty.home_of_node
        replicas = {node: home(node) for node in nodes[1:]}
        return entry_of(plan, nodes[0], home(nodes[0]), replicas, distribution)

    def with_alternatives(self, plans: Mapping[str, DetectorPlan]) -> PlacementProblem:
        """The problem with these alternatives of detectors; loads not measured are scaled as that of the whole."""
        if not self.space.add(plans):
            return self
        foreseen = dict(self.foreseen)
        situation = self.situation({})
        parts = {
            name: Part(Measured(rate=each.rate, size=each.part.size), each.part.often)
            for name, each in foreseen.items()
        }
        situation.measures.foreseen.clear()
        for name, alternatives in self.space.alternatives.items():
            for key, plan in alternatives.items():
                known = foreseen.get(name)
                if known is None:
                    known = foreseen[name] = _expected(name, self.space, situation, parts)[0]
                if key not in known.loads:
                    load = expected(plan, situation, NO_HINTS, derivations=True, parts=parts).load
                    part = self.space.is_part(name)
                    whole = expected(self.space.whole(name), situation, NO_HINTS, derivations=part).load
                    factor = known.loads[""] / whole if whole else 1.0
                    foreseen[name] = replace_entry(known, loads={**known.loads, key: load * factor})
        return replace(self, foreseen=foreseen)

    def heard(self, detectors: Mapping[str, DetectorEntry], *, but: str = "") -> dict[str, DetectorEntry]:
        """The entries with the homes of their readers: nodes, and subscribers, but those of one pattern (`but`)."""
        reading: dict[str, set[str]] = {}
        for entry in detectors.values():
            for part in entry.parts:
                reading.setdefault(part, set()).update(hosting(entry))
        found = {}
        for name, entry in detectors.items():
            readers = {} if name == but else self.listeners(name)
            for node in reading.get(name, ()):
                home = self.empty.home_of_node(node)
                readers[home] = readers.get(home, 0) + 1
            found[name] = replace_entry(entry, readers=readers, subscriptions=sum(readers.values()))
        return found

    def listeners(self, name: str) -> dict[str, int]:
        """Number of subscribers of a detector, by home server."""
        found: dict[str, int] = {}
        # A participant with two subscriptions has one connection.
        for place in dict.fromkeys(self.subscribers(name)):
            home = self.topology.home_of(self.empty.site_of(place))
            found[home] = found.get(home, 0) + 1
        return found

    def subscribers(self, name: str) -> tuple[Place, ...]:
        """Places of the subscribers of a detector, one for each subscription."""
        pairs = zip(self.space.roots, self.space.asked, strict=True)
        return tuple(place for root, asked in pairs if root == name for place in asked.subscribers)

    def reads(self, name: str) -> float:
        """Events a second that a detector reads as a whole, composite events that it reads by type included."""
        types = self.space.whole(name).compiled.automaton.type_names()
        events = sum(
            traffic.often
            for stream, traffic in self.streams.items()
            if stream.kind == "event" and (types is None or stream.type in types)
        )
        return events + sum(self.foreseen[other].rate for other in self.space.named(self.space.whole(name)))

    def selectivity(self, name: str) -> float:
        """Composite events of a detector for each event read; 0 where it reads none."""
        events = self.reads(name)
        return self.foreseen[name].rate / events if events else 0.0

    def hint(self, name: str, nodes: tuple[str, ...] = (), parts: tuple[str, ...] | None = None) -> HintEntry:
        """Hint for a detector."""
        return HintEntry(nodes, parts, self.foreseen.get(name))


def expected_figures(topology: Topology, space: SearchSpace) -> dict[str, Foreseen]:
    """Expected figures of detectors without measurements."""
    situation = Situation.of(_with_sources(topology), topology)
    found: dict[str, Foreseen] = {}
    parts: dict[str, Part] = {}
    for name in space.ordered():
        whole = space.whole(name)
        found[name], parts[name] = _expected(name, space, situation, parts)
        if space.publishes(name):
            # Others read it by its type; its location does not change its output.
            node = min(situation.nodes, default="")
            entry = DetectorEntry(node, "", "guaranteed", (), publishes=whole.compiled.publishes.name)
            situation.changed("detector", name, entry)
            situation.expect(name, parts[name].does)
    return found


def _expected(name: str, space: SearchSpace, situation: Situation, parts: Mapping[str, Part]) -> tuple[Foreseen, Part]:
    whole = space.whole(name)
    loads = {}
    for key, plan in space.alternatives[name].items():
        loads[key] = expected(plan, situation, NO_HINTS, derivations=True, constituents=True, parts=parts).load
    plain = expected(whole, situation, NO_HINTS)
    part = expected(whole, situation, NO_HINTS, derivations=True, constituents=True)
    if not space.is_part(name):
        # Its input is shared with other detectors.
        loads[""] = plain.load
    rates = Rates(situation, NO_HINTS, {})
    streams = streams_of(whole, situation)
    often = rates.watermark_rate(streams, read=True)
    seldom = rates.watermark_rate(streams, read=False)
    events = plain.size - rates.watermark_rate(streams, read=bool(space.publishes(name))) * message_sizes.FRAME
    foreseen = Foreseen(
        plain.rate,
        OutputTraffic(events + seldom * message_sizes.FRAME, seldom),
        OutputTraffic(events + often * message_sizes.FRAME, often),
        OutputTraffic(part.size, often),
        loads,
    )
    return foreseen, Part(Measured(load=loads[""], rate=plain.rate, size=part.size), often)


def _with_sources(topology: Topology) -> Entries:
    entries = entries_of(topology)
    if not entries.nodes:
        raise DistcedError("a topology without broker nodes", allowed="at least one", advice="write [nodes.NAME]")
    return entries
