"""Options of the verbs that take patterns: the pattern, event types, consumption, the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from distced.detectors.compiler import Consumption
from distced.detectors.runtime.engines import EngineName
from distced.middleware.mapping import load_mapping
from distced.middleware.mapping.type_file import load_types
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
ConsumptionOption: TypeAlias = Annotated[
    Consumption, typer.Option("--consumption", help="Events one by one, or all of one instant together.")
]
EngineOption: TypeAlias = Annotated[
    EngineName, typer.Option("--engine", help="The engine; auto takes the columnar one where there are many events.")
]


def registry_of(types: Path | None, mapping: Path | None) -> TypeRegistry | None:
    """The event types of a file of types and of a mapping; None where neither is given."""
    if types is None and mapping is None:
        return None
    registry = TypeRegistry(() if types is None else load_types(types))
    for each in () if mapping is None else load_mapping(mapping).types:
        registry.register(each)
    return registry
