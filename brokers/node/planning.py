"""Plans of detectors: the pattern of a subscription, cut into one detector here and parts elsewhere.

composite-event-framework-2004, "Mobile Composite Event Detectors": a detector delegates subexpressions to existing or
new detectors, through the publish/subscribe system only. A node subscribes to a part like a client, in canonical form;
the host of the part cuts it further.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, get_args

from msgspec.msgpack import encode as msgpack_encode
from msgspec.structs import replace as replace_entry

from distced.brokers.core.directory import Change, Directory
from distced.detectors.canonical.form import canonical_id
from distced.detectors.checked_texts import CheckedTexts
from distced.detectors.compiler import Compiled, Consumption, check_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import CutPlace, DetectorGraph, DetectorPlan, cut_at, is_private
from distced.detectors.cutting.part_index import PartIndex
from distced.detectors.frontends.languages import CORE, IN_CORE, Written
from distced.detectors.language.consulted_types import ConsultedTypes
from distced.detectors.language.names import all_registers, all_variables
from distced.detectors.runtime.detector import detector_id
from distced.detectors.shapes import Shapes
from distced.middleware.client.quality import Decomposition
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import Atom, Delegated
from distced.middleware.sets.describable import Union
from distced.middleware.wire.directory_entries import NODE_CLIENT, Hints, SubscriptionEntry
from distced.middleware.wire.node_messages import Cut
from distced.middleware.wire.topics import ROOT, check_json_topic
from distced.policies.detection import check_detection_policy
from distced.policies.distribution.choose.alternatives import running_plan

CACHED: Final = 1000
"""Patterns cached; the least recently used is evicted first."""

REFUSED: Final = 100
"""Errors of large patterns cached."""

_Key = tuple[str, tuple[tuple[str, str], ...], Consumption, Written]


class PatternCache:
    """Recently checked patterns of a node, by text, definitions, consumption and language; `checked` counts checks in
    full.

    A pattern is read by the coordinators of its subscription and its detector, and by the host: often one node. Of
    patterns that differ in constants the shape is checked once, and a text in another language is checked once for all
    of its queries (`texts`). An entry is valid while the event types looked up by the check are unchanged. All known
    types as part of the key were rejected: every detector that publishes under a name adds one.
    """

    def __init__(self) -> None:
        self._full = 0
        self._shapes = Shapes()
        self.texts = CheckedTexts()
        self._kept: dict[_Key, tuple[Compiled, ConsultedTypes]] = {}
        # Those that took long to be found faulty.
        self._refused: dict[_Key, tuple[DistcedError, ConsultedTypes]] = {}

    @property
    def checked(self) -> int:
        return self._full + self._shapes.compiled + self.texts.checked

    def check(
        self,
        text: str,
        definitions: dict[str, str],
        consumption: Consumption,
        registry: TypeRegistry,
        written: Written = IN_CORE,
    ) -> Compiled:
        """Pattern checked by `check_pattern`. Raises `DistcedError` for a faulty one, which is not cached here."""
        key = (text, tuple(definitions.items()), consumption, written)
        refused = self._refused.get(key) if self._refused else None
        if refused is not None and refused[1].unchanged(registry):
            raise refused[0].with_traceback(None)
        if not written.language:
            shaped = self._shapes.find(text, registry, definitions=definitions, consumption=consumption)
            if shaped is not None:
                return shaped
        kept = self._kept.pop(key, None)
        if kept is None or not kept[1].unchanged(registry):
            kept = self._checked(text, definitions, consumption, registry, written)
        # Ordered by last use.
        self._kept[key] = kept
        if len(self._kept) > CACHED:
            del self._kept[next(iter(self._kept))]
        return kept[0]

    def _checked(
        self,
        text: str,
        definitions: dict[str, str],
        consumption: Consumption,
        registry: TypeRegistry,
        written: Written,
    ) -> tuple[Compiled, ConsultedTypes]:
        if written.language:
            whole, consulted = self.texts.find(text, written.language, registry, consumption=consumption)
            return whole.query(written.query), consulted
        consulted = ConsultedTypes(registry)
        self._full += 1
        return check_pattern(text, consulted, definitions=definitions, consumption=consumption), consulted

    def knows(
        self,
        text: str,
        definitions: dict[str, str],
        consumption: Consumption,
        registry: TypeRegistry,
        written: Written = IN_CORE,
    ) -> bool:
        """Whether a check has nothing to compile."""
        key = (text, tuple(definitions.items()), consumption, written)
        found: list[tuple[object, ConsultedTypes] | None] = [self._kept.get(key), self._refused.get(key)]
        if any(each is not None and each[1].unchanged(registry) for each in found):
            return True
        if written.language:
            return False
        return self._shapes.knows(text, registry, definitions=definitions, consumption=consumption)

    def check_in_full(
        self,
        text: str,
        definitions: dict[str, str],
        consumption: Consumption,
        registry: TypeRegistry,
        written: Written = IN_CORE,
    ) -> None:
        """Check a pattern, and build its automaton, or cache the error."""
        try:
            compiled = self.check(text, definitions, consumption, registry, written)
            # Built at the first request otherwise.
            _ = compiled.structure, compiled.canonical_id
            if written.language:
                # Its detector is of the pattern in the core language.
                with suppress(DistcedError):
                    core = self.check(compiled.text, definitions, consumption, registry)
                    _ = core.structure, core.canonical_id
        except DistcedError as error:
            consulted = ConsultedTypes(registry)
            if written.language:
                consulted = self.texts.find(text, written.language, registry, consumption=consumption)[1]
            else:
                with suppress(DistcedError):
                    # A faulty one has looked up types until its fault.
                    check_pattern(text, consulted, definitions=definitions, consumption=consumption)
            self.refuse(text, definitions, consumption, error, consulted, written)

    def refuse(
        self,
        text: str,
        definitions: dict[str, str],
        consumption: Consumption,
        error: DistcedError,
        consulted: ConsultedTypes,
        written: Written = IN_CORE,
    ) -> None:
        """Cache the error of a pattern, as long as the types that were looked up do not change."""
        self._refused[text, tuple(definitions.items()), consumption, written] = error, consulted

    def forget_refusal(
        self, text: str, definitions: dict[str, str], consumption: Consumption, written: Written = IN_CORE
    ) -> None:
        """Forget the error of a pattern."""
        self._refused.pop((text, tuple(definitions.items()), consumption, written), None)

    def absorb(self, other: PatternCache) -> None:
        """Take what another cache has."""
        self._full += other._full
        self._shapes.absorb(other._shapes)
        self.texts.absorb(other.texts)
        self._kept |= other._kept
        self._refused |= other._refused
        while len(self._kept) > CACHED:
            del self._kept[next(iter(self._kept))]
        while len(self._refused) > REFUSED:
            del self._refused[next(iter(self._refused))]


def consumption_of(text: str) -> Consumption:
    """Kind of consumption of a subscription; ordered for unknown ones, which are refused."""
    return "epoch" if text == "epoch" else "ordered"


def written_of(entry: SubscriptionEntry) -> Written:
    """Language of the pattern of a subscription, and its query; a translation refuses unknown ones."""
    if not (entry.language or entry.query):
        return IN_CORE
    return Written("" if entry.language == CORE else entry.language, entry.query)


DECOMPOSITIONS: Final = get_args(Decomposition)

_COUNTING: Final = ("pattern", "policy", "exports", "publishes")
"""What counts of the entry of a detector that may be a part."""

_UNKNOWN: Final = Atom(Union(()))
_NO_PARTS: Final[dict[str, SubscriptionEntry]] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """Detector of a subscription, whole: its name in the directory, its pattern as written, its detection policy."""

    id: str
    compiled: Compiled
    policy: str


@dataclass(frozen=True, slots=True)
class Planned:
    """Detector of a subscription, cut.

    Attributes:
        id: its name in the directory.
        compiled: its pattern, with parts delegated.
        policy: its detection policy.
        parts: subscriptions to its parts, by the id of the part's detector.
        exports: variables and registers of its derivations, by canonical name.
        asked: the first subscription to it.
        places: cuts of its pattern.
    """

    id: str
    compiled: Compiled
    policy: str
    parts: dict[str, SubscriptionEntry]
    exports: tuple[str, ...]
    asked: SubscriptionEntry
    places: tuple[tuple[CutPlace, Delegated], ...] = ()


class Planner:
    """Planner of a node's subscriptions, `client` of other nodes; `whole`: detectors left uncut after a refusal."""

    def __init__(self, name: str, directory: Directory, root: str = ROOT) -> None:
        self.client = node_client(name)
        self._root = root
        self.directory = directory
        self.whole: set[str] = set()
        self.patterns = PatternCache()
        self._parts = PartIndex()
        # Those that a pattern might read so far.
        self._reusable = Catalogue()
        # Detectors of the directory whose entries have changed since, in order.
        self._changed: dict[str, None] = {}

    def detector_changed(self, change: Change) -> None:
        """The entry of a detector has changed."""
        before, after = change.before, change.entry
        if before is None or after is None or any(getattr(before, each) != getattr(after, each) for each in _COUNTING):
            self._changed[change.name] = None

    def identify(self, entry: SubscriptionEntry, registry: TypeRegistry) -> Found:
        """Detector of a subscription, its automaton not built. Raises `DistcedError` where there can be none."""
        written = written_of(entry)
        if entry.query and not written.language:
            advice = "leave the query out, or name the language of the text"
            raise DistcedError("a query of a pattern in the core language", given=entry.query, advice=advice)
        if written.language and entry.definitions:
            raise DistcedError(
                "definitions beside a pattern in another language",
                given=", ".join(sorted(entry.definitions)),
                allowed="none",
                advice="publish by queries of the text what others of them read",
            )
        if entry.decomposition and entry.decomposition not in DECOMPOSITIONS:
            raise DistcedError("unknown decomposition", given=entry.decomposition, allowed=", ".join(DECOMPOSITIONS))
        compiled = self._compiled(entry, registry)
        if topic := self.json_topic(entry, registry):
            check_json_topic(topic, root=self._root)
        policy = check_detection_policy(entry.policy)
        if entry.exports and (compiled.indivisible or policy != "guaranteed"):
            raise DistcedError(
                "a part that is found by epochs or by best effort hands nothing on",
                given=", ".join(entry.exports),
                allowed="no exports, or ordered consumption with guaranteed detection",
            )
        if entry.origin is not None:
            self._check_origin(entry, compiled, registry)
        elif compiled.publishes.name:
            self.directory.check_published(compiled.published, compiled.named())
        self.directory.check_read(compiled.named(), policy)
        identity = _identity(compiled, policy, entry)
        if entry.exports:
            identity = canonical_id(compiled.plain, exports=frozenset(entry.exports))
        return Found(identity, compiled, policy)

    def _check_origin(self, entry: SubscriptionEntry, compiled: Compiled, registry: TypeRegistry) -> None:
        """Raise `DistcedError` for a subscription that cannot begin with recorded events."""
        if entry.exports or entry.durable is not None or entry.hints.isolated:
            raise DistcedError(
                "a subscription that cannot begin with recorded events",
                given="durable" if entry.durable is not None else "isolated" if entry.hints.isolated else "a part",
                allowed="one of a whole pattern, not durable, and without a process of its own",
                advice="leave the origin out",
            )
        reads = compiled.reads(registry)
        if reads is None:
            raise DistcedError(
                "a pattern that reads any event cannot begin with recorded ones",
                given=compiled.text,
                advice="name the types that it reads",
            )
        recorders = self.directory.recorders.values()
        missing = sorted(
            name for name in reads if not any(each.types is None or name in each.types for each in recorders)
        )
        if missing:
            recorded = sorted({name for each in recorders for name in each.types or ("all types",)})
            raise DistcedError(
                "types that no recorder records now",
                given=", ".join(missing),
                allowed=", ".join(recorded) or "there is no recorder",
                advice=f"record them: distced record --types {','.join(missing)}",
            )

    def planned(self, found: Found, graph: DetectorGraph, entry: SubscriptionEntry) -> Planned:
        """Detector cut at the top by a decomposition."""
        entry = self._in_core(entry, found.compiled)
        root = graph.plans[graph.roots[0]]
        cut_here = bool(root.parts) and root.id not in graph.reused
        if not entry.exports and not cut_here:
            return Planned(found.id, found.compiled, found.policy, _NO_PARTS, (), entry)
        parts = {part: self._wanted(graph.plans[part], entry) for part in (root.parts if cut_here else ())}
        shown = root.compiled.written_as(found.compiled.publication)
        places = root.places if cut_here else ()
        return Planned(root.id, shown, found.policy, parts, tuple(sorted(root.exports)), entry, places)

    def _in_core(self, entry: SubscriptionEntry, compiled: Compiled) -> SubscriptionEntry:
        """Subscription in the core language, whatever it was written in: later hosts of its detector, with whatever
        types they know, have the same one. Types that the text derives are in no pattern, and keep it as it is."""
        if not written_of(entry).language:
            return entry
        core = replace_entry(entry, pattern=compiled.text, language="", query="")
        try:
            again = self._compiled(core, self.directory.registry())
        except DistcedError:
            return entry
        return core if again.canonical_id == compiled.canonical_id else entry

    def plan_again(
        self,
        entry: SubscriptionEntry,
        registry: TypeRegistry,
        places: Mapping[CutPlace, Delegated],
        parts: dict[str, SubscriptionEntry],
    ) -> Planned:
        """Detector on its way here, cut as on its origin; its automaton is built."""
        compiled = self._compiled(entry, registry)
        _ = compiled.structure
        policy = check_detection_policy(entry.policy)
        own = {part: replace_entry(wanted, client=self.client) for part, wanted in parts.items()}
        if not places and not entry.exports:
            return Planned(_identity(compiled, policy, entry), compiled, policy, _NO_PARTS, (), entry)
        plan = cut_at(compiled, places, frozenset(entry.exports))
        shown = plan.compiled.written_as(compiled.publication)
        return Planned(plan.id, shown, policy, own, tuple(sorted(plan.exports)), entry, plan.places)

    def check_again(self, entry: SubscriptionEntry, registry: TypeRegistry) -> Compiled:
        """Pattern of a detector that is there, checked against the types as they are now. Raises `DistcedError`."""
        compiled = self._compiled(entry, registry)
        self.directory.check_read(compiled.named(), entry.policy)
        return compiled

    def _compiled(self, entry: SubscriptionEntry, registry: TypeRegistry) -> Compiled:
        if entry.consumption not in ("ordered", "epoch"):
            raise DistcedError("unknown kind of consumption", given=entry.consumption, allowed="ordered, epoch")
        consumption = consumption_of(entry.consumption)
        compiled = self.patterns.check(
            entry.pattern, entry.definitions, consumption, registry, written_of(entry)
        ).without_json()
        if not entry.exports:
            return compiled
        made = {*all_variables(compiled.plain.pattern), *all_registers(compiled.plain.pattern)}
        if not made.issuperset(entry.exports):
            raise DistcedError(
                "the derivations of a pattern cannot hand on what it does not make",
                given=", ".join(sorted(set(entry.exports) - made)),
                allowed=", ".join(sorted(made)) or "nothing: it has no variables and no registers",
            )
        return compiled

    def json_topic(self, entry: SubscriptionEntry, registry: TypeRegistry) -> str:
        """Topic of a subscription's composite events as JSON: its own, else that in its pattern; empty for none."""
        if entry.publish_json or written_of(entry).language or "publish_json" not in entry.pattern:
            return entry.publish_json
        consumption = consumption_of(entry.consumption)
        try:
            return self.patterns.check(
                entry.pattern, entry.definitions, consumption, registry, written_of(entry)
            ).publish_json
        except DistcedError:
            return ""

    def _wanted(self, part: DetectorPlan, entry: SubscriptionEntry) -> SubscriptionEntry:
        return SubscriptionEntry(
            self.client,
            part.compiled.plain_text,
            policy=entry.policy,
            constituents=True,
            decomposition=entry.decomposition,
            derivations=True,
            exports=tuple(sorted(part.exports)),
            distribution=entry.distribution,
            hints=_for_parts(entry.hints),
        )

    def catalogue(self, detector: Found, registry: TypeRegistry) -> Catalogue:
        """Detectors of the directory that one may read as parts, among others; empty where there are none."""
        self.index_parts(registry)
        # An entry of its own is left over from a lost node.
        found = [name for name in self._parts.candidates(detector.compiled) if name != detector.id]
        found += [
            name for each in detector.compiled.privates if (name := each.canonical_id) in self.directory.detectors
        ]
        for name in found:
            entry = self.directory.detectors[name]
            if name not in self._reusable and (plan := running_plan(entry, registry)) is not None and plan.id == name:
                self._reusable.add(plan)
        return self._reusable if any(name in self._reusable for name in found) else Catalogue()

    def index_parts(self, registry: TypeRegistry) -> None:
        """Look at the detectors whose entries have changed."""
        changed, self._changed = self._changed, {}
        for name in changed:
            entry = self.directory.detectors.get(name)
            self._reusable.remove(name)
            self._parts.remove(name)
            if entry is not None and entry.policy == "guaranteed" and not entry.publishes:
                try:
                    self._parts.add(name, self.patterns.check(entry.pattern, {}, "ordered", registry))
                except DistcedError:
                    # It reads what is not known here.
                    continue


def _identity(compiled: Compiled, policy: str, entry: SubscriptionEntry) -> str:
    """Id of the detector of a subscription: one with an origin has a detector of its own."""
    identity = detector_id(compiled, policy)
    if entry.origin is None:
        return identity
    made = blake2b(msgpack_encode([entry.origin.since, entry.origin.of]), digest_size=8).hexdigest()
    return f"{identity}.since-{made}"


def node_client(name: str) -> str:
    """Client id of a node at other nodes."""
    return NODE_CLIENT + name


def is_there(client: str, directory: Directory) -> bool:
    """Whether a subscriber is present."""
    if client.startswith(NODE_CLIENT):
        return client.removeprefix(NODE_CLIENT) in directory.nodes
    return client in directory.clients


def is_away(entry: SubscriptionEntry, directory: Directory) -> bool:
    """Whether a subscription is durable, and no client reads it."""
    return entry.durable is not None and (bool(entry.durable.away) or not is_there(entry.client, directory))


def home_of(client: str, directory: Directory) -> str:
    """Home server of a subscriber's site; that of the directory where it is not known."""
    if client.startswith(NODE_CLIENT):
        node = directory.nodes.get(client.removeprefix(NODE_CLIENT))
        return "" if node is None else node.home
    known = directory.clients.get(client)
    return "" if known is None else known.home


def _for_parts(hints: Hints) -> Hints:
    """Hints for the parts of a pattern: without its selectivity."""
    return replace_entry(hints, selectivity=None)


# A cut pattern as a message to another node.


def cut_of(place: CutPlace, delegated: Delegated) -> Cut:
    """Message form of a cut of a pattern."""
    each = delegated
    return Cut(*place, each.detector, each.source, each.key, each.bound, each.counted, each.repeats)


def delegated_of(cut: Cut) -> tuple[CutPlace, Delegated]:
    """Cut read from its message form; the sub-pattern itself is looked up at its position."""
    place = cut.path, cut.run
    handed_on = cut.key, cut.bound, cut.counted
    return place, Delegated(_UNKNOWN, cut.detector, cut.source, *handed_on, cut.repeats, is_private(place))
