"""What was found, as arrays: of each match its constituents by position, made into composite events when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.kernel.match_chains import flattened, lengths, taken_along
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.results.store import Store
from distced.detectors.columnar.state import State, Words
from distced.detectors.stepwise.composites import Findings
from distced.detectors.stepwise.inner_events import PartEvent, TimeEvent
from distced.detectors.stepwise.plans import Planner
from distced.middleware.model.events import Attribute, CompositeEvent, Event


class RememberedFindings:
    """What makes composite events of each unit's matches, made when it is first needed.

    Attributes:
        gone: the unit that went last.
    """

    def __init__(self, units: Mapping[int, Unit], kinds: Callable[[str], Any], own_type: str | None = None) -> None:
        """
        Args:
            own_type: of a side of a `&`, the type that its composite events have for the pattern around it.
        """
        self._units = units
        self._kinds = kinds
        self._own_type = own_type
        self._made: dict[Unit, Findings] = {}
        self._left: list[Unit] = []
        self.gone = Gone()

    def made(self) -> Iterator[tuple[Unit, Findings]]:
        """Those that were needed so far, by unit."""
        yield from self._made.items()

    def leave(self, unit: Unit) -> None:
        """A unit goes; its matches may still be asked for."""
        self.gone.following = Gone(unit)
        self.gone = self.gone.following
        if unit in self._made:
            self._left.append(unit)

    def forget_left(self) -> None:
        """Nobody asks any more for the matches of units that are gone."""
        for unit in self._left:
            self._made.pop(unit, None)
        self._left.clear()

    def __getitem__(self, unit: Unit) -> Findings:
        found = self._made.get(unit)
        if found is None:
            automaton = unit.automaton
            scope = Planner(automaton, self._kinds).scope()
            found = Findings(automaton, scope, self._own_type, filtered=True)
            if self._units.get(unit.number) is unit:
                self._made[unit] = found
        return found


@dataclass(slots=True, eq=False)
class Gone:
    """A unit that went, and the one that went next: whoever knows this one can tell which unit had a number then.

    To have matches note their units was rejected: that took a tenth of the time of a batch, and few ever ask.
    """

    unit: Unit | None = None
    following: Gone | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is needed to make objects of numbers.

    Attributes:
        units: by number.
        findings: by unit, what makes composite events; of those whose matches have to be told apart the one that
            remembers.
    """

    units: Mapping[int, Unit]
    findings: RememberedFindings
    store: Store
    texts: Texts


class Matches:
    """Matches, in the order they were found.

    Attributes:
        units: the number of each one's pattern.
        lo, hi: the timestamps, ns.
        moments: what completed each: the position of an event, or below 0 -1 less the number of a time event.
        offsets: where the constituents of each begin in `positions`; one more than there are matches.
        positions: of the constituents.
    """

    def __init__(self, reading: Reading, rows: Words, offsets: Words, positions: Words, shown: Words, times: Words):
        self._reading = reading
        self._rows = rows
        self.offsets = offsets
        self.positions = positions
        self._shown = shown
        self._times = times
        self._made: list[CompositeEvent] | None = None
        self.units: Words = rows[:, layout.F_UNIT]
        self._gone = reading.findings.gone
        self._units_gone: dict[int, Unit] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def lo(self) -> Words:
        """The begins of the timestamps, ns."""
        return self._rows[:, layout.F_LO]

    @property
    def hi(self) -> Words:
        """The ends, ns: the moments of detection."""
        return self._rows[:, layout.F_HI]

    @property
    def moments(self) -> Words:
        """What completed each."""
        return self._rows[:, layout.F_MOMENT]

    def constituents(self, place: int) -> Words:
        """The positions of one match's constituents."""
        return self.positions[self.offsets[place] : self.offsets[place + 1]]

    def events(self) -> list[CompositeEvent]:
        """All of them as composite events, each once; they are made when somebody first asks.

        A few patterns may find a composite event again, as such whose matches may end in what is no constituent. Of
        these it is told here that one was there before: whoever counts their matches counts it again, and whoever asks
        has to ask each time, in order.
        """
        if self._made is None:
            moments: dict[int, Event] = {}
            touched: dict[int, Findings] = {}
            for place in range(len(self)):
                number = int(self.units[place])
                if number not in touched:
                    touched[number] = self._reading.findings[self._unit(number)]
                findings = touched[number]
                findings.now = moments.setdefault(int(self.moments[place]), self._moment(place))
                findings.add(*self._arguments(place))
            self._made = [event for findings in touched.values() for event in findings.take()]
        return list(self._made)

    def _unit(self, number: int) -> Unit:
        """The unit that had a number when the matches were found: the first to go of those that had it since, or the
        one that has it."""
        while self._gone.following is not None:
            self._gone = self._gone.following
            if self._gone.unit is not None:
                self._units_gone.setdefault(self._gone.unit.number, self._gone.unit)
        return self._units_gone.get(number) or self._reading.units[number]

    def _moment(self, place: int) -> Event:
        return event_at(int(self.moments[place]), self._reading.store, self._times)

    def _arguments(self, place: int) -> tuple[Any, ...]:
        reading, row = self._reading, self._rows[place]
        unit = self._unit(int(self.units[place]))
        chain: Any = None
        for position in self.constituents(place):
            chain = longer_chain(chain, reading.store.event(int(position)))
        bindings: tuple[Event | None, ...] = (None,) * len(unit.automaton.variables)
        registers: tuple[Attribute, ...] = (None,) * len(unit.automaton.registers)
        begin = int(row[layout.F_EXTRA])
        if begin >= 0:
            block = self._shown[begin : begin + unit.extra]
            bindings = bindings_of(unit, block, reading.store, self._times)
            registers = registers_of(unit, block, reading.texts)
        key = reading.texts.unpacked(int(row[layout.F_TAG]), int(row[layout.F_KEY]))
        return chain, int(row[layout.F_LO]), int(row[layout.F_HI]), bindings, registers, key, None


def event_at(position: int, store: Store, times: Words) -> Event:
    """The event at a position, or the time event that one below 0 says."""
    if position >= 0:
        return store.event(position)
    due, number, timer = map(int, times[-1 - position])
    return TimeEvent(f"@{timer}", due, due, "@", number, {})


def longer_chain(chain: Any, event: Event) -> Any:
    """A chain with one more event, or with the constituents of what a part has found."""
    for each in event.events if isinstance(event, PartEvent) else (event,):
        chain = (chain, each)
    return chain


def bindings_of(unit: Unit, block: Words, store: Store, times: Words) -> tuple[Event | None, ...]:
    """The events that are bound to variables; what a part has bound is found in its composite event."""
    found: list[Event | None] = []
    for name, place in zip(unit.automaton.variables, block[unit.variables :].tolist(), strict=False):
        event = None if place == layout.NONE else event_at(place, store, times)
        found.append(event.bound.get(name) if isinstance(event, PartEvent) else event)
    return tuple(found)


def registers_of(unit: Unit, block: Words, texts: Texts) -> tuple[Attribute, ...]:
    """The values of the registers."""
    return tuple(texts.unpacked(int(block[slot]), int(block[slot + 1])) for slot in unit.registers)


def take(program: Any, state: State, reading: Reading) -> Matches:
    """The matches found so far; the state has none then."""
    number = int(state.counters[layout.C_FOUND])
    offsets = lengths(state, number)
    positions = flattened(state, number, offsets)
    shown = taken_along(program, state, number)
    rows = state.found[:number].copy()
    times = state.times[: int(state.counters[layout.C_TIMES])].copy()
    state.counters[layout.C_FOUND] = 0
    return Matches(reading, rows, offsets, positions, shown, times)
