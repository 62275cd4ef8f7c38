"""Filters of a client: a subscription to a type waits for the publishers that filter; promises go on."""

from __future__ import annotations

from distced.middleware.client.client_effects import Done, Listen, NotAvailable, SetTimer
from distced.middleware.client.filter_session import PROMISE_AFTER, PROMISE_EVERY
from distced.middleware.client.session import ClientSession
from distced.middleware.client.source_session import SourceState
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.administration import Filtered, Heartbeat
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import ClientEntry, ReaderEntry, SourceEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.source_filter import SourceFilter
from tests.middleware.test_client_session import A, Driven

READER = "ced/d/reader/client:ann"
ACK = "ced/a/filtered/client:ann/pub"


def waiting() -> tuple[Driven, ReaderEntry]:
    """A subscription to a type that waits for a publisher, and its declaration."""
    driven = Driven()
    driven.entry("type", "A", A)
    driven.entry("client", "pub", ClientEntry(0, declares=True))
    driven.entry("source", "s", SourceEntry(("A",), 0, publisher="pub", filters=True))
    driven.read()
    driven.subscribe("A")
    driven.pass_barrier("A")
    driven.confirm(*driven.of(Listen))
    assert driven.of(Done) == []
    (declared,) = driven.published(READER)
    return driven, decode(declared, ReaderEntry, where="")


def test_subscription_to_a_type_waits_for_publishers_that_filter() -> None:
    driven, entry = waiting()
    assert entry.types == {"A": ({},)}
    driven.receive(ACK, Filtered(entry.version - 1))
    assert driven.of(Done) == []
    driven.receive(ACK, Filtered(entry.version, 0, {"A": (1, 5)}))
    # What was left out before its answer is not its concern.
    assert driven.of(Done) == [Done("op")] and driven.of(NotAvailable) == []


def test_subscription_goes_on_where_the_publisher_has_gone() -> None:
    driven, _ = waiting()
    driven.entry("client", "pub", b"")
    assert driven.of(Done) == [Done("op")]


def test_subscription_fails_where_a_publisher_does_not_answer() -> None:
    driven, _ = waiting()
    (timer,) = [each for each in driven.of(SetTimer) if each.delay == driven.session.patience]
    driven.fire(timer)
    (done,) = driven.of(Done)
    assert "have not acknowledged a subscription: pub" in str(done.error)


def test_what_was_left_out_of_a_subscription_that_runs_is_a_loss() -> None:
    driven, entry = waiting()
    driven.receive(ACK, Filtered(entry.version))
    # The publisher comes back without the declaration.
    driven.receive(ACK, Filtered(entry.version, 0, {"A": (1, 5)}))
    assert [each.subscription for each in driven.of(NotAvailable)] == ["q"]
    driven.receive(ACK, Filtered(entry.version, entry.version, {"A": (1, 5)}))
    assert driven.of(NotAvailable) == []


def test_promise_of_an_event_that_is_left_out_is_published_in_a_while() -> None:
    session = ClientSession("pub", filters=True)
    timers = [each for each in session.begin() if isinstance(each, SetTimer)]
    made = SourceFilter()
    made.epoch.sets = {}
    source = SourceState("pub", "s", {"A": event_type("A", {"k": "number"})}, 0, 1, 0, wanted=made)
    session.sources.sources["s"] = source
    first = source.streams.position("s", "A", None)
    assert list(source.messages([Event("A", 5, 5, "s", 1, {"k": 1})], 5, 0)) == []
    assert source.watermark == 5 and source.streams.position("s", "A", None) == first and source.published == 0
    now, beats = 0, []
    while now <= PROMISE_AFTER + PROMISE_EVERY:
        now += PROMISE_EVERY
        effects = session.fired(timers.pop().number, now)
        timers += [each for each in effects if isinstance(each, SetTimer)]
        beats += [(now, each) for each in effects if isinstance(each, Publish) and "/heartbeat/" in each.topic]
    ((at, beat),) = beats
    assert at == PROMISE_AFTER and decode(beat.payload, Heartbeat, where="").watermark == 5
