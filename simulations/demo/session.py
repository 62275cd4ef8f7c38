"""One demonstration, from the first subscription to the verdict.

The application here is an ordinary one: a client that registers types, becomes the sources, and subscribes to patterns
at broker nodes that it knows nothing of but the address of an MQTT server. What it publishes it keeps, so that
afterwards the
same patterns can be run over the same events in one piece: the composite events have to be the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, SECOND
from distced.simulations.demo.feed import DemoFeed
from distced.simulations.demo.patterns import Question

LONGEST_PAUSE: Final = 1.0
"""Upper limit of a recording's pauses, seconds."""

PATIENCE: Final = 60.0


@dataclass
class Notification:
    """Composite event that reached the application, with its delay.

    Attributes:
        question: the pattern's name.
        delay: seconds from the publication of what completed it to the notification.
    """

    question: str
    event: CompositeEvent
    delay: float


@dataclass
class DemoProgress:
    """Progress of a demonstration.

    Attributes:
        now: the virtual instant, ns.
        published: how many events were published.
        notifications: what was detected, in the order it was heard of.
        latest: the last few of them, and `recent` the last events published.
        first: seconds from the beginning to the first composite event; None before it.
        nodes: the counters of each broker node.
    """

    now: int
    published: int = 0
    notifications: list[Notification] = field(default_factory=list)
    latest: deque[Notification] = field(default_factory=lambda: deque(maxlen=100))
    recent: deque[Event] = field(default_factory=lambda: deque(maxlen=200))
    first: float | None = None
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass
class Verdict:
    """Comparison of live detections with the same patterns over the recorded events.

    Attributes:
        same: composite events found by both; `only_live` and `only_run` those of one alone.
        complete: whether every subscription was heard beyond the end in time.
    """

    same: int
    only_live: list[CompositeEvent]
    only_run: list[CompositeEvent]
    complete: bool

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        return self.complete and not self.only_live and not self.only_run


class DemoSession:
    """Running demonstration.

    Attributes:
        progress: how far it is.
        events: what was published.
        steps: the virtual instant of each step, ns, and beside it `published_at`, the seconds at which it was
            published.
    """

    def __init__(
        self, client: Client, feed: DemoFeed, questions: Sequence[Question], types: Sequence[EventType], speed: float
    ) -> None:
        self.client = client
        self.feed = feed
        self.questions = list(questions)
        self.types = list(types)
        self.speed = speed
        self.progress = DemoProgress(feed.start)
        self.events: list[Event] = []
        self.steps: list[int] = []
        self.published_at: list[float] = []
        self.subscriptions: list[Subscription] = []
        self._arrived: list[tuple[str, CompositeEvent, float]] = []
        self._lock = Lock()
        self._began = time.perf_counter()

    def prepare(self) -> None:
        """Register the types, open the sources, subscribe."""
        self.client.register(*self.feed.types, *self.types)
        self._sources = {
            source.name: source for source in self.client.sources(self.feed.sources, watermark=self.feed.start)
        }
        for question in self.questions:
            self.subscriptions.append(
                self.client.subscribe(
                    question.compiled.text, self._listener(question.name), quality=QualityOfService(constituents=True)
                )
            )

    def run(self, watch: Callable[[DemoProgress], None]) -> None:
        """Publish at the requested speed until the feed ends; `watch` is called after each step."""
        self._began = began = time.perf_counter()
        virtual = self.feed.start
        paused = 0.0
        for step in self.feed.steps():
            wait = (step.now - virtual) / SECOND / self.speed
            paused += max(wait - LONGEST_PAUSE, 0.0)
            virtual = step.now
            due = began + (step.now - self.feed.start) / SECOND / self.speed - paused
            while (left := due - time.perf_counter()) > 0:
                time.sleep(min(left, 0.05))
                watch(self.progress)
            self._publish(step.events)
            with self._lock:
                self.steps.append(step.now)
                self.published_at.append(time.perf_counter())
            self.client.heartbeat(step.now)
            self.progress.now = step.now
            self.progress.nodes = {name: entry.counts for name, entry in self.client.nodes.items()}
            self._take_in()
            watch(self.progress)

    def finish(self) -> Verdict:
        """Let time pass beyond every time event, and compare with the patterns run over the recorded events."""
        end = (self.steps[-1] if self.steps else self.feed.start) + HOUR
        self.client.heartbeat(end)
        deadline = time.monotonic() + PATIENCE
        complete = all(each.wait_watermark(end, max(deadline - time.monotonic(), 0.0)) for each in self.subscriptions)
        received = sum(each.statistics.received for each in self.subscriptions)
        while complete and len(self._arrived) < received and time.monotonic() < deadline:
            time.sleep(0.01)
        self._take_in()
        self.progress.nodes = {name: entry.counts for name, entry in self.client.nodes.items()}
        return self._compare(end, complete)

    def _compare(self, end: int, complete: bool) -> Verdict:
        engine = StepwiseEngine([question.compiled for question in self.questions])
        events = sorted(self.events, key=lambda event: event.key)
        expected = {_told(event): event for event in engine.feed(events) + engine.advance(end)}
        detected = {_told(each.event): each.event for each in self.progress.notifications}
        return Verdict(
            len(expected.keys() & detected.keys()),
            [event for told, event in detected.items() if told not in expected],
            [event for told, event in expected.items() if told not in detected],
            complete,
        )

    def _publish(self, events: Sequence[Event]) -> None:
        by_source: dict[str, list[Event]] = {}
        for event in events:
            by_source.setdefault(event.source, []).append(event)
        for source, group in by_source.items():
            self._sources[source].publish(*group)
        self.events += events
        self.progress.recent.extend(events)
        self.progress.published += len(events)

    def _listener(self, name: str) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            assert isinstance(event, CompositeEvent)
            with self._lock:
                self._arrived.append((name, event, time.perf_counter()))

        return heard

    def _take_in(self) -> None:
        """Note arrivals since the last step."""
        progress = self.progress
        with self._lock:
            arrived = self._arrived[len(progress.notifications) :]
        for name, event, heard in arrived:
            notification = Notification(name, event, heard - self._published(event.hi, heard))
            progress.notifications.append(notification)
            progress.latest.append(notification)
            if progress.first is None:
                progress.first = heard - self._began

    def _published(self, instant: int, otherwise: float) -> float:
        """Instant of publication of the step that took time beyond an instant."""
        place = bisect_left(self.steps, instant)
        return self.published_at[place] if place < len(self.published_at) else otherwise


def _told(event: CompositeEvent) -> tuple[object, ...]:
    return (event.type, event.id, event.lo, event.hi, event.constituents, repr(sorted(event.attributes.items())))
