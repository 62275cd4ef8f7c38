"""The parts of the bus that decide: addresses, delays, timers, routes, covers, the outbox, reading."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from distced.middleware.bus import subscriptions
from distced.middleware.bus.connection import Connection, Settings
from distced.middleware.bus.delivery import Outbox
from distced.middleware.bus.failures import lost, refused, unreachable
from distced.middleware.bus.loop import Timer, Timers
from distced.middleware.bus.messages import Message
from distced.middleware.bus.paho_client import BufferedSocket, Client, _identifier_property, split_key
from distced.middleware.bus.reconnection import Backoff
from distced.middleware.bus.subscriptions import (
    MEMORY,
    Cover,
    Route,
    Routes,
    Subscriptions,
    check_filter,
    overlap,
    union,
)
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import Address, parse_address
from distced.middleware.wire.topics import matches

LEVEL = st.sampled_from(["a", "b", "", "ä"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTER = (
    st.tuples(st.lists(LEVEL | st.just("+"), max_size=4), st.booleans())
    .map(lambda drawn: "/".join([*drawn[0], *(["#"] if drawn[1] else [])]))
    .filter(bool)
)


# Addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://localhost", Address("localhost", 1883)),
        ("mqtts://broker.example", Address("broker.example", 8883, tls=True)),
        ("mqtt://127.0.0.1:2000/", Address("127.0.0.1", 2000)),
        ("127.0.0.1:2000", Address("127.0.0.1", 2000)),
        ("localhost", Address("localhost", 1883)),
        ("mqtt://[::1]:2000", Address("::1", 2000)),
        ("mqtts://ada:l%40ve%3A@h:1", Address("h", 1, True, "ada", "l@ve:")),
        ("mqtt://ada@h", Address("h", 1883, False, "ada", None)),
    ],
)
def test_address_is_parsed_from_a_url(url: str, expected: Address) -> None:
    assert parse_address(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mqtt://",
        "http://h",
        "mqtt://h:0",
        "mqtt://h:99999",
        "mqtt://h:x",
        "mqtt://h/path",
        "mqtt://h?q",
        "mqtt://[::1",
    ],
)
def test_text_that_is_no_address_is_an_error(url: str) -> None:
    with pytest.raises(BusError, match="mqtts://user:password@host"):
        parse_address(url)


def test_passwords_are_not_shown() -> None:
    with pytest.raises(BusError) as caught:
        parse_address("http://ada:secret@h")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(parse_address("mqtt://ada:secret@h"))
    assert str(parse_address("mqtt://ada:secret@[::1]:5")) == "[::1]:5"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConnectionRefusedError(),
            "nothing listens at h:5; start one with `distced broker` or name another with --server",
        ),
        (socket.gaierror(-2, "Name or service not known"), "no host of this name: h; check the name"),
        (TimeoutError(), "h:5 does not answer; check the network"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "the certificates of its authority"),
        (OSError(101, "Network is unreachable"), "Network is unreachable"),
        (ValueError(), "ValueError"),
    ],
)
def test_failure_to_connect_says_what_to_do(error: Exception, said: str) -> None:
    assert said in str(unreachable(Address("h", 5), error))


def test_refusals_and_losses_say_what_to_do() -> None:
    address = Address("h", 5)
    assert "mqtt://USER@h:5" in str(refused(address, "Not authorized", credentials=True))
    assert "check the password of the user ada" in str(refused(address, "Not authorized", credentials=True, user="ada"))
    assert "log" in str(refused(address, "Server busy", credentials=False))
    assert "another client named me" in str(lost(address, "closed", "me"))


# Delays


def test_delays_double_to_a_limit_and_vary_by_half() -> None:
    backoff = Backoff(0.1, 10.0, Random(1))
    full = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, *[10.0] * 2000]
    delays = [backoff.next() for _ in full]
    assert all(longest / 2 <= delay <= longest for delay, longest in zip(delays, full, strict=True))
    assert len(set(delays)) == len(delays)
    backoff.reset()
    assert backoff.next() <= 0.1
    assert [Backoff(0.1, 1, Random(7)).next() for _ in range(2)] == [Backoff(0.1, 1, Random(7)).next()] * 2


@pytest.mark.parametrize(("first", "longest"), [(0, 1), (-1, 1), (2, 1)])
def test_delays_out_of_order_are_errors(first: float, longest: float) -> None:
    with pytest.raises(BusError, match="delays between attempts"):
        Backoff(first, longest, Random(1))


# Timers


def run_timers(dues: list[tuple[int, int]], times: list[int]) -> list[tuple[int, int]]:
    """Which timers were due when."""
    timers, made = Timers(), []
    for due, interval in dues:
        timer = Timer(due, interval, lambda: None)
        timers.add(timer)
        made.append(timer)
    return [(now, made.index(timer)) for now in times for timer in timers.pop_due(now)]


@pytest.mark.parametrize(
    ("dues", "times", "expected"),
    [
        ([(5, 0), (3, 0), (5, 0)], [2, 3, 9], [(3, 1), (9, 0), (9, 2)]),
        ([(5, 10)], [4, 5, 6, 15, 25], [(5, 0), (15, 0), (25, 0)]),
        ([(5, 10)], [40, 44, 45], [(40, 0), (45, 0)]),  # Missed times are left out.
        (
            [(105, 0), (107, 10)],
            [100, 50, 54, 55, 57, 67],
            [(55, 0), (57, 1), (67, 1)],
        ),  # The clock was set back by 50.
    ],
)
def test_timers_are_due_in_order(
    dues: list[tuple[int, int]], times: list[int], expected: list[tuple[int, int]]
) -> None:
    assert run_timers(dues, times) == expected


def test_cancelled_timers_are_not_waited_for() -> None:
    timers = Timers()
    first, second = Timer(1, 5, lambda: None), Timer(2, 0, lambda: None)
    timers.add(first)
    timers.add(second)
    assert timers.next_due() == 1
    first.cancel()
    assert timers.next_due() == 2
    assert timers.pop_due(10) == [second]
    assert timers.next_due() is None


# Routes


def handler(name: str) -> Callable[[str, bytes, bool], object]:
    return lambda topic, payload, retain: name


@settings(deadline=None)
@given(st.lists(FILTER, max_size=6, unique=True), TOPIC, st.data())
def test_messages_go_to_the_handlers_behind_matching_filters(
    filters: list[str], topic: str, data: st.DataObject
) -> None:
    routes = Routes()
    handlers = {topic_filter: handler(topic_filter) for topic_filter in filters}
    identifiers = {one: routes.add(one, handlers[one], 0).identifier for one in filters}
    assert len(set(identifiers.values())) == len(filters)
    gone = data.draw(st.sets(st.sampled_from(filters))) if filters else set()
    for topic_filter in gone:
        assert routes.remove(topic_filter) is not None
    matching = {one for one in filters if topic_matches_sub(one, topic)} - gone
    assert {found("", b"", False) for found in routes.find(topic)} == matching
    for one in matching:
        assert routes.find(topic, [identifiers[one]]) == (handlers[one],)
    assert set(routes.find(topic, [identifiers[one] for one in matching])) == {handlers[one] for one in matching}


def test_identifiers_of_others_are_not_believed() -> None:
    routes = Routes()
    first, second = handler("1"), handler("2")
    identifier = routes.add("a/+", first, 0).identifier
    other = routes.add("b", second, 0).identifier
    assert routes.find("a/x", [identifier % 268_435_455 + 1]) == (first,)
    assert routes.find("a/x", [other]) == (first,)
    again = Routes()
    assert again.add("b", second, 0).identifier == other  # The same in another run.


def test_several_handlers_behind_one_filter() -> None:
    routes = Routes()
    first, second = handler("1"), handler("2")
    assert routes.add("a", first, 0).qos == 0
    assert routes.add("a", second, 1).qos == 1
    assert routes.find("a") == (first, second)
    assert routes.remove("a", first) is None
    assert routes.find("a") == (second,)
    assert [each.qos for each in routes] == [1]
    assert routes.add("a", first, 0).qos == 1
    assert routes.remove("a", second) is None
    assert [each.qos for each in routes] == [0]
    routes.add("a", second, 0)
    assert routes.remove("a", first) is None
    assert routes.remove("b") is None
    removed = routes.remove("a", second)
    assert removed is not None
    assert removed.filter == "a"
    assert routes.find("a") == ()


def test_shared_filters_match_what_is_behind_the_group() -> None:
    routes = Routes()
    shared, plain = handler("shared"), handler("plain")
    routes.add("$share/g/a/+", shared, 0)
    routes.add("a/+", plain, 0)
    assert set(routes.find("a/b")) == {shared, plain}
    routes.remove("a/+")
    assert routes.find("a/b") == (shared,)


def test_memory_is_bounded_and_forgotten_with_each_change() -> None:
    routes = Routes()
    for number in range(2 * MEMORY + 5):
        routes.remember(b"%d" % number, Route("a", ()))
        assert len(routes.memory) <= MEMORY
    assert routes.memory
    routes.add("a", handler("1"), 0)
    assert not routes.memory


@settings(deadline=None)
@given(st.text(alphabet="a+#/$\0é", min_size=1, max_size=8))
def test_filters_are_checked_as_mqtt_says(text: str) -> None:
    levels = text.split("/")
    good = (
        "\0" not in text
        and all(level in ("+", "#") or not set(level) & {"+", "#"} for level in levels)
        and "#" not in levels[:-1]
    )
    try:
        assert check_filter(text) == text
    except BusError:
        assert not good
    else:
        assert good
        assert matches(text, text.replace("+", "x").replace("#", "y")) or text.startswith("$")


# Covers


@settings(deadline=None)
@given(FILTER, FILTER, TOPIC)
def test_unions_and_overlaps(one: str, other: str, topic: str) -> None:
    mine, others = topic_matches_sub(one, topic), topic_matches_sub(other, topic)
    if mine and others:
        assert overlap(one, other)
    if mine or others:
        assert topic_matches_sub(union(one, other), topic)
    assert overlap(one, other) == overlap(other, one)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), FILTER, st.integers(0, 1)), max_size=12), st.lists(TOPIC, min_size=1, max_size=5)
)
def test_server_sends_each_wanted_message_exactly_once(steps: list[tuple[bool, str, int]], topics: list[str]) -> None:
    cover, wanted, asked = Cover(), dict[str, int](), dict[str, int]()
    for adding, topic_filter, qos in steps:
        if adding:
            wanted[topic_filter] = qos
            change = cover.add(topic_filter, qos)
        elif topic_filter in wanted:
            del wanted[topic_filter]
            change = cover.remove(topic_filter)
        else:
            assert cover.remove(topic_filter) == ({}, [])
            continue
        asked |= change.subscribe
        for group in change.unsubscribe:
            del asked[group]
        assert set(asked) == set(cover.groups)
        assert {name for members in cover.groups.values() for name in members} == set(wanted)
        for topic in topics:
            sent = [group for group in asked if topic_matches_sub(group, topic)]
            matching = [name for name in wanted if topic_matches_sub(name, topic)]
            assert len(sent) <= 1
            assert len(sent) >= bool(matching)
            assert all(asked[sent[0]] >= wanted[name] for name in matching)


class Requested:
    """Connection to a server that does not mark copies, with what it was asked for."""

    marks_copies = False
    accepted = None

    def __init__(self) -> None:
        self.subscribed: list[str] = []
        self.unsubscribed: list[str] = []

    def subscribe(self, topic_filter: str, qos: int, identifier: int | None, *, retained: bool = True) -> int:
        self.subscribed.append(topic_filter)
        return len(self.subscribed)

    def unsubscribe(self, topic_filter: str) -> None:
        self.unsubscribed.append(topic_filter)


def test_covered_filter_without_retained_messages_needs_no_request() -> None:
    requested = Requested()
    connection = cast(Connection, requested)
    made = Subscriptions()

    def add(topic_filter: str, qos: int = 0, *, retained: bool = True, answer: Future[None] | None = None) -> list[str]:
        requested.subscribed.clear()
        made.add(topic_filter, print, qos, answer, connection, retained=retained)
        return list(requested.subscribed)

    assert add("d/#") == ["d/#"]
    assert add("d/a/+", retained=False) == add("d/b", retained=False) == []
    # The server has to be asked for what it retains, for another quality, for an answer, and for more.
    assert add("d/c") == add("d/e", 1, retained=False) == add("d/f", retained=False, answer=Future()) == ["d/#"]
    assert add("g", retained=False) == ["g"] and add("+/h", retained=False) == ["+/#"]
    assert requested.unsubscribed == ["d/#", "g"]


def test_covering_filter_stays_whatever_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    cover = Cover()
    cover.add("d/#", 1)
    for number in range(300):
        cover.add(f"d/{number}", 1)
    compared = 0

    def counted(one: str, other: str) -> bool:
        nonlocal compared
        compared += 1
        return overlap(one, other)

    monkeypatch.setattr(subscriptions, "overlap", counted)
    for number in range(300):
        assert cover.remove(f"d/{number}") == ({}, [])
    # Not those that remain with each other, once for each that goes.
    assert compared < 1_000 and cover.groups == {"d/#": {"d/#": 1}}


def test_topics_of_the_server_itself_stay_apart() -> None:
    assert not overlap("#", "$SYS/a")
    assert not overlap("+/a", "$SYS/a")
    assert overlap("$SYS/#", "$SYS/a")
    cover = Cover()
    cover.add("#", 0)
    assert cover.add("$SYS/a", 0) == ({"$SYS/a": 0}, [])


# The outbox


def test_outbox_is_bounded_until_messages_are_settled() -> None:
    outbox = Outbox(2, threading.Condition())
    messages = [Message("a", b"%d" % number) for number in range(4)]
    assert outbox.put(messages[0])
    assert outbox.put(messages[1])
    assert not outbox.put(messages[2])
    assert outbox.refused == 1
    assert [outbox.take(), outbox.take()] == messages[:2]
    assert not outbox
    assert not outbox.put(messages[2])
    outbox.settle(1)
    assert outbox.put(messages[2])
    outbox.put_back([messages[1]])
    assert outbox.first() == messages[1]
    assert not outbox.is_through()
    assert outbox.close() == messages[1:3]
    assert not outbox.put(messages[3])
    assert outbox.closed
    assert outbox.is_through()
    assert outbox.has_room()
    with pytest.raises(BusError, match="1 or more"):
        Outbox(0, threading.Condition())


def test_publishers_are_woken_when_half_of_the_outbox_is_free() -> None:
    changed = threading.Condition()
    outbox = Outbox(4, changed)
    for _ in range(4):
        outbox.put(Message("a", b""))
    outbox.waiting = 1
    woken: list[bool] = []

    def wait() -> None:
        with changed:
            woken.append(changed.wait_for(outbox.has_room, 20))

    thread = threading.Thread(target=wait)
    thread.start()
    outbox.settle(1)
    outbox.settle(2)
    thread.join(10)
    assert woken == [True]
    assert outbox.unsettled == 1


# Reading


class Pieces:
    """A socket that gives what it has in pieces of its own choice."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def recv(self, size: int) -> bytes:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        return piece[:size]

    def recv_into(self, memory: memoryview) -> int:
        piece = self.recv(len(memory))
        memory[: len(piece)] = piece
        return len(piece)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=9), max_size=8), st.lists(st.integers(1, 12), min_size=40))
def test_buffered_socket_reads_what_there_is_in_order(pieces: list[bytes], sizes: list[int]) -> None:
    whole = b"".join(pieces)
    raw: Any = Pieces(list(pieces))
    stream = BufferedSocket(raw)
    got = b""
    for size in sizes:
        try:
            piece = stream.recv(size)
        except BlockingIOError:
            assert not stream.waiting
            break
        assert 1 <= len(piece) <= size
        got += piece
    assert got == whole[: len(got)]
    assert len(got) == len(whole) or len(got) >= 40
    if len(got) == len(whole):
        assert not stream.waiting


class Taking:
    """Socket that takes some bytes of what it is given, or none."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.taken = sizes, b""

    def send(self, buffer: bytes) -> int:
        size = self.sizes.pop(0) if self.sizes else len(buffer)
        if not size:
            raise BlockingIOError
        self.taken += buffer[:size]
        return min(size, len(buffer))


@settings(deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=9) | st.integers(30_000, 200_000).map(bytes), max_size=8),
    st.lists(st.sampled_from([0, 0, 1, 3, 50_000]), max_size=30),
)
def test_buffered_socket_writes_what_it_takes_in_order(buffers: list[bytes], sizes: list[int]) -> None:
    raw: Any = Taking(list(sizes))
    stream = BufferedSocket(raw)
    for buffer in buffers:
        rest = buffer
        while rest:
            with contextlib.suppress(BlockingIOError):
                rest = rest[stream.send(rest) :]
            assert len(stream._unsent) <= 65_536
    while stream.unsent:
        with contextlib.suppress(BlockingIOError):
            stream.flush()
    assert raw.taken == b"".join(buffers)


def test_closing_of_a_connection_is_announced_once_though_paho_closes_again_when_collected() -> None:
    """Another socket may have the number by then, and must stay watched."""
    settings = Settings(Address("h", 5), "c", 30, 0, None, 0, 5.0, 10, None)
    connection = Connection(
        settings, "5", deliver=lambda *_: None, subscribed=lambda *_: None, not_accepted=lambda *_: None
    )
    near, far = socket.socketpair()
    closed: list[int] = []
    with far:
        connection.open(near)
        connection.on_close = lambda: closed.append(connection.fileno())
        descriptor = connection.fileno()
        connection.abort(BusError("silent"))
        connection._client._reset_sockets()
    assert closed == [descriptor]


def key(topic: str, **values: Any) -> bytes:
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    raw = topic.encode()
    return len(raw).to_bytes(2, "big") + raw + properties.pack()


@pytest.mark.parametrize("identifier", [1, 127, 128, 16_383, 16_384, 268_435_455])
def test_requests_are_marked_as_paho_does_it(identifier: int) -> None:
    properties = Properties(PacketTypes.SUBSCRIBE)
    properties.SubscriptionIdentifier = identifier
    assert _identifier_property(identifier) == properties.pack()


def test_key_of_a_message_is_split() -> None:
    assert split_key(b"\x00\x03a/b") == (b"a/b", (), False)  # MQTT 3.1.1
    assert split_key(key("a/b")) == (b"a/b", (), False)
    assert split_key(key("ä", SubscriptionIdentifier=[5, 268_435_455])) == ("ä".encode(), (5, 268_435_455), False)
    assert split_key(key("a", SubscriptionIdentifier=[5], UserProperty=("trace", "x" * 500))) == (b"a", (5,), True)
    assert split_key(key("a", MessageExpiryInterval=5)) == (b"a", (), True)


PINGRESP = b"\xd0\x00"
SUBACK = b"\x90\x04\x00\x09\x00\x01"
REFUSED = b"\x90\x04\x00\x0a\x00\x87"
PUBACK = b"\x40\x02\x00\x07"  # of a message that was not sent


def packet(topic: str, payload: bytes, number: int) -> tuple[bytes, tuple[bytes, bytes, bool, int]]:
    """A PUBLISH packet of QoS 1, of QoS 0 and retained where it has no number; and what is delivered of it."""
    named = key(topic, SubscriptionIdentifier=[5])
    end = 2 + len(topic.encode())
    body = named[:end] + (number.to_bytes(2, "big") if number else b"") + named[end:] + payload
    length, left = b"", len(body)
    while left > 0x7F:
        length, left = length + bytes([left & 0x7F | 0x80]), left >> 7
    return bytes([0x32 if number else 0x31]) + length + bytes([left]) + body, (named, payload, not number, number)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 130, 20_000, 65_530, 150_000]),
            st.integers(0, 3),
            st.sampled_from([b"", PINGRESP, SUBACK, REFUSED, PUBACK]),
        ),
        max_size=12,
    ),
    st.lists(st.sampled_from([1, 2, 3, 40, 5_000, 70_000]), max_size=60),
)
@example([(3_000_000, 0, b""), (1, 1, PUBACK), (70_000, 2, b"")], [65_536, 1, 70_000])
def test_messages_are_delivered_in_order_however_they_are_cut(
    messages: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    data, expected = b"", []
    for size, number, answered in messages:
        content = (bytes(range(251)) * (size // 251 + 1))[:size]
        raw, delivered = packet(f"t/{len(expected)}", content, number)
        data += raw + answered
        expected.append(delivered)
    pieces = []
    for cut in (*cuts, len(data)):
        pieces.append(data[:cut])
        data = data[cut:]
    got: list[tuple[bytes, bytes, bool, int]] = []
    answers: list[tuple[int, str | None]] = []
    client = Client(
        MQTTProtocolVersion.MQTTv5,
        "c",
        clean=True,
        deliver=lambda *each: got.append(each),
        not_accepted=lambda *_: None,
        subscribed=lambda *each: answers.append(each),
    )
    source: Any = Pieces([each for each in pieces if each])
    client.stream = client._sock = BufferedSocket(source)
    whole = 0
    while source.pieces or client.stream.waiting:
        if client.take_published():
            whole += 1
        else:
            client.read_packet()
    client._sock = None
    assert got == expected
    known = {SUBACK: (9, None), REFUSED: (10, "Not authorized")}
    assert answers == [known[answer] for _, _, answer in messages if answer in known]
    if not cuts and messages and sum(size for size, _, _ in messages) < 60_000:
        # But for the first, with which the piece is read, and those behind an answer.
        assert whole >= len(messages) - 1 - sum(answer == PINGRESP for _, _, answer in messages)
