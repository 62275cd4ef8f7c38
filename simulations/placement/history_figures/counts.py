"""Counts of a stretch of a history. Counts of several stretches are added up, in any order.

So days can be counted apart, by tasks of Spark or one after the other, and what they send back is small.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import msgspec

from distced.middleware.model.timestamps import SECOND


class StreamCount(msgspec.Struct):
    """Events of one type from one source.

    Attributes:
        bytes: of their frames, one event in each, and topics.
    """

    events: int = 0
    bytes: int = 0


class DetectorCount(msgspec.Struct):
    """Composite events and work of a detector.

    Attributes:
        found: composite events.
        plain: bytes of these in frames, without what comes once for each frame.
        part: the same as others read them that it is part of: with derivations and constituents, again where there were
            further derivations.
        touched: pairs of an instance and an event that were looked at, by the parts that it reads (`parts_key`).
        listened: ns for which its messages were counted.
        loud, quiet: numbers of its messages meanwhile, to detectors and to applications.
    """

    found: int = 0
    plain: int = 0
    part: int = 0
    touched: dict[str, int] = {}
    listened: int = 0
    loud: int = 0
    quiet: int = 0


class HistoryCounts(msgspec.Struct):
    """Counts of a stretch.

    Attributes:
        duration: ns.
        events: number read.
        streams: by type and source.
        detectors: by id.
    """

    duration: int = 0
    events: int = 0
    streams: dict[str, dict[str, StreamCount]] = {}
    detectors: dict[str, DetectorCount] = {}

    @property
    def seconds(self) -> float:
        """Length of the stretch, in seconds."""
        return self.duration / SECOND

    def stream(self, type_name: str, source: str) -> StreamCount:
        """The mutable count of a stream."""
        return self.streams.setdefault(type_name, {}).setdefault(source, StreamCount())

    def detector(self, name: str) -> DetectorCount:
        """The mutable count of a detector."""
        return self.detectors.setdefault(name, DetectorCount())

    def selectivity(self, name: str, types: Iterable[str]) -> float:
        """Composite events of a detector for each event of these types; 0 where there were none."""
        read = sum(each.events for type_name in types for each in self.streams.get(type_name, {}).values())
        return self.detectors[name].found / read if read and name in self.detectors else 0.0


def add(one: HistoryCounts, other: HistoryCounts) -> HistoryCounts:
    """The sum of the counts of two stretches."""
    total = HistoryCounts(one.duration + other.duration, one.events + other.events)
    for counts in (one, other):
        for type_name, sources in counts.streams.items():
            for source, each in sources.items():
                known = total.stream(type_name, source)
                known.events += each.events
                known.bytes += each.bytes
        for name, count in counts.detectors.items():
            mine = total.detector(name)
            for field in ("found", "plain", "part", "listened", "loud", "quiet"):
                setattr(mine, field, getattr(mine, field) + getattr(count, field))
            for key, touched in count.touched.items():
                mine.touched[key] = mine.touched.get(key, 0) + touched
    return total


def total(counts: Iterable[HistoryCounts]) -> HistoryCounts:
    """The sum of the counts of all stretches."""
    return reduce(add, counts, HistoryCounts())
