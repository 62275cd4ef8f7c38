"""Activity of a system as log events: changes of the directory, fencing, dead letters. Sans-I/O, like a node.

A Ray actor logs into a file of Ray's; so `distced broker` logs the directory, for all nodes of the server alike.
Detectors of nodes that log into the same stream, with more in it, are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, warning
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import COUNTERS, DeadLetter
from distced.middleware.wire.codec import decode
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    directory_topic,
    parse_topic,
)

SHOWN: Final = 3
"""Dead letters of one reason and sender, and messages rejected, logged one by one in a period; further ones are
counted: a client may publish thousands a second, and each line takes as long as ten of them."""

PERIOD: Final = 10 * SECOND
"""Interval between log events of those that were counted, ns."""


_EVENTS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "node": ("node joined", "node left", ()),
    "detector": ("detector created", "detector destroyed", ("node", "pattern", "policy")),
    "subscription": ("subscribed", "unsubscribed", ("client", "pattern", "policy")),
    "source": ("source joined", "source left", ("types", "publisher")),
    "topology": ("topology published", "topology withdrawn", ()),
    "recorder": ("recorder joined", "recorder left", ()),
    "type": ("type registered", "type removed", ()),
}
"""By kind of entry: events of its appearance and its end, and the fields shown."""


class Watch:
    """Logger of a system's messages, through these topic filters."""

    def __init__(self, now: int, *, root: str = ROOT, heard: Collection[str] = ()) -> None:
        """Args: heard: nodes that log their detectors themselves."""
        self.root = root
        self._heard = frozenset(heard)
        self.directory = Directory()
        self.filters = (
            area_filter(Area.DIRECTORY, root=root),
            area_filter(Area.ADMINISTRATION, "fence", root=root),
            area_filter(Area.ADMINISTRATION, COUNTERS, root=root),
            area_filter(Area.DEAD_LETTERS, root=root),
        )
        self._letters: Counter[tuple[str, str]] = Counter()
        self._rejected = 0
        self._period = now

    def start(self) -> list[Effect]:
        """Effects of a connection."""
        return [Subscribe(each) for each in self.filters]

    def clear(self, nodes: Collection[str]) -> list[Effect]:
        """Clear the entries of ended nodes, and of their detectors."""
        known = self.directory
        entries = [(kind, name, "") for kind in ("node", "load") for name in nodes if name in known.table(kind)]
        detectors = known.detectors.items()
        entries += [("detector", name, entry.publishes) for name, entry in detectors if entry.node in nodes]
        topics = [directory_topic(kind, name, publishes=each, root=self.root) for kind, name, each in entries]
        topics += [administration_topic(COUNTERS, name, root=self.root) for name in nodes if name in known.nodes]
        return [Publish(topic, b"", retain=True) for topic in topics]

    def receive(self, topic: str, payload: bytes) -> list[Note]:
        """Effects of a message."""
        try:
            area, levels = parse_topic(topic, root=self.root)
            if area is Area.DIRECTORY:
                return self._changed(self.directory.read(levels, payload, where=topic))
            if area is Area.DEAD_LETTERS:
                return self._letter(levels, decode(payload, DeadLetter, where=topic))
            if levels[0] == COUNTERS:
                self.directory.count(levels[-1], payload, where=topic)
                return []
            return [warning("fencing requested", source=levels[-1])]
        except DistcedError as error:
            self._rejected += 1
            return [warning("message rejected", topic=topic, reason=str(error))] if self._rejected <= SHOWN else []

    def tick(self, now: int) -> list[Note]:
        """Effects of the time; call it about once a second."""
        if now - self._period < PERIOD:
            return []
        self._period = now
        letters, self._letters = self._letters, Counter()
        rejected, self._rejected = self._rejected - SHOWN, 0
        return [
            *(
                warning("dead letters counted", reason=reason, by=by, count=count - SHOWN)
                for (reason, by), count in letters.items()
                if count > SHOWN
            ),
            *([warning("messages rejected", count=rejected)] if rejected > 0 else []),
        ]

    def _changed(self, change: Change) -> list[Note]:
        if change.kind not in _EVENTS or (change.entry is None) == (change.before is None):
            # Entries that change all the time, or say more, as the counters of a node.
            return []
        appeared, gone, shown = _EVENTS[change.kind]
        entry = change.before if change.entry is None else change.entry
        if change.kind == "detector" and entry.node in self._heard:
            return []
        fields: dict[str, object] = {} if change.kind == "subscription" else {change.kind: change.name}
        for each in shown:
            value = getattr(entry, each)
            fields[each] = ", ".join(value) if isinstance(value, tuple) else value
        if change.kind == "type":
            fields["has"] = ", ".join(f"{attribute}: {kind}" for attribute, kind in entry.attributes.items())
        return [Note("info", gone if change.entry is None else appeared, fields)]

    def _letter(self, levels: tuple[str, ...], letter: DeadLetter) -> list[Note]:
        by = levels[-1]
        self._letters[letter.reason, by] += 1
        if self._letters[letter.reason, by] > SHOWN:
            return []
        return [
            warning("dead letter published", reason=letter.reason, topic=letter.topic, by=by, message=letter.message)
        ]
