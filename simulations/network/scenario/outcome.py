"""The outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distced.brokers.core.effects import Note
from distced.middleware.model.events import Event
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario_model import Scenario


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Traffic over a link in one direction.

    Attributes:
        origin, target: sites.
        messages, bytes: by subject: `e` events, `c` composite events, `d` the directory, `a`
            administration, `x` dead letters, `mqtt` the traffic of connections themselves.
        cost: of all bytes.
    """

    origin: str
    target: str
    messages: Mapping[str, int]
    bytes: Mapping[str, int]
    cost: float


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Work of a node.

    Attributes:
        site: of the node.
        received: number of messages received.
        counts: its counters, as of `NodeEntry`.
        detectors: number hosted at the end.
        load: last reported load; None without a report.
    """

    site: str
    received: int
    counts: Mapping[str, int]
    detectors: int
    load: LoadEntry | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A move of a detector to a node.

    Attributes:
        at: when, ns after the start.
        detector: its id.
        origin, node: previous and new host.
    """

    at: int
    detector: str
    origin: str
    node: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A log event of a node.

    Attributes:
        at: when, ns after the start.
    """

    at: int
    node: str
    note: Note


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The outcome of a run.

    Attributes:
        scenario: of the run.
        subscriptions: by name, with the events received.
        published: the events that reached a server, or will not be lost on the way.
        lost: number of messages of publishers at QoS 0 lost.
        late: events that sources did not publish, for detectors were beyond them when the source began.
        links: traffic over each link and direction.
        nodes: present at the end, by name.
        detectors: the directory's entries at the end, by id.
        moved: moves of detectors, in order.
        notes, letters: log events of nodes, and dead letters.
        complete: whether the watermark of every subscription is beyond the last promise of the sources; without those
            by best effort.
        final: that promise, ns; None where no source has promised anything.
        ended: the virtual instant of the end, ns.
        messages: number delivered, to servers and from them.
        steps: number of calls made.
        digest: of all messages delivered.
    """

    scenario: Scenario
    subscriptions: Mapping[str, SimulatedSubscription]
    published: tuple[Event, ...]
    lost: int
    late: tuple[Event, ...]
    links: tuple[LinkTraffic, ...]
    nodes: Mapping[str, NodeFigures]
    detectors: Mapping[str, DetectorEntry]
    moved: tuple[Moved, ...]
    notes: tuple[Noted, ...]
    letters: tuple[DeadLetter, ...]
    complete: bool
    final: int | None
    ended: int
    messages: int
    steps: int
    digest: str

    @property
    def bytes(self) -> int:
        """Bytes over all links."""
        return sum(sum(each.bytes.values()) for each in self.links)

    @property
    def cost(self) -> float:
        """Cost of all bytes over all links."""
        return sum(each.cost for each in self.links)
