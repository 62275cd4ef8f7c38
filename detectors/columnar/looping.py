"""The compiled loop and what it runs on: patterns that stand by themselves, over batches of events.

What is here is told to consume a batch, makes room where the loop stops for want of it, and lets go of what nobody
refers to any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.batch.columns import Batch, Column, ColumnName
from distced.detectors.columnar.batch.values import FLOAT, INTEGER, NULL, TEXT, Texts
from distced.detectors.columnar.kernel import (
    dedup as moment,
)
from distced.detectors.columnar.kernel import (
    event_loop as loop,
)
from distced.detectors.columnar.kernel import (
    instances as rows,
)
from distced.detectors.columnar.kernel import (
    timers as alarms,
)
from distced.detectors.columnar.kernel import (
    transitions as rules,
)
from distced.detectors.columnar.kernel.compaction import collect, crowded, many_left
from distced.detectors.columnar.kernel.jit import is_kept
from distced.detectors.columnar.program.program import Assembler
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.python_calls import Callback
from distced.detectors.columnar.results.matches import Matches, Reading, RememberedFindings, longer_chain, take
from distced.detectors.columnar.results.store import Store
from distced.detectors.columnar.state import Events, Words, empty_state, longer
from distced.detectors.stepwise.inner_events import TimeEvent
from distced.detectors.stepwise.instance import BEFORE_ALL, Instance
from distced.middleware.cli.output import messages
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN

_NOT_TOGETHER = np.empty(0, np.int32)

Kinds = Callable[[str], Mapping[str, Kind] | None]


@cache
def _say_if_compiled() -> None:
    """Compiling takes some time, and nothing else is to be seen of it."""
    if not is_kept(loop.run):
        messages().print("the columnar engine is being compiled, once for this version on this machine (about 20 s)")


class Loop:
    """Automata that stand by themselves, run by the compiled loop.

    Attributes:
        state: the instances and all else that changes.
        store: the events that are referred to.
        clock: up to this instant, ns, time events have fired.
        late: how many events came behind what was consumed; they are not for the loop.
        base: what others touched before, for the same patterns.
        fired: by unit a time event that was consumed last, where another engine has said so.
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
        """
        Args:
            indexed, shared: as `Assembler` has them.
            reads: whether composite events of other patterns are among what it is fed; two of them may be one.
            own_type: of a side of a `&`, the type that its composite events have for the pattern around it.
        """
        _say_if_compiled()
        self.texts = Texts()
        self.assembler = Assembler(self.texts, indexed=indexed, shared=shared)
        self.state = empty_state()
        self.store = Store()
        self._latest: Event | None = None
        self._ends: tuple[Batch, int] | None = None
        self.clock = BEFORE_ALL
        self.findings = RememberedFindings(self.assembler.units, kinds, own_type)
        self._tells_apart = reads or own_type is not None
        self.kept = self.has_timers = False
        for automaton in automata:
            self.add(automaton)
        self._kinds = kinds
        self._callback = Callback(self.state, self.texts, self.assembler.whens)
        self.state.counters[layout.C_CALLBACK] = self._callback.address
        self.late = 0
        self.base = 0
        self.fired: dict[int, Event] = {}
        # The same memory for every batch: what is new has to be cleared by the system first.
        self._room = np.empty(0, np.uint8), np.empty(0, np.int64)
        self._dictionaries: dict[int, tuple[Any, Any]] = {}
        self._keys: dict[tuple[str, ...], dict[tuple[int, ...], int]] = {}
        self._values: dict[tuple[str, ...], list[tuple[int, ...]]] = {}

    def add(self, automaton: Automaton) -> Unit:
        """Run one more automaton from now on."""
        unit = self.assembler.add(automaton, kept=self._tells_apart)
        self.kept = self.kept or unit.kept
        self.has_timers = self.has_timers or bool(automaton.timers)
        counters = self.state.counters
        for counter, count in ((layout.C_MOST_EXTRA, unit.extra), (layout.C_MOST_TIMERS, len(automaton.timers))):
            counters[counter] = max(int(counters[counter]), count)
        counters[layout.C_INNER] = max(int(counters[layout.C_INNER]), len(unit.inner_keys))
        counters[layout.C_SLACK] = 0
        if unit.number >= len(self.state.fired):
            self.state = self.state.replaced(fired=longer(self.state.fired, 2 * len(self.state.fired), layout.NONE))
        self.state.fired[unit.number] = layout.NONE, layout.NONE, self.store.next
        return unit

    def remove(self, number: int) -> None:
        """Run an automaton no more; what it has found so far may be asked for until something else is consumed."""
        self.findings.leave(self.assembler.units[number])
        self.fired.pop(number, None)
        self.assembler.remove(number)
        if many_left(self.state, self.store, self.assembler.removed):
            self._collect()

    def feed(self, batch: Batch, together: Any = None) -> Matches:
        """Consume a batch in the order of consumption, behind all that was consumed.

        Args:
            together: for each event the first one of those it is consumed together with; None where each is consumed by
                itself.
        """
        self.findings.forget_left()
        state = self.state
        lists = np.zeros((max(len(batch.type_names), 1), 3), np.int32)
        # Twice: a type that is seen for the first time may move what begins with the others.
        for _ in range(2):
            for number, name in enumerate(batch.type_names):
                lists[number] = self.assembler.lists(name)
        events = self._columns(batch, lists, together)
        counters = state.counters
        counters[layout.C_FIRST] = self.store.add(batch)
        counters[layout.C_EVENT] = counters[layout.C_SLACK] = 0
        self._until_done(lambda: loop.run(self.assembler.program(), events, self.state, len(batch)))
        if len(batch):
            self._ends = (batch, len(batch) - 1)
        return self._taken()

    def advance(self, watermark: int) -> Matches:
        """Let every time event fire that is due until then."""
        self.findings.forget_left()
        if watermark < INSTANT_MIN:
            return self._taken()
        self.clock = max(self.clock, watermark)
        nothing = self._columns(Batch.of_events([]), np.zeros((1, 3), np.int32))
        self._until_done(lambda: loop.fire(self.assembler.program(), nothing, self.state, watermark))
        return self._taken()

    def events_of(self, matches: Matches) -> list[CompositeEvent]:
        """Matches as composite events, each once. To be asked before anything else is consumed."""
        events = matches.events()
        if self.kept:
            self._forget()
        return events

    def _forget(self) -> None:
        """Forget ids of composite events that cannot come again, now and then."""
        for unit, findings in self.findings.made():
            window = unit.automaton.whole_window
            floor = BEFORE_ALL if window is None else self._floor() - window
            findings.forget(floor, partial(self._holders, unit))

    def _holders(self, unit: Unit) -> list[Instance]:
        """The instances of a pattern, as far as their constituents go."""
        known: dict[int, Any] = {}
        state = self.state
        found = state.rows[: int(state.counters[layout.C_ROWS])]
        mine = found[(found[:, layout.R_STATE] >> layout.UNIT_SHIFT) == unit.address]
        chains = (self.chain_of(int(link), known) for link in mine[:, layout.R_LINK])
        return [Instance(0, None, chain, 0, 0, None, (), (), (), (), (), frozenset()) for chain in chains]

    def chain_of(self, link: int, known: dict[int, Any]) -> Any:
        """A chain as the stepwise engine has it; links that are shared stay so."""
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
        """Whether events are in order, behind all that was consumed."""
        if self.has_timers and events and events[0].hi <= self.clock:
            return False
        before = self.latest.key if self.latest is not None else None
        for event in events:
            key = event.key
            if before is not None and key <= before:
                return False
            before = key
        return True

    def next_due(self) -> int | None:
        """The instant the next time event is due, ns; None if none is set off."""
        due = int(alarms.next_due(self.state))
        return None if due == layout.NONE else due

    @property
    def touched(self) -> int:
        """How many pairs of an instance and an event were looked at so far."""
        return self.base + int(self.state.counters[layout.C_TOUCHED])

    @property
    def live(self) -> int:
        """How many instances there are."""
        return int(self.state.counters[layout.C_LIVE])

    def memory(self) -> tuple[int, int]:
        """The bytes that instances take: in use, and in arrays that grow by doubling."""
        state, counters = self.state, self.state.counters
        used = {
            "rows": counters[layout.C_ROWS],
            "links": counters[layout.C_LINKS],
            "extras": counters[layout.C_EXTRAS] - 2 * layout.LARGEST,
            "alarms": counters[layout.C_ALARMS],
            # Half of a table is left empty.
            "table": 2 * counters[layout.C_BUCKETS],
        }
        width = {name: getattr(state, name)[:1].nbytes for name in used}
        return sum(width[name] * int(count) for name, count in used.items()), sum(
            getattr(state, name).nbytes for name in used
        )

    def reading(self) -> Reading:
        """What is needed to make objects of numbers, as it is now."""
        return Reading(self.assembler.units, self.findings, self.store.frozen(), self.texts)

    def _until_done(self, step: Callable[[], int]) -> None:
        while step() == layout.ROOM:
            self._callback.check()
            self._grow()
        self._callback.check()

    def _taken(self) -> Matches:
        matches = take(self.assembler.program(), self.state, self.reading())
        if crowded(self.state, self.store):
            self._collect()
        return matches

    def _collect(self) -> None:
        """Let go of what nobody refers to."""
        collect(self.assembler.program(), self.state, self.store, self._floor())
        self.assembler.swept()

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
        """What one pattern has consumed last, its own time events included."""
        fired = self.fired.get(unit)
        due = int(self.state.fired[unit, 0])
        if due != layout.NONE and (fired is None or due > fired.hi):
            fired = TimeEvent("@0", due, due, "@", int(self.state.fired[unit, 1]), {})
        latest = self.latest
        if latest is None or (fired is not None and fired.key > latest.key):
            return fired
        return latest

    def _floor(self) -> int:
        if self._ends is not None:
            batch, place = self._ends
            return int(batch.hi[place])
        return layout.NONE if self._latest is None else self._latest.hi

    # What comes from elsewhere.

    def put(
        self,
        unit: Unit,
        place: int,
        link: int,
        lo: int,
        hi: int,
        last: int,
        key: int,
        tag: int,
        words: Words,
    ) -> None:
        """Take an instance; `settle` puts it in its place."""
        counters = self.state.counters
        while counters[layout.C_ROWS] == len(self.state.rows):
            self._grow()
        while counters[layout.C_EXTRAS] + len(words) > len(self.state.extras):
            self._grow()
        state = self.state
        extra = -1
        if len(words):
            extra = int(counters[layout.C_EXTRAS])
            counters[layout.C_EXTRAS] += len(words)
            state.extras[extra : extra + len(words)] = words
        program = self.assembler.program()
        value = int(program.memory[unit.states[place] + layout.S_VALUE])
        if value >= 0:
            tag, key = map(int, program.constants[value])
        elif value < -1:
            tag, key = map(int, rows.found_by(state, extra - 2 - value))
        row = int(counters[layout.C_ROWS])
        counters[layout.C_ROWS] += 1
        state.rows[row] = (
            -1,
            unit.address << layout.UNIT_SHIFT | unit.states[place],
            link,
            lo,
            hi,
            last,
            key,
            extra + 1 << layout.EXTRA_SHIFT | tag,
        )
        counters[layout.C_LIVE] += 1

    def settle(self) -> None:
        """Put all that was taken in its place."""
        counters = self.state.counters
        count, timers = int(counters[layout.C_ROWS]), int(counters[layout.C_MOST_TIMERS])
        while 2 * count > len(self.state.table):
            self.state = self.state.replaced(table=rows.rehashed(self.state.table, 2 * len(self.state.table)))
        while count * timers > len(self.state.alarms):
            self.state = self.state.replaced(alarms=longer(self.state.alarms, 2 * len(self.state.alarms)))
        rows.settle_from(self.assembler.program(), self.state, 0)
        counters[layout.C_SLACK] = 0

    def first_of(self, link: int) -> int:
        """The position of the first constituent of a chain."""
        return int(rules.first_of(self.state, link))

    def add_link(self, before: int, position: int) -> int:
        """A link behind another one; its number."""
        counters = self.state.counters
        if counters[layout.C_LINKS] == len(self.state.links):
            self._grow()
        return int(rows.add_link(self.state, before, position))

    def add_spent(self, values: Iterable[tuple[int, int]]) -> int:
        """Values of inner keys that have gone their own way; one more than the number of the last, 0 for none."""
        counters, last = self.state.counters, 0
        for name, payload in values:
            if counters[layout.C_SPENT] == len(self.state.spent):
                self._grow()
            place = int(counters[layout.C_SPENT])
            self.state.spent[place] = (last, name, payload)
            counters[layout.C_SPENT] += 1
            last = place + 1
        return last

    def note_time(self, due: int, number: int, timer: int) -> int:
        """The position of a time event."""
        counters = self.state.counters
        if counters[layout.C_TIMES] == len(self.state.times):
            self._grow()
        place = int(counters[layout.C_TIMES])
        self.state.times[place] = (due, number, timer)
        counters[layout.C_TIMES] += 1
        return -1 - place

    def packed_key(self, names: tuple[str, ...], key: object) -> tuple[int, int]:
        """Tag and bits of a key of these attributes as the stepwise engine has it."""
        if not names:
            return 0, 0
        values = key if len(names) > 1 and isinstance(key, tuple) else (key,)
        parts = [self._packed_part(value[0] if isinstance(value, tuple) else value) for value in values]
        if len(names) == 1:
            return parts[0]
        numbers = self._keys.setdefault(names, {})
        return INTEGER, numbers.setdefault(tuple(word for part in parts for word in part), len(numbers))

    def key_values(self, names: tuple[str, ...], number: int) -> list[tuple[int, int]]:
        """Tags and bits of the values of a key of several attributes."""
        known = self._keys[names]
        if len(self._values.get(names, ())) != len(known):
            self._values[names] = list(known)
        words = self._values[names][number]
        return list(zip(words[::2], words[1::2], strict=True))

    def _packed_part(self, value: Attribute) -> tuple[int, int]:
        if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
            value = int(value)
        return self.texts.packed(value)

    def _grow(self) -> None:
        """Make room where there is little left."""
        state, counters = self.state, self.state.counters
        made: dict[str, Any] = {}
        used = {
            "rows": counters[layout.C_ROWS],
            "links": counters[layout.C_LINKS],
            "extras": counters[layout.C_EXTRAS],
            "alarms": counters[layout.C_ALARMS],
            "found": counters[layout.C_FOUND],
            "times": counters[layout.C_TIMES],
            "affected": counters[layout.C_TOGETHER],
            "spent": counters[layout.C_SPENT],
        }
        # Twice as long what is three quarters full; if nothing is, one instance brings forth more than is left.
        full = {name: 4 * int(count) >= 3 * len(getattr(state, name)) for name, count in used.items()}
        full["table"] = 8 * int(counters[layout.C_BUCKETS]) >= 3 * len(state.table)
        full["seen"] = 8 * int(counters[layout.C_SEEN]) >= len(state.seen)
        anything = any(full.values())
        for name, is_full in full.items():
            if is_full or not anything:
                made[name] = self._longer(name)
        self.state = state.replaced(**made)

    def _longer(self, name: str) -> Any:
        array = getattr(self.state, name)
        if name == "table":
            return rows.rehashed(array, 2 * len(array))
        if name == "seen":
            return moment.seen_again(array, int(self.state.counters[layout.C_STAMP]), 2 * len(array))
        return longer(array, 2 * len(array))

    # Columns.

    def _columns(self, batch: Batch, lists: Any, together: Any = None) -> Events:
        names = self.assembler.columns.names
        count = len(batch)
        width = max(len(names), 1)
        if len(self._room[0]) < width * count:
            self._room = np.empty(2 * width * count, np.uint8), np.empty(2 * width * count, np.int64)
        tags = self._room[0][: width * count].reshape(width, count)
        payload = self._room[1][: width * count].reshape(width, count)
        pieces = batch.pieces
        for place, name in enumerate(names):
            if len(pieces) == 1:
                self._fill_one(tags[place], payload[place], batch, name)
                continue
            for piece, places in pieces:
                some_tags, some_payload = np.empty(len(piece), np.uint8), np.empty(len(piece), np.int64)
                self._fill_one(some_tags, some_payload, piece, name)
                tags[place, places], payload[place, places] = some_tags, some_payload
        if together is None:
            together = _NOT_TOGETHER
        return Events(
            types=batch.types,
            lists=lists,
            lo=batch.lo,
            hi=batch.hi,
            tags=tags,
            payload=payload,
            floats=payload.view(np.float64),
            together=together,
        )

    def _fill_one(self, tags: Any, payload: Any, batch: Batch, name: ColumnName) -> None:
        if isinstance(name, tuple):
            self._fill_key(tags, payload, batch, name)
        else:
            self._fill(tags, payload, batch.column(name))

    def _fill(self, tags: Any, payload: Any, column: Column | None) -> None:
        if column is None:
            tags[:] = NULL
            payload[:] = 0
            return
        tags[:] = column.tags
        payload[:] = column.payload
        if isinstance(column.tags, int) and column.tags not in (NULL, TEXT):
            return
        if column.texts is not None:
            mine = self._numbered(column.texts)
            texts = tags == TEXT
            if texts.all():
                payload[:] = mine[column.payload]
            else:
                payload[texts] = mine[column.payload[texts]]
        payload[tags == NULL] = 0

    def _numbered(self, texts: Sequence[str]) -> Any:
        known = self._dictionaries.get(id(texts))
        if known is None or known[0] is not texts or len(known[1]) != len(texts):
            known = (texts, np.array(self.texts.numbers(texts) or [0], np.int64))
            self._dictionaries = {id(texts): known} if len(self._dictionaries) > 64 else self._dictionaries
            self._dictionaries[id(texts)] = known
        return known[1]

    def _fill_key(self, tags: Any, payload: Any, batch: Batch, names: tuple[str, ...]) -> None:
        """The values of a key as numbers that are equal iff the values are; of several attributes one number."""
        if len(names) == 1:
            column = batch.column(names[0])
            self._fill(tags, payload, column)
            if column is None or not isinstance(column.tags, int) or column.tags == FLOAT:
                self._without_floats(tags, payload)
            return
        parts = []
        for name in names:
            part_tags, part_payload = np.empty(len(batch), np.uint8), np.empty(len(batch), np.int64)
            self._fill(part_tags, part_payload, batch.column(name))
            self._without_floats(part_tags, part_payload)
            parts += [part_tags.astype(np.int64), part_payload]
        numbers = self._keys.setdefault(names, {})
        distinct, inverse = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
        mine = np.array([numbers.setdefault(tuple(each), len(numbers)) for each in distinct.tolist()], np.int64)
        payload[:] = mine[inverse.reshape(-1)] if len(mine) else 0
        tags[:] = INTEGER
        for kinds in parts[::2]:
            tags[kinds == NULL] = NULL

    def _without_floats(self, tags: Any, payload: Any) -> None:
        """Floats that are whole numbers as such: they are equal."""
        floats = tags == FLOAT
        if floats.any():
            values = payload.view(np.float64)
            whole = floats & (values >= -(2.0**63)) & (values < 2.0**63)
            whole[whole] = values[whole] == np.floor(values[whole])
            payload[whole] = values[whole].astype(np.int64)
            tags[whole] = INTEGER
