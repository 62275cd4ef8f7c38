"""Filters at sources on the simulated network: composite events are the same with and without them.

Random schedules of faults as those of `distced chaos`, random networks as of `test_network_transparency`, and churn:
subscriptions that come and go while events flow, with moves. A filter that narrows at once, instead of after some
seconds, leaves no fault without a chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire import declared_reads, source_filter
from distced.middleware.wire.declared_reads import LEFT_OUT
from distced.simulations.chaos.campaign import Verdict, judge
from distced.simulations.chaos.schedule import KINDS, scenario
from distced.simulations.network.scenario.random_scenario import random_patterns, random_scenario
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Scenario, ScenarioSubscription
from tests.simulations.test_network_transparency import check

MARGIN = SECOND
"""By which the clocks of sources may differ from the virtual time, ns."""

LATE = 8
"""Subscriptions that come while events flow."""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Filters that narrow at once, and readers that withdraw at once."""
    monkeypatch.setattr(source_filter, "NARROW_AFTER", SECOND // 10)
    monkeypatch.setattr(declared_reads, "NARROW_EVERY", SECOND // 4)
    yield


def left_out(simulation: Simulation) -> int:
    """Number of events that publishers have left out."""
    publishers = simulation.deployment.publishers.values()
    return sum(sum(each.session.filters.filter.left_out.values()) for each in publishers)


def filtered(seed: int) -> Verdict:
    """Verdict on a schedule with faults of all kinds, with filters."""
    return judge(seed, replace(scenario(seed, tuple(KINDS)), filters=True))


def failed(verdicts: list[Verdict]) -> list[str]:
    return [f"{each.seed}: {each.text}" for each in verdicts if each.failed]


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 20])
def test_faults_lose_nothing_behind_filters(start: int) -> None:
    verdicts = [filtered(seed) for seed in range(start, start + 20)]
    assert failed(verdicts) == []
    assert sum(each.expected for each in verdicts) > 1_000


@pytest.mark.parametrize("seeds", [15, pytest.param(2_000, marks=pytest.mark.properties)])
def test_faults_lose_nothing_behind_hasty_filters(seeds: int, hasty: None) -> None:
    verdicts = [filtered(seed) for seed in range(seeds)]
    assert failed(verdicts) == []
    assert sum(each.expected for each in verdicts) > 30 * seeds


@pytest.mark.parametrize("seeds", [10, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_do_not_depend_on_filters(seeds: int, hasty: None) -> None:
    checked = [check(seed, filters=True) for seed in range(seeds)]
    checked += [check(seed, filters=True, crowded=True) for seed in range(seeds // 2)]
    checked += [check(seed, filters=True, lose=True) for seed in range(seeds // 2)]
    assert sum(each.found for each in checked) > seeds and any(each.moved for each in checked)


def churn(seed: int, *, filters: bool = True) -> Scenario:
    """Scenario with subscriptions that come and go while events flow."""
    random = Random(seed)
    made = random_scenario(
        seed, subscriptions=3, moves=4, sites=random.randrange(2, 5), nodes=3, publishers=4, duration=30 * SECOND
    )
    # The pairs of an & depend on events before the subscription.
    patterns = [each for each in random_patterns(random, made.topology.types, 3 * LATE) if "&" not in each][:LATE]
    late = tuple(
        ScenarioSubscription(
            f"late{number}",
            random.choice(sorted(made.topology.subscribers)),
            pattern,
            at := random.randrange(20 * SECOND),
            until=None if random.random() < 0.5 else at + random.randrange(2 * SECOND, 15 * SECOND),
            decomposition=random.choice(("", "none", "full")),
        )
        for number, pattern in enumerate(patterns)
    )
    return replace(made, subscriptions=(*made.subscriptions, *late), filters=filters)


def run_churn(seed: int) -> tuple[list[str], int, int]:
    """Run a scenario with churn; what is missing or wrong, numbers of composite events compared and of events left
    out."""
    made = churn(seed)
    simulation = Simulation(made)
    outcome = simulation.run()
    final = outcome.final
    assert outcome.complete and final is not None, seed
    events = sorted((event for each in made.streams for send in each.sends for event in send.events), key=_key)
    registry = TypeRegistry(made.types)
    problems, compared = [], 0
    for name, each in outcome.subscriptions.items():
        assert each.active_at is not None, f"seed {seed}, {name}: {each.refused}"
        assert not any(LEFT_OUT in lost.reason for lost in each.lost), f"seed {seed}, {name}: {each.lost}"
        engine = StepwiseEngine([compile_pattern(each.asked.pattern, registry)])
        since = max(each.active_at, made.start - MARGIN) + MARGIN
        until = final if each.asked.until is None else made.start + each.asked.until - 2 * MARGIN
        expected = _ids([*engine.feed(events), *engine.advance(final)], since, until)
        got = _ids(each.events, since, until)
        compared += len(expected)
        if expected != got:
            problems.append(f"seed {seed}, {name}, {each.asked.pattern}: {len(expected)} expected, {len(got)} found")
    return problems, compared, left_out(simulation)


def _key(event: object) -> object:
    return event.key  # type: ignore[attr-defined]


def _ids(found: list[CompositeEvent], since: int, until: int) -> set[EventId]:
    """Composite events that begin and end between two instants."""
    return {each.id for each in found if each.lo > since and each.hi <= until}


@pytest.mark.parametrize("seeds", [6, pytest.param(300, marks=pytest.mark.properties)])
def test_subscriptions_get_every_event_from_their_answer_on(seeds: int, hasty: None) -> None:
    runs = [run_churn(seed) for seed in range(seeds)]
    assert [each for problems, *_ in runs for each in problems] == []
    assert sum(compared for _, compared, _ in runs) > 20 * seeds
    assert all(left > 0 for *_, left in runs)
