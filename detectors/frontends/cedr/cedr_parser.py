"""Parser of CEDR (frontends, section 6.1; cedr-2007, section 3.2): recursive descent over its words.

Keywords may be written in any case. Words that only stand in one place, such as First, Equal or TTL, are names
elsewhere; behind a dot every word is an attribute. `=` compares. Conditions become core expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.lexicon import HASH, SLASHES, LanguageScanner, Lexicon
from distced.detectors.language.depth import MOST_BRACKETS, MOST_LEVELS, too_deep
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.scanner import Word
from distced.middleware.model.errors import PatternError
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.sets.expressions import (
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Unary,
    operands,
    walk,
)
from distced.middleware.sets.local_time import LOCAL_TIMES
from distced.middleware.sets.values import FUNCTIONS

KEYWORDS: Final = frozenset(
    {
        *("event_name", "event_pattern", "where", "lifetime", "notify", "consumption"),
        *("lifespan", "initiator", "terminator", "by", "within", "scope", "as"),
        *("sequence", "all", "any", "atleast", "atmost", "not", "unless", "cancel"),
        *("and", "or", "true", "false", "null", "before", "after"),
    }
)
"""Words that are no names, in lower case."""

_COMPARISONS: Final = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPERATORS: Final = ("sequence", "all", "any", "atleast", "atmost", "not", "unless")
_CONSUMPTIONS: Final = ("exclusive", "ext-exclusive", "shared")
_WRITTEN: Final = {
    "cancel": "CANCEL-WHEN", "ext": "EXT-EXCLUSIVE", "first": "First", "last": "Last", "each": "Each", "cond": "Cond",
}  # fmt: skip
"""Words as errors show them, where that is not in capitals."""

_FUNCTIONS: Final = tuple(each for each in FUNCTIONS if each != "in" and each not in LOCAL_TIMES)
_MOST_EVENTS: Final = 100
"""Limit on n in ATLEAST and ATMOST."""


class CedrScanner(LanguageScanner):
    """Scanner of CEDR."""

    lexicon: ClassVar[Lexicon] = Lexicon(
        KEYWORDS,
        ("(", ")", "[", "]", ",", ".", "&", ":", "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", ";"),
        any_case=True,
        comments=(HASH, SLASHES),
        spellings={
            "==": "=",
            "<>": "!=",
            "≠": "!=",
            "≤": "<=",
            "≥": ">=",
            "∧": "and",
            "∨": "or",
            "¬": "not",
            "&&": "and",
        },
    )


def parse(text: str) -> tree.QueryFile:
    """Lifespans and queries of a text. Raises `PatternError`."""
    return _Parser(CedrScanner(text)).file()


class _Parser:
    def __init__(self, scanner: LanguageScanner) -> None:
        self.scanner = scanner
        self.depth = 0

    # Words.

    def word(self, *texts: str) -> bool:
        """Whether the current word is one of these, in any case, keywords or not."""
        word = self.scanner.word
        if word.kind in ("name", "keyword") and self.written(word).lower() in texts:
            return True
        self.scanner.expected += [f"'{_WRITTEN.get(text, text.upper())}'" for text in texts]
        return False

    def written(self, word: Word) -> str:
        """A word as it was written; a name in back-quotes is no word of the language."""
        return self.scanner.text[word.start : word.end]

    def take_word(self, *texts: str) -> str:
        """Take the current word if it is one of these; empty otherwise."""
        return self.written(self.scanner.next()).lower() if self.word(*texts) else ""

    def expect_word(self, *texts: str) -> str:
        if taken := self.take_word(*texts):
            return taken
        raise self.scanner.unexpected()

    def name(self, what: str) -> str:
        """Take a name."""
        if self.scanner.word.kind == "keyword":
            advice = f"a name that is a word of the language has back-quotes: `{self.written(self.scanner.word)}`"
            self.scanner.expected.append(what)
            raise self.scanner.unexpected(advice)
        return self.scanner.expect_kind("name", what).text

    def attribute(self) -> str:
        """Take the name of an attribute, which may be any word behind a dot."""
        word = self.scanner.word
        if word.kind == "keyword":
            return self.written(self.scanner.next())
        return self.scanner.expect_kind("name", "an attribute").text

    def span(self, start: int) -> Span:
        return Span(start, self.scanner.previous.end)

    @contextmanager
    def enclosed(self, start: int) -> Iterator[None]:
        """One bracket deeper."""
        self.depth += 1
        if self.depth > MOST_BRACKETS:
            raise too_deep(self.scanner.text, Span(start, start + 1), MOST_BRACKETS)
        yield
        self.depth -= 1

    @contextmanager
    def brackets(self, *, square: bool = False) -> Iterator[None]:
        """`(...)` or `[...]`."""
        start = self.scanner.word.start
        opened = self.scanner.expect("[") if square else self.scanner.expect("(", "[")
        with self.enclosed(start):
            yield
        self.scanner.expect(")" if opened.text == "(" else "]")

    def duration(self) -> int:
        """A duration, ns."""
        if not self.scanner.at_kind("duration"):
            self.scanner.expected.append("such as 5 minutes")
            raise self.scanner.unexpected()
        return ExpressionParser(self.scanner).duration()

    def number(self) -> int:
        """A whole number."""
        word = self.scanner.expect_kind("number", "a whole number")
        if not word.text.isdigit() or len(word.text) > 6 or int(word.text) > _MOST_EVENTS:
            allowed = f"a whole number up to {_MOST_EVENTS}"
            raise self.scanner.error(
                "not a number of events", Span(word.start, word.end), given=word.text, allowed=allowed
            )
        return int(word.text)

    # Statements.

    def file(self) -> tree.QueryFile:
        lifespans: list[tree.Lifespan] = []
        queries: list[tree.CedrQuery] = []
        while self.scanner.word.kind != "end":
            if self.scanner.take(";"):
                continue
            if self.word("lifespan"):
                lifespans.append(self.lifespan())
            else:
                queries.append(self.query())
        return tree.QueryFile(tuple(lifespans), tuple(queries))

    def lifespan(self) -> tree.Lifespan:
        start = self.scanner.next().start
        name = self.name("the name of a lifespan")
        span = self.span(start)
        by = self.attribute() if self.take_word("by") else ""
        self.expect_word("initiator")
        initiator = self.operand("initiator")
        begins: Expression = self.condition() if self.take_word("where") else TRUE
        terminator: tree.Operand | None = None
        ends: Expression = TRUE
        if self.take_word("terminator"):
            terminator = self.operand("terminator")
            ends = self.condition() if self.take_word("where") else TRUE
        duration = self.duration() if self.take_word("duration") else None
        return tree.Lifespan(name, by, initiator, begins, terminator, ends, duration, span=span)

    def query(self) -> tree.CedrQuery:
        start = self.scanner.word.start
        if self.take_word("event_name"):
            quoted = self.scanner.word.kind == "string" and self.scanner.word.text
            name = self.scanner.next().text if quoted else self.name("the name of the composite event")
        else:
            self.scanner.expected += ["'EVENT_NAME'", "'LIFESPAN'"]
            name = self.name("the name of a query, Q: NAME")
            if self.scanner.take(":"):
                name = self.name("the name of the composite event")
        span = self.span(start)
        self.expect_word("event_pattern")
        pattern = self.pattern()
        where, keys = self.conjuncts() if self.take_word("where") else ((), ())
        lifetime = self.lifetime() if self.take_word("lifetime") else None
        choices: list[tree.Choice] = []
        attributes: list[tuple[str, Expression]] = []
        if self.take_word("notify"):
            if not self.word("as"):
                choices.append(self.choice())
                while self.scanner.take(","):
                    choices.append(self.choice())
            if self.take_word("as"):
                attributes = self.attributes()
        consumption = self.consumption() if self.take_word("consumption") else "exclusive"
        next_one = self.scanner.word.kind in ("end", "name") or self.word("lifespan", "event_name")
        if not next_one and not self.scanner.at(";"):
            self.scanner.expected += ["the next query", "the end of the text"]
            late = self.written(self.scanner.word).lower() in ("where", "lifetime", "notify", "consumption")
            raise self.scanner.unexpected("the order is WHERE, LIFETIME, NOTIFY, CONSUMPTION" if late else None)
        return tree.CedrQuery(
            name, pattern, where, keys, lifetime, tuple(choices), tuple(attributes), consumption, span=span
        )

    def consumption(self) -> str:
        text = self.take_word("exclusive", "shared", "ext")
        if text == "ext":
            self.scanner.expect("-")
            self.expect_word("exclusive")
            return "ext-exclusive"
        if not text:
            self.scanner.expected[:] = [each.upper() for each in _CONSUMPTIONS]
            raise self.scanner.unexpected()
        return text

    def lifetime(self) -> tree.Lifetime:
        start = self.scanner.word.start
        if self.take_word("lifespan"):
            return tree.InLifespan(self.name("the name of a lifespan"), span=self.span(start))
        if self.take_word("ttl"):
            lengths = [self.time_to_live()]
            while self.scanner.take(","):
                lengths.append(self.time_to_live())
            return tree.TimesToLive(tuple(lengths), span=self.span(start))
        self.take_word("within")
        return tree.Window(self.duration(), span=self.span(start))

    def time_to_live(self) -> tuple[tree.Operand, int]:
        start = self.scanner.word.start
        name = self.name("the name of an operand")
        return tree.Operand("", name, span=self.span(start)), self.duration()

    def choice(self) -> tree.Choice:
        start = self.scanner.word.start
        kind = self.expect_word("first", "last", "each", "cond")
        condition = None
        if kind == "cond":
            kind = "where"
            with self.brackets():
                condition = self.condition()
        name = self.name("the name of an operand")
        return tree.Choice(kind, name, condition, span=self.span(start))

    def attributes(self) -> list[tuple[str, Expression]]:
        found: list[tuple[str, Expression]] = []
        with self.brackets():
            while not found or self.scanner.take(","):
                name = self.attribute()
                self.scanner.expect("=")
                found.append((name, self.without_key(self.sum())))
        return found

    # Patterns.

    def pattern(self) -> tree.Pattern:
        start = self.scanner.word.start
        parts = [self.positive()]
        while self.scanner.take("&"):
            parts.append(self.positive())
        pattern: tree.Pattern = parts[0]
        if len(parts) > 1:
            pattern = tree.All(tuple(parts), span=self.span(start))
        cancelled = 0
        while self.take_word("cancel"):
            cancelled += 1
            self.bounded(cancelled)
            self.scanner.expect("-")
            self.expect_word("when")
            pattern = tree.Cancelled(pattern, self.cancelling(), span=self.span(start))
        return pattern

    def cancelling(self) -> tree.Operand | tree.TimerOperand:
        word = self.scanner.word
        if self.at_timer():
            return self.timer()
        if word.kind == "name":
            return self.operand("an event that cancels")
        raise self.scanner.error(
            "CANCEL-WHEN takes a type or T[…]",
            self.scanner.rest(),
            given=self.written(word) or "the end of the text",
            allowed="an event type, T[x.t + 5 min]",
            advice="make a query of its own of a pattern, and name it here",
        )

    def positive(self) -> tree.Pattern:
        part = self.primary()
        if isinstance(part, tree.Absence):
            raise self.scanner.error(
                f"{part.word} needs something before or behind it",
                part.span or Span(0, 0),
                given=part.word,
                allowed="SEQUENCE(A x, NOT(B y, WITHIN 5 min)), SEQUENCE(A x, NOT(B y), C z)",
            )
        return part

    def primary(self) -> tree.Pattern | tree.Absence:
        start = self.scanner.word.start
        if self.scanner.at("("):
            with self.brackets():
                return self.pattern()
        if self.at_timer():
            return self.timer()
        operator = self.take_word(*_OPERATORS)
        if not operator:
            return self.operand("an event type")
        return {
            "sequence": self.sequence,
            "all": self.all,
            "any": self.any,
            "atleast": self.at_least,
            "atmost": self.at_most,
            "not": self.absence,
            "unless": self.unless,
        }[operator](start)

    def operand(self, what: str) -> tree.Operand:
        start = self.scanner.word.start
        type_name = self.name(what)
        variable = ""
        word = self.scanner.word
        if word.kind == "name" and not self.at_clause():
            variable = self.scanner.next().text
        return tree.Operand(type_name, variable, span=self.span(start))

    def at_clause(self) -> bool:
        """Whether the current name begins what may follow an operand: DURATION, or the next query."""
        following = self.following()
        written = self.written(self.scanner.word).lower()
        if written == "duration" and following.kind == "duration":
            return True
        return following.text == ":" or (following.kind == "keyword" and following.text == "event_pattern")

    def following(self) -> Word:
        """The word behind the current one; an unreadable one is left for later."""
        try:
            return self.scanner.peek()
        except PatternError:
            return Word("sign", "", self.scanner.word.end, self.scanner.word.end)

    def at_timer(self) -> bool:
        word = self.scanner.word
        return word.kind == "name" and self.written(word) == "T" and self.following().text == "["

    def timer(self) -> tree.TimerOperand:
        start = self.scanner.next().start
        with self.brackets(square=True):
            name = self.name("the name of an operand")
            self.scanner.expect(".")
            if self.written(self.scanner.word) != "t":
                self.scanner.expected.append("'t'")
                raise self.scanner.unexpected()
            self.scanner.next()
            self.scanner.expect("+")
            delay = self.duration()
        return tree.TimerOperand(name, delay, span=self.span(start))

    def sequence(self, start: int) -> tree.Pattern:
        with self.brackets():
            parts: list[tree.Pattern | tree.Absence] = []
            while not parts or self.scanner.take(","):
                parts.append(self.part())
        return tree.Sequence(tuple(parts), span=self.span(start))

    def part(self) -> tree.Pattern | tree.Absence:
        """A part of a sequence, which may be an absence."""
        if self.word("not", "atmost"):
            absence = self.primary()
            if self.scanner.word.text == "&":
                raise self.scanner.unexpected("an absence is a part of a SEQUENCE by itself")
            return absence
        return self.pattern()

    def parts(self) -> tuple[tree.Pattern, ...]:
        found: list[tree.Pattern] = []
        while not found or self.scanner.take(","):
            found.append(self.pattern())
        return tuple(found)

    def all(self, start: int) -> tree.Pattern:
        with self.brackets():
            parts = self.parts()
        return tree.All(parts, span=self.span(start))

    def any(self, start: int) -> tree.Pattern:
        with self.brackets():
            parts = self.parts()
        return tree.AnyOf(parts, span=self.span(start))

    def at_least(self, start: int) -> tree.Pattern:
        with self.brackets():
            count = self.number()
            self.scanner.expect(",")
            parts = self.parts()
        return tree.AtLeast(count, parts, span=self.span(start))

    def unless(self, start: int) -> tree.Pattern:
        with self.brackets():
            pattern = self.pattern()
            self.scanner.expect(",")
            operand = self.operand("an event type")
        return tree.Unless(pattern, operand, span=self.span(start))

    def absence(self, start: int) -> tree.Absence:
        with self.brackets():
            absent, scope = self.absent()
        return tree.Absence(0, absent, scope, "NOT", span=self.span(start))

    def at_most(self, start: int) -> tree.Absence:
        with self.brackets():
            most = self.number()
            self.scanner.expect(",")
            absent, scope = self.absent()
        return tree.Absence(most, absent, scope, "ATMOST", span=self.span(start))

    def absent(self) -> tuple[tuple[tree.Operand, ...], int | None]:
        """Operands, and a scope."""
        found = [self.operand("an event type")]
        scope = None
        while scope is None:
            comma = self.scanner.take(",")
            if self.take_word("within", "scope"):
                scope = self.duration()
            elif comma:
                found.append(self.operand("an event type"))
            else:
                break
        return tuple(found), scope

    # Conditions.

    def conjuncts(self) -> tuple[tuple[Expression, ...], tuple[tree.CorrelationKey, ...]]:
        """A condition divided at AND, and its correlation keys."""
        found: list[Expression] = []
        keys: list[tree.CorrelationKey] = []
        for each in operands(self.predicate(), "and"):
            match each:
                case Call(function="CorrelationKey", arguments=(Name(name=attribute), Literal(value=bool(unique)))):
                    keys.append(tree.CorrelationKey(attribute, unique, span=each.span))
                case _:
                    found.append(self.without_key(each))
        return tuple(found), tuple(keys)

    def condition(self) -> Expression:
        """A condition in which correlation keys have no meaning."""
        return self.without_key(self.predicate())

    def without_key(self, expression: Expression) -> Expression:
        for node in walk(expression):
            if isinstance(node, Call) and node.function == "CorrelationKey":
                raise self.scanner.error(
                    "CorrelationKey holds for a whole match",
                    node.span or Span(0, 0),
                    given="CorrelationKey",
                    allowed="WHERE CorrelationKey(attribute, Equal) AND ...",
                )
        return expression

    def at_key(self) -> bool:
        """Whether `CorrelationKey(` follows."""
        word = self.scanner.word
        return word.kind == "name" and self.written(word).lower() == "correlationkey" and self.following().text in "(["

    def correlation_key(self) -> Expression:
        start = self.scanner.next().start
        with self.brackets():
            attribute = self.attribute()
            self.scanner.expect(",")
            unique = self.expect_word("equal", "unique") == "unique"
        return Call("CorrelationKey", (Name(attribute), Literal(unique)), span=self.span(start))

    def predicate(self) -> Expression:
        """A condition without correlation keys."""
        return self.left(("or",), lambda: self.left(("and",), self.negation))

    def left(self, operators: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        start = self.scanner.word.start
        found = operand()
        number = 0
        while self.scanner.at(*operators):
            number += 1
            self.bounded(number)
            operator = self.scanner.next().text
            found = Binary(operator, found, operand(), span=self.span(start))
        return found

    def bounded(self, number: int) -> None:
        """Refuse a chain of too many operators: passes over trees are recursive."""
        if number >= MOST_LEVELS:
            raise too_deep(self.scanner.text, self.scanner.rest(), MOST_BRACKETS)

    def negation(self) -> Expression:
        start = self.scanner.word.start
        if self.scanner.take("not"):
            with self.enclosed(start):
                return Unary("not", self.negation(), span=self.span(start))
        return self.comparison()

    def comparison(self) -> Expression:
        start = self.scanner.word.start
        if self.at_temporal():
            return self.temporal(start)
        found = self.sum()
        if self.scanner.at(*_COMPARISONS):
            operator = _COMPARISONS[self.scanner.next().text]
            found = Binary(operator, found, self.sum(), span=self.span(start))
            if self.scanner.at(*_COMPARISONS):
                raise self.scanner.unexpected("comparisons do not chain: write 1 < x.v AND x.v < 3")
        return found

    def at_temporal(self) -> bool:
        """Whether `x BEFORE`, `x AFTER`, `x EQUAL` or `x WITHIN` follows."""
        if self.scanner.word.kind != "name":
            return False
        following = self.following()
        return following.kind in ("name", "keyword") and self.written(following).lower() in (
            "before",
            "after",
            "equal",
            "within",
        )

    def temporal(self, start: int) -> Expression:
        one = self.name("the name of an operand")
        operator = self.expect_word("before", "after", "equal", "within")
        length = 0
        if operator == "within":
            length = self.duration()
            self.expect_word("of")
        other = self.name("the name of an operand")
        span = self.span(start)

        def moment(end: str, variable: str) -> Moment:
            return Moment(end, variable, span=span)

        def ordered(first: str, second: str) -> Expression:
            return Binary("<", moment("hi", first), moment("lo", second), span=span)

        if operator == "before":
            return ordered(one, other)
        if operator == "after":
            return ordered(other, one)
        if operator == "equal":
            same = [Binary("==", moment(end, one), moment(end, other), span=span) for end in ("lo", "hi")]
            return Binary("and", *same, span=span)
        apart = Call("abs", (Binary("-", moment("hi", one), moment("hi", other), span=span),), span=span)
        return Binary("<=", apart, Literal(length, span=span), span=span)

    def sum(self) -> Expression:
        return self.left(("+", "-"), lambda: self.left(("*", "/", "%"), self.minus))

    def minus(self) -> Expression:
        start = self.scanner.word.start
        if not self.scanner.take("-"):
            return self.atom()
        with self.enclosed(start):
            operand = self.minus()
        if isinstance(operand, Literal) and type(operand.value) in (int, float):
            return Literal(-operand.value, span=self.span(start))  # type: ignore[operator]
        return Unary("-", operand, span=self.span(start))

    def atom(self) -> Expression:
        scanner = self.scanner
        start = scanner.word.start
        if scanner.at("("):
            with self.brackets():
                return self.predicate()
        if word := scanner.take("true", "false", "null"):
            return Literal({"true": True, "false": False, "null": None}[word.text], span=self.span(start))
        if scanner.at_kind("string"):
            return Literal(scanner.next().text, span=self.span(start))
        if scanner.at_kind("duration"):
            return Literal(self.duration(), span=self.span(start))
        if scanner.at_kind("number"):
            return Literal(self.any_number(), span=self.span(start))
        if self.at_key():
            return self.correlation_key()
        name_word = scanner.word
        name = self.name("an attribute of an operand")
        if scanner.take("."):
            behind = scanner.word
            attribute = self.attribute()
            if self.written(behind) == "t":
                return Moment("hi", name, span=self.span(start))
            return Field(name, attribute, span=self.span(start))
        if scanner.at("(") and self.written(name_word)[0] != "`":
            return self.call(name, name_word)
        return Name(name, span=self.span(start))

    def any_number(self) -> int | float:
        word = self.scanner.next()
        if not word.text.isdigit():
            return float(word.text)
        if len(word.text) > len(str(INSTANT_MAX)) or int(word.text) > INSTANT_MAX:
            span = Span(word.start, word.end)
            raise self.scanner.error("an integer beyond 64 bits", span, given=word.text, advice="write it as 1e20")
        return int(word.text)

    def call(self, name: str, word: Word) -> Expression:
        if name not in _FUNCTIONS:
            raise self.scanner.error(
                "no function of this name", Span(word.start, word.end), given=name, allowed=", ".join(_FUNCTIONS)
            )
        arguments: list[Expression] = []
        with self.brackets():
            while not self.scanner.at(")"):
                if arguments:
                    self.scanner.expect(",")
                arguments.append(self.predicate())
        return Call(name, tuple(arguments), span=self.span(word.start))
