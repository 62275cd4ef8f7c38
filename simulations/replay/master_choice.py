"""Choice of the master where none is given: this process, or local Spark.

Spark takes seconds to start, and tasks of Python need more than their share of the cores. With two cores it pays from
some ten million events.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from distced.detectors.compiler import Compiled, types_read
from distced.detectors.runtime.engines import EngineName
from distced.middleware.history import History
from distced.simulations.replay.plan import CutWay, plan_of, runs_columnar
from distced.simulations.replay.replay import span_of_replay
from distced.simulations.replay.runners import INLINE

LOCAL: Final = "local[*]"

START: Final = 9.0
"""Seconds that a session of Spark takes to start, with its first task."""

SHARE: Final = 0.7
"""Speed of a core on Spark, relative to this process."""

COLUMNAR: Final = 250_000
STEPWISE: Final = 40_000
"""Events of a replay a second in one process, by engine."""

ROWS: Final = 100_000
"""Rows of recordings ingested a second in one process."""

MERGED: Final = 700_000
"""Events merged a second by a compaction in one process."""

FILES: Final = 900
"""Files merged a second, however few events they have."""


class MasterChoice(NamedTuple):
    """A master, and the reason for it."""

    master: str
    why: str


def master_for(seconds: float, tasks: int) -> MasterChoice:
    """Master for work of this length in one process, s, in a number of tasks."""
    cores = os.cpu_count() or 1
    speed = min(tasks, SHARE * cores)
    on_spark = START + seconds / max(speed, SHARE)
    if tasks < 2:
        return MasterChoice(INLINE, "one task needs no Spark")
    figures = f"about {seconds:.0f} s here, {on_spark:.0f} s on Spark with {cores} core{'s' * (cores != 1)}"
    if on_spark >= seconds:
        return MasterChoice(INLINE, f"faster than Spark: {figures}")
    if find_spec("pyspark") is None or shutil.which("java") is None:
        return MasterChoice(INLINE, f"Spark would be faster, but PySpark or Java is missing: {figures}")
    return MasterChoice(LOCAL, f"faster than one process: {figures}")


def master_of_replay(
    patterns: Sequence[Compiled],
    history: History,
    *,
    begin: int | None = None,
    until: int | None = None,
    by: str | None = None,
    way: CutWay | None = None,
    engine: EngineName = "auto",
) -> MasterChoice:
    """Master for a replay; the arguments are those of `HistoryReplay`."""
    first, last = span_of_replay(patterns, history, begin, until)
    files = history.select(types_read(patterns), first, last)
    plan = plan_of(patterns, files, cores=os.cpu_count() or 1, begin=first, until=last, by=by, way=way)
    seconds = 0.0
    for group in plan.groups:
        columnar = engine != "stepwise" and runs_columnar([patterns[place] for place in group.patterns])
        seconds += group.events / (COLUMNAR if columnar else STEPWISE)
    return master_for(seconds, max((each.tasks for each in plan.groups), default=0))


def master_of_ingest(recordings: Sequence[Path]) -> MasterChoice:
    """Master for the ingestion of recordings, a task each, by their sizes."""
    rows = 0.0
    for each in recordings:
        size = each.stat().st_size if each.is_file() else 0
        rows += size / (8 if each.suffix.lower() in (".gz", ".parquet") else 60)
    return master_for(rows / ROWS, len(recordings))


def master_of_compaction(events: int, files: int, mergers: int) -> MasterChoice:
    """Master for a compaction of events in files, a task for each new file."""
    return master_for(events / MERGED + files / FILES, mergers)
