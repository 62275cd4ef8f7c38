"""Detectors at work are watched, and moved where their policy says so and where it pays; subscribers do not notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.topology.model import BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.outcome import ScenarioOutcome, compare
from distced.simulations.network.scenario.run import simulate
from distced.simulations.network.scenario.toml import parse_scenario
from distced.simulations.network.scenario_model import (
    START,
    Scenario,
    ScenarioError,
    ScenarioSubscription,
    ScheduledPolicy,
    Send,
    SourceStream,
)

PAIR = "[A] ; [B] within 5s"


def stream(name: str, publisher: str, every: int, seconds: int, *, since: int = 0) -> SourceStream:
    """Events of one type at a pace, each promising what comes before the next."""
    sends = []
    for number in range((seconds * SECOND - since) // every):
        at = since + number * every
        sends.append(Send(at, (Event(name, START + at, START + at, name, number, {}),), START + at + every - 1))
    return SourceStream(name, publisher, (name,), (*sends, Send(seconds * SECOND, (), START + seconds * SECOND)))


def scenario(seconds: int, paces: tuple[int, int] = (SECOND // 20, 5 * SECOND), **arguments: object) -> Scenario:
    """Sources at either end of a line of three sites, a node at each, and the application at the second source."""
    topology = Topology(
        [Site("left"), Site("centre"), Site("right")],
        [BrokerNode(name, name) for name in ("left", "centre", "right")],
        [Publisher("a", "left", ("A",)), Publisher("b", "right", ("B",))],
        [Subscriber("app", "right")],
        [Link(("left", "centre"), 5 * MILLISECOND), Link(("centre", "right"), 5 * MILLISECOND)],
    )
    streams = (stream("A", "a", paces[0], seconds), stream("B", "b", paces[1], seconds))
    types = (event_type("A", {}), event_type("B", {}))
    return Scenario(
        topology, types, streams, (ScenarioSubscription("q", "app", PAIR),), duration=seconds * SECOND, **arguments
    )  # type: ignore[arg-type]


def host(outcome: ScenarioOutcome) -> str:
    return outcome.detectors[outcome.subscriptions["q"].detector].node


def right(outcome: ScenarioOutcome) -> bool:
    return outcome.complete and outcome.letters == () and all(each.holds for each in compare(outcome).values())


def said(outcome: ScenarioOutcome, event: str) -> list[str]:
    return [str(each.note.fields["reason"]) for each in outcome.notes if each.note.event == event]


def test_detector_moves_to_its_events_and_stays() -> None:
    """It was placed without a word of how many events there would be."""
    hints = Hints(rates={"A": 0.1, "B": 50.0})
    run = scenario(150, distribution="min-bandwidth")
    outcome = simulate(replace(run, subscriptions=(replace(run.subscriptions[0], hints=hints),)))
    assert right(outcome)
    assert host(outcome) == "left"
    assert len(outcome.moved) == 1
    (why,) = said(outcome, "move begun")
    assert "min-bandwidth" in why
    assert 20 * SECOND < outcome.moved[0].at < 90 * SECOND


def test_detectors_that_read_the_same_move_together() -> None:
    """Neither would save anything alone: the node reads the events for the other all the same."""
    hints = Hints(rates={"A": 0.1, "B": 50.0})
    patterns = {"q": PAIR, "r": "[B] ; [A] within 5s"}
    asked = tuple(ScenarioSubscription(name, "app", each, hints=hints) for name, each in patterns.items())
    outcome = simulate(replace(scenario(150, distribution="min-bandwidth"), subscriptions=asked))
    assert right(outcome)
    detectors = {each.detector for each in outcome.subscriptions.values()}
    assert len(detectors) == 2 and {outcome.detectors[each].node for each in detectors} == {"left"}
    first, second = outcome.moved
    assert {first.detector, second.detector} == detectors and abs(first.at - second.at) < 2 * SECOND
    assert all("together with" in why for why in said(outcome, "move begun"))


def test_detectors_of_two_nodes_change_places_to_relieve_the_busier_one() -> None:
    """In the order of their subscriptions they are placed as 3 + 2 + 2 and 3 + 2; no move of one of them pays."""
    rates = {"A1": 30, "A2": 30, "A3": 20, "A4": 20, "A5": 20}
    topology = Topology(
        [Site("site")],
        [BrokerNode(name, "site") for name in ("one", "other")],
        [*(Publisher(name, "site", (name,), {name: float(rate)}) for name, rate in rates.items()),
         Publisher("b", "site", ("B",), {"B": 1.0})],
        [Subscriber("app", "site")],
    )  # fmt: skip
    streams = [stream(name, name, SECOND // rate, 90) for name, rate in rates.items()]
    asked = tuple(
        ScenarioSubscription(name, "app", f"[{name}] ; [B] within 5s", at=(3 + place) * SECOND)
        for place, name in enumerate(rates)
    )
    types = tuple(event_type(name, {}) for name in (*rates, "B"))
    run = Scenario(
        topology, types, (*streams, stream("B", "b", SECOND, 90)), asked, duration=90 * SECOND, distribution="min-load"
    )
    outcome = simulate(run)
    assert right(outcome)
    at = {name: outcome.detectors[each.detector].node for name, each in outcome.subscriptions.items()}
    assert at["A1"] == at["A2"] != at["A3"] == at["A4"] == at["A5"]
    assert len(outcome.moved) == 2 and {each.detector for each in outcome.moved} <= {
        each.detector for each in outcome.subscriptions.values()
    }
    *_, requested = said(outcome, "move requested")
    assert "better by 1% or more for each move" in requested
    assert "requested by a node that it relieves" in said(outcome, "move begun")
    # The first request came within the time that a detector stays at least.
    assert said(outcome, "move refused") == ["its policy, its hints or a recent move keep it here"]


def test_detector_stays_where_gain_is_small() -> None:
    outcome = simulate(scenario(120, (SECOND // 10, SECOND // 10), distribution="min-bandwidth"))
    assert right(outcome)
    assert outcome.moved == ()


@pytest.mark.parametrize("detector", ["q", ""])
def test_policy_set_by_the_administrator_holds_from_then_on(detector: str) -> None:
    """Of one detector, and of everybody; it does not have to stay first."""
    policies = (ScheduledPolicy(20 * SECOND, "min-bandwidth", detector), ScheduledPolicy(60 * SECOND, "", detector))
    outcome = simulate(scenario(100, policies=policies))
    assert right(outcome)
    assert [each.node for each in outcome.moved] == ["left", "right"]
    assert [20 < each.at / SECOND < 40 for each in outcome.moved] == [True, False]
    assert 60 * SECOND < outcome.moved[1].at < 80 * SECOND


def test_policy_of_a_detector_precedes_that_of_all() -> None:
    outcome = simulate(
        scenario(60, policies=(ScheduledPolicy(10 * SECOND, "min-bandwidth"),), distribution="min-latency")
    )
    assert right(outcome)
    assert outcome.moved == ()


def test_replicas_come_and_go_with_the_policy() -> None:
    policies = (ScheduledPolicy(5 * SECOND, "max-reliability", "q"), ScheduledPolicy(25 * SECOND, "", "q"))
    outcome = simulate(scenario(40, policies=policies))
    assert right(outcome)
    events = [each.note.event for each in outcome.notes if "replica" in each.note.event]
    assert "replica added" in events and "replicas removed" in events
    assert outcome.detectors[outcome.subscriptions["q"].detector].replicas == {}


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ScenarioError, match="min-bandwidht"):
        parse_scenario(
            """
            [types.A]
            [topology.sites.a]
            [[policies]]
            at = "1s"
            policy = "min-bandwidht"
            """
        )
