"""Where a new detector is to stand, and what of its pattern is left to others: asked of a policy, decided by a node."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.delegating import Delegating, Found, Planned
from brokers.detecting import Hosted
from brokers.directory import Directory
from brokers.placement import chosen
from brokers.policy_settings import PolicySettings
from middleware.protocol import SubscriptionEntry


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done for a subscription.

    Attributes:
        node: the node that is to host the detector.
        home: the home server of its topic.
        planned: the detector, and what is left to others.
        reason: why, one sentence for people.
    """

    node: str
    home: str
    planned: Planned
    reason: str


class Deciding:
    """Decides for a registrar."""

    def __init__(self, name: str, directory: Directory, delegating: Delegating, policies: PolicySettings) -> None:
        self.name = name
        self.directory = directory
        self.delegating = delegating
        self.policies = policies

    def decide(self, found: Found, entry: SubscriptionEntry, now: int) -> Decision:
        """Where the detector that a subscription asks for is to stand; `DistcedError` where it cannot be."""
        self.policies.of(entry, found.id)
        planned = self.delegating.plan(found, entry, self.directory.registry())
        node = chosen(found.id, self.directory.nodes) or self.name
        return Decision(node, self.directory.nodes[node].home, planned, "")

    def near(self, hosted: Hosted, entry: SubscriptionEntry) -> str:
        """The node that is to have a copy for a new subscription to a detector that is here; empty for none."""
        self.policies.of(entry, hosted.detector.id)
        return ""

    def another(self, hosted: Hosted, replicas: int) -> str:
        """The node that is to have a further copy, where too few nodes have one; empty where no node is left."""
        if 1 + len(hosted.copies) >= replicas:
            return ""
        free = self.directory.nodes.keys() - hosted.copies.keys() - {self.name}
        return chosen(hosted.detector.id, free) or ""
