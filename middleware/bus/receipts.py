"""Acknowledgements of QoS 1: given when a message was handled, or held until the state that covers it is safe."""

from __future__ import annotations

from collections import deque

from distced.middleware.bus.connection import Connection


class Receipts:
    """The messages of QoS 1 that were handled; belongs to the thread of the bus.

    Attributes:
        mark: how many were handled since the bus was made.
    """

    def __init__(self, *, hold: bool) -> None:
        self.mark = 0
        self._hold = hold
        # Numbers of packets handled and not acknowledged, oldest first. The server wants them in this order.
        self._held: deque[int] = deque()

    def handled(self, number: int, connection: Connection) -> None:
        """A message was handled."""
        self.mark += 1
        if self._hold:
            self._held.append(number)
        else:
            connection.acknowledge(number)

    def acknowledge(self, mark: int, connection: Connection | None) -> None:
        """Acknowledge what was handled up to a mark."""
        while self._held and self.mark - len(self._held) < mark and connection is not None:
            connection.acknowledge(self._held.popleft())

    def forget(self) -> None:
        """The connection is lost: the server sends again what was not acknowledged, under other numbers."""
        self._held.clear()
