"""How the parts of an automaton are called on a drawing: its sets, labels, time events and sides.

An automaton knows time events, the sides of a `&` and thinned types under names of its own; here they get those back
that stand in the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton, Position, State
from distced.detectors.language.derived import Thinning
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
        sides: what the sides of its `&` are called, by index.
        thinned: what events are called that pass a thinning, by its mark.
    """

    automaton: Automaton
    sides: tuple[str, ...] = ()
    thinned: Mapping[str, str] = field(default_factory=dict)

    def described(self, form: ConditionByType) -> str:
        """A describable set as it could be written in a pattern, without braces."""
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
        """A domain, in braces where it has several members."""
        text = self.described(form)
        several = sum(
            condition != FALSE and (condition != form.others or name.startswith(TIMER_PREFIX))
            for name, condition in form.by_type.items()
        ) + (form.others != FALSE)
        return f"{{{text}}}" if several > 1 else text

    def label(self, position: Position) -> str:
        """What a move matches."""
        return self.described(position.label) or "nothing"

    def name(self, type_name: str) -> str:
        """A type, a time event or a side of a `&` by its name in the pattern."""
        if type_name.startswith(TIMER_PREFIX):
            return self.automaton.timers[int(type_name.removeprefix(TIMER_PREFIX))].name
        if type_name.startswith(PART_PREFIX):
            return self.sides[int(type_name.removeprefix(PART_PREFIX))]
        return quote_name(type_name)

    def timer(self, index: int) -> str:
        """A time event with when it is due."""
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
        """What a generative state emits."""
        output = self.automaton.output
        if output is None:
            return "composite event"
        names = ", ".join(quote_name(name) for name, _ in output.attributes)
        return f"{quote_name(output.type_name)}({names})"

    def failing(self, state: State) -> str:
        """What a state looks at and has no move for: the events an instance fails by. Empty where there are none."""
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
        for mark, thinned in self.thinned.items():
            if condition == Name(mark):
                return thinned
            rest = _without(condition, Name(mark))
            if rest is not None:
                return _filtered(thinned, self._readable(rest))
        return _filtered(self.name(name), self._readable(condition))

    def _readable(self, expression: Expression) -> Expression:
        def readable(node: Expression) -> Expression:
            return Name(self.thinned.get(node.name, node.name)) if isinstance(node, Name) else node

        return transform(expression, readable)


def thinned_names(thinnings: Iterable[Thinning], derived: Mapping[str, str]) -> dict[str, str]:
    """What thinned events are called, by mark: the derived type's name where it is known, else how they are thinned."""
    names = {}
    for thinning in thinnings:
        by = f" by ({', '.join(thinning.by)})" if thinning.by else ""
        condition = "" if thinning.condition == TRUE else f" where {format_expression(thinning.condition)}"
        described = f"{thinning.type_name}{condition} every {format_duration(thinning.every)}{by}"
        names[thinning.mark] = derived.get(thinning.mark, described)
    return names


def _filtered(name: str, condition: Expression) -> str:
    return name if condition == TRUE else f"{name} where {format_expression(condition)}"


def _without(condition: Expression, conjunct: Expression) -> Expression | None:
    """The rest of a conjunction that has this conjunct in front; None where it has not."""
    if not isinstance(condition, Binary) or condition.operator != "and":
        return None
    if condition.left == conjunct:
        return condition.right
    rest = _without(condition.left, conjunct)
    return None if rest is None else Binary("and", rest, condition.right)


def _covers(matched: Expression, looked_at: Expression) -> bool:
    """Whether everything in a domain is in a label too, as far as their conditions show it."""
    return matched == TRUE or set(_alternatives(looked_at)) <= {*_alternatives(matched), FALSE}


def _alternatives(condition: Expression) -> list[Expression]:
    if isinstance(condition, Binary) and condition.operator == "or":
        return [*_alternatives(condition.left), *_alternatives(condition.right)]
    return [condition]
