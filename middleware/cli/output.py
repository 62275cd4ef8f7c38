"""What verbs print: text for people, JSON for programs, errors for both.

People get colours where the output is a terminal and NO_COLOR is not set (rich sees to both), programs one JSON value
on standard output. Errors go to standard error, without a frame around them, so that they can be copied and searched
for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from distced.middleware.model.errors import DistcedError, PatternError

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", show_default=False)]
"""The option that every verb has."""

PIPE_WIDTH: Final = 160
"""Columns where nobody sees them: tables then need not be squeezed into 80."""


def output() -> Console:
    """Standard output for people."""
    return _console(stderr=False)


def messages() -> Console:
    """Standard error for people: what is no result."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def print_json(value: object, *, indent: int | None = 2) -> None:
    """A JSON value on standard output; on a line of its own where `indent` is None."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    separators = None if indent else (",", ":")
    sys.stdout.write(json.dumps(value, ensure_ascii=not utf8, indent=indent, separators=separators) + "\n")
    sys.stdout.flush()


def error_as_dict(error: DistcedError) -> dict[str, Any]:
    """The parts of an error, and for one in a pattern its place."""
    parts: dict[str, Any] = dict(error.as_dict())
    if isinstance(error, PatternError) and error.line:
        parts |= {"line": error.line, "column": error.column, "snippet": error.snippet}
    return parts


def show_error(error: DistcedError, console: Console | None = None) -> None:
    """An error for people: the problem, where it is with the line and a caret, what is allowed, what to do."""
    console = console or messages()
    parts = error.as_dict()
    problem = parts["problem"] + (f": {parts['given']}" if "given" in parts else "")
    console.print(Text.assemble(("error: ", "bold red"), (problem, "bold")))
    if "where" in parts:
        console.print(Text.assemble(("  at ", "dim"), parts["where"]))
    if isinstance(error, PatternError) and error.snippet:
        line, _, caret = error.snippet.partition("\n")
        console.print(Text.assemble(("    | ", "dim"), line[2:]))
        console.print(Text.assemble(("    | ", "dim"), (caret[2:], "bold red")))
    for name, colour in (("allowed", "cyan"), ("advice", "green")):
        if name in parts:
            console.print(Text.assemble((f"  {name}: ", colour), parts[name]))


def show_notes(notes: Iterable[str], console: Console | None = None) -> None:
    """What is no error, and yet worth saying."""
    console = console or messages()
    for note in notes:
        console.print(Text.assemble(("note: ", "bold yellow"), note))
