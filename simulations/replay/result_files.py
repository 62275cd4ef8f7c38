"""Result files of tasks: composite events in order, in an exact form.

Stretches of a length of eight bytes and as much msgpack. Rows become structs without garbage collection: lists, several
in each composite event, take three times as long to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import msgspec

from distced.detectors.snapshot_format import WIDE, pack_seq, unpack_seq
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event

_PackedId: TypeAlias = tuple[str, int | bytes]

_LENGTH: Final = 8


class _ResultRow(msgspec.Struct, array_like=True, gc=False):
    """An event; the last two fields are those of composite ones."""

    type: str
    lo: int
    hi: int
    source: str
    seq: int | bytes
    attributes: dict[str, Any]
    constituents: tuple[_PackedId, ...] | None = None
    events: tuple[_ResultRow, ...] = ()


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[_ResultRow]).decode


def write_block(file: IO[bytes], content: bytes) -> None:
    """Write a block of bytes behind its length."""
    file.write(len(content).to_bytes(_LENGTH, "big") + content)


def blocks(path: Path) -> Iterator[bytes]:
    """Blocks of a file, as written by `write_block`."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH):
            yield file.read(int.from_bytes(head, "big"))


def write_found(file: IO[bytes], found: Sequence[CompositeEvent], *, whole: bool) -> None:
    """Write composite events; `whole` ones have the events that they are made of."""
    if found:
        write_block(file, _encode([_packed(each, whole) for each in found]))


def read_found(path: Path, count: int) -> Iterator[CompositeEvent]:
    """The `count` composite events of a task, in order. Raises `DistcedError` where the file is damaged."""
    left_over = count
    try:
        for block in blocks(path):
            rows = _decode(block)
            left_over -= len(rows)
            yield from map(_unpacked, rows)
    except (msgspec.DecodeError, MemoryError, OverflowError) as error:
        raise unreadable(path, error) from None
    if left_over:
        raise unreadable(path, ValueError(f"{left_over:,} of {count:,} composite events are missing"))


def unreadable(path: Path, error: Exception) -> DistcedError:
    """Error for a damaged file in the folder, after a full disk or a crash."""
    return DistcedError(
        "a result file of this replay cannot be read", given=str(path),
        advice=f"remove its folder, and replay again: {error}",
    )  # fmt: skip


def _packed(event: Event, whole: bool) -> _ResultRow:
    row = _ResultRow(event.type, event.lo, event.hi, event.source, pack_seq(event.seq), event.attributes)
    if isinstance(event, CompositeEvent):
        row.constituents = event.constituents
        if any(seq >= WIDE for _, seq in event.constituents):
            row.constituents = tuple([(source, pack_seq(seq)) for source, seq in event.constituents])
        if whole:
            row.events = tuple([_packed(each, whole) for each in event.events])
    return row


def _unpacked(row: _ResultRow) -> Any:
    seq = row.seq if row.seq.__class__ is int else unpack_seq(row.seq)
    ids: Any = row.constituents
    if ids is None:
        return Event(row.type, row.lo, row.hi, row.source, seq, row.attributes)
    for _, number in ids:
        if number.__class__ is not int:
            ids = tuple([(source, unpack_seq(each)) for source, each in ids])
            break
    events = tuple(map(_unpacked, row.events)) if row.events else ()
    own = (row.type, row.lo, row.hi, row.source, seq, row.attributes)
    return CompositeEvent(*own, constituents=ids, events=events)
