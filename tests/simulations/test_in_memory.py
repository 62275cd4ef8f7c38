"""`InMemoryDeployment`: an application's code on the client interface, in virtual time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from distced import (
    Client,
    CompositeEvent,
    QualityOfService,
    Source,
    Subscription,
    SubscriptionError,
    SubscriptionsError,
    event_type,
)
from distced.middleware.client import subscription_session
from distced.middleware.client.client_effects import Done, Flush
from distced.middleware.client.session import ClientSession
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns import derived_type, event, pattern_file
from distced.middleware.wire.mqtt_effects import Publish
from distced.simulations.network.in_memory import InMemoryClient, InMemoryDeployment
from distced.testing import detect

COLD = "[Door as d] ; [Temp where temp < 15 and room == d.room] within 5min -> Cold(room = d.room)"
TYPES = event_type("Door", {"room": "string"}), event_type("Temp", {"room": "string", "temp": "number"})


def _source(client: InMemoryClient) -> Source:
    client.register(*TYPES)
    return client.source("sensors", ["Door", "Temp"])


def _door(source: Source) -> None:
    now = source.client.clock.now()
    source.publish(source.create("Door", now, room="FE02"), watermark=now)


def _cold(source: Source, temp: float = 14.5) -> None:
    now = source.client.clock.now()
    source.publish(source.create("Temp", now, room="FE02", temp=temp), watermark=now)


def _subscribe(client: Client, pattern: str = COLD, **options: Any) -> Subscription:
    return client.subscribe(pattern, **options)


def _rooms(events: list[Event]) -> list[object]:
    return [event.attributes["room"] for event in events]


def test_subscription_has_composite_event_after_settle() -> None:
    with InMemoryDeployment(nodes=2, start="2026-11-21T08:00Z") as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        _door(source)
        deployment.advance(60)
        assert subscription.events() == []
        _cold(source)
        deployment.settle()
        assert _rooms(subscription.events()) == ["FE02"]
        assert subscription.events() == []


def test_time_stands_still_while_application_publishes() -> None:
    with InMemoryDeployment() as deployment:
        source = _source(deployment.client("office"))
        before = deployment.now
        _door(source)
        assert deployment.now == before
        deployment.advance("5min")
        assert deployment.now == before + 300 * SECOND


def test_get_advances_time_until_event_or_timeout() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        before = deployment.now
        assert subscription.get(timeout=5) is None
        assert deployment.now == before + 5 * SECOND
        _door(source)
        deployment.advance(1)
        before = deployment.now
        _cold(source)
        assert isinstance(subscription.get(timeout=5), CompositeEvent)
        assert deployment.now < before + SECOND
        assert subscription.wait_watermark(before, timeout=5)


def test_source_that_is_open_keeps_its_numbers_where_its_name_is_taken() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        _door(source)
        deployment.advance(1)
        positions = source.positions(deployment.now)
        with pytest.raises(DistcedError, match="open already: sensors"):
            client.sources({"other": ["Door"], "sensors": ["Door", "Temp"]})
        assert source.positions(deployment.now) == positions
        _cold(source)
        deployment.advance(60)
        assert _rooms(subscription.events()) == ["FE02"] and subscription.losses == ()


def test_get_without_timeout_names_remedy() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES)
        with pytest.raises(DistcedError, match=r"no event has arrived.*3600 s of virtual time.*get\(timeout\)"):
            next(iter(_subscribe(client)))


def test_iteration_ends_with_first_match() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        subscription = _subscribe(client, quality=QualityOfService(matches="first"))
        _door(source)
        deployment.advance(1)
        _cold(source)
        assert _rooms(list(subscription)) == ["FE02"]
        assert subscription.ended
        deployment.advance(10)
        assert not deployment.detectors


def test_callback_publishes_and_waits_in_virtual_time() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES, event_type("Alarm", {"room": "string"}))
        source = client.source("sensors", ["Door", "Temp"])
        alarms = _subscribe(client, "Alarm")

        def raise_alarm(event: Event) -> None:
            bell = client.source("bell", ["Alarm"])
            bell.publish(bell.create("Alarm", event.hi, room=event.attributes["room"]))

        subscription = client.subscribe(COLD, raise_alarm)
        _door(source)
        deployment.advance(1)
        _cold(source)
        deployment.settle()
        assert _rooms(alarms.events()) == []
        assert subscription.statistics.errors == 1

        subscription.close()
        client.subscribe(COLD, lambda event: seen.append(event))
        seen: list[Event] = []
        _door(source)
        deployment.advance(1)
        _cold(source)
        deployment.settle()
        assert _rooms(seen) == ["FE02"]


def test_detector_keeps_state_when_it_moves() -> None:
    with InMemoryDeployment(nodes=["roof", "cellar"]) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        _door(source)
        deployment.settle()
        (other,) = set(deployment.nodes) - {deployment.host_of(subscription)}
        deployment.move(subscription, other)
        assert deployment.host_of(subscription) == other
        _cold(source)
        assert subscription.get(timeout=5) is not None


def test_subscription_continues_when_node_stops() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        before = deployment.host_of(subscription)
        deployment.stop_node(before)
        deployment.advance(5)
        _door(source)
        deployment.advance(1)
        assert deployment.host_of(subscription) in deployment.nodes
        _cold(source)
        assert subscription.get(timeout=5) is not None
        deployment.start_node(before)
        assert deployment.nodes == ["node-1", "node-2"]
        client.wait_for_nodes(2)


def test_subscription_continues_when_node_crashes() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        deployment.crash_node(deployment.host_of(subscription))
        deployment.advance(60)
        _door(source)
        deployment.advance(1)
        _cold(source)
        assert subscription.get(timeout=5) is not None


@pytest.mark.parametrize("seed", range(3))
def test_servers_and_delays_change_no_composite_event(seed: int) -> None:
    published: list[Event] = []
    with InMemoryDeployment(nodes=3, servers=3, latency=0.05, jitter=0.5, seed=seed) as deployment:
        doors, temps = deployment.client("doors", site="site-2"), deployment.client("temps", site="site-3")
        doors.register(*TYPES)
        door, temp = doors.source("door", ["Door"]), temps.source("temp", ["Temp"])
        subscription = _subscribe(deployment.client("office"), quality=QualityOfService(decomposition="full"))
        for step in range(20):
            if step % 3:
                made = temp.create("Temp", deployment.now, room=f"FE0{step % 2}", temp=10.0 + step)
            else:
                made = door.create("Door", deployment.now, room=f"FE0{step % 2}")
            (temp if step % 3 else door).publish(made)
            published.append(made)
            deployment.advance(0.3)
        doors.heartbeat(deployment.now)
        temps.heartbeat(deployment.now)
        deployment.settle()
        found = subscription.events()
    expected = detect(COLD, published)
    assert {event.constituents for event in found if isinstance(event, CompositeEvent)} == {
        event.constituents for event in expected
    }
    assert expected


def test_run_repeats_by_its_seed() -> None:
    def run(seed: int) -> str:
        with InMemoryDeployment(nodes=2, servers=2, jitter=0.2, seed=seed) as deployment:
            client = deployment.client("office", site="site-2")
            source, _ = _source(client), _subscribe(client)
            _door(source)
            deployment.advance(10)
            return deployment.network.trace.digest

    assert run(1) == run(1) != run(2)


def test_type_subscription_and_flush() -> None:
    with InMemoryDeployment() as deployment, deployment.client("office") as client:
        source = _source(client)
        with _subscribe(client, "Door") as subscription:
            _door(source)
            assert client.flush()
            deployment.advance(1)
            assert _rooms(subscription.events()) == ["FE02"]
        _door(source)
        deployment.advance(1)
        assert subscription.events() == []


def test_refused_pattern_raises_at_subscribe() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        with pytest.raises(SubscriptionError, match="Nothing"):
            client.subscribe("[Nothing] ; [Door]")
        assert client.detectors == {}


def _many(count: int) -> list[str]:
    return [f"[Door where room == 'r{number}'] ; [Temp where room == 'r{number}']" for number in range(count)]


def test_readers_of_a_type_are_notified_when_its_publisher_leaves_and_when_it_is_back() -> None:
    with InMemoryDeployment(nodes=3, servers=2, start="2026-11-21T08:00Z") as deployment:
        publisher, reader = deployment.client("heating"), deployment.client("office", site="site-2")
        source, cold = _source(publisher), _subscribe(publisher)
        again = _subscribe(reader, "[Cold where room == 'FE02']{2} -> Failure(room = 'FE02')")
        by_type = _subscribe(reader, "Cold")
        report: list[tuple[str, str]] = []
        again.on_wait = lambda reason: report.append(("pattern", reason))
        by_type.on_wait = lambda reason: report.append(("type", reason))
        publisher.unsubscribe(cold)
        deployment.advance(5)
        reason = "the type Cold has no publisher any more"
        assert sorted(report) == [("pattern", reason), ("type", reason)]
        assert again.waits == by_type.waits == reason
        cold = _subscribe(publisher, COLD.replace("d.room)", "5)"))
        deployment.advance(5)
        assert by_type.waits == ""
        assert "other attributes than before" in again.waits
        publisher.unsubscribe(cold)
        deployment.advance(1)
        _subscribe(publisher)
        deployment.advance(5)
        assert again.waits == by_type.waits == report[-1][1] == ""
        assert (again.statistics.waits, by_type.statistics.waits) == (1, 1)
        for _ in range(2):
            _door(source)
            deployment.advance(1)
            _cold(source)
            deployment.advance(1)
        deployment.settle()
        assert _rooms(by_type.events()) == ["FE02"] * 2
        assert _rooms(again.events()) == ["FE02"]


def test_hook_that_fails_disturbs_nothing() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        _source(client)
        cold, again = _subscribe(client), _subscribe(client, "[Cold] -> Again()")
        again.on_wait = lambda reason: 1 / 0
        client.unsubscribe(cold)
        deployment.advance(5)
        assert again.statistics.errors == again.statistics.waits == 1
        _subscribe(client)
        deployment.advance(5)
        assert again.waits == ""


def test_many_subscriptions_are_made_and_ended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_session, "AT_ONCE", 20)
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source = _source(client)
        # More than are asked for at a time.
        made = client.subscribe_many(_many(45))
        assert len({each.detector for each in made}) == len(made) == 45
        now = deployment.now
        source.publish(source.create("Door", now, room="r7"), source.create("Temp", now + 1, room="r7", temp=1.0))
        source.heartbeat(now + 1)
        deployment.settle()
        assert [place for place, each in enumerate(made) if each.events()] == [7]
        client.unsubscribe_many(made[1:])
        deployment.settle()
        assert list(client.detectors) == [made[0].detector]
        assert all(each.ended for each in made[1:]) and not made[0].ended


def test_many_hear_of_progress_together() -> None:
    with InMemoryDeployment(nodes=2, servers=2) as deployment:
        client = deployment.client("office", site="site-2")
        source = _source(client)
        made = client.subscribe_many(_many(90))
        # Not at the server of the directory.
        assert {each.home for each in client.detectors.values()} == {"site-2"}
        for _ in range(3):
            deployment.advance(1)
            before = deployment.network.trace.messages
            source.heartbeat(deployment.now)
        watermark = deployment.now
        deployment.advance(1)
        assert {each.statistics.watermark for each in made} == {watermark}
        assert deployment.network.trace.messages - before < len(made) / 2


def test_refused_ones_of_many_leave_the_others() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        _source(client)
        with pytest.raises(SubscriptionsError, match=r"2 of 4 .* the first, pattern 2: unknown event type") as caught:
            client.subscribe_many(["[Door]", "[Nothing]", "Temp", "Nobody"])
        error = caught.value
        assert [each.pattern for each in error.subscriptions] == ["[Door]", "Temp"]
        assert error.errors.keys() == {1, 3}
        assert client._driver.subscriptions.keys() == {each.id for each in error.subscriptions}
        assert len(client.detectors) == 1
        assert client.subscribe_many([]) == []


def test_waiting_ones_of_many_are_not_requested_after_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_session, "AT_ONCE", 2)
    session = ClientSession("app")
    made = [SubscriptionState(f"q{number}", f"[A where k == {number}]", QualityOfService()) for number in range(6)]
    errors: dict[str, DistcedError] = {}

    def entries(effects: list[Any]) -> list[str]:
        return [each.topic for each in effects if isinstance(each, Publish) and each.payload]

    assert len(entries(session.subscribe_many(made, {}, errors, "many"))) == 2
    # One that waits is ended, and one in progress: the next of the others takes its turn.
    assert [each.rsplit("/", 1)[-1] for each in entries(session.unsubscribe_many(["q2", "q0"], "two"))] == ["q3"]
    ended = session.stop("stop")
    assert entries(ended) == []
    assert [each.operation for each in ended if isinstance(each, Done)] == ["many", "stop"]
    assert errors.keys() == {each.id for each in made}


def test_many_are_ended_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_session, "AT_ONCE", 2)
    session = ClientSession("app")
    made = [SubscriptionState(f"q{number}", "[A]", QualityOfService()) for number in range(5)]
    for each in made:
        session.subscribe(each, {}, each.id)
    effects = session.unsubscribe_many([each.id for each in made], "five")
    sizes = []
    while True:
        sizes.append(len([each for each in effects if isinstance(each, Publish)]))
        # The next ones are ended when the server has taken these.
        waits = [each for each in effects if isinstance(each, Flush)]
        if not waits:
            break
        effects = session.fired(waits[0].number, 0)
    assert sizes == [2, 2, 1]
    assert effects[-1] == Done("five")


OFFICE = """
# Statements in any order.
[Cold]{2} by room -> Failure(room = 'FE02')
type Freezing = Temp where temp<15   # of all rooms
Opened = [Door as d]

Opened ; [Freezing where room == d.room] within 5min
  -> Cold(room = d.room)
publish_json = "office/cold"
Opened -> Draught(room = d.room)
"""


@pytest.mark.parametrize("indent", ["", "    "])
def test_pattern_file_is_subscribed_to_as_a_whole(indent: str, tmp_path: Path) -> None:
    path = tmp_path / "office.pattern"
    path.write_text("".join(f"{indent}{line}" for line in OFFICE.splitlines(keepends=True)))
    with InMemoryDeployment(nodes=3, servers=2, start="2026-11-21T08:00Z") as deployment:
        client = deployment.client("office", site="site-2")
        source = _source(client)
        found: list[tuple[str, str]] = []
        subscriptions = client.subscribe_file(path, lambda each, event: found.append((each.pattern[:6], event.type)))
        assert [each.pattern.split()[0] for each in subscriptions] == ["[Cold]{2}", "Opened", "Opened"]
        assert client.types["Freezing"].derived is not None
        for _ in range(2):
            _door(source)
            deployment.advance(1)
            _cold(source)
            deployment.advance(1)
        deployment.settle()
        expected = {("[Cold]", "Failure"): 1, ("Opened", "Cold"): 2, ("Opened", "Draught"): 2}
        assert Counter(found) == expected
        assert [topic for _, topic, _ in deployment.network.json] == ["office/cold"] * 2
        # Somebody else may have registered the same type, written otherwise.
        path.write_text("type Freezing = Temp where ( temp < 15 )\n[Freezing]\n")
        assert len(client.subscribe_file(str(path))) == 1
        client.unsubscribe_many(subscriptions)


@pytest.mark.parametrize(
    ("faulty", "report"),
    [
        (
            "[Door where rom == 'x'] -> Wrong()",
            ["line 3, column 13", "office.pattern, statement of line 3, node node-1"],
        ),
        ("[Nobody] -> Wrong()", ["unknown event type: Nobody", "line 3, column 2"]),
        ("Part = [Door] ; [Temp]]\nPart -> Wrong()", ["definition Part, line 3, column 23", "statement of line 4"]),
        ("Part = [Door] ; [Temp\nPart -> Wrong()", ["a bracket that is not closed", "office.pattern, line 3"]),
        ("[Two] -> One()\n[One] -> Two()", ["2 of 3 patterns were refused", "statement of line 3"]),
        ("type Other = Nobody where x > 1\n[Other]", ["unknown event type: Nobody", "office.pattern, line 3"]),
        ("type Bad = Temp where tmp > 1\n[Bad]", ["tmp", "derived type Bad, line 3"]),
    ],
)
def test_pattern_file_with_a_faulty_statement_is_not_subscribed_to(
    faulty: str, report: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "office.pattern"
    path.write_text(f"type Freezing = Temp where temp < 15\n[Freezing] -> Right()\n{faulty}\n")
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        _source(client)
        with pytest.raises(DistcedError) as caught:
            client.subscribe_file(path, lambda each, event: None)
        for each in report:
            assert each in str(caught.value)
        deployment.advance(1)
        assert set(client.types) == {"Door", "Temp"}
        assert deployment.detectors == {}
        assert client._driver.subscriptions == {}


def test_pattern_file_of_the_binding_is_subscribed_to() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        freezing = derived_type("Freezing", event("Temp").where(temp=14.5))
        (subscription,) = client.subscribe_file(pattern_file(freezing), quality=QualityOfService(matches="first"))
        _door(source)
        deployment.advance(1)
        _cold(source)
        assert subscription.get(5) is not None


def test_computed_attributes_are_those_of_the_types_on_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "cold.pattern"
    text = "type Reading = Temp with (half = temp / 2, cold = temp < 15)\n"
    path.write_text(text + "[Reading where (cold) as r] by half -> Cold(half = half, again = r.half)\n")
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        (subscription,) = client.subscribe_file(path)
        # Blanks make no other type of it.
        path.write_text(path.read_text().replace("temp / 2", "temp  /2"))
        (again,) = client.subscribe_file(path)
        assert client.types["Reading"].derived is not None
        assert client.types["Reading"].attributes == client.types["Temp"].attributes
        _cold(source)
        deployment.settle()
        for each in (subscription, again):
            found = each.get(5)
            assert found is not None
            assert found.attributes == {"half": 7.25, "again": 7.25}


def test_derived_types_of_composite_events_of_the_file_and_of_others(tmp_path: Path) -> None:
    path, other = tmp_path / "cold.pattern", tmp_path / "other.pattern"
    text = "type Seldom = Once where temp < 15\ntype Once = Cold every 1h by room\n[Seldom]{2} -> Twice()\n"
    path.write_text(text + "[Temp as t] -> Cold(temp = t.temp, room = t.room)\n")
    other.write_text("type Late = Cold at most 1 per 3h by room\n[Late as x] -> News(t = x.temp)\n")
    with InMemoryDeployment(nodes=2) as deployment:
        client, another = deployment.client("office"), deployment.client("another")
        source = _source(client)
        with pytest.raises(DistcedError, match=r"unknown event type: Cold.*other.pattern, line 1"):
            another.subscribe_file(other)
        twice, _ = client.subscribe_file(path)
        (news,) = another.subscribe_file(other)
        # A node has the attributes of the composite events.
        assert client.types["Once"].attributes == {}
        with pytest.raises(DistcedError, match="unknown attribute: rom"):
            client.subscribe("[Once where rom == 'x']")
        for _ in range(4):
            _cold(source)
            deployment.advance(40 * 60)
        deployment.settle()
        assert [each is not None for each in (twice.get(1), twice.get(0.1))] == [True, True]
        assert [each is not None for each in (news.get(1), news.get(0.1), news.get(0.1))] == [True, False, False]


def test_windows_of_a_derived_type(tmp_path: Path) -> None:
    path = tmp_path / "cold.pattern"
    text = "type Near = Temp with (n = count() over 1h, low = min(temp) over 1h) by room\n"
    path.write_text(text + "[Near as x where n > 2] -> Often(n = x.n, low = x.low)\n")
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source = _source(client)
        (often,) = client.subscribe_file(path)
        another = deployment.client("another").subscribe("[Near where n == 4]")
        for _ in range(4):
            _cold(source)
            deployment.advance(20 * 60)
        deployment.settle()
        found = [each.attributes for _ in range(3) if (each := often.get(0.1)) is not None]
        assert found == [{"n": 3, "low": 14.5}, {"n": 4, "low": 14.5}]
        assert another.get(0.1) is not None


def test_states_of_types_and_of_composite_events(tmp_path: Path) -> None:
    path = tmp_path / "states.pattern"
    path.write_text(
        "type Lowest = last Drop\n"
        "type Before = last Temp by room\n"
        "[Temp as t where temp < last(Before.temp, room)] -> Drop(temp = t.temp, room = t.room)\n"
        "[Temp as t where temp > last(Lowest.temp)] -> Above(temp = t.temp)\n"
    )
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source = _source(client)
        drops, above = client.subscribe_file(path)
        for temp in (14.0, 12.0, 13.0, 11.0, 11.5):
            _cold(source, temp)
            deployment.advance(60)
        deployment.settle()
        for each, expected in (drops, [12.0, 11.0]), (above, [13.0, 11.5]):
            found = [one.attributes["temp"] for _ in range(9) if (one := each.get(0.1)) is not None]
            assert found == expected


def test_text_is_no_list_of_patterns() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        with pytest.raises(DistcedError, match=r"one pattern where several are expected.*put it into a list"):
            client.subscribe_many("[Door]")


def test_callback_of_many_has_the_subscription() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        heard: list[tuple[str, bool]] = []

        def hear(subscription: Subscription, event: Event) -> None:
            heard.append((subscription.pattern, isinstance(event, CompositeEvent)))

        made = client.subscribe_many(["[Door]", "Temp"], hear)
        _door(source)
        deployment.advance(1)
        _cold(source)
        deployment.settle()
        assert sorted(heard) == [("Temp", False), ("[Door]", True)]
        assert not any(each.ended for each in made)


def test_definitions_and_first_match_hold_for_each_of_many() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        made = client.subscribe_many(
            ["[Open]", "[Open] ; [Temp]"],
            definitions={"Open": "[Door where room == 'FE02']"},
            quality=QualityOfService(matches="first"),
        )
        for send in (_door, _cold, _door, _cold):
            send(source)
            deployment.advance(1)
        assert [len(each.events()) for each in made] == [1, 1]
        assert all(each.ended for each in made)


def test_subscribe_without_node_times_out_in_virtual_time() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES)
        deployment.stop_node("node-1")
        before = deployment.now
        with pytest.raises(SubscriptionError, match="no broker node"):
            client.subscribe(COLD)
        assert deployment.now == before + 5 * SECOND


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(DistcedError, match="not a deployment: 0 nodes, 1 servers"):
        InMemoryDeployment(nodes=0)
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        for call, message in (
            (lambda: deployment.client("office"), "a client has this name"),
            (lambda: deployment.client("other", site="moon"), "moon.*site-1"),
            (lambda: deployment.advance(-1), "time does not go back"),
            (lambda: deployment.stop_node("roof"), "not a running node: roof.*node-1"),
            (lambda: deployment.start_node("node-1"), "all nodes run"),
            (lambda: deployment.move("abc", "node-1"), "not a detector: abc.*no detector is known"),
            (lambda: client.bus, "no bus in memory"),
        ):
            with pytest.raises(DistcedError, match=message):
                call()
        client.stop()
        with pytest.raises(BusError, match=r"the client has stopped.*`client` of the deployment"):
            client.register(*TYPES)
        deployment.client("office").register(*TYPES)


def test_testing_module_loads_simulation_on_first_use() -> None:
    check = "import sys, distced.testing as t; a = 'distced.simulations' in sys.modules; t.InMemoryDeployment; print(a)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
