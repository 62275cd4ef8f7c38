"""The verb of middleware: `publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.options import DEFAULT, HomeOption, ServerOption
from distced.middleware.cli.output import AsJson, messages, output, print_json, show_notes
from distced.middleware.model.errors import DistcedError


def publish(
    type_name: Annotated[str | None, typer.Argument(metavar="TYPE", help="The type of the event.")] = None,
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Its attributes; those left out are null.")
    ] = None,
    server: ServerOption = DEFAULT,
    home: HomeOption = None,
    source: Annotated[str, typer.Option(help="Who publishes it.")] = "console",
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When: ISO 8601, or ns since 1970; now where left out.")
    ] = None,
    uncertainty: Annotated[
        str, typer.Option(metavar="DURATION", help="How far the timestamp reaches to both sides.")
    ] = "0s",
    register: Annotated[
        str | None, typer.Option(metavar="NAME:KIND,...", help="Register the type first: room:string,temp:number.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Publish a recording: .jsonl, .csv, .parquet, each with .gz.")
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How rows of the recording become events.")
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="Seconds of the recording in one second; as fast as possible where left out.", min=1e-6),
    ] = None,
    beyond: Annotated[
        str, typer.Option(metavar="DURATION", help="Let so much time pass after the recording, for time events.")
    ] = "0s",
    as_json: AsJson = False,
) -> int:
    """Publish an event, or a recording with its types and sources.

    The kinds of attributes are those of the registered type. Values are numbers, true, false, null, or text; write
    '"null"' for a text that would be read otherwise. A recording keeps its times and ids; its types are registered, its
    sources come, promise as they go, and leave.

    \b
    Examples:
      distced publish Motion room=hall moving=true --register room:string,moving:boolean
      distced publish Temp room=FE02 temp=14.5 --at 2026-11-21T08:00:00Z --uncertainty 1s
      distced publish --file events.jsonl.gz --speed 60
      distced publish --file office.csv.gz --mapping office.toml
      distced publish Motion room=hall --server mqtt://10.0.1.10 --home mqtt://10.0.2.10
    """
    from distced.middleware.cli.logs import configure_logging
    from distced.middleware.cli.signals import ending
    from distced.middleware.model.timestamps import parse_duration

    if (type_name is None) == (file is None):
        raise DistcedError(
            "nothing to publish" if file is None else "both an event and a recording", allowed="TYPE, or --file"
        )
    configure_logging()
    with ending():
        if file is not None:
            return _recording(server, home, file, mapping, speed, parse_duration(beyond), as_json)
        assert type_name is not None
        return _event(
            server, home, type_name, attributes or [], source, at, parse_duration(uncertainty), register, as_json
        )  # fmt: skip


def _event(
    server: str,
    home: str | None,
    type_name: str,
    attributes: list[str],
    source: str,
    at: str | None,
    uncertainty: int,
    register: str | None,
    as_json: bool,
) -> int:
    import json

    from distced.middleware.cli.event_lines import EventLines
    from distced.middleware.cli.options import connected
    from distced.middleware.cli.publish_driver import publish_event
    from distced.middleware.event_files import json_line

    with connected(server, home) as client:
        event = publish_event(
            client, type_name, attributes, source=source, at=at, uncertainty=uncertainty, register=register
        )
        notes = _nobody(len(client.nodes))
    if as_json:
        print_json(json.loads(json_line(event)), indent=None)
    else:
        output().print(EventLines().line(event))
    show_notes(notes)
    return 0


def _recording(
    server: str, home: str | None, file: Path, mapping: Path | None, speed: float | None, beyond: int, as_json: bool
) -> int:
    from dataclasses import asdict

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from distced.middleware.cli.options import connected
    from distced.middleware.cli.publish_driver import open_recording, publish_recording

    console = messages()
    columns = (SpinnerColumn(), TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    reader, feed = open_recording(file, mapping, speed)
    with (
        connected(server, home) as client,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(feed.events))
        done = publish_recording(
            client, reader, feed, lambda count: progress.update(task, completed=count), beyond=beyond
        )
        notes = _nobody(len(client.nodes))
    if as_json:
        print_json(asdict(done), indent=None)
    else:
        rate = done.events / done.seconds if done.seconds else 0.0
        output().print(
            f"{done.events:,} events of {done.types} types from {done.sources} sources "
            f"in {done.seconds:.1f} s, {rate:,.0f} a second"
        )
    if done.rejected:
        rows = "a row" if done.rejected == 1 else f"{done.rejected:,} rows"
        notes.append(f"{rows} gave no event: {reader.rejected[0].error}")
    if done.composite:
        notes.append(f"{done.composite:,} composite events were left out, for detectors make those")
    show_notes(notes)
    return 0


def _nobody(nodes: int) -> list[str]:
    return [] if nodes else ["there is no broker node, so nothing is detected; start one with `distced broker`"]
