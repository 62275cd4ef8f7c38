"""Every limit of the reference, exceeded once: its counter moves, and the error says limit, value and setting."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pytest

from distced.brokers.cli.broker import BrokerOptions
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.node_location import SubscriptionLimits
from distced.detectors.limits import Limits
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, SECOND
from distced.middleware.wire.administration import Counters
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SourceEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.node_messages import KeptFrame
from distced.middleware.wire.topics import directory_topic, event_topic
from tests.brokers.test_coordinated import Scene
from tests.support.virtual_nodes import Network

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"

COLUMNS: Final = re.compile(r"^\| .+ \| `(--max-[\w-]+)` `(max_\w+)` \| .+ \| `(.+)` \| (.+) \|$", re.MULTILINE)

DOUBLING: Final = "init x = 0 : ([A set x = 2 * x] | [A set x = 2 * x + 1])+ [C]"


@dataclass(frozen=True)
class Row:
    """Row of the reference: option, name in the configuration, counter, and begin of the error."""

    option: str
    name: str
    counter: str
    error: str


ROWS: Final = {found[1]: Row(*found) for found in COLUMNS.findall(PAGE.read_text("utf-8"))}


class Tried:
    """A node with limits, an application and a source `s`."""

    def __init__(self, **arguments: Any) -> None:
        self.scene = Scene(0, 1, Network(1))
        self.network, self.app = self.scene.network, self.scene.app
        self.virtual = self.network.node("n0", **arguments)
        self.scene.nodes = [self.virtual]
        self.network.run()

    def counter(self, name: str) -> int:
        """Counter that the node publishes."""
        self.network.pass_time(5 * SECOND)
        return decode(self.network.retained["ced/a/counters/n0"], Counters, where="").counts.get(name, 0)

    def errors(self) -> list[str]:
        """Texts of dead letters, answers and log events."""
        letters = [each.message for each in self.network.letters]
        answers = [answer.message for each in self.app.answers.values() for answer in each]
        return [*letters, *answers, *(str(note.fields.get("reason", "")) for note in self.network.notes)]

    def ask(self, *patterns: str) -> None:
        for number, pattern in enumerate(patterns):
            self.app.subscribe(f"q{number}", pattern)
        self.network.run()

    def entry(self, kind: str, name: str, entry: Any) -> None:
        self.network.publish(directory_topic(kind, name), encode(entry), retain=True)
        self.network.run()

    def frame(self, number: int, **attributes: Any) -> None:
        """A message of n events, as a foreign client publishes it."""
        events = [Event("A", 50 + seq, 50 + seq, "s", seq, {"k": 1, "v": 2, **attributes}) for seq in range(number)]
        self.network.publish(event_topic("A", "s"), encode_frame(events, type="A", source="s"))
        self.network.run()


CASES: Final[dict[str, Callable[[], Tried]]] = {}
"""By name: makes a node with the limit, and exceeds it once."""


def case(function: Callable[[], Tried]) -> Callable[[], Tried]:
    CASES[function.__name__] = function
    return function


@case
def max_message() -> Tried:
    tried = Tried(message_limits=MessageLimits(size=1_000))
    tried.ask("[A]")
    tried.frame(100)
    return tried


@case
def max_events() -> Tried:
    tried = Tried(message_limits=MessageLimits(events=10))
    tried.ask("[A]")
    tried.frame(11)
    return tried


@case
def max_rate() -> Tried:
    tried = Tried(message_limits=MessageLimits(rate=10))
    tried.ask("[A]")
    tried.virtual.node.event_path.waiting.most = 2_000
    payload = encode_frame([Event("A", 50, 50, "s", 1, {"k": 1, "v": 2})], type="A", source="s")
    # All that come before the next request is served.
    for _ in range(20):
        tried.virtual.do(tried.virtual.node.receive(event_topic("A", "s"), payload, tried.network.now))
    tried.network.run()
    assert tried.virtual.node.counts["events delayed"] == 15
    return tried


@case
def max_dead_letters() -> Tried:
    tried = Tried(message_limits=MessageLimits(letters=5))
    tried.ask("[A]")
    tried.frame(20, v="no number")
    tried.network.pass_time(11 * SECOND)
    assert sum(each.reason == "mistyped" for each in tried.network.letters) == 5
    return tried


@case
def max_ahead() -> Tried:
    tried = Tried(max_ahead=SECOND)
    tried.ask("[A]")
    tried.scene.source.publish(Event("A", HOUR, HOUR, "s", 1, {"k": 1, "v": 2}))
    tried.network.run()
    return tried


@case
def max_types() -> Tried:
    tried = Tried(message_limits=MessageLimits(types=4))
    tried.entry("type", "E", event_type("E"))
    assert sorted(tried.virtual.node.directory.types) == list("ABCD")
    tried.network.pass_time(SECOND)
    assert directory_topic("type", "E") not in tried.network.retained
    return tried


@case
def max_attributes() -> Tried:
    tried = Tried(message_limits=MessageLimits(attributes=3))
    tried.entry("type", "E", event_type("E", {f"a{number}": "number" for number in range(4)}))
    return tried


@case
def max_entries() -> Tried:
    tried = Tried(message_limits=MessageLimits(entries=3))
    for number in range(4):
        tried.entry("client", f"c{number}", ClientEntry(1))
    return tried


@case
def max_homes() -> Tried:
    tried = Tried(message_limits=MessageLimits(homes=2))
    for number in range(3):
        tried.entry("source", f"s{number}", SourceEntry(("A",), 1, publisher="c", home=f"127.0.0.1:{number + 1}"))
    assert sorted(tried.virtual.node.directory.sources) == ["s", "s0", "s1"]
    return tried


@case
def max_unannounced() -> Tried:
    tried = Tried(message_limits=MessageLimits(unannounced=2))
    tried.ask("[A]")
    for number in range(4):
        events = [Event("A", 50, 50, f"u{number}", 1, {"k": 1, "v": 2})]
        tried.network.publish(event_topic("A", f"u{number}"), encode_frame(events, type="A", source=f"u{number}"))
        tried.network.run()
    policy = next(iter(tried.virtual.node.hosted.values())).detector.policy
    assert {"u0", "u1"} <= policy.waits_for() and not {"u2", "u3"} & policy.waits_for()
    # One loss for all of them.
    (loss,) = tried.app.losses["q0"]
    assert loss.since < 50 <= loss.until and loss.reason == "more sources that nobody has announced than nodes read"
    # One that is fenced off, or announced, leaves its room to others.
    tried.virtual.do(tried.virtual.node.event_path.fence("u0", tried.network.now))
    events = [Event("A", 50, 50, "u2", 1, {"k": 1, "v": 2})]
    tried.network.publish(event_topic("A", "u2"), encode_frame(events, type="A", source="u2"))
    tried.network.run()
    assert "u2" in policy.waits_for()
    return tried


@case
def max_subscriptions() -> Tried:
    tried = Tried(limits=SubscriptionLimits(of_client=2))
    tried.ask("[A]", "[B]", "[C]")
    return tried


@case
def max_subscriptions_in_all() -> Tried:
    tried = Tried(limits=SubscriptionLimits(of_all=2))
    tried.ask("[A]", "[B]", "[C]")
    return tried


@case
def max_pattern_length() -> Tried:
    tried = Tried(limits=SubscriptionLimits(pattern_length=20))
    tried.ask("[A] ; [B] ; [C] ; [D] ; [A]")
    return tried


@case
def max_states() -> Tried:
    tried = Tried(limits=SubscriptionLimits(states=3))
    tried.ask("[A] ; [B] ; [C] ; [D] ; [A]")
    return tried


@case
def max_registers() -> Tried:
    tried = Tried(limits=SubscriptionLimits(registers=1))
    tried.ask("init x = 0, y = 0 : [A set x = x + 1] ; [B set y = y + x] -> Out(x = x, y = y)")
    return tried


@case
def max_guard() -> Tried:
    tried = Tried(limits=SubscriptionLimits(guard=30))
    tried.ask("[A as a] ; [B where k + a.k > 3 and " + " and ".join(f"v != a.v + {each}" for each in range(15)) + "]")
    return tried


@case
def max_nesting() -> Tried:
    tried = Tried(limits=SubscriptionLimits(nesting=4))
    tried.ask("[A] ; ([B] ; ([C] | ([D] ; ([A] | [B] ; [C]))))")
    return tried


@case
def max_kept_bytes() -> Tried:
    tried = Tried(limits=SubscriptionLimits(kept_bytes=2_000))
    kept = tried.virtual.node.event_path.output.keep("some", 10**6)
    for number in range(50):
        kept.keep(2, number + 1, KeptFrame(b"x" * 100, None, number, 1, number))
    return tried


def detector(limits: Limits, pattern: str, *types: str) -> Tried:
    tried = Tried(detector_limits=limits)
    tried.ask(pattern)
    for each in types:
        tried.scene.happen(each)
        tried.network.pass_time(SECOND)
    return tried


@case
def max_instances() -> Tried:
    return detector(Limits(instances=500), DOUBLING, "A" * 12)


@case
def max_work() -> Tried:
    return detector(Limits(work=500), "[A as a] ; [B where k > a.k + 5]", "A" * 600, "B")


@case
def max_composites() -> Tried:
    return detector(Limits(composites=50), "[A] ; [B]", "A" * 60, "B")


@case
def max_memory() -> Tried:
    return detector(Limits(memory=100_000), "[C] [A]* [B]", "C", *["A" * 300] * 6)


@case
def max_client_memory() -> Tried:
    limits = Limits(memory=1_000_000, client_memory=100_000)
    return detector(limits, "[C] [A]* [B]", "C", *["A" * 300] * 6)


@case
def max_client_work() -> Tried:
    """Two clients, of which one takes more than its share; too much waits for its turns before the next tick."""
    tried = Tried(detector_limits=Limits(client_work=1, waiting=100))
    tried.ask("[A as a] ; [A where k > a.k + 5]")
    tried.network.client("other").subscribe("modest", "[B]")
    tried.network.run()
    tried.scene.happen("A" * 20)
    shares = tried.virtual.node.event_path.shares
    (detector,) = [each.detector for each in tried.virtual.node.hosted.values() if "a.k" in each.detector.compiled.text]
    assert shares.several and detector.statistics.consumed == 20
    events = [Event("A", 900 + seq, 900 + seq, "s", 900 + seq, {"k": 1, "v": 2}) for seq in range(200)]
    tried.virtual.do(
        tried.virtual.node.receive(
            event_topic("A", "s"), encode_frame(events, type="A", source="s", watermark=2_000), tried.network.now
        )
    )
    assert detector.put_off > 100
    tried.virtual.do(tried.virtual.node.tick(tried.network.now))
    tried.network.run()
    assert not shares.turns and detector.id not in tried.virtual.node.hosted
    assert len(tried.virtual.node.hosted) == 1
    return tried


@case
def max_waiting() -> Tried:
    tried = Tried(detector_limits=Limits(waiting=20))
    tried.ask("[A]")
    # Announced, without a lease, and never heard again.
    tried.entry("source", "silent", SourceEntry(("A",), 0, publisher="c"))
    for _ in range(25):
        tried.scene.happen("A")
    assert not tried.app.composites("q0")
    tried.network.pass_time(SECOND)
    # Nothing waits any more, and the readers know what they may have missed.
    assert len(tried.app.composites("q0")) == 25
    (loss,) = tried.app.losses["q0"]
    assert loss.since == 0 and loss.reason == "more events wait for a silent source than nodes hold"
    assert loss.until >= max(each.hi for each in tried.app.composites("q0"))
    tried.scene.happen("A")
    assert len(tried.app.composites("q0")) == 26
    return tried


@case
def max_waiting_bytes() -> Tried:
    tried = Tried(detector_limits=Limits(waiting_bytes=20_000))
    tried.ask("[A]")
    tried.entry("source", "silent", SourceEntry(("A",), 0, publisher="c"))
    for _ in range(25):
        tried.scene.happen("A")
    tried.network.pass_time(SECOND)
    # These have room.
    assert not tried.app.composites("q0") and not tried.app.losses.get("q0")
    tried.scene.happen("A" * 30)
    tried.network.pass_time(SECOND)
    assert len(tried.app.composites("q0")) == 55
    (loss,) = tried.app.losses["q0"]
    assert loss.since == 0 and loss.reason == "more bytes of events wait for a silent source than nodes hold"
    return tried


@case
def max_text() -> Tried:
    return detector(Limits(text=100), "init s = 'x' : [A set s = s + s]+ [C]", "A" * 12)


@case
def max_losses() -> Tried:
    tried = Tried(detector_limits=Limits(losses=1))
    tried.ask("[A] ; [B]")
    (identity,) = tried.virtual.node.hosted
    for _ in range(2):
        tried.virtual.do(tried.virtual.node.exclusion.lost("n1", [identity], tried.network.now))
        tried.network.run()
    return tried


def test_every_limit_of_the_reference_has_a_case_and_an_option() -> None:
    options = {each.name for each in fields(BrokerOptions) if each.name.startswith("max_")}
    assert options == ROWS.keys() == CASES.keys()
    assert all(row.option == "--" + name.replace("_", "-") for name, row in ROWS.items())


@pytest.mark.parametrize("name", CASES)
def test_limit_is_counted_and_said(name: str) -> None:
    row, tried = ROWS[name], CASES[name]()
    assert tried.counter(row.counter) > 0, tried.virtual.node.counts
    errors = [each for each in tried.errors() if row.error in each]
    assert errors, tried.errors()
    assert all(row.option in each and re.search(r"allowed: |more than \d", each) for each in errors), errors


def test_events_beyond_a_limit_are_a_loss_and_the_stream_goes_on() -> None:
    tried = Tried(message_limits=MessageLimits(events=10))
    tried.ask("[A] ; [B]")
    tried.scene.happen("A")
    late = [Event("A", 30 + seq, 30 + seq, "s", 100 + seq, {"k": 1, "v": 2}) for seq in range(11)]
    tried.scene.source.publish(*late, watermark=45)
    tried.network.run()
    (loss,) = tried.app.losses["q0"]
    assert loss.since < 30 and loss.until >= 40 and loss.reason == "more events in a message than nodes read"
    tried.scene.seq = 6
    tried.scene.happen("B")
    # With the first A alone, and without a wait.
    assert len(tried.app.composites("q0")) == 1


def test_frame_of_another_source_than_that_of_its_topic_is_rejected() -> None:
    """The access list of a server knows topics alone: with right to one source nobody speaks for another."""
    tried = Tried()
    tried.ask("[A]")
    forged = encode_frame([Event("A", 5, 5, "s", 1, {"k": 1, "v": 2})], type="A", source="s", watermark=10**9)
    in_json = b'{"specversion": "1.0", "type": "A", "source": "s", "id": "7", "data": {"k": 1, "v": 2}}'
    for payload in (forged, in_json):
        tried.network.publish(event_topic("A", "mallory"), payload)
    tried.network.run()
    assert tried.counter("dead letters, malformed") == 2
    tried.scene.happen("A")
    assert len(tried.app.composites("q0")) == 1 and not tried.virtual.node.dead_letters.counts["late"]


def test_of_the_unusable_events_of_a_message_a_hundred_become_dead_letters() -> None:
    tried = Tried()
    tried.ask("[A]")
    tried.frame(5_000, v="no number")
    assert sum(each.reason == "mistyped" for each in tried.network.letters) == 100
    assert tried.counter("dead letters, mistyped") == 5_000 and tried.counter("dead letters not published") == 4_900


def test_source_entry_is_still_read_at_the_limit() -> None:
    tried = Tried(message_limits=MessageLimits(entries=1))
    tried.entry("source", "s", SourceEntry(("A",), 7))
    assert tried.virtual.node.directory.sources["s"].watermark == 7
