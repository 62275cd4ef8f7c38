"""Administration: JSON messages between clients, nodes and administrators (design, section 4).

Messages are not kept, but for the retained ones.

    <root>/a/heartbeat/<publisher>     its sources are beyond a watermark      Heartbeat
    <root>/a/alive/<kind>/<name>       the node, client or recorder is there      (empty)
    <root>/a/ack/<source>/<node>       a node, or a recorder, counts with a source   Acknowledgement
    <root>/a/filtered/<reader>/<publisher>   a publisher sends what a reader has declared   Filtered
    <root>/a/answer/<client>           the fate of subscriptions               Answers
    <root>/a/progress/<client>         its subscriptions are beyond a watermark   Progress
    <root>/a/ready/<client>            the client listens: begin               Listening
    <root>/a/fence/<source>            do not wait for a source any more       (empty)
    <root>/a/move/<detector>           move a detector to a node               MoveRequest
    <root>/a/drain/<node>              move all detectors of a node away       Drain
    <root>/a/policy/<detector>         its distribution policy, retained; of all, where the id is `default`  SetPolicy
    <root>/a/directory                 at other servers: where it is, retained  Pointer
    <root>/a/story/<asker>             the story of a detector, ...            `brokers.core.causes`
    <root>/a/identity/<asker>/<node>   a node's clock and installation         `brokers.core.identity`
    <root>/a/covered/<publisher>       a node's checkpoints cover its messages  Covered
    <root>/a/missing/source/<publisher>   to a publisher: messages that a reader lacks      Missing
    <root>/a/missing/detector          to the nodes that publish at this server: the same   Missing
    <root>/a/again/<reader>/e/<source>    to that reader: those messages, as they were      frames
    <root>/a/again/<reader>/c/<detector>
    <root>/a/lost/<reader>             to that reader: messages that are not available      Unavailable
    <root>/a/known/<participant>       barrier, to oneself after subscribing: all retained messages came before  (empty)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.wire.bounded_values import Count, Instant, Level, Name
from distced.middleware.wire.codec import declare, decode, encode
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import ROOT, administration_topic

RENEW_EVERY: Final = 30 * SECOND
"""Interval of the renewals of a participant, ns (`brokers.node.renewals`)."""


COUNTERS: Final = "counters"
"""Topic of the counters of nodes, below that of administration."""


METERED_EVERY: Final = 4 * MINUTE
"""The same of a client over a metered link, and the longest silence of its connections, ns: routers of wireless
networks forget a connection after five minutes or more."""


METERED_WATERMARKS: Final = MINUTE
"""Interval of the watermarks of detectors, without composite events, to clients over metered links alone, ns."""


def renewal(kind: str, name: str, *, root: str = ROOT) -> Publish:
    """Renewal of a participant, by the kind of its entry: it is there. Without an acknowledgement: one may be lost."""
    return Publish(administration_topic("alive", kind, name, root=root), b"", 0)


def cleared_counters(node: str, *, root: str = ROOT) -> Publish:
    """Message that clears the counters of a node."""
    return Publish(administration_topic(COUNTERS, node, root=root), b"", retain=True)


class Counters(msgspec.Struct, frozen=True):
    """Counters of a node since its start, retained beside its entry; those read them that show them."""

    counts: dict[str, Count] = {}


class Heartbeat(msgspec.Struct, frozen=True):
    """Promise of sources to publish no further event with `hi` at or before the watermark, ns.

    Attributes:
        positions: by source, for each type of its entry the number of the next message, and the greatest `hi` of all
            earlier ones, None where it is not beyond the watermark; empty for sources without numbers.
    """

    sources: tuple[str, ...]
    watermark: Instant
    positions: tuple[tuple[tuple[Count, Instant | None], ...], ...] = ()

    def without(self, sources: Collection[str]) -> Heartbeat:
        """The heartbeat for the other sources."""
        kept = [place for place, each in enumerate(self.sources) if each not in sources]
        positions = tuple(self.positions[place] for place in kept if place < len(self.positions))
        return replace(self, sources=tuple(self.sources[place] for place in kept), positions=positions)


class MissingMessages(msgspec.Struct, frozen=True):
    """Messages of one topic, from a number up to another, exclusive; None for all that there are. Where both are 0 the
    answer is the present position.

    Attributes:
        kind: `e` for events of a source, `c` for composite events of a detector.
        type: of the source's events; empty for a detector.
        source: name of the source, or id of the detector.
        life: of the detector's host (`middleware.wire.replica_streams`); 0 for the present one.
        most: number of messages sent again for this request; None for the publisher's limit.
    """

    kind: str
    source: Name
    begin: Count
    end: Count | None = None
    type: Name = ""
    life: Count = 0
    most: Count | None = None


class Missing(msgspec.Struct, frozen=True):
    """Request for messages that a reader lacks, by the name under which it gets the answer."""

    reader: Level
    messages: tuple[MissingMessages, ...]


class Unavailable(msgspec.Struct, frozen=True):
    """Messages of a topic before a number are not available (any more); also the position of the publisher.

    Attributes:
        kind, source, type, life: as of `MissingMessages`.
        before: number of the first message that is available, or of the next one; 0 where nothing is known of the life
            of a lost host.
        top: greatest `hi` of all earlier ones, ns; None for none.
        reason: as text.
        position: whether it is the position alone; nothing is lost.
        watermark: with a position the last promise of the publisher, ns; None for none.
        base: instant from which the life of a detector's host is complete, ns; None for unknown.
        ended: where that life has ended, the number after its last message, and its last watermark, ns.
    """

    kind: str
    source: Name
    before: Count
    top: Instant | None = None
    type: Name = ""
    reason: str = ""
    position: bool = False
    life: Count = 0
    base: Instant | None = None
    ended: tuple[Count, Instant] | None = None
    watermark: Instant | None = None


class Covered(msgspec.Struct, frozen=True):
    """Durable acknowledgement of a node: its checkpoints cover messages of a publisher's sources.

    Attributes:
        messages: by source and type the number of the first message that is not covered; 0 where the node does not read
            them any more. Others are as they were.
    """

    node: Name
    messages: tuple[tuple[str, str, Count], ...]


class Acknowledgement(msgspec.Struct, frozen=True):
    """Acknowledgement of a source by a node; what the source publishes at or before the watermark is late, ns."""

    watermark: Instant


class Filtered(msgspec.Struct, frozen=True):
    """Acknowledgement of a declaration by a publisher that filters: whatever its sources publish from now on is sent if
    the declaration wants it.

    Attributes:
        version: of the declaration.
        before: of the declaration of this reader that was in force up to now; 0 for none.
        lost: by type, the event time of events that were left out while the declaration was not in force, and of which
            it may want some: after the first instant, up to the second, ns.
    """

    version: Count
    before: Count = 0
    lost: dict[str, tuple[Instant, Instant]] = {}


class Answer(msgspec.Struct, frozen=True):
    """Answer to a subscription.

    Attributes:
        subscription: its name; empty for a refusal of all that the client still awaits an answer for.
        state: `offered` (the client listens and reports ready), then `active`; or `refused`; or `waiting`, where
            nothing can be found until a type that the pattern reads is back, and then `active` again.
        detector, node: serving detector, on whose topic composite events arrive, and its node.
        publishes: type of the composite events; empty without a name.
        homes: servers of the detector's topic; empty names stand for that of the directory.
        error, message: reason of a refusal, as the parts of an error, and as text; message of the wait, too.
        limited: whether it is refused for a limit: the node clears the entry, and would refuse further ones, too.
        others: further subscriptions with the same answer.
        life, number, watermark: of the detector's host, number of its next frame (`middleware.wire.replica_streams`),
            and its last watermark, ns, where it publishes at one home; 0 and None for unknown.
    """

    subscription: Name
    state: str
    detector: Name = ""
    node: Name = ""
    publishes: Name = ""
    error: dict[str, str] = {}
    message: str = ""
    homes: tuple[str, ...] = ("",)
    limited: bool = False
    others: tuple[str, ...] = ()
    life: Count = 0
    number: Count = 0
    watermark: Instant | None = None


class Answers(msgspec.Struct, frozen=True):
    """Answers of one node to subscriptions of one client, in order."""

    answers: tuple[Answer, ...]


class Progress(msgspec.Struct, frozen=True):
    """Watermark of several detectors of one node for one client, at the server where they publish.

    Attributes:
        watermark: no composite event with `hi` at or before it comes behind this message, ns.
        subscriptions: names, without the client's and the dot behind it.
        positions: of each the life of the detector's host, and the number of its next frame.
    """

    watermark: Instant
    subscriptions: tuple[str, ...]
    positions: tuple[tuple[Count, Count], ...] = ()

    @classmethod
    def of(cls, client: str, subscriptions: Iterable[tuple[str, int, int]], watermark: int) -> Progress:
        """Progress of subscriptions of a client by their names, lives and numbers."""
        prefix = f"{client}."
        names, positions = [], []
        for name, life, number in subscriptions:
            names.append(name.removeprefix(prefix))
            positions.append((life, number))
        return cls(watermark, tuple(names), tuple(positions))

    def names(self, client: str) -> Iterator[str]:
        """Names of the subscriptions."""
        return (f"{client}.{name}" for name in self.subscriptions)


class Listening(msgspec.Struct, frozen=True):
    """Subscriptions whose client listens to the detector that was offered."""

    subscriptions: tuple[str, ...]


def read_unavailable(kind: str, source: str, payload: bytes) -> Unavailable:
    """Answer about the messages of a source, or of a detector, by the topic that it came with: what it says of others
    does not count."""
    lost = decode(payload, Unavailable, where=f"lost/{kind}/{source}")
    return lost if (lost.kind, lost.source) == (kind, source) else replace(lost, kind=kind, source=source)


def join_messages(kind: str, payloads: Iterable[bytes]) -> bytes:
    """One message with what several of a kind say, in order; `answer` or `ready`."""
    if kind == "answer":
        answers = (decode(each, Answers, where=kind).answers for each in payloads)
        return encode(Answers(tuple(chain.from_iterable(answers))))
    listening = (decode(each, Listening, where=kind).subscriptions for each in payloads)
    return encode(Listening(tuple(chain.from_iterable(listening))))


class MoveRequest(msgspec.Struct, frozen=True):
    """Request to move a detector to a node."""

    node: Name


class Drain(msgspec.Struct, frozen=True):
    """Request to a node to move its detectors away, and to host no others; or, not `active`, to be as before."""

    active: bool = True


class SetPolicy(msgspec.Struct, frozen=True):
    """Distribution policy of a detector, or default (`policies.distribution.policy`); an empty payload unsets it."""

    policy: str


class Pointer(msgspec.Struct, frozen=True):
    """URL of the server of the directory, kept by nodes at the server of another site."""

    url: str


class DeadLetter(msgspec.Struct, frozen=True):
    """Unusable message, or row of its frame, kept for people.

    Attributes:
        reason: one word, by which nodes count.
        row: place in the frame; None for the whole.
        payload: in base64; cut where it is long.
    """

    reason: str
    message: str
    topic: str
    row: Count | None = None
    payload: bytes = b""


declare(
    Counters,
    Heartbeat,
    Missing,
    Unavailable,
    Covered,
    Acknowledgement,
    Filtered,
    Answers,
    Progress,
    Listening,
    MoveRequest,
    Drain,
    SetPolicy,
    Pointer,
    DeadLetter,
)
