"""Backlog of a node: how far it is behind, in its load entry, and in the log at growing intervals.

A node consumes messages on the threads of its connections, so those that wait are in sockets and servers, where it
cannot count them. It sends barriers to itself (`brokers.core.barriers`): the age of the oldest that has not come back
is that of the oldest message it has not consumed. Messages about the directory wait in the node while events pass
(`brokers.node.delayed_messages`), and are counted. Rejected: the `hi` of events, as sources are late, and their clocks
differ; and the delay of a tick, which comes between two messages however many wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distced.brokers.core.effects import Effect, info, warning
from distced.middleware.model.timestamps import SECOND

BEHIND: Final = SECOND
"""Age of a barrier from which a node is behind, ns."""

WAITING: Final = 1_000
"""Number of messages about the directory that wait from which a node is behind."""

GROWTH: Final = 2
"""Factor by which a backlog has to grow to be logged again."""


class Backlog:
    """Backlog of a node.

    Attributes:
        behind: age of the oldest message that was not consumed, ns; 0 where that is less than `BEHIND`.
        waiting: number of messages about the directory, and of requests, that wait in the node.
    """

    def __init__(self) -> None:
        self.behind = self.waiting = 0
        # Ages and numbers from which it is logged again, and whether it was.
        self._next_behind, self._next_waiting = BEHIND, WAITING
        self._logged = False

    def look(self, ages: Mapping[str, int], waiting: int) -> list[Effect]:
        """Take the ages of the oldest messages that were not consumed, ns, by home, and the number of those that wait;
        log events."""
        home, age = max(ages.items(), key=lambda each: each[1], default=("", 0))
        self.behind, self.waiting = age if age >= BEHIND else 0, waiting
        if self.behind >= self._next_behind or waiting >= self._next_waiting:
            self._next_behind = max(self._next_behind, GROWTH * self.behind)
            self._next_waiting = max(self._next_waiting, GROWTH * waiting)
            self._logged = True
            where = {"home": home} if home and self.behind else {}
            return [warning("node behind", seconds=round(self.behind / SECOND, 1), waiting=waiting, **where)]
        if not self._logged or self.behind or waiting >= WAITING // GROWTH:
            return []
        self._next_behind, self._next_waiting, self._logged = BEHIND, WAITING, False
        return [info("node caught up", waiting=waiting)]
