"""A scenario: all participants, streams, moves and faults of a run, as data.

Instants are virtual, in ns after the scenario's start; before it nodes, sources and subscriptions come up, for so long
as `lead` says. Events carry timestamps of their own, absolute as everywhere: those of a stream by rates are the virtual
instants at which they happen, those of a property test anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import HintEntry, Hints
from distced.policies.distribution.policy import parse_policy
from distced.policies.topology.topology import Topology

START: Final = 1_795_248_000 * SECOND
"""Default start of scenarios: 2026-11-21T08:00Z."""


class ScenarioError(DistcedError):
    """An invalid scenario."""


@dataclass(frozen=True, slots=True)
class Send:
    """Messages a source sends at one instant.

    Attributes:
        at: when, ns after the start.
        events: of one type or not; none for a heartbeat.
        watermark: a promise to send no event with `hi` at or before it, ns; None for none.
    """

    at: int
    events: tuple[Event, ...]
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class SourceStream:
    """The stream of a source.

    Attributes:
        source: the source of its events.
        publisher: of the topology.
        types: the names of the types it publishes.
        sends: in order of time.
        floor: its first promise, ns; None for the present.
        lease: silence after which it is fenced off, ns; 0 for never.
        joins: when it becomes a source, ns after the start; negative while everything comes up.
    """

    source: str
    publisher: str
    types: tuple[str, ...]
    sends: tuple[Send, ...]
    floor: int | None = None
    lease: int = 0
    joins: int | None = None


@dataclass(frozen=True, slots=True)
class ScenarioSubscription:
    """A subscription.

    Attributes:
        name: unique.
        subscriber: of the topology.
        pattern: its text.
        at: when it is made, ns after the start; None for while everything comes up.
        until: when it ends; None for the end of the run.
        definitions, consumption, detection, constituents, distribution, hints: as of
            `middleware.wire.directory_entries.SubscriptionEntry`; `detection` is its `policy`.
        decomposition: the same; left to the distribution policy where it is empty.
    """

    name: str
    subscriber: str
    pattern: str
    at: int | None = None
    until: int | None = None
    definitions: Mapping[str, str] = field(default_factory=dict, hash=False)
    consumption: str = "ordered"
    detection: str = "guaranteed"
    constituents: bool = False
    decomposition: str = ""
    distribution: str = ""
    hints: Hints = field(default_factory=Hints)


class ScheduledMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A requested move of a detector.

    Attributes:
        at: ns after the start.
        detector: its id, the name of a subscription it serves, or its pattern; empty for a random one.
        node: target; empty for a random one.
    """

    at: int
    detector: str = ""
    node: str = ""


class ScheduledPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A distribution policy set by the administration.

    Attributes:
        at: ns after the start.
        policy: as `policies.distribution.policy.parse_policy` reads it; empty to take back what was set.
        detector: its id, the name of a subscription it serves, or its pattern; empty for all.
    """

    at: int
    policy: str
    detector: str = ""


class Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Late start of a further node of the topology.

    Attributes:
        at: ns after the start.
        node: its name.
    """

    at: int
    node: str


class Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop of a node, with a farewell."""

    at: int
    node: str


class Crash(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loss of a node with its state.

    Attributes:
        at: ns after the start.
        node: its name.
        until: restart under the same name, without its state; None for never.
        silent: whether nothing tells the servers, as when a machine is lost: they miss it after a while. Else its
            connections are seen to be closed, as when a process ends.
    """

    at: int
    node: str
    until: int | None = None
    silent: bool = True


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link, or all links of a site, down for a while.

    Attributes:
        at, until: ns after the start.
        between: the sites of the link; None where it is a site.
        site: the site; empty where it is a link.
    """

    at: int
    until: int
    between: tuple[str, str] | None = None
    site: str = ""


class ServerRestart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Restart of the server of a site, without its state.

    Attributes:
        at, until: ns after the start.
    """

    at: int
    until: int
    site: str


Fault: TypeAlias = Join | Leave | Crash | Partition | ServerRestart


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Attributes:
        topology: of the network.
        types: the event types; derived ones behind those they are derived from.
        streams: of all sources.
        subscriptions: to patterns.
        moves, faults, policies: scheduled changes.
        seed: of all random choices.
        start: the virtual instant of the start, ns since the Unix epoch.
        lead: time for all participants to start, ns.
        duration: of the run after the start, ns.
        patience: greatest time beyond that, ns, until everything has arrived.
        keepalive: silence after which connections are considered lost, ns.
        again: probability that a server delivers a message at QoS 1 twice.
        repeats: messages that may come twice: the letters of areas of topics, `e` and `c` for events.
        one_home: whether all topics are at home on the server of the directory; else events are where they are
            published.
        distribution: the distribution policy of subscriptions that do not name one.
        tick: interval between ticks of nodes, ns.
        hints: of a placement analysis, by id of the detector.
    """

    topology: Topology
    types: tuple[EventType, ...]
    streams: tuple[SourceStream, ...]
    subscriptions: tuple[ScenarioSubscription, ...]
    moves: tuple[ScheduledMove, ...] = ()
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    start: int = START
    lead: int = 10 * SECOND
    duration: int = 60 * SECOND
    patience: int = 60 * SECOND
    keepalive: int = 30 * SECOND
    again: float = 0.0
    repeats: str = "ec"
    one_home: bool = False
    distribution: str = ""
    tick: int = SECOND // 10
    policies: tuple[ScheduledPolicy, ...] = ()
    hints: Mapping[str, HintEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        topology = self.topology
        for stream in self.streams:
            _known("publisher", stream.publisher, topology.publishers, f"stream {stream.source}")
        for asked in self.subscriptions:
            _known("subscriber", asked.subscriber, topology.subscribers, f"subscription {asked.name}")
        for move in self.moves:
            if move.node:
                _known("node", move.node, topology.nodes, "moves")
        for each in self.policies:
            if each.policy:
                parse_policy(each.policy, where="policies")
        for fault in self.faults:
            _check_fault(fault, topology)
        for what, names in (
            ("sources", [each.source for each in self.streams]),
            ("subscriptions", [each.name for each in self.subscriptions]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ScenarioError(f"two {what} of one name", given=twice, allowed="each name once")
        if not 0 <= self.again <= 1:
            raise ScenarioError("not a probability", given=self.again, allowed="from 0 to 1", where="again")


def _check_fault(fault: Fault, topology: Topology) -> None:
    where = f"faults, {type(fault).__name__.lower()}"
    match fault:
        case Join(node=node) | Leave(node=node) | Crash(node=node):
            _known("node", node, topology.nodes, where)
        case Partition(between=None, site=site) | ServerRestart(site=site):
            _known("site", site, topology.sites, where)
        case Partition(between=(one, other)):
            pairs = {pair for link in topology.links for pair in link.directions}
            if (one, other) not in pairs and (other, one) not in pairs:
                known = ", ".join(link.name for link in topology.links)
                raise ScenarioError("no link between these sites", given=f"{one}, {other}", allowed=known, where=where)
    if isinstance(fault, Partition | ServerRestart | Crash) and fault.until is not None and fault.until < fault.at:
        raise ScenarioError("a fault that ends before it begins", given=fault.until, allowed=f"from {fault.at}",
                            where=where)  # fmt: skip


def _known(what: str, name: str, known: Mapping[str, object], where: str) -> None:
    if name not in known:
        raise ScenarioError(
            f"there is no {what} of this name in the topology", given=name, allowed=", ".join(known) or "none",
            where=where,
        )  # fmt: skip
