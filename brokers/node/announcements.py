"""Announcements of a node about its detectors: entries of the directory, and answers to subscribers."""

from __future__ import annotations

from distced.brokers.core.effects import Publish
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.planning import home_of
from distced.brokers.node.shared import NodePart
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.directory_entries import DetectorEntry, SubscriptionEntry


class Announcements(NodePart):
    """Maker of a node's messages about its detectors."""

    def publish(self, hosted: HostedDetector) -> Publish:
        """Message with the entry of a detector here."""
        return self.put("detector", hosted.id, self.entry(hosted))

    def entry(self, hosted: HostedDetector) -> DetectorEntry:
        """Entry of a detector here."""
        detector = hosted.detector
        reads = None if hosted.reads is None else tuple(sorted(hosted.reads))
        return DetectorEntry(
            self.name,
            detector.compiled.text,
            detector.policy.name,
            reads,
            hosted.publishes,
            dict(detector.compiled.publishes.attributes),
            len(hosted.subscriptions),
            tuple(hosted.parts),
            hosted.planned.exports,
            hosted.home,
            dict(hosted.replicas),
            self._distribution(hosted),
            hosted.subscriptions.readers(self._home_of),
            hosted.expected,
            () if hosted.json is None else hosted.json.topics,
            hosted.notified or "",
            hosted.generation,
            hosted.output.life or hosted.output.planned,
            tuple(sorted(detector.compiled.published.undetermined)),
        )

    def _distribution(self, hosted: HostedDetector) -> str:
        try:
            return self.policies.of(hosted.planned.asked, hosted.detector.id).text
        except DistcedError:
            return ""

    def _home_of(self, client: str) -> str:
        return home_of(client, self.directory)

    def offer(self, name: str, entry: SubscriptionEntry, hosted: HostedDetector) -> Publish:
        """Offer of its detector to a subscription."""
        return self.reply(entry.client, self.answer(name, "offered", hosted))

    def answer(self, name: str, state: str, hosted: HostedDetector) -> Answer:
        """Answer to a subscription about its detector."""
        homes, output = self._homes_for(name, hosted), hosted.output
        life, number = (output.life, output.number) if homes == (hosted.home,) and output.life else (0, 0)
        known = output.base is not None and (life or hosted.detector.policy.name != "best-effort")
        watermark = hosted.published if known and state == "active" else None
        return Answer(
            name, state, hosted.detector.id, self.name, hosted.publishes, homes=homes, life=life, number=number,
            watermark=watermark,
        )  # fmt: skip

    def _homes_for(self, name: str, hosted: HostedDetector) -> tuple[str, ...]:
        """Homes for a subscription: that of a replica near it, all where it wants several, or that of the primary."""
        served = hosted.subscriptions.get(name)
        near = None if served is None else hosted.replicas.get(served.terms.near)
        if near is not None:
            return (near,)
        several = self.policies.replicas(self.directory.subscriptions.get(name), hosted.detector.id) > 1
        return tuple(sorted({hosted.home, *hosted.replicas.values()})) if several else (hosted.home,)
