"""The verb `distced ingest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.output import AsJson


def ingest(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="RECORDING...", help="CSV, JSON lines, Parquet or text files, also .gz.")
    ],
    history: Annotated[
        Path, typer.Option("--history", metavar="PATH", help="The folder of the event history; made if there is none.")
    ],
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How rows become events; without it they are events already.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="RECORDER", help="In whose name it is written.")] = "ingest",
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, sc://… for Spark Connect, or inline: without Spark.")
    ] = "local[*]",
    rejected: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write rows that gave no event here, too, as JSON lines.")
    ] = None,
    count_on: Annotated[
        bool, typer.Option("--count-on", help="Number events on from those in the history, source by source.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Bring recordings into an event history.

    Several recordings are read in parallel on Spark, each by one task. Rows that give no event are kept in the history,
    rejected/, with the reason; events that came before are left out. The same command again does no harm, and goes on
    where it was broken off.

    A mapping counts the events of a source, from 0 in each recording. Recordings that share their sources, one for each
    day for instance, have to be counted on.

    \b
    Examples:
      distced ingest events.parquet --history office
      distced ingest week-*.csv.gz --mapping office.toml --history office --count-on
    """
    from distced.simulations.ingest.ingest_verb import Asked, ingest_recordings

    return ingest_recordings(Asked(tuple(recordings), history, mapping, name, master, rejected, count_on, as_json))
