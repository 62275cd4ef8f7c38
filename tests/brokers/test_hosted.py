"""A hosted detector: its phases, its invariants, and that its fields change by its methods alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from distced.brokers import node as package
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.metering import DetectorMeter
from distced.brokers.node.planning import Planned
from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime.detector import Detector
from distced.middleware.wire.directory_entries import SubscriptionEntry
from distced.middleware.wire.node_messages import DetectorState
from distced.policies.detection import detection_policy

MUTATING = {"add", "append", "clear", "discard", "extend", "pop", "remove", "setdefault", "update"}

ASKED = SubscriptionEntry("app", "[A] ; [B]")


def made(parts: tuple[str, ...] = ()) -> HostedDetector:
    compiled, policy = compile_pattern("[A] ; [B]"), detection_policy("guaranteed")
    detector = Detector(compiled, policy)
    planned = Planned(detector.id, compiled, policy, dict.fromkeys(parts, ASKED), (), ASKED)
    return HostedDetector(detector, planned, frozenset({"A", "B"}))


def test_detector_waits_for_its_client_and_its_parts() -> None:
    hosted = made(parts=("p",))
    assert hosted.phase is Phase.PLANNED
    hosted.serve("q", ASKED)
    assert hosted.phase is Phase.PLANNED
    hosted.client_ready("q")
    assert hosted.phase is Phase.WAITING
    hosted.validate()
    hosted.withdraw("q")
    assert hosted.phase is Phase.PLANNED
    hosted.validate()


def test_detector_that_runs_has_a_meter() -> None:
    hosted = made()
    hosted.serve("q", ASKED)
    hosted.client_ready("q")
    hosted.run(0)
    with pytest.raises(AssertionError, match=r"\(running\): a meter while it runs"):
        hosted.validate()
    assert not hosted.begin(5, DetectorMeter(5))
    hosted.validate()
    assert hosted.since == 5


def test_detector_refuses_a_phase_out_of_order() -> None:
    hosted = made()
    with pytest.raises(AssertionError, match="planned and then leaving"):
        hosted.leave()
    hosted.end()
    with pytest.raises(AssertionError, match="gone and then running"):
        hosted.run(0)


def test_detector_that_arrives_keeps_inputs_and_drops_subscriptions_that_ended() -> None:
    hosted = made()
    hosted.arrive({}, {})
    hosted.keep("s1")
    hosted.arrived(
        DetectorState(0, b"", {"q": True, "over": True}, {"n2": ""}, {"q": "n2"}), {"q": ASKED}, 0, replica=False
    )
    assert hosted.begin(1, DetectorMeter(1)) == ["s1"]
    assert list(hosted.subscriptions) == ["q"]
    assert hosted.near_nodes() == {"n2"}
    hosted.validate()


def test_subscription_that_waits_for_a_replica_listens_to_it_when_it_is_there() -> None:
    hosted = made()
    hosted.serve("q", ASKED, near="n2")
    assert hosted.awaited_nodes() == {"n2"}
    assert hosted.add_replica("n2", "mqtt://two") == ["q"]
    assert hosted.near_nodes() == {"n2"}
    assert hosted.remove_replicas(["n2"]) == ["q"]
    assert hosted.near_nodes() == set()
    hosted.validate()


def test_watermark_is_published_once_unless_it_is_due_again() -> None:
    hosted = made()
    assert hosted.news(False, 1, 0)
    assert not hosted.news(False, 1, 0)
    assert not hosted.news(False, 2, 1)
    assert hosted.news(True, 2, 1)
    hosted.readers_known(True)
    assert hosted.news(False, 3, 2)
    assert not hosted.news(False, None, 2)


def test_fields_of_a_hosted_detector_change_by_its_methods_alone() -> None:
    names = {"hosted", "mine", "each"}
    fields = set(HostedDetector.__slots__)
    found: list[str] = []
    for path in sorted(Path(package.__path__[0]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.Delete):
                targets = list(node.targets)
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING:
                targets = [node.func.value]
            for target in targets:
                owner = target.value if isinstance(target, ast.Subscript) else target
                if not isinstance(owner, ast.Attribute) or not isinstance(owner.value, ast.Name):
                    continue
                if owner.value.id in names and owner.attr in fields:
                    found.append(f"{path.name}:{node.lineno}: {ast.unparse(target)}")
    assert found == []
