"""Transparency on the simulated network: what subscriptions get does not depend on where, how and when it is detected.

Random patterns, one of which may read what another publishes, on random topologies with delays, jitter and narrow
links; by each of the distribution policies, cut or whole; with detectors that are moved at random, messages that come
twice, nodes that come late, and links that are down for less time than connections take to break. What each subscriber
received are those of one engine in the events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from distced.brokers.core.effects import Effect
from distced.brokers.node import quarantine
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.limits import Limits
from distced.detectors.runtime import detector
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.shared_pass import SharedPass
from distced.detectors.runtime.work_shares import WorkShare
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND, SECOND
from distced.middleware.patterns.tree import Publication
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.json_events import json_id
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.participants import broker_node
from distced.simulations.network.scenario.outcome import ScenarioOutcome
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import (
    Crash,
    Fault,
    Join,
    Partition,
    Scenario,
    ScenarioSubscription,
    ScheduledMove,
    ScheduledPolicy,
    Send,
    ServerRestart,
    SourceStream,
)
from tests.brokers.test_transparency import KINDS, _clocked, _pattern, _plain
from tests.support.engine_switches import passes_by_chance
from tests.support.event_streams import END, comparable, messages, spread
from tests.support.every_addition import entries_of, random_publication, random_world
from tests.support.random_patterns import TYPES
from tests.support.states import STATE_TYPES, reading_states

KINDS_WITH_TEXTS = [event_type(each.name, {**each.attributes, "d": "string"}) for each in KINDS]

LEAD = 16 * SECOND
ASKED_AT = (-13 * SECOND, -10 * SECOND, -7 * SECOND)
PUBLISHING = 3 * SECOND
SETTLING = 90 * SECOND
"""How long before the first event clients come about where they are disturbed, ns."""


class Checked(NamedTuple):
    """What a run has shown, beside that it holds."""

    found: int
    read: int
    cut: bool
    moved: int
    homes: int


def check(
    seed: int,
    *,
    lose: bool = False,
    disturbed: bool = False,
    crowded: bool = False,
    filters: bool = False,
    states: bool = False,
    additions: bool = False,
    make: Callable[[Random], Publication] = _plain,
) -> Checked:
    """One run; asserts that every subscription got what it should.

    Args:
        lose: one of at least three nodes is lost, everything is to be reliable, and nothing else happens.
        disturbed: servers restart and links are down while sources and subscriptions come about.
        filters: publishers leave out what nobody reads.
        states: the patterns read states.
        additions: they may have all that a pattern may have, over derived types of all kinds.
        make: makes a random pattern.
        crowded: many more subscribers, whose detectors share inputs; some come or go while events flow.
    """
    random = Random(seed)
    kinds = [*(KINDS_WITH_TEXTS if crowded else KINDS), *(STATE_TYPES if states else ())]
    make = reading_states if states else make
    if additions:
        world = random_world(random)
        kinds += entries_of(world, kinds)
        make = partial(random_publication, world=world, size=4)
    registry = TypeRegistry(kinds)
    first = _pattern(random, "Out0", registry, make)
    patterns = [
        first,
        _pattern(random, "Out1", registry, make),
        _pattern(random, "Out2", registry, make, reads="Out0"),
    ]
    sources = random.randrange(1, 4)
    topology = _topology(random, sources, least=3 if lose else 1)
    events = spread(random, random.randrange(3, 14), sources)
    if crowded:
        events = [replace(each, attributes={**each.attributes, "d": f"d{each.attributes['k']}"}) for each in events]
    faults = _loss(random, topology) if lose else _faults(random, topology)
    lead, asked_at = LEAD, ASKED_AT
    if disturbed:
        lead, faults = LEAD + SETTLING, _disturbances(random, topology)
        # The pattern that reads another's type is refused before there is a detector of that.
        asked_at = (asked_at[0] - SETTLING, asked_at[1] - SETTLING, asked_at[2] - SETTLING // 3)
    there = len(topology.nodes) - sum(isinstance(each, Join) for each in faults)
    known = ["max-reliability"] if lose else [name for name, each in NAMED.items() if each.replicas <= there]
    policies = known if lose else ["", *known]
    subscriptions = tuple(
        ScenarioSubscription(
            f"q{number}",
            random.choice(sorted(topology.subscribers)),
            pattern.text,
            asked_at[number],
            consumption="epoch" if pattern.automaton.epochs else "ordered",
            decomposition=random.choice(("", "none", "full", "for-reuse")),
            distribution=random.choice(policies),
            publish_json=f"json/q{number}",
        )
        for number, pattern in enumerate(patterns)
    )
    moves = () if lose else tuple(ScheduledMove(random.randrange(PUBLISHING)) for _ in range(random.randrange(5)))
    crowd, more = _crowd(Random(-seed), sorted(topology.subscribers), registry, asked_at[0]) if crowded else ([], ())
    if crowded:
        moves += tuple(ScheduledMove(random.randrange(PUBLISHING)) for _ in range(random.randrange(10)))
    changes = () if lose else tuple(_change(random, policies) for _ in range(random.choice((0, 0, 0, 1, 3))))
    scenario = Scenario(
        topology,
        tuple(kinds),
        tuple(_stream(random, number, sorted(topology.publishers)[number], events) for number in range(sources)),
        (*subscriptions, *more),
        moves,
        faults,
        seed=seed,
        lead=lead,
        duration=PUBLISHING,
        again=random.choice((0.0, 0.3)),
        one_home=random.random() < 0.3,
        tick=200 * MILLISECOND,
        policies=changes,
        filters=filters,
    )
    simulation = Simulation(scenario)
    outcome = simulation.run()
    _compare(outcome, seed)
    # A replica publishes after its primary is missed for a keepalive, and behind a barrier, which waits for links.
    links_up = max((each.until for each in faults if isinstance(each, Partition)), default=0)
    simulation.network.run((60 if lose else 3) * SECOND + max(0, links_up))
    engine = StepwiseEngine([*patterns, *crowd])
    expected = engine.feed(events) + engine.advance(END)
    for number, pattern in enumerate(patterns):
        own = [each for each in expected if each.source == pattern.automaton.canonical_id]
        got = outcome.subscriptions[f"q{number}"].events
        assert comparable(got) == comparable(own), f"seed {seed}: {pattern.text}"
        _check_json(simulation, f"json/q{number}", own, f"seed {seed}: {pattern.text}", cut=links_up > 0)
    for pattern, subscription in zip(crowd, more, strict=True):
        own = comparable([each for each in expected if each.source == pattern.automaton.canonical_id])
        got = comparable(outcome.subscriptions[subscription.name].events)
        if _to_the_end(subscription):
            assert got == own, f"seed {seed}: {pattern.text}"
        elif not scenario.again:
            # It misses what began before it came, and what ended after it went. A detector that begins meanwhile knows
            # no ids: an event from before, delivered once more, is a new one to it. What was published before may lie
            # between events published after.
            seen_from = _seen_from(scenario, outcome.subscriptions[subscription.name].active_at)
            begun = [each for each in got if each[2] > seen_from]
            assert all(each in own for each in begun), f"seed {seed}: {pattern.text}"
    read = patterns[2].automaton.canonical_id
    return Checked(
        len(expected),
        sum(each.source == read for each in expected),
        any(each.parts for each in outcome.detectors.values()),
        len(outcome.moved),
        len({each.home for each in outcome.detectors.values()}),
    )


SHAPES = (
    "[A where k == {0}] ; [B where k == {0} and v >= 1] within 8ns",
    "[A where k == {0}] ; ~[C where v == {1}]* [B where k == {1}]",
    "([A where k == {0}], [T <= {{T, B where k == {1}}}]) @ T = 3ns",
    "([A where k == {0}] & [C where v == {1}]) ; [B]",
    "[{{A, B}} where k == {0}]+",
    "[A] ; [B where v == {1}] by k",
    "[A where d == 'd{0}'] ; [B where d == 'd{0}' and v >= 1] within 8ns",
    "[A where d == 'd{0}'] ; [C where d == 'd{1}' or v == 0]",
    "[A where d == 'd{0}'] ; [B where d != 'd{1}'] ; [C]",
)
"""Patterns of a crowd, with constants to be filled in."""


def _crowd(
    random: Random, subscribers: Sequence[str], registry: TypeRegistry, asked_at: int
) -> tuple[list[Compiled], tuple[ScenarioSubscription, ...]]:
    """Patterns that share inputs, each with its subscription."""
    patterns: list[Compiled] = []
    subscriptions: list[ScenarioSubscription] = []
    for number in range(random.randrange(4, 12)):
        shape = random.choice(SHAPES).format(random.randrange(3), random.randrange(3))
        # Those without a name may be parts of others.
        named = random.random() < 0.5 or any(shape in each.text for each in patterns)
        pattern = compile_pattern(f"{shape} -> More{number}()" if named else shape, registry)
        if any(each.canonical_id == pattern.canonical_id for each in patterns):
            continue
        patterns.append(pattern)
        at = asked_at + random.randrange(5 * SECOND)
        until = None
        if random.random() < 0.2:
            at = random.randrange(PUBLISHING)
        elif random.random() < 0.2:
            until = random.randrange(PUBLISHING)
        subscriptions.append(
            ScenarioSubscription(
                f"more{number}",
                random.choice(subscribers),
                pattern.text,
                at,
                until,
                decomposition=random.choice(("", "none", "none", "full")),
            )
        )
    return patterns, tuple(subscriptions)


def _to_the_end(subscription: ScenarioSubscription) -> bool:
    """Whether a subscription is there from before the first event to the last."""
    return subscription.until is None and subscription.at is not None and subscription.at < 0


def _seen_from(scenario: Scenario, active_at: int | None) -> int:
    """The last instant of an event that was published before a subscription was active."""
    if active_at is None:
        return END
    sent = [each for stream in scenario.streams for each in stream.sends if scenario.start + each.at < active_at]
    return max((event.hi for each in sent for event in each.events), default=INSTANT_MIN)


def _compare(outcome: ScenarioOutcome, seed: int) -> None:
    whole = {each.name for each in outcome.scenario.subscriptions if _to_the_end(each)}
    for name, subscribed in outcome.subscriptions.items():
        if name not in whole:
            continue
        assert not subscribed.refused, f"seed {seed}: {subscribed.refused}"
        assert subscribed.active_at is not None, f"seed {seed}: {name} has not begun"
        assert subscribed.active_at < outcome.scenario.start, f"seed {seed}: {name} has begun too late"
        assert subscribed.watermark is not None and subscribed.watermark >= END, f"seed {seed}: {name} is not complete"
    letters = [each for each in outcome.letters if not _is_from_before(each, outcome)]
    assert letters == [], f"seed {seed}"


def _is_from_before(letter: DeadLetter, outcome: ScenarioOutcome) -> bool:
    """Whether a dead letter is of an event published before its detector, which was subscribed to while events flowed.

    A node that the detector has moved to may receive that event behind later ones, over a link that was down.
    """
    created = [each.note.fields for each in outcome.notes if each.note.event == "detector created"]
    concerned = {letter.topic}
    while readers := {str(each["detector"]) for each in created if not concerned.isdisjoint(_parts(each))} - concerned:
        concerned |= readers
    subscribed = [each for each in outcome.subscriptions.values() if each.detector in concerned]
    began = min((each.active_at or 0 for each in subscribed), default=0)
    scenario = outcome.scenario
    if letter.reason != "late" or began < scenario.start:
        return False
    _, _, source, number, _ = json.loads(letter.payload)
    sent = [each for stream in scenario.streams for each in stream.sends if scenario.start + each.at < began]
    return any((source, int(number)) == event.id for each in sent for event in each.events)


def _parts(created: Mapping[str, object]) -> list[str]:
    return str(created.get("parts", "")).split(", ")


def _check_json(simulation: Simulation, topic: str, own: Sequence[CompositeEvent], where: str, *, cut: bool) -> None:
    """Each composite event has left as JSON once, at the server of the subscriber's site; where a link was `cut` during
    a move, perhaps by both of its ends."""
    published = Counter(json.loads(payload)["id"] for _, at, payload in simulation.network.json if at == topic)
    assert published.keys() == set(map(json_id, own)), where
    assert max(published.values(), default=1) <= (2 if cut else 1), where


def _topology(random: Random, sources: int, *, least: int = 1) -> Topology:
    kind = random.choice(RANDOM_KINDS)
    sites = random.randrange(3 if kind == "ring" else 1, 7)
    return random_topology(
        kind, random, sites=sites, nodes=random.randrange(least, 5), publishers=sources, subscribers=2, types=TYPES
    )


def _stream(random: Random, number: int, publisher: str, events: list[Event]) -> SourceStream:
    sent = messages(random, events, f"s{number}", shuffled=random.random() < 0.3)
    at = sorted(random.randrange(PUBLISHING) for _ in sent)
    sends = tuple(Send(when, each.events, each.watermark) for when, each in zip(at, sent, strict=True))
    return SourceStream(f"s{number}", publisher, TYPES, sends, floor=-100)


def _loss(random: Random, topology: Topology) -> tuple[Fault, ...]:
    node = random.choice(sorted(topology.nodes))
    return (Crash(random.randrange(PUBLISHING), node, silent=random.random() < 0.5),)


def _disturbances(random: Random, topology: Topology) -> tuple[Fault, ...]:
    """What goes wrong while everything comes up, and is over long before the first event."""
    faults: list[Fault] = []
    for _ in range(random.randrange(1, 4)):
        at = -SETTLING - random.randrange(14 * SECOND)
        until = at + random.randrange(20 * SECOND)
        if topology.links and random.random() < 0.5:
            faults.append(Partition(at, until, random.choice(topology.links).between))
        else:
            faults.append(ServerRestart(at, until, random.choice(sorted(topology.sites))))
    return tuple(faults)


def _change(random: Random, policies: Sequence[str]) -> ScheduledPolicy:
    """The administration sets a policy, of everybody or of the detectors of one subscription, or takes one back."""
    return ScheduledPolicy(random.randrange(PUBLISHING), random.choice(policies), random.choice(("", "q0", "q1", "q2")))


def _faults(random: Random, topology: Topology) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if len(topology.nodes) > 1 and random.random() < 0.2:
        faults.append(Join(random.randrange(PUBLISHING), random.choice(sorted(topology.nodes))))
    if topology.links and random.random() < 0.2:
        down = random.randrange(PUBLISHING)
        link = random.choice(topology.links)
        faults.append(Partition(down, down + random.randrange(20 * SECOND), link.between))
    return tuple(faults)


@pytest.mark.slow
def test_composite_events_do_not_depend_on_the_network() -> None:
    checked = [check(seed) for seed in range(75)]
    assert sum(each.found for each in checked) > 60
    assert sum(each.read for each in checked) > 1
    assert sum(each.cut for each in checked) > 5
    assert sum(each.moved for each in checked) > 30
    assert sum(each.homes > 1 for each in checked) > 6


@pytest.mark.slow
def test_composite_events_of_states_do_not_depend_on_the_network() -> None:
    checked = [check(seed, states=True, lose=seed % 4 == 0, filters=seed % 3 == 0) for seed in range(12)]
    assert sum(each.found for each in checked) > 12
    assert sum(each.moved for each in checked) > 2


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [20, pytest.param(2_000, marks=pytest.mark.properties)])
def test_composite_events_of_all_additions_do_not_depend_on_the_network(seeds: int) -> None:
    checked = [check(seed, additions=True, lose=seed % 4 == 0, filters=seed % 3 == 0) for seed in range(seeds)]
    assert sum(each.found for each in checked) > seeds
    assert sum(each.moved for each in checked) > seeds // 4


@pytest.mark.slow
def test_composite_events_outlive_any_one_node() -> None:
    checked = [check(seed, lose=True) for seed in range(14, 34)]
    assert sum(each.found for each in checked) > 15
    assert sum(each.cut for each in checked) > 1


@pytest.mark.slow
def test_composite_events_do_not_depend_on_shared_inputs() -> None:
    checked = [check(seed, crowded=True) for seed in range(14)]
    assert sum(each.found for each in checked) > 95
    assert sum(each.moved for each in checked) > 27


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_the_columnar_pass(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of shared inputs enter and leave it after any release."""
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    entered = 0

    def enter(self: SharedPass, detectors: Sequence[Detector], clock: int | None) -> None:
        nonlocal entered
        entered += len(detectors)
        made(self, detectors, clock)

    made = SharedPass._enter
    monkeypatch.setattr(SharedPass, "_enter", enter)
    for seed in range(10_000, 10_000 + seeds):
        choice = passes_by_chance(seed)
        monkeypatch.setattr(broker_node, "engines", lambda *_, choice=choice: choice)
        check(seed, crowded=True)
    assert entered > seeds // 2


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_events_that_pass_the_directory(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a client publishes entries faster than nodes consume them."""
    for seed in range(30_000, 30_000 + seeds):
        monkeypatch.setattr(broker_node.SimulatedNode, "delayed", Random(seed).choice((0.1, 0.5)))
        check(seed, crowded=True)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_the_connection_of_events(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over which messages come later than those about the directory, or earlier."""
    # Without barriers there, composite events of 25 and 26 differ.
    for seed in range(20, 20 + seeds):
        monkeypatch.setattr(broker_node.SimulatedNode, "late", Random(-seed).choice((0.1, 0.5)))
        monkeypatch.setattr(broker_node.SimulatedNode, "delayed", Random(seed).choice((0.0, 0.1, 0.5)))
        check(seed, crowded=seed % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [16, pytest.param(2_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_turns(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases to detectors are put off at random, consumed in pieces, moved and recovered with the detectors."""
    put_off = 0

    def wait(self: Detector, events: Sequence[Event], *clocks: int | None) -> None:
        nonlocal put_off
        put_off += len(events)
        made(self, events, *clocks)

    made = Detector.wait
    monkeypatch.setattr(Detector, "wait", wait)
    monkeypatch.setattr(broker_node.SimulatedNode, "limits", Limits(client_work=1))
    for seed in range(60_000, 60_000 + seeds):
        random = Random(seed)
        share = random.choice((0.1, 0.5, 1.0))
        monkeypatch.setattr(WorkShare, "is_spent", lambda *_, random=random, share=share: random.random() < share)
        monkeypatch.setattr(detector, "TURN", random.choice((1, 3, 10)))
        monkeypatch.setattr(broker_node.SimulatedNode, "turns_late", random.choice((10, 100, 1_000)) * MILLISECOND)
        check(seed, crowded=seed % 2 == 0)
    assert put_off > 10 * seeds


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_the_quarantine_of_a_client(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes read the directory by other filters for seconds, each for itself, and clients begin meanwhile."""
    monkeypatch.setattr(quarantine, "SHORTEST", SECOND)
    monkeypatch.setattr(quarantine, "LONGEST", 4 * SECOND)
    monkeypatch.setattr(broker_node.SimulatedNode, "quarantined", ("stranger", "another"))
    begun: list[str] = []

    def begin(self: quarantine.Quarantine, client: str, now: int) -> list[Effect]:
        begun.append(client)
        return made(self, client, now)

    made = quarantine.Quarantine.begin
    monkeypatch.setattr(quarantine.Quarantine, "begin", begin)
    for seed in range(50_000, 50_000 + seeds):
        monkeypatch.setattr(broker_node.SimulatedNode, "quarantines", Random(seed).choice((0.02, 0.1, 0.3)))
        check(seed, crowded=True)
    assert len(begun) > seeds


@pytest.mark.properties
@pytest.mark.parametrize("start", range(1_000, 6_000, 500))
def test_composite_events_do_not_depend_on_shared_inputs_at_length(start: int) -> None:
    assert sum(check(seed, crowded=True).moved for seed in range(start, start + 500)) > 200


KNOWN_CASES = {
    20_601: "JSON behind a link that is down",
    21_137: "a move of a new primary that has kept JSON",
    21_427: "a begin amid events out of order",
    24_478: "a move while a link is down",
    25_047: "steps of a replica that was given up during a move",
    501_857: "the same composite event without constituents, but with an attribute, beyond the window",
    516_212: "entries of two primaries that were handed over in turn",
    519_247: "the same",
    522_496: "a move of a primary that was handed over, before its subscriptions came, with JSON",
    527_713: "entries of two primaries that were handed over in turn",
    530_799: "instances with texts that come back from a shared pass",
    534_615: "the entry of a node that has given a detector up, after that of the node that has it",
    540_525: "a move of a primary that was handed over, before its subscriptions came, with a link that is down",
    541_455: "the stream of a part, whose reader has just moved, without derivations",
    545_785: "an event late for a detector that began behind it",
    565_117: "the same for a part",
    732_648: "36,000 instances of one instant",
}
RANDOM_PASSES = {21_427, 530_799, 534_615, 540_525, 541_455, 732_648}
"""Those with random passes."""
SLOW = {732_648}


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed in SLOW else ()) for seed in KNOWN_CASES]
)
def test_known_cases_of_shared_inputs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed in RANDOM_PASSES:
        choice = passes_by_chance(seed)
        monkeypatch.setattr(broker_node, "engines", lambda *_: choice)
    check(seed, crowded=True)


@pytest.mark.properties
@pytest.mark.parametrize("start", range(1_000, 2_000, 250))
def test_composite_events_outlive_any_one_node_at_length(start: int) -> None:
    assert sum(check(seed, lose=True).found for seed in range(start, start + 250)) > 200


@pytest.mark.properties
@pytest.mark.parametrize("start", range(1_000, 6_000, 500))
def test_composite_events_do_not_depend_on_the_network_at_length(start: int) -> None:
    assert sum(check(seed).moved for seed in range(start, start + 500)) > 200


def test_clients_start_while_servers_restart_and_links_are_down() -> None:
    checked = [check(seed, disturbed=True) for seed in range(14)]
    assert sum(each.found for each in checked) > 30
    assert sum(each.homes > 1 for each in checked) > 1


@pytest.mark.parametrize("seed", [1504, 1633])
def test_subscription_starts_where_its_active_answer_is_lost(seed: int) -> None:
    check(seed, disturbed=True)


def test_replica_is_kept_while_the_directory_is_restored() -> None:
    check(277, disturbed=True)


@pytest.mark.properties
def test_clients_start_while_servers_restart_and_links_are_down_at_length() -> None:
    assert sum(check(seed, disturbed=True).found for seed in range(1_000, 1_250)) > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [4, pytest.param(400, marks=pytest.mark.properties)])
def test_composite_events_of_clocks_do_not_depend_on_the_network(seeds: int) -> None:
    checked = [check(seed, make=_clocked) for seed in range(seeds)]
    assert sum(each.found for each in checked) > 6
