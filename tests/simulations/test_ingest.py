"""What is in a recording is in the history afterwards, each event once; what is not is kept with the reason."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.middleware.event_files import read_events, write_events
from distced.middleware.history import History, HistoryWriter, events_of_history
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError, HistoryError, MappingError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY, HOUR, SECOND
from distced.simulations.ingest.cli import ingest as verb
from distced.simulations.ingest.ingestion import Ingest
from distced.simulations.ingest.recording_task import DedupResult, deduplicate
from distced.simulations.replay.runners import Inline
from tests.support.fault_injection import Broken, Faults
from tests.support.history_form import in_order, seen, without_nulls

DATA = Path(__file__).parents[3] / "shared" / "data"
RECORDINGS = Path(__file__).parents[2] / "simulations" / "recordings"

MAPPING = """
[[rule]]
type = "Reading"
source = "{room}"
time = { path = "time", format = "s" }
[rule.attributes]
celsius = "number"
"""


def readings(count: int, *, step: int = HOUR, source: str = "s") -> list[Event]:
    return [Event("Reading", at, at + SECOND, source, seq, {"x": seq, "y": seq / 2 if seq % 3 else None})
            for seq, at in enumerate(range(5 * DAY, 5 * DAY + count * step, step))]  # fmt: skip


def ingest(root: Path, *paths: Path, mapping: Path | None = None, chunk: int = 20) -> Ingest:
    made = Ingest(paths, root, mapping=mapping, recorder="test", chunk=chunk)
    made.perform(Inline())
    made.clear()
    return made


def held(root: Path) -> list[tuple[object, ...]]:
    found = seen(root)
    # As many rows as events: none is there twice.
    assert History(root).rows == len(found)
    return found


def read(path: Path, mapping: Path | None = None) -> list[tuple[object, ...]]:
    return without_nulls(in_order(read_events(path, None if mapping is None else load_mapping(mapping))))


def packed(path: Path) -> Path:
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


@pytest.mark.parametrize("form", ("events.jsonl", "events.csv", "events.parquet"))
@pytest.mark.parametrize("gz", (False, True))
def test_native_recording_is_ingested(tmp_path: Path, form: str, gz: bool) -> None:
    events = readings(60)
    random.Random(3).shuffle(events)
    write_events(events, tmp_path / form)
    path = packed(tmp_path / form) if gz else tmp_path / form
    outcome = ingest(tmp_path / "h", path).outcomes[0].ingested
    assert held(tmp_path / "h") == read(path)
    assert (outcome.rows, outcome.events, outcome.added, outcome.repeated, outcome.rejected) == (60, 60, 60, 0, {})
    assert sum(outcome.days.values()) == outcome.types["Reading"] == 60
    assert {each.day for each in History(tmp_path / "h").files} == set(outcome.days)
    for file in History(tmp_path / "h").files:
        keys = [event.key for event in read_events(file.path)]
        assert keys == sorted(keys)


def test_composite_events_are_ingested(tmp_path: Path) -> None:
    found = [CompositeEvent("C", 0, at, "p", 2**90 + at, {"a": 1}, constituents=(("s", at),)) for at in range(40)]
    write_events([*found, *found[:5]], tmp_path / "found.jsonl")
    outcome = ingest(tmp_path / "h", tmp_path / "found.jsonl").outcomes[0].ingested
    assert held(tmp_path / "h") == without_nulls(found)
    assert (outcome.added, outcome.repeated) == (40, 5)


@pytest.mark.parametrize(
    ("recording", "mapping"),
    (
        ("mqtt_lab_sample.jsonl", "mqtt_lab.toml"),
        ("workplace_InVS13_tij.dat.gz", "contacts.toml"),
        ("nasdaq_minute_20080201.csv.gz", "closes.toml"),
    ),
)
def test_real_recording_is_ingested(tmp_path: Path, recording: str, mapping: str) -> None:
    path, rules = DATA / recording, RECORDINGS / mapping
    if not path.exists():
        pytest.skip(f"the recording {recording} is not here")
    outcome = ingest(tmp_path / "h", path, mapping=rules, chunk=10_000).outcomes[0].ingested
    reader = read_events(path, load_mapping(rules))
    assert held(tmp_path / "h") == without_nulls(in_order(reader))
    assert (outcome.rows, outcome.events) == (reader.counts["row"], reader.counts["event"])
    assert sum(outcome.rejected.values()) == reader.counts["rejected"]


def test_rejected_rows_are_kept(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MAPPING)
    rows = ["room,time,celsius"]
    rows += [f"a,{at},{'warm' if at % 2 else at}" for at in range(3_000)] + ["a,never,1", "a,1,2,3"]
    (tmp_path / "r.csv").write_text("\n".join(rows))
    made = ingest(tmp_path / "h", tmp_path / "r.csv", mapping=tmp_path / "m.toml", chunk=10_000)
    outcome = made.outcomes[0]
    assert outcome.ingested.rejected == {"attribute": 1_500, "time": 1, "row": 1}
    assert outcome.ingested.added == 1_500
    assert outcome.recording is not None
    kept = [json.loads(line) for line in outcome.recording.rejected.read_bytes().splitlines()]
    assert len(kept) == 1_502
    assert [(each.count, each.rule) for each in outcome.ingested.reasons] == [
        (1_500, "1 (Reading)"),
        (1, "1 (Reading)"),
        (1, ""),
    ]
    assert "warm" in outcome.ingested.reasons[0].first
    assert kept[0]["where"].startswith(f"{tmp_path / 'r.csv'}, row 3")
    assert kept[0]["row"] == {"room": "a", "time": "1", "celsius": "warm"}


def test_strict_ingestion_adds_nothing_of_a_recording_with_rejected_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.toml").write_text(MAPPING)
    (tmp_path / "bad.csv").write_text("room,time,celsius\na,1,20\na,2,hot\na,3,warm\na,4,21\na,5,22\n")
    (tmp_path / "good.csv").write_text("room,time,celsius\nb,1,20\n")

    def command(*names: str, strict: bool = True) -> tuple[int, str]:
        paths = [tmp_path / name for name in names]
        code = verb(paths, tmp_path / "h", tmp_path / "m.toml", master="inline", strict=strict)
        return code, capsys.readouterr().err.replace("\n", " ")

    for _ in range(2):
        code, said = command("good.csv", "bad.csv")
        assert code == 1
        assert "rejected rows in a recording that must have none (--strict): 2 of 5 rows" in said
        assert len(held(tmp_path / "h")) == 1
    assert command("good.csv")[0] == 0
    assert command("bad.csv", strict=False)[0] == 0
    assert len(held(tmp_path / "h")) == 4
    # It is in the history now, with what it lacks.
    assert command("bad.csv")[0] == 1


EVENT = b'{"type": "A", "time": 2, "source": "s", "seq": 1}'
CSV = b"type,time,source,seq,x\n"


@pytest.mark.parametrize(
    ("form", "content"),
    (
        ("jsonl", b'{"type": "A", "source": "s\xff", "time": 2, "seq": 0}\n' + EVENT),
        ("jsonl", b'{"type": "A", "source": "\\ud800", "time": 2, "seq": 0}\n' + EVENT),
        ("jsonl", b'{"type": "A", "time": 2, "seq": 0, "attributes": {"x": "\\udc00", "y": Infinity}}\n' + EVENT),
        ("jsonl", EVENT.replace(b"1}", b"9" * 29 + b"}\n") + EVENT),
        ("jsonl", EVENT.replace(b"1}", b'0, "constituents": [["s", -1]]}\n') + EVENT),
        ("jsonl", EVENT.replace(b'"A"', b'"' + b"A" * 300 + b'"') + b"\n" + EVENT),
        ("csv", CSV + b"A,1,s," + b"9" * 5_000 + b",1\nA,2,s,1,1\n"),
        ("csv", CSV + b'A,1,"s,0,1\nA,2,s,1,1\n'),
        ("csv", CSV + b'A,1,s,0,"1\nA,2,s,1,1\n'),
    ),
)
def test_bad_row_does_not_affect_others(tmp_path: Path, form: str, content: bytes) -> None:
    path = tmp_path / f"a.{form}"
    path.write_bytes(content)
    outcome = ingest(tmp_path / "h", path).outcomes[0]
    assert (outcome.ingested.rows, outcome.ingested.added, outcome.ingested.rejected) == (2, 1, {"row": 1})
    assert outcome.recording is not None
    kept = json.loads(outcome.recording.rejected.read_bytes())
    assert kept["where"] == f"{path}, row {2 if form == 'csv' else 1}"
    assert kept["row"]
    assert [event.id for event in events_of_history(History(tmp_path / "h"))] == [("s", 1)]


def test_unclosed_quote_is_rejected(tmp_path: Path) -> None:
    """What csv reads at once is less than what stands behind it."""
    lines = [b"A,%d,s,%d,%d" % (at, at, at) for at in range(20_000)]
    lines[5] = b'A,5,s,5,"5'
    (tmp_path / "a.csv").write_bytes(CSV + b"\r\n".join(lines))
    outcome = ingest(tmp_path / "h", tmp_path / "a.csv", chunk=50_000).outcomes[0]
    assert (outcome.ingested.rows, outcome.ingested.added, outcome.ingested.rejected) == (20_000, 19_999, {"row": 1})
    assert outcome.recording is not None
    kept = json.loads(outcome.recording.rejected.read_bytes())
    assert (kept["where"], kept["row"]) == (f"{tmp_path / 'a.csv'}, row 7", 'A,5,s,5,"5')


def test_recording_with_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s\udcff.jsonl"
    path.write_bytes(EVENT)
    assert "rename it" in ingest(tmp_path / "h", path).outcomes[0].ingested.trouble


def test_repeated_ingestion_adds_nothing(tmp_path: Path) -> None:
    write_events(readings(60), tmp_path / "a.jsonl")
    ingest(tmp_path / "h", tmp_path / "a.jsonl")
    before = {path: path.read_bytes() for path in (tmp_path / "h").rglob("*") if path.is_file()}
    again = ingest(tmp_path / "h", tmp_path / "a.jsonl")
    assert again.outcomes[0].before
    assert {path: path.read_bytes() for path in (tmp_path / "h").rglob("*") if path.is_file()} == before


def test_repeated_ids_are_duplicates_or_rejected(tmp_path: Path) -> None:
    events = readings(60)
    other = Event("Reading", events[7].lo, events[7].hi, "s", 7, {"x": 7.0, "y": 3.5})
    later = Event("Reading", events[7].lo + DAY, events[7].hi + DAY, "s", 8, {"x": 8})
    write_events([*events[:50], *events[3:30], other, *events[3:5], later], tmp_path / "a.jsonl")
    outcome = ingest(tmp_path / "h", tmp_path / "a.jsonl").outcomes[0]
    assert (outcome.ingested.added, outcome.ingested.repeated, outcome.ingested.rejected) == (50, 29, {"id": 2})
    assert held(tmp_path / "h") == without_nulls(events[:50])
    # In another recording, some of them new.
    write_events([*events[20:], other], tmp_path / "b.jsonl")
    outcome = ingest(tmp_path / "h", tmp_path / "b.jsonl").outcomes[0]
    assert (outcome.ingested.added, outcome.ingested.repeated, outcome.ingested.rejected) == (10, 30, {"id": 1})
    assert held(tmp_path / "h") == without_nulls(events)
    assert outcome.recording is not None
    assert json.loads(outcome.recording.rejected.read_text())["given"] == "s 7"


def test_row_that_is_repeated_very_often_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(events: Sequence[Event], files: Any) -> DedupResult:
        compared.append(len(events))
        return deduplicate(events, files)

    monkeypatch.setattr("distced.simulations.ingest.recording_task.deduplicate", counted)
    lines = ["type,time,source,seq,x", *["A,1,s,0,1"] * 50_000, *["A,1,s,0,2"] * 3]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    outcome = ingest(tmp_path / "h", tmp_path / "a.csv").outcomes[0].ingested
    assert (outcome.added, outcome.repeated, outcome.rejected) == (1, 49_999, {"id": 3})
    assert sum(compared) < 10


def test_sequence_numbers_continue(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MAPPING)
    paths = []
    for day in range(3):
        paths.append(tmp_path / f"{day}.csv")
        rows = [f"{'ab'[at % 2]},{day * 86_400 + at},{at}" for at in range(30)]
        paths[-1].write_text("\n".join(["room,time,celsius", *rows]))
    apart = Ingest(paths, tmp_path / "apart", mapping=tmp_path / "m.toml", recorder="test")
    apart.perform(Inline())
    assert [each.ingested.rejected for each in apart.outcomes] == [{}, {"id": 30}, {"id": 30}]
    for given in (paths[:2], paths, paths):
        made = Ingest(given, tmp_path / "h", mapping=tmp_path / "m.toml", recorder="test", count_on=True, chunk=20)
        made.perform(Inline())
    together = tmp_path / "all.csv"
    together.write_text("\n".join([paths[0].read_text(), *(each.read_text().partition("\n")[2] for each in paths[1:])]))
    assert held(tmp_path / "h") == read(together, tmp_path / "m.toml")
    # What is in the history without it is not mended by it, and says so.
    again = Ingest(paths, tmp_path / "apart", mapping=tmp_path / "m.toml", recorder="test", count_on=True)
    assert [bool(each.ingested.trouble) for each in again.outcomes] == [False, True, True]
    assert "--count-on" in again.outcomes[1].ingested.trouble
    # The same under another name would be counted twice.
    copy = tmp_path / "copy.csv"
    copy.write_bytes(paths[0].read_bytes())
    for root, given, before in (("h", [copy], [True]), ("new", [paths[0], copy], [False, True])):
        made = Ingest(given, tmp_path / root, mapping=tmp_path / "m.toml", recorder="test", count_on=True)
        made.perform(Inline())
        assert [each.before for each in made.outcomes] == before
    (tmp_path / "own.toml").write_text(MAPPING.replace("[rule.attr", 'sequence = "n"\n[rule.attr'))
    for mapping in (None, tmp_path / "own.toml"):
        with pytest.raises(MappingError, match="cannot be counted on"):
            Ingest(paths, tmp_path / "h", mapping=mapping, recorder="test", count_on=True)


def test_grown_recording_adds_its_new_events(tmp_path: Path) -> None:
    events = readings(60)
    for count in (25, 60):
        write_events(events[:count], tmp_path / "a.jsonl")
        made = ingest(tmp_path / "h", tmp_path / "a.jsonl")
    assert (made.outcomes[0].ingested.added, made.outcomes[0].ingested.repeated) == (35, 25)
    assert held(tmp_path / "h") == without_nulls(events)


def test_day_of_an_event_is_that_of_its_end_in_utc(tmp_path: Path) -> None:
    write_events([Event("A", -HOUR, -1, "s", 0, {}), Event("A", -HOUR, 0, "s", 1, {})], tmp_path / "a.jsonl")
    assert ingest(tmp_path / "h", tmp_path / "a.jsonl").outcomes[0].ingested.days == {"1969-12-31": 1, "1970-01-01": 1}


def test_truncated_recording_is_reported(tmp_path: Path) -> None:
    write_events(readings(3_000, step=SECOND), tmp_path / "a.jsonl")
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(packed(tmp_path / "a.jsonl").read_bytes()[:-2_000])
    (tmp_path / "text.log").write_text("a line\n")
    paths = [broken, tmp_path / "text.log", tmp_path / "none.csv", tmp_path, tmp_path / "a.jsonl"]
    made = ingest(tmp_path / "h", *paths, chunk=1_000)
    by_path = {each.path: each.ingested for each in made.outcomes}
    assert 0 < by_path[broken].added < 3_000
    assert all(by_path[path].trouble for path in paths[:4])
    assert "give its files" in by_path[tmp_path].trouble
    assert not by_path[paths[4]].trouble
    assert by_path[broken].added == by_path[paths[4]].repeated
    assert held(tmp_path / "h") == without_nulls(readings(3_000, step=SECOND))


def test_unwritable_history_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_events(readings(60), tmp_path / "a.jsonl")

    def full(*_: Any) -> None:
        raise HistoryError("no room")

    with monkeypatch.context() as patch, pytest.raises(HistoryError, match="no room"):
        patch.setattr(HistoryWriter, "write_table", full)
        ingest(tmp_path / "h", tmp_path / "a.jsonl")
    assert not ingest(tmp_path / "h", tmp_path / "a.jsonl").outcomes[0].before
    assert held(tmp_path / "h") == without_nulls(readings(60))


@pytest.mark.slow
def test_interrupted_work_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = readings(30)
    other = Event("Reading", 0, 0, "s", 2, {})
    write_events([*events[:20], *events[:3], other], tmp_path / "a.jsonl")
    write_events([*events[10:], other], tmp_path / "b.jsonl")
    (tmp_path / "b.jsonl").write_bytes((tmp_path / "b.jsonl").read_bytes() + b"nothing\n")
    paths = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    with monkeypatch.context() as patch:
        faults = Faults(patch)
        at = 0
        while True:
            at += 1
            root = tmp_path / f"h{at}"
            faults.steps, faults.at = 0, at
            try:
                ingest(root, *paths)
                break
            except Broken:
                pass
            faults.at = -1
            made = ingest(root, *paths)
            found = [each.ingested for each in made.outcomes]
            assert sorted((each.added, each.repeated, sum(each.rejected.values())) for each in found) == [
                (10, 10, 2),
                (20, 3, 1),
            ], at
            assert held(root) == without_nulls(events), at
            lines = [line for path in (root / "rejected").glob("*.jsonl") for line in path.read_bytes().splitlines()]
            assert len(lines) == 3, at
            assert not (root / ".ingest").exists(), at
    # Otherwise nothing was broken off.
    assert at > 40


def test_verb_reports_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.toml").write_text(MAPPING)
    (tmp_path / "r.csv").write_text("room,time,celsius\na,1,20\na,2,hot\nb,3,21\n")

    def command(name: str, as_json: bool = True) -> int:
        return verb(
            [tmp_path / name],
            tmp_path / "h",
            tmp_path / "m.toml",
            "test",
            "inline",
            tmp_path / "bad",
            force=True,
            as_json=as_json,
        )

    for before in (False, True):
        assert command("r.csv") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["added"] == (0 if before else 2)
        assert found["recordings"][0]["ingested_before"] is before
        assert found["recordings"][0]["rejected"] == {"attribute": 1}
        assert json.loads((tmp_path / "bad").read_text())["row"]["celsius"] == "hot"
    assert command("r.csv", as_json=False) == 0
    said = capsys.readouterr().err
    assert "skipped: its 2 events were added before" in said
    assert "1 of 3 rows were rejected then" in said
    assert "2 added" not in said
    (tmp_path / "next.csv").write_text("room,time,celsius\na,86401,20\n")
    # All that it has is rejected.
    assert command("next.csv", as_json=False) == 1
    assert "need --count-on" in capsys.readouterr().err
    assert command("none.csv", as_json=False) == 1
    assert "none.csv" in capsys.readouterr().err


def test_history_with_a_broken_file_is_an_error(tmp_path: Path) -> None:
    events = readings(60)
    for part, name in ((events[:30], "a.jsonl"), (events[20:], "b.jsonl")):
        write_events(part, tmp_path / name)
    ingest(tmp_path / "h", tmp_path / "a.jsonl")
    broken = max((tmp_path / "h").rglob("*.parquet"))
    content = broken.read_bytes()
    broken.write_bytes(content[:8] + bytes(100) + content[108:])
    assert not History(tmp_path / "h").problems
    with pytest.raises(HistoryError, match="put it elsewhere") as raised:
        ingest(tmp_path / "h", tmp_path / "b.jsonl")
    assert raised.value.given == str(broken)
    broken.rename(tmp_path / "elsewhere")
    ingest(tmp_path / "h", tmp_path / "b.jsonl")
    broken.write_bytes(content)
    assert seen(tmp_path / "h") == without_nulls(events)


@pytest.mark.slow
def test_spark_gives_the_same(tmp_path: Path, session: Any) -> None:
    from distced.simulations.replay.runners import Spark

    def all_of(root: Path, runner: Any, paths: Sequence[Path]) -> list[Any]:
        made = Ingest(paths, root, recorder="test", chunk=50)
        made.perform(runner)
        return [(each.path, each.ingested) for each in made.outcomes]

    paths = []
    for number in range(3):
        # The last repeats some of the first.
        path = tmp_path / f"{number}.jsonl"
        write_events(readings(80, source=f"s{number % 2}")[number * 20 :], path)
        path.write_bytes(path.read_bytes() + b"nothing\n")
        paths.append(path)
    spark = Spark(session, tmp_path / "spark" / ".ingest")
    assert all_of(tmp_path / "spark", spark, paths) == all_of(tmp_path / "inline", Inline(), paths)
    assert held(tmp_path / "spark") == held(tmp_path / "inline")
    assert len(held(tmp_path / "spark")) == 140


def test_task_that_fails_on_spark_is_an_error(tmp_path: Path, session: Any) -> None:
    from distced.simulations.replay.runners import Spark

    paths = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for path in paths:
        path.write_bytes(EVENT)
    made = Ingest(paths, tmp_path / "h", recorder="test")
    made.work.mkdir()
    # Where there should be a folder.
    made.open[1].work.write_text("")
    with pytest.raises(DistcedError, match=r"HistoryError: cannot write the history: .*File exists"):
        made.perform(Spark(session, tmp_path / "h" / ".ingest"))
