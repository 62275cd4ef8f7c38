"""What a broker node wants to have done. A driver does it: live over MQTT, or in a simulation."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Publish(msgspec.Struct, frozen=True):
    """Send a message.

    Attributes:
        qos: 0 or 1.
        retain: whether the server keeps it.
        home: the server; empty for that of the directory.
    """

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    home: str = ""


class Subscribe(msgspec.Struct, frozen=True):
    """Have messages that match a filter delivered."""

    topic_filter: str
    qos: int = 1
    home: str = ""


class Unsubscribe(msgspec.Struct, frozen=True):
    """Have them delivered no more."""

    topic_filter: str
    home: str = ""


class Note(msgspec.Struct, frozen=True):
    """Something to be logged.

    Attributes:
        level: `info` or `warning`.
        event: what happened, one clause.
        fields: what it was about.
    """

    level: str
    event: str
    fields: dict[str, object] = {}


class Isolate(msgspec.Struct, frozen=True):
    """Have a node started at this one's site, in a process of its own, for one detector.

    Attributes:
        node: what it is to be called.
        detector: the detector it is reserved for.
    """

    node: str
    detector: str


class Release(msgspec.Struct, frozen=True):
    """Have a node ended that was started by `Isolate`."""

    node: str


Effect: TypeAlias = Publish | Subscribe | Unsubscribe | Note | Isolate | Release
