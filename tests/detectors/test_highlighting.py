"""Highlighting agrees with the scanners: in the texts of all cases each word has the kind that its scanner gives it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Text, Whitespace

from distced.detectors.conformance.cases import load_cases
from distced.detectors.frontends.algebra.algebra_parser import AlgebraScanner
from distced.detectors.frontends.cedmos.cedmos_parser import CedmosScanner
from distced.detectors.frontends.cedr.cedr_conditions import CedrScanner
from distced.detectors.frontends.cel.cel_parser import CelScanner
from distced.detectors.frontends.languages import CORE, LANGUAGES
from distced.detectors.frontends.pretty.sentence_parser import PrettyScanner
from distced.detectors.highlighting.pygments_lexers import TOKENS
from distced.detectors.highlighting.word_rules import HIGHLIGHTED, Kind
from distced.detectors.language.scanner import Scanner, Word
from distced.middleware.model.errors import PatternError

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
    assert Text not in {token for _, token, _ in tokens}
