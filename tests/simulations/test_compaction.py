"""A history holds the same events in fewer files, whatever becomes of who puts them together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from distced.detectors.batch_run.runner import Replay
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.event_files import read_events
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.contents import history_report
from distced.middleware.history.retention import lies_before
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY
from distced.simulations.ingest.cli import compact, history
from distced.simulations.ingest.compaction import Compaction
from distced.simulations.ingest.recordings import alone
from distced.simulations.replay.plan import WAYS
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import Inline
from tests.support.fault_injection import Broken, Faults
from tests.support.history_form import events, in_order, seen, without_nulls


def compacted(root: Path, *, rows: int = 1_000, keep: bool = False) -> Compaction:
    made = Compaction(root, rows=rows)
    made.perform(Inline(), keep=keep)
    made.clear()
    return made


def small_files(root: Path) -> list[Event]:
    """Files of two types, one of them in two forms, one event in two files."""
    made = [Event("A", at, at, "s", at, {"x": at if at % 2 else at / 2}) for at in range(12)]
    made += [Event("A", at, at, "s", at, {"x": "text"}) for at in range(12, 16)]
    made += [Event("B", at, at, "t", at, {"room": None, "on": at > 3}) for at in range(8)]
    for start in range(0, len(made), 2):
        HistoryWriter(root, "one").write(made[start : start + 2])
    HistoryWriter(root, "two").write(made[3:6])
    return made


@pytest.mark.slow
@given(events(), st.lists(st.integers(0, 8), max_size=4), st.booleans(), st.sampled_from((2, 4, 1_000)))
@settings(max_examples=70, deadline=None)
def test_compaction_keeps_the_events(
    tmp_path_factory: pytest.TempPathFactory, given: list[Event], cuts: list[int], repeat: bool, rows: int
) -> None:
    root = tmp_path_factory.mktemp("history") / "h"
    ends = [0, *sorted(cuts), len(given)]
    for start, end in pairwise(ends):
        HistoryWriter(root, "test").write(given[start:end])
    if repeat:
        HistoryWriter(root, "again").write(given[1:4])
    files = len(History(root).files)
    done = compacted(root, rows=rows).done
    assert not [each.trouble for each in done if each.trouble]
    assert seen(root) == without_nulls(in_order(given))
    assert len(History(root).files) == files - sum(each.files - 1 for each in done)
    for file in History(root).files:
        found = list(read_events(file.path))
        assert found == in_order(found)
        assert (file.note.first, file.note.last) == (found[0].hi, found[-1].hi)
        assert file.rows == len({event.id for event in found})
    if rows == 1_000:
        assert not Compaction(root, rows=rows).mergers


def test_merged_file_has_the_notes_of_its_files(tmp_path: Path) -> None:
    made = small_files(tmp_path)
    for start, watermark in ((16, 40), (20, 30)):
        HistoryWriter(tmp_path, "one").write([Event("B", start, start, "t", start, {"on": True})], watermark)
    done = compacted(tmp_path).done
    assert [(each.type, each.files, each.rows, each.repeated, each.trouble) for each in done] == [
        ("A", 7, 12, 3, ""),
        ("A", 2, 4, 0, ""),
        ("B", 6, 10, 0, ""),
    ]
    files = [(each.type, each.rows, each.note.recorder, each.note.watermark) for each in History(tmp_path).files]
    assert sorted(files, key=str) == [
        ("A", 12, "compaction", None),
        ("A", 4, "one", None),
        ("B", 10, "one", 40),
    ]
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    assert len(seen(tmp_path)) == len(made) + 2


def test_files_that_do_not_fit_stay_apart(tmp_path: Path) -> None:
    for seq, value in enumerate((1, 2.5, None, "text", True)):
        HistoryWriter(tmp_path, "one").write([Event("A", seq, seq, "s", seq, {"x": value})])
    HistoryWriter(tmp_path, "one").write([CompositeEvent("A", 9, 9, "p", 2**80, {"x": 1}, constituents=(("s", 1),))])
    before = seen(tmp_path)
    compacted(tmp_path)
    assert seen(tmp_path) == before
    assert sorted(each.rows for each in History(tmp_path).files) == [1, 1, 1, 3]


def test_large_files_stay(tmp_path: Path) -> None:
    for start in (0, 10, 20, 22, 24):
        many = 10 if start < 20 else 2
        HistoryWriter(tmp_path, "one").write([Event("A", at, at, "s", at, {}) for at in range(start, start + many)])
    large = {each.path for each in History(tmp_path).files if each.rows == 10}
    compacted(tmp_path, rows=20)
    assert sorted(each.rows for each in History(tmp_path).files) == [6, 10, 10]
    assert large < {each.path for each in History(tmp_path).files}


def test_two_events_of_one_id_stay_apart(tmp_path: Path) -> None:
    HistoryWriter(tmp_path, "one").write([Event("A", 1, 1, "s", 1, {"x": 1}), Event("A", 2, 2, "s", 2, {})])
    HistoryWriter(tmp_path, "two").write([Event("A", 1, 1, "s", 1, {"x": 1.0}), Event("A", 3, 3, "s", 3, {})])
    before = seen(tmp_path)
    (done,) = compacted(tmp_path).done
    assert "an id that another event has: type A, lo 1, hi 1, source s, seq 1, x 1.0; there it is" in done.trouble
    assert len(History(tmp_path).files) == 2
    assert seen(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("keep", (False, True))
def test_interrupted_work_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool) -> None:
    small_files(tmp_path / "given")
    expected = seen(tmp_path / "given")
    with monkeypatch.context() as patch:
        faults = Faults(patch)
        at = 0
        while True:
            at += 1
            root = tmp_path / f"h{at}"
            faults.at = -1
            shutil.copytree(tmp_path / "given", root)
            faults.steps, faults.at = 0, at
            try:
                compacted(root, keep=keep)
                break
            except Broken:
                pass
            faults.at = -1
            # Whoever reads now sees what was there.
            assert seen(root) == expected, at
            compacted(root)
            assert seen(root) == expected, at
            assert len(History(root).files) == len(list(root.rglob("*.parquet"))) == 3, at
            assert History(root).rows == len(expected)
    assert at > (20 if keep else 50)


def test_compaction_interrupted_repeatedly_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New files come between runs that break off while they remove the old ones."""
    made = small_files(tmp_path)
    faults = Faults(monkeypatch)
    for number in range(30):
        event = Event("A", 20 + number, 20 + number, "s", 20 + number, {"x": number})
        faults.at = -1
        HistoryWriter(tmp_path, "one").write([event])
        made.append(event)
        faults.steps, faults.at = 0, 5 + number
        with suppress(Broken):
            compacted(tmp_path)
        assert seen(tmp_path) == without_nulls(in_order(made)), number


def test_verb_reports_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_files(tmp_path)
    assert compact(tmp_path, "inline", keep=True, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files_before"], found["files"], found["rows"], found["repeated"]) == (13, 3, 24, 3)
    assert len(list(tmp_path.rglob("*.parquet"))) == 16
    assert compact(tmp_path, "inline", keep=False, as_json=False) == 0
    said = capsys.readouterr().err
    assert "13 old files of an earlier run removed" in said
    assert len(list(tmp_path.rglob("*.parquet"))) == 3


def test_failed_merger_is_reported(tmp_path: Path) -> None:
    small_files(tmp_path)
    with pytest.raises(DistcedError, match="allowed: local"):
        compact(tmp_path, "sprak")
    with alone(tmp_path), pytest.raises(DistcedError, match="or compaction of this history"):
        compact(tmp_path, "inline")
    (tmp_path / ".compact").write_text("")
    with pytest.raises(DistcedError, match="cannot write the history"):
        compact(tmp_path, "inline")


@pytest.mark.slow
def test_spark_gives_the_same(tmp_path: Path, session: Any) -> None:
    from distced.simulations.replay.runners import Spark

    small_files(tmp_path)
    before = seen(tmp_path)
    compaction = Compaction(tmp_path)
    compaction.perform(Spark(session, tmp_path / ".compact"))
    assert [(each.type, each.rows, each.trouble) for each in compaction.done] == [("A", 12, ""), ("A", 4, ""),
                                                                                  ("B", 8, "")]  # fmt: skip
    assert seen(tmp_path) == before
    assert len(History(tmp_path).files) == 3


def test_compaction_is_a_verb_of_history(tmp_path: Path) -> None:
    small_files(tmp_path)
    result = CliRunner().invoke(history, ["compact", str(tmp_path), "--master", "inline", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["files"] == len(History(tmp_path).files) == 3
    assert "ls" in CliRunner().invoke(history, ["--help"]).output


def daily(root: Path, days: Iterable[int], name: str = "A") -> list[Event]:
    """A file a day with a few events."""
    made = []
    for day in days:
        made += [Event(name, day * DAY + n, day * DAY + n, name, day * 10 + n, {"x": n}) for n in range(3)]
        HistoryWriter(root, "test").write(made[-3:])
    return made


def across(root: Path) -> Compaction:
    made = Compaction(root, rows=1_000, across_days=True)
    made.perform(Inline())
    made.clear()
    return made


def test_small_days_are_merged_into_years_and_months(tmp_path: Path) -> None:
    """A year is one folder where all of it is little, else its months, but for the one with a day of many events."""
    events = daily(tmp_path, range(0, 730, 5))
    many = [Event("B", 400 * DAY + n, 400 * DAY + n, "t", n, {}) for n in range(600)]
    HistoryWriter(tmp_path, "test").write(many)
    before, missing = len(History(tmp_path).files), History(tmp_path).missing_days()
    across(tmp_path)
    history = History(tmp_path)
    assert not history.problems
    folders = {file.day for file in history.files}
    assert {"1970", "1971-01", "1971-03", "1971-02-05"} <= folders
    assert not {"1971", "1971-02"} & folders
    assert len(history.files) < before / 6
    assert seen(tmp_path) == without_nulls(in_order([*events, *many]))
    assert history.missing_days() == missing
    assert not across(tmp_path).mergers
    assert not list(tmp_path.glob("day=1970-*"))
    assert all(file.checked for file in history.files)
    # Programs that do not know merged days must not read it.
    assert json.loads((tmp_path / "history.json").read_bytes())["version"] == 2


def test_merged_days_are_read_with_later_ones(tmp_path: Path) -> None:
    root = tmp_path / "h"
    events = daily(root, range(0, 40, 2))
    across(root)
    events += daily(root, range(1, 9, 2)) + daily(root, [3, 400], "B")
    assert seen(root) == without_nulls(in_order(events))
    text = "[A as a] ; [A as b where x > a.x] ; [B] within 3d -> P()"
    patterns = compile_source(PatternSource(text, "pattern"), None).compiled
    expected = [each.id for each in Replay(patterns, events, engine="stepwise")]
    assert expected
    for way in WAYS[1:]:
        made = HistoryReplay(patterns, History(root), tmp_path / way, cores=2, least=10, way=way)
        made.perform(Inline())
        assert [each.id for each in made] == expected, way
    across(root)
    assert {file.day for file in History(root).files} == {"1970", "1970-01-04", "1971-02-05"}
    assert seen(root) == without_nulls(in_order(events))


@pytest.mark.slow
def test_interrupted_compaction_across_days_leaves_a_valid_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily(tmp_path / "given", range(0, 100, 15))
    across(tmp_path / "given")
    daily(tmp_path / "given", range(1, 40, 9))
    daily(tmp_path / "given", [3, 10, 400, 500], "B")
    expected = seen(tmp_path / "given")
    faults = Faults(monkeypatch)
    for at in count(1):
        root = tmp_path / f"h{at}"
        faults.at = -1
        shutil.copytree(tmp_path / "given", root)
        faults.steps, faults.at = 0, at
        try:
            across(root)
            break
        except Broken:
            pass
        faults.at = -1
        assert seen(root) == expected, at
        assert not History(root).problems, at
        across(root)
        assert seen(root) == expected, at
        assert len(History(root).files) == len(list(root.rglob("*.parquet"))) == 3, at
        shutil.rmtree(root)
    assert at > 20


def test_damaged_file_that_is_replaced_is_removed(tmp_path: Path) -> None:
    daily(tmp_path, range(0, 40, 9))
    compaction = Compaction(tmp_path, rows=1_000, across_days=True)
    compaction.perform(Inline(), keep=True)
    next(tmp_path.glob("day=1970-01-10/*/*.parquet")).write_bytes(b"no Parquet")
    assert History(tmp_path).problems
    assert across(tmp_path).left == 5
    assert not History(tmp_path).problems
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_merged_days_are_dropped_as_a_whole(tmp_path: Path) -> None:
    daily(tmp_path, range(0, 800, 20))
    across(tmp_path)
    found = lies_before(History(tmp_path), "1971-06-01")
    assert (found.days, found.spanning, found.left) == (("1970",), ("1971",), ())
    report = history_report(History(tmp_path))
    assert [(each.day, each.rows) for each in report.days] == [("1970", 57), ("1971", 54), ("1972", 9)]
    assert report.n_days == 40
