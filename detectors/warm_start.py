"""Preparation of the columnar engine in the background.

Importing it and reading the compiled loop from disk takes most of a second, compiling it twenty seconds. So the first
query of readiness starts a process of low priority (`python -m distced.detectors.warm_start`), which compiles what is
not on disk yet, and then a thread reads it. A thread for everything was rejected: Python threads take turns, so
compiling would take half of the time from detection. Reading stops other threads for hundredths of a second at most.

Numba compiles or reads a function when it is first called, so `warm` uses every compiled function once (held by a
test). Several processes wait for each other, so that one compiles.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import distced
from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.runtime.engines import has_columnar
from distced.middleware.model.events import Event

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

_PATIENCE: Final = 5.0
"""Timeout, in seconds, for the thread at the end of the process."""


_TEXT: Final = (
    "([A as x], [B where k == x.k and v > x.v] | [T]) @ T = 5ns ; ~[D]* [C where v >= 0 <= C] within 1us by k"
    " -> Out(k = x.k)"
)
_STAGES: Final = """type W = A with (m = avg(v / 2) over 200ns, d = distinct(v) over 200ns, x = max(v) over 200ns) by k
type T = A with (half = floor(k)) every 200ns by half
type U = T at most 1 per 200ns by half
[W where m > d + x] ; [U]"""
_EVENTS: Final = 3_000
_BATCH: Final = 500


class InBackground:
    """The columnar engine of this process, prepared in the background; `problem` as in `Readiness`."""

    def __init__(self) -> None:
        self.problem = ""
        self._ready = False
        self._begun = False
        self._beginning = threading.Lock()
        self._compiling: subprocess.Popen[str] | None = None

    def ready(self) -> bool:
        """Whether the engine can be used at once; the first call starts its preparation."""
        if not self._begun:
            with self._beginning:
                begins, self._begun = not self._begun, True
            if begins:
                self._begin()
        return self._ready

    def _begin(self) -> None:
        if not has_columnar():
            self.problem = "numba is not installed: pip install 'distced[fast]'"
            return
        thread = threading.Thread(target=self._prepare, name="columnar-engine", daemon=True)
        atexit.register(self._give_up, thread)
        thread.start()

    def _prepare(self) -> None:
        try:
            self._have_compiled()
            warm()
        except Exception as error:
            self.problem = str(error) or type(error).__name__
        else:
            self._ready = True

    def _have_compiled(self) -> None:
        """Compile missing functions in another process. Raises `RuntimeError` if that fails."""
        # Not from the working directory, but from where this process has it.
        places = [str(Path(distced.__file__).parents[1]), *(each for each in sys.path if each)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        command = [sys.executable, "-P", "-m", "distced.detectors.warm_start"]
        nowhere = subprocess.DEVNULL
        self._compiling = subprocess.Popen(
            command, env=environment, stdin=nowhere, stdout=nowhere, stderr=subprocess.PIPE, text=True
        )
        _, said = self._compiling.communicate()
        if code := self._compiling.returncode:
            last = (said.strip().splitlines() or [f"exit code {code}"])[-1]
            raise RuntimeError(f"it could not be compiled: {last}")

    def _give_up(self, thread: threading.Thread) -> None:
        """Stop compiling at the end of the process, and wait for reads in progress."""
        if self._compiling is not None:
            self._compiling.terminate()
        thread.join(_PATIENCE)


@cache
def in_background() -> InBackground:
    """The readiness shared by all nodes in this process."""
    return InBackground()


def warm() -> None:
    """Call every compiled function once, so that it is read from disk or compiled in advance."""
    from distced.detectors.columnar.engine import ColumnarEngine

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
    # Stages before the automata, with more keys and values than there is room for at first.
    (pattern,) = compile_file(_STAGES)
    engine = ColumnarEngine([pattern])
    for start in range(0, _EVENTS, _BATCH):
        keyed = [Event("A", at, at, "warm", at, {"k": at / 2, "v": at}) for at in range(start, start + _BATCH)]
        engine.feed(keyed)
        engine = _renewed(pattern, engine)


def _events(begin: int, end: int) -> list[Event]:
    return [Event("ABCD"[at % 4], at, at, "warm", at, {"k": at // 8 % 9, "v": at % 5}) for at in range(begin, end)]


def _renewed(pattern: Compiled, engine: ColumnarEngine) -> ColumnarEngine:
    """The same state after a round trip through the stepwise engine."""
    from distced.detectors.columnar.engine import ColumnarEngine

    made = ColumnarEngine([pattern])
    made.go_on_from(engine.stepwise())
    return made


def _turn() -> object:
    """An inter-process lock for compilation, held as long as the returned object; None if the system has no such locks,
    or the folder is read-only.
    """
    from distced.detectors.columnar.kernel import event_loop

    with suppress(ImportError, OSError):
        import fcntl

        folder = Path(event_loop.run._cache.cache_path)  # type: ignore[attr-defined]
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
