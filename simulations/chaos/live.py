"""Fault campaign on this machine: real broker nodes, an MQTT server, clients, and faults amid their traffic.

Nodes are processes with a common store of checkpoints; each participant has a proxy (`simulations.chaos.proxy`) to the
server. Faults come one after the other, each once detection has gone on after the last, or at the same time as another.
Their time to recovery is that until the watermark of every subscription is beyond the instant of the fault: its end, of
a node that was killed its begin. At the end the composite events are compared with those of one engine over what was
published.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing as mp
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog

from distced.brokers.live.mqtt_server import start_server
from distced.brokers.live.node import LiveNode
from distced.detectors.compiler import compile_pattern
from distced.detectors.limits import UNLIMITED
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import BusError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.numbered_stream import Loss
from distced.simulations.chaos.campaign import is_reported
from distced.simulations.chaos.proxy import Proxies, Proxy
from distced.simulations.report import OnProgress, no_progress

NODES: Final = 3
PATIENCE: Final = 60.0
"""Number of broker nodes; longest time for a recovery, and for the end, s."""

PAUSE: Final = 0.5
SETTLED: Final = 3.0
"""Time of undisturbed traffic between faults, and before the first, s."""

LONGEST: Final = 6.0
"""Longest fault, s."""

TYPES: Final = ("A", "B", "C")
PATTERNS: Final[Mapping[str, tuple[str, str]]] = {
    "each": ("[A]", ""),
    "pair": ("[A as x] ; [B where k == x.k] within 5s", ""),
    "long": ("[A where v > 8] ; [C where v > 8] within 10s", ""),
    "cut": ("([A as x] ; [B where k == x.k]) ; [C where k == x.k] within 8s", "full"),
}
"""Patterns by name, with their decomposition."""

KINDS: Final[Mapping[str, str]] = {
    "kill-node": "kill -9 of a node, which starts again",
    "kill-nodes": "kill -9 of all nodes, which start again",
    "stop-node": "SIGSTOP of a node for some seconds",
    "cut-node": "connections of a node cut, and at once back",
    "cut-publisher": "connections of the publisher cut",
    "cut-subscriber": "connections of the subscriber cut",
    "stall-node": "nothing passes between a node and the server for some seconds",
    "stall-subscriber": "nothing passes between the subscriber and the server for some seconds",
    "kill-server": "kill -9 of the MQTT server, which starts again without its memory",
    "power": "kill -9 of the server and all nodes",
}


@dataclass
class LiveFigures:
    """Results of the campaign.

    Attributes:
        faults: number by kind.
        recovery: times to recovery by kind, s.
        expected, received, lost, doubled, wrong, reported: numbers of composite events, by subscription.
        losses: number of losses reported to subscriptions.
        published: number of events.
        problems: recoveries that took too long, and subscriptions that have fallen silent.
    """

    faults: Counter[str] = field(default_factory=Counter)
    recovery: dict[str, list[float]] = field(default_factory=dict)
    expected: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    doubled: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    losses: int = 0
    published: int = 0
    problems: list[str] = field(default_factory=list)


def measure(
    faults: int = 50,
    seed: int = 1,
    kinds: Sequence[str] = tuple(KINDS),
    pace: int = 200,
    on_progress: OnProgress = no_progress,
) -> LiveFigures:
    """Run the campaign; `pace`: events a second."""
    figures, random = LiveFigures(), Random(seed)
    _silence()
    with ExitStack() as stack:
        rig = _Rig(stack)
        traffic = _Traffic(rig.publisher, pace, Random(seed))
        stack.callback(traffic.stop)
        traffic.start()
        # Without a checkpoint a detector that is lost cannot be recovered.
        time.sleep(SETTLED)
        chosen = [each for number in range(-(-faults // len(kinds))) for each in random.sample(kinds, len(kinds))]
        for number, kind in enumerate(chosen[:faults]):
            on_progress(kind, number, faults)
            time.sleep(PAUSE)
            figures.faults[kind] += 1
            since = getattr(rig, kind.replace("-", "_"))(random, random.uniform(0.5, LONGEST))
            took = rig.recovered(since)
            if took is None:
                figures.problems.append(f"{kind}, fault {number + 1}: no recovery in {PATIENCE:.0f} s")
            else:
                figures.recovery.setdefault(kind, []).append(took)
        on_progress("the last composite events", faults, faults)
        traffic.stop()
        rig.judge(traffic.published, traffic.last, figures)
    return figures


# Nodes, server and clients.


def _host(url: str, name: str, checkpoints: str, asked: Any) -> None:
    """Broker node in a process of its own, which ends with the one that has started it."""
    _silence()
    # Nodes are lost on purpose, and not by their detectors.
    with LiveNode(url, name, checkpoints=checkpoints, detector_limits=UNLIMITED), contextlib.suppress(EOFError):
        asked.recv()


class _Node:
    """Node in a process of its own."""

    def __init__(self, proxy: Proxy, name: str, checkpoints: str) -> None:
        self.proxy, self.name = proxy, name
        self._checkpoints = checkpoints
        self._process: Any = None
        self.start()

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None and self._process.is_alive():
            return
        context = mp.get_context("spawn")
        self._asking, asked = context.Pipe()
        self._process = context.Process(
            target=_host, args=(self.proxy.url, self.name, self._checkpoints, asked), daemon=True
        )
        self._process.start()

    def signal(self, number: int) -> None:
        if self._process.is_alive():
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.join(10)


class _Rig:
    """The deployment, and its faults: each method carries one out, and returns the instant beyond which it is over."""

    def __init__(self, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="distced-chaos-", ignore_cleanup_errors=True))
        self._timers: list[threading.Timer] = []
        self._server = start_server()
        stack.callback(lambda: self._server.stop())
        proxies = stack.enter_context(Proxies())

        def proxy() -> Proxy:
            return proxies.to(self._server.port)

        self._nodes = [_Node(proxy(), f"node-{number + 1}", str(Path(folder))) for number in range(NODES)]
        stack.callback(self._end)
        self._at_publisher, self._at_subscriber = proxy(), proxy()
        self.publisher = stack.enter_context(Client(self._at_publisher.url, name="publisher", patience=PATIENCE))
        self._subscriber = stack.enter_context(Client(self._at_subscriber.url, name="subscriber", patience=PATIENCE))
        self.publisher.register(*(event_type(name, {"k": "number", "v": "number"}) for name in TYPES))
        self.publisher.wait_for_nodes(NODES, PATIENCE)
        self._got: dict[str, list[CompositeEvent]] = {name: [] for name in PATTERNS}
        self._losses: dict[str, list[Loss]] = {name: [] for name in PATTERNS}
        self._subscriptions: dict[str, Subscription] = {}
        for name, (pattern, decomposition) in PATTERNS.items():
            quality = QualityOfService(decomposition=decomposition or None)  # type: ignore[arg-type]
            made = self._subscriber.subscribe(pattern, self._got[name].append, quality=quality)
            made.on_loss = self._losses[name].append
            self._subscriptions[name] = made

    def recovered(self, since: int) -> float | None:
        """Wait until every subscription is beyond an instant, ns; the time since then, s, None where it takes too
        long."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            marks = [each.statistics.watermark for each in self._subscriptions.values()]
            if all(each is not None and each > since for each in marks):
                return (time.time_ns() - since) / 1e9
            time.sleep(0.01)
        return None

    # Faults.

    def kill_node(self, random: Random, seconds: float) -> int:
        node = random.choice(self._nodes)
        now = time.time_ns()
        node.kill()
        self._later(seconds, node.start)
        return now

    def kill_nodes(self, random: Random, seconds: float) -> int:
        self._kill_all()
        time.sleep(seconds)
        return self._start_all()

    def stop_node(self, random: Random, seconds: float) -> int:
        node = random.choice(self._nodes)
        node.signal(signal.SIGSTOP)
        time.sleep(seconds)
        node.signal(signal.SIGCONT)
        return time.time_ns()

    def cut_node(self, random: Random, seconds: float) -> int:
        random.choice(self._nodes).proxy.cut()
        return time.time_ns()

    def cut_publisher(self, random: Random, seconds: float) -> int:
        self._at_publisher.cut()
        return time.time_ns()

    def cut_subscriber(self, random: Random, seconds: float) -> int:
        self._at_subscriber.cut()
        return time.time_ns()

    def stall_node(self, random: Random, seconds: float) -> int:
        return self._stall(random.choice(self._nodes).proxy, seconds)

    def stall_subscriber(self, random: Random, seconds: float) -> int:
        return self._stall(self._at_subscriber, seconds)

    def kill_server(self, random: Random, seconds: float) -> int:
        self._kill_server()
        time.sleep(seconds / 4)
        return self._start_server()

    def power(self, random: Random, seconds: float) -> int:
        self._kill_server()
        self._kill_all()
        time.sleep(seconds)
        self._start_server()
        return self._start_all()

    def _stall(self, proxy: Proxy, seconds: float) -> int:
        proxy.stall()
        time.sleep(seconds)
        proxy.flow()
        return time.time_ns()

    def _kill_server(self) -> None:
        os.kill(self._server.pid, signal.SIGKILL)
        self._server.wait(10)

    def _start_server(self) -> int:
        port = self._server.port
        self._server.stop()
        self._server = start_server(port=port)
        return time.time_ns()

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join(10)
        self._kill_all()

    def _kill_all(self) -> None:
        for node in self._nodes:
            node.kill()

    def _start_all(self) -> int:
        for node in self._nodes:
            node.start()
        return time.time_ns()

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    # The verdict.

    def judge(self, published: Sequence[Event], last: int, figures: LiveFigures) -> None:
        """Wait for the last composite events, and compare."""
        figures.published = len(published)
        registry = TypeRegistry(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
        compiled = {name: compile_pattern(text, registry) for name, (text, _) in PATTERNS.items()}
        engine = StepwiseEngine(list(compiled.values()))
        found = [*engine.feed(sorted(published, key=lambda one: one.key)), *engine.advance(last)]
        for name, subscription in self._subscriptions.items():
            if not subscription.wait_watermark(last, PATIENCE):
                figures.problems.append(f"{name} has fallen silent")
            due = {each.id: each for each in found if each.source == compiled[name].canonical_id}
            counts = Counter(each.id for each in self._got[name])
            got = {each.id: each for each in self._got[name]}
            missing = [due[each] for each in due.keys() - got.keys()]
            wrong = [got[each] for each in got.keys() - due.keys()]
            losses = self._losses[name]
            figures.expected[name], figures.received[name] = len(due), len(got)
            figures.lost[name], figures.wrong[name] = len(missing), len(wrong)
            figures.doubled[name] = sum(counts.values()) - len(counts)
            figures.reported[name] = sum(is_reported(each, losses) for each in (*missing, *wrong))
            figures.losses += len(losses)


class _Traffic:
    """Events of a source at a pace, with a promise each; `published` are all of them, `last` the last promise, ns."""

    def __init__(self, client: Client, pace: int, random: Random) -> None:
        self.published: list[Event] = []
        self.last = 0
        self._source = client.source("source", TYPES)
        self._pace, self._random = pace, random
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Publish nothing more, and promise so."""
        if not self._ends.is_set():
            self._ends.set()
            self._thread.join(PATIENCE)
            self.last = time.time_ns()
            self._source.heartbeat(self.last)

    def _publish(self) -> None:
        begin = time.monotonic()
        while not self._ends.is_set():
            number = len(self.published)
            wait = begin + number / self._pace - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            instant = time.time_ns()
            values = {"k": number // len(TYPES) % 50, "v": self._random.randrange(10)}
            event = self._source.create(TYPES[number % len(TYPES)], instant, **values)
            self.published.append(event)
            # Without a server for long it raises; the client keeps the event, and readers request it.
            with contextlib.suppress(BusError):
                self._source.publish(event, watermark=instant)


def _silence() -> None:
    """Log nothing: faults are what is expected."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
