"""How the subscriptions of a client come about, and what keeps them up.

To a type one listens. For a pattern the client publishes an entry, and a broker node answers: it offers the topic of a
detector, and says at which servers it is; the client listens there and says that it is ready; the node answers that the
detector is active. When that node is lost another one offers the detector again, elsewhere perhaps, and the client
answers again, without the application's doing. Where it listened before it goes on listening for a while, for something
may still be on its way.

A client says that it is ready when the servers have confirmed that it listens. On the thread of a bus nobody may wait
for that; the server of the directory, where the word is said, takes both in order, and for others a thread waits.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import structlog

from distced.middleware.bus.pool import Connections
from distced.middleware.client.directory_session import Presence
from distced.middleware.client.subscription import Place, Subscription
from distced.middleware.listening import Listening
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.wire.directory import Change
from distced.middleware.wire.directory_entries import Answer, DetectorEntry, SubscriptionEntry, decode
from distced.middleware.wire.topics import administration_topic, composite_topic, event_filter

if TYPE_CHECKING:
    from distced.middleware.client.client import Client

LINGER: Final = 10.0
"""Seconds to go on listening where a detector has published before, when it publishes elsewhere."""

_log = structlog.get_logger("distced.client")


class Subscribing:
    """The subscriptions of a client."""

    def __init__(self, client: Client, presence: Presence, connections: Connections) -> None:
        self._client = client
        self._bus = connections.main
        self._listening = Listening(connections)
        self._root = client.root
        self._presence = presence
        self._subscriptions: dict[str, Subscription] = {}
        # What broker nodes say to subscriptions that are not complete yet.
        self._answers: dict[str, SimpleQueue[Answer]] = {}
        # Offers that a thread is about to accept: the last one of each subscription.
        self._accepting: dict[str, Answer] = {}
        self._accepting_changes = threading.Lock()
        presence.on_change = self._changed

    def listen(self) -> None:
        """Subscribe to what it hears; before the bus starts."""
        topic = administration_topic("answer", self._client.name, root=self._root)
        self._bus.subscribe(topic, self._answered, qos=1)

    def all(self) -> list[Subscription]:
        """Those that are complete."""
        return list(self._subscriptions.values())

    def to_type(self, subscription: Subscription, name: str) -> None:
        """Listen to the events of a type, whoever publishes them: sources, or detectors."""
        subscription.type_name = name
        with self._presence.changed:
            directory = self._presence.directory
            publishers = {each: directory.detectors[each] for each in directory.publishers(name)}
            known = subscription.event_type = directory.types.get(name)
            homes = {source.home for source in directory.sources.values() if name in source.types}
        if not publishers:
            self._client.published_type(name)
        places = [place for each, entry in publishers.items() for place in self._places(each, entry)]
        if known is not None:
            # Who publishes without a word of it beforehand does so at the server of the directory.
            places += [self._events_at(home, name) for home in homes | {""}]
        self._subscriptions[subscription.id] = subscription
        try:
            self._listening.listen(subscription, places, self._client.patience)
        except DistcedError:
            self.end(subscription)
            raise

    def to_pattern(self, subscription: Subscription, definitions: dict[str, str]) -> None:
        """Have a pattern detected. Raises `SubscriptionError` where it is refused, or nobody answers."""
        quality = subscription.quality
        entry = SubscriptionEntry(
            self._client.name,
            subscription.pattern,
            definitions,
            quality.consumption,
            quality.detection,
            quality.constituents,
            quality.decomposition or "",
            distribution=quality.distribution,
            hints=quality.hints,
        )
        answers = self._answers[subscription.id] = SimpleQueue()
        try:
            self._presence.put("subscription", subscription.id, entry)
            answer = self._await_answer(answers)
            while answer.state == "offered" or _elsewhere(subscription, answer):
                # By another node, perhaps, where one is lost meanwhile.
                self._accept(subscription, answer)
                answer = self._await_answer(answers)
            self._subscriptions[subscription.id] = subscription
            self._leave_others_later(subscription)
        except DistcedError:
            self._presence.clear("subscription", subscription.id)
            self._listen_no_more(subscription)
            raise
        finally:
            del self._answers[subscription.id]

    def end(self, subscription: Subscription) -> None:
        """End a subscription, if it has not ended yet."""
        if self._subscriptions.pop(subscription.id, None) is None:
            return
        self._listen_no_more(subscription)
        if not subscription.type_name:
            self._presence.clear("subscription", subscription.id)
        subscription.end()

    def _await_answer(self, answers: SimpleQueue[Answer]) -> Answer:
        client = self._client
        try:
            answer = answers.get(timeout=client.patience)
        except Empty:
            raise SubscriptionError(
                "no broker node has answered",
                given=f"after {client.patience} s",
                allowed=f"{len(client.nodes)} nodes are known",
                where=str(self._bus.address),
                advice="look at the log of the nodes" if client.nodes else "start one with `distced broker`",
            ) from None
        if answer.state == "refused":
            raise _refused(answer)
        return answer

    def _accept(self, subscription: Subscription, offer: Answer) -> None:
        """Listen to the detector that is offered, and say so; waits for servers."""
        places = self._take(subscription, offer)
        self._listening.listen(subscription, places, self._client.patience)
        self._say_ready(subscription)

    def _take(self, subscription: Subscription, offer: Answer) -> list[Place]:
        subscription.detector, subscription.node, subscription.homes = offer.detector, offer.node, offer.homes
        return self._places_offered(subscription)

    def _say_ready(self, subscription: Subscription) -> None:
        self._bus.publish(administration_topic("ready", subscription.id, root=self._root), b"", qos=1)

    def _accept_offers(self, subscription: Subscription) -> None:
        """On a thread of its own: accept what is offered, until it was the last offer."""
        identity = subscription.id
        while True:
            offer = self._accepting[identity]
            try:
                self._accept(subscription, offer)
            except DistcedError as error:
                # The offer is repeated until it is taken.
                _log.warning("an offer cannot be taken yet", subscription=identity, node=offer.node, reason=str(error))
            with self._accepting_changes:
                if self._accepting[identity] == offer:
                    del self._accepting[identity]
                    break
        if identity not in self._subscriptions:
            self._listen_no_more(subscription)

    def _leave_others_later(self, subscription: Subscription) -> None:
        """Leave where the detector does not publish any more, in a while."""
        if self._places_besides(subscription):
            self._bus.call_later(LINGER, lambda: self._leave_others(subscription))

    def _leave_others(self, subscription: Subscription) -> None:
        if any(subscription.places.get(place) for place in self._places_offered(subscription)):
            self._listening.leave(subscription, self._places_besides(subscription))

    def _listen_no_more(self, subscription: Subscription) -> None:
        self._listening.leave(subscription, list(subscription.places))

    def _places_offered(self, subscription: Subscription) -> list[Place]:
        topic = composite_topic(subscription.detector, root=self._root)
        return [Place(home, topic) for home in subscription.homes]

    def _places_besides(self, subscription: Subscription) -> list[Place]:
        offered = self._places_offered(subscription)
        return [place for place in list(subscription.places) if place not in offered]

    def _places(self, detector: str, entry: DetectorEntry) -> list[Place]:
        """Where a detector and its copies publish."""
        topic = composite_topic(detector, root=self._root)
        return [Place(home, topic) for home in sorted({entry.home, *entry.copies.values()})]

    def _events_at(self, home: str, type_name: str) -> Place:
        return Place(home, event_filter(type_name, root=self._root))

    # On the thread of the bus.

    def _answered(self, topic: str, payload: bytes, retain: bool) -> None:
        answer = decode(payload, Answer, where=topic)
        waiting = self._answers.get(answer.subscription)
        if waiting is not None:
            waiting.put(answer)
            return
        subscription = self._subscriptions.get(answer.subscription)
        if subscription is None:
            return
        match answer.state:
            case "offered":
                self._accept_soon(subscription, answer)
            case "active" if _elsewhere(subscription, answer):
                # Its offer was overtaken by that of a node that has given the detector up.
                self._accept_soon(subscription, answer)
            case "active":
                self._leave_others_later(subscription)
            case "refused":
                self._presence.clear("subscription", subscription.id)
                self._fail(subscription, _refused(answer))

    def _accept_soon(self, subscription: Subscription, offer: Answer) -> None:
        with self._accepting_changes:
            busy = subscription.id in self._accepting
            if busy or any(offer.homes):
                self._accepting[subscription.id] = offer
        if busy:
            return
        if any(offer.homes):
            name = f"distced-offer-{subscription.id}"
            threading.Thread(target=self._accept_offers, args=(subscription,), name=name, daemon=True).start()
            return
        places = self._take(subscription, offer)
        self._listening.begin(subscription, places)
        # The server takes the subscription first.
        subscription.places.update(dict.fromkeys(places, True))
        self._say_ready(subscription)

    def _changed(self, change: Change) -> None:
        entry = change.entry
        if entry is None:
            subscription = self._subscriptions.get(change.name) if change.kind == "subscription" else None
            if subscription is not None:
                self._fail(subscription, SubscriptionError("somebody has cleared the subscription", given=change.name))
        elif change.kind == "detector":
            for subscription in self.all():
                if subscription.type_name and subscription.type_name == entry.publishes:
                    self._listening.begin(subscription, self._places(change.name, entry))
        elif change.kind == "source":
            for subscription in self.all():
                if subscription.event_type is not None and subscription.type_name in entry.types:
                    self._listening.begin(subscription, [self._events_at(entry.home, subscription.type_name)])

    def _fail(self, subscription: Subscription, error: SubscriptionError) -> None:
        del self._subscriptions[subscription.id]
        self._listen_no_more(subscription)
        subscription.fail(error)


def _refused(answer: Answer) -> SubscriptionError:
    return SubscriptionError(answer.message, where=f"node {answer.node}")


def _elsewhere(subscription: Subscription, answer: Answer) -> bool:
    """Whether a detector is said to be at work elsewhere than where a subscription listens."""
    return (answer.detector, set(answer.homes)) != (subscription.detector, set(subscription.homes))
