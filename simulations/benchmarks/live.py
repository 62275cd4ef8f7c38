"""`distced bench live`: a broker node against a bare paho subscriber to the same topic, measured alternately.

A publisher in a process of its own sends events of one type as fast as it can, one a message, at QoS 0. A round's rate
is
that of the receiving process: a bare paho client that counts its callbacks, or a broker node that decodes each event,
checks it against its type and detects a keyed sequence in a window by best effort. Then events are sent at a steady
pace, and the delay is taken from publishing to the bare client's callback, and to the callback of a subscriber to a
pattern that every event matches, which is one detection and one more hop over the server.
"""

from __future__ import annotations

import logging
import multiprocessing as mp
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from distced.brokers.live.mqtt_server import start_server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.frames import decode, encode
from distced.middleware.wire.topics import event_topic
from distced.simulations.plots import bars, histogram
from distced.simulations.report import Cell, Column, Report, ReportTable, number_columns

SOURCE: Final = "bench"
TYPE: Final = event_type("Reading", {"key": "number", "value": "number"})
PATTERN: Final = "[Reading where value >= 95] ; [Reading where value < 5] within 5s by key"
ALL: Final = "[Reading]"
BEST_EFFORT: Final = QualityOfService(detection="best-effort")
PATIENCE: Final = 60.0
PACED: Final = 10_000
"""Greatest number of events of a round that measures delays."""


@dataclass
class LiveFigures:
    """Results of the benchmark.

    Attributes:
        rates: events a second, for each receiver and frame size, a figure a round.
        delays: seconds from publishing to arrival, sorted, by receiver.
        lost: events sent and not received, by receiver and frame size.
        profiles: where a node's time goes, in seconds of its own by function, for each frame size.
    """

    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    delays: dict[str, list[float]] = field(default_factory=dict)
    lost: dict[tuple[str, int], int] = field(default_factory=dict)
    profiles: dict[int, list[tuple[str, float]]] = field(default_factory=dict)

    def best(self, receiver: str, frame: int) -> float:
        """The best round's rate."""
        return max(self.rates[receiver, frame])

    def percentile(self, receiver: str, share: float) -> float:
        """The delay, in seconds, that this share of events does not exceed."""
        delays = self.delays[receiver]
        return delays[min(len(delays) - 1, int(share * len(delays)))]


def measure(
    events: int = 60_000,
    rounds: int = 3,
    frames: tuple[int, ...] = (1, 50, 500),
    pace: int = 1_000,
    seconds: float = 5.0,
) -> LiveFigures:
    """Run the benchmark on a server of its own."""
    figures = LiveFigures()
    with start_server() as server:
        for _ in range(rounds):
            for frame in frames:
                count = events if frame == 1 else events * 10
                for receiver, target in (("bare", _bare), ("node", _node)):
                    got, rate, _ = _round(server.url, target, count, frame, 0)
                    figures.rates.setdefault((receiver, frame), []).append(rate)
                    figures.lost[receiver, frame] = figures.lost.get((receiver, frame), 0) + count - got
        for receiver, target in (("bare", _bare), ("node", _node_delays)) * 2:
            _, _, delays = _round(server.url, target, int(pace * seconds), 1, pace)
            figures.delays.setdefault(receiver, []).extend(delays)
        for delays in figures.delays.values():
            delays.sort()
        for frame in frames:
            _, _, figures.profiles[frame] = _round(server.url, _node_profiled, events, frame, 0)
    return figures


def _round(url: str, target: Any, count: int, frame: int, pace: int) -> tuple[int, float, Any]:
    """One round of a publisher and a receiver: number of events arrived, rate, and other figures of the receiver."""
    context = mp.get_context("spawn")
    ready, answer = context.Event(), context.Queue()
    receiver = context.Process(target=target, args=(url, count, frame, ready, answer), daemon=False)
    publisher = context.Process(target=_publish, args=(url, count, frame, pace), daemon=True)
    receiver.start()
    try:
        if not ready.wait(PATIENCE):
            raise TimeoutError("the receiver has not come up")
        publisher.start()
        got, seconds, more = answer.get(timeout=5 * PATIENCE)
        receiver.join()
        publisher.join()
    finally:
        if receiver.is_alive():
            receiver.terminate()
    return got, got / seconds if seconds else 0.0, more


def _publish(url: str, count: int, frame: int, pace: int) -> None:
    client = _paho(url)
    topic = event_topic(TYPE.name, SOURCE)
    number = 0
    if pace:
        began = time.perf_counter()
        for number in range(count):
            while (wait := began + number / pace - time.perf_counter()) > 0:
                time.sleep(wait)
            now = time.time_ns()
            client.publish(topic, _frame([_event(number, now)]), 0)
    else:
        now = time.time_ns()
        payloads = [
            _frame([_event(start + each, now + start + each) for each in range(frame)])
            for start in range(0, count, frame)
        ]
        for payload in payloads:
            client.publish(topic, payload, 0)
    deadline = time.monotonic() + PATIENCE
    while client._out_packet and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    client.disconnect()
    client.loop_stop()


def _event(number: int, now: int) -> Event:
    return Event(TYPE.name, now, now, SOURCE, number, {"key": number * 7919 % 1000, "value": number * 104_729 % 100})


def _frame(events: list[Event]) -> bytes:
    return encode(events, type=TYPE.name, source=SOURCE, watermark=None, check=False)


def _bare(url: str, count: int, frame: int, ready: Any, answer: Any) -> None:
    times: list[float] = []
    delays: list[float] = []
    client = _paho(url)
    if count <= PACED:

        def on_message(_client: object, _userdata: object, message: Any) -> None:
            times.append(time.perf_counter())
            delays.append((time.time_ns() - decode(message.payload).events[0].hi) / 1e9)
    else:

        def on_message(_client: object, _userdata: object, message: Any) -> None:
            times.append(time.perf_counter())

    client.on_message = on_message
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe(event_topic(TYPE.name, SOURCE), 0)
    subscribed.wait(PATIENCE)
    ready.set()
    _await_quiet(lambda: len(times), lambda: len(times) * frame >= count)
    answer.put((min(len(times) * frame, count), _elapsed(times), delays))


def _elapsed(times: list[float]) -> float:
    return times[-1] - times[0] if len(times) > 1 else 0.0


def _await_quiet(progress: Any, done: Any) -> None:
    """Wait until everything has arrived, or nothing more arrives."""
    last, since = -1, time.monotonic()
    while not done():
        time.sleep(0.02)
        if progress() != last:
            last, since = progress(), time.monotonic()
        elif time.monotonic() - since > (1.0 if last > 0 else PATIENCE):
            return


def _node(url: str, count: int, frame: int, ready: Any, answer: Any) -> None:
    _count_at_node(url, count, ready, answer, None)


def _node_profiled(url: str, count: int, frame: int, ready: Any, answer: Any) -> None:
    import cProfile

    _count_at_node(url, count, ready, answer, cProfile.Profile())


def _count_at_node(url: str, count: int, ready: Any, answer: Any, profiler: Any) -> None:
    quieten()
    with LiveNode(url, "bench") as node, Client(url) as client:
        client.wait_for_nodes(1)
        client.register(TYPE)
        client.subscribe(PATTERN, quality=BEST_EFFORT)
        times: list[float] = []
        counts, receive = node.node.counts, node.node.receive

        def timed(topic: str, payload: bytes, now: int, home: str = "") -> Any:
            times.append(time.perf_counter())
            return receive(topic, payload, now, home)

        node.node.receive = timed  # type: ignore[method-assign]
        if profiler is not None:
            node.bus.call_soon(profiler.enable)
        ready.set()
        _await_quiet(lambda: counts["events"], lambda: counts["events"] >= count)
        if profiler is not None:
            stopped = threading.Event()
            node.bus.call_soon(lambda: (profiler.disable(), stopped.set()))
            stopped.wait(PATIENCE)
        answer.put((counts["events"], _elapsed(times), _own_times(profiler)))


def _own_times(profiler: Any) -> list[tuple[str, float]]:
    if profiler is None:
        return []
    import pstats

    entries = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    told = [(f"{_short(path)}:{name}", values[2]) for (path, _, name), values in entries]
    return sorted(told, key=lambda pair: -pair[1])[:12]


def _short(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _host(url: str, stop: Any) -> None:
    quieten()
    with LiveNode(url, "bench"):
        stop.wait()


def _node_delays(url: str, count: int, frame: int, ready: Any, answer: Any) -> None:
    """Delays with the node in a process of its own, as on Ray; this process is the subscriber's."""
    context = mp.get_context("spawn")
    stop = context.Event()
    host = context.Process(target=_host, args=(url, stop), daemon=True)
    host.start()
    delays: list[float] = []
    with Client(url) as client:
        client.wait_for_nodes(1, PATIENCE)
        client.register(TYPE)
        subscription = client.subscribe(ALL, quality=BEST_EFFORT)
        receive = subscription.receive

        def timed(topic: str, payload: bytes, retain: bool) -> None:
            now = time.time_ns()
            delays.extend((now - event.hi) / 1e9 for event in decode(payload).events)
            receive(topic, payload, retain)

        (topic,) = subscription.filters
        client.bus.unsubscribe(topic, subscription.receive)
        client.bus.subscribe(topic, timed, timeout=PATIENCE)
        ready.set()
        _await_quiet(lambda: len(delays), lambda: len(delays) >= count)
        answer.put((len(delays), 1.0, delays))
    stop.set()
    host.join()


def quieten() -> None:
    """Log warnings only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def _paho(url: str) -> Any:
    import paho.mqtt.client as paho

    from distced.middleware.bus import parse_address

    address = parse_address(url)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_socket_open = _no_delay  # type: ignore[assignment]
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()  # type: ignore[assignment]
    client.connect(address.host, address.port)
    client.loop_start()
    if not connected.wait(PATIENCE):
        raise TimeoutError(f"no connection to {url}")
    return client


def _no_delay(_client: object, _userdata: object, sock: Any) -> None:
    import socket

    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def report(figures: LiveFigures) -> Report:
    """The figures as a report."""
    rates: list[Sequence[Cell]] = []
    for frame in sorted({frame for _, frame in figures.rates}):
        bare, node = figures.best("bare", frame), figures.best("node", frame)
        rates.append((frame, bare, node, node / bare, figures.lost["bare", frame], figures.lost["node", frame]))
    delays: list[Sequence[Cell]] = [
        (what, *(figures.percentile(receiver, share) * 1000 for share in (0.5, 0.99)))
        for receiver, what in (("bare", "bare paho callback"), ("node", "detected, at the subscriber"))
    ]
    above = (figures.percentile("node", 0.99) - figures.percentile("bare", 0.99)) * 1000
    rounds = [(f"{receiver}, {frame} a message", max(each)) for (receiver, frame), each in figures.rates.items()]
    plots: dict[str, Callable[[], str]] = {
        "live-rates.svg": partial(bars, rounds, title="Events a second", unit="events/s")
    }
    for receiver, seconds in figures.delays.items():
        plots[f"live-delay-{receiver}.svg"] = partial(
            histogram, [each * 1000 for each in seconds], title=f"Delay, {receiver}", unit="ms"
        )
    return Report(
        "live",
        {"rates": figures.rates, "lost": figures.lost},
        [
            ReportTable(
                (
                    Column("events a message", format=","),
                    *number_columns(",.0f", "bare paho", "broker node", unit="events/s"),
                    Column("of bare", format=".0%"),
                    *number_columns(",", "lost, bare", "lost, node"),
                ),
                rates,
                "rates",
            ),
            ReportTable(
                (Column("delay at 1,000 events/s"), *number_columns(".2f", "p50", "p99", unit="ms")), delays, "delays"
            ),
            ReportTable(
                (
                    Column("events a message", format=","),
                    Column("a node's own time", "s", ".3f"),
                    Column("function, under the profiler"),
                ),
                [(frame, own, name) for frame, profile in figures.profiles.items() for name, own in profile],
                "profile",
            ),
        ],
        [f"p99 above bare: {above:.2f} ms"],
        plots=plots,
    )
