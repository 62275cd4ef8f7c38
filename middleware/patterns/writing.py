"""Patterns of the Python binding as text of the core language."""

from __future__ import annotations

from typing import Final

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.events import (
    AnyOf,
    Derivation,
    Described,
    DifferenceOf,
    EventSet,
    FilterOf,
    IntersectionOf,
    TimerToken,
    TypeOf,
    UnionOf,
)
from distced.middleware.patterns.operands import Value
from distced.middleware.patterns.pattern import (
    Alternation,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Parallel,
    Pattern,
    Publication,
    Scope,
    Sequence,
    Timing,
    Window,
)
from distced.middleware.patterns.variable_names import Names
from distced.middleware.sets.expressions import SUM_LEVEL, format_expression, quote_name

# Precedence as in the language, loosest first.
_WHOLE: Final = 0  # within, by
_INIT: Final = 1
_ALTERNATION: Final = 2
_PARALLEL: Final = 3
_SEQUENCE: Final = 4
_CONCATENATION: Final = 5
_HIDDEN: Final = 6
_POSTFIX: Final = 7
_PRIMARY: Final = 8

_AND: Final = 1
"""The level of `and` among operators; what is joined by it is tighter."""


def write(whole: Pattern | Publication, *, lenient: bool = False) -> str:
    """The text of a pattern, with what it publishes.

    Args:
        lenient: also of a part of one, whose events may be bound elsewhere.
    """
    writer = _Writer(Names(whole, lenient=lenient))
    if isinstance(whole, Publication):
        return f"{writer.pattern(whole.pattern)} -> {writer.output(whole)}"
    return writer.pattern(whole)


def write_derivation(derived: Derivation) -> str:
    """`type Name = Base where condition every 1min by (person, room)`."""
    filtered = derived.base if isinstance(derived.base, FilterOf) else None
    writer = _Writer(Names(EventSet(derived.base)))
    base = writer.set_primary(derived.base.base if isinstance(derived.base, FilterOf) else derived.base)
    text = f"type {quote_name(derived.name)} = {base}"
    if filtered is not None:
        text += f" where {writer.conditions(filtered.conditions, filtered.owner)}"
    if derived.every:
        text += f" every {derived.every}"
    return text + (f" by {_attributes(derived.by)}" if derived.by else "")


class _Writer:
    def __init__(self, names: Names) -> None:
        self.names = names

    def pattern(self, pattern: Pattern, level: int = _WHOLE) -> str:
        text, own = self._pattern(pattern)
        return f"({text})" if own < level else text

    def _pattern(self, pattern: Pattern) -> tuple[str, int]:
        match pattern:
            case EventSet():
                return self.atom(pattern), _PRIMARY
            case Concatenation(parts=parts):
                return " ".join(self.pattern(part, _HIDDEN) for part in parts), _CONCATENATION
            case Sequence(parts=parts):
                return " ; ".join(self.pattern(part, _CONCATENATION) for part in parts), _SEQUENCE
            case Parallel(left=left, right=right):
                return f"{self.pattern(left, _PARALLEL)} & {self.pattern(right, _SEQUENCE)}", _PARALLEL
            case Alternation(parts=parts):
                return " | ".join(self.pattern(part, _PARALLEL) for part in parts), _ALTERNATION
            case Iteration(body=body, least=least, most=most):
                return self.pattern(body, _POSTFIX) + _times(least, most), _POSTFIX
            case Hidden(body=body):
                return f"~{self.pattern(body, _HIDDEN)}", _HIDDEN
            case Scope(body=body, domain=domain):
                return f"[ {self.pattern(body)} <= {self.set(domain)} ]", _PRIMARY
            case Window(body=body, length=length):
                return f"{self.pattern(body)} within {length}", _WHOLE
            case Keyed(body=body, attributes=attributes):
                return f"{self.pattern(body)} by {_attributes(attributes)}", _WHOLE
            case Timing(first=first, second=second, timer=timer):
                pair = f"({self.pattern(first)}, {self.pattern(second)})"
                return f"{pair} @ {quote_name(self.names.timer(timer))} = {timer.when}", _POSTFIX
            case Init(body=body, registers=registers):
                return f"init {self._assignments(registers, None)} : {self.pattern(body, _INIT)}", _INIT
        raise PatternError("not a pattern", given=type(pattern).__name__)

    def atom(self, atom: EventSet) -> str:
        variable = self.names.bound(atom)
        if atom._negated:
            if atom._domain is None and not self.names.lenient:
                raise PatternError(
                    "a negation needs a domain", given=self.set(atom._described), advice="add .among(...)"
                )
            text = f"!{self._list(atom._described, guarded=True)}"
        elif atom._domain is None and not variable and not atom._updates:
            return f"[{self._list(atom._described)}]"
        else:
            text = self._list(atom._described, guarded=True)
        if variable:
            text += f" as {quote_name(variable)}"
        if atom._updates:
            text += f" set {self._assignments(atom._updates, atom, SUM_LEVEL)}"
        if atom._domain is not None:
            text += f" <= {self.set(atom._domain)}"
        return f"[{text}]"

    def output(self, publication: Publication) -> str:
        text = f"{quote_name(publication.name)}({self._assignments(publication.attributes, None)})"
        return f"{text} where {self.conditions(publication.where, None)}" if publication.where else text

    # Sets.

    def set(self, described: Described) -> str:
        """A set, as a member of a list."""
        match described:
            case FilterOf():
                return self._filtered(described, guarded=False)
            case DifferenceOf(left=left, right=right):
                return f"{self._difference_left(left)} - {self._factor(right)}"
            case _:
                return self._factor(described)

    def set_primary(self, described: Described) -> str:
        """A set, wherever one may stand."""
        match described:
            case TypeOf(name=name):
                return quote_name(name)
            case AnyOf():
                return "any"
            case TimerToken():
                return quote_name(self.names.timer(described))
            case UnionOf(members=members):
                return "{" + ", ".join(map(self.set, members)) + "}"
            case _:
                return f"({self.set(described)})"

    def _factor(self, described: Described) -> str:
        if isinstance(described, IntersectionOf):
            left = described.left
            text = self._factor(left) if isinstance(left, IntersectionOf) else self.set_primary(left)
            return f"{text} & {self.set_primary(described.right)}"
        return self.set_primary(described)

    def _difference_left(self, described: Described) -> str:
        return self.set(described) if isinstance(described, DifferenceOf) else self._factor(described)

    def _list(self, described: Described, *, guarded: bool = False) -> str:
        """A set as the label of an atom, where a union needs no braces; conditions in parentheses if more follows."""
        members = described.members if isinstance(described, UnionOf) and len(described.members) > 1 else (described,)
        return ", ".join(
            self._filtered(each, guarded=guarded) if isinstance(each, FilterOf) else self.set(each) for each in members
        )

    def _filtered(self, filtered: FilterOf, *, guarded: bool) -> str:
        condition = self.conditions(filtered.conditions, filtered.owner)
        return f"{self.set_primary(filtered.base)} where {f'({condition})' if guarded else condition}"

    # Expressions.

    def conditions(self, conditions: tuple[Value | str, ...], at_hand: EventSet | None) -> str:
        """Conditions that all have to hold, as one."""
        if len(conditions) == 1:
            return self._condition(conditions[0], at_hand, 0)
        return " and ".join(self._condition(each, at_hand, _AND + (place > 0)) for place, each in enumerate(conditions))

    def _condition(self, condition: Value | str, at_hand: EventSet | None, level: int) -> str:
        if isinstance(condition, str):
            return f"({condition})" if level else condition
        return self._expression(condition, at_hand, level)

    def _expression(self, value: Value, at_hand: EventSet | None, level: int = 0) -> str:
        return format_expression(value.expression(lambda owner: self.names.variable(owner, at_hand)), level)

    def _assignments(
        self, pairs: tuple[tuple[str, Value], ...], at_hand: EventSet | None, level: int = 0
    ) -> str:  # fmt: skip
        return ", ".join(f"{quote_name(name)} = {self._expression(value, at_hand, level)}" for name, value in pairs)


def _attributes(names: tuple[str, ...]) -> str:
    return quote_name(names[0]) if len(names) == 1 else "(" + ", ".join(map(quote_name, names)) + ")"


def _times(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
