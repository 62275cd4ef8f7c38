"""Events as an Arrow table: the native form of Parquet files, exact to the kind of number.

A number attribute with whole numbers and fractions has two columns, as Arrow has no column of both: the fractions under
its name, the whole numbers under `whole.` and its name, each null where the other has the value. Floats for all of them
were rejected: the id of a composite event tells 3 from 3.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from distced.middleware.event_files.native import OWN_COLUMNS, PREFIX
from distced.middleware.event_files.tables import TYPES_KEY, WHOLE, import_pyarrow
from distced.middleware.model.event_types import EventType, Kind
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX

DIGITS: Final = 29
"""Of the greatest sequence number of a composite event, a digest of 96 bits."""

_encoder = msgspec.json.Encoder()


def table_of(
    events: Sequence[Event],
    kinds: Mapping[str, Kind | None],
    types: Iterable[EventType],
    noted: Mapping[bytes, bytes] | None = None,
) -> Any:
    """Events as a table of pyarrow.

    Args:
        kinds: the kind of each attribute; None for one that is null throughout.
        types, noted: event types and further entries to note in the schema.
    """
    pyarrow = import_pyarrow()
    # Where one of them is a digest all are that wide.
    wide = any(event.seq > INSTANT_MAX for event in events)
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    data: list[tuple[str, Any, list[Any]]] = [
        ("type", names, [event.type for event in events]),
        ("lo", pyarrow.int64(), [event.lo for event in events]),
        ("hi", pyarrow.int64(), [event.hi for event in events]),
        ("source", names, [event.source for event in events]),
        ("seq", pyarrow.decimal128(DIGITS, 0) if wide else pyarrow.int64(), [event.seq for event in events]),
    ]
    if any(isinstance(event, CompositeEvent) for event in events):
        data.append(("constituents", pyarrow.string(), [constituents_text(event) for event in events]))
    for name, kind in kinds.items():
        data += _columns(column_of(name), kind, [event.attributes.get(name) for event in events])
    metadata = {TYPES_KEY: _encoder.encode(list(types)), **(noted or {})}
    schema = pyarrow.schema([pyarrow.field(name, kind) for name, kind, _ in data], metadata=metadata)
    return pyarrow.Table.from_arrays([pyarrow.array(values, kind) for _, kind, values in data], schema=schema)


def column_of(attribute: str) -> str:
    """Column of an attribute."""
    return PREFIX + attribute if attribute in OWN_COLUMNS else attribute


def constituents_text(event: Event) -> str | None:
    """Cell with the ids of the constituents; None for a primitive event."""
    if not isinstance(event, CompositeEvent):
        return None
    return json.dumps(event.constituents, ensure_ascii=False, separators=(",", ":"))


def _columns(name: str, kind: Kind | None, values: list[Attribute]) -> list[tuple[str, Any, list[Any]]]:
    pyarrow = import_pyarrow()
    if kind == "string":
        return [(name, pyarrow.string(), values)]
    if kind == "boolean":
        return [(name, pyarrow.bool_(), values)]
    found = set(map(type, values))
    if float not in found:
        return [(name, pyarrow.int64() if int in found else pyarrow.float64(), values)]
    if int not in found:
        return [(name, pyarrow.float64(), values)]
    fractions = [value if type(value) is float else None for value in values]
    whole = [value if type(value) is int else None for value in values]
    return [(name, pyarrow.float64(), fractions), (WHOLE + name, pyarrow.int64(), whole)]
