"""The verb `record` as it is used: in a process of its own, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.observers import LiveDirectory
from distced.detectors.batch_run.runner import run
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.history import History, events_of_history
from distced.middleware.model.event_types import derive, event_type
from tests.support.verbs import load_verbs

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

VERB = """
import sys
from tests.support.verbs import load_verbs
load_verbs()
from distced.middleware.cli.command import main
sys.exit(main())
"""
MOTION = event_type("Motion", {"room": "string"})


@pytest.fixture(autouse=True)
def verbs() -> None:
    load_verbs()


@pytest.fixture
def server(start_mosquitto: Callable[..., Server]) -> Server:
    return start_mosquitto()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, name="app") as client:
        client.register(MOTION, derive(MOTION, "Hall", where="room == 'hall'"))
        yield client


@pytest.fixture
def record(server: Server, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `distced record --json`, and waits until it is ready."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-c",
            VERB,
            "record",
            "--history",
            str(tmp_path / "h"),
            "--server",
            server.url,
            "--json",
        ]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        started.append(process)
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def done(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Ask it to end; what it says then."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    last: dict[str, Any] = json.loads(out.splitlines()[-1])
    return last


def test_recorded_killed_recorded_on_and_replayed(
    record: Callable[..., subprocess.Popen[str]], client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = record("--all", "--name", "office")
    source = client.source("pir", ["Motion"], watermark=0)
    said = [source.create("Motion", 10 * n, room="hall" if n % 3 else "attic") for n in range(1, 31)]
    source.publish(*said[:10], watermark=100)
    assert client.flush()
    process.kill()
    process.wait(10)
    source.publish(*said[10:20], watermark=200)
    assert client.flush()
    process = record("--all", "--name", "office")
    source.publish(*said[20:], watermark=295)
    assert client.flush()
    report = done(process)
    assert (report["event"], report["waiting"], report["late"], report["gaps"]) == ("done", 1, 0, 0)
    history = History(tmp_path / "h")
    assert list(events_of_history(history)) == said[:-1]
    assert history.rows == 29
    assert history.recorders["office"].watermark == 295
    # What was recorded is what patterns are run over.
    assert main(["history", "export", str(tmp_path / "h"), str(tmp_path / "x.jsonl")]) == 0
    capsys.readouterr()
    pattern = "[Motion where room == 'attic'] ; [Motion]"
    assert main(["run", pattern, "--input", str(tmp_path / "x.jsonl"), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = run(compile_source(PatternSource(pattern, "")).compiled, said[:-1])
    assert [tuple(each["id"]) for each in found if "id" in each] == [each.id for each in wanted] != []


def test_recording_ends_after_its_duration(
    server: Server, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--history", str(tmp_path / "h"), "--server", server.url, "--for", "300ms", "--keep", "0s"]
    assert main(["record", "--types", "Motion,Motoin", "--name", "trial", *options]) == 0
    report = capsys.readouterr().err
    assert "note: Motoin is neither registered nor published so far; did you mean Motion?" in report
    assert f"trial records Motion, Motoin of {server.url}" in report
    assert "0 events written in 0 files" in report
    assert History(tmp_path / "h").recorders["trial"].types == ("Motion", "Motoin")


def test_unconfirmed_recorder_is_reported(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distced.brokers.live.recorder.LiveRecorder.wait_announced", lambda *_: False)
    assert main(["record", "--all", "--history", str(tmp_path / "h"), "--server", server.url, "--for", "100ms"]) == 0
    assert "sources do not wait for it so far" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--types", "Hall"], "the type 'Hall' is derived"),
        (["--types", "Motion", "--all"], "both --types and --all"),
        ([], "no types to record"),
        (["--all", "--name", "a/b"], "not a name for a recorder"),
        (["--types", "#"], "not a name for a type"),
    ],
)
def test_faulty_options_of_record_are_refused(
    server: Server, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["record", "--history", str(tmp_path / "h"), "--server", server.url, *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("h/*/*.parquet"))


@pytest.mark.slow
def test_record_needs_a_server_and_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: Server
) -> None:
    assert main(["record", "--all", "--history", str(tmp_path / "h"), "--server", "mqtt://127.0.0.1:9"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err
    (tmp_path / "thesis.tex").write_text("…")
    assert main(["record", "--all", "--history", str(tmp_path), "--server", server.url]) == 2
    assert "needs a folder of its own" in capsys.readouterr().err


def test_recorder_without_a_reader_of_its_output_records(
    server: Server, client: Client, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", VERB, "record", "--all", "--history", str(tmp_path / "h"), "--server", server.url]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    # Unbuffered streams have nothing left to write at the end.
    environment.pop("PYTHONUNBUFFERED", None)
    recorder = subprocess.Popen([*command, "--json"], stdout=writing, stderr=writing, env=environment)
    os.close(writing)
    try:
        with LiveDirectory(server.url) as directory:
            eventually(lambda: directory.look(lambda there: bool(there.recorders))[0])
        source = client.source("pir", ["Motion"], watermark=0)
        published = [source.create("Motion", 10 * n, room="hall") for n in range(1, 11)]
        source.publish(*published, watermark=100)
        source.close()
        assert client.flush()
        recorder.send_signal(signal.SIGTERM)
        assert recorder.wait(20) == 0
    finally:
        recorder.kill()
        recorder.wait()
    assert list(events_of_history(History(tmp_path / "h"))) == published
