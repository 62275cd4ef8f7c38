"""Engine-independent properties of an automaton: repeated composite events, merging instances, texts that grow."""

from __future__ import annotations

from collections.abc import Mapping

from distced.detectors.automata.automaton import TIMER_PREFIX, Automaton, Position
from distced.middleware.patterns.tree import Calculated, Delegated, Recurring
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import (
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Parameter,
    Verbatim,
    walk,
)
from distced.middleware.sets.values import FUNCTIONS


def recurs(automaton: Automaton) -> bool:
    """Whether a time event or a clock comes again and again, in a part, too."""
    own = bool(automaton.clocks) or any(isinstance(each.when, Recurring) for each in automaton.timers)
    return own or any(map(recurs, automaton.inner))


def may_repeat(automaton: Automaton) -> bool:
    """Whether a composite event may be detected again later: a match, or a part's, may end in a non-constituent."""
    if automaton.joints or any(part.repeats for part in automaton.delegated) or repeats_privately(automaton):
        return True
    return any(
        automaton.states[state].accepting and (position.hidden or _matches_timer(position.label.by_type))
        for position, arrival in zip(automaton.positions, automaton.arrivals, strict=True)
        for state in arrival
    )


def repeats_privately(automaton: Automaton) -> bool:
    """Whether a private publication that it reads may bring constituents once more."""
    return any(
        part.repeats if isinstance(part, Delegated) else may_repeat(part) for part in automaton.parts if part.private
    )


def _matches_timer(by_type: Mapping[str, object]) -> bool:
    return any(name[0] == TIMER_PREFIX for name in by_type)


def takes_one_event(automaton: Automaton) -> bool:
    """Whether each match is of one event, so that the order of events does not matter."""
    if automaton.parts or automaton.indivisible or automaton.quiet is not None:
        return False
    return all(
        not automaton.states[state].moves and not automaton.states[state].arms
        for arrival in automaton.arrivals
        for state in arrival
    )


def begins_with_repeats(automaton: Automaton) -> bool:
    """Whether the automaton begins with a delegated part whose composite events may repeat."""
    begins = (
        automaton.positions[move.position] for place in automaton.starts for move in automaton.states[place].moves
    )
    parts = (automaton.parts[position.part] for position in begins if position.part is not None)
    return any(isinstance(part, Delegated) and part.repeats for part in parts)


def may_merge(automaton: Automaton) -> bool:
    """Whether two instances may become equal, or complete with the same constituents: by hidden or time events, or
    several ways on.
    """
    if automaton.timers or automaton.inner_keys or any(position.hidden for position in automaton.positions):
        return True
    if len(automaton.starts) > 1 or any(len(arrival) > 1 for arrival in automaton.arrivals):
        return True
    return any(len(state.moves) > 1 for state in automaton.states)


def guard_cost(automaton: Automaton) -> int:
    """Greatest number of operators that an event may have evaluated for one instance: of the conditions of all moves of
    a state, with their domains, the registers that they change, and those that begin."""
    if automaton.guard < 0:
        object.__setattr__(automaton, "guard", _guard_cost(automaton))
    return automaton.guard


def _guard_cost(automaton: Automaton) -> int:
    costs = [
        max(
            (_operators(position.label, name) + _operators(position.domain, name) for name in _named(position)),
            default=0,
        )
        + sum(_size(value) for _, value in position.updates)
        for position in automaton.positions
    ]
    initial = sum(_size(value) for register in automaton.registers for _, value in register.initials)
    initial += sum(_size(timer.when.delay) for timer in automaton.timers if isinstance(timer.when, Calculated))
    moves = (sum(costs[move.position] for move in state.moves) for state in automaton.states)
    return max([initial + max(moves, default=0), *map(guard_cost, automaton.inner)])


def _named(position: Position) -> set[str]:
    return {*position.label.by_type, *position.domain.by_type, ""}


def _operators(form: ConditionByType, name: str) -> int:
    return _size(form.condition(name))


def _size(expression: Expression) -> int:
    return sum(1 for _ in walk(expression)) - 1


def grows_texts(automaton: Automaton) -> bool:
    """Whether a register may hold joined texts, which a later event may join again."""
    if any(map(grows_texts, automaton.inner)):
        return True
    updates = [each for position in automaton.positions for each in position.updates]
    joins = [part for _, value in updates for part in walk(value) if isinstance(part, Binary) and part.operator == "+"]
    if not joins:
        return False
    known = {register.name: place for place, register in enumerate(automaton.registers)}
    texts: set[int] = set()
    while True:
        found = {place for place, value in updates if _may_be_text(value, known, texts)}
        found |= {
            place
            for place, register in enumerate(automaton.registers)
            if not register.initials or any(_may_be_text(value, known, texts) for _, value in register.initials)
        }
        if found <= texts:
            return any(_may_be_text(each, known, texts) for each in joins)
        texts |= found


def _may_be_text(expression: Expression, registers: Mapping[str, int], texts: set[int]) -> bool:
    """Whether an expression may give a text, where these registers, by place, may hold one."""
    match expression:
        case Name(name=name) if name in registers:
            return registers[name] in texts
        case Name() | Field():
            return True
        case Literal(value=value):
            return type(value) is str
        case Parameter(kind=kind):
            return kind == "string"
        case Binary(operator="+", left=left, right=right):
            return _may_be_text(left, registers, texts) and _may_be_text(right, registers, texts)
        case Call(function=function, arguments=arguments):
            gives = FUNCTIONS[function].gives
            if function == "if":
                arguments = arguments[1:]
            return gives == "string" or (
                gives is None and any(_may_be_text(each, registers, texts) for each in arguments)
            )
        case _:
            return False


def is_on_event_alone(automaton: Automaton, form: ConditionByType, type_name: str) -> bool:
    """Whether the condition of events of a type is on the event alone: on no register or variable."""
    registers = {register.name for register in automaton.registers}
    for part in walk(form.by_type.get(type_name, form.others)):
        match part:
            case Name(name=name) if name in registers:
                return False
            case Field() | Verbatim():
                return False
            case Moment(variable=variable) if variable:
                return False
    return True
