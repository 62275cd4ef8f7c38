"""What an operator is told of the directory and of dead letters."""

from __future__ import annotations

import pytest

from distced.brokers.core.effects import Note
from distced.brokers.inspect.activity import PERIOD, SHOWN, Watch
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    NodeEntry,
    SourceEntry,
    SubscriptionEntry,
)

ENTRIES = [
    ("type/Temp", event_type("Temp", {"c": "number"}), "type registered", "type removed", {"has": "c: number"}),
    ("source/pir", SourceEntry(("A", "B"), 0, 0, "br"), "source joined", "source left", {"types": "A, B"}),
    ("node/n1", NodeEntry(1), "node joined", "node left", {"node": "n1"}),
    ("detector/c1", DetectorEntry("n1", "[A]", "guaranteed", ("A",)), "detector created", "detector destroyed", {}),
    ("subscription/s/1", SubscriptionEntry("s", "[A]"), "subscribed", "unsubscribed", {"client": "s"}),
]


@pytest.mark.parametrize(("level", "entry", "came", "went", "fields"), ENTRIES)
def test_entries_are_logged_as_they_come_and_go(
    level: str, entry: object, came: str, went: str, fields: dict[str, object]
) -> None:
    watch = Watch(0)
    topic = f"ced/d/{level}"
    (note,) = watch.receive(topic, encode(entry))
    assert (note.level, note.event) == ("info", came)
    assert note.fields.items() >= fields.items()
    assert watch.receive(topic, encode(entry)) == []  # a node says how it is again and again
    assert [each.event for each in watch.receive(topic, b"")] == [went]
    assert watch.receive(topic, b"") == []


def test_clients_show_in_their_sources_and_subscriptions() -> None:
    watch = Watch(0)
    assert watch.receive("ced/d/client/shop", encode(ClientEntry(1))) == []
    assert watch.receive("ced/d/client/shop", b"") == []


def test_first_dead_letters_are_logged_and_further_ones_counted() -> None:
    watch = Watch(0)
    letter = encode(DeadLetter("late", "it came too late", "home/hall"))
    reported = [watch.receive("ced/x/late/bridge", letter) for _ in range(SHOWN + 4)]
    assert [len(notes) for notes in reported] == [1] * SHOWN + [0] * 4
    fields = {"reason": "late", "topic": "home/hall", "by": "bridge", "message": "it came too late"}
    assert reported[0] == [Note("warning", "dead letter published", fields)]
    assert len(watch.receive("ced/x/late/node", letter)) == 1
    assert watch.tick(PERIOD - 1) == []
    assert watch.tick(PERIOD) == [
        Note("warning", "dead letters counted", {"reason": "late", "by": "bridge", "count": 4}),
    ]
    assert len(watch.receive("ced/x/late/bridge", letter)) == 1
    assert watch.tick(2 * PERIOD) == []


@pytest.mark.parametrize(
    ("topic", "payload", "event"),
    [
        ("ced/a/fence/pir%2F1", b"", "fencing requested"),
        ("ced/d/node/n1", b"{", "message rejected"),
        ("ced/d/nonsense/n1", b"{}", "message rejected"),
        ("ced/x/late/bridge", b"\xff", "message rejected"),
    ],
)
def test_fencing_and_malformed_messages_are_logged(topic: str, payload: bytes, event: str) -> None:
    (note,) = Watch(0).receive(topic, payload)
    assert (note.level, note.event) == ("warning", event)


def test_first_rejected_messages_are_logged_and_further_ones_counted() -> None:
    watch = Watch(0)
    reported = [watch.receive(f"ced/d/source/s{number}", b"{") for number in range(SHOWN + 4)]
    assert [len(notes) for notes in reported] == [1] * SHOWN + [0] * 4
    assert watch.tick(PERIOD) == [Note("warning", "messages rejected", {"count": 4})]
    assert len(watch.receive("ced/d/source/s", b"{")) == 1
    assert watch.tick(2 * PERIOD) == []


def test_detectors_of_nodes_that_log_them_are_left_out() -> None:
    watch = Watch(0, heard=["n1"])
    for node, logged in (("n1", 0), ("n2", 1)):
        topic = f"ced/d/detector/{node}"
        assert len(watch.receive(topic, encode(DetectorEntry(node, "[A]", "guaranteed", ("A",))))) == logged
        assert len(watch.receive(topic, b"")) == logged
