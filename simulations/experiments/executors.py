"""Execution of cells: in this process, in several, or on Ray. A cell that fails has its traceback, and ends no other.

A process that is killed (out of memory) breaks the whole pool of `concurrent.futures`; the cells that were running then
run again one by one, so that the guilty one is known. Rejected: `multiprocessing.Pool`, which waits for ever for the
cell of a killed process.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from time import process_time
from typing import Any, Final, NamedTuple, TypeAlias

from distced.middleware.model.errors import DistcedError
from distced.simulations.experiments.model import Cell, Row, rows_of
from distced.simulations.experiments.result_files import code_digest

_THRESHOLDS: Final = 10_000, 20, 50
"""Of garbage collection: a cell keeps most of what it makes to its end, and collections took a tenth of its time."""

CellRun: TypeAlias = Callable[[Cell], list[Row]]


class Finished(NamedTuple):
    """A cell that has run.

    Attributes:
        error: traceback; empty for none.
        seconds: of processor time.
    """

    cell: Cell
    rows: list[Row]
    error: str
    seconds: float


def run_cell(run: CellRun, cell: Cell, code: str) -> Finished:
    """Run a cell; every error is a result.

    Args:
        run: that of the kind.
        code: digest of the code of the process that asks.
    """
    began = process_time()
    try:
        if code != code_digest():
            raise DistcedError("a worker with other code", given=code_digest(), allowed=code,
                               advice="install the same version of distced on every machine")  # fmt: skip
        rows = rows_of(cell, run(cell))
    except Exception:
        return Finished(cell, [], traceback.format_exc(), process_time() - began)
    return Finished(cell, rows, "", process_time() - began)


def in_this_process(run: CellRun, cells: Sequence[Cell]) -> Iterator[Finished]:
    """One cell after the other."""
    for cell in cells:
        yield run_cell(run, cell, code_digest())


def in_processes(run: CellRun, cells: Sequence[Cell], jobs: int) -> Iterator[Finished]:
    """Several cells at once; closed early, it ends its processes at once."""
    suspects = yield from _pooled(run, cells, jobs)
    for cell in suspects:
        if (yield from _pooled(run, [cell], 1)):
            yield Finished(cell, [], "The process of this cell ended, as by a lack of memory.\n", 0.0)


def _pooled(run: CellRun, cells: Sequence[Cell], jobs: int) -> Generator[Finished, None, list[Cell]]:
    """Run cells in a pool; returns those without a result since the pool broke."""
    waiting = list(reversed(cells))
    running: dict[Future[Finished], Cell] = {}
    suspects: list[Cell] = []
    others = multiprocessing.active_children()
    pool = _pool(jobs)
    try:
        while waiting or running:
            try:
                while waiting and len(running) < jobs:
                    running[pool.submit(run_cell, run, waiting[-1], code_digest())] = waiting[-1]
                    waiting.pop()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    finished = future.result()
                    del running[future]
                    yield finished
            except BrokenProcessPool:
                suspects += running.values()
                running.clear()
                pool.shutdown()
                pool = _pool(jobs)
    finally:
        if running:
            # Processes that nobody waits for any longer.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
        pool.shutdown(cancel_futures=True)
    return suspects


def _pool(jobs: int) -> ProcessPoolExecutor:
    # A fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Leave Ctrl-C, which reaches the whole group of processes, to the first; collect garbage less often."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*_THRESHOLDS)


def on_ray(run: CellRun, cells: Sequence[Cell], jobs: int | None, address: str) -> Iterator[Finished]:
    """Cells as tasks of Ray: on a cluster, or on this machine with an empty address.

    Args:
        jobs: most cells at once; None for as many as there are processors.
    """
    from distced.brokers.ray.runtime import import_ray, is_loopback

    ray = import_ray(loopback=not address or is_loopback(address))
    if address:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    else:
        ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        task = ray.remote(max_retries=1)(run_cell)
        most = jobs or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        waiting = list(reversed(cells))
        running: dict[Any, Cell] = {}
        while waiting or running:
            while waiting and len(running) < most:
                cell = waiting.pop()
                running[task.remote(run, cell, code_digest())] = cell
            [reference], _ = ray.wait(list(running), num_returns=1)
            cell = running.pop(reference)
            try:
                yield ray.get(reference)
            except ray.exceptions.RayError as error:
                yield Finished(cell, [], f"{type(error).__name__}: {error}\n", 0.0)
    finally:
        with suppress(Exception):
            ray.shutdown()
