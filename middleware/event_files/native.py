"""Native forms of recorded events: JSON lines of events, and tables with a column for each part of one.

A JSON line is `{"type": "Motion", "lo": 0, "hi": 5, "source": "pir-1", "seq": 7, "attributes": {"room": "FE02"}}`, or
has `time` in place of `lo` and `hi`. Instants are ns since 1970 or ISO 8601 text. A table has the columns `type`, `lo`
and `hi` or `time`, `source`, `seq`, and every other column is an attribute. A composite event has moreover its
`constituents`. Sources and sequence numbers may be left out: the file's own name, and a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from distced.middleware.event_files.row_blocks import Fields, Row
from distced.middleware.event_files.rows import Rows
from distced.middleware.mapping.conversion import to_number
from distced.middleware.model.errors import DistcedError, EventError, TypeRegistryError
from distced.middleware.model.event_types import KINDS, EventType, Kind, event_type, kind_of
from distced.middleware.model.events import Attribute, CompositeEvent, Event, check_event
from distced.middleware.model.timestamps import parse_instant

OWN_COLUMNS: Final = ("type", "lo", "hi", "time", "source", "seq", "constituents")
"""The columns of a table that are no attributes."""

PREFIX: Final = "attributes."  # before the column of an attribute with the name of one of those
_EXACT: Final = 2**53
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")


class JsonEvent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Event of a JSON line."""

    type: str
    lo: int | str | None = None
    hi: int | str | None = None
    time: int | str | None = None
    source: str | None = None
    seq: int | None = None
    attributes: dict[str, int | float | str | bool | None] = {}
    constituents: list[tuple[str, int]] | None = None


_constituents: Final = msgspec.json.Decoder(list[tuple[str, int]])
msgspec.json.Decoder(JsonEvent)  # resolves its annotations before there are threads, for `convert`


class EventBuilder:
    """Builder of checked events from rows.

    Attributes:
        kinds: the kind of each attribute by event type; None as long as only null was seen.
        counted: next sequence number by source, for sources that give none.
    """

    def __init__(self, default_source: str) -> None:
        self._default_source = default_source
        self.kinds: dict[str, dict[str, Kind | None]] = {}
        self.counted: dict[str, int] = {}

    def build(self, row: JsonEvent) -> Event:
        """Event of a row; `EventError` where it is malformed, or an attribute changes its kind."""
        lo, hi = _interval(row)
        source = self._default_source if row.source is None else row.source
        seq = self.counted.get(source, 0) if row.seq is None else row.seq
        if row.constituents is None:
            event = Event(row.type, lo, hi, source, seq, row.attributes)
        else:
            event = CompositeEvent(row.type, lo, hi, source, seq, row.attributes, constituents=tuple(row.constituents))
        check_event(event)
        self.admit(event)
        if row.seq is None:
            self.counted[source] = seq + 1
        return event

    def admit(self, event: Event) -> None:
        """Record the event type and its attributes; `EventError` where an attribute changes its kind."""
        known = self.kinds.get(event.type)
        if known is None:
            event_type(event.type)
            known = self.kinds[event.type] = {}
        for name, value in event.attributes.items():
            kind = kind_of(value)
            if name not in known:
                event_type(event.type, {name: kind or "number"})
                known[name] = kind
            elif kind is not None and known[name] != kind:
                if known[name] is not None:
                    raise EventError(
                        f"the attribute {name!r} of {event.type!r} changes its kind",
                        given=value,
                        allowed=f"a {known[name]}, as in earlier rows",
                    )
                known[name] = kind

    def types(self) -> tuple[EventType, ...]:
        """Event types seen; an attribute that was null throughout is taken for a number."""
        return tuple(
            event_type(name, {attribute: kind or "number" for attribute, kind in kinds.items()})
            for name, kinds in self.kinds.items()
        )


def _interval(row: JsonEvent) -> tuple[int, int]:
    if row.time is not None:
        if row.lo is not None or row.hi is not None:
            raise EventError("both time and an interval", allowed="time, or lo and hi")
        instant = instant_of_cell(row.time)
        return instant, instant
    if row.lo is None or row.hi is None:
        raise EventError("an event without a time", allowed="time, or lo and hi")
    return instant_of_cell(row.lo), instant_of_cell(row.hi)


def instant_of_cell(value: int | str) -> int:
    """Instant of a cell: a number of ns, or ISO 8601."""
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) and len(value) < 25 else parse_instant(value)
    return value


_SHOWN: Final = "a composite event as it is shown: let distced run write it with --native to read it again"


def of_json(fields: Fields, given: Fields | None = None) -> JsonEvent:
    """Event of a JSON line's object, to be built; `given` is the row it was made of."""
    try:
        return msgspec.convert(fields, JsonEvent)
    except msgspec.ValidationError as error:
        raise EventError(
            "not a recorded event",
            given=str(given or fields),
            allowed=", ".join(JsonEvent.__struct_fields__),
            advice=_SHOWN if "id" in fields and "constituents" in fields else str(error),
        ) from None


class Headings:
    """Meaning of a table's columns by their names; `EventError` where it is no table of events.

    Attributes:
        own: the column of each part of an event.
        attributes: name of the attribute, by column.
        declared: kind that a heading says outright, by column.
    """

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.own: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.declared: dict[str, Kind] = {}
        for column in columns:
            attribute, _, kind = column.rpartition(":")
            if kind not in KINDS or not attribute:
                attribute = column
            else:
                self.declared[column] = kind
            if attribute in OWN_COLUMNS:
                self.own[attribute] = column
            else:
                self.attributes[column] = attribute.removeprefix(PREFIX)
        try:
            event_type("any", dict.fromkeys(self.attributes.values(), "number"))
        except TypeRegistryError as error:
            error.where, error.advice = name, "rename the column, or read the file with a mapping"
            raise
        if "type" not in self.own or not ("time" in self.own or {"lo", "hi"} <= self.own.keys()):
            raise EventError(
                "not a table of events", given=", ".join(columns) or "no columns",
                allowed="columns type, lo and hi (or time), source, seq, and attributes", where=name,
                advice="read it with a mapping",
            )  # fmt: skip

    def noted(self, types: Iterable[EventType]) -> dict[str, list[str]]:
        """Columns of each of these event types."""
        by_name = {name: column for column, name in self.attributes.items()}
        return {each.name: [by_name[name] for name in each.attributes if name in by_name] for each in types}


class TableForm:
    """Interpretation of a table's columns, which takes a pass over its rows.

    Text columns are numbers where all their cells are, booleans where all are `true` or `false`, else strings; a
    heading such as `room:string` says it outright. An event has the attributes that any of its type has a value for.

    Attributes:
        attributes, kinds: name and kind of the attribute, by column.
        present: by event type, the columns it has.
    """

    def __init__(self, rows: Rows, headings: Headings) -> None:
        self.attributes = headings.attributes
        self.kinds: dict[str, Kind] = {}
        self.present: dict[str, list[str]] = {}
        self._own = headings.own
        self._typed = rows.typed

    @classmethod
    def of(cls, rows: Rows, columns: Sequence[str]) -> TableForm:
        """Form of all rows."""
        headings = Headings(rows.name, columns)
        form, noted = cls(rows, headings), rows.types()
        if noted is not None:
            form.present = headings.noted(noted)
        else:
            form.kinds = {**form._look(rows), **headings.declared}
        return form

    def _look(self, rows: Rows) -> dict[str, Kind]:
        """Note the columns of each event type; the kind that the cells of each column can all be."""
        seen: dict[str, dict[str, None]] = {}
        numbers = dict.fromkeys(self.attributes, True)
        booleans = dict.fromkeys(self.attributes, True)
        type_column = self._own["type"]
        for row in _readable(rows.rows()):
            has = seen.setdefault(str(row.fields.get(type_column)), {})
            for column in self.attributes:
                cell = row.fields.get(column)
                if cell is None or cell == "":
                    continue
                has[column] = None
                if not self._typed:
                    numbers[column] = numbers[column] and is_number(cell)
                    booleans[column] = booleans[column] and str(cell).lower() in ("true", "false")
        # Where there is one type, a column without a value is its attribute all the same.
        one = len(seen) == 1
        self.present = {name: [c for c in self.attributes if one or c in has] for name, has in seen.items()}
        return {
            column: "boolean" if booleans[column] and not numbers[column] else "number" if numbers[column] else "string"
            for column in self.attributes
        }

    def of_row(self, fields: Fields) -> JsonEvent:
        """Event of a row, to be built."""
        own: dict[str, Any] = {name: self._cell(fields.get(column)) for name, column in self._own.items()}
        for name in ("type", "source"):
            if own.get(name) is not None:
                own[name] = str(own[name])
        if own.get("type") is None:
            raise EventError("a row without a type", given=str(fields))
        if isinstance(own.get("seq"), str):
            if not _INTEGER.fullmatch(own["seq"]):
                raise EventError("not a sequence number", given=own["seq"], allowed="an integer from 0")
            own["seq"] = int(own["seq"])
        if isinstance(own.get("constituents"), str):
            own["constituents"] = constituents_of(own["constituents"])
        columns = self.present.get(own["type"], list(self.attributes))
        own["attributes"] = {self.attributes[column]: self._attribute(column, fields.get(column)) for column in columns}
        return of_json(own, fields)

    def _cell(self, cell: object) -> object:
        if cell == "" or cell != cell:
            return None
        # pandas turns whole numbers to floats where some are missing; beyond 2^53 they would no longer be the same.
        if type(cell) is float and cell.is_integer() and abs(cell) <= _EXACT:
            return int(cell)
        return cell

    def _attribute(self, column: str, cell: object) -> Attribute:
        if cell is None or cell != cell:
            return None
        if self._typed:
            return cell  # type: ignore[return-value]
        if cell == "":
            return None
        if self.kinds[column] == "number":
            return to_number(cell)
        if self.kinds[column] == "string":
            return str(cell)
        if str(cell).lower() not in ("true", "false"):
            raise EventError("neither true nor false", given=cell, allowed="true, false")
        return str(cell).lower() == "true"


def _readable(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows before the place that cannot be read, which shows when they are read for good."""
    with suppress(DistcedError):
        yield from rows


def is_number(cell: object) -> bool:
    """Whether a cell is a number."""
    try:
        to_number(cell)
    except DistcedError:
        return False
    return True


def constituents_of(text: str) -> list[tuple[str, int]]:
    """Constituents in a cell; `EventError` where it holds none."""
    try:
        return _constituents.decode(text)
    except msgspec.DecodeError as error:
        raise EventError(
            "not a list of constituents", given=text, allowed='[["source", 1], ...]', advice=str(error)
        ) from None
