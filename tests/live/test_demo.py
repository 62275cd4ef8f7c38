"""The demonstration as it runs: live detections are those of the patterns over the recorded events."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import distced.simulations.demo.session as session
from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import Server
from distced.brokers.ray.nodes import LocalNodes
from distced.middleware.client.subscription import Subscription
from distced.middleware.event_files import read_events
from distced.middleware.model.errors import DistcedError
from distced.simulations.demo.cli import demo
from tests.support.pictures import needs_matplotlib

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(mosquitto: Server, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the verb with nodes in this process; its exit code and its figures."""

    def run(**options: Any) -> tuple[int, dict[str, Any]]:
        given = {"speed": 2400.0, "minutes": 20.0, "ray": False, "as_json": True, "server": mosquitto.url} | options
        capsys.readouterr()
        code = demo(**given)
        return code, json.loads(capsys.readouterr().out)

    return run


def composites(folder: Path) -> list[str]:
    return sorted((folder / "composite-events.jsonl").read_text().splitlines())


@needs_matplotlib
@pytest.mark.slow
def test_demo_detects_as_a_run_and_replays_its_report(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    code, figures = run(speed=600.0, minutes=20.0, report=first)
    assert code == 0
    assert figures["check"] == {
        "holds": True, "same": figures["composite_events"], "only_live": 0, "only_run": 0, "complete": True,
    }  # fmt: skip
    assert figures["events"] > 1000
    assert figures["composite_events"] > 0
    assert set(figures["patterns"]) == {"ColdRoom", "MissedMeeting", "MissedByResident"}
    assert sum(each["found"] for each in figures["patterns"].values()) == figures["composite_events"]
    assert set(figures["nodes"]) == {"node-1", "node-2", "node-3"}
    assert figures["delay_ms"]["p50"] >= 0

    reader = read_events(first / "events.jsonl.gz")
    assert len(list(reader)) == figures["events"]
    assert reader.counts["rejected"] == 0
    assert json.loads((first / "summary.json").read_text()) == figures
    root = ElementTree.parse(first / "delays.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(composites(first)) == figures["composite_events"]

    code, again = run(input_=first / "events.jsonl.gz", report=second)
    assert code == 0
    assert (again["events"], again["composite_events"]) == (figures["events"], figures["composite_events"])
    assert composites(first) == composites(second)


def test_demo_of_upgrades_detects_live_what_it_detects_in_a_file(run: Run) -> None:
    code, figures = run(scenario="upgrades", minutes=60.0, speed=600.0)
    assert code == 0
    assert figures["check"]["holds"]
    assert figures["patterns"]["FAILED_UPGRADE"]["found"] > 0


def test_demo_of_threats_detects_live_what_it_detects_in_a_file(run: Run) -> None:
    code, figures = run(scenario="threats", minutes=60.0, speed=1200.0)
    assert code == 0
    assert figures["check"]["holds"]
    assert figures["patterns"]["Alert"]["found"] > 0


def test_demo_uses_the_nodes_and_sites_that_are_there(start_mosquitto: Callable[..., Server], run: Run) -> None:
    directory, home = start_mosquitto(), start_mosquitto()
    with LocalNodes(directory.url, {"here": NodeLocation(), "there": NodeLocation(home.url)}):
        code, figures = run(server=directory.url, nodes=0, homes=[directory.url, home.url])
        assert code == 0
        assert figures["composite_events"] > 0
        assert set(figures["nodes"]) == {"here", "there"}


def test_demo_without_nodes_needs_a_server_that_has_some(run: Run) -> None:
    with pytest.raises(DistcedError, match="no broker nodes"):
        run(server="auto", nodes=0)


def test_demo_takes_pattern_files(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.pattern"
    path.write_text(
        "type Warm = Temp where temp >= 20 every 1min by room\n"
        "[Warm as w] -> Warmed(room = w.room)\n"
        "[Warmed as w] ; [Door where room == w.room] within 2min -> Aired(room = w.room)\n"
        "[Login] [Logout]\n"
    )
    code, figures = run(patterns=[path], nodes=2)
    assert code == 0
    assert list(figures["patterns"]) == ["Warmed", "Aired", "own.pattern"]
    assert figures["patterns"]["Warmed"]["found"] > 10
    assert figures["patterns"]["Aired"]["found"] > 0


def test_lost_composite_event_fails_the_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, count = Subscription._is_wanted, iter(range(10**9))
    monkeypatch.setattr(Subscription, "_is_wanted", lambda *given: wanted(*given) and next(count) != 2)
    code, figures = run()
    assert code == 1
    assert (figures["check"]["holds"], figures["check"]["only_live"], figures["check"]["only_run"]) == (False, 0, 1)


def test_additional_composite_event_fails_the_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = session.DemoSession._publish

    def forgetful(self: session.DemoSession, events: Any) -> None:
        publish(self, events)
        # What was published is not recorded.
        self.events = [event for event in self.events if event.type != "Temp" or event.seq != 8]

    monkeypatch.setattr(session.DemoSession, "_publish", forgetful)
    code, figures = run()
    assert code == 1
    assert figures["check"]["only_live"] > 0


def test_subscription_that_falls_behind_fails_the_demo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE", 0.5)
    heartbeat = session.Client.heartbeat
    source: list[Any] = []

    def without_one(self: Any, watermark: int, sources: Any = None) -> None:
        source[:] = source or list(self._sources.values())[:1]
        heartbeat(self, watermark, [each for each in self._sources.values() if each is not source[0]])

    monkeypatch.setattr(session.Client, "heartbeat", without_one)
    code, figures = run(minutes=5.0)
    assert code == 1
    assert not figures["check"]["complete"]


def test_terminal_shows_lines_and_a_verdict(mosquitto: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(speed=2400.0, minutes=20.0, ray=False, server=mosquitto.url) == 0
    said = capsys.readouterr().out
    assert "live = run" in said
    assert "ColdRoom" in said
    assert "3 broker nodes (in this process)" in said


@pytest.mark.parametrize(("page", "name"), [("active-office.md", "office.pretty"), ("cayuga.md", "tops.cel")])
def test_tutorials_find_the_same_live(run: Run, tmp_path: Path, page: str, name: str) -> None:
    said = (Path(__file__).parents[2] / "docs" / "tutorial" / page).read_text(encoding="utf-8")
    files = dict(re.findall(r"^cat > (\S+) <<'?END'?\n(.*?)^END$", said, re.MULTILINE | re.DOTALL))
    files["office.pretty"] = "\n".join(re.findall(r"^```pretty\n(.*?)^```", said, re.MULTILINE | re.DOTALL))
    for each, text in files.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    options: dict[str, Any] = {} if name == "office.pretty" else {"input_": tmp_path / "closes.csv", "speed": 400_000.0}
    code, figures = run(patterns=[tmp_path / name], nodes=2, **options)
    assert code == 0
    assert figures["check"]["holds"]
    assert figures["composite_events"] > 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"input_": Path("nowhere.csv")}, "nowhere.csv"),
        ({"patterns": [Path("nowhere.pattern")]}, "nowhere.pattern"),
    ],
)
def test_missing_files_are_refused(run: Run, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        run(**options)


def test_empty_recording_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    with pytest.raises(DistcedError, match=r"(?s)empty.jsonl"):
        run(input_=path)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: broker)")
def test_demo_runs_with_ray() -> None:
    code = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
    arguments = ["demo", "--speed", "1200", "--minutes", "10", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["check"]["holds"]
    assert figures["composite_events"] > 0
    assert set(figures["nodes"]) == {"node-1", "node-2", "node-3"}
