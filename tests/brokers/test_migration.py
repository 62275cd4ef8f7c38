"""Moves of detectors from node to node: no composite event is lost or published twice, subscribers notice nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

import pytest

from distced.brokers.node.migration import PATIENCE
from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime.detector import Detector
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Publication
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import SubscriptionEntry
from distced.middleware.wire.node_messages import Arrival, DetectorState, Refusal
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import CHAIN, Scene
from tests.brokers.test_transparency import KINDS, _send
from tests.support.engine_switches import by_chance
from tests.support.event_streams import END, comparable, messages, spread
from tests.support.random_patterns import TYPES, PatternMaker
from tests.support.states import STATE_TYPES, reading_states
from tests.support.virtual_nodes import Network, delivering


def move(scene_network: Network, detector: str, node: str) -> None:
    """Somebody wants a detector moved."""
    scene_network.publish(administration_topic("move", detector), encode(MoveRequest(node)))


def detector_of(scene: Scene, text: str) -> tuple[str, str]:
    """The id of the detector of a pattern, and its node."""
    host = scene.host_of(text)
    (identity,) = [name for name, hosted in host.node.hosted.items() if hosted.detector.compiled.text == text]
    return identity, host.name


def other_than(scene: Scene, name: str) -> str:
    return next(each.name for each in scene.nodes if each.name != name)


def test_detector_moves_with_its_state() -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    scene.happen("A")
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    target = other_than(scene, origin)
    move(scene.network, identity, target)
    scene.network.run()
    assert scene.host_of("[A] ; [B] -> Out()").name == target
    assert scene.network.hosts(identity) == [target]
    scene.happen("BAB")
    assert scene.found("q") == 2
    assert scene.network.letters == []
    scene.app.clear("subscription", "q")
    scene.network.run()
    assert scene.entries("detector") == []


@pytest.mark.parametrize("text", ["[A as x0] ; [B where v == x0.v]", "[A as x0] ; [B where v == x0.v] ; [C]", CHAIN])
def test_each_link_of_a_chain_moves(text: str) -> None:
    scene = Scene()
    scene.subscribe("q", CHAIN, decomposition="full")
    scene.happen("AB")
    identity, origin = detector_of(scene, text)
    target = other_than(scene, origin)
    move(scene.network, identity, target)
    scene.network.run()
    assert scene.network.hosts(identity) == [target]
    scene.happen("CD")
    scene.happen("ABCD", v=3)
    assert scene.found("q") == 2
    assert len(scene.entries("subscription")) == 3
    scene.app.clear("subscription", "q")
    scene.network.run()
    assert scene.entries("detector") == scene.entries("subscription") == []


def test_late_events_are_reported_before_a_detector_moves() -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()", policy="best-effort")
    scene.happen("AB", watermark=False)
    scene.source.publish(Event("A", 1, 1, "s", 0, {"k": 1, "v": 2}))
    scene.network.run()
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    assert not scene.app.losses
    move(scene.network, identity, other_than(scene, origin))
    scene.network.run()
    assert [(each.since, each.until) for each in scene.app.losses["q"]] == [(0, 1)]


def test_detector_moves_there_and_back() -> None:
    scene = Scene(2)
    scene.subscribe("q", CHAIN, decomposition="full")
    for _ in range(4):
        for identity in [name for each in scene.nodes for name in each.node.hosted]:
            (origin,) = scene.network.hosts(identity)
            move(scene.network, identity, other_than(scene, origin))
            scene.network.run()
        scene.happen("ABCD")
    assert scene.found("q") == 4


def test_subscription_begins_or_ends_during_a_move() -> None:
    for seed in range(30):
        scene = Scene(3, seed)
        scene.subscribe("q", "[A] ; [B] -> Out()")
        other = scene.network.client("other")
        scene.network.run()
        identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
        move(scene.network, identity, other_than(scene, origin))
        scene.network.some(scene.network.random.randrange(12))
        other.subscribe("r", "[A] ; [B] -> Out()")
        scene.network.some(scene.network.random.randrange(12))
        scene.app.clear("subscription", "q")
        scene.network.run()
        scene.network.pass_time(3 * SECOND)
        assert other.states("r")[-1] == "active", seed
        scene.happen("AB")
        assert scene.found("r", other) == 1, seed
        assert len(scene.network.hosts(identity)) == 1, seed


@pytest.mark.parametrize("who", ["origin", "target"])
def test_move_ends_when_a_node_is_lost(who: str) -> None:
    """At whatever step: afterwards there is one detector, and what happens from then on is found."""
    for seed in range(40):
        scene = Scene(3, seed)
        scene.subscribe("q", "[A] ; [B] -> Out()")
        identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
        target = other_than(scene, origin)
        move(scene.network, identity, target)
        scene.network.some(seed % 20)
        name = origin if who == "origin" else target
        (lost,) = [each for each in scene.network.nodes if each.name == name]
        scene.network.lose(lost, for_good=True)
        scene.network.run()
        scene.network.pass_time(PATIENCE + 20 * SECOND)
        assert len(scene.network.hosts(identity)) == 1, seed
        before = scene.found("q")
        scene.happen("AB")
        assert scene.found("q") == before + 1, seed


def test_detector_stays_when_the_target_is_silent() -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    scene.happen("A")
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    target = other_than(scene, origin)
    (silent,) = [each for each in scene.network.nodes if each.name == target]
    silent.node.migration.message = lambda *_: []  # type: ignore[method-assign]
    move(scene.network, identity, target)
    scene.network.run()
    scene.happen("B")
    scene.network.pass_time(PATIENCE + 5 * SECOND)
    assert scene.network.hosts(identity) == [origin]
    assert scene.found("q") == 1


@pytest.mark.parametrize("goes", [True, False])
@pytest.mark.parametrize("how", ["leaves", "is fenced off", "joins"])
def test_source_joins_or_leaves_during_a_move(how: str, goes: bool) -> None:
    """Whether the detector arrives or stays, it waits for those that are there, and for no others."""
    scene = Scene()
    other = scene.network.client("other")
    if how != "joins":
        other.source("t", "AB")
    scene.network.run()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    target = other_than(scene, origin)
    (to,) = [each for each in scene.network.nodes if each.name == target]
    comparable = to.node.migration.message
    held: list[tuple[object, ...]] = []
    to.node.migration.message = (  # type: ignore[method-assign]
        lambda kind, *rest: held.append((kind, *rest)) or [] if kind == "state" else comparable(kind, *rest)
    )
    move(scene.network, identity, target)
    scene.network.run()
    assert held
    match how:
        case "leaves":
            other.clear("source", "t")
        case "is fenced off":
            scene.network.publish(administration_topic("fence", "t"), b"")
        case _:
            other.source("t", "AB")
    scene.network.run()
    if goes:
        to.do(comparable(*held[0]))
    scene.network.run()
    scene.network.pass_time(PATIENCE + 5 * SECOND)
    (host,) = scene.network.hosts(identity)
    assert host == (target if goes else origin)
    (hosted,) = [hosted for each in scene.nodes for hosted in each.node.hosted.values()]
    assert hosted.detector.policy.waits_for() == ({"s", "t"} if how == "joins" else {"s"})
    if how != "joins":
        scene.happen("AB")
        assert scene.found("q") == 1


def test_detector_stays_when_its_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target cannot read the state: the origin goes on with it, and with what came meanwhile."""
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    scene.happen("A")
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    monkeypatch.setattr(Detector, "snapshot", lambda self: b"damaged")
    move(scene.network, identity, other_than(scene, origin))
    scene.happen("B")
    assert scene.network.hosts(identity) == [origin]
    assert scene.found("q") == 1
    assert any(note.event == "move refused" for note in scene.network.notes)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("prepare", b"nonsense"),
        ("prepare", encode(Arrival("n1", SubscriptionEntry("c", "[A")))),
        ("prepare", encode(Arrival("n1", SubscriptionEntry("c", "[A] ; [C]")))),
        ("listening", b""),
        ("state", encode(DetectorState(0, b"", {}))),
        ("refused", encode(Refusal(0, "no"))),
        ("dance", b""),
    ],
)
def test_words_out_of_place(kind: str, payload: bytes) -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    before = scene.hosted
    for node in ("n0", "n1", "n2"):
        scene.network.publish(administration_topic("node", node, kind, "c0123456789abcdef"), payload)
    scene.network.run()
    scene.network.pass_time(PATIENCE + 3 * SECOND)
    assert scene.hosted == before
    scene.happen("AB")
    assert scene.found("q") == 1


def test_move_to_an_unknown_node_is_refused() -> None:
    scene = Scene()
    scene.subscribe("q", "[A] ; [B] -> Out()")
    before = scene.hosted
    identity, origin = detector_of(scene, "[A] ; [B] -> Out()")
    for node in ("nowhere", origin):
        move(scene.network, identity, node)
    move(scene.network, "c0123456789abcdef", "n1")
    scene.network.run()
    assert scene.hosted == before
    assert any(note.event == "move refused" for note in scene.network.notes)


@pytest.mark.slow
@pytest.mark.parametrize("switching", [False, True], ids=["stepwise", "any engine"])
def test_composite_events_do_not_depend_on_moves(switching: bool, at_length: bool) -> None:
    """Random patterns, cuts, inputs and interleavings; detectors move at random meanwhile, and their engines change."""
    if switching:
        pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    found, moved = _moved(
        range(1_000 if at_length else 60),
        lambda random: PatternMaker(random).publication(random.randrange(2, 7)),
        switching=switching,
    )
    assert found > 25
    assert moved > 25


@pytest.mark.slow
def test_composite_events_of_states_do_not_depend_on_moves(at_length: bool) -> None:
    found, moved = _moved(range(500 if at_length else 80), reading_states, switching=True, types=STATE_TYPES)
    assert found > 6
    assert moved > 15


def _moved(
    seeds: Iterable[int],
    make: Callable[[Random], Publication],
    *,
    switching: bool,
    types: Sequence[EventType] = (),
) -> tuple[int, int]:
    """Detect random patterns whose detectors move meanwhile; numbers of what was found, and of moves."""
    moved = found = 0
    for seed in seeds:
        random = Random(seed)
        registry = TypeRegistry((*KINDS, *types))
        try:
            made = make(random)
            pattern = compile_pattern(format_publication(made), registry)
        except PatternError:
            continue
        sources = random.randrange(1, 3)
        events = spread(random, random.randrange(3, 14), sources)
        streams = [messages(random, events, f"s{number}", shuffled=random.random() < 0.3) for number in range(sources)]
        network = Network(seed, again=random.choice((0.0, 0.3)))
        engines = by_chance(seed) if switching else None
        nodes = [network.node(f"n{number}", engines=engines) for number in range(random.randrange(2, 4))]
        app = network.client("app")
        app.register(*KINDS, *types)
        network.run()
        publishers = [network.client(f"pub{number}") for number in range(sources)]
        for number, publisher in enumerate(publishers):
            publisher.source(f"s{number}", TYPES)
        app.subscribe("q", pattern.text, decomposition=random.choice(("none", "full")))
        network.run()
        assert app.states("q")[-1] == "active", app.answers["q"]

        def somebody_moves(random: Random = random, network: Network = network) -> None:
            hosted = sorted(name for each in network.nodes for name in each.node.hosted)
            if hosted:
                move(network, random.choice(hosted), random.choice(network.nodes).name)

        sends: list[Callable[[], object]] = []
        waiting = [stream for stream in streams if stream]
        while waiting:
            message = random.choice(waiting).pop(0)
            sends.append(partial(_send, publishers[int(message.source[1:])], message))
            sends += [somebody_moves] * (random.random() < 0.5)
            waiting = [each for each in waiting if each]
        delivering(network, sends)

        engine = StepwiseEngine([pattern])
        expected = engine.feed(events) + engine.advance(END)
        assert comparable(app.composites("q")) == comparable(expected), f"seed {seed}: {pattern.text}"
        network.pass_time(2 * SECOND)
        assert app.watermarks["q"] == END
        assert network.letters == [], seed
        found += len(expected)
        moved += sum(note.event == "detector moved" for note in network.notes)
        assert sum(len(each.node.migration.moving) for each in nodes) == 0
    return found, moved
