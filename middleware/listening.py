"""Where subscriptions listen: topics at one server or at several, each confirmed before it is counted on.

The composite events of a detector are published at its home server, those of its copies at theirs, and events of a type
wherever sources have their home. What comes twice is told apart by its id, so a subscription may listen at several
places at once. One that cannot be reached is waited for no longer than the others take, and listened to as soon as it
can be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import structlog

from distced.middleware.bus.pool import Connections
from distced.middleware.client.subscription import Place, Subscription
from distced.middleware.model.errors import BusError, SubscriptionError

AT_LEAST: Final = 0.5
"""Seconds a server has to confirm something, however long others took."""

_log = structlog.get_logger("distced.client")


class Listening:
    """Has subscriptions listen at places."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        # Nobody begins to listen twice at one place.
        self._beginning = threading.Lock()

    def listen(self, subscription: Subscription, places: Iterable[Place], timeout: float) -> None:
        """Listen, and wait up to so many seconds until the servers confirm it; on no thread of a bus.

        Raises:
            BusError: where the server of the directory does not confirm it.
            SubscriptionError: where it is meant for other servers, and none of them confirms it. Where some do the
                others are logged.
        """
        deadline = time.monotonic() + timeout
        connected = {home for home, bus in self._connections.all().items() if bus.connected}
        wanted = sorted(set(places), key=lambda place: (place.home not in connected, place))
        missing: dict[str, BusError] = {}
        self._open(wanted)
        for place in wanted:
            if subscription.places.get(place):
                continue
            try:
                self._confirm(subscription, place, deadline - time.monotonic())
            except BusError as error:
                if not place.home:
                    raise
                missing[place.home] = error
        if missing and len(missing) == len({place.home for place in wanted}):
            home, reason = next(iter(missing.items()))
            raise SubscriptionError(
                "none of the servers where it is published can be listened to",
                given=", ".join(missing),
                where=home,
                advice=str(reason),
            )
        for home, reason in missing.items():
            fields = {"subscription": subscription.id, "home": home, "reason": str(reason)}
            _log.warning("a server cannot be listened to yet", **fields)

    def begin(self, subscription: Subscription, places: Iterable[Place]) -> None:
        """Listen, without waiting for anything."""
        for place in places:
            try:
                bus = self._connections.to(place.home)
            except BusError as error:
                fields = {"subscription": subscription.id, "home": place.home, "reason": str(error)}
                _log.warning("a server cannot be listened to", **fields)
                continue
            with self._beginning:
                if place not in subscription.places:
                    subscription.places[place] = False
                    bus.subscribe(place.filter, subscription.receive, qos=1)

    def leave(self, subscription: Subscription, places: Iterable[Place]) -> None:
        """Listen there no more."""
        for place in places:
            if subscription.places.pop(place, None) is not None:
                self._connections.to(place.home).unsubscribe(place.filter, subscription.receive)

    def _open(self, places: Iterable[Place]) -> None:
        """Have the connections come about side by side."""
        for place in places:
            with suppress(BusError):
                self._connections.to(place.home)

    def _confirm(self, subscription: Subscription, place: Place, timeout: float) -> None:
        connections = self._connections
        error = connections.wait(place.home, max(timeout, 0.0)) if place.home else None
        if error is not None:
            self.begin(subscription, [place])
            raise error
        bus = connections.to(place.home)
        with self._beginning:
            if place in subscription.places:
                # Asked for before, when nobody could answer; only what is asked for now is confirmed to whoever waits.
                bus.unsubscribe(place.filter, subscription.receive)
            subscription.places[place] = False
        bus.subscribe(place.filter, subscription.receive, qos=1, timeout=max(timeout, AT_LEAST))
        subscription.places[place] = True
