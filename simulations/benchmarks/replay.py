"""`distced bench replay`: replay compared with Spark's own passes that read, repartition and sort the same events.

Both read the same columns of the same history on the same cores; Spark's own passes, which a replay on Spark's shuffle
would need before it detects anything, end in a sink that writes nothing. Each pass has processes of its own, bound to
its cores, and runs once to warm up.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.layout import day_text
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import DAY
from distced.simulations.plots import bars
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import LOG, Spark, session_of
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress

KEYS: Final = 1000
DAYS: Final = 10
TYPES: Final = ("A", "B", "C", "D")
KEYED: Final = "[A as x] ; [B] ; [C as y where v > 0.99] within 1h by k -> Found(k = x.k, v = y.v)"
ORDERED: Final = "[A as x where v > 0.99] ; [B] ; [C as y where v > 0.99] within 10s -> Found(k = x.k, v = y.v)"
COLUMNS: Final = ("type", "lo", "hi", "source", "seq", "k", "v")
BESIDE: Final = {"replay by key": "read, repartition, sort", "replay in stored order": "mapInArrow"}
"""Spark's own pass each replay is compared with."""

PASSES: Final = ("replay by key", "read, repartition, sort", "replay in stored order", "mapInArrow", "pyarrow alone")


@dataclass(frozen=True, slots=True)
class PassFigure:
    """Time of a pass."""

    name: str  # of `PASSES`
    cores: int
    events: int
    seconds: float  # of the best run
    found: int | None  # number of composite events; None of Spark's own passes

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def make_history(root: Path, events: int, seed: int) -> None:
    """A history of events of four types, with a key and a value, evenly over ten days."""
    random = np.random.default_rng(seed)
    writer = HistoryWriter(root, "bench")
    daily = events // DAYS
    names = pa.dictionary(pa.int32(), pa.string())
    for day in range(DAYS):
        hi = day * DAY + np.sort(random.integers(0, DAY, daily))
        kinds = random.integers(0, len(TYPES), daily)
        keys, values = random.integers(0, KEYS, daily), random.random(daily)
        for number, name in enumerate(TYPES):
            (mine,) = (kinds == number).nonzero()
            noted = event_type(name, {"k": "number", "v": "number"})
            columns: dict[str, Any] = {
                "type": pa.array([name] * len(mine), names),
                "lo": pa.array(hi[mine]),
                "hi": pa.array(hi[mine]),
                "source": pa.array(["sensors"] * len(mine), names),
                "seq": pa.array(day * daily + mine),
                "k": pa.array(keys[mine]),
                "v": pa.array(values[mine]),
            }
            types = json.dumps([msgspec.to_builtins(noted)])
            table = pa.table(columns).replace_schema_metadata({b"distced.types": types})
            writer.write_table(day_text(day), noted, table, None)


def measure(
    events: int, cores: int, seed: int, on_progress: OnProgress = no_progress, runs: int = 2
) -> list[PassFigure]:
    """All passes on n cores; and replays on one, to measure the speed-up.

    Raises:
        ModuleNotFoundError: where PySpark is missing.
        DistcedError: where a pass fails.
    """
    import_module("pyspark")
    found = []
    with tempfile.TemporaryDirectory(prefix="distced-bench-") as folder:
        root = Path(folder) / "history"
        on_progress("writing a history")
        make_history(root, events, seed)
        wanted = [(name, cores) for name in PASSES]
        if cores > 1:
            wanted += [(name, 1) for name in PASSES if name.startswith("replay")]
        for name, count in wanted:
            on_progress(f"{name}, {count} core{'s' * (count != 1)}")
            bound_to = set(sorted(os.sched_getaffinity(0))[:count])
            # A process of its own; it and all its children are bound to these cores.
            with ProcessPoolExecutor(1, get_context("spawn"), os.sched_setaffinity, (0, bound_to)) as pool:
                found.append(pool.submit(one_pass, name, root, count, runs).result())
    return found


def one_pass(name: str, root: Path, cores: int, runs: int) -> PassFigure:
    """A pass in this process, timed after a run to warm up."""
    with tempfile.TemporaryDirectory(prefix="distced-bench-") as folder, ExitStack() as stack:
        run = _read_alone if name == "pyarrow alone" else _on_spark(stack, name, root, cores, Path(folder))
        times, found = [], None
        for _ in range(1 + runs):
            started = time.perf_counter()
            found = run(root)
            times.append(time.perf_counter() - started)
    return PassFigure(name, cores, History(root).rows, min(times[1:]), found)


def _on_spark(stack: ExitStack, name: str, root: Path, cores: int, work: Path) -> Callable[[Path], int | None]:
    session = session_of(f"local[{cores}]", work / LOG)
    stack.callback(session.stop)
    session.conf.set("spark.sql.shuffle.partitions", str(2 * cores))
    if name.startswith("replay"):
        return partial(_replayed, session, KEYED if name == "replay by key" else ORDERED, work)
    frame = session.read.parquet(str(root)).select(*COLUMNS)
    if name == "mapInArrow":
        # Only the sizes of the batches come back, not their rows.
        frame = frame.mapInArrow(_counted, "rows long")
    else:
        frame = frame.repartition("k").sortWithinPartitions("hi", "lo", "source", "seq")
    return lambda _: frame.write.format("noop").mode("overwrite").save()


def _replayed(session: Any, text: str, work: Path, root: Path) -> int:
    patterns = compile_source(PatternSource(text, "pattern"), None).compiled
    runner = Spark(session, work / "replay")
    made = HistoryReplay(patterns, History(root), work / "replay", cores=runner.cores)
    made.perform(runner)
    found = sum(1 for _ in made)
    made.clear()
    return found


def _counted(batches: Any) -> Any:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _read_alone(root: Path) -> None:
    from distced.middleware.history.row_groups import read_table

    for file in History(root).files:
        read_table(file, COLUMNS)


def report(figures: Sequence[PassFigure]) -> Report:
    """The figures as a report."""
    table = ReportTable.of(
        figures,
        Column("pass", of="name"),
        Column("cores", "", ","),
        Column("time", "s", ".2f", "seconds"),
        Column("rate", "events/s", ",.0f"),
        Column("found", "", ","),
    )
    cores = max(each.cores for each in figures)
    rates = {(each.name, each.cores): each.rate for each in figures}
    notes = [
        f"{name}: {rates[name, cores] / rates[other, cores]:.0%} of Spark's own {other}"
        for name, other in BESIDE.items()
    ]
    notes += [
        f"{name}: {rates[name, cores] / rates[name, 1]:.2f} times as fast on {cores} cores as on one"
        for name in BESIDE
        if cores > 1 and (name, 1) in rates
    ]
    named = [(f"{each.name}, {each.cores} core{'s' * (each.cores != 1)}", each.rate) for each in figures]
    plot = partial(bars, named, title=f"replay of {figures[0].events:,} events", unit="events/s")
    return Report("replay", figures, [table], notes, plots={"replay.svg": plot})
