"""Output of detected composite events to standard output, a JSON-lines file or a table, with progress bars apart from
it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, TypeAlias

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from distced.detectors.batch_run.report import event_as_dict
from distced.middleware.cli.output import messages
from distced.middleware.event_files import json_line, write_events
from distced.middleware.event_files.rows import written
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent

TABLES: Final = (".csv", ".parquet")
"""Suffixes of files written as tables, always in the native form."""

Write: TypeAlias = Callable[[Sequence[CompositeEvent]], None]


@contextmanager
def writing_found(out: Path | None, *, native: bool = False, with_events: bool = False) -> Iterator[Write]:
    """Destination of composite events.

    Args:
        out: a file; None for standard output.
        native: as lines that are read again as events.
        with_events: with the constituents themselves.
    """

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
