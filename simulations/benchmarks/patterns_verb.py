"""What `distced bench patterns` does with what it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from detectors.engines import chosen
from middleware.console_output import messages, output, print_json
from middleware.errors import DistcedError
from simulations.benchmarks.cayuga_queries import Parameters, Template
from simulations.benchmarks.patterns import Throughput, measure, varied
from simulations.benchmarks.patterns_report import as_dict, plots, show, sound

NAMES: Final[tuple[Template, ...]] = get_args(Template)


def bench_patterns(
    templates: str,
    patterns: str,
    events: int,
    *,
    vary: str,
    merging: bool,
    without: int,
    report: Path | None,
    as_json: bool,
) -> int:
    """Measure, and show what came of it; 1 if variants differ in what they find."""
    chosen("columnar", 0)
    if vary not in ("", "zipf", "selectivity"):
        raise DistcedError("nothing to vary", given=vary, allowed="zipf, selectivity", where="--vary")
    wanted, counts = _templates(templates), numbers(patterns, "--patterns")
    if vary:
        counts = counts[-1:]
    elif 0 < without < counts[0]:
        # There is to be one number that all variants are measured with.
        counts = [without, *counts]
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=counts[-1])

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        def measured() -> Iterator[Throughput]:
            for template in wanted:
                for parameters in varied(Parameters(template), vary):
                    yield from measure(parameters, counts, events, merging=merging, without=without, watch=tell)

        figures = list(measured())
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures, vary).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0 if sound(figures) else 1


def _templates(text: str) -> tuple[Template, ...]:
    asked = NAMES if text == "all" else tuple(each.strip() for each in text.split(","))
    found = tuple(each for each in NAMES if each in asked)
    if len(found) != len(set(asked)):
        raise DistcedError("no such template", given=text, allowed=f"{', '.join(NAMES)}, or all", where="--templates")
    return found


def numbers(text: str, where: str) -> list[int]:
    """Several numbers from 1, apart by commas, the least first."""
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DistcedError("not whole numbers", given=text, allowed="numbers from 1, apart by commas", where=where)
    return sorted(set(counts))
