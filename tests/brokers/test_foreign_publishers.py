"""Sources without numbers: what a reader may have missed of them while it had no connection is a loss."""

from __future__ import annotations

import pytest

from distced.detectors.language.derived import reach_of_loss
from distced.middleware.model.event_types import derive, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.directory_entries import SourceEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.numbered_stream import SUBSCRIBED_WITHIN, Loss
from distced.middleware.wire.topics import event_topic
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

POLICIES = ["guaranteed", "best-effort", "bounded(1s)", "probabilistic(0.9)"]


def deployment(*policies: str) -> tuple[Network, VirtualNode, VirtualClient]:
    """A node, and a client with a subscription for each policy."""
    network = Network()
    node, client = network.node("n"), network.client("c")
    client.register(event_type("A", {}))
    network.run()
    for policy in policies:
        client.subscribe(f"c.{policy}", "[A]", detection=policy)
    network.run()
    network.pass_time(2 * SECOND)
    return network, node, client


def reconnect(network: Network, node: VirtualNode) -> int:
    """Cut the connection of the node, for a while; the instant of the new one."""
    network.lose(node)
    network.now += 5 * SECOND
    node.connect()
    at = network.now
    network.run()
    return at


@pytest.mark.parametrize("policy", POLICIES)
def test_connection_lost_with_a_source_without_numbers_is_a_loss(policy: str) -> None:
    network, node, client = deployment(policy)
    client.source("s", ["A"], watermark=-100)
    network.run()
    client.publish(Event("A", 5, 5, "s", 1, {}), watermark=5)
    network.run()
    at = reconnect(network, node)
    since = INSTANT_MIN if policy == "best-effort" else 5
    losses = client.losses[f"c.{policy}"]
    assert [(each.since, each.until) for each in losses] == [(since, at + SUBSCRIBED_WITHIN)]
    assert "without numbers may be missing: s" in losses[0].reason
    # It goes on behind that.
    client.publish(Event("A", 9, 9, "s", 2, {}), watermark=2 * at)
    network.run()
    network.pass_time(3 * SECOND)
    assert len(client.composites(f"c.{policy}")) == 2


def test_source_with_numbers_gives_no_loss() -> None:
    network, node, client = deployment("guaranteed")
    client.put("source", "s", SourceEntry(("A",), -100, 0, "c", first=7))
    network.run()
    payload = encode_frame([Event("A", 5, 5, "s", 1, {})], type="A", source="s", watermark=5, number=7)
    network.publish(event_topic("A", "s"), payload)
    network.run()
    reconnect(network, node)
    assert client.losses == {} and len(client.composites("c.guaranteed")) == 1


def test_json_of_an_unannounced_source_is_without_numbers() -> None:
    network, node, client = deployment("guaranteed")
    client.source("known", ["A"], watermark=-100)
    network.run()
    network.publish(event_topic("A", "device"), b'{"seq": 1, "time": 5}')
    network.run()
    reconnect(network, node)
    (loss,) = client.losses["c.guaranteed"]
    assert loss.reason.endswith("missing: device, known")


def test_what_a_source_says_it_has_missed_is_a_loss_of_its_readers() -> None:
    network, _, client = deployment(*POLICIES)
    client.put("source", "bridge", SourceEntry(("A",), -100, 0, "bridge", first=7))
    network.run()
    loss = Loss(5, 9, "the bridge had no connection")
    payload = encode_frame([], type="A", source="bridge", number=7, losses=[loss])
    for _ in range(2):
        network.publish(event_topic("A", "bridge"), payload)
        network.run()
    assert client.losses == {f"c.{policy}": [loss] for policy in POLICIES}


def test_loss_of_a_throttled_type_reaches_to_the_end_of_its_interval() -> None:
    network = Network()
    network.node("n")
    client = network.client("c")
    kind = event_type("A", {"k": "number"})
    client.register(kind, derive(kind, "Rare", every=100, by=["k"]), derive(kind, "Rarest", every=1_000))
    network.run()
    for number, name in enumerate(("Rare", "Rarest", "A")):
        client.subscribe(f"c.{number}", f"[{name}]")
    client.put("source", "s", SourceEntry(("A",), -100, 0, "s", first=7))
    network.run()
    loss = Loss(5, 150, "gone")
    network.publish(event_topic("A", "s"), encode_frame([], type="A", source="s", number=7, losses=[loss]))
    network.run()
    assert [client.losses[f"c.{number}"][0].until for number in range(3)] == [199, 999, 150]
    assert reach_of_loss((), 5) == 5
