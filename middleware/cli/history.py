"""The verb `history`, which has verbs of its own: `ls`, `show`, `export` and `drop`.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from distced.middleware.cli.output import AsJson

history = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look into a history, take events out of it, and drop what is old.",
)

PathArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PATH", help="The folder of the history.", show_default=False)
]
Types: TypeAlias = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Events of this type only; repeatable.")
]
Sources: TypeAlias = Annotated[
    list[str] | None, typer.Option("--source", metavar="SOURCE", help="Events of this source only; repeatable.")
]
From: TypeAlias = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="The least hi: ISO 8601, or ns since 1970.")
]
To: TypeAlias = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="The greatest hi; of a day its end.", show_default=False)
]


@history.command("ls")
def ls(path: PathArgument, as_json: AsJson = False) -> int:
    """Show what is in a history: days and types, recorders, and what is wrong with it.

    For each day and type there are the events, what they take, how many sources they come from, and until when they are
    complete: until then a recorder has heard all sources. Below are the recorders, how far they are, and when they
    heard nothing; events that came too late; files that cannot be read; attributes that changed; days without anything.
    The exit code is 1 where something cannot be read.

    \b
    Examples:
      distced history ls office-history
      distced history ls office-history --json
    """
    from distced.middleware.cli.history_driver import show_contents

    return show_contents(path, as_json=as_json)


@history.command("show")
def show(
    path: PathArgument,
    types: Types = None,
    sources: Sources = None,
    begin: From = None,
    end: To = None,
    limit: Annotated[int, typer.Option(help="So many at most; 0 for all.", min=0)] = 100,
    late: Annotated[bool, typer.Option("--late", help="Those that came too late, instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show events of a history, in the order in which they are consumed.

    With --json one JSON object a line, in the form that `distced run` reads. The exit code is 1 where files cannot be
    read; what the others hold is shown.

    \b
    Examples:
      distced history show office-history --type Login --from 2026-11-21T08:00:00Z --limit 10
      distced history show office-history --from 2026-11-21 --to 2026-11-21 --json --limit 0
      distced history show office-history --late
    """
    from distced.middleware.cli.history_driver import choice, show_events

    return show_events(path, choice(types or (), sources or (), begin, end), limit, late=late, as_json=as_json)


@history.command("export")
def export(
    path: PathArgument,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help=".jsonl, .csv, each with .gz, or .parquet.", show_default=False)
    ],
    types: Types = None,
    sources: Sources = None,
    begin: From = None,
    end: To = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> int:
    """Write events of a history to one file, in the order in which they are consumed.

    The file is in the native form, which `distced run` and `distced publish --file` read.

    \b
    Examples:
      distced history export office-history november.jsonl.gz --from 2026-11-01 --to 2026-11-30
      distced history export office-history logins.csv --type Login
    """
    from distced.middleware.cli.history_driver import choice, export_events

    wanted = choice(types or (), sources or (), begin, end)
    return export_events(path, target, wanted, overwrite=overwrite, as_json=as_json)


@history.command("drop")
def drop(
    path: PathArgument,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DAY", help="Drop the days before this one.", show_default=False)
    ] = None,
    older: Annotated[
        str | None,
        typer.Option("--older", metavar="DURATION", help="Drop the days that are older.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Drop old days, whole ones, after asking.

    It says what would go, and how much that is. Late events go with those of their time. What is not known stays: files
    that cannot be read, and what others have put there; they are named. A recorder may be at work meanwhile. The exit
    code is 1 where the answer is no.

    \b
    Examples:
      distced history drop office-history --before 2026-11-01
      distced history drop office-history --older 90d --yes
    """
    from distced.middleware.cli.history_driver import drop_days
    from distced.middleware.model.clock import SystemClock
    from distced.middleware.model.timestamps import parse_duration

    age = None if older is None else parse_duration(older)
    return drop_days(path, before, age, SystemClock().now(), yes=yes, as_json=as_json)
