"""Detectors whose checkpoints a node has read are placed on no other node before it hosts them."""

from __future__ import annotations

from distced.brokers.core.effects import Load, Publish
from distced.brokers.core.rendezvous import chosen
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Hints, NodeEntry
from tests.brokers.test_compiling import Rig, answers


def _begun(pattern: str) -> tuple[Rig, str]:
    """Node that reads the checkpoints of a detector for a client, with that detector."""
    rig = Rig(checkpoints=True)
    rig.subscribe("one", "c1", pattern)
    (detector,) = [each.detector for each in rig.serve() if isinstance(each, Load)]
    return rig, detector


def test_detector_is_placed_nowhere_else_between_its_checkpoint_and_its_begin() -> None:
    # Subscription and detector are coordinated by this node, also with another one.
    for number in range(100):
        pattern = f"[A where v > {number}]"
        rig, detector = _begun(pattern)
        if chosen(pattern, {"n1", "n2"}) == chosen(detector, {"n1", "n2"}) == "n1":
            break
    rig.entry("node", "n2", encode(NodeEntry(rig.now)))
    rig.subscribe("other", "c2", pattern, Hints(nodes=("n2",)))
    # That of the other client comes first.
    effects = [*rig.loop(rig.node.loaded(detector, [], "", rig.now)), *rig.serve()]
    assert not [each for each in effects if isinstance(each, Publish) and "/n2/host/" in each.topic]
    assert answers(effects) == {"one": "offered", "other": "offered"}
