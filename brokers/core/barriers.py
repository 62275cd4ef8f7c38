"""Barriers at the servers of a node, which order actions on two servers; MQTT filters held at servers.

Topics have home servers, and a node has a connection to each (design, section 4). Messages keep their order within a
connection only. Where one action must follow another on two servers, the node *flushes*: it publishes a barrier to
itself behind the first, and takes the second when the barrier comes back. By then the server has taken all sent before
the barrier, and has delivered all published before it arrived. Messages over the connection to the directory need no
barrier, since all that depends on them goes over it, too. Where events at the server of the directory have a connection
of their own, they need one as those of another server. Acknowledged subscriptions were rejected as the signal: messages
may still be on their way. Half the round trip of a barrier is the measured latency of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from distced.brokers.core.effects import Effect, Publish, Subscribe, Unsubscribe, warning
from distced.middleware.model.errors import FrameError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.topics import administration_topic

ASK_EVERY: Final = SECOND // 2
"""Interval of further barriers at a server whose barrier has not come back, ns."""

SILENT: Final = 3 * SECOND
"""Age from which a barrier counts as delayed, ns."""

MEASURE_EVERY: Final = 30 * SECOND
"""Interval of delay measurements to a server without other barriers, ns."""

SLOW: Final = SECOND
"""Round trip from which the next measurement follows at once, ns."""

SMOOTHING: Final = 0.3
"""Weight of a new delay measurement."""

Then: TypeAlias = Callable[[int], list[Effect]]
"""Continuation behind a barrier; takes the time, ns."""


@dataclass(slots=True)
class _Flush:
    """Continuation behind barriers, given by their numbers, by home."""

    barriers: dict[str, int]
    then: Then


@dataclass(slots=True)
class _Asked:
    """Barriers to a home: number and time of the last one, and times of those that have not come back, ns."""

    last: int
    at: int
    sent: dict[int, int]


class Homes:
    """Home servers of a node.

    Attributes:
        latencies: half the round trip of a message to each, smoothed, ns.
        events_over: the connection of events at the server of the directory; empty for that of the directory itself.
    """

    def __init__(
        self,
        name: str,
        root: str,
        first: int = 0,
        *,
        continued: Callable[[Then], Then] = lambda then: then,
        events_over: str = "",
    ) -> None:
        """
        Args:
            first: numbers of barriers begin beyond this; those of an earlier life may still arrive.
            continued: wraps a continuation, so that its cause is known when the barrier ends.
        """
        self.events_over = events_over
        self._first = first
        self._continued = continued
        self.topic = administration_topic("known", name, root=root)
        # Another one, as both connections to that server would receive a common one.
        self._events_topic = administration_topic("known", name, "events", root=root)
        # Last barrier over the connection of events before a filter was added there; None once a later one came back.
        self._filtered_at: int | None = None
        self.latencies: dict[str, int] = {}
        self._asked: dict[str, _Asked] = {}
        self._waiting: list[_Flush] = []
        self._measured: dict[str, int] = {}
        # Last round trip to each, ns.
        self._round_trips: dict[str, int] = {}
        # Servers whose delayed barrier was logged.
        self._silent: set[str] = set()

    @property
    def awaited(self) -> set[str]:
        """Servers whose barrier a continuation waits for."""
        return {home for flush in self._waiting for home in flush.barriers}

    def topic_at(self, home: str) -> str:
        """Topic of barriers at a server."""
        return self.topic if home or not self.events_over else self._events_topic

    def over(self, home: str) -> str:
        """Connection over which events at a server go."""
        return home or self.events_over

    def flush(self, homes: Iterable[str], then: Then, now: int) -> list[Effect]:
        """Continue when these servers have taken all events sent to them, and the node all that they had before.

        At once for that of the directory, unless its events have a connection of their own.
        """
        others = sorted({home for home in homes if self.over(home)})
        if not others:
            return then(now)
        effects: list[Effect] = [self._ask(home, now) for home in others]
        self._waiting.append(_Flush({home: self._asked[home].last for home in others}, self._continued(then)))
        return effects

    def once_subscribed(self, homes: Iterable[str], then: Then, now: int) -> list[Effect]:
        """Continue when these servers have taken all filters; for that of the directory one barrier serves for many."""
        others = set(homes)
        if not self.events_over or "" not in others:
            return self.flush(others, then, now)
        others.remove("")
        if self._filtered_at is None:
            return self.flush(others, then, now)
        asked, effects = self._asked.get(""), list[Effect]()
        if asked is None or asked.last <= self._filtered_at:
            effects.append(self._ask("", now))
        effects += [self._ask(home, now) for home in sorted(others)]
        numbers = {home: self._asked[home].last for home in sorted({"", *others})}
        self._waiting.append(_Flush(numbers, self._continued(then)))
        return effects

    def filters_added(self) -> None:
        """Note that filters were added at the server of the directory."""
        asked = self._asked.get("")
        self._filtered_at = self._first if asked is None else asked.last

    def answered(self, home: str, payload: bytes, now: int) -> list[Effect]:
        """A barrier has come back."""
        try:
            number = int(payload)
        except ValueError:
            given = bytes(payload[:80])
            raise FrameError("malformed barrier", given=given, allowed="a number", where=self.topic) from None
        asked = self._asked.get(home)
        if asked is None or number not in asked.sent:
            return []
        self._measured[home], self._round_trips[home] = now, now - asked.sent[number]
        if home:
            self._measure(home, now - asked.sent[number])
        elif self._filtered_at is not None and number > self._filtered_at:
            self._filtered_at = None
        asked.sent = {each: at for each, at in asked.sent.items() if each > number}
        effects: list[Effect] = []
        waiting, self._waiting = self._waiting, []
        for flush in waiting:
            if flush.barriers.get(home, number + 1) <= number:
                del flush.barriers[home]
            if flush.barriers:
                self._waiting.append(flush)
            else:
                effects += flush.then(now)
        return effects

    def linked(self, home: str, now: int) -> list[Effect]:
        """A connection is established, perhaps again: barriers sent over the one before do not come back."""
        asked = self._asked.get(home)
        if asked is None or not asked.sent:
            return []
        # The time to connect is no latency.
        asked.sent = dict.fromkeys(asked.sent, now)
        return [self._again(home, now)]

    def tick(self, homes: Iterable[str], now: int) -> list[Effect]:
        """Effects of the time: repeat barriers, and measure the delays to the servers in use."""
        effects: list[Effect] = []
        for home, asked in self._asked.items():
            if not asked.sent:
                self._silent.discard(home)
            elif now - asked.at >= ASK_EVERY:
                effects.append(self._again(home, now))
                if now - min(asked.sent.values()) > SILENT and home not in self._silent:
                    self._silent.add(home)
                    waiting = sum(home in each.barriers for each in self._waiting)
                    effects.append(warning("barrier delayed", home=self.over(home), waiting=waiting))
        for home in sorted(set(homes)):
            before = self._asked.get(home)
            slow = self._round_trips.get(home, 0) >= SLOW and before is not None and not before.sent
            if self.over(home) and (slow or now - self._measured.get(home, now - MEASURE_EVERY) >= MEASURE_EVERY):
                self._measured[home] = now
                effects.append(self._ask(home, now))
        return effects

    def ages(self, homes: Iterable[str], now: int) -> dict[str, int]:
        """Age of the oldest barrier that has not come back, or the last round trip, if that is longer, ns, by home."""
        found: dict[str, int] = {}
        for home in homes:
            asked = self._asked.get(home)
            if asked is not None:
                found[home] = max([now - at for at in asked.sent.values()] + [self._round_trips.get(home, 0)])
        return found

    def _ask(self, home: str, now: int) -> Publish:
        asked = self._asked.setdefault(home, _Asked(self._first, now, {}))
        asked.last += 1
        asked.sent[asked.last] = asked.at = now
        return self._barrier(home, asked)

    def _again(self, home: str, now: int) -> Publish:
        """Repeat the last barrier, which covers all before it."""
        asked = self._asked[home]
        asked.at = now
        return self._barrier(home, asked)

    def _barrier(self, home: str, asked: _Asked) -> Publish:
        return Publish(self.topic_at(home), b"%d" % asked.last, home=self.over(home))

    def _measure(self, home: str, round_trip: int) -> None:
        before = self.latencies.get(home)
        measured = round_trip // 2
        self.latencies[home] = measured if before is None else round(before + SMOOTHING * (measured - before))


class HeldFilters:
    """Filters subscribed to, by home server."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes
        self._held: set[tuple[str, str]] = set()

    @property
    def homes(self) -> set[str]:
        """Servers with a filter."""
        return {home for home, _ in self._held}

    def at(self, home: str) -> list[str]:
        """Filters at a server, that of barriers last."""
        return [topic for each, topic in self._in_order(self._held) if each == home]

    def hold(self, needed: Iterable[tuple[str, str]]) -> list[Effect]:
        """Subscribe to these filters (home, filter), and to no others."""
        # Where a barrier is under way, messages sent before it are still to be delivered.
        awaited = self._homes.awaited
        filters = {*needed, *(each for each in self._held if each[0] in awaited)}
        added, dropped = self._in_order(filters - self._held), sorted(self._held - filters)
        self._held = filters
        if any(not home for home, _ in added):
            self._homes.filters_added()
        return [
            *(Subscribe(topic, home=self._homes.over(home)) for home, topic in added),
            *(Unsubscribe(topic, home=self._homes.over(home)) for home, topic in dropped),
        ]

    def _in_order(self, filters: set[tuple[str, str]]) -> list[tuple[str, str]]:
        # Barriers last: when one comes back, all filters before it were taken.
        return sorted(filters, key=lambda each: (each[1] == self._homes.topic, each))
