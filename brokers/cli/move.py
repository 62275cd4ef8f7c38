"""The verb `move`: requests the migration of a detector to a node, and waits until the directory shows it there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Final

from rich.text import Text
from typer import Argument

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import check_node, find_detector
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.cli.options import DEFAULT, Duration, ServerOption, duration_option, verb
from distced.middleware.cli.output import AsJson, output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic

LOOK: Final = 0.2
"""Interval of looks at the time while nothing changes, s."""


@dataclass(frozen=True)
class MoveOptions:
    """Options of `distced move`; durations in ns."""

    detector: Annotated[str, Argument(metavar="DETECTOR-PREFIX", help="Beginning of the id of the detector.")]
    node: Annotated[str, Argument(metavar="NODE", help="Node to which it moves.")]
    server: ServerOption = DEFAULT
    timeout: Annotated[int, duration_option(help="Time for the move.")] = Duration("15s")
    as_json: AsJson = False


@verb
def move(options: MoveOptions) -> int:
    """Move a detector to another node, with its state.

    No event is lost or consumed twice, and subscribers notice nothing. The exit code is 2 for an unknown detector or
    node, and where the detector has not moved in time; it then stays where it is.

    \b
    Examples:
      distced move c52925 cellar
      distced detectors --watch
    """
    node = options.node

    def asked_for(directory: Directory) -> tuple[str, str]:
        check_node(directory, node)
        detector = find_detector(directory, options.detector)
        return detector, directory.detectors[detector].node

    with ending(), LiveDirectory(options.server) as reading:
        (detector, origin), state = reading.look(asked_for)
        began = time.monotonic()
        if origin != node:
            reading.publish({administration_topic("move", detector): encode(MoveRequest(node))}, retain=False)
        while True:
            there, state = reading.look(lambda directory: _host(directory, detector))
            took = time.monotonic() - began
            if there == node or took * SECOND > options.timeout:
                break
            reading.wait(state, LOOK)
    moved = there == node
    if options.as_json:
        print_json({"detector": detector, "origin": origin, "node": there, "moved": moved, "ns": int(took * SECOND)})
    elif moved and origin == node:
        output().print(Text(f"{detector} is on {node} already"))
    elif moved:
        output().print(Text.assemble((detector, "bold"), f" moved from {origin} to {node} in {1000 * took:.0f} ms"))
    else:
        raise DistcedError(
            "the detector has not moved",
            given=f"{detector} to {node}",
            where=f"node {there}" if there else "nowhere any more",
            advice="the log of its node says why; one that is not running yet is not moved",
        )
    return 0 if moved else 1


def _host(directory: Directory, detector: str) -> str:
    entry = directory.detectors.get(detector)
    return "" if entry is None else entry.node
