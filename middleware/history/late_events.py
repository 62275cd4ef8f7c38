"""Late events of a history, kept beside it as JSON lines.

    PATH/late/20261122T081500-office-3f0c.jsonl

Events behind the watermark were not consumed by any detector, so they are not in the history: a replay would find
what was not found live. A line is an event in the native form (docs/how-to/mappings.md) with `came`, the instant of its
arrival in ns, and `recorder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from distced.middleware.event_files.writer import json_line
from distced.middleware.history.history_file import Problem
from distced.middleware.history.layout import write_whole
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import format_instant

LATE: Final = "late"


class LateEvent(msgspec.Struct, frozen=True):
    """Event behind the watermark, and its arrival, ns."""

    event: Event
    came: int


def write_late(root: Path, recorder: str, late: Iterable[LateEvent]) -> Path | None:
    """Write late events; the file that was made. The same ones make the same file again."""
    lines = [
        json.dumps(json.loads(json_line(each.event)) | {"came": each.came, "recorder": recorder}, ensure_ascii=False)
        for each in late
    ]
    if not lines:
        return None
    content = "".join(f"{line}\n" for line in lines).encode()
    first = min(json.loads(line)["came"] for line in lines)
    moment = "".join(each for each in format_instant(first)[:19] if each.isdigit() or each == "T")
    path = root / LATE / f"{moment}-{recorder}-{blake2b(content, digest_size=6).hexdigest()}.jsonl"
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise HistoryError("cannot write the history", given=str(path), advice=str(error)) from None
    return path


def late_files(root: Path) -> list[Path]:
    """Files of late events, by the first arrival in each."""
    return sorted(each for each in (root / LATE).glob("*.jsonl") if not each.name.startswith("."))


def late_events(path: Path, on_problem: Callable[[Problem], None]) -> Iterator[tuple[bytes, Event]]:
    """Late events of a file: the line of each, and the event, without its constituents; problems go to `on_problem`."""
    try:
        for number, line in _lines(path):
            try:
                # Python's reader, for numbers may be infinite (`json_line`).
                read = msgspec.convert(json.loads(line), type=_Line)
            except (ValueError, RecursionError, msgspec.ValidationError) as error:
                where = f"{path}, line {number}"
                problem = HistoryError("a line that is no late event", where=where, advice=str(error))
                on_problem(Problem(where, problem))
            else:
                yield line, Event(read.type, read.lo, read.hi, read.source, read.seq, read.attributes)
    except HistoryError as error:
        on_problem(Problem(str(path), error))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines of a file that are not empty, with their numbers."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise HistoryError("a file that cannot be read", given=str(path), advice=str(error)) from None
    yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


class _Line(msgspec.Struct, gc=False):
    type: str
    lo: int
    hi: int
    source: str
    seq: int
    attributes: dict[str, Attribute]


msgspec.json.Decoder(_Line)  # resolves its annotations before there are threads, for `convert`
