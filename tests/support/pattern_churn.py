"""Patterns that come and go while events flow, and what they take: each finds what it finds by itself, and every word
of the program is either used by one record or free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar import state as engine_state
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.batch.merging import together_by_instant
from distced.detectors.columnar.handover import hand_over, take_over
from distced.detectors.columnar.loop import Loop
from distced.detectors.columnar.program.free_list import FreeList
from distced.detectors.columnar.program.program import Assembler
from distced.detectors.columnar.program.record_space import RecordRelease
from distced.detectors.columnar.program.units import supports
from distced.detectors.columnar.results import store
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Keyed, Pattern
from tests.support.event_streams import comparable
from tests.support.random_patterns import FEATURES, PatternMaker

POISON = 2**30
"""What stands in words that are free: used as an address it is beyond everything, as a count there is no end."""

CROWD = 100
"""A pattern with more instances is removed."""

STEPS = ("A", "B", "A where v == 1", "B where v > 0", "A where v == 1 and k == 2", "B where v < 2 and k == 1", "C")
DOMAINS = ("", " <= {A, B}", " <= A", " <= B where v > 0", " <= {A, B, C}", " <= any")
BEGINNINGS = ("[A]", "[A] ; [B]", "[A where v == 1] [B <= {A, B}]", "[B] [A]")
LASTS = ("B", "B where v == 1", "B where k == 2", "B where v < 2 and k == 1", "A where v > 0")
SUFFIXES = ("", " within 6ns", " by k", " within 20ns by k")
OTHERS = (
    "[A as x] ; [B where k == x.k]",
    "[A as x] ; [{{B, C}} where v < x.v]",
    "[A as x] [B where x.k == k and v > 1] within 9ns",
    "[A as x] ; ([B where k == x.k], [Z]) @ Z = 4ns",
    "([A], [T]) @ T = 3ns",
    "[A <= any] ; [any - C]",
    "[any where v == 2] ; [any where k == 1]",
    "init s = 0 : ([A set s = s + v] ; ~[B]* [B where v < s]) within 8ns -> Sum(s = s) where s > 1",
    "([A] ; [B]) within 5ns ; ([C] | [A where k == 1])",
    "[A where v == {0}] ; [B where k == {0} <= B] within {1}ns",
    "[N{0}] ; [B <= {{B, N{1}}}]",
    "[A] ; ([B] ; [C] by k) ; [A]",
    "([A as x] ; [B where v > x.v] by k) | [C where v == {0}]",
    "[A] ; ([B where v != {0} <= {{B, C}}] ; [A] by k) within {1}ns",
    "[A as x] ; ([B where k == x.k <= {{A, B}}]+ by v) ; [C]",
    "[A] ; (([B], [Z]) @ Z = {1}ns by k) -> Late(w = {0})",
    "init s = 0 : ([A] ; ([B set s = s + 1]+ ; [C where v < s] by k)) within 9ns -> Sum(s = s)",
)


class PoisonedStretches(FreeList):
    """Spoils what is given back."""

    records: Any = None

    def give(self, start: int, length: int) -> None:
        self.records.memory[start : start + length] = POISON
        super().give(start, length)


def poison(loop: Loop) -> None:
    """Have whatever is freed in a program be spoiled; the program has to be empty so far."""
    room = PoisonedStretches(1)
    room.records = loop.assembler.records
    loop.assembler.records.room = room


def come_and_go(
    seed: int, *, most: int = 12, steps: int = 25, spoil: bool = False, checked: int = 5, moves: bool = False
) -> int:
    """Have patterns come and go as a seed says, and hold what is found to what each finds by itself; how much that was.

    Args:
        most: greatest number at a time.
        checked: number of steps between checks of all that is placed.
        moves: let patterns leave for a stepwise engine, and come back; events may be late, too.
    """
    random = Random(f"come and go {seed}")
    # With little room at first the loop stops for want of it in the middle of everything.
    few, first = random.choice((0, 0, 2, 10)), (4, 64)[seed % 2]
    with patch.object(store, "LEAST_LEFT", few), patch.object(engine_state, "FIRST", first):
        return _Traffic(random, most, spoil=spoil, moves=moves).run(steps, checked)


class _Traffic:
    """Patterns that come and go.

    Attributes:
        loop: where they are run.
        alone: the engine that runs each by itself, by number.
        apart: patterns that have left the loop with their state, and their engines since.
        late: whether events come out of order, too.
        epochs: whether the events of an instant are consumed together.
    """

    def __init__(self, random: Random, most: int, *, spoil: bool, moves: bool) -> None:
        self.random = random
        self.most = most
        self.spoil = spoil
        self.epochs = random.random() < 0.15
        self.kept = random.random() < 0.1
        self.chains = random.random()
        # Behind a hand-over no states are shared.
        self.hands_over = random.random() < 0.2
        self.loop = self._empty(shared=random.random() < 0.9 and not self.epochs, indexed=random.random() < 0.95)
        self.alone: dict[int, tuple[StepwiseEngine, Compiled]] = {}
        self.moves = moves and not (self.epochs or self.kept)
        self.late = self.moves and random.random() < 0.3
        self.moved = 0
        self.apart: list[tuple[StepwiseEngine, StepwiseEngine, Compiled]] = []

    def run(self, steps: int, checked: int) -> int:
        """Take `steps` steps; the number of composite events."""
        random = self.random
        now = count = 0
        for step in range(steps):
            for _ in range(random.choice((0, 1, 3, self.most))):
                if self.alone and random.random() < len(self.alone) / self.most:
                    self._remove(random.choice(list(self.alone)))
                else:
                    self._add()
            if self.moves:
                self._move()
            events = some_events(random, now + 1, random.choice((3, 12)))
            now = events[-1].hi
            if self.late:
                for _ in range(3):
                    events.insert(random.randrange(len(events)), events.pop(random.randrange(len(events))))
            self._feed_apart(events, now)
            count += self._feed(events)
            if random.random() < 0.4:
                now += random.choice((1, 5))
                found = self.loop.events_of(self.loop.advance(now))
                _compare(found, {each: engine.advance(now) for each, (engine, _) in self.alone.items()}, self.alone)
                self._feed_apart((), now)
            if step % checked == 0:
                check(self.loop.assembler)
            for number in [each for each, (engine, _) in self.alone.items() if engine.live_instances() > CROWD]:
                # The instances of some grow with each event by as many as there are.
                self._remove(number)
            if self.hands_over and random.random() < 0.1:
                self._hand_over()
        for number in list(self.alone):
            self._remove(number)
        self.loop._collect()
        check(self.loop.assembler)
        return count

    def _move(self) -> None:
        """Some patterns leave the loop with their state, and some come back."""
        random = self.random
        leaving = [number for number in self.alone if random.random() < 0.2]
        engines = {number: StepwiseEngine([self.alone[number][1]]) for number in leaving}
        hand_over(self.loop, {number: engine.units[0].matcher for number, engine in engines.items()})
        coming = [each for each in self.apart if random.random() < 0.5 and len(self.alone) < self.most]
        self.apart = [each for each in self.apart if each not in coming]
        for number, engine in engines.items():
            engine.clock = self.loop.clock
            self.loop.remove(number)
            self.apart.append((engine, *self.alone.pop(number)))
        new = {}
        for engine, reference, pattern in coming:
            number = self.loop.add(pattern.automaton, apart=True).number
            new[number] = engine.units[0].matcher
            self.alone[number] = reference, pattern
        take_over(self.loop, new)
        self.moved += len(new)

    def _feed_apart(self, events: Sequence[Event], now: int) -> None:
        for engine, reference, pattern in self.apart:
            pairs = [(each.feed(events) if events else each.advance(now)) for each in (engine, reference)]
            assert comparable(pairs[0]) == comparable(pairs[1]), pattern.text

    def _feed(self, events: list[Event]) -> int:
        """Feed events to both, and compare; some patterns may go before it is asked what they have found."""
        if self.late:
            found = [each for part in self.loop.feed_any(events) for each in self.loop.events_of(part)]
            return _compare(found, {each: engine.feed(events) for each, (engine, _) in self.alone.items()}, self.alone)
        random, batch = self.random, Batch.of_events(events)
        matches = [self.loop.feed(batch, together_by_instant(batch) if self.epochs else None)]
        expected = {number: engine.feed(events) for number, (engine, _) in self.alone.items()}
        if self.epochs:
            now = events[-1].hi
            matches.append(self.loop.advance(now))
            expected = {each: expected[each] + engine.advance(now) for each, (engine, _) in self.alone.items()}
        there = dict(self.alone)
        if random.random() < 0.3 and self.alone:
            for number in random.sample(sorted(self.alone), random.randrange(len(self.alone) + 1)):
                self._remove(number)
            self._add()
        return _compare([found for each in matches for found in self.loop.events_of(each)], expected, there)

    def _add(self) -> None:
        pattern = a_pattern(self.random, self.chains, epochs=self.epochs)
        while self.late and _has_windows(pattern.automaton):
            # An instance whose window has closed may be there still when an event comes late, or not.
            pattern = a_pattern(self.random, self.chains)
        number = self.loop.add(pattern.automaton).number
        assert number not in self.alone
        self.alone[number] = StepwiseEngine([pattern]), pattern

    def _remove(self, number: int) -> None:
        self.loop.remove(number)
        del self.alone[number]

    def _empty(self, *, shared: bool, indexed: bool = True) -> Loop:
        loop = Loop((), shared=shared, indexed=indexed, reads=self.kept)
        if self.spoil:
            poison(loop)
        return loop

    def _hand_over(self) -> None:
        """Another loop in the same state, by way of the stepwise engine; it knows nothing of patterns that are gone."""
        between = {number: StepwiseEngine([pattern]) for number, (_, pattern) in self.alone.items()}
        hand_over(self.loop, {number: engine.units[0].matcher for number, engine in between.items()})
        made = self._empty(shared=False)
        made.clock = self.loop.clock
        numbers = {made.add(pattern.automaton).number: number for number, (_, pattern) in self.alone.items()}
        take_over(made, {new: between[number].units[0].matcher for new, number in numbers.items()})
        self.loop, self.alone = made, {new: self.alone[number] for new, number in numbers.items()}


def _compare(
    found: list[CompositeEvent],
    expected: dict[int, list[CompositeEvent]],
    there: dict[int, tuple[StepwiseEngine, Compiled]],
) -> int:
    own: dict[str, list[CompositeEvent]] = {}
    for each in found:
        own.setdefault(each.source, []).append(each)
    by_name: dict[str, list[CompositeEvent]] = {}
    for number, composites in expected.items():
        by_name.setdefault(there[number][1].automaton.canonical_id, []).extend(composites)
    texts = {pattern.automaton.canonical_id: pattern.text for _, pattern in there.values()}
    assert own.keys() <= by_name.keys()
    for name, composites in by_name.items():
        assert comparable(own.get(name, [])) == comparable(composites), texts[name]
    return len(found)


class InnerKeys(PatternMaker):
    """Makes patterns with inner keys more often than not."""

    def pattern(self, size: int, timers: tuple[str, ...]) -> Pattern:
        made = super().pattern(size, timers)
        return Keyed(made, (self.random.choice("kkv"),)) if size > 1 and self.random.random() < 0.3 else made


def a_pattern(random: Random, share: float = 0.5, *, epochs: bool = False) -> Compiled:
    """A pattern for the loop: a chain of steps out of few, so that many begin alike, or anything else.

    Args:
        share: how many are chains.
        epochs: consume the events of an instant together.
    """
    while True:
        try:
            if random.random() < share:
                text = _chain(random)
            elif random.random() < 0.4:
                text = random.choice(OTHERS).format(random.randrange(9), random.randrange(1, 9))
            else:
                maker = random.choice((PatternMaker, InnerKeys))(random, FEATURES - {"parallel"})
                text = format_publication(maker.publication(random.randrange(1, 8)))
            pattern = compile_pattern(text, consumption="epoch" if epochs else "ordered")
        except (PatternError, ValueError):
            # Such as can never match.
            continue
        if supports(pattern.automaton) and not _reads_itself(pattern):
            return pattern


def _chain(random: Random) -> str:
    """Steps one after the other; more often than not they begin, and look at the same, as others do."""
    if random.random() < 0.6:
        last = f"[{random.choice(LASTS)} <= {random.choice(('B', '{A, B}', '{A, B}'))}]"
        further = random.choice(("", "", " ; [C]"))
        return f"{random.choice(BEGINNINGS)} ; {last}{further}{random.choice(SUFFIXES[: random.choice((1, 2, 4))])}"
    steps = []
    for _ in range(random.randrange(1, 4)):
        step = random.choice(STEPS[: random.choice((2, 4, 7))])
        steps.append(f"[{step}{random.choice(DOMAINS[: random.choice((1, 1, 2, 6))])}]")
    return random.choice((" ; ", " ; ", " ")).join(steps) + random.choice(SUFFIXES)


def _has_windows(automaton: Automaton) -> bool:
    return automaton.whole_window is not None or bool(automaton.windows)


def _reads_itself(pattern: Compiled) -> bool:
    output = pattern.automaton.output
    return output is not None and output.type_name in pattern.names()


def some_events(random: Random, first: int, count: int) -> list[Event]:
    """Events in order, some at one instant, of types that patterns name, now and then of one that was never seen."""
    events, at = [], first
    for each in range(count):
        name = random.choice("ABBC") if random.random() < 0.95 else f"N{random.randrange(12)}"
        attributes = {"v": random.choice((0, 1, 1.0, 2, 0.5, None)), "k": random.choice((0, 1, 2, 2.0, None))}
        events.append(Event(name, at - random.choice((0, 0, 2)), at, "s", 100 * at + each, attributes))
        at += random.choice((0, 1, 1))
    return sorted(events, key=lambda event: event.key)


class _Counted:
    """A pool of which it is counted what is released."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def release(self, number: int) -> None:
        self.counts[number] += 1


class _Noted:
    """What would be given back."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []

    def give(self, start: int, length: int) -> None:
        self.given.append((start, length))


def check(assembler: Assembler) -> None:
    """Take all apart without freeing it: there is no word that two records have, and none that is lost."""
    placed, beginnings = assembler.records, assembler.start_index
    memory = placed.memory
    room, wides, constants, whens = _Noted(), _Counted(), _Counted(), list[int]()
    release = RecordRelease(memory, room, wides, constants, whens)  # type: ignore[arg-type]
    constants.counts[placed.nothing] += 1
    records = set[int]()
    states = {state: node.rooms for state, node in assembler.nodes.items()}
    for node in assembler.nodes.values():
        for visit in node.visits.values():
            moves = memory[visit + word_offsets.V_MOVES]
            assert memory[visit + word_offsets.V_NEED] == memory[moves] <= len(node.patterns)
    for unit in assembler.units.values():
        records.add(unit.address)
        release.code(int(memory[unit.address + word_offsets.U_FILTER]))
        states |= {state: {} for state in unit.states if state and state not in states}
    records |= {node.maker for node in assembler.nodes.values()}
    for state, rooms in states.items():
        release.visits(state, rooms)
        value = int(memory[state + word_offsets.S_VALUE])
        if value >= 0 and value != placed.nothing:
            constants.release(value)
    for begun in beginnings.begun.values():
        for visit in {each.visit for each in begun}:
            release.visit(visit)
    for known in assembler.type_index.types.values():
        for width, address in zip((2, 3), known.lists, strict=True):
            if address:
                room.give(address, 1 + width * int(memory[address]))
    for left in (*assembler._left, *assembler._swept):
        assert not records & set(left.units) and not states.keys() & set(left.states)
        release.left(left)
    for state in states:
        timers = int(memory[state + word_offsets.S_TIMERS])
        if timers:
            room.give(timers - 1, 1 + int(memory[timers - 1]))
        room.give(state, word_offsets.STATE)
    for record in records:
        room.give(record, word_offsets.UNIT)
        if memory[record + word_offsets.U_WINDOW] >= 0:
            wides.release(int(memory[record + word_offsets.U_WINDOW]))
    at = 1
    for start, length in sorted([*room.given, *placed.room.free()]):
        assert start == at, "words that are used twice" if start < at else "words that are lost"
        at = start + length
    assert at == placed.room.end
    for pool, counted in ((placed.wides, wides), (placed.constants, constants)):
        assert {number: count for number, count in enumerate(pool._counts) if count} == dict(counted.counts)
    assert sorted([*whens, *placed.free_whens]) == list(range(len(placed.whens)))
    _check_starts(assembler)


def _check_starts(assembler: Assembler) -> None:
    starts = assembler.starts
    entries = [each for begun in assembler.start_index.begun.values() for each in begun]
    assert starts.count == len(entries) == len(starts._places)
    rows = starts.lookup[starts.lookup[:, word_offsets.I_NAME] != 0].tolist()
    assert starts.names == len(rows)
    placed = {tuple(row[:3]): row for row in rows}
    for each in entries:
        _, _, _, offset, length, _ = placed[each.name, each.one, each.other]
        place = starts._places[each.move]
        assert place < length
        assert starts.entries[offset + place, :2].tolist() == [each.visit, each.move]
    at = 0
    spans = [(row[word_offsets.I_OFFSET], row[word_offsets.I_CAPACITY]) for row in rows if row[word_offsets.I_CAPACITY]]
    for start, length in sorted([*spans, *starts.room.free()]):
        assert start == at
        at = start + length
    assert at == starts.room.end


def automata_of(random: Random, count: int) -> list[Automaton]:
    """Different automata of all kinds."""
    found: dict[str, Automaton] = {}
    while len(found) < count:
        automaton = a_pattern(random).automaton
        found[automaton.canonical_id] = automaton
    return list(found.values())
