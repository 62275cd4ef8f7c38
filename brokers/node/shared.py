"""State that the parts of a broker node share, and their messages to other participants."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Publish
from distced.brokers.node.event_path import EventPath
from distced.brokers.node.policy_settings import PolicySettings
from distced.detectors.limits import Limits
from distced.detectors.runtime.engine_switch import Engines
from distced.middleware.wire.administration import Answer, Answers
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.topics import administration_topic, directory_topic


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared state of a node.

    Attributes:
        home: server of its site; empty for that of the directory.
        reserved: the only detector it hosts; empty for any.
        event_path: its detectors, and their stories.
        homes: connected servers.
        engines: choice of engines for its detectors; None for the stepwise engine.
        limits: of each of its detectors.
    """

    name: str
    root: str
    home: str
    reserved: str
    directory: Directory
    event_path: EventPath
    homes: Homes
    policies: PolicySettings
    engines: Engines | None
    limits: Limits


class NodePart:
    """Part of a node, with access to the shared state."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.name = shared.name
        self.root = shared.root
        self.home = shared.home
        self.reserved = shared.reserved
        self.directory = shared.directory
        self.event_path = shared.event_path
        self.homes = shared.homes
        self.policies = shared.policies
        self.happened = shared.event_path.stories.happened

    def put(self, kind: str, name: str, entry: msgspec.Struct) -> Publish:
        """Message with an entry of the directory."""
        publishes = entry.publishes if isinstance(entry, DetectorEntry) else ""
        return Publish(directory_topic(kind, name, publishes=publishes, root=self.root), encode(entry), retain=True)

    def clear(self, kind: str, name: str) -> Publish:
        """Message that clears an entry of the directory."""
        return Publish(directory_topic(kind, name, root=self.root), b"", retain=True)

    def clear_detector(self, name: str, publishes: str) -> Publish:
        """Message that clears the entry of a detector, which publishes a type; empty for none."""
        return Publish(directory_topic("detector", name, publishes=publishes, root=self.root), b"", retain=True)

    def send(self, node: str, kind: str, subject: str, payload: bytes = b"") -> Publish:
        """Message to a node about a subscription or a detector."""
        return Publish(administration_topic("node", node, kind, subject, root=self.root), payload)

    def reply(self, client: str, answer: Answer) -> Publish:
        """Message with an answer to a subscriber."""
        return Publish(administration_topic("answer", client, root=self.root), encode(Answers((answer,))))
