"""The condition VM: evaluates conditions and values, by small instructions on a stack of tagged values.

It does what numbers, booleans, null and the equality of texts need; everything else (functions, the order of texts,
what leaves 64 bits) is handed to `middleware.sets.values` through a callback, so that there is one meaning. The
callback's address is handed in at run time, for a compiled function that holds one could not be kept on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from distced.detectors.columnar.batch.values import BOOLEAN, FLOAT, INTEGER, NULL
from distced.detectors.columnar.kernel.jit import compiled
from distced.detectors.columnar.word_offsets import (
    C_CALLBACK,
    OP_ADD,
    OP_AND,
    OP_CALL,
    OP_COLUMN,
    OP_CONSTANT,
    OP_DIV,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_HI,
    OP_JUMP,
    OP_LE,
    OP_LO,
    OP_LT,
    OP_MOD,
    OP_MUL,
    OP_NE,
    OP_NEG,
    OP_NOT,
    OP_OR,
    OP_SAME,
    OP_SLOT,
    OP_SUB,
    OP_TRUTH,
    OP_UNLESS,
)

MINUTE_NS = 60 * 10**9
"""Nanoseconds of a minute."""

EXACT = 2**53
"""Bound up to which whole numbers are floats without a loss."""


@intrinsic  # type: ignore[untyped-decorator]
def call_out(typing_context: Any, address: Any, operation: Any, place: Any) -> Any:
    """Call a function of two integers by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return types.int64(types.int64, types.int64, types.int64), generate


@compiled
def evaluate(program, events, state, code, event, lo, hi, extra, base):
    """Evaluate code; the result is at `base` of the stack, whose new top is the tag returned.

    Args:
        event: the number of the event in the batch; below 0 where there is none, and its attributes are null.
        lo, hi: its timestamp.
        extra: where the instance's extra block begins.
        base: from where on the stack is free.
    """
    memory, stack, floats, tags = program.memory, state.stack, state.floats, state.tags
    top = base - 1
    while True:
        operation, argument = memory[code], memory[code + 1]
        code += 2
        if operation == OP_COLUMN:
            top += 1
            if event >= 0:
                tags[top] = events.tags[argument, event]
                stack[top] = events.payload[argument, event]
            else:
                tags[top] = NULL
                stack[top] = 0
        elif operation == OP_CONSTANT:
            top += 1
            tags[top] = program.constants[argument, 0]
            stack[top] = program.constants[argument, 1]
        elif operation == OP_SLOT:
            top += 1
            tags[top] = state.extras[extra + argument]
            stack[top] = state.extras[extra + argument + 1]
        elif OP_EQ <= operation <= OP_MOD:
            top -= 1
            binary(state, operation, top)
        elif operation == OP_AND:
            if tags[top] != BOOLEAN or stack[top] == 0:
                code = argument
            else:
                top -= 1
        elif operation == OP_OR:
            if tags[top] == BOOLEAN and stack[top] == 1:
                code = argument
            else:
                top -= 1
        elif operation == OP_TRUTH:
            stack[top] = 1 if tags[top] == BOOLEAN and stack[top] == 1 else 0
            tags[top] = BOOLEAN
        elif operation == OP_NOT:
            stack[top] = 0 if tags[top] == BOOLEAN and stack[top] == 1 else 1
            tags[top] = BOOLEAN
        elif operation == OP_LO:
            top += 1
            tags[top], stack[top] = INTEGER, lo
        elif operation == OP_HI:
            top += 1
            tags[top], stack[top] = INTEGER, hi
        elif operation == OP_NEG:
            if tags[top] == FLOAT:
                floats[top] = -floats[top]
            elif tags[top] == INTEGER and -EXACT <= stack[top] <= EXACT:
                stack[top] = -stack[top]
            else:
                call_out(state.counters[C_CALLBACK], operation, top)
        elif operation == OP_SAME:
            top -= 1
            same = tags[top] != NULL and tags[top] == tags[top + 1] and stack[top] == stack[top + 1]
            tags[top], stack[top] = BOOLEAN, 1 if same else 0
        elif operation == OP_CALL:
            if argument < 0:
                if local_time(program, state, -1 - argument, top):
                    code += 4
            else:
                top -= (argument & 255) - 1
                call_out(state.counters[C_CALLBACK], operation | argument << 8, top)
        elif operation == OP_UNLESS:
            if tags[top] != BOOLEAN or stack[top] == 0:
                code = argument
            top -= 1
        elif operation == OP_JUMP:
            code = argument
        else:
            return tags[top]


@compiled
def binary(state, operation, top):
    """Reduce two values on the stack, from `top` on, to one."""
    stack, floats, tags = state.stack, state.floats, state.tags
    left, right = tags[top], tags[top + 1]
    if left == INTEGER and right == INTEGER:
        a, b = stack[top], stack[top + 1]
        if operation <= OP_GE:
            stack[top] = compared(operation, a, b)
            tags[top] = BOOLEAN
            return
        if -EXACT <= a <= EXACT and -EXACT <= b <= EXACT:
            if operation == OP_ADD:
                stack[top] = a + b
                return
            if operation == OP_SUB:
                stack[top] = a - b
                return
            if operation == OP_DIV and b != 0:
                floats[top] = a / b
                tags[top] = FLOAT
                return
            if operation == OP_MOD and b != 0:
                stack[top] = a % b
                return
            if operation == OP_MUL and -(2**31) <= a <= 2**31 and -(2**31) <= b <= 2**31:
                stack[top] = a * b
                return
    elif (left == FLOAT or left == INTEGER) and (right == FLOAT or right == INTEGER):
        exact = (left == FLOAT or -EXACT <= stack[top] <= EXACT) and (
            right == FLOAT or -EXACT <= stack[top + 1] <= EXACT
        )
        if exact:
            x = floats[top] if left == FLOAT else float(stack[top])
            y = floats[top + 1] if right == FLOAT else float(stack[top + 1])
            if operation <= OP_GE:
                stack[top] = compared(operation, x, y)
                tags[top] = BOOLEAN
                return
            if operation != OP_MOD and not (operation == OP_DIV and y == 0.0):
                if operation == OP_ADD:
                    z = x + y
                elif operation == OP_SUB:
                    z = x - y
                elif operation == OP_MUL:
                    z = x * y
                else:
                    z = x / y
                if z == z:
                    floats[top] = z
                    tags[top] = FLOAT
                else:
                    stack[top] = 0
                    tags[top] = NULL
                return
    elif operation == OP_EQ or operation == OP_NE:
        # Of one kind, or never equal: texts by their numbers, null to null.
        alike = left == right and stack[top] == stack[top + 1]
        stack[top] = 1 if alike == (operation == OP_EQ) else 0
        tags[top] = BOOLEAN
        return
    elif operation <= OP_GE and left != right:
        stack[top] = 0
        tags[top] = BOOLEAN
        return
    call_out(state.counters[C_CALLBACK], operation, top)


@compiled
def local_time(program, state, argument, top):
    """Put a local time in the place of an instant on the stack; False where it is no whole number in the table."""
    memory = program.memory
    if state.tags[top] != INTEGER:
        return False
    table, wanted = argument >> 2, argument & 3
    minutes = state.stack[top] // MINUTE_NS
    low, high = np.int64(0), np.int64(memory[table] - 1)
    if minutes < memory[table + 1] or minutes >= memory[table + 1 + 2 * high]:
        return False
    while high - low > 1:
        middle = (low + high) // 2
        if memory[table + 1 + 2 * middle] <= minutes:
            low = middle
        else:
            high = middle
    minutes += memory[table + 2 + 2 * low]
    if wanted == 0:
        state.stack[top] = minutes // 60 % 24
    elif wanted == 1:
        state.stack[top] = minutes % 60
    else:
        # The epoch was a Thursday.
        state.stack[top] = (minutes // 1440 + 3) % 7 + 1
    return True


@compiled
def compared(operation, a, b):
    """Whether two numbers satisfy a comparison."""
    if operation == OP_EQ:
        return np.int64(a == b)
    if operation == OP_NE:
        return np.int64(a != b)
    if operation == OP_LT:
        return np.int64(a < b)
    if operation == OP_LE:
        return np.int64(a <= b)
    if operation == OP_GT:
        return np.int64(a > b)
    return np.int64(a >= b)


@compiled
def holds(program, events, state, code, event, lo, hi, extra):
    """Whether a condition holds."""
    return evaluate(program, events, state, code, event, lo, hi, extra, 0) == BOOLEAN and state.stack[0] == 1
