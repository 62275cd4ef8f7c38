"""A subscriber in the simulation: has patterns detected, and notes what arrives when.

The protocol of `middleware.client.subscription_session`: the subscription is an entry of the directory; a node offers a
detector's topic; the subscriber listens at its homes and, once the servers have taken that, says that it is ready; the
node says that the detector is at work. When another node offers the detector again, the subscriber answers again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from distced.brokers.core.effects import Publish, Subscribe
from distced.middleware.model.events import CompositeEvent, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Answer, SubscriptionEntry, decode
from distced.middleware.wire.frames import decode as decode_frame
from distced.middleware.wire.topics import administration_topic, composite_topic
from distced.policies.topology.model import Place
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.scenario_model import Asked

if TYPE_CHECKING:
    from distced.simulations.network.network import Network

LINGER: Final = 10 * SECOND
"""How long it goes on listening where a detector was before, ns; as a client does."""


@dataclass(slots=True)
class Received:
    """A composite event that has arrived.

    Attributes:
        event: it.
        at: when, ns of virtual time.
        delay: from its `hi`, the moment of detection, to its arrival, ns; negative where the clock of a source is fast.
    """

    event: CompositeEvent
    at: int

    @property
    def delay(self) -> int:
        return self.at - self.event.hi


@dataclass(slots=True)
class Subscribed:
    """A subscription, and what came of it.

    Attributes:
        asked: what was asked for.
        answers: what nodes have said, each with the instant, ns.
        detector, node: who serves it.
        homes: where its composite events are listened to.
        active_at: when its detector was at work first, ns; None before.
        found: what has arrived, each composite event once, in order of arrival.
        again: how many messages brought one that had come before.
        watermark: no composite event with `hi` at or before this will come any more, ns; None where nothing is known.
    """

    asked: Asked
    answers: list[tuple[int, Answer]] = field(default_factory=list)
    detector: str = ""
    node: str = ""
    homes: tuple[str, ...] = ()
    active_at: int | None = None
    found: dict[EventId, Received] = field(default_factory=dict)
    again: int = 0
    watermark: int | None = None

    @property
    def refused(self) -> str:
        """Why it was refused; empty where it was not."""
        last = self.answers[-1][1] if self.answers else None
        return last.message if last is not None and last.state == "refused" else ""

    @property
    def events(self) -> list[CompositeEvent]:
        """What has arrived, in order of arrival."""
        return [each.event for each in self.found.values()]


class SimulatedSubscriber(SimulatedClient):
    """A subscriber.

    Attributes:
        subscriptions: by name.
    """

    def __init__(self, network: Network, place: Place) -> None:
        super().__init__(network, place)
        self.subscriptions: dict[str, Subscribed] = {}
        # Which subscriptions the topic of each detector serves.
        self._served: dict[str, list[Subscribed]] = {}

    def subscribe(self, asked: Asked, distribution: str = "") -> Subscribed:
        """Have a pattern detected; by this distribution policy, where it names none."""
        made = self.subscriptions[asked.name] = Subscribed(asked)
        wanted = asked.distribution or distribution
        by_policy = "" if wanted and asked.detection == "guaranteed" else "none"
        entry = SubscriptionEntry(
            self.client,
            asked.pattern,
            dict(asked.definitions),
            asked.consumption,
            asked.detection,
            asked.constituents,
            asked.decomposition or by_policy,
            distribution=wanted,
            hints=asked.hints,
        )
        self.put("subscription", asked.name, entry)
        return made

    def unsubscribe(self, name: str) -> None:
        """End a subscription; what has arrived stays."""
        self.clear("subscription", name)
        subscribed = self.subscriptions[name]
        for topic, served in self._served.items():
            if subscribed in served:
                served.remove(subscribed)
            if not served:
                for connection in self.connections.values():
                    connection.unsubscribe(topic)

    # What happens to it.

    def connected(self, home: str) -> None:
        super().connected(home)
        if not home:
            self.do([Subscribe(administration_topic("answer", self.client))])

    def heard(self, levels: tuple[str, ...], payload: bytes, topic: str, home: str) -> None:
        if levels[0] != "answer":
            return
        answer = decode(payload, Answer, where=topic)
        subscribed = self.subscriptions.get(answer.subscription)
        if subscribed is None:
            return
        now = self.network.engine.instant
        subscribed.answers.append((now, answer))
        if answer.state == "offered":
            self._accept(subscribed, answer)
        elif answer.state == "active":
            subscribed.node = answer.node
            if subscribed.active_at is None:
                subscribed.active_at = now
            if (answer.detector, set(answer.homes)) != (subscribed.detector, set(subscribed.homes)):
                # Its offer was overtaken by that of a node that has given the detector up.
                self._accept(subscribed, answer)
            self.network.engine.after(LINGER, self._leave_others, subscribed)

    def told(self, topic: str, payload: bytes, home: str) -> None:
        frame = decode_frame(payload, where=topic)
        now = self.network.engine.instant
        for subscribed in self._served.get(topic, ()):
            for event in frame.events:
                assert isinstance(event, CompositeEvent)
                if event.again or event.id in subscribed.found:
                    subscribed.again += 1
                else:
                    subscribed.found[event.id] = Received(event, now)
            if frame.watermark is not None and (subscribed.watermark is None or frame.watermark > subscribed.watermark):
                subscribed.watermark = frame.watermark

    def _leave_others(self, subscribed: Subscribed) -> None:
        """Leave where the detector does not publish any more."""
        own = composite_topic(subscribed.detector)
        for topic, served in self._served.items():
            if subscribed in served and topic != own:
                served.remove(subscribed)
            homes = {home for each in served for home in each.homes}
            for home, connection in self.connections.items():
                if home not in homes:
                    connection.unsubscribe(topic)

    def _accept(self, subscribed: Subscribed, offer: Answer) -> None:
        subscribed.detector, subscribed.node, subscribed.homes = offer.detector, offer.node, offer.homes
        topic = composite_topic(offer.detector)
        served = self._served.setdefault(topic, [])
        if subscribed not in served:
            served.append(subscribed)
        missing = len(offer.homes)

        def taken() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                self.do([Publish(administration_topic("ready", subscribed.asked.name), b"")])

        for home in offer.homes:
            self.connection(home).subscribe(topic, 1, taken)
