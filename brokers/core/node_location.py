"""Site, capacity and limits of a broker node, given by options or a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SUBSCRIPTIONS: Final = 20_000
"""Number of subscriptions of one client at most, unless a node is started with another."""


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """Location of a node.

    Attributes:
        home: URL of the MQTT server of its site; empty for the server of the directory.
        capacity: instances it can touch per second; 0 for unknown.
        site: name of its site in the topology, at which Ray starts it; empty for any.
        subscriptions: number of subscriptions of one client at most.
    """

    home: str = ""
    capacity: float = 0.0
    site: str = ""
    subscriptions: int = SUBSCRIPTIONS
