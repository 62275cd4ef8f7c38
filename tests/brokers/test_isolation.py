"""Detectors with a node of their own."""

from __future__ import annotations

from collections import deque

from distced.brokers.core.effects import Effect, Isolate, Release
from distced.brokers.core.rendezvous import chosen
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry, Hints
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene
from tests.support.virtual_nodes import Network, Participant

AB = "[A] ; [B] -> Out()"
ALONE = Hints(isolated=True)


class Able(Scene):
    """Nodes whose driver starts further ones."""

    def __init__(self, nodes: int = 3, seed: int = 1, network: Network | None = None) -> None:
        super().__init__(0, seed, network)
        self.nodes = [self.network.node(f"n{number}", isolates=True) for number in range(nodes)]
        self.network.run()


def entry_of(network: Network, detector: str) -> DetectorEntry:
    return decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="")


def test_node_is_started_and_ends_with_its_detector() -> None:
    for seed in range(20):
        scene = Able(seed=seed)
        scene.subscribe("q", AB, hints=ALONE)
        scene.subscribe("other", "[C] -> Else()")
        identity = scene.app.detector("q")
        host = entry_of(scene.network, identity).node
        assert host.endswith(f"+{identity}")
        assert scene.network.hosts(identity) == [host]
        assert entry_of(scene.network, scene.app.detector("other")).node in {"n0", "n1", "n2"}
        scene.happen("AB")
        assert scene.found("q") == 1
        scene.app.clear("subscription", "q")
        scene.network.pass_time(3 * SECOND)
        assert {each.name for each in scene.network.nodes} == {"n0", "n1", "n2"}
        assert scene.network.letters == []


def test_isolated_node_ends_with_a_subscription_that_ends_early() -> None:
    for seed in range(30):
        scene = Able(seed=seed)
        scene.app.subscribe("q", AB, hints=ALONE)
        scene.network.some(scene.network.random.randrange(30))
        scene.app.clear("subscription", "q")
        scene.network.pass_time(3 * SECOND)
        assert {each.name for each in scene.network.nodes} == {"n0", "n1", "n2"}, seed
        assert scene.entries("detector") == []


def test_isolated_node_is_made_again_when_it_or_its_owner_is_lost() -> None:
    # Of nodes of one name that start at one virtual instant neither claim is the later one, so the seeds are picked.
    for seed in range(10, 20):
        for whose in ("own", "owner"):
            scene = Able(seed=seed)
            scene.subscribe("q", AB, hints=ALONE)
            identity = scene.app.detector("q")
            host = entry_of(scene.network, identity).node
            lost = [host] if whose == "own" else [host, host.partition("+")[0]]
            for name in lost:
                scene.network.lose(next(each for each in scene.network.nodes if each.name == name), for_good=True)
            if whose == "own":
                # What starts it starts it again.
                scene.network.node(host, reserved=identity)
            scene.network.pass_time(5 * SECOND)
            assert scene.app.states("q")[-1] == "active", (seed, whose)
            scene.happen("AB")
            assert scene.found("q") == 1, (seed, whose)


class SlowNetwork(Network):
    """Nodes for isolated detectors take seconds to start, in order, as processes do."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.starting: dict[Participant, deque[tuple[int, Effect]]] = {}

    def _serve(self, participant: Participant, effect: Effect) -> None:
        if isinstance(effect, Isolate | Release):
            at = self.now + self.random.randrange(1, 9) * SECOND if isinstance(effect, Isolate) else 0
            self.starting.setdefault(participant, deque()).append((at, effect))
        else:
            super()._serve(participant, effect)

    def pass_time(self, duration: int, every: int = SECOND // 2) -> None:
        end = self.now + duration
        while self.now < end:
            for participant, waiting in list(self.starting.items()):
                if participant not in self.participants:
                    del self.starting[participant]
                elif waiting and waiting[0][0] <= self.now:
                    super()._serve(participant, waiting.popleft()[1])
            super().pass_time(every, every)


def test_isolated_detector_begins_again_where_its_owner_is_back_in_a_moment() -> None:
    """Two nodes may have a process started for it; one of these is given up, and the other begins."""
    for seed in range(130, 170):
        scene = Able(seed=seed, network=SlowNetwork(seed))
        network = scene.network
        scene.app.subscribe("q", AB, hints=ALONE)
        network.pass_time(15 * SECOND)
        identity = scene.app.detector("q")
        host = entry_of(network, identity).node
        owner = host.partition("+")[0]
        for name in network.random.sample([host, owner], 2):
            network.lose(next(each for each in network.nodes if each.name == name), for_good=True)
            network.some(network.random.randrange(30))
        network.pass_time(network.random.randrange(4) * SECOND // 2)
        network.node(owner, isolates=True)
        network.pass_time(40 * SECOND)
        assert scene.app.states("q")[-1] == "active", seed
        assert len([each for each in network.nodes if each.node.reserved]) == 1, seed
        scene.happen("AB")
        assert scene.found("q") == 1, seed


def test_isolated_detector_is_not_moved() -> None:
    scene = Able()
    scene.subscribe("q", AB, hints=ALONE)
    identity = scene.app.detector("q")
    host = entry_of(scene.network, identity).node
    scene.network.publish(administration_topic("move", identity), encode(MoveRequest("n0")))
    scene.network.run()
    assert entry_of(scene.network, identity).node == host
    assert scene.network.notes[-1].event == "move refused"


def test_isolated_detector_is_refused_without_a_capable_node() -> None:
    scene = Scene()
    scene.app.subscribe("q", AB, hints=ALONE)
    scene.network.run()
    (answer,) = scene.app.answers["q"]
    assert answer.state == "refused"
    assert "process of its own" in answer.message


def test_reserved_nodes_decide_nothing() -> None:
    scene = Able(1)
    scene.subscribe("q", AB, hints=ALONE)
    for number in range(12):
        scene.subscribe(f"p{number}", f"[A where k == {number}] -> Out{number}()")
    (own,) = [each for each in scene.network.nodes if each.node.reserved]
    assert list(own.node.hosted) == [scene.app.detector("q")]
    assert not len(own.node.admission.served)
    assert any(chosen(f"[A where k == {number}] -> Out{number}()", ["n0", own.name]) != "n0" for number in range(12))
