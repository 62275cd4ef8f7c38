"""Store of checkpoints: on a local disk, or anywhere that fsspec reaches by a URL.

    PATH/ced/node-1/00001795688042123456.checkpoints

A write is one file of a node, all or nothing, with an index at its head; files are never changed. A later file takes
precedence, by detector. The last two checkpoints of a detector are kept, so that there is one where a file is damaged.
The oldest file is deleted once nothing in it is needed; of more than `FILES` what is still needed is written again with
the next one. All nodes with access to the store read each other's checkpoints; a store is that of one deployment, whose
nodes may know its server by different names.

On a local disk a file is written beside its place, forced to the disk, and renamed. Rejected: SQLite (not on object
stores), a file for each detector (10,000 of them take more than a second to be forced to a disk), and appending to one
file (object stores cannot).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from distced.brokers.core.effects import Pieces
from distced.brokers.node.kept_frames import detector_of
from distced.middleware.model.errors import DistcedError

FILES: Final = 32
"""Number of files of a node beyond which the oldest is written again."""

GENERATIONS: Final = 2
"""Number of checkpoints of a detector that are kept."""

_SUFFIX: Final = ".checkpoints"
_MAGIC: Final = b"distced1"
_HEAD: Final = struct.Struct("<8sII")
"""Magic with the version, length of the index, and its checksum."""


class StoreError(DistcedError):
    """Store of checkpoints that cannot be used."""


class Folder(Protocol):
    """Files below a path; names have slashes. All methods raise `OSError`."""

    def check(self) -> None:
        """Raise `OSError` where files certainly cannot be written."""
        ...

    def names(self, below: str) -> list[str]:
        """Names of what is in a folder, sorted; none where there is none."""
        ...

    def read(self, name: str, begin: int, length: int) -> bytes:
        """Bytes of a file, fewer at its end. Raises `FileNotFoundError`."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or nothing as far as that is possible."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, which may be gone."""
        ...


class LocalFolder:
    """Folder on a local disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        there = next(each for each in (self._path, *self._path.absolute().parents) if each.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(there))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "no permission to write", str(there))

    def names(self, below: str) -> list[str]:
        try:
            return sorted(each.name for each in (self._path / below).iterdir())
        except FileNotFoundError:
            return []

    def read(self, name: str, begin: int, length: int) -> bytes:
        with (self._path / name).open("rb") as file:
            file.seek(begin)
            return file.read(length)

    def write(self, name: str, content: bytes) -> None:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".writing")
        try:
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def delete(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class RemoteFolder:
    """Folder behind a URL of fsspec."""

    def __init__(self, url: str) -> None:
        """Raises `StoreError` where fsspec, or what it needs for the URL, is not there."""
        try:
            import fsspec

            self._files, self._path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            advice = "install distced[remote], and what fsspec needs for this protocol"
            raise StoreError("a store that cannot be reached", given=url, where=str(error), advice=advice) from None

    def check(self) -> None:
        """Whether a remote store takes files shows with the first one."""

    def names(self, below: str) -> list[str]:
        try:
            found = self._files.ls(f"{self._path}/{below}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(each.rstrip("/").rpartition("/")[2] for each in found)

    def read(self, name: str, begin: int, length: int) -> bytes:
        content: bytes = self._files.cat_file(f"{self._path}/{name}", begin, begin + length)
        return content

    def write(self, name: str, content: bytes) -> None:
        self._files.makedirs(f"{self._path}/{name.rpartition('/')[0]}", exist_ok=True)
        self._files.pipe_file(f"{self._path}/{name}", content)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._path}/{name}")


_Span: TypeAlias = tuple[int, int]
"""Begin and length of a piece."""


class _Index(msgspec.Struct, frozen=True):
    """Index of a file: pieces of each checkpoint, by detector, from the end of the index on; None for deleted ones."""

    places: dict[str, tuple[_Span, ...] | None]


_decoder = msgspec.msgpack.Decoder(_Index)


class CheckpointStore:
    """Checkpoints written by one node, and read of all; for one thread at a time.

    Attributes:
        where: URL or path, for messages.
        damaged: files that cannot be read, with the reason; each is named once.
    """

    def __init__(self, where: str, root: str, node: str, now: int, folder: Folder | None = None) -> None:
        """Open a store, in a folder of `where` or another one. Raises `StoreError` where it cannot be used."""
        self.where = where
        self.damaged: dict[str, str] = {}
        if folder is None:
            folder = RemoteFolder(where) if "://" in where else LocalFolder(Path(where).expanduser())
        self._folder = folder
        self._nodes = _plain(root)
        self._own = f"{self._nodes}/{_plain(node)}"
        # By file, in order of their names.
        self._indices: dict[str, _Index] = {}
        # Files of this node with a checkpoint of each detector, the last ones, or its deletion; the last one at the
        # end.
        self._files: list[str] = []
        self._holders: dict[str, list[str]] = {}
        self._number = now // 1_000
        try:
            self._folder.check()
            for name in self._look_at(self._own):
                self._note(name)
            # A clock that was set back meanwhile must not put later files before earlier ones.
            there = [*self._files, *self.damaged]
            self._number = max(
                [self._number, *(_number_of(each) for each in there if each.startswith(f"{self._own}/"))]
            )
        except OSError as error:
            advice = "name another with --checkpoints, or none with --checkpoints none"
            raise StoreError("a store that cannot be used", given=where, where=str(error), advice=advice) from None

    def stored(self) -> list[str]:
        """Detectors with checkpoints of this node."""
        return sorted(each for each, files in self._holders.items() if self._indices[files[-1]].places[each])

    def save(self, entries: Mapping[str, Pieces | None]) -> None:
        """Write checkpoints; None deletes. Raises `OSError`; then nothing was written."""
        written: dict[str, Pieces | None] = dict(entries)
        crowded = self._files[0] if len(self._files) >= FILES else ""
        if crowded:
            for detector, needed in self._needed(crowded):
                written.setdefault(detector, needed)
        # Each object once.
        spans: dict[int, _Span] = {}
        body: list[bytes] = []
        end = 0
        for piece in (piece for pieces in written.values() for piece in pieces or ()):
            if id(piece) not in spans:
                spans[id(piece)] = end, len(piece)
                body.append(piece)
                end += len(piece)
        places = {
            each: None if pieces is None else tuple(spans[id(piece)] for piece in pieces)
            for each, pieces in written.items()
        }
        head = msgspec.msgpack.encode(_Index(places))
        self._number += 1
        name = f"{self._own}/{self._number:020}{_SUFFIX}"
        self._folder.write(name, b"".join([_HEAD.pack(_MAGIC, len(head), zlib.crc32(head)), head, *body]))
        self._indices[name] = _placed(places, _HEAD.size + len(head))
        self._note(name)
        while len(self._files) > 1 and (self._files[0] == crowded or not self._is_needed(self._files[0])):
            self._forget(self._files[0])

    def load(self, detectors: Iterable[str]) -> dict[str, list[Pieces]]:
        """Checkpoints of detectors by all nodes, with the segments of their kept frames, the last ones of each; damaged
        files are left out.

        Raises `OSError`.
        """
        found: dict[str, list[Pieces]] = {each: [] for each in detectors}
        for node in self._folder.names(self._nodes):
            for attempt in (1, 2):
                try:
                    self._load(self._look_at(f"{self._nodes}/{node}"), found)
                    break
                except FileNotFoundError:
                    # Written again by its node meanwhile.
                    if attempt == 2:
                        raise
        return found

    def _load(self, files: list[str], found: dict[str, list[Pieces]]) -> None:
        of_node: dict[str, list[Pieces]] = {}
        for name in files:
            places = self._indices[name].places
            shared: dict[_Span, bytes] = {}
            for entry, place in places.items():
                if detector_of(entry) not in found:
                    continue
                if place is None:
                    of_node[entry] = []
                else:
                    of_node.setdefault(entry, []).append(self._read(name, place, shared))
        for entry, contents in of_node.items():
            found[detector_of(entry)] += contents[-GENERATIONS:]

    # Files.

    def _look_at(self, folder: str) -> list[str]:
        """Files of a node, in order, with their indices read."""
        names = [f"{folder}/{each}" for each in self._folder.names(folder) if each.endswith(_SUFFIX)]
        for gone in [each for each in self._indices if each.startswith(f"{folder}/") and each not in names]:
            if folder != self._own:
                del self._indices[gone]
        for name in names:
            if name not in self._indices and name not in self.damaged:
                self._read_index(name)
        return [each for each in names if each in self._indices]

    def _read_index(self, name: str) -> None:
        begin = self._folder.read(name, 0, _HEAD.size)
        if len(begin) < _HEAD.size:
            self.damaged[name] = "it is cut off"
            return
        magic, length, checksum = _HEAD.unpack(begin)
        if magic != _MAGIC:
            self.damaged[name] = "it is of another version, or no file of checkpoints"
            return
        head = self._folder.read(name, _HEAD.size, length)
        if zlib.crc32(head) != checksum:
            self.damaged[name] = "its index is damaged"
            return
        index = _placed(_decoder.decode(head).places, _HEAD.size + length)
        end = max((begin + size for spans in index.places.values() for begin, size in spans or ()), default=0)
        if end and not self._folder.read(name, end - 1, 1):
            # It must not count as one of the last checkpoints of its detectors.
            self.damaged[name] = "it is cut off"
            return
        self._indices[name] = index

    def _note(self, name: str) -> None:
        """Add the last file of this node."""
        self._files.append(name)
        for detector, place in self._indices[name].places.items():
            holders = self._holders.setdefault(detector, [])
            if place is None:
                # The deletion is needed as long as there are earlier ones.
                holders[:] = [name]
            else:
                holders.append(name)
                del holders[:-GENERATIONS]

    def _is_needed(self, name: str) -> bool:
        return any(self._holds(detector, name) for detector in self._indices[name].places)

    def _holds(self, detector: str, name: str) -> bool:
        """Whether a file has one of the last checkpoints of a detector. A deletion in the oldest file says nothing."""
        there = self._indices[name].places[detector] is not None or name != self._files[0]
        return there and name in self._holders.get(detector, ())

    def _needed(self, name: str) -> Iterator[tuple[str, Pieces]]:
        """Checkpoints in a file that are the last ones."""
        shared: dict[_Span, bytes] = {}
        for detector, place in self._indices[name].places.items():
            if place is not None and self._holders.get(detector, [""])[-1] == name:
                yield detector, self._read(name, place, shared)

    def _read(self, name: str, place: tuple[_Span, ...], shared: dict[_Span, bytes]) -> Pieces:
        """Pieces of a file, each read once."""
        for each in place:
            if each not in shared:
                shared[each] = self._folder.read(name, *each)
        return tuple(shared[each] for each in place)

    def _forget(self, name: str) -> None:
        """Delete the oldest file."""
        self._folder.delete(name)
        self._files.remove(name)
        for detector in self._indices.pop(name).places:
            holders = self._holders.get(detector, [])
            if name in holders:
                holders.remove(name)
            if not holders:
                self._holders.pop(detector, None)


def _placed(places: Mapping[str, tuple[_Span, ...] | None], offset: int) -> _Index:
    """Index with places in the file."""
    return _Index(
        {
            each: None if spans is None else tuple((begin + offset, length) for begin, length in spans)
            for each, spans in places.items()
        }
    )


def default_folder(server: str) -> str:
    """Folder for checkpoints of the nodes at a server on this machine, as the XDG base directories say."""
    below = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return str(Path(below) / "distced" / _plain(server))


def _number_of(name: str) -> int:
    """Number of a file; 0 for a file of another name."""
    number = name.rpartition("/")[2].removesuffix(_SUFFIX)
    return int(number) if number.isdecimal() else 0


def _plain(name: str) -> str:
    """A name without what file systems do not take."""
    return re.sub(r"[^\w.-]", lambda found: f"%{ord(found[0]):x}", name) or "_"


def open_store(where: str, root: str, node: str, now: int) -> CheckpointStore | None:
    """Store of a node; None for `none` or an empty one."""
    return None if where in ("", "none") else CheckpointStore(where, root, node, now)
