"""Messages from node to node, under `<root>/a/node/<node>/` of the receiver: JSON (design, section 4).

Topics are those of the receiving node; its answer goes to the sender's.

    serve/<subscription>      coordinate a subscription                  (empty)
    host/<subscription>       host a detector for it                     Hosting
    served/<subscription>     it is served                               Served
    prepare/<detector>        get ready for a detector                   Arrival
    listening/<detector>      the receiver listens already               (empty)
    state/<detector>          the detector with its state                DetectorState
    refused/<detector>        the detector is not taken                  Refusal
    called-off/<detector>     the detector does not come after all       (empty)
    replicated/<detector>         a replica is at work here                  (empty)
    lacking/<detector>        no replica where the directory names one   Lacking
"""

from __future__ import annotations

import msgspec

from distced.middleware.wire.directory_entries import Measured, SubscriptionEntry


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
        replica: whether a replica arrives, which publishes at its own site, and the detector stays at the origin.
        number: of the motion; tells two of one origin apart.
        reads: by detector that it reads, the homes where the origin listens.
    """

    origin: str
    asked: SubscriptionEntry
    cuts: tuple[Cut, ...] = ()
    parts: dict[str, SubscriptionEntry] = {}
    home: str = ""
    replica: bool = False
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


class DetectorState(msgspec.Struct, frozen=True):
    """The whole state of a detector.

    Attributes:
        snapshot: of the detector, compressed by zlib.
        subscriptions: the ids of those it serves, and whether their clients listen.
        replicas: the nodes that host replicas of it, and where these publish.
        near: by subscription, the node whose replica it listens to.
        constituents, derivations: what is sent along with its composite events.
    """

    snapshot: bytes
    subscriptions: dict[str, bool]
    replicas: dict[str, str] = {}
    near: dict[str, str] = {}
    constituents: bool = False
    derivations: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """A node does not take a detector.

    Attributes:
        message: why.
    """

    message: str


class Lacking(msgspec.Struct, frozen=True):
    """A node without the replica that a detector's entry names there; the primary removes it, and may make it again.

    Attributes:
        node: the sender.
    """

    node: str
