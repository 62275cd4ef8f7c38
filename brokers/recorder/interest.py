"""What of the directory concerns a recorder: the sources and detectors of the types that it records."""

from __future__ import annotations

from typing import Final

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Note
from distced.brokers.recorder.state import Keeper
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory_entries import DetectorEntry, SourceEntry

KEPT: Final = ("type", "source", "detector")
"""The entries of the directory that a recorder looks at."""


class Interest:
    """Whom a recorder reads, as far as the directory goes."""

    def __init__(self, keeper: Keeper, directory: Directory) -> None:
        self._keeper = keeper
        self._directory = directory
        # What was said once already.
        self._said: set[str] = set()

    @property
    def wants(self) -> tuple[str, ...] | None:
        """The types that are recorded; None for all."""
        return self._keeper.wants

    def reads(self, entry: SourceEntry | None) -> bool:
        """Whether events of a source are recorded."""
        return entry is not None and any(map(self._keeper.wants_type, entry.types))

    def sources(self) -> list[SourceEntry]:
        """The sources whose events are recorded."""
        return [each for each in self._directory.sources.values() if self.reads(each)]

    def detectors(self) -> set[str]:
        """The detectors whose composite events are recorded."""
        return {
            name
            for name, entry in self._directory.detectors.items()
            if entry.publishes and entry.policy == "guaranteed" and self._keeper.wants_type(entry.publishes)
        }

    def published_at(self, detector: str) -> tuple[str, ...]:
        """The homes where a detector or a copy of it publishes."""
        entry = self._directory.detectors.get(detector)
        return () if entry is None else tuple(sorted({entry.home, *entry.copies.values()}))

    def about_detector(self, name: str, entry: DetectorEntry | None) -> list[Note]:
        """What is found by best effort is not recorded: nobody says when it is complete."""
        if entry is None or entry.policy == "guaranteed" or not entry.publishes:
            return []
        if name in self._said or not self._keeper.wants_type(entry.publishes):
            return []
        self._said.add(name)
        note = "composite events that are found by best effort are not recorded: nobody says when they are complete"
        return [Note("warning", note, {"type": entry.publishes, "detector": name})]

    def about_type(self, name: str, entry: EventType | None) -> list[Note]:
        """Nothing is published under a derived type."""
        named = self.wants is not None and name in self.wants
        if entry is None or entry.derived is None or not named or name in self._said:
            return []
        self._said.add(name)
        note = "nothing is published under a derived type: record the type that it is derived from"
        return [Note("warning", note, {"type": name, "base": entry.derived.base})]
