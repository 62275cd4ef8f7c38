"""What clients and broker nodes say to each other beside events: the directory and administration (design, section 4).

The directory is retained messages and needs no server of its own; an entry is cleared by an empty payload, and a node's
or a client's by its last will. Administration is messages in passing. All are JSON, so that any MQTT tool shows them to
people; events, which are many, travel as frames (`middleware.wire.frames`).

There may be several MQTT servers, one for each site. The directory and administration are at home on one of them, the
topics of events each on one of its own, and heartbeats where their sources are. Entries name a server by its URL, and
that of the directory by an empty string.

    <root>/d/type/<name>               an event type, and its home server      EventType
    <root>/d/client/<name>             a client that is there                  ClientEntry
    <root>/d/source/<source>           who publishes what, and its lease       SourceEntry
    <root>/d/node/<node>               a broker node, its load and counters    NodeEntry
    <root>/d/detector/<id>             a detector, where it is                 DetectorEntry
    <root>/d/subscription/<id>         what a client wants to have detected    SubscriptionEntry
    <root>/d/load/<node>               what a node has to do                   LoadEntry
    <root>/d/recorder/<name>           who records events                      RecorderEntry
    <root>/d/topology/<name>           the network                             TopologyEntry
    <root>/d/hint/<id>                 where a detector had better stand       HintEntry
    <root>/a/heartbeat/<publisher>     its sources are beyond a watermark      Heartbeat
    <root>/a/ack/<source>/<node>       a node, or a recorder, counts with a source   Acknowledgement
    <root>/a/answer/<client>           what became of a subscription           Answer
    <root>/a/ready/<subscription>      the client listens: begin               (empty)
    <root>/a/fence/<source>            do not wait for a source any more       (empty)
    <root>/a/move/<detector>           have a detector moved to a node         Move
    <root>/a/policy/<detector>         its distribution policy, retained; of all, where the id is `default`  SetPolicy
    <root>/a/directory                 at other servers: where it is, retained  `middleware.bus.pool.Pointer`
    <root>/a/node/<node>/serve/<subscription>   see to a subscription          (empty)
    <root>/a/node/<node>/host/<subscription>    host a detector for it         Hosting
    <root>/a/node/<node>/served/<subscription>  it is seen to                  Served
    <root>/a/node/<node>/prepare/<detector>     get ready for a detector       Arrival
    <root>/a/node/<node>/listening/<detector>   who gets it listens already    (empty)
    <root>/a/node/<node>/state/<detector>       it is yours                    State
    <root>/a/node/<node>/refused/<detector>     it cannot be                   Refusal
    <root>/a/node/<node>/called-off/<detector>  it does not come after all     (empty)
    <root>/a/node/<node>/copied/<detector>      a copy is at work here         (empty)
    <root>/a/known/<who>               to oneself, after subscribing: what was retained has come before it      (empty)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from distced.middleware.model.errors import FrameError
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
    """What is told a second.

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
        exports: the variables and registers that its records hand on.
        home: the home server of its topic; empty for that of the directory. It stays when the detector moves.
        copies: further nodes that host the same detector in the same state, and the home servers they publish at.
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
    copies: dict[str, str] = {}
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
        records: whether it is read as part of a pattern, and has to say how each composite event came about.
        exports: variables and registers that the records have to hand on.
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
    records: bool = False
    exports: tuple[str, ...] = ()
    distribution: str = ""
    hints: Hints = Hints()


class Heartbeat(msgspec.Struct, frozen=True):
    """Sources have come beyond a watermark.

    Attributes:
        sources: their names.
        watermark: none of them will publish an event with `hi` at or before this, ns.
    """

    sources: tuple[str, ...]
    watermark: Instant


class Acknowledgement(msgspec.Struct, frozen=True):
    """A node counts with a source.

    Attributes:
        watermark: how far its detectors are; what the source publishes at or before this is late, ns.
    """

    watermark: Instant


class Answer(msgspec.Struct, frozen=True):
    """What became of a subscription.

    Attributes:
        subscription: its id.
        state: `offered`, and the client has to listen and say that it is ready; then `active`; or `refused`.
        detector: the detector that serves it; its composite events come on this topic.
        node: where that is.
        publishes: the type of the composite events; empty without a name.
        homes: the servers where the detector's topic is to be listened to; empty names stand for that of the directory.
        error: why it was refused, as the parts of an error.
        message: the same for people.
    """

    subscription: str
    state: str
    detector: str = ""
    node: str = ""
    publishes: str = ""
    error: dict[str, str] = {}
    message: str = ""
    homes: tuple[str, ...] = ("",)


class Move(msgspec.Struct, frozen=True):
    """A detector is to be moved.

    Attributes:
        node: where to.
    """

    node: str


class SetPolicy(msgspec.Struct, frozen=True):
    """The distribution policy of a detector, or of all that ask for none, is set; an empty payload unsets it.

    Attributes:
        policy: a name or three words, as `policies.distribution.policy.parse_policy` reads them.
    """

    policy: str


class Cut(msgspec.Struct, frozen=True):
    """A place where a pattern was cut, and what is delegated there.

    Attributes:
        path, run: the node of the canonical tree, or of a joint the run of parts.
        detector, source, key, bound, counted, repeats: as of `middleware.patterns.tree.Delegated`.
    """

    path: tuple[int, ...]
    run: tuple[int, int] | None
    detector: str
    source: str
    key: tuple[str, ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    counted: tuple[tuple[str, str], ...] = ()
    repeats: bool = False


class Arrival(msgspec.Struct, frozen=True):
    """A detector is about to come to a node.

    Attributes:
        origin: the node that hosts it so far.
        asked: the subscription that asked for it.
        cuts: where its pattern was cut.
        parts: what is subscribed to for it, by the id of the part's detector.
        home: the home server of its topic.
        copy: whether the detector stays at the origin, too, and what comes is a copy, which publishes at its own site.
        number: of the motion; tells two of one origin apart.
        reads: by detector that it reads, the homes where the origin listens.
    """

    origin: str
    asked: SubscriptionEntry
    cuts: tuple[Cut, ...] = ()
    parts: dict[str, SubscriptionEntry] = {}
    home: str = ""
    copy: bool = False
    number: int = 0
    reads: dict[str, tuple[str, ...]] = {}


class Hosting(msgspec.Struct, frozen=True):
    """A node is to host a detector.

    Attributes:
        asked: the subscription that asks for it.
        cuts: where its pattern is cut.
        parts: what is to be subscribed to for it, by the id of the part's detector.
        home: the home server of its topic.
        expected: what it is expected to do.
    """

    asked: SubscriptionEntry
    cuts: tuple[Cut, ...] = ()
    parts: dict[str, SubscriptionEntry] = {}
    home: str = ""
    expected: Measured | None = None


class Served(msgspec.Struct, frozen=True):
    """A subscription is served.

    Attributes:
        node: by whom.
        detector: the detector.
    """

    node: str
    detector: str


class State(msgspec.Struct, frozen=True):
    """The whole state of a detector.

    Attributes:
        snapshot: of the detector, compressed by zlib.
        subscriptions: the ids of those it serves, and whether their clients listen.
        copies: the nodes that host copies of it, and where these publish.
        near: by subscription, the node whose copy it listens to.
        constituents, records: what is sent along with its composite events.
    """

    snapshot: bytes
    subscriptions: dict[str, bool]
    copies: dict[str, str] = {}
    near: dict[str, str] = {}
    constituents: bool = False
    records: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """A node does not take a detector.

    Attributes:
        message: why.
    """

    message: str


class DeadLetter(msgspec.Struct, frozen=True):
    """Something that could not be used, kept for people to look at.

    Attributes:
        reason: one word, by which nodes count.
        message: what was wrong.
        topic: where it came from.
        row: its place in the frame; None for the whole.
        payload: what came, in base64; cut where it is long.
    """

    reason: str
    message: str
    topic: str
    row: int | None = None
    payload: bytes = b""


_T = TypeVar("_T")

encode = msgspec.json.Encoder().encode


def decode(payload: bytes, kind: type[_T], *, where: str) -> _T:
    """A message of this kind, or a `FrameError` that names the topic."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            f"no {kind.__name__}", given=bytes(payload[:80]), allowed=f"JSON: {error}", where=where
        ) from None
