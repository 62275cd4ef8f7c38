"""Missing nodes of a broker: those that have been without an entry in the directory for too long.

An actor is started again by Ray wherever its site is offered, and a node in this process connects again by itself, both
in seconds. A node that stays away has lost what would start it: the Ray node of this machine has ended, or the cluster
knows it as dead. Then the broker ends, with an error, for its service manager, or the container, to start all of it
again. To ask Ray was rejected: calls to an actor that is to be restarted wait, whether it ever will be or not.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

PATIENCE: Final = 60.0
"""Time for a node to come back, s: that of Ray to notice a dead machine, and to start the actor on another one."""


class MissingNodes:
    """Nodes of a broker, and since when each is missing."""

    def __init__(self, names: Iterable[str], patience: float = PATIENCE) -> None:
        self._names = tuple(names)
        self._patience = patience
        # Time at which a node was seen to be missing first, s.
        self._since: dict[str, float] = {}

    def look(self, present: Container[str] | None, now: float) -> list[str]:
        """Nodes that have been missing for longer than the patience.

        Args:
            present: nodes in the directory; None while it cannot be read, which says nothing about the nodes.
            now: monotonic time, s.
        """
        if present is None:
            self._since.clear()
            return []
        self._since = {name: self._since.get(name, now) for name in self._names if name not in present}
        return [name for name, since in self._since.items() if now - since > self._patience]
