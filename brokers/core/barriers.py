"""The servers a node is connected to, and what waits until one of them has taken what was sent to it.

Topics have home servers, and a node speaks to each server over a connection of its own (design, section 4). Within a
connection everything keeps its order; between two nothing is promised. Where one thing has to follow another on two
servers, the node *flushes*: it publishes a marker to itself behind the first, and does the second when the marker comes
back. By then the server has taken the subscriptions and messages that were sent before the marker, and has handed on
all that was published before it got there. What goes through the server of the directory needs no marker, since
whatever depends on it goes through that server, too.

The way of a marker is also how long messages take to a server. Acknowledged subscriptions were rejected as the signal:
they say nothing of the messages that are still on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from distced.brokers.core.effects import Effect, Note, Publish
from distced.middleware.model.errors import FrameError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.topics import administration_topic

ASK_EVERY: Final = SECOND // 2
"""How often a server is asked for a marker that has not come back, ns."""

SILENT: Final = 3 * SECOND
"""After how long it is said that a server does not answer, ns."""

MEASURE_EVERY: Final = 30 * SECOND
"""How often the way to a server is measured where nothing else is asked of it, ns."""

SMOOTHING: Final = 0.3
"""The weight of a new measurement of the way to a server."""

Then: TypeAlias = Callable[[int], list[Effect]]
"""What is to be done then; it is told the time."""


@dataclass(slots=True)
class _Flush:
    """Something that waits for markers.

    Attributes:
        markers: by home, the number of the marker that has to come back.
        then: what is done when all have.
    """

    markers: dict[str, int]
    then: Then


@dataclass(slots=True)
class _Asked:
    """Markers on their way to a home and back.

    Attributes:
        last: the number of the last one.
        at: when the last one was sent, ns.
        sent: when each was sent that has not come back, ns.
    """

    last: int
    at: int
    sent: dict[int, int]


class Homes:
    """The servers of a node.

    Attributes:
        latencies: how long a message takes to each and back, halved, ns; smoothed.
    """

    def __init__(self, name: str, root: str, first: int = 0) -> None:
        """
        Args:
            first: markers have numbers beyond this; of those before, some may still come that an earlier life has sent.
        """
        self._first = first
        self.topic = administration_topic("known", name, root=root)
        self.latencies: dict[str, int] = {}
        self._asked: dict[str, _Asked] = {}
        self._waiting: list[_Flush] = []
        self._measured: dict[str, int] = {}
        # Of which it was said that they do not answer.
        self._silent: set[str] = set()

    @property
    def awaited(self) -> set[str]:
        """The servers from which a marker is to come back that something waits for."""
        return {home for flush in self._waiting for home in flush.markers}

    def flush(self, homes: Iterable[str], then: Then, now: int) -> list[Effect]:
        """Do something when these servers have taken what was sent to them; at once for that of the directory."""
        others = sorted({home for home in homes if home})
        if not others:
            return then(now)
        effects: list[Effect] = [self._ask(home, now) for home in others]
        self._waiting.append(_Flush({home: self._asked[home].last for home in others}, then))
        return effects

    def answered(self, home: str, payload: bytes, now: int) -> list[Effect]:
        """A marker has come back."""
        try:
            number = int(payload)
        except ValueError:
            raise FrameError("no marker", given=bytes(payload[:80]), allowed="a number", where=self.topic) from None
        asked = self._asked.get(home)
        if asked is None or number not in asked.sent:
            return []
        self._measure(home, now - asked.sent[number], now)
        asked.sent = {each: at for each, at in asked.sent.items() if each > number}
        effects: list[Effect] = []
        waiting, self._waiting = self._waiting, []
        for flush in waiting:
            if flush.markers.get(home, number + 1) <= number:
                del flush.markers[home]
            if flush.markers:
                self._waiting.append(flush)
            else:
                effects += flush.then(now)
        return effects

    def linked(self, home: str, now: int) -> list[Effect]:
        """A connection stands, perhaps again: what was asked over the one before does not come back."""
        asked = self._asked.get(home)
        if asked is None or not asked.sent:
            return []
        # How long it took to connect says nothing of the way.
        asked.sent = dict.fromkeys(asked.sent, now)
        return [self._again(home, now)]

    def tick(self, homes: Iterable[str], now: int) -> list[Effect]:
        """Time has passed: ask again, and measure the ways to the servers that are in use."""
        effects: list[Effect] = []
        for home, asked in self._asked.items():
            if not asked.sent:
                self._silent.discard(home)
            elif now - asked.at >= ASK_EVERY:
                effects.append(self._again(home, now))
                if now - min(asked.sent.values()) > SILENT and home not in self._silent:
                    self._silent.add(home)
                    waiting = sum(home in each.markers for each in self._waiting)
                    effects.append(Note("warning", "a server does not answer", {"home": home, "waiting": waiting}))
        for home in sorted(set(homes)):
            if home and now - self._measured.get(home, now - MEASURE_EVERY) >= MEASURE_EVERY:
                self._measured[home] = now
                effects.append(self._ask(home, now))
        return effects

    def _ask(self, home: str, now: int) -> Publish:
        asked = self._asked.setdefault(home, _Asked(self._first, now, {}))
        asked.last += 1
        asked.sent[asked.last] = asked.at = now
        return Publish(self.topic, b"%d" % asked.last, home=home)

    def _again(self, home: str, now: int) -> Publish:
        """The last marker once more: it stands for all before it."""
        asked = self._asked[home]
        asked.at = now
        return Publish(self.topic, b"%d" % asked.last, home=home)

    def _measure(self, home: str, both_ways: int, now: int) -> None:
        self._measured[home] = now
        before = self.latencies.get(home)
        measured = both_ways // 2
        self.latencies[home] = measured if before is None else round(before + SMOOTHING * (measured - before))
