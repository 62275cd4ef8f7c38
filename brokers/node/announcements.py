"""What a node tells of its detectors: their entries in the directory, and answers to those who subscribe."""

from __future__ import annotations

from collections import Counter

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Publish
from distced.brokers.node.event_path import Hosted
from distced.brokers.node.planning import home_of
from distced.brokers.node.policy_settings import PolicySettings
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import Answer, DetectorEntry, SubscriptionEntry, encode
from distced.middleware.wire.topics import administration_topic, directory_topic


class Telling:
    """Makes the messages of a node about its detectors."""

    def __init__(self, name: str, root: str, directory: Directory, policies: PolicySettings) -> None:
        self.name = name
        self.root = root
        self.directory = directory
        self.policies = policies

    def entry(self, hosted: Hosted) -> Publish:
        """What a detector here is."""
        detector = hosted.detector
        entry = DetectorEntry(
            self.name,
            detector.compiled.text,
            detector.policy.name,
            None if hosted.reads is None else tuple(sorted(hosted.reads)),
            hosted.publishes,
            dict(detector.compiled.publishes.attributes),
            len(hosted.subscriptions),
            tuple(hosted.parts),
            hosted.planned.exports,
            hosted.home,
            dict(hosted.copies),
            self._distribution(hosted),
            self._readers(hosted),
            hosted.expected,
        )
        return self.publish(detector.id, entry)

    def publish(self, identity: str, entry: DetectorEntry) -> Publish:
        """An entry of a detector, as a message."""
        return Publish(directory_topic("detector", identity, root=self.root), encode(entry), retain=True)

    def _distribution(self, hosted: Hosted) -> str:
        try:
            return self.policies.of(hosted.planned.asked, hosted.detector.id).text
        except DistcedError:
            return ""

    def _readers(self, hosted: Hosted) -> dict[str, int]:
        """How many listen, by the home of who does."""
        entries = [self.directory.subscriptions.get(name) for name in hosted.subscriptions]
        # Whoever subscribes several times, as a node for several detectors, has one connection.
        clients = dict.fromkeys(each.client for each in entries if each is not None)
        return dict(Counter(home_of(client, self.directory) for client in clients))

    def clear(self, kind: str, name: str) -> Publish:
        """An entry is to go."""
        return Publish(directory_topic(kind, name, root=self.root), b"", retain=True)

    def offer(self, name: str, entry: SubscriptionEntry, hosted: Hosted) -> Publish:
        """A subscription is offered its detector."""
        return self.answer(entry.client, self.told(name, "offered", hosted))

    def told(self, name: str, state: str, hosted: Hosted) -> Answer:
        """What a subscription is told of its detector."""
        return Answer(name, state, hosted.detector.id, self.name, hosted.publishes, homes=self._homes_for(name, hosted))

    def _homes_for(self, name: str, hosted: Hosted) -> tuple[str, ...]:
        """Where a subscription listens: at a copy near it, at all where it wants several, or at the primary."""
        near = hosted.copies.get(hosted.near.get(name, ""))
        if near is not None:
            return (near,)
        several = self.policies.replicas(self.directory.subscriptions.get(name), hosted.detector.id) > 1
        return tuple(sorted({hosted.home, *hosted.copies.values()})) if several else (hosted.home,)

    def answer(self, client: str, answer: Answer) -> Publish:
        """An answer to who subscribes."""
        return Publish(administration_topic("answer", client, root=self.root), encode(answer))
