"""The driver of `distced move`: has a detector moved to a node, and waits until the directory says that it is there."""

from __future__ import annotations

import time
from typing import Final

from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import check_node, find_detector
from distced.brokers.inspect.directory_reader import Reading
from distced.middleware.bus import Bus
from distced.middleware.cli.options import PATIENCE
from distced.middleware.cli.output import output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Move, encode
from distced.middleware.wire.topics import administration_topic

LOOK: Final = 0.2
"""Seconds between looks at the time while nothing changes."""


def move_detector(server: str, prefix: str, node: str, *, timeout: float, as_json: bool) -> int:
    """Move the detector whose id begins so; the exit code is 1 where it is not there in time.

    Raises:
        DistcedError: for a detector or a node that is not there.
    """

    def asked_for(directory: Directory) -> tuple[str, str]:
        check_node(directory, node)
        detector = find_detector(directory, prefix)
        return detector, directory.detectors[detector].node

    with ending(), Reading(server).open() as reading, Bus(server) as bus:
        bus.wait_connected(PATIENCE)
        (detector, origin), state = reading.look(asked_for)
        began = time.monotonic()
        if origin != node:
            bus.publish(administration_topic("move", detector), encode(Move(node)), qos=1)
        while True:
            there, state = reading.look(lambda directory: _host(directory, detector))
            took = time.monotonic() - began
            if there == node or took > timeout:
                break
            reading.wait(state, LOOK)
    moved = there == node
    if as_json:
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
            advice="the log of its node says why; one that is not at work yet is not moved",
        )
    return 0 if moved else 1


def _host(directory: Directory, detector: str) -> str:
    entry = directory.detectors.get(detector)
    return "" if entry is None else entry.node
