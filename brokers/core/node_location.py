"""Site, capacity and limits of a broker node, given by options or a topology."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from distced.brokers.core.message_limits import LIMITS as MESSAGE_LIMITS
from distced.brokers.core.message_limits import MessageLimits
from distced.detectors.limits import LIMITS as DETECTOR_LIMITS
from distced.detectors.limits import Limits
from distced.middleware.wire.directory_entries import MAX_AHEAD


@dataclass(frozen=True, slots=True)
class SubscriptionLimits:
    """Numbers of subscriptions at most: of one client, and of all clients together, as each node knows all; the
    characters of a pattern at most, which takes a second for 10,000, beside the messages of a node; and the bytes that
    a node keeps for all durable subscriptions together. Of a pattern the states and registers of its automaton, the
    operators that an event may have evaluated for one instance, and the depth of its tree."""

    of_client: int = 20_000
    of_all: int = 500_000
    pattern_length: int = 10_000
    kept_bytes: int = 2**30
    states: int = 2_000
    registers: int = 200
    guard: int = 1_000
    nesting: int = 45


LIMITS: Final = SubscriptionLimits()


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """Location of a node.

    Attributes:
        home: URL of the MQTT server of its site; empty for the server of the directory.
        capacity: instances it can touch per second; 0 for unknown.
        site: name of its site in the topology, at which Ray starts it; empty for any.
        limits: numbers of subscriptions at most.
        detector_limits: of each detector.
        checkpoints: folder or URL of the store of checkpoints; empty or `none` for none.
        history: folder of a history, for subscriptions that begin with recorded events; empty for none.
        max_ahead: events and promises further beyond its clock are rejected, ns.
        message_limits: of messages and entries of the directory.
        metrics: address at which a node in a process of its own serves its metrics, HOST:PORT; empty for none.
        json_log: whether such a node logs JSON lines.
        traces: variables of OpenTelemetry by which such a node follows events; None for no traces.
    """

    home: str = ""
    capacity: float = 0.0
    site: str = ""
    limits: SubscriptionLimits = LIMITS
    detector_limits: Limits = DETECTOR_LIMITS
    checkpoints: str = ""
    history: str = ""
    max_ahead: int = MAX_AHEAD
    message_limits: MessageLimits = MESSAGE_LIMITS
    metrics: str = ""
    json_log: bool = False
    # Logins of a collector may be among them.
    traces: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)
