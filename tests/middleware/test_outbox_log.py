"""Log of an outbox: what a publisher that was killed continues with, however the log ends."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.client.client import Client
from distced.middleware.client.outbox_folder import OutboxFolder
from distced.middleware.client.source_session import SourceState
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable
from distced.middleware.wire.codec import decode as decode_as
from distced.middleware.wire.frames import decode
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.outbox_log import SEGMENT_BYTES, OutboxLog, framed, read_records
from distced.middleware.wire.published_streams import PublishedStreams
from distced.simulations.network.transport.virtual_outbox import VirtualOutbox

START = 10**15  # ns
LATER = 2 * START
A, B = ("s", "A"), ("s", "B")
TYPES = {each: event_type(each, {"text": "string"}) for each in "AB"}


class Publisher:
    """Outbox of one process, with a source."""

    def __init__(self, store: VirtualOutbox | OutboxFolder, now: int, most: int = 10**6, **settings: object) -> None:
        self.outbox = Outbox(most, **settings)  # type: ignore[arg-type]
        self.log = OutboxLog(store, "p", most, now)
        self.outbox.attach(self.log)
        self.again = [decode(each.payload, where="") for each in self.log.again("s")]
        self.streams = PublishedStreams(self.outbox)
        self.source = SourceState("p", "s", TYPES, 0, 1, now, streams=self.streams)
        self.now = now

    def publish(
        self, type_name: str = "A", text: str = "", watermark: int | None = None, *, defer: bool = False
    ) -> int:
        """Publish an event, or let it wait; the number of its message."""
        number = self.next(type_name)
        event = self.source.create(type_name, self.source.next_seq, text=text)
        for _, message in self.source.messages([event], watermark, self.now):
            self.now += 1
            if defer:
                self.outbox.defer(message)
        return number

    def next(self, type_name: str = "A") -> int:
        return self.streams.position("s", type_name, None)[0]

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """Types and numbers of the messages that are published again."""
        return [(each.type, each.number or 0) for each in self.again]


def test_publisher_that_was_killed_continues_its_streams() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    numbers = [(each, first.publish(each, watermark=None)) for each in "ABAAB"]
    first.outbox.acknowledge("n", A, first.source.first + 1)
    first.publish("A", watermark=first.source.next_seq)
    seq, promised = first.source.next_seq, first.source.watermark
    again = Publisher(store, LATER)
    assert again.source.first == first.source.first and again.source.resumed == LATER // 1_000
    assert again.source.watermark == promised and again.source.next_seq >= seq
    assert again.numbers == [*numbers[1:], ("A", first.source.first + 3)]
    assert (again.next("A"), again.next("B")) == (first.next("A"), first.next("B"))
    assert again.outbox.unacknowledged(A) == first.source.first + 1
    assert not again.log.notes
    # A reader that asks for the position is given the first of those that follow.
    assert again.streams.again[A][0] == first.source.first + 1


def test_recent_messages_are_kept_for_nodes_that_have_not_acknowledged_any() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    numbers = [first.publish() for _ in range(5)]
    first.outbox.acknowledge("n", A, numbers[3])
    first.publish("B")
    again = Publisher(store, START + 10**9)
    assert [number for name, number in again.numbers if name == "A"] == numbers[3:]
    assert again.outbox.first(A, numbers[0], numbers[-1]) == numbers[0]
    # Beyond the limits of recent messages they are gone.
    assert Publisher(store, START + 10**9, 10**6, recent_bytes=1).outbox.first(A, numbers[0], numbers[-1]) == numbers[3]


@pytest.mark.parametrize("acknowledged", [True, False])
def test_messages_that_wait_for_the_server_are_kept_however_old_they_are(acknowledged: bool) -> None:
    store = VirtualOutbox()
    first = Publisher(store, START, recent_bytes=2_000)
    if acknowledged:
        first.outbox.acknowledge("n", A, first.source.first + 10)
    numbers = [first.publish(defer=True) for _ in range(50)]
    assert not first.outbox.full and len(first.outbox.unsent) == 50
    if acknowledged:
        first.outbox.acknowledge("n", A, 0)
    again = Publisher(store, LATER, recent_bytes=2_000)
    assert [number for _, number in again.numbers] == numbers[10 if acknowledged else 0 :]
    # They are with the server now.
    list(first.outbox.take_unsent())
    first.publish()
    assert first.outbox.held_bytes == 0 and first.outbox.first(A, numbers[0], first.next()) > numbers[40]
    assert first.outbox.total_bytes <= 2_000


def test_full_outbox_on_disk_waits_or_drops_what_waits_for_the_server() -> None:
    publisher = Publisher(VirtualOutbox(), START, 5_000, recent_bytes=2_000)
    while not publisher.outbox.full:
        publisher.publish(defer=True)
    assert publisher.outbox.make_room(()) == {} and publisher.outbox.full
    publisher.outbox.when_full = "drop"
    before = len(publisher.outbox.unsent)
    publisher.outbox.make_room(())
    assert not publisher.outbox.full and len(publisher.outbox.unsent) == before - publisher.outbox.dropped < before


def test_outbox_filled_while_the_server_was_away_has_room_once_it_is_with_the_server() -> None:
    publisher = Publisher(VirtualOutbox(), START, 5_000, recent_bytes=2_000)
    while not publisher.outbox.full:
        publisher.publish(defer=True)
    list(publisher.outbox.take_unsent())
    assert publisher.outbox.make_room(()) == {} and not publisher.outbox.full and publisher.outbox.dropped == 0


def test_messages_of_a_source_that_is_not_open_yet_are_dropped_for_themselves_alone() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    for _ in range(10):
        first.publish()
    # Another source of the next process; its server is away.
    outbox = Outbox(5_000, "drop", recent_bytes=1_000)
    log = OutboxLog(store, "p", 5_000, LATER)
    outbox.attach(log)
    streams = PublishedStreams(outbox)
    source = SourceState("p", "t", TYPES, 0, 1, LATER, streams=streams)
    while not outbox.full:
        for _, message in source.messages([source.create("A", source.next_seq, text="")], None, LATER):
            outbox.defer(message)
    assert outbox.unopened == ["s"]
    before = len(outbox.unsent)
    outbox.make_room(())
    assert outbox.dropped > 0 and not outbox.full and len(outbox.unsent) == before
    assert [each.number - first.source.first for each in log.again("s")] == list(range(outbox.dropped, 10))


def test_messages_of_one_instant_are_published_again_in_order() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    for _ in range(4):
        first.publish()
        first.now -= 2  # the clock is set back
    expected = [("A", first.source.first + each) for each in range(4)]
    for now in (START, LATER):
        again = Publisher(store, now)
        assert again.numbers == expected and again.streams.again[A] == (first.source.first, None)
    again.outbox.acknowledge("n", A, again.next())
    for _ in range(2):
        again.now += 10**12
        again.log.messages.clear()
        again.publish()
    assert again.outbox.payloads(A, first.source.first, first.next()) == []


def test_process_killed_behind_the_head_of_a_segment_loses_nothing_before_it() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    numbers: list[int] = []
    while len(store.segments) < 2:
        numbers.append(first.publish(text="x" * 10_000))
    (head, *_), _ = read_records(bytes(store.segments[2]))
    store.segments[2] = bytearray(framed(head))
    again = Publisher(store, LATER)
    assert [number for _, number in again.numbers] == numbers[:-1] and again.next() == numbers[-1]


def test_message_that_could_not_be_sent_is_not_published_again() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    first.publish()
    event = first.source.create("A", first.source.next_seq, text="")
    for _ in first.source.messages([event], None, START):
        break
    assert [number for _, number in Publisher(store, LATER).numbers] == [first.source.first]
    assert first.publish() == first.source.first + 1
    assert [number - first.source.first for _, number in Publisher(store, LATER).numbers] == [0, 1]


def test_segments_are_deleted_when_acknowledged() -> None:
    store = VirtualOutbox()
    publisher = Publisher(store, START, recent_bytes=1_000)
    publisher.outbox.acknowledge("n", A, publisher.source.first)
    for _ in range(500):
        publisher.publish(text="x" * 1_000)
    assert publisher.outbox.held_bytes > 500_000 and len(store.segments) > 5
    publisher.outbox.acknowledge("n", A, publisher.source.first + 499)
    publisher.publish()
    assert len(store.segments) == 1 and len(Publisher(store, LATER).again) == 2


def test_segments_of_an_outbox_with_many_streams_are_longer_than_their_heads() -> None:
    store = VirtualOutbox()
    publisher = Publisher(store, START)
    for number in range(3_000):
        publisher.log.begun(f"sensor-{number}", ["A"], 5)
    for _ in range(200):
        publisher.publish(text="x" * 1_000)
    assert max(store.segments) <= 4 and len(Publisher(store, LATER).again) == 200


def test_few_needed_messages_do_not_hold_all_segments() -> None:
    store, most = VirtualOutbox(), 2 * SEGMENT_BYTES[0]
    publisher = Publisher(store, START, most, recent_bytes=1_000)
    publisher.outbox.acknowledge("n", A, publisher.source.first)
    for number in range(1_000):
        publisher.publish("B", text="x" * 1_000)
        if number % 50 == 0:
            publisher.publish("A")
    size = sum(map(len, store.segments.values()))
    assert publisher.log.total_bytes == size <= 2 * most + 3 * SEGMENT_BYTES[0]
    again = Publisher(store, LATER, most, recent_bytes=1_000)
    assert [number - again.source.first for name, number in again.numbers if name == "A"] == list(range(20))


def test_sources_that_have_ended_long_ago_are_forgotten() -> None:
    publisher = Publisher(VirtualOutbox(), START, recent_bytes=1_000)
    publisher.log.begun("old", ["A"], 5)
    publisher.log.ended("old")
    for _ in range(200):
        publisher.publish(text="x" * 1_000)
    assert list(publisher.log.sources) == ["s"] and ("old", "A") not in publisher.log.streams


def test_messages_before_a_power_cut_are_sent_again_to_readers_that_lack_them() -> None:
    store = VirtualOutbox()
    first = Publisher(store, START)
    numbers = [first.publish() for _ in range(8)]
    store.whole = False
    for now in (LATER, 2 * LATER):
        # The second process follows the end of the first one, which had published nothing.
        again = Publisher(store, now)
        store.whole = True
        assert [number for _, number in again.numbers] == numbers and again.next() == LATER // 1_000
        assert answers(again, numbers[4]) == numbers[4:]
    behind = [again.publish() for _ in range(3)]
    assert answers(again, numbers[4]) == numbers[4:]
    assert answers(again, numbers[-1] + 1) == [f"before {behind[0]}", *behind]
    again = Publisher(store, 2 * LATER)
    assert [number for _, number in again.numbers] == [*numbers, *behind]
    # Those of both sides are dropped in order.
    again.outbox.acknowledge("n", A, behind[1])
    for name in "AB":
        again.now += 10**12
        again.log.messages.clear()
        again.publish(name)
    assert answers(again, numbers[4]) == [f"before {behind[1]}", *behind[1:], behind[-1] + 1]


def answers(publisher: Publisher, begin: int) -> list[int | str]:
    """Numbers of the messages that a reader is sent from one on, and up to which it has a loss."""
    missing = Missing("r", (MissingMessages("e", "s", begin, None, "A"),))
    found: list[int | str] = []
    for each in publisher.streams.answer(missing, root="ced"):
        if "/lost/" in each.topic:
            found.append(f"before {decode_as(each.payload, Unavailable, where='').before}")
        else:
            found.append(decode(each.payload, where="").number or 0)
    return found


def test_full_disk_stops_no_publisher() -> None:
    store = VirtualOutbox()
    publisher = Publisher(store, START)
    publisher.publish()
    store.full = True
    publisher.publish()
    assert publisher.log.failed and publisher.log.unwritten == 1 and not store.whole
    assert [each.event for each in publisher.log.notes] == ["outbox not written"]
    # A process that ends now: numbers go on beyond what it may have used.
    cut = VirtualOutbox()
    cut.segments, cut.whole = {key: bytearray(each) for key, each in store.segments.items()}, store.whole
    again = Publisher(cut, LATER)
    assert len(again.again) == 1 and again.next() == LATER // 1_000 > publisher.next()
    assert again.streams.position("s", "A", None)[1] == LATER
    assert [each.event for each in again.log.notes] == ["end of the outbox not found"]
    # The disk has room again.
    store.full = False
    publisher.now += 10**10
    publisher.publish()
    assert not publisher.log.failed and store.whole
    assert [each.event for each in publisher.log.notes] == ["outbox not written", "outbox written again"]
    assert [number - publisher.source.first for _, number in Publisher(store, LATER).numbers] == [0, 1, 2]


class FullWhenMarked(VirtualOutbox):
    """Disk that has no room for the note that the log is whole."""

    no_room = False

    def mark(self, *, whole: bool) -> None:
        if whole and self.no_room:
            raise OSError("No space left on device")
        super().mark(whole=whole)


def test_disk_that_is_full_again_before_the_log_is_marked_stops_no_publisher() -> None:
    store = FullWhenMarked()
    publisher = Publisher(store, START)
    store.full = True
    publisher.publish()
    store.full, store.no_room = False, True
    for _ in range(2):
        publisher.now += 10**10
        publisher.publish()
    assert publisher.log.failed and not store.whole
    store.no_room = False
    publisher.now += 10**10
    publisher.publish()
    assert not publisher.log.failed and store.whole and len(Publisher(store, LATER).again) == 4


def test_damaged_and_newer_logs_are_said_and_set_aside() -> None:
    store = VirtualOutbox()
    Publisher(store, START).publish()
    (segment,) = store.segments.values()
    segment[14] ^= 1
    again = Publisher(store, LATER)
    assert store.unreadable == 1 and again.source.resumed == 0 and again.again == []
    assert [each.event for each in again.log.notes] == ["segment of the outbox damaged"]
    newer = VirtualOutbox()
    log = OutboxLog(newer, "p", 1_000, START)
    (head,), _ = read_records(bytes(newer.segments[1]))
    newer.segments[1] = bytearray(framed(type(head)(9, "p")))
    assert OutboxLog(newer, "p", 1_000, START).former == "" and newer.unreadable == 1 and not log.notes


def small() -> VirtualOutbox:
    """Log of two processes, with two streams, acknowledgements and promises."""
    store = VirtualOutbox()
    first = Publisher(store, START)
    first.publish("A")
    first.outbox.acknowledge("n", A, first.source.first + 1)
    first.publish("B", watermark=first.source.next_seq)
    second = Publisher(store, START + 10**9)
    second.publish("A")
    second.publish("A")
    return store


LOG = small()
SIZES = [len(LOG.segments[number]) for number in sorted(LOG.segments)]


def _copy(**changed: bytes) -> VirtualOutbox:
    made = VirtualOutbox()
    made.segments = {number: bytearray(each) for number, each in LOG.segments.items()}
    made.segments[max(made.segments)] = bytearray(changed["last"])
    return made


@pytest.mark.parametrize("whole", [True, False])
def test_log_that_is_cut_anywhere_is_continued_up_to_there(whole: bool) -> None:
    last = bytes(LOG.segments[max(LOG.segments)])
    complete = Publisher(_copy(last=last), LATER)
    for end in range(len(last) + 1):
        store = _copy(last=last[:end])
        store.whole = whole
        again = Publisher(store, LATER)
        assert again.again == complete.again[: len(again.again)] and len(again.again) >= 1
        assert again.source.first == complete.source.first
        kept = max(number for name, number in again.numbers if name == "A") + 1 if len(again.again) > 1 else 0
        if whole:
            # What is cut off was not published: it is used again, and nothing else is.
            assert again.next() >= kept and again.next() <= complete.next()
        else:
            assert again.next() == LATER // 1_000
        number = again.publish()
        assert Publisher(store, 2 * LATER).next() >= number + 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, SIZES[-1] - 1), st.integers(0, 7))
def test_damaged_bit_loses_nothing_before_it_and_no_number_is_used_twice(place: int, bit: int) -> None:
    last = bytearray(LOG.segments[max(LOG.segments)])
    complete = Publisher(_copy(last=bytes(last)), LATER)
    last[place] ^= 1 << bit
    again = Publisher(_copy(last=bytes(last)), LATER)
    assert again.again == complete.again[: len(again.again)]
    assert again.next() >= complete.next()
    assert any("damaged" in each.event for each in again.log.notes)


# The folder.


def test_folder_keeps_what_was_written(tmp_path: Path) -> None:
    folder = OutboxFolder(tmp_path / "box", 0.01)
    first = Publisher(folder, START)
    for _ in range(20):
        first.publish()
    with pytest.raises(DistcedError, match="another client has this outbox open"):
        OutboxFolder(tmp_path / "box", 0.01)
    first.outbox.detach()
    for sync_every in (None, 0.0, 1.0):
        folder = OutboxFolder(tmp_path / "box", sync_every)
        again = Publisher(folder, LATER)
        assert folder.whole and len(again.again) == 20 and again.next() == first.next()
        again.outbox.detach()


@pytest.mark.parametrize(("lock", "whole"), [("", False), ("another boot", False), ("forced", True), ("closed", True)])
def test_folder_knows_whether_there_was_a_power_cut(tmp_path: Path, lock: str, whole: bool) -> None:
    (tmp_path / "lock").write_text(lock)
    folder = OutboxFolder(tmp_path, 1.0)
    assert folder.whole == whole
    folder.close(whole=True)


def test_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DistcedError, match=r"not a folder for an outbox: .*; .*name a folder that this user can write"):
        Client("mqtt://127.0.0.1:1", outbox=tmp_path / "file").start(0.1)
    with pytest.raises(DistcedError, match="not an interval"):
        Outbox(sync_every=-1)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files of this process take no more than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_folder_on_a_full_disk_is_used_again_when_there_is_room(tmp_path: Path) -> None:
    publisher = Publisher(OutboxFolder(tmp_path, 0.01), START)
    with largest_file(5_000):
        for _ in range(10):
            publisher.publish(text="x" * 1_000)
        assert publisher.log.failed and publisher.log.unwritten > 0
        assert (tmp_path / "lock").read_bytes() == b""
    publisher.now += 10**10
    publisher.publish()
    assert not publisher.log.failed
    publisher.outbox.detach()
    again = Publisher(OutboxFolder(tmp_path, 0.01), LATER)
    assert len(again.again) == 11
    again.outbox.detach()


def test_folder_on_a_disk_with_room_for_the_state_alone_keeps_what_was_written(tmp_path: Path) -> None:
    publisher = Publisher(OutboxFolder(tmp_path / "box", None), START)
    numbers = [publisher.publish(text="x" * 1_000) for _ in range(3)]
    with largest_file(5_000):
        for _ in range(3):
            publisher.now += 10**10
            publisher.publish(text="x" * 6_000)
    assert publisher.log.failed
    shutil.copytree(tmp_path / "box", tmp_path / "killed")
    publisher.outbox.detach()
    again = Publisher(OutboxFolder(tmp_path / "killed", None), LATER)
    assert [number for _, number in again.numbers] == numbers and again.next() == LATER // 1_000
    again.outbox.detach()


def test_folder_with_an_unreadable_segment_uses_no_number_twice(tmp_path: Path) -> None:
    publisher = Publisher(OutboxFolder(tmp_path, None), START)
    while len(segments := sorted(tmp_path.glob("*.outbox"))) < 2:
        publisher.publish(text="x" * 10_000)
    publisher.publish()
    publisher.outbox.detach()
    segments[-1].unlink()
    segments[-1].mkdir()
    again = Publisher(OutboxFolder(tmp_path, None), LATER)
    assert again.next() == LATER // 1_000 and len(again.again) > 3
    assert [each.event for each in again.log.notes] == ["segment of the outbox damaged", "end of the outbox not found"]
    again.outbox.detach()


@pytest.mark.parametrize("sync_every", [0.0, None])
def test_folder_closes_segments_that_have_ended(tmp_path: Path, sync_every: float | None) -> None:
    publisher = Publisher(OutboxFolder(tmp_path, sync_every), START)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(60):
        publisher.publish(text="x" * 10_000)
    assert len(list(tmp_path.glob("*.outbox"))) > 5 and len(list(Path("/dev/fd").iterdir())) == before
    publisher.outbox.detach()
