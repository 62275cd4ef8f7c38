"""Events that the sides of a `&` take, which a scope around it does not fail.

`[ C1 & C2 <= Σ ]` fails its joining state on an event of Σ that fits no label of C1 and C2. Comparisons with events
bound before, or with registers, count as true there: of these the joining state knows nothing, nor does a parent whose
sides other detectors detect. Labels are those of the canonical form, so that equivalent sides take the same events.
Rejected: to ask the automata of the sides whether they have moved, which a parent of delegated sides cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from distced.detectors.canonical.form import canonical_form
from distced.detectors.language.inlining import undelegated
from distced.detectors.language.names import all_registers
from distced.middleware.patterns import tree
from distced.middleware.sets.describable import EMPTY, ConditionByType, combine, normal_form, union
from distced.middleware.sets.expressions import (
    FALSE,
    TRUE,
    Binary,
    Expression,
    Unary,
    conjunction,
    disjunction,
    names,
    negation,
    variables,
)


def without_taken(scope: ConditionByType, sides: Iterable[tree.Pattern]) -> ConditionByType:
    """Scope of the joining states of a `&` with these sides."""
    if scope.is_empty:
        return scope
    taken = reduce(union, (form for side in sides for form in _labels(side)), EMPTY)
    return combine(scope, taken, lambda a, b: conjunction(a, negation(b)))


def _labels(side: tree.Pattern) -> Iterable[ConditionByType]:
    """Labels of a side, each with all events that it may hold."""
    pattern = canonical_form(tree.Publication(undelegated(side))).publication.pattern
    registers = frozenset(all_registers(pattern))
    for node in tree.walk(pattern):
        if isinstance(node, tree.Atom):
            form = normal_form(node.label)
            yield ConditionByType(
                {name: _widest(each, registers, True) for name, each in form.by_type.items()},
                _widest(form.others, registers, True),
            )


def _widest(condition: Expression, registers: frozenset[str], wide: bool) -> Expression:
    """Condition with what asks for variables or registers as true, under `not` as false."""
    match condition:
        case Unary(operator="not", operand=operand):
            return negation(_widest(operand, registers, not wide))
        case Binary(operator="and" | "or" as operator, left=left, right=right):
            join = conjunction if operator == "and" else disjunction
            return join(_widest(left, registers, wide), _widest(right, registers, wide))
        case _ if variables(condition) or not registers.isdisjoint(names(condition)):
            return TRUE if wide else FALSE
        case _:
            return condition
