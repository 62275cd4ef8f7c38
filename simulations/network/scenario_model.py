"""A scenario as data: participants, streams, moves and faults of a run.

Instants are virtual, ns after the scenario's start; everything starts within `lead` before it. Events have absolute
timestamps: the virtual instants of streams at rates, any in property tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
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
    """Messages of a source at one instant.

    Attributes:
        at: ns after the start.
        events: of any types; none for a heartbeat.
        watermark: no event with `hi` at or before it follows, ns; None without a promise.
    """

    at: int
    events: tuple[Event, ...]
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class SourceStream:
    """The stream of a source.

    Attributes:
        source: of its events.
        publisher: of the topology.
        types: names of the published types.
        sends: in order of time.
        floor: first promise, ns; None for the present.
        lease: silence after which it is fenced off, ns; 0 for never.
        joins: opening of the source, ns after the start; None for the default share of `lead`.
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
        at: ns after the start; None for the default share of `lead`.
        until: its end; None for the end of the run.
        definitions, consumption, detection, constituents, decomposition, distribution, hints, publish_json: as of
            `middleware.wire.directory_entries.SubscriptionEntry`, where `detection` is `policy`; without a
            decomposition that of the distribution policy.
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
    publish_json: str = ""


class _Scheduled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that a scenario schedules, `at` ns after the start, in the form of files."""

    at: int


class ScheduledMove(_Scheduled, frozen=True):
    """A requested move of a detector.

    Attributes:
        detector: id, name of a subscription it serves, or pattern; empty for a random one.
        node: target; empty for a random one.
    """

    detector: str = ""
    node: str = ""


class ScheduledPolicy(_Scheduled, frozen=True):
    """A distribution policy set by the administrator.

    Attributes:
        policy: as for `parse_policy`; empty to clear it.
        detector: as of `ScheduledMove`; empty for all.
    """

    policy: str
    detector: str = ""


class Join(_Scheduled, frozen=True, tag_field="kind", tag="join"):
    """Late start of a node of the topology."""

    node: str


class Leave(_Scheduled, frozen=True, tag_field="kind", tag="leave"):
    """Stop of a node, with a farewell."""

    node: str


class Crash(_Scheduled, frozen=True, tag_field="kind", tag="crash"):
    """Loss of a node with its state.

    Attributes:
        until: restart under the same name, without state; None for never.
        silent: servers miss it after the keepalive only, as when a machine is lost; else they see its connections
            close, as when a process ends.
    """

    node: str
    until: int | None = None
    silent: bool = True


class Partition(_Scheduled, frozen=True, tag_field="kind", tag="partition"):
    """A link, or all links of a site, down for a while.

    Attributes:
        between: the sites of the link; None for a site.
        site: empty for a link.
    """

    until: int
    between: tuple[str, str] | None = None
    site: str = ""


class Cut(_Scheduled, frozen=True, tag_field="kind", tag="cut"):
    """Loss of a connection, with the messages under way; the participant connects again.

    Attributes:
        role: `node`, `publisher` or `subscriber`.
        name: of the participant.
    """

    role: str
    name: str


class Delay(_Scheduled, frozen=True, tag_field="kind", tag="delay"):
    """Messages over all links of a site, and within it, that take longer for a while.

    Attributes:
        by: delay in each direction, ns.
    """

    until: int
    site: str
    by: int


class Reorder(_Scheduled, frozen=True, tag_field="kind", tag="reorder"):
    """Messages with events that overtake each other in the server of a site, those of one topic among them."""

    until: int
    site: str


class ClockJump(_Scheduled, frozen=True, tag_field="kind", tag="clock-jump"):
    """Step of the clock of a node, which it follows at half its rate.

    Attributes:
        by: forward, or with a negative step back, ns.
    """

    node: str
    by: int


class Disk(_Scheduled, frozen=True, tag_field="kind", tag="disk"):
    """Store of checkpoints that is full, or slow, for a while.

    Attributes:
        slowest: longest time for a read or a write, ns; 0 for a full one.
    """

    until: int
    slowest: int = 0


class Kill(_Scheduled, frozen=True, tag_field="kind", tag="kill"):
    """Loss of a subscriber with its state; it comes back, and subscribes again.

    Attributes:
        subscriber: of the topology.
        silent: as of `Crash`.
    """

    subscriber: str
    until: int
    silent: bool = True


class ServerRestart(_Scheduled, frozen=True, tag_field="kind", tag="server-restart"):
    """Restart of the server of a site, without wills.

    Attributes:
        remembers: whether it has its retained messages still, as with persistence.
    """

    until: int
    site: str
    remembers: bool = False


class PublisherCrash(_Scheduled, frozen=True, tag_field="kind", tag="publisher-crash"):
    """Loss of a publisher, which starts again with its outbox.

    Attributes:
        silent: as of `Crash`.
        cut: bytes of its outbox that are lost, as in a power cut.
    """

    until: int
    publisher: str
    silent: bool = False
    cut: int = 0


Fault: TypeAlias = (
    Join | Leave | Crash | Partition | Cut | ServerRestart | Delay | Reorder | ClockJump | Disk | Kill | PublisherCrash
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Attributes:
        types: derived ones behind those they are derived from.
        moves, faults, policies: scheduled changes.
        seed: of all random choices.
        start: ns since the Unix epoch.
        lead, duration: before and after the start, ns.
        patience: longest wait beyond that for everything to arrive, ns.
        keepalive: silence after which a connection counts as lost, ns.
        again: probability of a second delivery at QoS 1.
        repeats: letters of the topic areas with second deliveries: `e` events, `c` composite events.
        one_home: all topics at home on the server of the directory; else events at their publishers.
        distribution: policy of subscriptions without their own.
        tick: interval between ticks of nodes, ns.
        hints: of a placement analysis, by detector.
        checkpoints: whether nodes write checkpoints, to a store that all of them read.
        store_fails: share of its reads and writes that fail.
        torn: whether a write whose node is lost may leave a part of its file.
        clock_error: greatest error of the clocks of nodes, another one after each start, ns.
        outboxes: whether the outboxes of publishers outlive these.
        filters: whether publishers leave out events that nobody reads.
        served_by: sites without a server of their own, with the site whose server their participants use.
        pings: whether pings of idle connections count.
        metered: subscribers whose links are.
        validates: whether nodes validate their invariants with each message, which costs more than the message where
            there are many detectors.
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
    checkpoints: bool = False
    store_fails: float = 0.0
    torn: bool = False
    clock_error: int = 0
    outboxes: bool = False
    filters: bool = False
    served_by: Mapping[str, str] = field(default_factory=dict)
    pings: bool = False
    metered: tuple[str, ...] = ()
    validates: bool = True

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
            twice = next((name for name, count in Counter(names).items() if count > 1), None)
            if twice is not None:
                raise ScenarioError(f"two {what} of one name", given=twice, allowed="each name once")
        for site, other in self.served_by.items():
            _known("site", site, topology.sites, "served_by")
            _known("site", other, topology.sites.keys() - self.served_by.keys(), f"served_by, {site}")
        if topology.directory in self.served_by:
            raise ScenarioError("the site of the directory without a server", given=topology.directory,
                                allowed="a server of its own", where="served_by")  # fmt: skip
        if not 0 <= self.again <= 1:
            raise ScenarioError("not a probability", given=self.again, allowed="from 0 to 1", where="again")


def _check_fault(fault: Fault, topology: Topology) -> None:
    where = f"faults, {fault.__struct_config__.tag}"
    match fault:
        case Join(node=node) | Leave(node=node) | Crash(node=node) | ClockJump(node=node):
            _known("node", node, topology.nodes, where)
        case PublisherCrash(publisher=publisher):
            _known("publisher", publisher, topology.publishers, where)
        case Cut(role=role, name=name):
            there = {"node": topology.nodes, "publisher": topology.publishers, "subscriber": topology.subscribers}
            if role not in there:
                raise ScenarioError("not a participant", given=role, allowed=", ".join(there), where=where)
            _known(role, name, there[role], where)
        case Kill(subscriber=name):
            _known("subscriber", name, topology.subscribers, where)
        case Partition(between=None, site=site) | ServerRestart(site=site) | Delay(site=site) | Reorder(site=site):
            _known("site", site, topology.sites, where)
        case Partition(between=(one, other)):
            pairs = {pair for link in topology.links for pair in link.directions}
            if (one, other) not in pairs and (other, one) not in pairs:
                known = ", ".join(link.name for link in topology.links)
                raise ScenarioError("no link between these sites", given=f"{one}, {other}", allowed=known, where=where)
    until = getattr(fault, "until", None)
    if until is not None and until < fault.at:
        raise ScenarioError("a fault that ends before it begins", given=until, allowed=f"from {fault.at}",
                            where=where)  # fmt: skip


def _known(what: str, name: str, known: Collection[str], where: str) -> None:
    if name not in known:
        raise ScenarioError(
            f"there is no {what} of this name in the topology", given=name, allowed=", ".join(known) or "none",
            where=where,
        )  # fmt: skip
