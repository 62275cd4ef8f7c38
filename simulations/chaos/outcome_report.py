"""Reports of fault campaigns: faults, time to recovery, composite events expected, received, lost, doubled, wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distced.simulations.chaos.campaign import Tally, Verdict, kind_of
from distced.simulations.chaos.live import LiveFigures
from distced.simulations.network.scenario_model import Fault
from distced.simulations.plots import percentile
from distced.simulations.report import Column, Report, ReportTable, number_columns

COUNTS = ("expected", "received", "lost", "doubled", "wrong", "reported")

_FAULTS = (Column("fault"), Column("injected", format=","), *number_columns(",.2f", "p50", "p99", "longest", unit="s"))
_EVENTS = (Column("composite events"), *number_columns(",", *COUNTS))


def simulated(tally: Tally, seed: int) -> Report:
    """Report of a campaign in virtual time."""
    counts, losses = tally.counts, tally.counts["losses"]
    counts["received"] = counts["expected"] - counts["lost"] + counts["wrong"]
    return Report(
        "chaos",
        {
            "runs": tally.runs,
            "seed": seed,
            **{name: counts[name] for name in COUNTS},
            "losses": losses,
            "failed": {each.seed: each.text for each in tally.failed},
        },
        [_fault_table(tally.faults, tally.recovery), ReportTable(_EVENTS, [_row("all", counts)], "events")],
        [
            f"{tally.runs:,} runs from seed {seed}; {losses:,} losses reported to subscriptions; recovery: virtual "
            "time from the end of a fault, of a lost node from its begin, until all subscriptions are beyond it"
        ],
        [f"seed {each.seed}: {each.text}\n{described(each)}" for each in tally.failed],
    )


def live(figures: LiveFigures) -> Report:
    """Report of a campaign on this machine."""
    rows = [_row(name, {each: getattr(figures, each)[name] for each in COUNTS}) for name in figures.expected]
    sums = {each: sum(getattr(figures, each).values()) for each in COUNTS}
    faults = [f"{sums[each]:,} composite events {each}" for each in ("lost", "doubled", "wrong") if sums[each]]
    return Report(
        "chaos",
        {name: getattr(figures, name) for name in LiveFigures.__dataclass_fields__},
        [_fault_table(figures.faults, figures.recovery), ReportTable(_EVENTS, [*rows, _row("all", sums)], "events")],
        [f"{figures.published:,} events published; {figures.losses:,} losses reported to subscriptions"],
        [*faults, *figures.problems],
    )


def described(verdict: Verdict) -> str:
    """Faults and subscriptions of a run, a line each."""
    lines = [f"  {_fault(each)}" for each in verdict.scenario.faults]
    lines += [f"  {each.name}: {each.pattern}" for each in verdict.scenario.subscriptions]
    return "\n".join(lines)


def _fault(fault: Fault) -> str:
    fields = {name: getattr(fault, name) for name in fault.__struct_fields__ if name != "at"}
    until = fields.pop("until", None)
    span = f"{fault.at / 1e9:.3f} s" + (f" to {until / 1e9:.3f} s" if until else "")
    return f"{kind_of(fault)} {span}: {', '.join(f'{name} {each}' for name, each in fields.items() if each)}"


def _fault_table(injected: Mapping[str, int], recovery: Mapping[str, Sequence[float]]) -> ReportTable:
    rows: list[tuple[Any, ...]] = []
    for kind, number in sorted(injected.items()):
        times = sorted(recovery.get(kind, ()))
        figures = (percentile(times, 0.5), percentile(times, 0.99), times[-1]) if times else (None, None, None)
        rows.append((kind, number, *figures))
    return ReportTable(_FAULTS, rows, "faults")


def _row(name: str, counts: Mapping[str, int]) -> tuple[Any, ...]:
    return (name, *(counts[each] for each in COUNTS))
