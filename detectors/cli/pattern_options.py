"""Options of the verbs that take patterns: the pattern, event types, consumption, the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.text import Text

from distced.detectors.compiler import Consumption
from distced.detectors.frontends.languages import CORE, LANGUAGES
from distced.detectors.runtime.engines import EngineName
from distced.middleware.cli.output import highlight_snippets
from distced.middleware.mapping import load_mapping
from distced.middleware.mapping.type_file import load_types
from distced.middleware.model.event_types import TypeRegistry

PatternArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATTERN|FILE", help="Pattern, pattern file, or - for a file on standard input.")
]
LanguageOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--language",
        metavar="NAME",
        help=f"Language of the pattern: {', '.join((CORE, *LANGUAGES))}; default: by the file's ending, else core.",
        show_default=False,
    ),
]
TypesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--types", metavar="FILE", help='TOML file of event types to check against: [types.Temp] temp = "number".'
    ),
]
MappingOption: TypeAlias = Annotated[
    Path | None, typer.Option("--mapping", metavar="FILE", help="Mapping (TOML) whose event types to check against.")
]
ConsumptionOption: TypeAlias = Annotated[
    Consumption,
    typer.Option(
        "--consumption", help="Consumption: ordered, events one by one; epoch, all events of an instant together."
    ),
]
EngineOption: TypeAlias = Annotated[
    EngineName,
    typer.Option("--engine", help="Engine, with equal results; auto: columnar for many events, else stepwise."),
]


def registry_of(types: Path | None, mapping: Path | None) -> TypeRegistry | None:
    """The event types of a file of types and of a mapping; None where neither is given."""
    if types is None and mapping is None:
        return None
    registry = TypeRegistry(() if types is None else load_types(types))
    for each in () if mapping is None else load_mapping(mapping).types:
        registry.register(each)
    return registry


def _highlighted(line: str, language: str) -> Text:
    from distced.detectors.highlighting.terminal import highlighted

    return highlighted(line, language or CORE)


# Every verb that takes patterns has options of this module; middleware, which prints the errors, imports no detectors.
highlight_snippets(_highlighted)
