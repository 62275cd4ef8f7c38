"""The verbs `broker`, `publish` and `subscribe`, as they are used: each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import structlog

from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.detectors.batch_run.runner import run
from distced.middleware.bus import Bus
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import MILLISECOND
from distced.middleware.wire.json_events import json_id

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

PLAIN = """
[[rule]]
topic = "home/{room}/temperature"
format = "text"
type = "Temperature"
source = "{$room}"
[rule.attributes]
celsius = { kind = "number", path = "value" }
"""

NOWHERE = "mqtt://127.0.0.1:9"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Verbs that run in this process configure logging, to a standard error that is the test's."""
    yield
    structlog.reset_defaults()


class Verb:
    """A `distced` command that runs; its lines can be waited for."""

    def __init__(self, *arguments: str) -> None:
        command = [
            sys.executable,
            "-c",
            "import sys; from distced.middleware.cli.command import main; sys.exit(main())",
        ]
        environment = {name: value for name, value in os.environ.items() if name != "DISTCED_SERVER"}
        self._process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in ((self._process.stdout, self.out), (self._process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, text: str, timeout: float = 20.0) -> str:
        """The first line that holds a text, of standard output or standard error."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._line(text) or self._process.poll() is not None, timeout)
            line = self._line(text)
        if not found or line is None:
            pytest.fail(f"no line with {text!r}: {self.out} {self.err}")
        return line

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, timeout: float = 20.0) -> int:
        """The exit code, when it comes."""
        code = self._process.wait(timeout)
        for reader in self._readers:
            reader.join(5)
        return code

    def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        return self.end()

    @property
    def said(self) -> str:
        return "\n".join(self.err)

    def _line(self, text: str) -> str | None:
        return next((line for line in [*self.out, *self.err] if text in line), None)

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            # A broker ends the server that it has started.
            self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(5)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def distced() -> Iterator[Callable[..., Verb]]:
    """Starts verbs; those that still run are ended with the test."""
    started: list[Verb] = []

    def start(*arguments: str) -> Verb:
        started.append(Verb(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


def retained(url: str, wanted: str = "ced/d/#") -> set[str]:
    """The topics of what the server retains."""
    found: set[str] = set()
    done = threading.Event()
    with Bus(url) as bus:
        bus.subscribe(wanted, lambda topic, payload, _: found.add(topic), qos=1)
        bus.subscribe("done", lambda *_: done.set(), qos=1)
        bus.wait_connected()
        bus.publish("done", b"", qos=1)
        assert done.wait(5)
    return found


@pytest.mark.slow
def test_broker_a_bridge_and_both_ends_find_a_composite_event(
    distced: Callable[..., Verb], tmp_path: Path, make_bus: Callable[..., Bus]
) -> None:
    mapping = tmp_path / "home.toml"
    mapping.write_text(PLAIN)
    broker = distced("broker", "--port", "0", "--no-ray", "--mapping", str(mapping), "--lateness", "500ms", "--json")
    ready = json.loads(broker.wait_for('"ready"'))
    url = ready["server"]
    assert (ready["topics"], ready["types"]) == (["home/+/temperature"], ["Temperature"])

    login = distced("publish", "Login", "--register", "who:string", "--server", url)
    assert login.end() == 0
    pattern = "[Temperature as t where celsius < 15] ; [Login as l] -> Cold(who = l.who, c = t.celsius)"
    subscription = distced("subscribe", pattern, "--constituents", "--count", "1", "--json", "--server", url)
    subscription.wait_for("listening: ")
    make_bus(url).publish("home/hall/temperature", b"14.5", qos=1)
    broker.wait_for('"source": "hall"')
    published = distced("publish", "Login", "who=ada", "--json", "--server", url)
    assert published.end() == 0
    event = json.loads(published.out[0])
    assert event["attributes"] == {"who": "ada"}

    assert subscription.end() == 0
    found = json.loads(subscription.out[0])
    assert (found["type"], found["attributes"], found["end"]) == (
        "Cold",
        {"who": "ada", "c": 14.5},
        found["events"][1]["end"],
    )
    assert [each["type"] for each in found["events"]] == ["Temperature", "Login"]
    assert found["constituents"][1] == ["console", event["seq"]]
    summary = json.loads(subscription.err[-1])
    assert (summary["printed"], summary["duplicates"]) == (1, 0)

    assert broker.terminate() == 0
    report = [json.loads(line)["event"] for line in broker.out]
    assert report.count("detector created") == report.count("detector destroyed") == 1
    assert report[-1] == "broker stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_leaves_a_clean_directory(
    distced: Callable[..., Verb],
    start_mosquitto: Callable[..., Server],
    tmp_path: Path,
    make_bus: Callable[..., Bus],
    number: int,
) -> None:
    url = start_mosquitto().url
    (tmp_path / "home.toml").write_text(PLAIN)
    options = ("--server", url, "--no-ray", "--nodes", "2", "--name", "b", "--mapping", str(tmp_path / "home.toml"))
    broker = distced("broker", *options)
    broker.wait_for("Ctrl-C")
    subscription = distced("subscribe", "[Temperature] ; [Temperature]", "--server", url)
    subscription.wait_for("listening: ")
    make_bus(url).publish("home/hall/temperature", b"14.5", qos=1)
    broker.wait_for("source=hall")
    there = {"/".join(topic.split("/")[:3]) for topic in retained(url)}
    assert there == {
        f"ced/d/{kind}" for kind in ("type", "client", "source", "node", "load", "detector", "subscription")
    }
    assert {"ced/d/node/b-1", "ced/d/node/b-2", "ced/d/source/b-bridge", "ced/d/source/hall"} <= retained(url)

    subscription.signal(number)
    assert subscription.end() == 0
    assert subscription.err[-1] == "0 events"
    broker.signal(number)
    assert broker.end() == 0
    assert retained(url) == {"ced/d/type/Temperature"}


@pytest.mark.slow
def test_broker_starts_beside_an_entry_of_its_name_that_nobody_answers_for(
    distced: Callable[..., Verb], start_mosquitto: Callable[..., Server], make_bus: Callable[..., Bus]
) -> None:
    """As after a power cut, from a server with persistence."""
    url = start_mosquitto().url
    make_bus(url).publish("ced/d/node/b", b'{"since": 1}', qos=1, retain=True)
    broker = distced("broker", "--server", url, "--no-ray", "--name", "b")
    broker.wait_for("node replaced")
    broker.wait_for("Ctrl-C")
    assert broker.terminate() == 0
    assert "ced/d/node/b" not in retained(url)


@pytest.mark.slow
def test_bridge_continues_after_it_was_killed(
    distced: Callable[..., Verb], start_mosquitto: Callable[..., Server], tmp_path: Path, make_bus: Callable[..., Bus]
) -> None:
    url = start_mosquitto().url
    (tmp_path / "home.toml").write_text(PLAIN)
    options = ("--server", url, "--no-ray", "--name", "b", "--mapping", str(tmp_path / "home.toml"))
    broker = distced("broker", *options)
    broker.wait_for("Ctrl-C")
    make_bus(url).publish("home/hall/temperature", b"14.5", qos=1)
    broker.wait_for("source=hall")
    another = distced("broker", "--server", url, "--no-ray", "--name", "b")
    assert another.end() == 2
    assert "a broker node of this name is there already: b" in another.said
    broker.signal(signal.SIGKILL)
    broker.end()
    assert "ced/d/source/hall" in retained(url)
    again = distced("broker", *options)
    again.wait_for("Ctrl-C")
    assert retained(url, "ced/d/source/+") == {"ced/d/source/b-bridge"}
    assert again.terminate() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("broker", "--no-ray"), ("publish", "A"), ("publish", "--file", "a.jsonl"), ("subscribe", "[A]"),
     ("subscribe", "[A]", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_absent_server_is_an_error(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "A", "time": 1}\n')
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--server", NOWHERE]) == 2
    said = capsys.readouterr()
    if "--json" in arguments:
        assert json.loads(said.out)["error"] == "BusError"
    else:
        assert said.err.splitlines()[0] == "error: nothing listens at 127.0.0.1:9"
        assert "start one with `distced broker`" in said.err


WRONG = [
    (("broker", "--server", "ftp://x"), "not the URL of an MQTT server: ftp://x"),
    (("broker", "--server", NOWHERE, "--port", "1"), "a port for a server that is not started here: 1"),
    (("broker", "--mapping", "nowhere.toml"), "cannot read the mapping: nowhere.toml"),
    (("broker", "--lateness", "soon"), "not a duration: soon"),
    (("publish",), "nothing to publish"),
    (("publish", "A", "--file", "a.jsonl"), "both an event and a recording"),
    (("publish", "--file", "nowhere.jsonl"), "nowhere.jsonl"),
    (("subscribe", "nowhere.pattern"), "no such pattern file: nowhere.pattern"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG)
def test_faulty_options_are_refused_before_the_start(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err


REFUSED = [
    (("publish", "Nothing", "a=1", "b=x"), "register it with --register 'a:number,b:string'"),
    (("publish", "A", "x=1"), "type 'A' has no attribute 'x'"),
    (("publish", "A", "k=warm"), "the attribute 'k' is a number: warm"),
    (("publish", "A", "--register", "k:string"), "the type 'A' is registered already, and differs"),
    (("subscribe", "[A] ; [Nothing]"), "unknown event type: Nothing"),
    (("subscribe", "[A"), "[A\n"),
    (("subscribe", "Nothing"), "unknown event type: Nothing"),
]


@pytest.fixture(scope="module")
def system() -> Iterator[str]:
    """The URL of a server with a broker node, and with types A and B.

    A node in this process would log into the output of the tests, and of one that has ended.
    """
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with start_server("mosquitto") as server, Verb("broker", "--no-ray", "--server", server.url) as broker:
        broker.wait_for("Ctrl-C")
        with Client(server.url) as client:
            client.register(event_type("A", {"k": "number"}), event_type("B", {"k": "number"}))
        yield server.url


@pytest.mark.parametrize(("arguments", "problem"), REFUSED)
def test_error_of_the_system_is_shown(
    system: str, arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--server", system]) == 2
    assert problem in capsys.readouterr().err


def test_timeout_without_an_event_gives_exit_code_1(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subscribe", "[A] ; [B]", "--timeout", "100ms", "--server", system]) == 1
    assert "0 events" in capsys.readouterr().err.splitlines()


def test_recording_gives_the_same_live_as_offline(system: str, distced: Callable[..., Verb], tmp_path: Path) -> None:
    recording, patterns = tmp_path / "events.jsonl", tmp_path / "pairs.pattern"
    events = [
        {
            "type": "AB"[place % 2],
            "lo": 10**18 + place * 10 * MILLISECOND,
            "hi": 10**18 + place * 10 * MILLISECOND + place % 3 * 7 * MILLISECOND,
            "source": f"s{place % 3}",
            "seq": place,
            "attributes": {"k": place % 5},
        }
        for place in range(400)
    ]
    recording.write_text("\n".join(map(json.dumps, reversed(events))) + "\nnonsense\n")
    patterns.write_text(
        "type Large = B where k > 0\n"
        "[Pair] ; [Pair] within 100ms -> Twice()\n"
        "[A as a] ; [Large where k == a.k + 1] -> Pair(k = a.k)\n"
        "([A where k == 0], [T <= {T, B}]) @ T = 5ms -> Alone() publish_json = 'home/alone'\n"
    )
    as_json: list[str] = []
    reader = Bus(system)
    reader.subscribe("home/alone", lambda topic, payload, retain: as_json.append(json.loads(payload)["id"]), qos=1)
    expected = run(patterns, recording, finish=True)
    assert {event.type for event in expected} == {"Twice", "Pair", "Alone"}
    most = str(len(expected))
    reader.start()
    reader.wait_connected()
    subscription = distced("subscribe", str(patterns), "--count", most, "--json", "--server", system)
    for _ in range(3):
        subscription.wait_for("listening: ")
    subscription.wait_for("[Pair] ; [Pair]")
    # In ten times less than its four seconds.
    published = distced(
        "publish", "--file", str(recording), "--speed", "10", "--beyond", "1s", "--server", system, "--json"
    )
    assert published.end() == 0
    done = json.loads(published.out[0])
    assert (done["events"], done["types"], done["sources"], done["rejected"]) == (400, 2, 3, 1)
    assert done["seconds"] > 0.35
    assert "a row gave no event" in published.said
    assert subscription.end() == 0
    assert sorted(as_json) == sorted(json_id(each) for each in expected if each.type == "Alone")
    reader.stop()
    found = [json.loads(line) for line in subscription.out]
    assert sorted((each["type"], each["id"], each["lo"], each["hi"]) for each in found) == sorted(
        (each.type, list(each.id), each.lo, each.hi) for each in expected
    )


def test_events_of_a_type_are_printed_on_arrival(system: str, distced: Callable[..., Verb]) -> None:
    subscription = distced("subscribe", "A", "--first", "--server", system)
    subscription.wait_for("listening: ")
    published = distced(
        "publish", "A", "k=3", "--at", "2026-11-21T08:00:00Z", "--uncertainty", "1s", "--server", system
    )
    assert published.end() == 0
    assert subscription.end() == 0
    assert subscription.out == published.out == ["2026-11-21T08:00:01.000Z  A  k=3  over 2 s, from console"]


def test_silent_source_is_fenced_off(
    distced: Callable[..., Verb], start_mosquitto: Callable[..., Server], capsys: pytest.CaptureFixture[str]
) -> None:
    url = start_mosquitto().url
    with LiveNode(url, "attic"), Client(url) as client:
        client.wait_for_nodes(1)
        client.register(event_type("A", {}))
        source = client.source("s", ["A"], watermark=0)
        client.source("silent", ["A"], watermark=0)
        subscription = client.subscribe("[A]")
        source.publish(source.create("A", 1), watermark=1)
        assert main(["fence", "silence", "--server", url]) == 2
        assert "no source of this name: silence" in (refused := " ".join(capsys.readouterr().err.split()))
        assert "did you mean silent?" in refused
        assert subscription.get(0.1) is None
        assert main(["fence", "silent", "--server", url]) == 0
        assert "silent fenced off: 1 detector goes on without it" in capsys.readouterr().out.splitlines()
        assert (found := subscription.get(10)) is not None and found.hi == 1
        assert main(["fence", "s", "--json", "--server", url]) == 0
        # Beside the log of the node.
        answer = (out := capsys.readouterr().out)[out.index("{") : out.rindex("}") + 1]
        assert json.loads(answer) == {"source": "s", "detectors": [subscription.detector]}
