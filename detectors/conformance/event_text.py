"""Events as one line of text, the notation of conformance cases: `type lo [hi] attributes`.

    Temp 30 35 room='FE02' temp=14.5
    BoardOn 2026-11-21T08:00Z
    Login 5min user=null

`lo` and `hi` are whole nanoseconds, durations since the epoch, or instants; attribute values are literals as in
patterns. The scanner is the one of patterns, so that names, quotes, comments and numbers are the same in both.
"""

from __future__ import annotations

from typing import Final

from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.parser import INSTANT
from distced.detectors.language.scanner import Scanner
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Attribute, Event, check_event
from distced.middleware.model.timestamps import INSTANT_MAX, parse_instant
from distced.middleware.sets.expressions import Literal, Span

SOURCE: Final = "e"
"""The source of the events of a case; their sequence number is their position."""

_TIME: Final = "a time: whole nanoseconds such as 10, a duration such as 5s, an instant such as 2026-11-21T08:00Z"


def parse_event(text: str, position: int) -> Event:
    """The event of a line. Raises `DistcedError` for a malformed one."""
    scanner = Scanner(text)
    name = scanner.expect_kind("name", "an event type").text
    lo = _time(scanner)
    hi = _time(scanner) if _at_time(scanner) else lo
    attributes: dict[str, Attribute] = {}
    while scanner.word.kind != "end":
        word = scanner.expect_kind("name", "an attribute" if attributes else f"{_TIME}, or an attribute")
        if word.text in attributes:
            raise scanner.error("given twice", Span(word.start, word.end), given=word.text)
        scanner.expect("=")
        attributes[word.text] = _value(scanner)
    return check_event(Event(name, lo, hi, SOURCE, position, attributes))


def _at_time(scanner: Scanner) -> bool:
    return scanner.word.kind in ("number", "duration") or (scanner.word.kind == "sign" and scanner.word.text == "-")


def _time(scanner: Scanner) -> int:
    start = scanner.word.start
    if INSTANT.match(scanner.text, start):
        text = scanner.raw(INSTANT, _TIME)[0]
        try:
            return parse_instant(text)
        except DistcedError as error:
            span = Span(start, scanner.previous.end)
            raise scanner.error(error.problem, span, given=text, allowed=error.allowed) from None
    sign = -1 if scanner.take("-") else 1
    if scanner.word.kind == "duration":
        return sign * ExpressionParser(scanner).duration()
    word = scanner.expect_kind("number", _TIME)
    if not word.text.isdigit() or len(word.text) > len(str(INSTANT_MAX)):
        raise scanner.error("not a time", Span(start, word.end), given=word.text, allowed=_TIME)
    return sign * int(word.text)


def _value(scanner: Scanner) -> Attribute:
    start = scanner.word.start
    expression = ExpressionParser(scanner).sum()
    if not isinstance(expression, Literal):
        span = Span(start, scanner.previous.end)
        raise scanner.error(
            "not the value of an attribute",
            span,
            given=scanner.text[span.start : span.end],
            allowed="a number, 'a text', true, false, null, a duration",
        )
    return expression.value
