"""The verb of policies: `test`, which runs conformance cases, also on cut patterns under guaranteed detection.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from middleware.console_output import AsJson


class Cut(StrEnum):
    """How patterns are cut."""

    NONE = "none"
    FULL = "full"
    RANDOM = "random"


def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of cases, or folders of them.")],
    engine: Annotated[str, typer.Option("--engine", help="The engine to run them on.")] = "stepwise",
    cut: Annotated[
        Cut | None,
        typer.Option("--cut", help="Run each pattern as a graph of detectors, with any delays between them."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="With --cut: what chance begins with.")] = 0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every failure in full.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run conformance cases: patterns, events, what must be found.

    With --cut the patterns are cut into sub-patterns, wherever that is allowed (full) or somewhere (random), or not at
    all (none), and run as a graph of detectors under guaranteed detection: messages between them are delayed at random,
    and arrive in an order that depends on the seed. What is found must be the same.

    The exit code is 1 if any case fails. How cases are written: docs/command-line.md.

    \b
    Examples:
      distced test tests/conformance
      distced test my-cases.toml --verbose
      distced test tests/conformance --cut random --seed 7
    """
    from detectors.cases_verb import run_cases, show_results

    if cut is None:
        results = run_cases(files, engine)
    else:
        from policies.cut_cases import cut_run

        how = cut.value if cut is Cut.NONE else f"{cut.value}, seed {seed}"
        results = run_cases(files, engine, cut_run(cut.value, seed), cut=how)
    show_results(results, in_full=verbose, as_json=as_json)
    return results.exit_code
