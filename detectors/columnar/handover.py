"""Conversion of engine state: instances as rows of numbers, and as objects of the stepwise engine.

Equal automata, so only the form differs; snapshots are those of the stepwise engine. A loop that takes over shares no
states: instances of patterns with a common prefix arrive separately, and may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch, read_of
from distced.detectors.columnar.batch.values import NULL
from distced.detectors.columnar.loop import Loop
from distced.detectors.columnar.program.condition_code import Capture
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.results.matches import bindings_of, event_at, registers_of
from distced.detectors.columnar.state import Words
from distced.detectors.columnar.word_offsets import DEAD, STATE_MASK, TAG_MASK, UNIT_SHIFT
from distced.detectors.stepwise.inner_events import TimeEvent
from distced.detectors.stepwise.instance import Instance
from distced.detectors.stepwise.matcher import Matcher
from distced.middleware.model.events import TIME, Attribute, Event


def hand_over(loop: Loop, matchers: Mapping[int, Matcher]) -> None:
    """Copy the state of patterns in a loop into new matchers, by unit."""
    state = loop.state
    mine = [loop.assembler.units[number] for number in matchers]
    units = {unit.address: unit for unit in mine}
    chains: dict[int, Any] = {}
    memory = loop.assembler.program().memory
    for unit in mine:
        matcher = matchers[unit.number]
        matcher.resume(loop.latest_of(unit.number), int(state.counters[word_offsets.C_NUMBERS]))
        matcher.late = loop.late
        matcher.composites.reported = dict(loop.composites[unit].reported)
    rows = state.rows[: int(state.counters[word_offsets.C_ROWS])]
    if len(mine) < len(loop.assembler.units):
        # Those of all others need not be looked at one by one.
        states = sorted({state for unit in mine for state in unit.states})
        rows = rows[np.isin(rows[:, word_offsets.R_STATE] & STATE_MASK, states)]
    for row in rows:
        where = int(row[word_offsets.R_STATE])
        if where in (DEAD, -1):
            continue
        record = where & STATE_MASK
        local = int(memory[record + word_offsets.S_LOCAL])
        if local < 0:
            continue
        shared = loop.assembler.nodes.get(record)
        if shared is None:
            _put(loop, units[where >> UNIT_SHIFT], local, row, matchers, chains)
            continue
        first = loop.first_of(int(row[word_offsets.R_LINK]))
        for number, place in shared.patterns.items():
            if number in matchers and first >= int(state.fired[number, 2]):
                _put(loop, loop.assembler.units[number], place, row, matchers, chains)


def _put(
    loop: Loop, unit: Unit, place: int, row: Words, matchers: Mapping[int, Matcher], chains: dict[int, Any]
) -> None:
    """Put an instance into a matcher."""
    state, store, times = loop.state, loop.store, loop.state.times
    begin = (int(row[word_offsets.R_TAG]) >> word_offsets.EXTRA_SHIFT) - 1
    block = state.extras[begin : begin + unit.extra] if unit.extra else state.extras[:0]
    windows = len(unit.automaton.windows)
    bounds = unit.variables + len(unit.automaton.variables)
    matcher = matchers[unit.number]
    matcher.store.add(
        Instance(
            place,
            key_of(loop, unit.automaton.key, int(row[word_offsets.R_TAG]) & TAG_MASK, int(row[word_offsets.R_KEY])),
            loop.chain_of(int(row[word_offsets.R_LINK]), chains),
            int(row[word_offsets.R_LO]),
            int(row[word_offsets.R_HI]),
            event_at(int(row[word_offsets.R_LAST]), store, times),
            bindings_of(unit, block, store, times),
            registers_of(unit, block, loop.texts) + inner_keys_of(loop, unit, block) + matcher.constants,
            tuple(None if each == word_offsets.LATEST else int(each) for each in block[:windows]),
            tuple(None if each == word_offsets.NONE else int(each) for each in block[windows : unit.variables]),
            tuple(
                None if each == word_offsets.NONE else int(each)
                for each in block[bounds : bounds + unit.automaton.joints]
            ),
            spent_of(loop, unit, block),
        )
    )


def take_over(loop: Loop, matchers: Mapping[int, Matcher]) -> None:
    """Load the state of matchers into a loop, by unit: one that was added apart, and has consumed nothing there."""
    taker = _Taker(loop)
    latest = loop.latest
    for number, matcher in matchers.items():
        unit = loop.assembler.units[number]
        loop.composites[unit].reported = dict(matcher.composites.reported)
        loop.late = max(loop.late, matcher.late)
        numbers = int(loop.state.counters[word_offsets.C_NUMBERS])
        loop.state.counters[word_offsets.C_NUMBERS] = max(numbers, matcher.store.numbers)
        if matcher.latest is not None:
            if matcher.latest.rank == TIME:
                loop.fired[unit.number] = matcher.latest
            if latest is None or matcher.latest.key > latest.key:
                latest = matcher.latest
        # An event that came twice may have begun the same twice; matches of equal instances would be two.
        known: dict[tuple[int, int, int], list[Instance]] = {}
        for instance in matcher.store.instances():
            alike = known.setdefault((instance.state, instance.lo, id(instance.last)), [])
            if not any(instance.key == other.key and instance.same_as(other) for other in alike):
                alike.append(instance)
                taker.take(unit, instance)
    loop.store.add(Batch.of_events(taker.events))
    loop.latest = latest
    loop.settle()


class _Taker:
    """Conversion of instances into rows; `events` are those they refer to, stored together."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.events: list[Event] = []
        self._positions: dict[int, int] = {}
        self._links: dict[int, int] = {}
        # Numbers go by identity, so nothing that was numbered may be freed meanwhile.
        self._held: list[Any] = []

    def take(self, unit: Unit, instance: Instance) -> None:
        loop = self.loop
        words = [each if each is not None else word_offsets.LATEST for each in instance.windows]
        words += [each if each is not None else word_offsets.NONE for each in instance.timers]
        words += [word_offsets.NONE if event is None else self.position(event) for event in instance.bindings]
        words += [each if each is not None else word_offsets.NONE for each in instance.bounds]
        bound = dict(zip(unit.automaton.variables, instance.bindings, strict=True))
        for capture in unit.captures:
            words += loop.texts.packed(_captured(bound, capture))
        for value in instance.registers[: len(unit.registers)]:
            words += loop.texts.packed(value)
        names = unit.automaton.inner_keys
        keys = instance.registers[len(unit.registers) : len(unit.registers) + len(names)]
        for attributes, entered in zip(names, keys, strict=True):
            words += (NULL, 0) if entered is None else loop.packer.packed_key(attributes, entered)
        if names:
            words.append(loop.add_spent(_spent(loop, names, instance)))
        tag, key = loop.packer.packed_key(unit.automaton.key, instance.key)
        last = self.position(instance.last) if instance.last is not None else word_offsets.NONE
        link = self.link(instance.chain)
        loop.put(unit, instance.state, link, instance.lo, instance.hi, last, key, tag, np.array(words, np.int64))

    def position(self, event: Event) -> int:
        """The position of an event; -1 less its number for a time event."""
        known = self._positions.get(id(event))
        if known is None:
            if isinstance(event, TimeEvent):
                known = self.loop.note_time(event.hi, event.seq, int(event.type[1:]))
            else:
                known = self.loop.store.next + len(self.events)
                self.events.append(event)
            self._positions[id(event)] = known
            self._held.append(event)
        return known

    def link(self, chain: Any) -> int:
        """The number of the last link of a chain; -1 for an empty chain."""
        waiting = []
        while chain is not None and id(chain) not in self._links:
            waiting.append(chain)
            chain = chain[0]
        number = -1 if chain is None else self._links[id(chain)]
        for each in reversed(waiting):
            number = self.loop.add_link(number, self.position(each[1]))
            self._links[id(each)] = number
            self._held.append(each)
        return number


def _captured(bound: Mapping[str, Event | None], capture: Capture) -> Attribute:
    variable, what = capture
    event = bound.get(variable)
    return None if event is None else read_of(event, what)


def _spent(loop: Loop, names: Sequence[tuple[str, ...]], instance: Instance) -> list[tuple[int, int]]:
    """The closed values of inner keys, in the row format of a loop."""
    found = []
    for (key,), (value,) in instance.spent:
        tag, payload = loop.packer.packed_key(names[key], value)
        found.append((key << word_offsets.TAG_BITS | tag, payload))
    return found


def key_of(loop: Loop, names: tuple[str, ...], tag: int, payload: int) -> Any:
    """A key in the stepwise engine's form: booleans apart from numbers, several values as a tuple."""
    if not names:
        return None
    if len(names) == 1:
        value = loop.texts.unpacked(tag, payload)
        return (value,) if isinstance(value, bool) else value
    values = (loop.texts.unpacked(*each) for each in loop.packer.key_values(names, payload))
    return tuple((value,) if isinstance(value, bool) else value for value in values)


def inner_keys_of(loop: Loop, unit: Unit, block: Words) -> tuple[Any, ...]:
    """The values of inner keys; None for one not entered."""
    return tuple(
        None if block[slot] == NULL else key_of(loop, names, int(block[slot]), int(block[slot + 1]))
        for names, slot in zip(unit.automaton.inner_keys, unit.inner_keys, strict=True)
    )


def spent_of(loop: Loop, unit: Unit, block: Words) -> frozenset[tuple[frozenset[int], tuple[object, ...]]]:
    """The closed values of inner keys."""
    if unit.spent is None:
        return frozenset()
    found: set[tuple[frozenset[int], tuple[object, ...]]] = set()
    entry = int(block[unit.spent])
    while entry > 0:
        entry, name, payload = map(int, loop.state.spent[entry - 1])
        key = name >> word_offsets.TAG_BITS
        value = key_of(loop, unit.automaton.inner_keys[key], name & TAG_MASK, payload)
        found.add((frozenset((key,)), (value,)))
    return frozenset(found)
