"""Administration: JSON messages between clients, nodes and administrators (design, section 4).

Messages are not kept, but for the retained ones.

    <root>/a/heartbeat/<publisher>     its sources are beyond a watermark      Heartbeat
    <root>/a/ack/<source>/<node>       a node, or a recorder, counts with a source   Acknowledgement
    <root>/a/answer/<client>           the fate of subscriptions               Answers
    <root>/a/progress/<client>         its subscriptions are beyond a watermark   Progress
    <root>/a/ready/<client>            the client listens: begin               Listening
    <root>/a/fence/<source>            do not wait for a source any more       (empty)
    <root>/a/move/<detector>           move a detector to a node               MoveRequest
    <root>/a/policy/<detector>         its distribution policy, retained; of all, where the id is `default`  SetPolicy
    <root>/a/directory                 at other servers: where it is, retained  Pointer
    <root>/a/story/<asker>             the story of a detector, ...            `brokers.core.causes`
    <root>/a/known/<participant>       barrier, to oneself after subscribing: all retained messages came before  (empty)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from distced.middleware.wire.codec import declare, decode, encode
from distced.middleware.wire.directory_entries import Instant


class Heartbeat(msgspec.Struct, frozen=True):
    """Promise of sources to publish no further event with `hi` at or before the watermark, ns."""

    sources: tuple[str, ...]
    watermark: Instant


class Acknowledgement(msgspec.Struct, frozen=True):
    """Acknowledgement of a source by a node; what the source publishes at or before the watermark is late, ns."""

    watermark: Instant


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
    """

    subscription: str
    state: str
    detector: str = ""
    node: str = ""
    publishes: str = ""
    error: dict[str, str] = {}
    message: str = ""
    homes: tuple[str, ...] = ("",)
    limited: bool = False
    others: tuple[str, ...] = ()


class Answers(msgspec.Struct, frozen=True):
    """Answers of one node to subscriptions of one client, in order."""

    answers: tuple[Answer, ...]


class Progress(msgspec.Struct, frozen=True):
    """Watermark of several detectors of one node for one client, at the server where they publish.

    Attributes:
        watermark: no composite event with `hi` at or before it comes behind this message, ns.
        subscriptions: names, without the client's and the dot behind it.
    """

    watermark: Instant
    subscriptions: tuple[str, ...]

    @classmethod
    def of(cls, client: str, subscriptions: Iterable[str], watermark: int) -> Progress:
        """Progress of subscriptions of a client by their names."""
        prefix = f"{client}."
        return cls(watermark, tuple([name.removeprefix(prefix) for name in subscriptions]))

    def names(self, client: str) -> Iterator[str]:
        """Names of the subscriptions."""
        return (f"{client}.{name}" for name in self.subscriptions)


class Listening(msgspec.Struct, frozen=True):
    """Subscriptions whose client listens to the detector that was offered."""

    subscriptions: tuple[str, ...]


def join_messages(kind: str, payloads: Iterable[bytes]) -> bytes:
    """One message with what several of a kind say, in order; `answer` or `ready`."""
    if kind == "answer":
        answers = (decode(each, Answers, where=kind).answers for each in payloads)
        return encode(Answers(tuple(chain.from_iterable(answers))))
    listening = (decode(each, Listening, where=kind).subscriptions for each in payloads)
    return encode(Listening(tuple(chain.from_iterable(listening))))


class MoveRequest(msgspec.Struct, frozen=True):
    """Request to move a detector to a node."""

    node: str


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
    row: int | None = None
    payload: bytes = b""


declare(Heartbeat, Acknowledgement, Answers, Progress, Listening, MoveRequest, SetPolicy, Pointer, DeadLetter)
