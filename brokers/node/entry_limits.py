"""Limits of the directory but for subscriptions: numbers of types and of other entries, and attributes of a type.

Every node has the whole directory in memory, and all have the same limits: what comes behind the last entry that has
room is refused by all, as a dead letter, and cleared by one of them (`brokers.node.refusals`), so that a node that
starts later reads the same. Entries that are there stay, and change. Subscriptions have limits of their own, by client;
detectors are made by nodes.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.directory import KINDS
from distced.brokers.core.effects import Effect
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.refusals import Refusals
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.model.errors import LimitError
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import SourceEntry

REFUSED: Final = "refused"
"""Reason of dead letters."""

LOOK_EVERY: Final = 1_000
"""Refusals of homes after which is looked whether others are gone."""

_COUNTED: Final = KINDS.keys() - {"type", "subscription", "detector"}


class EntryLimits(NodePart):
    """Limits of entries of the directory at a node."""

    def __init__(self, shared: Shared, limits: MessageLimits, refusals: Refusals) -> None:
        super().__init__(shared)
        self.limits = limits
        self._refusals = refusals
        # Homes of sources, perhaps of some that are gone; refusals since these were left out.
        self._homes: set[str] = set()
        self._refused_since = 0

    def refused(self, levels: tuple[str, ...], payload: bytes, topic: str) -> list[Effect] | None:
        """Dead letter of an entry beyond a limit; None for one to be read. Raises `FrameError` for a malformed type."""
        if not payload or len(levels) != 2:
            return None
        kind, name = levels
        error: LimitError | None = None
        if kind == "type":
            if name not in self.directory.types and len(self.directory.types) >= self.limits.types:
                error = LimitError(
                    "more event types than nodes know",
                    given=f"{name} as one more",
                    allowed=f"{self.limits.types:,}",
                    where=topic,
                    advice="clear those that nobody needs, or start nodes with --max-types",
                )
            else:
                error = self._of_attributes(decode(payload, EventType, where=topic), topic)
        elif kind in _COUNTED:
            table = self.directory.table(kind)
            if name not in table and len(table) >= self.limits.entries:
                error = LimitError(
                    f"more entries of the kind {kind} than nodes know",
                    given=f"{name} as one more",
                    allowed=f"{self.limits.entries:,}",
                    where=topic,
                    advice="clear those that nobody needs, or start nodes with --max-entries",
                )
            elif kind == "source":
                error = self._of_homes(decode(payload, SourceEntry, where=topic).home, topic)
        if error is None:
            return None
        counts = self.event_path.counts
        counts["entries refused"] = counts.get("entries refused", 0) + 1
        if chosen(name, self.directory.common_nodes) in (self.name, None):
            self._refusals.topics[topic] = None
        return list(self.event_path.dead_letters.message(REFUSED, error, topic, payload))

    def _of_homes(self, home: str, topic: str) -> LimitError | None:
        if home in self._homes or not home:
            return None
        if len(self._homes) >= self.limits.homes:
            self._refused_since += 1
            if self._refused_since % LOOK_EVERY == 1:
                self._homes = {each.home for each in self.directory.sources.values() if each.home}
        if len(self._homes) < self.limits.homes:
            self._homes.add(home)
            return None
        return LimitError(
            "sources at more servers than nodes connect to",
            given=f"{home} as one more",
            allowed=f"{self.limits.homes:,}",
            where=topic,
            advice="clear those that nobody needs, or start nodes with --max-homes",
        )

    def _of_attributes(self, entry: EventType, topic: str) -> LimitError | None:
        number = len(entry.attributes)
        if number <= self.limits.attributes:
            return None
        return LimitError(
            "more attributes of an event type than nodes know",
            given=f"{number:,}",
            allowed=f"{self.limits.attributes:,}",
            where=topic,
            advice="make several types, or start nodes with --max-attributes",
        )
