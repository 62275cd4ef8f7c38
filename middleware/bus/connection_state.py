"""State of the connection to a server, with the last error; read at any time, waited for on a condition."""

from __future__ import annotations

from enum import StrEnum

from distced.middleware.bus.delivery import Changed
from distced.middleware.model.errors import BusError


class BusState(StrEnum):
    """How it stands with the connection to the server."""

    NEW = "new"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    """Not connected; the next attempt comes by itself."""
    STOPPED = "stopped"


class ConnectionState:
    """The present state of a bus, and why there is no connection.

    Attributes:
        state: only ever changed by `start` and `enter`.
        error: why there is no connection, as far as is known; None where there is one.
    """

    def __init__(self, changed: Changed) -> None:
        self.state = BusState.NEW
        self.error: BusError | None = None
        self._hopeless = False
        self._changed = changed

    def start(self) -> bool:
        """Leave the first state; whether this call did."""
        with self._changed:
            if self.state is not BusState.NEW:
                return False
            self.state = BusState.CONNECTING
            return True

    def enter(self, state: BusState, error: BusError | None, *, hopeless: bool = False) -> None:
        """Change the state and notify; `hopeless` where waiting will not help."""
        with self._changed:
            self.state = state
            # While the next attempt runs, the last failure still says most.
            if state is not BusState.CONNECTING:
                self.error, self._hopeless = error, hopeless
            self._changed.notify_all()

    def is_decided(self) -> bool:
        """Whether waiting for a connection is over: there is one, or none to wait for."""
        return self.state in (BusState.CONNECTED, BusState.STOPPED) or self._hopeless
