"""Derived types: filters written out, throttling as a stage before the automata, marks that nobody sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.detectors.compiler import compile_file, compile_pattern, register_derived
from distced.detectors.language.derived import Throttling, without_derived
from distced.detectors.language.parser import parse_expression, parse_file, parse_pattern
from distced.detectors.runtime.engines import EngineName, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.throttling import Throttler, mark, unmarked
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.sets.expressions import TRUE

PERS = EventType("Pers", {"person": "string", "room": "string"})


def registry(*statements: str) -> TypeRegistry:
    known = TypeRegistry([PERS])
    register_derived(parse_file("\n".join(statements)), known)
    return known


def pers(seq: int, seconds: int, **attributes: str) -> Event:
    return Event("Pers", seconds * SECOND, seconds * SECOND, "e", seq, {"person": None, "room": None, **attributes})


def test_filters_are_written_out() -> None:
    known = registry("type Peter = Pers where person == 'p'", "type PeterHere = Peter where room == 'a' or room == 'b'")
    plain, throttlings = without_derived(parse_pattern("[PeterHere <= {Peter, Pers}]"), known)
    assert plain == parse_pattern(
        "[Pers where person == 'p' where room == 'a' or room == 'b' <= {Pers where person == 'p', Pers}]"
    )
    assert throttlings == ()


def test_throttlings_are_marks_in_order() -> None:
    known = registry(
        "type Seen = Pers every 1min by (room, person)",
        "type SeenHere = Seen where room == 'a'",
        "type Seldom = SeenHere every 1h",
    )
    plain, throttlings = without_derived(parse_pattern("[Seldom] [Seen]"), known)
    seen, seldom = throttlings
    assert seen == Throttling(seen.mark, "Pers", TRUE, MINUTE, ("person", "room"))
    assert (seldom.type_name, seldom.every, seldom.by) == ("Pers", 60 * MINUTE, ())
    # The one builds on the other, which is why it comes later.
    assert seen.mark in str(seldom.condition)
    assert " " in seen.mark
    assert format_pattern(plain) == f"[Pers where `{seldom.mark}`] [Pers where `{seen.mark}`]"


def test_equal_throttlings_are_one() -> None:
    known = registry("type One = Pers every 1min by (room, person)", "type Other = Pers every 60s by (person, room)")
    _, throttlings = without_derived(parse_pattern("[One] [Other]"), known)
    assert len(throttlings) == 1
    one, other = compile_pattern("[One]", known), compile_pattern("[Other]", known)
    assert one.automaton.canonical_id == other.automaton.canonical_id


def test_throttler_passes_one_event_of_each_interval_and_key() -> None:
    throttler = Throttler(Throttling("m", "Pers", parse_expression("room != 'x'"), MINUTE, ("person",)))
    passes = [
        throttler.passes(each)
        for each in (
            pers(0, 0, person="p", room="x"),
            pers(1, 1, person="p", room="a"),
            pers(2, 59, person="p", room="a"),
            pers(3, 59, person="q", room="a"),
            pers(4, 60, person="p", room="a"),
            pers(5, 61, room="a"),
            pers(6, 59, person="p", room="a"),
        )
    ]
    assert passes == [False, True, False, True, True, False, False]


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["p", "q", None])), max_size=30))
def test_throttled_type_passes_one_event_per_minute_and_person(drawn: list[tuple[int, str | None]]) -> None:
    events = sorted(
        (Event("Pers", at * SECOND, at * SECOND, "e", seq, {"person": who}) for seq, (at, who) in enumerate(drawn)),
        key=lambda event: event.key,
    )
    throttler = Throttler(Throttling("m", "Pers", TRUE, MINUTE, ("person",)))
    passed = [event for event in events if throttler.passes(event)]
    first: dict[tuple[int, object], Event] = {}
    for event in events:
        if event.attributes["person"] is not None:
            first.setdefault((event.hi // MINUTE, event.attributes["person"]), event)
    assert passed == list(first.values())


def test_quiet_throttler_forgets_what_is_over() -> None:
    throttler = Throttler(Throttling("m", "Pers", TRUE, 0, ("person",), quiet=MINUTE))
    for seq in range(10_000):
        assert throttler.passes(pers(seq * SECOND, seq, person=f"p{seq}"))
    assert len(throttler.passed) < 5000
    assert not throttler.passes(pers(9_999 * SECOND, 1, person="p9999"))


def test_throttler_forgets_past_intervals() -> None:
    throttler = Throttler(Throttling("m", "Pers", TRUE, MINUTE, ("person",)))
    for seq in range(20_000):
        assert throttler.passes(pers(seq, seq, person=f"p{seq}"))
    assert len(throttler.passed) < 5000


def test_marks_do_not_show() -> None:
    event = pers(0, 1, person="p")
    throttlers = [Throttler(Throttling("throttled x", "Pers", TRUE, MINUTE, ("person",)))]
    marked = mark(throttlers, event)
    assert marked.attributes == {**event.attributes, "throttled x": True}
    assert unmarked(marked) == event
    assert mark(throttlers, event) is event
    assert unmarked(event) is event
    known = registry("type Seen = Pers every 1min")
    engine = StepwiseEngine([compile_pattern("[Seen as x] -> Out(person = x.person)", known)])
    (composite,) = engine.feed([event, pers(1, 2)])
    assert composite.events == (event,)
    assert composite.attributes == {"person": "p"}


def test_file_derives_types() -> None:
    patterns = compile_file(
        "type Seen = Pers where person == 'p' every 1min\n[Seen] -> Out()\n[Seen] ; [Out] -> Two()\n"
    )
    engine = StepwiseEngine(patterns)
    found = [*engine.feed([pers(0, 1, person="q"), pers(1, 2, person="p"), pers(2, 3, person="p")]), *engine.finish()]
    assert [(each.type, each.constituents) for each in found] == [("Out", (("e", 1),))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type Seen = Prs every 1min", "unknown event type: Prs"),
        ("type Seen = Pers every 1min by floor", "no attribute to throttle by: floor"),
        ("type Seen = Pers where floor == 1", "floor"),
        ("type Seen = Pers where person == 1", "compares a string with a number"),
        ("type Pers = Pers where person == 'p'", "Pers"),
        ("type One = Pers every 1s\ntype One = Pers every 2s", "One"),
        ("type One = Two every 1s\ntype Two = One every 2s", "in a circle: One, Two, One"),
        ("type Two = One every 1s\ntype One = One every 1s", "derived from itself: One"),
    ],
)
def test_invalid_derived_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(DistcedError) as caught:
        compile_file(f"{text}\n[Pers] -> Out()\n", TypeRegistry([PERS]))
    assert message in str(caught.value)


@pytest.mark.parametrize(("lo", "first"), [(0, "composite"), (3, "primitive")])
@pytest.mark.parametrize("engine", ["stepwise", "columnar"])
def test_found_and_published_events_are_throttled_in_one_order(lo: int, first: str, engine: EngineName) -> None:
    """What began earlier comes before what ends with it, whichever of them is found."""
    if engine == "columnar":
        pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    known = TypeRegistry([EventType("Go", {}), EventType("Pers", {"person": "string"})])
    text = "type Seen = Pers every 1min\n[Go] ; [Go] -> Pers(person = 'p')\n[Seen as x] -> One(person = x.person)\n"
    patterns = compile_file(text + "[Seen as y] -> Other(person = y.person)\n", known)
    events = [
        Event("Go", lo * SECOND, 4 * SECOND, "g", 0, {}),
        Event("Pers", 2 * SECOND, 5 * SECOND, "e", 0, {"person": "q"}),
        Event("Go", 5 * SECOND, 5 * SECOND, "g", 1, {}),
    ]
    made = make_engine(patterns, engine=engine)
    found = [*made.feed(events), *made.finish()]
    assert {each.type: each.attributes["person"] for each in found if each.type != "Pers"} == dict.fromkeys(
        ("One", "Other"), {"composite": "p", "primitive": "q"}[first]
    )
    assert len(found) == 3
