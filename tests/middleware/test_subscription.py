"""What a subscription passes on of the messages it receives, without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from middleware import subscription as module
from middleware.clock import ManualClock
from middleware.events import CompositeEvent, Event, Gap, Record
from middleware.quality import QualityOfService
from middleware.subscription import Subscription
from middleware.wire import encode

FIRST, OTHER = (5, 4, 0, "s", 3), (5, 3, 0, "s", 2)
A = Event("A", 4, 5, "s", 3, {})


def detected(*firsts: tuple[int, int, int, str, int], seq: int = 1, again: bool = False) -> CompositeEvent:
    records = tuple(Record(first, FIRST, first[1], Gap()) for first in firsts)
    return CompositeEvent("C", 4, 5, "c0ffee", seq, {}, constituents=(A.id,), events=(A,), records=records, again=again)


def subscribed(**quality: Any) -> Subscription:
    client: Any = SimpleNamespace(clock=ManualClock(10))
    return Subscription(client, "q", "[A]", QualityOfService(**quality), None)


def receive(subscription: Subscription, *events: CompositeEvent) -> list[Event]:
    subscription.receive("t", encode(events, type="C", source="c0ffee"), False)
    heard = []
    while (event := subscription.get(0)) is not None:
        heard.append(event)
    return heard


def test_an_event_that_comes_again_with_further_records_is_delivered_once() -> None:
    subscription = subscribed(constituents=True)
    assert receive(subscription, detected(FIRST)) == [detected()]
    assert receive(subscription, detected(OTHER, again=True), detected(OTHER, seq=2)) == [detected(seq=2)]
    assert subscription.statistics.received == 2
    assert subscription.statistics.duplicates == 1


def test_what_comes_again_is_not_delivered_where_it_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    subscription = subscribed(constituents=True)
    assert receive(subscription, detected(FIRST), detected(FIRST, seq=2)) == [detected(), detected(seq=2)]
    assert receive(subscription, detected(OTHER, again=True)) == []
    # It was found before this one began.
    assert receive(subscribed(), detected(OTHER, again=True)) == []


def test_what_comes_again_counts_for_no_rate_and_is_no_first_match() -> None:
    subscription = subscribed(rate=0.001)
    assert receive(subscription, detected(OTHER, again=True)) == []
    assert len(receive(subscription, detected(FIRST, seq=2))) == 1
    assert subscription.statistics.limited == 0
    subscription = subscribed(matches="first")
    assert receive(subscription, detected(OTHER, again=True)) == []
    assert not subscription.ended


@pytest.mark.parametrize("constituents", [True, False])
def test_records_are_for_detectors_not_for_applications(constituents: bool) -> None:
    (heard,) = receive(subscribed(constituents=constituents), detected(FIRST, OTHER))
    assert isinstance(heard, CompositeEvent)
    assert heard.records == ()
    assert heard.events == ((A,) if constituents else ())
