"""`distced simulate`: a scenario from a file, run in virtual time, and what came of it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from distced.middleware.cli.output import messages, output, print_json
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.scenario.checking import compare
from distced.simulations.network.scenario.outcome import Outcome
from distced.simulations.network.scenario.outcome_report import as_dict, show
from distced.simulations.network.scenario.run import simulate
from distced.simulations.network.scenario.toml import load_scenario
from distced.simulations.network.scenario_model import Scenario


def simulate_file(file: Path, *, seed: int | None, log: Path | None, check: bool, as_json: bool) -> int:
    """Run a scenario and show what came of it; 0 where everything has arrived, and is what one engine finds."""
    scenario = load_scenario(file, seed=seed)
    began = time.perf_counter()
    outcome = _run(scenario, log)
    seconds = time.perf_counter() - began
    compared = compare(outcome) if check else {}
    if as_json:
        print_json(as_dict(outcome, compared, seconds))
    else:
        show(output(), outcome, compared, seconds)
    refused = any(each.refused for each in outcome.subscriptions.values())
    return 0 if outcome.complete and not refused and all(each.holds for each in compared.values()) else 1


def _run(scenario: Scenario, log: Path | None) -> Outcome:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = messages()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with ExitStack() as stack:
        opened = None
        if log is not None:
            try:
                opened = stack.enter_context(log.open("w", encoding="utf-8"))
            except OSError as error:
                raise DistcedError("cannot write the log", given=str(log), advice=str(error)) from None
        progress = stack.enter_context(
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        )
        task = progress.add_task("", total=scenario.lead + scenario.duration)

        def tell(passed: int, whole: int) -> None:
            description = f"{passed / SECOND:.0f} of {whole / SECOND:.0f} s"
            progress.update(task, description=description, completed=passed)

        return simulate(scenario, watch=tell, log=opened)
