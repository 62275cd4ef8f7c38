"""Effects of a broker node, each with its cause, carried out by a driver: live over MQTT, or in a simulation."""

from __future__ import annotations

from typing import TypeAlias

from distced.middleware.wire.mqtt_effects import Caused, Note, Publish, Subscribe, Unsubscribe

__all__ = ["Effect", "Isolate", "Note", "Publish", "Release", "Subscribe", "Unsubscribe", "info", "warning"]


class Isolate(Caused, frozen=True, eq=False):
    """Start a node at this one's site, in a process of its own, for one detector.

    Attributes:
        node: what it is to be called.
        detector: the detector it is reserved for.
    """

    node: str
    detector: str


class Release(Caused, frozen=True, eq=False):
    """End a node that was started by `Isolate`."""

    node: str


def info(event: str, **fields: object) -> Note:
    """Log event of the level info."""
    return Note("info", event, fields)


def warning(event: str, **fields: object) -> Note:
    """Log event of the level warning."""
    return Note("warning", event, fields)


Effect: TypeAlias = Publish | Subscribe | Unsubscribe | Note | Isolate | Release
