"""Entries of the directory: retained JSON messages, each under a topic of its own (design, section 4).

An entry is cleared by an empty payload, and a node's or a client's by its last will. JSON was preferred to frames: any
MQTT tool shows entries to people. There may be an MQTT server for each site: the directory and administration are at
home on one of them, the topics of events each on one of its own, and heartbeats where their sources are. Entries name a
server by its URL, and that of the directory by an empty string (`home`).

    <root>/d/type/<name>               an event type, and its home server      EventType
    <root>/d/client/<name>             a client that is connected              ClientEntry
    <root>/d/source/<source>           a source, its publisher and its lease   SourceEntry
    <root>/d/node/<node>               a broker node, its counters             NodeEntry
    <root>/d/detector/<id>             a detector, and its node                DetectorEntry
    <root>/d/detector/<type>/<id>      the same, one that publishes a type
    <root>/d/subscription/<client>/<n> the subscription <client>.<n>           SubscriptionEntry
    <root>/d/load/<node>               the load of a node                      LoadEntry
    <root>/d/sample/<node>             values of the events that a node reads  SampleEntry
    <root>/d/recorder/<name>           a recorder of events                    RecorderEntry
    <root>/d/reader/<kind>:<name>      what a participant reads, for sources   ReaderEntry
    <root>/d/topology/<name>           the network                             TopologyEntry
    <root>/d/hint/<id>                 where a detector should be placed       HintEntry
    <root>/d/exclusion/<id>            a detector that no node hosts           ExclusionEntry
    <root>/d/durable/<subscription>    what is kept for a durable subscription   DurableEntry
    <root>/d/position/<subscription>   what its application has taken          PositionEntry
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from distced.middleware.model.events import Attribute
from distced.middleware.model.published_types import PublishedType
from distced.middleware.model.timestamps import HOUR
from distced.middleware.sets.wanted import Test
from distced.middleware.wire.bounded_values import Count, Instant, Level, Name

NODE_CLIENT: Final = "node:"
"""How a node's name begins where it is a client of other nodes; no application is called so."""


RULES_CLIENT: Final = "rule:"
"""How the client of rules begins in their entries; no application is called so."""

MAX_MESSAGE: Final = 2**20
"""Bytes of a message of a client that nodes read unless they say otherwise: what it unpacks to takes some 40 MB, and a
tenth of a second at most."""

MAX_AHEAD: Final = HOUR
"""Instants beyond a clock that are accepted, ns: clocks differ by seconds, those of devices by minutes."""

RECORDER: Final = "recorder:"  # prefix of a recorder's name beside names of nodes


class ClientEntry(msgspec.Struct, frozen=True):
    """Client connected since an instant, ns. Its subscriptions are cleared a while after it has gone.

    Attributes:
        declares: whether it declares the events that it reads, for sources that filter; without a `ReaderEntry` it
            reads none.
        renews: interval of its renewals, ns; 0 for `administration.RENEW_EVERY`.
    """

    since: Instant
    home: str = ""
    declares: bool = False
    renews: Count = 0


class SourceEntry(msgspec.Struct, frozen=True):
    """Source of events.

    Attributes:
        types: names of the types it publishes.
        watermark: no further event has `hi` at or before this, ns.
        lease: longest silence before it is fenced off, ns; 0 for ever.
        publisher: client that publishes it.
        home: home server of its topics and heartbeats.
        first: number of its first message of each type (`middleware.wire.numbered_stream`); 0 where they have none.
        resumed: microsecond at which another process has continued this life; 0 for none. Readers to which the source
            is new ask for its position.
        filters: whether its publisher leaves out events that nobody has declared to read
            (`middleware.wire.source_filter`).
    """

    types: tuple[Level, ...]
    watermark: Instant
    lease: Count = 0
    publisher: Name = ""
    home: str = ""
    first: Count = 0
    resumed: Count = 0
    filters: bool = False

    def __post_init__(self) -> None:
        if not self.publisher and (self.home or self.first):
            # Its heartbeats, and requests for its messages, have a topic with that name.
            raise ValueError("a source with a home, or with numbered messages, and no publisher")


class AttributeValues(msgspec.Struct, frozen=True, array_like=True):
    """Distribution of the values of an attribute over a sample of events.

    Attributes:
        common: shares of the most frequent values, by `value_key`; all shares add up to 1.
        others: number of other values.
        quantiles: least value, deciles and greatest value of numbers where not all are common; else empty.
        numbers: share of the values that are numbers.
    """

    common: dict[str, float] = {}
    others: Count = 0
    quantiles: tuple[float, ...] = ()
    numbers: float = 0.0


class TypeValues(msgspec.Struct, frozen=True, array_like=True):
    """Distribution of the values of a type's attributes; `sample`: number of events looked at."""

    sample: Count = 0
    attributes: dict[str, AttributeValues] = {}


def value_key(value: Attribute) -> str:
    """Key of a value among common ones: of a text the digest, as more may read the directory than the events."""
    if isinstance(value, str):
        # Texts that differ far behind are one value.
        return "#" + blake2b(value[:1000].encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    # 1 and 1.0 are one value.
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 2**63)
    return str(int(value)) if whole else repr(value)


class SampleEntry(msgspec.Struct, frozen=True):
    """Distribution of attribute values of the events that a node reads, by type; other nodes read it."""

    types: dict[str, TypeValues] = {}


class NodeEntry(msgspec.Struct, frozen=True):
    """Broker node.

    Attributes:
        since: start, ns; with the name it distinguishes lives of a node.
        detectors: number it hosts.
        counts: events consumed, composite events, late events, dead letters by reason, and so on; empty in the message,
            as all clients read it, and they change all the time: `administration.Counters` has them.
        capacity: instances it can touch a second; 0 for unknown.
        isolates: whether it can start a node at its site for a detector in a process of its own.
        reserved: detector it was started for, the only one it hosts; empty for any.
        max_ahead: events and promises further beyond its clock are rejected, ns.
        draining: whether its detectors move away, and none come.
        history: whether it reads a history, for subscriptions with an origin.
        max_message: bytes of a client's message that it reads at most.
    """

    since: Instant
    detectors: Count = 0
    counts: dict[str, Count] = {}
    home: str = ""
    capacity: float = 0.0
    isolates: bool = False
    reserved: Name = ""
    max_ahead: Count = MAX_AHEAD
    draining: bool = False
    max_message: Count = MAX_MESSAGE
    history: bool = False

    @property
    def common(self) -> bool:
        """Whether it hosts any detector, now and later."""
        return not self.reserved and not self.draining


class RecorderEntry(msgspec.Struct, frozen=True):
    """Recorder of a history, up since an instant, ns; of these types, None for all. Sources wait for it."""

    since: Instant
    types: tuple[str, ...] | None = None
    home: str = ""


class ReaderEntry(msgspec.Struct, frozen=True):
    """Declaration of the primitive events that a node, client or recorder reads, for sources that leave out others.

    Attributes:
        version: greater with each change.
        life: first version of the reader's process.
        types: by type conjunctions of tests of attributes, one of which holds of each event that is read
            (`middleware.sets.wanted`); None for all events of all types.
    """

    version: Count
    life: Count
    types: dict[str, tuple[dict[str, Test], ...]] | None = None


class Measured(msgspec.Struct, frozen=True, gc=False):
    """Recent load and traffic of a detector, measured by the node that hosts it.

    Attributes:
        load: instances touched a second.
        rate, size: composite events a second, and bytes a second of their frames, heartbeats included.
        inputs, events: bytes a second by input (sources by name, other detectors by id), and events a second of all
            inputs.
        state: bytes of its state, which a move would carry.
        delay: from the last event of a match to the detection, ns on average; 0 without matches.
        engine: the one in use; empty for unknown.
    """

    load: float = 0.0
    rate: float = 0.0
    size: float = 0.0
    inputs: dict[str, float] = {}
    events: float = 0.0
    state: Count = 0
    delay: Count = 0
    engine: str = ""


class LoadEntry(msgspec.Struct, frozen=True):
    """Load of a broker node.

    Attributes:
        load: instances touched a second, by all its detectors.
        detectors: what each does; of very many those with the greatest loads.
        latencies: half round trips to servers, ns, by home.
        others: number of detectors that are left out.
        behind: age of the oldest message that the node has not consumed, ns; 0 for less than a second.
        waiting: number of messages about the directory, and of requests, that wait in the node.
        silent: sources that detectors of the node wait for, with their last message, ns, by its clock.
    """

    load: float = 0.0
    detectors: dict[str, Measured] = {}
    latencies: dict[str, Count] = {}
    others: Count = 0
    behind: Count = 0
    waiting: Count = 0
    silent: dict[str, Instant] = {}


class TopologyEntry(msgspec.Struct, frozen=True):
    """Network, as a topology in TOML (`policies.topology.topology_file`)."""

    text: str


class OutputTraffic(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of payloads and topics, and messages, a second."""

    size: float = 0.0
    often: float = 0.0


class Foreseen(msgspec.Struct, frozen=True):
    """Load and traffic of a detector, estimated from a history, without a run.

    Attributes:
        rate: composite events a second.
        quiet, loud, part: output traffic with applications as the only readers, with detectors that read its named
            events, and with detectors that read it as a part.
        loads: instances touched a second, by the parts it reads (`parts_key`).
    """

    rate: float
    quiet: OutputTraffic
    loud: OutputTraffic
    part: OutputTraffic
    loads: dict[str, float] = {}

    def output(self, *, part: bool, read: bool) -> OutputTraffic:
        """Output traffic, by its readers."""
        return self.part if part else self.loud if read else self.quiet

    def load(self, parts: Iterable[str]) -> float | None:
        """Load of the detector when it reads these parts; None for unknown."""
        return self.loads.get(parts_key(parts))


def parts_key(parts: Iterable[str]) -> str:
    """Key of a set of parts in `Foreseen.loads`: ids, sorted, apart by blanks; empty for none."""
    return " ".join(sorted(parts))


class HintEntry(msgspec.Struct, frozen=True):
    """Result of placement analysis for a detector, for the nodes that place it.

    Attributes:
        nodes: recommended nodes; empty for any.
        parts: ids of the detectors it should read as parts; None for any.
        foreseen: expected load and traffic until these are measured.
    """

    nodes: tuple[str, ...] = ()
    parts: tuple[str, ...] | None = None
    foreseen: Foreseen | None = None


class ExclusionEntry(msgspec.Struct, frozen=True):
    """Detector that no node hosts for a time, as it was beyond the limits of one, or was lost with several.

    Attributes:
        at: when a node wrote this, ns.
        node: that node, or the one lost last.
        pattern: of the detector, as text; empty for unknown.
        reason: as a sentence; empty for a detector that is only suspected, and may be hosted.
        error: the parts of the error, for applications.
        lost: number of nodes lost while it ran there.
    """

    at: Instant
    node: Name
    pattern: str = ""
    reason: str = ""
    error: dict[str, str] = {}
    lost: Count = 0


class DetectorEntry(msgspec.Struct, frozen=True, gc=False):
    """Detector.

    Attributes:
        node: its host.
        reads: types it reads; None for all.
        policy, distribution: its detection policy, and its distribution policy.
        publishes, attributes: type of its composite events, empty without a name, and the known kinds of their
            attributes.
        undetermined: attributes of its composite events whose kind its pattern leaves open.
        subscriptions: number it serves.
        parts: ids of the detectors it reads as parts of its pattern.
        exports: variables and registers that its derivations hand on.
        home: home server of its topic, constant when the detector moves.
        replicas: further hosts of the same detector in the same state, and the home servers they publish at.
        readers: number of connections that listen to its topic, by home.
        expected: expected load and traffic at its placement, until these are measured.
        json: where its composite events leave as JSON: home servers and topics.
        waits: why it can find nothing for the time being; empty where it is complete.
        generation: number of the primary; a later one has a greater number, and its entry is the valid one.
        life: of its output, or the number that it begins behind; that of the next host is greater.
    """

    node: Level
    pattern: str
    policy: str
    reads: tuple[Level, ...] | None
    publishes: Name = ""
    attributes: dict[str, str] = {}
    subscriptions: Count = 0
    parts: tuple[Level, ...] = ()
    exports: tuple[str, ...] = ()
    home: str = ""
    replicas: dict[Level, str] = {}
    distribution: str = ""
    readers: dict[str, Count] = {}
    expected: Measured | None = None
    json: tuple[tuple[str, Level], ...] = ()
    waits: str = ""
    generation: Count = 0
    life: Count = 0
    undetermined: tuple[str, ...] = ()

    @property
    def published(self) -> PublishedType:
        """The type of its composite events."""
        return PublishedType(self.publishes, self.attributes, frozenset(self.undetermined))  # type: ignore[arg-type]


class Hints(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Knowledge of an application about its subscription.

    Attributes:
        nodes, avoid: nodes permitted for detectors, empty for all, and nodes excluded.
        rates: by event type, expected events a second, where nothing has been measured.
        selectivity: of the whole pattern: composite events for each event that it reads; None for unknown.
        isolated: whether the detector wants a process of its own.
    """

    nodes: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    rates: dict[str, float] = {}
    selectivity: float | None = None
    isolated: bool = False


NO_HINTS: Final = Hints()


class Durable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Terms of a durable subscription, which stays while no client reads it.

    Attributes:
        name: under which applications resume it.
        keep_for: longest absence of a client until it ends, ns; 0 for ever.
        keep_bytes: limit of its kept frames; 0 for none kept.
        home: server of the site of its client.
        away: since when no application reads it, by the farewell of the last one, ns; 0 while one does.
        rules: name of the rules that it is one of, which nobody reads; empty for a subscription of applications.
    """

    name: str
    keep_for: Count = 0
    keep_bytes: Count = 0
    home: str = ""
    away: Instant = 0
    rules: str = ""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Origin of a subscription: recorded events that its detector consumes before live ones.

    Attributes:
        since: least `hi` of the recorded events, ns; None for the begin of the recording.
        of: the subscription; its detector serves no other one, which would lack what was found before.
    """

    since: Instant | None
    of: str


class SubscriptionEntry(msgspec.Struct, frozen=True, gc=False):
    """Subscription of a client, or of a node for a detector that reads it as part of its pattern.

    Attributes:
        client: receiver of answers; of a node its name behind `NODE_CLIENT`.
        pattern, definitions: a single pattern as text, with any output, and named patterns that it may refer to.
        consumption: `ordered` or `epoch`.
        policy: the detection policy.
        constituents: whether constituents of a composite event are sent along.
        decomposition: `none`, `full`, or `for-reuse`; empty for that of the distribution policy.
        derivations, exports: whether derivations are needed, as of a part, and the variables and registers they hand
            on.
        distribution: the distribution policy (`policies.distribution.policy.parse_policy`); empty for the
            administration's.
        publish_json: topic of its composite events as JSON, at the home of the client; empty for that in the pattern.
        again: whether it is published again, as the server has forgotten it: it waits for types that are not back yet.
        durable: its terms where it is durable; None for a subscription that ends with its client.
        quiet: interval of watermarks, without composite events, that is enough for its client, ns; 0 for the default.
        origin: recorded events that come first; None for live ones only.
        language, query: language of the pattern, which nodes translate, and the query of it that is meant; empty for
            the core language, and for the only one.
    """

    client: Level
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
    publish_json: str = ""
    again: bool = False
    durable: Durable | None = None
    quiet: Count = 0
    origin: Origin | None = None
    language: str = ""
    query: str = ""


class DurableEntry(msgspec.Struct, frozen=True):
    """State of a durable subscription, by the node that serves it.

    Attributes:
        node, detector: that serve it.
        away: since when no client reads it, ns; 0 while one does.
        frames, events, size: kept frames, their composite events, and bytes.
        oldest: publication of the oldest kept frame, ns; 0 for none.
        dropped: composite events that were dropped beyond the limit of bytes.
        found: of a rule: composite events since its detector began on this node.
        ended: when it was ended, as its client was away for too long, ns; 0 where it was not. Its name is kept for a
            while, for the client's return.
        reason: why it was ended; of a rule, and of one that no client reads, why it waits.
    """

    node: Name
    detector: Name = ""
    away: Instant = 0
    frames: Count = 0
    events: Count = 0
    size: Count = 0
    oldest: Instant = 0
    dropped: Count = 0
    found: Count = 0
    ended: Instant = 0
    reason: str = ""


class PositionEntry(msgspec.Struct, frozen=True):
    """Position up to which the application of a durable subscription has taken its composite events.

    Attributes:
        at: by the client's clock, ns.
        lives: lives of hosts of its detector: their numbers, those of the next frames, their watermarks, ns; None for
            none (`middleware.wire.replica_streams`).
        ids: sequence numbers, in hexadecimal, of composite events beyond these that it has taken, too, as of a frame
            that it has taken in part.
        ended: why the subscription had ended behind it, as long as no application has taken that loss; empty for not.
    """

    at: Instant
    lives: tuple[tuple[Count, Count, Instant | None], ...] = ()
    ids: tuple[str, ...] = ()
    ended: str = ""


class SubscriptionHead(msgspec.Struct, frozen=True, gc=False):
    """Part of a subscription's entry that decides whether it is refused, read before the rest is decoded."""

    client: Level
    pattern: str
    definitions: dict[str, str] = {}
    language: str = ""
    query: str = ""
