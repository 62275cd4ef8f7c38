"""`distced doctor` on a real MQTT server: a sound deployment, and each fault that can be staged."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.cli.doctor import finding_lines
from distced.brokers.core.identity import Identity, Installation, identity_topic
from distced.brokers.doctor.checks.findings import Finding, State, is_bad
from distced.brokers.doctor.checks.server import server_findings
from distced.brokers.doctor.collect.files import mosquitto_file, running_mosquitto
from distced.brokers.doctor.collect.server_probe import probe
from distced.brokers.doctor.examination import Wanted, examine
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.node.silent_sources import SILENT
from distced.middleware.bus import Bus
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import LoadEntry, NodeEntry
from distced.middleware.wire.topics import directory_topic
from tests.support.verbs import load_verbs

pytestmark = pytest.mark.mqtt

StartServer = Callable[..., Server]

BAD = (State.WARNING, State.ERROR)


def bad(findings: list[Finding]) -> dict[tuple[str, str], Finding]:
    """Warnings and errors, by check and subject."""
    return {(each.check, each.subject): each for each in findings if each.state in BAD}


def examined(server: Server, tmp_path: Path, **wanted: Any) -> list[Finding]:
    return examine(Wanted(server.url, **({"seconds": 1.5, "checkpoints": str(tmp_path)} | wanted)))


@pytest.fixture
def kept(start_mosquitto: StartServer, open_folder: Path) -> Server:
    """A server with persistence, of which no user knows the folder but itself."""
    state = open_folder / "state"
    state.mkdir()
    state.chmod(0o777)
    return start_mosquitto(settings=["persistence true", f"persistence_location {state}/", "sys_interval 1"])


def test_sound_deployment_has_no_warning(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic"), LiveNode(kept.url, "cellar"), Client(kept.url, name="app") as client:
        client.wait_for_nodes(2)
        client.register(event_type("A", {}))
        client.source("s", ["A"])
        client.subscribe("[A]")
        findings = examined(kept, tmp_path)
    # What this machine lacks is not a matter of the deployment.
    assert {key: each for key, each in bad(findings).items() if key[1] != "this machine"} == {}
    fine = {each.check for each in findings if each.state is State.OK}
    assert fine >= {"connection", "persistence", "nodes", "versions", "clock", "detectors", "client id", "checkpoints"}
    assert {each.subject for each in findings if each.check == "clock"} == {"attic", "cellar"}


def test_verb_prints_findings_and_says_no_with_a_warning(
    mosquitto: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load_verbs()
    arguments = ["doctor", "--server", mosquitto.url, "--seconds", "0.5", "--checkpoints", str(tmp_path)]
    assert main([*arguments, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    persistence = next(each for each in report["findings"] if each["check"] == "persistence")
    assert persistence["state"] == "warning" and "persistence true" in persistence["remedy"]
    assert sum(report["counts"].values()) == len(report["findings"])
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "no broker node" in printed.out and "→ start one: distced broker" in printed.out
    assert "error" in printed.err
    assert main([*arguments, "--seconds", "0"]) == 2


def test_server_that_is_down_is_a_finding_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    load_verbs()
    assert main(["doctor", "--server", "mqtt://127.0.0.1:1"]) == 1
    printed = capsys.readouterr().out
    assert "nothing listens at 127.0.0.1:1" in printed and "python" in printed
    assert "deployment" in printed and "not checked" in printed


def test_configuration_of_a_running_server_is_found(kept: Server, mosquitto: Server) -> None:
    found = running_mosquitto(kept.port)
    assert found is not None and found.last("persistence") == "true"
    assert running_mosquitto(1) is None


def test_included_files_count_behind(tmp_path: Path) -> None:
    (tmp_path / "mosquitto.conf").write_text("persistence false\ninclude_dir further\n")
    (tmp_path / "further").mkdir()
    (tmp_path / "further" / "one.conf").write_text("persistence true\n")
    (tmp_path / "further" / "two.txt").write_text("persistence false\n")
    assert mosquitto_file(tmp_path / "mosquitto.conf").last("persistence") == "true"
    assert mosquitto_file(tmp_path / "none.conf").problem


@pytest.mark.slow
def test_source_that_holds_detectors_back(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic"), Client(kept.url, name="reader") as reader:
        reader.wait_for_nodes(1)
        reader.register(event_type("A", {}))
        with Client(kept.url, name="sensor") as sensor:
            sensor.source("door", ["A"], watermark=0)
            reader.subscribe("[A]")
            # It is gone without a farewell: its entry stays.
            entry = directory_topic("source", "door")
            kept_entry: list[bytes] = []
            reader_bus = Bus(kept.url)
            with reader_bus:
                reader_bus.wait_connected()
                reader_bus.subscribe(entry, lambda _, payload, __: kept_entry.append(payload), timeout=5)
                deadline = time.monotonic() + 10
                while not kept_entry and time.monotonic() < deadline:
                    time.sleep(0.01)
        with Bus(kept.url) as bus:
            bus.wait_connected()
            bus.publish(entry, kept_entry[0], qos=1, retain=True)
            bus.flush(5)
        deadline = time.monotonic() + 4 * SILENT / SECOND
        found = None
        while found is None and time.monotonic() < deadline:
            found = bad(examined(kept, tmp_path)).get(("silent source", "door"))
        assert found is not None
        assert "1 detector" in found.text and "sensor is gone" in found.text and "distced fence door" in found.remedy


@contextmanager
def flapping(url: str) -> Iterator[None]:
    """Two clients of one id, each with its own entry and will."""
    over = threading.Event()
    topic, id_ = directory_topic("recorder", "twin"), "distced-twin"

    def life(since: int) -> None:
        while not over.is_set():
            with Bus(url, client_id=id_) as bus:
                bus.wait_connected(5)
                bus.publish(topic, b'{"since": %d}' % since, qos=1, retain=True)
                bus.flush(2)
                over.wait(0.3)

    threads = [threading.Thread(target=life, args=(since,)) for since in (1, 2)]
    for each in threads:
        each.start()
    yield
    over.set()
    for each in threads:
        each.join(20)


def test_client_id_that_is_used_twice(start_mosquitto: StartServer, tmp_path: Path) -> None:
    server = start_mosquitto(settings=["log_dest topic"])
    with flapping(server.url):
        found = bad(examined(server, tmp_path, seconds=3.0))
    assert found["client id", "recorder twin"].state is State.ERROR
    assert "two have this name" in found["client id", "recorder twin"].text
    assert "two clients have this id" in found["client id", "client id distced-twin"].text


def test_two_clients_of_one_name(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic"):
        clients = [Client(kept.url, name="app") for _ in range(2)]
        for each in clients:
            each.start()
        found = bad(examined(kept, tmp_path, seconds=4.0))
        for each in clients:
            each.stop()
    assert "another name" in found["client id", "client app"].remedy


def test_entry_of_a_dead_node_and_a_node_of_another_version(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic"), Bus(kept.url) as bus:
        bus.wait_connected()

        def answer(topic: str, payload: bytes, retain: bool) -> None:
            installation = Installation(distced="0.0.1", python="3.11.0", numba="0.61", open_files=100)
            said = Identity("old", SystemClock().now(), {"detector": 1}, installation)
            bus.publish(identity_topic(topic.rpartition("/")[2], "old"), encode(said))

        bus.subscribe("ced/a/node/old/identify/+", answer, timeout=5)
        for name in ("dead", "old"):
            bus.publish(directory_topic("node", name), encode(NodeEntry(1)), qos=1, retain=True)
        bus.publish(directory_topic("load", "old"), encode(LoadEntry(behind=9 * SECOND)), qos=1, retain=True)
        bus.flush(5)
        found = bad(examined(kept, tmp_path))
    assert found["nodes", "dead"].state is State.ERROR and "no sign of life" in found["nodes", "dead"].text
    assert ("nodes", "old") not in found and ("nodes", "attic") not in found
    assert any(check == "versions" for check, _ in found) and any(check == "formats" for check, _ in found)
    assert "100 open files" in found["open files", "old"].text
    assert found["backlog", "old"].state is State.WARNING


def test_node_without_a_connection_to_its_home(
    kept: Server, start_mosquitto: StartServer, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    home = start_mosquitto()
    with LiveNode(kept.url, "attic", home=home.url) as node:
        assert not any(check == "home" for check, _ in bad(examined(kept, tmp_path)))
        home.stop()
        eventually(lambda: not node.connections.to(home.url).connected)
        found = bad(examined(kept, tmp_path))["home", "attic"]
    assert found.state is State.ERROR and f"its own home {home.url}" in found.text


class Ahead(SystemClock):
    """Clock of a machine that was set wrongly."""

    def now(self) -> int:
        return super().now() + 40 * SECOND


def test_clock_that_is_off(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic", clock=Ahead()), LiveNode(kept.url, "cellar"):
        found = bad(examined(kept, tmp_path))
    assert "40 s" in found["clock", "attic"].text and "ahead of the clock here" in found["clock", "attic"].text
    assert ("clock", "cellar") not in found
    assert "differs from that of cellar" in found["clocks", "attic"].text


def test_entries_that_make_no_sense(kept: Server, tmp_path: Path) -> None:
    with LiveNode(kept.url, "attic"), Bus(kept.url) as bus:
        bus.wait_connected()
        for topic, payload in (("ced/d/node/odd", b"\xff"), ("ced/d/what/x", b"{}"), ("ced/d/client/c", b"[]")):
            bus.publish(topic, payload, qos=1, retain=True)
        bus.flush(5)
        findings = examined(kept, tmp_path)
    assert len([each for each in findings if each.check == "entries" and each.state is State.WARNING]) == 3


# Access.


def test_users_and_passwords(start_mosquitto: StartServer, tmp_path: Path, open_folder: Path) -> None:
    users = open_folder / "users"
    folder = pytest.importorskip("distced.brokers.deployment.folder", exc_type=ImportError)
    users.write_text(f"ada:{folder._hashed('secret')}\n")
    users.chmod(0o644)
    server = start_mosquitto(settings=[f"password_file {users}"])
    for login, said in (("", "none was given"), ("ada:wrong@", "user ada, or the password")):
        url = f"mqtt://{login}127.0.0.1:{server.port}"
        findings = examine(Wanted(url, seconds=1, checkpoints=str(tmp_path)))
        found = bad(findings)["connection", server.url]
        assert said in found.text and "wrong" not in " ".join(each.plain for each in finding_lines(findings))
        assert next(each for each in findings if each.check == "anonymous").state is State.OK
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o644)
    findings = examine(Wanted(f"mqtt://ada@127.0.0.1:{server.port}?password-file={password}", seconds=1))
    assert next(each for each in findings if each.check == "login").state is State.OK
    assert bad(findings)["secrets", str(password)].remedy == f"chmod 600 {password}"


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("hosts", "begun", "days", "foreign", "check", "state", "said"),
    [
        (("127.0.0.1",), NOW, 90, False, "certificate", State.OK, "valid until"),
        (("127.0.0.1",), NOW, 20, False, "certificate", State.WARNING, "it expires"),
        (("127.0.0.1",), NOW - timedelta(days=90), 30, False, "certificate", State.ERROR, "it has expired"),
        (("127.0.0.1",), NOW + timedelta(days=9), 30, False, "certificate", State.ERROR, "not valid yet"),
        (("10.9.9.9",), NOW, 90, False, "certificate", State.ERROR, "for other addresses"),
        (("127.0.0.1",), NOW, 90, True, "certificate", State.ERROR, "not of an authority"),
    ],
)
def test_certificate_of_a_server(
    start_mosquitto: StartServer,
    open_folder: Path,
    hosts: tuple[str, ...],
    begun: datetime,
    days: int,
    foreign: bool,
    check: str,
    state: State,
    said: str,
) -> None:
    certificates = pytest.importorskip("distced.brokers.deployment.certificates", exc_type=ImportError)

    def write(name: str, content: bytes) -> Path:
        path = open_folder / name
        path.write_bytes(content)
        path.chmod(0o644)
        return path

    authority = certificates.new_authority("test", NOW - timedelta(days=400), 3650)
    ca = write("ca.pem", (certificates.new_authority("other", NOW) if foreign else authority).certificate)
    pair = certificates.issue(authority, "server", hosts, begun, days)
    cert, key = write("server.pem", pair.certificate), write("server.key", pair.key)
    server = start_mosquitto(settings=[f"certfile {cert}", f"keyfile {key}"])
    findings = server_findings(probe(f"mqtts://127.0.0.1:{server.port}?ca={ca}"), SystemClock().now())
    found = next(each for each in findings if each.check == check)
    assert found.state is state and said in found.text
    assert is_bad(findings) == (state in BAD)


def test_certificate_of_a_client_is_wanted(start_mosquitto: StartServer, open_folder: Path) -> None:
    certificates = pytest.importorskip("distced.brokers.deployment.certificates", exc_type=ImportError)
    authority = certificates.new_authority("test", NOW - timedelta(days=400), 3650)
    files = {"ca.pem": authority.certificate}
    for name, hosts in (("server", ("127.0.0.1",)), ("ada", ())):
        pair = certificates.issue(authority, name, hosts, NOW, 90)
        files |= {f"{name}.pem": pair.certificate, f"{name}.key": pair.key}
    for name, content in files.items():
        (open_folder / name).write_bytes(content)
        (open_folder / name).chmod(0o644)
    place = {name: open_folder / name for name in files}
    server = start_mosquitto(
        settings=[
            *(f"cafile {place['ca.pem']}", f"certfile {place['server.pem']}", f"keyfile {place['server.key']}"),
            *("require_certificate true", "use_identity_as_username true"),
        ]
    )
    url = f"mqtts://127.0.0.1:{server.port}?ca={place['ca.pem']}"
    assert (problem := probe(url).problem) is not None and "certificate" in problem.text
    with_certificate = probe(f"{url}&cert={place['ada.pem']}&key={place['ada.key']}")
    assert with_certificate.problem is None and with_certificate.anonymous is False


def test_server_without_tls_or_mqtt(mosquitto: Server, impostor: Any) -> None:
    problem = probe(mosquitto.url.replace("mqtt:", "mqtts:")).problem
    assert problem is not None and "does not speak TLS" in problem.text
    with impostor(lambda connection: connection.recv(1)) as silent:
        problem = probe(silent.url, 0.5).problem
        assert problem is not None and problem.kind == "protocol"


def test_embedded_server_has_no_mqtt_5(amqtt: Server) -> None:
    facts = probe(amqtt.url, 2.0)
    assert facts.protocol == "3.1.1"
    assert bad(server_findings(facts, 0)).keys() == {("mqtt 5", facts.name)}
