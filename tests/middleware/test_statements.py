"""Pattern files split by a client: the same statements as the parser reads, and errors in lines of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from distced.detectors.compiler import read_pattern, register_derived
from distced.detectors.language.inlining import inline, inline_file
from distced.detectors.language.parser import parse_expression, parse_file, parse_pattern, parse_publication
from distced.middleware.model.errors import PatternError, SubscriptionError
from distced.middleware.model.event_types import TypeRegistry, derive, event_type
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.statements import (
    DerivedStatement,
    FileStatements,
    read_file,
    read_statements,
    used_definitions,
)
from tests.detectors.test_parser import FILE

FILES = sorted(Path(__file__).parents[2].glob("simulations/**/*.pattern"))

KEYWORDS = """
# `type` and `by` in odd places
type Where = Temp where (every > 3 or by == 'where every by') # every 5s
  every 1min
  by (`by`, room)
type `two words` = Temp
type Plain = Where by_ == 'x' and by == 'y'
X = [Temp where text == '-> Not(' # -> Neither
  ]
[X] -> `Odd name`(a = '-> Wrong') where a == '->'
[`Odd name`] ; X -> Late()
"""


def plain(text: str) -> FileStatements:
    return read_statements(text)


CONSUMED = """
[A] -> One() # as the run asks
consumption epoch # from here
[B] -> Two(a = '->') # consumed ordered
[C] -> Three()
consumed ordered
[D where (consumed == epoch)] -> Four() publish_json = "x/y"
consumption  ordered
  # and on
[E]
[F] -> Six() consumed
  epoch
"""


@pytest.mark.parametrize("text", [FILE, CONSUMED, *(each.read_text() for each in FILES)])
def test_statements_are_those_of_the_parser(text: str) -> None:
    file, split = parse_file(text), read_statements(text)
    assert [each.name for each in split.types] == [each.name for each in file.types]
    assert list(split.definitions) == [name for name, _ in file.definitions]
    expected = [format_publication(each) for each in inline_file(file, text=text)]
    named = {name: parse_pattern(each.text, split.texts) for name, each in split.definitions.items()}
    made = [parse_publication(each.text, split.texts) for each in split.publications]
    inlined = [replace(each, pattern=inline(each.pattern, named)) for each in made]
    assert [format_publication(each) for each in inlined] == expected
    assert [each.publishes for each in split.publications] == [
        "" if each.output is None else each.output.type_name for each in file.publications
    ]


CONSTANTS = """
COLD = 15 # degrees
type Cold = Temp where temp < COLD and x.COLD == 1 and room in ROOMS every SOON by room
SOON = 5min
[Cold]{2} within SOON -> Out(limit = COLD)
ROOMS = ('a', # first
  'b')
"""


def test_constants_are_definitions_and_values_in_derived_types() -> None:
    split = read_statements(CONSTANTS)
    assert split.types[0].where == "temp < 15 and x.COLD == 1 and room in ('a', 'b')"
    assert split.types[0].every == 300 * 10**9
    used = used_definitions(split.publications[0].text, split.texts)
    assert {name: text.strip() for name, text in used.items()} == {"COLD": "15 # degrees", "SOON": "5min"}
    publication = parse_file(CONSTANTS).publications[0]
    assert read_pattern(split.publications[0].text, used) == publication
    assert format_publication(publication) == "[Cold]{2} within 5min -> Out(limit = 15)"
    assert parse_file(CONSTANTS.replace("x.COLD == 1", "true")).types[0].every == 300 * 10**9
    with pytest.raises(PatternError, match="defined twice: COLD"):
        parse_file("COLD = 1\nCOLD = 2\n[A]\n")


def test_consumption_is_that_of_the_line_above() -> None:
    file = parse_file(CONSUMED)
    assert [each.consumption for each in file.publications] == ["", "epoch", "ordered", "epoch", "ordered", "epoch"]
    named = "consumption = [A]\nepoch = [B]\nconsumption epoch -> X()\n"
    assert [each.consumption for each in parse_file(named).publications] == [""]
    assert [each.text for each in read_statements(named).publications] == ["consumption epoch -> X()"]
    for read in parse_file, read_statements:
        with pytest.raises(PatternError, match=r"unknown kind of consumption: greedy \(allowed: ordered"):
            read("consumption greedy\n[A] -> X()\n")


@pytest.mark.parametrize("text", [FILE, *(each.read_text() for each in FILES)])
def test_derived_types_are_those_of_the_parser(text: str) -> None:
    kinds = ("where", "person", "room", "value", "state", "temp", "sensor", "location", "activity")
    registry = TypeRegistry(open=True)
    file = parse_file(text)
    register_derived(file, registry)
    for each, parsed in zip(read_statements(text).types, file.types, strict=True):
        base = event_type(each.base, dict.fromkeys(kinds, "string"))
        made = derive(base, each.name, every=each.every, by=each.by, computed=each.computed)
        known = registry.get(parsed.name).derived
        assert made.derived is not None and known is not None
        assert (made.derived.base, made.derived.every, made.derived.by) == (known.base, known.every, known.by)
        assert "".join(each.where.split()) == "".join(known.where.split())
        assert [(name, "".join(text.split())) for name, text in each.computed] == [
            (name, "".join(text.split())) for name, text in known.computed
        ]


QUIET = (
    "type X = A at most 2 per 1min",
    "type X = A at most 1 per x",
    "type X = A at most 1 in 1min",
    "type X = A at most 1 per 0s",
    "type X = A every 1s at most 1 per 1s",
    "type X = A at most 1 per 1s every 1s",
)


def test_computed_attributes_are_those_of_the_parser() -> None:
    text = """\
LIMIT = 15
type Reading = Temp where with > 3 with (room = room, `by` = if(temp in (LIMIT, 2), 'a, b (c', "x"),  # a comment )
  hour = floor(hi() / 1h)) every 1min by (hour, room)
type Plain = Temp with (`by` = temp == 3)
type Quiet = Temp where at > 3 and most == 1 at most 1 per SOON by room
type Warm = Temp with (mean = temp - avg(temp) over 1h, over = count(by_) over SOON, n = count() over 1d) by room
SOON = 5min
[Reading] -> Out()
"""
    read, file = read_statements(text).types, parse_file(text).types
    assert [each.name for each in read] == ["Reading", "Plain", "Quiet", "Warm"]
    for each, parsed in zip(read, file, strict=True):
        assert (each.every, each.quiet, each.by) == (parsed.every, parsed.quiet, parsed.by)
        assert [(name, parse_expression(value)) for name, value in each.computed] == list(parsed.computed)
    assert read[0].computed[1] == ("by", "if(temp in (15, 2), 'a, b (c', \"x\")")
    for wrong in (
        "type X = A with (1)",
        "type X = A with (n = count()) by k",
        "type X = A with ()",
        "type X = A with (a = 1) or",
        "type X = A with (a b = 1)",
        *QUIET,
    ):
        with pytest.raises(PatternError):
            read_statements(wrong)
        with pytest.raises(PatternError):
            parse_file(wrong)


def test_keywords_in_texts_names_and_comments_are_none() -> None:
    split = plain(KEYWORDS.replace("type Plain = Where by_ == 'x' and by == 'y'\n", ""))
    one, other = split.types
    assert (one.name, one.base, one.every, one.by) == ("Where", "Temp", 60 * 10**9, ("by", "room"))
    assert one.where == "(every > 3 or by == 'where every by')"
    assert (other.name, other.base, other.where, other.line) == ("two words", "Temp", "", 6)
    assert [each.publishes for each in split.publications] == ["Odd name", "Late"]
    assert split.in_groups() == [[0], [1]]


def test_groups_come_behind_what_they_read() -> None:
    split = plain("D = [Two]\nD ; [Three] -> One()\n[A] -> Two()\n[Two] -> Three()\n[B] -> Four()\n")
    assert split.in_groups() == [[1, 3], [2], [0]]
    circle = plain("[Two] -> One()\n[One] -> Two()\n[A] -> Three()\n")
    assert circle.in_groups() == [[2], [0, 1]]


def test_states_of_types() -> None:
    text = """
type Inside = last Temp where temp > COLD with (half = temp / 2) by (room, floor)  # of each room
type `by` = last `last`
type Plain = last where v > 1
type Every = last every 5s
type Last = last
COLD = 15
[A] -> X()
[B where v > last(S.v)] -> Y()
type S = last X
[Z where v > 1]
type Z = Y with (s = last(R.v))
type R = last X
"""
    read = read_statements(text)
    inside, quoted, *others, _, _, _ = read.types
    assert inside == DerivedStatement(
        "Inside", "Temp", "temp > 15", 0, ("room", "floor"), 2, (("half", "temp / 2"),), 0, True
    )
    assert (quoted.name, quoted.base, quoted.last) == ("by", "last", True)
    assert [(each.base, each.where, each.every, each.last) for each in others] == [
        ("last", "v > 1", 0, False),
        ("last", "", 5 * 10**9, False),
        ("last", "", 0, False),
    ]
    parsed = [(each.name, each.base, each.last) for each in parse_file(text).types]
    assert parsed == [(each.name, each.base, each.last) for each in read.types]
    # Publications stand behind what they read the state of.
    assert read.in_groups() == [[0], [1], [2]]


def test_definitions_that_a_pattern_uses() -> None:
    definitions = {"A1": "[A]", "B1": "A1 [B]", "C1": "[C where v == 'B1']", "D1": "[D] # A1"}
    assert list(used_definitions("B1 ; [X]", definitions)) == ["A1", "B1"]
    assert list(used_definitions("C1 | D1", definitions)) == ["C1", "D1"]
    assert used_definitions("[A]", definitions) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "publishes nothing"),
        ("X = [A]\n", "publishes nothing: X"),
        ("  [A]\n[B]\nX = [A]\n", "first column: [A], at f.pattern, line 1"),
        ("\n  nothing\n[B]\n  [C]\n", "first column: nothing"),
        ("X = [A]\nX = [B]\nX\n", "defined twice: X, at f.pattern, line 2"),
        ("type C = A by k\n[C]\n", "needs `every`"),
        ("type C = A every 3parsecs\n[C]\n", "line 1"),
        ("type C = last A every 3s\n[B]\n", "a state that is throttled"),
        ("type C = last A with (m = avg(v) over 3s) by k\n[B]\n", "a state that is throttled"),
        (
            "[B]\ntype C = A and more\n[C]\n",
            "not a derived type: and more (allowed: where, with, every, at most or by), at f.pattern, line 2",
        ),
    ],
)
def test_faulty_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        read_statements(text, "f.pattern")
    assert message in str(caught.value)


def test_error_of_a_node_is_placed_in_the_file() -> None:
    split = read_statements("\nX = [A]\n\n[A]\n  ; X\n", "f.pattern")
    error = SubscriptionError("no such thing, at line 2, column 5", where="node n1")
    assert str(split.placed(error, 0)) == (
        "no such thing, at line 5, column 5, at f.pattern, statement of line 4, node n1"
    )
    inside = SubscriptionError("no such thing, at definition X, line 1, column 6")
    assert "definition X, line 2, column 6" in str(split.placed(inside, 0))


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="cannot read the pattern file"):
        read_file(tmp_path / "none.pattern")
    (tmp_path / "other.pattern").write_text("[A]", encoding="utf-16")
    with pytest.raises(PatternError, match="save the file as UTF-8"):
        read_file(tmp_path / "other.pattern")


def test_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.pattern"
    path.write_bytes("\ufeffX = [A]\r\n\r\n[X]\r\n  ; [B]\r\n".encode())
    assert read_file(path).publications == read_statements("X = [A]\n\n[X]\n  ; [B]\n").publications
