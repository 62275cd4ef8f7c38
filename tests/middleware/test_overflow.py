"""Queues of subscriptions with a slow application, without a server: what is left, requested, dropped and reported."""

from collections import deque
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import TOO_SLOW, Subscription
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import MissingMessages, Unavailable
from distced.middleware.wire.frames import FrameKind, encode
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.published_streams import NOT_KEPT, KeptMessages, within

DETECTOR, SOURCE, LIFE = "c0ffee", "s", 7
TOPICS = {"c": "ced/c/c0ffee", "e": "ced/e/A/s"}


class Publisher:
    """Host of a detector, or source, that keeps the last messages, with a channel to a subscription."""

    def __init__(self, kind: FrameKind, subscription: Subscription, kept_bytes: int) -> None:
        self.kind: FrameKind = kind
        self.subscription = subscription
        self.kept = KeptMessages(kept_bytes)
        self.number = 1
        self.published: list[int] = []
        self.channel: deque[bytes | Unavailable] = deque()

    def publish(self, hi: int, size: int) -> None:
        top = self.published[-1] if self.published else None
        his = range(hi, hi + size)
        events: list[Event] = [
            CompositeEvent("C", each, each, DETECTOR, each, {}, constituents=())
            if self.kind == "c"
            else Event("A", each, each, SOURCE, each, {})
            for each in his
        ]
        composite: dict[str, Any] = {"life": LIFE, "base": INSTANT_MIN} if self.kind == "c" else {}
        payload = encode(
            events,
            type=events[0].type,
            source=events[0].id[0],
            watermark=his[-1],
            kind=self.kind,
            number=self.number,
            top=top,
            **composite,
        )
        self.kept.keep("stream", self.number, payload, top, 0)
        self.number += 1
        self.published += his
        self.channel.append(payload)

    def answer(self, asked: MissingMessages) -> None:
        end = self.number if asked.end is None else min(asked.end, self.number)
        begin = self.kept.first("stream", asked.begin, self.number)
        if begin > asked.begin:
            top = self.kept.top("stream", begin) if begin < self.number else self.published[-1]
            lost = Unavailable(self.kind, asked.source, min(begin, end), top, asked.type, NOT_KEPT, life=asked.life)
            self.channel.append(lost)
        self.channel.extend(self.kept.payloads("stream", begin, min(end, begin + within(asked, 2_000))))

    def deliver(self) -> None:
        message = self.channel.popleft()
        if isinstance(message, Unavailable):
            self.subscription.take(lambda now: self.subscription.unavailable("", message, now), "")
        else:
            self.subscription("ced/c/c0ffee" if self.kind == "c" else TOPICS["e"], message, False)


def subscribed(kind: str, **quality: Any) -> tuple[Subscription, ManualClock]:
    clock = ManualClock(SECOND)
    client: Any = SimpleNamespace(clock=clock, _request_missing=lambda subscription: None)
    subscription = Subscription(client, "q", "[A]", QualityOfService(**quality), None)
    subscription.handler(None, "")
    if kind == "c":
        subscription.detector = DETECTOR
        subscription.located(("",))
        subscription.begun("", LIFE, 1, None)
    else:
        subscription.type_name = "A"
    return subscription, clock


def is_within(instant: int, losses: list[Loss]) -> bool:
    return any(each.since < instant <= each.until for each in losses)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ["c", "e"])
@pytest.mark.parametrize("overflow", ["wait", "drop"])
def test_slow_application_gets_each_event_or_a_loss(
    kind: Literal["c", "e"], overflow: Literal["wait", "drop"], seed: int
) -> None:
    random = Random(seed)
    limit = random.choice([1, 2, 5, 20])
    subscription, clock = subscribed(kind, queue=limit, overflow=overflow)
    publisher = Publisher(kind, subscription, random.choice([1_000, 5_000, 10**6]))
    taken: list[Event | Loss] = []
    subscription.on_loss = taken.append
    hi = 1

    def step(choice: str) -> None:
        nonlocal hi
        match choice:
            case "publish":
                size = random.choice([1, 1, 1, 4])
                publisher.publish(hi, size)
                hi += size
            case "deliver":
                for _ in range(random.choice([1, 10])):
                    if publisher.channel:
                        publisher.deliver()
                assert len(subscription._waiting) < limit + 5
            case "take":
                event = subscription.get(0)
                if event is not None:
                    taken.append(event)
            case "request":
                clock.instant += SECOND // 5
                for messages in (subscription.due(clock.now()) or {}).values():
                    for each in messages:
                        publisher.answer(each)

    for _ in range(600):
        step(random.choice(["publish", "publish", "deliver", "take", "request"]))
    for _ in range(20_000):
        if not publisher.channel and subscription.complete and not subscription._waiting:
            break
        step("deliver" if publisher.channel else "request")
        step("take")
    losses = [each for each in taken if isinstance(each, Loss)]
    events = [each.hi for each in taken if isinstance(each, Event)]
    statistics = subscription.statistics
    assert subscription.complete
    assert len(set(events)) == len(events) == statistics.received
    assert [each for each in publisher.published if each not in set(events) and not is_within(each, losses)] == []
    assert statistics.losses >= len(losses)
    if kind == "c":
        assert events == sorted(events)
        assert statistics.watermark == publisher.published[-1]
    if overflow == "drop":
        assert statistics.received + statistics.dropped == len(publisher.published)
        assert {each.reason for each in losses} <= {TOO_SLOW}
    else:
        assert statistics.dropped == 0
        assert {each.reason for each in losses} <= {NOT_KEPT, f"{SOURCE}: {NOT_KEPT}"}


def test_messages_without_numbers_are_dropped_and_reported() -> None:
    subscription, _ = subscribed("c", queue=4)
    losses: list[Loss] = []
    subscription.on_loss = losses.append
    for hi in range(1, 21):
        event = CompositeEvent("C", hi - 1, hi, DETECTOR, hi, {}, constituents=())
        subscription("t", encode([event], type="C", source=DETECTOR), False)
    assert len(subscription._waiting) <= 4
    # One loss for the whole run, in its place.
    events = subscription.events()
    assert losses == [Loss(0, events[0].lo - 1, TOO_SLOW)] == list(subscription.losses)
    assert [each.hi for each in events] == list(range(21 - len(events), 21))
    statistics = subscription.statistics
    assert (statistics.received, statistics.dropped, statistics.losses) == (len(events), 20 - len(events), 1)


def test_losses_in_the_queue_are_covered_by_that_of_a_slow_application() -> None:
    subscription, _ = subscribed("c", queue=2, overflow="drop")
    losses: list[Loss] = []
    subscription.on_loss = losses.append
    frame = encode([], type="C", source=DETECTOR, kind="c", losses=[Loss(-50, 60, "a host was lost")])
    subscription("t", frame, False)
    for hi in range(1, 4):
        event = CompositeEvent("C", hi, hi, DETECTOR, hi, {}, constituents=())
        subscription("t", encode([event], type="C", source=DETECTOR), False)
    subscription.events()
    assert losses == [Loss(-50, 60, TOO_SLOW)]
