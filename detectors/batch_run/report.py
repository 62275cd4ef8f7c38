"""Report of a run over recorded events: composite events as JSON, and a summary."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from distced.detectors.batch_run.runner import Replay
from distced.middleware.cli.output import messages
from distced.middleware.event_files import EventReader, json_line, write_events
from distced.middleware.event_files.rows import written
from distced.middleware.mapping import REMARKS
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import format_instant

_REASONS_SHOWN = 5


def event_as_dict(event: Event, *, with_events: bool = False) -> dict[str, Any]:
    """An event as JSON, its times in ns and as text, with its constituents or their ids alone."""
    shown: dict[str, Any] = {
        "type": event.type,
        "id": event.id,
        "lo": event.lo,
        "hi": event.hi,
        "start": format_instant(event.lo),
        "end": format_instant(event.hi),
        "attributes": event.attributes,
    }
    if isinstance(event, CompositeEvent):
        shown["constituents"] = event.constituents
        if with_events:
            shown["events"] = [event_as_dict(each) for each in event.events]
    return shown


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a finished run, with its reader (None for given events) and the seconds for reading and detecting."""

    replay: Replay
    reader: EventReader | None
    reading: float
    detecting: float

    @property
    def rate(self) -> float:
        """Events consumed per second of detection; a history is read meanwhile."""
        return self.replay.counts.consumed / self.detecting if self.detecting else 0.0

    @property
    def rate_with_reading(self) -> float:
        """Events of the recording per second of reading and detection."""
        seconds = self.reading + self.detecting
        return self.replay.counts.events / seconds if seconds else 0.0

    def found(self) -> list[tuple[str, str, int]]:
        """Per pattern: published type, canonical id, number of composite events detected."""
        return [
            (each.publishes.name or "composite events", each.canonical_id, self.replay.counts.found[place])
            for place, each in enumerate(self.replay.patterns)
        ]

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON."""
        counts = self.replay.counts
        rows = self.reader.counts if self.reader is not None else Counter[str]()
        why = self.reader.reasons.sorted() if self.reader is not None else []
        mapping = self.reader.mapping if self.reader is not None else None
        return {
            "rows": rows["row"],
            "rejected": rows["rejected"],
            "reasons": [{"rule": each.rule, "count": each.count, "first": each.first.error.as_dict()} for each in why],
            "remarks": mapping.remarks if mapping is not None else {},
            "missing_paths": [str(each) for each in mapping.missing_paths] if mapping is not None else [],
            "events": counts.events,
            "consumed": counts.consumed,
            "repeated": counts.repeated,
            "disordered": counts.disordered,
            "found": [
                {"publishes": name, "canonical_id": canonical, "count": count}
                for name, canonical, count in self.found()
            ],
            "time_events_running": counts.running,
            "seconds_reading": round(self.reading, 3),
            "seconds_detecting": round(self.detecting, 3),
            "events_per_second": round(self.rate),
            "events_per_second_with_reading": round(self.rate_with_reading),
        }

    def lines(self) -> Iterator[Text]:
        """The summary as lines of text."""
        counts = self.replay.counts
        if self.reader is not None:
            yield from _reading_lines(self.reader)
        said = [f"{counts.events:,} event{'s' * (counts.events != 1)}"]
        if counts.consumed != counts.events:
            said.append(f"{counts.consumed:,} of types the patterns read")
        if counts.repeated:
            said.append(f"{counts.repeated:,} more came again and were left out")
        if counts.disordered:
            said.append(f"{counts.disordered:,} came behind later ones and were put in their place")
        yield Text(", ".join(said))
        found = self.found()
        width = max(len(f"{count:,}") for _, _, count in found)
        for name, canonical, count in found:
            yield Text.assemble((f"  {count:>{width},} ", "bold"), name, (f"  {canonical}", "dim"))
        if self.reader is not None and self.reader.in_order:
            seconds = self.reading + self.detecting
            text = f"read and detected in {seconds:.1f} s: {self.rate_with_reading:,.0f} events a second"
        else:
            text = f"read in {self.reading:.1f} s, detected in {self.detecting:.1f} s: {self.rate:,.0f} events a second"
            text += f" without reading, {self.rate_with_reading:,.0f} with it"
        yield Text(text, "dim")


def _reading_lines(reader: EventReader) -> Iterator[Text]:
    rows, rejected = reader.counts["row"], reader.counts["rejected"]
    line = Text(f"{rows:,} row{'s' * (rows != 1)}")
    if rejected:
        line.append(", ").append(f"{rejected:,} rejected", "bold red")
    mapping = reader.mapping
    for remark, count in mapping.remarks.items() if mapping is not None else ():
        line.append(f", {count:,} {REMARKS[remark]}")
    yield line
    for path in mapping.missing_paths if mapping is not None else ():
        yield Text.assemble(("  ! ", "bold yellow"), str(path))
    why = reader.reasons.sorted()
    for each in why[:_REASONS_SHOWN]:
        yield Text.assemble((f"  {each.count:,} ", "red"), f"{each.first.error}")
    if len(why) > _REASONS_SHOWN:
        yield Text(f"  and {len(why) - _REASONS_SHOWN} more reasons")


TABLES: Final = (".csv", ".parquet")
"""Suffixes of files written as tables, always in the native form."""

Write: TypeAlias = Callable[[Sequence[CompositeEvent]], None]


@contextmanager
def writing_found(out: Path | None, *, native: bool = False, with_events: bool = False) -> Iterator[Write]:
    """Destination of composite events: a file or standard output, as JSON or as `native` lines that are read again as
    events, with constituents on request."""

    def line(event: CompositeEvent) -> bytes:
        if native:
            return json_line(event)
        shown = event_as_dict(event, with_events=with_events)
        return json.dumps(shown, ensure_ascii=False, separators=(", ", ": ")).encode()

    def show(found: Sequence[CompositeEvent]) -> None:
        for each in found:
            sys.stdout.write(line(each).decode() + "\n")
        if found:
            sys.stdout.flush()

    if out is None:
        yield show
        return
    if _suffix(out) in TABLES:
        kept: list[CompositeEvent] = []
        if not out.parent.is_dir():
            raise EventError("no such folder", given=str(out.parent))
        yield kept.extend
        write_events(kept, out)
        return
    with opened_for_writing(out) as file:
        yield lambda found: file.writelines(line(each) + b"\n" for each in found)


@contextmanager
def opened_for_writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears complete or not at all; write directly to a device or a pipe."""
    if path.exists() and not path.is_file():
        # A file would appear in its place.
        try:
            with path.open("wb") as file:
                yield file
        except OSError as error:
            raise EventError("cannot write the composite events", given=str(path), advice=str(error)) from None
        return
    with written(path) as file:
        yield file


def progress_bars(out: Path | None) -> Progress:
    """Bars on standard error, unless it is no terminal or results scroll past."""
    console = messages()
    hidden = not console.is_terminal or (out is None and sys.stdout.isatty())
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=hidden,
    )


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
