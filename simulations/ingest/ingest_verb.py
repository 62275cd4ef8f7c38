"""The driver of `distced ingest`: has recordings read and put in place, says what came of them, shows how far it is."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from distced.detectors.batch_run.output import opened_for_writing, progress_bars
from distced.middleware.cli.output import messages, print_json
from distced.middleware.history.layout import make_history
from distced.middleware.history.writer import check_recorder
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import EventError
from distced.middleware.model.timestamps import format_duration, format_instant
from distced.simulations.ingest.ingestion import Ingest, Outcome
from distced.simulations.ingest.recordings import alone
from distced.simulations.replay.runners import LOG, TASKS, Inline, Runner, Spark, check_master, session_of

INLINE: Final = "inline"
_SHOWN: Final = 5
_REMARKS: Final = {
    "unmatched": "rows that no rule is about",
    "duplicate": "second deliveries",
    "nulled": "wrong attributes read as null",
    "by arrival": "times taken from the arrival",
    "held": "times that went back and were held",
    "offset anew": "times after which a clock was set anew",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What `distced ingest` was asked for; the names are those of its options."""

    recordings: tuple[Path, ...]
    history: Path
    mapping: Path | None
    name: str
    master: str
    rejected: Path | None
    count_on: bool
    as_json: bool


def ingest_recordings(asked: Asked) -> int:
    """Bring recordings into a history; 1 where one of them could not be read to its end."""
    if asked.mapping is not None:
        # A mistake in the mapping shows before anything is started.
        load_mapping(asked.mapping)
    check_recorder(asked.name)
    if asked.master != INLINE:
        check_master(asked.master)
    if asked.rejected is not None:
        _check_rejected(asked.rejected, asked.recordings)
    started = time.perf_counter()
    make_history(asked.history)
    with alone(asked.history):
        ingest = Ingest(
            asked.recordings, asked.history, mapping=asked.mapping, recorder=asked.name, count_on=asked.count_on
        )
        with _runner(asked, ingest) as runner, progress_bars(None) as bars:
            task = bars.add_task("reading", total=None, visible=bool(ingest.open))
            ingest.perform(runner, lambda events: bars.update(task, completed=events))
        ingest.clear()
    order = {path: place for place, path in enumerate(asked.recordings)}
    outcomes = sorted(ingest.outcomes, key=lambda each: order[each.path])
    if asked.rejected is not None:
        _copy_rejected(outcomes, asked.rejected)
    _show(outcomes, asked, time.perf_counter() - started)
    return int(any(each.ingested.trouble for each in outcomes))


@contextmanager
def _runner(asked: Asked, ingest: Ingest) -> Iterator[Runner]:
    # One recording is one task, for which nobody need start Spark.
    if asked.master == INLINE or len(ingest.open) < 2:
        yield Inline()
        return
    session = session_of(asked.master, ingest.work / LOG)
    try:
        yield Spark(session, ingest.work.absolute())
    finally:
        session.stop()
        shutil.rmtree(ingest.work / TASKS, ignore_errors=True)
        (ingest.work / LOG).unlink(missing_ok=True)


def _check_rejected(path: Path, recordings: tuple[Path, ...]) -> None:
    """Before anything is done: whether there may be a file for what is rejected, and it is none that is read."""
    if path.resolve() in {each.resolve() for each in recordings}:
        raise EventError("--rejected would replace a recording", given=str(path), allowed="a file of its own")
    if not path.resolve().parent.is_dir() or path.is_dir():
        raise EventError("cannot write the rejected rows", given=str(path), allowed="a file in a folder that is there")


def _copy_rejected(outcomes: list[Outcome], path: Path) -> None:
    with opened_for_writing(path) as whole:
        for each in outcomes:
            if each.recording is not None and each.recording.rejected.exists():
                with each.recording.rejected.open("rb") as file:
                    shutil.copyfileobj(file, whole)


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(outcome.ingested)
    kept = outcome.recording is not None and outcome.recording.rejected.exists()
    rejected = str(outcome.recording.rejected) if outcome.recording is not None and kept else None
    return {**found, "recording": str(outcome.path), "ingested_before": outcome.before, "rejected_rows": rejected}


def _show(outcomes: list[Outcome], asked: Asked, seconds: float) -> None:
    new = [each.ingested for each in outcomes if not each.before]
    days: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for each in new:
        days.update(each.days)
        types.update(each.types)
    added = sum(types.values())
    if asked.as_json:
        print_json(
            {
                "history": str(asked.history),
                "added": added,
                "days": dict(sorted(days.items())),
                "types": dict(sorted(types.items())),
                "recordings": [_as_dict(each) for each in outcomes],
                "seconds": round(seconds, 3),
            },
            indent=None,
        )
        return
    console = messages()
    for outcome in outcomes:
        for line in _lines(outcome):
            console.print(line)
    if added:
        first, last = min(days), max(days)
        span = first if first == last else f"{first} to {last}"
        names = ", ".join(f"{name} {count:,}" for name, count in types.most_common(_SHOWN))
        more = f" and {len(types) - _SHOWN} more types" if len(types) > _SHOWN else ""
        console.print(Text(f"{len(days):,} day{'s' * (len(days) != 1)}, {span}: {names}{more}", "dim"))
    console.print(Text(f"{added:,} events added to {asked.history} in {seconds:.1f} s", "dim"))


def _lines(outcome: Outcome) -> Iterator[Text]:
    what = outcome.ingested
    before = "  it was in the history before" if outcome.before else ""
    yield Text.assemble((str(outcome.path), "bold"), (before, "dim"))
    if what.trouble:
        yield Text.assemble(("  ! ", "bold yellow"), what.trouble)
    said = [f"{what.rows:,} rows", f"{what.events:,} events", f"{what.added:,} added"]
    if what.repeated:
        said.append(f"{what.repeated:,} came again and were left out")
    said += [f"{count:,} {_REMARKS.get(remark, remark)}" for remark, count in what.remarks.items()]
    yield Text("  " + ", ".join(said))
    if what.rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in what.rejected.items())
        where = "" if outcome.recording is None else f": {outcome.recording.rejected}"
        yield Text.assemble(("  ! ", "bold yellow"), f"set aside: {reasons}", (where, "dim"))
    if "id" in what.rejected:
        yield Text(
            "    id: other events have it; recordings that share their sources need --count-on and a new history", "dim"
        )
    for jump in what.jumps[:_SHOWN]:
        times = "once" if jump.times == 1 else f"{jump.times:,} times"
        most = "" if jump.times == 1 else "at most "
        yield Text.assemble(
            ("  ! ", "bold yellow"),
            f"the time of {jump.source} goes back {times} while its numbers go on, {most}by "
            f"{format_duration(jump.most)}, at number {jump.seq:,}, {format_instant(jump.hi)}",
        )
    if len(what.jumps) > _SHOWN:
        yield Text(f"    and of {len(what.jumps) - _SHOWN:,} more sources; --json gives all of them", "dim")
