"""What a subscription passes on of the messages it receives, without a server."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from distced.middleware.client import subscription_state as module
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.errors import SubscriptionError
from distced.middleware.model.events import CompositeEvent, Derivation, Event, Gap
from distced.middleware.wire.frames import encode

FIRST, OTHER = (5, 4, 0, "s", 3), (5, 3, 0, "s", 2)
A = Event("A", 4, 5, "s", 3, {})


def detected(*firsts: tuple[int, int, int, str, int], seq: int = 1, again: bool = False) -> CompositeEvent:
    derivations = tuple(Derivation(first, FIRST, first[1], Gap()) for first in firsts)
    return CompositeEvent(
        "C", 4, 5, "c0ffee", seq, {}, constituents=(A.id,), events=(A,), derivations=derivations, again=again
    )


def subscribed(**quality: Any) -> Subscription:
    client: Any = SimpleNamespace(clock=ManualClock(10))
    return Subscription(client, "q", "[A]", QualityOfService(**quality), None)


def receive(subscription: Subscription, *events: CompositeEvent) -> list[Event]:
    subscription("t", encode(events, type="C", source="c0ffee"), False)
    heard = []
    while (event := subscription.get(0)) is not None:
        heard.append(event)
    return heard


def test_event_that_comes_again_with_further_records_is_delivered_once() -> None:
    subscription = subscribed(constituents=True)
    assert receive(subscription, detected(FIRST)) == [detected()]
    assert receive(subscription, detected(OTHER, again=True), detected(OTHER, seq=2)) == [detected(seq=2)]
    assert subscription.statistics.received == 2
    assert subscription.statistics.duplicates == 1


def test_event_that_comes_again_is_not_delivered_where_its_id_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    subscription = subscribed(constituents=True)
    assert receive(subscription, detected(FIRST), detected(FIRST, seq=2)) == [detected(), detected(seq=2)]
    assert receive(subscription, detected(OTHER, again=True)) == []
    # It was found before this one began.
    assert receive(subscribed(), detected(OTHER, again=True)) == []


def test_event_that_comes_again_counts_for_no_rate_and_is_no_first_match() -> None:
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
    assert heard.derivations == ()
    assert heard.events == ((A,) if constituents else ())


def test_messages_of_several_servers_come_at_once_and_each_event_counts_once() -> None:
    subscription = subscribed()
    frames = [encode((detected(FIRST, seq=seq),), type="C", source="c0ffee") for seq in range(500)]

    def receive_all() -> None:
        for frame in frames:
            subscription("t", frame, False)

    threads = [threading.Thread(target=receive_all) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert subscription.statistics.received == 500
    assert subscription.statistics.duplicates == 1000
    assert sorted(event.seq for _ in frames if (event := subscription.get(0))) == list(range(500))


def test_events_takes_all_that_has_arrived_without_waiting() -> None:
    subscription = subscribed()
    for seq in (1, 2):
        subscription("t", encode([detected(FIRST, seq=seq)], type="C", source="c0ffee"), False)
    assert [event.seq for event in subscription.events()] == [1, 2]
    assert subscription.events() == []
    subscription.fail(SubscriptionError("ended"))
    with pytest.raises(SubscriptionError):
        subscription.events()
