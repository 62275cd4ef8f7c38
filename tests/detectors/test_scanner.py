"""Words: their kinds, their places, the paper's symbols, and errors with a place in the text."""

from __future__ import annotations

import pytest

from distced.detectors.language.parser import parse_publication
from distced.detectors.language.scanner import Scanner, error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import Span


def words(text: str) -> list[tuple[str, str]]:
    scanner = Scanner(text)
    found = []
    while scanner.word.kind != "end":
        word = scanner.next()
        found.append((word.kind, word.text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n# nothing\n", []),
        ("A", [("name", "A")]),
        ("[A,B]", [("sign", "["), ("name", "A"), ("sign", ","), ("name", "B"), ("sign", "]")]),
        ("a.b", [("name", "a"), ("sign", "."), ("name", "b")]),
        ("any where", [("keyword", "any"), ("keyword", "where")]),
        ("`any` `two words`", [("name", "any"), ("name", "two words")]),
        ("anyone", [("name", "anyone")]),
        ("été Temperatür _x x1", [("name", "été"), ("name", "Temperatür"), ("name", "_x"), ("name", "x1")]),
        ("1 1.5 1e3 2.5E-3", [("number", "1"), ("number", "1.5"), ("number", "1e3"), ("number", "2.5E-3")]),
        ("5s 1.5h 2min 15ns 3µs", [("duration", each) for each in ("5s", "1.5h", "2min", "15ns", "3µs")]),
        ("'a' \"b\"", [("string", "a"), ("string", "b")]),
        (r"'it\'s' 'a\\b' 'a\nb\tc'", [("string", "it's"), ("string", "a\\b"), ("string", "a\nb\tc")]),
        ("'# no comment' # comment", [("string", "# no comment")]),
        ("<= < == = != ! -> -", [("sign", each) for each in ("<=", "<", "==", "=", "!=", "!", "->", "-")]),
        (
            "⊆ ≤ ≥ ≠ ¬ ∥ ‖ ∣ ∪ ∩ ∖ →",
            [("sign", e) for e in ("⊆", "<=", ">=", "!=", "!", "&", "&", "|", ",", "&", "-", "->")],
        ),
        ("A⊆B", [("name", "A"), ("sign", "⊆"), ("name", "B")]),
    ],
)
def test_words_are_scanned(text: str, expected: list[tuple[str, str]]) -> None:
    assert words(text) == expected


def test_places_are_in_characters() -> None:
    scanner = Scanner("  été ⊆ 'ab'")
    assert (scanner.word.start, scanner.word.end) == (2, 5)
    scanner.next()
    assert (scanner.word.start, scanner.word.end) == (6, 7)
    scanner.next()
    assert (scanner.word.start, scanner.word.end, scanner.word.text) == (8, 12, "ab")


def test_part_of_a_text_is_scanned() -> None:
    scanner = Scanner("[A] [B] [C]", 4, 7)
    assert [scanner.next().text for _ in range(3)] == ["[", "B", "]"]
    assert scanner.word.kind == "end"
    assert scanner.word.start == 7


def test_end_is_where_the_last_word_ends() -> None:
    scanner = Scanner("[A\n\n  # comment\n")
    scanner.next()
    scanner.next()
    assert (scanner.word.kind, scanner.word.start) == ("end", 2)


@pytest.mark.parametrize(
    ("text", "given", "column"),
    [
        ("A $", "$", 3),
        ("'open", "'", 1),
        ('A "open', '"', 3),
        ("`open", "`", 1),
        ("12ab", "12ab", 1),
        ("5ms 5m2", "5m2", 5),
        ("'a\nb'", "'", 1),
    ],
)
def test_invalid_words_are_refused(text: str, given: str, column: int) -> None:
    with pytest.raises(PatternError) as caught:
        words(text)
    assert (caught.value.given, caught.value.line, caught.value.column) == (given, 1, column)


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("[A] ; [B] within 5m", "write 5min for minutes, 5ms for milliseconds"),
        ("[A] ; [B] within 1.5minutes", "write 1.5min"),
        ("[A] ; [B] within 2 hours", "write 2h"),
        ("[A] ; [B] within 5 min", "write 5min"),
        ("[A] ; [B] within 2weeks", "write 14d"),
        ("[A] ; [B] within 5sec", "write 5s"),
        ("([A], [B]) @ T = 3 days", "write 3d"),
        ("[A] and [B]", "between patterns write &"),
        ("[A] or [B]", "between patterns write |"),
        ("[A or B]", "for either type write [A, B]"),
        ("[A] && [B]", "write & once between patterns, and between conditions"),
        ("[A where a == 1 || b == 2]", "between conditions write or"),
        ("[A] || [B]", "write | once between patterns, or between conditions"),
        ("[A where a == 1 AND b == 2]", "write and"),
        ("[A where NOT a == 1]", "write not"),
        ("[A WHERE a == 1]", "write where"),
        ("[A] ; [B] WITHIN 5min", "write within"),
        ("[A where a <> 1]", "write != for unequal"),
    ],
)
def test_near_misses_have_the_right_advice(pattern: str, advice: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_publication(pattern)
    assert caught.value.advice == advice


def test_accepted_alternatives_are_remembered() -> None:
    scanner = Scanner("x")
    assert not scanner.at("[", "(")
    assert not scanner.at_kind("number")
    assert scanner.unexpected().allowed == "'[', '(', a number"
    scanner.next()
    assert not scanner.at("]")
    assert scanner.unexpected().allowed == "']'"


def test_an_error_shows_the_line_and_the_place() -> None:
    error = error_at("[A]\n[Bee where x]\n[C]", Span(5, 8), "wrong", given="Bee", allowed="wasps", advice="fly")
    assert (error.line, error.column) == (2, 2)
    assert error.snippet == "  [Bee where x]\n   ^^^"
    assert str(error) == "wrong: Bee (allowed: wasps), at line 2, column 2; fly\n  [Bee where x]\n   ^^^"
    assert error.as_dict() == {
        "error": "PatternError",
        "problem": "wrong",
        "given": "Bee",
        "allowed": "wasps",
        "where": "line 2, column 2",
        "advice": "fly",
    }


def test_an_error_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    error = error_at("ab\ncd", Span(1, 5), "wrong")
    assert error.snippet == "  ab\n   ^"


def test_tabs_keep_the_mark_in_place() -> None:
    assert error_at("\t[A", Span(1, 2), "wrong").snippet == "  \t[A\n  \t^"


def test_long_line_is_shown_around_the_error() -> None:
    text = "x" * 5000 + "[" + "y" * 5000
    error = error_at(text, Span(5000, 5001), "wrong")
    assert error.column == 5001
    shown, mark = error.snippet.split("\n")
    assert len(shown) < 200
    assert shown[mark.index("^")] == "["
    assert shown.strip().startswith("…x")
    assert shown.endswith("y…")


def test_error_without_a_span_has_no_place() -> None:
    error = error_at("", None, "wrong")
    assert (error.line, error.column, error.snippet) == (0, 0, "")
