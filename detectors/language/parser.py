"""Parser of patterns: recursive descent over the table of the core language (design, section 1).

Precedence, tightest first: postfix `* + {m,n}`, `~`, concatenation, `;`, `&`, `|`, `init ... :`; then `within`, `by`,
`->`. In a pattern file a statement ends where a line begins in the first column, unless that line goes on with an
operator or a bracket is open. A separator between statements was rejected: `;` means something else already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from textwrap import dedent
from typing import Final

from distced.detectors.language.constants import Constant, at_constant
from distced.detectors.language.depth import check_depth, check_output_depth
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.scanner import Scanner
from distced.middleware.model.clock_rules import cron_clock, every_clock
from distced.middleware.model.errors import DistcedError, PatternError, TypeRegistryError
from distced.middleware.model.timestamps import parse_instant
from distced.middleware.patterns import tree
from distced.middleware.patterns.operands import CLOCK_TIME, clock_time
from distced.middleware.patterns.statements import (
    CONSUMPTIONS,
    DEFINED,
    NO_STATE,
    NO_STATE_ADVICE,
    split_statements,
)
from distced.middleware.sets.aggregates import slides
from distced.middleware.sets.describable import DescribableSet, Difference, Filtered
from distced.middleware.sets.expressions import Expression, Span, names, variables
from distced.middleware.wire.topics import TopicError, check_json_topic

INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?")

# A limit on {m,n}, whose copies are states of the automaton.
_MOST_COPIES: Final = 10_000

_PRIVATE: Final = re.compile(r"\s*private\b")


def parse_pattern(
    text: str, definitions: Collection[str] = (), constants: Mapping[str, Constant] | None = None
) -> tree.Pattern:
    """The tree of a single pattern without an output; names from `definitions` become references."""
    publication = parse_publication(text, definitions, constants)
    if publication.output is not None:
        scanner = Scanner(text)
        raise scanner.error("an output where a plain pattern is wanted", publication.output.span or Span(0, 1))
    if publication.once:
        advice = "write it where the definition is used: once Name by k -> Out()"
        raise Scanner(text).error("once belongs to a whole pattern, not to a definition", Span(0, 4), advice=advice)
    return publication.pattern


def parse_constant(text: str, name: str) -> Constant:
    """The value of a constant of this name."""
    parser = Parser(Scanner(text))
    constant = parser.constant(name)
    parser.end()
    return constant


def parse_publication(
    text: str, definitions: Collection[str] = (), constants: Mapping[str, Constant] | None = None
) -> tree.Publication:
    """The tree of a single pattern, with its output, if any."""
    parser = Parser(Scanner(text), definitions, constants)
    publication = parser.publication()
    parser.end()
    _check_depths(publication, text)
    return publication


def parse_private(
    text: str, definitions: Collection[str] = (), constants: Mapping[str, Constant] | None = None
) -> tree.Publication:
    """The tree of a single private publication, `private C -> Name(...)`."""
    parser = Parser(Scanner(text), definitions, constants)
    publication = parser.private()
    parser.end()
    _check_depths(publication, text)
    return publication


def is_private(text: str, definitions: Collection[str] = ()) -> bool:
    """Whether the text of a definition is that of a private publication."""
    return _PRIVATE.match(text) is not None and Parser(Scanner(text), definitions).at_private()


def _check_depths(publication: tree.Publication, text: str) -> None:
    for each in (*publication.privates, publication):
        check_depth(each.pattern, text=text)
        check_output_depth(each.output, text=text)


def parse_file(text: str) -> tree.PatternFile:
    """The statements of a pattern file: derived types, definitions, publications."""
    text = dedent(text)
    pieces = _statements(text)
    constants = _constants(text, pieces)
    defined = {match[1] or match[2] for start, _ in pieces if (match := DEFINED.match(text, start))} - set(constants)
    types: list[tree.DerivedType] = []
    definitions: dict[str, tree.Pattern] = {}
    publications: list[tree.Publication] = []
    privates: list[tree.Publication] = []
    consumption = ""

    def consumed(publication: tree.Publication) -> tree.Publication:
        return replace(publication, consumption=publication.consumption or consumption)

    for start, end in pieces:
        parser = Parser(Scanner(text, start, end), defined, constants)
        if (match := DEFINED.match(text, start, end)) and (match[1] or match[2]) in constants:
            continue
        if parser.at_consumption():
            consumption = parser.consumption()
        elif parser.at_derived_type():
            types.append(parser.derived_type())
            for expression in (types[-1].condition, *(value for _, value in types[-1].computed)):
                if expression is not None:
                    check_depth(expression, text=text)
        elif DEFINED.match(text, start, end):
            name = parser.scanner.next()
            if name.text in definitions:
                raise parser.scanner.error("defined twice", Span(name.start, name.end), given=name.text)
            parser.scanner.expect("=")
            definitions[name.text] = parser.pattern()
            check_depth(definitions[name.text], text=text)
            if parser.scanner.at("->"):
                raise parser.scanner.unexpected("a definition is inlined; what is published has no `Name =` before it")
        else:
            first = parser.private() if parser.at_private() else None
            if first is not None and parser.scanner.word.kind == "end":
                privates.append(consumed(first))
                _check_depths(privates[-1], text)
                continue
            publications.append(consumed(parser.publication(first)))
            _check_depths(publications[-1], text)
        parser.end()
    return tree.PatternFile(tuple(types), tuple(definitions.items()), tuple(publications), tuple(privates))


def _constants(text: str, pieces: list[tuple[int, int]]) -> dict[str, Constant]:
    """The constants of a file."""
    constants: dict[str, Constant] = {}
    names: set[str] = set()
    for start, end in pieces:
        match = DEFINED.match(text, start, end)
        if match is None:
            continue
        name = match[1] or match[2]
        if name in names and (name in constants or at_constant(text, match.end(), end)):
            scanner = Scanner(text, start, end)
            raise scanner.error("defined twice", Span(start, scanner.word.end), given=name)
        names.add(name)
        if at_constant(text, match.end(), end):
            parser = Parser(Scanner(text, match.end(), end))
            constants[name] = parser.constant(name)
            parser.end()
    return constants


def parse_expression(text: str) -> Expression:
    """The tree of a single expression."""
    parser = Parser(Scanner(text))
    expression = parser.expression()
    parser.end()
    check_depth(expression, text=text)
    return expression


def parse_set(text: str) -> DescribableSet:
    """The tree of a single describable set."""
    parser = Parser(Scanner(text))
    described = parser.set_list()
    parser.end()
    check_depth(described, text=text)
    return described


class Parser(ExpressionParser):
    """Parser of one statement; `definitions` are the names that stand for patterns, `constants` those for values."""

    def __init__(
        self, scanner: Scanner, definitions: Collection[str] = (), constants: Mapping[str, Constant] | None = None
    ) -> None:
        super().__init__(scanner, constants)
        self.definitions = definitions

    def end(self) -> None:
        """Expect the end of the statement."""
        if self.scanner.word.kind == "end":
            return
        word = self.scanner.word
        if word.kind == "name" and not self.scanner.near_miss():
            raise self.scanner.unexpected(f"for an event of type {word.text} write [{word.text}]")
        self.scanner.expected.append("the end of the pattern")
        raise self.scanner.unexpected()

    def publication(self, first: tree.Publication | None = None) -> tree.Publication:
        """A pattern with its output, if any, behind the private publications that it reads; the first may be given."""
        privates: list[tree.Publication] = []
        while first is not None or self.at_private():
            privates.append(first or self.private())
            first = None
            if not self.scanner.take(":"):
                raise self.scanner.unexpected("behind it comes what reads it: private C -> Name() : [Name] ; [B]")
        publication = self._publication()
        return replace(publication, privates=tuple(privates)) if privates else publication

    def at_private(self) -> bool:
        """Whether a private publication begins here."""
        return self._at_word("private") and not self._at_reference()

    def private(self) -> tree.Publication:
        """`private C -> Name(attribute = expression)`."""
        word = self.scanner.next()
        publication, span = self._publication(), Span(word.start, word.end)
        if publication.output is None or not publication.output.type_name:
            advice = "write -> Name() behind it, and read it as [Name]"
            raise self.scanner.error("a private publication without a name", span, advice=advice)
        if publication.publish_json:
            advice = "take private away, or publish_json"
            raise self.scanner.error("a private publication leaves nowhere as JSON", span, advice=advice)
        return publication

    def _publication(self) -> tree.Publication:
        once = self._once()
        pattern = self.pattern()
        if not self.scanner.take("->"):
            settled = self._settled()
            consumption = self._consumed() if self._at_consumed() else ""
            settled = settled or self._settled()
            if self._at_json():
                raise self.scanner.unexpected("composite events that leave as JSON have a type: -> Name(...) before it")
            if self._at_most():
                raise self.scanner.unexpected("at most stands behind an output: write -> Name(...) before it")
            return tree.Publication(pattern, consumption=consumption, once=once, settled=settled)
        start = self.scanner.word.start
        unnamed = self.scanner.at("(")
        name = "" if unnamed else self.scanner.expect_kind("name", "the composite event's type").text
        attributes: tuple[tuple[str, Expression], ...] = ()
        if self.scanner.take("("):
            attributes = () if self.scanner.at(")") else self._assignments(self.expression)
            self.scanner.expect(")")
        condition = self.expression() if self.scanner.take("where") else None
        take = self._selections() if self._at_word("take") else ()
        consuming = self._consuming()
        quiet = self._quiet_after() if self._at_most() else None
        output = tree.Output(name, attributes, condition, take, consuming, quiet, span=self._span(start))
        topic, consumption, settled = "", "", self._settled()
        while (self._at_json() and not topic) or (self._at_consumed() and not consumption):
            if self._at_json():
                topic = self._json_topic()
            else:
                consumption = self._consumed()
            settled = settled or self._settled()
        if self._at_most():
            place = "settled, consumed and publish_json"
            raise self.scanner.unexpected(f"at most stands behind the output, its filter and take, and before {place}")
        return tree.Publication(pattern, output, topic, consumption, once, settled)

    def _quiet_after(self) -> tree.Quiet:
        """`at most 1 per 10min by (user, room)`, behind the output."""
        start = self.scanner.word.start
        length = self._quiet()
        if self.scanner.take("by"):
            start = self.scanner.word.start
            return tree.Quiet(length, self._attributes(), span=self._span(start))
        return tree.Quiet(length, span=self._span(start))

    def _at_word(self, *words: str) -> bool:
        return self.scanner.word.text in words and self.scanner.word.kind == "name"

    def _selections(self) -> tuple[tree.Selection, ...]:
        """`take first x, last y, z where z.price > 3`."""
        self.scanner.next()
        found = [self._selection()]
        while self.scanner.take(","):
            found.append(self._selection())
        return tuple(found)

    def _selection(self) -> tree.Selection:
        start = self.scanner.word.start
        by_word = self._at_word(*tree.SELECTING) and self.scanner.peek().kind == "name"
        kind = self.scanner.next().text if by_word else "where"
        variable = self.scanner.expect_kind("name", "first, last, each, or a variable").text
        condition = None
        if not by_word:
            self.scanner.expect("where")
            condition = self.expression()
        return tree.Selection(kind, variable, condition, span=self._span(start))

    def _consuming(self) -> str:
        """`consuming`, or `consuming all`."""
        if not self._at_word("consuming"):
            return ""
        self.scanner.next()
        if not self._at_word("all"):
            return "variables"
        self.scanner.next()
        return "all"

    def _settled(self) -> bool:
        """`settled`, behind the output."""
        found = self._at_word("settled")
        if found:
            self.scanner.next()
        return found

    def _once(self) -> bool:
        """`once`, before the whole pattern."""
        found = self._at_once()
        if found:
            self.scanner.next()
        return found

    def _at_once(self) -> bool:
        return self.scanner.word.text == "once" and self.scanner.word.kind == "name" and not self._at_reference()

    def _at_consumed(self) -> bool:
        return self.scanner.word.text == "consumed" and self.scanner.word.kind == "name"

    def _consumed(self) -> str:
        """`consumed epoch`."""
        self.scanner.next()
        return self._consumption()

    def _consumption(self) -> str:
        word = self.scanner.expect_kind("name", "'ordered' or 'epoch'")
        if word.text not in CONSUMPTIONS:
            raise self.scanner.error(
                "unknown kind of consumption",
                Span(word.start, word.end),
                given=word.text,
                allowed="ordered, events one by one; epoch, all events of an instant together",
            )
        return word.text

    def at_consumption(self) -> bool:
        """Whether the statement is `consumption epoch`."""
        words = self.scanner.word, self.scanner.peek()
        return words[0].text == "consumption" and words[1].kind == "name" and words[0].text not in self.definitions

    def consumption(self) -> str:
        """`consumption epoch`."""
        self.scanner.next()
        return self._consumption()

    def _at_json(self) -> bool:
        return self.scanner.word.text == "publish_json" and self.scanner.word.kind == "name"

    def _json_topic(self) -> str:
        """`publish_json = "home/alarms"`."""
        self.scanner.next()
        self.scanner.expect("=")
        word = self.scanner.expect_kind("string", "a topic in quotes")
        try:
            return check_json_topic(word.text)
        except TopicError as error:
            span = Span(word.start, word.end)
            raise self.scanner.error(error.problem, span, given=word.text, allowed=error.allowed) from None

    def at_derived_type(self) -> bool:
        """Whether the statement is `type Name = ...`."""
        return self.scanner.word.text == "type" and self.scanner.peek().kind == "name"

    def derived_type(self) -> tree.DerivedType:
        """`type Name = Base where condition with (hour = ...) every 1min by (person, room)`, or `= last Base`."""
        start = self.scanner.next().start
        name = self.scanner.expect_kind("name", "the derived type's name").text
        self.scanner.expect("=")
        last = self._at_state()
        if last:
            self.scanner.next()
        if self._at_clock():
            return tree.DerivedType(name, self._clock(), span=self._span(start))
        base = self.scanner.expect_kind("name", "an event type").text
        condition = self.expression() if self.scanner.take("where") else None
        computed: tuple[tuple[str, Expression], ...] = ()
        if self.scanner.word.text == "with" and self.scanner.next():
            self.scanner.expect("(")
            computed = self._assignments(self.expression)
            self.scanner.expect(")")
        every = quiet = 0
        if self.scanner.word.text == "every" and self.scanner.next():
            every = self.duration()
        elif self._at_most():
            quiet = self._quiet()
        by = self._attributes() if self.scanner.take("by") else ()
        sliding = any(slides(value) for _, value in computed)
        if last and (every or quiet or sliding):
            raise self.scanner.error(NO_STATE, self._span(start), advice=NO_STATE_ADVICE)
        if by and not (last or every or quiet or sliding):
            raise self.scanner.error(
                "`by` throttles, and needs `every` or `at most` before it", self._span(start), advice="add every 1min"
            )
        return tree.DerivedType(name, base, condition, every, by, computed, quiet, last, span=self._span(start))

    def _at_state(self) -> bool:
        """Whether `last Temp` follows, and no type of this name."""
        word, following = self.scanner.word, self.scanner.peek()
        if word.text != "last" or word.kind != "name" or self.scanner.text[word.start] == "`":
            return False
        quoted = following.kind == "name" and self.scanner.text[following.start] == "`"
        return following.kind == "name" and (quoted or following.text not in ("with", "every", "at"))

    def _at_clock(self) -> bool:
        """Whether a clock follows, and no type of that name, which stands in back-quotes where it is throttled."""
        word, following = self.scanner.word, self.scanner.peek()
        if word.text != "clock" or self.scanner.text[word.start] == "`":
            return False
        return following.text == "every" or following.kind == "string"

    def _clock(self) -> str:
        """`clock every 1h`, or `clock "0 8 * * mon-fri" in "Europe/London"`."""
        self.scanner.next()
        word = self.scanner.next()
        span = Span(word.start, word.end)
        zone = "UTC"
        try:
            if word.kind != "string":
                return every_clock(self.duration())
            # Its fields are checked before what stands behind them.
            cron_clock(word.text)
            if self.scanner.word.text == "in":
                self.scanner.next()
                self.scanner.at_kind("string")
                if self.scanner.word.kind != "string":
                    raise self.scanner.unexpected("write in 'Europe/London'")
                zone = self._zone()
            return cron_clock(word.text, zone)
        except TypeRegistryError as error:
            raise self.scanner.error(error.problem, span, given=error.given, allowed=error.allowed) from None

    def _at_most(self) -> bool:
        words = self.scanner.word, self.scanner.peek()
        return [each.text for each in words] == ["at", "most"] and all(each.kind == "name" for each in words)

    def _quiet(self) -> int:
        """`at most 1 per 10min`."""
        self.scanner.next()
        self.scanner.next()
        number = self.scanner.word
        if number.kind == "number" and number.text != "1":
            raise self.scanner.error(
                "not a number of events that pass", Span(number.start, number.end), given=number.text, allowed="1"
            )
        self.scanner.expect_kind("number", "1")
        word = self.scanner.expect_kind("name", "'per'")
        start = self.scanner.word.start
        if word.text != "per":
            raise self.scanner.error("unexpected", Span(word.start, word.end), given=word.text, allowed="per")
        quiet = self.duration()
        if not quiet:
            raise self.scanner.error("at most one in no time is every one", self._span(start), allowed="from 1ns")
        return quiet

    # Patterns, loosest first.

    def pattern(self) -> tree.Pattern:
        """A pattern with any number of `within` and `by` clauses."""
        start = self.scanner.word.start
        with self._deeper():
            pattern = self._init()
        while word := self.scanner.take("within", "by"):
            if word.text == "within":
                pattern = tree.Window(pattern, self.duration(), span=self._span(start))
            else:
                pattern = tree.Keyed(pattern, self._attributes(), span=self._span(start))
        return pattern

    def _init(self) -> tree.Pattern:
        start = self.scanner.word.start
        if not self.scanner.take("init"):
            return self._alternation()
        registers = self._assignments(self.expression, "a register")
        self.scanner.expect(":")
        with self._deeper():
            body = self._init()
        return tree.Init(registers, body, span=self._span(start))

    def _alternation(self) -> tree.Pattern:
        start = self.scanner.word.start
        parts = [self._parallel()]
        while self.scanner.take("|"):
            parts.append(self._parallel())
        return parts[0] if len(parts) == 1 else tree.Alternation(tuple(parts), span=self._span(start))

    def _parallel(self) -> tree.Pattern:
        start = self.scanner.word.start
        left = self._sequence()
        while self.scanner.take("&"):
            left = tree.Parallel(left, self._sequence(), span=self._span(start))
        return left

    def _sequence(self) -> tree.Pattern:
        start = self.scanner.word.start
        parts = [self._concatenation()]
        while self.scanner.take(";"):
            parts.append(self._concatenation())
        return parts[0] if len(parts) == 1 else tree.Sequence(tuple(parts), span=self._span(start))

    def _concatenation(self) -> tree.Pattern:
        start = self.scanner.word.start
        parts = [self._hidden()]
        while self.scanner.at("[", "(", "~") or self._at_reference():
            parts.append(self._hidden())
        return parts[0] if len(parts) == 1 else tree.Concatenation(tuple(parts), span=self._span(start))

    def _hidden(self) -> tree.Pattern:
        start = self.scanner.word.start
        if not self.scanner.take("~"):
            return self._postfix()
        with self._deeper():
            return tree.Hidden(self._hidden(), span=self._span(start))

    def _postfix(self) -> tree.Pattern:
        start = self.scanner.word.start
        pattern = self._primary_pattern()
        while word := self.scanner.take("*", "+", "{"):
            least, most = {"*": (0, None), "+": (1, None)}.get(word.text) or self._times(word.start)
            pattern = tree.Iteration(pattern, least, most, span=self._span(start))
        return pattern

    def _primary_pattern(self) -> tree.Pattern:
        scanner = self.scanner
        start = scanner.word.start
        if scanner.at("["):
            return self._bracket()
        if scanner.take("("):
            inner = self.pattern()
            if not scanner.take(","):
                scanner.expect(")")
                return inner
            return self._timing(inner, start)
        if self._at_reference():
            return tree.Reference(scanner.next().text, span=self._span(start))
        if self.definitions:
            scanner.expected.append("a definition's name")
        if self._at_once():
            raise scanner.unexpected("once stands before a whole pattern: once [A] ; [B] by k -> Name()")
        if scanner.word.kind == "name":
            name = scanner.word.text
            raise scanner.error(
                "no definition of this name",
                Span(scanner.word.start, scanner.word.end),
                given=name,
                allowed=", ".join(sorted(self.definitions)) or "none is defined",
                advice=f"for an event of type {name} write [{name}]",
            )
        raise scanner.unexpected()

    def _at_reference(self) -> bool:
        return self.scanner.word.kind == "name" and self.scanner.word.text in self.definitions

    def _times(self, start: int) -> tuple[int, int | None]:
        least = self._natural()
        most: int | None = least
        if self.scanner.take(","):
            most = None if self.scanner.at("}") else self._natural()
        self.scanner.expect("}")
        if most is not None and (most < least or most == 0):
            raise self.scanner.error(
                "not a number of times",
                self._span(start),
                allowed="{m,n} with m <= n and n >= 1",
                given=f"{least},{most}",
            )
        return least, most

    def _natural(self) -> int:
        given = self.scanner.word
        if constant := self._constant():
            value = constant.values[0].value
            if type(value) is int and not constant.duration and 0 <= value <= _MOST_COPIES:
                return value
            raise self.scanner.error(
                "not a number of times", Span(given.start, given.end), given=given.text, allowed=f"0 to {_MOST_COPIES}"
            )
        word = self.scanner.expect_kind("number", "a whole number")
        if not word.text.isdigit() or len(word.text) > len(str(_MOST_COPIES)) or int(word.text) > _MOST_COPIES:
            raise self.scanner.error(
                "not a number of times", Span(word.start, word.end), given=word.text, allowed=f"0 to {_MOST_COPIES}"
            )
        return int(word.text)

    def _timing(self, first: tree.Pattern, start: int) -> tree.Pattern:
        second = self.pattern()
        self.scanner.expect(")")
        self.scanner.expect("@")
        timer = self.scanner.expect_kind("name", "the time event's name").text
        self.scanner.expect("=")
        when = self._when()
        return tree.Timing(first, second, timer, when, span=self._span(start))

    def _when(self) -> tree.When:
        scanner = self.scanner
        if self._at_calculation():
            return self._calculated()
        if scanner.at_kind("duration") or scanner.word.text in self.constants:
            return tree.Relative(self.duration())
        if scanner.word.text == "every":
            return self._recurring()
        if scanner.word.text != "at":
            scanner.expected = [
                "a duration such as 5min",
                "'at' with a time of day or an instant",
                "'every'",
                "a calculation with an attribute of a variable, such as x.timeout * 1s",
            ]
            raise scanner.unexpected()
        scanner.next()
        start = scanner.word.start
        if INSTANT.match(scanner.text, start, scanner.end):
            text = scanner.raw(INSTANT, "an instant")[0]
            try:
                return tree.Instant(parse_instant(text))
            except DistcedError as error:
                raise scanner.error(error.problem, self._span(start), given=text, allowed=error.allowed) from None
        return self._time_of_day("a time of day such as 19:00, an instant such as 2026-11-21T08:00Z")

    def _at_calculation(self) -> bool:
        word, following = self.scanner.word, self.scanner.peek().text
        if word.kind == "duration":
            # Behind `5min *` may stand a pattern, but for `x.`.
            ahead = Scanner(self.scanner.text, word.end, self.scanner.end)
            operator = ahead.next().text in ("*", "/", "+", "-")
            return operator and ahead.word.kind == "name" and ahead.peek().text == "."
        if word.kind != "name":
            return word.kind == "sign" and word.text in ("(", "-")
        if word.text in self.constants:
            return False
        return word.text not in ("at", "every") or following in (".", "(") or self.scanner.text[word.start] == "`"

    def _calculated(self) -> tree.Calculated:
        start = self.scanner.word.start
        delay = self.sum()
        if not (variables(delay) or names(delay)):
            raise self.scanner.error(
                "a delay calculated of constants alone",
                self._span(start),
                given=self.scanner.text[start : self.scanner.previous.end],
                allowed="a duration such as 5min, or an attribute of a variable, such as x.timeout * 1s",
            )
        return tree.Calculated(delay)

    def _recurring(self) -> tree.Recurring:
        scanner = self.scanner
        scanner.next()
        if scanner.word.text == "day":
            scanner.next()
            if scanner.word.text != "at":
                scanner.expected = ["'at' with a time of day"]
                raise scanner.unexpected()
            scanner.next()
            return tree.Recurring(self._time_of_day("a time of day such as 19:00"))
        start = scanner.word.start
        if not (scanner.at_kind("duration") or scanner.word.text in self.constants):
            scanner.expected = ["a duration such as 5min", "'day at' with a time of day"]
            raise scanner.unexpected()
        delay = self.duration()
        if delay == 0:
            raise scanner.error(
                "a time event that recurs at once", self._span(start), given="every 0s", allowed="1ns or more"
            )
        return tree.Recurring(tree.Relative(delay))

    def _time_of_day(self, expected: str) -> tree.TimeOfDay:
        scanner, start = self.scanner, self.scanner.word.start
        match = scanner.raw(CLOCK_TIME, expected)
        try:
            time_of_day = clock_time(match)
        except PatternError as error:
            span = Span(start, match.end())
            raise scanner.error(error.problem, span, given=match[0], allowed=error.allowed) from None
        if match[6] or scanner.word.kind != "string":
            return time_of_day
        return tree.TimeOfDay(time_of_day.nanosecond, self._zone())

    def _zone(self) -> str:
        word = self.scanner.next()
        self.check_zone(word.text, Span(word.start, word.end))
        return word.text

    # Brackets: an atom, a definition or a scoped domain.

    def _bracket(self) -> tree.Pattern:
        if self._opens_scope():
            return self._scope()
        start = self.scanner.expect("[").start
        negated = self.scanner.take("!") is not None
        self.domain_may_follow = True
        label = self.set_list()
        if negated:
            return self._negated_atom(label, start)
        variable = self.scanner.expect_kind("name", "a variable").text if self.scanner.take("as") else ""
        if variable and (where := self.scanner.take("where")):
            label = Filtered(label, self.expression(), span=Span(where.start, self.scanner.previous.end))
        self.domain_may_follow = False
        updates = self._assignments(self.sum, "a register") if self.scanner.take("set") else ()
        domain = self.set_list() if self.scanner.take("<=", "⊆") else None
        if self.scanner.word.text == "|" and self.scanner.peek().text == "|":
            raise self.scanner.unexpected("between conditions write or")
        if not self.scanner.at("]") and self.scanner.word.text in (";", "|", "~", "*", "+"):
            raise self.scanner.unexpected("operators stand outside of brackets: [A] | [B]; a set of types is [A, B]")
        self.scanner.expect("]")
        return tree.Atom(label, domain, variable, updates, span=self._span(start))

    def _negated_atom(self, excluded: DescribableSet, start: int) -> tree.Atom:
        self.domain_may_follow = False
        variable = self.scanner.expect_kind("name", "a variable").text if self.scanner.take("as") else ""
        updates = self._assignments(self.sum, "a register") if self.scanner.take("set") else ()
        if self.scanner.at("]"):
            raise self.scanner.error(
                "a negation needs a domain", self._span(start), advice="say among which events: [!A <= {A, B}]"
            )
        self.scanner.expect("<=", "⊆")
        domain = self.set_list()
        self.scanner.expect("]")
        span = self._span(start)
        return tree.Atom(Difference(domain, excluded, span=span), domain, variable, updates, span=span)

    def _opens_scope(self) -> bool:
        """Whether the bracket holds a pattern rather than a label, by the first word that is not a parenthesis."""
        ahead = Scanner(self.scanner.text, self.scanner.word.end, self.scanner.end)
        while ahead.word.kind == "sign" and ahead.word.text == "(":
            ahead.next()
        word = ahead.word
        if word.kind == "name":
            return word.text in self.definitions
        return (word.kind == "sign" and word.text in ("[", "~")) or (word.kind == "keyword" and word.text == "init")

    def _scope(self) -> tree.Pattern:
        start = self.scanner.expect("[").start
        body = self.pattern()
        if isinstance(body, tree.Reference) and self.scanner.take("]"):
            return tree.Reference(body.name, span=self._span(start))
        if isinstance(body, tree.Reference) and self.scanner.at(","):
            raise self.scanner.unexpected(
                f"{body.name} is a definition and cannot be part of a set; publish it with -> and read its events"
            )
        self.scanner.expect("<=", "⊆")
        domain = self.set_list()
        self.scanner.expect("]")
        return tree.Scope(body, domain, span=self._span(start))

    # Lists.

    def _assignments(self, value: Callable[[], Expression], what: str = "") -> tuple[tuple[str, Expression], ...]:
        pairs: dict[str, Expression] = {}
        while True:
            name = self.scanner.expect_kind("name", "a name")
            if what and name.text in self.constants:
                raise self.scanner.error(
                    f"both a constant and {what}", Span(name.start, name.end), given=name.text, advice="rename one"
                )
            if name.text in pairs:
                raise self.scanner.error("given twice", Span(name.start, name.end), given=name.text)
            self.scanner.expect("=")
            pairs[name.text] = value()
            if not self.scanner.take(","):
                return tuple(pairs.items())

    def _attributes(self) -> tuple[str, ...]:
        if not self.scanner.take("("):
            return (self.scanner.expect_kind("name", "an attribute").text,)
        names = [self.scanner.expect_kind("name", "an attribute").text]
        while self.scanner.take(","):
            names.append(self.scanner.expect_kind("name", "an attribute").text)
        self.scanner.expect(")")
        return tuple(names)


def _statements(text: str) -> list[tuple[int, int]]:
    """Start and end of each statement of a file."""
    pieces = split_statements(text)
    scanner = Scanner(text, 0, pieces[0][0] if pieces else len(text))
    if scanner.word.kind != "end":
        raise scanner.unexpected("a statement begins in the first column")
    return pieces
