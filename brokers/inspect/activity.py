"""Activity of a system as log events: changes of the directory, fencing, dead letters. Sans-I/O, like a node.

A broker node that is a Ray actor logs into a file of Ray's, and its actions show in the directory anyway. So
`distced broker` logs the directory, for all nodes of the server alike, those of other machines included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

import msgspec

from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import decode
from distced.middleware.wire.topics import ROOT, Area, area_filter, directory_topic, parse_topic

SHOWN: Final = 3
"""Dead letters of one reason and sender logged one by one in a period; further ones are counted."""

PERIOD: Final = 10 * SECOND
"""Interval between log events of counted dead letters, ns."""


class Watch:
    """Logger of a system's messages.

    Attributes:
        directory: the directory.
        filters: the topic filters to subscribe to.
    """

    def __init__(self, now: int, *, root: str = ROOT) -> None:
        self.root = root
        self.directory = Directory()
        self.filters = (
            area_filter(Area.DIRECTORY, root=root),
            area_filter(Area.ADMINISTRATION, "fence", root=root),
            area_filter(Area.DEAD_LETTERS, root=root),
        )
        self._letters: Counter[tuple[str, str]] = Counter()
        self._period = now

    def start(self) -> list[Effect]:
        """Effects of a connection."""
        return [Subscribe(each) for each in self.filters]

    def clear(self, nodes: Collection[str]) -> list[Effect]:
        """Clear the entries of ended nodes, and of their detectors."""
        known = self.directory
        topics = [
            directory_topic(kind, name, root=self.root)
            for kind, names in (("node", known.nodes), ("load", known.loads))
            for name in nodes
            if name in names
        ]
        topics += [
            directory_topic("detector", name, root=self.root)
            for name, entry in known.detectors.items()
            if entry.node in nodes
        ]
        return [Publish(topic, b"", retain=True) for topic in topics]

    def receive(self, topic: str, payload: bytes) -> list[Note]:
        """Effects of a message."""
        try:
            area, levels = parse_topic(topic, root=self.root)
            if area is Area.DIRECTORY:
                return self._changed(self.directory.read(levels, payload, where=topic))
            if area is Area.DEAD_LETTERS:
                return self._letter(levels, decode(payload, DeadLetter, where=topic))
            return [Note("warning", "fencing requested", {"source": levels[-1]})]
        except DistcedError as error:
            return [Note("warning", "message rejected", {"topic": topic, "reason": str(error)})]

    def tick(self, now: int) -> list[Note]:
        """Effects of the time; call it about once a second."""
        if now - self._period < PERIOD:
            return []
        self._period = now
        letters, self._letters = self._letters, Counter()
        return [
            Note("warning", "more dead letters", {"reason": reason, "by": by, "count": count - SHOWN})
            for (reason, by), count in letters.items()
            if count > SHOWN
        ]

    def _changed(self, change: Change) -> list[Note]:
        entry, name = change.entry, change.name
        if (entry is None) == (change.before is None):
            # An entry that says more, the counters of a node for example.
            return []
        came = entry is not None
        told = entry if came else change.before
        match change.kind:
            case "node":
                return [Note("info", "node up" if came else "node gone", {"node": name})]
            case "detector":
                fields = {"detector": name, "node": told.node, "pattern": told.pattern, "policy": told.policy}
                return [Note("info", "detector created" if came else "detector destroyed", fields)]
            case "subscription":
                fields = {"client": told.client, "pattern": told.pattern, "policy": told.policy}
                return [Note("info", "subscribed" if came else "unsubscribed", fields)]
            case "source":
                fields = {"source": name, "types": ", ".join(told.types), "publisher": told.publisher}
                return [Note("info", "source joins" if came else "source leaves", fields)]
            case "client":
                # What it is there for shows in its sources and subscriptions.
                return []
            case "topology":
                return [Note("info", "topology published" if came else "topology withdrawn", {"topology": name})]
            case "recorder":
                return [Note("info", "recorder up" if came else "recorder gone", {"recorder": name})]
            case "load":
                # It changes all the time.
                return []
            case _:
                kinds = ", ".join(f"{attribute}: {kind}" for attribute, kind in told.attributes.items())
                return [Note("info", "type registered" if came else "type forgotten", {"type": name, "has": kinds})]

    def _letter(self, levels: tuple[str, ...], letter: DeadLetter) -> list[Note]:
        by = levels[-1]
        self._letters[letter.reason, by] += 1
        if self._letters[letter.reason, by] > SHOWN:
            return []
        fields = {key: value for key, value in msgspec.structs.asdict(letter).items() if key in ("reason", "topic")}
        return [Note("warning", "dead letter", {**fields, "by": by, "message": letter.message})]
