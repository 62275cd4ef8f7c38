"""End of a verb: an interrupt from the keyboard, a request to terminate and a closed terminal are one, and come once.

Under `nohup` a closed terminal is ignored.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    """Block in which these signals raise `KeyboardInterrupt`, the first time; a second does not interrupt tidying up.

    It yields a function that sets this up again, for after a library has set handlers of its own. Outside the main
    thread, where signals cannot be set, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if number == signal.SIGHUP:
            _leave_terminal()
        if not came:
            came = True
            raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    ended_by = [each for each in _SIGNALS if each != signal.SIGHUP or before[each] != signal.SIG_IGN]

    def install() -> None:
        for each in ended_by:
            signal.signal(each, end)

    install()
    try:
        yield install
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


def _leave_terminal() -> None:
    """Write no more to a terminal that is gone: the errors would keep a verb from tidying up."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(nowhere, number)
    os.close(nowhere)
