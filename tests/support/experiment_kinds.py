"""A kind of experiment of a test's own: a random walk, and cells that fail or end their process."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from random import Random

import msgspec

from distced.simulations.experiments.model import Cell, ExperimentKind, Results, Row
from distced.simulations.experiments.reporting.sections import (
    Axis,
    Claim,
    Curves,
    Distribution,
    Dots,
    Figure,
    Interval,
    Panel,
    Scatter,
    Section,
    Table,
)
from distced.simulations.experiments.reporting.statistics import interval
from distced.simulations.report import Column


class WalkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table of the kind; steps of -1 fail, steps of -2 end the process."""

    steps: list[int]
    length: float = 1.0


def cells(spec: WalkSpec, seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"steps": steps}, seed, spec.length) for steps in spec.steps for seed in seeds]


def run(cell: Cell) -> list[Row]:
    steps, random = int(cell.factors["steps"]), Random(cell.seed)
    if steps == -1:
        raise ValueError("a walk to nowhere")
    if steps == -2:
        os.kill(os.getpid(), signal.SIGKILL)
    at = [random.gauss(0.0, cell.settings) for _ in range(steps)]
    return [{"step": number, "at": place} for number, place in enumerate(at)]


def figures(results: Results) -> list[Section]:
    """One section of each form."""
    metres = Axis("place", "m")
    by_steps = {
        steps: interval(results.where(steps=steps).numbers("at")) or Interval(0, 0, 0)
        for steps in results.distinct("steps")
    }
    groups = {str(steps): each for steps, each in by_steps.items()}
    points = [(each, each) for each in by_steps.values()]
    panel = Panel(metres, {"walk": groups}, reference=("home", 0.0))
    return [
        Figure("dots", "Dots <&>", Dots([panel]), "Means & intervals."),
        Figure("curves", "Curves", Curves(Axis("steps", logarithmic=True), metres, {"walk": by_steps}), "Lines."),
        Figure("scatter", "Scatter", Scatter(metres, metres, {"walk": points}, diagonal="equal"), "Points."),
        Figure("spread", "Spread", Distribution(metres, {"all": results.numbers("at")}), "Shares."),
        Table("numbers", "Numbers", (Column("steps"), Column("place", "m", ".2f")),
              [(steps, each.mean) for steps, each in groups.items()]),
        Claim("A walk begins somewhere.", True, f"{len(results.rows)} steps", "spread"),
    ]  # fmt: skip


KIND = ExperimentKind("walk", "a random walk", WalkSpec, cells, run, figures)
