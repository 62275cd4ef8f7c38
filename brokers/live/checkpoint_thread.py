"""Thread of the store of checkpoints: it writes and reads, so that no connection waits for a disk.

Requests are carried out in order; reads that wait together are one. What fails is answered with the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from distced.brokers.core.effects import Pieces
from distced.brokers.live.checkpoint_store import CheckpointStore

Saved = Callable[[str], None]
"""Takes why a write has failed; empty where it has not."""

Loaded = Callable[[list[Pieces], str], None]
"""Takes the checkpoints of a detector, and why some could not be read; empty for all."""


class Queue(Protocol):
    """Requests, carried out one after the other: an executor with one thread."""

    def submit(self, act: Callable[..., object], /, *arguments: Any) -> object:
        """Queue a request."""
        ...


class CheckpointThread:
    """A store and its thread, or another queue of its requests."""

    def __init__(self, store: CheckpointStore, queue: Queue | None = None) -> None:
        self._store = store
        self._own = None if queue is not None else ThreadPoolExecutor(1, "checkpoints")
        self._queue: Queue = queue or self._own  # type: ignore[assignment]
        self._lock = threading.Lock()
        self._to_read: dict[str, Loaded] = {}

    def save(self, entries: Mapping[str, Pieces | None], then: Saved) -> None:
        """Write checkpoints, without waiting."""
        self._queue.submit(self._save, entries, then)

    def load(self, detector: str, then: Loaded) -> None:
        """Read the checkpoints of a detector, without waiting."""
        with self._lock:
            alone = not self._to_read
            self._to_read[detector] = then
        if alone:
            self._queue.submit(self._load)

    def close(self) -> None:
        """Carry out what was requested, and end."""
        if self._own is not None:
            self._own.shutdown()

    def _save(self, entries: Mapping[str, Pieces | None], then: Saved) -> None:
        then(self._tried(lambda: self._store.save(entries)))

    def _load(self) -> None:
        with self._lock:
            wanted, self._to_read = self._to_read, {}
        found: dict[str, list[Pieces]] = {}
        damaged = set(self._store.damaged)
        problem = self._tried(lambda: found.update(self._store.load(wanted)))
        for name in sorted(self._store.damaged.keys() - damaged):
            problem = f"{problem}; " * bool(problem) + f"{name}: {self._store.damaged[name]}"
        for detector, then in wanted.items():
            then(found.get(detector, []), problem)

    def _tried(self, act: Callable[[], object]) -> str:
        try:
            act()
        except Exception as error:
            # Of a library for a remote store, too: whatever it is, the node goes on.
            return f"{self._store.where}: {error}" if isinstance(error, OSError) else f"{self._store.where}: {error!r}"
        return ""
