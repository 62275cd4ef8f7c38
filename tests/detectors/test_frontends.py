"""Base of front ends: words of lexicons, languages by name and file ending, names that are made up, schemas."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from distced.detectors.batch_run.runner import run
from distced.detectors.compiler import check_pattern, compile_file
from distced.detectors.conformance.assertions import assert_detects
from distced.detectors.frontends.languages import LANGUAGES, Written, check_language, language_of_file, translate
from distced.detectors.frontends.lexicon import DASHES, HASH, SLASHES, LanguageScanner, Lexicon
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.frontends.schemas import Schemas
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.private import output_of
from distced.detectors.language.scanner import Scanner
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.event_files import write_events
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.patterns.statements import read_file
from distced.middleware.patterns.tree import Atom
from distced.middleware.sets.expressions import Span
from tests.support.verbs import load_verbs

TEXT = "SELECT p AS q FROM FILTER{p > 1} S PUBLISH High"
TYPES = TypeRegistry([EventType("S", {"p": "number"})])


class Words(LanguageScanner):
    lexicon = Lexicon(
        frozenset({"select", "and", "or", "not", "true"}),
        ("(", ")", "==", "<=", "<", "+", "-", "*", "/", "%", ",", "."),
        any_case=True,
        comments=(HASH, DASHES, SLASHES),
        spellings={"=": "==", "∧": "and", "σ": "select", "≤": "<="},
    )


def words(text: str) -> list[tuple[str, str]]:
    scanner, found = Words(text), []
    while scanner.word.kind != "end":
        word = scanner.next()
        found.append((word.kind, word.text))
    return found


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SeLeCt", ("keyword", "select")),
        ("σ", ("keyword", "select")),
        ("`select`", ("name", "select")),
        ("Price_1", ("name", "Price_1")),
        ("‘IBM’", ("string", "IBM")),
        ("’MSFT’", ("string", "MSFT")),
        ("“a b”", ("string", "a b")),
        ("'it\\'s'", ("string", "it's")),
        ("1.05", ("number", "1.05")),
        ("10min", ("duration", "10min")),
        ("10 minutes", ("duration", "10min")),
        ("1.5 HOURS", ("duration", "1.5h")),
        ("2 weeks", ("duration", "14d")),
        ("3 µs", ("duration", "3us")),
        ("=", ("sign", "==")),
        ("∧", ("keyword", "and")),
    ],
)
def test_word_of_a_lexicon(text: str, word: tuple[str, str]) -> None:
    assert words(text) == [word]


def test_comments_are_blanks() -> None:
    assert words("a # b\n-- c\n/* d * e\n/ f */ g") == [("name", "a"), ("name", "g")]


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("a 'b", "a quote that does not end on its line", 3),
        ("a ‘b", "a quote that does not end on its line", 3),
        ("a 12ab", "not a number or a duration", 3),
        ("a /* b", "a comment that does not end", 3),
        ("a ?", "a character that means nothing here", 3),
    ],
)
def test_unreadable_word_is_an_error_with_its_place(text: str, problem: str, column: int) -> None:
    with pytest.raises(PatternError, match=problem) as caught:
        words(text)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_core_expressions_are_read_with_the_words_of_a_language() -> None:
    expression = ExpressionParser(Words("a = 2 minutes AND not b ≤ 3")).expression()
    assert expression == ExpressionParser(Scanner("a == 2min and not b <= 3")).expression()


def test_languages_are_known_by_name_and_by_file_ending() -> None:
    assert (check_language("core"), check_language(""), check_language("cel")) == ("", "", "cel")
    assert (language_of_file("a/b.cel"), language_of_file("b.pattern"), language_of_file("cel")) == ("cel", "", "")
    with pytest.raises(
        PatternError, match=f"unknown language of a pattern: cobol .allowed: core, {next(iter(LANGUAGES))}"
    ):
        check_language("cobol")


def test_made_names_are_not_taken() -> None:
    names = MadeNames(["_x", "_x2", "price"])
    assert [names.make("x"), names.make("x"), names.make("price"), names.make("S1.p")] == [
        "_x3",
        "_x4",
        "_price",
        "_S1_p",
    ]


def test_schema_is_that_of_the_text_else_of_the_types() -> None:
    schemas = Schemas("S T", TYPES, "CEL")
    place = Span(0, 1)
    assert schemas.of("S", place) == ("p",)
    schemas.publish("T", ("a", "b"), place)
    assert schemas.of("T", place) == ("a", "b")
    assert schemas.names_read == {"S", "p", "T", "a", "b"}
    with pytest.raises(PatternError, match="this stream exists already: T"):
        schemas.publish("T", ("a",), place)
    with pytest.raises(PatternError, match=r"unknown stream: U \(allowed: S, T\)"):
        schemas.of("U", place)
    with pytest.raises(PatternError, match="the event type S has no such attribute: q"):
        schemas.declare("S", ("p", "q"), place)
    with pytest.raises(
        PatternError, match=r"CEL needs the attributes of this stream: U.*declare them: STREAM U\(a, b\)"
    ):
        Schemas("U", TypeRegistry(open=True), "CEL").of("U", place)


def test_file_is_read_in_the_language_of_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "high.cel"
    path.write_text(TEXT)
    source = read_source(path)
    assert source.language == "cel"
    patterns = compile_source(source, TYPES)
    assert patterns.results == ("High",)
    assert [each.publishes.name for each in patterns.compiled] == ["High"]
    with pytest.raises(PatternError, match="no such pattern file"):
        read_source("nowhere.cel")
    # Another language may be said.
    assert read_source(path, "core").language == ""


def test_error_in_a_file_has_its_name_and_the_place_in_the_text(tmp_path: Path) -> None:
    path = tmp_path / "high.cel"
    path.write_text("\n" + TEXT.replace("p >", "price >"))
    with pytest.raises(PatternError) as caught:
        compile_source(read_source(path), TYPES)
    assert caught.value.where == f"{path}, line 2, column 27"
    assert "price" in (caught.value.snippet or "")


def test_error_of_the_core_shows_the_text(tmp_path: Path) -> None:
    with pytest.raises(PatternError) as caught:
        compile_source(read_source("FROM FILTER{p > 'x'} S", "cel"), TYPES)
    assert (caught.value.line, caught.value.column) == (1, 13)


def test_query_of_several_is_named() -> None:
    two = f"{TEXT} FROM High"
    assert check_pattern(two, TYPES, written=Written("cel", "High")).publishes.name == "High"
    assert check_pattern(two, TYPES, written=Written("cel", "Out")).text == "[High as _x] -> (q = _x.q) consumed epoch"
    with pytest.raises(PatternError, match="several queries, of which one can be detected at a time: High, Out"):
        check_pattern(two, TYPES, written=Written("cel"))
    with pytest.raises(PatternError, match=r"no query of this name: Low \(allowed: High, Out\)"):
        check_pattern(two, TYPES, written=Written("cel", "Low"))


def test_translation_leads_back_to_the_text() -> None:
    translation = translate("\n" + TEXT, "cel", TYPES)
    (publication,) = translation.file.publications
    assert translation.place(publication.pattern) == "line 2, column 1"
    assert isinstance(publication.pattern, Atom)
    assert translation.place(publication.pattern.label) == "line 2, column 34"


def test_explanation_shows_what_was_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT p_1 AS a FROM FILTER{p > 1} S\n NEXT{$1.p < $2.p} S"
    assert main(["explain", text, "--language", "cel", "--types", "types.toml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("SELECT p_1 AS a FROM FILTER{p > 1} S NEXT{$1.p < $2.p} S\n[S where (p > 1) as _x] ;")
    assert "[S where p > _x.p]   NEXT{$1.p < $2.p} S" in shown or "[S where _x.p < p]   NEXT{$1.p < $2.p} S" in shown
    assert main(["explain", text, "--language", "cel", "--types", "types.toml", "--json"]) == 0
    (pattern,) = json.loads(capsys.readouterr().out)["patterns"]
    assert [each.get("written") for each in pattern["tree"]["parts"]] == ["S", "NEXT{$1.p < $2.p} S"]


def test_run_and_assertions_take_a_language(folder: Path) -> None:
    found = run(TEXT, folder / "events.jsonl", types=[EventType("S", {"p": "number"})], language="cel")
    assert [each.attributes for each in found] == [{"q": 2}, {"q": 3}]
    assert_detects(f"STREAM S(p) {TEXT}", ["S 1 p=1", "S 2 p=5"], [{"q": 5}], language="cel")


def test_attributes_are_those_of_a_recording_without_types(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [each.attributes for each in run(TEXT, folder / "events.jsonl", language="cel")] == [{"q": 2}, {"q": 3}]
    assert_detects("SELECT * FROM S NEXT T", ["S 1 p=1", "T 2 q='a'", "S 2"], [{"p": 1, "q": "a"}], language="cel")
    assert main(["run", "high.cel", "--input", "events.jsonl"]) == 0
    assert capsys.readouterr().out.count('"High"') == 2


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("cel", "SELECT p + p AS p FROM (" * 40 + "S" + ")" * 40),
        ("cel", ("SELECT p" + " + 1" * 90 + " AS p FROM (") * 30 + "S" + ")" * 30),
        ("algebra", "".join(f"α[b{n} = b{n + 1} + b{n + 1}] " for n in range(40)) + "ρ[p -> b40] S"),
    ],
)  # fmt: skip
def test_names_that_multiply_are_refused(language: str, text: str) -> None:
    with pytest.raises(PatternError, match="an expression that is too large with what its names stand for") as caught:
        translate(text, language, TYPES)
    assert caught.value.line == 1


def test_word_of_the_language_as_a_name_has_advice() -> None:
    with pytest.raises(PatternError, match="From is a word of the language: as a name write it in back-quotes, `From`"):
        translate("STREAM S(p) SELECT p AS From FROM S", "cel", TypeRegistry(open=True))
    made = translate("STREAM S(p) SELECT p AS `From` FROM S", "cel", TypeRegistry(open=True))
    assert [name for name, _ in output_of(made.file.publications[0]).attributes] == ["From"]


def test_file_of_another_language_is_no_pattern_file(folder: Path) -> None:
    with pytest.raises(PatternError, match=r"a file in another language.*subscribe.text, language='cel'"):
        read_file(folder / "high.cel")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load_verbs()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "high.cel").write_text(TEXT)
    (tmp_path / "types.toml").write_text('[types.S]\np = "number"\n')
    write_events([Event("S", time, time, "s", time, {"p": time}) for time in (1, 2, 3)], tmp_path / "events.jsonl")
    return tmp_path


def test_verb_translate_prints_a_pattern_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "high.cel", "--types", "types.toml"]) == 0
    text = capsys.readouterr().out
    assert text == "[S where (p > 1) as _x] -> High(q = _x.p) consumed epoch\n"
    assert [each.publishes.name for each in compile_file(text)] == ["High"]


def test_translation_is_not_broken_at_the_width_of_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=20, color_system=None)
    monkeypatch.setattr("distced.detectors.cli.translate.output", lambda: console)
    assert main(["translate", "high.cel", "--types", "types.toml"]) == 0
    assert shown.getvalue() == "[S where (p > 1) as _x] -> High(q = _x.p) consumed epoch\n"


def test_verbs_take_a_text_in_a_language(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", TEXT, "--language", "cel", "--types", "types.toml"]) == 0
    assert main(["run", "high.cel", "--input", "events.jsonl", "--types", "types.toml"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [each["attributes"]["q"] for each in lines] == [2, 3]
