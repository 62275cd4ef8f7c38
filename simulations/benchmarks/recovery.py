"""`distced bench recovery`: what checkpoints cost a broker node, and how fast it is back with them.

First a node in virtual time with many detectors and instances, and a store on the disk: one checkpoint of everything,
tick by tick, with the processor time of all ticks, the longest of them, for which events wait, and the time of the
writes, which a thread of its own carries out; then a further node that takes all detectors over. Then live nodes, with
checkpoints and without in turns, fed as by `distced bench node`.
"""

from __future__ import annotations

import multiprocessing as mp
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from distced.brokers.core.effects import Save
from distced.brokers.live.checkpoint_store import CheckpointStore
from distced.brokers.live.garbage_collection import adapt_garbage_collection
from distced.brokers.live.mqtt_server import start_server
from distced.brokers.node.checkpoint_format import unpack, unpack_policy
from distced.brokers.node.node import Node
from distced.detectors.runtime.detector import Detector
from distced.middleware.client.client import Client
from distced.middleware.model.events import Attribute, Event
from distced.policies.detection import detection_policy
from distced.simulations.benchmarks.live import PATIENCE
from distced.simulations.benchmarks.many_subscriptions import (
    KINDS,
    SOURCE,
    TYPE,
    ReadingStream,
    host_node,
    send_round,
)
from distced.simulations.network.in_memory import InMemoryDeployment
from distced.simulations.plots import histogram
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress

PATTERN: Final = "[Reading where dev == 'd{0}' and v > 90] ; [Reading where dev == 'd{0}' and v < 10]"
"""An instance for each high value of a device, until a low one."""

FRAME: Final = 1_000
"""Number of events a message."""


@dataclass
class RecoveryFigures:
    """Results of the benchmark.

    Attributes:
        detectors, instances: in the checkpoint.
        pauses: processor time of each tick that writes checkpoints, s.
        control: processor time of as many plain loops of the median length, s: what the machine itself adds.
        writes: time of each write, s.
        size: bytes written.
        read: time to read all checkpoints, s.
        restored: processor time to continue all detectors from them, s.
        rates: events/s of a live node without and with checkpoints, in each round.
    """

    detectors: int = 0
    instances: int = 0
    pauses: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    size: int = 0
    read: float = 0.0
    restored: float = 0.0
    rates: dict[bool, list[float]] = field(default_factory=dict)


def measure(
    detectors: int = 10_000,
    instances: int = 1_000_000,
    events: int = 30_000,
    rounds: int = 3,
    on_progress: OnProgress = no_progress,
) -> RecoveryFigures:
    """Run the benchmark; `events` are those of a round of one event a message, ten times as many in frames of 50."""
    figures = RecoveryFigures()
    with tempfile.TemporaryDirectory(prefix="distced-bench-") as folder:
        _checkpoint(figures, detectors, instances, Path(folder), on_progress)
        steps = 2 * rounds
        for number in range(steps):
            with_store = number % 2 == 1
            on_progress(f"live node {'with' if with_store else 'without'} checkpoints", number, steps)
            where = str(Path(folder) / "live") if with_store else ""
            figures.rates.setdefault(with_store, []).append(_rate(where, min(detectors, 1_000), 10 * events))
    return figures


# One checkpoint of everything.


def _checkpoint(
    figures: RecoveryFigures, detectors: int, instances: int, folder: Path, on_progress: OnProgress
) -> None:
    with InMemoryDeployment(engine="auto") as deployment:
        node = deployment.deployment.nodes["node-1"].node
        # Of ten thousand detectors after each message.
        node.validates = False
        client = deployment.client("bench")
        client.register(TYPE)
        source = client.source(SOURCE, [TYPE.name], watermark=0)
        on_progress(f"{detectors:,} subscriptions", 0, instances)
        client.subscribe_many([PATTERN.format(number) for number in range(detectors)])
        random, instant = Random(7), 0
        names = [f"d{number}" for number in range(detectors)]
        for begin in range(0, instances, FRAME):
            on_progress("instances", begin, instances)
            batch: list[Event] = []
            for number in range(begin, min(begin + FRAME, instances)):
                instant += 1
                values: dict[str, Attribute] = {"dev": names[number % detectors], "v": random.randrange(91, 100)}
                batch.append(source.create(TYPE.name, instant, **values))
            source.publish(*batch, watermark=instant)
        deployment.settle()
        figures.detectors = len(node.hosted)
        figures.instances = sum(each.detector.live for each in node.hosted.values())
        adapt_garbage_collection()
        store = CheckpointStore(str(folder), "ced", "node-1", 0)
        _write_all(figures, node, store, deployment.now, on_progress)
        figures.control = _plain_loops(len(figures.pauses), median(figures.pauses))
        _read_all(figures, node, store)


def _write_all(figures: RecoveryFigures, node: Node, store: CheckpointStore, now: int, on_progress: OnProgress) -> None:
    checkpoints = node.checkpoints
    checkpoints.kept = True
    while (written := len(checkpoints.written)) < figures.detectors:
        on_progress("checkpoint", written, figures.detectors)
        now += 100_000_000
        began = time.process_time()
        effects = checkpoints.tick(now)
        figures.pauses.append(time.process_time() - began)
        for effect in effects:
            if not isinstance(effect, Save):
                # An acknowledgement to a publisher.
                continue
            pieces = {id(piece): len(piece) for each in effect.entries.values() for piece in each or ()}
            figures.size += sum(pieces.values())
            began = time.perf_counter()
            store.save(effect.entries)
            figures.writes.append(time.perf_counter() - began)
            checkpoints.saved(effect.number, "", now)


def _plain_loops(number: int, seconds: float) -> list[float]:
    """Processor time of loops of a given length, s; on a machine shared with others some are many times as long."""
    times: list[float] = []
    rounds, steps = 0, 10_000
    while len(times) < number:
        began = time.process_time()
        for _ in range(steps):
            pass
        times.append(time.process_time() - began)
        if rounds < 5:
            # The first ones find the number of steps.
            rounds, steps = rounds + 1, max(1, int(steps * seconds / max(times.pop(), 1e-6)))
    return times


def _read_all(figures: RecoveryFigures, node: Node, store: CheckpointStore) -> None:
    began = time.perf_counter()
    found = store.load(node.hosted)
    figures.read = time.perf_counter() - began
    began = time.process_time()
    for name, contents in found.items():
        compiled = node.hosted[name].detector.compiled
        checkpoint = unpack(contents[-1])
        policy = unpack_policy(checkpoint.policy)
        Detector(compiled, detection_policy("guaranteed")).resume(checkpoint.snapshot, policy)
    figures.restored = time.process_time() - began


# Live nodes.


def _rate(checkpoints: str, subscriptions: int, events: int) -> float:
    """Events/s of a live node in frames of 50, guaranteed detection."""
    context = mp.get_context("spawn")
    asking, asked = context.Pipe()
    with start_server() as server:
        host = context.Process(
            target=host_node, args=(server.url, subscriptions, asked), kwargs={"checkpoints": checkpoints}, daemon=True
        )
        host.start()
        try:
            with Client(server.url, patience=PATIENCE) as client:
                client.wait_for_nodes(1, PATIENCE)
                client.register(TYPE)
                client.source(SOURCE, [TYPE.name], watermark=0)
                client.subscribe_many([KINDS["device"].format(number) for number in range(subscriptions)])
                batch = ReadingStream(subscriptions).take(events)
                return send_round(server.url, asking, batch, 50)[1]
        finally:
            asking.send("stop")
            host.join(PATIENCE)
            if host.is_alive():
                host.terminate()


# The report.


def report(figures: RecoveryFigures) -> Report:
    """The figures as a report."""
    without, with_store = (median(figures.rates.get(each, [0.0])) for each in (False, True))
    share = with_store / without if without else 0.0
    work, longest = sum(figures.pauses), max(figures.pauses, default=0.0)
    rows = [
        ("checkpoint of everything", work, "s", _bar(work, 2.0)),
        ("longest pause", longest * 1000, "ms", _bar(longest, 0.02)),
        ("99 % of the pauses at most", _last_percent(figures.pauses) * 1000, "ms", ""),
        ("longest of equal plain loops", max(figures.control, default=0.0) * 1000, "ms", ""),
        ("99 % of the plain loops at most", _last_percent(figures.control) * 1000, "ms", ""),
        ("written", figures.size / 1e6, "MB", ""),
        ("time of the writes", sum(figures.writes), "s", ""),
        ("read again", figures.read, "s", ""),
        ("continued from it", figures.restored, "s", ""),
        ("rate of a live node without", without, "events/s", ""),
        ("rate with checkpoints", with_store, "events/s", ""),
        ("share", share * 100, "%", "≥ 80" if share >= 0.8 else "< 80"),
    ]
    return Report(
        "recovery",
        {name: getattr(figures, name) for name in RecoveryFigures.__dataclass_fields__ if name != "rates"}
        | {"rates": {"without": figures.rates.get(False, []), "with": figures.rates.get(True, [])}},
        [ReportTable((Column("figure"), Column("value", format=",.2f"), Column("unit"), Column("bar")), rows)],
        [
            f"{figures.detectors:,} detectors with {figures.instances:,} instances, {len(figures.pauses):,} ticks; "
            "times of the checkpoint are processor time of the node's thread"
        ],
        plots={"recovery-pauses.svg": partial(histogram, [each * 1000 for each in figures.pauses],
                                              title="Pauses for checkpoints", unit="ms")},
    )  # fmt: skip


def _last_percent(times: list[float]) -> float:
    return sorted(times)[int(0.99 * len(times))] if times else 0.0


def _bar(seconds: float, most: float) -> str:
    return f"{'<' if seconds < most else '≥'} {most * 1000:,.0f} ms"
