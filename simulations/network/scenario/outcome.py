"""What came of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distced.brokers.core.effects import Note
from distced.middleware.model.events import Event
from distced.middleware.wire.directory_entries import DeadLetter, DetectorEntry, LoadEntry
from distced.simulations.network.participants.subscriber import Subscribed
from distced.simulations.network.scenario_model import Scenario


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """What went over a link in one direction.

    Attributes:
        origin, target: sites.
        messages, bytes: by what they are about: `e` events, `c` composite events, `d` the directory, `a`
            administration, `x` dead letters, `mqtt` what connections need themselves.
        cost: of all bytes.
    """

    origin: str
    target: str
    messages: Mapping[str, int]
    bytes: Mapping[str, int]
    cost: float


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What a node had to do.

    Attributes:
        site: where it is.
        received: messages it was given.
        counts: its counters, as of `NodeEntry`.
        detectors: how many it hosts at the end.
        load: what it has said of its load last; None where it has not.
    """

    site: str
    received: int
    counts: Mapping[str, int]
    detectors: int
    load: LoadEntry | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A detector has come to a node.

    Attributes:
        at: when, ns after the start.
        detector: its id.
        origin, node: from where to where.
    """

    at: int
    detector: str
    origin: str
    node: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What a node has logged.

    Attributes:
        at: when, ns after the start.
    """

    at: int
    node: str
    note: Note


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        scenario: what was run.
        subscriptions: by name, with what has arrived.
        published: the events that reached a server, or will not be lost on the way.
        lost: how many messages of publishers at QoS 0 were lost.
        late: events that sources did not publish, for detectors were beyond them when the source began.
        links: what went over each link and direction.
        nodes: those that are there at the end, by name.
        detectors: the directory's entries at the end, by id.
        moved: detectors that have come to another node, in order.
        notes, letters: what nodes have logged, and could not use.
        complete: whether every subscription was heard beyond the last promise of the sources; those by best effort are
            not asked.
        final: that promise, ns; None where no source has promised anything.
        ended: the virtual instant of the end, ns.
        messages: how many were delivered, to servers and from them.
        steps: how much has happened in all.
        digest: of everything delivered.
    """

    scenario: Scenario
    subscriptions: Mapping[str, Subscribed]
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
        """Of all bytes over all links."""
        return sum(each.cost for each in self.links)
