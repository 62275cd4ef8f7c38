"""Checkpoint of a detector as bytes: what it takes along on a move, in a store that outlives its node.

Versioned msgpack with a checksum, as snapshots (`detectors.snapshot_format`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.detectors.snapshot_format import seal, unseal
from distced.middleware.model.errors import SnapshotError
from distced.middleware.wire.directory_entries import SubscriptionEntry
from distced.middleware.wire.node_messages import Cut, HandedOn

FORMAT: Final = "distced checkpoint"
POLICY_FORMAT: Final = "distced policy"
VERSION: Final = 1


class Checkpoint(msgspec.Struct, frozen=True):
    """Checkpoint of a detector.

    Attributes:
        at: instant, by the clock of its host, ns.
        cuts, parts: cuts of its pattern, and the subscriptions for them, by the id of the part's detector.
        snapshot: `Detector.snapshot`, without its policy.
        upstream: detectors that it reads by the type of their composite events, with that type.
        policy: state of its policy, packed; detectors of one input share it.
        subscriptions: ids of those it serves.
        constituents, derivations: whether these are sent along with its composite events.
        output: what it has published.
        reads: numbers of the streams that it reads, by detector and home (`Streams.state`).
    """

    at: int
    cuts: tuple[Cut, ...]
    parts: dict[str, SubscriptionEntry]
    snapshot: bytes
    subscriptions: tuple[str, ...]
    constituents: bool
    derivations: bool
    output: HandedOn
    reads: dict[str, dict[str, tuple[tuple[int, int, int | None], ...]]]
    upstream: dict[str, str] = {}
    policy: bytes = b""


_decoder = msgspec.msgpack.Decoder(Checkpoint)


def pack_policy(policy: DetectionPolicy) -> bytes:
    """State of a policy as bytes."""
    return seal(POLICY_FORMAT, VERSION, msgspec.msgpack.encode(policy.state()))


def unpack_policy(content: bytes) -> Any:
    """The inverse of `pack_policy`. Raises `SnapshotError` for another version, or damage."""
    try:
        return msgspec.msgpack.decode(unseal(POLICY_FORMAT, VERSION, content))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError("a damaged state of a policy", given=str(error)) from None


def pack(checkpoint: Checkpoint) -> tuple[bytes, ...]:
    """A checkpoint as bytes in two pieces, with format, version and checksum; the second is that of the policy."""
    own = msgspec.structs.replace(checkpoint, policy=b"")
    return seal(FORMAT, VERSION, msgspec.msgpack.encode(own)), checkpoint.policy


def unpack(pieces: tuple[bytes, ...]) -> Checkpoint:
    """The inverse of `pack`. Raises `SnapshotError` for another version, or damage."""
    try:
        own, policy = pieces
        return msgspec.structs.replace(_decoder.decode(unseal(FORMAT, VERSION, own)), policy=policy)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, ValueError) as error:
        raise SnapshotError("a damaged checkpoint", given=str(error)) from None
