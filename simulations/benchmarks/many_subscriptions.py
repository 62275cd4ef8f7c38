"""`distced bench node`: a broker node with many subscriptions, against a bare paho subscriber and engines fed directly.

The node runs in a process of its own, so its memory is its own; a client subscribes in bulk, then once more alone. A
publisher sends events of one type at QoS 0 as fast as it can, each device as likely. The rate is that of the node's
process, from the first event of a round to the last. The baselines are the callbacks of a bare paho client, and the
shared input of a node (`detectors.runtime.shared_input`), fed with the decoded events without a server; what it detects
is what the client should get. The delay is that of composite events of `[Reading]` at a steady pace, beside the bare
subscriber's.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import resource
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.live.garbage_collection import adapt_garbage_collection
from distced.brokers.live.mqtt_server import start_server
from distced.brokers.live.node import LiveNode
from distced.detectors.compiler import check_pattern
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.shared_input import SharedInput
from distced.detectors.shapes import Shapes
from distced.detectors.warm_start import in_background
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.frames import decode, encode
from distced.middleware.wire.topics import event_topic
from distced.policies.detection import detection_policy
from distced.simulations.benchmarks.live import PATIENCE, await_quiet, disconnect, paho_client, quieten
from distced.simulations.plots import lines, percentile
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

TYPE: Final = event_type("Reading", {"dev": "string", "v": "number"})
SOURCE: Final = "bench"
EVERY: Final = "[Reading]"
DETECTIONS: Final = ("best-effort", "guaranteed")
ALONE: Final = 20  # number of subscriptions made one after the other
SETTLED: Final = 10.0  # longest time for the last composite events to arrive, s

KINDS: Final = {
    "device": "[Reading where dev == 'd{0}' and v > 90] ; [Reading where dev == 'd{0}' and v < 10] within 1min",
    "keyed": "[Reading where v > 90.{0:06}] ; [Reading where v < 10] within 1min by dev",
    "filter": "[Reading where dev == 'd{0}' and v > 95]",
    "absence": "([Reading where dev == 'd{0}' and v > 95], [T <= {{T, Reading where dev == 'd{0}' and v < 5}}])"
    " @ T = 5min",
    "prefix": "[Reading where v > 98] ; [Reading where dev == 'd{0}' and v < 10] within 1min",
}
"""Patterns by kind, with the number of the subscription to be filled in: a sequence on a device, keyed sequences with
different thresholds, Cayuga's Filter template, absence, and a first step that all share."""

BARS: Final[dict[tuple[int, int], Callable[[float], float]]] = {
    (1_000, 1): lambda one: one / 2,
    (10_000, 1): lambda one: 8_000.0,
    (10_000, 50): lambda one: 60_000.0,
    (100_000, 1): lambda one: 4_000.0,
    (100_000, 50): lambda one: 30_000.0,
}
"""Least rates with best effort by subscriptions and events a message, of a sequence on a device; guaranteed detection
has two thirds of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """Case of the benchmark: kind of pattern, number of subscriptions, detection policy."""

    kind: str
    subscriptions: int
    detection: str


@dataclass
class CaseFigures:
    """Results of a case.

    Attributes:
        rates, direct: events/s by events a message: the node's in each round, and the shared input's by itself.
        lost: number of events that the node has not consumed.
        found, expected: composite events that the client got, and that the shared input detected.
        bulk, alone, ended: time to subscribe together, alone (median), and to end one, ms each.
        node_before, node_after, client: bytes a subscription: of the node after subscribing and after events, and of
            the client.
        delays: seconds from publishing to the callback, sorted: of the bare subscriber, and of composite events.
    """

    rates: dict[int, list[float]] = field(default_factory=dict)
    direct: dict[int, float] = field(default_factory=dict)
    lost: int = 0
    found: int = 0
    expected: int = 0
    bulk: float = 0.0
    alone: float = 0.0
    ended: float = 0.0
    node_before: float = 0.0
    node_after: float = 0.0
    client: float = 0.0
    delays: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class NodeFigures:
    """Results of the benchmark: by case, and the bare subscriber's events/s by events a message."""

    cases: dict[Case, CaseFigures] = field(default_factory=dict)
    bare: dict[int, float] = field(default_factory=dict)


def measure(
    subscriptions: tuple[int, ...] = (1, 100, 1_000, 10_000),
    frames: tuple[int, ...] = (1, 50),
    kinds: tuple[str, ...] = ("device",),
    events: int = 30_000,
    rounds: int = 3,
    seconds: float = 5.0,
    pace: int = 1_000,
    on_progress: OnProgress = no_progress,
) -> NodeFigures:
    """Run the benchmark on servers of its own; `events` are those of a round of one event a message, ten times as many
    in larger frames."""
    figures = NodeFigures()
    cases = [Case(kind, count, each) for kind in kinds for count in subscriptions for each in DETECTIONS]
    for number, case in enumerate(cases):
        on_progress(f"{case.kind}, {case.subscriptions:,} subscriptions, {case.detection}", number, len(cases))
        with start_server() as server:
            figures.cases[case] = _case(server.url, case, frames, events, rounds, seconds, pace)
    with start_server() as server:
        for frame in frames:
            figures.bare[frame] = _bare_rate(server.url, frame, events if frame == 1 else 10 * events)
    return figures


# One case.


def _case(
    url: str, case: Case, frames: Sequence[int], events: int, rounds: int, seconds: float, pace: int
) -> CaseFigures:
    made = CaseFigures()
    context = mp.get_context("spawn")
    asking, asked = context.Pipe()
    host = context.Process(target=host_node, args=(url, case.subscriptions + 2 * ALONE, asked), daemon=True)
    host.start()
    try:
        with Client(url, patience=PATIENCE) as client:
            client.wait_for_nodes(1, PATIENCE)
            client.register(TYPE)
            source = client.source(SOURCE, [TYPE.name], watermark=0)
            quality = QualityOfService(detection=case.detection)
            before, own = ask(asking, "memory"), resident_memory()
            received = _Received()
            began = time.perf_counter()
            handles = client.subscribe_many(_patterns(case), received.take, quality=quality)
            made.bulk = (time.perf_counter() - began) / case.subscriptions * 1000
            made.client = (resident_memory() - own) / case.subscriptions
            made.node_before = (ask(asking, "memory") - before) / case.subscriptions
            made.alone, made.ended = _one_by_one(client, case, quality)
            stream = ReadingStream(case.subscriptions)
            for frame in frames:
                for _ in range(rounds):
                    batch = stream.take(events if frame == 1 else 10 * events)
                    consumed, rate = send_round(url, asking, batch, frame)
                    made.rates.setdefault(frame, []).append(rate)
                    made.lost += len(batch) - consumed
            made.node_after = (ask(asking, "memory") - before) / case.subscriptions
            source.heartbeat(stream.now)
            made.expected, made.direct = _directly(case, stream.taken, frames)
            await_quiet(lambda: received.count, lambda: received.count >= made.expected, SETTLED)
            made.found = received.count
            made.delays = delays_at_pace(url, client, stream, int(pace * seconds), pace)
            client.unsubscribe_many(handles)
    finally:
        asking.send("stop")
        host.join(PATIENCE)
        if host.is_alive():
            host.terminate()
    return made


def _patterns(case: Case) -> list[str]:
    return [KINDS[case.kind].format(number) for number in range(case.subscriptions)]


class _Received:
    """Counter of the composite events that a client has got."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, subscription: object, event: Event) -> None:
        self.count += 1


class ReadingStream:
    """Stream of readings, each device as likely; `taken` are those sent so far, in order, `now` the last `hi`, ns."""

    def __init__(self, devices: int) -> None:
        self.taken: list[Event] = []
        self.now = time.time_ns()
        self._random = Random(7)
        self._names = [f"d{number}" for number in range(devices)]

    def take(self, count: int, hi: int | None = None) -> list[Event]:
        """Further events, a microsecond apart, or at an instant, ns."""
        made: list[Event] = []
        for _ in range(count):
            self.now = self.now + 1_000 if hi is None else hi
            attributes: dict[str, Attribute] = {
                "dev": self._random.choice(self._names),
                "v": self._random.randrange(100),
            }
            made.append(Event(TYPE.name, self.now, self.now, SOURCE, len(self.taken) + len(made), attributes))
        self.taken += made
        return made


def _one_by_one(client: Client, case: Case, quality: QualityOfService) -> tuple[float, float]:
    """Median time of one further subscription, and of its end, ms."""
    alone, ended = [], []
    for number in range(ALONE):
        began = time.perf_counter()
        handle = client.subscribe(KINDS[case.kind].format(case.subscriptions + number), quality=quality)
        alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        client.unsubscribe(handle)
        ended.append(time.perf_counter() - began)
    return median(alone) * 1000, median(ended) * 1000


def reading_frame(events: Sequence[Event]) -> bytes:
    return encode(events, type=TYPE.name, source=SOURCE, watermark=events[-1].hi, check=False)


def send_round(url: str, asking: Any, events: Sequence[Event], frame: int) -> tuple[int, float]:
    """Send events as fast as possible; number of those consumed, and events/s of the node."""
    ask(asking, "begin")
    payloads = [reading_frame(events[start : start + frame]) for start in range(0, len(events), frame)]
    publisher = mp.get_context("spawn").Process(target=_publish, args=(url, payloads), daemon=True)
    publisher.start()
    consumed = 0

    def progress() -> int:
        nonlocal consumed
        consumed = int(ask(asking, "figures")[0])
        return consumed

    await_quiet(progress, lambda: consumed >= len(events), SETTLED)
    publisher.join(PATIENCE)
    consumed, elapsed = ask(asking, "figures")
    return consumed, consumed / elapsed if elapsed else 0.0


def _publish(url: str, payloads: Sequence[bytes]) -> None:
    client = paho_client(url)
    topic = event_topic(TYPE.name, SOURCE)
    for payload in payloads:
        client.publish(topic, payload, 0)
    disconnect(client)


def delays_at_pace(url: str, client: Client, stream: ReadingStream, count: int, pace: int) -> dict[str, list[float]]:
    """Delays at a steady pace: of a bare subscriber, and of composite events of every event."""
    bare: list[float] = []
    found: list[float] = []
    listener = paho_client(url)
    listener.on_message = lambda _client, _data, message: bare.append(_age(message.payload))
    subscribed = threading.Event()
    listener.on_subscribe = lambda *_: subscribed.set()
    listener.subscribe(event_topic(TYPE.name, SOURCE), 0)
    subscribed.wait(PATIENCE)
    handle = client.subscribe(
        EVERY,
        lambda event: found.append((time.time_ns() - event.hi) / 1e9),
        quality=QualityOfService(detection="best-effort"),
    )
    sender = paho_client(url)
    began = time.perf_counter()
    for number in range(count):
        while (wait := began + number / pace - time.perf_counter()) > 0:
            time.sleep(wait)
        sender.publish(event_topic(TYPE.name, SOURCE), reading_frame(stream.take(1, time.time_ns())), 0)
    await_quiet(lambda: len(found) + len(bare), lambda: min(len(found), len(bare)) >= count)
    client.unsubscribe(handle)
    for each in (listener, sender):
        each.disconnect()
        each.loop_stop()
    return {"bare": sorted(bare), "detected": sorted(found)}


def _age(payload: bytes) -> float:
    return (time.time_ns() - decode(payload).events[0].hi) / 1e9


# The node's process.


def host_node(url: str, limit: int | None, asked: Any, name: str = "bench", checkpoints: str = "") -> None:
    """Broker node that answers requests over a pipe until its stop; `limit`: of one client, None for the default;
    `checkpoints`: its store, empty for none."""
    quieten()
    times: list[float] = []
    limits = SubscriptionLimits() if limit is None else SubscriptionLimits(limit)
    with LiveNode(url, name, limits=limits, checkpoints=checkpoints) as node:
        adapt_garbage_collection()
        counts, receive = node.node.counts, node.node.receive_all
        consumed = 0

        def timed(*arguments: Any, **options: Any) -> Any:
            before, begin = counts["events"], time.perf_counter()
            effects = receive(*arguments, **options)
            if counts["events"] > before:
                times.extend((begin, time.perf_counter()))
                del times[1:-1]
            return effects

        node.node.receive_all = timed  # type: ignore[method-assign]
        while (question := asked.recv()) != "stop":
            if question == "memory":
                asked.send(resident_memory())
            elif question == "processor":
                asked.send(time.process_time())
            elif question == "running":
                asked.send(len(node.node.event_path.meter.detectors))
            elif question == "counts":
                asked.send(node.statistics())
            elif question == "refused":
                asked.send((counts.get("subscriptions refused", 0), counts.get("clients quarantined", 0)))
            elif question == "begin":
                times.clear()
                consumed = counts["events"]
                asked.send(None)
            else:
                asked.send((counts["events"] - consumed, times[-1] - times[0] if times else 0.0))


def ask(asking: Any, question: str) -> Any:
    asking.send(question)
    if not asking.poll(PATIENCE):
        raise DistcedError("the broker node of the benchmark does not answer", given=question)
    return asking.recv()


def resident_memory() -> int:
    """Resident memory of this process, bytes; the peak where the present is unknown."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Baselines.


def _bare_rate(url: str, frame: int, count: int) -> float:
    times: list[float] = []
    arrived = 0

    def on_message(*_: object) -> None:
        nonlocal arrived
        arrived += frame
        times.append(time.perf_counter())
        del times[1:-1]

    client = paho_client(url)
    client.on_message = on_message
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe(event_topic(TYPE.name, SOURCE), 0)
    subscribed.wait(PATIENCE)
    events = ReadingStream(100).take(count)
    payloads = [reading_frame(events[start : start + frame]) for start in range(0, count, frame)]
    publisher = mp.get_context("spawn").Process(target=_publish, args=(url, payloads), daemon=True)
    publisher.start()
    await_quiet(lambda: arrived, lambda: arrived >= count)
    publisher.join(PATIENCE)
    client.disconnect()
    client.loop_stop()
    return arrived / (times[-1] - times[0]) if len(times) > 1 else 0.0


def _directly(case: Case, events: Sequence[Event], frames: Sequence[int]) -> tuple[int, dict[int, float]]:
    """Composite events of a shared input fed with the events of all rounds, and its events/s by events a call."""
    registry, shapes = TypeRegistry([TYPE]), Shapes()
    # As on the node.
    choice = engines("auto", in_background())
    shared = SharedInput(detection_policy(case.detection), choice)
    shared.join(SOURCE, INSTANT_MIN, 0)
    for text in _patterns(case):
        compiled = shapes.find(text, registry) or check_pattern(text, registry)
        policy = detection_policy(case.detection)
        shared.add(Detector(compiled, policy, lambda name: TYPE.attributes, engines=choice))
    found, place, rates = 0, 0, {}
    each = len(events) // (11 if len(frames) > 1 else 1)
    for frame in frames:
        count = each if frame == 1 else len(events) - place
        began = time.perf_counter()
        for start in range(place, place + count, frame):
            batch = events[start : start + frame]
            passed = shared.receive([(SOURCE, batch, batch[-1].hi, None)], time.time_ns())
            found += sum(len(composites) for _, composites in passed.found)
        rates[frame] = count / (time.perf_counter() - began)
        place += count
    return found, rates


# The report.


def report(figures: NodeFigures) -> Report:
    """The figures as a report."""
    rates, faults = [], []
    for case, made in figures.cases.items():
        for frame, rounds in made.rates.items():
            rate = median(rounds)
            bar = _bar(figures, case, frame)
            verdict = "" if bar is None else f"{'≥' if rate >= bar else '<'} {bar:,.0f}"
            baselines = made.direct[frame], figures.bare[frame]
            rates.append((case.kind, case.subscriptions, case.detection, frame, rate, *baselines, verdict))
        if made.lost or made.found != made.expected:
            faults.append(
                f"{case.kind}, {case.subscriptions:,} subscriptions, {case.detection}: {made.lost:,} events lost, "
                f"{made.found:,} composite events instead of {made.expected:,}"
            )
    costs: list[tuple[Any, ...]] = [
        (
            *(case.kind, case.subscriptions, case.detection, made.bulk, made.alone, made.ended),
            *(made.node_before / 1000, made.node_after / 1000, made.client / 1000),
            *(percentile(each, share) * 1000 for each in made.delays.values() for share in (0.5, 0.99)),
        )
        for case, made in figures.cases.items()
    ]
    what = (Column("kind"), Column("subscriptions", format=","), Column("detection"))
    return Report(
        "node",
        {
            "bare": figures.bare,
            "cases": [
                {"kind": case.kind, "subscriptions": case.subscriptions, "detection": case.detection}
                | {name: getattr(made, name) for name in CaseFigures.__dataclass_fields__ if name != "delays"}
                for case, made in figures.cases.items()
            ],
        },
        [
            ReportTable(
                (
                    *what,
                    Column("events a message", format=","),
                    *number_columns(",.0f", "node", "shared input", "bare paho", unit="events/s"),
                    Column("bar"),
                ),
                rates,
                "rates",
            ),
            ReportTable(
                (
                    *what,
                    *number_columns(".2f", "in bulk", "alone", "ended", unit="ms"),
                    *number_columns(".1f", "node", "node after events", "client", unit="kB"),
                    *number_columns(".2f", "bare p50", "bare p99", "detected p50", "detected p99", unit="ms"),
                ),
                costs,
                "costs",
            ),
        ],
        ["times and memory are those of a subscription; delays at a steady pace"],
        faults,
        _plots(figures),
    )


def _bar(figures: NodeFigures, case: Case, frame: int) -> float | None:
    bar = BARS.get((case.subscriptions, frame)) if case.kind == "device" else None
    one = figures.cases.get(Case(case.kind, 1, "best-effort"))
    if bar is None or one is None:
        return None
    return bar(median(one.rates[frame])) * (1.0 if case.detection == "best-effort" else 2 / 3)


def _plots(figures: NodeFigures) -> dict[str, Callable[[], str]]:
    rates: dict[str, list[tuple[float, float]]] = {}
    times: dict[str, list[tuple[float, float]]] = {}
    memory: dict[str, list[tuple[float, float]]] = {}
    for case, made in figures.cases.items():
        name = f"{case.kind}, {case.detection}"
        for frame, rounds in made.rates.items():
            rates.setdefault(f"{name}, {frame} a message", []).append((case.subscriptions, median(rounds)))
        for what, figure in (("in bulk", made.bulk), ("alone", made.alone)):
            times.setdefault(f"{name}, {what}", []).append((case.subscriptions, figure))
        memory.setdefault(name, []).append((case.subscriptions, made.node_after / 1000))

    def plot(series: dict[str, list[tuple[float, float]]], title: str, unit: str) -> Callable[[], str]:
        return partial(lines, series, title=title, across="subscriptions", unit=unit, logarithmic=True)

    return {
        "node-rates.svg": plot(rates, "Events a second", "events/s"),
        "node-times.svg": plot(times, "Time to subscribe", "ms"),
        "node-memory.svg": plot(memory, "Memory of the node", "kB each"),
    }
