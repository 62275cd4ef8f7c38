"""The memory of patterns that were removed is used again, and nothing that is still referred to is."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.kernel.start_lookup import slot_of
from distced.detectors.columnar.loop import Loop
from distced.detectors.columnar.program.free_list import FreeList
from distced.detectors.columnar.program.start_table import StartTable
from distced.detectors.columnar.results import store
from distced.detectors.columnar.word_offsets import TAG_BITS
from distced.detectors.compiler import compile_pattern
from distced.middleware.model.events import Event
from tests.support.bounds_checked import BoundsChecked
from tests.support.pattern_churn import automata_of, check, come_and_go, some_events


@pytest.mark.parametrize("seed", range(16))
def test_patterns_that_come_and_go_find_what_each_finds_by_itself(seed: int) -> None:
    come_and_go(seed)


@pytest.mark.parametrize("seed", range(16))
def test_patterns_move_between_a_loop_with_others_and_engines_of_their_own(seed: int) -> None:
    """With their state, while events flow, in order or not."""
    come_and_go(seed, moves=True, steps=15)


@pytest.mark.properties
def test_many_patterns_come_and_go_with_the_same_results() -> None:
    for seed in range(5_000):
        come_and_go(seed, spoil=seed % 2 == 0)
        come_and_go(seed, spoil=seed % 2 == 0, moves=True)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [20, pytest.param(2_000, marks=pytest.mark.properties)])
def test_patterns_come_and_go_with_bounds_checked_and_freed_words_spoiled(
    seeds: int, bounds_checked: BoundsChecked
) -> None:
    """In a process of its own: whatever is read of what was freed leads beyond an array."""
    assert bounds_checked.total("come_and_go(seed, spoil=True)", range(seeds)) > 50 * seeds


def test_program_stays_as_large_as_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST_LEFT", 20)
    random = Random(7)
    loop = Loop(())
    assembler = loop.assembler
    live: dict[int, object] = {}
    automata = automata_of(random, 400)
    most = (0,) * 6
    for turn in range(3000):
        automaton = random.choice(automata)
        live[loop.add(automaton).number] = automaton
        if len(live) > random.randrange(100):
            number = random.choice(list(live))
            loop.remove(number)
            del live[number]
        if turn % 100 == 0:
            loop.feed(Batch.of_events(some_events(random, 10 * turn, 5)))
        if turn < 400:
            most = tuple(map(max, most, assembler.sizes()))  # type: ignore[arg-type]
        else:
            sizes = assembler.sizes()
            assert all(each <= 3 * limit for each, limit in zip(sizes, most, strict=True)), (sizes, most)
    assert assembler.records.room.end < 4 * most[0]
    assert len(assembler.starts.entries) <= 1024
    assert len(assembler.whens) < 100
    assert len(loop.composites._made) <= len(live)
    assert assembler.writer.names.keys() == assembler.units.keys() == live.keys()
    for number in live:
        loop.remove(number)
    loop._collect()
    check(assembler)
    # Nothing is left but what types know.
    for _ in range(len(assembler._swept)):
        loop.remove(loop.add(automata[0]).number)
        loop._collect()
    check(assembler)
    sizes = assembler.sizes()
    assert (sizes.entries, sizes.groups, sizes.values) == (0, 0, 1)
    assert sizes.words < 400
    assert not assembler.nodes
    assert not assembler.sharing.made


def test_removals_trigger_compactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST_LEFT", 5)
    loop = Loop(compile_pattern(f"[A] ; [B where v == {number}]").automaton for number in range(10))
    loop.feed(Batch.of_events([Event("A", 1, 1, "s", 1, {})]))
    for number in range(9):
        loop.remove(number)
    assert loop.assembler.removed == 3
    first = loop.add(compile_pattern("[C]").automaton)
    assert first.number == 0
    assert loop.state.fired[0].tolist() == [word_offsets.NONE, word_offsets.NONE, 1]


@pytest.mark.parametrize("fed", [False, True])
def test_matches_are_those_of_a_pattern_that_was_removed(fed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another one has its number."""
    monkeypatch.setattr(store, "LEAST_LEFT", 0)
    gone, other = (compile_pattern(text).automaton for text in ("[A as x] -> Old(v = x.v)", "[A] -> New(w = 1)"))
    loop = Loop([gone])
    matches = loop.feed(Batch.of_events([Event("A", 1, 1, "s", 1, {"v": 3})]))
    loop.remove(0)
    assert loop.add(compile_pattern("[B]").automaton).number == 0
    loop.remove(0)
    assert loop.add(other).number == 0
    if fed:
        loop.feed(Batch.of_events([Event("A", 2, 2, "s", 2, {"v": 4})])).events()
    assert [(each.type, each.attributes) for each in matches.events()] == [("Old", {"v": 3})]


def test_removed_pattern_reports_nothing_again() -> None:
    loop = Loop([compile_pattern("[A] ~[B]*").automaton])
    assert len(loop.events_of(loop.feed(Batch.of_events([Event("A", 1, 1, "s", 1, {})])))) == 1
    again = loop.feed(Batch.of_events([Event("B", 2, 2, "s", 2, {})]))
    assert len(again) == 1
    loop.remove(0)
    assert loop.events_of(again) == []
    loop.feed(Batch.of_events([]))
    assert not loop.composites._made


def test_an_instance_goes_on_when_the_pattern_that_began_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST_LEFT", 0)
    texts = [f"[A] ; [B] ; [C where v == {number} <= C] within 1min" for number in range(3)]
    loop = Loop(compile_pattern(text).automaton for text in texts)
    loop.feed(Batch.of_events([Event("A", 1, 1, "s", 1, {})]))
    loop.remove(0)
    for number in range(20):
        loop.remove(loop.add(compile_pattern(f"[C where v == {number}] ; [D] within {1 + number}ns").automaton).number)
    found = loop.feed(Batch.of_events([Event("B", 2, 2, "s", 2, {}), Event("C", 3, 3, "s", 3, {"v": 2})]))
    assert found.units.tolist() == [2]


@pytest.mark.parametrize("seed", range(10))
def test_free_list_gives_each_range_once(seed: int) -> None:
    random = Random(seed)
    room = FreeList(3)
    taken: dict[int, int] = {}
    most = 0
    for _ in range(2000):
        if taken and random.random() < random.choice((0.4, 0.6)):
            start = random.choice(list(taken))
            room.give(start, taken.pop(start))
        else:
            length = random.choice((1, 2, 3, 5, 8, 40))
            start = room.take(length)
            assert start not in taken
            taken[start] = length
        at = 3
        for start, length in sorted([*taken.items(), *room.free()]):
            assert start == at
            at += length
        assert at == room.end
        most = max(most, sum(taken.values()))
    for start, length in taken.items():
        room.give(start, length)
    assert sum(length for _, length in room.free()) == room.end - 3 < 3 * most


@pytest.mark.parametrize("seed", range(10))
def test_start_entries_are_found_at_their_places(seed: int) -> None:
    random = Random(seed)
    starts = StartTable()
    expected: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
    slots: dict[tuple[int, int, int], int] = {}
    rebuilt, move = 0, 0
    for _ in range(3000):
        many = random.choice((3, 30, 3000))
        tags = random.choice((0, 1, 1, 1))
        value = random.randrange(many) if tags else 0
        name = ((random.randrange(10) << 2 * TAG_BITS | tags) + 1, value, 0)
        if expected and random.random() < 0.45:
            name = random.choice(list(expected))
            visit, gone = random.choice(sorted(expected[name]))
            starts.remove(*name, gone)
            expected[name].remove((visit, gone))
            if not expected[name]:
                del expected[name]
        else:
            move += 1
            starts.add(*name, (move + 5, move, 1, -1, -1), (0.0, 0.0, 0.0, move))
            expected.setdefault(name, set()).add((move + 5, move))
        if starts.rebuilt == rebuilt:
            assert all(slot == slot_of(starts.lookup, *each) for each, slot in slots.items())
        rebuilt = starts.rebuilt
        general = [each for each in expected if (each[0] - 1) % (1 << 2 * TAG_BITS) == 0]
        slots = slots | {each: int(slot_of(starts.lookup, *each)) for each in general}
        slots = {each: int(slot_of(starts.lookup, *each)) for each in slots}
    for name, found in expected.items():
        row = starts.lookup[slot_of(starts.lookup, *name)]
        offset, length, capacity = row[word_offsets.I_OFFSET :].tolist()
        assert length <= capacity <= 4 * length
        assert set(map(tuple, starts.entries[offset : offset + length, :2].tolist())) == found
        assert (
            starts.bounds[offset : offset + length, 3].tolist() == starts.entries[offset : offset + length, 1].tolist()
        )
    there = starts.lookup[:, word_offsets.I_NAME] != 0
    assert starts.names == there.sum() == len(expected.keys() | slots.keys())
