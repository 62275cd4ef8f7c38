"""Limits on the depth of a tree: every pass over trees is recursive, and Python's stack is finite.

Deep trees come from brackets, which the parser bounds, from chains of operators, and from nested definitions. A limit
with a good message was preferred to passes with stacks of their own. Trees within the limits can be printed and read
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from distced.detectors.language.scanner import error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns import tree
from distced.middleware.sets.describable import DescribableSet, Difference, Filtered, Intersection, set_children
from distced.middleware.sets.expressions import COMPARISONS, LEVELS, Binary, Expression, Span
from distced.middleware.sets.expressions import children as expression_children

MOST_BRACKETS: Final = 50
"""Maximum of open brackets in a text."""

MOST_NESTED: Final = 45
"""Maximum depth of a tree, with a chain of operators as one node."""

MOST_LEVELS: Final = 100
"""Maximum depth of a tree, with every operator counted."""

TreeNode: TypeAlias = tree.Pattern | DescribableSet | Expression


def check_depth(root: TreeNode, *, text: str = "", most_nested: int = MOST_NESTED) -> None:
    """Raise a `PatternError` for a tree that is too deep."""
    waiting: list[tuple[TreeNode, int, int]] = [(root, 1, 1)]
    while waiting:
        node, nested, level = waiting.pop()
        if nested > most_nested or level > MOST_LEVELS:
            raise too_deep(text, node.span, most_nested)
        waiting += [(child, nested + (not _chained(node, child)), level + 1) for child in _inside(node)]


def check_output_depth(output: tree.Output | None, *, text: str = "") -> None:
    """Raise a `PatternError` for an output with an expression that is too deep."""
    if output is None:
        return
    for _, value in output.attributes:
        check_depth(value, text=text)
    for condition in (output.condition, *(each.condition for each in output.take)):
        if condition is not None:
            check_depth(condition, text=text)


def too_deep(text: str, span: Span | None, most_nested: int = MOST_NESTED) -> PatternError:
    """The error for excessive nesting."""
    return error_at(
        text,
        span,
        "nested too deeply, or too many operators in a row",
        allowed=f"{most_nested} levels, {MOST_LEVELS} with each operator of a row",
        advice="use definitions, or sets of several members: [A where ..., A where ...]",
    )


def _inside(node: TreeNode) -> Iterable[TreeNode]:
    if isinstance(node, Expression):
        return expression_children(node)
    if isinstance(node, DescribableSet):
        return (*set_children(node), node.condition) if isinstance(node, Filtered) else set_children(node)
    match node:
        case tree.Atom(label=label, domain=domain, updates=updates):
            return (label, *([] if domain is None else [domain]), *(value for _, value in updates))
        case tree.Scope(body=body, domain=domain):
            return (body, domain)
        case tree.Init(registers=registers, body=body):
            return (body, *(initial for _, initial in registers))
        case tree.Timing(first=first, second=second, when=tree.Calculated(delay=delay)):
            return (first, second, delay)
        case _:
            return tree.children(node)


def _chained(node: TreeNode, child: TreeNode) -> bool:
    """Whether the child is the preceding chain of operators: then no brackets are between them."""
    match node, child:
        case Binary(operator=operator, left=left), Binary(operator=before):
            return child is left and operator not in COMPARISONS and _level(operator) == _level(before)
        case (
            (tree.Parallel(left=left), tree.Parallel())
            | (Difference(left=left), Difference())
            | (Intersection(left=left), Intersection())
        ):
            return child is left
        case (Filtered(base=base), Filtered()):
            return child is base
        case (tree.Iteration(), tree.Iteration()) | (tree.Window() | tree.Keyed(), tree.Window() | tree.Keyed()):
            return True
        case _:
            return False


def _level(operator: str) -> int:
    return next(level for level, operators in enumerate(LEVELS) if operator in operators)
