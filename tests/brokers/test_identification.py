"""Identity of a node on request: its clock, formats and installation."""

from __future__ import annotations

import pytest

from distced.brokers.core.effects import Publish
from distced.brokers.core.identity import Identity, Installation, identify_topic, identity_topic
from distced.brokers.live.installation import installation, installation_with_compiled
from distced.brokers.node.identification import FORMATS, LONGEST
from distced.brokers.node.node import Node
from distced.middleware.wire.codec import decode


@pytest.mark.parametrize("payload", [b"", b"\xff", b"{}"])
def test_node_answers_with_its_clock_and_installation(payload: bytes) -> None:
    here = Installation(distced="0.1.0", python="3.11.7")
    node = Node("n", 5, installation=here)
    node.start(5)
    (answer,) = node.receive(identify_topic("n", "asker"), payload, 77)
    assert isinstance(answer, Publish) and answer.topic == identity_topic("asker", "n") and not answer.retain
    assert decode(answer.payload, Identity, where="") == Identity("n", 77, FORMATS, here)


def test_homes_without_a_connection() -> None:
    node = Node("n", 5)
    node.start(5)
    for home in ("mqtt://ada:secret@attic:1883", "mqtt://roof:1883", ""):
        node.identification.disconnected(home, f"no connection to {home}" + 500 * ".")
    node.linked("mqtt://roof:1883", 6)
    (answer,) = node.receive(identify_topic("n", "asker"), b"", 77)
    assert isinstance(answer, Publish) and b"secret" not in answer.payload
    unconnected = decode(answer.payload, Identity, where="").unconnected
    assert unconnected.keys() == {"mqtt://…@attic:1883"} and len(*unconnected.values()) == LONGEST


def test_node_does_not_answer_for_another() -> None:
    node = Node("n", 5)
    node.start(5)
    assert node.receive(identify_topic("other", "asker"), b"", 77) == []


def test_installation_of_this_process() -> None:
    found = installation()
    assert found.python and found.processors >= 1 and found.compiled is None
    assert (found.clock_error is None) == bool(found.clock_problem)
    assert installation_with_compiled().compiled is not None or not found.numba
