"""Parser of CEDMOS specifications (frontends, section 7.1): transformers, and operators, which are expanded at once.

The report has no textual form: a graphical editor, XML, and generated Java. The form is ours, its parts are those of
the report (cedmos-1999, section 4.1.1). `=` assigns where a name and a value are wanted, and compares elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from distced.detectors.frontends.cedmos.cedmos_tree import (
    Assignment,
    Channel,
    Choice,
    Dimension,
    StateField,
    Statement,
    Transformer,
)
from distced.detectors.frontends.cedmos.palette import OPERATORS, Argument, Operator, expanded
from distced.detectors.frontends.lexicon import LanguageScanner, Lexicon
from distced.detectors.language.depth import check_depth
from distced.detectors.language.expression_parser import ExpressionParser
from distced.middleware.sets.expressions import Expression, Field, Moment, Span

_Item = TypeVar("_Item")

_KEYWORDS: Final = frozenset(
    (
        *("transformer", "operator", "category", "state", "hidden", "visible", "firing"),
        *("on", "as", "ignore", "when", "categorize", "do", "if", "then", "else", "where", "by"),
        *("and", "or", "not", "true", "false", "null", "inf"),
    )
)

_TIME: Final = "time"
"""`t.time` is the end of the event; an attribute of the name has back-quotes."""


class CedmosScanner(LanguageScanner):
    """Scanner of CEDMOS specifications."""

    lexicon = Lexicon(
        _KEYWORDS,
        (*"(){},;.*/%+-", "==", "!=", "<", "<=", ">", ">="),
        spellings={"=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="},
        contextual=("off",),
        called=(word for word in OPERATORS if word not in _KEYWORDS),
        attributes=(_TIME,),
    )


def parse(text: str) -> tuple[Transformer, ...]:
    """The transformers of a text, operators expanded. Raises `PatternError`."""
    return CedmosParser(CedmosScanner(text)).transformers()


class CedmosParser(ExpressionParser):
    """Parser of a text; conditions and values are core expressions."""

    named = "an attribute, an input or a field"

    def transformers(self) -> tuple[Transformer, ...]:
        """Transformers and operators up to the end."""
        found: list[Transformer] = []
        while self.scanner.word.kind != "end":
            if self.scanner.take("transformer"):
                found.append(self._transformer())
            elif self.scanner.take("operator"):
                found.append(expanded(self._operator(), self.scanner.text))
            else:
                raise self.scanner.unexpected()
        return tuple(found)

    def _transformer(self) -> Transformer:
        scanner = self.scanner
        name = scanner.expect_kind("name", "a name")
        dimensions: list[Dimension] = []
        while scanner.take("category"):
            dimensions += self._list(self._dimension)
        fields: list[StateField] = []
        while scanner.take("state"):
            fields += self._list(self._field)
        channels: list[Channel] = []
        while scanner.take("on"):
            channels.append(self._channel())
        if scanner.word.kind != "end" and not scanner.at("transformer", "operator"):
            raise scanner.unexpected()
        place = Span(name.start, name.end)
        return Transformer(name.text, tuple(dimensions), tuple(fields), tuple(channels), span=place)

    def _dimension(self) -> Dimension:
        word = self.scanner.expect_kind("name", "a dimension of the category")
        return Dimension(word.text, span=Span(word.start, word.end))

    def _field(self) -> StateField:
        word = self.scanner.expect_kind("name", "a field of the state")
        self._assign()
        initial = self._value()
        visible = self.scanner.take("hidden", "visible")
        firing = self.scanner.take("firing") is not None
        place = Span(word.start, word.end)
        shown = visible is not None and visible.text == "visible"
        return StateField(word.text, initial, shown, firing, span=place)

    def _channel(self) -> Channel:
        scanner = self.scanner
        word = scanner.expect_kind("name", "an event type")
        variable = scanner.expect_kind("name", "a name for the event").text if scanner.take("as") else ""
        ignored = None
        if scanner.take("ignore"):
            scanner.expect("when")
            ignored = self._value()
        categories: list[Assignment] = []
        if scanner.take("categorize"):
            categories = self._list(lambda: self._assignment("a dimension of the category"))
        statements: tuple[Statement, ...] = ()
        if scanner.take("do"):
            statements = self._statements("on", "transformer", "operator")
        place = Span(word.start, word.end)
        return Channel(word.text, variable, ignored, tuple(categories), statements, span=place)

    # Statements.

    def _statements(self, *ends: str) -> tuple[Statement, ...]:
        """Statements between semicolons; a last one may be followed by one, too."""
        found = [self._statement()]
        while self.scanner.take(";"):
            if self.scanner.word.kind == "end" or self.scanner.at(*ends):
                break
            found.append(self._statement())
        return tuple(found)

    def _statement(self) -> Statement:
        scanner, start = self.scanner, self.scanner.word.start
        if not scanner.take("if"):
            return self._assignment("a field of the state")
        condition = self._value()
        scanner.expect("then")
        with self._deeper():
            then = self._block()
            otherwise = self._block() if scanner.take("else") else ()
        return Choice(condition, then, otherwise, span=self._span(start))

    def _block(self) -> tuple[Statement, ...]:
        if not self.scanner.take("{"):
            return (self._statement(),)
        found = self._statements("}")
        self.scanner.expect("}")
        return found

    def _assignment(self, what: str) -> Assignment:
        word = self.scanner.expect_kind("name", what)
        self._assign()
        return Assignment(word.text, self._value(), span=Span(word.start, word.end))

    def _assign(self) -> None:
        """`=`, which compares elsewhere."""
        word = self.scanner.word
        if self.scanner.text[word.start : word.end] != "=":
            self.scanner.expected.append("'='")
            raise self.scanner.unexpected()
        self.scanner.next()

    # Operators.

    def _operator(self) -> Operator:
        scanner = self.scanner
        name = scanner.expect_kind("name", "a name")
        self._assign()
        word = scanner.word
        if word.kind not in ("name", "keyword") or word.text not in OPERATORS:
            given = word.text if word.kind != "end" else "the end of the pattern"
            place, allowed = Span(word.start, word.end), ", ".join(OPERATORS)
            raise scanner.error("no operator of the palette", place, given=given, allowed=allowed)
        scanner.next()
        scanner.expect("(")
        with self._enclosed():
            arguments = self._list(self._argument)
        scanner.expect(")")
        by = self._list(self._dimension) if scanner.take("by") else []
        span = Span(word.start, word.end)
        return Operator(name.text, word.text, tuple(arguments), tuple(by), Span(name.start, name.end), span=span)

    def _argument(self) -> Argument:
        """`A`, `A where p`, `on A`, `off B`, `to = 'role'`, or `3`."""
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.at_kind("number"):
            return Argument(value=self._value(), span=self._span(start))
        word = ""
        if scanner.take("on"):
            word = "on"
        elif scanner.word.text == "off" and scanner.word.kind == "name" and scanner.peek().kind == "name":
            word = scanner.next().text
        name = scanner.expect_kind("name", "an event type").text
        if not word and scanner.at("=="):
            self._assign()
            return Argument(name, assigned=self._value(), span=self._span(start))
        condition = self._value() if scanner.take("where") else None
        return Argument(name, word=word, condition=condition, span=self._span(start))

    # Expressions.

    def _value(self) -> Expression:
        value = self.expression()
        check_depth(value, text=self.scanner.text)
        return value

    def _primary(self) -> Expression:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.take("if"):
            if not scanner.at("("):
                raise scanner.unexpected("in an expression write if(condition, a, b)")
            return self._call("if", start)
        value = super()._primary()
        if isinstance(value, Field) and value.attribute == _TIME and scanner.text[scanner.previous.start] != "`":
            return Moment("hi", value.variable, span=value.span)
        return value

    def _list(self, read: Callable[[], _Item]) -> list[_Item]:
        """Items between commas."""
        found = [read()]
        while self.scanner.take(","):
            found.append(read())
        return found
