"""The stepwise engine: several patterns, with their parts and publications, one event at a time.

Independent automata consume each event on arrival. Sides of `&`, readers of publications, epochs and delegated parts
run instant by instant, publishers before readers: a composite event has the `hi` of its last event but an earlier `lo`,
so it may sort before events of the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from msgspec import structs

from distced.detectors.automata.automaton import Automaton, part_type
from distced.detectors.compiler import Compiled, beneath
from distced.detectors.limits import Limits
from distced.detectors.stepwise.clock_events import ClockEvents
from distced.detectors.stepwise.inner_events import PartMatch, part_events, part_match, private_event
from distced.detectors.stepwise.instance import BEFORE_ALL
from distced.detectors.stepwise.last_value import LastValue
from distced.detectors.stepwise.matcher import Matcher
from distced.detectors.stepwise.provenance import hear_open, open_gaps
from distced.detectors.stepwise.settled_matcher import SettledMatcher
from distced.detectors.stepwise.taking_matcher import TakingMatcher
from distced.detectors.stepwise.throttling import Computer, Stage, computers_of, late_stages, mark, stage_of, unmarked
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import COMPOSITE, Attribute, CompositeEvent, Event, EventId, OpenGap, OrderKey
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.patterns.tree import Delegated

_NO_TYPES: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class _Unit:
    """An automaton in the engine.

    Attributes:
        reads: types named in its pattern that other patterns may supply; none where there are no others.
        readers: units that read its composite events.
        publishes: whether its composite events leave the engine.
        delegated: delegated parts, by type inside the automaton.
        inbox: unconsumed composite events of the current instant; None for none.
        private: of a private publication its type in the automata that read it; empty for others.
        composites: types of composite events that are offered to it, as it stands beside private publications, or is
            one, that name others; None for all.
        late: stages that it runs itself, when all events of an instant are found that these look at.
    """

    matcher: Matcher
    reads: frozenset[str]
    publishes: bool
    delegated: dict[str, Delegated]
    readers: Sequence[_Unit] = ()
    inbox: list[Event] | None = None
    private: str = ""
    composites: frozenset[str] | None = None
    late: tuple[Stage, ...] = ()

    def put(self, events: Iterable[Event]) -> None:
        """Put composite events of the current instant into the inbox."""
        if self.inbox is None:
            self.inbox = []
        self.inbox += events


# Of all engines without any; nothing is put into them.
_NONE_PENDING: Final[list[Event]] = []
_NO_PARTS: Final[dict[str, Delegated]] = {}
_NO_PRIVATES: Final[dict[str, Compiled]] = {}
_NOBODY: Final[dict[str, list[tuple[_Unit, str, Delegated]]]] = {}
"""Readers of delegated parts, of all engines without any."""


class StepwiseEngine:
    """Detector of the composite events of one or more patterns; events behind the last consumed are late, offered where
    they still fit.

    Attributes:
        units, throttlers: each after those it reads or builds on.
        computers: of the values of computed keys.
        single: the only matcher, where it consumes each event by itself; else None.
        pending: events of the unfinished instant, in order.
        clock: instant up to which time events have fired, ns.
        late: number of events behind a finished instant, if `by_instants`.
        by_instants: whether instants run one after the other.
        clocks: events of clocks to come; None for patterns without any.
        with_clock: whether results depend on the clock, by time events or instants.
    """

    # A node has ten thousand of them.
    __slots__ = (
        "_computed_late",
        "_derivations",
        "_early",
        "_from_outside",
        "_late",
        "_published",
        "_throttled",
        "_with_timers",
        "by_instants",
        "clock",
        "clocks",
        "computers",
        "late",
        "patterns",
        "pending",
        "single",
        "throttlers",
        "units",
        "with_clock",
    )

    def __init__(
        self,
        patterns: Sequence[Compiled],
        kinds: Callable[[str], Mapping[str, Kind] | None] = lambda _: None,
        *,
        derivations: bool = False,
    ) -> None:
        """Args: derivations: attach provenance to each composite event, for the patterns it is part of."""
        self.patterns = tuple(patterns)
        self._derivations = derivations
        self._published: list[CompositeEvent] | None = None
        self.units: tuple[_Unit, ...] = tuple[_Unit, ...]()
        throttlings = {each.mark: each for pattern in patterns for each in pattern.throttlings}
        self.throttlers: tuple[Stage, ...] = tuple(map(stage_of, throttlings.values()))
        self.computers: tuple[Computer, ...] = computers_of(self.patterns)
        # Of what patterns of the engine publish there is more to come in an instant, before or behind what there is:
        # units that read it run these stages, when all is found that there is.
        published = _published(self.patterns) if throttlings or self.computers else _NO_TYPES
        self._late = late_stages(throttlings.values(), published) if published else _NO_TYPES
        self.pending: list[Event] = _NONE_PENDING
        self.clock = BEFORE_ALL
        self.late = 0
        several = len(self.patterns) > 1
        for pattern in in_order(self.patterns):
            names = pattern.names() if several else _NO_TYPES
            late = self._late_of(pattern)
            if not pattern.privates:
                constants = pattern.constants
                self._add(pattern.structure, kinds, None, names, pattern.canonical_id, constants, late=late)
                continue
            own = pattern.own_names()
            self._add(
                pattern.automaton,
                kinds,
                None,
                own if several else names,
                pattern.canonical_id,
                composites=own if pattern.reads_any else None,
                privates=beneath(pattern),
                late=late,
            )
        self._link()
        self._from_outside = _NOBODY
        for unit in self.units:
            for type_name, part in unit.delegated.items():
                if self._from_outside is _NOBODY:
                    self._from_outside = {}
                self._from_outside.setdefault(part.detector, []).append((unit, type_name, part))
        self.by_instants = bool(self._from_outside) or any(
            unit.readers or unit.matcher.automaton.by_instants for unit in self.units
        )
        self._with_timers = tuple(unit for unit in self.units if unit.matcher.automaton.timers)
        clocks = _NO_TYPES
        for unit in self.units:
            if of_unit := unit.matcher.automaton.clocks:
                clocks |= of_unit
        self.clocks = ClockEvents(clocks) if clocks else None
        self.with_clock = self.by_instants or bool(self._with_timers or clocks)
        stages = self.throttlers or self.computers or clocks
        alone = len(self.units) == 1 and not (self.by_instants or derivations or stages)
        self.single = self.units[0].matcher if alone else None
        self._early: tuple[Stage, ...] = ()
        self._throttled = self._computed_late = _NO_TYPES
        if throttlings or self.computers:
            self._early = tuple(each for each in self.throttlers if each.throttling.mark not in self._late)
            computed = frozenset(name for each in self.computers for name, _ in each.computation.values)
            self._throttled = computed.union(*(each.types for each in self._early)) - published
            self._computed_late = computed & published

    def renew_single(self) -> None:
        """Note the only matcher, after units have got others."""
        if self.single is not None:
            self.single = self.units[0].matcher

    def limit(self, limits: Limits) -> None:
        """Set limits. What is beyond them raises `LimitError`; the engine is then unusable."""
        for unit in self.units:
            unit.matcher.limit(limits)
        for stage in self.throttlers:
            if isinstance(stage, LastValue):
                stage.limit(limits)
        if self.clocks is not None:
            self.clocks.most = limits.work

    def feed(self, events: Iterable[Event]) -> list[CompositeEvent]:
        """Consume events in order; the composite events detected, each with the `hi` of its last event."""
        single = self.single
        if single is not None:
            if single.touched >= single.begins_at:
                single.begin()
            offer, timers, composites = single.offer, single.store.timers, single.composites
            for event in events:
                if timers and timers[0][0] < event.hi:
                    single.fire(event.hi - 1)
                offer(event)
            if composites.reported:
                single.tidy()
            if not single.store.live:
                single.let_go()
            return composites.take() if composites.found else []
        self._begin()
        if self.clocks is not None:
            events = self._with_clocks(events, self.clocks)
        if self.by_instants:
            for event in events:
                self._feed_instant(event)
        elif self._derivations:
            # Derivations of one instant go together, so the last one waits until it is over.
            events = [*self.pending, *events]
            last = next((place for place, each in enumerate(events) if each.hi == events[-1].hi), 0)
            self.pending = events[last:]
            self._offer(events[:last])
            if last:
                # So do time events that are due in the instants before.
                for unit in self._with_timers:
                    unit.matcher.fire(self.pending[0].hi - 1)
        else:
            self._offer(events)
        return self._found()

    def _begin(self) -> None:
        """Begin to count the work of events consumed in one go."""
        for unit in self.units:
            matcher = unit.matcher
            if matcher.touched >= matcher.begins_at:
                matcher.begin()

    def _offer(self, events: Iterable[Event]) -> None:
        """Offer each event to each automaton in order."""
        matchers = [(unit.matcher, unit.matcher.store.timers) for unit in self.units]
        throttled, stages, computers = self._throttled, self._early, self.computers
        for event in events:
            if event.type in throttled:
                event = mark(stages, event, computers)
            for matcher, timers in matchers:
                if timers and timers[0][0] < event.hi:
                    matcher.fire(event.hi - 1)
                matcher.offer(event)

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Advance time: no event with `hi <= watermark` comes any more. The composite events thereby detected."""
        if watermark <= self.clock:
            return []
        self._begin()
        if watermark == INSTANT_MAX and (self._with_timers or self.clocks is not None):
            self._end()
        elif self.clocks is not None:
            self._pass_clocks(watermark, self.clocks)
        self._pass(watermark)
        return self._found()

    # Events of clocks.

    def _with_clocks(self, events: Iterable[Event], clocks: ClockEvents) -> Iterator[Event]:
        """Events, and those of clocks between them."""
        clocks.taken = 0
        for event in events:
            while clocks.precedes(event) and not self._waits_for_no_clock():
                yield clocks.take()
            if clocks.due is None or clocks.precedes(event):
                clocks.pass_over(event)
            yield event

    def hold(self, events: Iterable[Event]) -> None:
        """Have the events of an instant wait for its end, with those of clocks between them, which another engine has
        kept back without."""
        self.pending = []
        for event in events if self.clocks is None else self._with_clocks(events, self.clocks):
            self.pending.append(event)

    def _pass_clocks(self, until: int, clocks: ClockEvents) -> None:
        """Consume the events of clocks up to an instant."""
        clocks.taken = 0
        while (instant := clocks.next_instant()) is not None and instant <= until:
            if self._waits_for_no_clock():
                clocks.pass_until(until)
                return
            self._consume_of_clock(clocks.take())

    def _consume_of_clock(self, event: Event) -> None:
        if self.by_instants:
            self._feed_instant(event)
        else:
            self._offer((event,))

    def _waits_for_no_clock(self) -> bool:
        """Whether no instance waits: then no event of a clock has an effect, as no match begins with one. Where some
        read what others find, that may precede a clock of the same instant."""
        if any(not is_clock(each.type) for each in self.pending):
            return False
        return not any(
            unit.matcher.store.live for unit in self.units if self.by_instants or unit.matcher.automaton.clocks
        )

    def _pass(self, watermark: int) -> None:
        if self.by_instants:
            self._run_until(watermark)
        else:
            self._offer_pending(watermark)
            for unit in self.units:
                unit.matcher.fire(watermark)
        self.clock = watermark

    def _end(self) -> None:
        """End of the input: recurring time events and clocks behind its last event come once more."""
        latest = [unit.matcher.latest for unit in (self.units if self.clocks is not None else self._with_timers)]
        last = max((each.hi for each in (*latest, *self.pending) if each is not None), default=self.clock)
        if last > self.clock:
            if self.clocks is not None:
                self._pass_clocks(last, self.clocks)
            self._pass(last)
        for unit in self._with_timers:
            unit.matcher.ended = True
        if self.clocks is not None:
            for event in self.clocks.last_ones():
                self._consume_of_clock(event)

    def settle(self) -> list[CompositeEvent]:
        """Do not wait for more events of the current instant: best effort consumes on arrival."""
        if not self.pending:
            return []
        if self.by_instants:
            self._run_until(self.pending[0].hi)
        else:
            self._offer_pending(INSTANT_MAX)
        return self._found()

    def finish(self) -> list[CompositeEvent]:
        """End of the input: time goes on for ever, and every time event fires, a recurring one once more."""
        return self.advance(INSTANT_MAX)

    def keep_derivations(self) -> None:
        """Keep derivations from now on; matches already begun have none."""
        self._derivations, self.single = True, None
        for unit in self.units:
            if unit.publishes:
                unit.matcher.keep_derivations()

    def open_gaps(self) -> list[OpenGap]:
        """Completeness bounds of derivations changed since the last call; between calls, for `hi` beyond the clock."""
        (unit,) = [unit for unit in self.units if unit.publishes]
        return open_gaps(unit.matcher)

    def hear_open(self, detector: str, opens: Iterable[OpenGap]) -> None:
        """Receive a completeness bound of the derivations of a delegated part; drop what waits in vain."""
        for unit, type_name, part in self._from_outside.get(detector, ()):
            if unit.matcher.awaits_matches(type_name):
                for each in opens:
                    hear_open(unit.matcher, type_name, part, each)

    @property
    def behind(self) -> int:
        """Number of events that arrived behind the clock."""
        if self.single is not None:
            return self.single.late
        behind = self.late
        for unit in self.units:
            behind = max(behind, unit.matcher.late)
        return behind

    @property
    def touched(self) -> int:
        """Examined (instance, event) pairs, inner automata included, since the start or the last snapshot."""
        if self.single is not None:
            return self.single.touched
        return sum(unit.matcher.touched for unit in self.units)

    def sweep(self, clock: int) -> bool:
        """Drop what no event behind an instant, ns, can concern; whether it is then as new."""
        if self.single is not None:
            return self.single.sweep(clock) and not self.pending
        swept = [unit.matcher.sweep(clock) for unit in self.units]
        return all(swept) and not (self.pending or self.throttlers or self._derivations)

    def next_due(self) -> int | None:
        """The instant the next time event, or an event of a clock, is due, ns; None without a pending one."""
        dues = [due for unit in self._with_timers if (due := unit.matcher.store.next_due()) is not None]
        if self.clocks is not None and not self._waits_for_no_clock():
            instant = self.clocks.next_instant()
            dues += [] if instant is None else [instant]
        return min(dues, default=None)

    def waits_for(self) -> int | None:
        """The least instant up to which `advance` has something to do, ns; None for nothing."""
        due = self.next_due() if self._with_timers or self.clocks is not None else None
        if not self.pending:
            return due
        instant = self.pending[0].hi
        return instant if due is None or instant < due else due

    def live_instances(self) -> int:
        """Number of live instances."""
        return sum(len(unit.matcher.store.instances()) for unit in self.units)

    def _offer_pending(self, until: int) -> None:
        if self.pending and self.pending[0].hi <= until:
            pending, self.pending = self.pending, _NONE_PENDING
            self._offer(pending)

    # One instant after the other.

    def _feed_instant(self, event: Event) -> None:
        if (self.pending and event.hi > self.pending[0].hi) or (not self.pending and event.hi > self.clock):
            self._run_until(event.hi - 1)
        if event.hi <= self.clock or (self.pending and event.hi < self.pending[0].hi):
            self.late += 1
            self._run_instant(event.hi, [event])
            return
        if not self.pending:
            self.pending = []
        self.pending.append(event)

    def _run_until(self, limit: int) -> None:
        """Process every instant up to `limit` that has events or time events."""
        while True:
            instant = self.pending[0].hi if self.pending else INSTANT_MAX + 1
            for unit in self._with_timers:
                due = unit.matcher.store.next_due()
                if due is not None and due < instant:
                    instant = due
            if instant > limit:
                break
            events: list[Event] = []
            if self.pending and self.pending[0].hi == instant:
                events, self.pending = self.pending, _NONE_PENDING
            self._run_instant(instant, events)
        self.clock = max(self.clock, limit)

    def _run_instant(self, instant: int, events: list[Event]) -> None:
        if self._from_outside:
            events = self._sort_out(events)
        if self._throttled:
            events = [self._mark(each) for each in events]
        marked: dict[tuple[str, EventId], tuple[Event, frozenset[str]]] = {}
        for unit in self.units:
            inbox, unit.inbox = unit.inbox, None
            given = events
            if (named := unit.composites) is not None:
                given = [each for each in events if each.rank != COMPOSITE or each.type in named]
            offered = sorted((*given, *inbox), key=_place) if inbox else given
            if unit.late or self._computed_late & unit.reads:
                offered = [self._marked_late(each, unit.late, marked) for each in offered]
            matcher = unit.matcher
            if matcher.automaton.epochs:
                matcher.offer_together(offered)
            elif inbox:
                # What two sides of a `&` find alike is one event that is in both sets.
                for (_, is_match), same in groupby(offered, key=_place):
                    if is_match:
                        for match in same:
                            matcher.offer_match(match)  # type: ignore[arg-type]
                    else:
                        matcher.offer_together(same)
            else:
                for event in offered:
                    matcher.offer(event)
            matcher.fire(instant)
            if isinstance(matcher, SettledMatcher):
                matcher.end_instant()
            if unit.readers or matcher.quiet is not None:
                self._hand_on(unit)

    def _sort_out(self, events: list[Event]) -> list[Event]:
        """Put composite events of other detectors for delegated parts into the inboxes; the other events."""
        others: list[Event] = []
        for event in events:
            readers = self._from_outside.get(event.type)
            if readers is None or not isinstance(event, CompositeEvent):
                others.append(event)
                continue
            for unit, type_name, part in readers:
                if part.private:
                    unit.put([] if event.again else [private_event(event, type_name)])
                elif unit.matcher.awaits_matches(type_name):
                    unit.put(part_match(event, derivation, type_name, part) for derivation in event.derivations)
                elif not event.again:
                    # A side of a `&` is read as its composite events: the first moment of one counts.
                    unit.put(part_events(event, type_name, part))
        return others

    def _hand_on(self, unit: _Unit) -> None:
        found = unit.matcher.composites.take()
        if unit.matcher.quiet is not None:
            found = unit.matcher.quiet.passing(found)
        handed: Sequence[Event] = found
        if unit.private and found:
            handed = [private_event(each, unit.private) for each in found]
        for reader in unit.readers:
            reader.put(handed)
        if unit.publishes:
            self._published = [*(self._published or ()), *found]

    # Putting it together.

    def _add(
        self,
        automaton: Automaton,
        kinds: Callable[[str], Mapping[str, Kind] | None],
        own_type: str | None,
        reads: frozenset[str],
        source: str = "",
        constants: tuple[Attribute, ...] = (),
        private: str = "",
        composites: frozenset[str] | None = None,
        privates: Mapping[str, Compiled] = _NO_PRIVATES,
        late: frozenset[str] = _NO_TYPES,
    ) -> _Unit:
        """Args: privates: private publications of the pattern by type; late: marks of the stages it runs itself."""
        parts = [
            self._private(part, kinds, automaton.type_of_part(index), privates)
            if part.private
            else self._add(part, kinds, part_type(index), reads, composites=composites, privates=privates, late=late)
            for index, part in enumerate(automaton.parts)
            if isinstance(part, Automaton)
        ]
        delegated = _NO_PARTS
        if automaton.parts:
            delegated = {
                automaton.type_of_part(index): part
                for index, part in enumerate(automaton.parts)
                if isinstance(part, Delegated)
            }
        publishes = own_type is None and not private
        derivations = self._derivations and publishes
        make = TakingMatcher if automaton.selects else SettledMatcher if automaton.settled else Matcher
        matcher = make(automaton, kinds, source=source, constants=constants, own_type=own_type, derivations=derivations)
        stages = tuple(each for each in self.throttlers if each.throttling.mark in late) if late else ()
        unit = _Unit(matcher, reads, publishes, delegated, private=private, composites=composites, late=stages)
        for part in parts:
            part.readers = (*part.readers, unit)
        self.units = (*self.units, unit)
        return unit

    def _private(
        self,
        automaton: Automaton,
        kinds: Callable[[str], Mapping[str, Kind] | None],
        name: str,
        privates: Mapping[str, Compiled],
    ) -> _Unit:
        """The unit of a private publication: one for all that read it."""
        known = next((each for each in self.units if each.private == name), None)
        if known is not None:
            return known
        own = privates[name].own_names()
        reads = own if len(self.patterns) > 1 else _NO_TYPES
        narrow = own if privates[name].reads_any else None
        late = self._late_of(privates[name])
        return self._add(automaton, kinds, None, reads, private=name, composites=narrow, privates=privates, late=late)

    def _late_of(self, pattern: Compiled) -> frozenset[str]:
        """Marks of the late stages of a pattern's own automaton."""
        return frozenset(each.mark for each in pattern.own_stages) & self._late if self._late else _NO_TYPES

    def _link(self) -> None:
        outputs = [(each, each.matcher.automaton.output) for each in self.units if each.publishes]
        if len(self.units) == 1 or not any(output for _, output in outputs):
            return
        readers: dict[str, list[_Unit]] = {}
        for unit in self.units:
            for name in unit.reads:
                readers.setdefault(name, []).append(unit)
        for writer, output in outputs:
            if output is not None:
                theirs = [each for each in readers.get(output.type_name, ()) if each is not writer]
                writer.readers = (*writer.readers, *theirs)

    def _mark(self, event: Event) -> Event:
        if event.type in self._throttled:
            return mark(self._early, event, self.computers)
        return event

    def _marked_late(
        self, event: Event, stages: tuple[Stage, ...], marked: dict[tuple[str, EventId], tuple[Event, frozenset[str]]]
    ) -> Event:
        """The event with the marks of stages, each of which looks at it once in this instant, whatever units run it."""
        # What equal sides of two `&` find has one id, and a type for each.
        place = event.type, event.id
        known = marked.get(place)
        if known is None:
            computers = self.computers if event.type in self._computed_late else ()
            known = mark((), event, computers), _NO_TYPES
        event, done = known
        missing = [each for each in stages if each.throttling.mark not in done]
        if missing:
            event = mark(missing, event)
        marked[place] = event, done.union(each.throttling.mark for each in missing)
        return event

    def _found(self) -> list[CompositeEvent]:
        found, self._published = self._published or [], None
        for unit in self.units:
            composites = unit.matcher.composites
            if unit.publishes and composites.found:
                found += composites.take()
            if composites.reported:
                unit.matcher.tidy()
        if len(self.patterns) > 1:
            found.sort(key=_order)
        if self.throttlers or self.computers:
            found = [as_published(composite) for composite in found]
        return found


def _published(patterns: Sequence[Compiled]) -> frozenset[str]:
    """Types that patterns publish for one another."""
    if len(patterns) == 1:
        return _NO_TYPES
    outputs = [each.structure.output for each in patterns]
    return frozenset(each.type_name for each in outputs if each is not None)


def in_order(patterns: Sequence[Compiled]) -> list[Compiled]:
    """Patterns, each after those whose composite events it reads. Raises `ValueError` for a circle."""
    ordered: list[Compiled] = []
    waiting = list(patterns)
    if len(waiting) == 1 and waiting[0].structure.output is None:
        return waiting
    while waiting:
        outputs = [each.structure.output for each in waiting]
        unpublished = {each.type_name for each in outputs if each is not None}
        ready = [each for each in waiting if not unpublished & each.names()]
        if not ready:
            raise ValueError("patterns that read each other's composite events in a circle")
        ordered += ready
        # By identity: to compare patterns takes as long as the largest, and there may be ten thousand.
        taken = set(map(id, ready))
        waiting = [each for each in waiting if id(each) not in taken]
    return ordered


def as_published(composite: CompositeEvent) -> CompositeEvent:
    """A composite event with its constituents in published form."""
    events = tuple(map(unmarked, composite.events))
    derivations = tuple(
        structs.replace(each, bound={name: unmarked(event) for name, event in each.bound.items()})
        for each in composite.derivations
    )
    return structs.replace(composite, events=events, derivations=derivations)


def _order(event: Event) -> OrderKey:
    return event.key


def _place(event: Event) -> tuple[OrderKey, bool]:
    """Place of an event in consumption: a match of a delegated part comes directly behind its last event."""
    return event.key, isinstance(event, PartMatch)
