"""How failures are reported: counted, handed to the hook, and logged without flooding the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog

from distced.middleware.bus.messages import Failure

_log = structlog.get_logger(__name__)


class Reports:
    """Reports failures; nothing leaves it, the hook's own errors included."""

    def __init__(self, client_id: str, hook: Callable[[Failure], object] | None) -> None:
        self._client_id = client_id
        self._hook = hook
        self._counts: Counter[str] = Counter()

    def failed(self, failure: Failure) -> None:
        """Report a failure. Of one place the 1st, 2nd, 4th, 8th ... are logged: a handler may fail at every message."""
        self._counts[failure.what] += 1
        count = self._counts[failure.what]
        if count & (count - 1) == 0:
            _log.error(
                "bus failure", what=failure.what, topic=failure.topic, count=count, client=self._client_id,
                exc_info=failure.error,
            )  # fmt: skip
        if self._hook is None:
            return
        try:
            self._hook(failure)
        except Exception as error:
            _log.error("bus failure hook failed", what=failure.what, client=self._client_id, exc_info=error)


def name_of(function: Callable[..., object]) -> str:
    """A function's name, for people."""
    return getattr(function, "__qualname__", None) or type(function).__name__
