"""Simulated client: driver of `middleware.client.session` in virtual time.

Messages, connections and timers go to the session, and its effects onto simulated connections, in order. An operation
of the application is a callback with the error, or None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from distced.brokers.core.effects import Effect, Publish
from distced.middleware.client.client_effects import (
    ClientEffect,
    DetectorEnded,
    Done,
    Ended,
    Flush,
    Leave,
    LeftHome,
    Listen,
    NotAvailable,
    Redelivered,
    SetTimer,
    Waits,
)
from distced.middleware.client.session import ClientSession
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import METERED_EVERY
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.topics import ROOT, Area, directory_topic, matches
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric

PATIENCE: Final = 3_600 * SECOND
"""Patience of applications with nodes and servers, ns: longer than any fault of a scenario."""

FLUSHED_EVERY: Final = SECOND // 10
"""Interval between checks of a connection that is being flushed, ns."""

_AREA: Final = len(ROOT) + 1

Operation: TypeAlias = Callable[[DistcedError | None], object]


class SimulatedClient(Participant):
    """Driver of a client session.

    Attributes:
        session: its protocol.
        subscriptions: by id.
    """

    def __init__(
        self,
        network: Fabric,
        place: Place,
        name: str = "",
        patience: int = PATIENCE,
        outbox: Outbox | None = None,
        *,
        filters: bool = False,
        metered: bool = False,
    ) -> None:
        """
        Args:
            name: in the directory; by default of kind and name, for names in a topology are unique by kind only.
            patience: time that nodes and servers have to answer, ns.
            outbox: of its sources, if chosen.
            filters: whether these leave out events that nobody reads.
            metered: whether its link is.
        """
        super().__init__(network, place)
        called = name or f"{place.kind}-{place.name}"
        self.session = ClientSession(
            called, home=self.home, patience=patience, outbox=outbox, filters=filters, metered=metered
        )
        if metered:
            self.keepalive = METERED_EVERY
        self.subscriptions: dict[str, SubscriptionState] = {}
        # The subscriptions behind each `Listen`, by home and filter, then by id.
        self._routes: dict[tuple[str, str], dict[str, SubscriptionState]] = {}
        self._effects: deque[ClientEffect | Effect] = deque()
        self._carrying = False

    def stop(self) -> None:
        """Stop with a farewell."""
        self.do(self.session.stop(lambda error: self.end()))

    def heard(self, subscription: SubscriptionState, topic: str, payload: bytes, home: str) -> None:
        """Handle a message of a subscription, from a home."""
        self.took(subscription, subscription.arrived(topic, payload, self.network.engine.instant, home), home)
        self._look_whether_complete(subscription)

    def _look_whether_complete(self, subscription: SubscriptionState) -> None:
        if not subscription.complete:
            self.do(self.session.subscriptions.missing.incomplete(subscription.id, self.network.engine.instant))

    def took(self, subscription: SubscriptionState, items: Iterable[Event | Loss], home: str) -> None:
        """Handle events of a subscription, and losses."""

    def ended(self, subscription: SubscriptionState, error: DistcedError) -> None:
        """Handle the end of a subscription by others."""

    def waits(self, subscription: SubscriptionState, reason: str) -> None:
        """Handle the suspension of a subscription, or with an empty reason its resumption."""

    # As any driver of a client session.

    def begin(self) -> None:
        super().begin()
        self.do(self.session.begin())

    def do(self, effects: Iterable[ClientEffect | Effect]) -> None:
        self._effects.extend(effects)
        if self._carrying:
            return
        self._carrying = True
        while self._effects:
            self._carry(self._effects.popleft())
        self._carrying = False

    def _carry(self, effect: ClientEffect | Effect) -> None:
        match effect:
            case Listen(subscription=identity, home=home, topic_filter=topic_filter, number=number):
                self._routes.setdefault((home, topic_filter), {})[identity] = self.subscriptions[identity]
                self.connection(home).subscribe(topic_filter, 1, lambda: self.do(self.session.confirmed(number)))
            case Leave(subscription=identity, home=home, topic_filter=topic_filter):
                left = self._routes[home, topic_filter]
                del left[identity]
                if not left:
                    del self._routes[home, topic_filter]
                    self.connection(home).unsubscribe(topic_filter)
            case SetTimer(delay=delay, number=number):
                self.network.engine.after(delay, self._fired, number)
            case Flush():
                self._flush(effect, self.network.engine.instant + effect.timeout)
            case Done(operation=operation, error=error):
                operation(error)
            case Ended(subscription=identity, error=error):
                self.ended(self.subscriptions[identity], error)
            case Redelivered(subscription=identity, home=home, topic=topic, payload=payload):
                self.heard(self.subscriptions[identity], topic, payload, home)
            case NotAvailable(subscription=identity, home=home, lost=lost):
                subscription, now = self.subscriptions[identity], self.network.engine.instant
                self.took(subscription, subscription.unavailable(home, lost, now), home)
                self._look_whether_complete(subscription)
            case LeftHome(subscription=identity, home=home):
                subscription = self.subscriptions[identity]
                self.took(subscription, subscription.left(home, self.network.engine.instant), home)
                self._look_whether_complete(subscription)
            case DetectorEnded(subscription=identity, detector=detector):
                subscription, now = self.subscriptions[identity], self.network.engine.instant
                self.took(subscription, subscription.unfollow(detector, now), "")
            case Waits(subscription=identity, reason=reason):
                self.waits(self.subscriptions[identity], reason)
            case _:
                super().do([effect])

    def _fired(self, number: int) -> None:
        if self.alive:
            self.do(self.session.fired(number, self.network.engine.instant))

    def _flush(self, flush: Flush, deadline: int) -> None:
        engine = self.network.engine
        if self.connection(flush.home).waiting and engine.instant < deadline:
            engine.after(FLUSHED_EVERY, self._flush, flush, deadline)
        else:
            self._fired(flush.number)

    def will_for(self, home: str) -> Publish | None:
        return None if home else Publish(directory_topic("client", self.session.name), b"", retain=True)

    def connected(self, home: str) -> None:
        self.do(self.session.connected(home, self.network.engine.instant))

    def disconnected(self, home: str) -> None:
        self.do(self.session.lost(home, BusError("connection lost", where=home)))

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        if topic[_AREA] not in (Area.EVENTS, Area.COMPOSITE_EVENTS):
            self.do(self.session.receive(topic, payload, self.network.engine.instant, home))
            return
        routes = self._routes.get((home, topic))
        if routes is None:
            wanted = [each for (at, some), each in self._routes.items() if at == home and matches(some, topic)]
            routes = {name: subscription for each in wanted for name, subscription in each.items()}
        for subscription in list(routes.values()):
            self.heard(subscription, topic, payload, home)
