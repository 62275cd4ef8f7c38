"""Scanner toolkit of front ends: words of a text by the lexicon of its language (frontends, section 1, Lexical).

The scanner is that of the core language, with other words: so parsers of front ends can read core expressions with
`ExpressionParser`, and errors have the same form. Names are as in the core, with back-quotes; texts stand in '...',
"..." or the quotes that the articles print; durations may have a blank before their unit, and words for units.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import ClassVar, Final

from distced.detectors.language.scanner import Scanner, Word
from distced.detectors.language.word_patterns import HASH, STRING, WordPatterns
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import Span

_UNITS: Final = {
    "ns": "ns", "us": "us", "µs": "us", "ms": "ms",
    "s": "s", "sec": "s", "second": "s", "seconds": "s",
    "min": "min", "minute": "min", "minutes": "min",
    "h": "h", "hour": "h", "hours": "h",
    "d": "d", "day": "d", "days": "d",
    "week": "week", "weeks": "week",
}  # fmt: skip
"""Units of durations by the words for them."""

_ESCAPES: Final = {"n": "\n", "t": "\t"}
_QUOTES: Final = "'\"`‘’“”"
_PRINTED: Final = r"[‘’](?:[^‘’\\\n]|\\.)*[‘’]|[“”](?:[^“”\\\n]|\\.)*[“”]"
"""A text in the quotes that the articles print."""

DASHES: Final = r"--[^\n]*"
"""Comment of CEL and of SQL."""

SLASHES: Final = r"/\*(?:[^*]|\*(?!/))*\*/"
"""Comment of CEDR and of C."""


class Lexicon:
    """Words of a language.

    Attributes:
        keywords: in lower case, as words have them.
        any_case: whether keywords may be written in any case.
        comments: expressions of comments.
        contextual: words that count in one place alone, and are names elsewhere; parsers compare with them.
        called: those that count before a parenthesis alone.
        attributes: those that the language gives to every event, behind a dot.
        spellings: signs and words for others.
    """

    def __init__(
        self,
        keywords: frozenset[str],
        signs: tuple[str, ...],
        *,
        any_case: bool = False,
        comments: tuple[str, ...] = (HASH,),
        spellings: Mapping[str, str] | None = None,
        contextual: Iterable[str] = (),
        called: Iterable[str] = (),
        attributes: Iterable[str] = (),
    ) -> None:
        """The lexicon with these signs; `spellings` are other signs for a sign or a keyword, such as `∧` for and."""
        self.keywords = keywords
        self.any_case = any_case
        self.comments = comments
        self.contextual = frozenset(contextual)
        self.called = frozenset(called)
        self.attributes = frozenset(attributes)
        self.spellings = dict(spellings or {})
        self._signs = tuple(sorted({*signs, *self.spellings}, key=lambda each: (-len(each), each)))

    @cached_property
    def words(self) -> WordPatterns:
        """Regular expressions of the words."""
        units = "|".join(sorted(_UNITS, key=len, reverse=True))
        units = f"(?i:{units})" if self.any_case else f"(?:{units})"
        duration = rf"\d+(?:\.\d+)?[ \t]*{units}\b"
        sign = "|".join(map(re.escape, self._signs))
        return WordPatterns(duration, sign, f"{STRING}|{_PRINTED}", self.comments)

    def read(self, match: re.Match[str]) -> Word:
        """The word of a match."""
        kind, text = str(match.lastgroup), match[0]
        if kind == "name" and text[0] == "`":
            text = text[1:-1]
        elif kind == "name":
            lowered = text.lower() if self.any_case else text
            lowered = self.spellings.get(lowered, lowered)
            if lowered in self.keywords:
                kind, text = "keyword", lowered
        elif kind == "string":
            text = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text[1:-1])
        elif kind == "duration":
            text = _duration(text)
        elif kind == "sign":
            text = self.spellings.get(text, text)
            if text in self.keywords:
                kind = "keyword"
        return Word(kind, text, match.start(), match.end())


class LanguageScanner(Scanner):
    """Scanner of a text by a lexicon, which subclasses have."""

    lexicon: ClassVar[Lexicon]

    def near_miss(self) -> str | None:
        """Advice for a word of the language where a name is wanted; that of the core language would be wrong."""
        word = self.word
        written = self.text[word.start : word.end]
        wanted = any(each.startswith(("a ", "an ")) for each in self.expected)
        if word.kind == "keyword" and wanted and written.isidentifier():
            return f"{written} is a word of the language: as a name write it in back-quotes, `{written}`"
        return None

    def unexpected(self, advice: str | None = None) -> PatternError:
        """An error at the current word as it was written, with the accepted alternatives."""
        error = super().unexpected(advice)
        if self.word.kind != "end":
            error.given = self.text[self.word.start : self.word.end]
        elif error.given is not None:
            error.given = "the end of the text"
        return error

    def rest(self) -> Span:
        """Place of the current word, or of the last one at the end."""
        word = self.word if self.word.kind != "end" else self.previous
        return Span(word.start, word.end)

    def _read(self, position: int) -> Word:
        words = self.lexicon.words
        blank = words.blank.match(self.text, position, self.end)
        start = blank.end() if blank else position
        if start >= self.end:
            # Where the last word ends, not behind the blank lines that follow.
            return Word("end", "", position, position)
        if SLASHES in self.lexicon.comments and self.text.startswith("/*", start):
            raise self.error("a comment that does not end", Span(start, start + 2), given="/*")
        match = words.word.match(self.text, start, self.end)
        if match is not None:
            return self.lexicon.read(match)
        if self.text[start] in _QUOTES:
            problem = "a quote that does not end on its line"
        elif self.text[start].isdigit():
            end = re.compile(r"[\w.]+").match(self.text, start, self.end)
            span = Span(start, end.end() if end else start + 1)
            raise self.error(
                "not a number or a duration",
                span,
                given=self.text[span.start : span.end],
                allowed="a number such as 15 or 0.5, a duration such as 15ns, 5s, 2 min, 1 hour or 1.5d",
            )
        else:
            problem = "a character that means nothing here"
        raise self.error(problem, Span(start, start + 1), given=self.text[start])


def _duration(text: str) -> str:
    """A duration as the core language writes it."""
    match = re.fullmatch(r"([\d.]+)\s*(\D+)", text)
    assert match is not None
    number, unit = match[1], _UNITS[match[2].lower()]
    return f"{Decimal(number) * 7:f}d" if unit == "week" else f"{number}{unit}"
