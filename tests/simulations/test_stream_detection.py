"""Streams of Spark: their columns, their watermarks, and restarts from a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark needs the extra distced[spark]")
pytest.importorskip("pyarrow", reason="tables need the extra distced[tables]")

from distced.detectors.batch_run.runner import compiled_patterns, run
from distced.detectors.compiler import Compiled
from distced.middleware.event_files import json_line
from distced.middleware.history import History, HistoryWriter
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MILLISECOND, SECOND
from distced.simulations.streaming import detect_stream, rejected_rows
from distced.simulations.streaming.columns import attribute_of, columns_of, key_column, with_times
from distced.simulations.streaming.key_state import passed, stream_key
from distced.simulations.streaming.stream import METRICS
from tests.support.history_form import without_nulls
from tests.support.replay_runs import whole
from tests.support.stream_runs import arriving, stream_events, stream_patterns

JSON_LINES = "type string, lo long, hi long, source string, seq decimal(29,0), attributes string, constituents string"


@pytest.fixture(autouse=True)
def settings(session: Any) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")


def put(folder: Path, number: int, lines: Sequence[bytes]) -> None:
    """A file that a stream reads as its next micro-batch."""
    part = folder / f".{number}.part"
    part.write_bytes(b"".join(line + b"\n" for line in lines))
    os.utime(part, (10**9 + number, 10**9 + number))
    part.replace(folder / f"{number}.json")


def run_to_end(frame: Any, folder: Path) -> list[Any]:
    """Have a query do all there is, and say how it went; what it finds is in files, and so is how far it is."""
    writer = frame.writeStream.format("json").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "found"))
    query.awaitTermination()
    return list(query.recentProgress)


def found_in(folder: Path) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for path in (folder / "found").glob("*.json") for line in path.open()]
    return sorted(
        (each["type"], each["source"], each["seq"], each["lo"], each["hi"], json.loads(each["attributes"]).items(),
         each["constituents"])
        for each in rows
    )  # fmt: skip


def reported(patterns: Sequence[Compiled], events: Sequence[Event], until: int) -> list[tuple[Any, ...]]:
    return sorted(
        (each.type, each.source, each.seq, each.lo, each.hi, each.attributes.items(),
         json.dumps(each.constituents, separators=(",", ":")))
        for each in whole(patterns, events, until)
    )  # fmt: skip


@pytest.mark.slow
def test_stream_continues_after_a_restart(tmp_path: Path, session: Any) -> None:
    random = Random(17)
    patterns: dict[str, Compiled] = {}
    for _ in range(12):
        for each in stream_patterns(random):
            # Such as read others could read one another in a circle.
            if each.automaton.output is None:
                patterns.setdefault(each.automaton.canonical_id, each)
    delay = 8 * MILLISECOND
    events = stream_events(random, 150, span=150)
    batches = arriving(random, events, delay, 5)
    end = events[-1].hi // MILLISECOND * MILLISECOND + SECOND
    # Nobody reads this type, but it tells the time.
    last = Event("End", end, end, "clock", 0, {})
    (tmp_path / "in").mkdir()
    stream = session.readStream.schema(JSON_LINES).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    made = list(patterns.values())
    progress = []
    for part in (0, 1):
        # The second half is there only when the first has been done with.
        for number, batch in list(enumerate(batches))[3 * part : 3 + 3 * part]:
            lines = [json_line(event) for event in batch]
            if number == 1:
                lines += [b'{"type": "A", "lo": 5, "hi": 4, "source": "s", "seq": 1}', b'{"type": "A"}', b"nothing"]
            put(tmp_path / "in", number, lines)
        if part:
            put(tmp_path / "in", 8, [json_line(last)])
            put(tmp_path / "in", 9, [json_line(Event("A", events[3].lo, events[3].hi, "late", 0, {}))])
        progress += run_to_end(detect_stream(stream, made, watermark="8ms"), tmp_path)
    expected = reported(made, events, passed((end - delay) // MILLISECOND))
    assert len(made) > 5
    assert len(expected) > 50
    assert found_in(tmp_path) == expected
    counted = [each.observedMetrics[METRICS] for each in progress if METRICS in each.observedMetrics]
    assert sum(each.rows for each in counted) == sum(map(len, batches)) + 5
    assert sum(each.rejected for each in counted) == 3
    assert sum(state.numRowsDroppedByWatermark for each in progress for state in each.stateOperators) == 1


@pytest.mark.slow
def test_history_is_read_as_a_stream(tmp_path: Path, session: Any) -> None:
    """By key, with whole numbers and fractions of one attribute as its values, and a pattern that waits for time."""
    events = []
    for number in range(60):
        at = HOUR + number * SECOND
        key = (number % 4, float(number % 4), None)[number % 3]
        events.append(Event("AB"[number % 2], at, at, "s", number, {"k": key, "v": number / 4, "n": number}))
    end = Event("End", 2 * HOUR, 2 * HOUR, "s", 60, {})
    for start in range(0, 60, 10):
        HistoryWriter(tmp_path / "history", "test").write(events[start : start + 10])
    HistoryWriter(tmp_path / "history", "test").write([end])
    assert not History(tmp_path / "history").problems
    text = "([A as x], [T <= {T, B}]) @ T = 5s by k -> Alone(k = x.k, v = x.v, n = x.n)"
    folders = str(tmp_path / "history" / "day=*" / "type=*")
    schema = session.read.option("mergeSchema", "true").parquet(folders).schema
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 3).parquet(folders)
    (pattern,) = compiled_patterns(text, None)
    assert stream_key([pattern]) == ("k",)
    # Files of all types come in any order.
    run_to_end(detect_stream(stream, text, watermark="2h", by="k"), tmp_path)
    assert found_in(tmp_path) == []
    later = Event("End", 5 * HOUR, 5 * HOUR, "s", 61, {})
    HistoryWriter(tmp_path / "history", "test").write([later])
    run_to_end(detect_stream(stream, text, watermark="2h", by="k"), tmp_path)
    expected = reported([pattern], events, passed(3 * HOUR // MILLISECOND))
    assert len(expected) > 5
    assert found_in(tmp_path) == expected
    assert len(expected) == len(run(text, [*events, end]))


@pytest.mark.slow
def test_key_may_have_odd_values(tmp_path: Path, session: Any) -> None:
    random = Random(3)
    values = [1, 1.0, True, "1", "é'\"\\", None, float("inf"), -0.0, 0, 2**53 + 1, float(2**53)]
    events = []
    for number in range(120):
        attributes = {"k": random.choice(values), "x": random.choice((float("inf"), 1))}
        events.append(Event("AB"[number % 2], HOUR + number, HOUR + number, "s", number, attributes))
    end = Event("End", 2 * HOUR, 2 * HOUR, "s", 120, {})
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", 0, [json_line(event) for event in events])
    put(tmp_path / "in", 1, [json_line(end)])
    stream = session.readStream.schema(JSON_LINES).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    (pattern,) = compiled_patterns("[A as a] [B as b] by k -> Out(k = a.k, x = a.x, y = b.x)", None)
    run_to_end(detect_stream(stream, [pattern], watermark="1s"), tmp_path)
    found = found_in(tmp_path)
    assert len(found) > 20
    assert found == reported([pattern], events, passed((2 * HOUR - SECOND) // MILLISECOND))


@pytest.mark.slow
def test_attributes_may_be_columns_json_map_or_struct(session: Any) -> None:
    attributes = {"room": "FE02", "n": 3, "x": 0.5, "on": True, "none": None}
    expected = without_nulls([Event("A", 1_000, 2_000, "s", 7, attributes)])
    own = "'A' as type, bigint(1000) as lo, bigint(2000) as hi, 's' as source, 7 as seq"
    plain = "'FE02' as room, bigint(3) as n, 0.5D as x, true as on, cast(null as double) as none"
    forms = {
        "columns": f"{own}, {plain}",
        "struct": f"{own}, struct({plain}) as attributes",
        "json": f"""{own}, '{json.dumps(attributes)}' as attributes""",
        "times": f"'A' as type, timestamp_micros(1) as lo, timestamp_micros(2) as hi, 's' as source, 7 as seq, {plain}",
        "whole": f"{own}, 'FE02' as room, cast(null as double) as n, bigint(3) as `whole.n`, 0.5D as x, true as on",
        "prefix": f"{own}, {plain}",
    }
    for name, columns in forms.items():
        frame = session.sql(f"select {columns}")
        found = columns_of(frame)
        (row,) = with_times(frame).collect()
        assert without_nulls([found.event(row)]) == expected, name
        assert rejected_rows(frame).collect() == [], name
    text = session.sql(f"select {own}, map('room', 'FE02', 'n', '3') as attributes")
    event = columns_of(text).event(text.collect()[0])
    assert event.attributes == {"room": "FE02", "n": "3"}
    one_time = session.sql("select 'A' as type, timestamp_micros(2) as time, 's' as source, 7 as seq")
    event = columns_of(one_time).event(with_times(one_time).collect()[0])
    assert (event.lo, event.hi) == (2_000, 2_000)


@pytest.mark.slow
def test_stream_reads_attributes_of_every_form(tmp_path: Path, session: Any) -> None:
    own = "'A' as type, timestamp_micros(bigint(9000000 + id * 9000000)) as time, 's' as source, id as seq"
    plain = (
        "timestamp'2026-11-22 08:00:00' as at, date'2026-11-22' as day, 'FE02' as room, cast(id as decimal(9,1)) as n"
    )
    for name, columns, values in (
        ("plain", plain, ["2026-11-22 08:00:00.000000Z", "2026-11-22", "FE02", 0]),
        ("struct", f"struct({plain}) as attributes", ["2026-11-22 08:00:00.000000Z", "2026-11-22", "FE02", 0]),
        ("map", "map('at', 'now', 'day', 'Sunday', 'room', 'FE02', 'n', 'zero') as attributes",
         ["now", "Sunday", "FE02", "zero"]),
    ):  # fmt: skip
        folder = tmp_path / name
        session.sql(f"select {own}, {columns} from range(2)").write.parquet(str(folder / "in"))
        stream = session.readStream.schema(session.read.parquet(str(folder / "in")).schema).parquet(str(folder / "in"))
        text = "[A as x] by room -> Out(at = x.at, day = x.day, room = x.room, n = x.n)"
        run_to_end(detect_stream(stream, text, watermark="1s"), folder)
        (found,) = found_in(folder)
        assert list(dict(found[5]).values()) == values, name


def test_values_become_attributes() -> None:
    given = [1, 1.0, True, "1", float("nan"), 2**70, -(10**400), Decimal("3"), Decimal("3.5"),
             datetime(2026, 11, 22, tzinfo=UTC), [1, {"a": None}]]  # fmt: skip
    found = [attribute_of(each) for each in given]
    assert list(map(repr, found)) == list(map(repr, [
        1, 1.0, True, "1", None, float(2**70), -float("inf"), 3, 3.5, "2026-11-22 00:00:00.000000Z", '[1,{"a":null}]'
    ]))  # fmt: skip


def test_invalid_rows_are_rejected_with_reasons(session: Any) -> None:
    good = {"type": "A", "lo": 1, "hi": 2, "source": "s", "seq": 1, "attributes": "{}"}
    bad = [{"type": None}, {"type": ""}, {"lo": 3}, {"hi": None}, {"source": ""}, {"seq": -1}, {"seq": None},
           {"seq": 2**96},
           {"attributes": "{"}, {"attributes": "{'a': 1}"}, {"attributes": "{} {}"}, {"attributes": "[]"},
           {"attributes": '{"a": "\\ud800"}'},
           {"constituents": "[1]"}, {"constituents": f'[["s",{2**96}]]'}, {"constituents": '[["s",-1]]'}]  # fmt: skip
    bad = [each if "seq" not in each or each["seq"] is None else {"seq": Decimal(each["seq"])} for each in bad]
    good["constituents"], good["seq"] = None, Decimal(2**96 - 1)
    schema = "type string, lo long, hi long, source string, seq decimal(38,0), attributes string, constituents string"
    frame = session.createDataFrame([good, *({**good, **each} for each in bad), {**good, "attributes": None},
                                     {**good, "constituents": '[["s",1]]'}], schema)  # fmt: skip
    reasons = [row.distced_reason for row in rejected_rows(frame).collect()]
    assert reasons == ["type", "type", "time", "time", "source", "sequence", "sequence", "sequence"] + [
        "attributes"] * 5 + ["constituents"] * 3  # fmt: skip
    beyond = session.sql("select 'A' as type, timestamp'9999-01-01' as time, 's' as source, 1 as seq")
    assert [row.distced_reason for row in rejected_rows(beyond).collect()] == ["time"]


def test_equal_values_have_one_key(session: Any) -> None:
    own = "type string, lo long, hi long, source string, seq long"
    rows = [("A", 1, 1, "s", seq) for seq in range(6)]
    values = [(3.0, None), (None, 3), (0.0, None), (-0.0, None), (None, 0), (None, None)]
    frame = session.createDataFrame(
        [(*row, *value) for row, value in zip(rows, values, strict=True)], f"{own}, k double, `whole.k` long"
    )
    keys = [row.key for row in frame.select(key_column(columns_of(frame), ["k"]).alias("key")).collect()]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3] == keys[4]
    assert len(set(keys)) == 3
    texts = ['{"k": 3, "l": "a"}', '{"k": 3.0, "l": "a"}', '{"k": "b", "l": null}', '{"k": "b"}', '{"k": "c"}', "{}"]
    frame = session.createDataFrame(
        [(*row, text) for row, text in zip(rows, texts, strict=True)], f"{own}, attributes string"
    )
    keys = [row.key for row in frame.select(key_column(columns_of(frame), ["k", "l"]).alias("key")).collect()]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 4
    # What Spark's own reading of JSON gives up at, or reads otherwise.
    texts = ['{"k": 2}', '{"x": Infinity, "k": 2.0}', '{"k": 1, "k": 2}', '{"k": Infinity}', '{"k": 1e999}', "nothing"]
    frame = session.createDataFrame(
        [(*row, text) for row, text in zip(rows, texts, strict=True)], f"{own}, attributes string"
    )
    keys = [row.key for row in frame.select(key_column(columns_of(frame), ["k"]).alias("key")).collect()]
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] == keys[4]
    assert len(set(keys)) == 3


def test_invalid_streams_are_refused(session: Any) -> None:
    good = session.sql("select 'A' as type, timestamp'2026-11-22' as time, 's' as source, 1 as seq, 1 as k")
    for frame, said in (
        (good.drop("seq"), "name them so.*: seq"),
        (good.withColumn("time", good.time.cast("timestamp_ntz")), "the column 'time'"),
        (good.withColumn("type", good.k), "the column 'type'"),
        (good.selectExpr("*", "array(1) as list"), "the column 'list'"),
    ):
        with pytest.raises(DistcedError, match=said):
            detect_stream(frame, "[A]", watermark="1s")
    for pattern, by, said in (
        ("[A][B] by k", "room", "allowed: k"),
        ("[A][B]", "k", "none: the pattern has no key"),
        ("([A] | ~[B]) by k", "k", "nothing but hidden events"),
    ):
        with pytest.raises(DistcedError, match=said):
            detect_stream(good, pattern, watermark="1s", by=by)
    with pytest.raises(DistcedError, match="does not stream"):
        detect_stream(good, "[A]", watermark="1s")
    with pytest.raises(DistcedError, match="not a duration"):
        detect_stream(good, "[A]", watermark="soon")
