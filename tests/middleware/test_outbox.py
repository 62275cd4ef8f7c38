"""Outbox: what nodes have not acknowledged is kept beyond the recent messages, up to a limit."""

from __future__ import annotations

import pytest

from distced.middleware.client.client_effects import ClientEffect
from distced.middleware.client.session import ClientSession
from distced.middleware.client.source_session import SourceState
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.administration import Covered
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import NodeEntry
from distced.middleware.wire.frames import decode
from distced.middleware.wire.mqtt_effects import Note, Publish
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.outbox_log import OutboxLog
from distced.middleware.wire.published_streams import OVERHEAD
from distced.simulations.network.transport.virtual_outbox import VirtualOutbox

SIZE = OVERHEAD + 1
S = ("s", "A")
T = ("t", "A")


def kept(outbox: Outbox, stream: tuple[str, str], count: int = 40) -> list[int]:
    """Numbers of the kept messages of a stream, up to a count."""
    return [number for number in range(count) if outbox.payloads(stream, number, number + 1)]


def fill(outbox: Outbox, stream: tuple[str, str], begin: int, end: int) -> None:
    for number in range(begin, end):
        outbox.keep(stream, number, b"x", number, number)


def small(most: int = 100, **settings: object) -> Outbox:
    return Outbox(most * SIZE, recent_bytes=3 * SIZE, **settings)  # type: ignore[arg-type]


def test_unacknowledged_messages_stay_until_all_nodes_have_acknowledged_them() -> None:
    outbox = small()
    outbox.acknowledge("n", S, 2)
    outbox.acknowledge("m", S, 4)
    fill(outbox, S, 0, 10)
    fill(outbox, T, 0, 10)
    assert kept(outbox, S) == list(range(2, 10)) and kept(outbox, T) == [7, 8, 9]
    assert outbox.first(S, 0, 10) == 2 and outbox.top(S, 3) == 3 and outbox.at(S, 3) == 3
    outbox.acknowledge("n", S, 8)
    assert outbox.unacknowledged(S) == 4
    assert outbox.make_room(()) == {} and kept(outbox, S) == list(range(4, 10))
    outbox.acknowledge("m", S, 0)
    fill(outbox, T, 10, 11)
    assert kept(outbox, S) == [8, 9] and outbox.held_bytes == 2 * SIZE
    outbox.acknowledge("n", S, 0)
    fill(outbox, T, 11, 12)
    assert kept(outbox, S) == [] and outbox.held_bytes == 0 and outbox.size == 3 * SIZE


def test_node_that_takes_over_an_older_checkpoint_holds_what_is_still_there() -> None:
    outbox = small()
    outbox.acknowledge("n", S, 6)
    fill(outbox, S, 0, 10)
    assert kept(outbox, S) == [6, 7, 8, 9]
    outbox.acknowledge("n", S, 2)
    fill(outbox, S, 10, 20)
    assert kept(outbox, S) == list(range(6, 20)) and outbox.first(S, 0, 20) == 6


def test_full_outbox_waits_for_nodes_of_the_directory_only() -> None:
    outbox = small(10)
    outbox.acknowledge("n", S, 1)
    outbox.acknowledge("away", S, 1)
    fill(outbox, S, 0, 11)
    assert outbox.full and outbox.make_room({"n"}) == {"n": 1} and kept(outbox, S) == list(range(1, 11))
    outbox.acknowledge("n", S, 9)
    assert outbox.make_room({"n"}) == {} and not outbox.full and kept(outbox, S) == [8, 9, 10]
    assert outbox.dropped == 0


def test_outbox_that_drops_counts_the_oldest_messages() -> None:
    outbox = small(10, when_full="drop")
    outbox.acknowledge("n", S, 1)
    for number in range(20):
        assert not outbox.full or outbox.make_room({"n"}) == {}
        fill(outbox, S, number, number + 1)
    assert kept(outbox, S) == list(range(10, 20)) and outbox.dropped == 9


def test_settings_are_checked() -> None:
    with pytest.raises(DistcedError, match="not a size"):
        Outbox(0)
    with pytest.raises(DistcedError, match="wait or drop"):
        Outbox(when_full="block")  # type: ignore[arg-type]


class Publisher:
    """A client session with an open source."""

    def __init__(self, outbox: Outbox) -> None:
        self.session = ClientSession("p", outbox=outbox)
        self.sources = self.session.sources
        self.source = SourceState("p", "s", {"A": event_type("A", {})}, 0, 1, 10**6, streams=self.sources.streams)
        self.sources.sources["s"] = self.source
        self.sent: list[Publish] = []

    def publish(self, count: int) -> None:
        for _ in range(count):
            event = self.source.create("A", self.source.next_seq)
            for frame, message in self.source.messages([event], event.hi, 10**6):
                if not self.sources.defer(message, events=bool(frame)):
                    self.sent.append(message)

    def numbers(self, effects: list[ClientEffect]) -> list[int]:
        """Numbers of the messages with events, from 1."""
        found = [each for each in effects if isinstance(each, Publish) and each.topic == "ced/e/A/s"]
        return [(decode(each.payload, where="").number or 0) - self.source.first + 1 for each in found]


def test_messages_for_a_server_that_is_away_follow_in_order_and_before_later_ones() -> None:
    publisher = Publisher(Outbox())
    publisher.session.connected("", 0)
    publisher.publish(2)
    publisher.session.lost("", BusError("away"))
    publisher.publish(1_000)
    assert publisher.numbers(list(publisher.sent)) == [1, 2]
    effects = publisher.session.connected("", 0)
    assert publisher.numbers(effects) == list(range(3, 503))
    publisher.publish(1)
    assert len(publisher.sent) == 2
    flushed = [each for each in effects if type(each).__name__ == "Flush"]
    effects = publisher.session.fired(flushed[0].number, 0)  # type: ignore[union-attr]
    assert publisher.numbers(effects) == list(range(503, 1_003))
    flushed = [each for each in effects if type(each).__name__ == "Flush"]
    effects = publisher.session.fired(flushed[0].number, 0)  # type: ignore[union-attr]
    assert publisher.numbers(effects) == [1_003] and effects[-1].topic == "ced/a/heartbeat/p"  # type: ignore[union-attr]
    publisher.publish(1)
    assert publisher.numbers(list(publisher.sent)) == [1, 2, 1_004]
    assert publisher.sources.outbox.unsent_bytes == 0


def test_full_outbox_says_what_it_waits_for() -> None:
    publisher = Publisher(small(10))
    publisher.sources.directory.entries.nodes["n"] = NodeEntry(1)
    publisher.session.connected("", 0)
    first = publisher.source.first
    publisher.session.receive("ced/a/covered/p", encode(Covered("n", (("s", "A", first),))), 0)
    publisher.publish(3)
    assert publisher.sources.full() == []
    publisher.publish(10)
    refused = publisher.sources.full()
    assert isinstance(refused, BusError)
    assert "nodes to acknowledge it: n" in str(refused) and "server" not in str(refused.given)
    publisher.session.receive("ced/a/covered/p", encode(Covered("n", (("s", "A", first + 12),))), 0)
    assert publisher.sources.full() == []


def test_full_outbox_names_sources_that_are_not_open_yet() -> None:
    store = VirtualOutbox()
    for now in (1, 2):
        # In the second process the source is not open yet.
        outbox = Outbox(5_000, recent_bytes=1_000)
        outbox.attach(OutboxLog(store, "p", 5_000, now))
        publisher = Publisher(outbox)
        if now == 1:
            publisher.publish(30)
    refused = publisher.sources.full()
    assert isinstance(refused, BusError) and "bytes that wait for their sources to be opened: s" in str(refused)


def test_full_outbox_of_a_server_that_is_away_drops_by_choice_and_logs_it() -> None:
    publisher = Publisher(small(10, when_full="drop"))
    publisher.publish(30)
    effects = publisher.sources.full()
    assert not isinstance(effects, BusError) and not publisher.sources.outbox.full
    assert [(each.event, each.fields["so_far"]) for each in effects if isinstance(each, Note)] == [
        ("messages dropped from the outbox", publisher.sources.outbox.dropped)
    ]
    effects = publisher.session.connected("", 0)
    assert publisher.numbers(effects) == list(range(publisher.sources.outbox.dropped + 1, 31))


def test_outbox_of_a_client_without_a_choice_does_not_queue() -> None:
    session = ClientSession("p")
    assert not session.sources.defer(Publish("t", b""), events=True)
