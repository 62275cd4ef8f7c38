"""The load of an engine: how many pairs of an instance and an event it looked at."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.shared_input import SharedInput
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.events import Event
from distced.policies.detection.guaranteed import Guaranteed

CASES = [
    # Each A at the start; then every instance that waits for B meets it.
    ("[A] ; [B]", "A1 A2 B3", 4),
    ("[A] ; [B]", "A1 B2 B3", 2),
    # The start is touched by events that begin a match alone.
    ("[A <= {A, B}]", "B1 A2", 1),
    ("[A where k == 1] ; [B]", "A1k1 A2k2", 1),
    # An instance is touched by those of its domain, too.
    ("[A <= {A, B}] ; [C <= {B, C}]", "A1 A2 B3 C4", 4),
    # What nothing reads costs nothing, nor does what has no key.
    ("[A] ; [B]", "C1 C2", 0),
    ("[A] ; [B] by k", "A1k1 A2k2 B3k1", 3),
    ("[A] ; [B] by k", "A1 B2k1", 0),
    # Nor does an instance that waits for another value.
    ("[A as a] ; [B where k == a.k]", "A1k1 A2k2 B3k1", 3),
    ("init n = 0 : [A set n = k] ; [B where k == n]", "A1k1 A2k2 B3k1", 3),
    # A condition on the event alone is tested once for all instances.
    ("[A] ; [B where k == 1]", "A1k0 A2k0 B3k2", 2),
    # An instance whose window has closed is touched once more, which ends it.
    ("[A as a] ; [B where k > a.k] within 5ns", "A1k5 A2k5 B9k1 B10k1", 4),
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


@pytest.mark.parametrize("seed", range(4))
def test_detector_touches_the_same_alone_and_beside_others(seed: int) -> None:
    """Beside others it is not called for events that change nothing, and closed windows are swept."""
    random = Random(seed)
    patterns = [
        f"[A as a where k > {random.randrange(4)}] ; [B where k > a.k] within 60ns",
        "[A where k > 2] ; [B where k > 1] ; [A where k > 3] within 90ns",
        "[B as b] ; [A where k == b.k and k > 1] within 40ns",
        "[A <= {A, B}] ; [B where k > 3]",
    ]
    events, at = [], 0
    for number in range(400):
        at += random.randrange(12)
        events.append(_event(random.choice("AB"), at, number, k=random.randrange(6)))
    touched = []
    for groups in ([[each] for each in patterns], [patterns]):
        found: dict[str, int] = {}
        for group in groups:
            shared = SharedInput(Guaranteed())
            for pattern in group:
                shared.add(Detector(compile_pattern(pattern), Guaranteed()))
            shared.join("s", 0, 0)
            for place, event in enumerate(events):
                shared.receive([("s", [event], event.hi, None)], event.hi)
                if place % 7 == seed:
                    shared.rest(event.hi)
            shared.receive([("s", [], at + 1_000, None)], at + 1_000)
            shared.rest(at + 1_000)
            found |= {member.compiled.text: member.touched for member in shared.members.values()}
        touched.append(found)
    assert touched[0] == touched[1]
    assert min(touched[0].values()) > 20
