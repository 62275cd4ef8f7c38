"""Options of verbs: those that several verbs have, and the declaration of each option in one place.

The options of a verb are the fields of a frozen dataclass, each with its typer annotation, default and help text; the
verb is a function of that dataclass, made a command by `verb`. Signatures of plain functions were rejected: an option
then stands in the signature, in the call of the driver, and in the driver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

from distced.middleware.model.timestamps import parse_duration

if TYPE_CHECKING:
    from distced.middleware.client.client import Client

VARIABLE: Final = "DISTCED_SERVER"
DEFAULT: Final = "mqtt://127.0.0.1:1883"

PATIENCE: Final = 4.0  # time for a server to answer a verb, s
O = TypeVar("O")  # noqa: E741

ServerOption: TypeAlias = Annotated[
    str, typer.Option("--server", envvar=VARIABLE, metavar="URL", help="The MQTT server: mqtt://host:port.")
]

HomeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--home", metavar="URL", help="MQTT server of the own site; default: that of --server.", show_default=False
    ),
]


class Duration(int):
    """Default of an option that is a duration: ns, shown as they were written."""

    text: str

    def __new__(cls, text: str) -> Duration:
        made = super().__new__(cls, parse_duration(text))
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def duration_option(*names: str, help: str) -> Any:  # noqa: A002
    """Option that is a duration, `90s` or `5min`, in ns; called as the field where no names are given."""
    return typer.Option(*names, metavar="DURATION", parser=_nanoseconds, help=help)


def verb(function: Callable[[O], int]) -> Callable[..., int]:
    """Command of typer made of a function of a dataclass of options."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    (options,) = hints.values()
    annotations = get_type_hints(options, include_extras=True)

    def command(**given: Any) -> int:
        return function(options(**given))

    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    command.__module__ = function.__module__
    command.__annotations__ = {**annotations, "return": int}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=annotations[each.name]
            )
            # The one that every verb has comes last.
            for each in sorted(fields(options), key=lambda each: each.name == "as_json")
        ]
    )
    return command


@contextmanager
def connected(url: str, home: str | None = None) -> Iterator[Client]:
    """Client of this server, at home at that of its own site; `BusError` where one does not answer soon."""
    from distced.middleware.client.client import Client

    client = Client(url, home=home)
    client.start(PATIENCE)
    try:
        yield client
    finally:
        client.stop()


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _nanoseconds(given: str | int) -> int:
    # A default is a number already.
    return int(given) if isinstance(given, int) else parse_duration(given)
