"""The verb `check`: validate a pattern, and list its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from rich.text import Text

from distced.detectors.cli.pattern_options import (
    ConsumptionOption,
    LanguageOption,
    MappingOption,
    PatternArgument,
    TypesOption,
    registry_of,
)
from distced.detectors.explain.facts import Facts, facts_of
from distced.detectors.pattern_files import check_possible, compile_source, read_source
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, output, print_json, show_notes
from distced.middleware.model.timestamps import format_duration


@dataclass(frozen=True)
class CheckOptions:
    """Options of `distced check`."""

    pattern: PatternArgument
    types: TypesOption = None
    mapping: MappingOption = None
    consumption: ConsumptionOption = "ordered"
    language: LanguageOption = ""
    as_json: AsJson = False


@verb
def check(options: CheckOptions) -> int:
    """Validate a pattern, and list its inputs.

    Given event types, by --types or --mapping, every type and attribute has to be among them, with fitting kinds;
    without, types and attributes are taken as known. Lists published and read types, keys, windows and time events.

    \b
    Examples:
      distced check '[Motion as m] ; [Door where room == m.room] within 1min'
      distced check office.pattern --mapping office.toml
      distced check office.pattern --types types.toml --json
    """
    registry = registry_of(options.types, options.mapping)
    patterns = compile_source(read_source(options.pattern, options.language), registry, consumption=options.consumption)
    check_possible(patterns)
    facts = [facts_of(each, patterns.derived) for each in patterns.compiled]
    checked = "declared" if registry is not None else "taken as known"
    if options.as_json:
        shown = {"ok": True, "types": checked, "patterns": msgspec.to_builtins(facts)}
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
    lines = [Text.assemble((facts.signature(), "bold"), ("   " + facts.canonical_id, "dim"))]
    said = {
        "private": "; ".join(facts.private),
        "reads": "every event" if facts.reads is None else ", ".join(facts.reads),
        "throttled": "; ".join(facts.throttled),
        "windows": "; ".join(facts.windows),
        "states": "; ".join(facts.states),
        "by": ", ".join(facts.key),
        "within": "" if facts.within is None else format_duration(facts.within),
        "timers": ", ".join(f"{name} = {when}" for name, when in facts.timers.items()),
        "consumes": "by epochs" if facts.consumption == "epoch" else "",
        "detects": "; ".join(facts.manner),
    }
    lines += [Text.assemble((f"  {name:<10}", "dim"), text) for name, text in said.items() if text]
    return lines
