"""Reports of `distced replay`: plan and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.text import Text

from distced.middleware.cli.output import few, messages, print_json, show_notes
from distced.middleware.history.layout import loss_text
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import format_instant
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import Runner

_SHOWN: Final = 10


def _plan_as_dict(replay: HistoryReplay, runner: Runner) -> dict[str, Any]:
    return {
        "runner": runner.name,
        "runner_why": runner.why,
        "cores": runner.cores,
        "until": replay.plan.until,
        "groups": [
            {
                "patterns": [replay.patterns[place].canonical_id for place in each.patterns],
                "publishes": [replay.patterns[place].publishes.name for place in each.patterns],
                "reads": None if each.types is None else sorted(each.types),
                "events": each.events,
                "way": each.way,
                "why": each.why,
                "by": list(each.by),
                "tasks": each.tasks,
            }
            for each in replay.plan.groups
        ],
    }


def _plan_lines(replay: HistoryReplay, runner: Runner) -> Iterator[Text]:
    name = f"{runner.name} ({runner.why})" if runner.why else runner.name
    yield Text(f"{name}, {runner.cores} at a time, until {format_instant(replay.plan.until)}", "dim")
    ways = {"key": "by key", "time": "by slices of time", "parts": "by sub-patterns", "whole": "in one piece"}
    for each in replay.plan.groups:
        names = [replay.patterns[place].publishes.name or "composite events" for place in each.patterns]
        tasks = f"{each.tasks} task{'s' * (each.tasks != 1)}"
        yield Text.assemble(
            ("  " + ", ".join(names), "bold"),
            f"  {ways[each.way]}, {tasks}, {each.events:,} events",
            (f"  {each.why}", "dim"),
        )


def show_plan(replay: HistoryReplay, runner: Runner, *, as_json: bool) -> None:
    """The plan of a replay, for reading or as JSON."""
    if as_json:
        problems = [each.error.as_dict() for each in replay.problems]
        print_json({"plan": _plan_as_dict(replay, runner), "problems": problems})
        return
    console = messages()
    for line in _plan_lines(replay, runner):
        console.print(line)
    _show_problems(replay)


def show(replay: HistoryReplay, runner: Runner, misfit: DistcedError | None, seconds: float, *, as_json: bool) -> None:
    """Plan, composite events and problems of a replay that is done, for reading or as JSON."""
    notes = [] if misfit is None else [f"the history does not fit the pattern: {DistcedError._message(misfit)}"]
    counts = replay.counts
    found = [
        (each.publishes.name or "composite events", each.canonical_id, replay.found[place])
        for place, each in enumerate(replay.patterns)
    ]
    if as_json:
        summary = {
            "plan": _plan_as_dict(replay, runner),
            "consumed": counts.consumed,
            "repeated": counts.repeated,
            "rejected": replay.rejected,
            "found": [{"publishes": name, "canonical_id": each, "count": count} for name, each, count in found],
            "tasks_done_before": replay.resumed,
            "missing_days": replay.history.missing_days(),
            "gaps": replay.gaps,
            "losses": replay.losses,
            "problems": [each.error.as_dict() for each in replay.problems],
            "seconds": round(seconds, 3),
        }
        print_json({"summary": summary, "notes": notes}, indent=None)
        return
    console = messages()
    for line in _plan_lines(replay, runner):
        console.print(line)
    width = max(len(f"{count:,}") for _, _, count in found)
    for name, canonical, count in found:
        console.print(Text.assemble((f"  {count:>{width},} ", "bold"), name, (f"  {canonical}", "dim")))
    said = [f"{counts.consumed:,} events consumed in {seconds:.1f} s"]
    if counts.repeated:
        said.append(f"{counts.repeated:,} duplicates left out")
    if replay.rejected:
        said.append(f"{replay.rejected:,} rows rejected")
    if replay.resumed:
        said.append(f"{replay.resumed:,} tasks were done before")
    console.print(Text(", ".join(said), "dim"))
    _show_problems(replay)
    show_notes(notes, console)


def _show_problems(replay: HistoryReplay) -> None:
    console = messages()
    for each in replay.problems[:_SHOWN]:
        console.print(Text.assemble(("! ", "bold yellow"), str(each.error)))
    if len(replay.problems) > _SHOWN:
        console.print(Text(f"and {len(replay.problems) - _SHOWN:,} more; --json gives all of them", "dim"))
    missing = [
        f"nothing was recorded from {format_instant(each[0])} to {format_instant(each[1])}" for each in replay.gaps
    ]
    missing += [f"events are missing {loss_text(each)}" for each in replay.losses]
    for line in missing[-_SHOWN:]:
        console.print(Text.assemble(("! ", "bold yellow"), line))
    if len(missing) > _SHOWN:
        console.print(Text(f"and {len(missing) - _SHOWN:,} earlier; --json gives all of them", "dim"))
    days = replay.history.missing_days()
    if days:
        console.print(Text.assemble(("! ", "bold yellow"), f"no events of any type on {few(days, _SHOWN)}"))
