"""Stores of checkpoints in virtual time, of each node over files that all nodes read: slow, and failing at times.

They are the shipped stores and their queues (`brokers.live.checkpoint_store`, `brokers.live.checkpoint_thread`); only
the disk and the thread are virtual. A write whose node crashes meanwhile is carried out, or not, or leaves a part of
its file, as disks do that promise more than they keep.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from distced.brokers.live.checkpoint_store import CheckpointStore
from distced.brokers.live.checkpoint_thread import CheckpointThread
from distced.middleware.model.timestamps import MILLISECOND
from distced.simulations.network.transport.virtual_time import VirtualTime

SLOWEST: Final = 300 * MILLISECOND
"""Longest time for a read or a write of a sound disk, ns."""


class VirtualDisk:
    """Files of the stores of all nodes; a `Folder`.

    Attributes:
        torn: whether a crash may leave a part of a file.
        files: by name.
    """

    def __init__(self, engine: VirtualTime, failing: float = 0.0, *, torn: bool = False) -> None:
        """Args: failing: share of the requests that fail."""
        self.engine = engine
        # Longest times for a read or a write by the faults that are under way, ns; 0 for a full disk.
        self._faults: list[int] = []
        self.torn = torn
        self.files: dict[str, bytes] = {}
        self._failing = failing
        # Whether the request that is carried out fails; bytes that a file is cut to, None for a whole one.
        self._fails = False
        self._cut: float | None = None

    @property
    def slowest(self) -> int:
        """Longest time for a read or a write, ns."""
        return max((SLOWEST, *self._faults))

    def fail(self, slowest: int) -> None:
        """Begin a fault, as of `scenario_model.Disk`."""
        self._faults.append(slowest)

    def mend(self, slowest: int) -> None:
        """End a fault."""
        self._faults.remove(slowest)

    def open(self, node: str, now: int) -> VirtualStore:
        """The store of a node that starts, by its clock."""
        self._fails = False
        return VirtualStore(self, node, now)

    def serve(self, act: Callable[[], object], cut: float | None = None) -> None:
        """Carry out a request; `cut`: share of a file that is written before its node is lost."""
        self._fails = self.engine.random.random() < self._failing
        self._cut = cut
        act()
        self._cut = None

    # As a `Folder`.

    def check(self) -> None:
        pass

    def names(self, below: str) -> list[str]:
        self._check()
        begin = f"{below}/"
        return sorted({each[len(begin) :].partition("/")[0] for each in self.files if each.startswith(begin)})

    def read(self, name: str, begin: int, length: int) -> bytes:
        self._check()
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.files[name][begin : begin + length]

    def write(self, name: str, content: bytes) -> None:
        self._check()
        if 0 in self._faults:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        self.files[name] = content if self._cut is None else content[: int(len(content) * self._cut)]

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def _check(self) -> None:
        if self._fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class VirtualStore(CheckpointThread):
    """The store of a running node, whose requests are carried out one after the other."""

    def __init__(self, disk: VirtualDisk, node: str, now: int) -> None:
        self._disk = disk
        self._requests: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._alive = True
        store = CheckpointStore("disk", "ced", node, now, disk)
        super().__init__(store, self)
        self.stored = store.stored()

    def submit(self, act: Callable[..., object], /, *arguments: Any) -> None:
        """Queue a request; as an executor."""
        self._requests.append((act, arguments))
        if len(self._requests) == 1:
            self._wait()

    def crash(self) -> None:
        """Lose the node: of what it writes, all, nothing or a part is on the disk."""
        self._alive = False
        random = self._disk.engine.random
        if self._requests:
            act, arguments = self._requests[0]
            if random.random() < 0.5:
                self._disk.serve(lambda: act(*arguments), random.random() if self._disk.torn else None)

    def _wait(self) -> None:
        engine = self._disk.engine
        engine.after(engine.random.randrange(self._disk.slowest), self._carry_out)

    def _carry_out(self) -> None:
        if self._alive:
            act, arguments = self._requests[0]
            self._disk.serve(lambda: act(*arguments))
            self._requests.popleft()
            if self._requests:
                self._wait()
