"""Fault campaign on this machine: real broker nodes, an MQTT server, clients, and faults amid their traffic.

Nodes are processes or Ray actors with a common store of checkpoints; each participant has a proxy
(`simulations.chaos.proxy`) to the server, Ray's actors one together. Faults come one after the other, each once
detection has gone on after the last. Their time to recovery is that until the watermark of every subscription is beyond
the instant of the fault: its end, of a node that was killed its begin. At the end the composite events are compared
with those of one engine over what was published. One subscriber is in this process; of another one, which is killed,
those are due that begin once it is active, up to the watermark that it had before it was lost. One publisher is in this
process, another one, with an outbox on disk, is killed: an event that it was about to publish counts as published where
it has come.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import multiprocessing as mp
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import structlog

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import start_server
from distced.brokers.live.node import LiveNode
from distced.brokers.ray.nodes import RayNodes
from distced.detectors.compiler import compile_pattern
from distced.detectors.limits import UNLIMITED
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import BusError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import CompositeEvent, Event, EventId
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

METER_PACE: Final = 20
"""Events a second of the publisher in a process of its own."""

MARK_EVERY: Final = 0.1
"""Interval at which a subscriber in a process of its own tells its watermarks, s."""

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
    "stall-publisher": "nothing passes between the publisher and the server for some seconds",
    "kill-publisher": "kill -9 of a publisher with an outbox on disk, which starts again",
    "kill-client": "kill -9 of a subscriber, which starts again",
    "stop-client": "SIGSTOP of a subscriber for some seconds",
    "kill-server": "kill -9 of the MQTT server, which starts again without its memory",
    "kill-server-kept": "kill -9 of the MQTT server, which starts again with what it has saved each second",
    "restart-server": "restart of the MQTT server, which saves its memory",
    "stop-server": "SIGSTOP of the MQTT server for some seconds",
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

    def compare(
        self,
        name: str,
        right: Mapping[EventId, CompositeEvent],
        due: Iterable[CompositeEvent],
        received: Sequence[CompositeEvent],
        losses: Sequence[Loss],
    ) -> None:
        """Count what a subscription has received, of all composite events that are right those that are due."""
        got = {each.id: each for each in received}
        due = list(due)
        missing = [each for each in due if each.id not in got]
        wrong = [each for each in got.values() if each.id not in right]
        self.expected[name] += len(due)
        self.received[name] += len(got)
        self.lost[name] += len(missing)
        self.wrong[name] += len(wrong)
        self.doubled[name] += len(received) - len(got)
        self.reported[name] += sum(is_reported(each, losses) for each in (*missing, *wrong))
        self.losses += len(losses)


def measure(
    faults: int = 50,
    seed: int = 1,
    kinds: Sequence[str] = tuple(KINDS),
    pace: int = 200,
    on_progress: OnProgress = no_progress,
    *,
    ray: bool = False,
) -> LiveFigures:
    """Run the campaign; `pace`: events a second, `ray`: nodes are Ray actors."""
    figures, random = LiveFigures(), Random(seed)
    _silence()
    with ExitStack() as stack:
        rig = _Rig(stack, ray=ray)
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
        rig.meter.stop(traffic.last)
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

    @property
    def pid(self) -> int:
        """Its process; 0 where it does not run."""
        return self._process.pid if self._process.is_alive() else 0

    def wait(self) -> None:
        """Wait for its end."""
        self._process.join(10)


class _RayNode:
    """Node as a Ray actor, which Ray starts again."""

    def __init__(self, nodes: RayNodes, proxy: Proxy, name: str) -> None:
        self.proxy, self.name = proxy, name
        self._nodes = nodes

    def start(self) -> None:
        """Ray starts it."""

    @property
    def pid(self) -> int:
        """Its process, once all nodes run."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._nodes.processes()[self.name]
            except Exception:
                # Ray is about to start one again.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def wait(self) -> None:
        """Ray starts it again at once."""


_Takes: TypeAlias = Callable[[str, Any], object]
"""Takes an item of a subscription by name."""


@dataclass
class _Life:
    """What a subscriber has received until it was killed, by subscription.

    Attributes:
        active: instants from which its subscriptions are active, ns.
        got, losses: composite events, and losses.
        marks: last two watermarks, ns: what is before the first of them has come through the pipe, too.
    """

    active: dict[str, int] = field(default_factory=dict)
    got: dict[str, list[CompositeEvent]] = field(default_factory=lambda: {name: [] for name in PATTERNS})
    losses: dict[str, list[Loss]] = field(default_factory=lambda: {name: [] for name in PATTERNS})
    marks: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def take(self, what: str, name: str, item: Any) -> None:
        """Take an item of the pipe."""
        match what:
            case "active":
                self.active[name] = item
            case "event":
                self.got[name].append(item)
            case "loss":
                self.losses[name].append(item)
            case "mark":
                self.marks[name] = (*self.marks.get(name, ())[-1:], item)


def _subscribe_all(
    client: Client, on_event: Callable[[str, CompositeEvent], object], on_loss: Callable[[str, Loss], object]
) -> dict[str, Subscription]:
    made: dict[str, Subscription] = {}
    for name, (pattern, decomposition) in PATTERNS.items():
        quality = QualityOfService(decomposition=decomposition or None)  # type: ignore[arg-type]
        made[name] = client.subscribe(pattern, partial(on_event, name), quality=quality)
        made[name].on_loss = partial(on_loss, name)
    return made


def _receive(url: str, pipe: Any) -> None:
    """Subscriber in a process of its own, which tells what it receives, and ends with the one that has started it."""
    _silence()
    lock = threading.Lock()

    def tell(what: str, name: str, item: Any) -> None:
        with lock:
            pipe.send((what, name, item))

    with Client(url, name="other", patience=PATIENCE) as client, contextlib.suppress(OSError):
        made = _subscribe_all(client, partial(tell, "event"), partial(tell, "loss"))
        now = time.time_ns()
        for name in made:
            tell("active", name, now)
        while True:
            time.sleep(MARK_EVERY)
            for name, each in made.items():
                if (mark := each.statistics.watermark) is not None:
                    tell("mark", name, mark)


class _Subscriber:
    """Subscriber in a process of its own; `lives` has what it has received since each of its starts."""

    def __init__(self, proxy: Proxy) -> None:
        self.lives: list[_Life] = []
        self._proxy = proxy

    def start(self) -> None:
        """Start it, and wait until its subscriptions are active."""
        context = mp.get_context("spawn")
        pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_receive, args=(self._proxy.url, theirs), daemon=True)
        self._process.start()
        theirs.close()
        life = _Life()
        self.lives.append(life)
        self._reader = threading.Thread(target=self._read, args=(pipe, life), name="subscriber", daemon=True)
        self._reader.start()
        deadline = time.monotonic() + PATIENCE
        while len(life.active) < len(PATTERNS) and time.monotonic() < deadline:
            time.sleep(0.01)

    def signal(self, number: int) -> None:
        os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        """Kill it; what it has told by then is counted."""
        self.signal(signal.SIGKILL)
        self._process.join(10)
        self._reader.join(10)

    def marks(self) -> list[int]:
        """Watermarks of its subscriptions, ns, 0 for none."""
        marks = self.lives[-1].marks
        return [marks[name][0] if name in marks else 0 for name in PATTERNS]

    def _read(self, pipe: Any, life: _Life) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                life.take(*pipe.recv())


def _meter(url: str, outbox: str, pipe: Any) -> None:
    """Publisher in a process of its own, which tells each event before and behind its publication; it promises the
    instant that it is given, and ends with the one that has started it."""
    _silence()
    with Client(url, name="meter", patience=PATIENCE, outbox=outbox) as client, contextlib.suppress(OSError, EOFError):
        source = client.source("meter", ["A"])
        number = 0
        while not pipe.poll(1 / METER_PACE):
            number += 1
            instant = time.time_ns()
            event = source.create("A", instant, k=number % 50, v=number % 10)
            pipe.send(event)
            source.publish(event, watermark=instant)
            pipe.send(None)
        source.heartbeat(pipe.recv())
        pipe.send(None)
        # What is missing is requested of it.
        pipe.recv()


class _Meter:
    """Publisher in a process of its own: events published, and those that it was about to publish as it was killed."""

    def __init__(self, proxy: Proxy, outbox: str) -> None:
        self.published: list[Event] = []
        self.unclear: list[Event] = []
        self._proxy, self._outbox = proxy, outbox

    def start(self) -> None:
        """Start it, and wait for its first event."""
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_meter, args=(self._proxy.url, self._outbox, theirs), daemon=True)
        self._process.start()
        theirs.close()
        number = len(self.published)
        self._reader = threading.Thread(target=self._read, args=(self._pipe,), name="meter", daemon=True)
        self._reader.start()
        deadline = time.monotonic() + PATIENCE
        while len(self.published) == number and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it."""
        os.kill(self._process.pid or 0, signal.SIGKILL)
        self._process.join(10)
        self._reader.join(10)

    def stop(self, last: int) -> None:
        """Publish nothing more, and promise so, ns."""
        self._pipe.send(last)

    def _read(self, pipe: Any) -> None:
        begun: Event | None = None
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = pipe.recv()
                if begun is not None and message is None:
                    self.published.append(begun)
                begun = message
        if begun is not None:
            self.unclear.append(begun)


class _Rig:
    """The deployment, and its faults: each method carries one out, and returns the instant beyond which it is over."""

    def __init__(self, stack: ExitStack, *, ray: bool) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="distced-chaos-", ignore_cleanup_errors=True))
        self._timers: list[threading.Timer] = []
        self._memory = Path(folder, "mosquitto.db")
        # The last two for a server that is started as root, which would write as another user.
        self._settings = [
            "persistence true",
            f"persistence_location {folder}/",
            "autosave_interval 1",
            f"user {getpass.getuser()}",
        ]
        self._server = start_server(settings=self._settings)
        stack.callback(lambda: self._server.stop())
        proxies = stack.enter_context(Proxies())

        def proxy() -> Proxy:
            return proxies.to(self._server.port)

        names = [f"node-{number + 1}" for number in range(NODES)]
        store = str(Path(folder, "checkpoints"))
        if ray:
            shared = proxy()
            location = NodeLocation(detector_limits=UNLIMITED, checkpoints=store)
            actors = stack.enter_context(RayNodes(shared.url, dict.fromkeys(names, location)))
            self._nodes: list[_Node | _RayNode] = [_RayNode(actors, shared, each) for each in names]
        else:
            self._nodes = [_Node(proxy(), each, store) for each in names]
            stack.callback(self._end)
        self._at_publisher, self._at_subscriber = proxy(), proxy()
        self.publisher = stack.enter_context(Client(self._at_publisher.url, name="publisher", patience=PATIENCE))
        self._subscriber = stack.enter_context(Client(self._at_subscriber.url, name="subscriber", patience=PATIENCE))
        self.publisher.register(*(event_type(name, {"k": "number", "v": "number"}) for name in TYPES))
        self.publisher.wait_for_nodes(NODES, PATIENCE)
        self._got: dict[str, list[CompositeEvent]] = {name: [] for name in PATTERNS}
        self._losses: dict[str, list[Loss]] = {name: [] for name in PATTERNS}
        self._subscriptions = _subscribe_all(
            self._subscriber,
            lambda name, event: self._got[name].append(event),
            lambda name, loss: self._losses[name].append(loss),
        )
        self._other = _Subscriber(proxy())
        self._other.start()
        stack.callback(self._other.kill)
        self.meter = _Meter(proxy(), str(Path(folder, "outbox")))
        self.meter.start()
        stack.callback(self.meter.kill)

    def recovered(self, since: int) -> float | None:
        """Wait until every subscription is beyond an instant, ns; the time since then, s, None where it takes too
        long."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            marks = [each.statistics.watermark or 0 for each in self._subscriptions.values()]
            if min(*marks, *self._other.marks()) > since:
                return (time.time_ns() - since) / 1e9
            time.sleep(0.01)
        return None

    # Faults.

    def kill_node(self, random: Random, seconds: float) -> int:
        node = random.choice(self._nodes)
        now = time.time_ns()
        _signal([node], signal.SIGKILL)
        node.wait()
        self._later(seconds, node.start)
        return now

    def kill_nodes(self, random: Random, seconds: float) -> int:
        self._kill_all()
        time.sleep(seconds)
        return self._start_all()

    def stop_node(self, random: Random, seconds: float) -> int:
        node = random.choice(self._nodes)
        pid = node.pid
        if pid:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)
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

    def stall_publisher(self, random: Random, seconds: float) -> int:
        return self._stall(self._at_publisher, seconds)

    def kill_publisher(self, random: Random, seconds: float) -> int:
        self.meter.kill()
        time.sleep(seconds / 4)
        self.meter.start()
        return time.time_ns()

    def kill_client(self, random: Random, seconds: float) -> int:
        self._other.kill()
        time.sleep(seconds / 4)
        self._other.start()
        return time.time_ns()

    def stop_client(self, random: Random, seconds: float) -> int:
        self._other.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._other.signal(signal.SIGCONT)
        return time.time_ns()

    def kill_server(self, random: Random, seconds: float) -> int:
        self._kill_server()
        time.sleep(seconds / 4)
        return self._start_server()

    def kill_server_kept(self, random: Random, seconds: float) -> int:
        self._kill_server()
        time.sleep(seconds / 4)
        return self._start_server(remembers=True)

    def restart_server(self, random: Random, seconds: float) -> int:
        self._kill_server(signal.SIGTERM)
        return self._start_server(remembers=True)

    def stop_server(self, random: Random, seconds: float) -> int:
        os.kill(self._server.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._server.pid, signal.SIGCONT)
        return time.time_ns()

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

    def _kill_server(self, number: int = signal.SIGKILL) -> None:
        os.kill(self._server.pid, number)
        self._server.wait(10)

    def _start_server(self, *, remembers: bool = False) -> int:
        port = self._server.port
        self._server.stop()
        if not remembers:
            self._memory.unlink(missing_ok=True)
        self._server = start_server(port=port, settings=self._settings)
        return time.time_ns()

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join(10)
        self._kill_all()

    def _kill_all(self) -> None:
        _signal(self._nodes, signal.SIGKILL)
        for node in self._nodes:
            node.wait()

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
        if self.recovered(last - 1) is None:
            figures.problems.append("a subscription has fallen silent")
        got = {one for each in self._got["each"] for one in each.constituents}
        published = [*published, *self.meter.published, *(each for each in self.meter.unclear if each.id in got)]
        figures.published = len(published)
        registry = TypeRegistry(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
        compiled = {name: compile_pattern(text, registry) for name, (text, _) in PATTERNS.items()}
        engine = StepwiseEngine(list(compiled.values()))
        found = [*engine.feed(sorted(published, key=lambda one: one.key)), *engine.advance(last)]
        for name in PATTERNS:
            due = {each.id: each for each in found if each.source == compiled[name].canonical_id}
            figures.compare(name, due, due.values(), self._got[name], self._losses[name])
            for life in self._other.lives:
                since, until = life.active.get(name, last), last
                if life is not self._other.lives[-1]:
                    until = life.marks.get(name, (0,))[0]
                behind = [each for each in due.values() if each.lo > since and each.hi <= until]
                figures.compare(f"{name}, killed", due, behind, life.got[name], life.losses[name])


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


def _signal(nodes: Iterable[_Node | _RayNode], number: int) -> None:
    """Send a signal to nodes that run."""
    for pid in [each.pid for each in nodes]:
        if pid:
            os.kill(pid, number)


def _silence() -> None:
    """Log nothing: faults are what is expected."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
