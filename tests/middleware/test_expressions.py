"""Expressions: equality, what operators and functions mean, simplification, how they are written."""

from __future__ import annotations

import math
from typing import Any

import pytest

from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MAX, INSTANT_MIN, MINUTE
from distced.middleware.sets import values
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.expressions import (
    FALSE,
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Unary,
    conjunction,
    disjunction,
    format_expression,
    format_value,
    names,
    negation,
    quote_name,
    transform,
    variables,
    walk,
)

EVENT = Event("A", 1, 5, "s", 0, {"n": 3, "f": 2.5, "s": "ab", "t": True, "z": 0})
OTHER = Event("B", 7, 9, "s", 1, {"n": 10})
V = Name("v")


def value(expression: Expression) -> Attribute:
    return compile_value(expression, Scope({"x": 0, "y": 1}, {"r": 0}))(EVENT, (OTHER, None), (42,))


def test_literals_are_distinguished_by_kind() -> None:
    assert Literal(1) != Literal(1.0)
    assert Literal(1) != Literal(True)
    assert Literal(0.0) != Literal(-0.0)
    assert Literal("1") != Literal(1)
    assert Literal(1) == Literal(1, span=Span(3, 4))
    assert len({Literal(1), Literal(1.0), Literal(True), Literal(1)}) == 3


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (1, "==", 1.0, True),
        (1, "==", True, False),
        (0, "==", False, False),
        (True, "==", True, True),
        ("1", "==", 1, False),
        (None, "==", None, True),
        (None, "==", 0, False),
        (None, "!=", 0, True),
        ("a", "!=", "a", False),
        (1, "<", 2.5, True),
        (2, "<=", 2.0, True),
        ("a", "<", "b", True),
        (False, "<", True, True),
        (1, "<", "2", False),
        ("2", ">", 1, False),
        (True, ">", 0, False),
        (None, "<", 1, False),
        (None, ">=", None, False),
        (1, "+", 2, 3),
        (1, "+", 2.5, 3.5),
        ("a", "+", "b", "ab"),
        ("a", "+", 1, None),
        (True, "+", 1, None),
        (None, "+", 1, None),
        (5, "-", 7, -2),
        (5, "*", 1.5, 7.5),
        ("a", "*", 2, None),
        (7, "/", 2, 3.5),
        (6, "/", 2, 3.0),
        (1, "/", 0, None),
        (7, "%", 4, 3),
        (-7, "%", 4, 1),
        (7, "%", 0, None),
        (2**62, "*", 4, float(2**64)),
        (2**63 - 1, "+", 1, float(2**63)),
        (-(2**63), "-", 1, float(-(2**63) - 1)),
        (math.inf, "-", math.inf, None),
        (1e308, "*", 10, math.inf),
    ],
)
def test_operators_compute_as_documented(left: Attribute, operator: str, right: Attribute, result: Attribute) -> None:
    found = value(Binary(operator, Literal(left), Literal(right)))
    assert found == result
    assert type(found) is type(result)
    assert type(values.BINARY[operator](left, right)) is type(result)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (("min", 3, 1, 2), 1),
        (("max", 3, None, 5.5), 5.5),
        (("max", None), None),
        (("max", "a", "b"), "b"),
        (("max", "a", 1), None),
        (("min", True, False), False),
        (("abs", -3), 3),
        (("abs", "x"), None),
        (("abs", True), None),
        (("round", 2.5), 2),
        (("round", -1.6), -2),
        (("round", math.inf), None),
        (("floor", -1.5), -2),
        (("ceil", 1.2), 2),
        (("ceil", 1e300), 1e300),
        (("length", "äb"), 2),
        (("length", None), None),
        (("lower", "ÄB"), "äb"),
        (("upper", "ab"), "AB"),
        (("contains", "abc", "b"), True),
        (("contains", "abc", 1), None),
        (("starts_with", "abc", "ab"), True),
        (("ends_with", "abc", "ab"), False),
        (("coalesce", None, None, 2), 2),
        (("coalesce", None), None),
        (("if", True, 1, "a"), 1),
        (("if", False, 1, "a"), "a"),
        (("if", None, 1, None), None),
        (("if", 1, 1, 2), 2),
        (("in", 1, 2, 1.0), True),
        (("in", True, 1, "a"), False),
        (("in", "a", "b", "a"), True),
        (("in", "a", "b"), False),
        (("in", None, None, 1), True),
        (("in", None, "a"), False),
        (("hour", 3 * HOUR, "Asia/Tokyo"), 12),
        (("hour", -1, "UTC"), 23),
        (("hour", -0.5, "UTC"), 23),
        (("hour", True, "UTC"), None),
        (("hour", "1", "UTC"), None),
        (("hour", None, "UTC"), None),
        (("hour", math.inf, "UTC"), None),
        (("hour", 1, "Nowhere/City"), None),
        (("hour", 1, 3), None),
        (("minute", 61 * MINUTE, "Asia/Kolkata"), 31),
        (("weekday", 0, "UTC"), 4),
        (("weekday", 3 * DAY, "UTC"), 7),
        (("date", INSTANT_MAX, "UTC"), "2262-04-11"),
        (("date", INSTANT_MIN, "Pacific/Auckland"), "1677-09-21"),
        (("date", 0, "America/New_York"), "1969-12-31"),
    ],
)
def test_functions_compute_as_documented(call: tuple[Any, ...], result: Attribute) -> None:
    found = value(Call(call[0], tuple(map(Literal, call[1:]))))
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (Name("n"), 3),
        (Name("nowhere"), None),
        (Name("r"), 42),
        (Field("x", "n"), 10),
        (Field("x", "nowhere"), None),
        (Field("y", "n"), None),
        (Moment("lo", ""), 1),
        (Moment("hi", ""), 5),
        (Moment("hi", "x"), 9),
        (Moment("lo", "y"), None),
        (Unary("-", Name("n")), -3),
        (Unary("-", Name("s")), None),
        (Unary("-", Literal(-(2**63))), float(2**63)),
        (Unary("not", Name("t")), False),
        (Unary("not", Name("n")), True),
        (Unary("not", Literal(None)), True),
        (Binary("and", Name("t"), Name("t")), True),
        (Binary("and", Name("t"), Name("n")), False),
        (Binary("or", Name("nowhere"), Name("t")), True),
        (Binary("or", Literal(None), Name("n")), False),
    ],
)
def test_names_and_logic_are_evaluated(expression: Expression, result: Attribute) -> None:
    found = value(expression)
    assert found == result
    assert type(found) is type(result)


def test_conditions_hold_only_if_they_are_true() -> None:
    scope = Scope()
    assert compile_condition(TRUE, scope) is True
    assert compile_condition(FALSE, scope) is False
    for name, holds in (("t", True), ("n", False), ("s", False), ("nowhere", False)):
        condition = compile_condition(Name(name), scope)
        assert not isinstance(condition, bool)
        assert condition(EVENT, (), ()) is holds


def test_no_text_of_a_pattern_becomes_code() -> None:
    evil = "'] or __import__('os').abort() or ['"
    assert value(Binary("==", Name(evil), Literal(evil))) is False
    assert value(Field("x", evil)) is None


def test_constants_are_simplified_away() -> None:
    other = Binary("<", V, Literal(1))
    assert conjunction(TRUE, V) == conjunction(V, TRUE) == conjunction(V, V) == V
    assert conjunction(FALSE, V) == conjunction(V, FALSE) == FALSE
    assert conjunction(V, other) == Binary("and", V, other)
    assert disjunction(FALSE, V) == disjunction(V, FALSE) == disjunction(V, V) == V
    assert disjunction(TRUE, V) == disjunction(V, TRUE) == TRUE
    assert disjunction(V, other) == Binary("or", V, other)
    assert negation(TRUE) == FALSE
    assert negation(FALSE) == TRUE
    assert negation(negation(V)) == V
    assert negation(V) == Unary("not", V)


def test_expression_is_walked_and_changed() -> None:
    expression = Binary("+", Call("max", (Name("a"), Field("x", "b"))), Unary("-", Moment("lo", "y")))
    assert [type(node) for node in walk(expression)] == [Binary, Call, Name, Field, Unary, Moment]
    assert variables(expression) == {"x", "y"}
    assert names(expression) == {"a"}
    changed = transform(expression, lambda node: Name("z") if isinstance(node, Name) else node)
    assert names(changed) == {"z"}
    assert expression != changed


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Literal(None), "null"),
        (Literal(True), "true"),
        (Literal(-1), "-1"),
        (Literal(1e300), "1e+300"),
        (Literal(-math.inf), "-inf"),
        (Literal("it's\\\n\t"), r"'it\'s\\\n\t'"),
        (Name("any"), "`any`"),
        (Name("two words"), "`two words`"),
        (Field("by", "x"), "`by`.x"),
        (Moment("lo", ""), "lo()"),
        (Moment("hi", "x"), "hi(x)"),
        (Unary("-", Literal(1)), "-(1)"),
        (Unary("-", Unary("-", V)), "--v"),
        (Unary("not", Binary("and", V, V)), "not (v and v)"),
        (Binary("and", Unary("not", V), V), "not v and v"),
        (Binary("-", V, Binary("-", V, V)), "v - (v - v)"),
        (Binary("-", Binary("-", V, V), V), "v - v - v"),
        (Binary("*", Binary("+", V, V), V), "(v + v) * v"),
        (Binary("<", Binary("<", V, V), V), "(v < v) < v"),
        (Binary("==", V, Binary("or", V, V)), "v == (v or v)"),
        (Call("max", (V, Literal(1))), "max(v, 1)"),
    ],
)
def test_expressions_are_written_as_they_read_back(expression: Expression, text: str) -> None:
    assert format_expression(expression) == text


def test_reserved_names_are_written_in_back_quotes() -> None:
    assert quote_name("room") == "room"
    assert quote_name("where") == "`where`"
    assert quote_name("1st") == "`1st`"
    assert format_value("a'b") == r"'a\'b'"
