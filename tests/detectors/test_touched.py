"""The load of an engine: how many pairs of an instance and an event it looked at."""

from __future__ import annotations

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.events import Event

CASES = [
    # Each A at the start; then every instance that waits for B meets it.
    ("[A] ; [B]", "A1 A2 B3", 4),
    ("[A] ; [B]", "A1 B2 B3", 2),
    # B is looked at where it cannot be used, too.
    ("[A <= {A, B}]", "B1 A2", 2),
    ("[A <= {A, B}] ; [C <= {B, C}]", "A1 A2 B3 C4", 5),
    # What nothing reads costs nothing, nor does what has no key.
    ("[A] ; [B]", "C1 C2", 0),
    ("[A] ; [B] by k", "A1k1 A2k2 B3k1", 3),
    ("[A] ; [B] by k", "A1 B2k1", 0),
    # Nor does an instance that waits for another value.
    ("[A as a] ; [B where k == a.k]", "A1k1 A2k2 B3k1", 3),
    ("init n = 0 : [A set n = k] ; [B where k == n]", "A1k1 A2k2 B3k1", 3),
    # The start is one instance, also where it has branches or looks at an event for several reasons.
    ("[A] | [A] ; [B]", "A1", 1),
    # The instance that hides B stays, and meets each.
    ("[A] ; ~[B]* [B]", "A1 B2 B3", 3),
    # A time event meets the instance that set it off.
    ("([A], [T]) @ T = 5ns", "A1 B9", 2),
    # Each side is an automaton of its own, and the joining one is offered what they find: 1 + 1 by the sides; by the
    # joint A at the start, B at the start, and at the instance that waits for it.
    ("[A] & [B]", "A1 B2", 5),
    # Late: the start, and whom it does not follow any more.
    ("[A] ; [B]", "A5 A3", 2),
    ("[A] ; [B]", "A5 B3", 2),
]


@pytest.mark.parametrize(("pattern", "events", "touched"), CASES)
def test_touched_counts_pairs_of_instance_and_event(pattern: str, events: str, touched: int) -> None:
    engine = StepwiseEngine([compile_pattern(pattern)])
    for event in _events(events):
        engine.feed([event])
    engine.finish()
    assert engine.touched == touched


def test_events_consumed_together_touch_earlier_instances() -> None:
    engine = StepwiseEngine([compile_pattern("[A] ; [B]", consumption="epoch")])
    engine.feed([_event("A", 1, 0), _event("A", 1, 1), _event("B", 2, 2), _event("B", 2, 3)])
    engine.finish()
    assert engine.touched == 2 + 2 * 2


def test_matcher_counts_from_0_after_a_snapshot() -> None:
    engine = StepwiseEngine([compile_pattern("[A] ; [B]")])
    engine.feed(_events("A1 A2"))
    other = StepwiseEngine([compile_pattern("[A] ; [B]")])
    restore(other, snapshot(engine))
    assert (engine.touched, other.touched) == (2, 0)
    other.feed(_events("B3"))
    assert other.touched == 2


def test_derivations_do_not_change_the_count() -> None:
    plain = StepwiseEngine([compile_pattern("[A] ; [B]")])
    recorded = StepwiseEngine([compile_pattern("[A] ; [B]")], derivations=True)
    for engine in (plain, recorded):
        engine.feed(_events("A1 A2 B3 A4 B5"))
        engine.finish()
    assert plain.touched == recorded.touched == 6


def _events(text: str) -> list[Event]:
    made = []
    for number, each in enumerate(text.split()):
        instant, _, key = each[1:].partition("k")
        made.append(_event(each[0], int(instant), number, **({"k": int(key)} if key else {})))
    return made


def _event(name: str, instant: int, number: int, **attributes: int) -> Event:
    return Event(name, instant, instant, "s", number, attributes)
