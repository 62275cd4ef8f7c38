"""The verbs of detectors: `check` and `run`; `explain`, which places detectors, too, is in `policies.cli.verbs`.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.text import Text

from distced.middleware.cli.output import AsJson, output, print_json, show_notes

if TYPE_CHECKING:
    from distced.detectors.explain.facts import Facts
    from distced.detectors.pattern_files import Patterns
    from distced.middleware.model.event_types import TypeRegistry

PatternArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATTERN|FILE", help="A pattern, a pattern file, or - for a file on standard input.")
]
TypesOption: TypeAlias = Annotated[
    Path | None, typer.Option("--types", metavar="FILE", help="A TOML file of event types: [types.Temp] temp = ...")
]
MappingOption: TypeAlias = Annotated[
    Path | None, typer.Option("--mapping", metavar="FILE", help="A mapping, whose event types are taken.")
]


class EngineOption(StrEnum):
    """What detects; the names are those of `detectors.runtime.engines`."""

    AUTO = "auto"
    STEPWISE = "stepwise"
    COLUMNAR = "columnar"


class Consumption(StrEnum):
    """How events are consumed."""

    ORDERED = "ordered"
    EPOCH = "epoch"


ConsumptionOption: TypeAlias = Annotated[
    Consumption, typer.Option("--consumption", help="Events one by one, or all of one instant together.")
]


def check(
    pattern: PatternArgument,
    types: TypesOption = None,
    mapping: MappingOption = None,
    consumption: ConsumptionOption = Consumption.ORDERED,
    as_json: AsJson = False,
) -> int:
    """Check that a pattern makes sense, and say what it reads.

    With event types (from a file of them, or from a mapping) it is checked against these: every type and attribute
    has to be known and the kinds have to fit. Without, types and attributes are taken as they stand.

    \b
    Examples:
      distced check '[Motion as m] ; [Door where room == m.room] within 1min'
      distced check office.pattern --mapping office.toml
      distced check office.pattern --types types.toml --json
    """
    from distced.detectors.explain.facts import facts_of

    registry = registry_of(types, mapping)
    patterns = _compiled(pattern, registry, consumption)
    facts = [facts_of(each, patterns.derived) for each in patterns.compiled]
    checked = "declared" if registry is not None else "taken as known"
    if as_json:
        shown = {"ok": True, "types": checked, "patterns": [each.as_dict() for each in facts]}
        print_json({**shown, "notes": list(patterns.notes)})
        return 0
    show_notes(patterns.notes)
    console = output()
    for each in facts:
        for line in _facts_lines(each):
            console.print(line)
    count = f"{len(facts)} pattern{'s' * (len(facts) != 1)}"
    against = (
        "types are taken as known; --types or --mapping has them checked"
        if registry is None
        else f"checked against {len(registry)} event type{'s' * (len(registry) != 1)}"
    )
    console.print(Text.assemble(("OK", "bold green"), f"  {count}, {against}"))
    return 0


def _facts_lines(facts: Facts) -> list[Text]:
    from distced.middleware.model.timestamps import format_duration

    lines = [Text.assemble((facts.signature(), "bold"), ("   " + facts.canonical_id, "dim"))]
    said = {
        "reads": "every event" if facts.reads is None else ", ".join(facts.reads),
        "thinned": "; ".join(facts.thinned),
        "by": ", ".join(facts.key),
        "within": "" if facts.within is None else format_duration(facts.within),
        "timers": ", ".join(f"{name} = {when}" for name, when in facts.timers.items()),
        "consumes": "by epochs" if facts.epochs else "",
    }
    lines += [Text.assemble((f"  {name:<10}", "dim"), text) for name, text in said.items() if text]
    return lines


def run(
    pattern: PatternArgument,
    recording: Annotated[
        Path,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Recorded events: .csv, .jsonl, .parquet, .log, .txt, .dat, each with .gz; or a history.",
        ),
    ],
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="FILE", help="How rows become events; needed for log files.")
    ] = None,
    types: TypesOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write composite events here.")] = None,
    with_events: Annotated[
        bool, typer.Option("--events", help="Give the constituents too, not only their ids.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Write lines that --input reads again; .csv and .parquet always are.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Let time go on after the last event until every time event has fired.")
    ] = False,
    rejected: Annotated[
        Path | None, typer.Option("--rejected", metavar="FILE", help="Write the rows that gave no event, and why.")
    ] = None,
    consumption: ConsumptionOption = Consumption.ORDERED,
    engine: Annotated[
        EngineOption, typer.Option("--engine", help="What detects; by itself columnar where there are many events.")
    ] = EngineOption.AUTO,
    as_json: AsJson = False,
) -> int:
    """Run patterns over recorded events; print what they find.

    What is found goes to standard output as JSON lines, or to a file.

    The patterns of a file run together, so one may read what another publishes. Events are sorted into the order in
    which they are consumed, so all that the patterns read have to fit into memory. A summary goes to standard error;
    with --json it is the last line of standard output.

    \b
    Examples:
      distced run '[Motion] ; [Door] within 1min' --input events.jsonl.gz
      distced run office.pattern --input office.csv.gz --mapping office.toml --out found.jsonl
      distced run '[A] ; [B] -> Pair()' --input a.csv --native --out pairs.jsonl
      distced run '[Pair] ; [Pair] within 1h' --input pairs.jsonl
    """
    from distced.detectors.cli.run import Run, run_patterns

    wanted = Run(
        pattern=pattern,
        recording=recording,
        mapping=mapping,
        registry=registry_of(types, None),
        out=out,
        with_events=with_events,
        native=native,
        finish=finish,
        rejected=rejected,
        consumption="epoch" if consumption == Consumption.EPOCH else "ordered",
        engine=engine.value,
        as_json=as_json,
    )
    run_patterns(wanted)
    return 0


# What verbs share.


def registry_of(types: Path | None, mapping: Path | None) -> TypeRegistry | None:
    """The event types of a file of types and of a mapping; None where neither is given."""
    from distced.middleware.mapping import load_mapping
    from distced.middleware.mapping.type_file import load_types
    from distced.middleware.model.event_types import TypeRegistry

    if types is None and mapping is None:
        return None
    registry = TypeRegistry(() if types is None else load_types(types))
    for each in () if mapping is None else load_mapping(mapping).types:
        registry.register(each)
    return registry


def _compiled(pattern: str, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    from distced.detectors.pattern_files import compile_source, read_source

    return compile_source(
        read_source(pattern), registry, consumption="epoch" if consumption == Consumption.EPOCH else "ordered"
    )
