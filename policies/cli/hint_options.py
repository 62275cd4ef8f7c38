"""Options for hints to distribution policies, the same for every verb that takes them."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option


def _hint(option: str, metavar: str, text: str) -> Any:
    return Option(option, metavar=metavar, help=f"Hint: {text}")


AllowedNodes = Annotated[list[str] | None, _hint("--on", "NODE", "allowed node, default all; repeatable.")]
ExcludedNodes = Annotated[list[str] | None, _hint("--avoid", "NODE", "excluded node, default none; repeatable.")]
EventRates = Annotated[
    list[str] | None,
    _hint("--rate", "TYPE=NUMBER", "events/s of a type, default measured or the topology's; repeatable."),
]
Selectivity = Annotated[
    float | None, _hint("--selectivity", "NUMBER", "composite events per event of the pattern, default estimated.")
]
