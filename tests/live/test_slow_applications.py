"""Applications that block while events flow, with a real server: connections stay, and no event is lost silently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.node import output_streams
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import Overflow, QualityOfService
from distced.middleware.client.subscription import TOO_SLOW
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.published_streams import NOT_KEPT

pytestmark = pytest.mark.mqtt

EVENTS = 400
LONG = 20.0
Eventually = Callable[[Callable[[], bool]], None]


class Application:
    """Callback that blocks until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.items: list[Event | Loss] = []

    def __call__(self, event: Event) -> None:
        self.released.wait()
        self.items.append(event)

    @property
    def heard(self) -> list[int]:
        return [each.hi for each in self.items if isinstance(each, Event)]

    @property
    def losses(self) -> list[Loss]:
        return [each for each in self.items if isinstance(each, Loss)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def ready(mosquitto: Server, root: str, stack: ExitStack) -> tuple[Client, Source]:
    """A subscriber, and a source of another client."""
    stack.enter_context(LiveNode(mosquitto.url, f"{root}-n", root=root))
    publisher = stack.enter_context(Client(mosquitto.url, name=f"{root}-p", root=root))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    publisher.register(event_type("A", {}))
    publisher.wait_for_nodes(1)
    return subscriber, publisher.source("s", ["A"], watermark=0)


@pytest.mark.parametrize(
    ("pattern", "overflow", "kept", "reason"),
    [
        ("[A]", "wait", 4 * 1024 * 1024, None),
        ("[A]", "wait", 40_000, NOT_KEPT),
        ("[A]", "drop", 4 * 1024 * 1024, TOO_SLOW),
        ("A", "wait", 4 * 1024 * 1024, None),
        ("A", "drop", 4 * 1024 * 1024, TOO_SLOW),
    ],
)
def test_blocked_application_gets_each_event_or_a_loss_and_keeps_its_connection(
    mosquitto: Server,
    root: str,
    stack: ExitStack,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    overflow: Overflow,
    kept: int,
    reason: str | None,
) -> None:
    monkeypatch.setattr(output_streams, "KEPT_BYTES", kept)
    subscriber, source = ready(mosquitto, root, stack)
    application = Application()
    stack.callback(application.released.set)
    quality = QualityOfService(queue=20, overflow=overflow)
    slow = subscriber.subscribe(pattern, application, quality=quality)
    slow.on_loss = application.items.append
    other = subscriber.subscribe("[A]")
    for number in range(1, EVENTS + 1):
        source.publish(source.create("A", number), watermark=number)
        # The connection serves everything else meanwhile. One by one, so that each event has a frame of its own.
        assert other.wait_watermark(number, LONG)
    assert [each.hi for each in other.events()] == list(range(1, EVENTS + 1))
    subscriber.register(event_type("B", {}))
    if overflow == "wait":
        eventually(lambda: slow.behind)
    else:
        eventually(lambda: slow.statistics.received + slow.statistics.dropped == EVENTS)
    assert len(slow._waiting) < EVENTS
    application.released.set()
    eventually(lambda: slow.complete and not slow._waiting and EVENTS in application.heard)
    heard, losses = application.heard, application.losses
    assert len(set(heard)) == len(heard) == slow.statistics.received
    missing = set(range(1, EVENTS + 1)) - set(heard)
    assert {each for each in missing if not any(loss.since < each <= loss.until for loss in losses)} == set()
    assert {each.reason for each in losses} == ({reason} if reason else set())
    assert bool(missing) == bool(reason)
    if pattern == "[A]":
        # Losses are in their places among the events.
        marks = [each.until if isinstance(each, Loss) else each.hi for each in application.items]
        assert marks == sorted(marks)
        assert slow.wait_watermark(EVENTS, LONG)
    assert subscriber.bus.statistics.losses == 0


def test_blocked_notification_of_a_suspension_holds_no_connection(
    mosquitto: Server, root: str, stack: ExitStack
) -> None:
    subscriber, source = ready(mosquitto, root, stack)
    first = subscriber.subscribe("[A] -> First()")
    second = subscriber.subscribe("[First]")
    called, released = threading.Event(), threading.Event()
    stack.callback(released.set)

    def block(reason: str) -> None:
        called.set()
        released.wait()

    second.on_wait = block
    subscriber.unsubscribe(first)
    assert called.wait(LONG)
    assert "First" in second.waits
    other = subscriber.subscribe("[A]")
    source.publish(source.create("A", 1), watermark=1)
    assert other.get(LONG) is not None
