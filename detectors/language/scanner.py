"""Scanner of pattern text: words with their places.

It works on demand because a few words depend on their place: `19:00` is a time of day after `at` and two numbers with a
colon elsewhere. It remembers what would have been accepted, for errors. A grammar for lark's LALR parser was rejected
on paper: `<=` both compares and separates a label from its domain, juxtaposition joins, and messages would have to be
recovered from parser states.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from distced.detectors.language.word_patterns import WordPatterns
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import RESERVED, Span

WORDS: Final = WordPatterns(
    duration=r"\d+(?:\.\d+)?(?:ns|us|µs|ms|min|s|h|d)\b", sign=r"->|<=|>=|==|!=|[\[\](){},;|&~*+/%!<>=@:.\-]"
)
_BLANK = WORDS.blank
_WORD = WORDS.word

# The paper's symbols, and those a keyboard with them suggests, beside their ASCII forms.
SYMBOLS: Final = {
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

_UNITS: Final = {
    "us": ("µs", "usec", "micro", "microsecond"),
    "ms": ("msec", "milli", "millis", "millisecond"),
    "s": ("sec", "second"),
    "min": ("m", "minute"),
    "h": ("hr", "hour"),
    "d": ("day",),
}
"""Units of other languages, without the s of their plural, by ours."""

_WORDS: Final = {"&&": "and", "||": "or", "and": "and", "or": "or", "not": "not", "where": "where", "within": "within"}
"""Words of other languages, in lower case, and ours."""

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
    """

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self.end = len(text) if end is None else end
        self._tried: list[str | tuple[str, ...]] = []
        self.previous = Word("sign", "", start, start)
        self.word = self._read(start)

    def at(self, *texts: str) -> bool:
        """Whether the current word is one of these signs or keywords."""
        word = self.word
        if word.text in texts and word.kind in ("sign", "keyword"):
            return True
        # Most words are read without an error, which alone needs them.
        self._tried.append(texts)
        return False

    @property
    def expected(self) -> list[str]:
        """The accepted alternatives to the current word, in the order tried."""
        found: list[str] = []
        for each in self._tried:
            if isinstance(each, str):
                found.append(each)
            else:
                found += [f"'{text}'" for text in each]
        self._tried[:] = found
        return self._tried  # type: ignore[return-value]

    @expected.setter
    def expected(self, expected: list[str]) -> None:
        self._tried = list(expected)

    def at_kind(self, kind: str) -> bool:
        """Whether the current word is of this kind."""
        if self.word.kind == kind:
            return True
        self._tried.append(_a(kind))
        return False

    def next(self) -> Word:
        """Take the current word and advance."""
        taken = self.previous = self.word
        self.word = self._read(taken.end)
        self._tried = []
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
        advice = advice or self.near_miss()
        allowed = ", ".join(dict.fromkeys(self.expected)) or None
        return self.error(
            "unexpected", Span(self.word.start, self.word.end), given=given, allowed=allowed, advice=advice
        )

    def near_miss(self) -> str | None:
        """What was probably meant by an unexpected word of another language."""
        word, previous = self.word, self.previous
        given = word.text
        if given in ("&", "|") and previous.text == given:
            return f"write {given} once between patterns, {_WORDS[given * 2]} between conditions"
        if given == ">" and previous.text == "<":
            return "write != for unequal"
        if given in ("and", "or") and word.kind == "keyword":
            either = (
                "for either type write [A, B]" if given == "or" else "write conditions as [A where a == 1 and b == 2]"
            )
            patterns = f"between patterns write {'&' if given == 'and' else '|'}"
            return patterns if previous.text in ("]", ")", "*", "+", "}") else either
        for each, unit in ((word, self._after), (previous, word)):
            if each.kind == "number" and unit.kind == "name" and (advice := _of_unit(f"{each.text}{unit.text}")):
                return advice
        for each in (word, previous):
            if each.kind == "name" and each.text.lower() in _WORDS and each.text not in _WORDS.values():
                return f"write {_WORDS[each.text.lower()]}"
        return None

    @property
    def _after(self) -> Word:
        """The word after the current one; that one itself where the next is unreadable."""
        try:
            return self.peek()
        except PatternError:
            return self.word

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
        symbol = SYMBOLS.get(self.text[start])
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
                advice=_of_unit(match[0]) if match else None,
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


def place_of(text: str, span: Span | None) -> str | None:
    """Line and column of a place in a pattern's text; None without one."""
    found = error_at(text, span, "")
    return f"line {found.line}, column {found.column}" if found.line else None


def _of_unit(given: str) -> str | None:
    """Advice for a number with a unit of another language, or a blank before it."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([^\W\d]+)", given)
    if match is None:
        return None
    number, unit = match[1], match[2].lower()
    for ours, others in _UNITS.items():
        if unit in (ours, *others, *(f"{each}s" for each in others)):
            also = f", {number}ms for milliseconds" if unit == "m" else ""
            return f"write {number}{ours}" + (f" for minutes{also}" if unit == "m" else "")
    weeks = unit in ("w", "week", "weeks") and number.isdigit()
    return f"write {int(number) * 7}d" if weeks else None


def _a(kind: str) -> str:
    return f"a {kind}" if kind != "end" else "the end of the pattern"
