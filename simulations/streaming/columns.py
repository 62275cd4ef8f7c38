"""Columns of events in a DataFrame: their roles, rejected rows, and conversion of rows to events.

They are those of the native form of tables (`middleware.event_files.native`), so that a history can be streamed as it
is; and `attributes`, a JSON object, a map or a struct.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

from distced.middleware.event_files.native import OWN_COLUMNS, PREFIX, constituents_of
from distced.middleware.event_files.tables import WHOLE, column_of
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import SEQ_END, Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

ATTRIBUTES: Final = "attributes"
TIME: Final = "distced_time"  # column of the watermark: the `hi` as a timestamp
KEY: Final = "distced_key"
EVENT: Final = "event"  # struct that holds an event: columns whose names have dots cannot be passed by themselves
REASON: Final = "distced_reason"

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_PLAIN: Final = (*_INTEGERS, "float", "double", "string", "boolean", "timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Roles of the columns of a DataFrame."""

    attributes: tuple[str, ...]  # columns of attributes; none where `attributes` holds them all
    packed: str  # Spark type of the column `attributes`; empty where there is none
    composite: bool  # whether there is a column of constituents

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that an event is made of, its times in nanoseconds."""
        packed = (ATTRIBUTES,) if self.packed else ()
        made_of = ("constituents",) if self.composite else ()
        return ("type", "lo", "hi", "source", "seq", *packed, *made_of, *self.attributes)

    def event(self, row: Any) -> Event:
        """The event in a row that is not rejected, or in a struct of its columns."""
        row = _fields(row)
        attributes = self._packed(row[ATTRIBUTES]) if self.packed else self._plain(row)
        own = (row["type"], row["lo"], row["hi"], row["source"], int(row["seq"]), attributes)
        made_of = row["constituents"] if self.composite else None
        if made_of is None:
            return Event(*own)
        return CompositeEvent(*own, constituents=tuple(constituents_of(made_of)))

    def _plain(self, row: Mapping[str, Any]) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for name in self.attributes:
            attribute, value = name.removeprefix(WHOLE).removeprefix(PREFIX), attribute_of(row[name])
            if value is not None or attribute not in found:
                found[attribute] = value
        return found

    def _packed(self, value: Any) -> dict[str, Attribute]:
        fields = json.loads(value) if isinstance(value, str) else _fields(value or {})
        return {name: attribute_of(each) for name, each in fields.items()}


def _fields(value: Any) -> dict[str, Any]:
    """Fields of a struct or a map: Spark gives rows, dictionaries or pairs, depending on the place."""
    return value.asDict() if hasattr(value, "asDict") else dict(value)


def attribute_of(value: Any) -> Attribute:
    """A value of a DataFrame as an attribute: NaN as null, times as ISO 8601 text, nested values as JSON text."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return value if INSTANT_MIN <= value <= INSTANT_MAX else _as_float(value)
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, datetime):
        # As in files: with a Z where it is an instant, without where it is local time of an unknown zone.
        instant = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return instant.isoformat(" ", "microseconds") + ("" if value.tzinfo is None else "Z")
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        # As 1e999 is.
        return math.inf if value > 0 else -math.inf


def columns_of(frame: Any) -> EventColumns:
    """The columns of a DataFrame.

    Raises:
        EventError: where one is missing, or has another type than that of events.
    """
    types = dict(frame.dtypes)
    times = {"time"} if "time" in types else {"lo", "hi"}
    if missing := sorted(({"type", "source", "seq"} | times) - types.keys()):
        raise EventError(
            "a DataFrame without the columns of events",
            given=", ".join(types),
            allowed="type, lo and hi (or time), source, seq, and attributes, or a column for each attribute",
            advice=f"name them so with withColumnRenamed or select: {', '.join(missing)}",
        )

    def check(names: Iterable[str], allowed: Iterable[str], description: str, *, decimal: bool = False) -> None:
        for name in names:
            if types[name] not in allowed and not (decimal and types[name].startswith("decimal")):
                problem = f"the column {name!r} has another type than that of events"
                raise EventError(problem, given=types[name], allowed=description, advice="cast it")

    check(sorted(times), ("bigint", "timestamp"), "bigint, ns since 1970, or timestamp")
    check(("type", "source"), ("string",), "string")
    check(("seq",), _INTEGERS, "a whole number", decimal=True)
    packed = types.get(ATTRIBUTES, "")
    if packed == "string" or packed.startswith(("map<string,", "struct<")):
        return EventColumns((), packed, "constituents" in types)
    plain = tuple(name for name in types if name not in OWN_COLUMNS)
    check(plain, _PLAIN, "a number, string, boolean or timestamp", decimal=True)
    return EventColumns(plain, "", "constituents" in types)


def with_times(frame: Any) -> Any:
    """The DataFrame with `lo` and `hi` in nanoseconds, null where they are beyond 64 bits."""
    from pyspark.sql import functions as f

    types = dict(frame.dtypes)
    sources = {"lo": "time", "hi": "time"} if "time" in types else {"lo": "lo", "hi": "hi"}
    made = {}
    for name, source in sources.items():
        column = f.col(source)
        made[name] = f.try_multiply(f.unix_micros(column), f.lit(1000)) if types[source] == "timestamp" else column
    return frame.withColumns(made)


def reason(columns: EventColumns) -> Any:
    """Reason why a row with times in nanoseconds is no event; null where it is one."""
    from pyspark.sql import functions as f

    def wrong(name: str, condition: str) -> Any:
        return f.when(f.expr(condition), f.lit(name))

    reasons = [
        wrong("type", "type is null or type = ''"),
        wrong("time", "lo is null or hi is null or lo > hi"),
        wrong("source", "source is null or source = ''"),
        wrong("sequence", f"seq is null or seq < 0 or seq >= {SEQ_END}BD or seq % 1 != 0"),
    ]
    # Spark accepts more as JSON than others do, so the reader of the text decides.
    read_by = {ATTRIBUTES: is_object} if columns.packed == "string" else {}
    read_by |= {"constituents": is_made_of} if columns.composite else {}
    for name, accepts in read_by.items():
        reasons.append(f.when(~f.udf(accepts, "boolean", useArrow=False)(f.col(name)), f.lit(name)))
    return f.coalesce(*reasons)


def is_object(text: str | None) -> bool:
    """Whether a text is a JSON object, or null."""
    try:
        found = {} if text is None else json.loads(text)
        if text is not None and "\\u" in text:
            # Half of a pair of surrogates is no text.
            json.dumps(found, ensure_ascii=False).encode()
        return isinstance(found, dict)
    except (ValueError, RecursionError):
        return False


def is_made_of(text: str | None) -> bool:
    """Whether a text is a list of constituents, or null."""
    try:
        return text is None or all(0 <= seq < SEQ_END for _, seq in constituents_of(text))
    except EventError:
        return False


def rejected_rows(frame: Any) -> Any:
    """The rows of a DataFrame that are no events, in a query of its own; `detect_stream` leaves them out.

    The reason is in `distced_reason`: type, time, source, sequence, attributes or constituents.
    """
    from pyspark.sql import functions as f

    columns = columns_of(frame)
    timed = with_times(frame).withColumn(REASON, reason(columns))
    kept = [f.col(quoted(name)) for name in frame.columns]
    return timed.filter(f.col(REASON).isNotNull()).select(*kept, REASON)


def key_column(columns: EventColumns, by: Sequence[str]) -> Any:
    """A text for the values of these attributes, the same for equal values, such as 3 and 3.0."""
    from pyspark.sql import functions as f

    if columns.packed == "string" and by:
        # Spark's own reader fails on Infinity, and takes the first of two fields of one name.
        return f.udf(partial(json_key, by=tuple(by)), "string", useArrow=False)(f.col(ATTRIBUTES))
    parts = []
    for name in by:
        values = [column.cast("string") for column in _values(columns, name)]
        text = f.coalesce(*values) if values else f.lit(None).cast("string")
        number = text.try_cast("double") + f.lit(0.0)
        parts.append(f.coalesce(number.cast("string"), text, f.lit("")))
    return f.to_json(f.array(*parts)) if parts else f.lit("")


def json_key(text: str | None, by: Sequence[str]) -> str:
    """The key of attributes in a JSON object; rows with other texts are rejected."""
    fields = json.loads(text) if text is not None and is_object(text) else {}
    values = [attribute_of(fields.get(name)) for name in by]
    return json.dumps([each if isinstance(each, bool | str | None) else float(each) + 0.0 for each in values])


def _values(columns: EventColumns, name: str) -> list[Any]:
    from pyspark.sql import functions as f

    if columns.packed.startswith("map"):
        return [f.try_element_at(f.col(ATTRIBUTES), f.lit(name))]
    if columns.packed:
        return [f.col(ATTRIBUTES).getField(name)]
    there = [each for each in (column_of(name), WHOLE + column_of(name)) if each in columns.attributes]
    return [f.col(quoted(each)) for each in there]


def quoted(name: str) -> str:
    """The name of a column, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"
