"""Patterns over a streaming DataFrame: a streaming DataFrame of composite events.

Guaranteed detection: the results are those of `detectors.batch_run.runner.run` over the same events, with the same
ids, in any order of arrival within the watermark. Spark's `transformWithState` keeps the state and its timers; the
pandas variant was rejected, because it turns whole numbers into floats where some are missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from distced.detectors.batch_run.runner import compiled_patterns
from distced.detectors.compiler import Compiled, Consumption, types_read
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.timestamps import MILLISECOND, parse_duration
from distced.simulations.streaming.columns import (
    EVENT,
    KEY,
    REASON,
    TIME,
    columns_of,
    key_column,
    quoted,
    reason,
    with_times,
)
from distced.simulations.streaming.key_state import stream_key

METRICS: Final = "distced"  # name under which a query's progress counts `rows` and those `rejected`
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKS: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def detect_stream(
    frame: Any,
    pattern: object,
    *,
    watermark: str,
    by: Sequence[str] | str | None = None,
    types: Iterable[EventType] | None = None,
    consumption: Consumption = "ordered",
) -> Any:
    """The composite events of patterns over a streaming DataFrame of events, as a streaming DataFrame.

    Args:
        frame: columns `type`, `lo` and `hi` (or `time`; timestamps, or nanoseconds since 1970), `source`, `seq`, and
            the attributes: a column each, or all in `attributes`, as a JSON object, a map or a struct.
        pattern: as `detectors.batch_run.runner.run` takes it.
        watermark: greatest delay of an event behind the latest, such as `"10s"`. Spark drops later events, and counts
            them: `numRowsDroppedByWatermark` of the state operator in the query's progress.
        by: attributes by whose values the work is partitioned; by default those that all patterns are keyed by.
            Without any, one task detects everything.
        types: event types to check the patterns against.

    Raises:
        DistcedError: for invalid patterns, missing columns, attributes that are no key.
    """
    from pyspark.sql import functions as f

    registry = None if types is None else TypeRegistry(types)
    patterns = _once(compiled_patterns(pattern, registry, consumption))
    key = stream_key(patterns, (by,) if isinstance(by, str) else by)
    delay = -(-parse_duration(watermark) // MILLISECOND)
    columns = columns_of(frame)
    if not frame.isStreaming:
        raise DistcedError(
            "a DataFrame that does not stream", allowed="one of spark.readStream",
            advice="write it to files, distced ingest them, and distced replay the history",
        )  # fmt: skip
    _prepare(frame.sparkSession)
    _use_this_python(frame.sparkSession)

    from distced.simulations.streaming.processor import OUTPUT, Detection

    counted = with_times(frame).withColumn(REASON, reason(columns))
    counted = counted.observe(METRICS, f.count(f.lit(1)).alias("rows"), f.count(f.col(REASON)).alias("rejected"))
    # Rows that are no events do not advance the time.
    timed = counted.filter(f.col(REASON).isNull()).withColumn(TIME, f.expr("timestamp_micros(hi div 1000)"))
    events = timed.withWatermark(TIME, f"{delay} milliseconds")
    wanted = types_read(patterns)
    if wanted is not None:
        # All events advance the time. Spark would look at the type before, unless the same condition is about the time.
        read = f.col("type").isin(*sorted(wanted)) | (f.col(TIME) < f.lit("0001-01-01").cast("timestamp"))
        events = events.filter(read)
    event = f.struct(*(f.col(quoted(name)) for name in columns.names)).alias(EVENT)
    grouped = events.select(key_column(columns, key).alias(KEY), TIME, event).groupBy(KEY)
    if not hasattr(grouped, "transformWithState"):
        raise DistcedError("streams need PySpark 4.1 or later", advice="pip install -U 'distced[spark]'")
    return grouped.transformWithState(
        statefulProcessor=Detection(patterns, columns), outputStructType=OUTPUT, outputMode="Append",
        timeMode="EventTime",
    )  # fmt: skip


def _once(patterns: Iterable[Compiled]) -> tuple[Compiled, ...]:
    return tuple({each.canonical_id: each for each in patterns}.values())


def _prepare(session: Any) -> None:
    """Set RocksDB as the state store of Spark: `transformWithState` needs it."""
    if "RocksDB" not in session.conf.get(_PROVIDER, ""):
        session.conf.set(_PROVIDER, _ROCKS)


def _use_this_python(session: Any) -> None:
    """Let local workers run this Python, which has distced; Spark takes the `python3` of the path.

    Workers on other machines have a Python of their own: PYSPARK_PYTHON, or `spark.pyspark.python`.
    """
    context = getattr(session, "sparkContext", None) if hasattr(session, "_jsparkSession") else None
    if context is None or not str(context.master).startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable
