"""Journal of a recorder: its state at the last write and every operation since, in one locked file beside the history.

    PATH/recorders/office.journal

Messages are acknowledged to the MQTT server once their operations are in the journal on the disk. Acknowledgement once
their events are in the history was rejected: events wait until stable, which later messages decide, and a server sends
only some messages ahead of acknowledgements (20, mosquitto's default).

A piece of the file is its length and checksum, four bytes each, and its content; the first is the state. An incomplete
last piece, left by a crash, was not acknowledged; it is cut off, and delivered again.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self

from distced.detectors.snapshot_format import seal, unseal
from distced.middleware.history.layout import RECORDERS
from distced.middleware.model.errors import HistoryError, SnapshotError

FORMAT: Final = "distced recorder"
VERSION: Final = 1
SLACK: Final = 1_000_000
"""Bytes by which a journal may grow before a state replaces its operations."""

_HEAD: Final = struct.Struct("<II")


class Journal:
    """Journal of a recorder, and the lock on it.

    `state` and `operations`: content at opening, None for a new one; `cut_off`: bytes of an incomplete last piece.
    """

    def __init__(self, root: Path, recorder: str) -> None:
        """Open or create it. Raises `HistoryError` where that fails, or another process has it open."""
        self.path = root / RECORDERS / f"{recorder}.journal"
        self.state: bytes | None = None
        self.operations: list[bytes] = []
        self.cut_off = 0
        self._waiting = bytearray()
        # Whether the file is to be opened again, behind the last whole piece.
        self._torn = False
        self._size = self._least = 0
        try:
            self.path.parent.mkdir(exist_ok=True)
            self._lock = (self.path.parent / f".{recorder}.lock").open("ab")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            advice = "end it first, or give this one another --name"
            problem = "a recorder of this name is running"
            raise HistoryError(problem, given=recorder, where=str(root), advice=advice) from None
        try:
            self._load()
            self._file: IO[bytes] = self.path.open("ab", buffering=0)
            self._file.truncate(self._size)
        except OSError as error:
            self._lock.close()
            raise _unwritable(self.path, error) from None
        except HistoryError:
            self._lock.close()
            raise

    @property
    def grown(self) -> bool:
        """Whether renewing it pays: it takes twice the size of its state, and `SLACK` more."""
        return self._size + len(self._waiting) > 2 * self._least + SLACK

    def append(self, operation: bytes) -> None:
        """Queue an operation for the next `sync`."""
        self._waiting += _piece(operation)

    def sync(self) -> None:
        """Write queued operations to the disk. Raises `HistoryError` where that fails; they stay queued."""
        if not self._waiting:
            return
        try:
            if self._torn:
                self._reopen()
            # What is there of it if this fails is written over.
            self._torn = True
            if self._file.write(self._waiting) != len(self._waiting):
                raise OSError("the disk is full")
            os.fsync(self._file.fileno())
            self._torn = False
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._size += len(self._waiting)
        self._waiting.clear()

    def renew(self, state: bytes) -> None:
        """Replace the content by a state. Raises `HistoryError` where that fails."""
        content = _piece(seal(FORMAT, VERSION, state))
        part = self.path.with_name(f".{self.path.name}.part")
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
            self._waiting.clear()
            self._size = self._least = len(content)
            self._torn = True
            sync_path(self.path.parent)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def close(self) -> None:
        """Close it and release the lock."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        pieces = list(_pieces(content))
        self._size = sum(_HEAD.size + len(each) for each in pieces)
        self.cut_off = len(content) - self._size
        if not content:
            return
        # A crash leaves an incomplete piece at the end: with a whole one behind it, it was damaged otherwise.
        if not pieces or _is_followed(content, self._size):
            raise self._unreadable(f"byte {self._size:,}")
        first, *self.operations = pieces
        try:
            self.state = unseal(FORMAT, VERSION, first)
        except SnapshotError as error:
            raise self._unreadable(str(error)) from None
        self._least = _HEAD.size + len(first)

    def _unreadable(self, where: str) -> HistoryError:
        advice = "put it elsewhere: the recorder then goes on behind what the history holds"
        return HistoryError("a journal that cannot be read", given=str(self.path), where=where, advice=advice)

    def _reopen(self) -> None:
        self._file.close()
        self._file = self.path.open("ab", buffering=0)
        self._file.truncate(self._size)


def sync_path(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _piece(content: bytes) -> bytes:
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _pieces(content: bytes, place: int = 0) -> Iterator[bytes]:
    """Whole pieces from an offset on."""
    while place + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, place)
        # No piece is empty, but zeros are what some file systems leave at the end after a crash.
        if not 0 < length <= len(content) - place - _HEAD.size:
            return
        piece = content[place + _HEAD.size : place + _HEAD.size + length]
        if zlib.crc32(piece) != checksum:
            return
        yield piece
        place += _HEAD.size + length


def _is_followed(content: bytes, place: int) -> bool:
    """Whether a whole piece follows an offset without one."""
    return any(next(_pieces(content, each), None) for each in range(place + 1, len(content) - _HEAD.size))


def _unwritable(path: Path, error: OSError) -> HistoryError:
    return HistoryError("cannot write the journal of a recorder", given=str(path), advice=str(error))
