"""Port of an MQTT server in use: the program there, and the offer to use it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

import typer

from distced.brokers.core.directory import Directory
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.bus.logger import Logger
from distced.middleware.cli.options import VARIABLE
from distced.middleware.model.errors import BusError

LOOK_WITHIN: Final = 2.0
"""Time for what listens there to answer as an MQTT server, s."""


class PortInUse:
    """Program at the port of a URL on this machine: `nodes` and number of `subscriptions` of its directory."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_server = False
        self.nodes: tuple[str, ...] = ()
        self.subscriptions = 0
        reading = LiveDirectory(url)
        with suppress(BusError):
            reading.start(LOOK_WITHIN).look(self._see)
        reading.stop()

    def _see(self, directory: Directory) -> None:
        self.is_server = True
        self.nodes = tuple(sorted(directory.nodes))
        self.subscriptions = len(directory.subscriptions)

    @property
    def text(self) -> str:
        """Description of the program, as a phrase."""
        if not self.is_server:
            return "a program that does not answer as an MQTT server"
        if not self.nodes:
            return "an MQTT server without broker nodes"
        nodes = f"the broker node{'s' * (len(self.nodes) > 1)} {', '.join(self.nodes)}"
        return f"an MQTT server with {nodes}, {self.subscriptions} subscription{'s' * (self.subscriptions != 1)}"

    def advice(self, names: list[str]) -> str:
        """Remedy for a broker with nodes of these names."""
        if not self.is_server:
            return "name another port, 0 for a free one"
        if set(names) & set(self.nodes):
            return f"its nodes run: nothing need be started; {VARIABLE}={self.url} names it to the other verbs"
        return f"run the nodes there: distced broker --server {self.url}; or name another port, 0 for a free one"

    def offers(self, names: list[str], *, ask: bool) -> bool:
        """Whether the nodes are to run there: asked where a person is at the terminal, and no otherwise."""
        possible = ask and self.is_server and not set(names) & set(self.nodes)
        return possible and sys.stdin.isatty() and sys.stderr.isatty() and _confirmed(self)

    def error(self, names: list[str]) -> BusError:
        """The error of a broker that does not use it."""
        return BusError(f"the port is in use by {self.text}", given=self.url, advice=self.advice(names))

    def warn(self, names: list[str], log: Logger) -> None:
        """Log what a broker finds that takes another port."""
        log.warning("port in use", server=self.url, there=self.text, advice=self.advice(names))


def _confirmed(found: PortInUse) -> bool:
    return typer.confirm(f"{found.url} is in use by {found.text}. Use it?", default=True, err=True)
