"""Drill-down of the verb `drill` over recordings and histories, and what it prints, live too (`brokers.cli.drill`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from distced.detectors.batch_run.drill_down import DrillDown, IdText, id_text, the_one
from distced.detectors.batch_run.recorded_drill_down import RecordedEvents
from distced.detectors.batch_run.report import event_as_dict
from distced.detectors.batch_run.runner import reader_of
from distced.detectors.cli.pattern_options import ConsumptionOption, LanguageOption, TypesOption, registry_of
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.output import (
    AsJson,
    EventLines,
    few,
    messages,
    output,
    print_json,
    print_json_list,
    show_notes,
)
from distced.middleware.event_files import EventReader
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, EventId

_LISTED: Final = 20


@dataclass(frozen=True)
class RecordedOptions:
    """Options of `distced drill` for recorded events."""

    inputs: Annotated[
        list[Path],
        typer.Option("--input", metavar="FILE", help="Recorded events, composite ones too, or a history; repeatable."),
    ] = field(default_factory=list)
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Id of an event, or its beginning; without it composite events are listed, live all are drilled down.",
        ),
    ] = None
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="PATTERN|FILE", help="Patterns to be run over the events first, or detected live."
        ),
    ] = None
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="FILE", help="Mapping (TOML) of rows to events.")
    ] = None
    types: TypesOption = None
    consumption: ConsumptionOption = "ordered"
    language: LanguageOption = ""
    as_json: AsJson = False


def drill_recorded(options: RecordedOptions) -> int:
    """Drill down an event of recordings, or list the composite ones; the exit code."""
    if options.id is not None or options.pattern is not None:
        _check_readable_again(options.inputs)
    recorded = _recorded(options)

    def searched() -> str:
        _show_rejected(recorded.readers)
        return f"{few([str(each) for each in options.inputs])}, {len(recorded):,} events"

    if options.id is None:
        found = _list(recorded.composites(), as_json=options.as_json)
        where = searched()
        if not found:
            show_notes([f"no composite events in {where}; those of patterns are found with --pattern FILE"])
        return int(_is_incomplete(recorded))

    given = IdText(options.id)
    root = the_one(given, recorded.fitting(given.fits), searched)
    where, is_incomplete = searched(), _is_incomplete(recorded)
    tree = recorded.drill_down(root)
    if options.as_json:
        print_json(as_dict(tree))
    else:
        for line in tree_lines(tree):
            output().print(line)
        if tree.missing:
            show_notes([f"{len(tree.missing):,} not recorded in {where}"])
    return int(bool(tree.missing) or is_incomplete)


def _check_readable_again(paths: Iterable[Path]) -> None:
    """Raise `EventError` for a pipe: what its first pass has read is gone."""
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise EventError(
                "a recording that cannot be read twice",
                given=str(path),
                allowed="a file, or the folder of an event history; without an id and --pattern a pipe, too",
                advice="write it to a file first",
            )


def _recorded(options: RecordedOptions) -> RecordedEvents:
    """Events of all recordings, and those that the patterns find."""
    source = None if options.pattern is None else read_source(options.pattern, options.language)
    mapping = None if options.mapping is None else load_mapping(options.mapping)
    readers = [reader_of(path, mapping) for path in options.inputs]
    if source is None:
        return RecordedEvents(readers)
    patterns = compile_source(source, registry_of(options.types, options.mapping), consumption=options.consumption)
    return RecordedEvents(readers, patterns.compiled)


def _is_incomplete(recorded: RecordedEvents) -> bool:
    return any(each.is_incomplete for each in recorded.readers)


def _show_rejected(readers: Sequence[EventReader]) -> None:
    for reader in readers:
        for row in reader.rejected[:1]:
            messages().print(f"{reader.counts['rejected']:,} rows rejected, the first: {row.error}", style="yellow")


def _list(found: Iterable[CompositeEvent], *, as_json: bool) -> int:
    """List composite events, each once: all as JSON, else the last of them; their number as they were read."""
    if as_json:
        ids: set[EventId] = set()
        print_json_list(map(event_as_dict, _once(found, ids)))
        return len(ids)
    count, left_out = 0, False
    latest: dict[EventId, CompositeEvent] = {}
    for each in found:
        count += 1
        latest.pop(each.id, None)
        latest[each.id] = each
        if len(latest) > _LISTED:
            del latest[next(iter(latest))]
            left_out = True
    lines = EventLines()
    for each in latest.values():
        output().print(Text.assemble((id_text(each.id), "dim"), "  ", lines.line(each)))
    if left_out:
        show_notes([f"the last {len(latest)} of {count:,} composite events read; --json lists all"])
    return count


def _once(found: Iterable[CompositeEvent], ids: set[EventId]) -> Iterator[CompositeEvent]:
    for each in found:
        if each.id not in ids:
            ids.add(each.id)
            yield each


def tree_lines(found: DrillDown, missing: str = "not recorded", lines: EventLines | None = None) -> Iterator[Text]:
    """Tree with guides, one line an event; `lines` keeps the colours of types from one tree to the next."""
    lines = lines or EventLines()
    steps = list(found.steps())
    lines.width = max((len(each.event.type) for each in steps if each.event is not None), default=0)
    deepest = max(each.depth for each in steps)
    guides: list[str] = []
    for each in steps:
        del guides[max(each.depth - 1, 0) :]
        branch = "" if not each.depth else "".join(guides) + ("└─ " if each.is_last else "├─ ")
        if each.depth:
            guides.append("   " if each.is_last else "│  ")
        lead = Text(f"{branch:<{3 * deepest}}", "dim")
        if each.event is None:
            yield Text.assemble(lead, (f"{id_text(each.id)}  {missing}", "yellow"))
            continue
        again = "  as above" if each.is_again else ""
        yield Text.assemble(lead, lines.line(each.event), (f"  {id_text(each.id)}{again}", "dim"))


def as_dict(found: DrillDown) -> dict[str, Any]:
    """Drill-down for programs: each event once, in the order of the tree."""
    shown = [
        event_as_dict(each.event) | {"depth": each.depth}
        for each in found.steps()
        if each.event is not None and not each.is_again
    ]
    once = {each["id"]: each for each in reversed(shown)}
    return {
        "id": found.root,
        "text": id_text(found.root),
        "events": [each for each in shown if once[each["id"]] is each],
        "not_recorded": list(found.missing),
    }
