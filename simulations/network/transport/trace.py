"""Trace of a run: all messages delivered, as a digest to compare runs, and as a log to inspect.

The digest goes over every message that a server took and every one that a participant received: instant, from, to,
topic, payload. Two runs with the same digest are the same run, to the byte.
"""

from __future__ import annotations

import base64
import json
from hashlib import blake2b
from typing import IO


class Trace:
    """A running digest over all messages delivered.

    Attributes:
        messages: number delivered, to servers and from them.
    """

    __slots__ = ("_digest", "_log", "messages")

    def __init__(self, log: IO[str] | None = None) -> None:
        """`log` gets one JSON array a line: ns, from, to, topic, payload (in base64 where it is no text)."""
        self.messages = 0
        self._digest = blake2b(digest_size=16)
        self._log = log

    @property
    def digest(self) -> str:
        """The digest so far, in hexadecimal."""
        return self._digest.copy().hexdigest()

    def add(self, instant: int, origin: str, target: str, topic: str, payload: bytes) -> None:
        """Add a delivered message."""
        self.messages += 1
        self._digest.update(f"{instant}\0{origin}\0{target}\0{topic}\0{len(payload)}\0".encode())
        self._digest.update(payload)
        if self._log is not None:
            self._log.write(json.dumps([instant, origin, target, topic, _text(payload)], ensure_ascii=False) + "\n")


def _text(payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and (text or not payload) else "base64:" + base64.b64encode(payload).decode()
