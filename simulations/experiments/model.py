"""Experiments as data: kinds, cells with their digests, rows of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from distced.middleware.model.errors import DistcedError
from distced.simulations.experiments.reporting.sections import Section

Factor: TypeAlias = str | int | float
Scalar: TypeAlias = str | int | float | bool | None
Row: TypeAlias = dict[str, Scalar]
"""One row of results, by column. Rows of an experiment may differ in their columns; what is missing is None."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.()-]+")


class ExperimentError(DistcedError):
    """An invalid experiment file, or results that cannot be read."""


class SpecError(ExperimentError):
    """Impossible value in the table of a kind.

    Attributes:
        path: keys and places, from 0, to the value in that table.
    """

    def __init__(self, problem: str, path: Sequence[str | int], **parts: Any) -> None:
        self.path = tuple(path)
        super().__init__(problem, **parts)


@dataclass(frozen=True)
class Cell:
    """One combination of factors and a seed.

    Attributes:
        factors: by name, in the order of the file; columns of its rows.
        seed: of all random choices.
        settings: all else that `run` depends on; data that msgspec encodes.
    """

    factors: Mapping[str, Factor]
    seed: int
    settings: Any = None

    @property
    def name(self) -> str:
        """Name, and that of the result file."""
        values = [_UNSAFE.sub("-", str(value)) for value in self.factors.values()]
        return "_".join([*values, f"seed-{self.seed}"])

    def digest(self, kind: str) -> str:
        """Digest of all that the rows depend on but the code."""
        content = [kind, dict(self.factors), self.seed, self.settings]
        return sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


def _no_check(spec: Any) -> None:
    pass


def _no_files(spec: Any, folder: Path) -> Any:
    return spec


@dataclass(frozen=True)
class ExperimentKind:
    """A kind of experiment; the functions are described in the package.

    Attributes:
        name: in files, also of the table with the spec.
        about: in a few words.
        spec: struct of the table, frozen, without unknown fields.
        cells: the cross product of factors and seeds.
        run: rows of a cell; pure.
        figures: sections of the report.
        check: raises `SpecError`.
        resolve: the spec with the contents of files that it names, relative to the folder of the experiment.
    """

    name: str
    about: str
    spec: type[msgspec.Struct]
    cells: Callable[[Any, Sequence[int]], list[Cell]]
    run: Callable[[Cell], list[Row]]
    figures: Callable[[Results], Sequence[Section]]
    check: Callable[[Any], None] = _no_check
    resolve: Callable[[Any, Path], Any] = _no_files


@dataclass(frozen=True)
class Experiment:
    """An experiment, as its file says.

    Attributes:
        name: of the file, without its suffix.
        about: of the experiment, for readers of the report.
        spec: table of the kind.
        file: as given on the command line.
        first: number of seeds, where not all of the file.
    """

    name: str
    title: str
    about: str
    kind: ExperimentKind
    seeds: tuple[int, ...]
    spec: Any
    file: str = ""
    first: int | None = None

    def cells(self) -> list[Cell]:
        """All cells, seed after seed, so that an interrupted run has whole seeds. Raises for two of one name."""
        made = self.kind.cells(self.spec, self.seeds)
        order = {seed: place for place, seed in enumerate(self.seeds)}
        made.sort(key=lambda cell: order[cell.seed])
        names = [cell.name for cell in made]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ExperimentError("two cells of one name", given=twice, allowed="each value of a factor once")
        return made


@dataclass(frozen=True)
class Results:
    """Rows of an experiment, each with the factors and the seed of its cell.

    Attributes:
        spec: of the kind.
        rows: in the order of cells.
        failed: errors, by the names of cells.
        missing: number of cells without a result.
    """

    spec: Any
    seeds: tuple[int, ...]
    rows: Sequence[Row]
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0

    def where(self, **factors: Scalar) -> Results:
        """The results with these values of columns."""
        kept = [row for row in self.rows if all(row.get(name) == value for name, value in factors.items())]
        return Results(self.spec, self.seeds, kept, self.failed, self.missing)

    def values(self, column: str) -> list[Any]:
        """The values of a column, without None, in the order of rows."""
        return [row[column] for row in self.rows if row.get(column) is not None]

    def numbers(self, column: str) -> list[float]:
        """The numbers of a column, without None."""
        return [float(value) for value in self.values(column)]

    def by_seed(self, column: str) -> dict[int, float]:
        """The mean of a column, by seed."""
        found: dict[int, list[float]] = {}
        for row in self.rows:
            value = row.get(column)
            if isinstance(value, int | float):
                found.setdefault(int(row["seed"] or 0), []).append(float(value))
        return {seed: sum(values) / len(values) for seed, values in found.items()}

    def distinct(self, column: str) -> list[Any]:
        """Distinct values of a column, in the order of their first row."""
        return list(dict.fromkeys(self.values(column)))


def rows_of(cell: Cell, rows: Iterable[Row]) -> list[Row]:
    """Rows of a cell with its factors and seed in front."""
    return [{**cell.factors, "seed": cell.seed, **row} for row in rows]
