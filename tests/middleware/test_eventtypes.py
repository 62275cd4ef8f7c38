"""Event types: creating and checking events, the registry, types derived from others."""

from __future__ import annotations

from typing import Any

import pytest

from distced.middleware.model.errors import EventError, TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, TypeRegistry, derive, event_type, kind_of
from distced.middleware.model.events import Event

TEMP = EventType("Temp", {"room": "string", "temp": "number", "cold": "boolean"})


def test_type_creates_checked_events() -> None:
    event = TEMP.create(10, source="s", seq=3, attributes={"room": "a", "temp": 14.5, "cold": True})
    assert event == Event("Temp", 10, 10, "s", 3, {"room": "a", "temp": 14.5, "cold": True})
    nothing = {"room": None, "temp": None, "cold": None}
    assert TEMP.create(10, 12, source="s", seq=3, attributes=nothing).hi == 12
    with pytest.raises(EventError, match="lo > hi"):
        TEMP.create(10, 5, source="s", seq=3, attributes=nothing)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"room": "a", "temp": 1}, "an event of type 'Temp' lacks the attribute 'cold'"),
        ({"room": "a", "temp": "1", "cold": True}, "the attribute 'temp' of type 'Temp' is a number: 1"),
        ({"room": 1, "temp": 1, "cold": True}, "the attribute 'room' of type 'Temp' is a string: 1"),
        ({"room": "a", "temp": True, "cold": True}, "the attribute 'temp' of type 'Temp' is a number: True"),
        ({"room": "a", "temp": 1, "cold": 1}, "the attribute 'cold' of type 'Temp' is a boolean: 1"),
        ({"room": "a", "temp": 1, "cold": True, "v": 1}, "type 'Temp' has no attribute 'v'"),
        ({"room": "a", "temp": float("nan"), "cold": True}, "not a value for the attribute 'temp'"),
    ],
)
def test_events_of_another_type_are_errors(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(EventError) as caught:
        TEMP.check(Event("Temp", 1, 1, "s", 0, attributes), where="row 5")
    assert message in str(caught.value)
    assert caught.value.where == "row 5"


def test_values_have_kinds() -> None:
    assert [kind_of(value) for value in (1, 1.5, "a", True, None)] == ["number", "number", "string", "boolean", None]


def test_registry_keeps_types_by_name() -> None:
    registry = TypeRegistry([TEMP])
    registry.register(TEMP)
    assert "Temp" in registry
    assert len(registry) == 1
    assert list(registry) == [TEMP]
    assert registry.get("Temp") is TEMP
    assert registry.find("Nowhere") is None
    with pytest.raises(TypeRegistryError, match=r"unknown event type: Nowhere \(allowed: Temp\)"):
        registry.get("Nowhere")
    with pytest.raises(TypeRegistryError, match="'Temp' is registered already, and differs"):
        registry.register(EventType("Temp", {"temp": "number"}))
    assert registry.unregister("Temp") is TEMP
    with pytest.raises(TypeRegistryError, match="none is registered yet"):
        registry.unregister("Temp")


@pytest.mark.parametrize("name", ["", "1st", "two words", "a-b", "a/b", "a+", "#"])
def test_malformed_names_are_errors(name: str) -> None:
    with pytest.raises(TypeRegistryError, match="not a name for a type or an attribute"):
        event_type(name)
    with pytest.raises(TypeRegistryError, match="not a name for a type or an attribute"):
        event_type("A", {name: "number"})


def test_type_is_made_by_name_and_kinds() -> None:
    assert event_type("Ünïcode_1", {"été": "number"}).attributes == {"été": "number"}
    with pytest.raises(
        TypeRegistryError, match=r"not a kind for the attribute 'v' of 'A': int \(allowed: number, string"
    ):
        event_type("A", {"v": "int"})


def test_derived_type_is_registered_behind_its_base() -> None:
    registry = TypeRegistry([TEMP])
    cold = derive(TEMP, "Cold", where="temp < 15")
    seldom = derive(cold, "Seldom", every=5, by=("room",))
    assert cold.derived == Derivation("Temp", "temp < 15")
    assert seldom.derived == Derivation("Cold", "", 5, ("room",))
    registry.register(cold)
    registry.register(seldom)
    assert registry.root("Seldom") == "Temp"
    assert registry.root("Temp") == "Temp"
    assert registry.root("Nowhere") == "Nowhere"
    with pytest.raises(TypeRegistryError, match="'Seldom' is derived from 'Cold'"):
        registry.unregister("Cold")
    registry.unregister("Seldom")
    registry.unregister("Cold")


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        (EventType("Cold", TEMP.attributes, Derivation("Nowhere")), "unknown event type: Nowhere"),
        (EventType("Cold", {"temp": "number"}, Derivation("Temp")), "must have the attributes of 'Temp'"),
        (derive(TEMP, "Cold", every=5, by=("floor",)), "no attribute to throttle by: floor"),
        (derive(TEMP, "Cold", every=-5), "not an interval to throttle to: -5"),
    ],
)
def test_derived_type_that_does_not_fit_is_refused(derived: EventType, message: str) -> None:
    with pytest.raises(TypeRegistryError) as caught:
        TypeRegistry([TEMP]).register(derived)
    assert message in str(caught.value)


def test_open_registry_knows_no_more_than_was_registered() -> None:
    registry = TypeRegistry(open=True)
    assert registry.open
    assert registry.find("Anything") is None
    assert "Anything" not in registry
