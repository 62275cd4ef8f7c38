"""Checksum of the footer of a Parquet file, which Parquet itself has for pages only.

It stands before the footer, where readers do not look: they find everything by its position. So files that another
program has written again have none.

    … pages | "distced", state, CRC-32 of state and footer | footer | length of the footer | "PAR1"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from distced.middleware.event_files.tables import import_pyarrow
from distced.middleware.model.errors import HistoryError

_PARQUET: Final = b"PAR1"
_MARK: Final = b"distced"
_SEAL: Final = len(_MARK) + 1 + 4
_END: Final = 4 + len(_PARQUET)
_TAIL: Final = 65_536  # bytes read at first, which hold most footers


def seal_footer(path: Path, *, checked: bool) -> None:
    """Put the checksum of its footer into a file, and whether all of its rows have been checked."""
    with path.open("r+b") as file:
        footer, end = _footer(file)
        state = b"\x01" if checked else b"\x00"
        file.seek(-len(footer) - len(end), os.SEEK_END)
        file.write(_MARK + state + crc32(state + footer).to_bytes(4, "little") + footer + end)


def read_footer(path: Path) -> tuple[Any, bool]:
    """Metadata of a file, and whether all of its rows were checked when it was written.

    A damaged footer is a `HistoryError` or an error of pyarrow. One without a checksum is taken as it is.
    """
    pyarrow = import_pyarrow()
    with path.open("rb") as file:
        footer, end = _footer(file)
        file.seek(-min(len(footer) + len(end) + _SEAL, file.tell()), os.SEEK_CUR)
        mark = file.read(_SEAL)
    metadata = pyarrow.parquet.read_metadata(pyarrow.BufferReader(_PARQUET + footer + end))
    if not mark.startswith(_MARK):
        return metadata, False
    state = mark[len(_MARK) : len(_MARK) + 1]
    if crc32(state + footer).to_bytes(4, "little") != mark[-4:]:
        raise HistoryError("a file that cannot be read", advice="its footer does not fit its checksum")
    return metadata, state == b"\x01"


def _footer(file: Any) -> tuple[bytes, bytes]:
    """Footer of a file, and what follows it; the position is then the end of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    length = int.from_bytes(tail[-_END : -len(_PARQUET)], "little")
    if tail[-len(_PARQUET) :] != _PARQUET or length + _END > size:
        raise HistoryError("a file that cannot be read", advice="it does not end with a footer of Parquet")
    if length + _END > len(tail):
        file.seek(size - length - _END)
        tail = file.read()
    return tail[-length - _END : -_END], tail[-_END:]
