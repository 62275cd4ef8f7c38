"""Folder of an outbox on a local disk: segments of its log, and a lock against a second process.

    PATH/lock                 held by the process; whether the log was written to its end
    PATH/0000000042.outbox    a segment (`middleware.wire.outbox_log`)

A segment is written without a buffer, so a process that is killed loses nothing. What a power cut takes is what was not
forced to the disk: a thread does that at an interval, for all messages since (or the publisher, before each message).
Segments are deleted behind that, as what replaces them may be on the disk later than their end. The lock names the boot
of the machine, so that the next process knows whether there was a power cut.

`flock` was preferred to a file with a process id, which outlives its process.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from distced.middleware.model.errors import DistcedError

_SUFFIX: Final = ".outbox"
_CLOSED: Final = "closed"
_FORCED: Final = "forced"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class OutboxFolder:
    """Segments in a folder, for one process and one thread at a time.

    Attributes:
        whole: whether everything that was written before the start is there.
    """

    def __init__(self, path: Path, sync_every: float | None) -> None:
        """Open or create it; `sync_every` in seconds, 0 for before each message, None for never.

        Raises:
            DistcedError: a folder that cannot be written, or that another process has open.
        """
        self._path = path
        self._every = sync_every
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[bytes] = (path / "lock").open("a+b", buffering=0)
        except OSError as error:
            advice = f"{error.strerror or error}: name a folder that this user can write"
            raise DistcedError("not a folder for an outbox", given=str(path), advice=advice) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            advice = "end it first, or give each client a folder of its own"
            raise DistcedError("another client has this outbox open", given=str(path), advice=advice) from None
        self._boot = _FORCED if sync_every == 0 else _boot()
        self._lock.seek(0)
        said = self._lock.read().decode(errors="replace")
        self.whole = said in (_CLOSED, _FORCED) or (said != "" and said == _boot())
        self._file: IO[bytes] | None = None
        # Written and not forced to the disk; to be deleted behind that; and what has failed in the background.
        self._unforced: list[IO[bytes]] = []
        self._deleted: list[Path] = []
        self._error: OSError | None = None
        self._guard, self._syncing = threading.Lock(), threading.Lock()
        self._due, self._ends = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        if sync_every:
            self._thread = threading.Thread(target=self._sync_always, name="distced-outbox", daemon=True)
            self._thread.start()
        with suppress(OSError):
            self.mark(whole=True)

    def read(self) -> Iterator[tuple[int, bytes | None]]:
        """Segments in order; None for the content of one that cannot be read."""
        for each in sorted(each for each in self._path.glob(f"*{_SUFFIX}") if each.stem.isdecimal()):
            try:
                content = each.read_bytes()
            except OSError:
                content = None
            yield int(each.stem), content

    def begin(self, segment: int, content: bytes) -> None:
        """Begin the next segment."""
        file = self._of(segment).open("ab", buffering=0)
        with self._guard:
            before, self._file = self._file, file
            if before is not None and not self._every:
                before.close()
            elif before is not None and before not in self._unforced:
                # It is closed behind the next sync.
                self._unforced.append(before)
        self.append(content)
        if self._every == 0:
            _sync_names(self._path)

    def append(self, content: bytes) -> None:
        """Add to the last segment."""
        file, error = self._file, self._error
        if error is not None:
            self._error = None
            raise error
        assert file is not None
        if file.write(content) != len(content):
            raise OSError("no space left on the disk")
        if self._every == 0:
            os.fsync(file.fileno())
        if self._every and file not in self._unforced:
            with self._guard:
                self._unforced.append(file)
            self._due.set()

    def force(self) -> None:
        """Force what was written to the disk, from any thread."""
        if self._every is not None:
            self._sync()

    def delete(self, segment: int) -> None:
        """Delete a segment, behind what was written so far."""
        if not self._every:
            self._of(segment).unlink(missing_ok=True)
            return
        with self._guard:
            self._deleted.append(self._of(segment))
        self._due.set()

    def set_aside(self, segment: int) -> None:
        """Rename a segment that cannot be read."""
        path = self._of(segment)
        path.replace(path.with_suffix(".unreadable"))

    def mark(self, *, whole: bool) -> None:
        """Note whether everything is written."""
        self._say(self._boot if whole else "")

    def close(self, *, whole: bool) -> None:
        """Force everything to the disk, and release the lock."""
        self._ends.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(OSError):
            if self._every is not None:
                self._sync()
            if whole and self._error is None:
                self._say(_CLOSED)
        if self._file is not None:
            self._file.close()
        self._lock.close()

    def _of(self, segment: int) -> Path:
        return self._path / f"{segment:010}{_SUFFIX}"

    def _say(self, content: str) -> None:
        # Makes the file shorter first, which a full disk allows.
        self._lock.truncate(0)
        self._lock.write(content.encode())
        os.fsync(self._lock.fileno())

    def _sync_always(self) -> None:
        while not self._ends.is_set():
            self._due.wait()
            self._ends.wait(self._every)
            self._due.clear()
            try:
                self._sync()
            except OSError as error:
                self._error = error

    def _sync(self) -> None:
        """Force to the disk what was written, then delete what it replaces."""
        with self._syncing:
            with self._guard:
                files, self._unforced = self._unforced, []
                deleted, self._deleted = self._deleted, []
            for file in files:
                os.fsync(file.fileno())
            if files or deleted:
                _sync_names(self._path)
            for path in deleted:
                path.unlink(missing_ok=True)
            with self._guard:
                for file in files:
                    if file is not self._file and file not in self._unforced:
                        file.close()


def _sync_names(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _boot() -> str:
    """Name of the present boot of the machine; empty for unknown."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        pass
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return ""
