"""`distced simulate`: a scenario from a file, run in virtual time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distced.middleware.cli.output import AsJson, output, print_json, progress
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND

if TYPE_CHECKING:
    from distced.simulations.network.scenario.outcome import ScenarioOutcome
    from distced.simulations.network.scenario_model import Scenario


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file.")],
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Random seed; by default that of the file.", show_default=False)
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every delivered message to this file, as JSON lines.")
    ] = None,
    force: ForceOption = False,
    check: Annotated[
        bool, typer.Option(help="Compare the results with those of one engine over the same events.")
    ] = True,
    filters: Annotated[
        bool | None,
        typer.Option(
            "--filter/--no-filter",
            help="Publishers leave out events that nobody reads; the report shows what that saves. By default as the "
            "file says.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run a scenario in virtual time: broker nodes, publishers and subscribers on the links of a topology.

    The nodes are the shipped ones. The report has composite events and their delays, bytes by link, loads of nodes, and
    decisions of nodes with their reasons. A run is a function of its seed, to the byte; its digest shows it.

    With filters the scenario is run without them, too, for the bytes that they save.

    The exit code is 0 only if all subscriptions are complete, with the composite events of one engine.

    \b
    Examples:
      distced simulate cold-rooms.toml
      distced simulate cold-rooms.toml --seed 7 --json
      distced simulate cold-rooms.toml --filter
      distced simulate cold-rooms.toml --log messages.jsonl
    """
    from distced.simulations.network.scenario.outcome import compare
    from distced.simulations.network.scenario.outcome_report import as_dict, show
    from distced.simulations.network.scenario.toml import load_scenario

    check_output("--log", log, force=force, inputs=[file])
    scenario = load_scenario(file, seed=seed)
    if filters is not None:
        scenario = replace(scenario, filters=filters)
    began = time.perf_counter()
    outcome = _run(scenario, log)
    seconds = time.perf_counter() - began
    compared = compare(outcome) if check else {}
    unfiltered = _run(replace(scenario, filters=False), None) if scenario.filters else None
    if as_json:
        print_json(as_dict(outcome, compared, seconds, unfiltered))
    else:
        show(output(), outcome, compared, seconds, unfiltered)
    refused = any(each.refused for each in outcome.subscriptions.values())
    return 0 if outcome.complete and not refused and all(each.holds for each in compared.values()) else 1


def _run(scenario: Scenario, log: Path | None) -> ScenarioOutcome:
    from distced.simulations.network.scenario.run import simulate as simulate_scenario

    with ExitStack() as stack:
        opened = None
        if log is not None:
            try:
                opened = stack.enter_context(log.open("w", encoding="utf-8"))
            except OSError as error:
                raise DistcedError("cannot write the log", given=str(log), advice=str(error)) from None
        total = (scenario.lead + scenario.duration) // SECOND
        on_progress = stack.enter_context(progress("virtual seconds", total))
        return simulate_scenario(scenario, watch=lambda passed, _: on_progress(passed // SECOND), log=opened)
