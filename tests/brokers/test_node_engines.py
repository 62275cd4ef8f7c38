"""Which engine runs the detectors of a node: chosen by load, told in the log, and what is found is the same."""

from __future__ import annotations

import pytest

from distced.brokers.core.effects import Note
from distced.detectors.runtime.engine_switch import Engines
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.support.engine_switches import AtOnce, Never
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

READING = event_type("Reading", {"v": "number"})
RISING = "[Reading as one] ; [Reading as other where v > one.v + 1000] within 1min -> Risen(height = other.v - one.v)"


class Scene:
    """A node, a publisher, and somebody who subscribes to a pattern where each event touches many instances."""

    def __init__(self, engines: Engines | None, nodes: int = 1) -> None:
        self.network = Network()
        self.nodes: list[VirtualNode] = [self.network.node(f"n{number}", engines=engines) for number in range(nodes)]
        self.app: VirtualClient = self.network.client("app")
        self.app.register(READING)
        self.publisher: VirtualClient = self.network.client("publisher")
        self.publisher.source("s", ["Reading"])
        self.network.run()
        self.app.subscribe("q", RISING)
        self.network.run()
        assert self.app.states("q")[-1] == "active"
        self.published = 0

    def publish(self, frames: int, size: int, value: int = 0) -> None:
        """`frames` frames of `size` events, over two virtual seconds."""
        for _ in range(frames):
            events = []
            for _ in range(size):
                self.published += 1
                events.append(Event("Reading", self.published, self.published, "s", self.published, {"v": value}))
            self.publisher.publish(*events, watermark=self.published)
            self.network.run()
            self.network.pass_time(2 * SECOND // frames)

    def logged(self) -> list[object]:
        """The engines that the log speaks of."""
        return [note.fields["engine"] for note in self.network.notes if "engine" in note.fields]


@pytest.mark.slow
def test_columnar_engine_runs_large_frames_and_switches_back_for_a_move() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    scene = Scene(Engines(AtOnce()), nodes=2)
    scene.publish(20, 50)
    assert scene.logged() == ["columnar"]
    identity = scene.app.detector("q")
    (origin,) = scene.network.hosts(identity)
    target = next(each.name for each in scene.nodes if each.name != origin)
    scene.network.publish(administration_topic("move", identity), encode(MoveRequest(target)))
    scene.network.run()
    assert scene.network.hosts(identity) == [target]
    scene.publish(1, 1, value=2_000)
    assert [len(each.events) for each in scene.app.composites("q")] == [0] * 1_000
    scene.publish(20, 50, value=2_000)
    assert scene.logged() == ["columnar", "columnar"]
    assert scene.network.letters == []


def test_single_events_are_run_by_the_stepwise_engine() -> None:
    readiness = Never(problem="")
    scene = Scene(Engines(readiness))
    scene.publish(40, 1)
    assert readiness.asked == 0
    assert scene.logged() == []


def test_that_an_engine_cannot_be_had_is_said_once() -> None:
    readiness = Never(problem="")
    scene = Scene(Engines(readiness))
    scene.publish(20, 50)
    assert readiness.asked > 0
    scene.publish(1, 1, value=2_000)
    assert len(scene.app.composites("q")) == 1_000
    assert _without(scene) == []
    readiness.problem = "numba is not installed"
    scene.network.pass_time(20 * SECOND)
    (note,) = _without(scene)
    assert note.fields == {"reason": "numba is not installed", "runs": "stepwise"}


def _without(scene: Scene) -> list[Note]:
    return [note for note in scene.network.notes if note.event == "columnar engine refused"]
