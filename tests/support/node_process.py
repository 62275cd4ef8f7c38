"""Broker node in a process of its own, to be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

CODE = """
import sys
from distced.brokers.live.node import LiveNode
url, name, root, checkpoints = sys.argv[1:]
with LiveNode(url, name, root=root, checkpoints=checkpoints):
    print("ready", flush=True)
    sys.stdin.read()
"""


class NodeProcess:
    """A node, which ends with this process; `process` has its id."""

    def __init__(self, url: str, name: str, root: str, checkpoints: Path | str) -> None:
        self._arguments = [sys.executable, "-c", CODE, url, name, root, str(checkpoints)]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def wait(self) -> Self:
        """Wait until it is connected."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", "the node has not started"
        return self

    def kill(self) -> None:
        """Kill it without a warning (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """Start it again, with the same name and store."""
        self.process = self._start()

    def __enter__(self) -> Self:
        return self.wait()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(20)
