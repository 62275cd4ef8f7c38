"""Source filters and declared reads: whatever a reader was promised is sent, or is a loss."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.sets.wanted import WantedSets, conjunction, is_wanted, one_of
from distced.middleware.wire.administration import Filtered
from distced.middleware.wire.declared_reads import EARLIER_FOR, NARROW_EVERY, DeclaredReads, types_whole
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import ClientEntry, NodeEntry, ReaderEntry, RecorderEntry, SourceEntry
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.source_filter import EPOCHS, GONE_FOR, NARROW_AFTER, SourceFilter

NOW = 1_000_000 * SECOND


def room(name: str) -> WantedSets:
    made = conjunction({"room": one_of([name])})
    assert made is not None
    return {"Motion": (made,)}


def motion(where: str, at: int = NOW, seq: int = 0) -> Event:
    return Event("Motion", at, at, "s", seq, {"room": where})


def entries_of(*nodes: str) -> Entries:
    entries = Entries()
    entries.put("source", "s", SourceEntry(("Motion",), NOW, publisher="pub", filters=True))
    entries.clients["pub"] = ClientEntry(NOW)
    for each in nodes:
        entries.nodes[each] = NodeEntry(NOW)
    return entries


def closed(*sets: tuple[str, WantedSets | None]) -> tuple[SourceFilter, Entries]:
    """A filter that has narrowed to what nodes have declared, in a known directory."""
    made, entries = SourceFilter(), entries_of(*(name for name, _ in sets))
    made.publishes(["Motion"], NOW)
    for name, each in [("client:pub", {}), *((f"node:{name}", each) for name, each in sets)]:
        reads = DeclaredReads(name)
        reads.need("d", each, NOW)
        reads.activate(NOW)
        entries.readers[name] = reads.entry
    made.known(entries, NOW)
    made.look(entries, NOW + NARROW_AFTER)
    return made, entries


def test_filter_holds_the_union_of_what_is_declared() -> None:
    made, _ = closed(("n1", room("a")), ("n2", room("b")))
    assert [made.passes(motion(each)) for each in "abc"] == [True, True, False]
    assert made.passes(Event("Motion", NOW, NOW, "s", 1, {"room": "a", "other": 1}))
    assert not made.passes(Event("Door", NOW, NOW, "s", 1, {}))
    assert made.left_out == {"Motion": 1, "Door": 1}


OPEN = [
    ("a node that has not declared itself", lambda entries: entries.nodes.update(n2=NodeEntry(NOW))),
    ("a client that has not declared itself", lambda entries: entries.clients.update(old=ClientEntry(NOW))),
    ("a recorder that has not declared itself", lambda entries: entries.recorders.update(r=RecorderEntry(NOW))),
    ("no node at all", lambda entries: entries.nodes.clear()),
]


@pytest.mark.parametrize("change", [pytest.param(each[1], id=each[0]) for each in OPEN])
def test_filter_is_open_to_whoever_is_unknown(change: object) -> None:
    made, entries = closed(("n1", room("a")))
    assert not made.passes(motion("b"))
    change(entries)  # type: ignore[operator]
    made.look(entries, NOW + MINUTE)
    assert made.passes(motion("b"))


def test_filter_is_open_without_the_directory_and_behind_an_entry_that_cannot_be_read() -> None:
    made, entries = closed(("n1", room("a")))
    made.lost()
    made.look(entries, NOW + MINUTE)
    assert made.passes(motion("b"))
    made.known(entries, NOW + 2 * MINUTE)
    made.look(entries, NOW + 2 * MINUTE + NARROW_AFTER - 1)
    assert made.passes(motion("b"))
    made.look(entries, NOW + 2 * MINUTE + NARROW_AFTER)
    assert not made.passes(motion("b"))
    made.unreadable("node:n1")
    made.look(entries, NOW + 4 * MINUTE)
    assert made.passes(motion("b"))


def test_filter_that_is_not_enabled_holds_nothing_back() -> None:
    made, entries = SourceFilter(enabled=False), entries_of("n1")
    made.known(entries, NOW)
    made.look(entries, NOW + MINUTE)
    assert made.passes(motion("a"))


def test_declaration_widens_at_once_and_its_acknowledgement_says_what_was_left_out() -> None:
    made, entries = closed(("n1", room("a")))
    assert not made.passes(motion("b", NOW + 7)) and not made.passes(motion("b", NOW + 3))
    wider = ReaderEntry(NOW // 1_000 + 9, entries.readers["node:n1"].life, None)
    ((reader, ack),) = made.declared("node:n1", wider, NOW + 5)
    assert reader == "node:n1" and made.passes(motion("b"))
    assert ack == Filtered(wider.version, entries.readers["node:n1"].version, {"Motion": (NOW + 2, NOW + 7)})


def test_reader_that_was_served_has_lost_nothing() -> None:
    made, entries = closed(("n1", room("a")), ("n2", room("b")))
    assert not made.passes(motion("c"))
    # The detector of n1 is taken over by n2.
    del entries.readers["node:n1"], entries.nodes["n1"]
    made.declared("node:n1", None, NOW + MINUTE)
    made.look(entries, NOW + MINUTE)
    assert made.passes(motion("a"))
    reads = DeclaredReads("node:n2")
    reads.need("d", room("b"), NOW)
    reads.need("d1", room("a"), NOW)
    reads.activate(NOW + 2)
    ((_, ack),) = made.declared("node:n2", reads.entry, NOW + MINUTE)
    assert ack.lost == {}


@pytest.mark.parametrize("ends", ["gone", "another life"])
def test_reader_that_disappears_counts_for_a_while(ends: str) -> None:
    made, entries = closed(("n1", room("a")), ("n2", room("b")))
    at = NOW + NARROW_AFTER
    if ends == "gone":
        del entries.readers["node:n1"], entries.nodes["n1"]
        made.declared("node:n1", None, at)
    else:
        entries.readers["node:n1"] = ReaderEntry(2**60, 2**60, {})
        made.declared("node:n1", entries.readers["node:n1"], at)
    made.look(entries, at + GONE_FOR - 1)
    assert made.passes(motion("a"))
    made.look(entries, at + GONE_FOR)
    assert not made.passes(motion("a")) and made.passes(motion("b"))


def test_many_epochs_are_remembered_as_if_they_had_held_nothing() -> None:
    made, entries = closed(("n1", room("a")))
    life = entries.readers["node:n1"].life
    for number in range(3 * EPOCHS):
        sets = {"Motion": ({"room": one_of([f"r{number}"])},)}
        entry = ReaderEntry(entries.readers["node:n1"].version + 1, life, sets)  # type: ignore[arg-type]
        entries.readers["node:n1"] = entry
        made.declared("node:n1", entry, NOW + MINUTE)
        made.look(entries, NOW + MINUTE)
        assert not made.passes(motion("x", NOW + number))
    entry = ReaderEntry(2**60, life, {"Motion": ({"room": one_of(["r1"])},)})  # type: ignore[dict-item]
    ((_, ack),) = made.declared("node:n1", entry, NOW)
    assert ack.lost["Motion"][0] == NOW - 1


def test_declarations_are_acknowledged_by_those_who_publish_what_they_want() -> None:
    made, entries = closed(("n1", room("a")), ("n2", {}))
    life = entries.readers["node:n2"].life
    assert made.declared("node:n2", ReaderEntry(2**60, life, {"Door": ({},)}), NOW) == []
    assert made.publishes(["Motion"], NOW) == []
    assert made.publishes(["Door"], NOW) == [("node:n2", Filtered(2**60, 2**60))]


def test_client_that_declares_and_has_no_declaration_reads_nothing() -> None:
    made, entries = closed(("n1", room("a")))
    entries.clients["other"] = ClientEntry(NOW, declares=True)
    made.look(entries, NOW + MINUTE)
    assert not made.passes(motion("b"))


# Reads.


def test_nothing_is_declared_as_long_as_no_source_filters() -> None:
    reads = DeclaredReads("node:n1")
    reads.need("d", room("a"), NOW)
    reads.tick(NOW + MINUTE)
    assert reads.take() is None and reads.waits_for("d", entries_of()) == []
    reads.activate(NOW)
    assert reads.take() is not None and reads.waits_for("d", entries_of()) == ["pub"]


def test_need_that_the_entry_holds_begins_without_a_message() -> None:
    reads, entries = DeclaredReads("node:n1"), entries_of()
    reads.activate(NOW)
    reads.need("d", types_whole(["Motion"]), NOW)
    entry = reads.take()
    assert entry is not None
    list(reads.acknowledged("pub", Filtered(entry.version)))
    reads.need("d2", room("a"), NOW)
    assert reads.take() is None and reads.waits_for("d2", entries) == []
    reads.need("d3", types_whole(["Door", "Motion"]), NOW)
    assert reads.waits_for("d3", entries) == ["pub"]
    del entries.clients["pub"]
    assert reads.waits_for("d3", entries) == []


def test_entry_narrows_in_a_while() -> None:
    reads = DeclaredReads("node:n1")
    reads.activate(NOW)
    reads.need("d", room("a"), NOW)
    reads.take()
    reads.drop("d", NOW)
    reads.tick(NOW + NARROW_EVERY - 1)
    assert reads.take() is None
    reads.tick(NOW + NARROW_EVERY)
    narrow = reads.take()
    assert narrow is not None and narrow.types == {}


@pytest.mark.parametrize("active", [False, True], ids=["of an earlier life", "of anybody"])
def test_entry_of_others_only_widens(active: bool) -> None:
    reads = DeclaredReads("node:n1")
    reads.need("d", room("a"), NOW)
    if active:
        reads.activate(NOW)
        own = reads.take()
        reads.seen(own, NOW)
    found = ReaderEntry(2**50, 7, {"Motion": ({"room": one_of(["b"])},)})  # type: ignore[dict-item]
    reads.seen(found, NOW)
    reads.activate(NOW)
    entry = reads.take()
    assert entry is not None and entry.version > 2**50
    assert is_wanted(reads.sets, "Motion", {"room": "a"}) and is_wanted(reads.sets, "Motion", {"room": "b"})
    reads.tick(NOW + EARLIER_FOR)
    reads.tick(NOW + EARLIER_FOR + NARROW_EVERY)
    assert not is_wanted(reads.sets, "Motion", {"room": "b"})


def test_needs_that_run_lose_what_was_left_out_and_others_do_not() -> None:
    reads = DeclaredReads("node:n1")
    reads.activate(NOW)
    reads.need("runs", room("a"), NOW, runs=True)
    reads.need("begins", room("a"), NOW)
    reads.need("door", types_whole(["Door"]), NOW, runs=True)
    entry = reads.take()
    assert entry is not None
    lost = list(reads.acknowledged("pub", Filtered(entry.version, 0, {"Motion": (1, 5)})))
    assert [(name, loss.since, loss.until) for name, loss in lost] == [("runs", 1, 5)]
    # It was in force all the time.
    assert list(reads.acknowledged("pub", Filtered(entry.version, entry.version, {"Motion": (1, 5)}))) == []
    # Of another life.
    assert list(reads.acknowledged("pub", Filtered(entry.version - 5, 0, {"Motion": (1, 5)}))) == []


# Together, with messages that take their time.


@dataclass
class _Reader:
    name: str
    reads: DeclaredReads
    inbox: deque[object] = field(default_factory=deque)
    begun: dict[str, int] = field(default_factory=dict)
    lost: dict[str, list[Loss]] = field(default_factory=dict)


class _Network:
    """A publisher and two nodes at a server that may forget; messages arrive in order, later."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = NOW
        self.entries = entries_of("n0", "n1")
        self.filter = SourceFilter()
        self.filter.publishes(["Motion"], NOW)
        self.to_publisher: deque[tuple[str, ReaderEntry | None]] = deque()
        # Acknowledgements of the declarations that it has taken, on their way.
        self.known = Entries()
        self.readers = [_Reader(f"node:n{each}", DeclaredReads(f"node:n{each}")) for each in range(2)]
        self.missed: list[tuple[str, str, int]] = []
        self.sent = self.left = self.number = 0
        self.entries.readers["client:pub"] = ReaderEntry(1, 1, {})
        for each in self.readers:
            each.reads.activate(self.now)
        self.read()

    def read(self) -> None:
        """The publisher reads the directory."""
        self.to_publisher.clear()
        self.known = Entries()
        for kind in ("sources", "clients", "nodes", "readers"):
            getattr(self.known, kind).update(getattr(self.entries, kind))
        self.acknowledge(self.filter.known(self.known, self.now))

    def acknowledge(self, acks: list[tuple[str, Filtered]]) -> None:
        for name, ack in acks:
            for each in self.readers:
                if each.name == name:
                    each.inbox.append(ack)

    def step(self) -> None:
        random = self.random
        self.now += random.randrange(SECOND)
        reader = random.choice(self.readers)
        match random.randrange(12):
            case 0 | 1:
                self.number += 1
                reader.reads.need(f"d{self.number}", random.choice([room("a"), room("b"), room("c")]), self.now)
            case 2 if reader.reads.needs:
                name = random.choice(sorted(reader.reads.needs))
                reader.reads.drop(name, self.now)
                reader.begun.pop(name, None)
            case 3 if random.random() < 0.2:
                # The server has forgotten a declaration, or all; its readers publish it again, later.
                for each in list(self.entries.readers):
                    if each != "client:pub" and random.random() < 0.7:
                        del self.entries.readers[each]
                        self.entries.nodes.pop(each.removeprefix("node:"), None)
                self.filter.lost()
                self.read()
                for one in self.readers:
                    one.reads.repeat()
            case 4 if random.random() < 0.1:
                # Somebody clears a declaration.
                self.entries.readers.pop(reader.name, None)
                self.to_publisher.append((reader.name, None))
                reader.inbox.append(None)
            case 5 | 6 | 7:
                self.publish()
            case _:
                self.deliver(random.randrange(4))
        for each in self.readers:
            each.reads.tick(self.now)
            if random.random() < 0.15 and (entry := each.reads.take()) is not None:
                self.entries.nodes[each.name.removeprefix("node:")] = NodeEntry(NOW)
                self.entries.readers[each.name] = entry
                self.to_publisher.append((each.name, entry))
                each.inbox.append(entry)
            self.begin(each)
        self.filter.look(self.known, self.now)

    def begin(self, reader: _Reader) -> None:
        for name in reader.reads.needs:
            if name not in reader.begun and not reader.reads.waits_for(name, self.entries):
                reader.begun[name] = self.now
                reader.reads.runs(name)

    def publish(self) -> None:
        event = motion(self.random.choice("abcd"), self.now)
        passes = self.filter.passes(event)
        self.sent, self.left = self.sent + passes, self.left + (not passes)
        for reader in self.readers:
            for name in reader.begun:
                if not passes and is_wanted(reader.reads.needs[name].sets, "Motion", event.attributes):
                    self.missed.append((reader.name, name, event.hi))

    def deliver(self, most: int) -> None:
        for _ in range(most):
            if self.to_publisher:
                name, entry = self.to_publisher.popleft()
                self.known.put("reader", name, entry)
                if entry is not None:
                    self.known.put("node", name.removeprefix("node:"), NodeEntry(NOW))
                self.acknowledge(self.filter.declared(name, entry, self.now))
            for reader in self.readers:
                if reader.inbox:
                    got = reader.inbox.popleft()
                    if isinstance(got, Filtered):
                        for name, loss in reader.reads.acknowledged("pub", got):
                            reader.lost.setdefault(name, []).append(loss)
                    else:
                        assert got is None or isinstance(got, ReaderEntry)
                        reader.reads.seen(got, self.now)


@pytest.mark.parametrize("seeds", [300, pytest.param(30_000, marks=pytest.mark.properties)])
def test_event_that_a_begun_need_wants_is_sent_or_is_a_loss(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.wire.source_filter.NARROW_AFTER", SECOND)
    monkeypatch.setattr("distced.middleware.wire.source_filter.GONE_FOR", SECOND)
    monkeypatch.setattr("distced.middleware.wire.declared_reads.NARROW_EVERY", 3 * SECOND)
    left = missed = begun = 0
    for seed in range(seeds):
        network = _Network(Random(seed))
        for _ in range(150):
            network.step()
        for _ in range(20):
            for each in network.readers:
                each.reads.repeat()
                entry = each.reads.take()
                assert entry is not None
                network.to_publisher.append((each.name, entry))
            network.deliver(200)
        left += network.left
        missed += len(network.missed)
        for name, need, hi in network.missed:
            (reader,) = [each for each in network.readers if each.name == name]
            if need in reader.begun:
                losses = reader.lost.get(need, [])
                assert any(each.concerns(hi, hi) for each in losses), f"seed {seed}: {name}, {need}, {hi}"
        begun += sum(len(each.begun) for each in network.readers)
    assert left > 5 * seeds and begun > seeds and missed > 0
