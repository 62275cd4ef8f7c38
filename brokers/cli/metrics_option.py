"""Option `--metrics` of the verbs that run participants, and the servers that it asks for.

Participants of one process have one port. Ray runs each node in a process of its own, on any machine: these have
consecutive ports, in the order of their names, and the bridge, which stays in the process of the verb, the next one.
One port that collects from the actors was rejected: it would wait for Ray, and an actor is gone when it matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, TypeAlias

from typer import Option

from distced.brokers.live.metrics_board import MetricsBoard, check_installed
from distced.brokers.live.metrics_server import MetricsAddress, MetricsServer, parse_metrics_address
from distced.middleware.bus.logger import Logger
from distced.middleware.model.errors import DistcedError

MetricsOption: TypeAlias = Annotated[
    str,
    Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus, and /healthz, over HTTP; on loopback if HOST is left out. With Ray the "
        "nodes have ports of their own: PORT, PORT+1, ...",
        show_default=False,
    ),
]


def serve_metrics(address: MetricsAddress | None, stack: ExitStack, log: Logger) -> MetricsBoard | None:
    """Serve metrics until the stack is closed: the board that takes them; None without an address."""
    if address is None:
        return None
    server = stack.enter_context(MetricsServer(address, MetricsBoard()))
    log.info("metrics served", url=server.url)
    return server.board


def metrics_address(text: str) -> MetricsAddress | None:
    """Address that the option gives; None for none. Raises `DistcedError` where it is none, or without the library."""
    if not text:
        return None
    check_installed()
    return parse_metrics_address(text)


def of_processes(address: MetricsAddress, names: Sequence[str]) -> tuple[dict[str, str], MetricsAddress]:
    """Addresses of nodes with processes of their own, by name, and that of this process."""
    host, port = address
    if port and port + len(names) > 65_535:
        allowed = f"up to {65_535 - len(names)} for {len(names)} nodes"
        raise DistcedError("no room for a port of each node", given=str(port), allowed=allowed)
    ports = [port + place if port else 0 for place in range(len(names) + 1)]
    made = [MetricsAddress(host, each) for each in ports]
    return {name: str(each) for name, each in zip(names, made, strict=False)}, made[-1]
