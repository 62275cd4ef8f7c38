"""Patterns that come and go while events flow, and what they take: each finds what it finds by itself, and every word
of the program is either used by one record or free."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from detectors.automata.automaton import Automaton
from detectors.columnar import keeping, layout
from detectors.columnar.columns import Batch
from detectors.columnar.freeing import Freeing
from detectors.columnar.looping import Loop
from detectors.columnar.program import Assembler, supports
from detectors.columnar.stretches import Stretches
from detectors.compilation import Compiled, compile_pattern
from detectors.stepwise.engine import StepwiseEngine
from middleware.errors import PatternError
from middleware.events import CompositeEvent, Event
from tests.comparing import compiled
from tests.generate import PatternMaker
from tests.streams import told

POISON = 2**30
"""What stands in words that are free: used as an address it is beyond everything, as a count there is no end."""

CROWD = 100
"""A pattern with more instances is removed."""

STEPS = ("A", "B", "A where v == 1", "B where v > 0", "A where v == 1 and k == 2", "B where v < 2 and k == 1", "C")
DOMAINS = ("", " <= {A, B}", " <= A", " <= B where v > 0", " <= {A, B, C}", " <= any")
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
)


class PoisonedStretches(Stretches):
    """Spoils what is given back."""

    assembler: Any = None

    def give(self, start: int, length: int) -> None:
        self.assembler._memory[start : start + length] = POISON
        super().give(start, length)


def poison(loop: Loop) -> None:
    """Have whatever is freed in a program be spoiled; the program has to be empty so far."""
    room = PoisonedStretches(1)
    room.assembler = loop.assembler
    loop.assembler._room = room


def come_and_go(seed: int, *, most: int = 12, steps: int = 25, spoil: bool = False, checked: int = 5) -> int:
    """Have patterns come and go as a seed says, and hold what is found to what each finds by itself; how much that was.

    Args:
        most: so many are there at once, at most.
        checked: each so many steps all that is placed is looked at.
    """
    random = Random(f"come and go {seed}")
    least_left, keeping.LEAST_LEFT = keeping.LEAST_LEFT, random.choice((0, 0, 2, 10))  # type: ignore[misc]
    try:
        return _come_and_go(random, most, steps, spoil, checked)
    finally:
        keeping.LEAST_LEFT = least_left  # type: ignore[misc]


def _come_and_go(random: Random, most: int, steps: int, spoil: bool, checked: int) -> int:
    kept = random.random() < 0.1
    loop = Loop((), shared=random.random() < 0.9, indexed=random.random() < 0.95, reads=kept)
    if spoil:
        poison(loop)
    alone: dict[int, tuple[StepwiseEngine, Compiled]] = {}
    share = random.random()
    now = count = 0
    for step in range(steps):
        changes = random.choice((0, 1, 3, most))
        for _ in range(changes):
            if alone and random.random() < len(alone) / most:
                number = random.choice(list(alone))
                loop.remove(number)
                del alone[number]
            else:
                pattern = a_pattern(random, share)
                number = loop.add(pattern.automaton).number
                assert number not in alone
                alone[number] = StepwiseEngine([pattern]), pattern
        events = some_events(random, now + 1, random.choice((3, 12)))
        now = events[-1].hi
        matches = loop.feed(Batch.of_events(events))
        expected = {number: engine.feed(events) for number, (engine, _) in alone.items()}
        # What was removed may still be asked for what it found.
        there = dict(alone)
        if random.random() < 0.3 and alone:
            for number in random.sample(sorted(alone), random.randrange(len(alone) + 1)):
                loop.remove(number)
                del alone[number]
            pattern = a_pattern(random, share)
            number = loop.add(pattern.automaton).number
            alone[number] = StepwiseEngine([pattern]), pattern
        count += _compare(loop.events_of(matches), expected, there)
        if random.random() < 0.4:
            now += random.choice((1, 5))
            found = loop.events_of(loop.advance(now))
            _compare(found, {number: engine.advance(now) for number, (engine, _) in alone.items()}, alone)
        if step % checked == 0:
            check(loop.assembler)
        for number in [number for number, (engine, _) in alone.items() if engine.live_instances() > CROWD]:
            # The instances of some grow with each event by as many as there are.
            loop.remove(number)
            del alone[number]
    for number in alone:
        loop.remove(number)
    loop._collect()
    check(loop.assembler)
    return count


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
        assert told(own.get(name, [])) == told(composites), texts[name]
    return len(found)


def a_pattern(random: Random, share: float = 0.5) -> Compiled:
    """A pattern for the loop: a chain of steps out of few, so that many begin alike, or anything else.

    Args:
        share: how many are chains.
    """
    while True:
        try:
            if random.random() < share:
                pattern = compile_pattern(_chain(random))
            elif random.random() < 0.4:
                pattern = compile_pattern(random.choice(OTHERS).format(random.randrange(9), random.randrange(1, 9)))
            else:
                pattern = compiled(PatternMaker(random).publication(random.randrange(1, 8)))
        except (PatternError, ValueError):
            # Such as can never match.
            continue
        if supports(pattern.automaton) and not pattern.automaton.parts and not _reads_itself(pattern):
            return pattern


def _chain(random: Random) -> str:
    steps = []
    for _ in range(random.randrange(1, 4)):
        step = random.choice(STEPS[: random.choice((2, 4, 7))])
        steps.append(f"[{step}{random.choice(DOMAINS[: random.choice((1, 1, 2, 6))])}]")
    return random.choice((" ; ", " ; ", " ")).join(steps) + random.choice(SUFFIXES)


def _reads_itself(pattern: Compiled) -> bool:
    output = pattern.automaton.output
    return output is not None and output.type_name in pattern.names()


def some_events(random: Random, first: int, count: int) -> list[Event]:
    """Events in order, of types that patterns name, and now and then of one that was never seen."""
    return [
        Event(
            random.choice("ABBC") if random.random() < 0.95 else f"N{random.randrange(12)}",
            at - random.choice((0, 0, 2)),
            at,
            "s",
            at,
            {"v": random.choice((0, 1, 1.0, 2, 0.5, None)), "k": random.choice((0, 1, 2, 2.0, None))},
        )
        for at in range(first, first + count)
    ]


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
    memory = assembler._memory
    room, wides, constants, whens = _Noted(), _Counted(), _Counted(), list[int]()
    freeing = Freeing(memory, room, wides, constants, whens)  # type: ignore[arg-type]
    constants.counts[assembler._nothing] += 1
    records = set[int]()
    states = {state: node.rooms for state, node in assembler.nodes.items()}
    for node in assembler.nodes.values():
        for visit in node.visits.values():
            moves = memory[visit + layout.V_MOVES]
            assert memory[visit + layout.V_NEED] == memory[moves] <= len(node.patterns)
    for unit in assembler.units.values():
        records.add(unit.address)
        freeing.code(int(memory[unit.address + layout.U_FILTER]))
        states |= {state: {} for state in unit.states if state and state not in states}
    records |= {node.maker for node in assembler.nodes.values()}
    for state, rooms in states.items():
        freeing.visits(state, rooms)
        value = int(memory[state + layout.S_VALUE])
        if value >= 0 and value != assembler._nothing:
            constants.release(value)
    for begun in assembler._begun.values():
        for visit in {each.visit for each in begun}:
            freeing.visit(visit)
    for known in assembler._types.values():
        for width, address in zip((2, 3), known.lists, strict=True):
            if address:
                room.give(address, 1 + width * int(memory[address]))
    for left in (*assembler._left, *assembler._swept):
        assert not records & set(left.units) and not states.keys() & set(left.states)
        freeing.left(left)
    for state in states:
        timers = int(memory[state + layout.S_TIMERS])
        if timers:
            room.give(timers - 1, 1 + int(memory[timers - 1]))
        room.give(state, layout.STATE)
    for record in records:
        room.give(record, layout.UNIT)
        if memory[record + layout.U_WINDOW] >= 0:
            wides.release(int(memory[record + layout.U_WINDOW]))
    at = 1
    for start, length in sorted([*room.given, *assembler._room.free()]):
        assert start == at, "words that are used twice" if start < at else "words that are lost"
        at = start + length
    assert at == assembler._room.end
    for pool, counted in ((assembler._wides, wides), (assembler._constants, constants)):
        assert {number: count for number, count in enumerate(pool._counts) if count} == dict(counted.counts)
    assert sorted([*whens, *assembler._free_whens]) == list(range(len(assembler.whens)))
    _check_starts(assembler)


def _check_starts(assembler: Assembler) -> None:
    starts = assembler._starts
    entries = [each for begun in assembler._begun.values() for each in begun]
    assert starts.count == len(entries) == len(starts._places)
    rows = starts.lookup[starts.lookup[:, layout.I_NAME] != 0].tolist()
    assert starts.names == len(rows)
    placed = {tuple(row[:3]): row for row in rows}
    for each in entries:
        _, _, _, offset, length, _ = placed[each.name, each.one, each.other]
        place = starts._places[each.move]
        assert place < length
        assert starts.entries[offset + place, :2].tolist() == [each.visit, each.move]
    at = 0
    spans = [(row[layout.I_OFFSET], row[layout.I_CAPACITY]) for row in rows if row[layout.I_CAPACITY]]
    for start, length in sorted([*spans, *starts.room.free()]):
        assert start == at
        at = start + length
    assert at == starts.room.end


def automata_of(random: Random, count: int) -> list[Automaton]:
    """So many different automata of all kinds."""
    found: dict[str, Automaton] = {}
    while len(found) < count:
        automaton = a_pattern(random).automaton
        found[automaton.canonical_id] = automaton
    return list(found.values())
