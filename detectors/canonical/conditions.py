"""Expressions in canonical form: one text for all expressions known to be equivalent.

A *condition* holds or does not, null not being true (`middleware.sets.values`): two-valued, so `and`, `or` and `not`
obey Boolean algebra, and negation is moved inwards. A *value* is kept exactly: `a and true` differs from `a` where that
is null.

Comparisons have their sides in a fixed order. Only `==` and `!=` are each other's negation: neither `a < b` nor `a >=
b` holds of null. `a in (b, c)` is `a == b or a == c`. `*` is commutative; so is `+` where one side cannot be a string.
Neither is associative, for sums are rounded and may leave 64 bits. Literals are calculated with the functions engines
use; calls are left alone, as `lower` may change with the version of Unicode, but for `if`, whose condition is no
negation and whose values differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from distced.detectors.canonical.pieces import NameSlot, Piece, arranged, changed, combined, constant, distinct, named
from distced.middleware.sets.expressions import (
    COMPARISONS,
    FALSE,
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Unary,
    format_value,
    quote_name,
    transform,
)
from distced.middleware.sets.values import BINARY, negate

VARIABLE: Final = "\x7fx"
REGISTER: Final = "\x7fn"
TIMER: Final = "\x7fT"
"""Marks in texts; outside back-quotes and strings no pattern has them. They sort behind attributes."""

NEVER: Final = constant("false", FALSE)
ALWAYS: Final = constant("true", TRUE)

_TURNED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Final = {"==": "!=", "!=": "==", "and": "or", "or": "and"}
_MOST_IN_A_ROW: Final = 16
"""Maximum of operands in one chain; longer ones are joined in groups, to bound the depth of trees."""


class Expressions:
    """Canonical expressions of one automaton, with the places of its variables and registers (other bare names are
    attributes); canonical names have to differ from the `given` attributes."""

    def __init__(self, variables: Mapping[str, NameSlot], registers: Mapping[str, NameSlot], given: set[str]) -> None:
        self.variables = variables
        self.registers = registers
        self.given = given
        self._conditions: dict[Expression, Piece] = {}

    def condition(self, expression: Expression) -> Piece:
        """The canonical condition, with its constant truth value, if any."""
        if expression == TRUE:
            return ALWAYS
        if expression == FALSE:
            return NEVER
        if expression not in self._conditions:
            self._conditions[expression] = self._condition(expression, True, "")
        return self._conditions[expression]

    def of_timer(self, expression: Expression) -> Piece:
        """The condition for a time event, which has no attributes."""

        def without(node: Expression) -> Expression:
            return Literal(None) if isinstance(node, Name) and node.name not in self.registers else node

        return self.condition(transform(expression, without))

    def value(self, expression: Expression, own: str = "") -> Piece:
        """The canonical expression, with its constant value, if any; `own` is the variable that is the current event
        itself."""
        match expression:
            case Literal(value=value):
                return constant(format_value(value), Literal(value))
            case Name(name=name) if name in self.registers:
                return changed(named(REGISTER, self.registers[name]), REGISTER, Name)
            case Name(name=name):
                return self._attribute(name)
            case Field(variable=variable, attribute=attribute):
                if variable == own:
                    return self._attribute(attribute)
                self.given.add(attribute)
                text = f"{VARIABLE}.{quote_name(attribute)}"
                return changed(self._variable(variable), text, lambda name: Field(name, attribute))
            case Moment(end=end, variable=variable):
                if variable in ("", own):
                    return constant(f"{end}()", Moment(end, ""))
                return changed(self._variable(variable), f"{end}({VARIABLE})", lambda name: Moment(end, name))
            case Unary(operator="-", operand=operand):
                piece = self.value(operand, own)
                inside = piece.orderings[0].node
                if isinstance(inside, Literal):
                    return self.value(Literal(negate(inside.value)))
                return changed(piece, f"-{piece.text}", lambda node: Unary("-", node))
            case Binary(operator=operator) if operator in "+-*/%":
                return self._calculation(expression, own)
            case Call(function="if", arguments=(held, then, otherwise)):
                return self._choice(held, self.value(then, own), self.value(otherwise, own), own)
            case Call(function=function, arguments=arguments) if function != "in":
                pieces = [self.value(each, own) for each in arguments]
                text = f"{function}({', '.join(piece.text for piece in pieces)})"
                return combined(text, [pieces], lambda nodes: Call(function, tuple(nodes)))
            case _:
                condition = self._condition(expression, True, own)
                return condition if _is_boolean(condition) else self._comparison("==", condition, ALWAYS)

    # Values.

    def _attribute(self, name: str) -> Piece:
        self.given.add(name)
        return constant(quote_name(name), Name(name))

    def _variable(self, name: str) -> Piece:
        return named(VARIABLE, self.variables[name])

    def _choice(self, condition: Expression, then: Piece, otherwise: Piece, own: str) -> Piece:
        """`if(condition, then, otherwise)`, with a condition that is no negation."""
        while isinstance(condition, Unary) and condition.operator == "not":
            condition, then, otherwise = condition.operand, otherwise, then
        held = self._condition(condition, True, own)
        if held.kind == "comparison" and held.detail == "!=":
            held, then, otherwise = self._condition(condition, False, own), otherwise, then
        if held.identity == ALWAYS.identity or then.identity == otherwise.identity:
            return then
        if held.identity == NEVER.identity:
            return otherwise
        text = f"if({held.text}, {then.text}, {otherwise.text})"
        return combined(text, [[held, then, otherwise]], lambda nodes: Call("if", tuple(nodes)))

    def _calculation(self, expression: Binary, own: str) -> Piece:
        operator = expression.operator
        sides = [self.value(expression.left, own), self.value(expression.right, own)]
        nodes = [side.orderings[0].node for side in sides]
        if all(isinstance(node, Literal) for node in nodes):
            return self.value(Literal(BINARY[operator](*(node.value for node in nodes))))
        commutes = operator == "*" or (operator == "+" and any(map(_is_no_string, nodes)))
        orders = arranged(sides) if commutes else [sides]
        text = f"({orders[0][0].text} {operator} {orders[0][1].text})"
        return combined(text, orders, lambda nodes: Binary(operator, *nodes))

    # Conditions.

    def _condition(self, expression: Expression, holds: bool, own: str) -> Piece:
        """The condition that the expression is true, or false."""
        match expression:
            case Unary(operator="not", operand=operand):
                return self._condition(operand, not holds, own)
            case Binary(operator="and" | "or" as operator):
                wanted = operator if holds else _NEGATED[operator]
                return junction(wanted, [self._condition(each, holds, own) for each in _row(expression)])
            case Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                sides = self.value(left, own), self.value(right, own)
                if operator in ("==", "!="):
                    for side, other in (sides[0], right), (sides[1], left):
                        if side.identity == ALWAYS.identity:
                            # What equals true is true: nothing else does.
                            return self._condition(other, holds == (operator == "=="), own)
                if not holds and operator in _NEGATED:
                    operator, holds = _NEGATED[operator], True
                piece = self._comparison(operator, *sides)
                if isinstance(piece.orderings[0].node, Literal):
                    return piece if holds else NEVER if piece is ALWAYS else ALWAYS
                return piece if holds else _negation(piece)
            case Call(function="in", arguments=(sought, *options)):
                equal = [Binary("==", sought, each) for each in options]
                return junction("or" if holds else "and", [self._condition(each, holds, own) for each in equal])
            case _:
                piece = self.value(expression, own)
                if isinstance(piece.orderings[0].node, Literal):
                    return ALWAYS if (piece.orderings[0].node == TRUE) == holds else NEVER
                return piece if holds else _negation(piece)

    def _comparison(self, operator: str, left: Piece, right: Piece) -> Piece:
        first, second = left.orderings[0].node, right.orderings[0].node
        if isinstance(first, Literal) and isinstance(second, Literal):
            return ALWAYS if BINARY[operator](first.value, second.value) else NEVER
        keys = [(isinstance(first, Literal), left.order), (isinstance(second, Literal), right.order)]
        # Between sides that tie, the direction decides.
        if keys[0] > keys[1] or (keys[0] == keys[1] and operator in (">", ">=")):
            left, right, operator = right, left, _TURNED[operator]
        orders = [[left, right]]
        if keys[0] == keys[1] and operator in ("==", "!=") and left.identity != right.identity:
            orders.append([right, left])
        text = f"({left.text} {operator} {right.text})"
        return combined(text, orders, lambda nodes: Binary(operator, *nodes), "comparison", orders[0], operator)


def junction(operator: str, operands: Sequence[Piece]) -> Piece:
    """`and` or `or` of canonical conditions."""
    nothing, everything = (ALWAYS, NEVER) if operator == "and" else (NEVER, ALWAYS)
    flat: list[Piece] = []
    for each in operands:
        flat += each.parts if each.kind == operator else [each]
    kept = [each for each in distinct(flat) if each.identity != nothing.identity]
    known = {each.identity for each in kept}
    if everything.identity in known or any(_opposite(each) in known for each in kept):
        return everything
    kept = _without_implied(kept, operator)
    if len(kept) < 2:
        return kept[0] if kept else nothing
    orders = arranged(kept)
    text = f"({f' {operator} '.join(each.text for each in orders[0])})"
    return combined(text, orders, lambda nodes: _joined(operator, nodes), operator, orders[0])


def _row(expression: Binary) -> list[Expression]:
    """The operands of a chain of `and` or of `or`, from left to right."""
    operands: list[Expression] = []
    waiting: list[Expression] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary) and node.operator == expression.operator:
            waiting += [node.right, node.left]
        else:
            operands.append(node)
    return operands


def _joined(operator: str, nodes: Sequence[Expression]) -> Expression:
    while len(nodes) > _MOST_IN_A_ROW:
        groups = [nodes[start : start + _MOST_IN_A_ROW] for start in range(0, len(nodes), _MOST_IN_A_ROW)]
        nodes = [_joined(operator, group) for group in groups]
    whole = nodes[0]
    for node in nodes[1:]:
        whole = Binary(operator, whole, node)
    return whole


def _without_implied(operands: list[Piece], operator: str) -> list[Piece]:
    """Absorption: `a and (a or b)` is `a`, `(a or b) and (a or b or c)` is `a or b`; and the other way round.

    What makes an operand superfluous is shorter than it, so two never do so to one another.
    """
    dual = _NEGATED[operator]
    if not any(each.kind == dual for each in operands):
        return operands
    known = {each.identity for each in operands}

    def covered(piece: Piece) -> bool:
        """Whether the operands decide it: true under `and`, false under `or`."""
        if piece.identity in known:
            return True
        if piece.kind == operator:
            return all(map(covered, piece.parts))
        return piece.kind == dual and any(map(covered, piece.parts))

    # Each row of alternatives under one of its members: a row that holds all of them holds that one.
    rows = {each.identity: frozenset(part.identity for part in each.parts) for each in operands if each.kind == dual}
    under: dict[object, list[frozenset[object]]] = {}
    for row in rows.values():
        under.setdefault(min(row), []).append(row)

    def superfluous(piece: Piece) -> bool:
        row = rows.get(piece.identity)
        if row is None:
            return False
        return any(map(covered, piece.parts)) or any(other < row for part in row for other in under.get(part, ()))

    return [each for each in operands if not superfluous(each)]


def _negation(piece: Piece) -> Piece:
    return changed(piece, f"(not {piece.text})", lambda node: Unary("not", node), "not")


def _opposite(piece: Piece) -> object:
    """The identity of the negation."""
    if piece.kind == "not":
        return piece.parts[0].identity
    text = f"(not {piece.text})"
    if piece.kind == "comparison" and piece.detail in _NEGATED:
        left, right = piece.parts
        text = f"({left.text} {_NEGATED[piece.detail]} {right.text})"
    return (text, piece.identity[1])


def _is_boolean(piece: Piece) -> bool:
    node = piece.orderings[0].node
    return piece.kind in ("comparison", "not", "and", "or") or (isinstance(node, Literal) and type(node.value) is bool)


def _is_no_string(node: Any) -> bool:
    """Whether the value is never a string."""
    match node:
        case Literal(value=value):
            return type(value) is not str
        case Unary(operator="-") | Moment():
            return True
        case Binary(operator=operator):
            return operator in "-*/%" or (operator == "+" and (_is_no_string(node.left) or _is_no_string(node.right)))
        case _:
            return False
