"""`distced bench disturbance`: many subscriptions under disturbance of their node.

Nodes run in processes of their own. First a client subscribes, and all is quiet; then another publishes entries of
subscriptions as fast as it can, with a bare paho client: in the baseline those within the limit of a node to the
directory, and the rest to topics that no node reads; then all of them to the directory, where the node refuses those
beyond the limit, and reads no more of the client. Server, hostile client and benchmark do the same in both, and the
node serves as many subscriptions, so what the second has beyond the baseline is the work for those refused and what
waits behind it. In all phases events come at a steady pace, and single subscriptions are made. Then events come at a
steady pace for long while the resident memory of the node is watched; then the node is killed and another takes over;
then that one is killed, too, and started again under its name. Delays are those of `distced bench node`.
"""

from __future__ import annotations

import multiprocessing as mp
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from distced.brokers.live.mqtt_server import start_server
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.topics import ROOT, directory_topic, event_topic
from distced.simulations.benchmarks.live import PATIENCE, disconnect, paho_client
from distced.simulations.benchmarks.many_subscriptions import (
    ALONE,
    KINDS,
    SOURCE,
    TYPE,
    ReadingStream,
    ask,
    delays_at_pace,
    host_node,
    reading_frame,
)
from distced.simulations.plots import percentile
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

PATTERN: Final = KINDS["device"]
TAKEN_OVER: Final = 20.0
"""Longest time until subscriptions are served again, s."""

SINGLE_EVERY: Final = 0.05
"""Interval of single subscriptions, s."""

LONG: Final = 300.0  # time after which a step is given up, s

QUIET, WITHIN, HOSTILE = "quiet", "within the limit", "hostile client"
"""Phases in which delays are measured."""

UNREAD_ROOT: Final = "unread"
"""Root of the topics of the baseline."""


@dataclass
class Disturbance:
    """Results of the benchmark.

    Attributes:
        delays: seconds from publishing to the callback, by phase, then of a bare subscriber and of composite events.
        alone: times of single subscriptions, ms, sorted, by phase.
        hostile, refused, expected: subscriptions of the hostile client in all rounds: made, read and refused, and
            beyond the limit.
        quarantined: number of rounds in which the node has ceased to read the hostile client.
        flood: time until then, or until all beyond the limit are refused, s, of the slowest round.
        beyond: detectors beyond the limits that the node ran after a round, at most.
        processor: processor time of the node's process, s, by phase.
        memory: resident memory of the node during the soak, bytes.
        failed: subscriptions of others that were not served in time.
        served_again: time until all subscriptions are served, s, by event.
    """

    subscriptions: int
    delays: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    alone: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    hostile: int = 0
    refused: int = 0
    expected: int = 0
    quarantined: int = 0
    beyond: int = 0
    flood: float = 0.0
    memory: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    served_again: dict[str, float] = field(default_factory=dict)


def measure(
    subscriptions: int = 10_000,
    hostile: int = 100_000,
    pace: int = 500,
    seconds: float = 10.0,
    soak: float = 60.0,
    rounds: int = 1,
    on_progress: OnProgress = no_progress,
) -> Disturbance:
    """Run the benchmark on a server of its own; `rounds` of the baseline and the hostile client, in turns."""
    made = Disturbance(subscriptions)
    limit = subscriptions + 2 * ALONE
    with (
        start_server() as server,
        _node(server.url, limit, "first") as first,
        Client(server.url, patience=PATIENCE) as client,
    ):
        client.wait_for_nodes(1, PATIENCE)
        client.register(TYPE)
        client.source(SOURCE, [TYPE.name], watermark=0)
        patterns = [PATTERN.format(number) for number in range(subscriptions)]
        client.subscribe_many(patterns, lambda subscription, event: None)
        stream = ReadingStream(subscriptions)
        run = _Run(made, server.url, client, first, stream, pace, seconds)
        _phase(QUIET, run)
        on_progress(HOSTILE, 1, 5)
        for _ in range(rounds):
            _baseline(run, hostile, limit)
            _await_end(first, subscriptions)
            _flood(run, hostile, limit)
            _await_end(first, subscriptions)
        on_progress("soak", 2, 5)
        _soak(made, server.url, first, stream, pace, soak)
        on_progress("take-over", 3, 5)
        with _node(server.url, limit, "second") as second:
            client.wait_for_nodes(2, PATIENCE)
            first.kill()
            made.served_again["take-over"] = _served(second, subscriptions)
            on_progress("return", 4, 5)
            second.kill()
            with _node(server.url, limit, "second") as again:
                made.served_again["return"] = _served(again, subscriptions)
    return made


class _Host:
    """Broker node in a process of its own, for which `limit` holds."""

    def __init__(self, url: str, limit: int, name: str) -> None:
        context = mp.get_context("spawn")
        self.asking, asked = context.Pipe()
        self.process: Any = context.Process(target=host_node, args=(url, limit, asked, name), daemon=True)
        self.process.start()

    def ask(self, question: str) -> Any:
        return ask(self.asking, question)

    def kill(self) -> None:
        """End it without a farewell."""
        self.process.kill()
        self.process.join(PATIENCE)

    def stop(self) -> None:
        if self.process.is_alive():
            self.asking.send("stop")
            self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.terminate()


@contextmanager
def _node(url: str, limit: int, name: str) -> Iterator[_Host]:
    host = _Host(url, limit, name)
    try:
        yield host
    finally:
        host.stop()


@dataclass
class _Run:
    """Participants and pace of a run."""

    made: Disturbance
    url: str
    client: Client
    node: _Host
    stream: ReadingStream
    pace: int
    seconds: float


def _phase(phase: str, run: _Run) -> None:
    """Measure delays, and single subscriptions."""
    made = run.made
    over = threading.Event()
    single = threading.Thread(target=_subscribe_singly, args=(phase, made, run.client, over), daemon=True)
    before = run.node.ask("processor")
    single.start()
    try:
        delays = delays_at_pace(run.url, run.client, run.stream, int(run.pace * run.seconds), run.pace)
        known = made.delays.get(phase, {})
        made.delays[phase] = {name: sorted([*known.get(name, ()), *each]) for name, each in delays.items()}
    except DistcedError as error:
        made.failed.append(f"{phase}: {error.problem}")
    over.set()
    single.join(LONG)
    made.processor[phase] = made.processor.get(phase, 0.0) + run.node.ask("processor") - before


def _subscribe_singly(phase: str, made: Disturbance, client: Client, over: threading.Event) -> None:
    """Make and end single subscriptions at intervals."""
    times: list[float] = []
    while not over.wait(SINGLE_EVERY):
        began = time.perf_counter()
        try:
            # Of another pattern than the one before, which may still be there.
            pattern = PATTERN.format(made.subscriptions + len(times) % ALONE)
            handle = client.subscribe(pattern, quality=QualityOfService())
        except DistcedError as error:
            made.failed.append(f"{phase}: {error.problem}")
            break
        times.append((time.perf_counter() - began) * 1000)
        client.unsubscribe(handle)
    made.alone[phase] = sorted([*made.alone.get(phase, ()), *times])


def _baseline(run: _Run, hostile: int, limit: int) -> None:
    """Measure while a client publishes as much as the hostile one does, beyond the limit where no node reads."""
    within = min(hostile, limit)
    with _flooding(run.url, "eager", within, hostile - within):
        _phase(WITHIN, run)


def _flood(run: _Run, hostile: int, limit: int) -> None:
    """Measure while a hostile client subscribes."""
    made = run.made
    made.hostile += hostile
    made.expected += max(0, hostile - limit)
    with _flooding(run.url, "hostile", hostile):
        refused = threading.Thread(target=_await_refusals, args=(made, run.node, time.perf_counter()), daemon=True)
        refused.start()
        _phase(HOSTILE, run)
        refused.join(LONG)
        made.beyond = max(made.beyond, run.node.ask("running") - made.subscriptions - ALONE - limit)


@contextmanager
def _flooding(url: str, client: str, number: int, elsewhere: int = 0) -> Iterator[None]:
    """Client that publishes entries from the beginning, and clears them at the end; some of them where none is read."""
    context = mp.get_context("spawn")
    ready, over = context.Event(), context.Event()
    arguments = (url, client, number, elsewhere, ready, over)
    process = context.Process(target=_subscribe_without_end, args=arguments, daemon=True)
    process.start()
    ready.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        process.join(LONG)


def _await_refusals(made: Disturbance, node: _Host, began: float) -> None:
    """Wait until the node reads no more of the hostile client, or has refused all beyond the limit."""
    before = made.quarantined
    elapsed = 0.0
    while elapsed < LONG and made.refused < made.expected and made.quarantined == before:
        time.sleep(0.05)
        elapsed = time.perf_counter() - began
        made.refused, made.quarantined = node.ask("refused")
    made.flood = max(made.flood, elapsed)


def _await_end(node: _Host, subscriptions: int) -> None:
    """Wait until the node has ended the subscriptions of the hostile client."""
    began = time.perf_counter()
    while time.perf_counter() - began < LONG and node.ask("running") > subscriptions + ALONE:
        time.sleep(0.1)


def _subscribe_without_end(url: str, client: str, number: int, elsewhere: int, ready: Any, over: Any) -> None:
    """Publish entries of subscriptions of one client, as fast as possible; clear them once it is `over`."""
    flood = paho_client(url)
    itself = directory_topic("client", client)
    flood.publish(itself, encode(ClientEntry(0)), 1, retain=True)
    entries = [
        (
            directory_topic("subscription", f"{client}.{each}", root=ROOT if each < number else UNREAD_ROOT),
            encode(SubscriptionEntry(client, f"[Reading where dev == 'h{each}' and v > 95]")),
        )
        for each in range(number + elsewhere)
    ]
    ready.set()
    for topic, entry in entries:
        flood.publish(topic, entry, 0, retain=True)
    over.wait(LONG)
    for topic, _ in entries:
        flood.publish(topic, b"", 0, retain=True)
    flood.publish(itself, b"", 0, retain=True)
    disconnect(flood)


def _soak(made: Disturbance, url: str, node: _Host, stream: ReadingStream, pace: int, seconds: float) -> None:
    """Publish events at a steady pace, and note the memory of the node every tenth of a second."""
    sender = paho_client(url)
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        count = max(1, pace // 10)
        sender.publish(event_topic(TYPE.name, SOURCE), reading_frame(stream.take(count, time.time_ns())), 0)
        made.memory.append(node.ask("memory"))
        time.sleep(max(0.0, 0.1 - (time.perf_counter() - began - elapsed)))
    disconnect(sender)


def _served(node: _Host, subscriptions: int) -> float:
    """Time from now until a node detects for all subscriptions, s. Raises `DistcedError` where it takes too long."""
    began = time.perf_counter()
    running = 0
    while time.perf_counter() - began < LONG:
        running = node.ask("running")
        if running >= subscriptions:
            return time.perf_counter() - began
        time.sleep(0.05)
    raise DistcedError("subscriptions are not served again", given=f"{running:,} after {LONG} s", where="take-over")


def _difference(figures: Disturbance, name: str) -> float:
    """By how much the p99 of a delay beside the hostile client exceeds that of the baseline, ms."""
    if name == "subscribed":
        beside, baseline = (percentile(figures.alone[each] or [0.0], 0.99) for each in (HOSTILE, WITHIN))
        return beside - baseline
    beside, baseline = (percentile(figures.delays[each][name], 0.99) for each in (HOSTILE, WITHIN))
    return (beside - baseline) * 1000


def report(figures: Disturbance) -> Report:
    """The figures as a report."""
    delays: list[tuple[Any, ...]] = [
        (
            phase,
            *(percentile(each, share) * 1000 for each in found.values() for share in (0.5, 0.99)),
            *(percentile(figures.alone[phase], share) for share in (0.5, 0.99)),
        )
        for phase, found in figures.delays.items()
        if figures.alone.get(phase)
    ]
    compared = figures.delays.keys() >= {WITHIN, HOSTILE}
    beyond = {name: _difference(figures, name) for name in ("bare", "detected", "subscribed") if compared}
    processor = figures.processor
    each_us = (processor.get(HOSTILE, 0.0) - processor.get(WITHIN, 0.0)) / max(1, figures.hostile) * 1e6
    quarter = len(figures.memory) // 4
    second, last = (
        (fmean(figures.memory[start : start + quarter]) if quarter else 0.0) for start in (quarter, 3 * quarter)
    )
    faults = list(figures.failed)
    if figures.refused < figures.expected and not figures.quarantined:
        faults.append(
            f"{figures.refused:,} subscriptions of the hostile client refused instead of {figures.expected:,}"
        )
    if figures.beyond > 0:
        faults.append(f"{figures.beyond:,} detectors beyond the limit of the hostile client")
    for event, each in figures.served_again.items():
        if each > TAKEN_OVER:
            faults.append(f"{event}: served again after {each:.1f} s, more than {TAKEN_OVER:.0f} s")
    return Report(
        "disturbance",
        {
            "subscriptions": figures.subscriptions,
            "refused": figures.refused,
            "quarantined": figures.quarantined,
            "flood": figures.flood,
            "p99 beyond the baseline": beyond,
            "processor time of a hostile subscription": each_us,
            "served again": figures.served_again,
            "memory of the second quarter": second,
            "memory of the last quarter": last,
        },
        [
            ReportTable(
                (
                    Column("phase"),
                    *number_columns(".2f", "bare p50", "bare p99", "detected p50", "detected p99", unit="ms"),
                    *number_columns(".2f", "subscribed p50", "subscribed p99", unit="ms"),
                ),
                delays,
                "delays",
            ),
            ReportTable(
                (
                    *number_columns(".2f", *(f"{name} p99" for name in beyond), unit="ms"),
                    *number_columns(".0f", "of the node for each hostile subscription", unit="µs"),
                ),
                [(*beyond.values(), each_us)] if beyond else [],
                "beyond the baseline",
            ),
            ReportTable(
                (Column("event"), *number_columns(".1f", "served again after", unit="s")),
                list(figures.served_again.items()),
                "take-over",
            ),
            ReportTable(
                (
                    *number_columns(".1f", "second quarter", "last quarter", unit="MB"),
                    *number_columns(".3f", "ratio"),
                ),
                [(second / 1e6, last / 1e6, last / second)] if second else [],
                "soak",
            ),
        ],
        [
            f"{figures.expected:,} subscriptions of the hostile client were beyond the limit: {figures.refused:,} were "
            f"read and refused; it was quarantined in {figures.quarantined} rounds, within {figures.flood:.1f} s",
            "delays at a steady pace; in the baseline, within the limit, no node reads the messages beyond it",
            "µs are processor time; memory is resident memory of the node while events come",
        ],
        faults,
    )
