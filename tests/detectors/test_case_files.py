"""Files of conformance cases: what is read, what is refused and how, and what the outcome of a case tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.detectors.conformance import case_runner
from distced.detectors.conformance.case_runner import run_case
from distced.detectors.conformance.cases import Case, ConformanceError, Match, load_cases, parse_cases, parse_event
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND, Timestamp

CASE = """
[[case]]
name = "one"
pattern = "[A] ; [B]"
events = ["A 1", "B 2"]
expect = [[0, 1]]
"""


def case_of(**keys: str) -> Case:
    """The case above with other values, written as TOML."""
    lines = {"name": '"one"', "pattern": '"[A] ; [B]"', "events": '["A 1", "B 2"]', "expect": "[[0, 1]]", **keys}
    text = "[[case]]\n" + "\n".join(f"{key} = {value}" for key, value in lines.items() if value)
    return parse_cases(text, name="some.toml")[0]


def test_case_has_defaults_for_optional_keys() -> None:
    case = parse_cases(CASE)[0]
    assert (case.name, case.language, case.consumption, case.error) == ("one", "core", "ordered", "")
    assert case.events == (Event("A", 1, 1, "e", 0, {}), Event("B", 2, 2, "e", 1, {}))
    assert case.expect == (Match((0, 1)),)
    assert case.types is None
    assert run_case(case).passed


def test_example_of_the_design_passes() -> None:
    case = parse_cases(
        """
[[case]]
name = "a meeting starts before anyone else comes"
language = "core"                      # or another one
pattern = "[B <= {B, P}]"
consumption = "ordered"                # or epoch
let = {Meeting = "[BoardOn][BoardOff]"}   # optional definitions
events = ["P 10", "B 20", "B 30 35 room='FE02' temp=14.5"]
expect = [[1], [2]]
output = [{}, {}]
"""
    )[0]
    assert case.events[2] == Event("B", 30, 35, "e", 2, {"room": "FE02", "temp": 14.5})
    assert run_case(case).passed


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("A 1", Event("A", 1, 1, "e", 7, {})),
        ("A 1 5", Event("A", 1, 5, "e", 7, {})),
        ("A -5 -1", Event("A", -5, -1, "e", 7, {})),
        ("A 5s 2min", Event("A", 5 * SECOND, 2 * MINUTE, "e", 7, {})),
        ("A -1.5h", Event("A", -3 * HOUR // 2, -3 * HOUR // 2, "e", 7, {})),
        ("A 1970-01-01T00:00:05Z 6s", Event("A", 5 * SECOND, 6 * SECOND, "e", 7, {})),
        ("A 1 n=-1 x=2.5 s='a b' t=\"it's\"", Event("A", 1, 1, "e", 7, {"n": -1, "x": 2.5, "s": "a b", "t": "it's"})),
        (
            "A 1 y=true z=false n=null d=5s",
            Event("A", 1, 1, "e", 7, {"y": True, "z": False, "n": None, "d": 5 * SECOND}),
        ),
        ("`any` 1 `by`=1", Event("any", 1, 1, "e", 7, {"by": 1})),
        ("  A   1   # a comment", Event("A", 1, 1, "e", 7, {})),
    ],
)
def test_event_lines_are_parsed(text: str, event: Event) -> None:
    parsed = parse_event(text, 7)
    assert parsed == event
    assert [type(value) for value in parsed.attributes.values()] == [type(value) for value in event.attributes.values()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an event type"),
        ("5", "an event type"),
        ("A", "a time: whole nanoseconds"),
        ("A x=1", "a time: whole nanoseconds"),
        ("A 1.5", "not a time: 1.5"),
        ("A 99999999999999999999", "not a time"),
        ("A 5 3", "lo > hi"),
        ("A 1 x", "'='"),
        ("A 1 x=", "a string"),
        ("A 1 x=y", "not the value of an attribute: y"),
        ("A 1 x=1+2", "not the value of an attribute: 1+2"),
        ("A 1 x=1 x=2", "given twice: x"),
        ("A 2026-13-01", "not an instant"),
        ("A 1 2 3", "an attribute"),
        ("A 1 x='", "a quote that does not end"),
    ],
)
def test_invalid_event_lines_are_refused(text: str, message: str) -> None:
    with pytest.raises(DistcedError, match=message.replace("+", r"\+")):
        parse_event(text, 0)


@pytest.mark.parametrize(
    ("keys", "where", "message"),
    [
        ({"name": '""'}, "case 1 ('')", "without a name"),
        ({"name": ""}, "case 1", "a key is missing: name"),
        ({"name": "5"}, "case 1, name", "not a value for this key"),
        ({"pattern": ""}, "case 1 ('one')", "a key is missing: pattern"),
        ({"expect": ""}, "case 1 ('one')", "a key is missing: expect"),
        ({"paterns": '"x"'}, "case 1 ('one')", "unknown key: paterns"),
        (
            {"language": '"cobol"'},
            "language",
            "unknown language: cobol (allowed: core, cel, algebra, cedr, cedmos, pretty)",
        ),
        ({"consumption": '"greedy"'}, "consumption", "unknown consumption: greedy (allowed: ordered, epoch)"),
        ({"events": '"A 1"'}, "events", "not a value for this key"),
        ({"events": "[5]"}, "events", "not a value for this key"),
        ({"events": '["A 1", "B x"]'}, "events, position 1: 'B x'", "a time: whole nanoseconds"),
        ({"expect": "[[0, 2]]"}, "expect, number 1", "not a position in events: 2 (allowed: 0 to 1)"),
        ({"expect": "[[0], [true]]"}, "expect, number 2", "not a position in events: True"),
        ({"expect": '[["0"]]'}, "expect, number 1", "not a position in events: 0"),
        ({"expect": "[[-1]]"}, "expect, number 1", "not a position in events: -1"),
        ({"expect": "[[]]"}, "expect, number 1", "without a constituent"),
        ({"events": "[]"}, "expect, number 1", "none, for there are no events"),
        ({"output": "[{}, {}]"}, "output", "not one for each composite event: 2 for 1"),
        ({"timestamps": "[]"}, "timestamps", "not one for each composite event: 0 for 1"),
        ({"timestamps": '["x"]'}, "timestamps", "`lo` or `lo hi`, as in events"),
        ({"error": '"x"'}, "case 1 ('one')", "a pattern that is refused meets no events"),
        ({"error": '""', "events": "", "expect": ""}, "error", "an empty error"),
        ({"types": '{A = {v = "integer"}}'}, "types", "not a kind for the attribute 'v' of 'A': integer"),
        ({"types": "{A = {}}"}, "position 1", "an event of a type that is not in types: B (allowed: A)"),
        ({"types": '{A = {}, B = {}, "C D" = {}}'}, "types", "not a name for a type"),
        ({"types": '{A = {v = "number"}, B = {}}', "events": '["A 1 v=\'x\'", "B 2"]'}, "position 0", "is a number: x"),
        ({"types": "{A = {}, B = {}}", "events": '["A 1 v=1", "B 2"]'}, "position 0", "has no attribute 'v'"),
    ],
)
def test_errors_of_malformed_cases_name_their_place(keys: dict[str, str], where: str, message: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        case_of(**keys)
    assert str(caught.value.where).startswith("some.toml, case 1")
    assert where in str(caught.value.where)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a key is missing: case"),
        ("case = []", "a file without a case"),
        ("[[case]", "not TOML"),
        (CASE + CASE, "two cases of one name: one"),
        ("[[cases]]\nname = 'x'", "cases"),
    ],
)
def test_malformed_case_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        parse_cases(text, name="some.toml")
    assert "some.toml" in str(caught.value)
    assert message in str(caught.value)


def test_unreadable_case_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match="cannot read the cases"):
        load_cases(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConformanceError, match="cannot read the cases"):
        load_cases(tmp_path / "bytes.toml")
    (tmp_path / "good.toml").write_text(CASE, encoding="utf-8")
    (case,) = load_cases(str(tmp_path / "good.toml"))
    assert case.where.endswith("good.toml, case 1")


def test_report_shows_differences() -> None:
    outcome = run_case(case_of(events='["A 1", "B 2", "B 3"]', expect="[[0, 2], [0, 1]]"))
    assert not outcome.passed
    assert outcome.missing == (Match((0, 2)),)
    assert outcome.unexpected == ()
    assert [each.constituents for each in outcome.found] == [(0, 1)]
    report = outcome.report()
    for part in (
        "failed: one (some.toml, case 1)",
        "[A] ; [B]",
        "2: B 3",
        "missing      [0, 2]",
        "1 missing, 0 unexpected",
    ):
        assert part in report


def test_the_order_of_composite_events_and_of_constituents_is_free() -> None:
    assert run_case(case_of(pattern='"[A, B]{1,2}"', expect="[[1, 0], [1], [0]]")).passed


def test_each_composite_event_counts_once() -> None:
    assert run_case(case_of(expect="[[0, 1], [0, 1]]")).missing == (Match((0, 1)),)
    twice = case_of(pattern='"([A as x] | [A]) -> Out(v = x.v)"', events="['A 1 v=1']", expect="[[0]]")
    assert run_case(twice).unexpected == (Match((0,)),)


def test_attributes_count_where_the_case_gives_them() -> None:
    pattern = '"[A as x] ; [B] -> Out(v = x.v, w = x.w)"'
    events = '["A 1 v=1", "B 2"]'
    assert run_case(case_of(pattern=pattern, events=events)).passed
    assert run_case(case_of(pattern=pattern, events=events, output="[{v = 1}]")).passed
    assert run_case(case_of(pattern=pattern, events=events, output="[{v = 1.0}]")).passed
    for wrong in ("[{v = 2}]", "[{}]", "[{v = 1, w = 1}]", "[{v = true}]", "[{v = '1'}]"):
        outcome = run_case(case_of(pattern=pattern, events=events, output=wrong))
        assert not outcome.passed
        assert outcome.unexpected[0].attributes == {"v": 1, "w": None}
        assert "v = 1, w = None" in outcome.report()


def test_timestamps_count_where_the_case_gives_them() -> None:
    assert run_case(case_of(timestamps='["1 2"]')).passed
    outcome = run_case(case_of(timestamps='["2"]'))
    assert outcome.unexpected == (Match((0, 1), None, Timestamp(1, 2)),)
    assert "at [1, 2]" in outcome.report()


def test_a_refused_pattern_is_a_failure_unless_it_is_expected() -> None:
    outcome = run_case(case_of(pattern='"[A"'))
    assert not outcome.passed
    assert "the pattern was refused: unexpected" in outcome.report()
    expected = {"events": "", "expect": ""}
    assert run_case(case_of(pattern='"[A"', error='"unexpected"', **expected)).passed
    assert (
        "without 'elephants' in the message"
        in run_case(case_of(pattern='"[A"', error='"elephants"', **expected)).problem
    )
    assert "was accepted" in run_case(case_of(error='"elephants"', **expected)).problem


def test_unknown_languages_and_engines_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_runner, "SUPPORTED", ("core",))
    outcome = run_case(case_of(language='"cel"'))
    assert outcome.status == "unsupported"
    assert not outcome.passed
    assert "not supported in this version (supported: core)" in outcome.report()
    with pytest.raises(ConformanceError, match="no engine of this name: steam"):
        run_case(case_of(), "steam")


def test_only_the_pattern_s_own_composite_events_count() -> None:
    case = case_of(pattern='"[Pair]"', publications="['[A] ; [B] -> Pair()']", expect="[[[0, 1]]]")
    assert run_case(case).passed
    nameless = case_of(publications="['[A] ; [B]']")
    assert "a publication without a name" in run_case(nameless).problem


def test_derived_types_are_distinguished_from_patterns() -> None:
    assert run_case(case_of(derive="['type A2 = A where v > 1']", pattern='"[A2]"', expect="[]")).passed
    assert "not a derived type" in run_case(case_of(derive="['[A]']")).problem
