"""MQTT filters that a participant holds at servers: subscriptions follow from the filters it needs."""

from __future__ import annotations

from collections.abc import Iterable

from distced.brokers.core.barriers import Homes
from distced.brokers.core.effects import Effect, Subscribe, Unsubscribe


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
        return [
            *(Subscribe(topic, home=home) for home, topic in added),
            *(Unsubscribe(topic, home=home) for home, topic in dropped),
        ]

    def _in_order(self, filters: set[tuple[str, str]]) -> list[tuple[str, str]]:
        # Barriers last: when one comes back, all filters before it were taken.
        return sorted(filters, key=lambda each: (each[1] == self._homes.topic, each))
