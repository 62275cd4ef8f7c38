"""Faults on the simulated network: a subscription gets what it should, or says between which instants it may not.

Random patterns on random topologies, as in `test_network_transparency`; while events flow, connections are cut, links
are down, servers restart without their memory, nodes are lost, some for good, and power cuts end a server and its
nodes together, without wills. Nothing comes twice; what is missing
or wrong lies within a loss that the subscription has reported; and afterwards every subscription goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from msgspec import structs

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client import session
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.outbox import Outbox
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import (
    Crash,
    Cut,
    Fault,
    Partition,
    PublisherCrash,
    Scenario,
    ScenarioSubscription,
    Send,
    ServerRestart,
    SourceStream,
)
from tests.brokers.test_transparency import KINDS, _pattern
from tests.simulations.test_network_transparency import ASKED_AT, LEAD, PUBLISHING, _stream, _topology
from tests.support.event_streams import END, spread

KINDS_OF_FAULTS = ("cut", "partition", "crash", "server", "power")

FOUND_DEAD = 200 * SECOND
"""Time within which nodes that are lost without a will are found dead, and their detectors are taken over, ns."""


def faults(random: Random, topology: Topology, kinds: Sequence[str]) -> tuple[Fault, ...]:
    """Up to four faults while events flow."""
    made: list[Fault] = []
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(PUBLISHING)
        until = at + random.randrange(20 * SECOND)
        match random.choice(kinds):
            case "cut":
                role = random.choice(("node", "publisher", "subscriber"))
                names = {"node": topology.nodes, "publisher": topology.publishers, "subscriber": topology.subscribers}
                made.append(Cut(at, role, random.choice(sorted(names[role]))))
            case "partition" if topology.links:
                made.append(Partition(at, until, random.choice(topology.links).between))
            case "crash":
                node = random.choice(sorted(topology.nodes))
                returns = random.random() < 0.7 or len(topology.nodes) == 1
                made.append(Crash(at, node, until if returns else None, silent=random.random() < 0.5))
            case "publisher" | "publisher's machine" as kind:
                # With the server that has its last messages, half of the time.
                name = random.choice(sorted(topology.publishers))
                cut = random.randrange(1, 1_000) if kind == "publisher's machine" else 0
                made.append(PublisherCrash(at, until, name, silent=random.random() < 0.5, cut=cut))
                if random.random() < 0.5:
                    made.append(ServerRestart(at, until, topology.publishers[name].site))
            case "server":
                made.append(ServerRestart(at, at + random.randrange(5 * SECOND), random.choice(sorted(topology.sites))))
            case "power":
                # The server comes back without wills; nodes of its site may stay away.
                site = random.choice(sorted(topology.sites))
                made.append(ServerRestart(at, until, site, remembers=random.random() < 0.7))
                for node, described in topology.nodes.items():
                    if described.site == site:
                        back = until + random.randrange(2 * SECOND) if random.random() < 0.5 else None
                        made.append(Crash(at, node, back, silent=random.random() < 0.5))
    return tuple(_with_a_node(sorted(made, key=lambda each: each.at), topology))


def _with_a_node(faults: list[Fault], topology: Topology) -> list[Fault]:
    """Faults after which there is a node: the last one that is lost comes back."""
    lost = {each.node for each in faults if isinstance(each, Crash) and each.until is None}
    if lost < set(topology.nodes):
        return faults
    last = max(place for place, each in enumerate(faults) if isinstance(each, Crash) and each.until is None)
    return [structs.replace(each, until=each.at) if place == last else each for place, each in enumerate(faults)]


def check(
    seed: int, kinds: Sequence[str] = KINDS_OF_FAULTS, *, checkpoints: bool = False, earlier: int = 0
) -> Counter[str]:
    """One run; the numbers of composite events found, missing and wrong, and of losses reported.

    Args:
        earlier: time by which subscriptions are asked for earlier than usual, ns.
    """
    random = Random(seed)
    registry = TypeRegistry(KINDS)
    patterns = [_pattern(random, f"Out{number}", registry) for number in range(3)]
    sources = random.randrange(1, 4)
    topology = _topology(random, sources)
    events = spread(random, random.randrange(3, 14), sources)
    subscriptions = tuple(
        ScenarioSubscription(
            f"q{number}",
            random.choice(sorted(topology.subscribers)),
            pattern.text,
            ASKED_AT[number] - earlier,
            consumption="epoch" if pattern.automaton.epochs else "ordered",
            decomposition=random.choice(("none", "full", "for-reuse")),
        )
        for number, pattern in enumerate(patterns)
    )
    scenario = Scenario(
        topology,
        tuple(KINDS),
        tuple(_stream(random, number, sorted(topology.publishers)[number], events) for number in range(sources)),
        subscriptions,
        faults=faults(random, topology, kinds),
        seed=seed,
        lead=LEAD + earlier,
        duration=PUBLISHING,
        patience=200 * SECOND + FOUND_DEAD,
        keepalive=5 * SECOND,
        again=random.choice((0.0, 0.3)),
        one_home=random.random() < 0.3,
        tick=200 * MILLISECOND,
        checkpoints=checkpoints,
        outboxes=kinds[0].startswith("publisher"),
    )
    outcome = Simulation(scenario).run()
    engine = StepwiseEngine(patterns)
    expected = engine.feed(events) + engine.advance(END)
    counts: Counter[str] = Counter()
    for number, pattern in enumerate(patterns):
        subscribed = outcome.subscriptions[f"q{number}"]
        where = f"seed {seed}: q{number} {pattern.text}"
        assert not subscribed.refused, f"{where}: {subscribed.refused}"
        assert subscribed.watermark is not None and subscribed.watermark >= END, f"{where}: it has not gone on"
        assert subscribed.twice == 0, where
        due = {each.id: each for each in expected if each.source == pattern.automaton.canonical_id}
        got = {each.id: each for each in subscribed.events}
        missing = [each for identity, each in due.items() if identity not in got]
        wrong = [each for identity, each in got.items() if identity not in due]
        unsaid = [each for each in (*missing, *wrong) if not is_reported(each, subscribed.lost)]
        assert unsaid == [], f"{where}: {len(missing)} missing, {len(wrong)} wrong, losses {subscribed.lost}"
        counts.update(found=len(got), missing=len(missing), wrong=len(wrong), losses=len(subscribed.lost))
    return counts


def is_reported(event: CompositeEvent, losses: Sequence[Loss]) -> bool:
    """Whether a composite event lies within a loss, as missing or wrong."""
    return any(event.hi > each.since and event.lo <= each.until for each in losses)


@pytest.mark.slow
def test_what_a_cut_connection_loses_is_sent_again() -> None:
    counts = sum((check(seed, ("cut",)) for seed in range(20)), Counter())
    assert counts["found"] > 100 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.slow
def test_power_cuts_end_nothing() -> None:
    counts = sum((check(seed, ("power",), checkpoints=True) for seed in range(30)), Counter())
    assert counts["found"] > 100 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.slow
def test_what_is_lost_is_reported() -> None:
    counts = sum((check(seed) for seed in range(1_000, 1_030)), Counter())
    assert counts["found"] > 20 and counts["losses"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("start", range(30_000, 30_150, 50))
def test_nothing_is_lost_with_checkpoints(start: int) -> None:
    counts = sum((check(seed, checkpoints=True) for seed in range(start, start + 50)), Counter())
    assert counts["found"] > 150 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("acknowledged", [True, False])
def test_outbox_keeps_what_checkpoints_do_not_cover(monkeypatch: pytest.MonkeyPatch, acknowledged: bool) -> None:
    # Nothing counts as recent: without acknowledgements much is lost.
    monkeypatch.setattr(session, "Outbox", partial(Outbox, recent_bytes=1))
    if not acknowledged:
        monkeypatch.setattr(Outbox, "acknowledge", lambda *_: None)
    counts = sum((check(seed, ("cut", "crash"), checkpoints=True) for seed in range(30)), Counter())
    # Fewer are found where much is lost.
    assert counts["found"] > (100 if acknowledged else 50)
    # What is missing or wrong is reported, which each run asserts.
    assert (counts["missing"] == counts["wrong"] == counts["losses"] == 0) == acknowledged


@pytest.mark.slow
def test_publishers_that_are_killed_continue_their_streams() -> None:
    kinds = ("publisher", *KINDS_OF_FAULTS)
    counts = sum((check(seed, kinds, checkpoints=True) for seed in range(60_000, 60_060)), Counter())
    assert counts["found"] > 180 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.slow
def test_what_a_power_cut_takes_from_an_outbox_is_reported() -> None:
    counts = sum((check(seed, ("publisher's machine",), checkpoints=True) for seed in range(40)), Counter())
    assert counts["found"] > 40 and counts["losses"] > 0


@pytest.mark.properties
@pytest.mark.parametrize("start", range(60_000, 62_000, 500))
def test_publishers_that_are_killed_continue_their_streams_at_length(start: int) -> None:
    kinds = ("publisher", *KINDS_OF_FAULTS)
    counts = sum((check(seed, kinds, checkpoints=True) for seed in range(start, start + 500)), Counter())
    assert counts["found"] > 1_500 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.properties
@pytest.mark.parametrize("start", range(40_000, 50_000, 500))
def test_nothing_is_lost_with_checkpoints_at_length(start: int) -> None:
    counts = sum((check(seed, checkpoints=True) for seed in range(start, start + 500)), Counter())
    assert counts["found"] > 2_000 and counts["missing"] == counts["wrong"] == counts["losses"] == 0


@pytest.mark.properties
@pytest.mark.parametrize("start", range(10_000, 20_000, 500))
def test_what_is_lost_is_reported_at_length(start: int) -> None:
    assert sum((check(seed) for seed in range(start, start + 500)), Counter())["found"] > 400


def test_source_that_is_fenced_off_while_its_publisher_is_away_is_late_and_goes_on() -> None:
    random = Random(0)
    topology = _topology(random, 2)
    publishers = sorted(topology.publishers)
    kind = KINDS[0].name
    # The second event waits in the outbox when the publisher is killed.
    sends = tuple(
        Send(at * SECOND, tuple(Event(kind, each, each, "s0", each, {"k": 1, "v": each}) for each in events), watermark)
        for at, events, watermark in (
            (1, (10,), 10),
            (5, (20,), 20),
            *((at, (), 20) for at in range(42, 60, 5)),
            (60, (6_500,), 6_500),
        )
    )
    others = tuple(Send(at * SECOND, (), at * 100) for at in range(1, 70))
    scenario = Scenario(
        topology,
        tuple(KINDS),
        (
            SourceStream("s0", publishers[0], (kind,), sends, floor=-100, lease=10 * SECOND),
            SourceStream("s1", publishers[1], (kind,), others, floor=-100),
        ),
        (ScenarioSubscription("q", sorted(topology.subscribers)[0], f"[{kind}]", -SECOND),),
        faults=(
            Cut(5 * SECOND - 1, "publisher", publishers[0]),
            PublisherCrash(5 * SECOND + 1, 40 * SECOND, publishers[0]),
        ),
        lead=LEAD,
        patience=60 * SECOND,
        one_home=True,
        outboxes=True,
    )
    outcome = Simulation(scenario).run()
    (subscribed,) = outcome.subscriptions.values()
    assert [each.hi for each in subscribed.events] == [10, 6_500]
    assert sum(each.counts["late"] for each in outcome.nodes.values()) == 1
    assert [each.reason for each in outcome.letters] == ["late"]
    assert outcome.complete
