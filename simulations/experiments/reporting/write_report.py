"""Report of the results in a folder: sections of the kind, and their origin, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distced.simulations.experiments.experiment_file import restored
from distced.simulations.experiments.model import ExperimentError
from distced.simulations.experiments.reporting.page import Origin, command_of, write_page
from distced.simulations.experiments.result_files import ResultFolder


def write_report(folder: Path) -> Path:
    """Write the report of a folder with results; returns the path of its page."""
    results_folder = ResultFolder(folder)
    experiment = restored(results_folder.record())
    cells = experiment.cells()
    results, origins = results_folder.results(experiment, cells)
    if not results.rows:
        raise ExperimentError("no results", given=str(folder), advice="distced experiment run writes them")
    origin = Origin(
        command_of(experiment.file, experiment.first, folder),
        [f"{each.version} (code {each.code})" for each in origins],
        seeds_in_words(experiment.seeds),
        (len(cells) - results.missing, len(cells)),
        dict(results.failed),
    )
    sections = experiment.kind.figures(results)
    return write_page(folder / "report", experiment.title, experiment.about, sections, origin)


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Seeds, those in a row as a range."""
    first, last = seeds[0], seeds[-1]
    if len(seeds) == 1:
        return f"seed {first}"
    if list(seeds) == list(range(first, last + 1)):
        return f"seeds {first} to {last}"
    return f"seeds {', '.join(map(str, seeds))}"
