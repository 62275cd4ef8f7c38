"""What a deployment consists of: sites, broker nodes, publishers, subscribers, links.

composite-event-framework-2004: events are published "at geographically dispersed sites" ("Distributed Detection",
Fig. 7); mobile detectors live on "a logical overlay network of nodes", event brokers each of which hosts one or more of
them ("Mobile Composite Event Detectors"); there is more than one server, with links of different price between them
("Implementation using JMS", Fig. 10: an expensive wireless link). Here a *site* is an MQTT server with those near it,
and servers with the links between them form the overlay (design, section 4).

Everybody at a site reaches its server by a local link, which is free and has only a latency; messages between sites
travel along links from server to server. That participants have links of their own was rejected: it says nothing that a
site of their own would not say, and it would make two kinds of link.

Times are integer nanoseconds, bandwidths integer bytes per second, costs per byte in a unit of your choice. Each part
checks itself; what parts have to do with one another is checked by the `Topology` they make up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.server_address import parse_address
from distced.middleware.model.timestamps import INSTANT_MAX, MICROSECOND
from distced.policies.topology.errors import TopologyError, located

LOCAL_LATENCY: Final = 150 * MICROSECOND
"""ns from a participant to the server of its site, unless the site says otherwise: from client through server to client
on one machine it is 0.3 ms, half of it on either side."""

PlaceKind: TypeAlias = Literal["site", "node", "publisher", "subscriber"]
KINDS: Final[tuple[PlaceKind, ...]] = ("site", "node", "publisher", "subscriber")

TABLES: Final[dict[PlaceKind, str]] = {
    "site": "sites",
    "node": "nodes",
    "publisher": "publishers",
    "subscriber": "subscribers",
}
"""Where each kind stands in a file; errors name their place so."""


class Place(NamedTuple):
    """Somewhere in a topology where messages come from or go to: the server of a site, or a participant.

    Names are told apart by kind, so an application may publish and subscribe under one name.
    """

    kind: PlaceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Site:
    """An MQTT server and its surroundings.

    Attributes:
        url: of its server, `mqtt://host:port`; empty where it is not known, as in an experiment.
        local_latency: ns between a participant here and the server, each way.
    """

    name: str
    url: str = ""
    local_latency: int = LOCAL_LATENCY

    def __post_init__(self) -> None:
        where = _check_name("site", self.name)
        _check_duration("local_latency", self.local_latency, where)
        if not self.url.isprintable():
            raise TopologyError("not the URL of a server", allowed="mqtt://host:port", where=f"{where}, url")
        if self.url:
            try:
                parse_address(self.url)
            except DistcedError as error:
                raise located(error, f"{where}, url") from None

    @property
    def place(self) -> Place:
        return Place("site", self.name)


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker node, which hosts detectors.

    Attributes:
        site: the name of the site it is at.
        capacity: how many instances it can touch a second; None where nobody knows.
    """

    name: str
    site: str
    capacity: float | None = None

    def __post_init__(self) -> None:
        where = _check_name("node", self.name)
        if self.capacity is not None:
            _check_positive("capacity", self.capacity, "instances touched per second", where)

    @property
    def place(self) -> Place:
        return Place("node", self.name)


@dataclass(frozen=True, slots=True)
class Publisher:
    """An event source.

    Attributes:
        name: the source in the ids of its events.
        site: the name of the site it is at.
        types: the event types it publishes.
        rates: events per second by type, of those whose rate is known. Not to be changed.
        uncertainty: of its clock, ns in both directions.
        loss: the share of events that never arrive at the server, for one that publishes at QoS 0. Nothing else may
            lose messages: behind the server MQTT repeats until they are acknowledged.
    """

    name: str
    site: str
    types: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict, hash=False)
    uncertainty: int = 0
    loss: float = 0.0

    def __post_init__(self) -> None:
        where = _check_name("publisher", self.name)
        for place, name in enumerate(self.types):
            try:
                event_type(name)
            except DistcedError as error:
                raise located(error, f"{where}, types") from None
            if name in self.types[:place]:
                raise TopologyError("a type named twice", given=name, allowed="each once", where=f"{where}, types")
        for name, rate in self.rates.items():
            if name not in self.types:
                raise TopologyError(
                    "a rate for a type it does not publish",
                    given=name,
                    allowed=", ".join(self.types) or "it publishes no type",
                    where=f"{where}, rates",
                    advice="add it to types",
                )
            _check_positive(name, rate, "events per second", f"{where}, rates")
        _check_duration("uncertainty", self.uncertainty, where)
        if not 0 <= self.loss < 1:
            raise TopologyError(
                "not a probability of loss",
                given=self.loss,
                allowed="from 0 to below 1",
                where=where,
                advice="leave it out for a publisher that publishes at QoS 1",
            )

    @property
    def place(self) -> Place:
        return Place("publisher", self.name)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Somebody who subscribes to patterns.

    Attributes:
        site: the name of the site it is at.
    """

    name: str
    site: str

    def __post_init__(self) -> None:
        _check_name("subscriber", self.name)

    @property
    def place(self) -> Place:
        return Place("subscriber", self.name)


Participant: TypeAlias = BrokerNode | Publisher | Subscriber


@dataclass(frozen=True, slots=True)
class Link:
    """A link between the servers of two sites.

    Attributes:
        between: the names of the two sites; of a one-way link from the first to the second, of any other in order.
        latency: ns that a message takes at least.
        jitter: additional delay of up to n ns, uniformly distributed.
        bandwidth: bytes per second, in each direction; None for unlimited.
        cost: of a byte.
        one_way: whether messages travel in one direction only.
    """

    between: tuple[str, str]
    latency: int
    jitter: int = 0
    bandwidth: int | None = None
    cost: float = 1.0
    one_way: bool = False

    def __post_init__(self) -> None:
        one, other = self.between
        if one == other:
            raise TopologyError(
                "a link from a site to itself",
                given=one,
                allowed="two sites",
                where=self.name,
                advice="within a site there is its local_latency",
            )
        if not self.one_way and other < one:
            object.__setattr__(self, "between", (other, one))
        _check_duration("latency", self.latency, self.name)
        _check_duration("jitter", self.jitter, self.name)
        if self.bandwidth is not None and self.bandwidth < 1:
            raise TopologyError("not a bandwidth", given=self.bandwidth, allowed="from 1 byte per second, or none",
                                where=self.name)  # fmt: skip
        if not 0 <= self.cost < math.inf:
            raise TopologyError("not a cost per byte", given=self.cost, allowed="a number from 0", where=self.name)

    @property
    def name(self) -> str:
        """What people call it: `rome – milan`, one-way `rome → milan`."""
        return f"{self.between[0]} {'→' if self.one_way else '–'} {self.between[1]}"

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """From which site to which one messages cross it."""
        one, other = self.between
        return ((one, other),) if self.one_way else ((one, other), (other, one))


def _check_name(kind: PlaceKind, name: str) -> str:
    """Refuse what is no name; else the place to be named in errors."""
    if not name or not name.isprintable() or name != name.strip():
        raise TopologyError(
            f"not a name for a {kind}",
            given=repr(name),
            allowed="printable characters, no blank at either end",
            where=TABLES[kind],
        )
    return f"{TABLES[kind]}.{name}"


def _check_duration(key: str, nanoseconds: int, where: str) -> None:
    if not 0 <= nanoseconds <= INSTANT_MAX:
        raise TopologyError(
            f"not a duration for {key}", given=nanoseconds, allowed="from 0 ns, within 64 bits", where=where
        )


def _check_positive(key: str, number: float, meaning: str, where: str) -> None:
    if not 0 < number < math.inf:
        raise TopologyError(f"not a number for {key}", given=number, allowed=f"{meaning}, more than 0", where=where)
