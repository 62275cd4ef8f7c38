"""The client session without servers: each input with the effects it has."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from distced.middleware.client.client_effects import (
    DetectorEnded,
    Done,
    Ended,
    Flush,
    Leave,
    Listen,
    NotAvailable,
    SetTimer,
)
from distced.middleware.client.directory_session import CLEARED_WITHIN
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.session import ClientSession
from distced.middleware.client.source_session import SourceState, heartbeat
from distced.middleware.client.subscription_session import AT_ONCE, LINGER
from distced.middleware.client.subscription_state import Place, SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError, EventError, SubscriptionError, TypeRegistryError
from distced.middleware.model.event_types import derive, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Acknowledgement, Answer, Answers, Listening, Pointer, Unavailable
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    NodeEntry,
    RecorderEntry,
    SourceEntry,
    SubscriptionEntry,
)
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.mqtt_effects import Note, Publish, Subscribe
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import composite_topic, directory_topic, event_filter, pointer_topic

A = event_type("A", {"k": "number"})
NORTH, SOUTH = "mqtt://north:1883", "mqtt://south:1883"
GONE = BusError("nothing listens")
LISTENING = encode(Listening(("q",)))


class Driven:
    """A session with the effects of its inputs, by kind."""

    def __init__(self, *, home: str = "") -> None:
        self.session = ClientSession("ann", home=home, server="directory:1883")
        self.now = 0
        self.effects: list[Any] = []
        self.session.begin()
        self.take(self.session.connected("", self.now))
        self.barrier = self.published("ced/a/known/ann")[0]

    def take(self, effects: list[Any]) -> None:
        self.effects = effects

    def receive(self, topic: str, message: Any) -> None:
        payload = message if isinstance(message, bytes) else encode(message)
        self.take(self.session.receive(topic, payload, self.now))

    def entry(self, kind: str, name: str, entry: Any) -> None:
        publishes = getattr(entry, "publishes", "")
        self.receive(directory_topic(kind, name, publishes=publishes), entry)

    def read(self) -> None:
        """The directory was read."""
        self.receive("ced/a/known/ann", self.barrier)

    def pass_barrier(self, publishes: str) -> None:
        """The detectors that publish a type were read."""
        barrier = f"ced/a/known/ann/detectors/{publishes}"
        assert self.published(barrier) == [b""]
        self.receive(barrier, b"")

    def published(self, topic: str) -> list[bytes]:
        return [each.payload for each in self.effects if isinstance(each, Publish) and each.topic == topic]

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.effects if isinstance(each, kind)]

    def answer(self, state: str, *homes: str, detector: str = "d", node: str = "n1", message: str = "") -> None:
        answer = Answer("q", state, detector, node, homes=homes or ("",), message=message)
        self.receive("ced/a/answer/ann", Answers((answer,)))

    def confirm(self, *listens: Listen) -> None:
        self.take([effect for each in listens for effect in self.session.confirmed(each.number)])

    def fire(self, timer: SetTimer | Flush) -> None:
        self.take(self.session.fired(timer.number, self.now))

    def subscribe(self, pattern: str = "[A]") -> SubscriptionState:
        state = SubscriptionState("q", pattern, QualityOfService())
        self.take(self.session.subscribe(state, {}, "op"))
        return state

    def active(self, *homes: str) -> SubscriptionState:
        """A subscription with an active detector at these homes."""
        state = self.subscribe()
        self.answer("offered", *homes)
        self.confirm(*self.of(Listen))
        self.answer("active", *homes)
        assert self.of(Done) == [Done("op")]
        return state


# The directory.


def test_client_announces_itself_and_asks_until_its_barrier_is_back() -> None:
    driven = Driven()
    assert decode(driven.published("ced/d/client/ann")[0], ClientEntry, where="") == ClientEntry(0, declares=True)
    driven.now = SECOND // 2
    driven.fire(driven.of(SetTimer)[0])
    assert driven.published("ced/a/known/ann") == [driven.barrier]
    again = driven.of(SetTimer)[0]
    driven.read()
    assert driven.session.directory.known
    driven.fire(again)
    assert driven.effects == []


def test_client_puts_back_entries_that_a_server_has_forgotten_and_forgets_those_that_are_gone() -> None:
    driven = Driven()
    driven.read()
    driven.take(driven.session.register(A, "mqtt://here:1883", "op"))
    driven.pass_barrier("A")
    ((payload,), topic) = driven.published("ced/d/type/A"), "ced/d/type/A"
    driven.receive(topic, payload)
    assert driven.of(Done) == [Done("op")]
    driven.entry("node", "n1", NodeEntry(0))
    driven.now = SECOND
    driven.take(driven.session.lost("", GONE) + driven.session.connected("", driven.now))
    driven.barrier = driven.published("ced/a/known/ann")[0]
    driven.entry("client", "ann", ClientEntry(SECOND))
    driven.read()
    assert driven.published(topic) == [payload]
    assert driven.session.entries.nodes == {}


def test_client_answers_its_own_last_will_and_keeps_no_type_that_others_clear() -> None:
    driven = Driven()
    driven.entry("client", "ann", b"")
    assert len(driven.published("ced/d/client/ann")) == 1
    driven.take(driven.session.register(A, "", "op"))
    driven.entry("type", "A", b"")
    driven.read()
    assert driven.published("ced/d/type/A") == []


def test_pointer_counts_where_there_are_no_nodes() -> None:
    driven = Driven()
    driven.receive(pointer_topic(), Pointer(NORTH))
    driven.read()
    assert driven.session.directory.elsewhere == NORTH
    driven.entry("node", "n1", NodeEntry(0))
    assert driven.session.directory.elsewhere == ""


def test_operations_wait_for_nodes_until_their_timeout() -> None:
    driven = Driven()
    driven.take(driven.session.wait_for_nodes(1, SECOND, "early"))
    (timer,) = driven.of(SetTimer)
    driven.fire(timer)
    ((_, error),) = [(each.operation, each.error) for each in driven.of(Done)]
    assert isinstance(error, SubscriptionError) and "too few broker nodes: 0" in str(error)
    driven.take(driven.session.wait_for_nodes(1, SECOND, "late"))
    driven.entry("node", "n1", NodeEntry(0))
    assert driven.of(Done) == [Done("late")]


def test_type_that_another_client_has_registered_meanwhile_is_an_error() -> None:
    driven = Driven()
    driven.take(driven.session.register(A, "", "op"))
    driven.pass_barrier("A")
    driven.entry("type", "A", event_type("A", {"k": "string"}))
    (done,) = driven.of(Done)
    assert isinstance(done.error, TypeRegistryError)


# Subscriptions to patterns.


def test_subscription_is_ready_when_every_home_has_confirmed() -> None:
    driven = Driven()
    state = driven.subscribe()
    (payload,) = driven.published("ced/d/subscription/q")
    entry = decode(payload, SubscriptionEntry, where="")
    # Without a word of the application the decomposition is that of the policy.
    assert (entry.client, entry.pattern, entry.decomposition, entry.distribution) == ("ann", "[A]", "", "")
    driven.answer("offered", NORTH, SOUTH)
    north, south = driven.of(Listen)
    assert {north.topic_filter, south.topic_filter} == {composite_topic("d")}
    driven.confirm(north)
    assert driven.published("ced/a/ready/ann") == []
    driven.answer("offered", NORTH, SOUTH)
    assert driven.effects == []
    driven.confirm(south)
    assert driven.published("ced/a/ready/ann") == [LISTENING]
    driven.answer("active", NORTH, SOUTH, node="n2")
    assert driven.of(Done) == [Done("op")]
    assert (state.detector, state.node, state.homes) == ("d", "n2", (NORTH, SOUTH))
    assert set(state.places.values()) == {True}


def test_subscription_goes_on_without_a_home_that_cannot_be_reached() -> None:
    driven = Driven()
    state = driven.subscribe()
    driven.answer("offered", NORTH, SOUTH)
    north, south = driven.of(Listen)
    driven.take(driven.session.lost(NORTH, GONE))
    driven.confirm(south)
    assert driven.published("ced/a/ready/ann") == [LISTENING]
    assert [(each.event, each.fields["home"]) for each in driven.of(Note)] == [("listening deferred", NORTH)]
    driven.confirm(north)
    assert state.places[Place(NORTH, composite_topic("d"))]


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_subscription_fails_where_no_home_can_be_reached(when: str) -> None:
    driven = Driven()
    if when == "before":
        driven.take(driven.session.lost(NORTH, GONE))
    driven.subscribe()
    driven.answer("offered", NORTH)
    if when == "after":
        driven.take(driven.session.lost(NORTH, GONE))
    elif when == "late":
        driven.fire(driven.of(SetTimer)[0])
    (done,) = driven.of(Done)
    assert "none of the servers where it is published can be listened to" in str(done.error)
    assert driven.published("ced/d/subscription/q") == [b""]
    assert [each.home for each in driven.of(Leave)] == [NORTH]


def test_subscription_without_an_answer_fails_and_leaves_nothing() -> None:
    driven = Driven()
    driven.subscribe()
    driven.fire(driven.of(SetTimer)[0])
    (done,) = driven.of(Done)
    assert "no broker node has answered" in str(done.error)
    assert driven.published("ced/d/subscription/q") == [b""]


def test_subscription_that_is_refused_gives_the_reason() -> None:
    driven = Driven()
    driven.subscribe("[X]")
    driven.answer("refused", message="unknown event type: X")
    (done,) = driven.of(Done)
    assert "unknown event type: X, at node n1" in str(done.error)
    assert driven.published("ced/d/subscription/q") == [b""]


@pytest.mark.parametrize("state", ["offered", "active"])
def test_subscription_follows_its_detector_to_another_home_and_leaves_the_first_later(state: str) -> None:
    """A new node offers it, or its offer was overtaken and it is active there."""
    driven = Driven()
    subscription = driven.active("")
    driven.answer(state, NORTH, node="n2")
    (listen,) = driven.of(Listen)
    driven.confirm(listen)
    assert driven.published("ced/a/ready/ann") == [LISTENING]
    driven.answer("active", NORTH, node="n2")
    (linger,) = driven.of(SetTimer)
    assert linger.delay == LINGER
    assert {place.home for place in subscription.places} == {"", NORTH}
    driven.fire(linger)
    assert [each.home for each in driven.of(Leave)] == [""]
    assert {place.home for place in subscription.places} == {NORTH}


def test_subscription_takes_the_later_of_two_offers() -> None:
    driven = Driven()
    state = driven.subscribe()
    driven.answer("offered", NORTH)
    (first,) = driven.of(Listen)
    driven.answer("offered", SOUTH, node="n2")
    (second,) = driven.of(Listen)
    driven.confirm(first)
    assert driven.published("ced/a/ready/ann") == []
    driven.confirm(second)
    assert driven.published("ced/a/ready/ann") == [LISTENING]
    assert (state.node, state.homes) == ("n2", (SOUTH,))


def test_subscription_active_before_its_server_confirms_is_complete_then() -> None:
    driven = Driven()
    driven.subscribe()
    driven.answer("offered", NORTH)
    (listen,) = driven.of(Listen)
    driven.answer("active", NORTH)
    assert driven.effects == []
    driven.confirm(listen)
    assert driven.of(Done) == [Done("op")]


def test_client_repeats_that_it_is_ready_until_the_detector_is_active() -> None:
    """The answer of a node may be lost with the server."""
    driven = Driven()
    driven.subscribe()
    driven.answer("offered")
    driven.confirm(*driven.of(Listen))
    for delay in (1, 2, 4, 8, 16, 32, 32):
        (again,) = (each for each in driven.of(SetTimer) if each.delay == delay * SECOND)
        driven.fire(again)
        assert driven.published("ced/a/ready/ann") == [LISTENING]
    (again,) = driven.of(SetTimer)
    driven.answer("active")
    assert driven.of(Done) == [Done("op")]
    driven.fire(again)
    assert driven.effects == []


def test_offer_that_cannot_be_taken_leaves_an_active_subscription() -> None:
    driven = Driven()
    driven.active("")
    driven.take(driven.session.lost(NORTH, GONE))
    driven.answer("offered", NORTH)
    assert [each.event for each in driven.of(Note)] == ["offer deferred"]
    assert driven.session.subscriptions.open == ["q"]


def test_subscription_that_is_cleared_ends_and_is_not_put_back() -> None:
    driven = Driven()
    driven.active("")
    driven.entry("subscription", "q", b"")
    (ended,) = driven.of(Ended)
    assert "cleared" in str(ended.error)
    driven.read()
    assert driven.published("ced/d/subscription/q") == []


def test_subscription_that_is_cleared_as_its_client_returns_is_published_again() -> None:
    driven = Driven()
    driven.active("")
    driven.now = SECOND
    driven.take(driven.session.lost("", GONE) + driven.session.connected("", driven.now))
    # By a node that has not received yet that the client is back.
    driven.entry("subscription", "q", b"")
    (again,) = driven.published("ced/d/subscription/q")
    assert decode(again, SubscriptionEntry, where="").again and driven.of(Ended) == []
    driven.entry("subscription", "q", again)
    driven.now += CLEARED_WITHIN
    driven.entry("subscription", "q", b"")
    (ended,) = driven.of(Ended)
    assert "cleared" in str(ended.error) and driven.published("ced/d/subscription/q") == []


def test_losses_are_logged_once_and_only_of_servers_listened_to() -> None:
    driven = Driven()
    driven.active("", NORTH)
    notes: list[tuple[str, object]] = []
    for home, stands in [(NORTH, True), (NORTH, False), (NORTH, False), (SOUTH, False), ("", False), (NORTH, True),
                         (SOUTH, True), ("", True)]:  # fmt: skip
        session = driven.session
        driven.take(session.connected(home, 0) if stands else session.lost(home, GONE))
        notes += [(each.event, each.fields.get("home", "")) for each in driven.of(Note)]
    assert notes == [
        ("connection lost", NORTH),
        ("connection lost", ""),
        ("connection restored", NORTH),
        ("connection restored", ""),
    ]


# Subscriptions to types.


def test_type_is_listened_to_wherever_it_is_published() -> None:
    driven = Driven()
    driven.entry("type", "A", A)
    driven.entry("source", "s", SourceEntry(("A",), 0, publisher="bob", home=NORTH))
    state = driven.subscribe("A")
    assert not driven.of(Listen)
    driven.pass_barrier("A")
    first = driven.of(Listen)
    assert {each.home for each in first} == {"", NORTH}
    driven.confirm(*first)
    assert driven.of(Done) == [Done("op")]
    driven.entry("source", "t", SourceEntry(("A",), 0, publisher="bob", home=SOUTH))
    (listen,) = driven.of(Listen)
    assert (listen.home, listen.topic_filter) == (SOUTH, event_filter("A"))
    driven.entry("detector", "d", DetectorEntry("n1", "[B] -> A()", "guaranteed", ("B",), "A", home=NORTH))
    (listen,) = driven.of(Listen)
    assert (listen.home, listen.topic_filter) == (NORTH, composite_topic("d"))
    driven.take(driven.session.refused(listen.number, BusError("not the URL of an MQTT server"), kept=False))
    assert Place(NORTH, composite_topic("d")) not in state.places
    driven.take(driven.session.unsubscribe("q"))
    assert {each.home for each in driven.of(Leave)} == {"", NORTH, SOUTH}
    assert driven.published("ced/d/subscription/q") == []


@pytest.mark.parametrize(("first", "lost"), [(0, True), (5, False)])
def test_subscription_to_a_type_reports_what_it_missed_of_sources_without_numbers(first: int, lost: bool) -> None:
    driven = Driven()
    driven.read()
    driven.entry("type", "A", A)
    driven.entry("source", "s", SourceEntry(("A",), 0, publisher="bob", first=first))
    state = driven.subscribe("A")
    driven.pass_barrier("A")
    driven.confirm(*driven.of(Listen))
    assert driven.of(Done) == [Done("op")]
    driven.take(driven.session.lost("", GONE))
    driven.take(driven.session.connected("", SECOND))
    told = driven.of(NotAvailable)
    assert [each.subscription for each in told] == ["q"] * lost
    found = [item for each in told for item in state.unavailable("", each.lost, SECOND)]
    assert [(each.since, each.until) for each in found if isinstance(each, Loss)] == [(INSTANT_MIN, 2 * SECOND)] * lost


def test_subscription_to_a_type_notes_where_messages_without_numbers_come_from() -> None:
    state = SubscriptionState("q", "A", QualityOfService())
    state.type_name = "A"
    json = b'{"time": 5, "attributes": {"k": 1}}'
    (event,) = state.arrived("ced/e/A/s", json, 9, NORTH)
    assert isinstance(event, Event) and (event.type, event.source) == ("A", "s") and state.foreign == (NORTH,)
    list(state.arrived("ced/e/A/s", encode_frame([], type="A", source="s", number=1), 9, SOUTH))
    assert state.foreign == (NORTH,)


@pytest.mark.parametrize("missing", [(), (2,), (2, 4), (5,)])
def test_what_is_missing_of_a_detector_that_has_ended_is_a_loss_of_the_type(missing: tuple[int, ...]) -> None:
    """Its composite events 1 to 5 end at their numbers, the last one known by a heartbeat."""
    driven = Driven()
    driven.entry("detector", "d", DetectorEntry("n1", "[B] -> A()", "guaranteed", ("B",), "A"))
    state = driven.subscribe("A")
    driven.pass_barrier("A")
    driven.confirm(*driven.of(Listen))

    def message(number: int, watermark: int, *events: CompositeEvent) -> bytes:
        return encode_frame(
            events, type="A", source="d", watermark=watermark, kind="c", number=number, life=2, base=0, check=False
        )  # fmt: skip

    position = Unavailable("c", "d", 1, None, position=True, life=2, base=0)
    got = list(state.unavailable("", position, 0))
    for number in {1, 2, 3, 4, 5}.difference(missing):
        event = CompositeEvent("A", number, number, "d", number, {}, constituents=())
        got += state.arrived(composite_topic("d"), message(number, number, event), number)
    got += state.arrived(composite_topic("d"), message(6, 5), 6)
    assert [each.hi for each in got] == [each for each in range(1, 6) if each not in missing]
    driven.receive(directory_topic("detector", "d", publishes="A"), b"")
    timers = driven.of(SetTimer)
    ended = []
    for timer in timers:
        driven.fire(timer)
        ended += driven.of(DetectorEnded)
    assert ended == [DetectorEnded("q", "d")]
    losses = list(state.unfollow("d", 9))
    assert all(isinstance(each, Loss) and "d: the detector has ended" in each.reason for each in losses)
    for number in range(1, 6):
        assert any(each.concerns(number, number) for each in losses) or number not in missing
    assert bool(losses) == bool(missing) and state.statistics.losses == len(losses)
    assert not list(state.unfollow("d", 9))


def test_type_that_is_not_published_is_an_error() -> None:
    driven = Driven()
    driven.subscribe("A")
    driven.pass_barrier("A")
    (done,) = driven.of(Done)
    assert "unknown event type: A" in str(done.error)
    # What was read stays known.
    with pytest.raises(TypeRegistryError, match="unknown event type: A"):
        driven.subscribe("A")
    driven.entry("detector", "d", DetectorEntry("n1", "[B] -> A()", "guaranteed", ("B",), "A", home=NORTH))
    driven.subscribe("A")
    assert [(each.home, each.topic_filter) for each in driven.of(Listen)] == [(NORTH, composite_topic("d"))]


def test_subscription_to_a_type_that_ends_while_detectors_are_read_is_not_made() -> None:
    driven = Driven()
    driven.entry("type", "A", A)
    driven.subscribe("A")
    assert driven.published("ced/a/known/ann/detectors/A") == [b""]
    driven.take(driven.session.unsubscribe("q"))
    assert [done.error is None for done in driven.of(Done)] == [False]
    driven.receive("ced/a/known/ann/detectors/A", b"")
    assert driven.effects == []


def test_detectors_that_cannot_be_read_in_time_are_an_error() -> None:
    driven = Driven()
    driven.entry("type", "A", A)
    driven.subscribe("A")
    patience, again = driven.of(SetTimer)
    driven.fire(again)
    assert driven.published("ced/a/known/ann/detectors/A") == [b""]
    driven.fire(patience)
    assert "detectors could not be read from the directory: A" in str(driven.of(Done)[0].error)
    driven.take(driven.session.register(event_type("B", {}), "", "other"))
    driven.fire(driven.of(SetTimer)[0])
    assert "detectors could not be read from the directory: B" in str(driven.of(Done)[0].error)


def test_client_reads_detectors_and_subscriptions_it_needs_only() -> None:
    session = ClientSession("ann")
    filters = [each.topic_filter for each in session.begin() if isinstance(each, Subscribe)]
    read = [each.removeprefix("ced/d/") for each in filters if each.startswith("ced/d/")]
    assert read == [
        "type/#",
        "client/#",
        "source/#",
        "node/#",
        "recorder/#",
        "topology/#",
        "reader/#",
        "subscription/ann/+",
    ]
    driven = Driven()
    driven.take(driven.session.read_detectors("op"))
    assert next(each.topic_filter for each in driven.of(Subscribe)) == "ced/d/detector/#"
    entry = DetectorEntry("n1", "[B] -> A()", "guaranteed", ("B",), "A")
    driven.receive(directory_topic("detector", "d", publishes="A"), entry)
    driven.receive("ced/a/known/ann/detectors", b"")
    assert driven.of(Done) == [Done("op")] and driven.session.entries.detectors == {"d": entry}
    # The type is known from there.
    with pytest.raises(TypeRegistryError, match="composite events of the type 'A' are published already, and differ"):
        driven.session.register(A, "", "register")


def test_type_that_detectors_publish_differently_is_an_error() -> None:
    driven = Driven()
    driven.take(driven.session.register(A, "", "op"))
    assert "ced/d/detector/A/+" in [each.topic_filter for each in driven.of(Subscribe)]
    entry = DetectorEntry("n1", "[B] -> A(x = 1)", "guaranteed", ("B",), "A", {"x": "number"})
    driven.receive(directory_topic("detector", "d", publishes="A"), entry)
    driven.receive("ced/a/known/ann/detectors/A", b"")
    (done,) = driven.of(Done)
    assert isinstance(done.error, TypeRegistryError) and driven.published("ced/d/type/A") == []


def test_type_that_comes_back_with_other_attributes_is_taken_as_it_is_now() -> None:
    driven = Driven()
    driven.entry("type", "A", A)
    state = driven.subscribe("A")
    driven.pass_barrier("A")
    driven.confirm(*driven.of(Listen))
    driven.entry("type", "A", b"")
    (look,) = driven.of(SetTimer)
    driven.fire(look)
    assert state.waits == "the type A has no publisher any more"
    other = event_type("A", {"k": "string"})
    driven.entry("type", "A", other)
    assert state.event_type == other
    (note,) = driven.of(Note)
    assert (note.event, note.fields["attributes"]) == ("type changed", "k: string")
    (look,) = driven.of(SetTimer)
    driven.fire(look)
    assert state.waits == ""
    # As a derived type it has no events of its own.
    driven.entry("type", "A", b"")
    driven.entry("type", "B", event_type("B", {"k": "string"}))
    driven.entry("type", "A", derive(event_type("B", {"k": "string"}), "A", where="k == 'x'"))
    assert state.event_type == other
    (look,) = driven.of(SetTimer)
    driven.fire(look)
    assert state.waits == "the type A is derived now: no events are published under it"


def test_type_of_detectors_that_sources_publish_later_is_listened_to_there() -> None:
    driven = Driven()
    driven.entry("detector", "d", DetectorEntry("n1", "[B] -> A()", "guaranteed", ("B",), "A"))
    state = driven.subscribe("A")
    driven.pass_barrier("A")
    driven.confirm(*driven.of(Listen))
    driven.entry("source", "s", SourceEntry(("A",), 0, publisher="bob", home=NORTH))
    assert not driven.of(Listen) and state.event_type is None
    driven.entry("type", "A", A)
    assert {(each.home, each.topic_filter) for each in driven.of(Listen)} == {
        (home, event_filter("A")) for home in ("", NORTH)
    }


# Refusals.


def test_subscriptions_refused_together_have_the_reason_and_are_cleared_by_the_node() -> None:
    driven = Driven()
    states = [SubscriptionState(f"q{number}", "[A]", QualityOfService()) for number in range(3)]
    errors: dict[str, DistcedError] = {}
    driven.take(driven.session.subscribe_many(states, {}, errors, "op"))
    refusal = Answer("q0", "refused", node="n1", message="too many subscriptions of one client")
    refusal = replace(refusal, limited=True, others=("q1", "q9"))
    driven.receive("ced/a/answer/ann", Answers((refusal,)))
    assert driven.effects == [] and driven.session.directory.own["subscription"].keys() == {"q2"}
    driven.receive("ced/a/answer/ann", Answers((Answer("q2", "refused", node="n1", message="unknown event type"),)))
    assert driven.of(Done) == [Done("op")] and driven.published("ced/d/subscription/q2") == [b""]
    assert {name: str(error) for name, error in errors.items()} == {
        "q0": "too many subscriptions of one client, at node n1",
        "q1": "too many subscriptions of one client, at node n1",
        "q2": "unknown event type, at node n1",
    }


def test_rest_of_a_bulk_is_not_requested_beyond_a_limit() -> None:
    driven = Driven()
    states = [SubscriptionState(f"q{number}", "[A]", QualityOfService()) for number in range(AT_ONCE + 50)]
    errors: dict[str, DistcedError] = {}
    driven.take(driven.session.subscribe_many(states, {}, errors, "op"))
    refusal = Answer("q0", "refused", node="n1", message="too many subscriptions of one client", limited=True)
    driven.receive("ced/a/answer/ann", Answers((refusal,)))
    assert driven.effects == [] and len(errors) == 51
    others = tuple(f"q{number}" for number in range(2, AT_ONCE))
    driven.receive("ced/a/answer/ann", Answers((replace(refusal, subscription="q1", others=others),)))
    assert driven.effects == [Done("op")] and errors.keys() == {each.id for each in states}


@pytest.mark.parametrize(
    "answer",
    [
        Answer("read", "offered", detector="d", node="n1"),
        Answer("read", "refused", node="n1", message="unknown event type"),
    ],
    ids=lambda each: each.state,
)
def test_client_that_is_not_read_gets_the_reason_for_all_that_waits(answer: Answer) -> None:
    driven = Driven()
    driven.take(driven.session.subscribe(SubscriptionState("served", "[A]", QualityOfService()), {}, "first"))
    offer = Answer("served", "offered", detector="d", node="n1")
    driven.receive("ced/a/answer/ann", Answers((offer,)))
    states = [SubscriptionState(f"q{number}", "[A]", QualityOfService()) for number in range(AT_ONCE + 50)]
    errors: dict[str, DistcedError] = {}
    driven.take(driven.session.subscribe_many(states, {}, errors, "op"))
    refusal = Answer("", "refused", node="n1", message="more subscriptions than nodes read", limited=True)
    driven.receive("ced/a/answer/ann", Answers((refusal,)))
    assert driven.of(Done) == [Done("op")] and errors.keys() == {each.id for each in states}
    assert {str(error) for error in errors.values()} == {"more subscriptions than nodes read, at node n1"}
    # What was requested is cleared here, as nodes have not read it.
    assert driven.published("ced/d/subscription/q0") == [b""] and len(driven.of(Publish)) == AT_ONCE
    assert driven.session.directory.own["subscription"].keys() == {"served"}
    # So does what is requested afterwards, when its time is over.
    driven.take(driven.session.subscribe(SubscriptionState("late", "[A]", QualityOfService()), {}, "late"))
    (timer,) = driven.of(SetTimer)
    driven.fire(timer)
    (done,) = driven.of(Done)
    assert str(done.error) == "more subscriptions than nodes read, at directory:1883"
    # Until a node answers such a request; the offers of those before do not count.
    driven.receive("ced/a/answer/ann", Answers((replace(offer, node="n2", detector="e"),)))
    driven.take(driven.session.subscribe(SubscriptionState("read", "[A]", QualityOfService()), {}, "read"))
    (timer,) = driven.of(SetTimer)
    driven.fire(timer)
    assert "than nodes read" in str(driven.of(Done)[0].error)
    driven.take(driven.session.subscribe(SubscriptionState("read", "[A]", QualityOfService()), {}, "read"))
    driven.receive("ced/a/answer/ann", Answers((answer,)))
    driven.take(driven.session.subscribe(SubscriptionState("last", "[A]", QualityOfService()), {}, "last"))
    (timer,) = driven.of(SetTimer)
    driven.fire(timer)
    (done,) = driven.of(Done)
    assert str(done.error).startswith("no broker node has answered")


# Sources.


def opened(driven: Driven, *names: str) -> list[SourceState]:
    made = [SourceState("ann", name, {"A": A}, 5, 1, 0, home=driven.session.home) for name in names]
    driven.take(driven.session.open_sources(made, 0, "open"))
    return made


def acknowledge(driven: Driven, source: str, speaker: str, watermark: int) -> None:
    driven.receive(f"ced/a/ack/{source}/{speaker}", Acknowledgement(watermark))


def test_sources_open_when_every_node_and_recorder_has_acknowledged_all() -> None:
    driven = Driven()
    driven.entry("node", "n1", NodeEntry(0))
    driven.entry("node", "n2", NodeEntry(0))
    driven.entry("recorder", "r", RecorderEntry(0))
    s, t = opened(driven, "s", "t")
    acknowledge(driven, "t", "n1", 20)
    acknowledge(driven, "s", "n1", 3)
    acknowledge(driven, "s", "recorder:r", 9)
    acknowledge(driven, "t", "recorder:r", 1)
    assert driven.effects == []
    # The other node is gone.
    driven.entry("node", "n2", b"")
    assert driven.of(Done) == [Done("open")]
    assert (s.watermark, t.watermark) == (9, 20)


def test_sources_that_are_not_acknowledged_leave_nothing() -> None:
    driven = Driven()
    driven.entry("node", "n1", NodeEntry(0))
    opened(driven, "s", "t")
    (first,) = driven.of(SetTimer)
    # Progress gives the next source its own time.
    acknowledge(driven, "s", "n1", 3)
    (second,) = driven.of(SetTimer)
    driven.fire(first)
    assert driven.effects == []
    driven.fire(second)
    (done,) = driven.of(Done)
    assert "'t': n1" in str(done.error)
    assert (driven.published("ced/d/source/s"), driven.published("ced/d/source/t")) == ([b""], [b""])
    opened(driven, "s")


def test_source_that_is_being_opened_is_announced_again_over_a_new_connection() -> None:
    driven = Driven()
    driven.entry("node", "n1", NodeEntry(0))
    opened(driven, "s")
    (entry,) = driven.published("ced/d/source/s")
    # The node has acknowledged it meanwhile.
    driven.take(driven.session.lost("", GONE) + driven.session.connected("", SECOND))
    assert driven.published("ced/d/source/s") == [entry]
    acknowledge(driven, "s", "n1", 3)
    assert driven.of(Done) == [Done("open")]
    driven.take(driven.session.lost("", GONE) + driven.session.connected("", 2 * SECOND))
    assert driven.published("ced/d/source/s") == []


def test_event_and_promise_that_nodes_reject_are_refused_by_the_clock_of_the_client() -> None:
    driven = Driven()
    driven.entry("node", "n1", NodeEntry(0, max_ahead=HOUR))
    driven.entry("node", "n2", NodeEntry(0, max_ahead=60 * SECOND))
    now, most = 10 * SECOND, 60 * SECOND
    source = SourceState("ann", "s", {"A": A}, 5, 1, 0, max_ahead=driven.session.sources.max_ahead)
    ahead = source.create("A", 7, now + most + 1, k=1)
    with pytest.raises(EventError, match="up to 1min beyond 1970-01-01T00:00:10Z"):
        list(source.messages([source.create("A", 6, k=1), ahead], None, now))
    with pytest.raises(EventError, match="a promise of the source 's' far beyond the clock"):
        list(source.messages([], now + most + 1, now))
    with pytest.raises(EventError, match="--max-ahead"):
        heartbeat("ann", [source], now + most + 1, now)
    assert (source.published, source.watermark) == (0, 5)
    # As far as nodes accept it, and the past.
    assert len(list(source.messages([source.create("A", 6, k=1), source.create("A", now + most, k=1)], 9, now))) == 1
    assert source.watermark == 9


def test_source_of_another_client_is_taken() -> None:
    driven = Driven()
    driven.entry("client", "bob", ClientEntry(0))
    driven.entry("source", "s", SourceEntry(("A",), 0, publisher="bob"))
    with pytest.raises(DistcedError, match="open already: s, at client bob"):
        opened(driven, "s")
    opened(driven, "t")
    with pytest.raises(DistcedError, match="open already: t"):
        opened(driven, "t")


def test_source_elsewhere_ends_in_the_directory_when_its_events_are_at_its_server() -> None:
    driven = Driven(home=NORTH)
    opened(driven, "s")
    driven.take(driven.session.close_source("s", "close"))
    (beat,) = driven.of(Publish)
    assert (beat.topic, beat.home) == ("ced/a/heartbeat/ann", NORTH)
    (flush,) = driven.of(Flush)
    assert flush.home == NORTH
    driven.fire(flush)
    assert driven.published("ced/d/source/s") == [b""]
    assert driven.of(Done) == [Done("close")]


def test_client_that_stops_leaves_the_directory_as_it_was() -> None:
    driven = Driven()
    driven.active("")
    opened(driven, "s")
    driven.take(driven.session.stop("stop"))
    topics = [each.topic for each in driven.of(Publish) if not each.payload and each.retain]
    assert topics == ["ced/d/subscription/q", "ced/d/source/s", "ced/d/client/ann"]
    assert driven.of(Done) == [Done("stop")]
    # Its own clearing is no last will.
    driven.entry("client", "ann", b"")
    assert driven.effects == []
