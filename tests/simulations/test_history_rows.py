"""Rows of a history that are no events: a run, replay in every way and `ls` leave out the same ones, and say so."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
from pyarrow import parquet

from distced.detectors.batch_run.runner import Replay
from distced.detectors.cli.run import run
from distced.detectors.compiler import Compiled
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.cli.history import ls
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.contents import history_report
from distced.middleware.history.history import HistoryReader
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.history.row_check import check_rows
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY, MINUTE
from distced.simulations.replay.cli import replay
from distced.simulations.replay.plan import WAYS
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import Inline
from tests.support.replay_runs import seen

PATTERN = "[A as x] ; [B where v > 2] ; [A] within 30min by k -> Three(k = x.k)"
"""One that every way of cutting can replay."""


def patterns() -> tuple[Compiled, ...]:
    return compile_source(PatternSource(PATTERN, "pattern"), None).compiled


def some_events(count: int = 900) -> list[Event]:
    random, made = Random(3), []
    for seq in range(count):
        hi = 5 * DAY + random.randrange(2 * DAY)
        attributes = {"k": random.choice("ab"), "v": random.choice((1, 2.5, 3))}
        made.append(Event(random.choice("AB"), hi - random.choice((0, MINUTE)), hi, "s", seq, attributes))
    return made


def changed(file: HistoryFile, change: Callable[[list[dict[str, Any]]], None], **kinds: Any) -> None:
    """Write a file again, as another program would, with other rows or kinds of columns."""
    table = parquet.read_table(file.path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    columns = {name: [row[name] for row in rows] for name in table.schema.names}
    made = {
        name: pyarrow.array(values, kinds.get(name, table.schema.field(name).type)) for name, values in columns.items()
    }
    # Several row groups, as in a long file.
    noted = pyarrow.table(made).replace_schema_metadata(table.schema.metadata)
    parquet.write_table(noted, file.path, row_group_size=50, write_page_checksum=True)


def put(name: str, value: object, *rows: int) -> Callable[[list[dict[str, Any]]], None]:
    def change(given: list[dict[str, Any]]) -> None:
        for row in rows:
            given[row][name] = value

    return change


def texts(rows: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rows):
        row["k"] = number if number in (7, 9) else None


def swap(rows: list[dict[str, Any]]) -> None:
    for row in (3, 40):
        rows[row]["lo"] = rows[row]["hi"] + 5


DAMAGE: dict[str, tuple[str, int, Callable[[list[dict[str, Any]]], None], dict[str, Any]]] = {
    "interval": ("a timestamp with lo > hi", 2, swap, {}),
    "no lo": ("an event without a time", 2, put("lo", None, 3, 60), {}),
    "no hi": ("an event without a time", 2, put("hi", None, 3, 60), {}),
    "no type": ("a row without a type", 1, put("type", None, 8), {}),
    "other type": ("a row of another type than its file", 1, put("type", "B", 8), {}),
    "no number": ("an event without a sequence number", 2, put("seq", None, 0, 1), {}),
    "negative number": ("not a sequence number", 1, put("seq", -3, 5), {}),
    "no source": ("an event without a source", 1, put("source", None, 5), {}),
    "days beyond": ("an instant outside its file", 1, put("hi", 9 * DAY, 5), {}),
    "days before": ("a timestamp with lo > hi", 1, put("hi", 0, 5), {}),
    "kind": ("a value of another kind in the column 'k'", 2, texts, {"k": pyarrow.int64()}),
    "id": ("an id that another event has", 1, lambda rows: rows[20].update(seq=rows[4]["seq"]), {}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_all_leave_out_the_same_rows(tmp_path: Path, damage: str) -> None:
    problem, count, change, kinds = DAMAGE[damage]
    root = tmp_path / "h"
    HistoryWriter(root, "test").write(some_events())
    history = History(root)
    assert all(each.checked for each in history.files)
    (damaged, *_) = (each for each in history.files if each.type == "A")
    changed(damaged, change, **kinds)
    history = History(root)
    where = damaged.path.relative_to(root).as_posix()

    report = history_report(history)
    assert [(each["problem"], each["where"].partition(",")[0]) for each in report.problems] == [(problem, where)]
    assert report.rejected == count
    assert report.rows == sum(day.rows for day in report.days) == 900 - count

    reader = HistoryReader(history)
    expected = seen(list(Replay(patterns(), reader, engine="stepwise")))
    assert {each.error.problem for each in reader.rejected} == {problem}
    assert (reader.counts["rejected"], len(reader.rejected)) == (count, count)
    assert reader.counts["event"] == 900 - count
    assert expected

    for way in WAYS:
        made = HistoryReplay(patterns(), history, tmp_path / way, cores=2, least=100, way=way)
        made.perform(Inline())
        assert seen(list(made)) == expected, way
        (said,) = (each for each in made.problems if each.where == where)
        assert (said.error.problem, said.rows, made.rejected) == (problem, count, count), way


def written(root: Path, *groups: Sequence[Event]) -> History:
    for number, events in enumerate(groups):
        HistoryWriter(root, f"r{number}").write(events)
    return History(root)


def test_event_in_two_files_is_one_event(tmp_path: Path) -> None:
    """As two recorders of one stream write it, one of which met fractions besides whole numbers."""
    events = [Event("A", n, n, "s", n, {"x": n, "t": f"t{n}", "none": None}) for n in range(9)]
    more = Event("A", 20, 20, "s", 20, {"x": 0.5, "t": "", "none": 1.5})
    check = check_rows(written(tmp_path, events, [*events[3:], more]).files)
    assert check.rejected == ()


@pytest.mark.parametrize(
    "change",
    [{"x": 3.0}, {"x": None}, {"t": "x"}, {"more": 1}],
)
def test_id_on_two_different_events_is_rejected(tmp_path: Path, change: dict[str, Any]) -> None:
    """Of the same instant, or of another day and type; the first in the order of consumption counts."""
    event = Event("A", 5, 5, "s", 3, {"x": 3, "t": "t"})
    other = Event("A", 5, 5, "s", 3, {**event.attributes, **change})
    history = written(tmp_path / "same", [event], [other])
    ((path, rows),) = check_rows(history.files).rows.items()
    assert (path, list(rows)) == (history.files[1].path, [0])
    later = Event("B", DAY, DAY, "s", 3, {})
    history = written(tmp_path / "later", [later], [event])
    ((path, _),) = check_rows(history.files).rows.items()
    assert path.parent.name == "type=B"
    # It is said where only the other type is read, too.
    (of_b,) = (each for each in history.files if each.type == "B")
    (rejected,) = check_rows([of_b], history.files).rejected
    assert "there it is type A" in rejected.error("x").given  # type: ignore[operator]


def test_composite_events_are_compared_by_their_constituents(tmp_path: Path) -> None:
    one = CompositeEvent("P", 1, 2, "c1", 2**80, {}, constituents=(("s", 1),))
    other = CompositeEvent("P", 1, 2, "c1", 2**80, {}, constituents=(("s", 2),))
    assert not check_rows(written(tmp_path / "same", [one], [one]).files).rejected
    history = written(tmp_path / "other", [one], [other])
    assert len(check_rows(history.files)) == 1
    changed(history.files[0], put("constituents", "[[1]]", 0))
    (rejected, *_) = check_rows(History(tmp_path / "other").files).rejected
    assert rejected.reason.problem == "not a list of constituents"


def test_nan_reads_as_null(tmp_path: Path) -> None:
    root = tmp_path / "h"
    events = [Event("A", n, n, "s", n, {"v": float(n)}) for n in range(5)]
    HistoryWriter(root, "test").write(events)
    changed(History(root).files[0], put("v", float("nan"), 2))
    given = compile_source(PatternSource("[A as x where v == null or v > 3] -> P(v = x.v)", "p"), None).compiled
    expected = list(Replay(given, HistoryReader(History(root)), engine="stepwise"))
    for engine in ("stepwise", "columnar"):
        made = HistoryReplay(given, History(root), tmp_path / engine, cores=1, engine=engine)
        made.perform(Inline())
        assert seen(list(made)) == seen(expected)
    assert [each.attributes for each in expected] == [{"v": None}, {"v": 4.0}]


def test_more_rejected_rows_than_are_kept_are_counted(tmp_path: Path) -> None:
    HistoryWriter(tmp_path, "test").write([Event("A", n, n, "s", n, {}) for n in range(3000)])
    changed(History(tmp_path).files[0], lambda rows: [row.update(seq=None) for row in rows[:1500]] and None)
    reader = HistoryReader(History(tmp_path))
    assert len(list(reader)) == reader.counts["event"] == 1500
    assert (reader.counts["rejected"], len(reader.rejected)) == (1500, 1000)


@pytest.mark.parametrize("as_columns", [False, True])
def test_part_of_a_history_is_read_without_the_rest(tmp_path: Path, as_columns: bool) -> None:
    events = [Event("A", n, n, "s", n // DAY, {}) for n in range(0, 5 * DAY, DAY)]
    HistoryWriter(tmp_path, "test").write(events)
    first, *_ = sorted(tmp_path.glob("day=*/type=A/*"))
    reader = HistoryReader(History(tmp_path))
    first.write_bytes(b"")
    part = reader.between(DAY + 1, 3 * DAY)
    count = sum(map(len, part.chunks())) if as_columns else len(list(part))
    assert (count, part.counts["event"], part.is_incomplete) == (2, 2, False)
    assert len(list(reader)) == 4 and reader.is_incomplete


def test_row_group_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    root = tmp_path / "h"
    HistoryWriter(root, "test").write(some_events())
    damaged = next(each for each in History(root).files if each.type == "A")
    changed(damaged, lambda _: None)
    metadata = parquet.read_metadata(damaged.path)
    column = metadata.row_group(1).column(metadata.schema.to_arrow_schema().get_field_index("hi"))
    content = bytearray(damaged.path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size // 2] ^= 255
    damaged.path.write_bytes(content)
    history = History(root)
    reader = HistoryReader(history)
    expected = seen(list(Replay(patterns(), reader, engine="stepwise")))
    assert reader.counts["event"] == 850
    for way in WAYS:
        made = HistoryReplay(patterns(), history, tmp_path / way, cores=2, least=100, way=way)
        made.perform(Inline())
        assert seen(list(made)) == expected, way
        assert [each.rows for each in made.problems if "cannot be read" in str(each.error)] == [50], way


def test_verbs_end_with_1_where_rows_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "h"
    HistoryWriter(root, "test").write(some_events())

    def ends() -> list[int]:
        for each in tmp_path.glob("*.jsonl"):
            each.unlink()
        return [
            ls(path=root, as_json=True),
            run(pattern=PATTERN, recording=root, out=tmp_path / "run.jsonl", as_json=True),
            replay(PATTERN, root, master="inline", out=tmp_path / "replay.jsonl", as_json=True),
        ]

    assert ends() == [0, 0, 0]
    # A column that comes or goes is a remark.
    HistoryWriter(root, "more").write([Event("A", 6 * DAY, 6 * DAY, "t", 1, {"k": "a", "v": 1, "w": 1})])
    assert ends() == [0, 0, 0]
    changed(History(root).files[0], put("lo", None, 3))
    assert ends() == [1, 1, 1]
    assert capsys.readouterr().out.count("an event without a time") == 3
    History(root).files[0].path.write_bytes(b"")
    assert ends() == [1, 1, 1]
