"""Tests of an application without a server: of its patterns, and of its code that uses the client.

from distced.testing import InMemoryDeployment, assert_detects

assert_detects(
    "[Door as d] ; [Temp where temp < 15 and room == d.room] within 5min -> Cold(room = d.room)",
    events=["Door 0s room='FE02'", "Temp 40s room='FE02' temp=14.5"],
    expected=[{"room": "FE02"}],
)
with InMemoryDeployment(nodes=2) as deployment:
    client = deployment.client("office")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distced.detectors.conformance.assertions import EventBuilder, assert_detects, detect, parse_events
from distced.detectors.conformance.cases import Match
from distced.middleware.model.clock import ManualClock

if TYPE_CHECKING:
    from distced.simulations.network.in_memory import InMemoryDeployment

__all__ = [
    "EventBuilder",
    "InMemoryDeployment",
    "ManualClock",
    "Match",
    "assert_detects",
    "detect",
    "parse_events",
]


def __getattr__(name: str) -> Any:
    # Tests of patterns alone do not load the nodes and the simulated network.
    if name != "InMemoryDeployment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from distced.simulations.network.in_memory import InMemoryDeployment

    return InMemoryDeployment
