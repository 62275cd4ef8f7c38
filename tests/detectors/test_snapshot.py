"""A snapshot is the whole state: an engine restored from it goes on as if nothing had happened."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_pattern, compile_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.instance import chain_events
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError, SnapshotError
from distced.middleware.model.events import CompositeEvent, Event
from tests.support.random_patterns import PatternMaker, make_events


def _comparable(found: list[CompositeEvent]) -> list[object]:
    return sorted((e.type, e.id, e.lo, e.hi, e.constituents, repr(sorted(e.attributes.items()))) for e in found)


def _compiled(random: Random) -> Compiled | None:
    publication = PatternMaker(random).publication(random.randrange(1, 6))
    try:
        return compile_publication(publication, consumption=random.choice(("ordered", "ordered", "epoch")))
    except PatternError:
        return None


@pytest.mark.slow
def test_a_restored_engine_goes_on_as_if_nothing_had_happened(at_length: bool) -> None:
    compared = 0
    for seed in range(20_000 if at_length else 600):
        random = Random(seed)
        pattern = _compiled(random)
        if pattern is None:
            continue
        events = make_events(random, random.randrange(2, 9))
        cut = random.randrange(len(events) + 1)
        whole = StepwiseEngine([pattern])
        expected = whole.feed(events) + whole.finish()
        first = StepwiseEngine([pattern])
        found = first.feed(events[:cut])
        second = StepwiseEngine([pattern])
        content = snapshot(first)
        restore(second, content)
        assert snapshot(second) is not None
        found += second.feed(events[cut:]) + second.finish()
        assert _comparable(found) == _comparable(expected), f"seed {seed}: {pattern.text}"
        compared += bool(expected)
    assert compared > 80


def test_chains_longer_than_the_stack_are_kept() -> None:
    pattern = compile_pattern("[A]+ [B]")
    engine = StepwiseEngine([pattern])
    events = [Event("A", i, i, "s", i, {}) for i in range(1100)]
    engine.feed(events)
    fresh = StepwiseEngine([pattern])
    restore(fresh, snapshot(engine))
    found = fresh.feed([Event("B", 5000, 5000, "s", 5000, {})])
    assert len(found) == 1100
    assert max(len(each.constituents) for each in found) == 1101


def test_throttling_continues_after_a_snapshot() -> None:
    (pattern,) = compile_file("type Seen = A every 10ns by k\n[Seen] [Seen]\n")
    events = [Event("A", i, i, "s", i, {"k": True}) for i in (0, 5, 11, 12)]
    engine, fresh = StepwiseEngine([pattern]), StepwiseEngine([pattern])
    engine.feed(events[:1])
    restore(fresh, snapshot(engine))
    assert [each.constituents for each in fresh.feed(events[1:])] == [(("s", 0), ("s", 11))]


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max", "first", "distinct"])
def test_windows_continue_after_a_snapshot(function: str) -> None:
    text = f"type Near = A with (v = {function}(a) over 10ns) by k\n[Near as x] -> X(v = x.v)\n"
    (pattern,) = compile_file(text)
    events = [Event("A", i, i, "s", i, {"k": i % 2 == 0, "a": (i * 7 % 5) / 3}) for i in range(40)]
    whole, engine, fresh = StepwiseEngine([pattern]), StepwiseEngine([pattern]), StepwiseEngine([pattern])
    engine.feed(events[:20])
    restore(fresh, snapshot(engine))
    assert fresh.feed(events[20:]) == whole.feed(events)[20:]


def test_quiet_continues_after_a_snapshot() -> None:
    (pattern,) = compile_file("type Seen = A at most 1 per 10ns by k\n[Seen] [Seen]\n")
    events = [Event("A", i, i, "s", i, {"k": True}) for i in (0, 9, 10, 12)]
    engine, fresh = StepwiseEngine([pattern]), StepwiseEngine([pattern])
    engine.feed(events[:1])
    restore(fresh, snapshot(engine))
    assert [each.constituents for each in fresh.feed(events[1:])] == [(("s", 0), ("s", 10))]


def test_strong_joint_at_the_beginning_binds_to_nothing() -> None:
    """Found by a random run: a bound before all time did not fit into a snapshot."""
    pattern = compile_pattern("[A]* ; ([B] & [C])")
    engine, fresh = StepwiseEngine([pattern]), StepwiseEngine([pattern])
    engine.feed([Event("B", 1, 1, "s", 0, {})])
    engine.advance(1)
    restore(fresh, snapshot(engine))
    found = fresh.feed([Event("C", 2, 2, "s", 1, {})]) + fresh.finish()
    assert [each.constituents for each in found] == [(("s", 0), ("s", 1))]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no snapshot"),
        (b"\x93\x01\x02\x03", "no snapshot"),
        (b"\xc1", "no snapshot"),
        (snapshot(StepwiseEngine([compile_pattern("[B]")])), "other patterns"),
        (
            snapshot(StepwiseEngine([compile_pattern("[A]")])).replace(b"engine\x03", b"engine\x04"),
            "another version.*upgrade this node",
        ),
        (snapshot(StepwiseEngine([compile_pattern("[A]")])).replace(b"engine\x03", b"engine\x02"), "begins without it"),
    ],
)
def test_bytes_of_another_engine_are_refused(content: bytes, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        restore(StepwiseEngine([compile_pattern("[A]")]), content)


def test_a_damaged_snapshot_is_refused() -> None:
    pattern = compile_pattern("[A] ; [B] by k")
    engine = StepwiseEngine([pattern])
    engine.feed([Event("A", i, i, "s", i, {"k": i}) for i in range(3)])
    content = snapshot(engine)
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        with pytest.raises(SnapshotError):
            restore(StepwiseEngine([pattern]), damaged)


def test_instances_of_one_event_and_others_keep_their_places_and_share_their_events() -> None:
    pattern = compile_pattern("init n = 0 : [A as a set n = n + 1]+ ; [B where v == a.v]")
    engine = StepwiseEngine([pattern])
    engine.feed([Event("A", at, at, "s", at, {"v": at % 2}) for at in range(6)])
    fresh = StepwiseEngine([compile_pattern(pattern.text)])
    restore(fresh, snapshot(engine))
    before, after = ([each for unit in one.units for each in unit.matcher.store.instances()] for one in (engine, fresh))
    assert len({each.chain[0] is None for each in before}) == 2
    assert list(map(str, after)) == list(map(str, before))
    # Each event is one object again.
    events = {id(event): event.id for each in after for event in chain_events(each.chain)}
    assert len(set(events.values())) == len(events)
    found = [one.feed([Event("B", 9, 9, "s", 9, {"v": 1})]) + one.finish() for one in (engine, fresh)]
    assert found[0] == found[1] != []


def test_an_event_of_many_instances_is_written_once() -> None:
    text = "|".join(f"([A as a] ; [B{number} where v == a.v])" for number in range(20))
    engine = StepwiseEngine([compile_pattern(text)])
    engine.feed([Event("A", 1, 1, "s", 1, {"v": "x" * 10_000})])
    assert sum(unit.matcher.store.live for unit in engine.units) >= 20
    assert len(snapshot(engine)) < 3 * 10_000


def test_events_of_several_patterns_are_written_twice_at_most_and_shared_again() -> None:
    patterns = [compile_pattern(f"[A] ; [B{number}]") for number in range(10)]
    engine = StepwiseEngine(patterns)
    engine.feed([Event("A", at, at, "s", at, {"v": "x" * 200}) for at in range(100)])
    content = snapshot(engine)
    assert len(content) < 2 * 100 * 200 + 100_000
    fresh = StepwiseEngine([compile_pattern(each.text) for each in patterns])
    restore(fresh, content)
    instances = [each for unit in fresh.units for each in unit.matcher.store.instances()]
    assert len(instances) >= 1_000
    assert len({id(each.last) for each in instances if each.last is not None}) == 100


def test_events_with_one_id_are_kept_apart() -> None:
    patterns = [compile_pattern("[A] ; [C] ; [B]"), compile_pattern("[C] ; [B]")]
    engine = StepwiseEngine(patterns)
    engine.feed([Event("A", 1, 1, "s", 1, {"x": 1}), Event("C", 2, 2, "s", 1, {"x": 2})])
    fresh = StepwiseEngine([compile_pattern(each.text) for each in patterns])
    restore(fresh, snapshot(engine))
    lasts = [[each.last for unit in one.units for each in unit.matcher.store.instances()] for one in (engine, fresh)]
    assert lasts[0] == lasts[1]
