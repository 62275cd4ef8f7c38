"""Owner of the compiled loop's arrays: independent patterns over batches; growth and compaction on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.batch.packing import ColumnPacker
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.kernel import dedup, event_loop, instances, timers, transitions
from distced.detectors.columnar.kernel.jit import is_kept
from distced.detectors.columnar.program.program import Assembler
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.python_calls import Callback
from distced.detectors.columnar.results.matches import (
    Matches,
    MatchSources,
    RememberedComposites,
    event_at,
    longer_chain,
    take,
)
from distced.detectors.columnar.results.store import Store, collect, crowded, look_soon, many_left
from distced.detectors.columnar.state import Events, Words, empty_state, longer
from distced.detectors.limits import (
    BIRTH,
    COLUMNAR,
    TOGETHER,
    UNLIMITED,
    Limits,
    too_many_instances,
    too_many_time_events,
    too_much_memory,
    too_much_work,
)
from distced.detectors.stepwise.inner_events import TimeEvent
from distced.detectors.stepwise.instance import BEFORE_ALL, Instance
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN

_NOT_TOGETHER = np.empty(0, np.int32)

Kinds = Callable[[str], Mapping[str, Kind] | None]


def is_compiled() -> bool:
    """Whether the loop is compiled, in this process or on disk; otherwise its first use takes some 20 s."""
    return is_kept(event_loop.run)


class Loop:
    """Independent automata, run by the compiled loop.

    Attributes:
        packer: converts attributes and keys to tags and bits.
        state: instances and all other changing data.
        store: referenced events.
        clock: instant up to which time events have fired, ns.
        late: number of events behind the clock, not consumed.
        base: instances touched by previous engines of the same patterns.
        oversee: called amid a run, when an array is full or many instances were touched, and at its end; it may end
            instances, and raise `LimitError`. None without limits.
        fired: by unit the last consumed time event, as given by another engine.
    """

    def __init__(
        self,
        automata: Iterable[Automaton],
        kinds: Kinds = lambda _: None,
        *,
        indexed: bool = True,
        shared: bool = True,
        reads: bool = False,
        own_type: str | None = None,
    ) -> None:
        """`indexed`, `shared`: as in `Assembler`; `reads`: input has composite events, of which two may be one;
        `own_type`: of a side of a `&`, the type of its composite events in the pattern around it."""
        self.texts = Texts()
        self.assembler = Assembler(self.texts, indexed=indexed, shared=shared)
        self.state = empty_state()
        self.store = Store()
        self._latest: Event | None = None
        self._ends: tuple[Batch, int] | None = None
        self.clock = BEFORE_ALL
        self.composites = RememberedComposites(self.assembler.units, kinds, own_type)
        self._tells_apart = reads or own_type is not None
        self.kept = self.has_timers = False
        for automaton in automata:
            self.add(automaton)
        self._kinds = kinds
        self._callback = Callback(self.state, self.texts, self.assembler.whens)
        self.state.counters[word_offsets.C_CALLBACK] = self._callback.address
        self.late = 0
        self.base = 0
        self.limits = UNLIMITED
        self.oversee: Callable[[], None] | None = None
        # Instances touched before the current run; ends of its events, ns; instances at the last look.
        self._began = 0
        self._instants: Words = np.empty(0, np.int64)
        self._looked_at = 0
        self._unsettled: list[int] = []
        self.fired: dict[int, Event] = {}
        self.packer = ColumnPacker(self.texts)

    def limit(self, limits: Limits, oversee: Callable[[], None] | None = None) -> None:
        """Set limits, and what looks at them in place of `check`, which raises `LimitError`."""
        if limits is not UNLIMITED:
            self.limits, self.oversee = limits, oversee or self.check
            if oversee is None:
                self._callback.longest = limits.text
                self.state.counters[word_offsets.C_MOST_RECURRED] = limits.work

    def check(self) -> None:
        """Raise `LimitError` for the patterns as a whole beyond the limits."""
        limits, counters = self.limits, self.state.counters
        if self.looks_at_instances():
            number = len(self.open_states())
            if number > limits.instances:
                raise too_many_instances(limits, number)
        work, allowed = self.work(), COLUMNAR * TOGETHER * limits.work
        if work > allowed:
            raise too_much_work(work, allowed, together=True)
        found = int(counters[word_offsets.C_FOUND])
        most = TOGETHER // BIRTH * limits.work
        if found > most:
            raise too_much_work(found, most, together=True)
        memory = self.memory()[0]
        if memory > 2 * limits.memory:
            # Half may be no longer needed (`results.store.crowded`).
            raise too_much_memory(limits, memory)

    def looks_at_instances(self) -> bool:
        """Whether the instances are to be counted: they have grown beyond the limit, perhaps with closed windows."""
        live, most = self.live, self.limits.instances
        if live <= max(most, self._looked_at):
            return False
        self._looked_at = live + most // 16
        # When nothing is under construction.
        look_soon(self.state)
        return True

    def open_states(self) -> Words:
        """State of each instance whose window is not closed for the current event."""
        program, state = self.assembler.program(), self.state
        rows = state.rows[: int(state.counters[word_offsets.C_ROWS])]
        rows = rows[rows[:, word_offsets.R_STATE] >= 0]
        where = rows[:, word_offsets.R_STATE]
        windows = program.memory[(where >> word_offsets.UNIT_SHIFT) + word_offsets.U_WINDOW]
        least = np.full(len(program.wide) + 1, word_offsets.NONE, np.int64)
        # The last is that of no window, which has the number -1.
        for number in np.unique(windows[windows >= 0]).tolist():
            least[number] = max(self._now() - int(program.wide[number]), word_offsets.NONE)
        found: Words = where[rows[:, word_offsets.R_LO] >= least[windows]] & word_offsets.STATE_MASK
        return found

    def _now(self) -> int:
        """End of the event that is consumed, ns, or of the last one."""
        if len(self._instants) == 0:
            return self._floor()
        return int(self._instants[min(int(self.state.counters[word_offsets.C_EVENT]), len(self._instants) - 1)])

    def work(self) -> int:
        """Number of instances touched since the run began; the run goes on until many more are."""
        counters = self.state.counters
        touched = int(counters[word_offsets.C_TOUCHED])
        counters[word_offsets.C_STOP] = touched + COLUMNAR * self.limits.work
        return touched - self._began

    def add(self, automaton: Automaton, *, apart: bool = False) -> Unit:
        """Run an additional automaton from now on; `apart` for one with instances to come, which shares no states."""
        unit = self.assembler.add(automaton, kept=self._tells_apart, apart=apart)
        self.kept = self.kept or unit.kept
        self.has_timers = self.has_timers or bool(automaton.timers)
        counters = self.state.counters
        for counter, count in (
            (word_offsets.C_MOST_EXTRA, unit.extra),
            (word_offsets.C_MOST_TIMERS, len(automaton.timers)),
        ):
            counters[counter] = max(int(counters[counter]), count)
        counters[word_offsets.C_INNER] = max(int(counters[word_offsets.C_INNER]), len(unit.inner_keys))
        counters[word_offsets.C_SLACK] = 0
        if unit.number >= len(self.state.fired):
            self.state = self.state.replaced(
                fired=longer(self.state.fired, 2 * len(self.state.fired), word_offsets.NONE)
            )
        self.state.fired[unit.number] = word_offsets.NONE, word_offsets.NONE, self.store.next
        if self.assembler.records.counts.end > len(self.state.touched):
            wanted = 2 * len(self.state.touched)
            self.state = self.state.replaced(
                touched=longer(self.state.touched, wanted, 0),
                begun=longer(self.state.begun, wanted, word_offsets.NONE),
            )
        self.state.touched[unit.count] = 0
        self.state.begun[unit.count] = word_offsets.NONE
        return unit

    def remove(self, number: int) -> None:
        """Stop an automaton; its matches so far remain available until the next events are consumed."""
        self.composites.leave(self.assembler.units[number])
        self.fired.pop(number, None)
        self.assembler.remove(number)
        if many_left(self.state, self.store, self.assembler.removed):
            self._collect()

    def feed(self, batch: Batch, together: Any = None) -> Matches:
        """Consume a batch in order, behind all consumed; `together`: first event consumed with each, or None."""
        self._feed(batch, together)
        if len(batch):
            self._ends = (batch, len(batch) - 1)
        return self._taken()

    def _feed(self, batch: Batch, together: Any = None) -> None:
        self.composites.forget_left()
        state = self.state
        lists = np.zeros((max(len(batch.type_names), 1), 3), np.int32)
        # Twice: a type that is seen for the first time may move what begins with the others.
        for _ in range(2):
            for number, name in enumerate(batch.type_names):
                lists[number] = self.assembler.lists(name)
        events = self._columns(batch, lists, together)
        counters = state.counters
        counters[word_offsets.C_FIRST] = self.store.add(batch)
        counters[word_offsets.C_EVENT] = counters[word_offsets.C_SLACK] = 0
        self._instants = batch.hi
        self._until_done(lambda: event_loop.run(self.assembler.program(), events, self.state, len(batch)))

    def feed_any(self, events: Sequence[Event]) -> Iterator[Matches]:
        """Consume events in this order, those behind consumed ones, too; the matches of each part, to be made composite
        events before the next."""
        place = 0
        while place < len(events):
            end = self._in_order(events, place)
            if end > place:
                yield self.feed(Batch.of_events(events[place:end]))
            else:
                end = place + 1
                latest = self.latest
                # The same once more changes nothing.
                if latest is None or events[place].key != latest.key:
                    yield self.feed_late(events[place])
            place = end

    def feed_late(self, event: Event) -> Matches:
        """Consume an event behind consumed ones: it concerns the instances it still follows."""
        state = self.state
        rows = state.rows[: int(state.counters[word_offsets.C_ROWS])]
        beyond = np.flatnonzero((rows[:, word_offsets.R_STATE] >= 0) & (rows[:, word_offsets.R_HI] >= event.hi))
        ahead = [row for row in beyond.tolist() if self._is_ahead(rows[row], event)]
        last = rows[ahead, word_offsets.R_LAST]
        # As if they had matched an event behind this one.
        rows[ahead, word_offsets.R_LAST] = word_offsets.LATEST
        self._feed(Batch.of_events([event]))
        self.state.rows[ahead, word_offsets.R_LAST] = last
        latest = self.latest
        if latest is None or event.key > latest.key:
            self.latest = event
        else:
            self.late += 1
        return self._taken()

    def _is_ahead(self, row: Words, event: Event) -> bool:
        if int(row[word_offsets.R_HI]) > event.hi:
            return True
        last = event_at(int(row[word_offsets.R_LAST]), self.store, self.state.times)
        return event.key <= last.key

    def advance(self, watermark: int) -> Matches:
        """Fire every time event due until an instant."""
        self.composites.forget_left()
        if watermark < INSTANT_MIN:
            return self._taken()
        self.clock = max(self.clock, watermark)
        nothing = self._columns(Batch.of_events([]), np.zeros((1, 3), np.int32))
        self._until_done(lambda: event_loop.fire(self.assembler.program(), nothing, self.state, watermark))
        return self._taken()

    def events_of(self, matches: Matches) -> list[CompositeEvent]:
        """Matches as composite events, without duplicates. To be called before further events are consumed."""
        return [event for events in self.events_by_unit(matches).values() for event in events]

    def events_by_unit(self, matches: Matches) -> dict[int, list[CompositeEvent]]:
        """`events_of` by number of unit."""
        found = matches.by_unit()
        if self.kept and found:
            self._forget(found)
        return found

    def _forget(self, numbers: Iterable[int]) -> None:
        """Periodically drop ids of composite events that cannot repeat, of patterns with new ones."""
        for number in numbers:
            unit = self.assembler.units.get(number)
            composites = None if unit is None else self.composites.made(unit)
            if unit is None or composites is None:
                continue
            window = unit.automaton.whole_window
            floor = BEFORE_ALL if window is None else self._floor() - window
            composites.forget(floor, partial(self._holders, unit))

    def _holders(self, unit: Unit) -> list[Instance]:
        """The instances of a pattern, with their constituents only."""
        known: dict[int, Any] = {}
        state = self.state
        found = state.rows[: int(state.counters[word_offsets.C_ROWS])]
        mine = found[(found[:, word_offsets.R_STATE] >> word_offsets.UNIT_SHIFT) == unit.address]
        chains = (self.chain_of(int(link), known) for link in mine[:, word_offsets.R_LINK])
        return [Instance(0, None, chain, 0, 0, None, (), (), (), (), (), frozenset()) for chain in chains]

    def chain_of(self, link: int, known: dict[int, Any]) -> Any:
        """A chain in the stepwise engine's form; shared links stay shared."""
        links = self.state.links
        waiting = []
        while link >= 0 and link not in known:
            waiting.append(link)
            link = int(links[link, 0])
        chain = known.get(link)
        for each in reversed(waiting):
            chain = known[each] = longer_chain(chain, self.store.event(int(links[each, 1])))
        return chain

    def follows(self, events: Sequence[Event]) -> bool:
        """Whether events are in order, behind all events consumed before."""
        return self._in_order(events, 0) == len(events)

    def _in_order(self, events: Sequence[Event], begin: int) -> int:
        """The end of the events from `begin` on that are in order, behind all events consumed before."""
        if self.has_timers and begin < len(events) and events[begin].hi <= self.clock:
            return begin
        before = self.latest.key if self.latest is not None else None
        for place in range(begin, len(events)):
            key = events[place].key
            if before is not None and key <= before:
                return place
            before = key
        return len(events)

    def end(self) -> None:
        """End the input: recurring time events come once more."""
        self.state.counters[word_offsets.C_ENDED] = 1

    def next_due(self) -> int | None:
        """The instant the next time event is due, ns; None without a pending one."""
        due = int(timers.next_due(self.state))
        return None if due == word_offsets.NONE else due

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event examined."""
        return self.base + int(self.state.counters[word_offsets.C_TOUCHED])

    def touched_by(self, unit: Unit) -> int:
        """Number of pairs of an instance and an event examined for one pattern; more where it shares states."""
        return sum(int(self.state.touched[each]) for each in self.assembler.counts_of(unit))

    @property
    def live(self) -> int:
        """Number of live instances, those of removed patterns included until the next sweep."""
        return int(self.state.counters[word_offsets.C_LIVE])

    def live_by_unit(self) -> dict[int, int]:
        """Number of live instances by number of unit, for those with any; a shared instance counts for each."""
        rows = self.state.rows[: int(self.state.counters[word_offsets.C_ROWS])]
        states = rows[rows[:, word_offsets.R_STATE] >= 0, word_offsets.R_STATE] & word_offsets.STATE_MASK
        counts = np.bincount(states) if len(states) else np.zeros(1, np.int64)
        found: dict[int, int] = {}
        for number, unit in self.assembler.units.items():
            # A state is that of one pattern, or shared.
            live = sum(int(counts[state]) for state in unit.states if 0 < state < len(counts))
            if live:
                found[number] = live
        return found

    def open_in(self, states: Words) -> Words:
        """Numbers of instances in these states whose windows are not closed."""
        counts = np.append(np.bincount(self.open_states()), 0)
        found: Words = counts[np.minimum(states, len(counts) - 1)]
        return found

    def states_by_unit(self) -> tuple[Words, Words]:
        """Numbers of units and their states, in pairs: a shared state is in several."""
        units = self.assembler.units.items()
        pairs = [(number, state) for number, unit in units for state in unit.states if state > 0]
        made = np.array(pairs, np.int64).reshape(-1, 2)
        return made[:, 0].copy(), made[:, 1].copy()

    def rows_of(self, states: Words) -> Words:
        """Rows of the live instances in these states."""
        places = self.state.rows[: int(self.state.counters[word_offsets.C_ROWS]), word_offsets.R_STATE]
        found: Words = np.flatnonzero((places >= 0) & np.isin(places & word_offsets.STATE_MASK, states))
        return found

    def end_instances(self, rows: Words) -> None:
        """End the instances in these rows, amid a run or between two."""
        event_loop.end_all(self.assembler.program(), self.state, rows)

    def memory(self) -> tuple[int, int]:
        """Memory of instances, in bytes: used, and allocated in arrays that grow by doubling."""
        state, counters = self.state, self.state.counters
        used = {
            "rows": counters[word_offsets.C_ROWS],
            "links": counters[word_offsets.C_LINKS],
            "extras": counters[word_offsets.C_EXTRAS] - 2 * word_offsets.LARGEST,
            "timers": counters[word_offsets.C_TIMERS],
            # Half of a table is left empty.
            "table": 2 * counters[word_offsets.C_BUCKETS],
        }
        width = {name: getattr(state, name)[:1].nbytes for name in used}
        return sum(width[name] * int(count) for name, count in used.items()), sum(
            getattr(state, name).nbytes for name in used
        )

    def match_sources(self) -> MatchSources:
        """Current units, composites, events and texts."""
        return MatchSources(self.assembler.units, self.composites, self.store.frozen(), self.texts, self.packer)

    def _until_done(self, step: Callable[[], int]) -> None:
        counters, limits = self.state.counters, self.limits
        if limits is not UNLIMITED:
            self._began = int(counters[word_offsets.C_TOUCHED])
            counters[word_offsets.C_STOP] = self._began + COLUMNAR * limits.work
        going = True
        while going:
            reason = step()
            self._callback.check()
            if self.oversee is not None:
                self.oversee()
            if reason == word_offsets.ROOM:
                self._grow()
            if reason == word_offsets.OFTEN:
                raise too_many_time_events(limits.work)
            going = reason != word_offsets.DONE

    def _taken(self) -> Matches:
        matches = take(self.assembler.program(), self.state, self.match_sources())
        if crowded(self.state, self.store):
            self._collect()
        return matches

    def _collect(self) -> None:
        """Compact the arrays and the store."""
        collect(self.assembler.program(), self.state, self.store, self._floor())
        self.assembler.swept()
        self._looked_at = 0

    @property
    def latest(self) -> Event | None:
        """The event consumed last; None before the first."""
        if self._ends is not None:
            batch, place = self._ends
            self._latest, self._ends = batch.event(place), None
        return self._latest

    @latest.setter
    def latest(self, event: Event | None) -> None:
        self._latest, self._ends = event, None

    def latest_of(self, unit: int) -> Event | None:
        """The event one pattern consumed last, its own time events included."""
        fired = self.fired.get(unit)
        due = int(self.state.fired[unit, 0])
        if due != word_offsets.NONE and (fired is None or due > fired.hi):
            fired = TimeEvent("@0", due, due, "@", int(self.state.fired[unit, 1]), {})
        latest = self.latest
        if latest is None or (fired is not None and fired.key > latest.key):
            return fired
        return latest

    def _floor(self) -> int:
        if self._ends is not None:
            batch, place = self._ends
            return int(batch.hi[place])
        return word_offsets.NONE if self._latest is None else self._latest.hi

    # What comes from elsewhere.

    def put(
        self, unit: Unit, place: int, link: int, lo: int, hi: int, last: int, key: int, tag: int, words: Words
    ) -> None:
        """Add an instance; `settle` puts it into its bucket."""
        counters = self.state.counters
        extra = -1
        if len(words):
            extra = self._new_extra(len(words))
            self.state.extras[extra : extra + len(words)] = words
        row, used = int(counters[word_offsets.C_FREE]), 0
        if row >= 0:
            counters[word_offsets.C_FREE] = self.state.rows[row, word_offsets.R_NEXT]
            used = int(self.state.rows[row, word_offsets.R_TAG])
        else:
            while counters[word_offsets.C_ROWS] == len(self.state.rows):
                self._grow()
            row = int(counters[word_offsets.C_ROWS])
            counters[word_offsets.C_ROWS] += 1
        state = self.state
        self._unsettled.append(row)
        program = self.assembler.program()
        value = int(program.memory[unit.states[place] + word_offsets.S_VALUE])
        if value >= 0:
            tag, key = map(int, program.constants[value])
        elif value < -1:
            tag, key = map(int, instances.found_by(state, extra - 2 - value))
        state.rows[row] = (
            -1,
            unit.address << word_offsets.UNIT_SHIFT | unit.states[place],
            link,
            lo,
            hi,
            last,
            key,
            extra + 1 << word_offsets.EXTRA_SHIFT | used | tag,
        )
        counters[word_offsets.C_LIVE] += 1

    def _new_extra(self, size: int) -> int:
        """Allocate an extra block of this length."""
        counters, free = self.state.counters, int(self.state.spare[size])
        if free >= 0:
            self.state.spare[size] = self.state.extras[free]
            return free
        while counters[word_offsets.C_EXTRAS] + size > len(self.state.extras):
            self._grow()
        made = int(counters[word_offsets.C_EXTRAS])
        counters[word_offsets.C_EXTRAS] += size
        return made

    def settle(self) -> None:
        """Put all added instances into their buckets."""
        counters, places = self.state.counters, np.array(self._unsettled, np.int64)
        self._unsettled.clear()
        buckets = int(counters[word_offsets.C_BUCKETS]) + len(places)
        pending = int(counters[word_offsets.C_TIMERS]) + len(places) * int(counters[word_offsets.C_MOST_TIMERS])
        while 2 * buckets > len(self.state.table):
            self.state = self.state.replaced(table=instances.rehashed(self.state.table, 2 * len(self.state.table)))
        while pending > len(self.state.timers):
            self.state = self.state.replaced(timers=longer(self.state.timers, 2 * len(self.state.timers)))
        instances.settle_all(self.assembler.program(), self.state, places)
        counters[word_offsets.C_SLACK] = 0

    def first_of(self, link: int) -> int:
        """The position of the first constituent of a chain."""
        return int(transitions.first_of(self.state, link))

    def add_link(self, before: int, position: int) -> int:
        """Append a link to a chain; its number."""
        counters = self.state.counters
        if counters[word_offsets.C_LINKS] == len(self.state.links):
            self._grow()
        return int(instances.add_link(self.state, before, position))

    def add_spent(self, values: Iterable[tuple[int, int]]) -> int:
        """Add closed values of inner keys; one more than the number of the last, 0 for none."""
        counters, last = self.state.counters, 0
        for name, payload in values:
            if counters[word_offsets.C_SPENT] == len(self.state.spent):
                self._grow()
            place = int(counters[word_offsets.C_SPENT])
            self.state.spent[place] = (last, name, payload)
            counters[word_offsets.C_SPENT] += 1
            last = place + 1
        return last

    def note_time(self, due: int, number: int, timer: int) -> int:
        """The position of a time event."""
        counters = self.state.counters
        if counters[word_offsets.C_TIMES] == len(self.state.times):
            self._grow()
        place = int(counters[word_offsets.C_TIMES])
        self.state.times[place] = (due, number, timer)
        counters[word_offsets.C_TIMES] += 1
        return -1 - place

    def _columns(self, batch: Batch, lists: Any, together: Any = None) -> Events:
        tags, payload = self.packer.pack(batch, self.assembler.columns.names)
        return Events(
            types=batch.types,
            lists=lists,
            lo=batch.lo,
            hi=batch.hi,
            tags=tags,
            payload=payload,
            floats=payload.view(np.float64),
            together=_NOT_TOGETHER if together is None else together,
        )

    def _grow(self) -> None:
        """Enlarge arrays that are almost full."""
        state, counters = self.state, self.state.counters
        made: dict[str, Any] = {}
        used = {
            "rows": counters[word_offsets.C_ROWS],
            "links": counters[word_offsets.C_LINKS],
            "extras": counters[word_offsets.C_EXTRAS],
            "timers": counters[word_offsets.C_TIMERS],
            "found": counters[word_offsets.C_FOUND],
            "times": counters[word_offsets.C_TIMES],
            "affected": counters[word_offsets.C_TOGETHER],
            "spent": counters[word_offsets.C_SPENT],
        }
        # Twice as long what is three quarters full; if nothing is, one instance brings forth more than is left.
        full = {name: 4 * int(count) >= 3 * len(getattr(state, name)) for name, count in used.items()}
        full["table"] = 8 * int(counters[word_offsets.C_BUCKETS]) >= 3 * len(state.table)
        full["seen"] = 8 * int(counters[word_offsets.C_SEEN]) >= len(state.seen)
        anything = any(full.values())
        for name, is_full in full.items():
            if is_full or not anything:
                made[name] = self._longer(name)
        self.state = state.replaced(**made)

    def _longer(self, name: str) -> Any:
        array = getattr(self.state, name)
        if name == "table":
            return instances.rehashed(array, 2 * len(array))
        if name == "seen":
            return dedup.seen_again(array, int(self.state.counters[word_offsets.C_STAMP]), 2 * len(array))
        return longer(array, 2 * len(array))
