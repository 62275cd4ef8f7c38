"""The tree of each row of the table, precedence, pattern files; and errors as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.language.parser import parse_expression, parse_file, parse_pattern, parse_publication, parse_set
from distced.middleware.model.errors import PatternError
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND
from distced.middleware.patterns.printer import format_file, format_pattern, format_publication
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    DerivedType,
    Hidden,
    Init,
    Instant,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Recurring,
    Reference,
    Relative,
    Scope,
    Sequence,
    TimeOfDay,
    Timing,
    Window,
)
from distced.middleware.sets.describable import AnySet, Difference, Filtered, Intersection, TypeSet, Union
from distced.middleware.sets.expressions import Binary, Call, Field, Literal, Moment, Name, Unary

A, B, C, D = (Atom(TypeSet(name)) for name in "ABCD")
SET_A, SET_B, SET_C = (TypeSet(name) for name in "ABC")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("[A]", A),
        ("[A, B <= C]", Atom(Union((SET_A, SET_B)), SET_C)),
        ("[A <= B, C]", Atom(SET_A, Union((SET_B, SET_C)))),
        ("[!A <= B]", Atom(Difference(SET_B, SET_A), SET_B)),
        ("[!A, C <= B]", Atom(Difference(SET_B, Union((SET_A, SET_C))), SET_B)),
        ("[A as x]", Atom(SET_A, variable="x")),
        ("[A as x where v > 1]", Atom(Filtered(SET_A, Binary(">", Name("v"), Literal(1))), variable="x")),
        (
            "[A set n = n + 1, m = 2]",
            Atom(SET_A, updates=(("n", Binary("+", Name("n"), Literal(1))), ("m", Literal(2)))),
        ),
        (
            "[A where v == 1 as x set n = 1 <= B]",
            Atom(Filtered(SET_A, Binary("==", Name("v"), Literal(1))), SET_B, "x", (("n", Literal(1)),)),
        ),
        ("[!A as x set n = 1 <= B]", Atom(Difference(SET_B, SET_A), SET_B, "x", (("n", Literal(1)),))),
        ("[A][B][C]", Concatenation((A, B, C))),
        ("[A];[B];[C]", Sequence((A, B, C))),
        ("[A]|[B]|[C]", Alternation((A, B, C))),
        ("[A]&[B]&[C]", Parallel(Parallel(A, B), C)),
        ("[A]&([B]&[C])", Parallel(A, Parallel(B, C))),
        ("[A]*", Iteration(A, 0, None)),
        ("[A]+", Iteration(A, 1, None)),
        ("[A]{2}", Iteration(A, 2, 2)),
        ("[A]{2,}", Iteration(A, 2, None)),
        ("[A]{2,3}", Iteration(A, 2, 3)),
        ("[A]{0,1}", Iteration(A, 0, 1)),
        ("[A]*+", Iteration(Iteration(A, 0, None), 1, None)),
        ("~[A]", Hidden(A)),
        ("~~[A]", Hidden(Hidden(A))),
        ("[ [A][B] <= C ]", Scope(Concatenation((A, B)), SET_C)),
        ("[ ([A]) <= C ]", Scope(A, SET_C)),
        ("[ ~[A] [B] <= C ]", Scope(Concatenation((Hidden(A), B)), SET_C)),
        ("[A] within 5s", Window(A, 5 * SECOND)),
        ("[A] by room", Keyed(A, ("room",))),
        ("[A] by (room, person)", Keyed(A, ("room", "person"))),
        ("[A] by room within 5s", Window(Keyed(A, ("room",)), 5 * SECOND)),
        ("init n = 0, m = 1 : [A]", Init((("n", Literal(0)), ("m", Literal(1))), A)),
        ("([A], [B]) @ T = 5min", Timing(A, B, "T", Relative(5 * MINUTE))),
        ("([A], [B]) @ T = at 19:00", Timing(A, B, "T", TimeOfDay(19 * HOUR))),
        (
            "([A], [B]) @ T = at 7:05:30.25",
            Timing(A, B, "T", TimeOfDay(7 * HOUR + 5 * MINUTE + 30 * SECOND + SECOND // 4)),
        ),
        ("([A], [B]) @ T = at 19:00Z", Timing(A, B, "T", TimeOfDay(19 * HOUR))),
        ("([A], [B]) @ T = at 19:00-05:30", Timing(A, B, "T", TimeOfDay(19 * HOUR, -330))),
        ("([A], [B]) @ T = at 19:00 'Europe/London'", Timing(A, B, "T", TimeOfDay(19 * HOUR, "Europe/London"))),
        ("([A], [B]) @ T = x.v", Timing(A, B, "T", Calculated(Field("x", "v")))),
        ("([A], [B]) @ T = at.v * 1s", Timing(A, B, "T", Calculated(Binary("*", Field("at", "v"), Literal(SECOND))))),
        ("([A], [B]) @ T = every.v", Timing(A, B, "T", Calculated(Field("every", "v")))),
        ("([A], [B]) @ T = 1s * x.v", Timing(A, B, "T", Calculated(Binary("*", Literal(SECOND), Field("x", "v"))))),
        ("([A], [B]) @ T = (n) [C]", Concatenation((Timing(A, B, "T", Calculated(Name("n"))), C))),
        ("([A], [B]) @ T = x.v [C]", Concatenation((Timing(A, B, "T", Calculated(Field("x", "v"))), C))),
        ("(([A], [B]) @ T = x.v)*", Iteration(Timing(A, B, "T", Calculated(Field("x", "v"))), 0, None)),
        ("([A], [B]) @ T = 5s*", Iteration(Timing(A, B, "T", Relative(5 * SECOND)), 0, None)),
        ("([A], [B]) @ T = every 5min", Timing(A, B, "T", Recurring(Relative(5 * MINUTE)))),
        ("([A], [B]) @ T = every day at 7:05", Timing(A, B, "T", Recurring(TimeOfDay(7 * HOUR + 5 * MINUTE)))),
        (
            "([A], [B]) @ T = every day at 19:00 'Europe/London'",
            Timing(A, B, "T", Recurring(TimeOfDay(19 * HOUR, "Europe/London"))),
        ),
        ("([A], [B]) @ T = at 1970-01-02", Timing(A, B, "T", Instant(DAY))),
        ("([A], [B]) @ T = at 1970-01-01T01:00+01:00", Timing(A, B, "T", Instant(0))),
        ("([A], [B]) @ T = at 1970-01-01 00:00:00.000000001", Timing(A, B, "T", Instant(1))),
    ],
)
def test_every_row_of_the_language_table_is_parsed(text: str, tree: Pattern) -> None:
    assert parse_pattern(text) == tree
    assert parse_pattern(format_pattern(tree)) == tree


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("~[A]+", "~([A]+)"),
        ("~[A][B]", "(~[A])[B]"),
        ("[A][B];[C]", "([A][B]);[C]"),
        ("[A];[B]&[C]", "([A];[B])&[C]"),
        ("[A]&[B]|[C]", "([A]&[B])|[C]"),
        ("[A]|[B] within 5s", "([A]|[B]) within 5s"),
        ("init n = 0 : [A]|[B] by k", "(init n = 0 : ([A]|[B])) by k"),
        ("[A] (init n = 0 : [B] | [C])", "[A] (init n = 0 : ([B] | [C]))"),
        ("([A],[B]) @ T = 5s *", "(([A],[B]) @ T = 5s)*"),
        ("([A];[B],[C]|[D]) @ T = 5s", "(([A];[B]),([C]|[D])) @ T = 5s"),
        ("[A] ∥ [B] ∣ [C]", "[A] & [B] | [C]"),
        ("[ [A] | [B] <= C ]", "[ ([A] | [B]) <= C ]"),
    ],
)
def test_operators_bind_by_precedence(text: str, same: str) -> None:
    assert parse_pattern(text) == parse_pattern(same)


def test_joints_in_parentheses_stay_apart() -> None:
    assert parse_pattern("([A][B])[C]") == Concatenation((Concatenation((A, B)), C))
    assert format_pattern(parse_pattern("([A][B])[C]")) == "([A] [B]) [C]"


def test_definitions_stand_as_references() -> None:
    names = {"Meeting", "M2"}
    meeting = Reference("Meeting")
    assert parse_pattern("Meeting", names) == meeting
    assert parse_pattern("[Meeting]", names) == meeting
    assert parse_pattern("[A] Meeting [B]", names) == Concatenation((A, meeting, B))
    assert parse_pattern("[Meeting] ; Meeting*", names) == Sequence((meeting, Iteration(meeting, 0, None)))
    assert parse_pattern("[ Meeting <= A ]", names) == Scope(meeting, SET_A)
    assert parse_pattern("[ Meeting [A] <= A ]", names) == Scope(Concatenation((meeting, A)), SET_A)
    # Elsewhere the name is a type.
    assert parse_pattern("[Meeting]") == Atom(TypeSet("Meeting"))
    assert parse_pattern("[A <= Meeting]", names) == Atom(SET_A, TypeSet("Meeting"))


def test_outputs_are_parsed() -> None:
    assert parse_publication("[A] -> Out") == Publication(A, Output("Out"))
    assert parse_publication("[A] -> Out()") == Publication(A, Output("Out"))
    assert parse_publication("[A as x] -> Out(v = x.v, n = 1) where n > v") == Publication(
        Atom(SET_A, variable="x"),
        Output("Out", (("v", Field("x", "v")), ("n", Literal(1))), Binary(">", Name("n"), Name("v"))),
    )
    with pytest.raises(PatternError, match="an output where a plain pattern is wanted"):
        parse_pattern("[A] -> Out()")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1", Literal(1)),
        ("-1", Literal(-1)),
        ("- 1", Literal(-1)),
        ("-(1)", Unary("-", Literal(1))),
        ("--1", Unary("-", Literal(-1))),
        ("-inf", Literal(float("-inf"))),
        ("-`inf`", Unary("-", Name("inf"))),
        ("1.50", Literal(1.5)),
        ("5min", Literal(5 * MINUTE)),
        ("'a'", Literal("a")),
        ("true", Literal(True)),
        ("null", Literal(None)),
        ("`true`", Name("true")),
        ("room", Name("room")),
        ("x.room", Field("x", "room")),
        ("lo()", Moment("lo", "")),
        ("hi(x)", Moment("hi", "x")),
        ("lo", Name("lo")),
        ("max(a, 1)", Call("max", (Name("a"), Literal(1)))),
        ("max", Name("max")),
        ("a + b - c", Binary("-", Binary("+", Name("a"), Name("b")), Name("c"))),
        ("a - (b - c)", Binary("-", Name("a"), Binary("-", Name("b"), Name("c")))),
        ("a + b * c", Binary("+", Name("a"), Binary("*", Name("b"), Name("c")))),
        ("a + 1 < b", Binary("<", Binary("+", Name("a"), Literal(1)), Name("b"))),
        ("not a == b", Unary("not", Binary("==", Name("a"), Name("b")))),
        ("not a and b", Binary("and", Unary("not", Name("a")), Name("b"))),
        ("a or b and c", Binary("or", Name("a"), Binary("and", Name("b"), Name("c")))),
        ("(a or b) and c", Binary("and", Binary("or", Name("a"), Name("b")), Name("c"))),
        ("a ≠ b", Binary("!=", Name("a"), Name("b"))),
        ("(a == b) <= c", Binary("<=", Binary("==", Name("a"), Name("b")), Name("c"))),
    ],
)
def test_expressions_are_parsed(text: str, tree: Any) -> None:
    assert parse_expression(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", SET_A),
        ("A, B", Union((SET_A, SET_B))),
        ("{A, B}", Union((SET_A, SET_B))),
        ("{A}", Union((SET_A,))),
        ("{}", Union(())),
        ("{{A}, B}", Union((Union((SET_A,)), SET_B))),
        ("any", AnySet()),
        ("`any`", TypeSet("any")),
        ("A & B", Intersection(SET_A, SET_B)),
        ("any - A - B", Difference(Difference(AnySet(), SET_A), SET_B)),
        ("A - B & C", Difference(SET_A, Intersection(SET_B, SET_C))),
        ("(A - B) & C", Intersection(Difference(SET_A, SET_B), SET_C)),
        ("A where v", Filtered(SET_A, Name("v"))),
        ("A where v where w", Filtered(Filtered(SET_A, Name("v")), Name("w"))),
        ("A, B where v", Union((SET_A, Filtered(SET_B, Name("v"))))),
        ("{A, B} where v", Filtered(Union((SET_A, SET_B)), Name("v"))),
        ("A ∪ B ∩ C ∖ A", Union((SET_A, Difference(Intersection(SET_B, SET_C), SET_A)))),
    ],
)
def test_sets_are_parsed(text: str, tree: Any) -> None:
    assert parse_set(text) == tree


@pytest.mark.parametrize(
    ("text", "label", "domain"),
    [
        ("[A where v <= 5]", "A where v <= 5", None),
        ("[A where v <= w]", "A where v <= w", None),
        ("[A where v == 1 <= B]", "A where v == 1", "B"),
        ("[A where (v == 1) <= B]", "A where v == 1", "B"),
        ("[A where v <= {B}]", "A where v", "{B}"),
        ("[A where v <= any]", "A where v", "any"),
        ("[A where v <= 5 <= B]", "A where v <= 5", "B"),
        ("[A where (v + 1) <= w]", "A where v + 1 <= w", None),
        ("[A where (v + 1) ⊆ B]", "A where v + 1", "B"),
        ("[A where ((v == 1) <= w)]", "A where (v == 1) <= w", None),
        ("[A where ((v == 1) <= w) <= B]", "A where (v == 1) <= w", "B"),
        ("[{A where (v == 1) <= w} <= B]", "{A where (v == 1) <= w}", "B"),
        ("[A where max((v == 1) <= w, true) <= B]", "A where max((v == 1) <= w, true) <= B", None),
    ],
)
def test_condition_ends_where_the_domain_begins(text: str, label: str, domain: str | None) -> None:
    atom = parse_pattern(text)
    assert atom == Atom(parse_set(label), None if domain is None else parse_set(domain))
    assert parse_pattern(format_pattern(atom)) == atom


# Pattern files.

FILE = """
# Meetings in rooms.
type Seen = Pers where person != 'cat' every 1min by (person, room)
type Cold = Temp where temp < 15

Meeting = [BoardOn]
  [ [Seen] [Seen]* [BoardOff] <= {Seen, BoardOff} ]   # somebody has to come

[Meeting] ; [Login]
  by room
-> Late(room = 1)
([Seen], [Cold]) @ T = at 2026-11-21T08:00Z -> ColdRoom()
~Meeting
[Cold] within 5s
"""


def test_pattern_file_is_parsed() -> None:
    file = parse_file(FILE)
    assert [each.name for each in file.types] == ["Seen", "Cold"]
    assert file.types[0] == DerivedType(
        "Seen", "Pers", Binary("!=", Name("person"), Literal("cat")), MINUTE, ("person", "room")
    )
    assert [name for name, _ in file.definitions] == ["Meeting"]
    texts = [format_publication(each) for each in file.publications]
    assert texts == [
        "Meeting ; [Login] by room -> Late(room = 1)",
        "([Seen], [Cold]) @ T = at 2026-11-21T08:00:00Z -> ColdRoom()",
        "~Meeting",
        "[Cold] within 5s",
    ]
    assert parse_file(format_file(file)) == file


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n", "   \n\t\n"])
def test_file_without_statements_is_refused(text: str) -> None:
    file = parse_file(text)
    assert (file.types, file.definitions, file.publications) == ((), (), ())


def test_a_statement_goes_on_behind_an_open_bracket_and_at_an_operator() -> None:
    text = "[A where v == '(' # ( [\n]\n; [B]\n| ([C]\n[D])\n[A]\n"
    assert [format_publication(each) for each in parse_file(text).publications] == [
        "[A where v == '('] ; [B] | [C] [D]",
        "[A]",
    ]


def test_topic_for_json_is_part_of_a_publication_and_not_of_its_meaning() -> None:
    text = (
        "[A as x]\n  -> Out(v = x.v) where v > 3\npublish_json = \"home/alarms\"\n[B] -> Other() publish_json = 'b/c'\n"
    )
    file = parse_file(text)
    assert [each.publish_json for each in file.publications] == ["home/alarms", "b/c"]
    assert parse_file(format_file(file)) == file
    plain, to_json = (compile_pattern(f"[A] -> Out(){each}") for each in ("", " publish_json = 'a/b'"))
    assert plain.canonical_id == to_json.canonical_id
    assert to_json.without_json().text == plain.text


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("[A] -> Out() publish_json = 'ced/e/A/s'", (1, 29), "among distced's own"),
        ("[A] -> Out() publish_json = 'a/#'", (1, 29), "wildcard"),
        ("[A] -> Out() publish_json 'a'", (1, 27), "expected"),
        ("[A] -> Out() publish_json = home", (1, 29), "a topic in quotes"),
        ("[A] publish_json = 'a'", (1, 5), "have a type"),
    ],
)
def test_error_of_a_topic_for_json_names_its_place(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_publication(text)
    assert f"line {place[0]}, column {place[1]}" in str(caught.value)
    assert message in str(caught.value)


def test_indentation_of_a_file_is_ignored() -> None:
    assert parse_file("    X = [A]\n    X ; [B]\n") == parse_file("X = [A]\nX ; [B]\n")


# Errors, as people read them: the place, the text, what would have been accepted, what to do.


@pytest.mark.parametrize(
    ("text", "place", "given", "message"),
    [
        ("", (0, 0), "the end of the pattern", "'['"),
        ("[A] ;", (1, 6), "the end of the pattern", "'['"),
        ("[A\n\n\n", (1, 3), "the end of the pattern", "']'"),
        ("[A]\n  ] [B]", (2, 3), "]", "the end of the pattern"),
        ("[A B]", (1, 4), "B", "','"),
        ("A ; [B]", (1, 1), "A", "for an event of type A write [A]"),
        ("[A] B", (1, 5), "B", "for an event of type B write [B]"),
        ("[A;B]", (1, 3), ";", "operators stand outside of brackets"),
        ("[A] && [B]", (1, 6), "&", "write & once"),
        ("[A] || [B]", (1, 6), "|", "write | once"),
        ("[A where v = 1]", (1, 12), "=", "write == to compare"),
        ("[A where 1 < v < 3]", (1, 16), "<", "comparisons do not chain"),
        ("[A where foo(v) > 1]", (1, 10), "foo", "no function of this name"),
        ("[A where max()]", (1, 10), "0 given", "max takes at least 1 argument"),
        ("[A where contains('a')]", (1, 10), "1 given", "contains takes 2 arguments"),
        ("[A where v > 5m]", (1, 14), "5m", "a duration such as"),
        ("[A where v > 9223372036854775808]", (1, 14), "9223372036854775808", "write it as a float"),
        ("[!A]", (1, 1), None, "[!A <= {A, B}]"),
        ("[ [A][B] ]", (1, 10), "]", "'<='"),
        ("[A] within 5", (1, 12), "5", "a duration such as 15ns"),
        ("[A] within 0.1ns", (1, 12), "0.1ns", "finer than a nanosecond"),
        ("[A] within 300y", (1, 12), "300y", "not a number or a duration"),
        ("[A] within 99999999d", (1, 12), "99999999d", "beyond 64 bits"),
        ("[A]{1.5}", (1, 5), "1.5", "not a number of times"),
        ("[A]{2,1}", (1, 4), "2,1", "m <= n"),
        ("[A]{99999}", (1, 5), "99999", "0 to 10000"),
        ("([A], [B])", (1, 11), "the end of the pattern", "'@'"),
        ("([A], [B]) @ T = 5", (1, 18), "5", "a duration such as 5min, 'at' with a time of day or an instant"),
        ("([A], [B]) @ T = (5 * 1s)", (1, 18), "(5 * 1s)", "a delay calculated of constants alone"),
        ("([A], [B]) @ T = x.v* [C]", (1, 23), "[", "an attribute"),
        ("([A], [B]) @ T = at noon", (1, 21), "noon", "a time of day such as 19:00"),
        ("([A], [B]) @ T = at 24:00", (1, 21), "24:00", "00:00 to 23:59:59"),
        ("([A], [B]) @ T = at 19:00 'Mars'", (1, 27), "Mars", "Europe/London"),
        ("([A], [B]) @ T = at 2026-02-30", (1, 21), "2026-02-30", "ISO 8601"),
        ("[A] -> Out(x = 1, x = 2)", (1, 19), "x", "given twice"),
        ("init n = 0 [A]", (1, 12), "[", "':'"),
        ("[A] -> Out() [B]", (1, 14), "[", "the end of the pattern"),
    ],
)
def test_errors_of_patterns_name_their_place(
    text: str, place: tuple[int, int], given: str | None, message: str
) -> None:
    with pytest.raises(PatternError) as caught:
        parse_publication(text)
    error = caught.value
    assert (error.line, error.column) == place
    assert error.given == given
    assert message in str(error)
    if text:
        line, mark = error.snippet.split("\n")
        assert line == f"  {text.splitlines()[error.line - 1]}"
        assert mark.index("^") == error.column + 1


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("X = [A]\nX = [B]\n", (2, 1), "defined twice: X"),
        ("X = [A] -> Y()\n", (1, 9), "what is published has no `Name =` before it"),
        ("type X = Y by z\n", (1, 1), "needs `every` or `at most` before it"),
        ("type X = Y every z\n", (1, 18), "a duration such as"),
        ("# first\n  [A]\n[B]\n", (2, 3), "a statement begins in the first column"),
        ("X = [A]\n[X, B]\n", (2, 3), "X is a definition and cannot be part of a set"),
        ("[A]\n[B", (2, 3), "']'"),
    ],
)
def test_errors_of_files_name_their_place(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_file(text)
    assert (caught.value.line, caught.value.column) == place
    assert message in str(caught.value)


def test_error_for_a_missing_definition_lists_the_others() -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern("Metting", {"Meeting", "Login"})
    assert caught.value.allowed == "Login, Meeting"
