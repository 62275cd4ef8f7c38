"""Highlighting agrees with the scanners: in the texts of all cases each word has the kind that its scanner gives it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Whitespace
from pygments.token import Text as Plain
from rich.console import Console
from rich.text import Text

from distced.detectors.conformance.cases import load_cases
from distced.detectors.drawing.automaton_drawing import pattern_as_text
from distced.detectors.explain.automaton_view import view_of
from distced.detectors.frontends.algebra.algebra_parser import AlgebraScanner
from distced.detectors.frontends.cedmos.cedmos_parser import CedmosScanner
from distced.detectors.frontends.cedr.cedr_conditions import CedrScanner
from distced.detectors.frontends.cel.cel_parser import CelScanner
from distced.detectors.frontends.languages import CORE, LANGUAGES
from distced.detectors.frontends.pretty.sentence_parser import PrettyScanner
from distced.detectors.highlighting import textmate
from distced.detectors.highlighting.pygments_lexers import TOKENS
from distced.detectors.highlighting.terminal import STYLES, highlighted
from distced.detectors.highlighting.textmate import SCOPES, files, grammar
from distced.detectors.highlighting.word_rules import HIGHLIGHTED, Kind
from distced.detectors.language.scanner import Scanner, Word
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.cli.command import main
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry, event_type
from tests.support.verbs import load_verbs

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "conformance"
SCANNERS = {
    CORE: Scanner,
    "cel": CelScanner,
    "algebra": AlgebraScanner,
    "cedmos": CedmosScanner,
    "cedr": CedrScanner,
    "pretty": PrettyScanner,
}
KINDS = {
    "name": {Kind.NAME, Kind.FUNCTION, Kind.KEYWORD},
    "keyword": {Kind.KEYWORD},
    "number": {Kind.NUMBER},
    "duration": {Kind.NUMBER},
    "string": {Kind.STRING},
    "sign": {Kind.SIGN},
    "stop": {Kind.SIGN},
}
"""Kinds of highlighting that a kind of a scanner may have; names are more than one."""


def entry_points() -> dict[str, RegexLexer]:
    """The lexers as the product registers them, by the name of the entry."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, RegexLexer] = {}
    for name, place in project["entry-points"]["pygments.lexers"].items():
        module, _, lexer = place.partition(":")
        found[name] = getattr(import_module(module), lexer)()
    return found


LEXERS = {each.filenames[0].lstrip("*"): each for each in entry_points().values()}


@cache
def texts(language: str) -> list[str]:
    """Texts of all cases in a language."""
    found = [case for path in sorted(CASES.rglob("*.toml")) for case in load_cases(path)]
    return list(dict.fromkeys(each.pattern for each in found if (each.language or CORE) == language))


def scanned(text: str, language: str) -> Iterator[Word]:
    """Words of a text up to its end, or to what is none."""
    try:
        scanner = SCANNERS[language](text)
        while scanner.word.kind != "end":
            yield scanner.next()
    except PatternError:
        return


def test_each_language_has_a_lexer() -> None:
    assert set(HIGHLIGHTED) == {CORE, *LANGUAGES} == set(SCANNERS)
    assert LEXERS.keys() == {each.ending for each in HIGHLIGHTED.values()}
    assert len({alias for each in LEXERS.values() for alias in each.aliases}) >= len(LEXERS)


@pytest.mark.parametrize("language", HIGHLIGHTED)
def test_words_have_the_kinds_of_their_scanner(language: str) -> None:
    lexer = LEXERS[HIGHLIGHTED[language].ending]
    by_token = {token: kind for kind, token in TOKENS.items()}
    words = 0
    for text in texts(language):
        tokens = {at: (token, value) for at, token, value in lexer.get_tokens_unprocessed(text)}
        assert "".join(value for _, value in tokens.values()) == text
        for word in scanned(text, language):
            token, value = tokens[word.start]
            assert value == text[word.start : word.end], text
            allowed = KINDS[word.kind]
            if word.start and text[word.start - 1] == ".":
                # An attribute, whatever the word.
                allowed = allowed | {Kind.NAME}
            assert by_token[token] in allowed, (text, word)
            words += 1
    assert words > 300


@pytest.mark.parametrize(
    ("language", "text", "keywords"),
    [
        (
            CORE,
            "once [A as x where last == 3] ; [B where x.every > 1] by k -> C(n = 1) take first x settled",
            "once as where where by take first settled",
        ),
        (CORE, "type Here = last Seen where room in ('a', 'b') every 1min by person", "type last where in every by"),
        (CORE, "([A], [T <= {T}]) @ T = every day at 19:00", "every day at"),
        ("cel", "SELECT a FROM S NEXT{$2.select > DUR} R -- FROM\nPUBLISH X", "SELECT FROM NEXT DUR PUBLISH"),
        ("algebra", "σ[x.last > 1 ∧ y < 2] µ[id; ; minP from price](S, S)", "σ last ∧ µ id from"),
        (
            "cedmos",
            "operator X = count(A, 3)\ntransformer Y state count = 0 firing on A as t do count = t.time",
            "operator transformer state firing on as do time",
        ),
        (
            "cedr",
            "Q1: X\nEvent_Pattern SEQUENCE(A x, NOT(B y, WITHIN 5 minutes)) /* WHERE */ NOTIFY First x",
            "Event_Pattern SEQUENCE NOT WITHIN NOTIFY First",
        ),
        (
            "pretty",
            'Report Hot(room = at.room) when any event but "Tick" then "A" as a.',
            "Report when any event but then as",
        ),
    ],
)
def test_words_of_one_place_are_keywords_there(language: str, text: str, keywords: str) -> None:
    tokens = list(LEXERS[HIGHLIGHTED[language].ending].get_tokens_unprocessed(text))
    assert " ".join(value for _, token, value in tokens if token is Keyword) == keywords
    assert {token for _, token, _ in tokens} >= {Name, Whitespace}
    assert all(token is Comment for _, token, value in tokens if value.startswith(("--", "/*")))
    assert Plain not in {token for _, token, _ in tokens}


@pytest.mark.parametrize("language", HIGHLIGHTED)
def test_terminal_shows_the_text_with_styles_of_its_words(language: str) -> None:
    styles = {TOKENS[kind]: style for kind, style in STYLES.items()}
    for text in texts(language)[::5]:
        shown = highlighted(text, language, "bold")
        assert (shown.plain, shown.style) == (text, "bold")
        wanted = [
            (at, at + len(value), styles[token])
            for at, token, value in LEXERS[HIGHLIGHTED[language].ending].get_tokens_unprocessed(text)
            if token in styles
        ]
        assert [(each.start, each.end, each.style) for each in shown.spans] == wanted


def test_explain_shows_words_in_the_language_of_the_text() -> None:
    patterns = compile_source(PatternSource("SELECT * FROM S NEXT{} S", "", "cel"), TypeRegistry([event_type("S", {})]))
    (compiled,) = patterns.compiled
    source, core, *_ = pattern_as_text(compiled, view_of(compiled, patterns.derived), patterns.source.text, "cel")
    assert isinstance(source, Text)
    assert [source.plain[each.start : each.end] for each in source.spans] == ["SELECT", "FROM", "NEXT"]
    assert isinstance(core, Text)
    assert "consumed" in [core.plain[each.start : each.end] for each in core.spans]


# Grammars of editors.


def alternation(document: dict[str, Any]) -> str:
    """The rules of a grammar in one expression: the leftmost match counts, of those at one place the first rule."""
    rules = (each.get("match") or each["begin"] for each in document["patterns"])
    return "|".join(f"(?P<r{place}>{rule})" for place, rule in enumerate(rules))


def coloured(document: dict[str, Any], text: str) -> Iterator[tuple[int, int, str]]:
    """Places and scopes of a text by a grammar, as an editor reads it line by line."""
    expression = re.compile(alternation(document))
    at = 0
    within: dict[str, str] | None = None
    for line in text.splitlines(keepends=True):
        start = 0
        while start < len(line):
            if within is not None:
                end = re.compile(within["end"]).search(line, start)
                stop = end.end() if end else len(line)
                rule, within = within, None if end else within
            elif match := expression.search(line, start):
                rule = document["patterns"][int(str(match.lastgroup)[1:])]
                start, stop = match.span()
                within = rule if "end" in rule else None
            else:
                break
            yield at + start, at + stop, rule["name"]
            start = stop
        at += len(line)


def test_grammars_are_those_of_the_rules() -> None:
    folder = ROOT / "docs" / "editors" / "distced"
    kept = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.json")}
    assert kept == dict(files()), "run make grammars"
    grammars = json.loads(kept["package.json"])["contributes"]["grammars"]
    assert len(grammars) == len(HIGHLIGHTED)
    assert {each["path"].removeprefix("./") for each in grammars} < kept.keys()


@pytest.mark.parametrize("language", HIGHLIGHTED)
def test_editor_colours_as_pygments(language: str) -> None:
    highlighting = HIGHLIGHTED[language]
    tokens = {f"{scope}.distced-{language}": TOKENS[kind] for kind, scope in SCOPES.items()}
    tokens[f"comment.block.distced-{language}"] = Comment
    for text in [*texts(language), "/* of\ntwo lines */ WHERE x /* one */"]:
        wanted = [
            (at, at + len(value), token)
            for at, token, value in LEXERS[highlighting.ending].get_tokens_unprocessed(text)
            if token not in (Whitespace, Plain)
        ]
        found: list[tuple[int, int, object]] = []
        for start, end, scope in coloured(grammar(highlighting), text):
            if found and tokens[scope] is found[-1][2] is Comment and found[-1][1] == start:
                # Of a comment that goes on in the next line.
                start = found.pop()[0]
            found.append((start, end, tokens[scope]))
        assert found == wanted, text


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed, which has the engine of editors")
@pytest.mark.parametrize("language", HIGHLIGHTED)
def test_engine_of_editors_matches_as_python(language: str) -> None:
    expression = alternation(grammar(HIGHLIGHTED[language]))
    lines = list(dict.fromkeys(line for text in texts(language) for line in text.splitlines()))[::3]
    program = 'map([match($e; "g") | [.offset, .length, (.captures | map(.offset >= 0) | index(true))]])'
    done = subprocess.run(
        ["jq", "--arg", "e", expression.replace("(?P<", "(?<"), program],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [
        [[each.start(), len(each[0]), int(str(each.lastgroup)[1:])] for each in re.finditer(expression, line)]
        for line in lines
    ]
    assert json.loads(done.stdout) == wanted


WRONG = {
    CORE: "[A as a] ; [B where k == 'x' and 5] within 5min -> X(k = b.k)",
    "cel": "SELECT x FROM FILTER{k = 5} Door NEXT{ PUBLISH",
    "algebra": "σ{k = 5 and x = 1}(Door",
    "cedmos": "TRANSFORMER 5",
    "cedr": "EVENT Q WHEN SEQUENCE(A, B, 5 hours",
    "pretty": "detect a Door followed by within 5 min",
}
"""Texts with an error, each with highlighted words in its line."""


def shown_error(
    text: str, language: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **environment: str
) -> str:
    """What is shown of an error on standard error, on a terminal that has colours by `FORCE_COLOR`."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm-256color"} | environment).items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    assert main(["check", "--language", language, text]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("language", WRONG)
def test_line_of_an_error_is_highlighted_on_a_terminal_with_colours(
    language: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_verbs()
    shown = shown_error(WRONG[language], language, capsys, monkeypatch, FORCE_COLOR="1")
    console = Console(file=StringIO(), force_terminal=True, color_system="256", highlight=False, soft_wrap=True)
    console.print(highlighted(WRONG[language], language))
    line = console.file.getvalue()
    assert "\x1b[" in line
    assert f"    | \x1b[0m{line}" in shown


@pytest.mark.parametrize("language", WRONG)
def test_line_of_an_error_is_plain_without_colours(
    language: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_verbs()
    text = f"{WRONG[language]} # dim"
    assert f"    | {text}\n" in shown_error(text, language, capsys, monkeypatch)
    for off in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown = shown_error(text, language, capsys, monkeypatch, FORCE_COLOR="1", **off)
        (line,) = (each for each in shown.splitlines() if text in each)
        assert line.endswith(f"    | \x1b[0m{text}") or line == f"    | {text}"


def test_line_of_an_error_in_a_file_is_highlighted_by_the_language_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_verbs()
    for language, text in WRONG.items():
        path = tmp_path / f"wrong{HIGHLIGHTED[language].ending}"
        path.write_text(f"{text}\n", encoding="utf-8")
        given = shown_error(text, language, capsys, monkeypatch, FORCE_COLOR="1")
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert main(["check", str(path)]) == 2
        shown = capsys.readouterr().err.splitlines()
        (line,) = (each for each in given.splitlines() if text in Text.from_ansi(each).plain)
        assert line in shown


def test_grammars_without_a_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for arguments in ([], ["a", "b"], ["--help"]):
        assert textmate.main(arguments) == 2
        shown = capsys.readouterr().err
        assert "  allowed: one folder\n  advice: python -m distced.detectors.highlighting.textmate" in shown
        assert " ".join(arguments) in shown
    assert textmate.main([str(file)]) == 2
    assert f"error: cannot write the grammars: {file}" in capsys.readouterr().err
    assert textmate.main([str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / "package.json").is_file()


def test_grammars_by_the_command_line_end_without_a_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "distced.detectors.highlighting.textmate"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: grammars are written into a folder\n")
