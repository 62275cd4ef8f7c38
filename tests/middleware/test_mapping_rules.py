"""Mappings: rules together, ids and second deliveries, several events from one message, input that is bad."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.mapping import NO_RULE, Mapping, parse_mapping
from distced.middleware.model.errors import MappingError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import check_event
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


TWO_RULES = """
    [defaults]
    source = "{$device}"
    [[rule]]
    name = "motion"
    topic = "t/{device}"
    when = [{path = "moving"}]
    type = "Reading"
    attributes = {moving = "boolean"}
    [[rule]]
    name = "climate"
    topic = "t/{device}"
    when = [{path = "celsius"}]
    type = "Reading"
    attributes = {celsius = "number"}
"""


def test_rules_of_one_type_share_its_attributes() -> None:
    mapping = parse_mapping(TWO_RULES)
    assert mapping.types == (event_type("Reading", {"moving": "boolean", "celsius": "number"}),)
    assert mapping.topics == ("t/+",)
    events, _ = send(mapping, {"moving": True, "celsius": 20})
    assert [(each.seq, each.attributes) for each in events] == [
        (0, {"moving": True, "celsius": None}),
        (1, {"moving": None, "celsius": 20}),
    ]
    for event in events:
        mapping.types[0].check(event)
    assert mapping.counts == {("motion", "event"): 1, ("climate", "event"): 1}


def test_final_rule_keeps_later_ones_from_being_tried() -> None:
    mapping = parse_mapping(TWO_RULES.replace("[defaults]", "[defaults]\nfinal = true"))
    assert len(send(mapping, {"moving": True, "celsius": 20}).events) == 1
    assert len(send(mapping, {"celsius": 20}).events) == 1


def test_final_rule_that_rejects_has_applied() -> None:
    mapping = parse_mapping(TWO_RULES.replace("[defaults]", "[defaults]\nfinal = true"))
    events, rejected = send(mapping, {"moving": "?", "celsius": 20})
    assert not events
    assert [each.rule for each in rejected] == ["motion"]


def test_one_bad_rule_takes_nothing_from_the_others() -> None:
    mapping = parse_mapping(TWO_RULES)
    events, rejected = send(mapping, {"moving": "?", "celsius": 20})
    assert [each.attributes for each in events] == [{"moving": None, "celsius": 20}]
    assert [(each.rule, each.reason) for each in rejected] == [("motion", "attribute")]
    assert rejected[0].given == {"moving": "?", "celsius": 20}
    assert "t/d, rule motion" in str(rejected[0].error)
    assert mapping.counts["motion", "rejected: attribute"] == 1


def test_event_type_is_looked_up() -> None:
    mapping = parse_mapping(
        """
        [[rule]]
        topic = "t"
        source = "s"
        type = {path = "kind", lookup = {a = "A", b = "B"}}
        attributes = {x = "number"}
        """
    )
    assert {each.name for each in mapping.types} == {"A", "B"}
    assert send(mapping, {"kind": "b", "x": 1}, "t").events[0].type == "B"
    events, rejected = send(mapping, {"kind": "c", "x": 1}, "t")
    assert not events
    assert rejected[0].reason == "type"
    assert "allowed: a, b" in str(rejected[0].error)


@pytest.mark.parametrize("payload", [{}, {"id": None}, {"id": ""}, {"id": {"a": 1}}])
def test_event_without_a_source_is_rejected(payload: object) -> None:
    mapping = parse_mapping('[[rule]]\ntopic = "t"\ntype = "E"\nsource = "{id}"\n')
    assert [each.reason for each in send(mapping, payload, "t").rejected] == ["source"]


def test_events_are_counted_for_each_source() -> None:
    mapping = parse_mapping('[[rule]]\ntopic = "t/{d}"\ntype = "E"\nsource = "{$d}"\n', first_seq=100)
    ids = [send(mapping, {}, f"t/{device}").events[0].id for device in "aba"]
    assert ids == [("a", 100), ("b", 100), ("a", 101)]
    assert send(mapping.fresh(), {}, "t/a").events[0].id == ("a", 100)


def test_rejected_message_takes_no_number() -> None:
    mapping = one_attribute('"number"')
    assert send(mapping, {"x": "?"}).rejected
    assert send(mapping, {"x": 1}).events[0].seq == 0


def test_sequence_number_of_its_own_has_to_grow() -> None:
    mapping = parse_mapping('[[rule]]\ntopic = "t"\ntype = "E"\nsource = "s"\nsequence = "n"\n')
    outcomes = []
    for number in (5, "7", 7, 3, None, -1, 1.5, 2**64, 8):
        events, rejected = send(mapping, {"n": number}, "t")
        outcomes += [each.seq for each in events] + [each.reason for each in rejected]
    assert outcomes == [5, 7, *["sequence"] * 6, 8]


def duplicates(keys: str = "") -> Mapping:
    return parse_mapping(
        f"""
        [[rule]]
        topic = "t/{{d}}"
        type = "E"
        source = "{{$d}}"
        duplicates = {{within = "10s"{keys}}}
        attributes = {{x = "number"}}
        """
    )


def test_second_delivery_is_dropped_and_counted() -> None:
    mapping = duplicates()
    sent = [({"x": 1}, "t/a", 0), ({"x": 1}, "t/a", 10), ({"x": 1}, "t/b", 10), ({"x": 2}, "t/a", 10)]
    sent += [({"x": 1}, "t/a", 21)]
    counts = [len(send(mapping, payload, topic, ARRIVAL + second * SECOND).events) for payload, topic, second in sent]
    assert counts == [1, 0, 1, 1, 1]
    assert mapping.counts["1 (E)", "duplicate"] == 1


def test_second_deliveries_are_recognised_by_id() -> None:
    mapping = duplicates(', by = ["id"]')
    sent = [{"id": 1, "x": 1}, {"id": 1, "x": 2}, {"id": 2, "x": 1}, {"x": 1}, {"x": 1}, {"x": 2}]
    assert [len(send(mapping, payload).events) for payload in sent] == [1, 0, 1, 1, 0, 1]


def test_rejected_message_has_no_second_delivery() -> None:
    mapping = duplicates(', by = ["id"]')
    assert send(mapping, {"id": 1, "x": "?"}).rejected
    assert send(mapping, {"id": 1, "x": 3}).events


def test_deliveries_are_forgotten() -> None:
    mapping = duplicates()
    for second in range(100):
        send(mapping, {"x": second}, "t/a", ARRIVAL + second * SECOND)
    remembered = mapping.memory.deliveries["1 (E)"].seen
    assert len(remembered) == 11


EACH = """
    [[rule]]
    topic = "t"
    each = "list"
    when = [{path = "skip", present = false}]
    type = "E"
    source = "{$key}"
    attributes = {value = "number", unit = {kind = "string", path = "$payload.unit"}}
"""


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"list": [1, 2], "unit": "C"}, [("0", 1, "C"), ("1", 2, "C")]),
        ({"list": {"a": {"value": 1}, "b": {"value": 2, "skip": True}}}, [("a", 1, None)]),
        ({"list": []}, []),
        ({}, []),
    ],
)
def test_each_element_becomes_an_event(payload: object, expected: list[object]) -> None:
    events, rejected = send(parse_mapping(EACH), payload, "t")
    assert [(e.source, e.attributes["value"], e.attributes["unit"]) for e in events] == expected
    assert not rejected


def test_one_bad_element_takes_nothing_from_the_others() -> None:
    events, rejected = send(parse_mapping(EACH), {"list": [1, "?", 3]}, "t")
    assert [each.source for each in events] == ["0", "2"]
    assert [each.reason for each in rejected] == ["attribute"]


def test_value_without_elements_is_rejected() -> None:
    assert [each.reason for each in send(parse_mapping(EACH), {"list": 7}, "t").rejected] == ["each"]


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[1", b"{'a': 1}", b"[" * 100_000])
def test_payload_that_is_not_json_is_rejected(payload: bytes) -> None:
    mapping = parse_mapping(TWO_RULES)
    events, rejected = mapping.map("t/d", payload, ARRIVAL)
    assert not events
    # Two rules are for this topic, but the payload is one.
    assert [(each.rule, each.reason, each.given) for each in rejected] == [("", "payload", payload)]
    assert mapping.counts == {(NO_RULE, "rejected: payload"): 1}


def test_empty_payload_says_nothing() -> None:
    mapping = parse_mapping(TWO_RULES)
    assert mapping.map("t/d", b"", ARRIVAL) == ([], [])
    assert mapping.counts == {(NO_RULE, "unmatched"): 1}


def test_infinite_numbers_in_json_are_read() -> None:
    mapping = one_attribute('"number"')
    assert mapping.map("t/d", b'{"x": NaN}', ARRIVAL).events[0].attributes == {"x": None}
    assert mapping.map("t/d", b'{"x": 1e999}', ARRIVAL).events[0].attributes == {"x": float("inf")}


RECORDED = """
    [file]
    topic = "topic"
    payload = "message.payload"
    arrival = {path = "at", format = "ms"}
    [[rule]]
    topic = "t/{d}"
    type = "E"
    source = "{$d}"
    time = {}
    attributes = {x = "number", qos = {kind = "number", path = "$row.message.qos"}}
"""


@pytest.mark.parametrize("payload", [{"x": 1}, '{"x": 1}'])
def test_recorded_message_is_mapped_as_live(payload: object) -> None:
    mapping = parse_mapping(RECORDED)
    row = {"topic": "t/a", "message": {"payload": payload, "qos": 1}, "at": 5000}
    (event,), rejected = mapping.map_row(row, "file, row 1")
    assert (event.source, event.lo, event.hi) == ("a", 5 * SECOND, 5 * SECOND)
    assert event.attributes == {"x": 1, "qos": 1}
    assert not rejected


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"message": {"payload": {"x": 1}}, "at": 5000}, "row"),
        ({"topic": "t/a", "message": {"payload": {"x": 1}}, "at": "noon"}, "arrival"),
        ({"topic": "t/a", "message": {"payload": "{"}, "at": 5000}, "payload"),
        ({"topic": "t/a", "message": {"payload": {"x": 1}}}, "time"),
    ],
)
def test_row_that_is_no_recorded_message_is_rejected(row: dict[str, object], reason: str) -> None:
    events, rejected = parse_mapping(RECORDED).map_row(row, "file, row 1")
    assert not events
    assert [each.reason for each in rejected] == [reason]
    assert "file, row 1" in str(rejected[0].error)


def test_rules_for_rows_and_for_messages_keep_apart() -> None:
    mapping = parse_mapping(
        """
        [defaults]
        type = "E"
        source = "s"
        time = {path = "t", format = "s"}
        [[rule]]
        topic = "t"
        [[rule]]
        """
    )
    assert len(mapping.map_row({"t": 1}, "row 1").events) == 1
    assert len(send(mapping, {"t": 2}, "t").events) == 1
    assert mapping.topics == ("t",)


@given(payload=st.binary(max_size=60))
def test_any_payload_is_mapped_or_rejected(payload: bytes) -> None:
    mapping = parse_mapping(TWO_RULES)
    events, rejected = mapping.map("t/d", payload, ARRIVAL)
    for event in events:
        check_event(event)
        mapping.types[0].check(event)
    assert all(isinstance(each.error, MappingError) for each in rejected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abtx"), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_any_json_is_mapped_or_rejected(value: object) -> None:
    mapping = parse_mapping(
        """
        [defaults]
        source = "s-{a}"
        duplicates = {within = "1s", by = ["b"]}
        [[rule]]
        topic = "t"
        type = "Number"
        attributes = {x = {kind = "number", scale = 2.5}}
        time = {path = "t", format = "ms", clock = "offset", skew = "1s"}
        [[rule]]
        topic = "t"
        each = "x"
        type = "Text"
        attributes = {a = "string", value = "boolean"}
        time = {path = "$payload.t", uncertainty = "1s", clock = "monotone", otherwise = "arrival"}
        """
    )
    types = {each.name: each for each in mapping.types}
    for _ in range(2):
        events, rejected = send(mapping, value, "t")
        for event in events:
            types[event.type].check(event)
        for each in rejected:
            assert str(each.error)
            assert each.where == "t"
