"""Names of the parts of an automaton on a drawing: its sets, labels, time events and sides.

An automaton knows time events, the sides of a `&` and throttled types under internal names; here these are replaced by
the names in the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton, AutomatonState, Position
from distced.detectors.language.derived import Throttling
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_when
from distced.middleware.sets.describable import EMPTY, ConditionByType, union
from distced.middleware.sets.expressions import (
    FALSE,
    SUM_LEVEL,
    TRUE,
    Binary,
    Expression,
    Name,
    format_expression,
    quote_name,
    transform,
)


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for one automaton.

    Attributes:
        automaton: whose parts are called.
        sides: the names of the sides of its `&`, by index.
        throttled: the names of throttled events, by mark.
    """

    automaton: Automaton
    sides: tuple[str, ...] = ()
    throttled: Mapping[str, str] = field(default_factory=dict)

    def described(self, form: ConditionByType) -> str:
        """A describable set in pattern notation, without braces."""
        members = []
        taken = []
        for name, condition in form.by_type.items():
            # `any` is every event that is published: time events are named, or not meant.
            if condition == form.others and not name.startswith(TIMER_PREFIX):
                continue
            if condition != FALSE:
                members.append(self._member(name, condition))
            elif not name.startswith(TIMER_PREFIX):
                taken.append(self.name(name))
        if form.others != FALSE:
            anything = _filtered("any", self._readable(form.others))
            if taken:
                anything += f" - {taken[0]}" if len(taken) == 1 else f" - {{{', '.join(taken)}}}"
            members.insert(0, anything)
        return ", ".join(members)

    def domain(self, form: ConditionByType) -> str:
        """A domain, in braces if it has several members."""
        text = self.described(form)
        several = sum(
            condition != FALSE and (condition != form.others or name.startswith(TIMER_PREFIX))
            for name, condition in form.by_type.items()
        ) + (form.others != FALSE)
        return f"{{{text}}}" if several > 1 else text

    def label(self, position: Position) -> str:
        """The events a move matches."""
        return self.described(position.label) or "nothing"

    def name(self, type_name: str) -> str:
        """A type, a time event or a side of a `&` by its name in the pattern."""
        if type_name.startswith(TIMER_PREFIX):
            return self.automaton.timers[int(type_name.removeprefix(TIMER_PREFIX))].name
        if type_name.startswith(PART_PREFIX):
            return self.sides[int(type_name.removeprefix(PART_PREFIX))]
        return quote_name(type_name)

    def timer(self, index: int) -> str:
        """A time event with its due instant."""
        timer = self.automaton.timers[index]
        return f"{timer.name} = {format_when(timer.when)}"

    def updates(self, position: Position) -> tuple[str, ...]:
        """The registers a move changes."""
        return tuple(
            f"{self.automaton.registers[place].name} = {self.expression(value, SUM_LEVEL)}"
            for place, value in position.updates
        )

    def registers(self) -> tuple[str, ...]:
        """The registers with their initial values."""
        return tuple(
            f"{each.name} = {self.expression(initial)}"
            for each in self.automaton.registers
            for initial in dict.fromkeys(initial for _, initial in each.initials)
        )

    def emission(self) -> str:
        """The output of a generative state."""
        output = self.automaton.output
        if output is None:
            return "composite event"
        names = ", ".join(quote_name(name) for name, _ in output.attributes)
        return f"{quote_name(output.type_name)}({names})"

    def failing(self, state: AutomatonState) -> str:
        """The events a state reads without a move for them, which end an instance; empty without any."""
        labels = EMPTY
        for move in state.moves:
            labels = union(labels, self.automaton.positions[move.position].label)
        domain = self.automaton.domain(state)
        members: list[str] = []
        for name in dict.fromkeys((*domain.by_type, *labels.by_type)):
            looked_at, matched = domain.condition(name), labels.condition(name)
            if looked_at == FALSE or _covers(matched, looked_at):
                continue
            members.append(self._member(name, looked_at) if matched == FALSE else f"any other {self.name(name)}")
        if not _covers(labels.others, domain.others):
            members.append("any other event")
        return ", ".join(dict.fromkeys(members))

    def expression(self, expression: Expression, level: int = 0) -> str:
        """An expression as text."""
        return format_expression(self._readable(expression), level)

    def _member(self, name: str, condition: Expression) -> str:
        for mark, throttled in self.throttled.items():
            if condition == Name(mark):
                return throttled
            rest = _without(condition, Name(mark))
            if rest is not None:
                return _filtered(throttled, self._readable(rest))
        return _filtered(self.name(name), self._readable(condition))

    def _readable(self, expression: Expression) -> Expression:
        def readable(node: Expression) -> Expression:
            return Name(self.throttled.get(node.name, node.name)) if isinstance(node, Name) else node

        return transform(expression, readable)


def throttled_names(throttlings: Iterable[Throttling], derived: Mapping[str, str]) -> dict[str, str]:
    """Names of throttled events by mark: the derived type's if known, else a description of the throttling."""
    names = {}
    for throttling in throttlings:
        by = f" by ({', '.join(throttling.by)})" if throttling.by else ""
        condition = "" if throttling.condition == TRUE else f" where {format_expression(throttling.condition)}"
        described = f"{throttling.type_name}{condition} every {format_duration(throttling.every)}{by}"
        names[throttling.mark] = derived.get(throttling.mark, described)
    return names


def _filtered(name: str, condition: Expression) -> str:
    return name if condition == TRUE else f"{name} where {format_expression(condition)}"


def _without(condition: Expression, conjunct: Expression) -> Expression | None:
    """The rest of a conjunction with this first conjunct; None for any other."""
    if not isinstance(condition, Binary) or condition.operator != "and":
        return None
    if condition.left == conjunct:
        return condition.right
    rest = _without(condition.left, conjunct)
    return None if rest is None else Binary("and", rest, condition.right)


def _covers(matched: Expression, looked_at: Expression) -> bool:
    """Whether everything in a domain is also in a label, as far as their conditions show."""
    return matched == TRUE or set(_alternatives(looked_at)) <= {*_alternatives(matched), FALSE}


def _alternatives(condition: Expression) -> list[Expression]:
    if isinstance(condition, Binary) and condition.operator == "or":
        return [*_alternatives(condition.left), *_alternatives(condition.right)]
    return [condition]
