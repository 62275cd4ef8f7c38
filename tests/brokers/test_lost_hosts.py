"""Detectors that are lost with several nodes: excluded before a third one hosts them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distced.brokers.core.exclusions import LOST_WITHIN
from distced.brokers.node.node import Node
from distced.detectors.limits import LIMITS
from distced.middleware.model.timestamps import SECOND
from tests.brokers.test_coordinated import Scene
from tests.support.virtual_nodes import VirtualNode

POISON = "[A as a] ; [B where k > a.k + 5]"
OTHERS = ("[D] ; [A]", "[B] ; [C]", "[B] ; [D]", "[C] ; [D]")


@pytest.fixture(autouse=True)
def one_loss_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Node.__init__

    def with_one(*arguments: Any, **options: Any) -> None:
        made(*arguments, **options, detector_limits=replace(LIMITS, losses=1))

    monkeypatch.setattr(Node, "__init__", with_one)


def hosting(nodes: int, seed: int = 1) -> Scene:
    """Nodes with detectors that have reported their loads; the state of one is the largest."""
    scene = Scene(nodes, seed)
    for number, pattern in enumerate(OTHERS):
        scene.subscribe(f"other{number}", pattern)
    scene.subscribe("poison", POISON)
    scene.network.pass_time(5 * SECOND)
    scene.happen("A" * 50)
    scene.network.pass_time(5 * SECOND)
    return scene


def host(scene: Scene) -> VirtualNode:
    (name,) = scene.network.hosts(scene.app.detector("poison"))
    return next(each for each in scene.network.nodes if each.name == name)


def kill(scene: Scene, node: VirtualNode) -> None:
    scene.network.lose(node, for_good=True)
    scene.network.pass_time(4 * SECOND)


def states(scene: Scene) -> list[str]:
    return [scene.app.answers[f"other{number}"][-1].state for number in range(len(OTHERS))]


@pytest.mark.parametrize("between", [0, 20 * SECOND])
@pytest.mark.parametrize("seed", range(3))
def test_detector_lost_with_two_nodes_is_excluded(seed: int, between: int) -> None:
    scene = hosting(3, seed)
    detector = scene.app.detector("poison")
    kill(scene, host(scene))
    assert scene.app.answers["poison"][-1].state == "active"
    scene.network.pass_time(between)
    kill(scene, host(scene))
    answer = scene.app.answers["poison"][-1]
    assert answer.state == "refused"
    assert answer.message.startswith("nodes were lost while they ran a detector: 2 within 600 s (allowed: 1)")
    assert f"at pattern {POISON}; " in answer.message
    assert not scene.network.hosts(detector)
    assert states(scene) == ["active"] * 4
    scene.happen("ACBCBDCDA")
    assert all(scene.found(f"other{number}") for number in range(4))


def test_detector_lost_once_goes_on_and_is_no_suspect_after_a_while() -> None:
    scene = hosting(3)
    kill(scene, host(scene))
    assert 1 <= len(scene.entries("exclusion")) <= 3
    scene.network.pass_time(LOST_WITHIN, every=30 * SECOND)
    assert not scene.entries("exclusion")
    kill(scene, host(scene))
    assert scene.app.answers["poison"][-1].state == "active"


def test_nodes_that_end_in_order_leave_no_suspects() -> None:
    scene = hosting(3)
    for _ in range(2):
        host(scene).stop()
        scene.network.pass_time(4 * SECOND)
        assert not scene.entries("exclusion")
    assert scene.app.answers["poison"][-1].state == "active"


def test_node_that_was_cut_off_and_comes_back_clears_its_suspects() -> None:
    scene = hosting(2)
    cut_off = host(scene)
    scene.network.lose(cut_off)
    scene.network.pass_time(4 * SECOND)
    assert scene.entries("exclusion")
    cut_off.connect()
    scene.network.pass_time(4 * SECOND)
    assert not scene.entries("exclusion")
    assert scene.app.answers["poison"][-1].state == "active"


@pytest.mark.parametrize("seed", range(6))
def test_only_node_that_is_started_again_knows_of_its_losses(seed: int) -> None:
    scene = hosting(1, seed)
    for number in range(2):
        scene.network.lose(host(scene), for_good=True)
        scene.network.node("n0")
        scene.network.run()
        scene.network.pass_time(4 * SECOND)
        assert scene.app.answers["poison"][-1].state == ("active", "refused")[number]
        scene.happen("A" * 50)
        scene.network.pass_time(4 * SECOND)
    assert states(scene) == ["active"] * 4


def test_node_without_others_that_ends_in_order_is_started_again_without_suspects() -> None:
    scene = hosting(1)
    for _ in range(2):
        host(scene).stop()
        scene.network.node("n0")
        scene.network.run()
        scene.network.pass_time(4 * SECOND)
    assert not scene.entries("exclusion")
    assert scene.app.answers["poison"][-1].state == "active"
