"""Hints of placement analysis, put into the directory for every node: `distced broker --hints FILE`.

Each detector has an entry of its own, retained, so a later analysis replaces what an earlier one has said of the same
detectors and leaves the rest. What nodes make of them is said in `brokers.node.placement`.
"""

from __future__ import annotations

from collections.abc import Mapping

from distced.middleware.bus import Bus
from distced.middleware.cli.options import PATIENCE
from distced.middleware.model.errors import BusError
from distced.middleware.wire.directory_entries import HintEntry, encode
from distced.middleware.wire.topics import directory_topic


def publish_hints(url: str, hints: Mapping[str, HintEntry]) -> None:
    """Put hints into the directory of this server."""
    with Bus(url) as bus:
        bus.wait_connected(PATIENCE)
        for name, hint in hints.items():
            bus.publish(directory_topic("hint", name), encode(hint), qos=1, retain=True)
        if not bus.flush(PATIENCE):
            raise BusError("the server has not taken the hints", where=str(bus.address))
