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
from simulations.benchmarks.patterns import WITHOUT, Throughput, by_selectivity, by_zipf, measure
from simulations.benchmarks.patterns_report import as_dict, plots, show

ZIPF: Final = (0.8, 1.0, 1.2, 1.4)
SELECTIVITY: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
NAMES: Final[tuple[Template, ...]] = get_args(Template)


def bench_patterns(
    templates: str, patterns: str, events: int, *, vary: str, without: int, report: Path | None, as_json: bool
) -> int:
    """Measure, and show what came of it."""
    chosen("columnar", 0)
    if vary not in ("", "zipf", "selectivity"):
        raise DistcedError("nothing to vary", given=vary, allowed="zipf, selectivity", where="--vary")
    wanted, counts = _templates(templates), numbers(patterns, "--patterns")
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    figures: list[Throughput] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=max(counts))

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        def measured() -> Iterator[Throughput]:
            for template in wanted:
                parameters = Parameters(template)
                if vary == "zipf":
                    yield from by_zipf(parameters, ZIPF, max(counts), events, tell)
                elif vary == "selectivity":
                    yield from by_selectivity(parameters, SELECTIVITY, max(counts), events, tell)
                else:
                    yield from measure(parameters, counts, events, watch=tell)
                if without:
                    yield from measure(parameters, [without], min(WITHOUT, events), indexed=False, watch=tell)

        figures += measured()
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0


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
