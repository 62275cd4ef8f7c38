"""Tables of events kept until they are consumed: some in memory, the others in a temporary folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow as pa

IN_MEMORY: Final = 128 << 20
"""Bytes of events kept in memory; further ones are kept in a temporary folder."""


class Kept(NamedTuple):
    """Table of events to be consumed, in memory or in a file, with the least and the greatest of their `hi`, ns."""

    first: int
    last: int
    held: Any

    @property
    def table(self) -> Any:
        """The table; of a file it is mapped, and not read as a whole."""
        if not isinstance(self.held, Path):
            return self.held
        with pa.memory_map(str(self.held)) as file:
            return pa.ipc.open_stream(file).read_all()


class KeptTables:
    """Tables of events to be consumed; the folder of those in files goes with this object."""

    def __init__(self, inside: Path | None = None) -> None:
        """`inside`: where the folder is made; that of the system for None."""
        self.tables: list[Kept] = []
        self._bytes = 0
        self._inside = inside
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, each: Kept) -> None:
        """Keep a table."""
        size = each.held.nbytes
        if self._bytes + size <= IN_MEMORY:
            self._bytes += size
            self.tables.append(each)
            return
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="distced-tables-", dir=self._inside)
        path = Path(self._folder.name) / f"{len(self.tables)}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, each.held.schema) as writer:
            writer.write_table(each.held)
        self.tables.append(Kept(each.first, each.last, path))
