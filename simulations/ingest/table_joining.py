"""Tables of one event type as one table, exact to the kind of each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from distced.middleware.event_files.tables import DIGITS, TYPES_KEY, WHOLE, column_of, import_pyarrow
from distced.middleware.history.writer import ORDER
from distced.middleware.model.event_types import EventType, Kind

_ROW: Final = "row"


def joined(
    tables: Sequence[Any],
    kinds: Mapping[str, Kind | None],
    noted: EventType,
    *,
    composite: bool,
    distinct: bool = False,
) -> tuple[Any, int]:
    """Tables of one type as one, and the number of duplicates left out: values exact, each id once, sorted.

    Args:
        tables: of an event in several the first counts; the same id is the same event (`row_check`).
        kinds: of the attributes, None for those without a value; every table fits them.
        noted: the type in the schema.
        distinct: whether each id is there once.
    """
    pa = import_pyarrow()
    wide = any(pa.types.is_decimal(each["seq"].type) for each in tables)
    own = {"type": pa.string(), "lo": pa.int64(), "hi": pa.int64(), "source": pa.string()}
    own["seq"] = pa.decimal128(DIGITS, 0) if wide else pa.int64()
    if composite:
        own["constituents"] = pa.string()
    columns = {name: _values(tables, [name], lambda _: True, kind) for name, kind in own.items()}
    for name, attribute in kinds.items():
        columns.update(_attribute(tables, column_of(name), attribute))
    kept, repeated = (pa.table(columns), 0) if distinct else _each_once(pa.table(columns))
    order = pa.compute.sort_indices(kept, sort_keys=[(name, "ascending") for name in ORDER])
    made = kept.take(order)
    for name in ("type", "source"):
        place = made.schema.get_field_index(name)
        made = made.set_column(place, name, made[name].combine_chunks().dictionary_encode())
    return made.replace_schema_metadata({TYPES_KEY: msgspec.json.encode([noted])}), repeated


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
    """First row of each id, and the number of other rows."""
    pa = import_pyarrow()
    numbered = table.append_column(_ROW, pa.array(range(len(table)), pa.int64()))
    groups = numbered.select(["source", "seq", _ROW]).group_by(["source", "seq"]).aggregate([(_ROW, "min")])
    repeated = len(table) - len(groups)
    if not repeated:
        return table, 0
    return table.take(groups[f"{_ROW}_min"]), repeated
