"""Union of tables of the native form: every value exact, with its kind of number, each id once, sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from distced.middleware.event_files.tables import DIGITS, TYPES_KEY, WHOLE, column_of, import_pyarrow
from distced.middleware.history.writer import ORDER
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.event_types import EventType, Kind

_ROW: Final = "row"


class UnitedTables(NamedTuple):
    """Tables, joined.

    Attributes:
        table: the events.
        repeated: number of duplicates, left out.
    """

    table: Any
    repeated: int


def joined(
    tables: Sequence[Any], kinds: Mapping[str, Kind | None], noted: EventType, *, composite: bool
) -> UnitedTables:
    """Tables of one type as one.

    Args:
        tables: where an event is in several, that of the first counts.
        kinds: of the attributes, None for those without a value; every table fits them.
        noted: the type, to be noted in the schema.

    Raises:
        HistoryError: where two events have one id.
    """
    pa = import_pyarrow()
    wide = any(pa.types.is_decimal(each["seq"].type) for each in tables)
    columns: list[tuple[str, Any]] = [
        ("type", _own(tables, "type", pa.string())),
        ("lo", _own(tables, "lo", pa.int64())),
        ("hi", _own(tables, "hi", pa.int64())),
        ("source", _own(tables, "source", pa.string())),
        ("seq", _own(tables, "seq", pa.decimal128(DIGITS, 0) if wide else pa.int64())),
    ]
    if composite:
        columns.append(("constituents", _own(tables, "constituents", pa.string())))
    for name, kind in kinds.items():
        columns += _attribute(tables, column_of(name), kind)
    whole = pa.table(dict(columns))
    kept, repeated = _each_once(whole)
    order = pa.compute.sort_indices(kept, sort_keys=[(name, "ascending") for name in ORDER])
    made = kept.take(order)
    for name in ("type", "source"):
        place = made.schema.get_field_index(name)
        made = made.set_column(place, name, made[name].combine_chunks().dictionary_encode())
    return UnitedTables(made.replace_schema_metadata({TYPES_KEY: msgspec.json.encode([noted])}), repeated)


def _own(tables: Sequence[Any], name: str, kind: Any) -> Any:
    pa = import_pyarrow()
    return pa.chunked_array([chunk for each in tables for chunk in each[name].cast(kind).chunks], kind)


def _attribute(tables: Sequence[Any], column: str, kind: Kind | None) -> list[tuple[str, Any]]:
    pa = import_pyarrow()
    if kind == "string":
        return [(column, _values(tables, [column], _is_text, pa.string()))]
    if kind == "boolean":
        return [(column, _values(tables, [column], pa.types.is_boolean, pa.bool_()))]
    fractions = _values(tables, [column], pa.types.is_floating, pa.float64())
    whole = _values(tables, [WHOLE + column, column], pa.types.is_integer, pa.int64())
    if whole.null_count == len(whole):
        return [(column, fractions)]
    if fractions.null_count == len(fractions):
        return [(column, whole)]
    return [(column, fractions), (WHOLE + column, whole)]


def _is_text(kind: Any) -> bool:
    types = import_pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind))


def _values(tables: Sequence[Any], names: Sequence[str], fits: Any, kind: Any) -> Any:
    """Values of the first of these columns that a table has of this kind; nulls where it has none."""
    pa = import_pyarrow()
    chunks: list[Any] = []
    for table in tables:
        for name in names:
            if name in table.schema.names and fits(table.schema.field(name).type):
                chunks += table[name].cast(kind).chunks
                break
        else:
            chunks.append(pa.nulls(len(table), kind))
    return pa.chunked_array(chunks, kind)


def _each_once(table: Any) -> tuple[Any, int]:
    """The first row of each id, and the number of other rows."""
    pa = import_pyarrow()
    numbered = table.append_column(_ROW, pa.array(range(len(table)), pa.int64()))
    groups = numbered.select(["source", "seq", _ROW]).group_by(["source", "seq"]).aggregate([(_ROW, "min")])
    repeated = len(table) - len(groups)
    if not repeated:
        return table, 0
    firsts = groups[f"{_ROW}_min"]
    others = numbered.filter(pa.compute.invert(pa.compute.is_in(numbered[_ROW], value_set=firsts.combine_chunks())))
    known = {}
    names = pa.compute.unique(others["source"])
    for row in table.take(firsts).filter(pa.compute.is_in(table.take(firsts)["source"], value_set=names)).to_pylist():
        known[row["source"], row["seq"]] = row
    for row in others.drop_columns([_ROW]).to_pylist():
        first = known[row["source"], row["seq"]]
        if repr(first) != repr(row):
            raise HistoryError(
                "two events of one id", given=f"{row['source']} {row['seq']}", where=str(row["type"]),
                advice=f"one is {first}, the other {row}; the first is what readers see, and the files stay apart",
            )  # fmt: skip
    return table.take(firsts), repeated
