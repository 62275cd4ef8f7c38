"""Runs over tables and files read as columns: the same results as row by row, for sound and for damaged recordings."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from distced.detectors.batch_run.runner import Replay, compiled_patterns
from distced.middleware.event_files import events_of_table, read_events, write_events
from distced.middleware.event_files.reader import EventReader
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.history import HistoryReader
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND, format_instant

pa = pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")

PATTERNS = (
    "[A as a] ; [B as b where x != a.x] -> Pair(x = b.x, room = a.room)",
    "[Pair] ; [Pair as p] -> Twice(room = p.room, x = p.x)",
    "([A], [T <= {T, B}]) @ T = 3s -> Alone()",
)


@pytest.fixture(autouse=True)
def small_files_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", 0)


def results(reader: EventReader, source: Any) -> dict[str, Any]:
    """All that a run gives: composite events with their constituents, counts, and rejected rows with reasons."""
    reported: list[object] = []
    reader.on_rejected = lambda each: reported.append(each.where)
    replay = Replay(compiled_patterns(list(PATTERNS), None), source)
    try:
        found = list(replay)
    except DistcedError as error:
        return {"found": [], "rejected": [], "error": str(error)}
    rejected = [
        (each.where, each.rule, each.reason, each.error.as_dict(), repr(each.given)) for each in reader.rejected
    ]
    return {
        "found": [repr(each) for each in found],
        "counts": replay.counts,
        "rows": +reader.counts,
        "rejected": rejected,
        "reported": reported,
        "types": reader.types,
        "mapping": None if reader.mapping is None else dict(reader.mapping.counts),
    }


def assert_alike(make: Any) -> dict[str, Any]:
    """The results by columns, which must be those row by row."""
    by_columns, by_rows = make(), make()
    found = results(by_columns, by_columns)
    expected = results(by_rows, iter(by_rows))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name
    return found


def cell(random: Random, damage: float) -> str:
    if random.random() < damage:
        return random.choice(["", "nan", " 7", "1e3", "+5", "x", "0x1F", "99999999999999999999", "1_0", "٣", "-0.0"])
    return random.choice([str(random.randrange(5)), f"{random.randrange(5)}.0", f"{random.random():.3f}", "", "7"])


def instant(random: Random, at: int, damage: float) -> str:
    if random.random() < damage:
        return random.choice(["", "yesterday", "2026-02-30T00:00:00Z", "-", "1e9", "99999999999999999999", "٣"])
    text = format_instant(at)
    spelt = [str(at), text, text.removesuffix("Z"), text.replace("Z", "+00:00"), text.replace("T", " ")]
    return random.choice([*spelt, text.replace("Z", "+01:00")])


def csv_text(random: Random, rows: int, damage: float) -> bytes:
    """A recording in the native form, with damages of every kind at some rate."""
    interval, seq, source = (random.random() < 0.5 for _ in range(3))
    room = random.choice(["room", "room:string", "attributes.source"])
    heading = ["type", *(("lo", "hi") if interval else ("time",)), *(("source",) if source else ()),
               *(("seq",) if seq else ()), random.choice(["x", "x:number"]), room, "ok"]  # fmt: skip
    lines = [",".join(heading)]
    at = 10**18
    for number in range(rows):
        at += random.choice([0, 1, SECOND, 2 * SECOND, -SECOND])
        times = [instant(random, at, damage)]
        if interval:
            times.append(instant(random, at + random.randrange(-1 if damage else 0, 3), damage))
        cells = [random.choice(["A", "B", "B", "C"]) if random.random() > damage else random.choice(["", "1x"]), *times]
        cells += [random.choice(["s", "t", ""])] if source else []
        cells += (
            [str(number // 2 if random.random() < 0.1 else number) if random.random() > damage else "q"] if seq else []
        )
        rooms = ["FE02", '"FE,02"', '"a ""b"""', "", "é"]
        cells += [cell(random, damage), random.choice(rooms), random.choice(["true", "False", ""])]
        if random.random() < damage:
            cells = random.choice([cells[:-1], [*cells, "more"], ['"open', *cells[1:]], [*cells[:-1], 'a"b'], []])
        lines.append(",".join(cells) + random.choice(["", "\r"]))
    return ("\n".join(lines) + random.choice(["", "\n", "\n\n"])).encode()


@pytest.mark.parametrize("damage", [0.0, 0.05, 0.3])
def test_csv_by_columns_is_csv_by_rows(damage: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    composite = rejected = 0
    for seed in range(16):
        random = Random(seed)
        text = csv_text(random, random.randrange(80), damage)
        path = tmp_path / "events.csv"
        if random.random() < 0.5:
            place = random.randrange(len(text))
            text = text[:place] + random.choice([b"\xff", b"\r", b"\0", b'"']) * (damage > 0) + text[place:]
        path.write_bytes(text)
        monkeypatch.setattr("distced.middleware.event_files.csv_blocks.BLOCK", random.choice([50, 400, 10**6]))
        # All in memory, or all in files.
        monkeypatch.setattr("distced.middleware.event_files.kept_tables.IN_MEMORY", random.choice([0, 10**9]))
        found = assert_alike(lambda path=path: read_events(path))
        composite += len(found["found"])
        rejected += len(found["rejected"])
    assert composite > 40
    assert rejected > 20 or not damage


def table_of_random(random: Random, rows: int, damage: float) -> Any:
    """A table in memory with columns of several types."""
    at, times, intervals = 10**18, [], []
    for _ in range(rows):
        at += random.choice([0, 1, SECOND, 2 * SECOND])
        times.append(None if random.random() < damage else at)
        intervals.append((at, at + random.randrange(-1 if damage else 0, 3)))
    kinds = [pa.int64(), pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin"), pa.float64(), pa.string()]
    kind = random.choice(kinds)
    cells = [value // 10**9 if kind == pa.float64() and value is not None else value for value in times]
    if kind == pa.string():
        cells = [None if value is None else instant(random, value, damage) for value in times]
    columns = {
        "type": pa.array(
            [random.choice(["A", "B", None if damage else "C", "1" if damage else "C"]) for _ in range(rows)]
        ),
        **(
            {"time": pa.array(cells, kind)}
            if random.random() < 0.7
            else {"lo": pa.array([lo for lo, _ in intervals]), "hi": pa.array([hi for _, hi in intervals])}
        ),
        "x": random.choice(
            [
                pa.array([random.choice([1, 2, None]) for _ in range(rows)], pa.int64()),
                pa.array([random.choice([1.0, 2.5, float("nan"), None]) for _ in range(rows)], pa.float64()),
                pa.array([random.choice([1, 2**63 + 5 * (damage > 0), None]) for _ in range(rows)], pa.uint64()),
                pa.array([random.choice([True, False, None]) for _ in range(rows)], pa.bool_()),
                pa.array([random.choice(["1", "", None]) for _ in range(rows)], pa.large_string()),
                pa.nulls(rows),
            ]
        ),
        "room": random.choice(
            [
                pa.array([random.choice(["FE02", "", None]) for _ in range(rows)], pa.string()).dictionary_encode(),
                pa.array([random.choice([10**9, None]) for _ in range(rows)], pa.timestamp("ms", "UTC")),
                pa.array([random.choice([5, None]) for _ in range(rows)], pa.date32()),
                pa.array([[1] if random.random() < damage else None for _ in range(rows)], pa.list_(pa.int64())),
            ]
        ),
    }
    if random.random() < 0.5:
        columns["source"] = pa.array([random.choice(["s", "t", "", None]) for _ in range(rows)], pa.string())
        whole = [-1 if random.random() < damage else random.choice([None, each // 2]) for each in range(rows)]
        fractions = [random.choice([float(each), 0.5 if damage else None]) for each in range(rows)]
        columns["seq"] = random.choice([pa.array(whole, pa.int64()), pa.array(fractions, pa.float64())])
    return pa.table(columns)


@pytest.mark.parametrize("damage", [0.0, 0.2])
def test_table_by_columns_is_table_by_rows(damage: float, tmp_path: Path) -> None:
    from pyarrow import parquet

    composite = rejected = 0
    for seed in range(24):
        random = Random(seed)
        table = table_of_random(random, random.randrange(60), damage)
        found = assert_alike(lambda table=table: events_of_table(table))
        composite += len(found["found"])
        rejected += len(found["rejected"])
        parquet.write_table(table, tmp_path / "events.parquet")
        assert_alike(lambda: read_events(tmp_path / "events.parquet"))
    assert composite > 40
    assert rejected > 20 or not damage


def test_later_rows_change_the_kind_of_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.csv_blocks.BLOCK", 40)
    rows = [f"{'AB'[at % 2]},{at}000000000,{at},true" for at in range(20)]
    rows += ["A,x,1,true", "A,21000000000,cold,true", "B,22000000000,3,", "A,y,1,true", "A,23000000000,1,maybe"]
    path = tmp_path / "events.csv"
    path.write_text("\n".join(["type,time,x,room", *rows]), encoding="utf-8")
    found = assert_alike(lambda: read_events(path))
    assert len(found["rejected"]) == 2
    assert {each.attributes["x"] for each in found["types"]} == {"string"}


def test_composite_events_and_wide_ids_are_read_row_by_row(tmp_path: Path) -> None:
    events: list[Event] = [
        CompositeEvent("A", 1, 2, "c1", 2**90 + number, {"x": number, "room": None}, constituents=(("s", 1), ("t", 2)))
        for number in range(3)
    ]
    events += [
        events[0],
        Event("B", 3, 3, "s", 4, {"x": 1.0, "room": "q"}),
        Event("B", 4, 4, "s", 2**63 - 1, {"x": 7, "room": "q"}),
    ]
    for name in ("events.csv", "events.parquet", "events.jsonl"):
        write_events(events, tmp_path / name)
        found = assert_alike(lambda name=name: read_events(tmp_path / name))
        assert found["counts"].repeated == 1
        assert found["found"]


@pytest.mark.parametrize("damaged", [False, True])
def test_history_by_columns_is_history_by_rows(damaged: bool, tmp_path: Path) -> None:
    random = Random(3)
    at, events = 10**18, []
    for number in range(300):
        at += random.choice([0, SECOND, 600 * SECOND])
        kind = random.choice("ABC")
        events.append(Event(kind, at, at, f"s{number % 3}", number, {"x": random.randrange(4), "room": "FE02"}))
    writer = HistoryWriter(tmp_path / "h", "test")
    writer.write(events[:200])
    writer.write(events[150:])
    if damaged:
        for path in sorted((tmp_path / "h").glob("day=*/type=*/*.parquet"))[-1:]:
            data = bytearray(path.read_bytes())
            data[len(data) // 4] ^= 0xFF
            path.write_bytes(bytes(data))
    found = assert_alike(lambda: HistoryReader(History(tmp_path / "h")))
    assert found["found"]
    assert bool(found["rejected"]) is damaged


def test_full_temporary_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = tmp_path / "events.jsonl"
    recording.write_text("".join(f'{{"type": "A", "time": {at}, "source": "s", "seq": {at}}}\n' for at in range(9)))
    monkeypatch.setattr("distced.middleware.event_files.kept_tables.IN_MEMORY", 0)
    # A folder that cannot be written to, for any user.
    monkeypatch.setattr("tempfile.tempdir", str(recording))
    with pytest.raises(DistcedError, match="temporary folder") as caught:
        list(Replay(compiled_patterns(["[A]"], None), read_events(recording)))
    assert "TMPDIR" in str(caught.value)
