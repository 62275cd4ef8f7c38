"""Command-line options that several verbs of simulations have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

SeedOption: TypeAlias = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]

ReportOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--report", metavar="FOLDER", help="Write tables and plots into this folder.", show_default=False),
]

RayOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--ray/--no-ray",
        help="Run broker nodes as Ray actors, or in this process; actors if left out and Ray is installed.",
        show_default=False,
    ),
]

SolverOption: TypeAlias = Annotated[
    float, typer.Option("--solver", metavar="SECONDS", help="Time limit of the solver for an optimum, s.", min=0.1)
]

HistoryOption: TypeAlias = Annotated[
    Path, typer.Option("--history", metavar="PATH", help="Folder of the event history.", show_default=False)
]

MappingOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        metavar="FILE",
        help="Mapping from recorded rows to events; without it the rows are events already.",
        show_default=False,
    ),
]

MasterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master, sc://… for Spark Connect, or inline to run without Spark; default: inline or local[*], "
        "whichever is expected to be faster.",
        show_default=False,
    ),
]
