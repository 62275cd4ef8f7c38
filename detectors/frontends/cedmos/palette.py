"""Palette of operators: transformers by a word, expanded before they are checked (frontends, section 7.5).

cedmos-1999, section 5.3.2, names sequence, conjunction, disjunction, a filter and an output; the others are what
transformers are written for again and again. A type that stands several times in a sequence is one channel, so that
an event is in one place of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from distced.detectors.frontends.cedmos.cedmos_tree import (
    Assignment,
    Channel,
    Choice,
    Dimension,
    StateField,
    Statement,
    Transformer,
)
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.expressions import (
    Binary,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Spanned,
    conjunction,
    negation,
    transform,
    walk,
)

MOST_INPUTS: Final = 40
"""Inputs of an operator at most: those of one type in a sequence are choices inside one another."""

_ONE: Final = Literal(1)
_ZERO: Final = Literal(0)
_NULL: Final = Literal(None)
_COUNT: Final = "n"
"""Field that counts what an operator finds."""


@dataclass(frozen=True, slots=True)
class Argument(Spanned):
    """Argument of an operator: `A`, `A where p`, `on A`, `to = 'role'`, or a number.

    Attributes:
        name: a type, or an attribute; empty for a number.
        word: `on` or `off` before it.
        condition: what stands behind `where`.
        assigned: what stands behind `=`.
        value: the number.
    """

    name: str = ""
    word: str = ""
    condition: Expression | None = None
    assigned: Expression | None = None
    value: Expression | None = None

    @property
    def plain(self) -> bool:
        """Whether it is a name alone."""
        return bool(self.name) and not self.word and self.condition is None and self.assigned is None


@dataclass(frozen=True, slots=True)
class Operator(Spanned):
    """`operator NAME = word(arguments) by p, q`; its span is that of the word, `place` that of the name."""

    name: str
    word: str
    arguments: tuple[Argument, ...]
    by: tuple[Dimension, ...]
    place: Span


def expanded(operator: Operator, text: str) -> Transformer:
    """The transformer that an operator stands for. Raises `PatternError` for arguments that it does not take."""
    fields, channels = OPERATORS[operator.word].expand(_Expansion(operator, text))
    return Transformer(operator.name, operator.by, tuple(fields), tuple(channels), span=operator.place)


class _Expansion:
    """Expansion of one operator."""

    def __init__(self, operator: Operator, text: str) -> None:
        self.arguments, self.by = operator.arguments, operator.by
        self.word, self.span, self._text = operator.word, operator.span, text

    def wrong(self, span: Span | None, given: str = "") -> NoReturn:
        problem = f"{self.word} does not take this" if given else f"{self.word} lacks arguments, or has too many"
        raise error_at(self._text, span, problem, given=given or None, allowed=OPERATORS[self.word].form)

    def inputs(self) -> list[Argument]:
        """Two types or more."""
        found = [self.plain(each) for each in self.arguments]
        if len(found) < 2:
            self.wrong(self.span)
        if len(found) > MOST_INPUTS:
            span, allowed = found[MOST_INPUTS].span, f"{MOST_INPUTS} at most"
            raise error_at(self._text, span, "too many inputs", given=len(found), allowed=allowed)
        return found

    def plain(self, argument: Argument) -> Argument:
        """An argument that is a name alone."""
        if not argument.plain:
            self.wrong(argument.span, self.text_of(argument))
        return argument

    def distinct(self) -> list[Argument]:
        """Two types or more, each of them once."""
        found, seen = self.inputs(), set[str]()
        for each in found:
            if each.name in seen:
                advice = "an event would be both; sequence(A, A) waits for two"
                raise error_at(self._text, each.span, "an input twice", given=each.name, advice=advice)
            seen.add(each.name)
        return found

    def pair(self) -> tuple[Argument, Argument]:
        """Exactly two arguments."""
        if len(self.arguments) != 2:
            self.wrong(self.span)
        return self.arguments[0], self.arguments[1]

    def text_of(self, argument: Argument) -> str:
        span = argument.span
        return self._text[span.start : span.end] if span is not None else argument.name

    def channel(self, argument: Argument, *statements: Statement, ignored: Expression | None = None) -> Channel:
        categories = tuple(Assignment(each.name, Field("", each.name), span=each.span) for each in self.by)
        return Channel(argument.name, "", ignored, categories, statements, span=argument.span)

    # What statements are made of.

    def field(self, name: str, initial: Expression = _ZERO, *, shown: bool = False) -> StateField:
        return StateField(name, initial, visible=shown, firing=shown, span=self.span)

    def set(self, name: str, value: Expression) -> Assignment:
        return Assignment(name, value, span=self.span)

    def plus(self, name: str, value: Expression = _ONE) -> Assignment:
        return self.set(name, Binary("+", Name(name), value))

    def when(self, condition: Expression, *then: Statement, otherwise: tuple[Statement, ...] = ()) -> Choice:
        return Choice(condition, then, otherwise, span=self.span)


_Expanded = tuple[list[StateField], list[Channel]]


@dataclass(frozen=True, slots=True)
class _Form:
    """Operator of the palette: how it is written, and what it stands for."""

    form: str
    expand: Callable[[_Expansion], _Expanded]


def _is(name: str, value: int) -> Expression:
    return Binary("==", Name(name), Literal(value))


def _of_event(expression: Expression) -> Expression:
    """An expression whose bare names are attributes, whatever fields there are."""

    def attribute(node: Expression) -> Expression:
        return Field("", node.name, span=node.span) if isinstance(node, Name) else node

    return transform(expression, attribute)


def _filter(made: _Expansion) -> _Expanded:
    if len(made.arguments) != 1:
        made.wrong(made.span)
    (only,) = made.arguments
    if only.condition is None or only.word:
        made.wrong(only.span, made.text_of(only))
    ignored = negation(_of_event(only.condition))
    return [made.field(_COUNT, shown=True)], [made.channel(only, made.plus(_COUNT), ignored=ignored)]


def _and(made: _Expansion) -> _Expanded:
    inputs = made.distinct()
    flags = [f"seen{number}" for number, _ in enumerate(inputs, 1)]
    all_seen: Expression = Literal(True)
    for flag in flags:
        all_seen = conjunction(all_seen, _is(flag, 1))
    done = made.when(all_seen, made.plus(_COUNT), *(made.set(flag, _ZERO) for flag in flags))
    channels = [made.channel(each, made.set(flag, _ONE), done) for each, flag in zip(inputs, flags, strict=True)]
    return [*map(made.field, flags), made.field(_COUNT, shown=True)], channels


def _or(made: _Expansion) -> _Expanded:
    return [made.field(_COUNT, shown=True)], [made.channel(each, made.plus(_COUNT)) for each in made.distinct()]


def _sequence(made: _Expansion) -> _Expanded:
    inputs = made.inputs()
    steps: dict[str, Statement] = {}
    first: dict[str, Argument] = {}
    # The choices of a type, the last place innermost: an event is in one place.
    for place, each in reversed(list(enumerate(inputs))):
        goes_on: tuple[Statement, ...] = (made.set("place", Literal(place + 1)),)
        if place == len(inputs) - 1:
            goes_on = (made.plus(_COUNT), made.set("place", _ZERO))
        otherwise = (steps[each.name],) if each.name in steps else ()
        steps[each.name] = made.when(_is("place", place), *goes_on, otherwise=otherwise)
        first[each.name] = each
    channels = [made.channel(first[name], steps[name]) for name in dict.fromkeys(each.name for each in inputs)]
    return [made.field("place"), made.field(_COUNT, shown=True)], channels


def _count(made: _Expansion) -> _Expanded:
    each, number = made.pair()
    size = number.value.value if isinstance(number.value, Literal) else None
    if type(size) is not int or size < 1:
        made.wrong(number.span, made.text_of(number))
    done = made.when(_is("c", size), made.plus(_COUNT), made.set("c", _ZERO))
    channel = made.channel(made.plain(each), made.plus("c"), done)
    return [made.field("c"), made.field(_COUNT, shown=True)], [channel]


def _values(made: _Expansion) -> tuple[Argument, Expression]:
    """A type, and the value of an attribute."""
    each, attribute = made.pair()
    return made.plain(each), Field("", made.plain(attribute).name, span=attribute.span)


def _no_number(value: Expression) -> Expression:
    return Binary("==", Binary("-", value, _ZERO), _NULL)


def _sum(made: _Expansion) -> _Expanded:
    each, value = _values(made)
    channel = made.channel(each, made.plus("sum", value), ignored=_no_number(value))
    return [made.field("sum", shown=True)], [channel]


def _mean(made: _Expansion) -> _Expanded:
    each, value = _values(made)
    mean = made.set("mean", Binary("/", Name("sum"), Name("count")))
    channel = made.channel(each, made.plus("count"), made.plus("sum", value), mean, ignored=_no_number(value))
    return [made.field("count"), made.field("sum"), made.field("mean", _NULL, shown=True)], [channel]


def _extreme(name: str, operator: str) -> Callable[[_Expansion], _Expanded]:
    def expand(made: _Expansion) -> _Expanded:
        each, value = _values(made)
        better = Binary("or", Binary("==", Name(name), _NULL), Binary(operator, value, Name(name)))
        channel = made.channel(each, made.when(better, made.set(name, value)), ignored=Binary("==", value, _NULL))
        return [made.field(name, _NULL, shown=True)], [channel]

    return expand


def _change(made: _Expansion) -> _Expanded:
    each, value = _values(made)
    return [made.field("v", _NULL, shown=True)], [made.channel(each, made.set("v", value))]


def _state(made: _Expansion) -> _Expanded:
    on, off = made.pair()
    for each, word in ((on, "on"), (off, "off")):
        if each.word != word or each.condition is not None:
            made.wrong(each.span, made.text_of(each))
    if on.name == off.name:
        made.wrong(off.span, made.text_of(off))
    channels = [made.channel(on, made.set("s", _ONE)), made.channel(off, made.set("s", _ZERO))]
    return [made.field("s", shown=True)], channels


def _output(made: _Expansion) -> _Expanded:
    each, *instructions = made.arguments
    fields, statements = [made.field(_COUNT, shown=True)], [made.plus(_COUNT)]
    for instruction in instructions:
        value = instruction.assigned
        if value is None:
            made.wrong(instruction.span, made.text_of(instruction))
        constant = not any(isinstance(node, Name | Field | Moment) for node in walk(value))
        initial = value if constant else _NULL
        fields.append(StateField(instruction.name, initial, visible=True, span=instruction.span))
        if not constant:
            statements.append(Assignment(instruction.name, _of_event(value), span=instruction.span))
    return fields, [made.channel(made.plain(each), *statements)]


OPERATORS: Final[dict[str, _Form]] = {
    "filter": _Form("filter(A where condition)", _filter),
    "and": _Form("and(A, B, ...), of two types or more", _and),
    "or": _Form("or(A, B, ...), of two types or more", _or),
    "sequence": _Form("sequence(A, B, ...), of two types or more", _sequence),
    "count": _Form("count(A, 3), with a whole number", _count),
    "sum": _Form("sum(A, attribute)", _sum),
    "mean": _Form("mean(A, attribute)", _mean),
    "least": _Form("least(A, attribute)", _extreme("least", "<")),
    "greatest": _Form("greatest(A, attribute)", _extreme("greatest", ">")),
    "change": _Form("change(A, attribute)", _change),
    "state": _Form("state(on A, off B), of two types", _state),
    "output": _Form("output(A, to = 'role', ...)", _output),
}
"""The operators by their words."""
