"""Events: their id, their place in the order of consumption, and what no event can be."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from distced.middleware.model.errors import EventError
from distced.middleware.model.events import (
    COMPOSITE,
    PRIMITIVE,
    TIME,
    CompositeEvent,
    Event,
    check_attribute,
    check_event,
    composite_digest,
)
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, Timestamp


def test_event_has_id_timestamp_and_key() -> None:
    event = Event("A", 1, 5, "sensor", 7, {"v": 1})
    assert event.id == ("sensor", 7)
    assert event.timestamp == Timestamp(1, 5)
    assert event.key == (5, 1, PRIMITIVE, "sensor", 7)
    with pytest.raises(AttributeError):
        event.lo = 2  # type: ignore[misc]


def test_keys_give_the_order_of_consumption() -> None:
    composite = CompositeEvent("A", 1, 5, "a", 0, {}, constituents=(("s", 1),))
    ordered = [
        Event("A", 0, 4, "z", 9, {}),
        Event("A", 0, 5, "z", 9, {}),
        Event("A", 1, 5, "a", 1, {}),
        Event("A", 1, 5, "a", 2, {}),
        Event("B", 1, 5, "b", 0, {}),
        # Where timestamps tie, what was composed comes after what it may be composed of.
        composite,
        Event("A", 2, 5, "a", 0, {}),
        Event("A", 0, 6, "a", 0, {}),
    ]
    assert sorted(Random(1).sample(ordered, len(ordered)), key=lambda event: event.key) == ordered
    assert (PRIMITIVE, COMPOSITE, TIME) == (0, 1, 2)


def test_composite_event_is_an_event() -> None:
    constituents = (("s", 1), ("s", 2))
    event = CompositeEvent("Pair", 1, 5, "c12", composite_digest(constituents, {}), {}, constituents=constituents)
    assert isinstance(event, Event)
    assert event.events == ()
    assert event.id == ("c12", composite_digest(constituents, {}))
    assert 0 <= event.seq < 2**96
    assert check_event(event) is event


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lo": 6}, "a timestamp with lo > hi: [6, 5] (allowed: lo <= hi)"),
        ({"lo": 1.0}, "lo of a timestamp is no instant: 1.0"),
        ({"hi": True}, "hi of a timestamp is no instant: True"),
        ({"hi": INSTANT_MAX + 1}, "hi of a timestamp is no instant"),
        ({"lo": INSTANT_MIN - 1}, "lo of a timestamp is no instant"),
        ({"source": ""}, "an event without a source"),
        ({"source": 5}, "an event without a source: 5"),
        ({"seq": -1}, "not a sequence number: -1"),
        ({"seq": "1"}, "not a sequence number: 1"),
        ({"attributes": {"v": float("nan")}}, "not a value for the attribute 'v': nan"),
        ({"attributes": {"v": 2**63}}, "not a value for the attribute 'v'"),
        ({"attributes": {"v": [1]}}, "not a value for the attribute 'v': [1]"),
        ({"attributes": {"v": b"x"}}, "not a value for the attribute 'v'"),
    ],
)
def test_malformed_event_is_an_error(fields: dict[str, Any], message: str) -> None:
    event = Event(**{"type": "A", "lo": 1, "hi": 5, "source": "s", "seq": 0, "attributes": {}, **fields})
    with pytest.raises(EventError) as caught:
        check_event(event, where="topic x")
    assert message in str(caught.value)
    assert caught.value.where == "topic x"


@pytest.mark.parametrize("value", [0, -(2**63), 2**63 - 1, 1.5, float("inf"), -0.0, "", "ä", True, False, None])
def test_attribute_values_are_checked(value: Any) -> None:
    check_attribute("v", value)
    event = Event("A", INSTANT_MIN, INSTANT_MAX, "s", 0, {"v": value})
    assert check_event(event) is event
