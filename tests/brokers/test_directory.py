"""The directory: entries in any order, bad ones, and what it says about patterns."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from distced.brokers.core.directory import CONFIRM_WITHIN, Directory
from distced.middleware.model.errors import DistcedError, FrameError, PatternError, TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, derive, event_type
from distced.middleware.model.published_types import PublishedType
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Counters
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    NodeEntry,
    SourceEntry,
    SubscriptionEntry,
)

A = event_type("A", {"k": "number"})
ENTRIES: list[tuple[str, str, msgspec.Struct]] = [
    ("type", "A", A),
    ("type", "Slow", derive(A, "Slow", where="k < 3")),
    ("type", "Slower", EventType("Slower", A.attributes, Derivation("Slow", every=5, by=("k",)))),
    ("client", "c", ClientEntry(1)),
    ("source", "s", SourceEntry(("A",), 5, 7, "c")),
    ("node", "n", NodeEntry(3, 1, {"events": 2})),
    ("detector", "c1", DetectorEntry("n", "[A] -> B()", "guaranteed", ("A",), "B", {})),
    ("subscription", "q", SubscriptionEntry("c", "[A]", {"D": "[A]"}, "epoch", "best-effort", True)),
]


def detector(reads: tuple[str, ...] | None, publishes: str, policy: str = "guaranteed", **kinds: str) -> DetectorEntry:
    return DetectorEntry("n", "", policy, reads, publishes, kinds)


def test_entries_come_in_any_order_change_and_go() -> None:
    for seed in range(20):
        entries = ENTRIES.copy()
        Random(seed).shuffle(entries)
        directory = Directory()
        for kind, name, entry in entries:
            change = directory.read((kind, name), encode(entry), where="here")
            assert (change.kind, change.name, change.entry, change.before) == (kind, name, entry, None)
            assert directory.read((kind, name), encode(entry), where="here").before == entry
        assert directory.names() == {(kind, name) for kind, name, _ in ENTRIES}
        assert {each.name for each in directory.registry()} == {"A", "Slow", "Slower", "B"}
        for kind, name, entry in entries:
            change = directory.read((kind, name), b"", where="here")
            assert (change.entry, change.before) == (None, entry)
            assert directory.read((kind, name), b"", where="here").before is None
        assert directory.names() == set()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, False, True])), max_size=12))
def test_sources_that_filter_are_known_as_entries_change(steps: list[tuple[str, bool | None]]) -> None:
    directory = Directory()
    for name, filters in steps:
        entry = None if filters is None else SourceEntry(("A",), 1, publisher="c", filters=filters)
        directory.read(("source", name), b"" if entry is None else encode(entry), where="here")
        assert set(directory.filtering) == {each for each, known in directory.sources.items() if known.filters}


def test_entry_of_an_earlier_primary_is_not_taken_while_the_later_one_is_present() -> None:
    earlier, later = (replace(detector((), ""), node=node, generation=n) for node, n in (("n1", 4), ("n2", 5)))
    directory = Directory()
    directory.put("detector", "d", later)
    assert directory.put("detector", "d", earlier).entry == earlier
    directory.put("node", "n2", NodeEntry(3, 1, {}))
    directory.put("detector", "d", later)
    change = directory.put("detector", "d", earlier)
    assert (change.entry, change.before, change.outdated) == (later, later, True)
    assert directory.detectors["d"] == later
    # What is known from before the connection was lost may have been cleared since.
    directory.reconnected(0)
    assert not directory.put("detector", "d", earlier).outdated
    directory.put("detector", "d", later)
    directory.put("detector", "d", None)
    assert directory.put("detector", "d", earlier).entry == earlier


@pytest.mark.parametrize(
    ("levels", "payload"),
    [
        (("type",), b"{}"),
        (("type", "A", "more"), b"{}"),
        (("planet", "A"), b"{}"),
        (("type", "A"), b"no JSON"),
        (("type", "A"), b"[1]"),
        (("type", "A"), b'{"name": "B", "attributes": {}}'),
        (("type", "A"), b'{"name": "A", "attributes": {"k": "int"}}'),
        (("type", "A"), b'{"name": "A", "attributes": {"1k": "number"}}'),
        (("type", "1A"), b'{"name": "1A", "attributes": {}}'),
        (("type", "A"), b'{"name": "A", "attributes": {}, "colour": "red"}'),
        (("type", "A"), b'{"name": "A", "attributes": {}, "derived": {"base": "B", "every": -1}}'),
        (("source", "s"), b'{"types": "A", "watermark": 1}'),
        (("source", "s"), b'{"types": ["A"]}'),
        (("node", "n"), b'{"since": 1.5}'),
        (("subscription", "q"), b"\xff\xfe"),
        (("subscription", "q"), b"[" * 5000),
        (("subscription", "q"), encode(SubscriptionEntry("", "[A]"))),
        (("subscription", "q"), encode(SubscriptionEntry("c" * 40_000, "[A]"))),
        (("subscription", "q"), encode(SubscriptionEntry("/" * 20_000, "[A]"))),
    ],
)
def test_malformed_entry_changes_nothing(levels: tuple[str, ...], payload: bytes) -> None:
    directory = Directory()
    for kind, name, entry in ENTRIES:
        directory.read((kind, name), encode(entry), where="before")
    before = {kind: dict(directory.table(kind)) for kind, _ in directory.names()}
    with pytest.raises(FrameError, match="ced/d/x"):
        directory.read(levels, payload, where="ced/d/x")
    assert {kind: directory.table(kind) for kind, _ in directory.names()} == before


def test_entries_are_awaited_each_for_its_own_time() -> None:
    directory = Directory()
    for name in ("a.1", "a.2", "b.1", "c.1", "d.1"):
        directory.put("subscription", name, SubscriptionEntry(name[0], "[A]"))
    directory.reconnected(0)
    directory.expect([("subscription", "a.1"), ("subscription", "b.1")], 20 * SECOND)
    directory.put("subscription", "a.2", directory.subscriptions["a.2"])
    late = CONFIRM_WITHIN + 1
    assert [each.name for each in directory.clear_unconfirmed(late, {"c"})] == ["d.1"]
    assert [each.name for each in directory.clear_unconfirmed(late)] == ["c.1"]
    directory.confirm([("subscription", "b.1")])
    assert [each.name for each in directory.clear_unconfirmed(late + 20 * SECOND)] == ["a.1"]
    assert directory.subscriptions.keys() == {"a.2", "b.1"} and not directory.unconfirmed


def test_types_that_cannot_be_are_left_out_of_the_registry() -> None:
    directory = Directory()
    directory.types = {
        each.name: each
        for each in (
            EventType("Orphan", {}, Derivation("Nobody")),
            EventType("Odd", {"x": "string"}, Derivation("A")),
            EventType("OfOdd", {"x": "string"}, Derivation("Odd")),
            EventType("Self", {}, Derivation("Self")),
            A,
        )
    }
    directory.put("detector", "c1", detector(("A",), "not a name"))
    assert [each.name for each in directory.registry()] == ["A"]


def test_type_may_be_published_once_and_with_the_same_attributes() -> None:
    directory = Directory()
    for each in (A, derive(A, "Slow")):
        directory.put("type", each.name, each)
    directory.put("detector", "c1", detector(("A",), "B", k="number"))
    reads = frozenset({"A"})
    directory.check_published(PublishedType("New", {"x": "string"}), reads)
    directory.check_published(PublishedType("B", {"k": "number"}), reads)
    with pytest.raises(TypeRegistryError, match="known with other attributes"):
        directory.check_published(PublishedType("B", {"k": "string"}), reads)
    with pytest.raises(TypeRegistryError, match="derived"):
        directory.check_published(PublishedType("Slow", {"k": "number"}), reads)


def test_circles_are_found_however_long() -> None:
    directory = Directory()
    for number in range(5):
        directory.put("detector", f"c{number}", detector((f"T{number}",), f"T{number + 1}"))
    directory.put("detector", "any", detector(None, "T0"))
    directory.check_published(PublishedType("T0", {}), frozenset({"A"}))
    directory.check_published(PublishedType("T9", {}), frozenset({"T5"}))
    with pytest.raises(PatternError, match="T0 <- T5 <- T4 <- T3 <- T2 <- T1 <- T0"):
        directory.check_published(PublishedType("T0", {}), frozenset({"T5"}))


def test_guaranteed_detection_reads_guaranteed_detectors() -> None:
    directory = Directory()
    directory.put("detector", "c1", detector((), "B", "best-effort"))
    directory.put("detector", "c2", detector((), "C"))
    directory.put("detector", "c3", detector((), "C", "x"))
    assert directory.publishers("C") == ["c2", "c3"]
    assert directory.publishers("C", "guaranteed") == ["c2"]
    assert directory.publishers("C", "best-effort") == ["c2", "c3"]
    directory.check_read(frozenset({"B", "C"}), "best-effort")
    directory.check_read(frozenset({"C", "unknown"}), "guaranteed")
    with pytest.raises(DistcedError, match=r"best effort.*: B"):
        directory.check_read(frozenset({"B"}), "guaranteed")
    # Where the type is registered, sources may publish it.
    directory.put("type", "B", event_type("B"))
    directory.check_read(frozenset({"B"}), "guaranteed")


def test_counters_beside_entries_come_in_any_order_and_entries_of_earlier_versions_keep_theirs() -> None:
    directory = Directory()
    # Of an earlier version, with its counters inside.
    directory.read(("node", "old"), encode(NodeEntry(1, 0, {"events": 7})), where="here")
    assert directory.nodes["old"].counts == {"events": 7}
    # Counters before the entry, and again after it.
    directory.count("n", encode(Counters({"events": 1})), where="here")
    assert "n" not in directory.nodes
    change = directory.read(("node", "n"), encode(NodeEntry(1)), where="here")
    assert change.entry == NodeEntry(1, 0, {"events": 1}) == directory.nodes["n"]
    directory.count("n", encode(Counters({"events": 2})), where="here")
    assert directory.nodes["n"].counts == {"events": 2}
    # Only the entry changes: its counters stay.
    change = directory.read(("node", "n"), encode(NodeEntry(1, 3)), where="here")
    assert directory.nodes["n"] == NodeEntry(1, 3, {"events": 2}) and change.before == NodeEntry(1, 0, {"events": 2})
    for wrong in (b"{", b'{"counts":{"events":-1}}', b'{"counts":[1]}'):
        with pytest.raises(FrameError):
            directory.count("n", wrong, where="here")
    assert directory.nodes["n"].counts == {"events": 2}
    # Cleared, as at the end of a node.
    directory.count("n", b"", where="here")
    assert directory.nodes["n"].counts == {}
