"""Getting the columnar engine ready beside what a process does meanwhile.

To import it and to read the compiled loop from disk takes most of a second, and to compile it twenty seconds; a node
that did so when a detector wants it would stand still. So it is prepared when somebody first asks whether it is ready:
another process, of low priority, sees to it that all is on disk that is needed, compiled where it is not yet, and then
a thread reads it. To do all in a thread was rejected: Python code in two threads takes turns, and what compiles would
take half of the time from who detects. The reading stops others for some hundredths of a second at most.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from distced.detectors.runtime.engines import has_columnar

_PATIENCE: Final = 5.0
"""Seconds that the end of a process waits for the thread."""


class Readiness(Protocol):
    """Whether the columnar engine may be used.

    Attributes:
        problem: why it cannot be had; empty while nothing is known to be in the way.
    """

    @property
    def problem(self) -> str: ...

    def ready(self) -> bool:
        """Whether it can be used at once. Not ready, it is being prepared from now on, unless it cannot be had."""
        ...


class InBackground:
    """The columnar engine of this process, prepared in the background.

    Attributes:
        problem: why it cannot be had; empty while nothing is known to be in the way.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._ready = False
        self._begun = False
        self._beginning = threading.Lock()
        self._compiling: subprocess.Popen[str] | None = None

    def ready(self) -> bool:
        """Whether it can be used at once; the first to ask has it prepared."""
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
            from distced.detectors.warm_start import warm

            warm()
        except Exception as error:
            self.problem = str(error) or type(error).__name__
        else:
            self._ready = True

    def _have_compiled(self) -> None:
        """Have another process compile what is not on disk yet; raise `RuntimeError` where that fails."""
        # Not from the working directory, but from where this process has it.
        places = [str(Path(__file__).parents[2]), *(each for each in sys.path if each)]
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
        """The process ends. What is being read has to be read first, and what is compiled nobody needs."""
        if self._compiling is not None:
            self._compiling.terminate()
        thread.join(_PATIENCE)


@cache
def in_background() -> InBackground:
    """The readiness that everybody in this process shares."""
    return InBackground()
