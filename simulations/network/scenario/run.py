"""Run of a scenario: starts participants and streams, performs moves and faults, collects the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, Final, TypeAlias

from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import LoadEntry
from distced.simulations.network.deployment import Administrator, Deployment
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario.outcome import LinkTraffic, Moved, NodeFigures, Noted, ScenarioOutcome
from distced.simulations.network.scenario_model import (
    ClockJump,
    Crash,
    Cut,
    Delay,
    Disk,
    Fault,
    Join,
    Kill,
    Leave,
    Partition,
    PublisherCrash,
    Reorder,
    Scenario,
    ScenarioSubscription,
    ScheduledMove,
    ScheduledPolicy,
    ServerRestart,
)
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.links import DirectedLink
from distced.simulations.network.transport.mqtt_server import DuplicateDeliveries
from distced.simulations.network.transport.virtual_store import VirtualDisk

LOOK_EVERY: Final = 100 * MILLISECOND
"""Interval between checks for completion, ns of virtual time."""

REPORT_EVERY: Final = SECOND
"""Interval between reports of progress, ns of virtual time."""

SOURCES_AT: Final = 0.2
SUBSCRIPTIONS_AT: Final = 0.4
"""Default start of sources and subscriptions, as a share of the scenario's lead."""

Watch: TypeAlias = Callable[[int, int], object]
"""Gets the virtual time since the first participant started, and the total, ns."""


def simulate(scenario: Scenario, *, watch: Watch | None = None, log: IO[str] | None = None) -> ScenarioOutcome:
    """Run a scenario.

    Args:
        watch: gets the progress.
        log: gets every delivered message, a JSON array a line: ns, from, to, topic, payload.
    """
    return Simulation(scenario, log=log).run(watch)


class Simulation:
    """A run of a scenario; `subscribed` has the subscriptions made so far, by name."""

    def __init__(self, scenario: Scenario, *, log: IO[str] | None = None) -> None:
        self.scenario = scenario
        self.network = Fabric(
            scenario.topology,
            start=scenario.start - scenario.lead,
            seed=scenario.seed,
            keepalive=scenario.keepalive,
            duplicates=DuplicateDeliveries(scenario.again, frozenset(scenario.repeats)),
            one_home=scenario.one_home,
            served_by=scenario.served_by,
            pings=scenario.pings,
            log=log,
        )
        engine = self.network.engine
        disk = VirtualDisk(engine, scenario.store_fails, torn=scenario.torn) if scenario.checkpoints else None
        self.deployment = Deployment(
            self.network,
            tick=scenario.tick,
            disk=disk,
            clock_error=scenario.clock_error,
            outboxes={} if scenario.outboxes else None,
            filters=scenario.filters,
            metered=scenario.metered,
            validates=scenario.validates,
        )
        self.administrator = Administrator(self.network)
        self.subscribed: dict[str, SimulatedSubscription] = {}
        # Number of subscribers that were killed, and are not back.
        self._away = 0
        self._begin()

    def run(self, watch: Watch | None = None) -> ScenarioOutcome:
        """Run the scenario to its end."""
        scenario, engine = self.scenario, self.network.engine
        whole = scenario.lead + scenario.duration
        end = scenario.start + scenario.duration
        while engine.instant < end:
            engine.run(min(engine.instant + REPORT_EVERY, end))
            if watch is not None:
                watch(engine.instant - scenario.start + scenario.lead, whole)
        while not self.complete and engine.instant < end + scenario.patience:
            engine.run(engine.instant + LOOK_EVERY)
        return self.outcome()

    @property
    def complete(self) -> bool:
        """Whether all sources have sent everything, and the watermark of every subscription is at or beyond `final`."""
        publishers = self.deployment.publishers.values()
        if (
            self._away
            or not all(each.done for each in publishers)
            or len(self.subscribed) < len(self.scenario.subscriptions)
        ):
            return False
        final = self.final
        return final is None or all(
            each.refused
            or each.killed
            or each.asked.detection == "best-effort"
            or each.asked.until is not None
            or (each.watermark is not None and each.watermark >= final and each.active_at is not None)
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

    def outcome(self) -> ScenarioOutcome:
        """The outcome so far."""
        network, deployment, start = self.network, self.deployment, self.scenario.start
        network.count_pings()
        loads = network.directory_entries("load")
        moved = [
            Moved(at - start, str(note.fields["detector"]), str(note.fields["origin"]), node)
            for at, node, note in network.notes
            if note.event == "detector arrived"
        ]
        publishers = deployment.publishers.values()
        return ScenarioOutcome(
            self.scenario,
            dict(self.subscribed),
            tuple(event for each in publishers for event in each.published),
            dict(sum((each.session.filters.filter.left_out for each in publishers), Counter[str]())),
            sum(each.lost for each in publishers),
            tuple(event for each in publishers for event in each.late),
            tuple(_traffic(each) for each in network.links.all.values()),
            {
                name: NodeFigures(
                    network.site_of(each.place),
                    each.received,
                    dict(each.node.counts),
                    len(each.node.hosted),
                    decode(loads[name], LoadEntry, where=name) if name in loads else None,
                )
                for name, each in deployment.nodes.items()
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

    # The schedule of a run.

    def _begin(self) -> None:
        scenario, deployment, time = self.scenario, self.deployment, self.network.engine
        late = {each.node for each in scenario.faults if isinstance(each, Join)}
        self.administrator.begin()
        self.administrator.describe()
        self.administrator.register(scenario.types)
        self.administrator.hint(scenario.hints)
        for name in scenario.topology.nodes:
            if name not in late:
                deployment.start_node(name)
        for name in scenario.topology.publishers:
            deployment.connect_publisher(name)
        for name in scenario.topology.subscribers:
            deployment.connect_subscriber(name)
        for stream in scenario.streams:
            at = self._instant(stream.joins, SOURCES_AT)
            time.at(at, deployment.publishers[stream.publisher].source, stream, scenario.start)
        for asked in scenario.subscriptions:
            time.at(self._instant(asked.at, SUBSCRIPTIONS_AT), self._subscribe, asked)
            if asked.until is not None:
                unsubscribe = deployment.subscribers[asked.subscriber].unsubscribe
                time.at(scenario.start + asked.until, unsubscribe, asked.name)
        for move in scenario.moves:
            time.at(scenario.start + move.at, self._move, move)
        for each in scenario.policies:
            time.at(scenario.start + each.at, self._set, each)
        for fault in scenario.faults:
            self._arrange(fault)

    def _instant(self, at: int | None, share: float) -> int:
        """Start of a participant: its own, or a share of the lead."""
        scenario = self.scenario
        return scenario.start + (round(scenario.lead * (share - 1)) if at is None else at)

    def _subscribe(self, asked: ScenarioSubscription) -> SimulatedSubscription:
        subscriber = self.deployment.subscribers[asked.subscriber]
        made = self.subscribed[asked.name] = subscriber.subscribe(asked, self.scenario.distribution)
        return made

    def _arrange(self, fault: Fault) -> None:
        network, deployment, start = self.network, self.deployment, self.scenario.start
        time = network.engine
        match fault:
            case Join(at=at, node=node):
                time.at(start + at, deployment.start_node, node)
            case Leave(at=at, node=node):
                time.at(start + at, self._if_there, node, deployment.stop_node)
            case Crash(at=at, node=node, until=until, silent=silent):
                time.at(start + at, self._if_there, node, lambda name: deployment.crash_node(name, silent=silent))
                if until is not None:
                    time.at(start + until, self._start_again, node)
            case Partition(at=at, until=until, between=between, site=site):
                links = network.links.of_site(site) if between is None else network.links.between(*between)
                time.at(start + at, network.fail, links)
                time.at(start + until, network.mend, links)
            case Cut(at=at, role=kind, name=name):
                time.at(start + at, self._cut, kind, name)
            case PublisherCrash(at=at):
                time.at(start + at, self._crash_publisher, fault)
            case ServerRestart(at=at, until=until, site=site, remembers=remembers):
                server = network.server_at(site)
                time.at(start + at, lambda: server.stop(remembers=remembers))
                time.at(start + until, server.start)
            case Delay(at=at, until=until, site=site, by=by):
                time.at(start + at, self._delay, site, by)
                time.at(start + until, self._delay, site, -by)
            case Reorder(at=at, until=until, site=site):
                server = network.server_at(site)
                time.at(start + at, server.reorder, 1)
                time.at(start + until, server.reorder, -1)
            case ClockJump(at=at, node=node, by=by):
                time.at(start + at, self._if_there, node, lambda name: deployment.nodes[name].set_clock(by))
            case Disk(at=at, until=until, slowest=slowest) if deployment.disk is not None:
                time.at(start + at, deployment.disk.fail, slowest)
                time.at(start + until, deployment.disk.mend, slowest)
            case Kill(at=at, until=until, subscriber=name, silent=silent):
                time.at(start + at, self._kill, name, silent, start + until)

    def _delay(self, site: str, by: int) -> None:
        for link in self.network.links.of_site(site):
            link.delay += by

    def _kill(self, name: str, silent: bool, until: int) -> None:
        """Kill a subscriber, unless it is away from another fault, and start it again."""
        if name not in self.deployment.subscribers:
            return
        killed = self.deployment.kill_subscriber(name, silent=silent)
        for each in killed.subscriptions.values():
            each.killed = True
        self._away += 1
        self.network.engine.at(until, self._back, name, list(killed.subscriptions.values()))

    def _back(self, name: str, before: list[SimulatedSubscription]) -> None:
        self._away -= 1
        self.deployment.connect_subscriber(name)
        for each in before:
            self._subscribe(replace(each.asked, name=f"{each.asked.name}, again")).is_back = True

    def _cut(self, kind: str, name: str) -> None:
        """Cut one of the connections of a participant, at random."""
        deployment = self.deployment
        there: Mapping[str, Participant] = {
            "node": deployment.nodes,
            "publisher": deployment.publishers,
            "subscriber": deployment.subscribers,
        }[kind]  # type: ignore[assignment]
        if name in there:
            connections = there[name].connections
            connections[self.network.engine.random.choice(sorted(connections))].cut()

    def _start_again(self, node: str) -> None:
        """Start a lost node, unless it is back from another fault."""
        if node not in self.deployment.nodes:
            self.deployment.start_node(node)

    def _crash_publisher(self, crash: PublisherCrash) -> None:
        """Crash a publisher that is up, until it starts again."""
        deployment, name = self.deployment, crash.publisher
        if deployment.publishers[name].alive:
            again = deployment.restart_publisher(name, silent=crash.silent)
            self.network.engine.at(self.scenario.start + crash.until, again)
            if crash.cut and deployment.outboxes is not None:
                deployment.outboxes[name].cut(crash.cut)

    def _if_there(self, node: str, act: Callable[[str], object]) -> None:
        if node in self.deployment.nodes:
            act(node)

    def _move(self, move: ScheduledMove) -> None:
        detectors, random = self.administrator.detectors, self.network.engine.random
        found = self._detector(move.detector)
        if not move.detector and detectors:
            found = random.choice(sorted(detectors))
        if found not in detectors:
            return
        others = [name for name in self.deployment.nodes if name != detectors[found].node]
        node = move.node or (random.choice(others) if others else "")
        if node:
            self.administrator.move(found, node)

    def _set(self, policy: ScheduledPolicy) -> None:
        detector = self._detector(policy.detector) if policy.detector else ""
        if detector or not policy.detector:
            self.administrator.set_policy(detector, policy.policy)

    def _detector(self, named: str) -> str:
        """Id of a detector, given by id, subscription or pattern."""
        if named in self.subscribed:
            return self.subscribed[named].detector
        detectors = self.administrator.detectors
        patterns = {each.pattern: name for name, each in detectors.items()}
        return named if named in detectors else patterns.get(named, "")


def _traffic(link: DirectedLink) -> LinkTraffic:
    return LinkTraffic(
        link.origin,
        link.target,
        {area: messages for area, (messages, _) in link.traffic.items()},
        {area: size for area, (_, size) in link.traffic.items()},
        link.bytes * link.cost,
    )
