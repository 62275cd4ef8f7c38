"""Detection before events are stable on the simulated network, with links that are down for a while: what is missing or
wrong is reported, and the composite events that a late event concerns are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distced.middleware.model.timestamps import SECOND
from distced.simulations.chaos.campaign import is_reported
from distced.simulations.chaos.schedule import LONGEST, scenario
from distced.simulations.network.scenario.outcome import compare
from distced.simulations.network.scenario.run import Simulation


@pytest.mark.slow
@pytest.mark.parametrize("detection", ["bounded(300ms)", "probabilistic(0.9)", "best-effort"])
@pytest.mark.parametrize("start", [0, 16])
def test_what_late_events_make_wrong_is_reported(detection: str, start: int) -> None:
    late = concerned = wrong = found = 0
    for seed in range(start, start + 8):
        planned = scenario(seed, ("partition", "isolation", "cut"))
        asked = tuple(
            replace(each, detection=detection, decomposition="", distribution="") for each in planned.subscriptions
        )
        simulation = Simulation(replace(planned, subscriptions=asked, checkpoints=False))
        simulation.run()
        # Watermarks do not wait for what is still under way.
        simulation.network.engine.run(simulation.network.engine.instant + LONGEST + 30 * SECOND)
        outcome = simulation.outcome()
        for each in outcome.subscriptions.values():
            # As if it were exact, to be compared.
            each.asked = replace(each.asked, detection="guaranteed")
        for name, compared in compare(outcome).items():
            subscribed = outcome.subscriptions[name]
            assert subscribed.twice == 0
            unlike = [*compared.missing, *compared.unexpected]
            assert [each for each in unlike if not is_reported(each, subscribed.lost)] == [], (seed, name)
            spans = {each.id: (each.lo, each.hi) for each in subscribed.events}
            named = {one for each in subscribed.lost for one in each.concerned}
            assert all(each.concerns(*spans[one]) for each in subscribed.lost for one in each.concerned)
            wrong += len(named.intersection(each.id for each in compared.unexpected))
            late += sum("late" in each.reason for each in subscribed.lost)
            concerned += len(named)
            found += compared.same
    assert found > 100 and (late > 0 or detection == "probabilistic(0.9)")
    assert concerned >= wrong and (wrong > 0 or (detection, start) != ("bounded(300ms)", 16))
