"""Identification of a node: its answer to a request for its identity (`brokers.core.identity`)."""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Publish
from distced.brokers.core.identity import Identity, Installation, identity_topic
from distced.brokers.node import checkpoint_format, kept_frames
from distced.detectors.runtime import detector
from distced.detectors.stepwise import snapshot
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


def identified(node: str, asker: str, installation: Installation, now: int, root: str) -> Publish:
    """Answer of a node at `now`, ns."""
    return Publish(identity_topic(asker, node, root=root), encode(Identity(node, now, FORMATS, installation)))
