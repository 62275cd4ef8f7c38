"""Run of an experiment: cells without a result are run, and kept as they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from distced.simulations.experiments.executors import CellRun, Finished, in_processes, in_this_process, on_ray
from distced.simulations.experiments.experiment_file import stored
from distced.simulations.experiments.model import Cell, Experiment
from distced.simulations.experiments.result_files import ResultFolder
from distced.simulations.report import OnProgress, no_progress


@dataclass(frozen=True, slots=True)
class Workers:
    """Where cells run.

    Attributes:
        jobs: number at once; None for one, or on Ray for one a processor.
        ray: as tasks of Ray.
        address: of a cluster, as `ray.init` takes it; empty for this machine.
    """

    jobs: int | None = None
    ray: bool = False
    address: str = ""

    def start(self, run: CellRun, cells: Sequence[Cell]) -> Iterator[Finished]:
        """Run cells, in the order they end."""
        if self.ray:
            return on_ray(run, cells, self.jobs, self.address)
        if (self.jobs or 1) > 1:
            return in_processes(run, cells, self.jobs or 1)
        return in_this_process(run, cells)


@dataclass(slots=True)
class RunSummary:
    """Cells of a run.

    Attributes:
        cells: number of the experiment.
        kept: number of those that had a result.
        done: number of those that have one now.
        failed: tracebacks, by the names of cells.
        seconds: of processor time.
    """

    cells: int
    kept: int
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def run_experiment(
    experiment: Experiment, folder: Path, workers: Workers | None = None, on_progress: OnProgress = no_progress
) -> RunSummary:
    """Run the cells of an experiment that have no result in a folder. An interrupt leaves all that have ended."""
    workers = workers or Workers()
    kind = experiment.kind.name
    cells = experiment.cells()
    results = ResultFolder(folder)
    results.begin(stored(experiment))
    waiting = [cell for cell in cells if not results.is_done(cell, kind)]
    summary = RunSummary(len(cells), len(cells) - len(waiting))
    on_progress("cells", 0, len(waiting))
    if not waiting:
        return summary
    with closing(workers.start(experiment.kind.run, waiting)) as running:  # type: ignore[type-var]
        for finished in running:
            name = finished.cell.name
            if finished.error:
                summary.failed[name] = finished.error
                results.fail(finished.cell, finished.error)
            else:
                results.keep(finished.cell, kind, finished.rows)
                summary.done += 1
            summary.seconds += finished.seconds
            on_progress(name, summary.done + len(summary.failed), len(waiting))
    return summary
