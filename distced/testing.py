"""Tests of an application's patterns, without a server.

from distced.testing import assert_detects

assert_detects(
    "[Door as d] ; [Temp where temp < 15 and room == d.room] within 5min -> Cold(room = d.room)",
    events=["Door 0s room='FE02'", "Temp 40s room='FE02' temp=14.5"],
    expected=[{"room": "FE02"}],
)
"""

from __future__ import annotations

from distced.detectors.conformance.assertions import EventBuilder, assert_detects, detect, parse_events
from distced.detectors.conformance.cases import Match
from distced.middleware.model.clock import ManualClock

__all__ = ["EventBuilder", "ManualClock", "Match", "assert_detects", "detect", "parse_events"]
