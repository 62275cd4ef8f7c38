"""The verb `distced replay`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from distced.detectors.cli.verbs import Consumption, ConsumptionOption, EngineOption, PatternArgument
from distced.middleware.cli.output import AsJson


class WayOption(StrEnum):
    """The ways to cut a replay."""

    KEY = "key"
    TIME = "time"
    PARTS = "parts"
    WHOLE = "whole"


def replay(
    pattern: PatternArgument,
    history: Annotated[Path, typer.Option("--history", metavar="PATH", help="The folder of the event history.")],
    begin: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="Events from then on: 2026-11-21T08:00:00Z, or ns.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="Events until then, of a day its end.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Cut the work by this attribute of the patterns' keys.")
    ] = None,
    way: Annotated[WayOption | None, typer.Option("--way", help="Cut the work so; by itself as the plan says.")] = None,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, sc://… for Spark Connect, or inline: without Spark.")
    ] = "local[*]",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write composite events here.")] = None,
    with_events: Annotated[
        bool, typer.Option("--events", help="Give the constituents too, not only their ids.", show_default=False)
    ] = False,
    native: Annotated[bool, typer.Option("--native", help="Write lines that are read again as events.")] = False,
    consumption: ConsumptionOption = Consumption.ORDERED,
    engine: Annotated[
        EngineOption, typer.Option("--engine", help="What detects; by itself columnar where there are many events.")
    ] = EngineOption.AUTO,
    plan: Annotated[bool, typer.Option("--plan", help="Say how it would be done and why, and do nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Replay patterns over an event history, in parallel on Spark.

    It finds what guaranteed live detection finds: the same composite events with the same ids. The work is cut by key
    where the patterns have one, by slices of time where a match lasts only so long.

    With --out what is done is kept beside the file, .FILE.replay, until all is; the same command goes on from there.

    \b
    Examples:
      distced replay office.pattern --history office --out found.jsonl
      distced replay '[Login as x] ; [Logout] by person within 8h' --history office --from 2026-11-21T00:00:00Z
      distced replay office.pattern --history office --plan
    """
    from distced.middleware.cli.history_driver import choice
    from distced.simulations.replay.replay_verb import Asked, replay_patterns

    wanted = choice((), (), begin, until)
    return replay_patterns(
        Asked(
            pattern=pattern,
            history=history,
            begin=wanted.begin,
            until=wanted.end,
            by=by,
            way=None if way is None else way.value,
            master=master,
            out=out,
            with_events=with_events,
            native=native,
            consumption="epoch" if consumption == Consumption.EPOCH else "ordered",
            engine=engine.value,
            plan_only=plan,
            as_json=as_json,
        )
    )
