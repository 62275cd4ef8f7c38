"""Whatever is retained in the directory, and whatever answers come, the doctor has findings and raises nothing."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distced.brokers.cli.doctor import finding_lines
from distced.brokers.core.identity import Identity
from distced.brokers.doctor.checks.clocks import clock_findings
from distced.brokers.doctor.checks.namesakes import namesake_findings
from distced.brokers.doctor.checks.running_deployment import deployment_findings
from distced.brokers.doctor.checks.server import SESSION, ServerFacts, say_findings, server_findings
from distced.brokers.doctor.collect.observation import SYS, MessageTaker
from distced.brokers.inspect.directory_reader import DirectoryReader
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory import KINDS

NOW = 1_795_248_000 * SECOND
ASKER = "asker"
NAMES = ("n1", "c123456789", "door", "a b", "n%1B[2J", "%FF", "", "x" * 6_000)

levels = st.sampled_from(NAMES) | st.text(max_size=5)
numbers = st.integers(-(2**70), 2**70) | st.floats() | st.integers(0, 10)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from([*NAMES, "guaranteed", "late"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(levels, inner, max_size=3), max_leaves=6
)
"""Values of JSON."""


@cache
def of_kind(kind: type[msgspec.Struct]) -> st.SearchStrategy[bytes]:
    """Entries of a kind, of which some fields have values of any kind."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return st.dictionaries(st.sampled_from(names), values).map(_encoded)


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError, UnicodeEncodeError):
        return b"{"


GOOD = {
    "node": b'{"since": 5, "counts": {"dead letters, late": 3, "dead letters, ": 9}, "home": "x", "capacity": 1e-300}',
    "load": b'{"load": 1e308, "silent": {"door": -5}, "behind": 9000000000000000000, "latencies": {"": 1}}',
    "detector": b'{"node": "n2", "pattern": "[A]", "policy": "guaranteed", "reads": null}',
    "exclusion": b'{"at": 1795248000000000000, "node": "n1", "reason": "x"}',
    "identity": b'{"node": "n1", "at": 4611686018427387903, "formats": {"a": 2}, "installation": {"python": "2.7"}}',
    "source": b'{"types": ["A"], "watermark": 0, "publisher": "p"}',
}
payloads = st.binary(max_size=12) | values.map(_encoded) | st.sampled_from(sorted(GOOD.values()))


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bytes]:
    """A message below the directory, an answer, or what the server says."""
    where = draw(st.integers(0, 9))
    if where == 0:
        topic = SYS + draw(st.sampled_from(["version", "publish/messages/dropped", "log/N"]))
        return topic, draw(st.binary(max_size=12) | st.sampled_from([b"mosquitto version 1.6.3", b"7"]))
    if where == 1:
        return f"ced/a/identity/{ASKER}/{draw(levels)}", draw(of_kind(Identity) | payloads | st.just(GOOD["identity"]))
    kind = draw(st.sampled_from(sorted(KINDS)))
    further = "/".join(draw(st.lists(levels, min_size=1, max_size=3)))
    return f"ced/d/{kind}/{further}", draw(of_kind(KINDS[kind]) | payloads | st.just(GOOD.get(kind, b"{}")))


@pytest.mark.timeout(0)
@given(st.lists(messages(), max_size=12), st.floats(0, 600))
@example([(f"ced/d/{kind}/n1", payload) for kind, payload in GOOD.items() if kind in KINDS], 5.0)
def test_any_messages_give_findings(received: list[tuple[str, bytes]], seconds: float) -> None:
    clock = ManualClock(NOW)
    reader, taker = DirectoryReader(ASKER), MessageTaker(clock, "ced")
    list(reader.start(NOW))
    for place, (topic, payload) in enumerate(received):
        reader.receive(topic, payload)
        taker.asked("n1")
        if place % 2:
            taker.begin()
        taker.take(topic, payload, bool(place % 3))
    reader.receive(f"ced/a/known/{ASKER}", b"%d" % NOW)
    assert reader.known
    seen = taker.observed(reader.directory, "mqtt://x:1883", {}, reader.state.unreadable, seconds)
    ahead = {name: entry.max_ahead for name, entry in seen.deployment.directory.nodes.items()}
    findings = [
        *deployment_findings(seen.deployment),
        *namesake_findings(seen.lives, seen.taken, seconds, logged=seen.logged, subject="x"),
        *clock_findings(seen.trips, ahead),
        *say_findings("x", seen.says, seconds),
    ]
    assert {each.check for each in findings} >= {"nodes", "client id", "server version"}
    for line in finding_lines(findings):
        assert line.plain.isprintable()


@given(st.dictionaries(st.sampled_from(["ReceiveMaximum", "MaximumPacketSize", "MaximumQoS", "Other"]), st.integers()))
def test_any_grants_give_findings(granted: dict[str, int]) -> None:
    facts = ServerFacts("x", loopback=True, protocol="5", granted=granted, session=SESSION, anonymous=False)
    assert server_findings(facts, NOW)
