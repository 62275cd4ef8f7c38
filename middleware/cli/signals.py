"""End of a verb: an interrupt from the keyboard and a request to terminate are the same, and come once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Within it an interrupt, or the end of the reader of standard output, ends the block without an error."""
    try:
        yield
    except KeyboardInterrupt:
        pass
    except (BrokenPipeError, SystemExit):
        # rich exits where the reader of a pipe has ended; the rest of the buffer must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def ending() -> Iterator[Callable[[], None]]:
    """Block in which both signals raise `KeyboardInterrupt`, the first time; a second does not interrupt tidying up.

    It yields a function that sets this up again, for after a library has set handlers of its own. Outside the main
    thread,
    where signals cannot be set, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise KeyboardInterrupt

    def install() -> None:
        for each in _SIGNALS:
            signal.signal(each, end)

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    install()
    try:
        yield install
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)
