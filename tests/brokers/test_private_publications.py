"""Private publications on nodes: sent with their readers, one detector for all of them, moved as any part."""

from __future__ import annotations

from distced.detectors.compiler import compile_file, compile_pattern
from distced.middleware.patterns.statements import read_statements
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene

FILE = """
private [A as a] ; [B] -> Pair(k = a.k)
[Pair as p] ; [C where k == p.k] -> One(k = p.k)
[D] ; [Pair] -> Two()
"""
ONE, TWO = (each.text for each in compile_file(FILE))
PAIR = "[A as x0] ; [B] -> (k = x0.k)"


def test_users_share_the_detector_of_a_private_publication() -> None:
    scene = Scene()
    other = scene.network.client("other")
    scene.subscribe("q", ONE, decomposition="full")
    scene.subscribe("r", TWO.replace("Pair", "Couple"), app=other, decomposition="full")
    texts = sorted(text for texts in scene.hosted.values() for text in texts)
    assert texts == sorted([PAIR, ONE, TWO.replace("Pair", "Couple")])
    scene.happen("DABC")
    assert [each.constituents for each in scene.app.composites("q")] == [(("s", 2), ("s", 3), ("s", 4))]
    assert [each.constituents for each in other.composites("r")] == [(("s", 1), ("s", 2), ("s", 3))]
    # It publishes no type.
    assert not [topic for topic in scene.network.retained if "Pair" in topic.split("/")[-1]]
    assert scene.network.letters == []
    scene.app.clear("subscription", "q")
    other.clear("subscription", "r")
    scene.network.run()
    assert scene.entries("detector") == []


def test_running_detector_is_read_for_reuse() -> None:
    scene = Scene()
    scene.subscribe("q", PAIR)
    scene.subscribe("r", ONE, decomposition="for-reuse")
    assert sorted(text for texts in scene.hosted.values() for text in texts) == sorted([PAIR, ONE])
    scene.happen("ABC")
    assert (scene.found("q"), scene.found("r")) == (1, 1)


def test_detector_with_a_private_publication_inside_moves() -> None:
    scene = Scene()
    scene.subscribe("q", ONE, decomposition="none")
    scene.happen("AB")
    origin = scene.host_of(ONE)
    target = next(each for each in scene.nodes if each is not origin)
    topic = administration_topic("move", scene.app.detector("q"))
    scene.network.publish(topic, encode(MoveRequest(target.name)))
    scene.network.run()
    scene.happen("C")
    assert scene.host_of(ONE) is target
    assert scene.found("q") == 1


def test_reader_of_a_delegated_private_publication_moves() -> None:
    scene = Scene()
    scene.subscribe("q", ONE, decomposition="full")
    scene.happen("AB")
    origin = scene.host_of(ONE)
    target = next(each for each in scene.nodes if each not in (origin, scene.host_of(PAIR)))
    topic = administration_topic("move", scene.app.detector("q"))
    scene.network.publish(topic, encode(MoveRequest(target.name)))
    scene.network.run()
    assert scene.host_of(ONE) is target
    (hosted,) = target.node.hosted.values()
    assert list(hosted.parts) == [compile_pattern(PAIR).canonical_id]
    scene.happen("CABC")
    assert [each.constituents for each in scene.app.composites("q")] == [
        (("s", 1), ("s", 2), ("s", 3)),
        (("s", 4), ("s", 5), ("s", 6)),
    ]
    assert scene.network.letters == []


def test_definitions_of_a_file_are_sent_with_their_readers() -> None:
    scene = Scene()
    statements = read_statements(FILE)
    for number, each in enumerate(statements.publications):
        scene.app.subscribe(f"q{number}", each.text, definitions=statements.texts, decomposition="full")
        scene.network.run()
        assert scene.app.states(f"q{number}")[-1] == "active", scene.app.answers[f"q{number}"]
    scene.happen("DABC")
    assert (scene.found("q0"), scene.found("q1")) == (1, 1)
    found = {each.source for number in range(2) for each in scene.app.composites(f"q{number}")}
    assert found == {compile_pattern(text).canonical_id for text in (ONE, TWO)}


def test_once_private_publications_stay_with_their_readers() -> None:
    scene = Scene()
    text = "private once [A as a]+ -> N(n = count(a)) : [N where n > 1] ; [B] -> Out()"
    scene.subscribe("q", text, decomposition="full")
    assert [text for texts in scene.hosted.values() for text in texts] == [compile_pattern(text).text]
    scene.happen("AAB")
    assert scene.found("q") == 1
