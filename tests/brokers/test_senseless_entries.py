"""Entries of the directory that are well-formed and make no sense: others go on, and are served as before."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, MINUTE, SECOND
from distced.middleware.wire.administration import (
    Answers,
    Heartbeat,
    Listening,
    Missing,
    MoveRequest,
    Unavailable,
)
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory import KINDS
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.node_messages import Hosting
from distced.middleware.wire.topics import administration_topic, directory_topic
from tests.brokers.test_node import event, prepared, subscribed
from tests.support.virtual_nodes import Network, VirtualClient

NAMES: Final = ("n1", "n2", "c", "s", "q", "x", "y", "part:x y", "c0ffee")
TEXTS: Final = (
    *NAMES,
    *("", "A", "B", "Out", "[A]", "[A] ; [B]", "[A] ; [B] -> Out()", "[A", "guaranteed", "best-effort"),
    *("probabilistic(2)", "mqtt://nowhere:1", "not a url", "full", "min-latency", "x y z", "every", "number"),
    *("ordered", "{}", "\0", "ä/+#$"),
)
INSTANTS: Final = (0, 1, -1, SECOND, 3 * MINUTE, 2**40, INSTANT_MIN, INSTANT_MAX)
FLOATS: Final = (0.0, -1.0, 0.5, 1e300, float("inf"), float("nan"))
HOMES: Final = st.sampled_from(("", "", "not a url", "mqtt://:x"))


@cache
def fields_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type of fields."""
    origin, given_types = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fields_of(given_types[0])
    if origin in (Union, types.UnionType):
        return st.one_of(*map(fields_of, given_types))
    if origin is dict:
        return st.dictionaries(fields_of(given_types[0]), fields_of(given_types[1]), max_size=3)
    if origin is tuple:
        if given_types[-1] is Ellipsis:
            return st.lists(fields_of(given_types[0]), max_size=3).map(tuple)
        return st.tuples(*map(fields_of, given_types))
    if kind is type(None):
        return st.none()
    if kind is bool:
        return st.booleans()
    if kind is str:
        return st.sampled_from(TEXTS)
    if kind is int:
        return st.sampled_from(INSTANTS)
    if kind is float:
        return st.sampled_from(FLOATS)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        fields = {each: fields_of(hints[each]) for each in kind.__struct_fields__}
        # A server that nobody reaches is waited for: it may be back.
        return st.fixed_dictionaries(
            fields
            | {each: HOMES for each in ("home",) if each in fields}
            | {each: st.dictionaries(fields_of(str), HOMES, max_size=3) for each in ("replicas",) if each in fields}
        )
    return st.sampled_from(("", "x", 1, None))


def disturbs(entry: tuple[str, str, Any]) -> bool:
    """Whether an entry makes sense: a source of a type that is read is waited for until it is fenced off."""
    kind, _, values = entry
    return kind == "source" and not {"A", "B"}.isdisjoint(values["types"])


ENTRIES: Final = (
    st.sampled_from(sorted(KINDS))
    .flatmap(
        lambda kind: st.tuples(st.just(kind), st.sampled_from(("x", "y", "part:x y", "c0ffee")), fields_of(KINDS[kind]))
    )
    .filter(lambda entry: not disturbs(entry))
)


def goes_on(network: Network, client: VirtualClient, start: int, *identities: str) -> None:
    """Composite events of `[A] ; [B]` come to each subscription, each once."""
    before = {each: len(client.composites(each)) for each in identities}
    client.publish(event("A", start))
    client.publish(event("B", start + 1))
    for _ in range(3):
        client.heartbeat(start + 1, "s")
        network.pass_time(SECOND)
    for each in identities:
        assert [found.hi for found in client.composites(each)[before[each] :]] == [start + 1], each


@given(st.lists(ENTRIES, min_size=1, max_size=8), st.integers(0, 3))
def test_entries_that_make_no_sense_disturb_no_others(entries: list[tuple[str, str, Any]], seed: int) -> None:
    network, client = prepared(seed, nodes=2)
    subscribed(network, client, "q", "[A] ; [B]")
    for kind, name, values in entries:
        topic = directory_topic(kind, name, publishes=values.get("publishes", ""))
        note(f"{topic}: {values}")
        network.publish(topic, encode(values), retain=True)
    # What is not there is found dead, and others take over.
    network.pass_time(3 * MINUTE, every=3 * SECOND)
    goes_on(network, client, 10, "q")
    subscribed(network, client, "r", "[A as x] ; [B]")
    goes_on(network, client, 20, "q", "r")
    # A node that comes later reads all of it.
    network.node("n3")
    network.pass_time(2 * SECOND)
    for each in [each for each in network.nodes if each.name != "n3"]:
        each.stop()
    network.pass_time(3 * SECOND)
    goes_on(network, client, 30, "q", "r")


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        # Requests and heartbeats would have a topic with an empty level.
        ("source", "x", {"types": ["A"], "watermark": 0, "home": "mqtt://nowhere:1"}),
        ("source", "x", {"types": ["A"], "watermark": 0, "first": 7}),
        ("source", "x", {"types": ["A", ""], "watermark": 0, "publisher": "c"}),
        ("subscription", "x", {"client": "", "pattern": "[A]"}),
        # Nor is there a topic as long.
        ("source", "x", {"types": ["A"], "watermark": 0, "publisher": "x" * 70_000, "first": 7}),
        *((kind, "x" * 20_000, {"since": 0, "types": [], "watermark": 0}) for kind in ("node", "source", "recorder")),
        # No checkpoint could hold it.
        ("source", "x", {"types": ["A"], "watermark": 0, "publisher": "c", "first": 10**23}),
    ],
)
def test_entry_with_an_unusable_name_or_a_number_beyond_64_bits_is_a_dead_letter(
    kind: str, name: str, values: dict[str, Any]
) -> None:
    network, client = prepared()
    network.publish(directory_topic(kind, name), encode(values), retain=True)
    network.run()
    assert [letter.topic for letter in network.letters] == [directory_topic(kind, name)]
    subscribed(network, client, "q", "[A] ; [B]")
    goes_on(network, client, 10, "q")


@pytest.mark.parametrize("node", ["n2", "n9"])
@pytest.mark.parametrize("number", [2**61, 2**61 + 1, 2**63 - 2, 2**63 - 1])
def test_life_and_generation_that_none_follows_keep_no_host_from_beginning(node: str, number: int) -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    client.clear("subscription", "q")
    network.pass_time(MINUTE)
    entry = DetectorEntry(node, "[A] ; [B]", "guaranteed", ("A", "B"), generation=number, life=number)
    network.publish(directory_topic("detector", detector), encode(entry), retain=True)
    network.pass_time(3 * MINUTE, every=3 * SECOND)
    subscribed(network, client, "r", "[A] ; [B]")
    goes_on(network, client, 10, "r")
    assert network.letters == []


@pytest.mark.parametrize("node", ["n1", "n9"])
@pytest.mark.parametrize("below", ["", "A", "B"])
def test_entry_of_a_detector_that_nobody_hosts_is_cleared(node: str, below: str) -> None:
    network, client = prepared(nodes=2)
    subscribed(network, client, "q", "[A] ; [B]")
    topic = directory_topic("detector", "x", publishes=below)
    entry = DetectorEntry(node, "[B] -> A()", "guaranteed", ("B",), "A")
    network.publish(topic, encode(entry), retain=True)
    network.pass_time(100 * SECOND)
    if below == "A":
        assert topic not in network.retained
    else:
        # At another topic than its own it is no entry.
        assert "malformed" in network.reasons()
    goes_on(network, client, 10, "q")


MESSAGES: Final = {
    ("heartbeat", "x"): Heartbeat,
    ("lost", "n1", "e", "s"): Unavailable,
    ("missing", "detector"): Missing,
    ("ready", "x"): Listening,
    ("move", "c0ffee"): MoveRequest,
    ("answer", "node:n1"): Answers,
    **{("node", "n1", kind, "x"): Hosting for kind in ("serve", "host", "served")},
}
"""Administration by levels of its topic."""


@given(
    st.lists(
        st.sampled_from(sorted(MESSAGES)).flatmap(
            lambda levels: st.tuples(st.just(levels), st.one_of(fields_of(MESSAGES[levels]), st.binary(max_size=20)))
        ),
        min_size=1,
        max_size=8,
    )
)
def test_administration_that_makes_no_sense_takes_nobody_down(messages: list[tuple[tuple[str, ...], Any]]) -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    for levels, values in messages:
        topic = administration_topic(*(detector if each == "c0ffee" else each for each in levels))
        note(f"{topic}: {values}")
        network.publish(topic, values if isinstance(values, bytes) else encode(values))
    network.pass_time(3 * SECOND)
    subscribed(network, network.client("d"), "r", "[A as x] ; [B]")
