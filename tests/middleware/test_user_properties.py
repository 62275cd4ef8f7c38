"""Properties of messages as bytes, as paho packs them, and whatever a stranger may send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from distced.middleware.bus.connection import Connection
from distced.middleware.bus.paho_client import plain_key, split_key
from distced.middleware.bus.subscriptions import Subscriptions
from distced.middleware.bus.user_properties import (
    LONGEST,
    MOST,
    pack,
    subscription_identifiers,
    user_properties,
    walk,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=8)


def packed_by_paho(**values: Any) -> bytes:
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    return bytes(properties.pack())


@given(PAIRS)
def test_pairs_are_packed_as_by_paho_and_read(pairs: list[tuple[str, str]]) -> None:
    assert pack(pairs) == (packed_by_paho(UserProperty=pairs) if pairs else b"\0")
    assert user_properties(pack(pairs)) == tuple(pairs)


@given(PAIRS, st.lists(st.integers(1, 268_435_455), max_size=3), st.integers(1, 1_000), TEXT)
def test_pairs_and_identifiers_are_found_among_others(
    pairs: list[tuple[str, str]], identifiers: list[int], expiry: int, reply: str
) -> None:
    raw = packed_by_paho(
        UserProperty=pairs,
        SubscriptionIdentifier=identifiers,
        MessageExpiryInterval=expiry,
        ResponseTopic=reply,
        CorrelationData=b"\x26\x0b\x00",
        PayloadFormatIndicator=1,
        ContentType="x",
        TopicAlias=7,
    )
    assert user_properties(raw) == tuple(pairs)
    assert subscription_identifiers(raw) == tuple(identifiers)


@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda tail: pack([("a", "b")]) + tail))
def test_walk_ends_within_any_bytes(raw: bytes) -> None:
    ends = []
    try:
        for _, start, end in walk(raw):
            assert start <= end
            ends.append(end)
    except ValueError:
        assert user_properties(raw) == ()
    assert all(end <= len(raw) for end in ends) and ends == sorted(ends)
    user_properties(raw)


@given(PAIRS.filter(bool), st.data())
def test_properties_cut_off_are_malformed(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = pack(pairs)
    head = next(place for place, byte in enumerate(whole) if byte < 0x80) + 1
    ends = [head + sum(5 + len(name.encode()) + len(value.encode()) for name, value in pairs[:n]) for n in range(9)]
    cut = data.draw(st.integers(head, len(whole) - 1).filter(lambda place: place not in ends))
    with pytest.raises(ValueError, match="malformed"):
        subscription_identifiers(whole[:cut])
    assert user_properties(whole[:cut]) == ()


@pytest.mark.parametrize(
    "raw", [b"\x02\x0b\x00", b"\x05\x0b\xff\xff\xff\xff", b"\x01\x7f", b"\x02\x02\x00", b"\x01\x26"]
)
def test_malformed_properties_are_errors(raw: bytes) -> None:
    with pytest.raises(ValueError, match="property"):
        subscription_identifiers(raw)


def test_long_and_many_pairs_are_left_out() -> None:
    long = "x" * (LONGEST + 1)
    assert user_properties(pack([(long, "a"), ("b", long), ("c", "d")])) == (("c", "d"),)
    assert len(user_properties(pack([("a", "b")] * 10_000))) == MOST


def key(topic: str, raw: bytes) -> bytes:
    return len(topic).to_bytes(2, "big") + topic.encode() + raw


def test_messages_with_pairs_go_the_way_of_those_without() -> None:
    subscriptions = Subscriptions()
    heard: list[str] = []
    no_connection: Connection | None = None
    subscriptions.add("a/+", lambda topic, *_: heard.append(topic), 0, None, no_connection)
    plain = subscriptions.route(key("a/b", b"\0"))
    for number in range(20_000):
        assert subscriptions.route(key("a/b", pack([("traceparent", str(number))]))) is plain
    assert len(subscriptions._routes.memory) == 1


def test_plain_key_is_that_of_a_message_without_pairs() -> None:
    for identifiers in ([], [5], [268_435_455]):
        marked = {"SubscriptionIdentifier": identifiers} if identifiers else {}
        without, with_pairs = packed_by_paho(**marked), packed_by_paho(UserProperty=[("a", "b")], **marked)
        topic, found, singular = split_key(key("a/b", with_pairs))
        assert singular and plain_key(key("a/b", with_pairs), topic, found) == key("a/b", without)
    topic, found, _ = split_key(key("a", packed_by_paho(UserProperty=[("a", "b")], SubscriptionIdentifier=[1, 2])))
    assert plain_key(b"", topic, found) is None
