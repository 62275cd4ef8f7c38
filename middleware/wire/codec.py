"""JSON of directory entries, administration and messages between nodes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from distced.middleware.model.errors import FrameError

_T = TypeVar("_T")


encode = msgspec.json.Encoder().encode


def decode(payload: bytes, kind: type[_T], *, where: str) -> _T:
    """Message of this kind, or a `FrameError` that names the topic."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            f"no {kind.__name__}", given=bytes(payload[:80]), allowed=f"JSON: {error}", where=where
        ) from None
