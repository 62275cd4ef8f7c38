"""What a recorder gives to be written is what guaranteed detection consumes, whatever happens to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.brokers.recorder.recorder import Recorder
from distced.brokers.recorder.state import LOSSES, Append, Batch, Lost, RecorderState, Runs, Write, decode_operation
from distced.middleware.client.source_session import SourceState
from distced.middleware.history import History, HistoryWriter, events_of_history
from distced.middleware.history.contents import history_report
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.event_types import derive, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY, MINUTE, SECOND
from distced.middleware.wire.administration import Acknowledgement, Filtered
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ReaderEntry, RecorderEntry, SourceEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import (
    Area,
    administration_topic,
    directory_topic,
    event_topic,
    matches,
    parse_topic,
)
from tests.support.virtual_nodes import Network, Participant, VirtualClient

A = event_type("A", {"k": "number"})
B = event_type("B", {"k": "number"})


class RecordingNetwork(Network):
    """A network whose server keeps sessions for recorders."""

    def recorder(self, name: str = "r", **arguments: Any) -> VirtualRecorder:
        return self._connected(VirtualRecorder(self, name, **arguments))

    def _publish(self, message: Publish) -> None:
        super()._publish(message)
        for each in self.participants:
            if isinstance(each, VirtualRecorder) and not each.connected and each.session:
                each.keep(message)


class VirtualRecorder(Participant):
    """A recorder with its journal and its history in memory.

    Attributes:
        session: whether the server keeps what comes while it is away.
        files: what was written; the same batch makes the same file again.
        breaks: whether it is to die at the next batch: "before" or "after" it is written.
    """

    def __init__(self, network: Network, name: str, *, types: tuple[str, ...] | None = ("A", "B"), **options: Any):
        self.name, self.types, self.options = name, types, options
        self.recorder = Recorder(name, network.now, types=types, **options)
        self.session = True
        self.files: dict[tuple[Any, ...], Batch] = {}
        self.batches: list[Batch] = []
        self.breaks = ""
        self.state = self.recorder.state.packed()
        self.kept: list[bytes] = []
        self.waiting: list[bytes] = []
        self.handled: list[tuple[str, bytes]] = []
        self.came_before = False
        super().__init__(network, self.recorder.will())
        self.do(self.recorder.begin(network.now))

    # The driver.

    def do(self, effects: Any) -> None:
        passed: list[Effect] = []
        for each in effects:
            match each:
                case Append(operation=operation):
                    self.waiting.append(operation)
                case Write(batch=batch):
                    self.sync()
                    if self.breaks != "before":
                        self.write(batch)
                    if self.breaks:
                        self.breaks = ""
                        self.crash()
                        return
                    self.state, self.kept = self.recorder.state.packed(), []
                case Publish() | Subscribe() | Unsubscribe() | Note():
                    passed.append(each)
        super().do(passed)

    def sync(self) -> None:
        self.kept += self.waiting
        self.waiting.clear()
        self.handled.clear()

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.files[tuple(each.key for each in batch.events), tuple(each.event.key for each in batch.late)] = batch

    def hello(self) -> list[Any]:
        resumed, self.came_before = self.session and self.came_before, True
        return self.recorder.connected(self.network.now, resumed=resumed)

    def receive(self, topic: str, payload: bytes) -> None:
        self.handled.append((topic, payload))
        self.do(self.recorder.receive(topic, payload, self.network.now))
        if self.network.random.random() < 0.3:
            self.sync()

    def tick(self) -> None:
        if self.connected:
            self.do(self.recorder.tick(self.network.now))

    # What happens to it.

    def keep(self, message: Publish) -> None:
        if any(matches(topic_filter, message.topic) for topic_filter in self.wanted):
            self.into.append((message.topic, message.payload))

    def lose(self) -> None:
        """The connection is lost; what was not acknowledged comes again."""
        before = [*self.handled, *self.into] if self.session else []
        self.handled.clear()
        self.network.lose(self)
        self.into = deque(before)
        self.filters = set(self.wanted) if self.session else set()
        self.recorder.lost("", self.network.now)

    def crash(self) -> None:
        """The process is gone, with what it had not brought to the disk."""
        self.lose()
        self.restart()

    def restart(self) -> None:
        self.waiting.clear()
        state = RecorderState()
        state.resume(self.state)
        for each in self.kept:
            batch = state.apply(decode_operation(each))
            if batch is not None:
                self.write(batch)
        self.recorder = Recorder(self.name, self.network.now, state, types=self.types, **self.options)
        self.wanted.clear()
        self.out.clear()
        super().do(self.recorder.begin(self.network.now))
        self.out.clear()

    def stop(self) -> None:
        self.do(self.recorder.stop(self.network.now))
        self.network.run()

    # What came of it.

    @property
    def events(self) -> list[Event]:
        batches = sorted((each for each in self.files.values() if each.events), key=lambda each: each.events[0].key)
        for one, other in pairwise(batches):
            assert one.events[-1].hi < other.events[0].hi, "files overlap"
        return [event for batch in batches for event in batch.events]

    @property
    def late(self) -> list[Event]:
        return [each.event for batch in self.files.values() for each in batch.late]


def started(seed: int = 0, **options: Any) -> tuple[RecordingNetwork, VirtualRecorder, VirtualClient]:
    network = RecordingNetwork(seed)
    recorder, client = network.recorder(**options), network.client("app")
    client.register(A, B)
    network.run()
    return network, recorder, client


def events(count: int, source: str = "s", start: int = 10, name: str = "A") -> list[Event]:
    return [Event(name, start + n, start + n, source, start + n, {"k": n}) for n in range(count)]


class Speaker:
    """A source that keeps to the protocol, with all that it is going to say."""

    def __init__(self, network: RecordingNetwork, client: VirtualClient, name: str, random: Random) -> None:
        self.network, self.client, self.name, self.random = network, client, name, random
        self.floor: int | None = None
        self.left = 0
        self.seq = 0
        self.said: list[Event] = []

    def announce(self, now: int) -> None:
        self.client.source(self.name, ["A", "B"], watermark=now)
        self.floor = None

    def act(self) -> None:
        if self.floor is None:
            acks = self.client.acknowledged[self.name]
            if {"recorder:r", "n"} <= acks.keys():
                self.floor = max(decode(each, Acknowledgement, where="").watermark for each in acks.values())
            return
        hi = self.floor + self.random.randrange(1, 40)
        if self.random.random() < 0.6:
            event = Event(self.random.choice("AB"), hi - self.random.randrange(5), hi, self.name, self.seq, {"k": hi})
            self.seq += 1
            self.said.append(event)
            self.client.publish(event)
        else:
            self.floor += self.random.randrange(30)
            self.client.heartbeat(self.floor, self.name)


@pytest.mark.parametrize("seed", range(60))
def test_recorder_writes_the_events_that_guaranteed_detection_consumes(seed: int) -> None:
    random = Random(seed)
    network = RecordingNetwork(seed, again=0.2, hasty=seed % 3 == 0)
    network.node("n")
    types, most = (None if seed % 2 else ("A", "B")), random.choice((3, 1000))
    recorder = network.recorder(types=types, flush_every=2 * SECOND, flush_events=most)
    client = network.client("c")
    client.register(A, B)
    network.run()
    client.subscribe("every", "[A] | [B]")
    client.subscribe("both", "[A] ; [B] -> Both(k = 1)")
    network.pass_time(5 * SECOND)
    speakers = [Speaker(network, client, name, random) for name in ("s", "t", "u")]
    speakers[0].announce(0)
    for _ in range(120):
        match random.randrange(12):
            case 0:
                recorder.crash()
                network.some(random.randrange(10))
            case 1:
                recorder.lose()
                network.some(random.randrange(10))
            case 2:
                recorder.breaks = random.choice(("before", "after"))
            case 3 if len([each for each in speakers if each.name in client.acknowledged]) < 3:
                speakers[len(client.acknowledged)].announce(speakers[0].floor or 0)
            case 4:
                network.pass_time(SECOND)
            case _:
                random.choice([each for each in speakers if each.name in client.acknowledged]).act()
        if not recorder.connected and random.random() < 0.5:
            recorder.connect()
        network.some(random.randrange(12))
    recorder.breaks = ""
    if not recorder.connected:
        recorder.connect()
    network.run()
    client.heartbeat(10**6, *client.acknowledged)
    network.run()
    network.pass_time(5 * SECOND)
    recorder.stop()
    said = sorted((event for each in speakers for event in each.said), key=lambda event: event.key)
    found = client.composites("both") if types is None else []
    assert [each.key for each in recorder.events] == sorted(each.key for each in [*said, *found])
    assert [each for each in recorder.events if each.type != "Both"] == said
    assert recorder.late == []
    consumed = {identity for each in client.composites("every") for identity in each.constituents}
    assert consumed == {each.id for each in said}
    assert recorder.recorder.state.policy.watermark == 10**6
    assert not recorder.recorder.state.gaps


def test_source_waits_for_a_recorder_and_is_acknowledged() -> None:
    network, recorder, client = started()
    client.source("s", ["A"], watermark=5)
    client.source("other", ["C"], watermark=7)
    network.run()
    entry = decode(network.retained[directory_topic("recorder", "r")], RecorderEntry, where="")
    assert entry.types == ("A", "B")
    assert decode(client.acknowledged["s"]["recorder:r"], Acknowledgement, where="").watermark == 5
    # A source of other types is counted with, and not waited for.
    assert client.acknowledged["other"].keys() == {"recorder:r"}
    assert recorder.recorder.status()["holding"] == ["s"]
    recorder.stop()
    assert directory_topic("recorder", "r") not in network.retained


def test_recorder_declares_what_it_records_where_a_source_filters_and_notes_what_was_left_out() -> None:
    network, recorder, client = started(flush_every=SECOND)
    topic = directory_topic("reader", "recorder:r")
    network.run()
    assert topic not in network.retained
    entry = SourceEntry(("A",), 0, publisher="pub", filters=True)
    client.do([Publish(directory_topic("source", "s"), encode(entry), retain=True)])
    network.run()
    declared = decode(network.retained[topic], ReaderEntry, where="")
    assert declared.types == {"A": ({},), "B": ({},)}
    since = recorder.recorder.state.since
    assert since is not None
    lost = Filtered(declared.version, 0, {"A": (since - 100, since + 5)})
    client.do([Publish("ced/a/filtered/recorder:r/pub", encode(lost))])
    network.run()
    # Events from before the recording are none of its losses.
    ((begin, until, reason),) = recorder.recorder.state.losses
    assert (begin, until) == (since - 1, since + 5) and reason.startswith("pub: ")
    recorder.stop()
    network.run()
    # It stays: the server keeps messages for the recorder.
    assert topic in network.retained


def test_late_events_are_kept_apart() -> None:
    network, recorder, client = started()
    client.source("s", ["A"], watermark=0)
    network.run()
    early, *rest = events(4)
    client.publish(*rest, watermark=20)
    client.publish(early)
    client.publish(rest[0])
    network.run()
    recorder.stop()
    assert recorder.events == rest
    assert recorder.late == [early]
    assert recorder.recorder.state.counts == {"events": 5, "written": 3, "late": 1, "duplicates": 1}
    (batch,) = recorder.files.values()
    assert (batch.watermark, batch.names, batch.types) == (20, ("A", "B"), [A])
    assert batch.late[0].came == network.now


def test_recorder_writes_by_age_and_by_number() -> None:
    network, recorder, client = started(flush_every=MINUTE, flush_events=3)
    client.source("s", ["A"], watermark=0)
    network.run()
    some = events(5)
    client.publish(*some[:2], watermark=11)
    network.pass_time(30 * SECOND)
    assert recorder.events == []
    client.publish(some[2], watermark=12)
    network.pass_time(SECOND)
    assert recorder.events == some[:3]
    client.publish(some[3], watermark=13)
    network.pass_time(59 * SECOND)
    assert recorder.events == some[:3]
    network.pass_time(2 * SECOND)
    assert recorder.events == some[:4]
    # That nothing more has come until then is worth a word, too.
    client.heartbeat(1000, "s")
    network.pass_time(MINUTE)
    assert (recorder.batches[-1].events, recorder.batches[-1].watermark) == ([], 1000)


def test_silent_source_is_waited_for_until_its_lease_runs_out_and_never_while_disconnected() -> None:
    network, recorder, client = started(flush_every=SECOND)
    client.source("s", ["A"], watermark=0)
    client.source("silent", ["A"], watermark=0, lease=10 * SECOND)
    network.run()
    client.publish(*events(3), watermark=50)
    network.pass_time(8 * SECOND)
    recorder.lose()
    network.pass_time(20 * SECOND)
    recorder.connect()
    network.pass_time(5 * SECOND)
    assert recorder.events == []
    network.pass_time(7 * SECOND)
    assert recorder.events == events(3)
    assert [each.fields["source"] for each in network.notes] == ["silent"]
    client.publish(Event("A", 60, 60, "silent", 0, {"k": 1}))
    network.pass_time(2 * SECOND)
    assert [each.source for each in recorder.late] == ["silent"]


def test_administrator_fences_a_source_off() -> None:
    network, recorder, client = started(flush_every=SECOND)
    client.source("s", ["A"], watermark=0)
    client.source("silent", ["A"], watermark=0)
    network.run()
    client.publish(*events(2), watermark=50)
    network.publish(administration_topic("fence", "silent"), b"")
    network.pass_time(2 * SECOND)
    assert recorder.events == events(2)
    assert recorder.recorder.status()["holding"] == ["s"]


def test_source_that_leaves_is_not_waited_for() -> None:
    network, recorder, client = started(flush_every=SECOND)
    for name in ("s", "t"):
        client.source(name, ["A"], watermark=0)
    network.run()
    client.publish(*events(2), watermark=50)
    recorder.lose()
    client.clear("source", "t")
    network.run()
    recorder.connect()
    network.pass_time(2 * SECOND)
    assert recorder.events == events(2)


def test_server_that_has_forgotten_everything_leaves_a_gap() -> None:
    network, recorder, client = started(flush_every=SECOND)
    for name in ("s", "t"):
        client.source(name, ["A"], watermark=0)
    network.run()
    client.publish(*events(2), watermark=50)
    network.pass_time(2 * SECOND)
    recorder.session = False
    recorder.lose()
    client.clear("source", "t")
    client.publish(Event("A", 60, 60, "s", 9, {"k": 9}))
    network.pass_time(7 * SECOND)
    recorder.connect()
    network.run()
    client.publish(Event("A", 70, 70, "s", 70, {"k": 70}), watermark=80)
    network.pass_time(3 * SECOND)
    # Of the source that has left nobody has told it; that shows in a while.
    assert recorder.events == []
    network.pass_time(30 * SECOND)
    assert [each.hi for each in recorder.events] == [10, 11, 70]
    ((begin, end),) = recorder.batches[-1].gaps
    # From when it heard something last.
    assert (begin, end) == (SECOND // 2, 9 * SECOND)
    assert network.notes[0].event == "events missed"


class Numbered:
    """A source with numbers, of a client."""

    def __init__(self, network: RecordingNetwork, client: VirtualClient, name: str = "s") -> None:
        self.network, self.client = network, client
        streams = client.session.sources.streams
        self.state = SourceState("app", name, {"A": A, "B": B}, 0, 1, SECOND, streams=streams)
        client.do(client.session.open_sources([self.state], 0, "op"))
        network.run()

    def publish(self, *instants: int, watermark: int | None = None, name: str = "A") -> None:
        """Publish events, a message each."""
        for hi in instants:
            event = self.state.create(name, hi, k=hi)
            promised = watermark if hi == instants[-1] else None
            for _, message in self.state.messages([event], promised, self.network.now):
                self.client.do([message])


def missed(network: RecordingNetwork, recorder: VirtualRecorder, publish: Callable[[], None]) -> None:
    """The recorder is away while something is published, and its server keeps nothing for it."""
    network.run()
    recorder.session = False
    recorder.lose()
    publish()
    network.run()
    recorder.connect()
    network.pass_time(5 * SECOND)


@pytest.mark.parametrize("last", [True, False])
def test_missing_messages_of_sources_are_sent_again(last: bool) -> None:
    network, recorder, client = started(flush_every=SECOND)
    source = Numbered(network, client)
    source.publish(10, 11, watermark=11)
    missed(network, recorder, lambda: source.publish(20, 21, watermark=21))
    if not last:
        source.publish(30, watermark=30)
    network.pass_time(3 * SECOND)
    assert [each.hi for each in recorder.events] == [10, 11, 20, 21, *([] if last else [30])]
    assert recorder.batches[-1].losses == () and recorder.late == []


def test_messages_that_nobody_keeps_are_noted_as_a_loss() -> None:
    network, recorder, client = started(flush_every=SECOND)
    source = Numbered(network, client)
    source.publish(10, 11, watermark=11)

    def publish() -> None:
        source.publish(20, 21, watermark=21)
        client.session.sources.outbox.rest(MINUTE * 60)

    missed(network, recorder, publish)
    source.publish(30, watermark=30)
    network.pass_time(3 * SECOND)
    assert [each.hi for each in recorder.events] == [10, 11, 30]
    ((since, until, reason),) = recorder.batches[-1].losses
    assert (since, until) == (11, 21) and "its publisher does not keep the messages" in reason
    recorder.crash()
    assert recorder.recorder.state.losses == recorder.batches[-1].losses
    assert recorder.recorder.status()["losses"] == 1


@pytest.mark.parametrize("last", [True, False])
def test_missing_messages_of_detectors_are_sent_again(last: bool) -> None:
    network, recorder, client = started(types=("Found",), flush_every=SECOND)
    network.node("n")
    network.run()
    source = Numbered(network, client)
    client.subscribe("found", "[A as a] -> Found(k = a.k)")
    network.run()
    source.publish(10, 11, watermark=11)
    network.pass_time(3 * SECOND)
    assert [each.hi for each in recorder.events] == [10, 11]
    missed(network, recorder, lambda: source.publish(20, 21, watermark=21))
    if not last:
        source.publish(30, watermark=30)
    network.pass_time(3 * SECOND)
    assert [each.hi for each in recorder.events] == [10, 11, 20, 21, *([] if last else [30])]
    assert recorder.batches[-1].losses == () and recorder.late == []


def test_losses_that_publishers_report_are_noted() -> None:
    network, recorder, client = started(flush_every=SECOND)
    client.put("source", "bridge", SourceEntry(("A",), -100, 0, "app", first=7))
    network.run()
    loss = Loss(5, 9, "the bridge had no connection")
    network.publish(event_topic("A", "bridge"), encode_frame([], type="A", source="bridge", number=7, losses=[loss]))
    network.pass_time(2 * SECOND)
    assert recorder.batches[-1].losses == ((5, 9, loss.reason),)


def test_losses_are_bounded() -> None:
    state = RecorderState()
    state.apply(Lost(tuple((n, n + 1, f"{n}") for n in range(LOSSES + 5))))
    assert len(state.losses) == LOSSES and state.losses[0] == (0, 6, "5")


def test_history_tells_where_it_is_incomplete(tmp_path: Any) -> None:
    writer = HistoryWriter(tmp_path / "h", "r", [A])
    writer.write(events(3, start=DAY), DAY + 50)
    losses = [(DAY + 5, DAY + 9, "gone"), (3 * DAY, 3 * DAY + 1, "gone")]
    writer.note(["A"], DAY + 50, 0, [(DAY, DAY + 1)], losses)
    history = History(tmp_path / "h")
    assert history.missing(["A"], 0, 2 * DAY) == ([(DAY, DAY + 1)], losses[:1])
    assert history.missing(["B"], 0, 2 * DAY) == ([], [])
    report = history_report(history)
    assert [each.losses for each in report.days] == [1] and report.recorders[0].losses == tuple(losses)


def test_recorder_behind_a_history_takes_nothing_before_its_end() -> None:
    network = RecordingNetwork()
    recorder = Recorder("r", 0, types=["A"])
    recorder.begin(0, beyond=100)
    assert recorder.state.policy.watermark == 100
    assert recorder.begin(0, beyond=200) == []
    assert recorder.state.policy.watermark == 100
    assert not network.notes


def test_history_keeps_a_gap_of_a_forgotten_interval() -> None:
    """A journal may be lost, and with it what came after the last that was written."""
    network, recorder, _ = started(flush_every=SECOND)
    network.pass_time(50 * SECOND)
    noted = RecorderNote(("A",), 20 * SECOND, 5 * SECOND, ((7 * SECOND, 8 * SECOND),))
    recorder.lose()
    recorder.state, recorder.session = RecorderState().packed(), False
    recorder.kept.clear()
    recorder.recorder = Recorder("r", network.now, types=("A",), flush_every=SECOND)
    recorder.do(recorder.recorder.begin(network.now, 21 * SECOND, noted))
    recorder.connect()
    network.run()
    network.pass_time(2 * SECOND)
    batch = recorder.batches[-1]
    assert batch.since == 5 * SECOND
    ((begin, end), (lost, again)) = batch.gaps
    assert (begin, end, lost) == (7 * SECOND, 8 * SECOND, 20 * SECOND)
    assert 50 * SECOND <= again <= network.now
    # As does what the journal of the new life holds.
    recorder.crash()
    assert recorder.recorder.state.gaps == list(batch.gaps)
    assert recorder.recorder.state.since == 5 * SECOND


def test_clock_that_is_set_back_delays_no_batch() -> None:
    recorder = Recorder("r", 1_000 * MINUTE, types=["A"])
    recorder.begin(1_000 * MINUTE)
    assert not [each for each in recorder.tick(1_000 * MINUTE) if isinstance(each, Write)]
    assert [each for each in recorder.tick(0) if isinstance(each, Write)]
    assert not [each for each in recorder.tick(SECOND) if isinstance(each, Write)]


def test_other_types_after_a_restart() -> None:
    network, recorder, client = started(flush_every=SECOND)
    client.source("s", ["A"], watermark=0)
    client.source("t", ["B"], watermark=0)
    network.run()
    client.publish(*events(2), watermark=50)
    client.publish(*events(1, "t", name="B"), watermark=50)
    network.pass_time(2 * SECOND)
    recorder.types = ("B",)
    recorder.crash()
    recorder.connect()
    network.run()
    client.publish(*events(1, start=60), watermark=70)
    client.publish(*events(1, "t", 60, "B"), watermark=70)
    network.pass_time(2 * SECOND)
    assert [(each.type, each.hi) for each in recorder.events] == [("A", 10), ("B", 10), ("A", 11), ("B", 60)]
    assert recorder.recorder.status()["holding"] == ["t"]


def test_composite_events_are_recorded_and_their_detectors_waited_for() -> None:
    network, recorder, client = started(types=("Both",), flush_every=SECOND)
    network.node("n")
    network.run()
    client.source("s", ["A", "B"], watermark=0)
    client.subscribe("both", "[A] ; [B] -> Both(k = 1)")
    network.run()
    client.publish(*events(1), watermark=10)
    client.publish(*events(1, start=20, name="B"))
    network.pass_time(2 * SECOND)
    assert recorder.events == []
    client.heartbeat(40, "s")
    network.pass_time(2 * SECOND)
    (found,) = recorder.events
    assert isinstance(found, CompositeEvent)
    assert (found.type, found.lo, found.hi, found.attributes) == ("Both", 10, 20, {"k": 1})
    assert [each.name for each in recorder.batches[-2].types] in ([], ["Both"])
    recorder.crash()
    client.publish(*events(1, start=50, name="B"), *[])
    client.publish(Event("A", 45, 45, "s", 7, {"k": 1}), watermark=60)
    network.run()
    recorder.connect()
    network.pass_time(3 * SECOND)
    assert [each.hi for each in recorder.events] == [20, 50]
    client.clear("subscription", "both")
    network.pass_time(MINUTE)
    assert recorder.recorder.status()["sources"] == 0


def test_best_effort_and_derived_types_are_refused_aloud() -> None:
    network, recorder, client = started(types=("Both", "Small"))
    network.node("n")
    client.register(derive(A, "Small", where="k < 3"))
    client.subscribe("both", "[A] ; [B] -> Both()", policy="best-effort")
    network.run()
    said = [each.event for each in network.notes]
    assert any("detector not recorded" in each for each in said)
    assert any("type not recorded" in each for each in said)
    assert recorder.recorder.status()["sources"] == 0
    # Nor are late events of theirs losses of the history.
    client.source("s", ["A", "B"])
    network.run()
    client.publish(*events(1, start=20))
    network.run()
    client.publish(*events(1, start=10, name="B"))
    network.pass_time(3 * SECOND)
    assert client.losses["both"] and recorder.recorder.status()["losses"] == 0


def test_all_types_are_those_that_are_registered_and_published() -> None:
    network, recorder, client = started(types=None)
    network.node("n")
    client.source("s", ["A", "B"], watermark=0)
    client.subscribe("both", "[A] ; [B] -> Both()")
    network.run()
    client.publish(*events(1), watermark=10)
    client.publish(*events(1, start=20, name="B"), watermark=40)
    client.publish(Event("C", 1, 1, "s", 3, {}))
    network.pass_time(2 * SECOND)
    recorder.stop()
    # A composite event has an earlier beginning than the event that completes it.
    assert [each.type for each in recorder.events] == ["A", "Both", "B"]
    assert recorder.batches[-1].names == ("A", "B", "Both")
    assert "unknown-type" in network.reasons()


@pytest.mark.parametrize(
    ("publish", "reason"),
    [
        (lambda n: n.publish(event_topic("A", "s"), b"\x93"), "malformed"),
        (lambda n: n.publish(event_topic("A", "s"), encode_frame([], type="B", source="s", watermark=1)), "malformed"),
        (lambda n: n.publish(event_topic("A", "s"), b'{"attributes": {"k": "warm"}}'), "mistyped"),
        (lambda n: n.publish(directory_topic("type", "X"), b"{"), "malformed"),
        (lambda n: n.publish(administration_topic("heartbeat", "x"), b"{"), "malformed"),
    ],
)
def test_unusable_event_is_a_dead_letter(publish: Callable[[Network], object], reason: str) -> None:
    network, recorder, _ = started()
    publish(network)
    network.run()
    assert network.reasons() == [reason]
    assert recorder.recorder.status()["dead_letters"] == 1


def test_recorder_publishes_its_cleared_entry_again() -> None:
    network, recorder, _ = started()
    recorder.lose()
    assert directory_topic("recorder", "r") not in network.retained
    recorder.connect()
    network.run()
    assert directory_topic("recorder", "r") in network.retained
    network.publish(directory_topic("recorder", "r"), b"", retain=True)
    network.run()
    assert directory_topic("recorder", "r") in network.retained
    network.publish(directory_topic("recorder", "r"), b'{"since": 5}', retain=True)
    network.run()
    assert "recorder claimed twice" in network.notes[-1].event


def test_batches_make_a_history(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    network, recorder, client = started()
    client.source("s", ["A", "B"], watermark=0)
    network.run()
    said = [*events(3), *(Event("B", 20 + n, 20 + n, "s", 20 + n, {"k": n}) for n in range(2))]
    client.publish(*said[:3])
    client.publish(*said[3:], watermark=30)
    network.run()
    recorder.stop()
    writer = HistoryWriter(tmp_path / "h", "r", recorder.batches[0].types)
    for each in recorder.batches:
        writer.write(each.events, each.watermark)
    assert list(events_of_history(History(tmp_path / "h"))) == said
    assert {area for area, _ in map(parse_topic, network.retained)} == {Area.DIRECTORY}


def test_written_event_delivered_again_after_a_restart_is_not_late() -> None:
    network, recorder, client = started(flush_every=SECOND)
    client.source("s", ["A"], watermark=0)
    network.run()
    client.publish(*events(3), watermark=50)
    network.pass_time(2 * SECOND)
    recorder.crash()
    recorder.connect()
    client.publish(*events(3), watermark=60)
    network.pass_time(2 * SECOND)
    recorder.stop()
    assert (recorder.events, recorder.late) == (events(3), [])
    assert recorder.recorder.state.counts["duplicates"] == 3


def test_event_delivered_again_after_many_others_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.brokers.recorder.state.REMEMBERED", 3)
    network, recorder, client = started(flush_every=SECOND)
    for name in ("s", "t"):
        client.source(name, ["A"], watermark=0)
    network.run()
    client.publish(*events(3), watermark=50)
    client.publish(*events(9, "t"), watermark=50)
    client.publish(*events(2))
    network.pass_time(2 * SECOND)
    recorder.crash()
    recorder.connect()
    # Of which one never came before.
    client.publish(*events(4))
    network.pass_time(2 * SECOND)
    recorder.stop()
    assert len(recorder.events) == 12
    assert recorder.late == [events(4)[-1]]
    assert recorder.recorder.state.counts["duplicates"] == 3


@given(st.lists(st.tuples(st.sampled_from("st"), st.integers(0, 20)), max_size=60))
def test_runs_hold_added_numbers(given: list[tuple[str, int]]) -> None:
    """With no more holes than are remembered."""
    runs = Runs()
    for place, each in enumerate(given):
        assert (each in runs) == (each in given[:place])
        runs.add(each)
        runs = Runs(runs.state())
    assert {(source, n) for source in "st" for n in range(25) if (source, n) in runs} == set(given)
    for held in runs.state().values():
        assert all(one[1] + 1 < other[0] for one, other in pairwise(held))


def test_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.brokers.recorder.state.SOURCES", 2)
    runs = Runs()
    for n in range(0, 100, 2):
        runs.add(("s", n))
    assert len(runs.state()["s"]) == 16
    assert ("s", 98) in runs and ("s", 0) not in runs
    runs.add(("t", 2**64))
    for name in ("t", "s", "u"):
        runs.add((name, 1))
    assert sorted(runs.state()) == ["s", "u"]


@pytest.mark.parametrize("seed", range(40))
def test_acknowledged_source_is_heard(seed: int) -> None:
    """Also by a server that takes messages before the subscriptions that were sent before them."""
    network = RecordingNetwork(seed, hasty=True)
    client = network.client("app")
    client.register(A, B)
    network.run()
    recorder = network.recorder()
    network.some(seed % 7)
    client.source("s", ["A"], watermark=0)
    while "recorder:r" not in client.acknowledged["s"]:
        if not network.step():
            network.pass_time(SECOND)
    client.publish(*events(2), watermark=50)
    network.run()
    network.pass_time(SECOND)
    recorder.stop()
    assert recorder.events == events(2)


def test_source_announced_again_receives_its_watermark() -> None:
    network, _, client = started()
    for watermark in (0, 10):
        client.source("s", ["A"], watermark=watermark)
        client.source("t", ["A"], watermark=0)
        network.run()
        client.heartbeat(50, "s")
        network.run()
    client.source("s", ["A"], watermark=5)
    network.run()
    assert decode(client.acknowledged["s"]["recorder:r"], Acknowledgement, where="").watermark == 50
    assert decode(client.acknowledged["t"]["recorder:r"], Acknowledgement, where="").watermark == 0
