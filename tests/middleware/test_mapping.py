"""Mappings: paths, attributes, conditions and topics of one rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from distced.middleware.mapping import NO_RULE, Mapping, parse_mapping
from distced.middleware.mapping.extraction import TopicFilter
from distced.middleware.model.timestamps import SECOND

ARRIVAL = 1_795_248_000 * SECOND


def one_attribute(attribute: str) -> Mapping:
    """A mapping of one rule with one attribute, `x`, written as TOML."""
    return parse_mapping(
        f"""
        [[rule]]
        topic = "t/{{device}}"
        type = "E"
        source = "{{$device}}"
        attributes.x = {attribute}
        """
    )


def send(mapping: Mapping, payload: object, topic: str = "t/d", arrival: int = ARRIVAL) -> Any:
    return mapping.map(topic, json.dumps(payload).encode(), arrival)


REJECTED = "rejected"

ATTRIBUTES = [
    # the attribute, the payload, the value it becomes
    ('"number"', {"x": 21.5}, 21.5),
    ('"number"', {"x": 21}, 21),
    ('"number"', {"x": "21"}, 21),
    ('"number"', {"x": "-21"}, -21),
    ('"number"', {"x": " 21.5 "}, 21.5),
    ('"number"', {"x": "1e3"}, 1000.0),
    ('"number"', {"x": 2**70}, float(2**70)),
    ('"number"', {"x": "1_000"}, REJECTED),
    ('"number"', {"x": "warm"}, REJECTED),
    ('"number"', {"x": True}, REJECTED),
    ('"number"', {"x": [1]}, REJECTED),
    ('"number"', {"x": "9" * 5000}, REJECTED),
    ('"number"', {}, None),
    ('"number"', {"x": None}, None),
    ('"number"', {"x": ""}, None),
    ('"number"', {"x": "NaN"}, None),
    ('"number"', {"x": float("nan")}, None),
    ('"number"', {"x": float("inf")}, float("inf")),
    ('"string"', {"x": "on"}, "on"),
    ('"string"', {"x": 419}, "419"),
    ('"string"', {"x": 1.0}, "1"),
    ('"string"', {"x": True}, "true"),
    ('"string"', {"x": ""}, None),
    ('"string"', {"x": {"a": 1}}, REJECTED),
    ('"boolean"', {"x": True}, True),
    ('"boolean"', {"x": 0}, False),
    ('"boolean"', {"x": "ON"}, True),
    ('"boolean"', {"x": "no"}, False),
    ('"boolean"', {"x": "maybe"}, REJECTED),
    ('"boolean"', {"x": 2}, REJECTED),
    ('{kind = "boolean", true = ["open"]}', {"x": "open"}, True),
    ('{kind = "boolean", true = ["open"]}', {"x": "ajar"}, False),
    ('{kind = "boolean", false = [0]}', {"x": 7}, True),
    ('{kind = "boolean", true = [false], false = [true]}', {"x": False}, True),
    ('{kind = "boolean", true = ["a"], false = ["b"]}', {"x": "c"}, REJECTED),
    ('{kind = "boolean", above = 20}', {"x": "20.5"}, True),
    ('{kind = "boolean", above = 20}', {"x": 20}, False),
    ('{kind = "boolean", below = 20}', {"x": 19}, True),
    ('{kind = "number", path = "x.$length"}', {"x": [7, "a", None]}, 3),
    ('{kind = "number", path = "x.$length"}', {"x": []}, 0),
    ('{kind = "number", path = "x.$maximum"}', {"x": [7, 9.5, None, 8]}, 9.5),
    ('{kind = "number", path = "x.$minimum"}', {"x": [7, 9.5]}, 7),
    ('{kind = "number", path = "x.$maximum"}', {"x": []}, None),
    ('{kind = "number", path = "x.$maximum"}', {"x": [1, "warm"]}, REJECTED),
    ('{kind = "number", path = "x.$maximum"}', {"x": [1, True]}, REJECTED),
    ('{kind = "number", path = "x.0.$length"}', {"x": [[1, 2]]}, 2),
    ('{kind = "number", path = "x.$length"}', {"x": {"$length": 5}}, 5),
    ('{kind = "number", path = "x.$length"}', {"x": "text"}, None),
    ('{kind = "number", scale = 0.5, offset = 10}', {"x": 4}, 12.0),
    ('{kind = "number", scale = 2, range = [0, 10]}', {"x": 5}, 10),
    ('{kind = "number", scale = 2, range = [0, 10]}', {"x": 6}, REJECTED),
    ('{kind = "number", range = [0, 10], wrong = "null"}', {"x": 11}, None),
    ('{kind = "number", range = [0, 10], wrong = "null", default = -1}', {"x": 11}, -1),
    ('{kind = "number", wrong = "null"}', {"x": "warm"}, None),
    ('{kind = "number", null = [-127, "off"]}', {"x": -127.0}, None),
    ('{kind = "number", null = [-127, "off"]}', {"x": "off"}, None),
    ('{kind = "number", default = 0}', {}, 0),
    ('{kind = "string", lookup = {1 = "low", 2 = "high"}}', {"x": 2.0}, "high"),
    ('{kind = "string", lookup = {1 = "low"}}', {"x": 3}, REJECTED),
    ('{kind = "boolean", lookup = {locked = false, open = true}}', {"x": "open"}, True),
    ('{kind = "number", path = "a.b"}', {"a": {"b": 3}}, 3),
    ('{kind = "number", path = "a.1.b"}', {"a": [0, {"b": 3}]}, 3),
    ('{kind = "number", path = "a.9"}', {"a": [0]}, None),
    ('{kind = "number", path = "a.b.c"}', {"a": {"b": 3}}, None),
    ('{kind = "number", path = ["a.b", "c"]}', {"a.b": {"c": 3}}, 3),
    ('{kind = "string", path = "$device"}', {}, "d"),
    ('{kind = "string", path = "$1"}', {}, "t"),
    ('{kind = "string", text = "{$topic}:{a}{{}}"}', {"a": 1}, "t/d:1{}"),
    ('{kind = "string", text = "{a}-{b}"}', {"a": 1}, None),
    ('{kind = "number", text = "7"}', {}, 7),
]


@pytest.mark.parametrize(("attribute", "payload", "expected"), ATTRIBUTES)
def test_attribute_is_converted_or_its_event_rejected(attribute: str, payload: object, expected: object) -> None:
    events, rejected = send(one_attribute(attribute), payload)
    if expected is REJECTED:
        assert not events
        assert [(each.reason, each.where) for each in rejected] == [("attribute", "t/d")]
    else:
        assert not rejected
        value = events[0].attributes["x"]
        assert (type(value), value) == (type(expected), expected)


CONDITIONS = [
    ("", {}, True),
    ('{path = "a"}', {"a": 0}, True),
    ('{path = "a"}', {"a": None}, False),
    ('{path = "a", present = false}', {}, True),
    ('{path = "a", equals = "ON"}', {"a": "ON"}, True),
    ('{path = "a", equals = "ON"}', {"a": "on"}, False),
    ('{path = "a", equals = 1}', {"a": "1"}, True),
    ('{path = "a", equals = [1, true]}', {"a": True}, True),
    ('{path = "a", equals = 1}', {"a": True}, False),
    ('{path = "a", differs = ["x", "y"]}', {"a": "z"}, True),
    ('{path = "a", differs = "x"}', {"a": "x"}, False),
    ('{path = "a", differs = "x"}', {}, True),
    ('{path = "a", matches = "^o"}', {"a": "on"}, True),
    ('{path = "a", matches = "^o"}', {"a": "no"}, False),
    ('{path = "a", matches = "1"}', {"a": [1]}, False),
    ('{path = "a", above = 3}', {"a": "3.5"}, True),
    ('{path = "a", above = 3}', {"a": 3}, False),
    ('{path = "a", below = 3}', {"a": 2}, True),
    ('{path = "a", below = 3}', {"a": "warm"}, False),
    ('{path = "a", below = 3}', {}, False),
    ('{path = "a"}, {path = "b"}', {"a": 1}, False),
    ('{path = "$device", equals = "d"}', {}, True),
    ('{text = "{a}/{b}", equals = "x/1"}', {"a": "x", "b": 1.0}, True),
    ('{text = "{a}/{b}", equals = "x/1"}', {"a": "x"}, False),
    ('{text = "{$device}-{a}", matches = "^d-[0-9]$"}', {"a": 3}, True),
    ('{text = "{a}"}', {}, False),
    ('{path = "a.$length", above = 1}', {"a": [0, 0]}, True),
    ('{path = "a.$maximum", above = 1}', {"a": ["2"]}, False),
]


@pytest.mark.parametrize(("when", "payload", "holds"), CONDITIONS)
def test_condition_chooses_messages(when: str, payload: object, holds: bool) -> None:
    mapping = parse_mapping(
        f'[[rule]]\ntopic = "t/{{device}}"\nwhen = [{when}]\ntype = "E"\nsource = "s"\nattributes = {{}}\n'
    )
    events, rejected = send(mapping, payload)
    assert (len(events), len(rejected)) == (int(holds), 0)
    assert mapping.counts[NO_RULE, "unmatched"] == int(not holds)


def test_named_groups_become_fields_of_this_rule_alone() -> None:
    mapping = parse_mapping(
        """
        [defaults]
        source = "s"
        [[rule]]
        topic = "log"
        format = "text"
        when = [{path = "value", matches = '(?P<user>\\w+) from (?P<host>\\S+)'}, {path = "user", differs = "root"}]
        type = "Login"
        attributes = {user = "string", host = "string"}
        [[rule]]
        topic = "log"
        format = "text"
        type = "Line"
        attributes = {user = "string", value = "string"}
        """
    )
    events, _ = mapping.map("log", b"ada from h1", ARRIVAL)
    assert [(each.type, each.attributes) for each in events] == [
        ("Login", {"user": "ada", "host": "h1"}),
        ("Line", {"user": None, "value": "ada from h1"}),
    ]
    assert [each.type for each in mapping.map("log", b"root from h1", ARRIVAL).events] == ["Line"]


TOPICS = [
    ("a/b", "a/b", {}),
    ("a/b", "a/b/c", None),
    ("a/b", "a", None),
    ("a/+", "a/b", {"2": "b"}),
    ("a/+", "a/", {"2": ""}),
    ("a/{x}/c", "a/b/c", {"x": "b"}),
    ("a/{x}/c", "a/b/d", None),
    ("a/#", "a/b/c", {"rest": "b/c", "3": "c"}),
    ("a/#", "a", {"rest": ""}),
    ("#", "a/b", {"rest": "a/b"}),
    ("#", "$SYS/uptime", None),
    ("+/uptime", "$SYS/uptime", None),
    ("$SYS/#", "$SYS/uptime", {"rest": "uptime"}),
    ("{x}/#", "a", {"x": "a", "rest": ""}),
]


@pytest.mark.parametrize(("text", "topic", "expected"), TOPICS)
def test_topic_filter_names_levels(text: str, topic: str, expected: dict[str, str] | None) -> None:
    found = TopicFilter(text).match(topic)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.items() >= expected.items()
        assert all(TopicFilter(text).knows(name) for name in expected)


@pytest.mark.parametrize(
    ("text", "mqtt"), [("a/{x}/+", "a/+/+"), ("#", "#"), ("{x}/#", "+/#"), ("a", "a"), ("/a/", "/a/")]
)
def test_mapping_lists_the_filters_to_subscribe_to(text: str, mqtt: str) -> None:
    assert TopicFilter(text).mqtt == mqtt
