"""Option `--traces` of the verbs whose participants follow events, and the spans that it asks for.

Where spans go is what the variables of OpenTelemetry say. Traces by these variables alone were rejected: they are set
for whole machines, and user properties are a cost of every message.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from typer import Option

from distced.middleware.model.extras import missing

if TYPE_CHECKING:
    from distced.middleware.bus.traces import Traces

TracesOption: TypeAlias = Annotated[
    bool,
    Option(
        "--traces",
        help="Follow events by traces of OpenTelemetry, as its variables OTEL_... say.",
        show_default=False,
    ),
]

VARIABLES: Final = "OTEL_"
"""Beginning of the names of OpenTelemetry's variables."""


def open_traces() -> Traces:
    """Spans by the variables of the environment; `DistcedError` without OpenTelemetry."""
    try:
        from distced.middleware.bus.traces import of_environment

        return of_environment()
    except ImportError as error:
        raise missing(error) or error from None


@contextmanager
def opened_traces(wanted: bool) -> Iterator[Traces | None]:
    """Spans of the participants of a verb, exported at the end; None where they are not wanted."""
    traces = open_traces() if wanted else None
    try:
        yield traces
    finally:
        if traces is not None:
            traces.stop()


def variables() -> tuple[tuple[str, str], ...]:
    """Variables of OpenTelemetry, for a process elsewhere."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(VARIABLES)))


def take_variables(given: Iterable[tuple[str, str]]) -> None:
    """Take variables of OpenTelemetry of another process; those that are set here stay."""
    for name, value in given:
        os.environ.setdefault(name, value)
