"""Engines on the simulated network: chosen as live, at the same virtual moment in every run, without being noticed."""

from __future__ import annotations

import pytest

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import BrokerNode, Publisher, Site, Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.participants.broker_node import PREPARATION, VirtualReadiness
from distced.simulations.network.scenario.outcome import ScenarioOutcome, compare
from distced.simulations.network.scenario.run import simulate
from distced.simulations.network.scenario_model import START, Scenario, ScenarioSubscription, Send, SourceStream

PATTERN = "[A as one] ; [A as other where v > one.v + 1000] within 1min"
FRAMES, EACH = 40, 50


def test_columnar_engine_is_ready_a_fixed_time_after_the_first_query() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    now = 5 * SECOND
    readiness = VirtualReadiness(lambda: now)
    assert not readiness.ready()
    now += PREPARATION - 1
    assert not readiness.ready()
    now += 1
    assert readiness.ready()
    assert readiness.problem == ""


@pytest.mark.slow
def test_columnar_engine_takes_over_at_the_same_virtual_instant_in_every_run() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    first, second = _run(), _run()
    assert first.complete and all(each.holds for each in compare(first).values())
    switches = [(each.at, each.note.fields["engine"]) for each in first.notes if each.note.event == "engine switched"]
    assert switches and switches[0][1] == "columnar"
    assert [(each.at, each.note.event) for each in first.notes] == [(each.at, each.note.event) for each in second.notes]


def _run() -> ScenarioOutcome:
    """Frames of events that each touch all instances before them."""
    sends = []
    for frame in range(FRAMES):
        at = frame * 100 * MILLISECOND
        numbers = range(frame * EACH, (frame + 1) * EACH)
        events = tuple(Event("A", START + at + n % EACH, START + at + n % EACH, "s", n, {"v": 0}) for n in numbers)
        sends.append(Send(at + EACH, events, START + at + EACH))
    seconds = 6
    streams = (SourceStream("s", "p", ("A",), (*sends, Send(seconds * SECOND, (), START + seconds * SECOND))),)
    topology = Topology(
        [Site("site")], [BrokerNode("node", "site")], [Publisher("p", "site", ("A",))], [Subscriber("app", "site")], []
    )
    types = (event_type("A", {"v": "number"}),)
    return simulate(
        Scenario(topology, types, streams, (ScenarioSubscription("q", "app", PATTERN),), duration=seconds * SECOND)
    )
