"""Two nodes of one name on a real MQTT server, which lets in one of them at a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client

pytestmark = pytest.mark.mqtt


def test_later_node_of_a_name_stays(
    mosquitto: Server, root: str, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    name = f"{root}-n"
    with (
        Client(mosquitto.url, name=f"{root}-app", root=root) as client,
        LiveNode(mosquitto.url, name, root=root) as one,
    ):
        client.wait_for_nodes(1)
        eventually(lambda: one.node.claim.made)
        with LiveNode(mosquitto.url, name, root=root) as other:
            eventually(lambda: one.node.claim.lost)
            eventually(lambda: not one.bus.connected and other.bus.connected)
            eventually(lambda: name in client.nodes and client.nodes[name].since == other.node.claim.since)
            # Nobody comes back to send it away.
            connected = []
            for _ in range(20):
                connected.append((one.bus.connected, other.bus.connected))
                time.sleep(0.1)
            assert set(connected) == {(False, True)}
            one.stop()
            assert name in client.nodes
        eventually(lambda: not client.nodes)
