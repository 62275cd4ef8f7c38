"""The simulated network by itself: links, order, servers, losses."""

from __future__ import annotations

from distced.brokers.core.effects import Publish, Subscribe, Unsubscribe
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Link, Place, Site, Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.links import (
    ACKNOWLEDGEMENT,
    SEGMENT,
    SEGMENT_HEADERS,
    message_size,
    segmented,
)
from distced.simulations.network.transport.mqtt_server import DuplicateDeliveries
from distced.simulations.network.transport.virtual_time import VirtualTime


class Listener(Participant):
    """Somebody who notes what comes, and when."""

    def __init__(self, network: Fabric, name: str) -> None:
        super().__init__(network, Place("subscriber", name))
        self.heard: list[tuple[int, str, bytes]] = []
        self.times: list[str] = []
        self.begin()

    def will_for(self, home: str) -> Publish | None:
        return None if home else Publish(f"ced/d/client/{self.name}", b"", retain=True)

    def connected(self, home: str) -> None:
        self.times.append(f"up {home}".strip())

    def disconnected(self, home: str) -> None:
        self.times.append(f"down {home}".strip())

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        self.heard.append((self.network.engine.instant, topic, payload))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, _, payload in self.heard]


def between(link: Link | None = None, **arguments: object) -> tuple[Fabric, Listener, Listener]:
    """One at the site of the directory, one at another."""
    topology = Topology(
        [Site("one", local_latency=MILLISECOND), Site("other", local_latency=MILLISECOND)],
        subscribers=[Subscriber("near", "one"), Subscriber("far", "other"), Subscriber("farther", "other")],
        links=[link or Link(("one", "other"), 10 * MILLISECOND)],
    )
    network = Fabric(topology, **arguments)  # type: ignore[arg-type]
    made = network, Listener(network, "near"), Listener(network, "far")
    network.run(SECOND)
    return made


def test_calls_at_one_instant_are_made_in_order_of_scheduling() -> None:
    time = VirtualTime(100)
    happened: list[object] = []
    time.at(120, happened.append, "b")
    time.at(110, happened.append, "a")
    time.at(120, happened.append, "c")
    time.at(50, happened.append, "at once")
    time.at(121, happened.append, "later")
    time.run(120)
    assert happened == ["at once", "a", "b", "c"]
    assert time.now() == 120
    assert time.steps == 4


def test_message_takes_the_latency_of_its_path() -> None:
    network, near, far = between()
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    sent = network.engine.instant
    far.do([Publish("ced/e/A/s", b"x")])
    network.run(SECOND)
    # From the far one to its network, over the link to the server, and to the near one.
    assert [at - sent for at, _, _ in near.heard] == [12 * MILLISECOND]


def test_narrow_link_sends_one_message_after_the_other() -> None:
    size = message_size("ced/e/A/s", 1_000, 0)
    network, near, far = between(Link(("one", "other"), 10 * MILLISECOND, bandwidth=100_000))
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    sent = network.engine.instant
    far.do([Publish("ced/e/A/s", bytes(1_000), 0) for _ in range(3)])
    network.run(SECOND)
    transfer = size * SECOND // 100_000
    assert [at - sent for at, _, _ in near.heard] == [12 * MILLISECOND + number * transfer for number in (1, 2, 3)]


def test_connections_share_a_link_and_its_queue() -> None:
    network, near, far = between(Link(("one", "other"), 0, bandwidth=100_000))
    another = Listener(network, "farther")
    network.run(SECOND)
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    sent = network.engine.instant
    far.do([Publish("ced/e/A/s", bytes(1_000), 0)])
    another.do([Publish("ced/e/A/t", bytes(1_000), 0)])
    network.run(SECOND)
    first, second = [at - sent for at, _, _ in near.heard]
    assert second - first == message_size("ced/e/A/t", 1_000, 0) * SECOND // 100_000


def test_connection_keeps_order_whatever_the_jitter() -> None:
    network, near, far = between(Link(("one", "other"), MILLISECOND, jitter=50 * MILLISECOND), seed=3)
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    sent = [b"%d" % number for number in range(50)]
    for each in sent:
        far.do([Publish("ced/e/A/s", each)])
        network.run(MILLISECOND)
    network.run(SECOND)
    assert near.payloads == sent
    assert len({at for at, _, _ in near.heard}) > 5


def test_bytes_are_counted_by_link_direction_and_area() -> None:
    network, near, far = between()
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    there, back = network.links.all["other", "one"], network.links.all["one", "other"]
    before = list(back.traffic["mqtt"])
    far.do([Publish("ced/e/A/s", b"12345", 1)])
    network.run(SECOND)
    assert there.traffic["e"] == [1, message_size("ced/e/A/s", 5, 1)]
    assert "e" not in back.traffic
    assert back.traffic["mqtt"] == [before[0] + 1, before[1] + ACKNOWLEDGEMENT]


def test_sizes_are_those_of_mqtt_packets_in_tcp_segments() -> None:
    # A fixed header of 2 bytes, the topic of 9 with its length, no properties, the payload; an identifier at QoS 1.
    assert message_size("ced/e/A/s", 5, 0) == 2 + 2 + 9 + 1 + 5 + SEGMENT_HEADERS
    assert message_size("ced/e/A/s", 5, 1) == message_size("ced/e/A/s", 5, 0) + 2
    assert message_size("ced/e/A/s", 200, 0) == 3 + 2 + 9 + 1 + 200 + SEGMENT_HEADERS
    assert segmented(SEGMENT + 1) == SEGMENT + 1 + 2 * SEGMENT_HEADERS


def test_server_keeps_retained_messages_and_delivers_once() -> None:
    network, near, far = between()
    far.do([Publish("ced/d/type/A", b"1", retain=True), Publish("ced/d/type/B", b"2", retain=True)])
    far.do([Publish("ced/d/type/B", b"", retain=True), Publish("ced/e/A/s", b"nobody listens")])
    network.run(SECOND)
    near.do([Subscribe("ced/d/#"), Subscribe("ced/e/+/s"), Subscribe("ced/e/A/+"), Subscribe("ced/e/A/s")])
    network.run(SECOND)
    assert near.payloads == [b"1"]
    # Without those it retains where it is asked to.
    near.do([Subscribe("ced/d/type/#", retained=False)])
    network.run(SECOND)
    assert near.payloads == [b"1"]
    far.do([Publish("ced/e/A/s", b"3"), Publish("ced/d/type/A", b"4", retain=True)])
    network.run(SECOND)
    assert near.payloads == [b"1", b"3", b"4"]
    near.do([Unsubscribe("ced/e/+/s"), Unsubscribe("ced/e/A/+"), Unsubscribe("ced/e/A/s")])
    network.run(SECOND)
    far.do([Publish("ced/e/A/s", b"5")])
    network.run(SECOND)
    assert near.payloads == [b"1", b"3", b"4"]


def test_events_at_qos_1_may_come_twice() -> None:
    network, near, far = between(duplicates=DuplicateDeliveries(1.0, frozenset("e")))
    near.do([Subscribe("ced/#")])
    network.run(SECOND)
    far.do([Publish("ced/e/A/s", b"1", 1), Publish("ced/e/A/s", b"2", 0), Publish("ced/a/move/x", b"3", 1)])
    network.run(SECOND)
    assert near.payloads == [b"1", b"1", b"2", b"3"]


def test_connections_to_other_homes_are_opened_as_needed() -> None:
    network, near, far = between()
    near.do([Subscribe("ced/e/#", home="other")])
    network.run(SECOND)
    assert near.times == ["up", "up other"]
    far.do([Publish("ced/e/A/s", b"at home", home="other"), Publish("ced/e/A/s", b"elsewhere")])
    network.run(SECOND)
    assert near.payloads == [b"at home"]


def test_silent_loss_is_noticed_after_the_keepalive() -> None:
    network, near, far = between(keepalive=10 * SECOND)
    near.do([Subscribe("ced/d/#")])
    far.do([Publish("ced/d/client/far", b"here", retain=True)])
    network.run(SECOND)
    lost = network.engine.instant
    far.crash(silent=True)
    network.run(60 * SECOND)
    assert near.payloads == [b"here", b""]
    assert near.heard[-1][0] - lost == 15 * SECOND + MILLISECOND


def test_closed_connection_is_noticed_at_once_and_farewell_has_no_will() -> None:
    network, near, far = between()
    near.do([Subscribe("ced/d/#")])
    far.do([Publish("ced/d/client/far", b"here", retain=True)])
    network.run(SECOND)
    lost = network.engine.instant
    far.do([Publish("ced/d/client/far", b"last words", retain=True)])
    far.crash(silent=False)
    network.run(SECOND)
    assert near.payloads == [b"here", b"last words", b""]
    assert near.heard[-1][0] - lost == 12 * MILLISECOND
    again = Listener(network, "far")
    network.run(SECOND)
    again.do([Publish("ced/d/client/far", b"again", retain=True)])
    again.end()
    network.run(60 * SECOND)
    assert near.payloads[-1] == b"again"


def test_short_partition_delays_messages_and_loses_none() -> None:
    network, near, far = between(keepalive=30 * SECOND)
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    network.fail(network.links.between("one", "other"))
    far.do([Publish("ced/e/A/s", b"1"), Publish("ced/e/A/s", b"2")])
    network.run(20 * SECOND)
    assert near.heard == []
    network.mend(network.links.between("one", "other"))
    far.do([Publish("ced/e/A/s", b"3")])
    network.run(60 * SECOND)
    assert near.payloads == [b"1", b"2", b"3"]
    assert far.times == ["up"]


def test_long_partition_breaks_connections_and_messages_are_sent_again() -> None:
    network, near, far = between(keepalive=10 * SECOND)
    near.do([Subscribe("ced/#")])
    far.do([Subscribe("ced/c/#"), Publish("ced/e/A/s", b"before")])
    network.run(SECOND)
    links = network.links.of_site("other")
    network.fail(links)
    far.do([Publish("ced/e/A/s", b"while it was down")])
    near.do([Publish("ced/c/x", b"to nobody")])
    network.run(100 * SECOND)
    # The will, and nothing else.
    assert near.payloads == [b"before", b"to nobody", b""]
    assert far.times == ["up", "down"]
    network.mend(links)
    network.run(30 * SECOND)
    assert far.times == ["up", "down", "up"]
    assert near.payloads == [b"before", b"to nobody", b"", b"while it was down"]
    # What waited for it was lost with the connection, and the subscription is there again.
    assert far.heard == []
    near.do([Publish("ced/c/x", b"heard")])
    network.run(SECOND)
    assert far.payloads == [b"heard"]


def test_message_without_acknowledgement_comes_twice() -> None:
    network, near, far = between(keepalive=10 * SECOND)
    near.do([Subscribe("ced/e/#")])
    network.run(SECOND)
    far.do([Publish("ced/e/A/s", b"1", 1), Publish("ced/e/A/s", b"at most once", 0)])
    network.run(5 * MILLISECOND)
    # They are on the wire when the link fails, and get through; the acknowledgement does not.
    network.fail(network.links.of_site("other"))
    network.run(60 * SECOND)
    assert near.payloads == [b"1", b"at most once"]
    network.mend(network.links.of_site("other"))
    network.run(30 * SECOND)
    assert near.payloads == [b"1", b"at most once", b"1"]


def test_participant_that_returns_before_it_was_missed_takes_over() -> None:
    """At some seeds the participant gives up before the server does, at others after it."""
    wills = set()
    for seed in range(20):
        network, near, far = between(keepalive=10 * SECOND, seed=seed)
        near.do([Subscribe("ced/#")])
        far.do([Publish("ced/e/A/s", b"before")])
        network.run(SECOND)
        links = network.links.of_site("other")
        network.fail(links)
        network.run(14 * SECOND)
        network.mend(links)
        network.run(30 * SECOND)
        assert far.times in (["up"], ["up", "down", "up"])
        assert near.payloads.count(b"") == far.times.count("down")
        wills.add(near.payloads.count(b""))
        far.do([Publish("ced/e/A/s", b"after")])
        network.run(SECOND)
        assert near.payloads[-1] == b"after"
    assert wills == {0, 1}


def test_restarted_server_has_no_state() -> None:
    network, near, far = between()
    near.do([Subscribe("ced/#")])
    far.do([Publish("ced/d/type/A", b"kept", retain=True)])
    network.run(SECOND)
    network.server_at("one").stop()
    network.run(SECOND)
    near.do([Publish("ced/e/A/s", b"waits")])
    network.server_at("one").start()
    network.run(30 * SECOND)
    assert near.times == far.times == ["up", "down", "up"]
    # No wills; what was published meanwhile was sent then, to who had subscribed again.
    assert near.payloads == [b"kept", b"waits"]
    assert network.server_at("one").retained == {}


def test_subscription_is_confirmed_once_the_server_has_taken_it() -> None:
    network, _, far = between()
    at: list[int] = []
    begun = network.engine.instant
    far.connection("").subscribe("ced/e/#", 1, lambda: at.append(network.engine.instant - begun))
    network.run(SECOND)
    assert at == [22 * MILLISECOND]
    far.connection("").subscribe("ced/e/#", 1, lambda: at.append(0))
    assert at == [22 * MILLISECOND, 0]
