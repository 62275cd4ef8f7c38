"""Claims about others in messages: what a participant says of sources that are not its own does not count."""

from __future__ import annotations

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Heartbeat, Unavailable, read_unavailable
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_senseless_entries import goes_on, prepared, subscribed


def test_promise_for_sources_of_others_does_not_count() -> None:
    network, client = prepared(nodes=1)
    subscribed(network, client, "q", "[A] ; [B]")
    far = network.now + 600 * SECOND
    sources = tuple(network.nodes[0].node.directory.sources)
    assert sources
    network.publish(administration_topic("heartbeat", "stranger"), encode(Heartbeat(sources, far)))
    network.pass_time(SECOND)
    assert "rejected" in network.reasons()
    # Otherwise all later events would be late.
    goes_on(network, client, 10, "q")


def test_heartbeat_without_some_sources_keeps_the_positions_of_the_others() -> None:
    beat = Heartbeat(("a", "b", "c"), 5, (((1, None),), ((2, 3),)))
    assert beat.without({"a"}) == Heartbeat(("b", "c"), 5, (((2, 3),),))
    assert beat.without({"b", "c"}) == Heartbeat(("a",), 5, (((1, None),),))


def test_answer_is_about_what_its_topic_names() -> None:
    given = Unavailable("e", "other", 5, reason="forged")
    assert read_unavailable("e", "own", encode(given)) == Unavailable("e", "own", 5, reason="forged")
