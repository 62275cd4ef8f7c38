"""What the benchmarks have in common: a progress bar while they measure; then figures for people, machines and plots.

Each benchmark has a module of its own that knows how its figures look, `NAME_report`. A base class for reports was
rejected: three functions in a module are all there is to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from distced.middleware.cli.output import messages, output, print_json

Figures = TypeVar("Figures", contravariant=True)


class Tell(Protocol):
    """Hears how far a measurement is: what is being done, how many are done of how many."""

    def __call__(self, what: str, done: int | None = None, total: int | None = None, /) -> object: ...


class Report(Protocol[Figures]):
    """The module that knows how figures look."""

    def show(self, console: Console, figures: Figures, /) -> None:
        """For people."""

    def as_dict(self, figures: Figures, /) -> Any:
        """For machines."""

    def plots(self, figures: Figures, /) -> Mapping[str, str]:
        """SVG by file name."""


@contextmanager
def measuring(total: int | None = None, *, remaining: bool = False) -> Iterator[Tell]:
    """A progress bar on the terminal, and what moves it.

    Args:
        total: how many steps there are; without it there is no bar, only the time that has passed.
        remaining: whether steps take about as long as one another, so that what is left can be foretold.
    """
    console = messages()
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [TimeElapsedColumn()] if total is None else [BarColumn(), MofNCompleteColumn()]
    if remaining:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda what, done=None, total=None: progress.update(task, description=what, completed=done, total=total)


def present(report: Report[Figures], figures: Figures, *, folder: Path | None, as_json: bool) -> None:
    """Figures on standard output, and plots into a folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in report.plots(figures).items():
            (folder / name).write_text(content)
    if as_json:
        print_json(report.as_dict(figures))
    else:
        report.show(output(), figures)
