"""A recorder on a real MQTT server: started, killed, started again; what is in its history is what was published."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.recorder import LiveRecorder
from distced.brokers.live.recorder_journal import Journal
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client
from distced.middleware.history import History, events_of_history
from distced.middleware.history.late_events import late_files
from distced.middleware.model.errors import BusError, HistoryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import RecorderEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import directory_topic, event_topic

pytestmark = pytest.mark.mqtt

A = event_type("A", {"k": "number"})
B = event_type("B", {"k": "number"})
Eventually = Callable[[Callable[[], bool]], None]

RECORD = """
import sys, time
from distced.brokers.live.recorder import LiveRecorder
url, history, root, every = sys.argv[1:]
recorder = LiveRecorder(url, history, "r", types=["A", "B"], root=root, flush_every=int(every))
recorder.start()
assert recorder.wait_announced(10)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.fixture
def client(mosquitto: Server, root: str) -> Iterator[Client]:
    with Client(mosquitto.url, name=f"{root}-app", root=root) as client:
        client.register(A, B)
        yield client


def recorded(history: Path) -> list[Event]:
    return list(events_of_history(History(history)))


def overlapping(history: Path) -> list[Any]:
    """Files of one type that overlap in time."""
    found = []
    files = sorted(History(history).files, key=lambda file: (file.type, file.note.first))
    for one, other in pairwise(files):
        if one.type == other.type and one.note.last >= other.note.first:
            found.append((one.path.name, other.path.name))
    return found


def test_recorder_writes_stable_events_and_keeps_late_ones(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually
) -> None:
    with LiveRecorder(mosquitto.url, history, "r", types=["A", "B"], root=root) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A", "B"], watermark=0)
        other = client.source("t", ["A"], watermark=0)
        said = [source.create("A", 30, k=1), source.create("B", 10, k=2), source.create("A", 20, k=3)]
        source.publish(*said, watermark=40)
        beyond = source.create("A", 60, k=4)
        source.publish(beyond)
        late = Event("A", 5, 5, "t", 1, {"k": 5})
        other.heartbeat(100)
        client.home_bus.publish(event_topic("A", "t", root=root), encode_frame([late], type="A", source="t"), qos=1)
        client.home_bus.publish(event_topic("B", "s", root=root), encode_frame([said[1]], type="B", source="s"), qos=1)
        eventually(lambda: recorder.status()["events"] == 6)
        status = recorder.status()
        assert (status["late"], status["duplicates"], status["waiting"]) == (1, 1, 4)
        assert (status["watermark"], status["holding"], status["problem"]) == (40, ["s"], None)
    assert recorded(history) == sorted(said, key=lambda event: event.key)
    (line,) = (each for path in late_files(history) for each in path.read_bytes().splitlines())
    assert b'"seq": 1' in line and b'"came"' in line
    note = History(history).recorders["r"]
    assert (note.types, note.watermark, note.gaps) == (("A", "B"), 40, ())
    # What was not stable comes with the next life.
    with LiveRecorder(mosquitto.url, history, "r", types=["A", "B"], root=root) as recorder:
        assert recorder.resumed
        source.heartbeat(100)
        eventually(lambda: recorder.status()["watermark"] == 100)
    assert recorded(history)[-1] == beyond
    assert len(recorded(history)) == 4


def test_that_time_has_passed_is_noted_without_events(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually
) -> None:
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root, flush_every=SECOND // 10) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"], watermark=0)
        source.heartbeat(1000)
        eventually(lambda: "r" in History(history).recorders and History(history).recorders["r"].watermark == 1000)
        assert recorder.status()["files"] == 0


@pytest.mark.slow
def test_killed_recorder_loses_nothing_and_writes_nothing_twice(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually
) -> None:
    arguments = [sys.executable, "-c", RECORD, mosquitto.url, str(history), root, str(SECOND // 20)]
    said: list[Event] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    process = start()
    sources = [client.source(name, ["A", "B"], watermark=0) for name in ("s", "t")]
    for turn in range(4):
        for n in range(60):
            hi = 1_000 * turn + 10 * n + 1
            for source in sources:
                event = source.create("AB"[n % 2], hi, k=n)
                source.publish(event)
                said.append(event)
                if n % 5 == 0:
                    source.heartbeat(hi - 1)
            if n == 20 + turn:
                os.kill(process.pid, signal.SIGKILL)
                process.wait(10)
            if n == 50 - turn:
                process = start()
            time.sleep(0.002)
    for source in sources:
        source.heartbeat(10_000)
    eventually(lambda: "r" in History(history).recorders and History(history).recorders["r"].watermark == 10_000)
    process.terminate()
    process.wait(10)
    assert recorded(history) == sorted(said, key=lambda event: event.key)
    assert History(history).rows == len(said)
    assert overlapping(history) == []
    assert not History(history).problems
    assert History(history).recorders["r"].gaps == ()
    assert late_files(history) == []


def test_server_that_is_started_again_without_a_memory_leaves_a_gap(
    start_mosquitto: Callable[..., Server], history: Path, eventually: Eventually
) -> None:
    server = start_mosquitto()
    with (
        LiveRecorder(server.url, history, "r", types=None) as recorder,
        Client(server.url) as client,
    ):
        client.register(A)
        source = client.source("s", ["A"], watermark=0)
        source.publish(source.create("A", 10, k=1), watermark=10)
        eventually(lambda: recorder.status()["watermark"] == 10)
        server.stop()
        eventually(lambda: not recorder.status()["connected"])
        start_mosquitto(port=server.port)
        eventually(lambda: recorder.status()["gaps"] == 1 and recorder.recorder.announced)
        eventually(lambda: client.bus.connected)
        source.publish(source.create("A", 20, k=2), watermark=20)
        eventually(lambda: recorder.status()["watermark"] == 20)
    assert [each.hi for each in recorded(history)] == [10, 20]
    assert len(History(history).recorders["r"].gaps) == 1


def test_composite_events_of_detectors_are_recorded(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually
) -> None:
    with (
        LiveNode(mosquitto.url, f"{root}-n", root=root),
        LiveRecorder(mosquitto.url, history, "r", types=["Both"], root=root) as recorder,
    ):
        client.wait_for_nodes(1)
        assert recorder.wait_announced(10)
        source = client.source("s", ["A", "B"], watermark=0)
        client.subscribe("[A as a] ; [B] -> Both(k = a.k)")
        eventually(lambda: recorder.status()["sources"] == 1)
        source.publish(source.create("A", 10, k=7), source.create("B", 20, k=8), watermark=40)
        eventually(lambda: recorder.status()["watermark"] == 40)
    (found,) = recorded(history)
    assert isinstance(found, CompositeEvent)
    assert (found.type, found.lo, found.hi, found.attributes) == ("Both", 10, 20, {"k": 7})
    assert len(found.constituents) == 2


def test_sources_at_other_sites(start_mosquitto: Callable[..., Server], history: Path, eventually: Eventually) -> None:
    one, other = start_mosquitto(), start_mosquitto()
    with Client(one.url, home=other.url) as client:
        with LiveRecorder(one.url, history, "r", types=["A"], flush_every=MINUTE) as recorder:
            assert recorder.wait_announced(10)
            eventually(lambda: "r" in client._session.entries.recorders)
            client.register(A)
            source = client.source("s", ["A"], watermark=0)
            source.publish(source.create("A", 10, k=1), watermark=20)
            eventually(lambda: recorder.status()["watermark"] == 20)
        # What is published there while it is away is kept there.
        source.publish(source.create("A", 30, k=1), watermark=40)
        assert client.flush()
        with LiveRecorder(one.url, history, "r", types=["A"]) as recorder:
            eventually(lambda: recorder.status()["watermark"] == 40)
    assert [each.hi for each in recorded(history)] == [10, 30]
    assert History(history).recorders["r"].gaps == ()


def test_second_recorder_of_a_name_is_refused(mosquitto: Server, root: str, history: Path) -> None:
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root):
        with pytest.raises(HistoryError, match="a recorder of this name is running: r"):
            LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root)
        LiveRecorder(mosquitto.url, history, "other", types=["A"], root=root).stop()
    # One that could not be made is none.
    for _ in range(2):
        with pytest.raises(BusError, match="not a client id"):
            LiveRecorder(mosquitto.url, history, "of\ntwo lines", types=["A"], root=root)


def test_damaged_journal_is_an_error(mosquitto: Server, root: str, history: Path) -> None:
    LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root).stop()
    journal = history / "recorders" / "r.journal"
    content = journal.read_bytes()
    journal.write_bytes(content[:20])
    with pytest.raises(HistoryError, match="a journal that cannot be read"):
        LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root)
    # What a crash has left half written at its end is another matter.
    journal.write_bytes(content + b"\x10\0\0\0half")
    LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root).stop()
    assert journal.read_bytes() == content


def test_failed_batch_is_written_again(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distced.brokers.live.recorder.AGAIN_EVERY", SECOND // 10)
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root, flush_every=SECOND // 10) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"], watermark=0)
        (history / "day=1970-01-01").write_text("in the way")
        source.publish(source.create("A", 10, k=1), watermark=10)
        eventually(lambda: recorder.status()["problem"] is not None)
        source.publish(source.create("A", 20, k=1), watermark=20)
        eventually(lambda: recorder.status()["watermark"] == 20)
        status = recorder.status()
        assert (status["written"], status["waiting"]) == (0, 2)
        (history / "day=1970-01-01").unlink()
        eventually(lambda: recorder.status()["problem"] is None)
        eventually(lambda: recorder.status()["written"] == 2)
    assert [each.hi for each in recorded(history)] == [10, 20]


def test_recorder_without_its_journal_continues_with_a_gap(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually
) -> None:
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"], watermark=0)
        source.publish(source.create("A", 10, k=1), watermark=20)
        eventually(lambda: recorder.status()["watermark"] == 20)
    before = History(history).recorders["r"]
    (history / "recorders" / "r.journal").unlink()
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root) as recorder:
        assert not recorder.resumed
        assert recorder.wait_announced(10)
    after = History(history).recorders["r"]
    assert after.since == before.since
    ((begin, end),) = after.gaps
    assert begin == 20 < end


def test_session_expiry_has_an_upper_bound(mosquitto: Server, root: str, history: Path) -> None:
    for keep in (SECOND // 2, 200 * 365 * 86_400 * SECOND):
        with LiveRecorder(mosquitto.url, history, f"r{keep}", types=["A"], root=root, keep=keep) as recorder:
            assert recorder.wait_announced(10)


def test_recorder_continues_when_the_journal_is_writable_again(
    mosquitto: Server, root: str, client: Client, history: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the server sends before something is acknowledged; and it is the history that is written first."""
    monkeypatch.setattr("distced.brokers.live.recorder.AGAIN_EVERY", 3600 * SECOND)
    sync, full = Journal.sync, threading.Event()

    def sync_or_fail(journal: Journal) -> None:
        if full.is_set():
            raise HistoryError("the disk is full")
        sync(journal)

    monkeypatch.setattr(Journal, "sync", sync_or_fail)
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root, flush_every=SECOND // 5) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"], watermark=0)
        full.set()
        for n in range(1, 1201):
            source.publish(source.create("A", n, k=n), watermark=n)
        # The server has sent as many as it sends before any is acknowledged.
        eventually(lambda: recorder.status()["problem"] is not None and recorder.status()["events"] >= 1000)
        assert client.flush()
        full.clear()
        eventually(lambda: recorder.status()["written"] == 1200)
    assert len(recorded(history)) == 1200


def test_sources_wait_for_recorders(
    mosquitto: Server, root: str, client: Client, make_bus: Callable[..., Bus], eventually: Eventually
) -> None:
    bus = make_bus(mosquitto.url)
    topic = directory_topic("recorder", "deaf", root=root)
    bus.publish(topic, encode(RecorderEntry(0)), qos=1, retain=True)
    eventually(lambda: "deaf" in client._session.entries.recorders)
    client.patience = 0.3
    with pytest.raises(Exception, match="have not acknowledged the source 's': recorder:deaf"):
        client.source("s", ["A"])
    bus.publish(topic, b"", qos=1, retain=True)
    assert bus.flush()
