"""All that is compiled, used once: so that it is there, read from disk or compiled, before anybody waits for it.

Numba compiles a function, or reads it, when it is first called. A list of the functions with their types was rejected:
nobody would keep it true; that nothing is missing here is held by a test.

As a program (`python -m distced.detectors.warm_start`) it does the same at low priority, so that all is on disk
afterwards. Several at a time wait for each other, for otherwise each would compile the same.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.columnar.kernel import event_loop as loop
from distced.detectors.compiler import Compiled, compile_pattern
from distced.middleware.model.events import Event

_TEXT: Final = (
    "([A as x], [B where k == x.k and v > x.v] | [T]) @ T = 5ns ; ~[D]* [C where v >= 0 <= C] within 1us by k"
    " -> Out(k = x.k)"
)
_EVENTS: Final = 3_000
_BATCH: Final = 500


def warm() -> None:
    """Use all that is compiled."""
    pattern = compile_pattern(_TEXT)
    engine = ColumnarEngine([pattern])
    for start in range(0, _EVENTS, _BATCH):
        engine.feed(_events(start, start + _BATCH))
        engine.advance(start + _BATCH)
        engine.let_go_soon()
        engine = _renewed(pattern, engine)
    engine.next_due()
    # Late.
    engine.feed(_events(_EVENTS - 3, _EVENTS))
    # Many matches at one moment, which may be the same.
    engine = ColumnarEngine([compile_pattern("[A] ; ~[B]* ~[B]")])
    engine.feed([Event("A" if at else "B", _BATCH - at, _BATCH - at, "warm", at, {}) for at in range(_BATCH, -1, -1)])
    # States that patterns share.
    engine = ColumnarEngine([compile_pattern("[A] ; [B]"), compile_pattern("[A] ; [C]")])
    engine.feed(_events(0, 1))
    engine.stepwise()
    # Inner keys, and instances found by a value of an event before.
    pattern = compile_pattern("([A as x] ; [B where k == x.k]) | ([A] ; ([B] ; [C] by k) ; [D])")
    engine = ColumnarEngine([pattern])
    for start in range(0, _BATCH, _BATCH // 4):
        engine.feed(_events(start, start + _BATCH // 4))
        engine.let_go_soon()
        engine = _renewed(pattern, engine)
    # More instances than there is room for at first, and more kinds of beginnings.
    starts = compile_pattern(" | ".join(f"[A where k == {number}]" for number in range(300)) + " ; [B]")
    many = ColumnarEngine([starts, compile_pattern("[A] ; [B] by v")])
    many.feed([Event("A", at, at, "warm", at, {"k": at % 300, "v": at}) for at in range(_EVENTS)])
    many.let_go_soon()
    many.feed(_events(_EVENTS, _EVENTS + _BATCH))
    many.finish()


def _events(begin: int, end: int) -> list[Event]:
    return [Event("ABCD"[at % 4], at, at, "warm", at, {"k": at // 8 % 9, "v": at % 5}) for at in range(begin, end)]


def _renewed(pattern: Compiled, engine: ColumnarEngine) -> ColumnarEngine:
    """The same state, by way of the stepwise engine."""
    made = ColumnarEngine([pattern])
    made.go_on_from(engine.stepwise())
    return made


def _turn() -> object:
    """Wait until no other process does the same: a lock, for as long as somebody holds what is returned. None where the
    system has no such locks, or the folder cannot be written to."""
    with suppress(ImportError, OSError):
        import fcntl

        folder = Path(loop.run._cache.cache_path)  # type: ignore[attr-defined]
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "warming.lock").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file
    return None


def _main() -> None:
    with suppress(AttributeError, OSError):
        os.nice(19)
    turn = _turn()
    warm()
    del turn


if __name__ == "__main__":
    _main()
