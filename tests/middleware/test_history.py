"""A history keeps what it is given, to the kind of number, and says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

import duckdb
import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from distced.middleware.event_files import read_events
from distced.middleware.history import History, HistoryWriter, events_of_history
from distced.middleware.history.layout import day_of, day_text
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, HOUR
from tests.support.history_form import events, in_order, without_nulls


@pytest.mark.slow
@given(events(), st.data())
@settings(max_examples=100, deadline=None)
def test_history_reads_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, given: list[Event], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("history") / "h"
    writer = HistoryWriter(root, "test")
    cut = data.draw(st.integers(0, len(given)))
    for part in (given[:cut], given[cut:], given[cut:]):
        writer.write(part)
    history = History(root)
    assert not history.problems
    assert history.rows == len(given)
    assert without_nulls(events_of_history(history)) == without_nulls(in_order(given))
    assert history.last == max((each.hi for each in given), default=None)
    begin, end = sorted(data.draw(st.tuples(*[st.integers(-3 * DAY, 3 * DAY)] * 2)))
    wanted = [each for each in given if begin <= each.hi <= end and each.type != "B"]
    found = events_of_history(history, ("A", "Ärger"), begin, end)
    assert without_nulls(found) == without_nulls(in_order(wanted))


def some(count: int = 10, step: int = 7 * HOUR, name: str = "A") -> list[Event]:
    return [Event(name, each * step, each * step, "s", each, {"x": each}) for each in range(count)]


def test_history_has_a_folder_by_day_and_type(tmp_path: Path) -> None:
    declared = event_type("A", {"x": "number", "y": "string"})
    made = HistoryWriter(tmp_path / "h", "test", [declared]).write(some(), 99 * HOUR)
    assert [each.relative_to(tmp_path / "h").parent.as_posix() for each in made] == [
        "day=1970-01-01/type=A", "day=1970-01-02/type=A", "day=1970-01-03/type=A",
    ]  # fmt: skip
    history = History(tmp_path / "h")
    assert [each.rows for each in history.files] == [4, 3, 3]
    first = history.files[0]
    assert first.note.sources == {"s": (4, 0, 3)}
    assert (first.note.lo, first.note.first, first.note.last, first.note.watermark) == (0, 0, 21 * HOUR, 99 * HOUR)
    assert first.event_type == declared
    # Anybody reads it, and each file is a recording by itself.
    files = f"read_parquet('{tmp_path}/h/day=*/type=*/*.parquet', hive_partitioning=true)"
    query = f"select day, type, count(*), sum(x) from {files} group by all order by 1"
    assert [(str(day), *rest) for day, *rest in duckdb.sql(query).fetchall()] == [
        ("1970-01-01", "A", 4, 6), ("1970-01-02", "A", 3, 15), ("1970-01-03", "A", 3, 24),
    ]  # fmt: skip
    assert [each.attributes for each in read_events(made[0])] == [{"x": each, "y": None} for each in range(4)]


def test_same_events_make_the_same_file(tmp_path: Path) -> None:
    one, other = HistoryWriter(tmp_path / "h", "one"), HistoryWriter(tmp_path / "h", "other")
    assert one.write(some()) == one.write(reversed(some()))
    assert not set(one.write(some())) & set(other.write(some()))
    # Each id is read once all the same.
    assert len(list(events_of_history(History(tmp_path / "h")))) == 10


def test_attribute_that_changes_its_kind_has_files_of_its_own(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", "test")
    changing = [Event("A", n, n, "s", n, {"x": value}) for n, value in enumerate([1, "a", None, 2.5, "b"])]
    assert len(writer.write(changing)) == 2
    history = History(tmp_path / "h")
    assert list(events_of_history(history)) == changing
    (change,) = history.changes()
    assert change.error.as_dict()["given"] == "x: string"
    assert change.error.as_dict()["allowed"] == "x: number"


def test_broken_files_are_said_and_the_others_read(tmp_path: Path) -> None:
    made = HistoryWriter(tmp_path / "h", "test").write(some())
    whole = made[0].read_bytes()
    made[0].write_bytes(whole[: len(whole) // 2])
    made[1].write_bytes(b"")
    parquet.write_table(pyarrow.table({"x": [1]}), made[0].with_name("of-others.parquet"))
    (tmp_path / "h" / "day=yesterday" / "type=A").mkdir(parents=True)
    (tmp_path / "h" / "day=yesterday" / "type=A" / "x.parquet").write_bytes(whole)
    (tmp_path / "h" / "day=1970-01-01" / "type=B").mkdir()
    (tmp_path / "h" / "day=1970-01-01" / "type=B" / made[0].name).write_bytes(whole)
    (made[0].parent / ".half.parquet.part").write_bytes(b"half")
    history = History(tmp_path / "h")
    assert [each.path for each in history.files] == made[2:]
    assert {each.where.removesuffix(".parquet")[:33]: each.error.problem for each in history.problems} == {
        f"day=1970-01-01/type=A/{made[0].stem}"[:33]: "a file that cannot be read",
        f"day=1970-01-02/type=A/{made[1].stem}"[:33]: "a file that cannot be read",
        "day=1970-01-01/type=A/of-others": "a Parquet file that no recorder has written",
        "day=yesterday/type=A/x": "not a file of a history",
        f"day=1970-01-01/type=B/{made[0].stem}"[:33]: "a file whose types are not those of its folder",
    }
    assert [each.seq for each in events_of_history(history)] == [7, 8, 9]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("hi", None, "a file without columns that events have: hi"),
        ("hi", [0.5], "a column 'hi' of a kind that events do not have: double"),
        ("x", [[1]], "a column 'x' of a kind that events do not have: list<"),
    ],
)
def test_columns_that_hold_no_events_are_a_problem(
    tmp_path: Path, column: str, values: list[object] | None, message: str
) -> None:
    """Whatever the file notes of itself."""
    (path,) = HistoryWriter(tmp_path / "h", "test").write(some(1))
    table = parquet.read_table(path, partitioning=None)
    metadata = table.schema.metadata
    table = table.drop_columns([column])
    if values is not None:
        table = table.append_column(column, pyarrow.array(values))
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    history = History(tmp_path / "h")
    assert not history.files
    assert message in str(history.problems[0].error)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("day=2026-13-45", "not a file of a history"),
        ("day=12026-01-01", "not a file of a history"),
        ("day=2020-01-01", "a file whose events are not of the day of its folder: 1970-01-01 to 1970-01-01"),
    ],
)
def test_file_in_the_folder_of_another_day_is_a_problem(tmp_path: Path, folder: str, message: str) -> None:
    HistoryWriter(tmp_path / "h", "test").write(some(1))
    (tmp_path / "h" / "day=1970-01-01").rename(tmp_path / "h" / folder)
    history = History(tmp_path / "h")
    assert not history.files
    assert message in str(history.problems[0].error)


@pytest.mark.parametrize("key", [b"distced.types", b"distced.history"])
def test_note_that_is_no_text_is_a_problem(tmp_path: Path, key: bytes) -> None:
    (path,) = HistoryWriter(tmp_path / "h", "test").write(some(1))
    table = parquet.read_table(path, partitioning=None)
    metadata = table.schema.metadata
    metadata[key] = metadata[key].replace(b'"', b'"\xd2', 1)
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    assert "cannot be read" in str(History(tmp_path / "h").problems[0].error)


def test_pages_that_are_broken_show_while_reading(tmp_path: Path) -> None:
    """What the end of a file says is whole, so it shows late."""
    (path,) = HistoryWriter(tmp_path / "h", "test").write(some(5000, 1))
    content = bytearray(path.read_bytes())
    content[100:2000] = bytes(1900)
    path.write_bytes(content)
    problems: list[object] = []
    assert list(events_of_history(History(tmp_path / "h"), on_problem=problems.append)) == []
    assert len(problems) == 1


def test_changed_byte_is_reported_and_not_read(tmp_path: Path) -> None:
    texts = [Event("A", n, n, "s", n, {"x": chr(300 + 7 * n) * 3}) for n in range(200)]
    (path,) = HistoryWriter(tmp_path / "h", "test").write(texts)
    whole = path.read_bytes()
    begin = parquet.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    end = max(
        column.data_page_offset + column.total_compressed_size
        for column in map(parquet.read_metadata(path).row_group(0).column, range(6))
    )
    for place in range(begin, min(end, len(whole) - 12), 97):
        content = bytearray(whole)
        content[place] ^= 128
        path.write_bytes(content)
        history, problems = History(tmp_path / "h"), []
        found = list(events_of_history(history, on_problem=problems.append))
        assert found == texts or problems or history.problems


def test_days_without_files_are_listed(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", "test")
    assert History(tmp_path / "h").missing_days() == []
    writer.write([Event("A", day * DAY, day * DAY, "s", day, {}) for day in (-2, 0, 3)])
    assert History(tmp_path / "h").missing_days() == ["1969-12-31", "1970-01-02", "1970-01-03"]


def test_watermark_reaches_to_the_last_event_or_recorder(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", "test")
    assert History(tmp_path / "h").until() is None
    writer.write(some())
    assert [History(tmp_path / "h").until(each) for each in (None, ["A"], ["C"])] == [63 * HOUR] * 3
    writer.note(["A"], 100 * HOUR)
    HistoryWriter(tmp_path / "h", "other").note(["B"], 200 * HOUR)
    history = History(tmp_path / "h")
    assert [history.until(), history.until(["A"]), history.until(["C"])] == [200 * HOUR, 100 * HOUR, 63 * HOUR]
    for content in (b"{", b'{"types": ["\xd2"]}'):
        (tmp_path / "h" / "recorders" / "other.json").write_bytes(content)
        assert [each.where for each in History(tmp_path / "h").problems] == ["recorders/other.json"]


def test_replaced_files_are_left_out(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", "test")
    old = writer.write(some(3, 1)) + writer.write(some(6, 1)[3:])
    table = pyarrow.concat_tables([parquet.read_table(each) for each in old], promote_options="default")
    new = writer.write_table("1970-01-01", History(tmp_path / "h").types["A"], table, None, [each.name for each in old])
    assert [each.path for each in History(tmp_path / "h").files] == [new]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no history here"),
        (b"{", "cannot be read"),
        (b'{"format": "\xd2"}', "cannot be read"),
        (json.dumps({"version": 3}).encode(), "of a later version"),
    ],
)
def test_folder_that_is_no_history_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "history.json").write_bytes(content)
    with pytest.raises(HistoryError, match=message):
        History(tmp_path)


def test_file_in_place_of_a_history_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(HistoryError, match=r"a file where a history should be: .*thesis.tex"):
        History(tmp_path / "thesis.tex")
    with pytest.raises(HistoryError, match="needs a folder of its own"):
        HistoryWriter(tmp_path / "thesis.tex", "test")
    with pytest.raises(HistoryError, match=r"no folder for a history can be made here: .*thesis.tex/h"):
        HistoryWriter(tmp_path / "thesis.tex" / "h", "test")


def test_small_files_are_on_the_disk_before_they_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(HistoryError, match="no space left"):
        HistoryWriter(tmp_path / "h", "test")
    assert not (tmp_path / "h" / "history.json").exists()


def test_two_writers_can_make_a_history_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second finds what the first has made, and not a folder of somebody else."""
    real, root = Path.iterdir, tmp_path / "h"
    root.mkdir()

    def looked_at(path: Path) -> Any:
        monkeypatch.setattr(Path, "iterdir", real)
        HistoryWriter(root, "first").note(["A"], 1)
        return real(path)

    monkeypatch.setattr(Path, "iterdir", looked_at)
    HistoryWriter(root, "second").note(["A"], 2)
    assert History(root).recorders.keys() == {"first", "second"}


def test_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(HistoryError, match="needs a folder of its own"):
        HistoryWriter(tmp_path, "test")
    with pytest.raises(HistoryError, match="not a name for a recorder"):
        HistoryWriter(tmp_path / "h", "../up")


def test_days_begin_at_midnight_in_utc() -> None:
    assert [day_of(each) for each in (-1, 0, DAY - 1, DAY)] == ["1969-12-31", "1970-01-01", "1970-01-01", "1970-01-02"]
    assert day_text(-719_162) == "0001-01-01"


def test_bit_that_has_changed_is_noticed(tmp_path: Path) -> None:
    """It may be in a value, which then is another value, and nothing else is wrong."""
    events = [Event("A", n, n, "s", n, {"v": n % 7 / 2, "text": f"t{n % 9}"}) for n in range(200)]
    (path,) = HistoryWriter(tmp_path / "h", "test").write(events)
    content = path.read_bytes()
    (whole,) = History(tmp_path / "h").files
    noticed = 0
    for place in range(0, len(content), 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        history = History(tmp_path / "h")
        problems = list(history.problems)
        found = list(events_of_history(history, on_problem=problems.append))
        assert problems or (found == events and history.files[0].event_type == whole.event_type), place
        assert problems or history.files[0].note == whole.note, place
        noticed += bool(problems)
    assert noticed > len(content) // 13 * 2 // 3
