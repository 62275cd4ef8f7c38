"""How it stands with the connection, for every thread to see and wait for."""

from __future__ import annotations

import threading

from distced.middleware.bus.messages import BusState
from distced.middleware.model.errors import BusError


class Standing:
    """The state of a bus.

    Attributes:
        state: how it stands; only ever changed by `start` and `enter`.
        error: why there is no connection, as far as is known; None where there is one.
    """

    def __init__(self) -> None:
        self.state = BusState.NEW
        self.error: BusError | None = None
        self._hopeless = False
        self._changed = threading.Condition()

    def start(self) -> bool:
        """Leave the first state; whether this call did."""
        with self._changed:
            if self.state is not BusState.NEW:
                return False
            self.state = BusState.CONNECTING
            return True

    def enter(self, state: BusState, error: BusError | None, *, hopeless: bool = False) -> None:
        """Change the state and wake whoever waits; `hopeless` where waiting will not help."""
        with self._changed:
            self.state = state
            # While the next attempt runs, the last failure still says most.
            if state is not BusState.CONNECTING:
                self.error, self._hopeless = error, hopeless
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Wait up to so many seconds until there is a connection, or nothing to wait for."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.state in (BusState.CONNECTED, BusState.STOPPED) or self._hopeless, timeout
            )
