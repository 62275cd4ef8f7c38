"""One demonstration, from the first subscription to the verdict.

The application is an ordinary client: it registers types, becomes the sources, and subscribes to patterns, with no more
knowledge of the broker nodes than the address of an MQTT server. It keeps what it publishes, so that afterwards the
same patterns can be run over the same events in one piece: the composite events have to be the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Final

from distced.detectors.compiler import Compiled, compile_publication, register_derived
from distced.detectors.frontends.languages import language_of_file
from distced.detectors.language.inlining import inline_file
from distced.detectors.language.parser import parse_file
from distced.detectors.pattern_files import PatternSource, compile_source, read_source
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, SECOND
from distced.simulations.carrier import RootCauses
from distced.simulations.demo.feed import DemoFeed
from distced.simulations.office.scenarios import read_scenario

DEFAULT: Final = ("scenario1", "scenario2", "scenario2-residents")
LONGEST_PAUSE: Final = 1.0  # upper limit of a recording's pauses, seconds
PATIENCE: Final = 60.0


@dataclass(frozen=True)
class Question:
    """A pattern of the demonstration, named after the type it publishes, or its file.

    Attributes:
        text, language, query: as it is subscribed to.
    """

    name: str
    compiled: Compiled
    text: str
    language: str = ""
    query: str = ""


def questions(
    types: Iterable[EventType], files: Sequence[Path], patterns: Mapping[str, str] | None = None
) -> tuple[list[Question], list[EventType]]:
    """Patterns of files, or those of a feed by name, or of both scenarios of the office, and the derived types of their
    files. A name with the ending of another language is that of a text in it."""
    registry = TypeRegistry(types)
    usual = patterns or {name: read_scenario(name) for name in DEFAULT}
    texts = [(path.name, read_source(path).text) for path in files] or list(usual.items())
    before = {each.name for each in registry}
    asked: list[Question] = []
    for name, text in texts:
        if language := language_of_file(name):
            patterns_of = compile_source(PatternSource(text, name, language), registry)
            for query, compiled in zip(patterns_of.results, patterns_of.compiled, strict=True):
                asked.append(Question(query, compiled, text, language, query))
                registry.register(compiled.publishes)
                before.add(compiled.publishes.name)
            continue
        file = parse_file(text)
        register_derived(file, registry)
        for publication in inline_file(file, text=text):
            compiled = compile_publication(publication, registry, text=text)
            asked.append(Question(compiled.publishes.name or name, compiled, compiled.text))
            if compiled.publishes.name:
                registry.register(compiled.publishes)
                before.add(compiled.publishes.name)
    return asked, [each for each in registry if each.name not in before]


@dataclass
class Notification:
    """Composite event at the application, with the seconds since the publication of its last event."""

    question: str
    event: CompositeEvent
    delay: float


@dataclass
class DemoProgress:
    """Progress of a demonstration.

    Attributes:
        now: the virtual instant, ns.
        published: number of published events; `recent` are the last of them.
        notifications: composite events in the order of arrival.
        first: seconds from the beginning to the first composite event; None before it.
        nodes: the counters of each broker node.
    """

    now: int
    published: int = 0
    notifications: list[Notification] = field(default_factory=list)
    recent: deque[Event] = field(default_factory=lambda: deque(maxlen=200))
    first: float | None = None
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass
class Verdict:
    """Comparison of live detections with the same patterns over the recorded events.

    Attributes:
        same: number of composite events of both; `only_live` and `only_run` are those of one alone.
        complete: whether every subscription reached the end in time.
        root_causes: how well faults were found; None for a feed without any.
    """

    same: int
    only_live: list[CompositeEvent]
    only_run: list[CompositeEvent]
    complete: bool

    root_causes: RootCauses | None = None

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        return self.complete and not self.only_live and not self.only_run


class DemoSession:
    """Running demonstration, with its progress and the published events.

    Sources and subscriptions are those of each client in turn: of one, or of one for each site.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        feed: DemoFeed,
        questions: Sequence[Question],
        types: Sequence[EventType],
        speed: float,
        counters: Callable[[], dict[str, dict[str, int]]] = dict,
    ) -> None:
        """Args: counters: returns the counters of nodes."""
        self.clients = list(clients)
        self._counters = counters
        self.feed = feed
        self.questions = list(questions)
        self.types = list(types)
        self.speed = speed
        self.progress = DemoProgress(feed.start)
        self.events: list[Event] = []
        self.subscriptions: list[Subscription] = []
        # The virtual instant of each step, ns, and the time of its publication, s.
        self._steps: list[int] = []
        self._published_at: list[float] = []
        self._arrived: list[tuple[str, CompositeEvent, float]] = []
        self._lock = Lock()
        self._began = time.perf_counter()

    def prepare(self) -> None:
        """Register the types, open the sources, subscribe."""
        self.clients[0].register(*self.feed.types, *self.types)
        self._sources: dict[str, Source] = {}
        shares: list[dict[str, tuple[str, ...]]] = [{} for _ in self.clients]
        for share, (name, types) in zip(cycle(shares), self.feed.sources.items(), strict=False):
            share[name] = types
        for client, share in zip(self.clients, shares, strict=True):
            self._sources |= {each.name: each for each in client.sources(share, watermark=self.feed.start)}
        quality = QualityOfService(constituents=True)
        for client, question in zip(cycle(self.clients), self.questions, strict=False):
            receive = partial(self._receive, question.name)
            subscription = client.subscribe(
                question.text, receive, quality=quality, language=question.language, query=question.query
            )
            self.subscriptions.append(subscription)

    def run(self, watch: Callable[[DemoProgress], None]) -> None:
        """Publish at the requested speed until the feed ends; `watch` is called after each step."""
        self._began = began = time.perf_counter()
        virtual = self.feed.start
        paused = 0.0
        for step in self.feed.steps:
            wait = (step.now - virtual) / SECOND / self.speed
            paused += max(wait - LONGEST_PAUSE, 0.0)
            virtual = step.now
            due = began + (step.now - self.feed.start) / SECOND / self.speed - paused
            while (left := due - time.perf_counter()) > 0:
                time.sleep(min(left, 0.05))
                watch(self.progress)
            self._publish(step.events)
            with self._lock:
                self._steps.append(step.now)
                self._published_at.append(time.perf_counter())
            self._promise(step.now)
            self.progress.now = step.now
            self._update()
            watch(self.progress)

    def finish(self) -> Verdict:
        """Let time pass beyond every time event, and compare with the patterns run over the recorded events."""
        end = (self._steps[-1] if self._steps else self.feed.start) + HOUR
        self._promise(end)
        deadline = time.monotonic() + PATIENCE
        complete = all(each.wait_watermark(end, max(deadline - time.monotonic(), 0.0)) for each in self.subscriptions)
        received = sum(each.statistics.received for each in self.subscriptions)
        while complete and len(self._arrived) < received and time.monotonic() < deadline:
            time.sleep(0.01)
        self._update()
        engine = StepwiseEngine([question.compiled for question in self.questions])
        events = sorted(self.events, key=lambda event: event.key)
        expected = {_identity(event): event for event in engine.feed(events) + engine.advance(end)}
        detected = {_identity(each.event): each.event for each in self.progress.notifications}
        return Verdict(
            len(expected.keys() & detected.keys()),
            [event for identity, event in detected.items() if identity not in expected],
            [event for identity, event in expected.items() if identity not in detected],
            complete,
            None if self.feed.root_causes is None else self.feed.root_causes(detected.values(), events),
        )

    def _promise(self, watermark: int) -> None:
        for client in self.clients:
            client.heartbeat(watermark)

    def _publish(self, events: Sequence[Event]) -> None:
        by_source: dict[str, list[Event]] = {}
        for event in events:
            by_source.setdefault(event.source, []).append(event)
        for source, group in by_source.items():
            self._sources[source].publish(*group)
        self.events += events
        self.progress.recent.extend(events)
        self.progress.published += len(events)

    def _receive(self, name: str, event: Event) -> None:
        assert isinstance(event, CompositeEvent)
        with self._lock:
            self._arrived.append((name, event, time.perf_counter()))

    def _update(self) -> None:
        """Update the progress with arrivals since the last step, and with the counters of nodes."""
        progress = self.progress
        counters = self._counters()
        progress.nodes = {name: counters.get(name, {}) for name in self.clients[0].nodes}
        with self._lock:
            arrived = self._arrived[len(progress.notifications) :]
        for name, event, instant in arrived:
            # Published with the step that took time beyond its last event.
            step = bisect_left(self._steps, event.hi)
            published = self._published_at[step] if step < len(self._published_at) else instant
            progress.notifications.append(Notification(name, event, instant - published))
            if progress.first is None:
                progress.first = instant - self._began


def _identity(event: CompositeEvent) -> tuple[object, ...]:
    return (event.type, event.id, event.lo, event.hi, event.constituents, repr(sorted(event.attributes.items())))
