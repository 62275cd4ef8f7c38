"""Parser of the Cayuga Event Language (frontends, section 4.1)."""

from __future__ import annotations

from typing import Final

from distced.detectors.frontends.cayuga.algebra_plan import DURATION
from distced.detectors.frontends.cel.cel_tree import (
    Filter,
    Fold,
    Item,
    Named,
    Next,
    Query,
    Statement,
    Stream,
)
from distced.detectors.frontends.lexicon import DASHES, LanguageScanner, Lexicon
from distced.detectors.frontends.schemas import Declaration
from distced.detectors.language.depth import check_depth
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.word_patterns import HASH
from distced.middleware.sets.expressions import TRUE, Expression, Field, Name, Span

DECORATORS: Final = ("$1", "$2", "$")

_KEYWORDS: Final = frozenset(
    (
        *("select", "from", "publish", "filter", "next", "fold", "stream", "as"),
        *("and", "or", "not", "true", "false", "null", "inf", "dur"),
    )
)

_LONGEST_CHAIN: Final = 200
"""NEXT and FOLD in a row at most: passes over trees are recursive."""


class CelScanner(LanguageScanner):
    """Scanner of CEL."""

    lexicon = Lexicon(
        _KEYWORDS,
        (*DECORATORS, *"(){},;.*/%+-", "==", "!=", "<", "<=", ">", ">="),
        any_case=True,
        comments=(HASH, DASHES),
        spellings={"=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="},
    )


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text. Raises `PatternError`."""
    return CelParser(CelScanner(text)).statements()


class CelParser(ExpressionParser):
    """Parser of a text; conditions and values are core expressions."""

    named = "an attribute"

    def statements(self) -> tuple[Statement, ...]:
        """Declarations and queries up to the end."""
        found: list[Statement] = []
        while self.scanner.word.kind != "end":
            if self.scanner.at("stream"):
                found.append(self._declaration())
            elif self.scanner.at("select", "from"):
                found.append(self.query())
                self.scanner.take(";")
            else:
                raise self.scanner.unexpected()
        return tuple(found)

    def _declaration(self) -> Declaration:
        self.scanner.next()
        name = self.scanner.expect_kind("name", "a stream")
        self.scanner.expect("(")
        attributes: list[str] = []
        while self.scanner.take(",") if attributes else not self.scanner.at(")"):
            word = self.scanner.expect_kind("name", "an attribute")
            if word.text in attributes:
                raise self.scanner.error("an attribute twice", Span(word.start, word.end), given=word.text)
            attributes.append(word.text)
        self.scanner.expect(")")
        return Declaration(name.text, tuple(attributes), span=Span(name.start, name.end))

    def query(self) -> Query:
        """`SELECT items FROM stream PUBLISH name`."""
        start = self.scanner.word.start
        items: list[Item] = []
        if self.scanner.take("select"):
            while not items or self.scanner.take(","):
                items.append(self._item())
        self.scanner.expect("from")
        source = self.stream()
        name, place = "", None
        if self.scanner.take("publish"):
            word = self.scanner.expect_kind("name", "a name")
            name, place = word.text, Span(word.start, word.end)
        return Query(tuple(items), source, name, place, span=self._span(start))

    def _item(self) -> Item:
        start = self.scanner.word.start
        if self.scanner.take("*"):
            return Item(None, span=self._span(start))
        value = self._bounded(self.sum())
        if self.scanner.take("as"):
            word = self.scanner.expect_kind("name", "a name")
            return Item(value, word.text, span=Span(word.start, word.end))
        if isinstance(value, Name):
            return Item(value, value.name, span=value.span)
        if not isinstance(value, Field):
            problem = "an expression in SELECT needs AS"
            given = self.scanner.text[start : self.scanner.previous.end]
            raise self.scanner.error(problem, self._span(start), given=given, advice=f"write {given} AS name")
        return Item(value, value.attribute, span=value.span)

    # Streams.

    def stream(self) -> Stream:
        """Streams joined by NEXT and FOLD, from left to right."""
        made, count = self._unary(), 0
        while operator := self.scanner.take("next", "fold"):
            place = Span(operator.start, operator.end)
            count += 1
            if count > _LONGEST_CHAIN:
                raise self.scanner.error(
                    "too many in a row",
                    place,
                    given=operator.text.upper(),
                    allowed=f"{_LONGEST_CHAIN} NEXT and FOLD",
                    advice="publish a part of the query, and read it by its name",
                )
            if operator.text == "next":
                condition = self._braces() if self.scanner.at("{") else TRUE
                made = Next(made, self._unary(), condition, span=self._span(operator.start))
            else:
                made = self._fold(made, operator.start)
        return made

    def _fold(self, first: Stream, start: int) -> Fold:
        self.scanner.expect("{")
        condition = TRUE if self.scanner.at(",") else self._predicate()
        self.scanner.expect(",")
        going_on = TRUE if self.scanner.at(",") else self._predicate()
        self.scanner.expect(",")
        aggregates: list[Item] = []
        if not self.scanner.at("}"):
            while not aggregates or self.scanner.take(","):
                value = self._bounded(self.sum())
                self.scanner.expect("as")
                word = self.scanner.expect_kind("name", "a name")
                aggregates.append(Item(value, word.text, span=Span(word.start, word.end)))
        self.scanner.expect("}")
        second = self._unary()
        return Fold(first, second, condition, going_on, tuple(aggregates), span=self._span(start))

    def _unary(self) -> Stream:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.take("filter"):
            if not scanner.at("{"):
                raise scanner.unexpected()
            condition = self._braces()
            with self._deeper():
                return Filter(self._unary(), condition, span=self._span(start))
        if scanner.take("("):
            with self._enclosed():
                inner: Stream = self.query() if scanner.at("select", "from") else self.stream()
            scanner.expect(")")
            return inner
        word = scanner.expect_kind("name", "a stream")
        return Named(word.text, span=Span(word.start, word.end))

    def _braces(self) -> Expression:
        """`{p}`; TRUE where nothing is in it."""
        self.scanner.expect("{")
        condition = TRUE if self.scanner.at("}") else self._predicate()
        self.scanner.expect("}")
        return condition

    # Expressions.

    def _predicate(self) -> Expression:
        return self._bounded(self.expression())

    def _bounded(self, expression: Expression) -> Expression:
        check_depth(expression, text=self.scanner.text)
        return expression

    def _primary(self) -> Expression:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.take("dur"):
            return type(DURATION)(DURATION.operator, DURATION.left, DURATION.right, span=self._span(start))
        if word := scanner.take(*DECORATORS):
            scanner.expect(".")
            attribute = scanner.expect_kind("name", "an attribute")
            return Field(word.text, attribute.text, span=self._span(start))
        return super()._primary()
