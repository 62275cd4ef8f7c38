"""Random texts in CEDMOS and the pretty language on nodes, moved between events: they find what a run finds.

The run over all events at once is that of the stepwise engine, which is held to the definitions of the languages in
`tests/properties`. All queries of a text are subscribed to, so that those that read others find these.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from distced.detectors.compiler import compile_translation
from distced.detectors.frontends.languages import translate
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene
from tests.support.random_cedmos import make_cedmos
from tests.support.random_sentences import make_sentence

MAKERS: dict[str, Callable[[Random], str]] = {"cedmos": make_cedmos, "pretty": make_sentence}
KINDS = dict.fromkeys(("k", "v", "n", "w"), "number")
END = 1_000
"""Behind all events, and the time events of short limits, ns."""


def _events(random: Random, count: int) -> list[Event]:
    """Events in the order of consumption: ties, intervals, nulls; each with all attributes of its type."""
    ends = [random.randrange(1, 20) for _ in range(count)]
    spans = sorted((hi, hi - (random.randrange(3) if random.random() < 0.2 else 0)) for hi in ends)
    return [
        Event(random.choice("ABCD"), lo, hi, "s", seq, {each: random.choice((1, 1, 2, 2.0, None)) for each in KINDS})
        for seq, (hi, lo) in enumerate(spans, 1)
    ]


def _listed(found: list[CompositeEvent]) -> list[str]:
    return sorted(
        repr((each.id, each.constituents, each.lo, each.hi, sorted(each.attributes.items()))) for each in found
    )


def _on_nodes(seed: int, language: str) -> int | None:
    """How many composite events a random text has on nodes; None where it is refused."""
    random = Random(seed)
    text = MAKERS[language](random)
    types = [EventType(each, dict(KINDS)) for each in "ABCD"]  # type: ignore[arg-type]
    try:
        translation = translate(text, language, TypeRegistry(types))
        patterns, _ = compile_translation(translation, TypeRegistry(types))
    except PatternError:
        return None
    events = _events(random, random.randrange(10, 20))
    engine = StepwiseEngine(patterns)
    expected = [*engine.feed(events), *engine.advance(END)]

    scene = Scene(3, seed)
    scene.app.register(*types)
    source = scene.source
    scene.network.run()
    # Each behind those that it reads.
    for name in sorted(translation.results):
        decomposition = random.choice(("none", "full"))
        scene.app.subscribe(name, text, language=language, query=name, decomposition=decomposition, constituents=True)
    scene.network.run()
    assert {scene.app.states(each)[-1] for each in translation.results} == {"active"}, (seed, text)
    for event in events:
        if random.random() < 0.3:
            _, detector = random.choice([(node, each) for node in scene.nodes for each in list(node.node.hosted)])
            order = encode(MoveRequest(random.choice(scene.nodes).name))
            scene.network.publish(administration_topic("move", detector), order)
            if random.random() < 0.5:
                scene.network.run()
        source.publish(event, watermark=None)
        source.heartbeat(event.hi - 1, "s")
        if random.random() < 0.5:
            scene.network.run()
    source.heartbeat(END, "s")
    scene.network.run()
    for compiled, name in zip(patterns, translation.results, strict=True):
        own = [each for each in expected if each.source == compiled.canonical_id]
        assert _listed(scene.app.composites(name)) == _listed(own), (seed, name, text, events)
    return len(expected)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("language", MAKERS)
def test_moved_texts_find_what_a_run_finds(language: str, at_length: bool) -> None:
    counts = [_on_nodes(seed, language) for seed in range(1_000 if at_length else 12)]
    run = [each for each in counts if each is not None]
    assert len(run) > len(counts) / 4
    assert sum(run) > len(run) / 3
