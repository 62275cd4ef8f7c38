"""Scanner of pattern text: words with their places.

It works on demand because a few words depend on their place: `19:00` is a time of day after `at` and two numbers with a
colon elsewhere. It remembers what would have been accepted, for errors. A grammar for lark's LALR parser was rejected
on paper: `<=` both compares and separates a label from its domain, juxtaposition joins, and messages would have to be
recovered from parser states.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import RESERVED, Span

_BLANK = re.compile(r"(?:\s+|\#[^\n]*)*")
_WORD = re.compile(
    r"""
    (?P<duration>\d+(?:\.\d+)?(?:ns|us|µs|ms|min|s|h|d)\b)
  | (?P<number>(?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?(?!\w))
  | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
  | (?P<name>[^\W\d]\w*|`[^`\n]+`)
  | (?P<sign>->|<=|>=|==|!=|[][(){},;|&~*+/%!<>=@:.\-])
    """,
    re.VERBOSE,
)

# The paper's symbols, and those a keyboard with them suggests, beside their ASCII forms.
_SYMBOLS: Final = {
    "⊆": "⊆",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "¬": "!",
    "∥": "&",
    "‖": "&",
    "∣": "|",
    "∪": ",",
    "∩": "&",
    "∖": "-",
    "\\": "-",
    "→": "->",
}
_ESCAPES: Final = {"n": "\n", "t": "\t"}

# How much of a line an error shows.
_SHOWN_BEFORE: Final = 90
_SHOWN_BEHIND: Final = 60


class Word(NamedTuple):
    """A word of the text.

    Attributes:
        kind: `name`, `number`, `duration`, `string`, or `sign` and `keyword`, whose text says which; `end` at the end.
        text: as written, but a quoted name without quotes and a symbol of the paper as its ASCII form.
    """

    kind: str
    text: str
    start: int
    end: int


class Scanner:
    """Scanner of the words of `text[start:end]`.

    Attributes:
        previous: the word before the current one; its end is the end of the text read so far.
        expected: the accepted alternatives to the current word, in the order tried.
    """

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self.end = len(text) if end is None else end
        self.expected: list[str] = []
        self.previous = Word("sign", "", start, start)
        self.word = self._read(start)

    def at(self, *texts: str) -> bool:
        """Whether the current word is one of these signs or keywords."""
        if self.word.kind in ("sign", "keyword") and self.word.text in texts:
            return True
        self.expected += [f"'{text}'" for text in texts]
        return False

    def at_kind(self, kind: str) -> bool:
        """Whether the current word is of this kind."""
        if self.word.kind == kind:
            return True
        self.expected.append(_a(kind))
        return False

    def next(self) -> Word:
        """Take the current word and advance."""
        taken = self.previous = self.word
        self.word = self._read(taken.end)
        self.expected = []
        return taken

    def take(self, *texts: str) -> Word | None:
        """Take the current word if it is one of these signs or keywords."""
        return self.next() if self.at(*texts) else None

    def expect(self, *texts: str) -> Word:
        """Take the current word, which has to be one of these."""
        if not self.at(*texts):
            raise self.unexpected()
        return self.next()

    def expect_kind(self, kind: str, what: str | None = None) -> Word:
        """Take the current word, which has to be of this kind."""
        if self.word.kind != kind:
            self.expected.append(what or _a(kind))
            raise self.unexpected()
        return self.next()

    def peek(self) -> Word:
        """The word after the current one."""
        return self._read(self.word.end)

    def raw(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Take the regular expression's match at the start of the current word, regardless of word boundaries."""
        match = pattern.match(self.text, self.word.start, self.end)
        if match is None:
            self.expected.append(what)
            raise self.unexpected()
        self.previous = Word("raw", match[0], match.start(), match.end())
        self.word = self._read(match.end())
        self.expected = []
        return match

    def unexpected(self, advice: str | None = None) -> PatternError:
        """An error at the current word, with the accepted alternatives."""
        given = self.word.text if self.word.kind != "end" else "the end of the pattern"
        if advice is None and given in ("&", "|") and self.previous.text == given:
            advice = f"write {given} once"
        allowed = ", ".join(dict.fromkeys(self.expected)) or None
        return self.error(
            "unexpected", Span(self.word.start, self.word.end), given=given, allowed=allowed, advice=advice
        )

    def error(
        self, problem: str, span: Span, *, given: object = None, allowed: str | None = None, advice: str | None = None
    ) -> PatternError:
        """An error at a place in the text."""
        return error_at(self.text, span, problem, given=given, allowed=allowed, advice=advice)

    def _read(self, position: int) -> Word:
        blank = _BLANK.match(self.text, position, self.end)
        start = blank.end() if blank else position
        if start >= self.end:
            # Where the last word ends, not behind the blank lines that follow.
            return Word("end", "", position, position)
        symbol = _SYMBOLS.get(self.text[start])
        if symbol is not None:
            return Word("sign", symbol, start, start + 1)
        match = _WORD.match(self.text, start, self.end)
        if match is None:
            return self._unreadable(start)
        kind, text = str(match.lastgroup), match[0]
        if kind == "name":
            if text[0] == "`":
                text = text[1:-1]
            elif text in RESERVED:
                kind = "keyword"
        elif kind == "string":
            text = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), text[1:-1])
        return Word(kind, text, start, match.end())

    def _unreadable(self, start: int) -> Word:
        character = self.text[start]
        if character in "'\"`":
            raise self.error("a quote that does not end on its line", Span(start, start + 1), given=character)
        if character.isdigit():
            match = re.compile(r"[\w.]+").match(self.text, start, self.end)
            raise self.error(
                "not a number or a duration",
                Span(start, match.end() if match else start + 1),
                given=match[0] if match else character,
                allowed="a number such as 15 or 0.5, a duration such as 15ns, 5s, 2min, 1h or 1.5d",
            )
        raise self.error("a character that means nothing here", Span(start, start + 1), given=character)


def error_at(
    text: str,
    span: Span | None,
    problem: str,
    *,
    given: object = None,
    allowed: str | None = None,
    advice: str | None = None,
) -> PatternError:
    """An error at a place in a pattern's text; on the pattern as a whole without a place."""
    if span is None or not text:
        return PatternError(problem, given=given, allowed=allowed, advice=advice)
    start = min(span.start, len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = line_end if line_end >= 0 else len(text)
    # Of a long line only what is around the place.
    shown_start = max(line_start, start - _SHOWN_BEFORE)
    shown_end = min(line_end, start + _SHOWN_BEHIND)
    before = ("…" if shown_start > line_start else "") + text[shown_start:start]
    behind = text[start:shown_end] + ("…" if shown_end < line_end else "")
    width = max(1, min(span.end, shown_end) - start)
    # The same blanks below, so that a tab is as wide there.
    blank = "".join(each if each == "\t" else " " for each in before)
    snippet = f"  {before}{behind}\n  {blank}{'^' * width}"
    line, column = text.count("\n", 0, start) + 1, start - line_start + 1
    return PatternError(problem, given=given, allowed=allowed, line=line, column=column, snippet=snippet, advice=advice)


def _a(kind: str) -> str:
    return {"end": "the end of the pattern"}.get(kind, f"a {kind}")
