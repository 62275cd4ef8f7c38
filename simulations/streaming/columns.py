"""Columns of events in a DataFrame: their meaning, rejected rows, and conversion of rows to events.

They are those of the native form of tables (`middleware.event_files.native`), so that a history can be streamed as it
stands. One column more than in a table: `attributes`, a JSON object, a map or a struct.
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
TIME: Final = "distced_time"
"""Column of the watermark: the `hi` as a timestamp."""

KEY: Final = "distced_key"
EVENT: Final = "event"
"""Struct that holds an event: columns whose names have dots cannot be passed by themselves."""

REASON: Final = "distced_reason"

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_PLAIN: Final = (*_INTEGERS, "float", "double", "string", "boolean", "timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Roles of the columns of a DataFrame.

    Attributes:
        attributes: the columns that are attributes; none where `attributes` holds them all.
        packed: the Spark type of the column `attributes`; empty where there is none.
        composite: whether there are composite events.
    """

    attributes: tuple[str, ...]
    packed: str
    composite: bool

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
            attribute = name.removeprefix(WHOLE).removeprefix(PREFIX)
            value = attribute_of(row[name])
            if value is not None or attribute not in found:
                found[attribute] = value
        return found

    def _packed(self, value: Any) -> dict[str, Attribute]:
        if value is None:
            return {}
        fields = json.loads(value) if isinstance(value, str) else _fields(value)
        return {name: attribute_of(each) for name, each in fields.items()}


def _fields(value: Any) -> dict[str, Any]:
    """Fields of a struct or a map: Spark gives rows, dictionaries or pairs, depending on the place."""
    return value.asDict() if hasattr(value, "asDict") else dict(value)


def attribute_of(value: Any) -> Attribute:
    """A value of a DataFrame as an attribute: NaN as null, times as ISO 8601 text, what is nested as JSON text."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if INSTANT_MIN <= value <= INSTANT_MAX else _as_float(value)
    if isinstance(value, float):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, datetime):
        # As in files: with a Z where it is an instant, without where it is what some clock shows.
        if value.tzinfo is None:
            return value.isoformat(" ", "microseconds")
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds") + "Z"
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
        EventError: where one is missing, or has a type that none of events has.
    """
    types = dict(frame.dtypes)
    times = {"time"} if "time" in types else {"lo", "hi"}
    missing = sorted(({"type", "source", "seq"} | times) - types.keys())
    if missing:
        raise EventError(
            "a DataFrame without the columns of events", given=", ".join(types), allowed=_ALLOWED,
            advice=f"name them so with withColumnRenamed or select: {', '.join(missing)}",
        )  # fmt: skip
    for name in sorted(times):
        _check(name, types[name], ("bigint", "timestamp"), "bigint, ns since 1970, or timestamp")
    _check("type", types["type"], ("string",), "string")
    _check("source", types["source"], ("string",), "string")
    if not types["seq"].startswith("decimal"):
        _check("seq", types["seq"], _INTEGERS, "a whole number")
    packed = types.get(ATTRIBUTES, "")
    if packed == "string" or packed.startswith(("map<string,", "struct<")):
        return EventColumns((), packed, "constituents" in types)
    plain = tuple(name for name in types if name not in OWN_COLUMNS)
    for name in plain:
        if not types[name].startswith("decimal"):
            _check(name, types[name], _PLAIN, "a number, string, boolean or timestamp")
    return EventColumns(plain, "", "constituents" in types)


_ALLOWED: Final = "type, lo and hi (or time), source, seq, and attributes, or a column for each attribute"


def _check(name: str, kind: str, allowed: Iterable[str], said: str) -> None:
    if kind not in allowed:
        raise EventError(
            f"the column {name!r} has another type than that of events", given=kind, allowed=said, advice="cast it"
        )


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
    if columns.packed == "string":
        readable = f.udf(is_object, "boolean", useArrow=False)
        reasons.append(f.when(~readable(f.col(ATTRIBUTES)), f.lit("attributes")))
    if columns.composite:
        reasons.append(
            f.when(~f.udf(is_made_of, "boolean", useArrow=False)(f.col("constituents")), f.lit("constituents"))
        )
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
    """The rows of a DataFrame that are no events, with the reason as `distced_reason`.

    That is type, time, source, sequence, attributes or constituents. `detect_stream` leaves these rows out and counts
    them; this returns them, in a query of its own.
    """
    from pyspark.sql import functions as f

    columns = columns_of(frame)
    timed = with_times(frame).withColumn(REASON, reason(columns))
    kept = [f.col(quoted(name)) for name in frame.columns]
    return timed.filter(f.col(REASON).isNotNull()).select(*kept, REASON)


def key_column(columns: EventColumns, by: Sequence[str]) -> Any:
    """A text for the values of these attributes, the same for equal values: 3 and 3.0 among them."""
    from pyspark.sql import functions as f

    if columns.packed == "string" and by:
        # Spark's own reading gives up where it meets Infinity, and takes the first of two fields of one name.
        return f.udf(partial(json_key, by=tuple(by)), "string", useArrow=False)(f.col(ATTRIBUTES))
    parts = []
    for name in by:
        values = [column.cast("string") for column in _values(columns, name)]
        text = f.coalesce(*values) if values else f.lit(None).cast("string")
        number = text.try_cast("double") + f.lit(0.0)
        parts.append(f.coalesce(number.cast("string"), text, f.lit("")))
    return f.to_json(f.array(*parts)) if parts else f.lit("")


def json_key(text: str | None, by: Sequence[str]) -> str:
    """The same for attributes in a JSON object; other texts are rejected elsewhere."""
    fields = json.loads(text) if text is not None and is_object(text) else {}
    values = [attribute_of(fields.get(name)) for name in by]
    return json.dumps([float(each) + 0.0 if type(each) in (int, float) else each for each in values])


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
