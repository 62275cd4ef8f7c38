"""Patterns over clocks: text, Python, both engines, snapshots, what they do not read and what they cost."""

from __future__ import annotations

import pytest

from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.conformance.cases import parse_event
from distced.detectors.cutting.cut_report import cuts_of
from distced.detectors.explain.automaton_view import view_of
from distced.detectors.language.parser import parse_file
from distced.detectors.limits import Limits
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.pattern_index import concerns
from distced.detectors.runtime.wanted_sets import wanted_sets
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import LimitError, PatternError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE
from distced.middleware.patterns import clock_type, derived_type, event, pattern_file
from distced.middleware.patterns.printer import format_file
from distced.middleware.patterns.statements import read_statements
from distced.simulations.replay.pattern_properties import key_of_group, reach_of

REGISTRY = TypeRegistry([event_type("A", {"k": "number"}), event_type("B", {"k": "number"})])
TEXT = """
type Hour = clock every 1h
type Opening = clock "0 8 * * mon-fri" in "Europe/London"
type Noon = clock '0 12 * * *'
type Odd = Hour where hour() % 2 == 1
type Local = Hour with (h = hour('Europe/London'))
[A] [Odd as o <= {Odd, Hour, B}] by k -> X(k = k, at = hi(o))
[A] [Opening, Noon] -> Y()
[A] [Local as l where h == 3] -> Z(h = l.h)
"""


def test_files_are_read_printed_and_split_alike() -> None:
    file = parse_file(TEXT)
    printed = format_file(file)
    assert parse_file(printed) == file
    assert printed.splitlines()[:3] == [
        "type Hour = clock every 1h",
        'type Opening = clock "0 8 * * mon-fri" in "Europe/London"',
        'type Noon = clock "0 12 * * *"',
    ]
    split = read_statements(TEXT)
    assert [(each.name, each.base) for each in split.types] == [(each.name, each.base) for each in file.types]


def test_what_nodes_get_is_the_same_pattern() -> None:
    for each in compile_file(TEXT, REGISTRY):
        again = compile_pattern(each.plain_text, REGISTRY)
        assert again.canonical_id == each.canonical_id
        assert again.automaton == each.automaton


def test_one_rule_is_one_detector() -> None:
    one, other = (
        compile_file(f"type {name} = clock every {every}\n[A] [{name}]", REGISTRY)[0].canonical_id
        for name, every in (("Hour", "1h"), ("Sixty", "60min"))
    )
    assert one == other


def test_a_type_of_the_name_clock_is_none() -> None:
    text = "type Seldom = `clock` every 1min\ntype Some = clock where k > 1\n[Seldom] [Some]"
    file = parse_file(text)
    assert [each.base for each in file.types] == ["clock", "clock"]
    assert parse_file(format_file(file)) == file
    assert [each.base for each in read_statements(text).types] == ["clock", "clock"]


def test_python_makes_the_same_statements() -> None:
    hour = clock_type("Hour", every="1h")
    same = derived_type("Same", hour)
    opening = clock_type("Opening", cron="0 8 * * mon-fri", zone="Europe/London")
    made = str(pattern_file(event("A").then(same).publish("X"), event("A").then(opening).publish("Y")))
    assert made.splitlines()[:3] == [
        "type Hour = clock every 1h",
        "type Same = Hour",
        'type Opening = clock "0 8 * * mon-fri" in "Europe/London"',
    ]
    assert len(compile_file(made, REGISTRY)) == 2
    with pytest.raises(PatternError, match="not a clock"):
        clock_type("Hour")


def test_no_source_is_waited_for() -> None:
    pattern, *_ = compile_file(TEXT, REGISTRY)
    both = frozenset({"A", "B"})
    assert pattern.automaton.type_names() == pattern.named() == pattern.names() == pattern.reads(REGISTRY) == both
    assert concerns(pattern) is not None and set(concerns(pattern) or ()) == both
    assert set(wanted_sets(pattern) or ()) == both
    assert pattern.indivisible and pattern.is_no_part


def test_explain_names_clocks_as_the_file_does() -> None:
    patterns = compile_source(PatternSource(TEXT, "a file"), REGISTRY)
    views = [str(view_of(each, derived=patterns.derived)) for each in patterns.compiled]
    assert "Hour where hour() % 2 == 1" in views[0] and "%every" not in views[0]
    assert "Opening" in views[1]
    (alone,) = [str(view_of(compile_pattern("[A] [`%every 1h`]", REGISTRY)))]
    assert "clock every 1h" in alone
    assert cuts_of(patterns.compiled[0], patterns.derived).note


def test_replay_is_by_key_and_by_slices_where_a_clock_bounds_a_match() -> None:
    (keyed,) = compile_file("type Hour = clock every 1h\n[A] [B <= {B, Hour}] by k", REGISTRY)
    assert key_of_group([keyed]) == (("k",), "")
    assert reach_of([keyed]) == HOUR
    (other,) = compile_file("type Hour = clock every 1h\n[A] [Hour where hour() == 3]", REGISTRY)
    assert reach_of([other]) is None


def engine_of(text: str) -> StepwiseEngine:
    return StepwiseEngine(compile_file(f"type Hour = clock every 1h\n{text}", TypeRegistry(open=True)))


def at(minute: int, kind: str = "A", **attributes: int) -> Event:
    return parse_event(f"{kind} {minute}min " + " ".join(f"{k}={v}" for k, v in attributes.items()), minute)


def test_clocks_come_between_two_calls_and_once() -> None:
    engine = engine_of("[A] [Hour]+ -> X(at = hi())")
    assert engine.feed([at(10)]) == []
    assert engine.waits_for() == HOUR
    assert [each.hi for each in engine.advance(HOUR)] == [HOUR]
    assert engine.waits_for() == 2 * HOUR
    made = engine_of("[A] [Hour]+ -> X(at = hi())")
    restore(made, snapshot(engine))
    assert made.waits_for() == 2 * HOUR
    assert [each.hi for each in made.feed([at(181, "B")])] == [2 * HOUR, 3 * HOUR]


def test_without_an_instance_there_is_nothing_to_wait_for() -> None:
    engine = engine_of("[A] [Hour]")
    assert engine.waits_for() is None
    engine.feed([at(10)])
    engine.advance(2 * HOUR)
    assert engine.waits_for() is None
    touched = engine.touched
    # As many hours as there are in the time that can be expressed would take for ever.
    engine.advance(2**62)
    assert engine.touched == touched


def test_the_instances_of_all_keys_are_work_of_one_event() -> None:
    engine = engine_of("[A] [Hour] by k")
    engine.limit(Limits(work=100))
    for number in range(150):
        engine.feed([Event("A", MINUTE, MINUTE, "s", number, {"k": number})])
    with pytest.raises(LimitError):
        engine.advance(HOUR)


@pytest.mark.parametrize("behind", ["watermark", "event"])
def test_clock_that_comes_too_often_is_beyond_the_work(behind: str) -> None:
    """One by the microsecond would hold a node up for as long as an instance waits."""
    engine = engine_of("[A] ([Hour])* [B]")
    engine.limit(Limits(work=20))
    engine.feed([at(10)])
    engine.advance(20 * HOUR)
    engine.advance(40 * HOUR)
    with pytest.raises(LimitError, match="clocks come more often"):
        if behind == "event":
            engine.feed([Event("A", 61 * HOUR, 61 * HOUR, "s", 99, {})])
        else:
            engine.advance(61 * HOUR)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("last", ["B 8ns", "B 8ns 9ns"])
def test_clock_begins_behind_events_that_wait_where_the_engine_changes(last: str, back: bool) -> None:
    """Events of the last instant wait, at the columnar engine without those of clocks between them."""
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    from distced.detectors.columnar.engine import ColumnarEngine

    patterns = [compile_pattern("[C] ; [B]"), compile_pattern("[B] [`%every 3ns`] settled")]
    columnar = ColumnarEngine(patterns)
    found = columnar.feed([parse_event(last, 0)])
    stepwise = columnar.stepwise()
    engine: StepwiseEngine | ColumnarEngine = stepwise
    if back:
        engine = ColumnarEngine(patterns)
        engine.go_on_from(stepwise)
    found += engine.feed([parse_event("A 9ns 10ns", 1)]) + engine.finish()
    whole = StepwiseEngine(patterns)
    expected = whole.feed([parse_event(last, 0), parse_event("A 9ns 10ns", 1)]) + whole.finish()
    assert [(each.lo, each.hi) for each in found] == [(each.lo, each.hi) for each in expected] == [(8, expected[0].hi)]
