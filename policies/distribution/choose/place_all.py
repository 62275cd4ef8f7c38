"""A pattern placed with all its parts, as nodes would do it one after the other, in one process.

The root first; then each part that it needs and that is not there yet, with the root's node as its subscriber, and the
parts of that in their turn. Each detector is in the situation before the next is placed. For `distced explain` and for
experiments; nodes do the same with messages between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace as replace_entry

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.graph import DetectorPlan
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_publication
from distced.middleware.wire.directory_entries import NO_HINTS, DetectorEntry, Hints
from distced.policies.distribution.choose.alternatives import alternatives, running_plan
from distced.policies.distribution.choose.suggest import Suggestion, suggest
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.request import Request
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place


@dataclass(frozen=True, slots=True)
class Placed:
    """A detector that was placed.

    Attributes:
        id: its id.
        pattern: what it detects, as text.
        reader: the detector that reads it as a part; empty for the whole pattern.
        suggestion: where it is, and why.
    """

    id: str
    pattern: str
    reader: str
    suggestion: Suggestion


@dataclass(frozen=True, slots=True)
class Placement:
    """A pattern with all its parts, placed.

    Attributes:
        placed: the detectors that were asked for, each before its parts.
        situation: as it is afterwards.
    """

    placed: tuple[Placed, ...]
    situation: Situation

    @property
    def root(self) -> Placed:
        """The detector of the pattern itself."""
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
        registry: of event types; without one every type is taken as known.
        catalogue: the detectors of the situation that may be read as parts; new ones are put into it. None to have it
            made, which takes as long as compiling all their patterns.

    Raises:
        DistcedError: as `suggest` does.
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
    """The detectors of a situation that may be read as parts."""
    catalogue = Catalogue()
    for entry in situation.detectors.values():
        plan = running_plan(entry, registry)
        if plan is not None:
            catalogue.add(plan)
    return catalogue


class _Placing:
    """Detectors being placed.

    Attributes:
        situation: as it is so far; it is changed.
        waiting: parts that are to be placed, each with the detector that reads it, and where that is.
    """

    def __init__(self, policy: Policy, situation: Situation, hints: Hints, catalogue: Catalogue) -> None:
        self.policy = policy
        self.situation = situation
        self.hints = hints
        self.catalogue = catalogue
        self.placed: list[Placed] = []
        self.waiting: deque[tuple[DetectorPlan, str, str]] = deque()

    def place(
        self,
        compiled: Compiled,
        exports: frozenset[str],
        reader: str,
        subscribers: tuple[Place, ...],
        *,
        constituents: bool,
    ) -> None:
        """Place one detector, and note its parts."""
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
        """The subscribers listen from now on; a node does with one connection, however many detectors read there."""
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
        """A name of the server of a place's site that `Situation.site_of_home` reads back."""
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
