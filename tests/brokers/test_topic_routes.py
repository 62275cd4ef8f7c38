"""Attributes against their type: the quick test says the same as the thorough one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.core.topic_routes import fitting, mismatch
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import EventType, event_type
from distced.middleware.model.events import Event

ROOM = event_type("Room", {"name": "string", "temp": "number", "open": "boolean"})
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=3)
)


def fits_thoroughly(event: Event, wanted: EventType) -> bool:
    try:
        wanted.check(event)
    except EventError:
        return False
    return True


@given(st.dictionaries(st.sampled_from(["name", "temp", "open", "other"]), VALUES))
def test_quick_test_agrees_with_the_check_of_types(attributes: dict[str, Any]) -> None:
    event = Event("Room", 1, 1, "s", 1, attributes)
    assert fitting(ROOM)([event]) == ([event] if fits_thoroughly(event, ROOM) else [])


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"name": "x", "temp": "warm", "open": True}, "'temp' of type 'Room' is a number: warm"),
        ({"name": "x", "temp": True, "open": True}, "'temp' of type 'Room' is a number: True"),
        ({"name": "x", "temp": 1, "open": 0}, "'open' of type 'Room' is a boolean: 0"),
        ({"name": "x", "temp": 1}, "lacks the attribute 'open'"),
        ({"name": "x", "temp": 1, "open": None, "colour": "red"}, "no attribute 'colour'"),
    ],
)
def test_mismatch_is_said_with_the_place(attributes: dict[str, Any], problem: str) -> None:
    event = Event("Room", 1, 1, "s", 1, attributes)
    assert not fitting(ROOM)([event])
    reported = mismatch(event, ROOM, "ced/e/Room/s")
    assert problem in reported
    assert "ced/e/Room/s" in reported
