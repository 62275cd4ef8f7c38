"""Of two nodes of one name the later one goes on."""

from __future__ import annotations

from typing import Any

import pytest

from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.node.membership import Claimed, NameClaim
from distced.brokers.node.node import Node
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import NodeEntry
from distced.middleware.wire.topics import directory_topic

TOPIC = "ced/a/node/n/since"
KNOWN = "ced/a/known/n"


def word(since: int) -> bytes:
    return encode(Claimed(since))


def published(effects: list[Effect], topic: str) -> list[bytes]:
    return [each.payload for each in effects if isinstance(each, Publish) and each.topic == topic]


def up(now: int, *, found: bytes | None = None) -> tuple[Node, list[Effect]]:
    """A node that has come up and read what was retained."""
    node = Node("n", now)
    effects = node.start(now)
    if found is not None:
        effects += node.receive(TOPIC, found, now)
    return node, effects + node.receive(KNOWN, b"%d" % now, now)


def since(node: Node) -> int:
    return decode(node._announce().payload, NodeEntry, where="").since


@pytest.mark.parametrize(
    ("found", "expected"),
    [(None, 100), (word(40), 100), (word(100), 101), (word(7_000), 7_001), (b"", 100)],
)
def test_starting_node_is_later_than_any_claim_it_finds(found: bytes | None, expected: int) -> None:
    node, effects = up(100, found=found)
    assert since(node) == expected
    assert published(effects, TOPIC) == ([word(expected)] if found != word(expected) else [])
    (claim,) = (each for each in effects if isinstance(each, Publish) and each.topic == TOPIC)
    assert claim.retain
    # Its own word comes back to it.
    assert node.receive(TOPIC, word(expected), 200) == []
    assert not node.claim.lost


def test_node_that_finds_a_later_claim_ends_without_a_trace() -> None:
    node, _ = up(100)
    node.start(200)
    effects = node.receive(TOPIC, word(150), 200)
    assert [type(each) for each in effects] == [Note]
    assert effects[0].event == "node superseded"  # type: ignore[union-attr]
    assert node.claim.lost
    everything: list[Any] = [
        *node.receive(KNOWN, b"200", 200),
        *node.receive(directory_topic("node", "n"), b"", 200),
        *node.tick(10**12),
        *node.linked("mqtt://elsewhere:1883", 200),
        *node.start(300),
        *node.stop(),
    ]
    assert everything == []


def test_node_that_finds_its_own_claim_continues() -> None:
    node, _ = up(100)
    effects = [*node.start(200), *node.receive(TOPIC, word(100), 200), *node.receive(KNOWN, b"200", 200)]
    assert published(effects, TOPIC) == []
    # A server that has forgotten is told again.
    assert published([*node.start(300), *node.receive(KNOWN, b"300", 300)], TOPIC) == [word(100)]
    assert not node.claim.lost


def test_claim_of_an_earlier_node_is_replaced() -> None:
    node, _ = up(100)
    assert published(node.receive(TOPIC, word(50), 200), TOPIC) == [word(100)]
    assert not node.claim.lost


def test_node_that_ends_leaves_its_name_to_others() -> None:
    node, _ = up(100)
    assert published(node.stop(), TOPIC) == [b""]


def test_malformed_claim_is_a_dead_letter() -> None:
    node, _ = up(100)
    node.receive(TOPIC, b"soon", 200)
    assert node.dead_letters.counts == {"malformed": 1}
    assert not node.claim.lost


def test_claim_is_made_once() -> None:
    claim = NameClaim("n", "ced", 5)
    assert len(claim.make()) == 1
    assert claim.make() == []
