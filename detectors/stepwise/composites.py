"""Construction of composite events from completed matches, without duplicates.

Equal ids are one composite event (design, section 1); the first in order of detection counts, of those completed by one
event the one that began first. Several simultaneous ways to a side of a `&` that bind different events all continue.
Ids are remembered only where one can recur: a match may end in an event that is no constituent, or a part brings old
constituents. For detectors read by other patterns every way leaves a derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from distced.detectors.automata.automaton import Automaton
from distced.detectors.automata.properties import begins_with_repeats, may_repeat, repeats_privately
from distced.detectors.limits import UNBOUNDED, too_much_work
from distced.detectors.stepwise.inner_events import Carried, PartEvent, PartMatch
from distced.detectors.stepwise.instance import Chain, Instance, Origin, chain_events
from distced.middleware.model.events import (
    TIME,
    Attribute,
    CompositeEvent,
    Derivation,
    Event,
    EventId,
    Gap,
    OrderKey,
    composite_digest,
)
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value

_REMEMBER_LEAST: Final = 4096
_LONG: Final = 64
"""Number of constituents from which they count as work: of ten thousand matches with a thousand each they are most."""

_NO_EVENT: Final = Event("", 0, 0, "", 0, {})
# Of all that have found nothing; nothing is put into them.
_NONE_FOUND: Final[list[CompositeEvent]] = []
_NO_PLACES: Final[dict[int, int]] = {}
_NOTHING: Final[dict[EventId, tuple[tuple[EventId, ...], int]]] = {}


@dataclass(slots=True)
class _Derived:
    """First instant of a composite event, and the known derivations by their most distinctive property."""

    moment: OrderKey
    derivations: dict[tuple[object, ...], list[Derivation]]


class OutputPlan:
    """Common properties of the composite events of an automaton, whatever its constants.

    Attributes:
        may_repeat: whether equal composite events may recur.
        within_instant: whether they may within one instant only, by several composite events of private publications.
        parts_repeat: whether a part may bring constituents once more. Without one a further constituent is a later one.
        keeps_all: whether old constituents may recur within the window, whatever instances there are.
        attributes, condition: the publication's, compiled; True for no condition.
        selections: those of `take`, with the place of their variable and their condition, compiled.
    """

    def __init__(self, automaton: Automaton, scope: Scope) -> None:
        self.within_instant = automaton.has_privates and not may_repeat(automaton)
        self.may_repeat = self.within_instant or may_repeat(automaton)
        self.parts_repeat = any(part.repeats for part in automaton.delegated)
        self.keeps_all = automaton.joints > 0 or begins_with_repeats(automaton) or repeats_privately(automaton)
        output = automaton.output
        values = () if output is None else output.attributes
        self.attributes = tuple((name, compile_value(value, scope)) for name, value in values)
        condition = None if output is None else output.condition
        self.condition = True if condition is None else compile_condition(condition, scope)
        self.selections = tuple(
            (
                each.kind,
                scope.variables[each.variable],
                None if each.condition is None else compile_condition(each.condition, scope),
            )
            for each in (() if output is None else output.take)
            if each.kind != "each"
        )


class Constituents(NamedTuple):
    """Constituents of a composite event, with their ids, and its digest where it has no attributes."""

    ids: tuple[EventId, ...]
    events: tuple[Event, ...]
    digest: int

    @classmethod
    def of(cls, events: tuple[Event, ...]) -> Constituents:
        """Those of a match, in order."""
        ids = tuple([(event.source, event.seq) for event in events])
        return cls(ids, events, composite_digest(ids, {}))


class Composites:
    """Builder of composite events.

    Attributes:
        found: those not yet taken, in order of detection.
        now: the current event.
        reported: constituents and `lo`, by id, of those that may recur; none unless they may.
    """

    # Most of ten thousand matchers have nothing to remember, and share that.
    __slots__ = (
        "_all_places",
        "_by",
        "_condition",
        "_derivations",
        "_forget_at",
        "_found_in",
        "_moment",
        "_output",
        "_part_type",
        "_places",
        "_source",
        "_stop",
        "_type",
        "_unhidden",
        "_work",
        "automaton",
        "found",
        "now",
        "reported",
    )

    def __init__(
        self,
        automaton: Automaton,
        output: OutputPlan,
        part_type: str | None,
        *,
        source: str = "",
        derivations: bool = False,
        filtered: bool = False,
    ) -> None:
        """Args: source: canonical id of the pattern; empty for that of the automaton. filtered: the final filter has
        been applied already."""
        self.automaton = automaton
        self._source = source or automaton.canonical_id
        self._derivations = derivations
        self.found = _NONE_FOUND
        self.now: Event = _NO_EVENT
        self.reported = {} if output.may_repeat else _NOTHING
        self._part_type = part_type
        self._output = output
        # Composite events of the current moment: the index in `found` by digest.
        self._by: Event = _NO_EVENT
        self._moment: tuple[object, ...] = ()
        self._places = _NO_PLACES
        # Of a side that may hand on different things: by digest the places in `found` by what is handed on.
        self._all_places: dict[int, dict[Carried, int]] | None = None
        # Where derivations are kept: the alternatives of each event in `found`, by its place.
        self._found_in: dict[int, _Derived] | None = None
        self._forget_at = _REMEMBER_LEAST
        # Constituents of long matches not yet taken, and the number of them at most.
        self._work, self._stop = 0, UNBOUNDED
        publication = automaton.output
        self._type = self._source if publication is None else publication.type_name or self._source
        self._condition = True if filtered else output.condition
        selected = automaton.once or automaton.selects
        self._unhidden = selected and any(each.hidden for each in automaton.positions)

    def shown_lo(self, chain: Chain, bindings: tuple[Event | None, ...], lo: int) -> int:
        """Begin of a composite event: the least `lo` of what it matched, ns; where events are selected, or in a `once`
        pattern, of constituents and of what variables are bound to.

        What else is hidden there tells where the instance stands, such as in a state that an event has begun long
        before, or what might have been selected, and is not part of the time of what is found.
        """
        if not self._unhidden or chain is None:
            return lo
        events = chain_events(chain)
        found = min(event.lo for event in (_once_each(events) if self.automaton.parts else events))
        return min(found, *(each.lo for each in bindings if each is not None)) if any(bindings) else found

    def limit(self, most: int) -> None:
        """Limit the constituents of long matches made in one go."""
        self._stop = most

    def keep_derivations(self) -> None:
        """Keep a derivation of each alternative from now on."""
        self._derivations = True

    def take(self) -> list[CompositeEvent]:
        """The composite events detected since the last call."""
        found, self.found, self._work = self.found, _NONE_FOUND, 0
        self._by, self._moment, self._places = _NO_EVENT, (), _NO_PLACES
        if self._all_places:
            for places in self._all_places.values():
                # One event, whatever it hands on: it has one timestamp.
                lo = min(found[place].lo for place in places.values())
                for place in places.values():
                    found[place] = structs.replace(found[place], lo=lo)
            self._all_places = None
        if self._found_in:
            for place, known in self._found_in.items():
                derivations = [derivation for alike in known.derivations.values() for derivation in alike]
                found[place] = structs.replace(
                    found[place], derivations=tuple(sorted(derivations, key=_order_of_derivation))
                )
            self._found_in = None
        return found

    def add(
        self,
        chain: Chain,
        lo: int,
        hi: int,
        bindings: tuple[Event | None, ...],
        registers: tuple[Attribute, ...],
        key: object,
        origin: Origin | None,
    ) -> bool:
        """Report the composite event of a complete match; whether the final filter lets it pass."""
        attributes: dict[str, Attribute] = {}
        if self._unhidden:
            lo = self.shown_lo(chain, bindings, lo)
        if self._part_type is None:
            # Before the constituents are listed, which are many where an iteration counts up to a number.
            if self._output.attributes:
                # `lo()` and `hi()` are those of the composite event itself.
                shown = Event("", lo, hi, "", 0, {})
                attributes = {name: value(shown, bindings, registers) for name, value in self._output.attributes}
            if self._condition is not True:
                shown = Event("", lo, hi, "", 0, attributes)
                if self._condition is False or not self._condition(shown, bindings, registers):
                    return False
        events = chain_events(chain)
        if len(events) > _LONG:
            self._work += len(events)
            if self._work > self._stop:
                raise too_much_work(self._work, self._stop, together=True)
        if self.automaton.parts:
            events = _once_each(events)
        constituents = tuple([(event.source, event.seq) for event in events])
        if self._part_type is not None:
            self._report(self._part(lo, hi, constituents, tuple(events), bindings, registers, key))
            return True
        source, digest = self._source, composite_digest(constituents, attributes)
        composite = CompositeEvent(
            self._type, lo, hi, source, digest, attributes, constituents=constituents, events=tuple(events)
        )
        if self._derivations:
            # Of a match that had begun before derivations were kept the place is unknown.
            derivation = None if origin is None else self._derivation(lo, bindings, registers, key, origin)
            self._report_derivation(composite, derivation)
        else:
            self._report(composite)
        return True

    @property
    def is_plain(self) -> bool:
        """Whether a composite event has nothing but its constituents and timestamp (`add_plain`)."""
        return not (
            self._part_type is not None
            or self._derivations
            or self._output.attributes
            or self._condition is not True
            or self.automaton.parts
        )

    def add_plain(self, constituents: Constituents, lo: int, hi: int) -> None:
        """`add` for a match of which the constituents are known."""
        ids, events, digest = constituents
        self._report(CompositeEvent(self._type, lo, hi, self._source, digest, {}, constituents=ids, events=events))

    def forget(self, floor: int, instances: Callable[[], Iterable[Instance]]) -> None:
        """Periodically drop ids that cannot recur: begun before `floor`, hence spanning more than the window, or,
        unless a side of a `&` repeats old constituents, without an instance of just these constituents."""
        if len(self.reported) >= self._forget_at:
            self.forget_now(floor, instances)

    def forget_now(self, floor: int, instances: Callable[[], Iterable[Instance]]) -> None:
        """`forget` however few there are.

        A composite event without constituents is the same at any time, as long as its attributes are: the last of
        these stay, some thousands with different attributes.
        """
        same = {each for each, (constituents, _) in self.reported.items() if not constituents}
        if len(same) > _REMEMBER_LEAST:
            same = set(list(filter(same.__contains__, self.reported))[-_REMEMBER_LEAST:])
        chains = (chain_events(instance.chain) for instance in instances())
        held = {tuple(event.id for event in (_once_each(each) if self.automaton.parts else each)) for each in chains}
        self.reported = {
            identity: (constituents, lo)
            for identity, (constituents, lo) in self.reported.items()
            if identity in same
            or (lo >= floor and (self._output.keeps_all or not constituents or self._may_come(constituents, held)))
        }
        self._forget_at = max(_REMEMBER_LEAST, 2 * len(self.reported))

    def _may_come(self, constituents: tuple[EventId, ...], held: set[tuple[EventId, ...]]) -> bool:
        """Whether an instance may reach these constituents: it has all of them, or the first and waits for a part."""
        if constituents in held:
            return True
        return self._output.parts_repeat and any(constituents[:count] in held for count in range(len(constituents)))

    def _part(
        self,
        lo: int,
        hi: int,
        constituents: tuple[EventId, ...],
        events: tuple[Event, ...],
        bindings: tuple[Event | None, ...],
        registers: tuple[Attribute, ...],
        key: object,
    ) -> PartEvent:
        """The composite event of a side of a `&`. Its id is independent of the values handed on."""
        automaton = self.automaton
        bound, counted = self._handed_on(bindings, registers)
        return PartEvent(
            self._part_type or "",
            lo,
            hi,
            self._source,
            composite_digest(constituents, {}),
            dict(zip(automaton.key, key_values(automaton.key, key), strict=True)),
            constituents=constituents,
            events=events,
            bound=bound,
            counted=counted,
        )

    def _derivation(
        self,
        lo: int,
        bindings: tuple[Event | None, ...],
        registers: tuple[Attribute, ...],
        key: object,
        origin: Origin,
    ) -> Derivation:
        first, previous, greatest_lo = origin
        values = key_values(self.automaton.key, key)
        bound, counted = self._handed_on(bindings, registers)
        return Derivation(first, _place(self.now), lo, Gap(previous, greatest_lo), values, bound, counted)

    def _handed_on(
        self, bindings: tuple[Event | None, ...], registers: tuple[Attribute, ...]
    ) -> tuple[dict[str, Event], dict[str, Attribute]]:
        """Values read outside: events by variable, values by register."""
        automaton = self.automaton
        if not automaton.exports:
            return {}, {}
        bound = {
            name: _fired(event) if event.rank == TIME else event
            for name, event in zip(automaton.variables, bindings, strict=True)
            if name in automaton.exports and event is not None
        }
        counted = {
            register.name: registers[place]
            for place, register in enumerate(automaton.registers)
            if register.name in automaton.exports
        }
        return bound, counted

    def _report_derivation(self, composite: CompositeEvent, derivation: Derivation | None) -> None:
        """Record a further way to a composite event. Those of one instant are grouped."""
        if self._by.hi != self.now.hi:
            self._places = _NO_PLACES
            if self._output.within_instant:
                self._begin_instant()
        self._by = self.now
        moment = _place(self.now)
        if self._found_in is None:
            self._found_in = {}
        place = self._places.get(composite.seq)
        if place is None:
            again = self._output.may_repeat and composite.id in self.reported
            if self._output.may_repeat and not again:
                self.reported[composite.id] = (composite.constituents, composite.lo)
            place = self._put(structs.replace(composite, again=True) if again else composite)
            self._found_in[place] = _Derived(moment, {})
        derived = self._found_in[place]
        # The first moment counts and, among those of one moment, the one that began first.
        if (moment, composite.lo) < (derived.moment, self.found[place].lo):
            self.found[place] = structs.replace(composite, again=self.found[place].again)
            derived.moment = moment
        if derivation is not None:
            alike = derived.derivations.setdefault(
                (derivation.first, derivation.last, derivation.lo, derivation.key), []
            )
            if derivation not in alike:
                alike.append(derivation)

    def _report(self, composite: CompositeEvent) -> None:
        if self._by is not self.now:
            if self._output.within_instant:
                self._begin_instant()
            # Time events of several instances that are due together are one moment, and so is a settled instant.
            self._by = self.now
            moment: tuple[object, ...] = (self.now.hi,) if self.automaton.settled else _place(self.now)
            if moment != self._moment:
                self._places, self._moment = _NO_PLACES, moment
        digest = composite.seq
        place = self._places.get(digest)
        if place is not None and isinstance(composite, PartEvent):
            place = self._place_of_side(composite, place)
        if place is not None:
            if place == len(self.found):
                self.found.append(composite)
            elif composite.lo < self.found[place].lo:
                self.found[place] = composite
            return
        if self._output.may_repeat:
            if composite.id in self.reported:
                return
            self.reported[composite.id] = (composite.constituents, composite.lo)
        self._put(composite)

    def _begin_instant(self) -> None:
        """Forget what recurs within one instant only."""
        if self._by.hi != self.now.hi and self.reported:
            self.reported = {}

    def _place_of_side(self, composite: PartEvent, first: int) -> int:
        """The index in `found` for what a side hands on once more: that of what equals it to its reader, else the next;
        `first` for the first of its digest."""
        if self._all_places is None:
            self._all_places = {}
        places = self._all_places.get(composite.seq)
        if places is None:
            handed_on = self.found[first]
            assert isinstance(handed_on, PartEvent)
            places = self._all_places[composite.seq] = {handed_on.carried(): first}
        return places.setdefault(composite.carried(), len(self.found))

    def _put(self, composite: CompositeEvent) -> int:
        """Add a composite event to those found; its place there."""
        if not self.found:
            self.found = []
        if not self._places:
            self._places = {}
        place = self._places[composite.seq] = len(self.found)
        self.found.append(composite)
        return place


def _place(event: Event) -> OrderKey:
    """The order key of a matched event. Time events due together are one moment."""
    if isinstance(event, PartMatch):
        return event.derivation.last
    return (event.hi, event.hi, TIME, "@", 0) if event.rank == TIME else event.key


def _once_each(events: Iterable[Event]) -> list[Event]:
    """Events in order, each once: parts may have some in common."""
    return list({event.id: event for event in sorted(events, key=_order)}.values())


def _fired(event: Event) -> Event:
    """A time event without its internal number, which has no meaning outside."""
    return Event("@", event.hi, event.hi, "@", max(event.hi, 0), {})


def _order_of_derivation(derivation: Derivation) -> tuple[object, ...]:
    return derivation.last, derivation.lo, derivation.first


def key_values(names: tuple[str, ...], key: object) -> tuple[Attribute, ...]:
    """The attribute values of a key: one value or several, booleans wrapped in tuples."""
    if not names:
        return ()
    values = key if len(names) > 1 and isinstance(key, tuple) else (key,)
    return tuple(value[0] if isinstance(value, tuple) else value for value in values)


def _order(event: Event) -> OrderKey:
    return event.key
