"""Calls of the compiled loop into Python: functions, collation of texts, large numbers, times of day."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from distced.detectors.automata.automaton import due_again, due_instant
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.program.condition_code import FUNCTION_NAMES, OPERATORS
from distced.detectors.columnar.state import LoopState
from distced.detectors.limits import UNBOUNDED, too_long_text
from distced.middleware.model.events import Attribute
from distced.middleware.patterns.tree import Recurring, When
from distced.middleware.sets import values

_SIGNATURE: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_BINARY: Final[dict[int, Callable[..., Attribute]]] = {
    number: values.BINARY[operator] for operator, number in OPERATORS.items()
}


class Callback:
    """A function called by address from the compiled loop; `error` holds its exception, as the loop cannot raise it.
    `longest` is the length of a text at most."""

    def __init__(self, state: LoopState, texts: Texts, whens: Sequence[When]) -> None:
        self._stack, self._tags = state.stack, state.tags
        self._texts = texts
        self._whens = whens
        self.error: BaseException | None = None
        self.longest = UNBOUNDED
        # It lives as long as its address is used.
        self._function = _SIGNATURE(self._called)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def check(self) -> None:
        """Raise the pending exception, if any."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def _called(self, operation: int, place: int) -> int:
        try:
            argument = operation >> 8
            operation &= 255
            if operation == word_offsets.DUE:
                when, instant = self._whens[argument], int(self._stack[place])
                # Of a recurring one the loop asks for the next.
                due = due_again(when, instant) if isinstance(when, Recurring) else due_instant(when, instant)
                self._stack[place] = word_offsets.NONE if due is None else due
            elif operation == word_offsets.OP_NEG:
                self._put(place, values.negate(self._get(place)))
            elif operation == word_offsets.OP_CALL:
                compute: Callable[..., Any] = values.FUNCTIONS[FUNCTION_NAMES[argument >> 8]].compute
                self._put(place, compute(*map(self._get, range(place, place + (argument & 255)))))
            else:
                value = _BINARY[operation](self._get(place), self._get(place + 1))
                if value.__class__ is str and len(value) > self.longest:
                    raise too_long_text(len(value), self.longest)
                self._put(place, value)
        except BaseException as error:
            self.error = self.error or error
            self._put(place, None)
        return 0

    def _get(self, place: int) -> Attribute:
        return self._texts.unpacked(int(self._tags[place]), int(self._stack[place]))

    def _put(self, place: int, value: Attribute) -> None:
        self._tags[place], self._stack[place] = self._texts.packed(value)
