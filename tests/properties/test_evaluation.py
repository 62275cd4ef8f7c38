"""Compiled expressions and normal forms of sets mean what a walk over their trees means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets import values
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
    normal_form,
)
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.expressions import LEVELS, Binary, Call, Expression, Field, Literal, Moment, Name, Unary
from distced.middleware.sets.local_time import LOCAL_TIMES

# Attributes by kind, so that events of a registered type can be made, and expressions that do not care.
KINDS: dict[str, Any] = {"n": "number", "m": "number", "s": "string", "b": "boolean"}
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0, -0.0, 2**62, -(2**62), 1e308, float("inf"), float("-inf")]),
)
STRINGS = st.sampled_from(["", "a", "b", "ab", "1"])
BY_KIND = {"number": NUMBERS, "string": STRINGS, "boolean": st.booleans()}
VALUES = st.one_of(NUMBERS, STRINGS, st.booleans(), st.none())
REGISTERS = {"r": 0, "q": 1}
VARIABLES = {"x": 0, "y": 1}
OPERATORS = [operator for level in LEVELS for operator in level if operator != "not"]
ONE = ["abs", "round", "floor", "ceil", "length", "lower", "upper", "json"]
TWO = ["contains", "starts_with", "ends_with", "min", "max", "coalesce"]

ATTRIBUTES = st.sampled_from([*KINDS, "nowhere"])
EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(Literal, VALUES),
        st.builds(Name, st.one_of(ATTRIBUTES, st.sampled_from(list(REGISTERS)))),
        st.builds(Field, st.sampled_from(list(VARIABLES)), ATTRIBUTES),
        st.builds(Moment, st.sampled_from(["lo", "hi"]), st.sampled_from(["", *VARIABLES])),
    ),
    lambda inner: st.one_of(
        st.builds(Unary, st.sampled_from(["not", "-"]), inner),
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(lambda function, a: Call(function, (a,)), st.sampled_from(ONE), inner),
        st.builds(lambda function, a, b: Call(function, (a, b)), st.sampled_from(TWO), inner, inner),
        st.builds(lambda a, b, c: Call("if", (a, b, c)), inner, inner, inner),
        st.builds(lambda a, b: Call("in", (a, *b)), inner, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda function, a, zone: Call(function, (a, Literal(zone))),
            st.sampled_from(list(LOCAL_TIMES)),
            inner,
            st.sampled_from(["UTC", "Asia/Tokyo"]),
        ),
    ),
    max_leaves=8,
)


@st.composite
def events(draw: Any, *, of_kind: bool) -> Event:
    lo = draw(st.integers(0, 5))
    attributes: dict[str, Attribute] = {}
    for name, kind in KINDS.items():
        # Every attribute may be null, and what is left out is null.
        if draw(st.integers(0, 3)):
            attributes[name] = draw(st.one_of(st.none(), BY_KIND[kind] if of_kind else VALUES))
    return Event("A", lo, lo + draw(st.integers(0, 3)), "e", draw(st.integers(0, 9)), attributes)


def _walk(expression: Expression, event: Event, bindings: Any, registers: Any) -> Attribute:
    """The value of an expression, straight from its tree and `values`."""

    def of(each: Expression) -> Attribute:
        return _walk(each, event, bindings, registers)

    match expression:
        case Literal(value=value):
            return value
        case Name(name=name):
            return registers[REGISTERS[name]] if name in REGISTERS else event.attributes.get(name)
        case Field(variable=variable, attribute=attribute):
            bound = bindings[VARIABLES[variable]]
            return None if bound is None else bound.attributes.get(attribute)
        case Moment(end=end, variable=variable):
            bound = bindings[VARIABLES[variable]] if variable else event
            return None if bound is None else getattr(bound, end)
        case Unary(operator="not", operand=operand):
            return of(operand) is not True
        case Unary(operand=operand):
            return values.negate(of(operand))
        case Binary(operator="and", left=left, right=right):
            return of(left) is True and of(right) is True
        case Binary(operator="or", left=left, right=right):
            return of(left) is True or of(right) is True
        case Binary(operator=operator, left=left, right=right):
            return values.BINARY[operator](of(left), of(right))
        case Call(function=function, arguments=arguments):
            return values.FUNCTIONS[function].compute(*map(of, arguments))
    raise TypeError(expression)


def _check(expression: Expression, scope: Scope, event: Event, bindings: Any, registers: Any) -> None:
    expected = _walk(expression, event, bindings, registers)
    value = compile_value(expression, scope)(event, bindings, registers)
    assert _same(value, expected), (value, expected)
    condition = compile_condition(expression, scope)
    holds = condition if isinstance(condition, bool) else condition(event, bindings, registers)
    assert holds is (expected is True)


def _same(one: Attribute, other: Attribute) -> bool:
    return type(one) is type(other) and one == other


ANY_EVENTS = events(of_kind=False)
KIND_EVENTS = events(of_kind=True)
COUNTED = st.tuples(VALUES, VALUES)


@pytest.mark.slow
@given(EXPRESSIONS, ANY_EVENTS, st.tuples(st.one_of(st.none(), ANY_EVENTS), st.one_of(st.none(), ANY_EVENTS)), COUNTED)
@settings(max_examples=settings().max_examples * 5)
def test_expressions_evaluate_without_known_kinds(expression: Any, event: Event, bindings: Any, registers: Any) -> None:
    _check(expression, Scope(VARIABLES, REGISTERS), event, bindings, registers)


@pytest.mark.slow
@given(
    EXPRESSIONS, KIND_EVENTS, st.tuples(st.one_of(st.none(), KIND_EVENTS), st.one_of(st.none(), KIND_EVENTS)), COUNTED
)
@settings(max_examples=settings().max_examples * 5)
def test_expressions_evaluate_with_known_kinds(expression: Any, event: Event, bindings: Any, registers: Any) -> None:
    scope = Scope(VARIABLES, REGISTERS, KINDS, {"x": KINDS, "y": None})
    _check(expression, scope, event, bindings, registers)


# Sets.

TYPES = st.sampled_from(["A", "B", "C"])
CONDITIONS = st.one_of(
    st.builds(lambda operator, value: Binary(operator, Name("v"), Literal(value)), st.sampled_from(["==", "<", ">="]),
              st.integers(0, 2)),
    st.sampled_from([Literal(True), Literal(False), Literal(None), Unary("not", Binary("==", Name("v"), Literal(1)))]),
)  # fmt: skip
SETS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.builds(TypeSet, TYPES), st.just(AnySet()), st.just(TypeSet("T"))),
    lambda inner: st.one_of(
        st.builds(Union, st.lists(inner, max_size=4).map(tuple)),
        st.builds(Intersection, inner, inner),
        st.builds(Difference, inner, inner),
        st.builds(Filtered, inner, CONDITIONS),
    ),
    max_leaves=10,
)


def _holds(described: DescribableSet, event: Event) -> bool:
    """Whether an event is in a set, straight from its tree. T is a time event, which `any` does not mean."""
    match described:
        case TypeSet(name=name):
            return event.type == name
        case AnySet():
            return event.type != "T"
        case Union(members=members):
            return any(_holds(each, event) for each in members)
        case Intersection(left=left, right=right):
            return _holds(left, event) and _holds(right, event)
        case Difference(left=left, right=right):
            return _holds(left, event) and not _holds(right, event)
        case Filtered(base=base, condition=condition):
            return _holds(base, event) and _walk(condition, event, (), ()) is True
    raise TypeError(described)


@pytest.mark.slow
@given(SETS)
@settings(max_examples=settings().max_examples * 5)
def test_set_holds_an_event_if_the_condition_of_its_type_does(described: Any) -> None:
    form = normal_form(described, ["T"])
    for type_name in ("A", "B", "C", "Other", "T"):
        for value in (None, 0, 1, 2):
            event = Event(type_name, 1, 1, "e", 0, {"v": value})
            # Other types are meant by `any` alone; a time event is no other type.
            named = type_name != "T" or "T" in form.by_type
            condition = compile_condition(form.condition(type_name), Scope()) if named else False
            found = condition if isinstance(condition, bool) else condition(event, (), ())
            assert found is _holds(described, event), (type_name, value, form)


@given(SETS)
def test_inferred_types_cover_all_values(described: Any) -> None:
    form = normal_form(described, ["T"])
    types = form.types()
    for type_name in ("A", "B", "C", "Other"):
        if any(_holds(described, Event(type_name, 1, 1, "e", 0, {"v": value})) for value in (None, 0, 1, 2)):
            assert types is None or type_name in types
            assert not form.is_empty
