"""A scenario run: everybody comes up, the streams begin, moves and faults happen, and what came of it is gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final, TypeAlias

from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import LoadEntry, decode
from distced.simulations.network.network import Network
from distced.simulations.network.participants.administrator import Administrator
from distced.simulations.network.participants.subscriber import Subscribed
from distced.simulations.network.scenario.outcome import LinkTraffic, Moved, NodeFigures, Noted, Outcome
from distced.simulations.network.scenario_model import (
    Asked,
    Crash,
    Fault,
    Join,
    Leave,
    Move,
    Partition,
    Policy,
    Scenario,
    ServerRestart,
)
from distced.simulations.network.transport.links import Channel

LOOK_EVERY: Final = 100 * MILLISECOND
"""How often it is looked whether everything has arrived, ns of virtual time."""

TELL_EVERY: Final = SECOND
"""How often whoever watches is told, ns of virtual time."""

SOURCES_AT: Final = 0.2
SUBSCRIPTIONS_AT: Final = 0.4
"""When sources and subscriptions come up that do not say, as a share of the scenario's lead."""

Watch: TypeAlias = Callable[[int, int], object]
"""Told how much virtual time has passed since everything began to come up, and of how much, ns."""


def simulate(scenario: Scenario, *, watch: Watch | None = None, log: IO[str] | None = None) -> Outcome:
    """Run a scenario.

    Args:
        watch: told from time to time how far it is.
        log: gets every message that is delivered, one JSON array a line: ns, from, to, topic, payload.
    """
    return Simulation(scenario, log=log).run(watch)


class Simulation:
    """A run of a scenario.

    Attributes:
        scenario: what is run.
        network: where.
        administrator: who registers types and moves detectors.
        subscribed: the subscriptions that were made so far, by name.
    """

    def __init__(self, scenario: Scenario, *, log: IO[str] | None = None) -> None:
        self.scenario = scenario
        self.network = Network(
            scenario.topology,
            start=scenario.start - scenario.lead,
            seed=scenario.seed,
            keepalive=scenario.keepalive,
            again=scenario.again,
            repeats=scenario.repeats,
            one_home=scenario.one_home,
            tick=scenario.tick,
            log=log,
        )
        self.administrator = Administrator(self.network)
        self.subscribed: dict[str, Subscribed] = {}
        self._begin()

    def run(self, watch: Watch | None = None) -> Outcome:
        """Run it to its end."""
        scenario, engine = self.scenario, self.network.engine
        whole = scenario.lead + scenario.duration
        end = scenario.start + scenario.duration
        while engine.instant < end:
            engine.run(min(engine.instant + TELL_EVERY, end))
            if watch is not None:
                watch(engine.instant - scenario.start + scenario.lead, whole)
        while not self.complete and engine.instant < end + scenario.patience:
            engine.run(engine.instant + LOOK_EVERY)
        return self.outcome()

    @property
    def complete(self) -> bool:
        """Whether all sources have sent everything, and every subscription was heard beyond it."""
        publishers = self.network.publishers.values()
        if not all(each.done for each in publishers) or len(self.subscribed) < len(self.scenario.subscriptions):
            return False
        final = self.final
        return final is None or all(
            each.refused
            or each.asked.detection != "guaranteed"
            or each.asked.until is not None
            or (each.watermark is not None and each.watermark >= final)
            for each in self.subscribed.values()
        )

    @property
    def final(self) -> int | None:
        """The least of the last promises of all sources, ns."""
        promises = [
            max((send.watermark for send in each.sends if send.watermark is not None), default=None)
            for each in self.scenario.streams
        ]
        known = [each for each in promises if each is not None]
        return min(known, default=None) if len(known) == len(promises) else None

    def outcome(self) -> Outcome:
        """What has come of it so far."""
        network, start = self.network, self.scenario.start
        loads = network.directory_entries("load")
        moved = [
            Moved(at - start, str(note.fields["detector"]), str(note.fields["origin"]), node)
            for at, node, note in network.notes
            if note.event == "detector arrived"
        ]
        publishers = network.publishers.values()
        return Outcome(
            self.scenario,
            dict(self.subscribed),
            tuple(event for each in publishers for event in each.published),
            sum(each.lost for each in publishers),
            tuple(event for each in publishers for event in each.late),
            tuple(_traffic(each) for each in network.channels.all.values()),
            {
                name: NodeFigures(
                    network.site_of(each.place),
                    each.received,
                    dict(each.node.counts),
                    len(each.node.hosted),
                    decode(loads[name], LoadEntry, where=name) if name in loads else None,
                )
                for name, each in network.nodes.items()
            },
            self.administrator.detectors,
            tuple(moved),
            tuple(Noted(at - start, node, note) for at, node, note in network.notes),
            tuple(network.letters),
            self.complete,
            self.final,
            network.engine.instant,
            network.trace.messages,
            network.engine.steps,
            network.trace.digest,
        )

    # Everything that happens, arranged.

    def _begin(self) -> None:
        scenario, network = self.scenario, self.network
        late = {each.node for each in scenario.faults if isinstance(each, Join)}
        self.administrator.begin()
        self.administrator.describe()
        self.administrator.register(scenario.types)
        self.administrator.hint(scenario.hints)
        for name in scenario.topology.nodes:
            if name not in late:
                network.add_node(name)
        for name in scenario.topology.publishers:
            network.add_publisher(name)
        for name in scenario.topology.subscribers:
            network.add_subscriber(name)
        for stream in scenario.streams:
            at = self._instant(stream.joins, SOURCES_AT)
            network.engine.at(at, network.publishers[stream.publisher].source, stream, scenario.start)
        for asked in scenario.subscriptions:
            network.engine.at(self._instant(asked.at, SUBSCRIPTIONS_AT), self._subscribe, asked)
            if asked.until is not None:
                unsubscribe = network.subscribers[asked.subscriber].unsubscribe
                network.engine.at(scenario.start + asked.until, unsubscribe, asked.name)
        for move in scenario.moves:
            network.engine.at(scenario.start + move.at, self._move, move)
        for each in scenario.policies:
            network.engine.at(scenario.start + each.at, self._set, each)
        for fault in scenario.faults:
            self._arrange(fault)

    def _instant(self, at: int | None, share: float) -> int:
        """When something comes up that may not say when."""
        scenario = self.scenario
        return scenario.start + (round(scenario.lead * (share - 1)) if at is None else at)

    def _subscribe(self, asked: Asked) -> None:
        subscriber = self.network.subscribers[asked.subscriber]
        self.subscribed[asked.name] = subscriber.subscribe(asked, self.scenario.distribution)

    def _arrange(self, fault: Fault) -> None:
        network, engine, start = self.network, self.network.engine, self.scenario.start
        match fault:
            case Join(at=at, node=node):
                engine.at(start + at, network.add_node, node)
            case Leave(at=at, node=node):
                engine.at(start + at, self._if_there, node, network.stop_node)
            case Crash(at=at, node=node, until=until, silent=silent):
                engine.at(start + at, self._if_there, node, lambda name: network.lose(name, silent=silent))
                if until is not None:
                    engine.at(start + until, network.add_node, node)
            case Partition(at=at, until=until, between=between, site=site):
                channels = network.channels.of_site(site) if between is None else network.channels.of_link(*between)
                engine.at(start + at, network.fail, channels)
                engine.at(start + until, network.mend, channels)
            case ServerRestart(at=at, until=until, site=site):
                server = network.server_at(site)
                engine.at(start + at, server.stop)
                engine.at(start + until, server.start)

    def _if_there(self, node: str, act: Callable[[str], object]) -> None:
        if node in self.network.nodes:
            act(node)

    def _move(self, move: Move) -> None:
        detectors, random = self.administrator.detectors, self.network.engine.random
        found = self._detector(move.detector)
        if not move.detector and detectors:
            found = random.choice(sorted(detectors))
        if found not in detectors:
            return
        others = [name for name in self.network.nodes if name != detectors[found].node]
        node = move.node or (random.choice(others) if others else "")
        if node:
            self.administrator.move(found, node)

    def _set(self, policy: Policy) -> None:
        detector = self._detector(policy.detector) if policy.detector else ""
        if detector or not policy.detector:
            self.administrator.set_policy(detector, policy.policy)

    def _detector(self, named: str) -> str:
        """The detector that is meant by its id, a subscription it serves, or its pattern."""
        if named in self.subscribed:
            return self.subscribed[named].detector
        detectors = self.administrator.detectors
        patterns = {each.pattern: name for name, each in detectors.items()}
        return named if named in detectors else patterns.get(named, "")


def _traffic(channel: Channel) -> LinkTraffic:
    return LinkTraffic(
        channel.origin,
        channel.target,
        {area: messages for area, (messages, _) in channel.traffic.items()},
        {area: size for area, (_, size) in channel.traffic.items()},
        channel.bytes * channel.cost,
    )
