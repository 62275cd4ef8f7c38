"""JSON of directory entries, administration and messages between nodes.

Modules declare their kinds of messages at import, before there are threads: msgspec may crash the process where several
threads resolve the annotations of one type at once, which making a decoder does.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from distced.middleware.model.errors import FrameError

_T = TypeVar("_T")

_decoders: Final[dict[type, msgspec.json.Decoder[Any]]] = {}

encode = msgspec.json.Encoder().encode


def declare(*kinds: type) -> None:
    """Make the decoders of kinds of messages, at the import of their module."""
    _decoders.update((kind, msgspec.json.Decoder(kind)) for kind in kinds)


def decode(payload: bytes, kind: type[_T], *, where: str) -> _T:
    """Message of a declared kind, or a `FrameError` that names the topic."""
    try:
        return _decoders[kind].decode(payload)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            f"no {kind.__name__}", given=bytes(payload[:80]), allowed=f"JSON: {error}", where=where
        ) from None
