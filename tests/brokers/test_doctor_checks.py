"""Checks of the doctor: facts of a sound and of a sick deployment, and the findings of each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from distced.brokers.cli.doctor import finding_lines, summary
from distced.brokers.core.directory import Directory
from distced.brokers.core.identity import Identity, Installation
from distced.brokers.doctor.checks.clocks import RoundTrip, clock_findings, estimate
from distced.brokers.doctor.checks.files import (
    CertificateFile,
    SecretFile,
    Store,
    certificate_findings,
    secret_findings,
    store_findings,
)
from distced.brokers.doctor.checks.findings import Finding, State, duration, is_bad, names
from distced.brokers.doctor.checks.installation import installation_findings
from distced.brokers.doctor.checks.mosquitto_file import (
    MosquittoFile,
    listens_at,
    parse_settings,
    persistence_findings,
)
from distced.brokers.doctor.checks.namesakes import LifeSeen, namesake_findings, taken_over
from distced.brokers.doctor.checks.running_deployment import DeploymentFacts, deployment_findings
from distced.brokers.doctor.checks.server import (
    ConnectionProblem,
    ServerFacts,
    ServerSays,
    say_findings,
    server_findings,
)
from distced.middleware.model.timestamps import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    ExclusionEntry,
    LoadEntry,
    NodeEntry,
    SourceEntry,
)

NOW = 1_795_248_000 * SECOND
SERVER = "mqtts://mqtt.example:8883"
OK, INFORMATION, NOT_CHECKED, WARNING, ERROR = State


def states(findings: list[Finding]) -> dict[str, State]:
    """The worst state of each check."""
    order = list(State)
    worst: dict[str, State] = {}
    for each in findings:
        worst[each.check] = max(each.state, worst.get(each.check, OK), key=order.index)
    return worst


def of(findings: list[Finding], check: str) -> Finding:
    """The worst finding of a check."""
    return max((each for each in findings if each.check == check), key=lambda each: list(State).index(each.state))


# Installation.

SOUND = Installation(
    distced="0.1.0",
    python="3.11.7",
    numba="0.68",
    compiled=True,
    packages={"ray": "2.60", "pyspark": "4.3"},
    java="/usr/bin/java",
    processors=2,
    open_files=20_000,
    clock_error=20 * MILLISECOND,
)


def test_sound_installation() -> None:
    findings = installation_findings(SOUND, "here")
    assert {each.state for each in findings} == {OK}
    assert installation_findings(SOUND, "n1", here=False) == []
    assert installation_findings(Installation(), "n1", here=False) == []


@pytest.mark.parametrize(
    ("changed", "check", "state", "said"),
    [
        ({"python": "3.10.2"}, "python", ERROR, "3.10.2"),
        ({"numba": ""}, "columnar engine", WARNING, "distced[fast]"),
        ({"compiled": False}, "columnar engine", INFORMATION, "warm_start"),
        ({"compiled": None}, "columnar engine", WARNING, "cannot be used"),
        ({"msgpack_extension": False}, "msgpack", WARNING, "MSGPACK_PUREPYTHON"),
        ({"open_files": 256}, "open files", WARNING, "ulimit -n"),
        ({"clock_error": 3 * SECOND}, "clock service", WARNING, "3 s"),
        ({"clock_error": None, "clock_problem": "not synchronised"}, "clock service", INFORMATION, "chrony"),
        ({"java": ""}, "java", INFORMATION, "Java 17"),
        ({"packages": {"ray": ""}}, "optional packages", INFORMATION, "distced[ray]"),
    ],
)
def test_fault_of_an_installation(changed: dict[str, Any], check: str, state: State, said: str) -> None:
    findings = installation_findings(replace(SOUND, **changed), "here")
    found = of(findings, check)
    assert found.state is state and said in found.text + found.remedy
    assert is_bad(findings) == (state in (WARNING, ERROR))


def test_no_limit_on_open_files_is_no_finding() -> None:
    assert "open files" not in states(installation_findings(replace(SOUND, open_files=0), "here"))


# Server.

SERVED = ServerFacts(
    SERVER,
    loopback=False,
    tls=True,
    user=True,
    valid_until=NOW + 90 * DAY,
    protocol="5",
    granted={"ReceiveMaximum": 1000, "MaximumPacketSize": 16_777_216},
    session=3600,
    answered=2 * MILLISECOND,
    anonymous=False,
)


def test_sound_server() -> None:
    findings = server_findings(SERVED, NOW)
    assert {each.state for each in findings} == {OK}
    assert states(findings).keys() == {"connection", "certificate", "encryption", "login", "anonymous", "mqtt 5"}


@pytest.mark.parametrize(
    ("changed", "check", "state", "said"),
    [
        ({"valid_until": NOW + 20 * DAY}, "certificate", WARNING, "in 20 days"),
        ({"valid_until": NOW + 30 * DAY}, "certificate", OK, "valid until"),
        ({"valid_until": NOW}, "certificate", ERROR, "expired"),
        ({"tls": False, "valid_until": None}, "encryption", WARNING, "mqtts://"),
        ({"tls": False, "valid_until": None, "loopback": True}, "encryption", OK, "loopback"),
        ({"anonymous": True}, "anonymous", WARNING, "allow_anonymous false"),
        ({"anonymous": True, "loopback": True}, "anonymous", INFORMATION, "allow_anonymous false"),
        ({"anonymous": None}, "anonymous", NOT_CHECKED, "not tried"),
        ({"protocol": "3.1.1", "granted": {}, "session": None}, "mqtt 5", WARNING, "3.1.1"),
        ({"granted": {"RetainAvailable": 0}}, "mqtt 5", ERROR, "retained"),
        ({"granted": {"MaximumQoS": 0}}, "mqtt 5", ERROR, "QoS 1"),
        ({"granted": {"WildcardSubscriptionAvailable": 0}}, "mqtt 5", ERROR, "wildcards"),
        ({"granted": {"ReceiveMaximum": 20}}, "limits", WARNING, "max_inflight_messages 1000"),
        ({"granted": {"MaximumPacketSize": 65_536}}, "limits", WARNING, "65,536"),
        ({"session": 60}, "limits", WARNING, "60 s"),
        ({"granted": {}}, "mqtt 5", OK, "no limits named"),
    ],
)
def test_fault_of_a_server(changed: dict[str, Any], check: str, state: State, said: str) -> None:
    found = of(server_findings(replace(SERVED, **changed), NOW), check)
    assert found.state is state and said in found.text + found.remedy


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (ConnectionProblem("unreachable", "nothing listens", "start one"), "nothing listens"),
        (ConnectionProblem("login", "it refuses the user ada, or the password", "check"), "ada"),
        (ConnectionProblem("certificate", "certificate has expired", verify_code=10), "has expired"),
        (ConnectionProblem("certificate", "self-signed", verify_code=19), "not of an authority"),
        (ConnectionProblem("certificate", "mismatch", verify_code=62), "other host names"),
        (ConnectionProblem("certificate", "mismatch", verify_code=64), "other addresses"),
        (ConnectionProblem("certificate", "not yet", verify_code=9), "not valid yet"),
        (ConnectionProblem("certificate", "too weak", verify_code=66), "too weak"),
    ],
)
def test_server_without_a_connection(problem: ConnectionProblem, said: str) -> None:
    refused = ServerFacts(SERVER, tls=True, problem=problem)
    findings = server_findings(refused, NOW)
    assert of(findings, "connection").state is ERROR and said in of(findings, "connection").text
    assert ("certificate" in states(findings)) == (problem.kind == "certificate")
    # What a server grants is not judged without an answer.
    assert "mqtt 5" not in states(findings)


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        ("mosquitto version 1.5.7", ERROR, "no MQTT 5"),
        ("mosquitto version 1.6.12", WARNING, "wills twice"),
        ("mosquitto version 2.0.5", WARNING, "wills twice"),
        ("mosquitto version 2.0.11", INFORMATION, "never expire"),
        ("mosquitto version 2.0.18", INFORMATION, "leaks"),
        ("mosquitto version 2.0.22", OK, "2.0.22"),
        ("mosquitto version 2.1.2", WARNING, "max_packet_size"),
        ("mosquitto version 2.1.3-rc1", OK, "2.1.3"),
        ("another server 7", INFORMATION, "no faults are known"),
        ("mosquitto version " + "9" * 5000 + ".0.0", INFORMATION, "no faults are known"),
    ],
)
def test_version_of_a_server(version: str, state: State, said: str) -> None:
    found = of(say_findings(SERVER, ServerSays({}, {"version": version}), 5.0), "server version")
    assert found.state is state and said in found.text


@pytest.mark.parametrize(
    ("first", "last", "state"),
    [("0", "0", OK), ("7", "7", INFORMATION), ("7", "9", WARNING)],
)
def test_dropped_messages(first: str, last: str, state: State) -> None:
    said = ServerSays(
        {"publish/messages/dropped": first},
        {"version": "mosquitto version 2.0.22", "publish/messages/dropped": last},
    )
    assert states(say_findings(SERVER, said, 5.0))["dropped messages"] is state


def test_server_that_says_nothing_is_not_checked() -> None:
    (found,) = say_findings(SERVER, ServerSays(), 5.0)
    assert found.state is NOT_CHECKED and "$SYS" in found.text and found.remedy


def test_value_of_a_server_that_is_no_number_is_no_finding() -> None:
    said = ServerSays({}, {"version": "mosquitto version 2.0.22", "publish/messages/dropped": "many"})
    assert "dropped messages" not in states(say_findings(SERVER, said, 5.0))


# Configuration of mosquitto.

CONF = """\
# comment
listener 8883
allow_anonymous false
persistence true
  persistence_location state/
max_queued_messages 1000000
max_inflight_messages 1000
"""
OPEN = CONF.replace("anonymous false", "anonymous true")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CONF, {"persistence": OK}),
        (CONF.replace("persistence true", "persistence false"), {"persistence": WARNING}),
        (CONF.replace("persistence true", "#persistence true"), {"persistence": WARNING}),
        (CONF + "persistence false\n", {"persistence": WARNING}),
        (CONF.replace("max_queued_messages 1000000", ""), {"persistence": OK, "limits": WARNING}),
        (CONF.replace("_messages 1000000", "_messages 0"), {"persistence": OK}),
        (OPEN, {"persistence": OK, "anonymous": WARNING}),
        (OPEN.replace("8883", "8883 127.0.0.1"), {"persistence": OK}),
        (OPEN.replace("8883", "8883 10.0.0.1"), {"persistence": OK, "anonymous": WARNING}),
        ("", {"persistence": WARNING, "limits": WARNING}),
    ],
)
def test_configuration_of_mosquitto(text: str, expected: dict[str, State]) -> None:
    file = MosquittoFile("mosquitto.conf", tuple(parse_settings(text)))
    assert states(persistence_findings(file, SERVER)) == expected


@pytest.mark.parametrize("file", [None, MosquittoFile("/no/mosquitto.conf", problem="No such file")])
def test_unknown_configuration_is_not_checked(file: MosquittoFile | None) -> None:
    (found,) = persistence_findings(file, SERVER)
    assert found.state is NOT_CHECKED and "--mosquitto-conf" in found.remedy


@pytest.mark.parametrize(
    ("text", "port", "expected"),
    [
        ("listener 1883 ::1", 1883, True),
        ("port 1884", 1884, True),
        ("listener 18830", 1883, False),
        ("", 1883, True),
        ("", 1884, False),
        ("listener", 1883, False),
    ],
)
def test_listeners_of_a_configuration(text: str, port: int, expected: bool) -> None:
    assert listens_at(parse_settings(text), port) is expected


# Files.


@pytest.mark.parametrize(
    ("file", "state", "said"),
    [
        (SecretFile("the key", "/a/k", 0o100600), OK, "alone"),
        (SecretFile("the key", "/a/k", 0o100640), WARNING, "chmod 600 /a/k"),
        (SecretFile("the key", "/a/a key", 0o100604), WARNING, "'/a/a key'"),
        (SecretFile("the key", "/a/k", problem="No such file"), ERROR, "No such file"),
    ],
)
def test_secret_file(file: SecretFile, state: State, said: str) -> None:
    (found,) = secret_findings([file])
    assert found.state is state and said in found.text + found.remedy


@pytest.mark.parametrize(
    ("file", "state"),
    [
        (CertificateFile("it", "c", NOW - DAY, NOW + 100 * DAY), OK),
        (CertificateFile("it", "c", NOW - DAY, NOW + 10 * DAY), WARNING),
        (CertificateFile("it", "c", NOW - DAY, NOW - HOUR), ERROR),
        (CertificateFile("it", "c", NOW + HOUR, NOW + 100 * DAY), ERROR),
        (CertificateFile("it", "c", problem="not PEM"), ERROR),
        (CertificateFile("it", "c", problem="no cryptography", missing=True), NOT_CHECKED),
    ],
)
def test_certificate_file(file: CertificateFile, state: State) -> None:
    assert [each.state for each in certificate_findings([file], NOW)] == [state]


GB = 10**9


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (None, {"checkpoints": INFORMATION}),
        (Store("/s", free=50 * GB, total=100 * GB), {"checkpoints": OK, "disk": OK}),
        (Store("/s", free=4 * GB, total=100 * GB), {"checkpoints": OK, "disk": WARNING}),
        (Store("/s", free=GB // 2, total=GB), {"checkpoints": OK, "disk": WARNING}),
        (Store("/s", free=GB // 20, total=GB // 10), {"checkpoints": OK, "disk": ERROR}),
        (Store("/s", problem="no permission"), {"checkpoints": ERROR}),
        (Store("s3://b", remote=True), {"checkpoints": NOT_CHECKED}),
        (Store("/s", exists=False, free=50 * GB, total=100 * GB), {"checkpoints": INFORMATION, "disk": OK}),
    ],
)
def test_store_of_checkpoints(store: Store | None, expected: dict[str, State]) -> None:
    assert states(store_findings(store)) == expected


# Clocks.


def trip(ahead: int, round_trip: int = 2 * MILLISECOND, share: float = 0.5) -> RoundTrip:
    """Round trip to a node whose clock is ahead, and that answers after a share of the time."""
    return RoundTrip(NOW, NOW + round(round_trip * share) + ahead, NOW + round_trip)


@given(
    st.integers(-DAY, DAY),
    st.lists(st.tuples(st.integers(0, MINUTE), st.floats(0, 1)), min_size=1, max_size=5),
)
def test_true_difference_is_within_the_error(ahead: int, trips: list[tuple[int, float]]) -> None:
    found = estimate(trip(ahead, length, share) for length, share in trips)
    assert found is not None
    assert abs(found.ahead - ahead) <= found.error + 1
    assert found.error <= min(length for length, _ in trips) // 2 + 1


def test_no_round_trip_is_no_estimate() -> None:
    assert estimate([]) is None
    # The clock here was set back in between.
    assert estimate([RoundTrip(NOW, NOW, NOW - SECOND)]) is None


@pytest.mark.parametrize(
    ("trips", "expected"),
    [
        ({"n1": [trip(0)], "n2": [trip(MILLISECOND)]}, {"clock": OK}),
        ({"n1": [trip(2 * SECOND)]}, {"clock": WARNING}),
        ({"n1": [trip(-2 * SECOND)]}, {"clock": WARNING}),
        ({"n1": [trip(-2 * HOUR)]}, {"clock": ERROR}),
        ({"n1": [trip(2 * HOUR)]}, {"clock": WARNING}),
        # Each within the bound here, and not of each other.
        ({"n1": [trip(-400 * MILLISECOND)], "n2": [trip(400 * MILLISECOND)]}, {"clock": OK, "clocks": WARNING}),
        ({"n1": [trip(3 * SECOND, 3 * SECOND)]}, {"clock": WARNING}),
        ({"n1": [trip(SECOND, 3 * SECOND)]}, {"clock": NOT_CHECKED}),
        ({"n1": [trip(SECOND, 3 * SECOND), trip(0)]}, {"clock": OK}),
        ({}, {}),
    ],
)
def test_clocks_of_nodes(trips: dict[str, list[RoundTrip]], expected: dict[str, State]) -> None:
    findings = clock_findings(trips, dict.fromkeys(trips, HOUR))
    assert states(findings) == expected
    assert all("bound" in each.text for each in findings if each.state is not NOT_CHECKED)


# Names that are used twice.


def seen(*order: int | None) -> list[LifeSeen]:
    return [LifeSeen("node", "n1", each) for each in order]


@pytest.mark.parametrize(
    ("order", "state"),
    [
        ((), OK),
        ((1, 1, 1), OK),
        # A node that is started again.
        ((1, None, 2, 2), OK),
        ((1, None, 2, None, 1), ERROR),
        ((1, 2, 1), ERROR),
        ((1, None, 2, None, 3, None, 4), WARNING),
        # A connection that is lost and comes back all the time.
        ((1, None, 1, None, 1, None, 1), WARNING),
    ],
)
def test_entry_with_several_lives(order: tuple[int | None, ...], state: State) -> None:
    others = [LifeSeen("client", "n1", 7), LifeSeen("node", "n2", 8)]
    (found,) = namesake_findings([*others, *seen(*order)], [], 5.0, logged=True, subject=SERVER)
    assert found.state is state
    assert state is OK or found.subject == "node n1"


@pytest.mark.parametrize(
    ("line", "client"),
    [
        ("1795823120: Client dup already connected, closing old connection.", "dup"),
        ("1795823120: Client a b [10.0.0.1:5] disconnected: session taken over.", "a b"),
        ("1795823120: Client dup disconnected.", None),
        ("New client connected from 127.0.0.1:53637 as dup (p5, c1, k60).", None),
    ],
)
def test_log_of_a_server_names_the_client(line: str, client: str | None) -> None:
    assert taken_over(line) == client


def test_clients_taken_over_are_counted() -> None:
    findings = namesake_findings([], ["dup", "dup", "x"], 5.0, logged=True, subject=SERVER)
    assert [(each.subject, each.state) for each in findings] == [("client id dup", ERROR), ("client id x", ERROR)]
    assert "2 times" in findings[0].text and "once" in findings[1].text


# Deployment.

FORMATS = {"frame": 1, "detector": 3}


def identity(node: str, version: str = "0.1.0", **formats: int) -> Identity:
    return Identity(node, NOW, FORMATS | formats, replace(SOUND, distced=version))


def facts(*entries: tuple[str, str, Any], **given: Any) -> DeploymentFacts:
    """A deployment of the nodes n1 and n2, both well, and of entries."""
    directory = Directory()
    for name in ("n1", "n2"):
        directory.put("node", name, NodeEntry(NOW - HOUR))
        directory.put("load", name, LoadEntry())
    for kind, name, entry in entries:
        directory.put(kind, name, entry)
    known = {name: identity(name) for name in directory.nodes}
    return DeploymentFacts(directory, SERVER, NOW, **({"identities": known, "seconds": 5.0} | given))


def found_in(*entries: tuple[str, str, Any], **given: Any) -> list[Finding]:
    return deployment_findings(facts(*entries, **given))


def detector(node: str = "n1", **fields: Any) -> DetectorEntry:
    return DetectorEntry(**({"node": node, "pattern": "[A]", "policy": "guaranteed", "reads": ("A",)} | fields))


def test_sound_deployment() -> None:
    findings = found_in(("detector", "c123456789", detector()), ("source", "s", SourceEntry(("A",), 0)))
    assert set(states(findings).values()) == {OK}
    assert states(findings).keys() == {"nodes", "versions", "silent source", "detectors", "dead letters"}


def test_deployment_without_nodes() -> None:
    found = of(deployment_findings(DeploymentFacts(Directory(), SERVER, NOW)), "nodes")
    assert found.state is ERROR and "distced broker" in found.remedy


def test_node_that_does_not_answer_is_dead_or_of_an_earlier_version() -> None:
    alone = {"n1": identity("n1")}
    dead = of(found_in(identities=alone), "nodes")
    assert dead.subject == "n2" and dead.state is ERROR and "ced/d/node/n2" in dead.remedy
    earlier = of(found_in(identities=alone, active=frozenset(["n2"])), "nodes")
    assert earlier.subject == "n2" and earlier.state is NOT_CHECKED


def test_user_that_may_not_ask_takes_no_node_for_dead() -> None:
    (found,) = [each for each in found_in(identities={}, refused=True) if each.check == "nodes"]
    assert found.state is NOT_CHECKED and "operator" in found.remedy


def test_node_that_drains() -> None:
    found = of(found_in(("node", "n2", NodeEntry(NOW, draining=True))), "nodes")
    assert found.state is INFORMATION and "--undo" in found.remedy


def test_versions_and_formats_of_nodes() -> None:
    findings = found_in(identities={"n1": identity("n1"), "n2": identity("n2", "0.2.0")})
    assert states(findings)["versions"] is WARNING and "formats" not in states(findings)
    assert "0.1.0: n1; 0.2.0: n2" in of(findings, "versions").text
    findings = found_in(identities={"n1": identity("n1"), "n2": identity("n2", "0.2.0", detector=4)})
    assert states(findings)["formats"] is ERROR and "(detector)" in of(findings, "formats").text


def test_fault_of_the_installation_of_a_node() -> None:
    slow = Identity("n2", NOW, FORMATS, replace(SOUND, numba=""))
    found = of(found_in(identities={"n1": identity("n1"), "n2": slow}), "columnar engine")
    assert (found.subject, found.state) == ("n2", WARNING)


HOME = "mqtt://attic:1883"


@pytest.mark.parametrize(
    ("unconnected", "state"),
    [({}, None), ({HOME: "nothing listens"}, ERROR), ({"mqtt://roof:1883": "nothing listens"}, WARNING)],
)
def test_node_without_a_connection_to_a_home(unconnected: dict[str, str], state: State | None) -> None:
    known = {"n1": identity("n1"), "n2": replace(identity("n2"), unconnected=unconnected)}
    findings = found_in(("node", "n2", NodeEntry(NOW, home=HOME)), identities=known)
    assert states(findings).get("home") is state
    assert state is None or "nothing listens" in of(findings, "home").text


@pytest.mark.parametrize(
    ("load", "state"),
    [
        (LoadEntry(load=10.0), None),
        (LoadEntry(behind=SECOND), None),
        (LoadEntry(behind=5 * SECOND, waiting=9), WARNING),
        (LoadEntry(load=150.0), WARNING),
    ],
)
def test_node_that_is_behind(load: LoadEntry, state: State | None) -> None:
    findings = found_in(("node", "n2", NodeEntry(NOW, capacity=100.0)), ("load", "n2", load))
    assert states(findings).get("backlog") is state


def test_source_that_holds_detectors_back() -> None:
    findings = found_in(
        ("load", "n1", LoadEntry(silent={"the door": NOW - 90 * SECOND})),
        ("source", "the door", SourceEntry(("A",), 0, publisher="p")),
        ("detector", "c1111111111", detector(subscriptions=2)),
        ("detector", "c2222222222", detector(reads=("B",))),
        ("detector", "c3333333333", detector(policy="best-effort")),
        ("detector", "c4444444444", detector("n2")),
        ("detector", "c5555555555", detector(reads=None, subscriptions=1)),
    )
    found = of(findings, "silent source")
    assert (found.state, found.subject) == (WARNING, "the door")
    assert "1 min 30 s" in found.text and "2 detectors (c111111, c555555) of 3 subscriptions wait" in found.text
    assert "publisher p is gone" in found.text and "distced fence 'the door'" in found.remedy


def test_source_whose_publisher_is_there() -> None:
    findings = found_in(
        ("load", "n1", LoadEntry(silent={"door": NOW - 90 * SECOND})),
        ("source", "door", SourceEntry(("A",), 0, publisher="p")),
        ("client", "p", ClientEntry(NOW)),
    )
    assert "gone" not in of(findings, "silent source").text


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("detector", "c1", detector("lost")), "without a host (c1): lost is gone"),
        (("detector", "c1", detector(waits="the type A is missing")), "the type A is missing"),
        (("exclusion", "c1", ExclusionEntry(NOW - MINUTE, "n1", reason="too large")), "too large"),
    ],
)
def test_detector_that_finds_nothing(entry: tuple[str, str, Any], said: str) -> None:
    found = of(found_in(entry), "detectors")
    assert found.state in (WARNING, ERROR) and said in found.text and found.remedy


def test_exclusion_that_is_over_or_suspected_is_no_finding() -> None:
    over = ExclusionEntry(NOW - 2 * HOUR, "n1", reason="too large")
    suspected = ExclusionEntry(NOW, "n1")
    assert "detectors" not in states(found_in(("exclusion", "c1", over), ("exclusion", "c2", suspected)))


@pytest.mark.parametrize(
    ("before", "state", "said"),
    [
        ({"dead letters, late": 3, "dead letters, malformed": 40}, INFORMATION, "most are malformed"),
        ({"dead letters, late": 1, "dead letters, malformed": 40}, WARNING, "watermark"),
    ],
)
def test_dead_letters(before: dict[str, int], state: State, said: str) -> None:
    counts = {"events": 9, "dead letters, late": 3, "dead letters, malformed": 40}
    found = of(found_in(("node", "n2", NodeEntry(NOW, counts=counts)), before={"n2": before}), "dead letters")
    assert found.state is state and "40 malformed, 3 late" in found.text
    assert said in found.remedy or "not in the format" in found.remedy


def test_unreadable_entries() -> None:
    findings = found_in(unreadable=tuple(f"no NodeEntry: {number}" for number in range(9)))
    assert [each.state for each in findings if each.check == "entries"] == [WARNING] * 8


# Output.


def test_lines_are_aligned_and_printable() -> None:
    findings = [
        Finding("nodes", OK, "n\x1b[2J", "there"),
        Finding("server version", NOT_CHECKED, SERVER, "unknown", "ask"),
    ]
    lines = [each.plain for each in finding_lines(findings)]
    assert lines == [
        "ok           nodes           n\\x1b[2J: there",
        f"not checked  server version  {SERVER}: unknown",
        "                             → ask",
    ]
    assert summary(findings).plain == "1 not checked, 1 ok"
    assert summary([Finding("nodes", WARNING, "n", "") for _ in range(2)]).plain == "2 warnings"
    assert finding_lines([]) == []


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ms"),
        (1_500_000, "1.5 ms"),
        (1_500_000_000, "1.5 s"),
        (90 * SECOND, "1 min 30 s"),
        (HOUR, "1 h"),
        (50 * HOUR, "2 d 2 h"),
    ],
)
def test_durations(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_names_are_few() -> None:
    assert names(["b", "a"]) == "a, b"
    assert names(map(str, range(9))) == "0, 1, 2, 3 and 5 more"
