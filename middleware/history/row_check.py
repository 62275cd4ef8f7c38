"""Row check of a history, by columns: rows that are no events, and ids on two different events.

Histories are written by recorders, and damaged by disks and by other programs. Rows are checked here alone, so that
`run`, replay in every way and `history ls` leave out the same ones: how the work is cut does not matter. Files that are
as `HistoryWriter` left them (`HistoryFile.checked`) need no check by themselves; ids are compared wherever the notes of
two files allow for equal ones.

Of two different events of one id the first in the order of consumption counts; two equal ones are one event.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distced.middleware.event_files.native import constituents_of
from distced.middleware.event_files.tables import WHOLE, column_of, import_pyarrow
from distced.middleware.history.history_file import OWN, HistoryFile, Problem
from distced.middleware.history.row_groups import Rows, Unread, read_groups
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import COMPOSITE, DIGEST_BYTES, PRIMITIVE, SEQ_END

Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

_HIGH_END: Final = np.uint64(SEQ_END >> 64)
_NONE: Final = np.empty(0, np.int64)
_SHOWN: Final = 65_536  # rows that become objects at once


class Reason(NamedTuple):
    """Reason to reject rows, as the parts of an error."""

    problem: str
    allowed: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rows of a file that are rejected for one reason; `given` is the first of them."""

    file: HistoryFile
    reason: Reason
    rows: Rows
    given: str

    def error(self, where: str, row: int | None = None) -> HistoryError:
        """Error of all of them, or of one."""
        place = f"{where}, row {int(self.rows[0] if row is None else row) + 1:,}"
        if row is None and len(self.rows) > 1:
            place += f" and {len(self.rows) - 1:,} more"
        given = self.given if row is None or row == self.rows[0] else None
        problem, allowed, advice = self.reason
        return HistoryError(problem, given=given, allowed=allowed or None, where=place, advice=advice or None)

    def shown(self) -> Iterator[tuple[int, dict[str, object]]]:
        """The rows, by their places."""
        for first in range(0, len(self.rows), _SHOWN):
            some = self.rows[first : first + _SHOWN]
            table = _take(self.file, some)
            found = [{}] * len(some) if table is None else _dicts(table)
            yield from zip(some.tolist(), found, strict=True)

    def problem(self, root: Path) -> Problem:
        """Problem in a history that begins in a folder."""
        path = self.file.path
        where = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        return Problem(where, self.error(where), len(self.rows))


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Rejected rows of some files, by reason and by file."""

    rejected: tuple[RejectedRows, ...] = ()
    rows: Mapping[Path, Rows] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(each.rows) for each in self.rejected)


def check_rows(files: Sequence[HistoryFile], among: Sequence[HistoryFile] | None = None) -> RowCheck:
    """Rejected rows of files.

    Args:
        among: all files of the history, which may have the ids of these; by default these.
    """
    every = list(files) if among is None else list(among)
    wanted = {each.path for each in files}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        unchecked = [each for each in every if not each.checked]
        single = dict(zip((each.path for each in unchecked), pool.map(_check_file, unchecked), strict=True))
        sources = {each.path: single[each.path].sources if each.path in single else each.note.sources for each in every}
        alike = _may_share(every, sources, wanted, {each.path for each in unchecked})
        read = list(pool.map(_ids, alike, (single[each.path].bad if each.path in single else _NONE for each in alike)))
    rejected = [found for each in files if each.path in single for found in single[each.path].rejected]
    rejected += [found for found in _same_ids(alike, read) if found.file.path in wanted]
    rows: dict[Path, list[Rows]] = {}
    for found in rejected:
        rows.setdefault(found.file.path, []).append(found.rows)
    return RowCheck(tuple(rejected), {path: np.unique(np.concatenate(each)) for path, each in rows.items()})


def is_sound(table: Any, known: EventType, first: int, last: int) -> bool:
    """Whether every row of a table is an event of a type with `first <= hi <= last`, each id once."""
    if any(bad.any() for _, bad in _faults(table, known, first, last, ())):
        return False
    keys = _keys(table)
    return len(np.unique(keys)) == len(keys)


class _Single(NamedTuple):
    """Check of a file by itself: its rejected rows, the places of all of them, and its sources."""

    rejected: tuple[RejectedRows, ...]
    bad: Rows
    sources: Mapping[str, tuple[int, int, int]]


def _check_file(file: HistoryFile) -> _Single:
    pyarrow = import_pyarrow()
    texts = {column_of(name) for name, kind in file.event_type.attributes.items() if kind == "string"}
    wanted = {*OWN, "constituents", *texts, *file.strange}
    try:
        table, unread = read_groups(file.path, columns=lambda names: [name for name in names if name in wanted])
    except (OSError, pyarrow.ArrowException):
        # Readers say so.
        return _Single((), _NONE, {})
    places = _places(len(table), unread)
    rejected = []
    bad = np.zeros(len(table), np.bool_)
    for reason, mask in _faults(table, file.event_type, file.note.first, file.note.last, file.strange):
        rows = np.flatnonzero(mask & ~bad)
        bad |= mask
        if len(rows):
            rejected.append(RejectedRows(file, reason, places[rows], _shown(table, int(rows[0]))))
    sound = table.filter(pyarrow.array(~bad)) if bad.any() else table
    found = sound.select(["source", "seq"]).group_by("source", use_threads=False).aggregate([("seq", "min_max")])
    sources = {
        each["source"]: (0, int(each["seq_min_max"]["min"]), int(each["seq_min_max"]["max"]))
        for each in found.to_pylist()
    }
    return _Single(tuple(rejected), places[bad], sources)


def _places(rows: int, unread: Sequence[Unread]) -> Rows:
    """Places in a file of the rows that were read."""
    places = np.arange(rows + sum(each.rows for each in unread))
    gone = [np.arange(each.first, each.first + each.rows) for each in unread]
    return np.delete(places, np.concatenate(gone)) if gone else places


def _shown(table: Any, row: int) -> str:
    """Text of a row, for an error."""
    return ", ".join(f"{name} {value}" for name, value in _dicts(table.slice(row, 1))[0].items())


def _dicts(table: Any) -> list[dict[str, object]]:
    """Rows by columns; empty where they have text that is none."""
    try:
        return table.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return [{}] * len(table)


def _faults(
    table: Any, known: EventType, first: int, last: int, strange: Iterable[str]
) -> Iterator[tuple[Reason, Mask]]:
    """Reasons to reject rows of a table, each with the rows."""
    pyarrow = import_pyarrow()
    try:
        table.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        yield Reason("text that is not UTF-8", "UTF-8", str(error)), np.ones(len(table), np.bool_)
        return
    missing = {name: _mask(table[name].is_null()) for name in OWN}
    kind, source = (table[name].cast(pyarrow.string()) for name in ("type", "source"))
    yield Reason("a row without a type"), missing["type"]
    other = _mask(pyarrow.compute.not_equal(kind, known.name)) & ~missing["type"]
    yield Reason("a row of another type than its file", known.name), other
    yield Reason("an event without a time", "lo and hi"), missing["lo"] | missing["hi"]
    lo, hi = (_ints(table[name]) for name in ("lo", "hi"))
    yield Reason("a timestamp with lo > hi", "lo <= hi"), lo > hi
    bounds = f"hi from {first} to {last}, as its file says"
    yield Reason("an instant outside its file", bounds), (hi < first) | (hi > last)
    empty = _mask(pyarrow.compute.equal(source, "")) | missing["source"]
    yield Reason("an event without a source", "a text"), empty
    yield Reason("an event without a sequence number", "an integer from 0"), missing["seq"]
    high, low = digits(table["seq"])
    beyond = (high.view(np.int64) < 0) | (high >= _HIGH_END)
    if not pyarrow.types.is_decimal(table["seq"].type):
        beyond = low.view(np.int64) < 0
    yield Reason("not a sequence number", f"an integer from 0, of {8 * DIGEST_BYTES} bits"), beyond
    if "constituents" in table.schema.names:
        made_of = table["constituents"].cast(pyarrow.string())
        bad = np.fromiter(map(_is_no_list, made_of.to_pylist()), np.bool_, len(table))
        yield Reason("not a list of constituents", '[["source", 1], ...]'), bad
    for name in strange:
        wanted = next(
            (kind for each, kind in known.attributes.items() if name.removeprefix(WHOLE) == column_of(each)), "number"
        )
        reason = Reason(f"a value of another kind in the column {name!r}", f"a {wanted}, as the file's type says")
        yield reason, ~_mask(table[name].is_null())


def _is_no_list(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return not all(0 <= seq < SEQ_END for _, seq in constituents_of(text))
    except DistcedError:
        return True


def _mask(values: Any) -> Mask:
    return np.asarray(import_pyarrow().compute.fill_null(values, False)).astype(np.bool_)


def _ints(column: Any) -> NDArray[np.int64]:
    return np.ascontiguousarray(column.fill_null(0).to_numpy(), dtype=np.int64)


def digits(column: Any) -> tuple[Words, Words]:
    """Sequence numbers as their upper and lower 64 bits; null is 0."""
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_decimal(column.type):
        low = _ints(column).view(np.uint64)
        return np.zeros(len(low), np.uint64), low
    words = [
        np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, 2)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in column.fill_null(0).chunks
    ]
    both = np.concatenate(words) if words else np.empty((0, 2), np.uint64)
    return np.ascontiguousarray(both[:, 1]), np.ascontiguousarray(both[:, 0])


# Ids.

_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def _keys(table: Any) -> Words:
    """Digest of each row's id: equal for equal ids, and hardly for others."""
    high, low = digits(table["seq"])
    keys = np.empty(len(table), np.uint64)
    start = 0
    for chunk in table["source"].chunks:
        coded = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
        names = [
            int.from_bytes(blake2b(each.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
            for each in coded.dictionary.to_pylist()
        ]
        keys[start : start + len(chunk)] = np.array(names or [0], np.uint64)[np.asarray(coded.indices)]
        start += len(chunk)
    for words, mix in zip((low, high), _MIX, strict=True):
        keys = (keys ^ words) * mix
        keys ^= keys >> np.uint64(29)
    return keys


class _Ids(NamedTuple):
    """Digests of the ids of a file's valid rows, and the places of these."""

    keys: Words
    places: Rows


def _ids(file: HistoryFile, bad: Rows) -> _Ids:
    pyarrow = import_pyarrow()
    try:
        table, unread = read_groups(file.path, columns=lambda _: ["source", "seq"], rejected=bad)
    except (OSError, pyarrow.ArrowException):
        return _Ids(np.empty(0, np.uint64), _NONE)
    gone = [Unread(int(each), 1, "") for each in bad if not any(0 <= each - one.first < one.rows for one in unread)]
    return _Ids(_keys(table), _places(len(table), [*unread, *gone]))


def _may_share(
    files: Sequence[HistoryFile],
    sources: Mapping[Path, Mapping[str, tuple[int, int, int]]],
    wanted: set[Path],
    unchecked: set[Path],
) -> list[HistoryFile]:
    """Files with ids that may be twice, in themselves or in another one, one of the two wanted."""
    runs: dict[str, list[tuple[int, int, int]]] = {}
    for number, each in enumerate(files):
        for source, (_, least, greatest) in sources[each.path].items():
            runs.setdefault(source, []).append((least, greatest, number))
    found = {number for number, each in enumerate(files) if each.path in wanted and each.path in unchecked}
    for intervals in runs.values():
        intervals.sort()
        # Those that begin within the one that reaches farthest share numbers with it, or with one that it is as far.
        group: list[int] = []
        reach = -1
        for least, greatest, number in intervals:
            if least > reach:
                _add(found, group, files, wanted)
                group = []
            group.append(number)
            reach = max(reach, greatest)
        _add(found, group, files, wanted)
    return [files[number] for number in sorted(found)]


def _add(found: set[int], group: Sequence[int], files: Sequence[HistoryFile], wanted: set[Path]) -> None:
    if len(group) > 1 and any(files[number].path in wanted for number in group):
        found.update(group)


def _same_ids(files: Sequence[HistoryFile], read: Sequence[_Ids]) -> Iterator[RejectedRows]:
    """Rows whose id another event has."""
    if not files:
        return
    keys = np.concatenate([each.keys for each in read])
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(same):
        return
    twice = np.zeros(len(keys), np.bool_)
    twice[same] = twice[same + 1] = True
    rows = order[twice]
    starts = np.cumsum([0, *(len(each.keys) for each in read)])
    owner = np.searchsorted(starts, rows, "right") - 1
    place = np.concatenate([each.places for each in read])[rows]
    lo, hi, rank = _order_of(files, owner, place)
    # The first in the order of consumption, and where events tie the first that is read.
    chosen = np.lexsort((rows, rank, lo, hi, keys[rows]))
    grouped = keys[rows][chosen]
    begins = np.concatenate([[True], grouped[1:] != grouped[:-1]])
    leader = chosen[np.maximum.accumulate(np.where(begins, np.arange(len(chosen)), 0))]
    others, leaders = chosen[~begins], leader[~begins]
    pairs = np.stack([owner[others], owner[leaders]], axis=1)
    bad: dict[int, list[tuple[int, str]]] = {}
    for other, one in np.unique(pairs, axis=0).tolist():
        these = np.flatnonzero((pairs[:, 0] == other) & (pairs[:, 1] == one))
        mine, theirs = _take(files[other], place[others[these]]), _take(files[one], place[leaders[these]])
        if mine is None or theirs is None:
            continue
        for each in np.flatnonzero(_differ(mine, theirs) & ~_differ(mine.select(_ID), theirs.select(_ID))).tolist():
            given = f"{_shown(mine, each)}; there it is {_shown(theirs, each)}"
            bad.setdefault(other, []).append((int(place[others[these[each]]]), given))
    reason = Reason("an id that another event has", "a source counts each of its events once")
    for number in sorted(bad):
        found = sorted(bad[number])
        yield RejectedRows(files[number], reason, np.array([row for row, _ in found], np.int64), found[0][1])


_ID: Final = ["source", "seq"]


def _order_of(files: Sequence[HistoryFile], owner: Rows, place: Rows) -> tuple[Rows, Rows, Rows]:
    """Timestamps of rows of several files, and whether they are composite events."""
    lo, hi, rank = (np.zeros(len(owner), np.int64) for _ in range(3))
    for number in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == number)
        table = _take(files[number], place[mine], ("lo", "hi", "constituents"))
        if table is None:
            continue
        lo[mine], hi[mine] = _ints(table["lo"]), _ints(table["hi"])
        if "constituents" in table.schema.names:
            rank[mine] = np.where(_mask(table["constituents"].is_valid()), COMPOSITE, PRIMITIVE)
    return lo, hi, rank


def _take(file: HistoryFile, rows: Rows, columns: Iterable[str] | None = None) -> Any:
    """Rows of a file by their places; None where it cannot be read."""
    pyarrow = import_pyarrow()
    wanted = None if columns is None else set(columns)
    try:
        table, unread = read_groups(
            file.path, columns=lambda names: [name for name in names if wanted is None or name in wanted]
        )
    except (OSError, pyarrow.ArrowException):
        return None
    places = _places(len(table), unread)
    found = np.minimum(np.searchsorted(places, rows), max(len(places) - 1, 0))
    if not len(places) or (places[found] != rows).any():
        return None
    return table.take(pyarrow.array(found))


def _differ(one: Any, other: Any) -> Mask:
    """Rows in which two tables differ; a column that one lacks is null there, and 3 is not 3.0."""
    pyarrow = import_pyarrow()
    compute = pyarrow.compute
    found = np.zeros(len(one), np.bool_)
    for name in dict.fromkeys([*one.schema.names, *other.schema.names]):
        # Whole numbers have a column of their own only beside fractions.
        plain = name.removeprefix(WHOLE)
        kinds = {_kind(table.schema.field(each)) for table in (one, other) for each in _both(table, plain)}
        for kind in kinds:
            mine, theirs = (_of_kind(table, plain, kind) for table in (one, other))
            equal = compute.fill_null(compute.equal(mine, theirs), False)
            null = compute.and_(compute.is_null(mine), compute.is_null(theirs))
            found |= ~_mask(compute.or_(equal, null))
    return found


def _both(table: Any, name: str) -> list[str]:
    return [each for each in (name, WHOLE + name) if each in table.schema.names]


def _kind(field: Any) -> Any:
    """Kind that the values of a column are compared as."""
    pyarrow = import_pyarrow()
    if field.name == "seq":
        # Of composite events they are wider.
        return pyarrow.decimal128(38, 0)
    return pyarrow.string() if pyarrow.types.is_dictionary(field.type) else field.type


def _of_kind(table: Any, name: str, kind: Any) -> Any:
    """Values of a kind in the columns of an attribute, null for those of others."""
    pyarrow = import_pyarrow()
    for each in _both(table, name):
        if _kind(table.schema.field(each)) == kind:
            column = table[each].cast(kind)
            if pyarrow.types.is_floating(kind):
                # NaN reads as null.
                column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
            return column
    return pyarrow.nulls(len(table), kind)
