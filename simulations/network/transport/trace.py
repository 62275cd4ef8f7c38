"""Trace of a run: a digest to compare runs, and a log to inspect.

The digest covers every message that a server or a participant received: instant, from, to, topic, payload.
"""

from __future__ import annotations

import base64
import json
from hashlib import blake2b
from typing import IO


class Trace:
    """Digest and number of delivered messages, to and from servers."""

    __slots__ = ("_digest", "_log", "messages")

    def __init__(self, log: IO[str] | None = None) -> None:
        """`log` gets a JSON array a line: ns, from, to, topic, payload (base64 where it is no text)."""
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
