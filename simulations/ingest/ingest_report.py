"""Reports of `distced ingest` and `distced history compact`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from distced.middleware.cli.output import few, messages, print_json
from distced.middleware.mapping import REMARKS
from distced.middleware.model.timestamps import format_duration, format_instant
from distced.simulations.ingest.compaction import Compaction
from distced.simulations.ingest.ingestion import IngestOutcome

_SHOWN: Final = 5
_PROBLEMS_SHOWN: Final = 10


def _as_dict(outcome: IngestOutcome) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(outcome.ingested)
    kept = outcome.rejected
    return {
        **found,
        "recording": str(outcome.path),
        "ingested_before": outcome.before,
        "rejected_rows": None if kept is None else str(kept),
    }


def show(outcomes: Sequence[IngestOutcome], history: Path, seconds: float, *, as_json: bool) -> None:
    """Figures of recordings that were ingested, for reading or as JSON."""
    new = [each.ingested for each in outcomes if not each.before]
    days = sum((Counter(each.days) for each in new), Counter[str]())
    types = sum((Counter(each.types) for each in new), Counter[str]())
    added = sum(types.values())
    if as_json:
        print_json(
            {
                "history": str(history),
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
        names = few([f"{name} {count:,}" for name, count in types.most_common()], _SHOWN)
        console.print(Text(f"{len(days):,} day{'s' * (len(days) != 1)}, {span}: {names}", "dim"))
    said = f"{added:,} event{'s' * (added != 1)} added to {history} in {seconds:.1f} s"
    skipped = sum(each.before for each in outcomes)
    if skipped:
        said += f"; {skipped:,} recording{'s' * (skipped != 1)} skipped, in the history already"
    console.print(Text(said, "dim"))


def _lines(outcome: IngestOutcome) -> Iterator[Text]:
    what = outcome.ingested
    before = f"  skipped: its {what.added:,} events were added before" if outcome.before else ""
    yield Text.assemble((str(outcome.path), "bold"), (before, "dim"))
    if what.trouble:
        yield Text.assemble(("  ! ", "bold yellow"), what.trouble)
    if what.rows and not what.events:
        yield Text.assemble(("  ! ", "bold yellow"), "no row gave an event")
    elif what.is_mostly_rejected:
        yield Text.assemble(("  ! ", "bold yellow"), "most rows were rejected")
    if outcome.before:
        if what.refused:
            yield Text(f"  {what.refused:,} of {what.rows:,} rows were rejected then: {outcome.rejected}", "dim")
        return
    said = [f"{what.rows:,} rows", f"{what.events:,} events", f"{what.added:,} added"]
    if what.repeated:
        said.append(f"{what.repeated:,} duplicates left out")
    said += [f"{count:,} {REMARKS.get(remark, remark)}" for remark, count in what.remarks.items()]
    yield Text("  " + ", ".join(said))
    for path in what.missing_paths:
        yield Text.assemble(("  ! ", "bold yellow"), path)
    if what.rejected:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in what.rejected.items())
        yield Text.assemble(("  ! ", "bold yellow"), f"rejected: {kinds}", (f": {outcome.rejected}", "dim"))
    for reason in what.reasons[:_SHOWN]:
        rule = f" [{reason.rule}]" if reason.rule else ""
        yield Text.assemble((f"    {reason.count:,}{rule} ", "red"), reason.first)
    if len(what.reasons) > _SHOWN:
        yield Text(f"    and {len(what.reasons) - _SHOWN:,} more reasons; --json gives all of them", "dim")
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


def show_compaction(compaction: Compaction, seconds: float, *, as_json: bool) -> None:
    """Figures of a compaction, for reading or as JSON."""
    good = [each for each in compaction.done if not each.trouble]
    bad = [each for each in compaction.done if each.trouble]
    summary = {
        "files_before": len(compaction.history.files),
        "files": len(compaction.history.files) - sum(each.files - 1 for each in good),
        "rows": sum(each.rows for each in good),
        "repeated": sum(each.repeated for each in good),
        "bytes_before": sum(each.bytes for each in good),
        "bytes": sum(each.size for each in good),
        "left_before": compaction.left,
        "seconds": round(seconds, 3),
    }
    if as_json:
        problems = [each.error.as_dict() for each in compaction.history.problems]
        print_json({**summary, "compacted": msgspec.to_builtins(compaction.done), "problems": problems}, indent=None)
        return
    console = messages()
    for each in bad[:_PROBLEMS_SHOWN]:
        console.print(f"! {each.day} {each.type}: {each.trouble}")
    for problem in compaction.history.problems[:_PROBLEMS_SHOWN]:
        console.print(f"! {problem.error}")
    parts = [f"{summary['files_before']:,} files became {summary['files']:,}", f"{summary['rows']:,} events merged"]
    if summary["repeated"]:
        parts.append(f"{summary['repeated']:,} duplicates left out")
    if compaction.left:
        parts.append(f"{compaction.left:,} old files of an earlier run removed")
    console.print(", ".join(parts) + f", in {summary['seconds']:.1f} s")
