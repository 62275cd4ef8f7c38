"""Messages from node to node, under `<root>/a/node/<node>/` of the receiver: JSON (design, section 4).

Topics are those of the receiving node; its answer goes to the sender's.

    serve/<subscription>      coordinate a subscription                  (empty)
    host/<subscription>       host a detector for it                     Hosting
    served/<subscription>     it is served                               Served
    prepare/<detector>        get ready for a detector                   Arrival
    listening/<detector>      the sender listens already                 Step
    state/<detector>          the detector with its state                DetectorState
    refused/<detector>        the detector is not taken                  Refusal
    called-off/<detector>     the detector does not come after all       Step
    replicated/<detector>     a replica runs at the sender               Step
    lacking/<detector>        no replica where the directory names one   Lacking
"""

from __future__ import annotations

import msgspec

from distced.middleware.wire.bounded_values import Count, Instant, Level
from distced.middleware.wire.codec import declare
from distced.middleware.wire.directory_entries import Measured, SubscriptionEntry
from distced.middleware.wire.numbered_stream import Loss


class Cut(msgspec.Struct, frozen=True):
    """Cut of a pattern: node of the canonical tree, or run of parts of a joint, and what is delegated there.

    Other fields are those of `middleware.patterns.tree.Delegated`.
    """

    path: tuple[Count, ...]
    run: tuple[Count, Count] | None
    detector: Level
    source: str
    key: tuple[str, ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    counted: tuple[tuple[str, str], ...] = ()
    repeats: bool = False


class Arrival(msgspec.Struct, frozen=True):
    """Announcement of a detector that comes to a node.

    Attributes:
        origin: its host so far.
        asked: the subscription that asked for it.
        cuts, parts: cuts of its pattern, and the subscriptions for them, by the id of the part's detector.
        home: home server of its topic.
        replica: whether the detector stays at the origin and a replica comes, which publishes at its own site.
        number: of the motion; distinguishes two of one origin.
        reads: by detector that it reads, the homes where the origin listens.
        json: where its composite events leave as JSON: home servers and topics.
    """

    origin: Level
    asked: SubscriptionEntry
    cuts: tuple[Cut, ...] = ()
    parts: dict[str, SubscriptionEntry] = {}
    home: str = ""
    replica: bool = False
    number: Count = 0
    reads: dict[str, tuple[str, ...]] = {}
    json: tuple[tuple[str, str], ...] = ()


class Hosting(msgspec.Struct, frozen=True):
    """Request to host a detector, for the subscription `asked`.

    Attributes:
        cuts, parts: cuts of its pattern, and the subscriptions for them, by the id of the part's detector.
        home: home server of its topic.
        expected: expected load and traffic.
    """

    asked: SubscriptionEntry
    cuts: tuple[Cut, ...] = ()
    parts: dict[str, SubscriptionEntry] = {}
    home: str = ""
    expected: Measured | None = None


class Served(msgspec.Struct, frozen=True):
    """Report that a node serves a subscription, by a detector."""

    node: Level
    detector: Level


class Step(msgspec.Struct, frozen=True):
    """Step of a motion without other content; `number`: of the motion, from its `Arrival`. Steps of a motion that was
    given up may arrive during the next one."""

    number: Count


class KeptFrame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Frame kept for durable subscriptions.

    Attributes:
        top, reach: greatest `hi` of all composite events before it, and up to it, ns; None for none.
        events: number of its composite events.
        at: its publication, ns.
    """

    payload: bytes
    top: Instant | None
    reach: Instant | None
    events: Count
    at: Instant


class KeptRun(msgspec.Struct, frozen=True):
    """Kept frames of one life of a detector's host in a row, and the number of the first one."""

    life: Count
    first: Count
    frames: tuple[KeptFrame, ...]


class HandedOn(msgspec.Struct, frozen=True):
    """Output of a detector up to its move (`brokers.node.output_streams`).

    Attributes:
        life, number, watermark, base: of the host so far, number of its next frame, and its last watermark, ns; None
            for none; and the instant from which it is complete, ns; None for unknown.
        first, frames: its last frames, and the number of the first one.
        top: greatest `hi` of all composite events before these, ns; None for none.
        losses: that concern composite events to come.
        before: the same of earlier hosts.
        kept: frames that are kept for durable subscriptions.
    """

    life: Count
    number: Count
    watermark: Instant | None = None
    first: Count = 1
    frames: tuple[bytes, ...] = ()
    top: Instant | None = None
    losses: tuple[Loss, ...] = ()
    before: tuple[HandedOn, ...] = ()
    base: Instant | None = None
    kept: tuple[KeptRun, ...] = ()


class DetectorState(msgspec.Struct, frozen=True):
    """Whole state of a detector.

    Attributes:
        number: of the motion.
        snapshot: compressed by zlib.
        subscriptions: ids of those it serves, and whether their clients listen.
        replicas: hosts of its replicas, and where these publish.
        near: by subscription, the node whose replica it listens to.
        constituents, derivations: whether these are sent along with its composite events.
        generation: number of the primary that sends it (`DetectorEntry`).
        output: what it has published.
        reads: numbers of the streams that it reads, by detector and home (`Streams.state`).
    """

    number: Count
    snapshot: bytes
    subscriptions: dict[str, bool]
    replicas: dict[str, str] = {}
    near: dict[str, str] = {}
    constituents: bool = False
    derivations: bool = False
    generation: Count = 0
    output: HandedOn = HandedOn(0, 1)
    reads: dict[str, dict[str, tuple[tuple[Count, Count, Instant | None], ...]]] = {}


class Refusal(msgspec.Struct, frozen=True):
    """Refusal of a detector by a node, with the number of the motion and the reason."""

    number: Count
    message: str


class Lacking(msgspec.Struct, frozen=True):
    """Report of a node without the replica that a detector's entry names there; the primary drops or remakes it."""

    node: Level


declare(Arrival, Hosting, Served, Step, DetectorState, Refusal, Lacking)
