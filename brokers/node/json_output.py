"""Composite events of a detector as JSON on topics of users' choice, each once, whichever node hosts the detector.

The primary publishes. A replica finds the same composite events, reads these topics, and *keeps* what it has not heard
there. When it becomes the primary, and a barrier has shown that all messages of the one before have arrived, it
publishes what is left. What the one before was ahead with it has heard, and leaves out. A detector that moves consumes
each event at one node, so nothing is to be compared.

Publication by the subscriber was rejected: JSON is for when no application of ours is needed. Publication by all
replicas was rejected: readers of JSON do not look at ids.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from distced.brokers.core.effects import Effect, Publish
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.json_events import encode_json, json_id

JsonTopic: TypeAlias = tuple[str, str]
"""Home server and topic; an empty home for the server of the directory."""

KEEP: Final = 60 * SECOND
"""Time for which a replica keeps a composite event, ns; longer than a lost primary is missed."""

MOST: Final = 10_000
"""Number of composite events that a replica keeps, and of ids it remembers, for each topic."""


class _Identified(msgspec.Struct):
    id: str


_identified: Final = msgspec.json.Decoder(_Identified).decode


class JsonOutput:
    """JSON of one detector.

    Attributes:
        topics: where it leaves, in order.
        publishes: whether this node publishes; it keeps otherwise.
        handing_over: whether it keeps until another node is the primary.
    """

    def __init__(self, source: str, *, publishes: bool) -> None:
        """`source`: that of the composite events."""
        self._prefix = f"{source}."
        self.topics: tuple[JsonTopic, ...] = ()
        self.publishes = publishes
        self.handing_over = False
        # By topic: composite events that were not heard, by id, with the time (ns), and ids heard but not found here.
        self._kept: dict[JsonTopic, OrderedDict[str, tuple[int, bytes]]] = {}
        self._heard: dict[JsonTopic, OrderedDict[str, None]] = {}

    def leave_at(self, topics: Iterable[JsonTopic]) -> bool:
        """Set the topics; True where they change."""
        before, self.topics = self.topics, tuple(sorted(set(topics)))
        for each in set(before) - set(self.topics):
            self._kept.pop(each, None)
            self._heard.pop(each, None)
        return before != self.topics

    @property
    def homes(self) -> set[str]:
        return {home for home, _ in self.topics}

    def found(self, events: Iterable[CompositeEvent], now: int) -> list[Effect]:
        """Publish composite events, or keep them."""
        effects: list[Effect] = []
        for event in events if self.topics else ():
            if event.again:
                continue
            identity, payload = json_id(event), encode_json(event)
            for topic in self.topics:
                if identity in self._heard.get(topic, ()):
                    del self._heard[topic][identity]
                elif self.publishes:
                    effects.append(_publish(topic, payload))
                else:
                    self._keep(topic, identity, payload, now)
        return effects

    def _keep(self, topic: JsonTopic, identity: str, payload: bytes, now: int) -> None:
        kept = self._kept.setdefault(topic, OrderedDict())
        kept[identity] = now, payload
        while len(kept) > MOST or now - next(iter(kept.values()))[0] > KEEP:
            kept.popitem(last=False)

    def heard(self, topic: JsonTopic, payload: bytes) -> None:
        """Take a message on a topic; others publish there, too, perhaps."""
        if topic not in self.topics or self.publishes:
            return
        try:
            identity = _identified(payload).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not identity.startswith(self._prefix):
            return
        kept = self._kept.get(topic)
        if kept is not None and kept.pop(identity, None) is not None:
            return
        heard = self._heard.setdefault(topic, OrderedDict())
        heard[identity] = None
        if len(heard) > MOST:
            heard.popitem(last=False)

    def keep(self, *, handing_over: bool = False) -> None:
        """Publish no more: this node has a replica, or is about to."""
        self.publishes, self.handing_over = False, handing_over

    def publish(self, now: int) -> list[Effect]:
        """Publish from now on, beginning with what was kept."""
        self.publishes, self.handing_over = True, False
        kept, self._kept = self._kept, {}
        return [
            _publish(topic, payload)
            for topic, each in kept.items()
            for at, payload in each.values()
            if now - at <= KEEP
        ]


def _publish(topic: JsonTopic, payload: bytes) -> Publish:
    home, name = topic
    return Publish(name, payload, home=home)
