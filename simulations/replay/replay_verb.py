"""The driver of `distced replay`: plans, has the tasks performed, puts together what they find, shows how far it is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from distced.detectors.batch_run.output import progress_bars, writing_found
from distced.detectors.batch_run.runner import misfits
from distced.detectors.compiler import Consumption
from distced.detectors.pattern_files import Patterns, PatternSource, compile_source, read_source
from distced.detectors.runtime.engines import EngineName
from distced.middleware.cli.output import messages, print_json, show_notes
from distced.middleware.history.history import History
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import format_instant
from distced.simulations.replay.plan import Way
from distced.simulations.replay.replay import HistoryReplay, Progress
from distced.simulations.replay.runners import LOG, Inline, Runner, Spark, session_of

INLINE: Final = "inline"
_AT_ONCE: Final = 1024
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """What `distced replay` was asked for; the names are those of its options.

    Attributes:
        begin, until: ns; None where they are left out.
        master: of Spark, or `inline`.
        plan_only: say how it would be done, and do nothing.
    """

    pattern: str
    history: Path
    begin: int | None
    until: int | None
    by: str | None
    way: Way | None
    master: str
    out: Path | None
    with_events: bool
    native: bool
    consumption: Consumption
    engine: EngineName
    plan_only: bool
    as_json: bool


def replay_patterns(asked: Asked) -> int:
    """Replay patterns over a history and write what they find."""
    source = read_source(asked.pattern)
    # A mistake in the pattern shows before anything is started.
    compile_source(source, None, consumption=asked.consumption)
    history = History(asked.history)
    patterns, misfit = _compiled(source, history, asked.consumption)
    show_notes(patterns.notes)
    with _work(asked) as work, _runner(asked, work) as runner:
        replay = HistoryReplay(
            patterns.compiled,
            history,
            work,
            cores=runner.cores,
            begin=asked.begin,
            until=asked.until,
            by=asked.by,
            way=asked.way,
            engine=asked.engine,
            with_events=asked.with_events,
        )
        if asked.plan_only:
            _show_plan(replay, runner, asked)
            return 0
        started = time.perf_counter()
        with progress_bars(asked.out) as bars:
            dealing = bars.add_task("dealing out", total=1, visible=bool(replay.dealing))
            detecting = bars.add_task("detecting", total=1)

            def watch(progress: Progress) -> None:
                bars.update(dealing, completed=progress.dealt, total=max(1, progress.to_deal))
                bars.update(detecting, completed=progress.detected, total=max(1, progress.to_detect))

            replay.perform(runner, watch)
        performed = time.perf_counter()
        with writing_found(asked.out, native=asked.native, with_events=asked.with_events) as write:
            waiting = []
            for event in replay:
                waiting.append(event)
                if len(waiting) == _AT_ONCE:
                    write(waiting)
                    waiting = []
            write(waiting)
        _show(replay, runner, asked, misfit, performed - started)
        replay.clear()
    return 0


def _compiled(
    source: PatternSource, history: History, consumption: Consumption
) -> tuple[Patterns, DistcedError | None]:
    """The patterns against the types of the history, or by themselves where they do not fit, and why not."""
    types = tuple(history.types.values())
    misfit = misfits(source, types, consumption)
    registry = None if misfit is not None else TypeRegistry(types)
    return compile_source(source, registry, consumption=consumption), misfit


@contextmanager
def _work(asked: Asked) -> Iterator[Path]:
    """The folder for what is under way: beside the result, so that one can go on; without a result it goes away."""
    out = asked.out
    if out is not None and not out.parent.is_dir():
        raise DistcedError("no such folder", given=str(out.parent))
    if out is not None and out.is_dir():
        raise DistcedError("a folder where a file should be written", given=str(out), advice=f"say {out / 'x.jsonl'}")
    try:
        if out is None or asked.plan_only or (out.exists() and not out.is_file()):
            with tempfile.TemporaryDirectory(prefix="distced-replay-") as folder:
                yield Path(folder) / "work"
        else:
            yield out.with_name(f".{out.name}.replay")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DistcedError(
            f"the replay broke off: {error}",
            advice="what is done is kept with --out; the same command goes on from there",
        ) from None


@contextmanager
def _runner(asked: Asked, work: Path) -> Iterator[Runner]:
    if asked.master == INLINE:
        yield Inline()
        return
    session = session_of(asked.master, work / LOG)
    try:
        yield Spark(session, work.absolute())
    finally:
        session.stop()


def _plan_as_dict(replay: HistoryReplay, runner: Runner) -> dict[str, Any]:
    return {
        "runner": runner.name,
        "cores": runner.cores,
        "until": replay.plan.until,
        "groups": [
            {
                "patterns": [replay.patterns[place].automaton.canonical_id for place in each.patterns],
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
    yield Text(f"{runner.name}, {runner.cores} at a time, until {format_instant(replay.plan.until)}", "dim")
    ways = {"key": "by key", "time": "by slices of time", "parts": "by sub-patterns", "whole": "in one piece"}
    for each in replay.plan.groups:
        names = [replay.patterns[place].publishes.name or "composite events" for place in each.patterns]
        tasks = f"{each.tasks} task{'s' * (each.tasks != 1)}"
        yield Text.assemble(
            ("  " + ", ".join(names), "bold"),
            f"  {ways[each.way]}, {tasks}, {each.events:,} events",
            (f"  {each.why}", "dim"),
        )


def _show_plan(replay: HistoryReplay, runner: Runner, asked: Asked) -> None:
    if asked.as_json:
        print_json(
            {"plan": _plan_as_dict(replay, runner), "problems": [each.error.as_dict() for each in replay.problems]}
        )
        return
    console = messages()
    for line in _plan_lines(replay, runner):
        console.print(line)
    _show_problems(replay)


def _show(replay: HistoryReplay, runner: Runner, asked: Asked, misfit: DistcedError | None, seconds: float) -> None:
    notes = [] if misfit is None else [f"the history does not fit the pattern: {DistcedError._message(misfit)}"]
    counts = replay.counts
    found = [
        (each.publishes.name or "composite events", each.automaton.canonical_id, replay.found[place])
        for place, each in enumerate(replay.patterns)
    ]
    if asked.as_json:
        summary = {
            "plan": _plan_as_dict(replay, runner),
            "consumed": counts.consumed,
            "repeated": counts.repeated,
            "found": [{"publishes": name, "canonical_id": each, "count": count} for name, each, count in found],
            "tasks_done_before": replay.resumed,
            "missing_days": replay.history.missing_days(),
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
        said.append(f"{counts.repeated:,} more came again and were left out")
    if replay.resumed:
        said.append(f"{replay.resumed:,} tasks had been done before")
    console.print(Text(", ".join(said), "dim"))
    _show_problems(replay)
    show_notes(notes, console)


def _show_problems(replay: HistoryReplay) -> None:
    console = messages()
    for each in replay.problems[:_SHOWN]:
        console.print(Text.assemble(("! ", "bold yellow"), str(each.error)))
    if len(replay.problems) > _SHOWN:
        console.print(Text(f"and {len(replay.problems) - _SHOWN:,} more; --json gives all of them", "dim"))
    days = replay.history.missing_days()
    if days:
        shown = ", ".join(days[:_SHOWN]) + (f" and {len(days) - _SHOWN:,} more" if len(days) > _SHOWN else "")
        console.print(Text.assemble(("! ", "bold yellow"), f"nothing of any type on {shown}"))
