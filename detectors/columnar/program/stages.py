"""Stages before the automata, by column: throttled types, aggregates over sliding windows, values of computed keys.

The same as those of the stepwise engine (`stepwise.throttling`, `stepwise.sliding`), for a batch at once: a stage is a
compiled loop over the columns that it reads, whose results are one column more. Expressions are code of the condition
VM. States, the last values of types, are not among them: each is kept with the place of its event in consumption,
source and number included, which columns do not have; the events of patterns that read them are marked one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch, Column
from distced.detectors.columnar.batch.marked_batch import MarkedBatch
from distced.detectors.columnar.batch.packing import ColumnPacker
from distced.detectors.columnar.batch.values import NULL, TEXT, Texts, plain
from distced.detectors.columnar.kernel import key_table, sliding_windows, throttle
from distced.detectors.columnar.program.condition_code import NameSlots, fits
from distced.detectors.columnar.program.record_space import RecordSpace
from distced.detectors.columnar.state import (
    Events,
    LoopState,
    Program,
    StageState,
    Words,
    empty_stage,
    empty_state,
    longer,
)
from distced.detectors.language.computed import Computation
from distced.detectors.language.derived import Throttling
from distced.detectors.stepwise.throttling import Stage
from distced.middleware.patterns.tree import When
from distced.middleware.sets.expressions import TRUE, Expression, Name

_FUNCTIONS: Final = {
    "count": word_offsets.COUNT,
    "sum": word_offsets.SUM,
    "avg": word_offsets.AVG,
    "min": word_offsets.MIN,
    "max": word_offsets.MAX,
    "first": word_offsets.FIRST_VALUE,
    "distinct": word_offsets.DISTINCT,
}
_SUMS: Final = (word_offsets.SUM, word_offsets.AVG)

TEXTS: Final = 65_536
"""Number of further texts at least after which those that no stage holds are forgotten."""


class Calls(Protocol):
    """Calls of compiled code into Python (`columnar.python_calls`)."""

    @property
    def address(self) -> int: ...

    def check(self) -> None:
        """Raise the pending exception, if any."""
        ...


_Step: TypeAlias = Callable[[int], int]
"""Runs a stage until an event; the reason for stopping."""


def are_columnar(throttlings: Sequence[Throttling], computations: Sequence[Computation]) -> bool:
    """Whether these stages run by column."""
    read: list[Expression] = [value for each in computations for _, value in each.values]
    for throttling in throttlings:
        if throttling.state is not None:
            return False
        read.append(throttling.condition)
        if throttling.sliding is not None:
            read.append(throttling.sliding.argument)
    return all(map(fits, read))


class ColumnStages:
    """Stages of patterns, each after those it builds on.

    Attributes:
        types: those whose events they look at.
    """

    def __init__(
        self,
        throttlings: Sequence[Throttling],
        computations: Sequence[Computation],
        calls: Callable[[LoopState, Texts, Sequence[When]], Calls],
    ) -> None:
        """Args: calls: maker of the calls into Python."""
        self._throttlings, self._computations, self._calls = throttlings, computations, calls
        computed = frozenset(name for each in computations for name, _ in each.values)
        self.types = computed.union(*(each.types for each in throttlings))
        self._marks = [each.mark for each in computations] + [each.mark for each in throttlings]
        self._begin()

    def _begin(self) -> None:
        """Make everything that has numbers of texts: the dictionary, code, and empty stages."""
        self.texts = Texts()
        self._packer = ColumnPacker(self.texts)
        self.records = RecordSpace(self.texts)
        self._names = NameSlots(
            {},
            {},
            self.records.columns.place,
            self.records.constant,
            self.records.place_code,
            self.records.place_list,
        )
        self._state = empty_state()
        self._callback = self._calls(self._state, self.texts, ())
        self._state.counters[word_offsets.C_CALLBACK] = self._callback.address
        self._computed = [
            (self.records.columns.place(each.mark), [(name, self._names.value(value)) for name, value in each.values])
            for each in self._computations
        ]
        self._stages = [_made(each, self) for each in self._throttlings]
        self._program = _program(self.records)
        self._forget_at = TEXTS

    def _forget_texts(self) -> None:
        """Begin with the texts that stages still hold: the dictionary grows with those of all events.

        Next time after as many as there are values now, so that an event costs the same however many there are.
        """
        packed = [each.packed() for each in self._stages]
        self._begin()
        for stage, content in zip(self._stages, packed, strict=True):
            stage.unpack(content)
        self._forget_at = len(self.texts.texts) + max(TEXTS, self.held)

    def marked(self, batch: Batch) -> Batch:
        """A batch behind all those before, with a column for each stage."""
        numbers = {name: number for number, name in enumerate(batch.type_names) if name in self.types}
        if not numbers or not len(batch):
            return batch
        columns = self.records.columns
        nothing = Column(NULL, np.broadcast_to(np.int64(0), len(batch)))
        tags, payload = self._packer.pack(MarkedBatch(batch, dict.fromkeys(self._marks, nothing)), columns.names)
        events = Events(
            types=batch.types,
            lists=_NO_LISTS,
            lo=batch.lo,
            hi=batch.hi,
            tags=tags,
            payload=payload,
            floats=payload.view(np.float64),
            together=_NOT_TOGETHER,
        )
        program, state, count = self._program, self._state, len(batch)
        for out, values in self._computed:
            for name, code in values:
                if name in numbers:
                    throttle.compute(program, events, state, numbers[name], code, out, count)
        for stage in self._stages:
            kind = numbers.get(stage.throttling.type_name)
            if kind is not None:
                stage.run(partial(stage.step, program, events, state, kind), count)
        self._callback.check()
        marks = {mark: self._column(mark, tags, payload) for mark in self._marks}
        if len(self.texts.texts) >= self._forget_at:
            self._forget_texts()
        return MarkedBatch(batch, marks)

    def code(self, condition: Expression) -> int:
        """Address of the code of a condition; 0 for none."""
        return 0 if condition == TRUE else self._names.condition(condition)

    def value(self, value: Expression) -> int:
        """Address of the code of a value."""
        return self._names.value(value)

    def hand_over(self, engine_stages: Sequence[Stage]) -> None:
        """Copy the states into those of the stepwise engine."""
        mine = {each.throttling.mark: each for each in self._stages}
        for stage in engine_stages:
            if (own := mine.get(stage.throttling.mark)) is not None:
                stage.unpack(own.packed())

    def take_over(self, engine_stages: Sequence[Stage]) -> None:
        """Load the states of those of the stepwise engine."""
        theirs = {each.throttling.mark: each for each in engine_stages}
        for stage in self._stages:
            stage.unpack(theirs[stage.throttling.mark].packed())

    @property
    def held(self) -> int:
        """Number of keys and of values in windows."""
        return sum(each.held for each in self._stages)

    def memory(self) -> int:
        """Bytes of the arrays and the texts."""
        arrays: int = sum(getattr(each.own, name).nbytes for each in self._stages for name in StageState.arrays)
        return arrays + sum(map(len, self.texts.texts))

    def key_values(self, key: object) -> list[tuple[int, int]]:
        """Tags and bits of a key in the form of the stepwise engine."""
        values = key if isinstance(key, tuple) and not _is_boolean(key) else (key,)
        return [self.texts.packed(plain(each[0] if isinstance(each, tuple) else each)) for each in values]

    def _column(self, mark: str, tags: Any, payload: Any) -> Column:
        row = self.records.columns.place(mark)
        mine, words = tags[row].copy(), payload[row].copy()
        texts = mine == TEXT
        if not texts.any():
            return Column(mine, words)
        # The dictionary of the batch alone: that of all batches grows.
        numbers, words[texts] = np.unique(words[texts], return_inverse=True)
        return Column(mine, words, [self.texts.texts[number] for number in numbers.tolist()])


_NO_LISTS: Final = np.zeros((1, 3), np.int32)
_NOT_TOGETHER: Final = np.empty(0, np.int32)


class _ColumnStage(ABC):
    """A stage with arrays that grow on demand."""

    def __init__(self, throttling: Throttling, stages: ColumnStages, *, sums: bool = False) -> None:
        self.throttling = throttling
        self.stages = stages
        self._sums = sums
        self._by = [stages.records.columns.place(name) for name in throttling.by]
        self._condition = stages.code(throttling.condition)
        self._out = stages.records.columns.place(throttling.mark)
        self.own = self._empty()

    def _empty(self) -> StageState:
        made = empty_stage(self._by, sums=self._sums)
        made.counters[word_offsets.C_SWEEP] = throttle.SWEEP
        return made

    @abstractmethod
    def step(self, program: Program, events: Events, state: LoopState, kind: int, until: int) -> int:
        """Run until an event; the reason for stopping."""

    @abstractmethod
    def packed(self) -> dict[object, Any]:
        """The state as that of the stepwise stage."""

    @abstractmethod
    def unpack(self, passed: dict[object, Any]) -> None:
        """Continue from a state of the stepwise stage."""

    @property
    def held(self) -> int:
        """Number of keys and of values in windows."""
        counters = self.own.counters
        ring = counters[word_offsets.C_RING_END] - counters[word_offsets.C_RING_BEGIN]
        return int(counters[word_offsets.C_SLOTS_LIVE] + ring)

    def run(self, step: _Step, until: int) -> None:
        """Run for all events of a batch."""
        self.own.counters[word_offsets.C_STAGE_EVENT] = 0
        while step(until) == word_offsets.ROOM:
            self._grow()

    def _grow(self) -> None:
        """Twice the length of what is full."""
        own = self.own
        made: dict[str, Any] = {}
        slots = int(own.counters[word_offsets.C_SLOTS])
        if own.counters[word_offsets.C_SLOT_FREE] < 0 and slots == len(own.windows):
            made |= {name: longer(getattr(own, name), 2 * slots, 0) for name in ("keys", "windows")}
            made["table"] = np.zeros(2 * slots, np.int64)
            if self._sums:
                made["limbs"] = longer(own.limbs, 2 * slots, 0)
        begin, end = (int(own.counters[each]) for each in (word_offsets.C_RING_BEGIN, word_offsets.C_RING_END))
        if end - begin == len(own.ring):
            made["ring"] = np.zeros((2 * len(own.ring), word_offsets.RING), np.int64)
            sliding_windows.move_ring(own.ring, made["ring"], begin, end)
        values = int(own.counters[word_offsets.C_DISTINCT])
        if own.counters[word_offsets.C_DISTINCT_FREE] < 0 and values == len(own.distinct):
            made["distinct"] = longer(own.distinct, 2 * values, 0)
            made["distinct_table"] = np.zeros(2 * values, np.int64)
        self.own = own.replaced(**made)
        if "table" in made:
            key_table.rebuild(self.own)
        if "distinct" in made:
            sliding_windows.rebuild_distinct(self.own)

    def _keys(self) -> dict[int, object]:
        """Keys by slot, in the form of the stepwise engine."""
        live = np.flatnonzero(self.own.windows[: int(self.own.counters[word_offsets.C_SLOTS]), word_offsets.W_LIVE])
        unpacked = self.stages.texts.unpacked
        found: dict[int, object] = {}
        for slot in live.tolist():
            words = self.own.keys[slot].tolist()
            values = [unpacked(*words[place : place + 2]) for place in range(0, 2 * len(self._by), 2)]
            parts = tuple((each,) if isinstance(each, bool) else each for each in values)
            found[slot] = parts[0] if len(parts) == 1 else parts
        return found

    def _key_words(self, keys: Sequence[object]) -> Words:
        """The words of each of some keys."""
        words = np.zeros((len(keys), max(2 * len(self._by), 1)), np.int64)
        if self._by:
            for place, key in enumerate(keys):
                words[place] = [word for pair in self.stages.key_values(key) for word in pair]
        return words


class _Throttled(_ColumnStage):
    """Throttled type, by column."""

    def step(self, program: Program, events: Events, state: LoopState, kind: int, until: int) -> int:
        throttling = self.throttling
        mine = (kind, self._condition, throttling.every, throttling.quiet, self._out, until)
        found: int = throttle.mark(program, events, state, self.own, *mine)
        return found

    def packed(self) -> dict[object, Any]:
        values = self.own.windows[:, word_offsets.W_VALUE]
        return {key: int(values[slot]) for slot, key in self._keys().items()}

    def unpack(self, passed: dict[object, Any]) -> None:
        self.own = self._empty()
        keys, values = self._key_words(list(passed)), np.array(list(passed.values()), np.int64)
        self.run(lambda until: int(throttle.fill(self.own, keys, values, until)), len(passed))


class _Sliding(_ColumnStage):
    """Aggregate over a sliding window, by column."""

    def __init__(self, throttling: Throttling, stages: ColumnStages) -> None:
        assert throttling.sliding is not None
        self._function = _FUNCTIONS[throttling.sliding.function]
        super().__init__(throttling, stages, sums=self._function in _SUMS)
        self._length = throttling.sliding.length
        argument = throttling.sliding.argument
        self._column, self._code = -1, 0
        if isinstance(argument, Name):
            self._column = stages.records.columns.place(argument.name)
        else:
            self._code = stages.value(argument)

    def step(self, program: Program, events: Events, state: LoopState, kind: int, until: int) -> int:
        mine = (self._function, kind, self._condition, self._code, self._column, self._length, self._out, until)
        found: int = sliding_windows.slide(program, events, state, self.own, *mine)
        return found

    def packed(self) -> dict[object, Any]:
        keys = self._keys()
        found: dict[object, Any] = {key: [] for key in keys.values()}
        unpacked = self.stages.texts.unpacked
        for hi, slot, tag, bits in self._values():
            if slot >= 0:
                found[keys[slot]].append((hi, unpacked(tag, bits)))
        last = int(self.own.counters[word_offsets.C_LAST])
        return found if last == word_offsets.NONE else {**found, None: last}

    def unpack(self, passed: dict[object, Any]) -> None:
        self.own = self._empty()
        packed = self.stages.texts.packed
        windows = {key: kept for key, kept in passed.items() if key is not None}
        words = self._key_words(list(windows))
        entries = [(hi, *packed(value), place) for place, kept in enumerate(windows.values()) for hi, value in kept]
        # Those of a window stay in their order.
        rows = np.array(sorted(entries, key=lambda each: each[0]), np.int64).reshape(-1, 4)
        keys, values = words[rows[:, 3]], np.ascontiguousarray(rows[:, :3])
        self.run(lambda until: int(sliding_windows.fill(self.own, self._function, keys, values, until)), len(entries))
        if None in passed:
            self.own.counters[word_offsets.C_LAST] = passed[None]

    def _values(self) -> Iterator[list[int]]:
        """End, slot, tag and bits of each value in the windows, in order."""
        begin, end = (int(self.own.counters[each]) for each in (word_offsets.C_RING_BEGIN, word_offsets.C_RING_END))
        rows = self.own.ring[np.arange(begin, end) % len(self.own.ring)]
        yield from rows[:, : word_offsets.G_BITS + 1].tolist()


def _made(throttling: Throttling, stages: ColumnStages) -> _ColumnStage:
    return _Throttled(throttling, stages) if throttling.sliding is None else _Sliding(throttling, stages)


def _program(records: RecordSpace) -> Program:
    """The code of the expressions of stages."""
    return Program(
        memory=records.memory,
        wide=records.wides.rows,
        constants=records.constants.rows,
        lookup=np.zeros((1, 6), np.int64),
        entries=np.zeros((1, 5), np.int32),
        bounds=np.zeros((1, 4), np.float64),
    )


def _is_boolean(key: tuple[object, ...]) -> bool:
    """Whether a key is that of one boolean."""
    return len(key) == 1 and isinstance(key[0], bool)
