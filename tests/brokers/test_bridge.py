"""The bridge, without a network: what it is told and what it wants to have done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.brokers import bridge as bridge_module
from distced.brokers.bridge import Bridge
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import EventType, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.administration import DeadLetter, Heartbeat, Missing, MissingMessages
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SourceEntry
from distced.middleware.wire.frames import Frame
from distced.middleware.wire.frames import decode as decode_frame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import administration_topic, directory_topic

NOW = 1_795_248_000 * SECOND

HOME = """
[defaults]
source = "{$device}"
time = { path = "t", format = "ns", otherwise = "arrival" }
[[rule]]
topic = "home/{device}"
when = [{ path = "occupancy" }]
type = "Motion"
[rule.attributes]
moving = { kind = "boolean", path = "occupancy" }
[[rule]]
topic = "home/{device}"
when = [{ path = "contact" }]
type = "Door"
[rule.attributes]
open = { kind = "boolean", path = "contact" }
"""


class Server:
    """Does what a bridge says as an MQTT server would, and gives it its own entries back.

    Attributes:
        retained: the directory, by topic.
        published: everything but directory and heartbeats.
        beats: the heartbeats.
        notes: what was logged.
        filters: what was subscribed to.
        answers: whether it answers what the bridge sends to itself, and how often it did: `known`.
    """

    def __init__(
        self, *mappings: str, entries: dict[str, Any] | None = None, first_seq: int = 0, **options: Any
    ) -> None:
        read = [parse_mapping(text, name=f"m{place}", first_seq=first_seq) for place, text in enumerate(mappings)]
        self.bridge = Bridge("bridge", read, NOW, **options)
        self.retained = {topic: encode(entry) for topic, entry in (entries or {}).items()}
        self.published: list[Publish] = []
        self.beats: list[Heartbeat] = []
        self.notes: list[Note] = []
        self.filters: list[str] = []
        self.answers = True
        self.known = 0
        self.barrier = b""

    def connect(self) -> Server:
        """Connect the bridge, for the first time or again."""
        connected = self.bridge.start(NOW)
        for effect in connected:
            if effect == Subscribe("ced/d/#"):
                for topic, payload in list(self.retained.items()):
                    self.receive("ced/d/#", topic, payload)
            self.do([effect])
        return self

    def receive(self, topic_filter: str, topic: str, payload: bytes, *, retained: bool = False, now: int = NOW) -> None:
        self.do(self.bridge.receive(topic_filter, topic, payload, retained, now))

    def send(self, topic: str, payload: object, *, now: int = NOW, retained: bool = False) -> None:
        """A device sends something, which comes once through every filter it matches."""
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        for each in [f for f in self.filters if f in ("#", "home/+", "home/#") or f == topic]:
            self.receive(each, topic, content, retained=retained, now=now)

    def tick(self, now: int) -> None:
        self.do(self.bridge.tick(now))

    def clear(self, kind: str, name: str) -> None:
        """Somebody clears an entry."""
        topic = directory_topic(kind, name)
        self.retained.pop(topic, None)
        self.receive("ced/d/#", topic, b"")

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(topic=topic, payload=payload) if topic.startswith("ced/d/"):
                    assert effect.retain and effect.qos == 1
                    if payload:
                        self.retained[topic] = payload
                    else:
                        self.retained.pop(topic, None)
                    self.receive("ced/d/#", topic, payload)
                case Publish(topic=topic, payload=payload) if topic == administration_topic("known", "bridge"):
                    self.known += 1
                    self.barrier = payload
                    if self.answers:
                        self.receive(topic, topic, payload)
                case Publish(topic=topic, payload=payload) if topic.startswith("ced/a/heartbeat/"):
                    self.beats.append(decode(payload, Heartbeat, where=topic))
                case Publish():
                    self.published.append(effect)
                case Subscribe(topic_filter=topic_filter):
                    self.filters.append(topic_filter)
                case Note():
                    self.notes.append(effect)
                case _:
                    pytest.fail(f"unexpected: {effect}")

    @property
    def sources(self) -> dict[str, SourceEntry]:
        return self._entries("source", SourceEntry)

    @property
    def types(self) -> dict[str, EventType]:
        return self._entries("type", EventType)

    def _entries(self, kind: str, form: type[Any]) -> dict[str, Any]:
        prefix = f"ced/d/{kind}/"
        found = {topic: payload for topic, payload in self.retained.items() if topic.startswith(prefix)}
        return {topic.removeprefix(prefix): decode(payload, form, where=topic) for topic, payload in found.items()}

    @property
    def events(self) -> list[Event]:
        frames = [each for each in self.published if each.topic.startswith("ced/e/")]
        return [event for frame in frames for event in decode_frame(frame.payload).events]

    @property
    def letters(self) -> list[DeadLetter]:
        return [decode(p.payload, DeadLetter, where=p.topic) for p in self.published if p.topic.startswith("ced/x/")]


def entry_of(*types: str) -> SourceEntry:
    """Entry of a source of the bridge; further types come last."""
    return SourceEntry(types, NOW - 2 * SECOND, 60 * SECOND, "bridge", first=NOW // 1_000)


def test_bridge_subscribes_to_devices_when_its_types_are_registered() -> None:
    server = Server(HOME, home="127.0.0.1:1883")
    server.answers = False
    server.do(server.bridge.start(NOW))
    assert server.filters == ["ced/d/#", "ced/a/missing/source/bridge", "ced/a/known/bridge"]
    assert not server.types and not server.sources
    server.receive("ced/a/known/bridge", "ced/a/known/bridge", server.barrier)
    assert server.filters[3:] == ["home/+"]
    assert not server.bridge.ready and server.known == 2
    # A server may have taken the barrier before the subscriptions: it is sent again.
    server.tick(NOW + SECOND // 2)
    assert server.known == 3
    server.receive("ced/a/known/bridge", "ced/a/known/bridge", server.barrier)
    assert server.bridge.ready
    assert server.types == {
        "Motion": EventType("Motion", {"moving": "boolean"}, home="127.0.0.1:1883"),
        "Door": EventType("Door", {"open": "boolean"}, home="127.0.0.1:1883"),
    }
    # Detectors wait for it before any device is known.
    assert server.sources == {"bridge": entry_of("Motion", "Door")}
    assert decode(server.retained["ced/d/client/bridge"], ClientEntry, where="") == ClientEntry(NOW, declares=True)


def test_source_is_announced_before_its_first_event_and_again_with_another_type() -> None:
    server = Server(HOME, first_seq=100).connect()
    order: list[str] = []
    for payload in ({"occupancy": True}, {"occupancy": False}, {"contact": True}):
        effects = server.bridge.receive("home/+", "home/hall", json.dumps(payload).encode(), False, NOW)
        order += [each.topic for each in effects if isinstance(each, Publish)]
        server.do(effects)
    entry, motion, door = "ced/d/source/hall", "ced/e/Motion/hall", "ced/e/Door/hall"
    assert order == [entry, motion, motion, entry, door]
    assert server.sources["hall"] == entry_of("Motion", "Door")
    assert server.events == [
        Event("Motion", NOW, NOW, "hall", 100, {"moving": True}),
        Event("Motion", NOW, NOW, "hall", 101, {"moving": False}),
        Event("Door", NOW, NOW, "hall", 102, {"open": True}),
    ]
    assert server.bridge.counts == {"messages": 3, "events": 3, "late": 0, "rejected": 0, "retained": 0, "left_out": 0}


def test_promises_are_for_all_sources_and_only_grow() -> None:
    server = Server(HOME, lateness=5 * SECOND).connect()
    server.tick(NOW)
    server.send("home/hall", {"occupancy": True})
    server.tick(NOW + SECOND)
    server.tick(NOW - 60 * SECOND)  # the clock was set back
    server.tick(NOW + 3 * SECOND)
    assert [beat.watermark - NOW for beat in server.beats] == [s * SECOND for s in (-5, -4, -4, -2)]
    assert [beat.sources for beat in server.beats] == [("bridge",), *[("bridge", "hall")] * 3]


def test_event_at_or_before_the_watermark_is_late() -> None:
    server = Server(HOME).connect()
    server.tick(NOW)
    promised = NOW - 2 * SECOND
    for time in (promised + 1, promised, promised - SECOND):
        server.send("home/hall", {"occupancy": True, "t": time})
    assert [event.hi - promised for event in server.events] == [1]
    assert [(letter.reason, letter.topic) for letter in server.letters] == [("late", "home/hall")] * 2
    assert "it came 3s after its time, more than a lateness of 2s" in server.letters[1].message
    assert json.loads(server.letters[0].payload)[:3] == [promised, promised, "hall"]
    assert server.bridge.counts["late"] == 2


STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(-5_000, 1_000), st.booleans()), max_size=30)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, lateness=st.integers(0, 3_000))
def test_watermark_holds_whatever_devices_send(steps: list[tuple[int, int, bool]], lateness: int) -> None:
    """Milliseconds: how much time passes, how far a device's clock is off, and whether it is time for a promise."""
    server = Server(HOME, lateness=lateness * MILLISECOND).connect()
    now, sent = NOW, 0
    for passed, off, promises in steps:
        now += passed * MILLISECOND
        if promises:
            server.tick(now)
        before = len(server.events)
        server.send("home/hall", {"occupancy": True, "t": now + off * MILLISECOND}, now=now)
        sent += 1
        floor = max((beat.watermark for beat in server.beats), default=NOW - lateness * MILLISECOND)
        assert all(event.hi > floor for event in server.events[before:])
    assert len(server.events) + len(server.letters) == sent
    assert all(entry.watermark <= server.bridge.watermark for entry in server.sources.values())


def test_rejected_message_is_a_dead_letter_and_others_are_mapped() -> None:
    server = Server(HOME).connect()
    server.send("home/hall", {"occupancy": "perhaps"})
    server.send("home/hall", b"{")
    server.send("home/" + "x" * 70_000, {"occupancy": True})  # as a source too long for a topic
    server.send("home/hall", {"something": "else"})
    server.send("home/hall", {"occupancy": True, "contact": "ajar"})
    assert [event.type for event in server.events] == ["Motion"]
    assert [(letter.reason, letter.topic[:9]) for letter in server.letters] == [("rejected", "home/hall")] * 2 + [
        ("rejected", "home/xxxx"),
        ("rejected", "home/hall"),
    ]
    assert "neither true nor false: perhaps" in server.letters[0].message
    assert server.letters[1].payload == b"{"
    assert [p.topic for p in server.published if p.topic.startswith("ced/x/")] == ["ced/x/rejected/bridge"] * 4
    assert server.bridge.counts == {"messages": 5, "events": 1, "late": 0, "rejected": 4, "retained": 0, "left_out": 0}


def test_retained_messages_are_ignored() -> None:
    server = Server(HOME).connect()
    server.send("home/hall", {"occupancy": True}, retained=True)
    assert not server.events and "hall" not in server.sources
    assert server.bridge.counts["retained"] == 1


def test_retained_messages_can_be_taken_once() -> None:
    server = Server(HOME, retained=True).connect()
    server.send("home/hall", {"occupancy": True}, retained=True)
    server.connect()
    server.send("home/hall", {"occupancy": True}, retained=True)
    assert len(server.events) == 1
    assert server.bridge.counts["retained"] == 1


def test_bridge_clears_entries_of_an_earlier_life() -> None:
    left = SourceEntry(("Motion",), 5, 0, "bridge")
    others = SourceEntry(("Login",), 5, 0, "somebody")
    server = Server(HOME, entries={"ced/d/source/cellar": left, "ced/d/source/desk": others}).connect()
    assert set(server.sources) == {"bridge", "desk"}
    server.send("home/cellar", {"occupancy": True})
    assert server.sources["cellar"].watermark == NOW - 2 * SECOND
    assert not server.notes
    server.send("home/desk", {"occupancy": True})
    assert [note.fields for note in server.notes] == [{"source": "desk", "publisher": "somebody"}]


def test_bridge_clears_its_entries_at_its_end() -> None:
    server = Server(HOME).connect()
    server.send("home/hall", {"occupancy": True})
    server.do(server.bridge.stop())
    assert not server.sources
    assert "ced/d/client/bridge" not in server.retained
    assert set(server.types) == {"Motion", "Door"}
    count = len(server.published)
    server.send("home/front", {"contact": True})
    server.tick(NOW + SECOND)
    assert len(server.published) == count and not server.sources and not server.beats


def test_bridge_announces_its_entries_again_after_a_reconnection() -> None:
    server = Server(HOME).connect()
    server.send("home/hall", {"occupancy": True})
    server.tick(NOW + 10 * SECOND)
    server.retained.clear()  # a server that keeps nothing
    server.connect()
    assert set(server.types) == {"Motion", "Door"}
    promised = NOW + 8 * SECOND
    assert {name: entry.watermark for name, entry in server.sources.items()} == {"bridge": promised, "hall": promised}
    assert server.sources["hall"].types == ("Motion",)
    # The bus subscribes again by itself.
    assert server.filters.count("home/+") == 1


def frames(published: list[Publish]) -> list[Frame]:
    return [decode_frame(each.payload) for each in published if each.topic.startswith("ced/e/")]


def test_messages_are_numbered_and_sent_again() -> None:
    server = Server(HOME).connect()
    for payload in ({"occupancy": True}, {"contact": True}, {"occupancy": False}):
        server.send("home/hall", payload)
    first = server.sources["hall"].first
    assert [(each.type, (each.number or 0) - first) for each in frames(server.published)] == [
        ("Motion", 0), ("Door", 0), ("Motion", 1)
    ]  # fmt: skip
    server.tick(NOW + SECOND)
    beat = server.beats[-1]
    assert beat.sources == ("bridge", "hall") and server.sources["hall"].types == ("Motion", "Door")
    assert [number - first for number, _ in beat.positions[1]] == [2, 1]
    server.published.clear()
    asked = Missing("n", (MissingMessages("e", "hall", first, first + 2, "Motion"),))
    server.receive("ced/a/missing/source/bridge", "ced/a/missing/source/bridge", encode(asked))
    assert [each.topic for each in server.published] == ["ced/a/again/n/e/hall"] * 2
    assert [decode_frame(each.payload).number for each in server.published] == [first, first + 1]
    server.receive("ced/a/missing/source/bridge", "ced/a/missing/source/bridge", b"nonsense")


def test_bridge_says_what_it_may_have_missed_before_it_promises_anything() -> None:
    server = Server(HOME).connect()
    server.tick(NOW + 10 * SECOND)
    order = server.bridge.start(NOW + 30 * SECOND)
    said = frames([each for each in order if isinstance(each, Publish)])
    loss = Loss(NOW + 8 * SECOND, NOW + 31 * SECOND, said[0].losses[0].reason)
    assert [(each.type, each.source, each.losses, each.number) for each in said] == [
        (name, "bridge", (loss,), NOW // 1_000) for name in ("Motion", "Door")
    ]
    # They come first, and count as messages.
    assert all(isinstance(each, Publish) for each in order[:2])
    server.tick(NOW + 40 * SECOND)
    assert server.beats[-1].positions[0] == ((NOW // 1_000 + 1, None),) * 2


def test_entries_cleared_by_others_are_published_again() -> None:
    server = Server(HOME).connect()
    for device in ("hall", "front"):
        server.send(f"home/{device}", {"occupancy": True})
    server.clear("source", "hall")
    server.clear("source", "bridge")
    server.clear("client", "bridge")  # the last will of an earlier connection
    server.tick(NOW + 2 * SECOND)
    assert set(server.sources) == {"front"}  # the announcement may be on its way
    server.tick(NOW + 4 * SECOND)
    assert set(server.sources) == {"bridge", "front"}
    assert server.sources["bridge"].types == ("Motion", "Door")
    assert "ced/d/client/bridge" in server.retained
    server.tick(NOW + 5 * SECOND)
    assert server.beats[-1].sources == ("bridge", "front")
    server.send("home/hall", {"occupancy": True}, now=NOW + 5 * SECOND)
    assert server.sources["hall"].watermark == NOW + 3 * SECOND


OVERLAPPING = """
[defaults]
format = "text"
source = "s"
attributes = { x = { kind = "string", path = "value" } }
[[rule]]
topic = "home/{device}"
type = "A"
[[rule]]
topic = "home/#"
type = "B"
[[rule]]
topic = "#"
type = "C"
"""


def test_message_that_several_filters_match_is_mapped_once() -> None:
    server = Server(OVERLAPPING, OVERLAPPING.replace('"C"', '"D"')).connect()
    assert server.filters[3:] == ["home/+", "home/#", "#"]
    server.send("home/hall", b"on")
    assert sorted(event.type for event in server.events) == ["A", "A", "B", "B", "C", "D"]


def test_mapping_that_listens_to_everything_does_not_hear_the_bridge() -> None:
    server = Server(OVERLAPPING).connect()
    for topic in ("ced/e/A/s", "ced/d/source/s", "ced/x/late/bridge"):
        server.receive("#", topic, b"on")
    assert not server.events
    server.receive("#", "cedar/tree", b"on")
    assert [event.type for event in server.events] == ["C"]


def test_several_mappings_share_sources() -> None:
    motion, door = HOME.split("[[rule]]")[1:]
    defaults = HOME.split("[[rule]]")[0]
    server = Server(f"{defaults}[[rule]]{motion}", f"{defaults}[[rule]]{door}").connect()
    server.send("home/hall", {"occupancy": True, "contact": True})
    assert server.sources["hall"].types == ("Motion", "Door")
    assert {event.type for event in server.events} == {"Door", "Motion"}


def test_mappings_that_disagree_about_a_type_are_refused() -> None:
    with pytest.raises(TypeRegistryError, match="'Motion' is registered already, and differs"):
        Server(HOME, HOME.replace("moving =", "motion ="))


def test_type_with_other_attributes_stops_the_bridge() -> None:
    entries = {"ced/d/type/Door": event_type("Door", {"open": "number"})}
    server = Server(HOME, entries=entries).connect()
    assert isinstance(server.bridge.problem, TypeRegistryError)
    assert not server.bridge.ready
    assert server.filters == ["ced/d/#", "ced/a/missing/source/bridge", "ced/a/known/bridge"]
    assert set(server.types) == {"Door"} and not server.sources
    server.do(server.bridge.stop())
    assert set(server.retained) == {"ced/d/type/Door"}


def test_known_type_is_not_registered_again() -> None:
    known = event_type("Door", {"open": "boolean"}, home="elsewhere:1883")
    server = Server(HOME, entries={"ced/d/type/Door": known}).connect()
    assert server.types["Door"] == known


def test_mapping_with_too_many_sources_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "MOST_SOURCES", 3)
    server = Server(HOME).connect()
    for number in range(5):
        server.send(f"home/{number}", {"occupancy": True})
    server.send("home/1", {"occupancy": True})
    assert set(server.sources) == {"bridge", "0", "1"}
    assert [event.source for event in server.events] == ["0", "1", "1"]
    assert [letter.message for letter in server.letters] == [
        "more than 3 sources: does the mapping take the right field for the source?"
    ] * 3


def test_sequence_number_of_a_source_is_kept() -> None:
    mapping = '[[rule]]\ntopic = "home/{device}"\ntype = "E"\nsource = "{$device}"\nsequence = "n"\n'
    server = Server(mapping, first_seq=1_795_248_000_000_000).connect()
    for number in (5, 7, 6):
        server.send("home/hall", {"n": number})
    assert [event.seq for event in server.events] == [5, 7]
    assert ["does not grow" in letter.message for letter in server.letters] == [True]
