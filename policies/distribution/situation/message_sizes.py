"""How many bytes messages take, and how often heartbeats come, where nobody has measured it.

Sizes are those of frames on the wire (`middleware.wire.frames`) with names of usual length, and their topics, as hosts
measure them. To each message come the headers of MQTT and TCP/IP, and at QoS 1 the acknowledgement: for a small message
more than what is in it, and the same for all, so that the number of messages counts for as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MESSAGE: Final = 90.0
"""Bytes of a message on a link beside its payload and its topic."""

EVENT: Final = 75.0
"""Bytes of a frame with one primitive event, and its topic."""

FRAME: Final = 75.0
"""Bytes of a frame without events, and its topic: a detector says how far it is."""

HEARTBEAT: Final = 95.0
"""Bytes of the heartbeat of a publisher, and its topic."""

COMPOSITE: Final = 30.0
"""Bytes of a composite event beside its constituents."""

ID: Final = 15.0
"""Bytes of the id of a constituent."""

DERIVATION: Final = 125.0
"""Bytes of the derivation that says how a part came about."""

INSIDE: Final = 62.0
"""Bytes of a constituent that is sent along."""

HEARTBEATS: Final = 4.0
"""How often a second a publisher says how far its sources are, beside its events."""

RATE: Final = 1.0
"""Events a second of one type from one source."""

TOUCHES: Final = 2.0
"""How many instances an event touches."""


QUIET: Final = 1.0
"""How often a second a detector says at most how far it is, without composite events, when no other detector reads it:
applications are in no hurry to hear that nothing has happened."""


def told(heard: Iterable[float], *, read: bool) -> float:
    """How often a second a detector says how far it is.

    It is as far as the source it has heard the least of lately. So it gets further with each of its sources once in the
    time in which the slowest of them is heard again.

    Args:
        heard: how often a second each of its sources is heard.
        read: whether other detectors read it, and wait for that.
    """
    listed = list(heard)
    often = len(listed) * min(listed, default=0.0)
    return often if read else min(often, QUIET)
