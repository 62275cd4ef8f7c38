"""Subscriptions of a bus: requested on every new connection, confirmed or refused by the server, routed to handlers.

A server may send a message that matches several filters of one client once or several times (MQTT 3.1.1, section
3.3.5): mosquitto sends copies under MQTT 5, amqtt under 3.1.1. With MQTT 5 each subscription carries an identifier that
comes back with the message: each copy goes to the handlers of its own filters. Under MQTT 3.1.1 copies look like
messages published twice, so overlapping filters are requested as one filter that covers them (`Cover`): `ced/e/#` for
`ced/e/#` and `ced/e/A/+`, and `ced/e/+/+` for `ced/e/A/+` and `ced/e/+/s`; the latter covers more than both, the price
of single delivery.

Matching takes microseconds and most topics repeat, so routes are cached by raw topic and identifiers. A full cache is
emptied, at the cost of one match per topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from paho.mqtt.matcher import MQTTMatcher

from distced.middleware.bus.connection import Connection
from distced.middleware.bus.paho_client import plain_key, split_key
from distced.middleware.model.errors import BusError
from distced.middleware.wire.topics import is_shared, matches, ungrouped


class Answer(Protocol):
    """Future of `concurrent.futures` or of asyncio."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> Any: ...

    def set_exception(self, exception: Any, /) -> Any: ...


class Subscriptions:
    """Subscriptions of a bus; belongs to its loop."""

    def __init__(self) -> None:
        self._routes = Routes()
        # What the server is asked for where it does not mark copies; made again for each connection.
        self._cover = Cover()
        # What the server was asked for, and still keeps for an absent client that has a session.
        # A set has twice the size.
        self._at_server: dict[str, None] = {}
        # Filters on their way to the server, by the number its answer will have; and futures to be resolved, by filter.
        self._asked: dict[int, list[str]] = {}
        self._awaited: dict[str, list[Answer]] = {}

    def add(
        self,
        topic_filter: str,
        handler: Handler,
        qos: int,
        answer: Answer | None,
        connection: Connection | None,
        *,
        retained: bool = True,
    ) -> None:
        """Route matching messages to the handler, and request them where there is a connection; the next connection
        brings those retained by the server in any case."""
        subscribed = self._routes.add(topic_filter, handler, qos)
        if answer is not None:
            self._awaited.setdefault(topic_filter, []).append(answer)
        if connection is None:
            return
        if _stands_alone(subscribed, connection):
            self._ask_alone(subscribed, connection, retained=retained)
        else:
            # Requested again, too, a group brings what the server retains; and an answer.
            needless = not retained and answer is None and self._cover.has(topic_filter, subscribed.qos)
            change = self._cover.add(topic_filter, subscribed.qos)
            if not needless:
                self._ask_groups(change.subscribe, connection)
                self._ask_no_more(change.unsubscribe, connection)

    def remove(self, topic_filter: str, handler: Handler | None, connection: Connection | None) -> None:
        """Remove a handler, or all of a filter; unsubscribe where none is left."""
        removed = self._routes.remove(topic_filter, handler)
        if removed is None or connection is None:
            return
        if _stands_alone(removed, connection):
            self._ask_no_more([topic_filter], connection)
        else:
            change = self._cover.remove(topic_filter)
            self._ask_groups(change.subscribe, connection)
            self._ask_no_more(change.unsubscribe, connection)

    def ask_again(self, connection: Connection) -> None:
        """Request every subscription on a new connection."""
        self._asked.clear()
        self._cover = Cover()
        before, self._at_server = self._at_server, {}
        for subscribed in self._routes:
            if _stands_alone(subscribed, connection):
                self._ask_alone(subscribed, connection)
            else:
                self._cover.add(subscribed.filter, subscribed.qos)
        self._ask_groups({group: max(filters.values()) for group, filters in self._cover.groups.items()}, connection)
        if connection.accepted is not None and connection.accepted.session_present:
            self._ask_no_more(before.keys() - self._at_server.keys(), connection)

    def answered(self, number: int, refusal: str | None) -> list[BusError]:
        """Take the server's answer; the errors where it refuses."""
        errors = []
        for topic_filter in self._asked.pop(number, ()):
            waiting = self._awaited.pop(topic_filter, ())
            if refusal is None:
                for answer in _undecided(waiting):
                    answer.set_result(None)
                continue
            error = BusError("the server refuses a subscription", given=topic_filter, advice=f"it says: {refusal}")
            errors.append(error)
            for answer in _undecided(waiting):
                answer.set_exception(error)
        return errors

    def end(self, error: BusError) -> None:
        """Fail the requests that no server answers any more."""
        for answers in self._awaited.values():
            for answer in _undecided(answers):
                answer.set_exception(error)
        self._awaited.clear()

    def route(self, key: bytes) -> Route:
        """Route of a message, by its raw topic and properties."""
        route = self._routes.memory.get(key)
        return self._find(key) if route is None else route

    def _find(self, key: bytes) -> Route:
        raw, identifiers, singular = split_key(key)
        if singular:
            # User properties, for example: the route is that of messages without.
            plain = plain_key(key, raw, identifiers)
            known = None if plain is None else self._routes.memory.get(plain)
            if known is not None:
                return known
        else:
            plain = key
        topic = raw.decode(errors="replace")
        route = Route(topic, self._routes.find(topic, identifiers))
        if plain is not None:
            self._routes.remember(plain, route)
        return route

    def _ask_alone(self, subscribed: Subscribed, connection: Connection, *, retained: bool = True) -> None:
        self._at_server[subscribed.filter] = None
        number = connection.subscribe(subscribed.filter, subscribed.qos, subscribed.identifier, retained=retained)
        if number is not None:
            self._asked[number] = [subscribed.filter]

    def _ask_groups(self, groups: dict[str, int], connection: Connection) -> None:
        for group, qos in groups.items():
            self._at_server[group] = None
            number = connection.subscribe(group, qos, None)
            if number is not None:
                self._asked[number] = list(self._cover.groups[group])

    def _ask_no_more(self, filters: Iterable[str], connection: Connection) -> None:
        for topic_filter in filters:
            self._at_server.pop(topic_filter, None)
            connection.unsubscribe(topic_filter)


def _undecided(answers: Iterable[Answer]) -> list[Answer]:
    """Answers not cancelled, as by a task that waited."""
    return [answer for answer in answers if not answer.done()]


def _stands_alone(subscribed: Subscribed, connection: Connection) -> bool:
    """Whether the filter is requested as it is, overlapping others or not."""
    return connection.marks_copies or is_shared(subscribed.filter)


class Change(NamedTuple):
    """Requests to the server: filters and QoS to subscribe to, then filters to unsubscribe from."""

    subscribe: dict[str, int]
    unsubscribe: list[str]


class Cover:
    """Groups of overlapping filters of a client, with their QoS, by a covering filter; these do not overlap."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, int]] = {}

    def add(self, topic_filter: str, qos: int) -> Change:
        """Add a filter, or change its QoS."""
        whole, members = topic_filter, {topic_filter: qos}
        swallowed: list[str] = []
        # The union may overlap groups that the filter does not.
        while touched := [group for group in self.groups if overlap(group, whole)]:
            for group in touched:
                whole = union(whole, group)
                members = self.groups.pop(group) | members
            swallowed += touched
        self.groups[whole] = members
        # Also where the group stood before: what the server retains is for the new filter too.
        return Change({whole: max(members.values())}, [group for group in swallowed if group != whole])

    def has(self, topic_filter: str, qos: int) -> bool:
        """Whether a group covers a filter, with this QoS."""
        for group, members in self.groups.items():
            if overlap(group, topic_filter):
                return union(group, topic_filter) == group and max(members.values()) >= qos
        return False

    def remove(self, topic_filter: str) -> Change:
        """Remove a filter."""
        whole = next((group for group, members in self.groups.items() if topic_filter in members), None)
        if whole is None:
            return Change({}, [])
        rest = self.groups.pop(whole)
        del rest[topic_filter]
        if whole in rest:
            # It covers the others by itself.
            self.groups[whole] = rest
            return Change({}, [])
        before = set(self.groups)
        for other, qos in rest.items():
            self.add(other, qos)
        made = {group: max(self.groups[group].values()) for group in self.groups if group not in before}
        if whole in made:
            del made[whole]
            return Change(made, [])
        return Change(made, [whole])


def overlap(one: str, other: str) -> bool:
    """Whether a topic may match both filters."""
    if one.startswith("$") != other.startswith("$"):
        # A wildcard at the start does not match topics that begin with $ (MQTT 5, section 4.7.2).
        return False
    mine, others = one.split("/"), other.split("/")
    for level, another in zip(mine, others, strict=False):
        if level == "#" or another == "#":
            return True
        if level != another and "+" not in (level, another):
            return False
    # `a/#` matches `a` as well.
    longer = max(mine, others, key=len)
    return len(mine) == len(others) or longer[min(len(mine), len(others))] == "#"


def union(one: str, other: str) -> str:
    """Narrowest filter that matches every topic that either matches."""
    mine, others = one.split("/"), other.split("/")
    levels: list[str] = []
    for level, another in zip(mine, others, strict=False):
        if level == "#" or another == "#":
            return "/".join([*levels, "#"])
        levels.append(level if level == another else "+")
    if len(mine) != len(others):
        levels.append("#")
    return "/".join(levels)


Handler: TypeAlias = Callable[[str, bytes, bool], object]
"""Takes topic, payload, and whether the message was retained by the server from before the subscription."""

MEMORY: Final = 8192  # most routes cached
IDENTIFIER_MAX: Final = 268_435_455  # greatest subscription identifier (MQTT 5, section 3.8.2.1.2)


class Route(NamedTuple):
    """Destination of messages of one topic."""

    topic: str
    handlers: tuple[Handler, ...]


class Subscribed:
    """Filter and the handlers behind it; `identifier` comes back with matching messages.

    Attributes:
        levels: QoS of each handler.
    """

    # A client may have a hundred thousand of them, most with one handler: a pair of handler and QoS would double that.
    __slots__ = ("filter", "handlers", "identifier", "levels")

    def __init__(self, topic_filter: str, identifier: int) -> None:
        self.filter = topic_filter
        self.identifier = identifier
        self.handlers: tuple[Handler, ...] = ()
        self.levels = b""

    @property
    def qos(self) -> int:
        """Greatest QoS of its handlers."""
        return max(self.levels)


class Routes:
    """Filters that a client has subscribed to; belongs to one thread. `memory` holds at most `MEMORY` routes."""

    def __init__(self) -> None:
        self.memory: dict[bytes, Route] = {}
        self._by_filter: dict[str, Subscribed] = {}
        self._by_identifier: dict[int, Subscribed] = {}
        # A tree by levels of filters with wildcards and of shared ones, both at one place of it; others are topics.
        self._tree = MQTTMatcher()  # type: ignore[no-untyped-call]
        self._planted: dict[str, list[Subscribed]] = {}

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
            if not _is_topic(topic_filter):
                plain = ungrouped(topic_filter)
                here = self._planted.setdefault(plain, [])
                here.append(subscribed)
                self._tree[plain] = here
        subscribed.handlers += (handler,)
        subscribed.levels += bytes([qos])
        return subscribed

    def remove(self, topic_filter: str, handler: Handler | None = None) -> Subscribed | None:
        """Remove a handler, or all of a filter; the filter that has lost its last handler."""
        self.memory.clear()
        subscribed = self._by_filter.get(topic_filter)
        if subscribed is None:
            return None
        kept = [place for place, one in enumerate(subscribed.handlers) if handler is not None and one != handler]
        if kept:
            subscribed.handlers = tuple([subscribed.handlers[place] for place in kept])
            subscribed.levels = bytes([subscribed.levels[place] for place in kept])
            return None
        del self._by_filter[topic_filter], self._by_identifier[subscribed.identifier]
        if _is_topic(topic_filter):
            return subscribed
        plain = ungrouped(topic_filter)
        here = self._planted[plain]
        here.remove(subscribed)
        if not here:
            del self._planted[plain]
            del self._tree[plain]  # type: ignore[no-untyped-call]
        return subscribed

    def find(self, topic: str, identifiers: Sequence[int] = ()) -> tuple[Handler, ...]:
        """Handlers of a message, by its topic and the identifiers of the subscriptions it was sent for."""
        if len(identifiers) == 1:
            only = self._by_identifier.get(identifiers[0])
            if only is not None and matches(only.filter, topic):
                return only.handlers
        named = [self._by_identifier.get(identifier) for identifier in identifiers]
        subscribed = [one for one in named if one is not None and matches(one.filter, topic)]
        if len(subscribed) < len(named) or not named:
            # No identifiers, or ones from before a restart that mean nothing or something else now.
            subscribed = list(chain.from_iterable(self._tree.iter_match(topic)))  # type: ignore[no-untyped-call]
            exact = self._by_filter.get(topic)
            if exact is not None and _is_topic(topic):
                subscribed.append(exact)
        return tuple(handler for one in subscribed for handler in one.handlers)

    def remember(self, key: bytes, route: Route) -> None:
        """Cache a route by raw topic and identifiers."""
        if len(self.memory) >= MEMORY:
            self.memory.clear()
        self.memory[key] = route

    def _identifier(self, topic_filter: str) -> int:
        # From the filter, so that it is the same after a restart: the server may still hold messages marked with it.
        identifier = int.from_bytes(blake2b(topic_filter.encode(), digest_size=4).digest(), "big") % IDENTIFIER_MAX + 1
        while identifier in self._by_identifier:
            identifier = identifier % IDENTIFIER_MAX + 1
        return identifier


def _is_topic(topic_filter: str) -> bool:
    """Whether a filter matches the topic of its own text alone."""
    return "+" not in topic_filter and "#" not in topic_filter and not is_shared(topic_filter)


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
