"""`distced bench live`: a broker node against a bare paho subscriber to the same topic, measured alternately.

A publisher in a process of its own sends events of one type as fast as it can, one a message, at QoS 0. The rate is
that of the receiving process: a bare paho client that counts its callbacks, or a broker node that decodes each event,
checks it against its type and detects a keyed sequence in a window by best effort. The delay at a steady pace is that
from publishing to the bare client's callback, and to the callback of a subscriber to a pattern that every event
matches: one detection and one more hop over the server.
"""

from __future__ import annotations

import cProfile
import logging
import multiprocessing as mp
import pstats
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
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
from distced.simulations.plots import bars, histogram, percentile
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

SOURCE: Final = "bench"
TYPE: Final = event_type("Reading", {"key": "number", "value": "number"})
PATTERN: Final = "[Reading where value >= 95] ; [Reading where value < 5] within 5s by key"
ALL: Final = "[Reading]"
BEST_EFFORT: Final = QualityOfService(detection="best-effort")
PATIENCE: Final = 60.0
PACED: Final = 10_000  # greatest number of events of a round that measures delays


@dataclass
class LiveFigures:
    """Results of the benchmark, by receiver and frame size.

    Attributes:
        rates: events/s, of each round.
        delays: seconds from publishing to arrival, sorted, by receiver.
        lost: number of events sent and not received.
        profiles: seconds of a node's own in each function, by frame size.
    """

    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    delays: dict[str, list[float]] = field(default_factory=dict)
    lost: dict[tuple[str, int], int] = field(default_factory=dict)
    profiles: dict[int, list[tuple[str, float]]] = field(default_factory=dict)


def measure(
    events: int = 60_000,
    rounds: int = 3,
    seconds: float = 5.0,
    on_progress: OnProgress = no_progress,
    *,
    frames: tuple[int, ...] = (1, 50, 500),
    pace: int = 1_000,
) -> LiveFigures:
    """Run the benchmark on a server of its own."""
    figures = LiveFigures()
    on_progress("measuring, for a minute or two")
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
            _, _, figures.profiles[frame] = _round(server.url, partial(_node, profiled=True), events, frame, 0)
    return figures


def _round(url: str, target: Any, count: int, frame: int, pace: int) -> tuple[int, float, Any]:
    """One round of a publisher and a receiver: number of events received, rate, and other figures of the receiver."""
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
    client = paho_client(url)
    topic = event_topic(TYPE.name, SOURCE)
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
    disconnect(client)


def disconnect(client: Any) -> None:
    """End the connection of a paho client, once everything is sent."""
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
    client = paho_client(url)
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
    await_quiet(lambda: len(times), lambda: len(times) * frame >= count)
    answer.put((min(len(times) * frame, count), _elapsed(times), delays))


def _elapsed(times: list[float]) -> float:
    return times[-1] - times[0] if len(times) > 1 else 0.0


def await_quiet(progress: Callable[[], int], done: Callable[[], bool], quiet: float = 1.0) -> None:
    """Wait until everything has arrived, or nothing more for a number of seconds."""
    last, since = -1, time.monotonic()
    while not done():
        time.sleep(0.02)
        if progress() != last:
            last, since = progress(), time.monotonic()
        elif time.monotonic() - since > (quiet if last > 0 else PATIENCE):
            return


def _node(url: str, count: int, frame: int, ready: Any, answer: Any, profiled: bool = False) -> None:
    quieten()
    profiler = cProfile.Profile() if profiled else None
    with LiveNode(url, "bench") as node, Client(url) as client:
        client.wait_for_nodes(1)
        client.register(TYPE)
        client.subscribe(PATTERN, quality=BEST_EFFORT)
        times: list[float] = []
        counts, receive = node.node.counts, node.node.receive_all

        def timed(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            effects = receive(*arguments, **options)
            if counts["events"]:
                times.extend((begin, time.perf_counter()))
            return effects

        node.node.receive_all = timed  # type: ignore[method-assign]
        if profiler is not None:
            node.bus.call_soon(profiler.enable)
        ready.set()
        await_quiet(lambda: counts["events"], lambda: counts["events"] >= count)
        if profiler is not None:
            stopped = threading.Event()
            node.bus.call_soon(profiler.disable)
            node.bus.call_soon(stopped.set)
            stopped.wait(PATIENCE)
        answer.put((counts["events"], _elapsed(times), _own_times(profiler) if profiler is not None else []))


def _own_times(profiler: cProfile.Profile) -> list[tuple[str, float]]:
    entries = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    times = [(f"{'/'.join(Path(path).parts[-2:])}:{name}", values[2]) for (path, _, name), values in entries]
    return sorted(times, key=lambda pair: -pair[1])[:12]


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
        receive = subscription.handler(client.bus, "")

        def timed(topic: str, payload: bytes, retain: bool) -> None:
            now = time.time_ns()
            delays.extend((now - event.hi) / 1e9 for event in decode(payload).events)
            receive(topic, payload, retain)

        (topic,) = subscription.filters
        client.bus.unsubscribe(topic, receive)
        client.bus.subscribe(topic, timed, timeout=PATIENCE)
        ready.set()
        await_quiet(lambda: len(delays), lambda: len(delays) >= count)
        answer.put((len(delays), 1.0, delays))
    stop.set()
    host.join()


def quieten() -> None:
    """Log warnings only, and none between the results of `--json`."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _no_delay(_client: object, _userdata: object, sock: Any) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def paho_client(url: str) -> Any:
    """Connected paho client, its loop running."""
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    from distced.middleware.bus import parse_address

    address = parse_address(url)
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_socket_open = _no_delay
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.connect(address.host, address.port)
    client.loop_start()
    if not connected.wait(PATIENCE):
        raise TimeoutError(f"no connection to {url}")
    return client


def report(figures: LiveFigures) -> Report:
    """The figures as a report."""
    best, lost = {case: max(each) for case, each in figures.rates.items()}, figures.lost
    rates = [
        (frame, bare, best["node", frame], best["node", frame] / bare, lost["bare", frame], lost["node", frame])
        for (receiver, frame), bare in sorted(best.items())
        if receiver == "bare"
    ]
    receivers = {"bare": "bare paho callback", "node": "detected, at the subscriber"}
    delays: list[tuple[Any, ...]] = [
        (what, *(percentile(figures.delays[receiver], share) * 1000 for share in (0.5, 0.99)))
        for receiver, what in receivers.items()
    ]
    rounds = [(f"{receiver}, {frame} a message", each) for (receiver, frame), each in best.items()]
    plots = {"live-rates.svg": partial(bars, rounds, title="Events a second", unit="events/s")}
    for receiver, seconds in figures.delays.items():
        milliseconds = [each * 1000 for each in seconds]
        plots[f"live-delay-{receiver}.svg"] = partial(histogram, milliseconds, title=f"Delay, {receiver}", unit="ms")
    a_message = Column("events a message", format=",")
    rate_columns = (
        a_message,
        *number_columns(",.0f", "bare paho", "broker node", unit="events/s"),
        Column("of bare", format=".0%"),
        *number_columns(",", "lost, bare", "lost, node"),
    )
    delay_columns = (Column("delay at 1,000 events/s"), *number_columns(".2f", "p50", "p99", unit="ms"))
    profile_columns = (a_message, Column("a node's own time", "s", ".3f"), Column("function, under the profiler"))
    profile = [(frame, own, name) for frame, profile in figures.profiles.items() for name, own in profile]
    return Report(
        "live",
        {
            name: {f"{receiver} {frame}": figure for (receiver, frame), figure in by_case.items()}
            for name, by_case in (("rates", figures.rates), ("lost", lost))
        },
        [
            ReportTable(rate_columns, rates, "rates"),
            ReportTable(delay_columns, delays, "delays"),
            ReportTable(profile_columns, profile, "profile"),
        ],
        [f"p99 above bare: {delays[1][2] - delays[0][2]:.2f} ms"],
        plots=plots,
    )
