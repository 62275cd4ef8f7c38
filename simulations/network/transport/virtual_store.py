"""Store of checkpoints in virtual time, of all nodes of a network: slow, and at times it fails.

The counterpart of `brokers.live.checkpoint_store`. A write whose node crashes meanwhile is carried out or not, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from distced.brokers.core.effects import Pieces
from distced.middleware.model.timestamps import MILLISECOND
from distced.simulations.network.transport.virtual_time import VirtualTime

SLOWEST: Final = 300 * MILLISECOND
"""Longest time for a read or a write, ns."""


class VirtualStore:
    """Checkpoints by node and detector.

    Attributes:
        failing: share of the writes and reads that fail.
        writes, reads: numbers of those that were begun.
    """

    def __init__(self, engine: VirtualTime, failing: float = 0.0) -> None:
        self.failing = failing
        self.writes = self.reads = 0
        self._engine = engine
        self._content: dict[str, dict[str, Pieces]] = {}

    def save(self, node: str, entries: dict[str, Pieces | None], then: Callable[[str], None]) -> None:
        """Write checkpoints of a node; `then` gets why it has failed, empty where it has not."""
        self.writes += 1
        problem = self._problem()

        def written() -> None:
            if not problem:
                there = self._content.setdefault(node, {})
                for detector, each in entries.items():
                    if each is None:
                        there.pop(detector, None)
                    else:
                        there[detector] = each
            then(problem)

        self._engine.after(self._engine.random.randrange(SLOWEST), written)

    def load(self, detector: str, then: Callable[[list[Pieces], str], None]) -> None:
        """Read the checkpoints of a detector by all nodes."""
        self.reads += 1
        problem = self._problem()

        def read() -> None:
            found = [each[detector] for each in self._content.values() if detector in each]
            then([] if problem else found, problem)

        self._engine.after(self._engine.random.randrange(SLOWEST), read)

    def stored(self, node: str) -> list[str]:
        """Detectors with checkpoints of a node."""
        return sorted(self._content.get(node, ()))

    def _problem(self) -> str:
        return "No space left on device" if self._engine.random.random() < self.failing else ""
