"""Counters of broker nodes, as they publish them, for display."""

from __future__ import annotations

from threading import Lock
from typing import Self

from distced.middleware.bus import Bus
from distced.middleware.wire.administration import COUNTERS, Counters
from distced.middleware.wire.codec import decode
from distced.middleware.wire.topics import Area, area_filter, parse_topic


class NodeCounters:
    """Reader of the counters of all nodes; a context manager."""

    def __init__(self, url: str) -> None:
        self._bus = Bus(url)
        self._lock = Lock()
        self._counts: dict[str, dict[str, int]] = {}

    def now(self) -> dict[str, dict[str, int]]:
        """The counters of each node, as last published."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def __enter__(self) -> Self:
        self._bus.start()
        self._bus.subscribe(area_filter(Area.ADMINISTRATION, COUNTERS), self._came, qos=1)
        return self

    def __exit__(self, *_: object) -> None:
        self._bus.stop()

    def _came(self, topic: str, payload: bytes, retain: bool) -> None:
        _, levels = parse_topic(topic)
        with self._lock:
            if payload:
                self._counts[levels[-1]] = decode(payload, Counters, where=topic).counts
            else:
                self._counts.pop(levels[-1], None)
