"""What a subscription asks for, planned: one detector, and what of its pattern is left to others.

composite-event-framework-2004, "Mobile Composite Event Detectors": a detector decomposes its expression and delegates
the detection of subexpressions to other detectors, existing ones or new ones, with whom it speaks through the
publish/subscribe system and in no other way. So a node subscribes to a part for its detector as a client would, in
canonical form, and whoever hosts the part cuts it further in its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, get_args

from msgspec.structs import replace as replace_entry

from brokers.directory import Directory
from detectors.compilation import Compiled, compile_pattern
from detectors.consumption import DetectionPolicy
from detectors.cutting import decomposition
from detectors.cutting.catalogue import Catalogue
from detectors.cutting.cover import for_reuse
from detectors.cutting.graph import Choice, Choose, DetectorPlan, Place, cut, cut_at
from detectors.detector import detector_id
from detectors.language.canonical import canonical_id
from detectors.language.names import all_registers, all_variables, referenced
from detectors.language.printer import format_publication
from detectors.language.tree import Delegated, Publication
from middleware.errors import DistcedError
from middleware.eventtypes import TypeRegistry
from middleware.protocol import NODE_CLIENT, DetectorEntry, SubscriptionEntry
from middleware.quality import Decomposition
from policies.detection import detection_policy

DECOMPOSITIONS: Final = get_args(Decomposition)


@dataclass(frozen=True, slots=True)
class Found:
    """What a subscription asks for.

    Attributes:
        id: the name of the detector in the directory.
        compiled: its pattern as it was written.
    """

    id: str
    compiled: Compiled
    policy: DetectionPolicy


@dataclass(frozen=True, slots=True)
class Planned:
    """A detector that a subscription asks for.

    Attributes:
        id: its name in the directory.
        compiled: its pattern, with parts of it delegated.
        parts: what is to be subscribed to for it, by the id of the part's detector.
        exports: what its records hand on, by canonical name.
        asked: the subscription that asked for it first.
        places: where its pattern was cut.
    """

    id: str
    compiled: Compiled
    policy: DetectionPolicy
    parts: dict[str, SubscriptionEntry]
    exports: tuple[str, ...]
    asked: SubscriptionEntry
    places: tuple[tuple[Place, Delegated], ...] = ()


class Delegating:
    """Plans subscriptions of a node.

    Attributes:
        client: the node as a client of other nodes.
        whole: the ids of detectors whose patterns are not to be cut: a part of theirs was refused.
    """

    def __init__(self, name: str, directory: Directory) -> None:
        self.client = node_client(name)
        self.directory = directory
        self.whole: set[str] = set()
        self._reusable = Catalogue()
        # What the directory has said of the detectors that were looked at.
        self._known: dict[str, tuple[str, str, tuple[str, ...]]] = {}

    def identify(self, entry: SubscriptionEntry, registry: TypeRegistry) -> Found:
        """What a subscription asks for; raises `DistcedError` where that cannot be."""
        if entry.decomposition not in DECOMPOSITIONS:
            raise DistcedError("unknown decomposition", given=entry.decomposition, allowed=", ".join(DECOMPOSITIONS))
        compiled = self._compiled(entry, registry)
        policy = detection_policy(entry.policy)
        if entry.exports and (compiled.automaton.epochs or policy.name != "guaranteed"):
            raise DistcedError(
                "a part that is found by epochs or by best effort hands nothing on",
                given=", ".join(entry.exports),
                allowed="no exports, or ordered consumption with guaranteed detection",
            )
        if compiled.publishes.name:
            self.directory.check_published(compiled.publishes, compiled.names())
        self.directory.check_read(compiled.names(), policy.name)
        identity = detector_id(compiled, policy.name)
        if entry.exports:
            identity = canonical_id(compiled.plain, exports=frozenset(entry.exports))
        return Found(identity, compiled, policy)

    def plan(self, found: Found, entry: SubscriptionEntry, registry: TypeRegistry) -> Planned:
        """The detector for it, and what of its pattern is left to others."""
        compiled, policy = found.compiled, found.policy
        # What is found by best effort is complete at no time, so it is no part of anything.
        cutting = policy.name == "guaranteed" and entry.decomposition != "none" and found.id not in self.whole
        if not cutting and not entry.exports:
            return Planned(found.id, compiled, policy, {}, (), entry)
        catalogue = self._catalogue(registry) if entry.decomposition == "for-reuse" else Catalogue()
        choose = _at_the_top(compiled, _choice(entry.decomposition, catalogue) if cutting else decomposition.none)
        graph = cut([compiled], choose, running=catalogue.plans, exports=frozenset(entry.exports))
        root = graph.plans[graph.roots[0]]
        if not entry.exports and not (root.parts and root.id not in graph.reused):
            # Left whole, or there already: as it was written.
            return Planned(found.id, compiled, policy, {}, (), entry)
        own = () if root.id in graph.reused else root.parts
        parts = {part: self._wanted(graph.plans[part], entry) for part in own}
        # To people it is the pattern as it was written.
        shown = replace(root.compiled, publication=compiled.publication)
        places = root.places if own else ()
        return Planned(root.id, shown, policy, parts, tuple(sorted(root.exports)), entry, places)

    def plan_again(
        self,
        entry: SubscriptionEntry,
        registry: TypeRegistry,
        places: Mapping[Place, Delegated],
        parts: dict[str, SubscriptionEntry],
    ) -> Planned:
        """A detector that is on its way here, cut as it was where it comes from."""
        compiled = self._compiled(entry, registry)
        policy = detection_policy(entry.policy)
        own = {part: replace_entry(wanted, client=self.client) for part, wanted in parts.items()}
        if not places and not entry.exports:
            return Planned(detector_id(compiled, policy.name), compiled, policy, {}, (), entry)
        plan = cut_at(compiled, places, frozenset(entry.exports))
        shown = replace(plan.compiled, publication=compiled.publication)
        return Planned(plan.id, shown, policy, own, tuple(sorted(plan.exports)), entry, plan.places)

    def _compiled(self, entry: SubscriptionEntry, registry: TypeRegistry) -> Compiled:
        if entry.consumption not in ("ordered", "epoch"):
            raise DistcedError("unknown kind of consumption", given=entry.consumption, allowed="ordered, epoch")
        compiled = compile_pattern(
            entry.pattern,
            registry,
            definitions=entry.definitions,
            consumption="epoch" if entry.consumption == "epoch" else "ordered",
        )
        made = {*all_variables(compiled.plain.pattern), *all_registers(compiled.plain.pattern)}
        if not made.issuperset(entry.exports):
            raise DistcedError(
                "the records of a pattern cannot hand on what it does not make",
                given=", ".join(sorted(set(entry.exports) - made)),
                allowed=", ".join(sorted(made)) or "nothing: it has no variables and no registers",
            )
        return compiled

    def _wanted(self, part: DetectorPlan, entry: SubscriptionEntry) -> SubscriptionEntry:
        return SubscriptionEntry(
            self.client,
            format_publication(part.compiled.plain),
            policy=entry.policy,
            constituents=True,
            decomposition=entry.decomposition,
            records=True,
            exports=tuple(sorted(part.exports)),
        )

    def _catalogue(self, registry: TypeRegistry) -> Catalogue:
        """The detectors of the directory that may be read as parts."""
        detectors = self.directory.detectors
        for name in [each for each in self._known if each not in detectors]:
            del self._known[name]
            self._reusable.remove(name)
        for name, entry in detectors.items():
            shown = (entry.pattern, entry.policy, entry.exports)
            if self._known.get(name) != shown:
                self._known[name] = shown
                plan = _running(entry, registry)
                if plan is not None:
                    self._reusable.add(plan)
        return self._reusable


def node_client(name: str) -> str:
    """A node as a client of other nodes."""
    return NODE_CLIENT + name


def is_there(client: str, directory: Directory) -> bool:
    """Whether who subscribes is there."""
    if client.startswith(NODE_CLIENT):
        return client.removeprefix(NODE_CLIENT) in directory.nodes
    return client in directory.clients


def home_of(client: str, directory: Directory) -> str:
    """The server of the site of who subscribes; that of the directory where nobody knows."""
    if client.startswith(NODE_CLIENT):
        node = directory.nodes.get(client.removeprefix(NODE_CLIENT))
        return "" if node is None else node.home
    known = directory.clients.get(client)
    return "" if known is None else known.home


def _running(entry: DetectorEntry, registry: TypeRegistry) -> DetectorPlan | None:
    """The plan of a detector of the directory; None for one that is no part of anything."""
    if entry.policy != "guaranteed" or entry.publishes:
        return None
    try:
        compiled = compile_pattern(entry.pattern, registry)
        graph = cut([compiled], decomposition.none, exports=frozenset(entry.exports))
    except (DistcedError, KeyError):
        return None
    return None if compiled.thinnings else graph.plans[graph.roots[0]]


def _choice(name: str, catalogue: Catalogue) -> Choose:
    return decomposition.full if name == "full" else for_reuse(catalogue)


def _at_the_top(compiled: Compiled, choose: Choose) -> Choose:
    """Cut the pattern itself; its parts are cut by whoever hosts them. What is thinned here stays here."""
    marks = frozenset(each.mark for each in compiled.thinnings)
    first = True

    def once(publication: Publication, exports: frozenset[str]) -> Iterable[Choice]:
        nonlocal first
        if not first:
            return ()
        first = False
        return [each for each in choose(publication, exports) if not marks & referenced(each.candidate.pattern, None)]

    return once
