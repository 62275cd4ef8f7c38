"""How the subscriptions of a client come about, and what keeps them up.

To a type one listens. For a pattern the client publishes an entry, and a broker node answers: it offers the topic of a
detector; the client listens there and says that it is ready; the node answers that the detector is active. When that
node is lost another one offers the detector again, and the client answers again, without the application's doing.
"""

from __future__ import annotations

from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from middleware.directory import Change
from middleware.errors import DistcedError, SubscriptionError
from middleware.presence import Presence
from middleware.protocol import Answer, SubscriptionEntry, decode
from middleware.subscription import Subscription
from middleware.topics import administration_topic, composite_topic, event_filter

if TYPE_CHECKING:
    from middleware.client import Client


class Subscribing:
    """The subscriptions of a client."""

    def __init__(self, client: Client, presence: Presence) -> None:
        self._client = client
        self._bus = client.bus
        self._root = client.root
        self._presence = presence
        self._subscriptions: dict[str, Subscription] = {}
        # What broker nodes say to subscriptions that are not complete yet.
        self._answers: dict[str, SimpleQueue[Answer]] = {}
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
            publishers = directory.publishers(name)
            known = subscription.event_type = directory.types.get(name)
        if not publishers:
            self._client.published_type(name)
        filters = [composite_topic(each, root=self._root) for each in publishers]
        if known is not None:
            filters.append(event_filter(name, root=self._root))
        self._subscriptions[subscription.id] = subscription
        try:
            self._listen(subscription, filters)
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
            quality.decomposition,
        )
        answers = self._answers[subscription.id] = SimpleQueue()
        try:
            self._presence.put("subscription", subscription.id, entry)
            answer = self._await_answer(answers)
            while answer.state == "offered":
                # By another node, perhaps, where one is lost meanwhile.
                self._accept(subscription, answer)
                answer = self._await_answer(answers)
            self._subscriptions[subscription.id] = subscription
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
        subscription.detector, subscription.node = offer.detector, offer.node
        self._listen(subscription, [composite_topic(offer.detector, root=self._root)])
        self._bus.publish(administration_topic("ready", subscription.id, root=self._root), b"", qos=1)

    def _listen(self, subscription: Subscription, filters: Iterable[str]) -> None:
        for topic_filter in filters:
            if topic_filter not in subscription.filters:
                subscription.filters.append(topic_filter)
                self._bus.subscribe(topic_filter, subscription.receive, qos=1, timeout=self._client.patience)

    def _listen_no_more(self, subscription: Subscription) -> None:
        for topic_filter in subscription.filters:
            self._bus.unsubscribe(topic_filter, subscription.receive)

    # On the thread of the bus.

    def _answered(self, topic: str, payload: bytes, retain: bool) -> None:
        answer = decode(payload, Answer, where=topic)
        waiting = self._answers.get(answer.subscription)
        if waiting is not None:
            waiting.put(answer)
            return
        subscription = self._subscriptions.get(answer.subscription)
        if subscription is not None and answer.state == "offered":
            self._accept(subscription, answer)
        elif subscription is not None and answer.state == "refused":
            self._presence.clear("subscription", subscription.id)
            self._fail(subscription, _refused(answer))

    def _changed(self, change: Change) -> None:
        if change.kind == "subscription" and change.entry is None:
            subscription = self._subscriptions.get(change.name)
            if subscription is not None:
                self._fail(subscription, SubscriptionError("somebody has cleared the subscription", given=change.name))
        elif change.kind == "detector" and change.entry is not None:
            for subscription in self.all():
                if subscription.type_name and subscription.type_name == change.entry.publishes:
                    self._listen(subscription, [composite_topic(change.name, root=self._root)])

    def _fail(self, subscription: Subscription, error: SubscriptionError) -> None:
        del self._subscriptions[subscription.id]
        self._listen_no_more(subscription)
        subscription.fail(error)


def _refused(answer: Answer) -> SubscriptionError:
    return SubscriptionError(answer.message, where=f"node {answer.node}")
