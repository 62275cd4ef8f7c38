"""`distced bench soak`: a day of the Active Office through a live node at speed, and the memory of the node.

A node in a process of its own writes checkpoints, and detects both scenarios of the office under guaranteed detection.
The day is published as fast as the node detects, five minutes of it ahead of the watermark of the subscriptions.
Memory is that of the node's process, read each five minutes of the day; it is *flat* where the last quarter takes
no more than the second by a tenth. The composite events are those of one engine over the same events.
"""

from __future__ import annotations

import multiprocessing as mp
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

from distced.brokers.live.mqtt_server import start_server
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND
from distced.simulations.benchmarks.live import PATIENCE
from distced.simulations.benchmarks.many_subscriptions import ask, host_node
from distced.simulations.demo.session import questions
from distced.simulations.office import ActiveOffice
from distced.simulations.plots import lines
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress

AT_ONCE: Final = 300
"""Steps of a second that are published before the node has to have come to the first of them."""

GROWTH: Final = 1.1
"""Memory of the last quarter at most, of that of the second."""

MEGABYTE: Final = 1_000_000


@dataclass
class SoakFigures:
    """Results of the benchmark.

    Attributes:
        hours: of the office.
        events: number of events published.
        expected, found: composite events by scenario, of one engine and by the node.
        unlike: number of composite events that only one of them has.
        memory: resident memory of the node after each five minutes of the office, bytes.
        seconds: duration of the run, s.
    """

    hours: float
    events: int = 0
    expected: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    unlike: int = 0
    memory: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def quarter(self, number: int) -> float:
        """Mean memory of a quarter, from 1 on, bytes."""
        size = len(self.memory) // 4
        part = self.memory[(number - 1) * size : number * size]
        return sum(part) / len(part) if part else 0.0

    @property
    def growth(self) -> float:
        """Memory of the last quarter over that of the second."""
        return self.quarter(4) / self.quarter(2) if self.quarter(2) else 0.0


def measure(hours: float = 24.0, seed: int = 1, on_progress: OnProgress = no_progress) -> SoakFigures:
    """Run the benchmark on a server of its own."""
    figures = SoakFigures(hours)
    # All of it in the past: events beyond the clock are rejected.
    office = ActiveOffice(Random(seed), SystemClock().now() - round((hours + 2) * HOUR))
    asked, derived = questions(office.types, ())
    compiled = {each.name: each.compiled for each in asked}
    published: list[Event] = []
    with (
        tempfile.TemporaryDirectory(prefix="distced-bench-") as folder,
        start_server() as server,
        _node(server.url, folder) as asking,
        Client(server.url, patience=PATIENCE) as client,
    ):
        client.wait_for_nodes(1, PATIENCE)
        client.register(*office.types, *derived)
        sources = {each.name: each for each in client.sources(office.sources, watermark=office.now - MINUTE)}
        subscriptions = {name: client.subscribe(each.text) for name, each in compiled.items()}
        began, steps = time.monotonic(), office.run(round(hours * HOUR))
        parts = round(hours * HOUR / SECOND) // AT_ONCE
        while part := list(islice(steps, AT_ONCE)):
            on_progress("office", len(figures.memory), parts)
            for step in part:
                for event in step.events:
                    sources[event.source].publish(event)
                client.heartbeat(step.now)
                published += step.events
            for name, each in subscriptions.items():
                if not each.wait_watermark(part[0].now - SECOND, PATIENCE):
                    raise DistcedError("the node does not detect any more", given=name, where=f"{part[0].now} ns")
            figures.memory.append(ask(asking, "memory"))
        # Timers of the last minutes are due.
        end = office.now + HOUR
        client.heartbeat(end)
        for name, each in subscriptions.items():
            if not each.wait_watermark(end, PATIENCE):
                raise DistcedError("the node does not detect any more", given=name, where="the end")
        figures.seconds = time.monotonic() - began
        found = {name: {event.id for event in each.events()} for name, each in subscriptions.items()}
    figures.events = len(published)
    published.sort(key=lambda event: event.key)
    for name, pattern in compiled.items():
        engine = StepwiseEngine([pattern])
        expected = {event.id for event in [*engine.feed(published), *engine.advance(end)]}
        figures.expected[name], figures.found[name] = len(expected), len(found[name])
        figures.unlike += len(expected ^ found[name])
    return figures


@contextmanager
def _node(url: str, checkpoints: str) -> Iterator[Any]:
    """Broker node in a process of its own; the end of a pipe to ask it."""
    context = mp.get_context("spawn")
    asking, asked = context.Pipe()
    process = context.Process(
        target=host_node, args=(url, 1_000, asked), kwargs={"checkpoints": checkpoints}, daemon=True
    )
    process.start()
    try:
        yield asking
    finally:
        asking.send("stop")
        process.join(PATIENCE)
        if process.is_alive():
            process.terminate()


def report(figures: SoakFigures) -> Report:
    """The figures as a report."""
    faults = []
    if figures.unlike:
        faults.append(f"{figures.unlike} composite events are not those of one engine")
    if figures.growth > GROWTH:
        faults.append(f"memory grows: the last quarter has {figures.growth:.2f} times that of the second")
    quarters = [(f"quarter {number}", figures.quarter(number) / MEGABYTE) for number in range(1, 5)]
    counts = [(name, figures.expected[name], figures.found.get(name, 0)) for name in figures.expected]
    return Report(
        "soak",
        {
            "hours": figures.hours, "events": figures.events, "seconds": figures.seconds, "memory": figures.memory,
            "growth": figures.growth, "expected": figures.expected, "found": figures.found, "unlike": figures.unlike,
        },
        [
            ReportTable((Column("part"), Column("memory, MB", format=",.1f")), quarters, name="memory"),
            ReportTable(
                (Column("scenario"), Column("one engine", format=","), Column("node", format=",")), counts, name="found"
            ),
        ],
        [
            f"{figures.hours:g} hours, {figures.events:,} events in {figures.seconds:,.0f} s, "
            f"{figures.hours * 3600 / max(figures.seconds, 1e-9):,.0f} times as fast as the office",
            f"the last quarter takes {figures.growth:.2f} times the memory of the second (bar {GROWTH})",
        ],
        faults=faults,
        plots={"soak-memory.svg": partial(_plot, figures)},
    )  # fmt: skip


def _plot(figures: SoakFigures) -> str:
    points = [(place * AT_ONCE / 3600, each / MEGABYTE) for place, each in enumerate(figures.memory)]
    return lines({"node": points[:: max(len(points) // 100, 1)]}, title="Memory of the node", across="hour", unit="MB")
