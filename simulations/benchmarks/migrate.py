"""`distced bench migrate`: a detector moves from node to node while it detects, with a subscriber connected.

A source in a process of its own publishes events at a steady pace, each with its watermark. Every other event
completes a match with an earlier one, so that the detector carries a constant number of instances. Meanwhile it is
moved around the nodes. The pause of a move is the longest time without a notification during it, beyond the usual gap;
the baseline is that of an equally long part of the same run just before, without a move. Each match has to arrive once.

With several sites, each with a server of its own, the nodes are spread over them; the subscriber and the directory are
at the first, the source at the last. A second connection observes the steps of each move and the size of the state.
"""

from __future__ import annotations

import gc
import multiprocessing as mp
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil
from random import Random
from statistics import median
from typing import Any, Final

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.garbage_collection import adapt_garbage_collection
from distced.brokers.live.mqtt_server import start_server
from distced.brokers.ray.local_sites import LocalSites
from distced.middleware.bus import Bus
from distced.middleware.cli.logs import configure_logging
from distced.middleware.client.client import Client
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.topics import Area, administration_topic, area_filter, directory_filter, parse_topic
from distced.simulations.benchmarks.live import await_quiet
from distced.simulations.plots import bars, histogram
from distced.simulations.report import Column, OnProgress, Report, ReportTable, number_columns

SOURCE: Final = "bench"
TYPE: Final = event_type("Reading", {"key": "number", "half": "number", "number": "number"})
PATTERN: Final = (
    "[Reading as a where half == 0] ; [Reading as b where half == 1] by key"
    " -> Pair(first = a.number, second = b.number)"
)
OTHERS: Final = "[Reading where key == {0} and half == 0] ; [Reading where key == {0} and half == 2] within 1min"
"""Patterns of other detectors that share the input of the first, with a number to be filled in."""

PATIENCE: Final = 60.0
MOVE_PATIENCE: Final = 15.0
SETTLE: Final = 0.3  # seconds after the end of a move that still count as part of it: delayed notifications arrive then


@dataclass(frozen=True)
class Arrivals:
    """Arrivals of notifications at a subscriber, in order."""

    at: list[int] = field(default_factory=list)  # instant of each, ns
    delays: list[int] = field(default_factory=list)  # since the last event of its match, ns

    def longest_gap(self, begin: int, end: int) -> int:
        """Longest time between two arrivals that overlaps these instants, ns; 0 for none."""
        first, last = max(bisect_right(self.at, begin) - 1, 0), min(bisect_left(self.at, end), len(self.at) - 1)
        return max((self.at[place + 1] - self.at[place] for place in range(first, last)), default=0)

    def longest_delay(self, begin: int, end: int) -> int:
        """Longest delay of arrivals between these instants, ns; 0 for none."""
        return max(self.delays[bisect_left(self.at, begin) : bisect_right(self.at, end)], default=0)

    def usual(self, begin: int, end: int) -> tuple[float, float]:
        """Medians of gaps and delays between these instants, ns; 0 for no arrivals."""
        first, last = bisect_left(self.at, begin), bisect_right(self.at, end)
        gaps = [self.at[place + 1] - self.at[place] for place in range(first, last - 1)]
        return median(gaps) if gaps else 0.0, median(self.delays[first:last]) if last > first else 0.0


@dataclass(frozen=True)
class MoveFigures:
    """Figures of a move, s, and of an equally long time without one before it."""

    origin: str
    target: str
    steps: dict[str, float]  # from the request to the observation of each step, in the order of steps
    state: int  # bytes of the message that carried the state
    pause: float  # the longest time without a notification, beyond the usual gap
    delay: float  # the longest from the last event of a match to its notification, beyond the usual delay
    still_pause: float  # the same without a move
    still_delay: float


@dataclass
class MigrateFigures:
    """Results of the benchmark."""

    nodes: str  # `ray` or `local`
    sites: int = 1
    moves: list[MoveFigures] = field(default_factory=list)  # the successful ones
    failed: int = 0
    usual_gap: float = 0.0  # median without a move, s; so is the delay
    usual_delay: float = 0.0
    published: int = 0  # events; the next five count notifications
    expected: int = 0
    received: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    arrivals: Arrivals = field(default_factory=Arrivals)

    @property
    def sound(self) -> bool:
        """Whether every move succeeded, and every notification came once."""
        return not (self.failed or self.lost or self.doubled or self.wrong)


def measure(
    moves: int,
    nodes: int,
    sites: int,
    pace: int,
    waiting: int,
    others: int,
    ray: bool | None,
    seed: int,
    on_progress: OnProgress,
) -> MigrateFigures:
    """Run the benchmark on a server of its own, or on several.

    Args:
        sites: number of sites, each with an MQTT server and, with Ray, a Ray node.
        pace: events/s.
        waiting: number of instances that the detector carries.
        others: number of other detectors that read the same events.
        ray: whether the nodes are Ray actors, or in this process; None for actors where Ray is installed.
        seed: of the times between moves, random lest they coincide with periodic work of nodes.
    """
    from distced.brokers.ray.runtime import use_ray

    configure_logging()
    ray = use_ray(ray)
    figures = MigrateFigures("ray" if ray else "local", sites)
    random = Random(seed)
    names = [f"node-{number + 1}" for number in range(nodes)]
    with ExitStack() as stack:
        url, home = _start(stack, names, sites, ray)
        client = stack.enter_context(Client(url, name="bench-subscriber", patience=PATIENCE))
        client.wait_for_nodes(nodes, PATIENCE)
        if not ray:
            # As a process of nodes does.
            stack.callback(gc.set_threshold, *gc.get_threshold())
            stack.callback(gc.unfreeze)
            adapt_garbage_collection()
        client.register(TYPE)
        client.subscribe_many([OTHERS.format(number) for number in range(others)])
        subscription = client.subscribe(PATTERN)
        pairs = _take(subscription, figures.arrivals)
        onlooker = stack.enter_context(_Onlooker(url, subscription.detector))
        with _publishing(url, home, pace, waiting) as stop:
            # The first notification comes once the detector has the required instances.
            await_quiet(lambda: len(figures.arrivals.at), lambda: len(figures.arrivals.at) > 0)
            if not figures.arrivals.at:
                raise TimeoutError("no notification has come")
            stretches: list[tuple[_Seen, int, int]] = []
            for number in range(moves):
                time.sleep(2 * SETTLE + random.random() * SETTLE)
                origin = onlooker.node
                target = names[(names.index(origin) + 1) % nodes]
                seen = onlooker.move(origin, target)
                if seen is None:
                    figures.failed += 1
                    continue
                time.sleep(SETTLE)
                stretches.append((seen, seen.asked, time.time_ns()))
                on_progress("moving", number + 1, moves)
            time.sleep(SETTLE)
            figures.published = stop()
        figures.expected = max((figures.published - 2 * waiting) // 2, 0)
        await_quiet(lambda: len(pairs), lambda: len(pairs) >= figures.expected, 5.0)
        doubled = subscription.statistics.duplicates
    _compare(figures, pairs, doubled, waiting)
    _evaluate(figures, stretches)
    return figures


def _compare(figures: MigrateFigures, pairs: list[tuple[Any, Any]], doubled: int, waiting: int) -> None:
    """Compare the received matches with the expected ones: every other event with the one n pairs before it."""
    counted = Counter(pairs)
    expected = {(2 * number, 2 * (number + waiting) + 1) for number in range(figures.expected)}
    figures.received = len(counted.keys() & expected)
    figures.lost = len(expected) - figures.received
    figures.wrong = len(counted.keys() - expected)
    figures.doubled = doubled + sum(counted.values()) - len(counted)


def _evaluate(figures: MigrateFigures, stretches: list[tuple[_Seen, int, int]]) -> None:
    """Compare each move with the time before it, back to the previous move at most."""
    arrivals = figures.arrivals
    over = [0, *(end for _, _, end in stretches)]
    befores = [max(2 * begin - end, past) for (_, begin, end), past in zip(stretches, over, strict=False)]
    still = [arrivals.usual(before, begin) for (_, begin, _), before in zip(stretches, befores, strict=True)]
    if not still:
        return
    gap, delay = median(each for each, _ in still), median(each for _, each in still)
    figures.usual_gap, figures.usual_delay = gap / SECOND, delay / SECOND
    for (seen, begin, end), before in zip(stretches, befores, strict=True):
        figures.moves.append(
            MoveFigures(
                seen.origin,
                seen.target,
                {name: (at - seen.asked) / SECOND for name, at in seen.steps.items()},
                seen.state,
                max(arrivals.longest_gap(begin, end) - gap, 0.0) / SECOND,
                max(arrivals.longest_delay(begin, end) - delay, 0.0) / SECOND,
                max(arrivals.longest_gap(before, begin) - gap, 0.0) / SECOND,
                max(arrivals.longest_delay(before, begin) - delay, 0.0) / SECOND,
            )
        )


def _start(stack: ExitStack, names: list[str], sites: int, ray: bool) -> tuple[str, str]:
    """Start servers and nodes; returns the server of the directory, and that of the source."""
    from distced.brokers.ray.nodes import LocalNodes, RayNodes

    address = ""
    if sites == 1:
        url = home = stack.enter_context(start_server()).url
        locations = {name: NodeLocation() for name in names}
    else:
        here = stack.enter_context(LocalSites([f"site-{number + 1}" for number in range(sites)], ray=ray))
        url, home, address = here.url, here.servers[here.names[-1]].url, here.address
        locations = {name: here.location(here.names[place % sites]) for place, name in enumerate(names)}
    stack.enter_context(RayNodes(url, locations, address=address) if ray else LocalNodes(url, locations))
    return url, home


def _take(subscription: Subscription, arrivals: Arrivals) -> list[tuple[Any, Any]]:
    """Take the notifications of a subscription at once, on the thread that delivers them; the value grows with them."""
    pairs: list[tuple[Any, Any]] = []

    def take() -> None:
        now = time.time_ns()
        while (event := subscription.get(0)) is not None:
            arrivals.at.append(now)
            arrivals.delays.append(now - event.hi)
            pairs.append((event.attributes["first"], event.attributes["second"]))

    subscription.on_change = take
    return pairs


@dataclass
class _Seen:
    """Observation of a move: the instant of the request, ns, the instant of each step, and the bytes of the state."""

    origin: str
    target: str
    asked: int
    steps: dict[str, int] = field(default_factory=dict)
    state: int = 0


class _Onlooker:
    """Connection that requests moves, and observes the messages of nodes about them."""

    def __init__(self, url: str, detector: str) -> None:
        self.detector = detector
        self.node = ""  # host of the detector by the directory
        self._changed = threading.Condition()
        self._seen: _Seen | None = None
        self._bus = Bus(url)

    def __enter__(self) -> _Onlooker:
        self._bus.start()
        self._bus.wait_connected(PATIENCE)
        self._bus.subscribe(area_filter(Area.ADMINISTRATION, "node"), self._step, qos=1, timeout=PATIENCE)
        self._bus.subscribe(directory_filter("detector"), self._entry, qos=1, timeout=PATIENCE)
        with self._changed:
            if not self._changed.wait_for(lambda: self.node, PATIENCE):
                raise TimeoutError("the detector is not in the directory")
        return self

    def __exit__(self, *_: object) -> None:
        self._bus.stop()

    def move(self, origin: str, target: str) -> _Seen | None:
        """Move the detector, and wait for its arrival; None where the move fails."""
        with self._changed:
            seen = self._seen = _Seen(origin, target, time.time_ns())
        self._bus.publish(administration_topic("move", self.detector), encode(MoveRequest(target)), qos=1)
        with self._changed:
            came = self._changed.wait_for(lambda: self.node == target, MOVE_PATIENCE)
            self._seen = None
        return seen if came else None

    def _step(self, topic: str, payload: bytes, retain: bool) -> None:
        _, levels = parse_topic(topic)
        with self._changed:
            if self._seen is not None and levels[3:4] == (self.detector,):
                self._seen.steps.setdefault(levels[2], time.time_ns())
                if levels[2] == "state":
                    self._seen.state = len(payload)

    def _entry(self, topic: str, payload: bytes, retain: bool) -> None:
        if not payload or parse_topic(topic).levels[-1] != self.detector:
            return
        node = decode(payload, DetectorEntry, where=topic).node
        with self._changed:
            self.node = node
            if self._seen is not None and node == self._seen.target:
                self._seen.steps.setdefault("there", time.time_ns())
            self._changed.notify_all()


@contextmanager
def _publishing(url: str, home: str, pace: int, waiting: int) -> Iterator[Callable[[], int]]:
    """Run the source in a process of its own; the value stops it, and returns the number of events published."""

    def stop() -> int:
        stopping.set()
        return int(answer.get(timeout=PATIENCE))

    context = mp.get_context("spawn")
    stopping, answer = context.Event(), context.Queue()
    process = context.Process(target=_publish, args=(url, home, pace, waiting, stopping, answer), daemon=True)
    process.start()
    try:
        yield stop
    finally:
        stopping.set()
        process.join(PATIENCE)
        if process.is_alive():
            process.terminate()


def _publish(url: str, home: str, pace: int, waiting: int, stopping: Any, answer: Any) -> None:
    configure_logging()
    with Client(url, home=home, name="bench-source") as client:
        source = client.source(SOURCE, [TYPE.name])
        began, number, hi = time.perf_counter(), 0, 0
        while not stopping.is_set():
            while (wait := began + number / pace - time.perf_counter()) > 0:
                time.sleep(wait)
            pair, half = divmod(number, 2)
            hi = max(time.time_ns(), hi + 1)
            key = pair - waiting if half else pair
            event = source.create(TYPE.name, hi, key=key, half=half, number=number)
            source.publish(event, watermark=hi)
            number += 1
        answer.put(number)
        # The source stays until everything it has sent is with the server.
        client.bus.flush(PATIENCE)


def report(figures: MigrateFigures) -> Report:
    """The figures as a report; moves that failed, and notifications lost, doubled or wrong, are faults."""
    times = {
        "pause": [each.pause for each in figures.moves],
        "pause without a move": [each.still_pause for each in figures.moves],
        "extra delay": [each.delay for each in figures.moves],
        "extra delay without a move": [each.still_delay for each in figures.moves],
    }
    spreads = {name: _spread(each) for name, each in times.items()}
    names = dict.fromkeys(name for each in figures.moves for name in each.steps)
    medians = [(name, _ms(median(each.steps[name] for each in figures.moves if name in each.steps))) for name in names]
    steps = sorted(medians, key=lambda step: step[1])
    moves = f"{len(figures.moves)} moves" + (f", {figures.failed} failed" if figures.failed else "")
    came = f"{figures.published:,} events, {figures.received:,} of {figures.expected:,} notifications"
    summary = f"{moves}, {came}: {figures.lost} lost, {figures.doubled} doubled, {figures.wrong} wrong"
    usual = (
        f"usually a notification every {_ms(figures.usual_gap):.2f} ms, {_ms(figures.usual_delay):.2f} ms late; "
        f"state of {max((each.state for each in figures.moves), default=0):,} bytes"
    )
    shares = ("median", "p95", "most")
    waits = [
        (f"{name}, {share}", each)
        for name in list(spreads)[:2]
        for share, each in zip(shares, spreads[name], strict=True)
    ]
    gaps = [(after - before) / 1e6 for before, after in pairwise(figures.arrivals.at)]
    delays = [each / 1e6 for each in figures.arrivals.delays]
    wait_columns = (Column("of the subscriber"), *number_columns(".1f", *shares, unit="ms"))
    step_columns = (Column("step"), Column("median after the request", "ms", ".1f"))
    return Report(
        "migrate",
        {name: value for name, value in vars(figures).items() if name != "arrivals"},
        [
            ReportTable(wait_columns, [(name, *spread) for name, spread in spreads.items()], "waits"),
            ReportTable(step_columns, steps, "steps"),
        ],
        [usual, summary] if figures.sound else [usual],
        [] if figures.sound else [summary],
        {
            "migrate-pauses.svg": partial(
                bars, waits, title="The subscriber's longest wait, beyond the usual", unit="ms"
            ),
            "migrate-steps.svg": partial(bars, steps, title="Steps of a move after the request, median", unit="ms"),
            "migrate-gaps.svg": partial(histogram, gaps, title="Between notifications, moves included", unit="ms"),
            "migrate-delays.svg": partial(histogram, delays, title="Delay of notifications, moves included", unit="ms"),
        },
    )


def _spread(seconds: Sequence[float]) -> tuple[float, float, float]:
    """Median, 95th percentile and greatest, in ms; 0 for no moves."""
    ordered = sorted(seconds) or [0.0]
    return _ms(median(ordered)), _ms(ordered[ceil(0.95 * len(ordered)) - 1]), _ms(ordered[-1])


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
