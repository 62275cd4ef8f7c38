"""The composite-event framework in the Active Office: broker nodes, directory and clients as shipped."""

from __future__ import annotations

from typing import Final

from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.source_session import heartbeat
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import SECOND
from distced.simulations.experiments.office_network.office_events import OfficeEvents, office_events
from distced.simulations.experiments.office_network.setting import (
    BUILDING,
    LEAD,
    PDA,
    RESIDENTS,
    NetworkSpec,
    Notified,
    SettingSpec,
    office_topology,
    pattern_for,
    patterns_for,
    served_by,
)
from distced.simulations.network.scenario.outcome import ScenarioOutcome
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Scenario, ScenarioSubscription, Send, SourceStream

AFTER: Final = 5 * SECOND
"""Time after the working day in which the last messages arrive, ns."""


class OfficeSimulation(Simulation):
    """Run in which the building promises for all its sensors in one message."""

    def __init__(self, scenario: Scenario, every: int, behind: int = 0) -> None:
        """Args: every: interval of the promises, ns; 0 for none. behind: by which events are sent late, ns."""
        super().__init__(scenario)
        self._behind = behind
        if every:
            self.network.engine.at(scenario.start, self._promise, every)

    def _promise(self, every: int) -> None:
        engine, publisher = self.network.engine, self.deployment.publishers[BUILDING]
        if all(publisher.publishes(each) for each in publisher.sources):
            states = [each.state for each in publisher.sources.values()]
            # An event is published once its `hi` has passed.
            watermark = engine.instant - self._behind - 1
            publisher.do([heartbeat(publisher.session.name, states, watermark, engine.instant, home=publisher.home)])
        engine.after(every, self._promise, every)


def run_framework(
    network: NetworkSpec,
    setting: SettingSpec,
    pdas: int,
    duration: int,
    seed: int,
    policy: str,
    *,
    filters: bool = False,
) -> ScenarioOutcome:
    """Run the office with PDAs that subscribe to composite events; `filters`: sensors leave out what nobody reads."""
    office = office_events(seed, setting, duration)
    scenario = framework_scenario(network, setting, office, pdas, duration, seed, policy, filters=filters)
    simulation = OfficeSimulation(scenario, setting.heartbeat_ns, setting.batch_ns)
    simulation.run()
    simulation.network.run(AFTER)
    return simulation.outcome()


def framework_scenario(
    network: NetworkSpec,
    setting: SettingSpec,
    office: OfficeEvents,
    pdas: int,
    duration: int,
    seed: int,
    policy: str,
    subscriptions: tuple[ScenarioSubscription, ...] = (),
    filters: bool = False,
) -> Scenario:
    """Scenario of the framework with PDAs; their subscriptions are those of the setting by default."""
    sends: dict[str, list[Send]] = {source: [] for source in office.sources}
    for at, events in office.messages:
        sends[events[0].source].append(Send(at, events))
    streams = tuple(
        SourceStream(source, BUILDING, types, tuple(sends[source])) for source, types in office.sources.items()
    )
    return Scenario(
        office_topology(network, pdas, office.rates(duration)),
        office.types,
        streams,
        subscriptions or tuple(_subscription(setting, number, policy) for number in range(pdas)),
        seed=seed,
        lead=LEAD,
        validates=False,
        duration=duration,
        keepalive=network.keepalive_ns,
        tick=network.tick_ns,
        served_by=served_by(pdas),
        metered=tuple(f"{PDA}{number + 1}" for number in range(pdas)) if network.metered else (),
        pings=True,
        filters=filters,
    )


def _subscription(setting: SettingSpec, number: int, policy: str) -> ScenarioSubscription:
    pattern, definitions = pattern_for(setting.person(number))
    name = f"{PDA}{number + 1}"
    return ScenarioSubscription(
        f"missed-{number + 1}", name, pattern, definitions=definitions, detection=setting.detection, distribution=policy
    )


def simulated_delays(
    network: NetworkSpec, setting: SettingSpec, pdas: int, duration: int, seed: int, policy: str
) -> list[Notified]:
    """Run the office with PDAs that subscribe to C and C1 for all residents; their notifications in order."""
    office = office_events(seed, setting, duration)
    asked = {
        f"{notification} {person} {number}": ScenarioSubscription(
            f"{notification} {person} {number}", f"{PDA}{number + 1}", pattern, definitions=definitions,
            detection=setting.detection, distribution=policy,
        )
        for number in range(pdas)
        for person in RESIDENTS
        for notification, (pattern, definitions) in patterns_for(person).items()
    }  # fmt: skip
    scenario = framework_scenario(network, setting, office, pdas, duration, seed, policy, tuple(asked.values()))
    simulation = OfficeSimulation(scenario, setting.heartbeat_ns, setting.batch_ns)
    simulation.run()
    simulation.network.run(AFTER)
    came = [
        (received.at, Notified(name.split()[0], int(name.split()[2]), received.delay))
        for name, each in simulation.subscribed.items()
        for received in each.found.values()
    ]
    return [notified for _, notified in sorted(came)]


def expected(setting: SettingSpec, office: OfficeEvents, person: str, until: int) -> int:
    """Number of composite events of a person that one engine finds up to an instant, ns."""
    pattern, definitions = pattern_for(person)
    registry = TypeRegistry(office.types)
    engine = StepwiseEngine([compile_pattern(pattern, registry, definitions=definitions)])
    events = sorted(office.events, key=lambda each: each.key)
    return sum(each.hi <= until for each in [*engine.feed(events), *engine.advance(until)])
