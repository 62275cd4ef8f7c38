"""Words and conditions of CEDR (frontends, section 6.1; cedr-2007, section 3.2).

Keywords may be written in any case. Words that only stand in one place, such as First, Equal or TTL, are names
elsewhere; behind a dot every word is an attribute. `=` compares. Conditions are core expressions, with `x BEFORE y` and
its like, and correlation keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.lexicon import SLASHES, LanguageScanner, Lexicon
from distced.detectors.language.depth import MOST_BRACKETS, MOST_LEVELS, too_deep
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.scanner import Word
from distced.detectors.language.word_patterns import HASH
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import (
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    operands,
    walk,
)
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
_WRITTEN: Final = {
    "cancel": "CANCEL-WHEN", "ext": "EXT-EXCLUSIVE", "first": "First", "last": "Last", "each": "Each", "cond": "Cond",
}  # fmt: skip
"""Words as errors show them, where that is not in capitals."""

_FUNCTIONS: Final = tuple(each for each in FUNCTIONS if each != "in")


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
        contextual=(
            *("duration", "ttl", "first", "last", "each", "cond", "exclusive", "ext", "shared"),
            *("when", "equal", "unique", "of", "in"),
        ),
        called=("correlationkey",),
        attributes=("t",),
    )


class ConditionParser(ExpressionParser):
    """The part of the parser for words and conditions."""

    named = "an instance or an attribute"

    scanner: LanguageScanner

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

    @contextmanager
    def brackets(self, *, square: bool = False) -> Iterator[None]:
        """`(...)` or `[...]`."""
        opened = self.scanner.expect("[") if square else self.scanner.expect("(", "[")
        with self._enclosed():
            yield
        self.scanner.expect(")" if opened.text == "(" else "]")

    def duration(self) -> int:
        """A duration, ns."""
        if not self.scanner.at_kind("duration"):
            self.scanner.expected.append("such as 5 minutes")
            raise self.scanner.unexpected()
        return super().duration()

    def following(self) -> Word:
        """The word behind the current one; an unreadable one is left for later."""
        try:
            return self.scanner.peek()
        except PatternError:
            return Word("sign", "", self.scanner.word.end, self.scanner.word.end)

    # Conditions.

    def conjuncts(self) -> tuple[tuple[Expression, ...], tuple[tree.CorrelationKey, ...]]:
        """A condition divided at AND, and its correlation keys."""
        found: list[Expression] = []
        keys: list[tree.CorrelationKey] = []
        for each in operands(self.expression(), "and"):
            match each:
                case Call(function="CorrelationKey", arguments=(Name(name=attribute), Literal(value=bool(unique)))):
                    keys.append(tree.CorrelationKey(attribute, unique, span=each.span))
                case _:
                    found.append(self.without_key(each))
        return tuple(found), tuple(keys)

    def condition(self) -> Expression:
        """A condition in which correlation keys have no meaning."""
        return self.without_key(self.expression())

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
        return Call("CorrelationKey", (Name(attribute), Literal(unique)), span=self._span(start))

    def _left_associative(self, operators: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        start = self.scanner.word.start
        found = operand()
        number = 0
        while self.scanner.at(*operators):
            number += 1
            self.bounded(number)
            operator = self.scanner.next().text
            found = Binary(operator, found, operand(), span=self._span(start))
        return found

    def bounded(self, number: int) -> None:
        """Refuse a chain of too many operators: passes over trees are recursive."""
        if number >= MOST_LEVELS:
            raise too_deep(self.scanner.text, self.scanner.rest(), MOST_BRACKETS)

    def _comparison(self) -> Expression:
        start = self.scanner.word.start
        if self.at_temporal():
            return self.temporal(start)
        found = self.sum()
        if self.at_in():
            self.scanner.next()
            found = Call("in", (found, *self._options()), span=self._span(start))
            if self.scanner.at(*_COMPARISONS):
                raise self.scanner.unexpected("comparisons do not chain")
        elif self.scanner.at(*_COMPARISONS):
            operator = _COMPARISONS[self.scanner.next().text]
            found = Binary(operator, found, self.sum(), span=self._span(start))
            if self.scanner.at(*_COMPARISONS):
                raise self.scanner.unexpected("comparisons do not chain: write 1 < x.v AND x.v < 3")
        return found

    def at_in(self) -> bool:
        """Whether `in` follows, and no query of this name."""
        word = self.scanner.word
        return word.kind == "name" and self.written(word).lower() == "in" and not self.at_query()

    def at_query(self) -> bool:
        """Whether the current name begins a query."""
        following = self.following()
        return following.text == ":" or (following.kind == "keyword" and following.text == "event_pattern")

    def _options(self) -> tuple[Expression, ...]:
        options: list[Expression] = []
        with self.brackets():
            while not options or self.scanner.take(","):
                options.append(self.expression())
        return tuple(options)

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
        span = self._span(start)

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

    def _primary(self) -> Expression:
        scanner = self.scanner
        start = scanner.word.start
        if scanner.at("("):
            with self.brackets():
                return self.expression()
        if any(map(scanner.at_kind, ("number", "duration", "string"))) or scanner.at("true", "false", "null"):
            return super()._primary()
        if self.at_key():
            return self.correlation_key()
        word = scanner.word
        name = self.name("an attribute of an operand")
        if scanner.take("."):
            behind = scanner.word
            attribute = self.attribute()
            if self.written(behind) == "t":
                return Moment("hi", name, span=self._span(start))
            return Field(name, attribute, span=self._span(start))
        if not scanner.at("(") or self.written(word)[0] == "`":
            return Name(name, span=self._span(start))
        if name not in _FUNCTIONS:
            raise scanner.error(
                "no function of this name", Span(word.start, word.end), given=name, allowed=", ".join(_FUNCTIONS)
            )
        return self._call(name, start)

    def _at_over(self) -> bool:
        """No aggregates: `over` is the name of the next query."""
        return False
