"""Scenarios run on the simulated network: what is found, what it costs, and what happens when something goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from random import Random

import pytest

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.outcome import ScenarioOutcome, compare
from distced.simulations.network.scenario.random_scenario import random_scenario, streams_by_rates
from distced.simulations.network.scenario.run import simulate
from distced.simulations.network.scenario_model import (
    START,
    Crash,
    Fault,
    Join,
    Leave,
    Partition,
    Scenario,
    ScenarioError,
    ScenarioSubscription,
    ScheduledMove,
    Send,
    ServerRestart,
    SourceStream,
)

A_THEN_B = "[A] ; [B] within 900ms"
TYPES = (event_type("A", {}), event_type("B", {}))


def alternating(seconds: int) -> SourceStream:
    """A, and half a second later B, every second; each event promises what comes before it."""
    sends = []
    for number in range(2 * seconds):
        at = number * SECOND // 2
        event = Event("AB"[number % 2], START + at, START + at, "s", number, {})
        sends += [Send(at, (event,)), Send(at, (), START + at)]
    return SourceStream("s", "publisher", ("A", "B"), (*sends, Send(seconds * SECOND, (), START + seconds * SECOND)))


def scenario(*faults: Fault, moves: tuple[ScheduledMove, ...] = (), seconds: int = 10, **arguments: object) -> Scenario:
    """Two sites with two nodes at each, the directory's without anybody else."""
    topology = Topology(
        [Site("centre"), Site("edge")],
        [BrokerNode(name, site) for name, site in (("c1", "centre"), ("c2", "centre"), ("e1", "edge"), ("e2", "edge"))],
        [Publisher("publisher", "edge", ("A", "B"))],
        [Subscriber("app", "edge")],
        [Link(("centre", "edge"), 5 * MILLISECOND)],
    )
    return Scenario(
        topology,
        TYPES,
        (alternating(seconds),),
        (ScenarioSubscription("q", "app", A_THEN_B),),
        moves,
        faults,
        duration=seconds * SECOND,
        **arguments,  # type: ignore[arg-type]
    )


def right(outcome: ScenarioOutcome) -> bool:
    """Whether every subscription got what it should."""
    compared = compare(outcome)
    return outcome.complete and len(compared) == len(outcome.subscriptions) and all(e.holds for e in compared.values())


def host(outcome: ScenarioOutcome, name: str = "q") -> str:
    return outcome.detectors[outcome.subscriptions[name].detector].node


def host_of_undisturbed() -> str:
    return host(simulate(scenario(seconds=1)))


def found_after(outcome: ScenarioOutcome, seconds: float) -> int:
    return sum(each.event.hi >= START + seconds * SECOND for each in outcome.subscriptions["q"].found.values())


@pytest.mark.parametrize("policy", ["", *NAMED])
@pytest.mark.parametrize("one_home", [True, False])
def test_published_events_are_detected(policy: str, one_home: bool) -> None:
    outcome = simulate(scenario(distribution=policy, one_home=one_home))
    assert right(outcome)
    assert len(outcome.subscriptions["q"].found) == 10
    assert len(outcome.published) == 20
    assert outcome.letters == ()
    # Found when the source has promised the instant of the B, which takes a few links.
    for received in outcome.subscriptions["q"].found.values():
        assert 0 < received.delay < SECOND


def test_events_stay_at_their_home() -> None:
    """Where everything is at home at the centre, events cross the link there and back."""
    bytes_there: list[int] = []
    for one_home in (False, True):
        outcome = simulate(scenario(moves=(ScheduledMove(-SECOND, "q", "e1"),), one_home=one_home))
        assert host(outcome) == "e1"
        assert right(outcome)
        (link,) = [each for each in outcome.links if each.origin == "edge"]
        bytes_there.append(link.bytes.get("e", 0))
    assert bytes_there[0] == 0
    assert bytes_there[1] > 20 * 50


def test_moves_of_detectors_change_no_composite_event() -> None:
    origin = host_of_undisturbed()
    others = [name for name in ("c1", "c2", "e1", "e2") if name != origin]
    report = ((2, "q", others[0]), (4, A_THEN_B, others[1]), (6, "q", others[2]), (7, "nothing", origin))
    moves = tuple(ScheduledMove(at * SECOND + SECOND // 3, detector, node) for at, detector, node in report)
    outcome = simulate(scenario(moves=moves))
    assert [each.node for each in outcome.moved] == others
    assert [each.origin for each in outcome.moved] == [origin, *others[:2]]
    assert [each.at // SECOND for each in outcome.moved] == [2, 4, 6]
    assert host(outcome) == others[2]
    assert right(outcome)


@pytest.mark.parametrize(
    ("detection", "one_home"), [("guaranteed", True), ("guaranteed", False), ("best-effort", False)]
)
def test_topic_of_a_detector_moves_with_it(detection: str, one_home: bool) -> None:
    """Also where events come while its readers are on their way to its new home; links are slow."""
    report = ((1, "e1"), (3, "c1"), (5, "e2"))
    moves = tuple(ScheduledMove(at * SECOND + 900 * MILLISECOND, "q", node) for at, node in report)
    given = scenario(moves=moves, one_home=one_home)
    of = given.topology
    links = [replace(each, latency=150 * MILLISECOND) for each in of.links]
    topology = Topology(of.sites.values(), of.nodes.values(), of.publishers.values(), of.subscribers.values(), links)
    asked = tuple(replace(each, detection=detection, hints=Hints(nodes=("c2",))) for each in given.subscriptions)
    outcome = simulate(replace(given, topology=topology, subscriptions=asked))
    assert [each.node for each in outcome.moved] == ["e1", "c1", "e2"]
    (detector,) = outcome.detectors.values()
    assert (detector.node, detector.home) == ("e2", "" if one_home else "edge")
    assert len(outcome.subscriptions["q"].found) == 10
    # Only what is guaranteed is compared.
    assert detection == "best-effort" or right(outcome)


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("until", [None, 90 * SECOND])
def test_lost_node_is_replaced(silent: bool, until: int | None) -> None:
    origin = host_of_undisturbed()
    outcome = simulate(scenario(Crash(4 * SECOND, origin, until, silent), seconds=100, keepalive=4 * SECOND))
    assert (origin in outcome.nodes) == (until is not None)
    assert host(outcome) in outcome.nodes
    assert found_after(outcome, 20) == 80
    states = [answer.state for _, answer in outcome.subscriptions["q"].answers]
    assert states.count("active") >= 2


def test_leaving_node_hands_over() -> None:
    origin = host_of_undisturbed()
    outcome = simulate(scenario(Leave(4 * SECOND, origin), seconds=20))
    assert origin not in outcome.nodes
    assert found_after(outcome, 8) == 12


def test_late_node_takes_part() -> None:
    outcome = simulate(scenario(Join(3 * SECOND, "c2"), moves=(ScheduledMove(6 * SECOND, "q", "c2"),)))
    assert host(outcome) == "c2"
    assert right(outcome)


def test_short_partition_changes_only_delays() -> None:
    fault = Partition(3 * SECOND, 6 * SECOND, ("edge", "centre"))
    outcome = simulate(scenario(fault, one_home=True))
    assert right(outcome)
    assert max(each.delay for each in outcome.subscriptions["q"].found.values()) > SECOND


@pytest.mark.parametrize("one_home", [True, False])
def test_subscriptions_continue_after_a_long_partition(one_home: bool) -> None:
    fault = Partition(3 * SECOND, 60 * SECOND, site="edge")
    outcome = simulate(scenario(fault, seconds=200, keepalive=5 * SECOND, one_home=one_home))
    assert found_after(outcome, 130) == 70
    # What was published meanwhile was sent again.
    assert len(outcome.published) == 400


def test_last_events_of_a_detector_arrive_behind_its_end() -> None:
    """They wait for a link, while the directory is read over others."""
    sites = ("centre", "north", "south")
    topology = Topology(
        [Site(each) for each in sites],
        [BrokerNode(each[0], each) for each in sites],
        [Publisher("of-a", "north", ("A",)), Publisher("of-b", "south", ("B",))],
        [Subscriber("in-north", "north"), Subscriber("in-south", "south")],
        [Link(each, 5 * MILLISECOND) for each in (("centre", "north"), ("centre", "south"), ("north", "south"))],
    )
    streams = tuple(
        SourceStream(
            name,
            f"of-{name}",
            (name.upper(),),
            (
                Send(at, (Event(name.upper(), START + at, START + at, name, 1, {}),), START + at),
                Send(10 * SECOND, (), START + 10 * SECOND),
            ),
        )
        for name, at in (("a", 4 * SECOND), ("b", 8 * SECOND))
    )
    subscriptions = (
        ScenarioSubscription("first", "in-north", "[A] -> First()", -8 * SECOND, until=5 * SECOND),
        ScenarioSubscription("second", "in-south", "[First] ; [B]", -5 * SECOND),
    )
    cut = Partition(3 * SECOND, 7 * SECOND, ("north", "south"))
    outcome = simulate(Scenario(topology, TYPES, streams, subscriptions, (), (cut,), duration=10 * SECOND))
    assert host(outcome, "second") == "s"
    assert len(outcome.subscriptions["second"].found) == 1
    assert outcome.letters == ()


@pytest.mark.parametrize("site", ["centre", "edge"])
def test_subscriptions_continue_after_a_restart_of_a_server(site: str) -> None:
    outcome = simulate(scenario(ServerRestart(3 * SECOND, 5 * SECOND, site), seconds=120))
    assert found_after(outcome, 60) == 60


def test_subscriptions_come_and_go() -> None:
    plain = scenario()
    asked = (
        ScenarioSubscription("q", "app", A_THEN_B),
        ScenarioSubscription("late", "app", "[A]", at=4 * SECOND),
        ScenarioSubscription("short", "app", "[B]", at=1 * SECOND, until=5 * SECOND),
        ScenarioSubscription("bad", "app", "[Nothing]"),
    )
    outcome = simulate(replace(plain, subscriptions=asked))
    got = {name: [each.hi - START for each in s.events] for name, s in outcome.subscriptions.items()}
    assert got["late"] == [second * SECOND for second in range(5, 10)]
    assert got["short"][:2] == [SECOND * 3 // 2, SECOND * 5 // 2]
    assert max(got["short"]) < 6 * SECOND
    assert "unknown event type" in outcome.subscriptions["bad"].refused
    assert outcome.complete
    assert list(compare(outcome)) == ["q"]


def test_messages_lost_at_qos_0_are_sent_again() -> None:
    plain = scenario(seconds=100)
    lossy = Publisher("publisher", "edge", ("A", "B"), loss=0.2)
    topology = plain.topology
    topology = Topology(
        topology.sites.values(), topology.nodes.values(), [lossy], topology.subscribers.values(), topology.links
    )
    outcome = simulate(replace(plain, topology=topology, seed=5))
    assert outcome.lost > 0
    assert len(outcome.published) == 200
    assert right(outcome)


def test_streams_by_rates_keep_their_promises() -> None:
    publishers = [
        Publisher("one", "centre", ("A",), {"A": 50}, uncertainty=20 * MILLISECOND),
        Publisher("two", "centre", ("A", "B"), {"A": 5, "B": 20}),
    ]
    topology = Topology([Site("centre")], publishers=publishers)
    streams = streams_by_rates(topology, TYPES, Random(1), start=START, duration=20 * SECOND)
    for stream, rate in zip(streams, (50, 25), strict=True):
        promised = START - SECOND
        assert [each.at for each in stream.sends] == sorted(each.at for each in stream.sends)
        for send in stream.sends:
            assert all(event.hi > promised for event in send.events)
            promised = max(promised, send.watermark or promised)
        events = [event for send in stream.sends for event in send.events]
        assert 0.7 * rate * 20 < len(events) < 1.3 * rate * 20
        assert [event.seq for event in events] == list(range(len(events)))
    assert streams[0].sends[-1].watermark == streams[1].sends[-1].watermark


def test_run_is_a_function_of_its_seed() -> None:
    run = [simulate(replace(random_scenario(3, moves=2, duration=3 * SECOND), seed=seed)) for seed in (3, 3, 4)]
    assert run[0].digest == run[1].digest != run[2].digest
    assert run[0].messages == run[1].messages
    assert run[0].links == run[1].links


@pytest.mark.slow
def test_run_is_the_same_in_every_process() -> None:
    """Whatever order sets have there."""
    program = (
        "from distced.simulations.network.scenario.run import simulate\n"
        "from distced.simulations.network.scenario.random_scenario import random_scenario\n"
        f"for policy in {['', *NAMED]}:\n"
        "    scenario = random_scenario(11, policy=policy, subscriptions=5, moves=3, duration=1_000_000_000)\n"
        "    print(policy, simulate(scenario).digest)\n"
    )
    digests = set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=120)
        digests.add(ran.stdout)
    assert len(digests) == 1, digests


def test_log_has_every_message() -> None:
    log = StringIO()
    outcome = simulate(scenario(seconds=2), log=log)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(lines) == outcome.messages
    assert all(len(line) == 5 for line in lines)
    topics = [topic for _, _, _, topic, _ in lines]
    assert sum(topic == "ced/e/A/s" for topic in topics) >= 4
    assert [at for at, *_ in lines] == sorted(at for at, *_ in lines)


def test_impossible_scenarios_are_refused() -> None:
    plain = scenario()
    for change, problem in (
        ({"streams": (replace(plain.streams[0], publisher="nobody"),)}, "no publisher"),
        ({"subscriptions": (ScenarioSubscription("q", "nobody", "[A]"),)}, "no subscriber"),
        (
            {"subscriptions": (ScenarioSubscription("q", "app", "[A]"), ScenarioSubscription("q", "app", "[B]"))},
            "two subscriptions",
        ),
        ({"moves": (ScheduledMove(1, "q", "nowhere"),)}, "no node"),
        ({"faults": (Crash(1, "nowhere"),)}, "no node"),
        ({"faults": (Crash(5, "c1", 4),)}, "before it begins"),
        ({"faults": (Partition(1, 2, ("centre", "moon")),)}, "no link"),
        ({"faults": (ServerRestart(1, 2, "moon"),)}, "no site"),
        ({"again": 2.0}, "not a probability"),
    ):
        with pytest.raises(ScenarioError, match=problem):
            replace(plain, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["min-latency", "min-bandwidth", "max-reliability"])
def test_random_scenarios_find_what_one_engine_finds(seed: int, policy: str) -> None:
    outcome = simulate(random_scenario(seed, policy=policy, moves=3, duration=5 * SECOND))
    assert right(outcome)
    assert sum(len(each.found) for each in outcome.subscriptions.values()) > 5


def recovers(seed: int) -> None:
    """Nodes are lost, links fail, servers forget, detectors move; when all is well again, so is the detection."""
    random = Random(seed)
    faults: list[Fault] = []
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(20 * SECOND)
        until = at + random.randrange(1, 30 * SECOND)
        node, site = random.choice(("c1", "c2", "e1", "e2")), random.choice(("centre", "edge"))
        faults.append(
            random.choice(
                (
                    Crash(at, node, until, silent=random.random() < 0.5),
                    Leave(at, node),
                    Partition(at, until, ("centre", "edge")),
                    ServerRestart(at, min(until, at + 5 * SECOND), site),
                )
            )
        )
    outcome = simulate(
        scenario(
            *faults,
            moves=tuple(ScheduledMove(random.randrange(20 * SECOND)) for _ in range(random.randrange(4))),
            seconds=150,
            keepalive=5 * SECOND,
            seed=seed,
            one_home=random.random() < 0.5,
            distribution=random.choice(["", *NAMED]),
        )
    )
    # What was down at most until 50 s, and is confirmed by the directory within 30 s of its return.
    assert found_after(outcome, 110) == 40, f"seed {seed}: {faults}"


@pytest.mark.properties
@pytest.mark.parametrize("start", range(0, 500, 100))
def test_subscriptions_continue_after_random_faults(start: int) -> None:
    for seed in range(start, start + 100):
        recovers(seed)
