"""Routes of messages: filters, the handlers behind them, and a cache of topics already matched.

A server may send a message that matches several filters of one client once or several times (MQTT 3.1.1, section
3.3.5): mosquitto sends copies under MQTT 5, amqtt under 3.1.1. With MQTT 5 each subscription carries an identifier that
comes back with the message, so each copy goes to the handlers of its own filters and every handler sees the message
once. Without identifiers a message goes to all handlers that match, and `subscriptions.Cover` prevents copies.

Matching takes microseconds and most topics repeat, so routes are cached by raw topic and identifiers. A full cache is
emptied, which costs one match per topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from paho.mqtt.matcher import MQTTMatcher

from distced.middleware.model.errors import BusError
from distced.middleware.wire.topics import is_shared, matches, ungrouped

Handler: TypeAlias = Callable[[str, bytes, bool], object]
"""Takes topic, payload, and whether the message was retained by the server from before the subscription."""

MEMORY: Final = 8192
"""How many topics are remembered."""

IDENTIFIER_MAX: Final = 268_435_455
"""The greatest subscription identifier (MQTT 5, section 3.8.2.1.2)."""


class Route(NamedTuple):
    """Destination of messages of one topic."""

    topic: str
    handlers: tuple[Handler, ...]


class Subscribed:
    """Filter and the handlers behind it, with their QoS; `identifier` comes back with matching messages."""

    def __init__(self, topic_filter: str, identifier: int) -> None:
        self.filter = topic_filter
        self.identifier = identifier
        self.handlers: list[tuple[Handler, int]] = []

    @property
    def qos(self) -> int:
        """Greatest QoS of its handlers."""
        return max(qos for _, qos in self.handlers)


class Routes:
    """Filters that a client has subscribed to; belongs to one thread. `memory` holds at most `MEMORY` routes."""

    def __init__(self) -> None:
        self.memory: dict[bytes, Route] = {}
        self._by_filter: dict[str, Subscribed] = {}
        self._by_identifier: dict[int, Subscribed] = {}
        # A tree by levels; where a filter is subscribed to both shared and not, both stand at one place of it.
        self._tree = MQTTMatcher()  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[Subscribed]:
        return iter(list(self._by_filter.values()))

    def add(self, topic_filter: str, handler: Handler, qos: int) -> Subscribed:
        """Add a handler to a filter."""
        self.memory.clear()
        subscribed = self._by_filter.get(topic_filter)
        if subscribed is None:
            subscribed = Subscribed(topic_filter, self._identifier(topic_filter))
            self._by_filter[topic_filter] = subscribed
            self._by_identifier[subscribed.identifier] = subscribed
            self._plant(ungrouped(topic_filter))
        subscribed.handlers.append((handler, qos))
        return subscribed

    def remove(self, topic_filter: str, handler: Handler | None = None) -> Subscribed | None:
        """Remove a handler, or all of a filter; the filter that has lost its last handler."""
        self.memory.clear()
        subscribed = self._by_filter.get(topic_filter)
        if subscribed is None:
            return None
        handlers = [one for one in subscribed.handlers if handler is not None and one[0] != handler]
        if handlers:
            subscribed.handlers = handlers
            return None
        del self._by_filter[topic_filter], self._by_identifier[subscribed.identifier]
        self._plant(ungrouped(topic_filter))
        return subscribed

    def find(self, topic: str, identifiers: Sequence[int] = ()) -> tuple[Handler, ...]:
        """Handlers of a message, by its topic and the identifiers of the subscriptions it was sent for."""
        named = [self._by_identifier.get(identifier) for identifier in identifiers]
        subscribed = [one for one in named if one is not None and matches(one.filter, topic)]
        if len(subscribed) < len(named) or not named:
            # No identifiers, or ones from before a restart that mean nothing or something else now.
            subscribed = list(self._matching(topic))
        return tuple(handler for one in subscribed for handler, _ in one.handlers)

    def remember(self, key: bytes, route: Route) -> None:
        """Cache a route by raw topic and identifiers."""
        if len(self.memory) >= MEMORY:
            self.memory.clear()
        self.memory[key] = route

    def _matching(self, topic: str) -> Iterator[Subscribed]:
        return chain.from_iterable(self._tree.iter_match(topic))  # type: ignore[no-untyped-call]

    def _plant(self, plain: str) -> None:
        here = [one for one in self._by_filter.values() if ungrouped(one.filter) == plain]
        if here:
            self._tree[plain] = here
        else:
            del self._tree[plain]  # type: ignore[no-untyped-call]

    def _identifier(self, topic_filter: str) -> int:
        # From the filter, so that it is the same after a restart: the server may still hold messages marked with it.
        identifier = int.from_bytes(blake2b(topic_filter.encode(), digest_size=4).digest(), "big") % IDENTIFIER_MAX + 1
        while identifier in self._by_identifier:
            identifier = identifier % IDENTIFIER_MAX + 1
        return identifier


def check_filter(topic_filter: str) -> str:
    """Return a topic filter, or raise `BusError` where it is malformed."""
    levels = ungrouped(topic_filter).split("/")
    wrong = (
        levels == [""]
        or any(len(level) > 1 and ("+" in level or "#" in level) for level in levels)
        or "#" in levels[:-1]
        or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in topic_filter)
        or len(topic_filter.encode(errors="replace")) > 65_535
        or (is_shared(topic_filter) and topic_filter.count("/") < 2)
    )  # fmt: skip
    if wrong:
        raise BusError(
            "not a topic filter", given=topic_filter, allowed="levels joined by /, + for any one, # last for any rest"
        )
    return topic_filter
