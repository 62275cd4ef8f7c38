"""Assumed sizes and rates of messages without measurement.

Sizes are those of wire frames (`middleware.wire.frames`) with usual names, and topics. Each message adds headers of
MQTT and TCP/IP, and at QoS 1 the acknowledgement: more than a small payload, so the number of messages counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Bytes.
MESSAGE: Final = 90.0  # of a message on a link beside payload and topic
EVENT: Final = 85.0  # of a frame with one primitive event, and its topic
FRAME: Final = 96.0  # of a frame without events, a watermark, and its topic
HEARTBEAT: Final = 135.0  # of a publisher's heartbeat, and its topic
COMPOSITE: Final = 30.0  # of a composite event without its constituents
ID: Final = 15.0  # of the id of a constituent
DERIVATION: Final = 125.0  # of the derivation of a part
INSIDE: Final = 62.0  # of a constituent that is sent along

# Per second.
HEARTBEATS: Final = 4.0  # heartbeats of a publisher
RATE: Final = 1.0  # events of one type from one source
QUIET: Final = 1.0  # most watermarks, without composite events, to applications only, where they are not urgent

TOUCHES: Final = 2.0  # instances touched by an event


def watermark_rate(heard: Iterable[float], *, read: bool) -> float:
    """Watermarks per second of a detector, from messages per second of each input; `read`: other detectors read it.

    The rarest input sets the watermark; each input advances it once per message of the rarest.
    """
    listed = list(heard)
    often = len(listed) * min(listed, default=0.0)
    return often if read else min(often, QUIET)
