"""`distced chaos`: broker nodes under random faults, in virtual time or on this machine, against one engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from distced.middleware.cli.output import AsJson
from distced.middleware.cli.output_files import ForceOption, check_report
from distced.middleware.model.errors import DistcedError
from distced.simulations.options import ReportOption, SeedOption
from distced.simulations.report import Report, present, progress_bar

RUNS_EACH: Final = 20
"""Least number of runs for which a process of its own is started."""


def chaos(
    runs: Annotated[int, typer.Option(metavar="N", help="Number of runs, of consecutive seeds.", min=1)] = 100,
    seed: SeedOption = 1,
    kinds: Annotated[
        str, typer.Option(metavar="KIND,...", help="Kinds of faults; all if empty. --kinds help lists them.")
    ] = "",
    live: Annotated[bool, typer.Option("--live", help="On this machine: processes, an MQTT server, kill -9.")] = False,
    faults: Annotated[int, typer.Option(metavar="N", help="Number of faults, live.", min=1)] = 50,
    pace: Annotated[int, typer.Option(metavar="RATE", help="Events a second, live.", min=1)] = 200,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Number of runs at once; 0 for one on each processor.", min=0)
    ] = 0,
    ray: Annotated[bool, typer.Option("--ray", help="Live: broker nodes as Ray actors.")] = False,
    shrink: Annotated[bool, typer.Option(help="Show the first failing run with as few faults as still fail.")] = True,
    report: ReportOption = None,
    force: ForceOption = False,
    as_json: AsJson = False,
) -> int:
    """Inject random faults, and compare the composite events with those of one engine.

    In virtual time a run is a function of its seed: a small deployment with dense streams and up to four faults. Live,
    three broker nodes, a server and two clients run on this machine; faults come one after the other.

    The exit code is 1 where composite events are lost, doubled or wrong, or a subscription has fallen silent.

    \b
    Examples:
      distced chaos --runs 1000
      distced chaos --runs 1 --seed 4711
      distced chaos --kinds crash,power
      distced chaos --live --faults 200
    """
    check_report(report, ["chaos.md", "chaos-faults.csv", "chaos-events.csv"], force=force)
    if live:
        made = _live(faults, seed, kinds, pace, ray=ray)
    else:
        made = _simulated(range(seed, seed + runs), kinds, jobs, shrink=shrink)
    return present(made, report, as_json=as_json)


def _simulated(seeds: range, kinds: str, jobs: int, *, shrink: bool) -> Report:
    from distced.simulations.chaos.campaign import Tally, run_all, shrunk
    from distced.simulations.chaos.outcome_report import simulated
    from distced.simulations.chaos.schedule import KINDS

    chosen = _chosen(kinds, KINDS)
    tally = Tally()
    processes = min(jobs or os.cpu_count() or 1, max(len(seeds) // RUNS_EACH, 1))
    with progress_bar(steps=True, remaining=True) as on_progress:
        for number, verdict in enumerate(run_all(seeds, chosen, processes), 1):
            if shrink and verdict.failed and not tally.failed:
                on_progress(f"seed {verdict.seed} made small", number, len(seeds))
                verdict = shrunk(verdict, lambda each: each.failed)
            tally.add(verdict)
            on_progress("runs", number, len(seeds))
    return simulated(tally, seeds.start)


def _live(faults: int, seed: int, kinds: str, pace: int, *, ray: bool) -> Report:
    from distced.simulations.chaos.live import KINDS, measure
    from distced.simulations.chaos.outcome_report import live

    chosen = _chosen(kinds, KINDS)
    with progress_bar(steps=True, remaining=True) as on_progress:
        return live(measure(faults, seed, chosen, pace, on_progress, ray=ray))


def _chosen(text: str, known: Mapping[str, str]) -> Sequence[str]:
    """Kinds of faults given on the command line."""
    chosen = tuple(each.strip() for each in text.split(",") if each.strip()) or tuple(known)
    unknown = [each for each in chosen if each not in known]
    if unknown:
        allowed = "\n" + "\n".join(f"  {name:<18}{what}" for name, what in known.items())
        raise DistcedError("unknown kinds of faults", given=", ".join(unknown), allowed=allowed, where="--kinds")
    return chosen
