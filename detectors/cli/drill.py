"""Drill-down of the verb `drill` over recordings and histories, and what it prints, live too (`brokers.cli.drill`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from distced.detectors.batch_run.drill_down import DrillDown, drill_down, id_text, the_one
from distced.detectors.batch_run.report import event_as_dict
from distced.detectors.batch_run.runner import Replay, reader_of
from distced.detectors.cli.pattern_options import ConsumptionOption, LanguageOption, TypesOption, registry_of
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.output import AsJson, EventLines, few, messages, output, print_json, show_notes
from distced.middleware.mapping import load_mapping
from distced.middleware.model.events import CompositeEvent, Event, EventId

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
    events, is_incomplete = _read(options)
    searched = f"{few([str(each) for each in options.inputs])}, {len(events):,} events"
    if options.id is None:
        composites = [each for each in events.values() if isinstance(each, CompositeEvent)]
        _list(composites, as_json=options.as_json)
        if not composites:
            show_notes([f"no composite events in {searched}; those of patterns are found with --pattern FILE"])
        return int(is_incomplete)

    found = drill_down(the_one(options.id, list(events), searched), events)
    if options.as_json:
        print_json(as_dict(found))
    else:
        for line in tree_lines(found):
            output().print(line)
        if found.missing:
            show_notes([f"{len(found.missing):,} not recorded in {searched}"])
    return int(bool(found.missing) or is_incomplete)


def _read(options: RecordedOptions) -> tuple[dict[EventId, Event], bool]:
    """Events of all recordings and those that the patterns find, by id; whether rows could not be read."""
    source = None if options.pattern is None else read_source(options.pattern, options.language)
    mapping = None if options.mapping is None else load_mapping(options.mapping)
    events: dict[EventId, Event] = {}
    is_incomplete = False
    for path in options.inputs:
        reader = reader_of(path, mapping)
        for each in reader:
            events.setdefault(each.id, each)
        is_incomplete |= reader.is_incomplete
        for row in reader.rejected[:1]:
            messages().print(f"{reader.counts['rejected']:,} rows rejected, the first: {row.error}", style="yellow")
    if source is not None:
        patterns = compile_source(source, registry_of(options.types, options.mapping), consumption=options.consumption)
        for found in Replay(patterns.compiled, list(events.values())):
            events.setdefault(found.id, found)
    return events, is_incomplete


def _list(found: list[CompositeEvent], *, as_json: bool) -> None:
    if as_json:
        print_json([event_as_dict(each) for each in found])
        return
    lines = EventLines()
    for each in found[-_LISTED:]:
        output().print(Text.assemble((id_text(each.id), "dim"), "  ", lines.line(each)))
    if len(found) > _LISTED:
        show_notes([f"the last {_LISTED} of {len(found):,} composite events; --json lists all"])


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
