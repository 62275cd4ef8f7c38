"""How functions of the loop are compiled: ahead of nothing, kept on disk, and without counting references.

Arrays come in bundles of twenty, and to count the references to each in every call took four times as long as all the
rest; so nothing in here may make an array. What is called for every event is put in line, for an array is seven words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numba

Function: TypeAlias = Callable[..., Any]


def compiled(function: Function) -> Function:
    """A function that is compiled when it is first called."""
    made: Function = numba.njit(cache=True, _nrt=False, error_model="numpy")(function)
    return made


def inlined(function: Function) -> Function:
    """The same, put in line wherever it is called."""
    made: Function = numba.njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)(function)
    return made


def allocating(function: Function) -> Function:
    """The same, for what is called seldom and makes arrays."""
    made: Function = numba.njit(cache=True, error_model="numpy")(function)
    return made
