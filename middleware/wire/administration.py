"""Administration: JSON messages in passing between clients, nodes and administrators (design, section 4).

Messages are not kept, but for the retained ones.

    <root>/a/heartbeat/<publisher>     its sources are beyond a watermark      Heartbeat
    <root>/a/ack/<source>/<node>       a node, or a recorder, counts with a source   Acknowledgement
    <root>/a/answer/<client>           the fate of a subscription              Answer
    <root>/a/ready/<subscription>      the client listens: begin               (empty)
    <root>/a/fence/<source>            do not wait for a source any more       (empty)
    <root>/a/move/<detector>           move a detector to a node               MoveRequest
    <root>/a/policy/<detector>         its distribution policy, retained; of all, where the id is `default`  SetPolicy
    <root>/a/directory                 at other servers: where it is, retained  Pointer
    <root>/a/story/<asker>             the story of a detector, ...            `brokers.core.causes`
    <root>/a/known/<participant>       barrier, to oneself after subscribing: all retained messages came before  (empty)
"""

from __future__ import annotations

import msgspec

from distced.middleware.wire.directory_entries import Instant


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


class MoveRequest(msgspec.Struct, frozen=True):
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


class Pointer(msgspec.Struct, frozen=True):
    """Pointer to the directory, kept by nodes at the server of their site where the directory is elsewhere.

    Attributes:
        url: the server of the directory, without user and password, as the nodes call it.
    """

    url: str


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
