"""Rules of highlighting, made from the words that the scanners and parsers of a language have.

A rule is a regular expression and the kind of what it matches; of several at one place the first counts. That is what
Pygments and the grammars of editors have in common, so both get the same rules. Words that count in one place alone
are highlighted where nothing beside them says that they are names; only the parser knows. Rejected: the parser itself,
which has no answer for a text that is being written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from distced.detectors.frontends.languages import CORE, LANGUAGES
from distced.detectors.frontends.lexicon import Lexicon
from distced.detectors.language.contextual_words import EXPRESSION_WORDS, PATTERN_WORDS
from distced.detectors.language.scanner import SYMBOLS, WORDS
from distced.detectors.language.word_patterns import NAME, NUMBER, QUOTED, WordPatterns
from distced.middleware.sets.aggregates import AGGREGATES
from distced.middleware.sets.expressions import RESERVED
from distced.middleware.sets.state_reads import ALL, CURRENT
from distced.middleware.sets.values import FUNCTIONS


class Kind(StrEnum):
    """Kind of a piece of text."""

    COMMENT = "comment"
    STRING = "string"
    NUMBER = "number"
    KEYWORD = "keyword"
    FUNCTION = "function"
    NAME = "name"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Highlighting:
    """Highlighting of a language.

    Attributes:
        ending: of the files of the language.
        rules: kinds and regular expressions, in the order in which they are tried.
    """

    name: str
    title: str
    ending: str
    rules: tuple[tuple[Kind, str], ...]


_VALUES: Final = frozenset(("lo", "hi", *FUNCTIONS)) - EXPRESSION_WORDS
_CALLED_IN_CORE: Final = _VALUES | AGGREGATES.keys() | {CURRENT, ALL}
_FOLLOWS_NAME: Final = r"(?!\s*(?:\.[^\W\d]|[=!<>]=|[<>]))"
_ENDS_NAME: Final = r"(?!\s*(?:[,)\]]|\.[^\W\d]|[=!<>]=|[<>]))"
"""What does not follow a word that counts in one place: a name stands before a comparison or an attribute, in the core
language also before a comma or a closing bracket."""


def _core() -> Highlighting:
    rules = _rules(WORDS, RESERVED, {}, _CALLED_IN_CORE, PATTERN_WORDS | EXPRESSION_WORDS, _ENDS_NAME)
    return Highlighting(CORE, "pattern language of distced", ".pattern", (*rules, (Kind.SIGN, _any(SYMBOLS))))


def _translated(name: str, title: str, ending: str, lexicon: Lexicon) -> Highlighting:
    words = lexicon.contextual | EXPRESSION_WORDS
    rules = _rules(
        lexicon.words,
        lexicon.keywords | {sign for sign, word in lexicon.spellings.items() if word in lexicon.keywords},
        dict.fromkeys(lexicon.attributes, Kind.KEYWORD),
        _VALUES | lexicon.called,
        words,
        _FOLLOWS_NAME,
        any_case=lexicon.any_case,
    )
    return Highlighting(name, title, ending, rules)


def _rules(
    words: WordPatterns,
    keywords: Iterable[str],
    attributes: Mapping[str, Kind],
    called: Iterable[str],
    contextual: Iterable[str],
    behind: str,
    *,
    any_case: bool = False,
) -> tuple[tuple[Kind, str], ...]:
    """Rules in the order in which a scanner would decide."""
    case = "(?i:" if any_case else "(?:"
    # Letters end where a word ends; signs do not.
    letters = _any(each for each in keywords if each.isidentifier())
    signs = [each for each in keywords if not each.isidentifier()]
    found = [(Kind.COMMENT, each) for each in words.comments]
    found += [
        (Kind.STRING, words.string),
        (Kind.NUMBER, words.duration),
        (Kind.NUMBER, NUMBER),
        (Kind.NAME, QUOTED),
        *((kind, rf"(?<=\.){each}\b") for each, kind in attributes.items()),
        (Kind.NAME, rf"(?<=\.){NAME}"),
        (Kind.KEYWORD, rf"\b{case}{letters})\b"),
        *([(Kind.KEYWORD, _any(signs))] if signs else []),
        (Kind.FUNCTION, rf"\b{case}{_any(called)})\b(?=\s*\()"),
        (Kind.KEYWORD, rf"\b{case}{_any(contextual)})\b{behind}"),
        (Kind.NAME, NAME),
        (Kind.SIGN, words.sign),
    ]
    return tuple(found)


def _any(words: Iterable[str]) -> str:
    """Any of some words or signs, the longest first."""
    return "|".join(re.escape(each) for each in sorted(set(words), key=lambda each: (-len(each), each)))


HIGHLIGHTED: Final = {
    each.name: each
    for each in (_core(), *(_translated(one.name, one.title, one.ending, one.lexicon) for one in LANGUAGES.values()))
}
"""Highlighting of all languages by their names."""
