"""Parts of a deployment: sites, broker nodes, publishers, subscribers, links.

composite-event-framework-2004: events are published "at geographically dispersed sites" ("Distributed Detection", Fig.
7); mobile detectors live on "a logical overlay network of nodes" ("Mobile Composite Event Detectors"); several servers,
links of different cost ("Implementation using JMS", Fig. 10: an expensive wireless link). A *site* is an MQTT server
with its clients; servers and links form the overlay (design, section 4). Local links to the server are free and have
only a latency. Links of single participants were rejected: a site of their own is equivalent.

Times are integer ns, bandwidths integer bytes per second, costs per byte in any unit. Each part checks itself,
`Topology` the relations between parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.server_address import parse_address
from distced.middleware.model.timestamps import INSTANT_MAX, MICROSECOND
from distced.policies.topology.errors import TopologyError, located

LOCAL_LATENCY: Final = 150 * MICROSECOND
"""Default latency from a participant to its server, ns: half of the 0.3 ms between clients on one machine."""

PlaceKind: TypeAlias = Literal["site", "node", "publisher", "subscriber"]
KINDS: Final[tuple[PlaceKind, ...]] = get_args(PlaceKind)

TABLES: Final[dict[PlaceKind, str]] = {kind: f"{kind}s" for kind in KINDS}
"""Table of each kind in a file, named by errors."""


class Place(NamedTuple):
    """Origin or target of messages: the server of a site, or a participant. Names are unique by kind."""

    kind: PlaceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Site:
    """An MQTT server and its surroundings.

    Attributes:
        url: of its server, `mqtt://host:port`; empty where unknown, as in an experiment.
        local_latency: from a participant to the server, or back, ns.
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
    """A host of detectors at a site; capacity in instances touched per second, None where unknown."""

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
    """An event source, by its name in the ids of events.

    Attributes:
        rates: known rates by type, events per second. Read only.
        uncertainty: of its clock, ns in both directions.
        loss: share of its messages lost on the way to the server, at QoS 0. Behind the server MQTT loses none.
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
    """A client that subscribes to patterns, at the site of this name."""

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
        between: names of the sites; of a one-way link from first to second, else sorted.
        latency, jitter: least latency of a message, ns; additional uniform delay of up to n ns.
        bandwidth: bytes per second, in each direction; None for unlimited.
        cost: of a byte.
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
        """Display name: `rome – milan`, one-way `rome → milan`."""
        return f"{self.between[0]} {'→' if self.one_way else '–'} {self.between[1]}"

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Directions, each as (from site, to site)."""
        one, other = self.between
        return ((one, other),) if self.one_way else ((one, other), (other, one))


def _check_name(kind: PlaceKind, name: str) -> str:
    """Check a name; the place named by errors."""
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
