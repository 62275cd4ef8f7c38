"""Parser of CEDR (frontends, section 6.1; cedr-2007, section 3.2): statements and patterns, by recursive descent."""

from __future__ import annotations

from typing import Final

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.cedr.cedr_conditions import CedrScanner, ConditionParser
from distced.middleware.sets.expressions import (
    TRUE,
    Expression,
    Span,
)

_OPERATORS: Final = ("sequence", "all", "any", "atleast", "atmost", "not", "unless")
_CONSUMPTIONS: Final = ("exclusive", "ext-exclusive", "shared")
_MOST_EVENTS: Final = 100
"""Limit on n in ATLEAST and ATMOST."""


def parse(text: str) -> tree.QueryFile:
    """Lifespans and queries of a text. Raises `PatternError`."""
    return _Parser(CedrScanner(text)).file()


class _Parser(ConditionParser):
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
        span = self._span(start)
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
        span = self._span(start)
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
            return tree.InLifespan(self.name("the name of a lifespan"), span=self._span(start))
        if self.take_word("ttl"):
            lengths = [self.time_to_live()]
            while self.scanner.take(","):
                lengths.append(self.time_to_live())
            return tree.TimesToLive(tuple(lengths), span=self._span(start))
        self.take_word("within")
        return tree.Window(self.duration(), span=self._span(start))

    def time_to_live(self) -> tuple[tree.Operand, int]:
        start = self.scanner.word.start
        name = self.name("the name of an operand")
        return tree.Operand("", name, span=self._span(start)), self.duration()

    def choice(self) -> tree.Choice:
        start = self.scanner.word.start
        kind = self.expect_word("first", "last", "each", "cond")
        condition = None
        if kind == "cond":
            kind = "where"
            with self.brackets():
                condition = self.condition()
        name = self.name("the name of an operand")
        return tree.Choice(kind, name, condition, span=self._span(start))

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
            pattern = tree.All(tuple(parts), span=self._span(start))
        cancelled = 0
        while self.take_word("cancel"):
            cancelled += 1
            self.bounded(cancelled)
            self.scanner.expect("-")
            self.expect_word("when")
            pattern = tree.Cancelled(pattern, self.cancelling(), span=self._span(start))
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
        return tree.Operand(type_name, variable, span=self._span(start))

    def at_clause(self) -> bool:
        """Whether the current name begins what may follow an operand: DURATION, or the next query."""
        written = self.written(self.scanner.word).lower()
        return (written == "duration" and self.following().kind == "duration") or self.at_query()

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
        return tree.TimerOperand(name, delay, span=self._span(start))

    def sequence(self, start: int) -> tree.Pattern:
        with self.brackets():
            parts: list[tree.Pattern | tree.Absence] = []
            while not parts or self.scanner.take(","):
                parts.append(self.part())
        return tree.Sequence(tuple(parts), span=self._span(start))

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
        return tree.All(parts, span=self._span(start))

    def any(self, start: int) -> tree.Pattern:
        with self.brackets():
            parts = self.parts()
        return tree.AnyOf(parts, span=self._span(start))

    def at_least(self, start: int) -> tree.Pattern:
        with self.brackets():
            count = self.number()
            self.scanner.expect(",")
            parts = self.parts()
        return tree.AtLeast(count, parts, span=self._span(start))

    def unless(self, start: int) -> tree.Pattern:
        with self.brackets():
            pattern = self.pattern()
            self.scanner.expect(",")
            operand = self.operand("an event type")
        return tree.Unless(pattern, operand, span=self._span(start))

    def absence(self, start: int) -> tree.Absence:
        with self.brackets():
            absent, scope = self.absent()
        return tree.Absence(0, absent, scope, "NOT", span=self._span(start))

    def at_most(self, start: int) -> tree.Absence:
        with self.brackets():
            most = self.number()
            self.scanner.expect(",")
            absent, scope = self.absent()
        return tree.Absence(most, absent, scope, "ATMOST", span=self._span(start))

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

    def number(self) -> int:
        """A whole number."""
        word = self.scanner.expect_kind("number", "a whole number")
        if not word.text.isdigit() or len(word.text) > 6 or int(word.text) > _MOST_EVENTS:
            allowed = f"a whole number up to {_MOST_EVENTS}"
            raise self.scanner.error(
                "not a number of events", Span(word.start, word.end), given=word.text, allowed=allowed
            )
        return int(word.text)
