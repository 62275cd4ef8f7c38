"""Recordings to be ingested: their identities, and the places of their files in the history.

    PATH/ingested/NAME.json      a recording is in the history, with its result
    PATH/rejected/NAME.jsonl     its rows that gave no event, each with the reason
    PATH/.ingest/NAME/           it is under way

The name of a recording is that of its file and a digest of its content, mapping and recorder: the same command again
finds it done; a file that has grown is another recording.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

import msgspec

from distced.middleware.event_files.rows import unreadable
from distced.middleware.mapping.reasons import Reason, Reasons
from distced.middleware.model.errors import EventError, HistoryError

INGESTED: Final = "ingested"
REJECTED: Final = "rejected"
IN_PROGRESS: Final = ".ingest"


class ClockJump(msgspec.Struct, frozen=True):
    """A source whose time went back, beyond its uncertainty, while its numbers went on.

    Attributes:
        times: number of jumps.
        most: greatest jump, ns.
        seq, hi: of the event after it.
    """

    source: str
    times: int
    most: int
    seq: int
    hi: int


class RejectionReason(msgspec.Struct, frozen=True):
    """Reason of rejected rows and events: the rule of the mapping (empty for a native form), the problem, their number,
    and the first of them as text."""

    rule: str
    problem: str
    count: int
    first: str


def reasons_of(known: Iterable[RejectionReason] = ()) -> Reasons[str]:
    """Counts of reasons, begun with known ones."""
    found = (Reason(each.rule, each.problem, each.count, each.first) for each in known)
    return Reasons(lambda rejected: str(rejected.error), found)


def noted_reasons(reasons: Reasons[str]) -> tuple[RejectionReason, ...]:
    """The reasons, the most frequent first."""
    found = reasons.sorted()
    return tuple(RejectionReason(each.rule, each.problem, each.count, each.first) for each in found)


class Ingested(msgspec.Struct, frozen=True):
    """Result of an ingested recording.

    Attributes:
        rows: number of rows read.
        events: number of their events, duplicates included.
        added: number of events new in the history.
        repeated: number of duplicates left out.
        rejected: number of rejected rows and events, by kind of the reason.
        reasons: the reasons, the most frequent first.
        remarks: other counts of the mapping: rows without a rule, second deliveries, wrong attributes read as null,
            corrected times.
        missing_paths: paths of the mapping that had no value in any row.
        days, types: number of events by day and by type.
        jumps: sources whose clock went back.
        counted_on: whether its events continue the numbers in the history.
        trouble: why it could not be read to its end; else empty.
    """

    recording: str
    rows: int = 0
    events: int = 0
    added: int = 0
    repeated: int = 0
    rejected: dict[str, int] = {}
    remarks: dict[str, int] = {}
    missing_paths: tuple[str, ...] = ()
    days: dict[str, int] = {}
    types: dict[str, int] = {}
    jumps: tuple[ClockJump, ...] = ()
    counted_on: bool = False
    trouble: str = ""
    reasons: tuple[RejectionReason, ...] = ()

    @property
    def refused(self) -> int:
        """Number of rejected rows and events."""
        return sum(self.rejected.values())

    @property
    def is_mostly_rejected(self) -> bool:
        """Whether most rows were rejected, or none gave an event."""
        return 2 * self.refused > self.rows or (self.rows > 0 and not self.events)


_ingested: Final = msgspec.json.Decoder(Ingested)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording to be ingested into a history.

    Attributes:
        mapping: None for a native form.
        root: of the history.
        recorder: in the names of files.
        name: in the history.
        count_on: whether its events continue the numbers of their sources in the history.
    """

    path: Path
    mapping: Path | None
    root: Path
    recorder: str
    name: str
    count_on: bool = False

    @property
    def identity(self) -> str:
        """Identity: with a mapping, events do not depend on the file's name."""
        return self.name if self.mapping is None else self.name.rpartition("-")[2]

    @property
    def work(self) -> Path:
        """Folder of its work in progress."""
        return self.root / IN_PROGRESS / self.name

    @property
    def done(self) -> Path:
        """Note that it is in the history."""
        return self.root / INGESTED / f"{self.name}.json"

    @property
    def rejected(self) -> Path:
        """File of its rejected rows."""
        return self.root / REJECTED / f"{self.name}.jsonl"


def recording_of(
    path: Path,
    mapping: Path | None,
    root: Path,
    recorder: str,
    *,
    lookups: Sequence[Path] = (),
    count_on: bool = False,
) -> Recording:
    """A recording with its name; an `EventError` where there is no such file. `lookups` are files of the mapping."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise EventError(
            "a recording whose name is no text", given=ascii(str(path)), allowed="a name in UTF-8", advice="rename it"
        ) from None
    if path.is_dir():
        raise EventError("a folder in place of a recording", given=str(path), advice=f"give its files: {path}/*")
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "blake2b")
        size = path.stat().st_size
        digest.update(b"" if mapping is None else mapping.read_bytes())
        for each in lookups:
            digest.update(each.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    digest.update(msgspec.json.encode([size, mapping is None, recorder]))
    found = digest.hexdigest()[:12]
    name = f"{path.name}-{found}"
    if mapping is not None:
        # It may have had another name when it was ingested.
        name = next((each.stem for each in sorted((root / INGESTED).glob(f"*-{found}.json"))), name)
    return Recording(path, mapping, root, recorder, name, count_on)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Convert errors of the file system to `HistoryError`."""
    try:
        yield
    except OSError as error:
        raise HistoryError(
            "cannot write the history", given=str(root), advice=f"{error}; repeat the command to resume"
        ) from None


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Lock a history against other ingestions and compactions, which would remove each other's work in progress.

    Raises:
        HistoryError: where another one holds the lock.
    """
    folder = os.open(root, os.O_RDONLY)
    try:
        with suppress(OSError):
            # Not every file system can lock.
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HistoryError(
                    "another ingestion or compaction of this history is running",
                    given=str(root),
                    advice="wait until that is done",
                ) from None
        yield
    finally:
        os.close(folder)


def read_note(path: Path) -> Ingested | None:
    """Note of a task on a recording; None where there is none."""
    try:
        return _ingested.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise HistoryError(
            "a note that cannot be read", given=str(path), advice=f"remove it, and ingest again: {error}"
        ) from None
