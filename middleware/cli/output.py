"""Output of verbs: text for people, JSON for programs, errors for both; and events, one a line, in steady columns.

People get colours where the output is a terminal and NO_COLOR is not set, programs one JSON value on standard output.
Errors go to standard error, without a frame around them, so that they can be copied and searched for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, format_instant

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", show_default=False)]
"""The option that every verb has."""

PIPE_WIDTH: Final = 160  # columns where the output is no terminal: tables need not fit into 80
FEW: Final = 3  # names listed; of more the number is given
COLOURS: Final = ("cyan", "yellow", "magenta", "green", "blue", "red")


def output() -> Console:
    """Standard output for people."""
    return _console(stderr=False)


def messages() -> Console:
    """Standard error for people: everything but results."""
    return _console(stderr=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Exit where the reader of a pipe has ended; rich silences standard output, also where the other is meant."""
        if self.stderr:
            raise SystemExit(1)
        super().on_broken_pipe()


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


@contextmanager
def dispensable_output() -> Iterator[None]:
    """Block of output without which a process runs on, where its reader has ended or a disk is full."""
    # rich exits where the reader of a pipe has ended.
    with suppress(OSError, SystemExit):
        yield


def discard_unwritable() -> None:
    """Have standard streams that cannot be written discard the rest, which would make the exit code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def plain(parts: Iterable[RenderableType], width: int = PIPE_WIDTH, *, soft_wrap: bool = True) -> str:
    """Parts of an output, one below another, without colours and trailing blanks; width in characters."""
    file = StringIO()
    console = Console(file=file, width=width, color_system=None, highlight=False, markup=False, soft_wrap=soft_wrap)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def table(headings: Sequence[str], rows: Sequence[Sequence[Text]], right: Collection[str] = ()) -> Table:
    """A table without the columns that are empty throughout, numbers and the like aligned to the right."""
    shown = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in (headings[place] for place in shown):
        made.add_column(heading, overflow="fold", justify="right" if heading in right else "left")
    for row in rows:
        made.add_row(*(row[place] for place in shown))
    return made


@contextmanager
def progress(doing: str, total: int, *, left: bool = True) -> Iterator[Callable[[int], None]]:
    """Bar on standard error while the block runs, where that is a terminal; yields a function that takes the count.

    The bar estimates the time left unless `left` is false.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )  # fmt: skip

    console = messages()
    ends = ([SpinnerColumn()], [TimeRemainingColumn()]) if left else ([], [])
    columns = [*ends[0], TextColumn(doing), BarColumn(), MofNCompleteColumn(), *ends[1]]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.update(task, completed=count)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a JSON value on standard output; on a line of its own where `indent` is None."""
    sys.stdout.write(_json(value, indent) + "\n")
    sys.stdout.flush()


def print_json_list(values: Iterable[object]) -> None:
    """Print JSON values as `print_json` prints their list, each as soon as it is there."""
    before = "[\n"
    for each in values:
        sys.stdout.write(before + _json([each], 2)[2:-2])
        before = ",\n"
    sys.stdout.write("[]\n" if before[0] == "[" else "\n]\n")
    sys.stdout.flush()


def _json(value: object, indent: int | None) -> str:
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, ensure_ascii=not utf8, indent=indent, separators=None if indent else (",", ":"))


Highlight: TypeAlias = Callable[[str, str], Text]

_highlights: Final[list[Highlight]] = []


def error_as_dict(error: DistcedError) -> dict[str, Any]:
    """Parts of an error, and for one in a pattern its place."""
    parts: dict[str, Any] = dict(error.as_dict())
    if isinstance(error, PatternError) and error.line:
        parts |= {"line": error.line, "column": error.column, "snippet": error.snippet}
    return parts


def show_error(error: DistcedError, console: Console | None = None) -> None:
    """Print an error for people: the problem, its place with the line and a caret, what is allowed, what to do."""
    console = console or messages()
    parts = error.as_dict()
    problem = parts["problem"] + (f": {parts['given']}" if "given" in parts else "")
    console.print(Text.assemble(("error: ", "bold red"), (problem, "bold")))
    if "where" in parts:
        console.print(Text.assemble(("  at ", "dim"), parts["where"]))
    if isinstance(error, PatternError) and error.snippet:
        line, _, caret = error.snippet.partition("\n")
        # Without colours rich would still print what is dim or italic.
        has_colours = console.color_system is not None and not console.no_color
        shown = Text(line[2:])
        for highlight in _highlights if has_colours else ():
            shown = highlight(line[2:], error.language)
        console.print(Text.assemble(("    | ", "dim"), shown))
        console.print(Text.assemble(("    | ", "dim"), (caret[2:], "bold red")))
    for name, colour in (("allowed", "cyan"), ("advice", "green")):
        if name in parts:
            console.print(Text.assemble((f"  {name}: ", colour), parts[name]))


def highlight_snippets(highlight: Highlight) -> None:
    """Have `show_error` give lines of patterns their styles: a function of a line and the name of its language."""
    _highlights[:] = [highlight]


def show_notes(notes: Iterable[str], console: Console | None = None) -> None:
    """Print notes, which are no errors."""
    console = console or messages()
    for note in notes:
        console.print(Text.assemble(("note: ", "bold yellow"), note))


class EventLines:
    """Lines of events. Each type has a colour; the column of types grows with the widest so far."""

    def __init__(self) -> None:
        self.colours: dict[str, str] = {}
        self.width = 0

    def line(self, event: Event, delay: int | None = None) -> Text:
        """Line of an event; `delay` from its `hi` to its arrival, ns, None for unknown."""
        colour = self.colours.setdefault(event.type, COLOURS[len(self.colours) % len(COLOURS)])
        self.width = max(self.width, len(event.type))
        attributes = "  ".join(f"{name}={_value(value)}" for name, value in event.attributes.items())
        parts: list[str | tuple[str, str]] = [
            (clock(event.hi), "dim"),
            "  ",
            (f"{event.type:<{self.width}}", f"bold {colour}"),
        ]
        if attributes:
            parts.append(f"  {attributes}")
        said = [] if event.lo == event.hi else [f"over {span(event.hi - event.lo)}"]
        if isinstance(event, CompositeEvent):
            said.append(f"{len(event.constituents)} constituent{'s' * (len(event.constituents) != 1)}")
        else:
            said.append(f"from {event.source}")
        if delay is not None:
            said.append(f"after {span(delay)}")
        return Text.assemble(*parts, ("  " + ", ".join(said), "dim"))

    def lines(self, event: Event, delay: int | None = None) -> list[Text]:
        """Lines of an event, and indented below it of the constituents that were sent along."""
        lines = [self.line(event, delay)]
        for each in event.events if isinstance(event, CompositeEvent) else ():
            lines += [Text("    ") + line for line in self.lines(each)]
        return lines


def clock(instant: int) -> str:
    """Instant to the millisecond, always equally long."""
    head = format_instant(instant - instant % SECOND)[:-1]
    return f"{head}.{instant % SECOND // MILLISECOND:03}Z"


def span(nanoseconds: int) -> str:
    """Duration for people, to three digits or so."""
    for unit, size in (("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", MILLISECOND)):
        if nanoseconds >= size:
            return (
                f"{nanoseconds / size:.3g} {unit}" if nanoseconds < 1000 * size else f"{nanoseconds / size:,.0f} {unit}"
            )
    return f"{nanoseconds / MICROSECOND:.3g} µs"


def size(count: int) -> str:
    """Bytes for people, to three digits."""
    for unit, bound in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bound:
            return f"{count / bound:.3g} {unit}" if count < 1000 * bound else f"{count / bound:,.0f} {unit}"
    return f"{count} B"


def few(names: Sequence[str], most: int = FEW) -> str:
    """Names, or some of them and the number of others."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def _value(value: Attribute) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
