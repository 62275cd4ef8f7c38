"""MQTT effects of a sans-I/O participant: publish, subscribe, unsubscribe, log a note (design, section 4).

A driver carries out returned effects in order, live over the bus or in virtual time. Participants may add own types.
"""

from __future__ import annotations

import msgspec


class Caused(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Effect with its cause (number of a stimulus, `brokers.core.causes`; 0 for unknown), ignored in comparisons."""

    cause: int = 0

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, each) == getattr(other, each) for each in self.__struct_fields__ if each != "cause")

    __hash__ = None  # type: ignore[assignment]


class Publish(Caused, frozen=True, eq=False):
    """Send a message to the server of a home; empty for that of the directory."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    home: str = ""


class Subscribe(Caused, frozen=True, eq=False):
    """Have messages that match a filter delivered.

    Attributes:
        retained: whether those that the server retains come first; MQTT 3.1.1 knows nothing else.
    """

    topic_filter: str
    qos: int = 1
    home: str = ""
    retained: bool = True


class Unsubscribe(Caused, frozen=True, eq=False):
    """Have messages that match a filter delivered no more."""

    topic_filter: str
    home: str = ""


class Note(Caused, frozen=True, eq=False):
    """Log an event with fields, at level `info` or `warning`."""

    level: str
    event: str
    fields: dict[str, object] = {}
