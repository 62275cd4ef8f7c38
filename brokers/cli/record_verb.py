"""The verb `record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.options import DEFAULT, VARIABLE, HomeOption
from distced.middleware.cli.output import AsJson


def record(
    history: Annotated[Path, typer.Option("--history", metavar="PATH", help="The history: its folder, or a new one.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--types", metavar="TYPE,...", help="The types to record, composite ones too; repeatable."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Record all types.")] = False,
    server: Annotated[
        str,
        typer.Option("--server", "--url", envvar=VARIABLE, metavar="URL", help="The MQTT server: mqtt://host:port."),
    ] = DEFAULT,
    home: HomeOption = None,
    name: Annotated[
        str | None,
        typer.Option(help="What the recorder is called, unlike others; this machine's name.", show_default=False),
    ] = None,
    flush_every: Annotated[str, typer.Option(metavar="DURATION", help="How long events wait to be written.")] = "60s",
    flush_events: Annotated[int, typer.Option(help="How many events wait to be written.", min=1)] = 100_000,
    keep: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long the server keeps messages for it while it is away; 0s for not."
        ),
    ] = "1d",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after so long.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Record events into a history, until interrupted.

    Events are written when they are stable, as guaranteed detection consumes them, so that a replay finds what was
    found live. Sources wait for the recorder when they announce themselves, and it waits for sources: one that is
    silent holds it up until its lease runs out or it is fenced off. What comes too late is kept apart. One that is
    started again under its name goes on where it was, also after a crash. On a terminal a line shows how it goes; with
    --json it is an object a line, every five seconds. The exit code is 1 where something could not be written in the
    end.

    \b
    Examples:
      distced record --all --history office-history
      distced record --types Login,Motion --history office-history --name office --flush-every 10s
      distced record --types Motion --history trial --for 10min --keep 0s
    """
    from distced.brokers.cli.record import Wanted, record_until
    from distced.middleware.model.timestamps import parse_duration

    wanted = Wanted(
        history=history,
        types=tuple(each.strip() for text in types or () for each in text.split(",") if each.strip()),
        everything=everything,
        server=server,
        home=home or "",
        name=name or "",
        flush_every=parse_duration(flush_every),
        flush_events=flush_events,
        keep=parse_duration(keep),
        duration=None if duration is None else parse_duration(duration),
        as_json=as_json,
    )
    return record_until(wanted)
