"""Which MQTT server a verb connects to, and as a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

if TYPE_CHECKING:
    from distced.middleware.client.client import Client

VARIABLE: Final = "DISTCED_SERVER"
DEFAULT: Final = "mqtt://127.0.0.1:1883"

PATIENCE: Final = 4.0
"""Seconds a verb waits for a server to answer."""

ServerOption: TypeAlias = Annotated[
    str, typer.Option("--server", envvar=VARIABLE, metavar="URL", help="The MQTT server: mqtt://host:port.")
]

HomeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--home", metavar="URL", help="The MQTT server of your own site, where that is another.", show_default=False
    ),
]


@contextmanager
def connected(url: str, home: str | None = None) -> Iterator[Client]:
    """A client of this server, at home at that of its own site; `BusError` where one does not answer soon."""
    from distced.middleware.client.client import Client

    client = Client(url, home=home)
    client.start(PATIENCE)
    try:
        yield client
    finally:
        client.stop()
