"""Compilation of expressions to code of the condition VM.

Registers and captured attributes are slots of the instance, other names columns of the batch, functions numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from distced.detectors.columnar import word_offsets
from distced.middleware.model.events import Attribute
from distced.middleware.sets import expressions
from distced.middleware.sets.local_time import LOCAL_TIMES, offset_table
from distced.middleware.sets.values import FUNCTIONS

FUNCTION_NAMES: Final = tuple(FUNCTIONS)
_BY_TABLE: Final = ("hour", "minute", "weekday")  # in the order of `condition_vm.local_time`
OPERATORS: Final[Mapping[str, int]] = {
    "==": word_offsets.OP_EQ,
    "!=": word_offsets.OP_NE,
    "<": word_offsets.OP_LT,
    "<=": word_offsets.OP_LE,
    ">": word_offsets.OP_GT,
    ">=": word_offsets.OP_GE,
    "+": word_offsets.OP_ADD,
    "-": word_offsets.OP_SUB,
    "*": word_offsets.OP_MUL,
    "/": word_offsets.OP_DIV,
    "%": word_offsets.OP_MOD,
}

Capture = tuple[str, str]
"""A variable and the value read of its event: an attribute, or `lo()` or `hi()`, which are no attribute names."""


@dataclass(slots=True)
class NameSlots:
    """Slots, columns and constants of the names of one automaton.

    Attributes:
        registers, captures: slot of each register, and of each value of a variable's event.
        column, constant: give the column of an attribute, and the place of a constant.
        place: adds code with its address words to the memory; gives its address.
        table: adds a list of pairs, given with their number; gives its address.
    """

    registers: Mapping[str, int]
    captures: Mapping[Capture, int]
    column: Callable[[str], int]
    constant: Callable[[Attribute], int]
    place: Callable[[list[int], list[int]], int]
    table: Callable[[list[int], int], int]

    def condition(self, expression: expressions.Expression, within: Sequence[tuple[int, int]] = ()) -> int:
        """The address of the code of a condition; `within` are columns and slots of equal values of an inner key."""
        return self._code(expression, condition=True, within=within)

    def value(self, expression: expressions.Expression) -> int:
        """The address of the code of a value."""
        return self._code(expression, condition=False)

    def _code(
        self, expression: expressions.Expression, *, condition: bool, within: Sequence[tuple[int, int]] = ()
    ) -> int:
        writer = _CodeWriter(self)
        if condition:
            writer.within(within, expression)
        else:
            writer.value(expression)
        return self.place([*writer.words, word_offsets.OP_END, 0], writer.jumps)


class _CodeWriter:
    """Code writer for one expression: operations and arguments as words; `jumps` are places of addresses."""

    def __init__(self, names: NameSlots) -> None:
        self.names = names
        self.words: list[int] = []
        self.jumps: list[int] = []

    def emit(self, operation: int, argument: int = 0) -> None:
        self.words += [operation, argument]

    def jump(self, operation: int) -> int:
        """An instruction that jumps; the place of its address, for `land`."""
        self.emit(operation)
        return len(self.words) - 1

    def land(self, jump: int) -> None:
        """The next instruction as the target of a jump."""
        self.words[jump] = len(self.words)
        self.jumps.append(jump)

    def within(self, keys: Sequence[tuple[int, int]], expression: expressions.Expression) -> None:
        """A condition, and equality of the event's inner-key values with the instance's."""
        ends: list[int] = []
        for column, slot in keys:
            self.emit(word_offsets.OP_COLUMN, column)
            self.emit(word_offsets.OP_SLOT, slot)
            self.emit(word_offsets.OP_SAME)
            ends.append(self.jump(word_offsets.OP_AND))
        self.condition(expression)
        for end in ends:
            self.land(end)

    def condition(self, expression: expressions.Expression) -> None:
        """A condition: it holds only if its value is true."""
        match expression:
            case expressions.Binary(operator="and" | "or" as operator):
                joined = expressions.operands(expression, operator)
                self.chain(joined, word_offsets.OP_AND if operator == "and" else word_offsets.OP_OR)
            case expressions.Call(function="in", arguments=(sought, *options)):
                self.chain([expressions.Binary("==", sought, each) for each in options], word_offsets.OP_OR)
            case expressions.Unary(operator="not", operand=operand):
                self.condition(operand)
                self.emit(word_offsets.OP_NOT)
            case expressions.Binary(operator=operator) if operator in expressions.COMPARISONS:
                self.value(expression)
            case expressions.Literal(value=value):
                self.emit(word_offsets.OP_CONSTANT, self.names.constant(value is True))
            case _:
                self.value(expression)
                self.emit(word_offsets.OP_TRUTH)

    def chain(self, joined: Sequence[expressions.Expression], operation: int) -> None:
        """Conditions joined by `and` or by `or`."""
        ends: list[int] = []
        for place, operand in enumerate(joined):
            self.condition(operand)
            if place < len(joined) - 1:
                ends.append(self.jump(operation))
        for end in ends:
            self.land(end)

    def value(self, expression: expressions.Expression) -> None:
        """Any value."""
        match expression:
            case expressions.Literal(value=value):
                self.emit(word_offsets.OP_CONSTANT, self.names.constant(value))
            case expressions.Name(name=name) if name in self.names.registers:
                self.emit(word_offsets.OP_SLOT, self.names.registers[name])
            case expressions.Name(name=name):
                self.emit(word_offsets.OP_COLUMN, self.names.column(name))
            case expressions.Field(variable=variable, attribute=attribute):
                self.emit(word_offsets.OP_SLOT, self.names.captures[variable, attribute])
            case expressions.Moment(end=end, variable=variable) if not variable:
                self.emit(word_offsets.OP_LO if end == "lo" else word_offsets.OP_HI)
            case expressions.Moment(end=end, variable=variable):
                self.emit(word_offsets.OP_SLOT, self.names.captures[variable, f"{end}()"])
            case expressions.Unary(operator="-", operand=operand):
                self.value(operand)
                self.emit(word_offsets.OP_NEG)
            case expressions.Binary(operator=operator, left=left, right=right) if operator in OPERATORS:
                self.value(left)
                self.value(right)
                self.emit(OPERATORS[operator])
            case expressions.Call(function="if", arguments=(condition, then, otherwise)):
                self.condition(condition)
                to_otherwise = self.jump(word_offsets.OP_UNLESS)
                self.value(then)
                to_end = self.jump(word_offsets.OP_JUMP)
                self.land(to_otherwise)
                self.value(otherwise)
                self.land(to_end)
            case expressions.Call(function=function, arguments=(instant, expressions.Literal(value=str(zone)))) if (
                function in LOCAL_TIMES
            ):
                self.value(instant)
                if function in _BY_TABLE and (offsets := _offset_pairs(zone)):
                    table = self.names.table(offsets, len(offsets) // 2)
                    self.emit(word_offsets.OP_CALL, -1 - (table << 2 | _BY_TABLE.index(function)))
                self.emit(word_offsets.OP_CONSTANT, self.names.constant(zone))
                self.emit(word_offsets.OP_CALL, FUNCTION_NAMES.index(function) << 8 | 2)
            case expressions.Call(function=function, arguments=arguments) if function != "in":
                for argument in arguments:
                    self.value(argument)
                self.emit(word_offsets.OP_CALL, FUNCTION_NAMES.index(function) << 8 | len(arguments))
            case _:
                self.condition(expression)


def _offset_pairs(zone: str) -> list[int]:
    """Changes of a zone's offset, in minutes; empty where they are no whole ones."""
    table = offset_table(zone)
    pairs = [] if table is None else [each for pair in zip(*table, strict=True) for each in pair]
    return [] if any(each % 60 for each in pairs) else [each // 60 for each in pairs]


def captures_of(expression: expressions.Expression) -> set[Capture]:
    """Attributes and timestamps of variables' events that an expression reads."""
    found: set[Capture] = set()
    for node in expressions.walk(expression):
        if isinstance(node, expressions.Field):
            found.add((node.variable, node.attribute))
        elif isinstance(node, expressions.Moment) and node.variable:
            found.add((node.variable, f"{node.end}()"))
    return found


def fits(expression: expressions.Expression) -> bool:
    """Whether an expression fits the stack of the condition VM and the argument count of an instruction."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        inside = expressions.children(node)
        if depth + len(inside) > word_offsets.STACK:
            return False
        waiting += [(each, depth + place) for place, each in enumerate(inside)]
    return True
