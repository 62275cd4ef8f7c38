"""Writing of events to files, in the native forms that the reader reads back.

JSON lines are exact, and so is Parquet, which notes the event types in its schema. CSV takes an empty text for null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from distced.middleware.event_files.native import EventBuilder
from distced.middleware.event_files.rows import format_of, written
from distced.middleware.event_files.tables import arrow_errors, column_of, constituents_text, import_pyarrow, table_of
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Attribute, CompositeEvent, Event

_FORMATS: Final = ".jsonl, .csv and .parquet, the first two also with .gz"
_INFINITE: Final = (float("inf"), float("-inf"))
_encoder = msgspec.json.Encoder()


def write_events(events: Iterable[Event], path: Path | str) -> int:
    """Write events to a `.jsonl`, `.csv` or `.parquet` file; their number.

    The file appears whole or not at all. JSON lines are written one by one; the other two need all events in memory,
    and each attribute's name to have one kind throughout. Events carried along in a composite event are left out.
    """
    path = Path(path)
    form = None
    # Of the formats for reading not all can be written.
    with suppress(EventError):
        form = format_of(path)
    if form in (None, "text", "json") or (form == "parquet" and path.suffix.lower() == ".gz"):
        raise EventError("not a format for writing", given=path.name, allowed=_FORMATS)
    if form == "jsonl":
        return _write_json_lines(events, path)
    kept = list(events)
    columns = TableColumns(kept)
    with written(path) as file:
        if form == "csv":
            _write_csv(kept, columns, file)
        else:
            _write_parquet(kept, columns, file, path)
    return len(kept)


def _write_json_lines(events: Iterable[Event], path: Path) -> int:
    count = 0
    with written(path) as file:
        for event in events:
            file.write(json_line(event) + b"\n")
            count += 1
    return count


def json_line(event: Event) -> bytes:
    """Event as a JSON object, without the end of the line."""
    fields: dict[str, Any] = {
        "type": event.type,
        "lo": event.lo,
        "hi": event.hi,
        "source": event.source,
        "seq": event.seq,
        "attributes": event.attributes,
    }
    if isinstance(event, CompositeEvent):
        fields["constituents"] = event.constituents
    if any(value in _INFINITE for value in event.attributes.values()):
        # Python's spelling, Infinity, is not JSON; msgspec would write null, which is not the value.
        return json.dumps(fields, ensure_ascii=False).encode()
    return _encoder.encode(fields)


class TableColumns:
    """Columns of a table of events: the kind of each attribute by name, None where it is null throughout."""

    def __init__(self, events: list[Event]) -> None:
        builder = EventBuilder("recording")
        for event in events:
            builder.admit(event)
        self.types = builder.types()
        self.composite = any(isinstance(event, CompositeEvent) for event in events)
        self.kinds: dict[str, Kind | None] = {}
        for type_name, kinds in builder.kinds.items():
            for name, kind in kinds.items():
                known = self.kinds.get(name)
                if None not in (known, kind) and known != kind:
                    raise EventError(
                        f"the attribute {name!r} has two kinds", given=f"{kind} in {type_name!r}",
                        allowed=f"a {known}, as in other event types", advice="write .jsonl",
                    )  # fmt: skip
                self.kinds[name] = known or kind


def _write_csv(events: list[Event], columns: TableColumns, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\r\n")
    heading = [column_of(name) + f":{kind or 'number'}" for name, kind in columns.kinds.items()]
    own = ["type", "lo", "hi", "source", "seq"] + ["constituents"] * columns.composite
    writer.writerow(own + heading)
    for event in events:
        cells: list[object] = [event.type, event.lo, event.hi, event.source, event.seq]
        if columns.composite:
            cells.append(constituents_text(event))
        writer.writerow(cells + [_cell(event.attributes.get(name)) for name in columns.kinds])
    text.detach()


def _cell(value: Attribute) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _write_parquet(events: list[Event], columns: TableColumns, file: IO[bytes], path: Path) -> None:
    pyarrow = import_pyarrow()
    with arrow_errors(str(path)):
        pyarrow.parquet.write_table(table_of(events, columns.kinds, columns.types), file)
