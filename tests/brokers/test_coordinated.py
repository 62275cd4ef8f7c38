"""Nodes that leave parts of a pattern to others: hosts of the parts, and nodes and clients that join and leave."""

from __future__ import annotations

import pytest

from distced.brokers.node.absent_clients import ABSENCE
from distced.detectors.compiler import compile_pattern
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import RENEW_EVERY, Answer, Answers, MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

KINDS = [event_type(name, {"k": "number", "v": "number"}) for name in "ABCD"]
CHAIN = "[A as x] ; [B where v == x.v] ; [C] ; [D where k == x.k] -> Out(v = x.v)"


class Scene:
    """A few nodes, an application and a source of all types."""

    def __init__(self, nodes: int = 3, seed: int = 1, network: Network | None = None) -> None:
        self.network = Network(seed) if network is None else network
        self.nodes = [self.network.node(f"n{number}") for number in range(nodes)]
        self.app = self.network.client("app")
        self.app.register(*KINDS)
        self.network.run()
        self.source = self.network.client("publisher")
        self.source.source("s", "ABCD")
        self.network.run()
        self.seq = 0

    def subscribe(self, name: str, pattern: str, *, app: VirtualClient | None = None, **quality: object) -> None:
        client = app or self.app
        client.subscribe(name, pattern, **quality)
        self.network.run()
        assert client.states(name)[-1] == "active", client.answers[name]

    def happen(self, types: str, watermark: bool = True, *, run: bool = True, **attributes: Attribute) -> None:
        """Events one after the other, ten nanoseconds apart."""
        for name in types:
            self.seq += 1
            at = 10 * self.seq
            event = Event(name, at, at, "s", self.seq, {"k": 1, "v": 2, **attributes})
            self.source.publish(event, watermark=at if watermark else None)
        self.source.heartbeat(10 * self.seq + 5, "s")
        if run:
            self.network.run()

    def found(self, name: str, app: VirtualClient | None = None) -> int:
        return len((app or self.app).composites(name))

    @property
    def hosted(self) -> dict[str, list[str]]:
        """The texts of what each node hosts."""
        return {
            each.name: sorted(hosted.detector.compiled.text for hosted in each.node.hosted.values())
            for each in self.network.nodes
        }

    def host_of(self, text: str) -> VirtualNode:
        (found,) = [
            each
            for each in self.network.nodes
            for hosted in each.node.hosted.values()
            if hosted.detector.compiled.text == text
        ]
        return found

    def entries(self, kind: str) -> list[str]:
        return sorted(topic for topic in self.network.retained if f"/{kind}/" in topic)


def test_chain_of_detectors() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full")
    assert sorted(text for texts in scene.hosted.values() for text in texts) == [
        "[A as x0] ; [B where v == x0.v]",
        "[A as x0] ; [B where v == x0.v] ; [C]",
        CHAIN,
    ]
    scene.happen("ABCD")
    scene.happen("ACBCD", v=3)
    (first, second) = scene.app.composites("q")
    whole = compile_pattern(CHAIN).automaton.canonical_id
    assert (first.source, first.constituents, first.attributes) == (
        whole,
        (("s", 1), ("s", 2), ("s", 3), ("s", 4)),
        {"v": 2},
    )
    assert second.attributes == {"v": 3}
    assert scene.network.letters == []


def test_unneeded_parts_are_destroyed_at_every_level() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full")
    assert len(scene.entries("detector")) == len(scene.entries("subscription")) == 3
    scene.app.clear("subscription", "q")
    scene.network.run()
    assert scene.entries("detector") == scene.entries("subscription") == []
    assert set(map(tuple, scene.hosted.values())) == {()}


def test_patterns_that_begin_alike_share_a_detector() -> None:
    scene = Scene()
    other = scene.network.client("other")
    scene.subscribe("q", "[A] ; [B] ; [C] -> One()", decomposition="full")
    scene.subscribe("r", "[A] ; [B] ; [D] -> Two()", app=other, decomposition="full")
    texts = sorted(text for texts in scene.hosted.values() for text in texts)
    assert texts == ["[A] ; [B]", "[A] ; [B] ; [C] -> One()", "[A] ; [B] ; [D] -> Two()"]
    scene.happen("ABCD")
    assert (scene.found("q"), scene.found("r", other)) == (1, 1)
    scene.app.clear("subscription", "q")
    scene.network.run()
    scene.happen("ABD")
    assert scene.found("r", other) == 2


def test_running_detector_is_read_as_a_part() -> None:
    """It kept no derivations so far; from now on it does."""
    scene = Scene()
    other = scene.network.client("other")
    scene.subscribe("q", "[A] ; [B]")
    scene.happen("A")
    scene.subscribe("r", "[A as a] ; [B] ; [C where v > 1] -> Out()", app=other, decomposition="for-reuse")
    assert "[A] ; [B]" in [text for texts in scene.hosted.values() for text in texts]
    assert any(hosted.parts for each in scene.nodes for hosted in each.node.hosted.values())
    scene.happen("BABCC")
    assert scene.found("q") == 2
    # The first match had begun before anybody asked where.
    assert scene.found("r", other) == 1
    # Who was there first may go.
    scene.app.clear("subscription", "q")
    scene.network.run()
    scene.happen("ABC")
    assert scene.found("r", other) == 2


def test_nothing_is_reused_without_running_detectors() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="for-reuse")
    assert sum(map(len, scene.hosted.values())) == 1


@pytest.mark.parametrize("lost", ["[A] ; [B]", "[A] ; [B] ; [C] -> Out()"])
def test_chain_of_detectors_recovers_when_a_node_is_lost(lost: str) -> None:
    """What it had matched is lost with it; what happens from then on is found."""
    scene = Scene(4, seed=3)
    scene.subscribe("q", "[A] ; [B] ; [C] -> Out()", decomposition="full")
    scene.happen("ABC")
    gone = scene.host_of(lost)
    others = {each.name for each in scene.network.nodes} - {gone.name}
    scene.network.lose(gone, for_good=True)
    scene.network.run()
    scene.network.pass_time(ABSENCE + RENEW_EVERY + 5 * SECOND)
    assert scene.host_of(lost).name in others
    assert scene.app.states("q")[-1] == "active"
    scene.happen("ABC")
    assert scene.found("q") == 2
    # What the lost node had subscribed to is cleared, and nothing else.
    assert len(scene.entries("subscription")) == 2


def test_chain_of_detectors_recovers_when_the_server_forgets() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full")
    scene.network.restart()
    for each in scene.network.participants:
        each.connect()
    scene.network.run()
    scene.network.pass_time(40 * SECOND)
    assert len(scene.entries("subscription")) == 3
    scene.happen("ABCD")
    assert scene.found("q") == 1


def test_pattern_is_detected_whole_when_a_part_is_refused() -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] ; [C] -> Out()", decomposition="full")
    reader = scene.host_of("[A] ; [B] ; [C] -> Out()")
    (name,) = [each for each in reader.node.directory.subscriptions if each != "q"]
    refusal = Answer(name, "refused", node="elsewhere", message="not here")
    scene.network.publish(administration_topic("answer", f"node:{reader.name}"), encode(Answers((refusal,))))
    scene.network.run()
    assert [text for texts in scene.hosted.values() for text in texts] == ["[A] ; [B] ; [C] -> Out()"]
    assert scene.entries("subscription") == ["ced/d/subscription/q"]
    assert any(note.event == "part refused" for note in scene.network.notes)
    scene.happen("ABC")
    # The whole begins without the state of the parts, and its reader asks for what came before.
    scene.network.pass_time(10 * SECOND)
    assert scene.found("q") == 1


def test_part_is_detected_whole_when_its_own_part_is_refused() -> None:
    """All of it is hidden, which a pattern of its own may not be; what it hands on makes no difference."""
    scene = Scene()
    scene.subscribe("q", "~([A as x] [B]) [C] [D] -> Out(v = x.v)", decomposition="full")
    assert any(note.event == "part refused" for note in scene.network.notes)
    scene.happen("ABCD")
    assert scene.found("q") == 1


def test_best_effort_pattern_is_not_cut() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full", policy="best-effort")
    assert sum(map(len, scene.hosted.values())) == 1


def test_consumption_by_epochs_is_not_cut() -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full", consumption="epoch")
    assert sum(map(len, scene.hosted.values())) == 1
    scene.subscribe("r", f"{CHAIN} consumed epoch", decomposition="full")
    assert sum(map(len, scene.hosted.values())) == 1


def test_throttled_pattern_stays_together() -> None:
    scene = Scene()
    scene.app.register(*KINDS)
    scene.app.put("type", "Seen", _throttled())
    scene.network.run()
    scene.subscribe("q", "[Seen] ; [B] ; ([A] ; [C] & [D]) -> Out()", decomposition="full")
    texts = [text for texts in scene.hosted.values() for text in texts]
    assert "[A] ; [C]" in texts
    assert not any("throttled" in text for text in texts)
    scene.happen("AABACD")
    assert scene.found("q") > 0


def _throttled() -> object:
    from distced.middleware.model.event_types import derive

    return derive(KINDS[0], "Seen", every=1000)


def test_unknown_decomposition_is_refused() -> None:
    scene = Scene()
    scene.app.subscribe("q", CHAIN, decomposition="some")
    scene.network.run()
    (answer,) = scene.app.answers["q"]
    assert answer.state == "refused"
    assert "unknown decomposition: some" in answer.message


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"exports": ("nosuch",)}, "cannot hand on"),
        ({"exports": ("nosuch",), "decomposition": "full"}, "cannot hand on"),
        ({"exports": ("x",), "consumption": "epoch"}, "hands nothing on"),
        ({"exports": ("x",), "policy": "best-effort"}, "hands nothing on"),
    ],
)
def test_unknown_exports_are_refused(asked: dict[str, object], problem: str) -> None:
    scene = Scene()
    scene.app.subscribe("q", "[A as x] ; [B where v == x.v]", **asked)
    scene.network.run()
    assert scene.app.states("q") == ["refused"]
    assert problem in scene.app.answers["q"][-1].message
    scene.subscribe("r", "[A] ; [B]")


def test_answer_to_an_unknown_subscription_is_ignored() -> None:
    scene = Scene()
    # Nobody's subscription is cleared because a node is told of it.
    scene.subscribe("q", "[A] ; [B]")
    for state in ("active", "refused", "perhaps"):
        scene.network.publish(administration_topic("answer", "node:n0"), encode(Answers((Answer("q", state),))))
    scene.network.run()
    assert scene.entries("subscription") == ["ced/d/subscription/q"]
    scene.network.publish(
        administration_topic("answer", "node:n0"), encode(Answers((Answer("q of nobody", "active"),)))
    )
    scene.network.publish(administration_topic("answer", "node:n0"), b"nonsense")
    scene.network.run()
    assert scene.network.reasons() == ["malformed"]


def test_open_gaps_are_published_so_that_no_reader_waits_for_ever() -> None:
    scene = Scene()
    scene.subscribe("q", "[D] ; ([A <= {A, C}] ; [B <= {B, C}] within 1h) -> Out()", decomposition="full")
    (hosted,) = [hosted for each in scene.nodes for hosted in each.node.hosted.values() if hosted.parts]
    for _ in range(20):
        scene.happen("DAC")
    assert hosted.detector.engine.live_instances() == 20
    scene.network.pass_time(5 * SECOND)
    scene.happen("DAC")
    assert hosted.detector.engine.live_instances() <= 2


def test_part_refused_while_its_reader_moves_is_requested_again() -> None:
    scene = Scene(nodes=2)
    scene.subscribe("q", "[A] ; [B] ; [C] -> Out()", decomposition="full")
    reader = scene.host_of("[A] ; [B] ; [C] -> Out()")
    (target,) = [each for each in scene.nodes if each is not reader]
    detector = scene.app.detector("q")
    scene.network.publish(administration_topic("move", detector), encode(MoveRequest(target.name)))
    while not target.node.event_path.moving:
        assert scene.network.step()
    (part,) = target.node.event_path.moving[detector].parts
    refusal = Answer(f"{detector} {part} {target.name}", "refused", message="not here")
    target.do(
        target.node.receive(administration_topic("answer", f"node:{target.name}"), encode(Answers((refusal,))), 0)
    )
    scene.network.run()
    scene.network.pass_time(5 * SECOND)
    assert scene.network.hosts(detector) == [target.name]
    scene.happen("ABC")
    assert scene.found("q") == 1
