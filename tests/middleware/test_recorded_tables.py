"""Recorded events in Parquet files and in tables of Arrow, pandas and polars."""

from __future__ import annotations

import gzip
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from distced.middleware.event_files import events_of_table, read_events, write_events
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
pandas = pytest.importorskip("pandas", reason="needs pandas")
polars = pytest.importorskip("polars", reason="needs polars")
parquet = pytest.importorskip("pyarrow.parquet")

DATA: dict[str, list[Any]] = {
    "t": [datetime(2026, 11, 21, 8, 0, 0, 250_000), datetime(2026, 11, 21, 8, 1), datetime(2026, 11, 21, 8, 2)],
    "room": ["a", "b", "a"],
    "co2": [400.5, None, 410.0],
    "pir": [True, False, None],
}
READINGS = parse_mapping(
    """
    [[rule]]
    type = "Reading"
    source = "room-{room}"
    time = {path = "t", timezone = "Europe/Berlin"}
    attributes = {co2 = "number", pir = "boolean"}
    """
)
EIGHT = 1_795_244_400 * 10**9  # 8 o'clock in Berlin
EXPECTED = [
    Event("Reading", EIGHT + 250_000_000, EIGHT + 250_000_000, "room-a", 0, {"co2": 400.5, "pir": True}),
    Event("Reading", EIGHT + 60 * 10**9, EIGHT + 60 * 10**9, "room-b", 0, {"co2": None, "pir": False}),
    Event("Reading", EIGHT + 120 * 10**9, EIGHT + 120 * 10**9, "room-a", 1, {"co2": 410.0, "pir": None}),
]


def arrow() -> Any:
    return pyarrow.table(DATA)


def chunked() -> Any:
    return pyarrow.concat_tables([arrow().slice(0, 1), arrow().slice(1)])


def coded() -> Any:
    return arrow().set_column(1, "room", arrow()["room"].dictionary_encode())


def frame() -> Any:
    return pandas.DataFrame(DATA)


def filtered_frame() -> Any:
    """Its index, no range any more, becomes a column of the Arrow table, which is nobody's attribute."""
    whole = pandas.DataFrame({name: [values[0], *values] for name, values in DATA.items()})
    return whole[whole.index > 0]


def polars_frame() -> Any:
    return polars.DataFrame(DATA)


@pytest.mark.parametrize("make", [arrow, chunked, coded, frame, filtered_frame, polars_frame])
def test_table_is_read_with_a_mapping(make: Any) -> None:
    reader = events_of_table(make(), READINGS, name="readings")
    for _ in range(2):
        assert list(reader) == EXPECTED
    assert reader.types == (event_type("Reading", {"co2": "number", "pir": "boolean"}),)


@pytest.mark.parametrize("make", [arrow, frame, filtered_frame, polars_frame])
def test_table_is_read_in_the_native_form(make: Any) -> None:
    table = make()
    if isinstance(table, pyarrow.Table):
        table = table.rename_columns(["time", "source", "co2", "pir"]).append_column("type", [["E"] * 3])
    elif isinstance(table, pandas.DataFrame):
        table = table.rename(columns={"t": "time", "room": "source"}).assign(type="E")
    else:
        table = table.rename({"t": "time", "room": "source"}).with_columns(type=polars.lit("E"))
    reader = events_of_table(table)
    base = EIGHT + 3600 * 10**9  # without a zone, UTC
    assert [(each.lo, each.source, each.seq, each.attributes) for each in reader] == [
        (base + 250_000_000, "a", 0, {"co2": 400.5, "pir": True}),
        (base + 60 * 10**9, "b", 0, {"co2": None, "pir": False}),
        (base + 120 * 10**9, "a", 1, {"co2": 410.0, "pir": None}),
    ]
    assert not reader.rejected
    assert reader.types == (event_type("E", {"co2": "number", "pir": "boolean"}),)


COLUMNS = [
    # an Arrow column of times, and what it is in nanoseconds
    (pyarrow.array([datetime(1970, 1, 1, 0, 0, 1)], pyarrow.timestamp("s")), 10**9),
    (pyarrow.array([1], pyarrow.timestamp("ns")), 1),
    (pyarrow.array([1], pyarrow.timestamp("ns", "UTC")), 1),
    (pyarrow.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pyarrow.timestamp("us", "+02:00")), 10**9),
    (pyarrow.array([date(1970, 1, 2)]), 86_400 * 10**9),
    (pyarrow.array([7], pyarrow.int32()), 7),
    (pyarrow.array([7], pyarrow.uint64()), 7),
    (pyarrow.array([7.0]), 7),
    (pyarrow.array([Decimal(7)]), 7),
    (pyarrow.array(["1970-01-01T00:00:01Z"]), 10**9),
    (pyarrow.array([7], pyarrow.duration("ns")), 7),
]


@pytest.mark.parametrize(("column", "instant"), COLUMNS)
def test_column_of_times_is_read_as_text(column: Any, instant: int) -> None:
    (event,) = events_of_table(pyarrow.table({"type": ["E"], "time": column}))
    assert (event.lo, event.hi, type(event.lo)) == (instant, instant, int)


def test_bad_row_of_a_table_is_rejected() -> None:
    table = pyarrow.table(
        {"type": ["E", "E", None, "E"], "lo": [1, 5, 1, 3], "hi": [2, 4, 1, 3], "a": [[1], [], [], None]}
    )
    reader = events_of_table(table, name="readings")
    assert [each.lo for each in reader] == [3]
    assert [each.where for each in reader.rejected] == ["readings, row 1", "readings, row 2", "readings, row 3"]


def test_instant_that_a_float_cannot_hold_is_rejected() -> None:
    reader = events_of_table(pyarrow.table({"type": ["E", "E"], "time": [1.7e18, 5.5]}))
    assert list(reader) == []
    assert len(reader.rejected) == 2


def test_nan_is_null() -> None:
    (event,) = events_of_table(pyarrow.table({"type": ["E"], "time": [1], "x": [float("nan")]}))
    assert event.attributes == {"x": None}


@pytest.mark.parametrize("given", [[1, 2], None, "events.csv"])
def test_object_that_is_no_table_is_an_error(given: object) -> None:
    with pytest.raises(EventError, match=r"not a table.*pandas .* polars"):
        events_of_table(given)


def test_frame_that_arrow_cannot_hold_is_an_error() -> None:
    with pytest.raises(EventError, match="a table that Arrow cannot hold"):
        events_of_table(pandas.DataFrame({"x": [1, "a", object()]}))


@pytest.mark.parametrize("name", ["r.parquet", "r.parquet.gz"])
def test_parquet_file_is_read_with_a_mapping(tmp_path: Path, name: str) -> None:
    path = tmp_path / "r.parquet"
    parquet.write_table(arrow(), path)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_events(tmp_path / name, READINGS)) == EXPECTED


def test_parquet_file_of_others_is_read_in_the_native_form(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"type": ["E", "F"], "time": [1, 2], "x": [1.5, None], "y": ["a", "b"]}), path)
    reader = read_events(path)
    assert [each.attributes for each in reader] == [{"x": 1.5, "y": "a"}, {"y": "b"}]
    assert reader.types == (event_type("E", {"x": "number", "y": "string"}), event_type("F", {"y": "string"}))


def test_parquet_file_notes_its_types(tmp_path: Path) -> None:
    """An attribute that is null throughout stays one, and the types are known without reading the rows."""
    path = tmp_path / "events.parquet"
    events = [Event("A", 0, 0, "s", 0, {"x": None, "y": "a"}), Event("B", 1, 1, "s", 1, {"z": True})]
    write_events(events, path)
    reader = read_events(path)
    assert reader.types == (event_type("A", {"x": "number", "y": "string"}), event_type("B", {"z": "boolean"}))
    assert list(reader) == events


def test_file_that_is_no_parquet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(EventError, match="not something Parquet can do"):
        list(read_events(path))


@pytest.mark.parametrize("values", [[2**60 + 1, 0.5], [3, 3.0], [None, 1, -0.0], [float("inf"), 2**63 - 1, None]])
def test_whole_numbers_among_fractions_stay_whole(tmp_path: Path, values: list[float | None]) -> None:
    """3 and 3.0 are equal and have different digests, so composite events would have other ids."""
    events = [Event("A", 0, 0, "s", seq, {"x": value, "lo": value}) for seq, value in enumerate(values)]
    write_events(events, tmp_path / "events.parquet")
    read = list(read_events(tmp_path / "events.parquet"))
    assert read == events
    assert [type(each.attributes["x"]) for each in read] == [type(value) for value in values]


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for action in (
        lambda: read_events(tmp_path / "events.parquet"),
        lambda: write_events([], tmp_path / "events.parquet"),
        lambda: events_of_table(object()),
    ):
        with pytest.raises(EventError, match=r"need pyarrow.*distced\[tables\]"):
            action()


def test_nothing_heavy_is_imported_for_other_files() -> None:
    heavy = {"pyarrow", "pandas", "polars", "numpy"}
    code = f"import sys, distced.middleware.event_files; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rejected_row_of_a_polars_table_read_as_columns_has_its_reason() -> None:
    reader = events_of_table(polars.DataFrame({"type": ["A", "", "A"], "time": [1, 2, 3]}))
    assert [len(chunk) for chunk in reader.chunks()] == [2]
    (rejected,) = reader.rejected
    assert rejected.where == "table, row 2"
    assert "a row without a type" in str(rejected.error)
