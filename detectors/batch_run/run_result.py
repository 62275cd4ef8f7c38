"""Result of a run: the composite events as a list, which can be had as a table and shows itself as one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from distced.detectors.batch_run.run_counts import RunCounts
from distced.middleware.event_files.tables import import_pyarrow
from distced.middleware.mapping import Rejected
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import kind_of
from distced.middleware.model.events import Attribute, CompositeEvent
from distced.middleware.model.timestamps import format_instant

OWN: Final = ("type", "start", "end", "id", "constituents")
"""Columns of a result that are no attributes."""

SHOWN: Final = 20
"""Rows that a notebook shows."""


class RunResult(list[CompositeEvent]):
    """Composite events in the order of detection.

    Attributes:
        counts: of the run.
        rows, rejected_rows: number of rows read and rejected, 0 for events.
        rejected: rejected rows with their reasons, the first thousand.
    """

    def __init__(
        self,
        found: Sequence[CompositeEvent],
        counts: RunCounts,
        rows: int = 0,
        rejected_rows: int = 0,
        rejected: Sequence[Rejected] = (),
    ) -> None:
        super().__init__(found)
        self.counts = counts
        self.rows = rows
        self.rejected_rows = rejected_rows
        self.rejected = list(rejected)

    def to_arrow(self) -> Any:
        """Table of pyarrow: times as timestamps in UTC, attributes as columns, ids as `source:number`."""
        pyarrow = import_pyarrow()
        instant = pyarrow.timestamp("ns", "UTC")
        columns = {
            "type": pyarrow.array([each.type for each in self], pyarrow.string()),
            "start": pyarrow.array([each.lo for each in self], pyarrow.int64()).cast(instant),
            "end": pyarrow.array([each.hi for each in self], pyarrow.int64()).cast(instant),
        }
        for name, values in self._attributes().items():
            columns[name] = _column(pyarrow, values)
        columns["id"] = pyarrow.array([_id(each.id) for each in self], pyarrow.string())
        made_of = [[_id(one) for one in each.constituents] for each in self]
        columns["constituents"] = pyarrow.array(made_of, pyarrow.list_(pyarrow.string()))
        return pyarrow.table(columns)

    def to_pandas(self) -> Any:
        """Data frame of pandas, with the columns of `to_arrow`."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise DistcedError("a data frame needs pandas", advice="pip install pandas") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Data frame of polars, with the columns of `to_arrow`."""
        try:
            import polars
        except ImportError:
            raise DistcedError("a data frame needs polars", advice="pip install polars") from None
        return polars.from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        """Table for a notebook."""
        some = RunResult(self[:SHOWN], self.counts)
        attributes = some._attributes()
        heading = "".join(f"<th>{escape(name)}</th>" for name in ("type", "start", "end", *attributes, "constituents"))
        lines = [f"<table><thead><tr>{heading}</tr></thead><tbody>"]
        for place, each in enumerate(some):
            cells = [each.type, format_instant(each.lo), format_instant(each.hi)]
            cells += ["" if values[place] is None else str(values[place]) for values in attributes.values()]
            cells.append(", ".join(map(_id, each.constituents)))
            lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        total = f"{len(self):,} composite events"
        if len(self) > SHOWN:
            total += f", the first {SHOWN}"
        if self.rejected_rows:
            total += f"; {self.rejected_rows:,} of {self.rows:,} rows rejected"
        return "".join([*lines, f"</tbody></table><p>{total}</p>"])

    def _attributes(self) -> dict[str, list[Attribute]]:
        """Values of each attribute, by column."""
        names = dict.fromkeys(name for each in self for name in each.attributes)
        return {
            f"attributes.{name}" if name in OWN else name: [each.attributes.get(name) for each in self]
            for name in names
        }


def _id(identity: tuple[str, int]) -> str:
    source, number = identity
    return f"{source}:{number}"


def _column(pyarrow: Any, values: list[Attribute]) -> Any:
    kinds = {kind_of(value) for value in values} - {None}
    if kinds == {"boolean"}:
        return pyarrow.array(values, pyarrow.bool_())
    if kinds == {"string"}:
        return pyarrow.array(values, pyarrow.string())
    if len(kinds) > 1:
        # Two event types have an attribute of this name, of different kinds.
        return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())
    whole = all(value is None or isinstance(value, int) for value in values) and bool(kinds)
    if whole:
        return pyarrow.array(values, pyarrow.int64())
    return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
