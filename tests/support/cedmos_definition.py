"""Literal interpreter of CEDMOS transformers (frontends, section 7.2; cedmos-1999, sections 4.1.1 and 4.2.1).

Written from the definition: instant by instant, transformer by transformer, input by input, with a state for each
category. It knows nothing of patterns. It reads the tree as it was parsed and finds the meaning of names itself; values
are computed by the functions that compute those of the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from math import ceil, floor
from typing import Any

from distced.detectors.frontends.cedmos.cedmos_tree import Assignment, Statement, Transformer
from distced.middleware.model.events import Attribute, CompositeEvent, Event, composite_digest
from distced.middleware.sets import values
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Moment, Name, Unary

_OPERATORS: Mapping[str, Any] = {
    "==": values.same,
    "!=": values.different,
    "<": values.less,
    "<=": values.at_most,
    ">": values.greater,
    ">=": values.at_least,
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.modulo,
}


@dataclass
class _Category:
    """State of a category.

    Attributes:
        inputs: those that were not ignored since the last emission.
    """

    named: dict[str, Attribute]
    state: dict[str, Attribute]
    inputs: list[Event] = field(default_factory=list)


def detect(
    transformers: Sequence[Transformer], events: Sequence[Event], sources: Mapping[str, str]
) -> dict[str, list[CompositeEvent]]:
    """What each transformer emits; `sources` are the sources of its composite events, by which they are ordered."""
    by_name = {each.name: each for each in transformers}
    reads = {name: {channel.type_name for channel in each.channels} & by_name.keys() for name, each in by_name.items()}
    order = list(TopologicalSorter(reads).static_order())
    states: dict[str, dict[object, _Category]] = {name: {} for name in order}
    found: dict[str, list[CompositeEvent]] = {name: [] for name in order}
    for instant in sorted({each.hi for each in events}):
        at_hand = [each for each in events if each.hi == instant]
        for name in order:
            emitted = _instant(by_name[name], states[name], sorted(at_hand, key=lambda each: each.key), sources[name])
            found[name] += emitted
            at_hand += emitted
    return found


def _instant(
    transformer: Transformer, states: dict[object, _Category], inputs: Sequence[Event], source: str
) -> list[CompositeEvent]:
    """What is emitted at the end of an instant with these inputs."""
    before: dict[object, dict[str, Attribute]] = {}
    for event in inputs:
        for channel in transformer.channels:
            if channel.type_name != event.type:
                continue
            if channel.ignored is not None and _value(channel.ignored, event, {}) is True:
                continue
            named = {each.name: _value(each.value, event, {}) for each in channel.categories}
            if None in named.values():
                continue
            point = tuple((type(named[each.name]) is bool, named[each.name]) for each in transformer.dimensions)
            if point not in states:
                initial = {each.name: _value(each.initial, event, {}) for each in transformer.fields}
                states[point] = _Category(named, initial)
            category = states[point]
            # 2 and 2.0 are one value; that of the last input is shown.
            category.named = named
            before.setdefault(point, dict(category.state))
            if event not in category.inputs:
                category.inputs.append(event)
            _do(channel.statements, event, category.state)
    emitted = []
    for point, was in before.items():
        category = states[point]
        now = category.state
        if not any(values.different(now[each.name], was[each.name]) for each in transformer.fields if each.firing):
            continue
        attributes = {each.name: category.named[each.name] for each in transformer.dimensions}
        for each in transformer.fields:
            if each.visible:
                attributes |= {each.name: now[each.name], f"was_{each.name}": was[each.name]}
        constituents = tuple(each.id for each in category.inputs)
        emitted.append(
            CompositeEvent(
                transformer.name,
                min(each.lo for each in category.inputs),
                max(each.hi for each in category.inputs),
                source,
                composite_digest(constituents, attributes),
                attributes,
                constituents=constituents,
            )
        )
        category.inputs = []
    return emitted


def _do(statements: Sequence[Statement], event: Event, state: dict[str, Attribute]) -> None:
    for each in statements:
        if isinstance(each, Assignment):
            state[each.name] = _value(each.value, event, state)
        elif _value(each.condition, event, state) is True:
            _do(each.then, event, state)
        else:
            _do(each.otherwise, event, state)


def _value(expression: Expression, event: Event, state: Mapping[str, Attribute]) -> Attribute:
    """A value: a bare name is a field of the state if there is one, else an attribute of the event."""
    match expression:
        case Literal(value=value):
            return value
        case Name(name=name):
            return state[name] if name in state else event.attributes.get(name)
        case Field(attribute=name):
            return event.attributes.get(name)
        case Moment(end=end):
            return event.hi if end == "hi" else event.lo
        case Unary(operator="not", operand=operand):
            return _value(operand, event, state) is not True
        case Unary(operand=operand):
            return values.negate(_value(operand, event, state))
        case Binary(operator="and" | "or" as operator, left=left, right=right):
            holds = [_value(each, event, state) is True for each in (left, right)]
            return all(holds) if operator == "and" else any(holds)
        case Binary(operator=operator, left=left, right=right):
            return _OPERATORS[operator](_value(left, event, state), _value(right, event, state))
        case Call(function="if", arguments=(condition, chosen, otherwise)):
            return _value(chosen if _value(condition, event, state) is True else otherwise, event, state)
        case Call(function="floor" | "ceil" as function, arguments=(only,)):
            value = _value(only, event, state)
            if type(value) not in (int, float):
                return None
            return floor(value) if function == "floor" else ceil(value)
        case Call(function="in", arguments=(sought, *options)):
            return any(values.same(_value(sought, event, state), _value(each, event, state)) for each in options)
    raise AssertionError(f"not in random transformers: {expression}")
