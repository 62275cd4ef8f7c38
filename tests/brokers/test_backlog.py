"""Backlog of a node: its measurement by barriers, its load entry, and the log."""

from __future__ import annotations

from distced.brokers.core.barriers import MEASURE_EVERY, Homes
from distced.brokers.core.effects import Note, Publish
from distced.brokers.node.backlog import BEHIND, WAITING, Backlog
from distced.brokers.node.metering import Meter
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import LoadEntry
from distced.middleware.wire.topics import directory_topic
from tests.brokers.test_events_connection import A, Scene

TICK = SECOND // 10


def test_backlog_is_logged_whenever_it_has_doubled_and_once_at_its_end() -> None:
    backlog, logged = Backlog(), []
    for seconds in [0, *range(1, 20), 3, 0, 0, 2]:
        for note in backlog.look({"": 2 * MILLISECOND, "mqtt://b": seconds * SECOND}, 0):
            assert isinstance(note, Note)
            logged.append((note.event, note.fields.get("seconds"), note.fields.get("home")))
        assert backlog.behind == seconds * SECOND
    ages = [("node behind", float(each), "mqtt://b") for each in (1, 2, 4, 8, 16)]
    assert logged == [*ages, ("node caught up", None, None), ("node behind", 2.0, "mqtt://b")]


def test_messages_that_wait_in_the_node_are_a_backlog() -> None:
    backlog = Backlog()
    assert backlog.look({}, WAITING - 1) == []
    (note,) = backlog.look({}, WAITING)
    assert isinstance(note, Note)
    assert note.fields == {"seconds": 0.0, "waiting": WAITING}
    assert backlog.look({}, 2 * WAITING - 1) == []
    assert len(backlog.look({}, 2 * WAITING)) == 1
    assert (backlog.behind, backlog.waiting) == (0, 2 * WAITING)


def test_age_of_a_barrier_grows_until_it_is_back_and_a_slow_one_is_followed_by_another() -> None:
    homes, sent = Homes("n", "ced"), []
    now = MEASURE_EVERY
    while now < 5 * MEASURE_EVERY and not sent:
        sent += homes.tick(["mqtt://b"], now)
        now += TICK
    (barrier,) = sent
    assert isinstance(barrier, Publish)
    for _ in range(30):
        homes.tick(["mqtt://b"], now)
        now += TICK
    assert 3 * SECOND <= homes.ages(["mqtt://b"], now)["mqtt://b"] <= 4 * SECOND
    homes.answered("mqtt://b", barrier.payload, now)
    # It was so much behind just now, and that is looked at again at once.
    assert homes.ages(["mqtt://b"], now)["mqtt://b"] >= 3 * SECOND
    (again,) = homes.tick(["mqtt://b"], now + TICK)
    assert isinstance(again, Publish)
    homes.answered("mqtt://b", again.payload, now + TICK + MILLISECOND)
    assert homes.ages(["mqtt://b"], now + SECOND) == {"mqtt://b": MILLISECOND}
    assert homes.tick(["mqtt://b"], now + SECOND) == []
    # A server that is not used any more says nothing of the node.
    assert homes.ages([], now + SECOND) == {}


def test_node_behind_its_events_says_so_in_its_load_entry_and_catches_up() -> None:
    scene = Scene()
    scene.receive(directory_topic("type", "A"), encode(A))
    scene.subscribe()
    scene.pass_barriers()

    def last_load() -> LoadEntry:
        return decode(scene.published(directory_topic("load", "n"))[-1].payload, LoadEntry, where="load")

    now = MEASURE_EVERY
    for _ in range(60):
        now += TICK
        scene.take(scene.node.tick(now))
    assert last_load().behind >= 4 * SECOND
    warned = [each for each in scene.effects if isinstance(each, Note) and each.event == "node behind"]
    assert len(warned) > 2
    for _ in range(15):
        now += TICK
        scene.take(scene.node.tick(now))
        barriers, scene.barriers = scene.barriers, []
        for each in barriers:
            scene.take(scene.node.receive_all([(each.topic, each.payload)], now, each.home))
    assert last_load().behind == 0
    assert [each.event for each in scene.effects if isinstance(each, Note)][-1] == "node caught up"


def test_load_entry_is_published_again_when_the_backlog_has_grown() -> None:
    meter, backlog = Meter(), Backlog()
    assert meter.news(SECOND, {}, backlog) is not None
    assert meter.news(2 * SECOND, {}, backlog) is None
    backlog.look({"": 2 * BEHIND + 1}, 0)
    assert meter.news(3 * SECOND, {}, backlog) == LoadEntry(behind=2 * BEHIND + 1)
    backlog.look({"": 2 * BEHIND + 2}, 0)
    assert meter.news(4 * SECOND, {}, backlog) is None
