"""Placement of a pattern with all its parts, in one process.

Parts follow their reader; each detector is in the situation before the next. For `distced explain` and experiments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace as replace_entry

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_publication
from distced.middleware.wire.directory_entries import NO_HINTS, DetectorEntry, Hints
from distced.policies.distribution.choose.alternatives import alternatives, running_plan
from distced.policies.distribution.choose.ranking import Request
from distced.policies.distribution.choose.suggest import Suggestion, suggest
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place


@dataclass(frozen=True, slots=True)
class Placed:
    """A placed detector; `reader` reads it as a part, empty for the whole pattern."""

    id: str
    pattern: str
    reader: str
    suggestion: Suggestion


@dataclass(frozen=True, slots=True)
class Placement:
    """A placed pattern: detectors, each before its parts, and the situation afterwards."""

    placed: tuple[Placed, ...]
    situation: Situation

    @property
    def root(self) -> Placed:
        return self.placed[0]


def place(
    pattern: str | Compiled,
    policy: Policy,
    situation: Situation,
    subscribers: Sequence[Place],
    *,
    hints: Hints = NO_HINTS,
    registry: TypeRegistry | None = None,
    catalogue: Catalogue | None = None,
    constituents: bool = False,
) -> Placement:
    """Place a pattern under guaranteed detection; the situation given stays as it is.

    Args:
        registry: of event types; None takes every type as known.
        catalogue: running detectors that may be parts, extended by new ones; None compiles the situation's patterns.

    Raises:
        DistcedError: as `suggest`.
    """
    compiled = compile_pattern(pattern, registry) if isinstance(pattern, str) else pattern
    known = TypeRegistry(open=True) if registry is None else registry
    placing = _Placing(policy, situation.copy(), hints, catalogue or catalogue_of(situation, known))
    placing.place(compiled, frozenset(), "", tuple(subscribers), constituents=constituents)
    while placing.waiting:
        plan, reader, node = placing.waiting.popleft()
        part = plan.compiled.written_as(plan.compiled.plain)
        placing.place(part, plan.exports, reader, (Place("node", node),), constituents=True)
    return Placement(tuple(placing.placed), placing.situation)


def catalogue_of(situation: Situation, registry: TypeRegistry) -> Catalogue:
    """Detectors of a situation that may be read as parts."""
    catalogue = Catalogue()
    for entry in situation.detectors.values():
        plan = running_plan(entry, registry)
        if plan is not None:
            catalogue.add(plan)
    return catalogue


@dataclass
class _Placing:
    """Detectors being placed; `situation` is changed; `waiting`: parts, each with its reader and the reader's node."""

    policy: Policy
    situation: Situation
    hints: Hints
    catalogue: Catalogue
    placed: list[Placed] = field(default_factory=list)
    waiting: deque[tuple[DetectorPlan, str, str]] = field(default_factory=deque)

    def place(
        self,
        compiled: Compiled,
        exports: frozenset[str],
        reader: str,
        subscribers: tuple[Place, ...],
        *,
        constituents: bool,
    ) -> None:
        """Place one detector, and queue its parts."""
        hints = self.hints if not reader else replace_entry(self.hints, selectivity=None)
        graphs = alternatives(
            compiled,
            self.policy,
            self.catalogue,
            exports,
            situation=self.situation,
            subscribers=subscribers,
            hints=hints,
        )
        identity = graphs[0].roots[0]
        request = Request(
            identity, tuple(graphs), subscribers, hints, derivations=bool(reader), constituents=constituents
        )
        suggestion = suggest(self.policy, self.situation, request)
        plan = suggestion.graph.plans[suggestion.graph.roots[0]]
        self.placed.append(Placed(identity, format_publication(compiled.publication), reader, suggestion))
        if suggestion.action == "create":
            self._created(plan, suggestion)
            for part in plan.parts:
                for node in (suggestion.node, *suggestion.replicas):
                    self.waiting.append((suggestion.graph.plans[part], identity, node))
        elif suggestion.action == "replicate":
            self._replicated(identity, suggestion)
            for part in self.situation.detectors[identity].parts:
                if part in self.catalogue.plans:
                    for node in (suggestion.node, *suggestion.replicas):
                        self.waiting.append((self.catalogue.plans[part], identity, node))
        self._heard(identity, subscribers)

    def _created(self, plan: DetectorPlan, suggestion: Suggestion) -> None:
        replicas = {node: self.situation.home_of_node(node) for node in suggestion.replicas}
        entry = entry_of(plan, suggestion.node, suggestion.home, replicas, self.policy.text)
        self.situation.changed("detector", plan.id, entry)
        self.situation.expect(plan.id, suggestion.expected)
        self.catalogue.add(plan)

    def _replicated(self, identity: str, suggestion: Suggestion) -> None:
        entry = self.situation.detectors[identity]
        replicas = {node: self.situation.home_of_node(node) for node in (suggestion.node, *suggestion.replicas)}
        changed = replace_entry(entry, replicas={**entry.replicas, **replicas})
        self.situation.changed("detector", identity, changed)

    def _heard(self, identity: str, subscribers: Sequence[Place]) -> None:
        """Add the subscribers as readers; a node has one connection for all its detectors."""
        entry = self.situation.detectors[identity]
        readers = dict(entry.readers)
        own = Stream("composite", "", identity)
        for place in subscribers:
            if place.kind == "node" and self.situation.reading.at(place.name).get(own, 0) > 1:
                continue
            home = self._home_of(place)
            readers[home] = readers.get(home, 0) + 1
        changed = replace_entry(entry, readers=readers, subscriptions=entry.subscriptions + len(subscribers))
        self.situation.changed("detector", identity, changed)

    def _home_of(self, place: Place) -> str:
        """Server of a place's site, as `Situation.site_of_home` reads it."""
        site = self.situation.site_of(place)
        return "" if site == self.situation.network.directory else site


def entry_of(plan: DetectorPlan, node: str, home: str, replicas: dict[str, str], distribution: str) -> DetectorEntry:
    """Entry of a detector without listeners, on a node and on those of its replicas, each with its home."""
    types = plan.compiled.automaton.type_names()
    return DetectorEntry(
        node,
        format_publication(plan.compiled.plain),
        "guaranteed",
        None if types is None else tuple(sorted(types)),
        publishes=plan.compiled.publishes.name if plan.compiled.automaton.output is not None else "",
        parts=plan.parts,
        exports=tuple(sorted(plan.exports)),
        home=home,
        replicas=replicas,
        distribution=distribution,
    )
