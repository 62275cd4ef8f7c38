"""Random queries of Cayuga on nodes, moved between events: they find what their definition says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene
from tests.support.cayuga_definition import answer, found, streams_of
from tests.support.random_algebra import AlgebraMaker
from tests.support.random_cel import SCHEMAS, CelMaker, random_events

MAKERS: dict[str, Callable[[Random], CelMaker | AlgebraMaker]] = {"cel": CelMaker, "algebra": AlgebraMaker}
KINDS = {"p": "number", "q": "number", "n": "string"}


def _with_nulls(event: Event) -> Event:
    """The event as it is published: what is not known is null."""
    attributes = {**dict.fromkeys(SCHEMAS[event.type]), **event.attributes}
    return Event(event.type, event.lo, event.hi, event.source, event.seq, attributes)


def _moved(seed: int, language: str) -> int | None:
    """How many events a random query has on nodes; None where it is refused."""
    random = Random(seed)
    maker = MAKERS[language](random)
    query = maker.query(random.randrange(1, 4))
    if len(maker.published if isinstance(maker, CelMaker) else maker.named):
        # One of several queries is moved alone, as others are other detectors.
        return None
    scene = Scene(3, seed)
    for name, attributes in SCHEMAS.items():
        scene.app.register(EventType(name, {each: KINDS[each] for each in attributes}))  # type: ignore[misc]
    source = scene.network.client("quotes")
    source.source("e", list(SCHEMAS), -100)
    scene.network.run()
    decomposition = random.choice(("none", "full"))
    scene.app.subscribe("q", query.text, language=language, decomposition=decomposition, constituents=True)
    scene.network.run()
    if scene.app.states("q")[-1] != "active":
        return None
    events = [_with_nulls(each) for each in random_events(random, random.randrange(10, 20))]
    for event in events:
        if random.random() < 0.4:
            targets = [(node, each) for node in scene.nodes for each in list(node.node.hosted)]
            _, detector = random.choice(targets)
            order = encode(MoveRequest(random.choice(scene.nodes).name))
            scene.network.publish(administration_topic("move", detector), order)
            if random.random() < 0.5:
                scene.network.run()
        source.publish(event, watermark=None)
        source.heartbeat(event.hi - 1, "e")
        if random.random() < 0.5:
            scene.network.run()
    source.heartbeat(1_000, "e")
    scene.network.run()
    given = found(scene.app.composites("q"))
    expected = answer(query.events(streams_of(events, SCHEMAS)))
    assert given == expected, (seed, query.text, events)
    return len(expected)


@pytest.mark.parametrize("language", MAKERS)
def test_moved_queries_find_what_their_definition_says(language: str, at_length: bool) -> None:
    counts = [_moved(seed, language) for seed in range(1_000 if at_length else 40)]
    run = [each for each in counts if each is not None]
    assert len(run) > len(counts) / 4
    assert sum(run) > len(run) / 3
