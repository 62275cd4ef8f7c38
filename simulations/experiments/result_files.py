"""Results in a folder: a Parquet file for each cell, written whole or not at all.

    FOLDER/experiment.json        the experiment, complete without its files
    FOLDER/cells/NAME.parquet     rows of a cell; its metadata name digests and version
    FOLDER/cells/NAME.error.txt   traceback of a cell that failed
    FOLDER/report/                written by `distced experiment report`

A result counts while the digest of its cell and of the code (`code_digest`) are the present ones. The code is that of
all packages but what presents results: a figure can be drawn otherwise without running anything again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from distced.middleware.model.errors import DistcedError
from distced.simulations.experiments.model import Cell, Experiment, ExperimentError, Results, Row, Scalar

CELLS: Final = "cells"
RECORD: Final = "experiment.json"
_PACKAGES: Final = ("middleware", "detectors", "policies", "brokers", "simulations")
_DIGEST, _CODE, _VERSION = b"distced.cell", b"distced.code", b"distced.version"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a result.

    Attributes:
        digest: of the cell.
        code: digest of the code.
        version: of distced.
    """

    digest: str
    code: str
    version: str


@cache
def code_digest() -> str:
    """Digest of the installed code that results depend on."""
    found = sha256()
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if not _presents(path.relative_to(root)):
                found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _presents(path: Path) -> bool:
    """Whether a module presents results, or is a verb."""
    parts = path.parts
    return "reporting" in parts or "cli" in parts or path.stem == "cli" or path.stem.endswith("_figures")


def installed_version() -> str:
    """Version of distced."""
    try:
        return version("distced")
    except PackageNotFoundError:
        return "of a source tree"


class ResultFolder:
    """Results of an experiment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, record: bytes) -> None:
        """Make the folder, with the record of the experiment."""
        (self.folder / CELLS).mkdir(parents=True, exist_ok=True)
        _replace(self.folder / RECORD, record)

    def record(self) -> bytes:
        """The record of the experiment; raises `ExperimentError`."""
        try:
            return (self.folder / RECORD).read_bytes()
        except OSError as error:
            raise ExperimentError("not a folder with results", given=str(self.folder), allowed=f"with {RECORD}",
                                  advice=f"distced experiment run writes one: {error.strerror}") from None  # fmt: skip

    def keep(self, cell: Cell, kind: str, rows: Sequence[Row]) -> None:
        """Write the rows of a cell."""
        pa, parquet = _arrow()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        arrays = {name: pa.array([row.get(name) for row in rows]) for name in columns}
        metadata = {_DIGEST: cell.digest(kind), _CODE: code_digest(), _VERSION: installed_version()}
        table = pa.table(arrays).replace_schema_metadata(metadata)
        buffer = pa.BufferOutputStream()
        parquet.write_table(table, buffer, compression="zstd")
        _replace(self._path(cell, "parquet"), buffer.getvalue().to_pybytes())
        self._path(cell, "error.txt").unlink(missing_ok=True)

    def fail(self, cell: Cell, error: str) -> None:
        """Write the error of a cell; its earlier result goes, for it is not that of the present code."""
        _replace(self._path(cell, "error.txt"), error.encode(errors="replace"))
        self._path(cell, "parquet").unlink(missing_ok=True)

    def provenance(self, cell: Cell) -> Provenance | None:
        """Origin of the result of a cell; None without a readable one."""
        pa, parquet = _arrow()
        try:
            found: Mapping[bytes, bytes] = parquet.read_schema(self._path(cell, "parquet")).metadata or {}
            return Provenance(*(found[key].decode() for key in (_DIGEST, _CODE, _VERSION)))
        except (OSError, KeyError, pa.ArrowException):
            return None

    def is_done(self, cell: Cell, kind: str) -> bool:
        """Whether the result of a cell is there, of its present settings and the present code."""
        found = self.provenance(cell)
        return found is not None and (found.digest, found.code) == (cell.digest(kind), code_digest())

    def rows(self, cell: Cell) -> list[Row]:
        """Rows of a cell."""
        _, parquet = _arrow()
        found: list[Row] = parquet.read_table(self._path(cell, "parquet")).to_pylist()
        return found

    def results(self, experiment: Experiment, cells: Iterable[Cell]) -> tuple[Results, list[Provenance]]:
        """All results with the present settings, whatever their code, and their origins, each once."""
        rows: list[dict[str, Scalar]] = []
        failed: dict[str, str] = {}
        origins: dict[Provenance, None] = {}
        missing = 0
        for cell in cells:
            found = self.provenance(cell)
            if found is not None and found.digest == cell.digest(experiment.kind.name):
                rows += self.rows(cell)
                origins[Provenance("", found.code, found.version)] = None
            else:
                missing += 1
                error = self._path(cell, "error.txt")
                if error.exists():
                    failed[cell.name] = error.read_text(encoding="utf-8")
        return Results(experiment.spec, experiment.seeds, rows, failed, missing), list(origins)

    def _path(self, cell: Cell, suffix: str) -> Path:
        return self.folder / CELLS / f"{cell.name}.{suffix}"


def _replace(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DistcedError(
            "results need pyarrow, which is not installed", advice="pip install 'distced[experiments]'"
        ) from None
    return pyarrow, parquet
