"""Entries of the directory: retained JSON messages, each under a topic of its own (design, section 4).

The directory needs no server of its own; an entry is cleared by an empty payload, and a node's or a client's by its
last will. JSON was preferred to frames, which carry events, so that any MQTT tool shows entries to people.

There may be several MQTT servers, one for each site. The directory and administration are at home on one of them, the
topics of events each on one of its own, and heartbeats where their sources are. Entries name a server by its URL, and
that of the directory by an empty string.

    <root>/d/type/<name>               an event type, and its home server      EventType
    <root>/d/client/<name>             a client that is connected              ClientEntry
    <root>/d/source/<source>           a source, its publisher and its lease   SourceEntry
    <root>/d/node/<node>               a broker node, its counters             NodeEntry
    <root>/d/detector/<id>             a detector, and its node                DetectorEntry
    <root>/d/subscription/<id>         the subscription of a client            SubscriptionEntry
    <root>/d/load/<node>               the load of a node                      LoadEntry
    <root>/d/recorder/<name>           a recorder of events                    RecorderEntry
    <root>/d/topology/<name>           the network                             TopologyEntry
    <root>/d/hint/<id>                 where a detector should be placed       HintEntry
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

NODE_CLIENT: Final = "node:"
"""How a node's name begins where it is a client of other nodes; no application is called so."""


RECORDER: Final = "recorder:"
"""How a recorder's name begins where it speaks beside nodes, which may be called the same."""


Instant: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]


class ClientEntry(msgspec.Struct, frozen=True):
    """A client that is there. Its subscriptions are kept for a while when it is gone, and then cleared.

    Attributes:
        since: when it came, ns.
        home: the server of its site; empty for that of the directory.
    """

    since: Instant
    home: str = ""


class SourceEntry(msgspec.Struct, frozen=True):
    """A source of events.

    Attributes:
        types: the names of the types it publishes.
        watermark: it will publish no event with `hi` at or before this, ns.
        lease: how long it may be silent before it is fenced off, ns; 0 for ever.
        publisher: the client that speaks for it.
        home: the home server of its topics, and of its heartbeats; empty for that of the directory.
    """

    types: tuple[str, ...]
    watermark: Instant
    lease: Annotated[int, Meta(ge=0)] = 0
    publisher: str = ""
    home: str = ""


class NodeEntry(msgspec.Struct, frozen=True):
    """A broker node.

    Attributes:
        since: when it came up, ns; with its name it tells one life of a node from the next.
        detectors: how many it hosts.
        counts: events consumed, composite events found, late events, dead letters by reason, and so on.
        home: the server of its site; empty for that of the directory.
        capacity: how many instances it can touch a second; 0 where nobody knows.
        isolates: whether it can have a node started at its site for a detector that wants a process of its own.
        reserved: the detector it was started for, and the only one it hosts; empty for any.
    """

    since: Instant
    detectors: int = 0
    counts: dict[str, int] = {}
    home: str = ""
    capacity: float = 0.0
    isolates: bool = False
    reserved: str = ""


class RecorderEntry(msgspec.Struct, frozen=True):
    """A recorder, which keeps a history. Sources wait for it as they do for nodes.

    Attributes:
        since: when it came up, ns.
        types: the types it records; None for all.
        home: the server of its site; empty for that of the directory.
    """

    since: Instant
    types: tuple[str, ...] | None = None
    home: str = ""


class Measured(msgspec.Struct, frozen=True):
    """What a detector was seen to do of late, by the node that hosts it.

    Attributes:
        load: instances touched a second.
        rate, size: composite events a second, and bytes a second of the frames they travel in, heartbeats included.
        inputs: bytes a second by what it reads: sources by name, other detectors by id.
        events: how many events it reads a second, of all inputs together.
        state: bytes of its state, which a move would carry.
        delay: from the last event of a match to the detection, ns on average; 0 where nothing was found.
        engine: which one runs it; empty where that is not known.
    """

    load: float = 0.0
    rate: float = 0.0
    size: float = 0.0
    inputs: dict[str, float] = {}
    events: float = 0.0
    state: int = 0
    delay: int = 0
    engine: str = ""


class LoadEntry(msgspec.Struct, frozen=True):
    """What a broker node has to do.

    Attributes:
        load: instances touched a second, by all its detectors.
        detectors: what its detectors do, by id.
        latencies: how long a message takes to a server and back, halved, ns, by home server.
    """

    load: float = 0.0
    detectors: dict[str, Measured] = {}
    latencies: dict[str, int] = {}


class TopologyEntry(msgspec.Struct, frozen=True):
    """The network, as whoever looks after it describes it.

    Attributes:
        text: a topology in TOML, see `policies.topology.topology_file`.
    """

    text: str


class Told(msgspec.Struct, frozen=True, array_like=True):
    """Messages a second.

    Attributes:
        size: bytes of payloads and topics.
        often: messages.
    """

    size: float = 0.0
    often: float = 0.0


class Foreseen(msgspec.Struct, frozen=True):
    """What a detector would do, by what a history says: it need not have run.

    Attributes:
        rate: composite events a second.
        quiet, loud, part: what it tells where applications alone listen, where other detectors read what it publishes
            under a name, and where they read it as a part of their patterns.
        loads: instances touched a second, by the parts it reads: their ids, sorted, apart by blanks; empty for none.
    """

    rate: float
    quiet: Told
    loud: Told
    part: Told
    loads: dict[str, float] = {}

    def told(self, *, part: bool, read: bool) -> Told:
        """What it tells, by who listens."""
        return self.part if part else self.loud if read else self.quiet

    def load(self, parts: Iterable[str]) -> float | None:
        """What it has to do when it reads these parts; None where nobody has tried."""
        return self.loads.get(parts_key(parts))


def parts_key(parts: Iterable[str]) -> str:
    """What a set of parts is called in `Foreseen.loads`."""
    return " ".join(sorted(parts))


class HintEntry(msgspec.Struct, frozen=True):
    """What placement analysis found out about a detector, for the nodes that place it.

    Attributes:
        nodes: those it should stand on; empty where the analysis does not say.
        parts: the ids of the detectors it should read as parts; None where the analysis does not say.
        foreseen: what it is to be expected to do until that is measured.
    """

    nodes: tuple[str, ...] = ()
    parts: tuple[str, ...] | None = None
    foreseen: Foreseen | None = None


class DetectorEntry(msgspec.Struct, frozen=True):
    """A detector.

    Attributes:
        node: the node that hosts it.
        pattern: what it detects, as text.
        policy: its detection policy.
        reads: the types it reads; None for all.
        publishes: the type of its composite events; empty for composite events without a name.
        attributes: the kinds of their attributes.
        subscriptions: how many it serves.
        parts: the ids of the detectors it reads as parts of its pattern.
        exports: the variables and registers that its derivations hand on.
        home: the home server of its topic; empty for that of the directory. It stays when the detector moves.
        replicas: further nodes that host the same detector in the same state, and the home servers they publish at.
        distribution: its distribution policy.
        readers: how many connections listen to its topic, by the home of who listens.
        expected: what it was expected to do when it was placed, until that is measured.
    """

    node: str
    pattern: str
    policy: str
    reads: tuple[str, ...] | None
    publishes: str = ""
    attributes: dict[str, str] = {}
    subscriptions: int = 0
    parts: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    home: str = ""
    replicas: dict[str, str] = {}
    distribution: str = ""
    readers: dict[str, int] = {}
    expected: Measured | None = None


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What an application knows that the middleware does not.

    Attributes:
        nodes: the nodes that detectors may stand on; empty for all.
        avoid: nodes they may not stand on.
        rates: by event type, events a second to be expected, where nothing has been measured.
        selectivity: of the whole pattern: how many composite events for each event that it reads; None for not known.
        isolated: whether the detector wants a process of its own.
    """

    nodes: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    rates: dict[str, float] = {}
    selectivity: float | None = None
    isolated: bool = False


NO_HINTS: Final = Hints()


class SubscriptionEntry(msgspec.Struct, frozen=True):
    """What a client wants to have detected, or a node for a detector that reads it as part of its pattern.

    Attributes:
        client: who asks, and gets the answer; of a node its name behind `NODE_CLIENT`.
        pattern: a single pattern as text, with its output if it has one.
        definitions: definitions by name that the pattern may refer to.
        consumption: `ordered` or `epoch`.
        policy: the detection policy.
        constituents: whether the events a composite event is made of are sent along.
        decomposition: what of it is to become detectors of its own: `none`, `full`, or `for-reuse`; empty for what the
            distribution policy says.
        derivations: whether it is read as part of a pattern, and has to say how each composite event came about.
        exports: variables and registers that the derivations have to hand on.
        distribution: the distribution policy, as `policies.distribution.policy.parse_policy` reads it; empty for the
            one that is set by the administration.
        hints: what the application knows that the middleware does not.
    """

    client: str
    pattern: str
    definitions: dict[str, str] = {}
    consumption: str = "ordered"
    policy: str = "guaranteed"
    constituents: bool = False
    decomposition: str = ""
    derivations: bool = False
    exports: tuple[str, ...] = ()
    distribution: str = ""
    hints: Hints = Hints()
