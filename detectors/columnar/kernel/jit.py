"""Compilation of the loop's functions: at the first call, cached on disk, without reference counting.

Arrays come in bundles of twenty, and to count the references to each in every call took four times as long as all the
rest; so what is called for events may not make an array. Only what is called for nearly every event is put in line by
force: a function put in line is compiled once more wherever it is called. For the same reason numbers are handed on in
one width, and no truth values are written into calls: each makes another version of a function.

What is kept on disk holds as long as none of these files changes. Numba looks at the file of each function by itself,
but a function holds those that are put in line, and the constants of `word_offsets`, from other files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias

import numba

# Registers the type of the arrays that compiled functions are handed.
import distced.detectors.columnar.kernel.array_bundles  # noqa: F401

Function: TypeAlias = Callable[..., Any]

_NOT_FROM_PYTHON: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """A function compiled at its first call."""
    return _kept(numba.njit(cache=True, _nrt=False, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """A compiled function inlined at every call; Python cannot call it."""
    return _kept(
        numba.njit(cache=True, _nrt=False, error_model="numpy", forceinline=True, **_NOT_FROM_PYTHON)(function)
    )


def allocating(function: Function) -> Function:
    """A compiled function that is called rarely and allocates arrays."""
    return _kept(numba.njit(cache=True, error_model="numpy")(function))


def _kept(made: Any) -> Function:
    """Key the disk cache by the contents of all files; numba has no setting for that."""
    kept = getattr(made._cache, "_cache_file", None)
    if kept is not None:
        kept._source_stamp = contents()
        kept._load_index = partial(_readable_index, kept._load_index)
    function: Function = made
    return function


def _readable_index(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The functions cached on disk; none if their types come from modules of an older version."""
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


def is_kept(made: Any) -> bool:
    """Whether a function is compiled in this process or cached on disk."""
    kept = getattr(made._cache, "_cache_file", None)
    return bool(made.overloads) or (kept is not None and bool(kept._load_index()))


@cache
def contents() -> str:
    """A digest of all files of the columnar engine."""
    digest = blake2b(digest_size=16)
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
