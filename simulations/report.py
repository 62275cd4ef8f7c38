"""Reports of simulations and benchmarks: declared tables, rendered for terminals, programs, Markdown, CSV and plots.

A benchmark measures figures and declares a `Report` of them: tables with columns (name, unit, format, value of a row),
notes, faults, plots. A module of rendering functions for each benchmark was rejected: they were all alike.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from distced.middleware.cli.output import messages, output, print_json

Cell: TypeAlias = str | Text | float | int | None
"""Value in a table; None for an empty cell. A text in a column of numbers is shown unchanged, one of rich is styled."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: unlike that of the others in its table.
        unit: shown behind the name.
        format: format of numbers, as of `format`; None for a column of text, which is aligned left.
        of: attribute of a row's item, or a function of it; the attribute named like the column if empty.
    """

    name: str
    unit: str = ""
    format: str | None = None
    of: str | Callable[[Any], Cell] = ""

    @property
    def header(self) -> str:
        """Name and unit."""
        return f"{self.name} {self.unit}".strip()

    def text(self, value: Cell) -> str | Text:
        """A value of the column as text."""
        if value is None:
            return ""
        return value if isinstance(value, str | Text) else format(value, self.format or "")

    def value(self, item: Any) -> Cell:
        """Value of a row's item."""
        if callable(self.of):
            return self.of(item)
        found: Cell = getattr(item, self.of or self.name.replace(" ", "_"))
        return found


def number_columns(form: str, *names: str, unit: str = "") -> list[Column]:
    """Columns of numbers with the same format and unit."""
    return [Column(name, unit, form) for name in names]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of figures.

    Attributes:
        columns: in order.
        rows: a cell for each column.
        name: distinguishes the tables of a report; part of the name of the CSV file.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    name: str = ""

    @classmethod
    def of(cls, items: Iterable[Any], *columns: Column, name: str = "") -> ReportTable:
        """A table with a row for each item, whose values are those that the columns name."""
        return cls(columns, [[column.value(item) for column in columns] for item in items], name)

    @property
    def cells(self) -> list[list[str | Text]]:
        """The rows as text."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def rendered(self, *, no_wrap: bool = False) -> Table:
        """The table for a terminal."""
        shown = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for column in self.columns:
            # Folded, where they have to be: a cell that is cut is lost.
            justify: JustifyMethod = "left" if column.format is None else "right"
            shown.add_column(column.header, justify=justify, no_wrap=no_wrap, overflow="fold")
        for cells in self.cells:
            shown.add_row(*cells)
        return shown


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a benchmark.

    Attributes:
        name: of the benchmark, and of the files of the report.
        figures: everything measured; for programs.
        tables: the figures for reading.
        notes: lines below the tables.
        faults: reasons for which the benchmark fails.
        plots: functions that draw an SVG, by file name.
    """

    name: str
    figures: Any
    tables: Sequence[ReportTable]
    notes: Sequence[str] = ()
    faults: Sequence[str] = ()
    plots: Mapping[str, Callable[[], str]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether there are no faults."""
        return not self.faults


OnProgress: TypeAlias = Callable[..., object]
"""Takes the progress of a measurement: the present step, and where known the numbers of steps done, and of all."""


def no_progress(*_: object) -> None:
    """`OnProgress` without a display."""


@contextmanager
def progress_bar(*, steps: bool = False, remaining: bool = False) -> Iterator[OnProgress]:
    """A progress bar on standard error, where that is a terminal.

    Args:
        steps: show steps done and their number, which progress announces, in place of the elapsed time.
        remaining: estimate the remaining time, where steps take equally long.
    """
    from rich import progress as bars

    console = messages()
    columns: list[bars.ProgressColumn] = [bars.SpinnerColumn(), bars.TextColumn("{task.description}")]
    columns += [bars.BarColumn(), bars.MofNCompleteColumn()] if steps else [bars.TimeElapsedColumn()]
    if remaining:
        columns.append(bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda step, done=None, total=None: progress.update(task, description=step, completed=done, total=total)


def present(report: Report, folder: Path | None, *, as_json: bool) -> int:
    """Print a report, and write its files into a folder; returns the exit code, 1 where the report has faults."""
    if as_json:
        print_json(as_dict(report))
    else:
        show(report, output())
    if folder is not None:
        write(report, folder)
    return 0 if report.sound else 1


def show(report: Report, console: Console) -> None:
    """Tables, notes and faults as text."""
    for table in report.tables:
        if table.name:
            console.print(Text(table.name, "bold"))
        console.print(table.rendered())
        console.print()
    for note in report.notes:
        console.print(note)
    for fault in report.faults:
        console.print(Text(f"FAULT: {fault}", "bold red"))


def as_dict(report: Report) -> dict[str, Any]:
    """A report for programs: the tables with unformatted values, and every figure."""
    return {
        "benchmark": report.name,
        "sound": report.sound,
        "faults": list(report.faults),
        "tables": [
            {
                "name": table.name,
                "units": {column.name: column.unit for column in table.columns if column.unit},
                "rows": [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows],
            }
            for table in report.tables
        ],
        "notes": list(report.notes),
        # Figures of numpy are floats.
        "figures": msgspec.to_builtins(report.figures, str_keys=True, enc_hook=float),
    }


def as_markdown(report: Report) -> str:
    """A report as a page: tables, notes, faults, plots."""
    parts = [f"# {report.name}"]
    for table in report.tables:
        if table.name:
            parts.append(f"## {table.name}")
        headers: list[str | Text] = [column.header for column in table.columns]
        aligned: list[str | Text] = ["---" if column.format is None else "---:" for column in table.columns]
        lines = [[str(cell).replace("|", r"\|") for cell in line] for line in [headers, aligned, *table.cells]]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    parts += report.notes
    parts += [f"**FAULT: {fault}**" for fault in report.faults]
    parts += [f"![{name}]({name})" for name in report.plots]
    return "\n\n".join(parts) + "\n"


def as_csv(table: ReportTable) -> str:
    """A table as CSV, values unformatted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.header for column in table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def write(report: Report, folder: Path) -> None:
    """Write a report into a folder: NAME.md, NAME.csv or NAME-TABLE.csv for each table, plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report.name}.md").write_text(as_markdown(report), encoding="utf-8")
    for table in report.tables:
        name = f"{report.name}-{table.name}" if table.name else report.name
        (folder / f"{name}.csv").write_text(as_csv(table), encoding="utf-8")
    for name, plot in report.plots.items():
        (folder / name).write_text(plot(), encoding="utf-8")
