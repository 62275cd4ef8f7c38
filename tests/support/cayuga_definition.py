"""Cayuga's operators as the articles define them, over sets of events, for comparison with what engines find.

cayuga-algebra-cesar, section 2, and cayuga-system-2007, section 2, with the decisions of frontends, section 10; nothing
of the translation is used. Arithmetic and comparisons are those of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Name, Unary
from distced.middleware.sets.values import BINARY, FUNCTIONS

Values: TypeAlias = tuple[tuple[str, Attribute], ...]
Part: TypeAlias = "int | tuple[frozenset[Part], Values]"
Streams: TypeAlias = "Mapping[str, frozenset[Happening]]"

DUR = Name("DUR")


@dataclass(frozen=True, slots=True)
class Happening:
    """Event of a stream: attributes in order, t0, t1, and what it is made of. A part is a primitive event, or an event
    of a stream that is read by its name."""

    values: Values
    begin: int
    end: int
    parts: frozenset[Part]

    @property
    def attributes(self) -> dict[str, Attribute]:
        return dict(self.values)

    def named(self) -> Happening:
        """The event as one part of those that read its stream by name."""
        return Happening(self.values, self.begin, self.end, frozenset({(self.parts, _known(self.values))}))


def holds(condition: Expression | None, read: Callable[[Expression], Attribute]) -> bool:
    """Whether a condition is true; an omitted one is."""
    return condition is None or value(condition, read) is True


def value(expression: Expression, read: Callable[[Expression], Attribute]) -> Attribute:
    """Value of an expression; `read` gives that of names and fields."""
    match expression:
        case Literal(value=constant):
            return constant
        case Name() | Field():
            return read(expression)
        case Unary(operator="not", operand=operand):
            return value(operand, read) is not True
        case Binary(operator="and", left=left, right=right):
            return value(left, read) is True and value(right, read) is True
        case Binary(operator="or", left=left, right=right):
            return value(left, read) is True or value(right, read) is True
        case Binary(operator=operator, left=left, right=right):
            return BINARY[operator](value(left, read), value(right, read))
        case Call(function=function, arguments=arguments):
            return FUNCTIONS[function].compute(*(value(each, read) for each in arguments))
        case _:
            raise AssertionError(expression)


def next_of(
    begin: int, end: int, seconds: Iterable[Happening], condition: Callable[[Happening], bool], *, overlapping: bool
) -> list[Happening]:
    """The events that follow an interval, for which a condition holds, with none before: all of one instant."""
    following = [each for each in seconds if (end < each.end if overlapping else end < each.begin)]
    fitting = [each for each in following if condition(each)]
    return [each for each in fitting if not any(other.end < each.end for other in fitting)]


def joined(first: Happening, second: Happening, values: Values) -> Happening:
    """e1^e2, with the interval from the begin of both to the end of the second."""
    begin = min(first.begin, second.begin)
    return Happening(values, begin, second.end, first.parts | second.parts)


def streams_of(events: Iterable[Event], schemas: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[Happening]]:
    """Streams of primitive events by their types."""
    return {
        name: frozenset(
            Happening(
                tuple((each, event.attributes.get(each)) for each in attributes),
                event.lo,
                event.hi,
                frozenset({event.seq}),
            )
            for event in events
            if event.type == name
        )
        for name, attributes in schemas.items()
    }


def answer(happenings: Iterable[Happening]) -> list[str]:
    """Events of a stream in the form that is compared."""
    return sorted({_shown(each.parts, each.begin, each.end, _known(each.values)) for each in happenings})


def found(events: Iterable[CompositeEvent]) -> list[str]:
    """Composite events in the form that is compared."""
    shown = []
    for each in events:
        parts, values = _made_of(each)
        shown.append(_shown(parts, each.lo, each.hi, values))
    return sorted(shown)


def _made_of(event: CompositeEvent) -> tuple[frozenset[Part], Values]:
    parts: set[Part] = set()
    for each in event.events:
        parts.add(_made_of(each) if isinstance(each, CompositeEvent) else each.seq)
    return frozenset(parts), _known(tuple(event.attributes.items()))


def _known(values: Values) -> Values:
    """Attributes that are not null: a missing one is null."""
    return tuple(sorted((name, each) for name, each in values if each is not None))


def _shown(parts: frozenset[Part], begin: int, end: int, values: Values) -> str:
    return f"{begin} {end} {_parts(parts)} {values}"


def _parts(parts: frozenset[Part]) -> str:
    inner = sorted(str(each) if isinstance(each, int) else f"<{_parts(each[0])} {each[1]}>" for each in parts)
    return f"[{', '.join(inner)}]"
