"""What is written on the command line of `distced publish`, read."""

from __future__ import annotations

from typing import Any

import pytest

from distced.middleware.cli.publish import (
    guess,
    read_assignments,
    read_attributes,
    read_kinds,
    read_value,
)
from distced.middleware.model.errors import EventError, TypeRegistryError
from distced.middleware.model.event_types import event_type

WRONG = "wrong"

VALUES = [
    # text, kind, value
    ("21.5", "number", 21.5),
    ("21", "number", 21),
    ("-1e3", "number", -1000.0),
    ("warm", "number", WRONG),
    ("true", "number", WRONG),
    ("", "number", WRONG),
    ('"21"', "number", WRONG),
    ("null", "number", None),
    ("true", "boolean", True),
    ("false", "boolean", False),
    ("1", "boolean", WRONG),
    ("yes", "boolean", WRONG),
    ("null", "boolean", None),
    ("hall", "string", "hall"),
    ("41", "string", "41"),
    ("true", "string", "true"),
    ("", "string", ""),
    ("null", "string", None),
    ('"null"', "string", "null"),
    ("[1]", "string", "[1]"),
    ("a=b", "string", "a=b"),
]


@pytest.mark.parametrize(("text", "kind", "value"), VALUES)
def test_values_are_read_by_the_kind_of_the_attribute(text: str, kind: Any, value: object) -> None:
    if value is WRONG:
        with pytest.raises(EventError, match=f"the attribute 'x' is a {kind}"):
            read_value(text, kind, "x")
        return
    read = read_value(text, kind, "x")
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("true", True), ("hall", "hall"), ("{}", "{}"), ("null", None)])
def test_value_of_unknown_kind_is_guessed(text: str, value: object) -> None:
    assert guess(text) == value and type(guess(text)) is type(value)


def test_attributes_that_are_not_given_are_null() -> None:
    temp = event_type("Temp", {"room": "string", "c": "number"})
    assert read_attributes(temp, read_assignments(["c=21"])) == {"room": None, "c": 21}
    with pytest.raises(EventError, match=r"type 'Temp' has no attribute 'floor'.*allowed: room: string, c: number"):
        read_attributes(temp, {"floor": "1"})


@pytest.mark.parametrize("wrong", [["room"], ["=hall"], ["a=1", "a=2"]])
def test_text_that_is_no_assignment_is_an_error(wrong: list[str]) -> None:
    with pytest.raises(EventError, match="allowed: name=value, each name once"):
        read_assignments(wrong)


def test_kinds_of_attributes_are_read() -> None:
    assert read_kinds("room:string, temp:number,on:boolean") == {"room": "string", "temp": "number", "on": "boolean"}
    assert read_kinds("") == {}
    for wrong in ("room", "room:text", "a:number,a:number"):
        with pytest.raises(TypeRegistryError, match="not an attribute and its kind"):
            read_kinds(wrong)
