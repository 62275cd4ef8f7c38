"""Identification of a node: its answer to a request for its identity (`brokers.core.identity`)."""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Publish
from distced.brokers.core.identity import Identity, Installation, identity_topic
from distced.brokers.node import checkpoint_format, kept_frames
from distced.detectors.runtime import detector
from distced.detectors.stepwise import snapshot
from distced.middleware.model.server_address import without_logins
from distced.middleware.wire import frames
from distced.middleware.wire.codec import encode

FORMATS: Final = {
    "frame": frames.VERSION,
    "detector": detector.VERSION,
    "engine": snapshot.VERSION,
    "checkpoint": checkpoint_format.VERSION,
    "kept frames": kept_frames.VERSION,
}
"""Versions of the formats that nodes exchange, by moves, takeovers and messages."""


MOST: Final = 20
"""Homes without a connection in an answer at most; entries of anybody name homes."""

LONGEST: Final = 300
"""Characters of a reason at most."""


class Identification:
    """Answers of a node about itself, with the homes that it has no connection to."""

    def __init__(self, node: str, installation: Installation, root: str) -> None:
        self._node, self._installation, self._root = node, installation, root
        self._unconnected: dict[str, str] = {}

    def connected(self, home: str) -> None:
        """A connection to a home is established; empty for the server of the directory."""
        self._unconnected.pop(home, None)

    def disconnected(self, home: str, reason: str) -> None:
        """There is no connection to a home, for a reason."""
        self._unconnected[home] = without_logins(reason)[:LONGEST]

    def answer(self, asker: str, now: int) -> Publish:
        """Answer to a request at `now`, ns."""
        homes = sorted(self._unconnected.items())[:MOST]
        unconnected = {without_logins(home): reason for home, reason in homes if home}
        identity = Identity(self._node, now, FORMATS, self._installation, unconnected)
        return Publish(identity_topic(asker, self._node, root=self._root), encode(identity))
