"""Parser of Cayuga's algebra (frontends, section 5.1), with Greek letters or words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from distced.detectors.frontends.algebra.algebra_tree import (
    BEFORE,
    Algebra,
    Alpha,
    Cup,
    Definition,
    FoldStep,
    Followed,
    Mu,
    Pi,
    Prefixed,
    Rho,
    Sigma,
    StreamName,
)
from distced.detectors.frontends.cayuga.algebra_plan import DURATION
from distced.detectors.frontends.lexicon import DASHES, LanguageScanner, Lexicon
from distced.detectors.frontends.schemas import Declaration
from distced.detectors.language.depth import check_depth
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.word_patterns import HASH
from distced.middleware.sets.expressions import (
    COMPARISONS,
    TRUE,
    Binary,
    Expression,
    Field,
    Name,
    Span,
    conjunction,
)

_KEYWORDS: Final = frozenset(
    (
        *("select", "project", "rename", "extend", "union", "mu", "overlapping", "stream", "as"),
        *("and", "or", "not", "true", "false", "null", "inf", "dur"),
    )
)
_SPELLINGS: Final = {
    "σ": "select",
    "π": "project",
    "ρ": "rename",
    "α": "extend",
    "µ": "mu",
    "μ": "mu",
    "∪": "union",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    "=": "==",
    "<>": "!=",
    "≠": "!=",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
}
_LONGEST_CHAIN: Final = 200
"""Operators in a row at most: passes over trees are recursive."""

T = TypeVar("T")


class AlgebraScanner(LanguageScanner):
    """Scanner of the algebra."""

    lexicon = Lexicon(
        _KEYWORDS,
        (*"()[],;.*/%+-", ":=", "->", "∘", "==", "!=", "<", "<=", ">", ">="),
        any_case=True,
        comments=(HASH, DASHES),
        spellings=_SPELLINGS,
        contextual=("id", "after", "from"),
        attributes=("last",),
    )


def parse(text: str) -> tuple[Declaration | Definition, ...]:
    """The statements of a text. Raises `PatternError`."""
    return AlgebraParser(AlgebraScanner(text)).statements()


class AlgebraParser(ExpressionParser):
    """Parser of a text; conditions and values are core expressions."""

    named = "an attribute"

    def statements(self) -> tuple[Declaration | Definition, ...]:
        """Declarations and definitions up to the end."""
        found: list[Declaration | Definition] = []
        while self.scanner.word.kind != "end":
            found.append(self._declaration() if self.scanner.at("stream") else self._definition())
        return tuple(found)

    def _declaration(self) -> Declaration:
        self.scanner.next()
        name = self.scanner.expect_kind("name", "a stream")
        self.scanner.expect("(")
        attributes: tuple[str, ...] = ()
        if not self.scanner.at(")"):
            attributes = self._several(lambda: self.scanner.expect_kind("name", "an attribute").text)
        self.scanner.expect(")")
        return Declaration(name.text, attributes, span=Span(name.start, name.end))

    def _definition(self) -> Definition:
        start, name, place = self.scanner.word.start, "", None
        if self.scanner.word.kind == "name" and self.scanner.peek().text == ":=":
            word = self.scanner.next()
            name, place = word.text, Span(word.start, word.end)
            self.scanner.next()
        source = self.algebra()
        made = Definition(source, name, place, span=self._span(start))
        self.scanner.take(".")
        return made

    # Expressions of the algebra.

    def algebra(self) -> Algebra:
        """`E1 ∪ E2`."""
        start = self.scanner.word.start
        members = [self._sequence()]
        while self.scanner.take("union"):
            members.append(self._sequence())
            self._check_length(len(members), "streams joined by ∪")
        return members[0] if len(members) == 1 else Cup(tuple(members), span=self._span(start))

    def _sequence(self) -> Algebra:
        made, count = self._unary(), 0
        while operator := self.scanner.take(";"):
            count += 1
            self._check_length(count, ";")
            overlapping = self.scanner.take("overlapping") is not None
            condition: Expression = TRUE
            if self.scanner.take("["):
                condition = self._predicate()
                self.scanner.expect("]")
            made = Followed(made, self._unary(), condition, overlapping, span=self._span(operator.start))
        return made

    def _check_length(self, count: int, counted: str) -> None:
        if count > _LONGEST_CHAIN:
            word = self.scanner.previous
            raise self.scanner.error(
                "too many in a row",
                Span(word.start, word.end),
                given=self.scanner.text[word.start : word.end],
                allowed=f"{_LONGEST_CHAIN} {counted}",
                advice="publish a part of the expression, and read it by its name",
            )

    def _unary(self) -> Algebra:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.at("mu"):
            with self._enclosed():
                return self._iteration()
        if operator := scanner.take("select", "project", "rename", "extend"):
            scanner.expect("[")
            with self._enclosed():
                match operator.text:
                    case "select":
                        condition = self._predicate()
                        scanner.expect("]")
                        return Sigma(self._unary(), condition, span=self._span(start))
                    case "project":
                        attributes = self._several(self._attribute)
                        scanner.expect("]")
                        return Pi(self._unary(), attributes, span=self._span(start))
                    case "rename":
                        pairs = self._several(self._renamed)
                        scanner.expect("]")
                        return Rho(self._unary(), pairs, span=self._span(start))
                    case _:
                        values = self._several(self._assigned)
                        scanner.expect("]")
                        return Alpha(self._unary(), values, span=self._span(start))
        if scanner.take("("):
            with self._enclosed():
                made = self.algebra()
            scanner.expect(")")
        else:
            word = scanner.expect_kind("name", "a stream")
            made = StreamName(word.text, span=Span(word.start, word.end))
        if scanner.take("as"):
            name = scanner.expect_kind("name", "a name").text
            made = Prefixed(made, name, span=self._span(start))
        return made

    def _iteration(self) -> Mu:
        scanner, start = self.scanner, self.scanner.next().start
        overlapping = scanner.take("overlapping") is not None
        scanner.expect("[")
        steps = self._fold()
        scanner.expect(";")
        condition: Expression = TRUE
        if not scanner.at("]", ";"):
            condition = self._predicate()
        begins: tuple[tuple[Name, Name], ...] = ()
        if scanner.take(";"):
            begins = self._several(self._begin)
        scanner.expect("]")
        scanner.expect("(")
        first = self.algebra()
        scanner.expect(",")
        second = self.algebra()
        scanner.expect(")")
        return Mu(first, second, steps, condition, begins, overlapping, span=self._span(start))

    def _fold(self) -> tuple[FoldStep, ...]:
        """`id`, or steps that are applied from right to left."""
        word = self.scanner.word
        if word.kind == "name" and word.text == "id":
            self.scanner.next()
            return ()
        steps = [self._step()]
        while self.scanner.take("∘") or self._take_name("after"):
            steps.append(self._step())
        return tuple(reversed(steps))

    def _step(self) -> FoldStep:
        scanner, start = self.scanner, self.scanner.word.start
        if not scanner.at("select", "project", "extend"):
            scanner.expected.append("'id'")
            raise scanner.unexpected()
        operator = scanner.next()
        scanner.expect("[")
        condition: Expression | None = None
        attributes: tuple[Name, ...] | None = None
        values: tuple[tuple[Name, Expression], ...] = ()
        if operator.text == "select":
            condition = self._predicate()
        elif operator.text == "project":
            attributes = self._several(self._attribute)
        else:
            values = self._several(self._assigned)
        scanner.expect("]")
        return FoldStep(condition, attributes, values, span=self._span(start))

    def _begin(self) -> tuple[Name, Name]:
        carried = self._attribute()
        if not self._take_name("from"):
            self.scanner.expected = ["'from'"]
            raise self.scanner.unexpected()
        return carried, self._attribute()

    def _renamed(self) -> tuple[Name, Name]:
        attribute = self._attribute()
        self.scanner.expect("->")
        word = self.scanner.expect_kind("name", "a name")
        return attribute, Name(word.text, span=Span(word.start, word.end))

    def _assigned(self) -> tuple[Name, Expression]:
        word = self.scanner.expect_kind("name", "a name")
        self.scanner.expect("==")
        value = self.sum()
        check_depth(value, text=self.scanner.text)
        return Name(word.text, span=Span(word.start, word.end)), value

    def _several(self, read: Callable[[], T]) -> tuple[T, ...]:
        found = [read()]
        while self.scanner.take(","):
            found.append(read())
        return tuple(found)

    def _take_name(self, name: str) -> bool:
        """Take a word that is one of the language here only."""
        if self.scanner.word.kind != "name" or self.scanner.word.text != name:
            return False
        self.scanner.next()
        return True

    # Predicates and values.

    def _predicate(self) -> Expression:
        condition = self.expression()
        check_depth(condition, text=self.scanner.text)
        return condition

    def _comparison(self) -> Expression:
        """Comparisons, also in chains: `a <= b <= c`."""
        start = self.scanner.word.start
        left = self.sum()
        if not self.scanner.at(*COMPARISONS):
            return left
        made: Expression = TRUE
        while operator := self.scanner.take(*COMPARISONS):
            right = self.sum()
            made = conjunction(made, Binary(operator.text, left, right, span=self._span(start)))
            left = right
        return made

    def _attribute(self) -> Name:
        found = self._dotted()
        if isinstance(found, Field):
            advice = "it is for conditions and values within µ"
            problem = "`.last` where an attribute is named"
            raise self.scanner.error(problem, found.span or Span(0, 1), given=found.attribute, advice=advice)
        return found

    def _dotted(self) -> Name | Field:
        scanner, start = self.scanner, self.scanner.word.start
        parts = [scanner.expect_kind("name", "an attribute").text]
        quoted = False
        while scanner.at(".") and scanner.peek().kind == "name" and scanner.peek().start == scanner.word.end:
            scanner.next()
            quoted = scanner.text[scanner.word.start] == "`"
            parts.append(scanner.next().text)
        if len(parts) > 1 and parts[-1] == "last" and not quoted:
            return Field(BEFORE, ".".join(parts[:-1]), span=self._span(start))
        return Name(".".join(parts), span=self._span(start))

    def _primary(self) -> Expression:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.take("dur"):
            return Binary(DURATION.operator, DURATION.left, DURATION.right, span=self._span(start))
        if scanner.word.kind == "name" and scanner.peek().text != "(":
            return self._dotted()
        return super()._primary()
