"""Simulated subscriber: subscribes to patterns and records composite events with the instants of arrival."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer, Answers
from distced.middleware.wire.codec import decode
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import administration_topic
from distced.policies.topology.model import Place
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.scenario_model import ScenarioSubscription
from distced.simulations.network.transport.fabric import Fabric

RETRY_AFTER: Final = SECOND
"""Delay until the application retries a failed subscription, ns."""


@dataclass(slots=True)
class Received:
    """A composite event and its arrival, ns of virtual time."""

    event: CompositeEvent
    at: int

    @property
    def delay(self) -> int:
        """From its `hi` to the arrival, ns; negative where the clock of a source is fast."""
        return self.at - self.event.hi


class SimulatedSubscription(SubscriptionState):
    """A subscription and its results.

    Attributes:
        asked: as in the scenario.
        answers: of nodes, with instants, ns.
        active_at: first activity of its detector, ns; None before.
        found: composite events by id, in order of arrival.
        refused: why it was refused or ended by others; else empty.
        lost: losses, in order of arrival.
        twice: number of composite events given a second time.
        killed: whether its subscriber was killed.
        is_back: whether it was made again by one that had been killed.
    """

    def __init__(self, client: str, asked: ScenarioSubscription, distribution: str) -> None:
        quality = QualityOfService(
            detection=asked.detection,
            consumption=asked.consumption,  # type: ignore[arg-type]
            constituents=asked.constituents,
            decomposition=asked.decomposition or None,  # type: ignore[arg-type]
            distribution=asked.distribution or distribution,
            hints=asked.hints,
            publish_json=asked.publish_json,
        )
        # As those of the shipped client: it reads the entries of its own subscriptions.
        super().__init__(f"{client}.{asked.name}", asked.pattern, quality)
        self.asked = asked
        self.answers: list[tuple[int, Answer]] = []
        self.active_at: int | None = None
        self.found: dict[EventId, Received] = {}
        self.refused = ""
        self.lost: list[Loss] = []
        self.twice = 0
        self.killed = self.is_back = False

    @property
    def watermark(self) -> int | None:
        """No further composite event has `hi` at or before it, ns; None where unknown."""
        return self.statistics.watermark

    @property
    def events(self) -> list[CompositeEvent]:
        """The composite events in order of arrival."""
        return [each.event for each in self.found.values()]


class SimulatedSubscriber(SimulatedClient):
    """Client that subscribes and keeps what arrives."""

    subscriptions: dict[str, SimulatedSubscription]  # type: ignore[assignment]

    def __init__(self, network: Fabric, place: Place, *, metered: bool = False) -> None:
        super().__init__(network, place, metered=metered)
        self._answers = administration_topic("answer", self.session.name)

    def subscribe(self, asked: ScenarioSubscription, distribution: str = "") -> SimulatedSubscription:
        """Subscribe; `distribution` is the policy where the subscription names none."""
        made = SimulatedSubscription(self.session.name, asked, distribution)
        self.subscriptions[made.id] = made
        self._subscribe(made)
        return made

    def unsubscribe(self, name: str) -> None:
        """End a subscription; its results stay."""
        identity = f"{self.session.name}.{name}"
        self.subscriptions[identity].ended = True
        self.do(self.session.unsubscribe(identity))

    def _subscribe(self, subscribed: SimulatedSubscription) -> None:
        def complete(error: DistcedError | None) -> None:
            if error is None:
                subscribed.active_at = self.network.engine.instant
            elif subscribed.answers and subscribed.answers[-1][1].state == "refused" and not subscribed.is_back:
                subscribed.refused = subscribed.answers[-1][1].message
            elif not subscribed.ended:
                self.network.engine.after(RETRY_AFTER, self._subscribe, subscribed)

        if self.alive and not subscribed.ended:
            self.do(self.session.subscribe(subscribed, subscribed.asked.definitions, complete))

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        if topic == self._answers:
            for answer in decode(payload, Answers, where=topic).answers:
                if answer.subscription in self.subscriptions:
                    self.subscriptions[answer.subscription].answers.append((self.network.engine.instant, answer))
        super().arrived(topic, payload, home)

    def took(self, subscription: SubscriptionState, items: Iterable[Event | Loss], home: str) -> None:
        assert isinstance(subscription, SimulatedSubscription)
        now = self.network.engine.instant
        for item in items:
            if isinstance(item, Loss):
                subscription.lost.append(item)
                continue
            assert isinstance(item, CompositeEvent)
            subscription.twice += item.id in subscription.found
            subscription.found[item.id] = Received(item, now)

    def ended(self, subscription: SubscriptionState, error: DistcedError) -> None:
        assert isinstance(subscription, SimulatedSubscription)
        subscription.refused = str(error)
