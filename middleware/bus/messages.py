"""Messages that a bus publishes, and its counters."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from distced.middleware.model.errors import BusError

PACKET_READ: Final = 64 * 1024 * 1024
"""Bytes of the longest packet that a bus takes, and so publishes: a packet is read into memory as a whole. The largest
messages are states of detectors that move."""

HEADER_MAX: Final = 64  # most bytes of a packet that publishes, besides topic and payload
_TOPIC_MAX: Final = 65_535


class Message(NamedTuple):
    """Message to publish.

    Attributes:
        retain: whether the server keeps it for later subscribers; an empty payload clears it.
        properties: packed ones of MQTT 5 (`bus.user_properties`), left out under 3.1.1.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: bytes = b""


class BusStatistics(msgspec.Struct):
    """Counters since the bus was made.

    Attributes:
        messages_in, bytes_in: received, payloads only; each copy from the server counts.
        messages_out, bytes_out: handed to the connection; again after a loss.
        connections, attempts_failed, losses: connections accepted, failed attempts, connections lost.
        unrouted: messages received without a matching handler, after unsubscribing for example.
        handler_errors: exceptions of handlers, timers and calls.
        dropped: messages taken and given up: too large, rejected by the server, or left at the stop of the bus.
        refused: publications refused, queue full.
    """

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    connections: int = 0
    attempts_failed: int = 0
    losses: int = 0
    unrouted: int = 0
    handler_errors: int = 0
    dropped: int = 0
    refused: int = 0

    @property
    def reconnections(self) -> int:
        """Number of connections after the first."""
        return max(0, self.connections - 1)


def check_message(
    topic: str,
    payload: bytes | bytearray | memoryview,
    qos: int = 0,
    retain: bool = False,
    properties: bytes = b"",
) -> Message:
    """Message checked against MQTT's limits; `BusError` for one that no server takes."""
    try:
        length = len(topic.encode())
    except UnicodeEncodeError:
        length = 0
    if not 0 < length <= _TOPIC_MAX or "+" in topic or "#" in topic or "\0" in topic:
        raise BusError(
            "not a topic to publish on", given=repr(topic), allowed=f"1 to {_TOPIC_MAX} bytes of UTF-8 without + and #"
        )
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise BusError("not a payload", given=payload, allowed="bytes", where=topic)
    if length + len(payload) > PACKET_READ - HEADER_MAX:
        raise BusError(
            "a message that is too large",
            given=f"{len(payload):,} bytes",
            allowed=f"{PACKET_READ:,} bytes",
            where=topic,
        )
    if qos not in (0, 1):
        raise BusError("not a quality of service", given=qos, allowed="0 or 1", where=topic)
    # What may change before it is sent is copied.
    return Message(topic, payload if isinstance(payload, bytes) else bytes(payload), qos, retain, properties)
