"""Size of a message on a link, bytes: MQTT 5 packets (sections 2.1, 3.3) in TCP segments over IPv4.

Left out: TCP's own acknowledgements, which ride along with traffic; pings of idle connections; frames of the link
layer.
"""

from __future__ import annotations

from typing import Final

SEGMENT: Final = 1_460
"""Bytes of payload in a TCP segment on Ethernet."""

SEGMENT_HEADERS: Final = 40
"""Bytes of the headers of IPv4 and TCP."""

ACKNOWLEDGEMENT: Final = SEGMENT_HEADERS + 4
"""Bytes of the acknowledgement of a message at QoS 1, and of a subscription."""

HANDSHAKE: Final = 3 * SEGMENT_HEADERS
"""Bytes of the opening of a TCP connection."""


def message_size(topic: str, payload: int, qos: int) -> int:
    """Bytes of a message; `payload` is the size of its payload."""
    rest = 3 + len(topic.encode()) + payload + (2 if qos else 0)
    return segmented(1 + _length(rest) + rest)


def subscribe_size(topic_filter: str) -> int:
    """Bytes of a message that subscribes or unsubscribes."""
    rest = 6 + len(topic_filter.encode())
    return segmented(1 + _length(rest) + rest)


def connect_size(client: str, will_topic: str | None) -> int:
    """Bytes of the opening of a connection: TCP's handshake, and CONNECT with the will."""
    rest = 13 + len(client.encode()) + (0 if will_topic is None else 5 + len(will_topic.encode()))
    return HANDSHAKE + segmented(1 + _length(rest) + rest)


def segmented(size: int) -> int:
    """Bytes of a packet with the headers of its segments."""
    return size + SEGMENT_HEADERS * -(-size // SEGMENT)


def _length(rest: int) -> int:
    """Bytes of the length field of a packet."""
    return 1 if rest < 128 else 2 if rest < 16_384 else 3 if rest < 2_097_152 else 4
