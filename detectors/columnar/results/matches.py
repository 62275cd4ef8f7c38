"""Matches as arrays: constituents by position, converted into composite events on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.packing import ColumnPacker
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.kernel.match_chains import flattened, lengths, taken_along
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.results.store import Store
from distced.detectors.columnar.state import LoopState, Words
from distced.detectors.stepwise.composites import Composites, Constituents
from distced.detectors.stepwise.inner_events import PartEvent, TimeEvent
from distced.detectors.stepwise.plans import Planner
from distced.middleware.model.events import Attribute, CompositeEvent, Event


class RememberedComposites:
    """`Composites` of each unit, created on demand for its matches; `gone` is the last removed unit."""

    def __init__(self, units: Mapping[int, Unit], kinds: Callable[[str], Any], own_type: str | None = None) -> None:
        """Args: own_type: for a side of a `&`, the type of its composite events in the enclosing pattern."""
        self._units = units
        self._kinds = kinds
        self._own_type = own_type
        self._made: dict[Unit, Composites] = {}
        self._left: list[Unit] = []
        self.gone = Gone()

    def made(self, unit: Unit) -> Composites | None:
        """Those of a unit, if created so far."""
        return self._made.get(unit)

    def leave(self, unit: Unit) -> None:
        """Mark a unit as removed; its matches remain available."""
        self.gone.following = Gone(unit)
        self.gone = self.gone.following
        if unit in self._made:
            self._left.append(unit)

    def forget_left(self) -> None:
        """Forget removed units, whose matches are no longer available."""
        for unit in self._left:
            self._made.pop(unit, None)
        self._left.clear()

    def __getitem__(self, unit: Unit) -> Composites:
        found = self._made.get(unit)
        if found is None:
            output = Planner(unit.automaton, self._kinds).output
            found = Composites(unit.automaton, output, self._own_type, filtered=True)
            if self._units.get(unit.number) is unit:
                self._made[unit] = found
        return found


@dataclass(slots=True, eq=False)
class Gone:
    """A removed unit, linked to the next removal, to resolve the former unit of a number. Rejected: units noted in
    matches, a tenth of the batch time for a rare query."""

    unit: Unit | None = None
    following: Gone | None = None


@dataclass(frozen=True, slots=True)
class MatchSources:
    """Units, composites, events, texts and keys by the numbers in matches; `composites` builds the composite events of
    a unit, and remembers them where matches have to be distinguished."""

    units: Mapping[int, Unit]
    composites: RememberedComposites
    store: Store
    texts: Texts
    packer: ColumnPacker


class Matches:
    """Matches, in order of detection.

    Attributes:
        units: number of each one's pattern.
        lo, hi: timestamps, ns.
        moments: completion: position of an event, or -1 less the number of a time event.
        offsets: start of each one's constituents in `positions`; one more than there are matches.
    """

    def __init__(
        self, sources: MatchSources, rows: Words, offsets: Words, positions: Words, shown: Words, times: Words
    ):
        self._sources = sources
        self._rows = rows
        self.offsets = offsets
        self.positions = positions
        self._shown = shown
        self._times = times
        self._made: dict[int, list[CompositeEvent]] | None = None
        self.units: Words = rows[:, word_offsets.F_UNIT]
        self._gone = sources.composites.gone
        self._units_gone: dict[int, Unit] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def lo(self) -> Words:
        """The starts of the timestamps, ns."""
        return self._rows[:, word_offsets.F_LO]

    @property
    def hi(self) -> Words:
        """The ends, ns: the moments of detection."""
        return self._rows[:, word_offsets.F_HI]

    @property
    def moments(self) -> Words:
        """The position of the completing event of each match."""
        return self._rows[:, word_offsets.F_MOMENT]

    def constituents(self, place: int) -> Words:
        """The positions of one match's constituents."""
        return self.positions[self.offsets[place] : self.offsets[place + 1]]

    def events(self) -> list[CompositeEvent]:
        """Matches as composite events, without duplicates, pattern by pattern."""
        return [event for events in self.by_unit().values() for event in events]

    def by_unit(self) -> dict[int, list[CompositeEvent]]:
        """Composite events by number of unit; built at the first call.

        To be called for each batch, in order: matches that may end in an event that is no constituent may repeat a
        composite event. The count of matches includes repetitions.
        """
        if self._made is None:
            moments: dict[int, Event] = {}
            touched: dict[int, tuple[Composites, bool]] = {}
            alike: dict[tuple[int, ...], Constituents] = {}
            rows, offsets, positions = self._rows.tolist(), self.offsets.tolist(), self.positions.tolist()
            for place, row in enumerate(rows):
                number, moment = row[word_offsets.F_UNIT], row[word_offsets.F_MOMENT]
                known = touched.get(number)
                if known is None:
                    composites = self._sources.composites[self._unit(number)]
                    known = touched[number] = composites, composites.is_plain
                composites, is_plain = known
                now = moments.get(moment)
                if now is None:
                    now = moments[moment] = event_at(moment, self._sources.store, self._times)
                composites.now = now
                if not is_plain:
                    composites.add(*self._arguments(place))
                    continue
                # Many patterns may find the same.
                match = tuple(positions[offsets[place] : offsets[place + 1]])
                constituents = alike.get(match)
                if constituents is None:
                    events = tuple(map(self._sources.store.event, match))
                    constituents = alike[match] = Constituents.of(events)
                composites.add_plain(constituents, row[word_offsets.F_LO], row[word_offsets.F_HI])
            self._made = {number: composites.take() for number, (composites, _) in touched.items()}
        return self._made

    def _unit(self, number: int) -> Unit:
        """The unit of a number at the time of the matches: the first one removed since, or the current one."""
        while self._gone.following is not None:
            self._gone = self._gone.following
            if self._gone.unit is not None:
                self._units_gone.setdefault(self._gone.unit.number, self._gone.unit)
        return self._units_gone.get(number) or self._sources.units[number]

    def _arguments(self, place: int) -> tuple[Any, ...]:
        sources, row = self._sources, self._rows[place]
        unit = self._unit(int(self.units[place]))
        chain: Any = None
        for position in self.constituents(place):
            chain = longer_chain(chain, sources.store.event(int(position)))
        bindings: tuple[Event | None, ...] = (None,) * len(unit.automaton.variables)
        registers: tuple[Attribute, ...] = (None,) * len(unit.automaton.registers)
        begin = int(row[word_offsets.F_EXTRA])
        if begin >= 0:
            block = self._shown[begin : begin + unit.extra]
            bindings = bindings_of(unit, block, sources.store, self._times)
            registers = registers_of(unit, block, sources.texts)
        tag, payload = int(row[word_offsets.F_TAG]), int(row[word_offsets.F_KEY])
        key: object
        if len(names := unit.automaton.key) > 1:
            key = tuple(sources.texts.unpacked(*each) for each in sources.packer.key_values(names, payload))
        else:
            key = sources.texts.unpacked(tag, payload)
        return chain, int(row[word_offsets.F_LO]), int(row[word_offsets.F_HI]), bindings, registers, key, None


def event_at(position: int, store: Store, times: Words) -> Event:
    """The event at a position, or the time event of a negative one."""
    if position >= 0:
        return store.event(position)
    due, number, timer = map(int, times[-1 - position])
    return TimeEvent(f"@{timer}", due, due, "@", number, {})


def longer_chain(chain: Any, event: Event) -> Any:
    """A chain with one more event, or with the constituents of a part's composite event."""
    for each in event.events if isinstance(event, PartEvent) else (event,):
        chain = (chain, each)
    return chain


def bindings_of(unit: Unit, block: Words, store: Store, times: Words) -> tuple[Event | None, ...]:
    """The events bound to variables; those bound by a part are in its composite event."""
    found: list[Event | None] = []
    for name, place in zip(unit.automaton.variables, block[unit.variables :].tolist(), strict=False):
        event = None if place == word_offsets.NONE else event_at(place, store, times)
        found.append(event.bound.get(name) if isinstance(event, PartEvent) else event)
    return tuple(found)


def registers_of(unit: Unit, block: Words, texts: Texts) -> tuple[Attribute, ...]:
    """The values of the registers."""
    return tuple(texts.unpacked(int(block[slot]), int(block[slot + 1])) for slot in unit.registers)


def take(program: Any, state: LoopState, sources: MatchSources) -> Matches:
    """The matches so far, removed from the state."""
    number = int(state.counters[word_offsets.C_FOUND])
    offsets = lengths(state, number)
    positions = flattened(state, number, offsets)
    shown = taken_along(program, state, number)
    rows = state.found[:number].copy()
    times = state.times[: int(state.counters[word_offsets.C_TIMES])].copy()
    state.counters[word_offsets.C_FOUND] = 0
    return Matches(sources, rows, offsets, positions, shown, times)
