"""Describable sets: their normal form type by type, and how they are written."""

from __future__ import annotations

import pytest

from distced.middleware.sets.describable import (
    EMPTY,
    AnySet,
    ConditionByType,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
    conditions,
    format_filtered_guarded,
    format_set,
    format_set_primary,
    normal_form,
    union,
    walk_set,
)
from distced.middleware.sets.expressions import FALSE, TRUE, Binary, Expression, Literal, Name, Unary

A, B, T, ANY = TypeSet("A"), TypeSet("B"), TypeSet("T"), AnySet()
V, W = Name("v"), Name("w")


def form(described: DescribableSet, *timers: str) -> tuple[dict[str, Expression], Expression]:
    found = normal_form(described, timers)
    return dict(found.by_type), found.others


@pytest.mark.parametrize(
    ("described", "by_type", "others"),
    [
        (A, {"A": TRUE}, FALSE),
        (ANY, {}, TRUE),
        (Union(()), {}, FALSE),
        (Union((A, B)), {"A": TRUE, "B": TRUE}, FALSE),
        (Union((A, Filtered(A, V))), {"A": TRUE}, FALSE),
        (Union((Filtered(A, V), Filtered(A, W))), {"A": Binary("or", V, W)}, FALSE),
        (Intersection(A, B), {"A": FALSE, "B": FALSE}, FALSE),
        (Intersection(ANY, A), {"A": TRUE}, FALSE),
        (Intersection(Filtered(A, V), Filtered(A, W)), {"A": Binary("and", V, W)}, FALSE),
        (Difference(ANY, A), {"A": FALSE}, TRUE),
        (Difference(A, B), {"A": TRUE, "B": FALSE}, FALSE),
        (Difference(A, A), {"A": FALSE}, FALSE),
        (Difference(A, Filtered(A, V)), {"A": Unary("not", V)}, FALSE),
        (Difference(ANY, Filtered(A, V)), {"A": Unary("not", V)}, TRUE),
        (Filtered(ANY, V), {}, V),
        (Filtered(Difference(ANY, A), V), {"A": FALSE}, V),
        (Filtered(Filtered(A, V), W), {"A": Binary("and", V, W)}, FALSE),
        (Filtered(A, TRUE), {"A": TRUE}, FALSE),
        (Filtered(A, FALSE), {"A": FALSE}, FALSE),
    ],
)
def test_set_has_a_condition_for_each_type(
    described: DescribableSet, by_type: dict[str, Expression], others: Expression
) -> None:
    assert form(described) == (by_type, others)


def test_time_events_are_in_a_set_by_name_only() -> None:
    assert form(ANY, "T") == ({"T": FALSE}, TRUE)
    assert form(Union((ANY, T)), "T") == ({"T": TRUE}, TRUE)
    assert form(Difference(ANY, A), "T") == ({"T": FALSE, "A": FALSE}, TRUE)


def test_form_gives_the_condition_of_a_type() -> None:
    found = normal_form(Difference(ANY, Filtered(A, V)))
    assert found.condition("A") == Unary("not", V)
    assert found.condition("Anything") == TRUE
    assert EMPTY.condition("A") == FALSE


def test_form_shows_emptiness_and_types() -> None:
    assert EMPTY.is_empty
    assert normal_form(Difference(A, A)).is_empty
    assert normal_form(Intersection(A, B)).is_empty
    assert not normal_form(Filtered(A, V)).is_empty
    assert not normal_form(Difference(ANY, A)).is_empty
    assert normal_form(Union((A, Difference(B, B)))).types() == {"A"}
    assert normal_form(Difference(ANY, A)).types() is None
    assert EMPTY.types() == frozenset()


def test_forms_are_joined_by_union() -> None:
    one, other = ConditionByType({"A": V}, FALSE), ConditionByType({"A": W, "B": TRUE}, FALSE)
    assert union(one, other) == ConditionByType({"A": Binary("or", V, W), "B": TRUE}, FALSE)
    assert union(one, EMPTY) == one
    assert union(one, ConditionByType({}, TRUE)) == ConditionByType({"A": TRUE}, TRUE)


def test_condition_of_a_thousand_members_is_not_deep() -> None:
    members = tuple(Filtered(A, Binary("==", Name("v"), Literal(index))) for index in range(1000))
    condition = normal_form(Union(members)).condition("A")
    depth = 0
    while isinstance(condition, Binary) and condition.operator == "or":
        condition, depth = condition.left, depth + 1
    assert depth == 10


def test_set_is_walked_outermost_first() -> None:
    described = Union((Difference(A, Filtered(B, V)), Filtered(Intersection(ANY, A), W)))
    assert [type(each) for each in walk_set(described)] == [
        Union,
        Difference,
        TypeSet,
        Filtered,
        TypeSet,
        Filtered,
        Intersection,
        AnySet,
        TypeSet,
    ]
    assert list(conditions(described)) == [V, W]


@pytest.mark.parametrize(
    ("described", "text", "primary"),
    [
        (A, "A", "A"),
        (TypeSet("any"), "`any`", "`any`"),
        (ANY, "any", "any"),
        (Union(()), "{}", "{}"),
        (Union((A, Filtered(B, V))), "{A, B where v}", "{A, B where v}"),
        (Filtered(A, V), "A where v", "(A where v)"),
        (Filtered(Filtered(A, V), W), "A where v where w", "(A where v where w)"),
        (Filtered(Difference(A, B), V), "(A - B) where v", "((A - B) where v)"),
        (Difference(Difference(ANY, A), B), "any - A - B", "(any - A - B)"),
        (Difference(ANY, Difference(A, B)), "any - (A - B)", "(any - (A - B))"),
        (Difference(A, Intersection(A, B)), "A - A & B", "(A - A & B)"),
        (Intersection(Difference(ANY, A), B), "(any - A) & B", "((any - A) & B)"),
        (Intersection(Intersection(A, B), A), "A & B & A", "(A & B & A)"),
        (Intersection(A, Intersection(B, A)), "A & (B & A)", "(A & (B & A))"),
        (Difference(Filtered(A, V), B), "(A where v) - B", "((A where v) - B)"),
    ],
)
def test_sets_are_written_as_they_read_back(described: DescribableSet, text: str, primary: str) -> None:
    assert format_set(described) == text
    assert format_set_primary(described) == primary


def test_guards_are_written_in_parentheses() -> None:
    assert format_filtered_guarded(Filtered(A, V)) == "A where (v)"
    assert format_filtered_guarded(Filtered(Filtered(A, V), W)) == "A where (v) where (w)"
