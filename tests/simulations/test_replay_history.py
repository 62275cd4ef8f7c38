"""Replay over a history on disk, in this process: what is found, what cannot be read, going on where it broke off."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import Any, NamedTuple

from distced.detectors.batch_run.runner import Replay, replay
from distced.detectors.compiler import Compiled
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.cli.command import main
from distced.middleware.event_files import read_events
from distced.middleware.history import History, HistoryWriter
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE
from distced.simulations.replay.plan import WAYS, CutWay
from distced.simulations.replay.replay import PLAN, HistoryReplay, ReplayProgress
from distced.simulations.replay.runners import Inline, Task
from tests.support.replay_runs import made_of, seen

DATA = Path(__file__).parents[3] / "shared" / "data"

PATTERNS = """
[A as x] ; [B as y where v > 2] within 2h by k -> Pair(k = x.k, v = y.v)
[A as x] ; [B as y where v > x.v] within 10min -> Rise(from_ = x.k, to = y.k, v = y.v)
[Pair as p] ; [C] within 1h by k -> Triple(k = p.k)
([C as c], [T <= {T, B}]) @ T=20min -> Quiet(k = c.k)
[C] ; [C] ; [D] -> Rare()
"""


def patterns(text: str = PATTERNS) -> tuple[Compiled, ...]:
    return compile_source(PatternSource(dedent(text).strip(), "patterns"), None).compiled


def some_events(count: int = 3000, seed: int = 3) -> list[Event]:
    random, made = Random(seed), []
    for seq in range(count):
        hi = random.randrange(3 * DAY) + (DAY if seq % 3 else 3 * DAY)
        lo = hi - random.choice((0, 0, MINUTE))
        attributes = {"k": random.choice((1, 1.0, 2, "a", None, True)), "v": random.choice((1, 2.5, 3, 4))}
        made.append(Event(random.choice("AABBC" if seq % 50 else "D"), lo, hi, random.choice("st"), seq, attributes))
    return made


def history_of(root: Path, events: Sequence[Event], parts: int = 3) -> History:
    writer = HistoryWriter(root, "test")
    for part in range(parts):
        writer.write(events[part::parts])
    return History(root)


def run(given: Sequence[Compiled], events: Sequence[Event], until: int | None = None) -> list[tuple[Any, ...]]:
    made = Replay(given, events, engine="stepwise")
    made.read()
    made.last = made.last if until is None else until
    return seen(list(made))


def test_replay_detects_as_a_run_from_files(tmp_path: Path) -> None:
    events = some_events()
    history = history_of(tmp_path / "h", events)
    made = HistoryReplay(patterns(), history, tmp_path / "w", cores=2, least=200)
    assert sorted(each.way for each in made.plan.groups) == ["key", "time", "whole"]
    report: list[ReplayProgress] = []
    made.perform(Inline(), report.append)
    expected = run(patterns(), events)
    found = list(made)
    assert [each[0] for each in seen(found)] == [each.key for each in found]
    assert seen(found) == expected
    assert min(made.found[place] for place in range(5)) > 5
    assert report[0].detected == report[0].partitioned == 0
    assert report[-1].partitioned == report[-1].to_partition > 0
    assert report[-1].detected == report[-1].to_detect > 0
    assert {each.where for each in made.problems} == set("ABCD")
    made.clear()
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(("begin", "until"), [(2 * DAY, None), (None, 3 * DAY), (2 * DAY + 5, 4 * DAY - 7)])
def test_replay_is_bounded_by_from_and_to(tmp_path: Path, begin: int | None, until: int | None) -> None:
    events = some_events()
    history = history_of(tmp_path / "h", events)
    made = HistoryReplay(patterns(), history, tmp_path / "w", cores=2, least=200, begin=begin, until=until)
    made.perform(Inline())
    kept = [each for each in events if (begin or 0) <= each.hi <= (until or 99 * DAY)]
    assert seen(list(made)) == run(patterns(), kept, until)


@pytest.mark.parametrize("way", WAYS)
def test_several_patterns_may_publish_one_type(tmp_path: Path, way: CutWay) -> None:
    random = Random(1)
    events = [Event(random.choice("ABCD"), n, n, "s", n, {"k": n % 2, "v": n % 3}) for n in range(300)]
    both = patterns(
        """
        [A as x] ; [B] within 5ns by k -> P(k = x.v)
        [C as x] ; [B] within 5ns by k -> P(k = x.k)
        [P] ; [D] within 5ns by k -> Q()
        """
    )
    history = history_of(tmp_path / "h", events)
    try:
        made = HistoryReplay(both, history, tmp_path / "w", cores=2, least=20, way=way)
    except DistcedError:
        assert way == "key"
        return
    made.perform(Inline())
    assert seen(list(made)) == run(both, events)
    assert min(made.found[place] for place in range(3)) > 3


@pytest.mark.parametrize("way", ["whole", "parts"])
def test_every_way_writes_the_same_bytes(tmp_path: Path, way: CutWay) -> None:
    """Attributes are in the order in which the pattern names them, also inside other composite events."""
    given = patterns(
        """
        (([A] ; [B as y]) & [C as c]) within 1h -> P(z = y.v, a = c.k)
        [P as p] ; [P as q] within 1h -> Q(d = p.a, c = q.z)
        """
    )
    history = history_of(tmp_path / "h", some_events(400))
    made = HistoryReplay(given, history, tmp_path / "w", cores=2, least=100, way=way, with_events=True)
    made.perform(Inline())
    found = list(made)
    assert {(each.type, *each.attributes) for each in found} == {("P", "z", "a"), ("Q", "d", "c")}
    inside = {(event.type, *event.attributes) for each in found if each.type == "Q" for event in each.events}
    assert inside == {("P", "z", "a")}


def test_type_may_have_primitive_and_composite_events(tmp_path: Path) -> None:
    """Of one instant the primitive ones come first, whatever they are called."""
    events = [
        CompositeEvent("A", 5, 5, "c", 1, {}, constituents=(("s", 1),)),
        Event("A", 5, 5, "z", 1, {}),
    ]
    given = patterns("[A][A] -> P()")
    made = HistoryReplay(given, history_of(tmp_path / "h", events, parts=1), tmp_path / "w", cores=1)
    made.perform(Inline())
    assert [each.constituents for each in made] == [(("z", 1), ("c", 1))]
    assert seen(list(made)) == run(given, events)


def test_time_advances_to_the_watermark_of_recorders(tmp_path: Path) -> None:
    """Nothing came for an hour after the last event, which is something that live detection would know."""
    events = [Event("C", 0, 0, "s", 1, {"k": 1})]
    quiet = patterns("([C as c], [T <= {T, B}]) @ T=20min -> Quiet(k = c.k)")
    root = tmp_path / "h"
    writer = HistoryWriter(root, "test")
    writer.write(events)
    for watermark, count in ((19 * MINUTE, 0), (HOUR, 1)):
        writer.note("BC", watermark)
        made = HistoryReplay(quiet, History(root), tmp_path / "w", cores=1)
        made.perform(Inline())
        assert len(list(made)) == count
        made.clear()


class Breaking(Inline):
    """Breaks off after some tasks."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def perform(self, tasks: Sequence[Task], watch: object) -> None:
        for each in tasks:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            each.perform(lambda: 0.0)


def test_finished_tasks_are_not_repeated(tmp_path: Path) -> None:
    events = some_events()
    history = history_of(tmp_path / "h", events)
    expected, steps = run(patterns(), events), 0
    while True:
        made = HistoryReplay(patterns(), history, tmp_path / "w", cores=2, least=200)
        try:
            made.perform(Breaking(3))
            break
        except KeyboardInterrupt:
            steps += 1
        # What was half done when the process died.
        for folder in ("found", "partitions"):
            (tmp_path / "w" / folder / ".1.found.part").write_bytes(b"half")
    assert steps > 3
    assert made.resumed == 3 * steps
    assert seen(list(made)) == expected


def test_resuming_another_replay_is_refused(tmp_path: Path) -> None:
    history = history_of(tmp_path / "h", some_events(100))
    HistoryReplay(patterns(), history, tmp_path / "w", cores=2).perform(Inline())
    other = HistoryReplay(patterns("[A] ; [B] within 2h -> P()"), history, tmp_path / "w", cores=2)
    with pytest.raises(DistcedError, match="an interrupted replay of something else"):
        other.perform(Inline())
    HistoryWriter(tmp_path / "h", "other").write(some_events(10, 4))
    with pytest.raises(DistcedError, match="an interrupted replay of something else"):
        HistoryReplay(patterns(), History(tmp_path / "h"), tmp_path / "w", cores=2).perform(Inline())


def test_two_replays_into_one_folder_are_refused(tmp_path: Path) -> None:
    history = history_of(tmp_path / "h", some_events(100))
    one, other = (HistoryReplay(patterns(), history, tmp_path / "w", cores=2) for _ in range(2))
    one.perform(Inline())
    with pytest.raises(DistcedError, match="another replay runs in this folder"):
        other.perform(Inline())
    expected = seen(list(one))
    one.clear()
    other.perform(Inline())
    assert seen(list(other)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_damaged_result_file_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """As after a crash of the machine; None stands for a file that was cut off. Nothing is left out without a word."""
    events = some_events(1200)
    history = history_of(tmp_path / "h", events)
    expected, said = run(patterns(), events), 0

    def made() -> HistoryReplay:
        return HistoryReplay(patterns(), history, tmp_path / "w", cores=2, least=200)

    made().perform(Inline())
    kept = [each for each in (tmp_path / "w").rglob("*.*") if each.is_file() and each.name != PLAN]
    assert {each.suffix for each in kept} == {".json", ".found", ".arrow"}
    for path in Random(1).sample(sorted(kept), 12):
        # What was dealt out is read for what is not done yet.
        gone = [each for each in kept if path.suffix == ".arrow" and each.parent.name == "found"]
        before = {each: each.read_bytes() for each in (*gone, path)}
        for each in gone:
            each.unlink()
        path.write_bytes(before[path][: len(before[path]) // 2] if content is None else content)
        broken = made()
        try:
            broken.perform(Inline())
            assert seen(list(broken)) == expected
        except DistcedError as error:
            assert "a result file of this replay cannot be read" in str(error)
            said += 1
        for each, what in before.items():
            each.write_bytes(what)
    assert said > 5


def test_unreadable_file_is_reported_and_the_rest_is_replayed(tmp_path: Path) -> None:
    events = some_events()
    history = history_of(tmp_path / "h", events, parts=2)
    headless, pages, *_ = (each for each in history.files if each.type == "B" and each.day == "1970-01-04")
    gone = {event.id for each in (headless, pages) for event in read_events(each.path)}
    headless.path.write_bytes(headless.path.read_bytes()[:-20])
    content = bytearray(pages.path.read_bytes())
    content[4:200] = bytes(196)
    pages.path.write_bytes(content)
    made = HistoryReplay(patterns(), History(tmp_path / "h"), tmp_path / "w", cores=2, least=200)
    made.perform(Inline())
    said = {Path(each.where).name: str(each.error) for each in made.problems if each.where not in "ABCD"}
    assert said.keys() == {headless.path.name, pages.path.name}
    assert f"{pages.rows:,} events left out" in said[pages.path.name]
    assert seen(list(made)) == run(patterns(), [each for each in events if each.id not in gone])


def test_changed_type_and_missing_days_are_reported(tmp_path: Path) -> None:
    root = tmp_path / "h"
    old = [Event("A", day * DAY, day * DAY, "s", day, {"k": day % 2}) for day in range(4)]
    new = [Event("A", day * DAY, day * DAY, "s", day, {"k": "x", "more": 1.5}) for day in range(6, 9)]
    for part in (old, new):
        HistoryWriter(root, "test").write(part)
    both = patterns("[A as x] ; [A as y] within 3d by k -> Again(k = y.k, more = y.more)")
    made = HistoryReplay(both, History(root), tmp_path / "w", cores=1)
    made.perform(Inline())
    assert [str(each.error).partition(" (")[0] for each in made.problems] == [
        "the type 'A' has changed: k: string, more: number"
    ]
    assert made.history.missing_days() == ["1970-01-05", "1970-01-06"]
    assert seen(list(made)) == run(both, old + new)


@pytest.mark.parametrize("name", ["contacts", "alarms", "office"])
def test_replay_of_a_recording_detects_as_a_run(tmp_path: Path, name: str) -> None:
    recordings = {
        "contacts": "workplace_InVS13_tij.dat.gz",
        "alarms": "telecom_alarms_18V_55N_Wireless.csv.gz",
        "office": "keti_office_floors4-5_1min.csv.gz",
    }
    if not (DATA / recordings[name]).exists():
        pytest.skip("the recordings are not here")
    folder = Path(__file__).parents[2] / "simulations" / "recordings"
    mapping = load_mapping(folder / f"{name}.toml")
    first = itertools.islice(read_events(DATA / recordings[name], mapping), 30_000)
    events = list({each.id: each for each in first}.values())
    text = (folder / f"{name}.pattern").read_text()
    given = compile_source(PatternSource(text, name), TypeRegistry(mapping.types)).compiled
    HistoryWriter(tmp_path / "h", "test", mapping.types).write(events)
    expected = list(replay(given, events, types=mapping.types)[0])
    for with_events in (False, True):
        work = tmp_path / f"w{with_events}"
        made = HistoryReplay(given, History(tmp_path / "h"), work, cores=2, least=5_000, with_events=with_events)
        made.perform(Inline())
        found = list(made)
        assert seen(found) == seen(expected)
        assert found
    assert made_of(found) == made_of(expected)


class Ended(NamedTuple):
    """A verb in this process, at its end."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def distced(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a verb in this process: the frame of the command is tested in processes elsewhere."""

    def run(*arguments: object) -> Ended:
        code = main([*map(str, arguments)])
        return Ended(code, *capsys.readouterr())

    return run


def test_verb_writes_composite_events(tmp_path: Path, distced: Callable[..., Ended]) -> None:
    events = some_events(500)
    history_of(tmp_path / "h", events)
    (tmp_path / "p.pattern").write_text(PATTERNS)
    common = ("replay", tmp_path / "p.pattern", "--history", tmp_path / "h", "--master", "inline")
    plan = distced(*common, "--plan", "--json")
    assert plan.returncode == 0, plan.stderr
    assert [each["way"] for each in json.loads(plan.stdout)["plan"]["groups"]] == ["whole"] * 3
    done = distced(*common, "--out", tmp_path / "found.jsonl", "--native", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_bytes().splitlines()]
    assert sum(each["count"] for each in summary["found"]) == len(lines) > 0
    expected = run(patterns(), events)
    assert [(each["source"], each["seq"]) for each in lines] == [key[3:] for key, *_ in expected]
    assert not list(tmp_path.glob(".*"))
    shown = distced(*common, "--from", "1970-01-03T00:00:00Z")
    assert all(json.loads(line)["hi"] >= 2 * DAY for line in shown.stdout.splitlines())
    assert "Pair" in shown.stderr
    of_a_day = distced(*common, "--to", "1970-01-03")
    assert max(json.loads(line)["hi"] for line in of_a_day.stdout.splitlines()) > 2 * DAY


def test_verb_works_beside_its_result(tmp_path: Path, distced: Callable[..., Ended]) -> None:
    """Beside the result, where that is a file, and nowhere that was not asked for."""
    history_of(tmp_path / "h", some_events(50))
    common = ("replay", "[A] ; [B] within 2h -> P()", "--history", tmp_path / "h", "--master", "inline", "--out")
    assert distced(*common, "/dev/null").returncode == 0
    assert not Path("/dev/.null.replay").exists()
    assert distced(*common, tmp_path / "f.jsonl", "--plan").returncode == 0
    (tmp_path / ".f.jsonl.replay").write_text("in the way")
    failed = distced(*common, tmp_path / "f.jsonl")
    assert failed.returncode == 2
    assert "the replay broke off" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "no such folder" in distced(*common, tmp_path / "no" / "f.jsonl").stderr
    assert {each.name for each in tmp_path.iterdir()} == {"h", ".f.jsonl.replay"}


@pytest.mark.slow
def test_killed_replay_is_resumed(tmp_path: Path) -> None:
    events = some_events()
    history = history_of(tmp_path / "h", events)
    script = f"""
import os, signal, sys
from pathlib import Path
from tests.simulations.test_replay_history import HistoryReplay, History, Inline, patterns
from distced.simulations.replay import file_ranges
left = int(sys.argv[1])
def writes(self, *given, real=Path.open, **named):
    global left
    if self.name.endswith(".part"):
        left -= 1
        if left == 0:
            real(self, "wb").write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *given, **named)
Path.open = writes
work = Path({str(tmp_path / "w")!r})
HistoryReplay(patterns(), History({str(history.root)!r}), work, cores=2, least=200).perform(Inline())
"""
    ends = [
        subprocess.run(
            [sys.executable, "-c", script, str(writes)], cwd=Path(__file__).parents[2], check=False
        ).returncode
        for writes in (1, 2, 5, 9)
    ]
    assert ends == [-signal.SIGKILL] * 4
    made = HistoryReplay(patterns(), history, tmp_path / "w", cores=2, least=200)
    made.perform(Inline())
    assert made.resumed > 3
    assert seen(list(made)) == run(patterns(), events)
    assert not list((tmp_path / "w").rglob("*.part"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("[A]", "--history", "nowhere"), "no history here"),
        (("[A] ; [B] by", "--history", "h"), "unexpected: the end"),
        (("[A] ; [B]", "--history", "h", "--by", "k"), "cannot be replayed by this key"),
        (("[A] ; [B]", "--history", "h", "--from", "yesterday"), "not an instant: yesterday"),
        (("[A] ; [B]", "--history", "h", "--from", str(2**63)), "beyond 64 bits"),
        (("[A] ; [B]", "--history", "h", "--from", "1970-01-03", "--to", "1970-01-02"), "an end before its beginning"),
        (("[A]", "--history", "h", "--out", "h"), "a folder where a file should be written"),
    ],
)
def test_verb_refuses_wrong_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    history_of(tmp_path / "h", some_events(20))
    given = [str(tmp_path / each) if each in ("h", "nowhere") else each for each in arguments]
    assert main(["replay", *given, "--master", "inline"]) in (1, 2)
    assert message in " ".join(capsys.readouterr().err.split())
