"""Random CEDMOS transformers against a literal interpreter of the definition, and transparency for what they become.

In a long run five thousand specifications are tried. Ties, intervals and nulls are in the events; a specification that
once made a difference is a conformance case.
"""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_publication, compile_translation
from distced.detectors.frontends.cedmos import translate
from distced.detectors.frontends.cedmos.cedmos_parser import parse
from distced.detectors.runtime.engines import EngineName, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_file
from tests.support.cedmos_definition import detect
from tests.support.comparison import by_engine, composites
from tests.support.random_cedmos import make_cedmos, make_cedmos_events, transformed
from tests.support.random_cuts import assert_transparent
from tests.support.random_patterns import make_events
from tests.support.replay_runs import replay_differs

KINDS = ("calculates with a ", "compares a ", "the field ", "if of a ")
"""How the refusal of a specification begins that mixes kinds of values."""


def _listed(found: list[CompositeEvent]) -> list[str]:
    return sorted(repr((each.constituents, each.lo, each.hi, sorted(each.attributes.items()))) for each in found)


def _detected(patterns: tuple[Compiled, ...], events: list[Event], engine: EngineName) -> list[CompositeEvent]:
    made = make_engine(patterns, lambda _: None, engine=engine)
    return [*made.feed(events), *made.finish()]


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_transformers_emit_what_is_defined(at_length: bool) -> None:
    tried = found = emitting = chained = 0
    number = 5_000 if at_length else 150
    for seed in range(number):
        random = Random(seed)
        text = make_cedmos(random)
        events = make_cedmos_events(random, random.choice((4, 8, 16, 24)))
        try:
            translation = translate(text, TypeRegistry(open=True))
            patterns, _ = compile_translation(translation)
        except PatternError as error:
            assert error.problem.startswith(KINDS) and error.line, f"seed {seed}: {error}\n{text}"
            continue
        tried += 1
        again = compile_file(format_file(translation.file), TypeRegistry(open=True))
        assert [each.canonical_id for each in again] == [each.canonical_id for each in patterns], f"seed {seed}\n{text}"
        sources = {name: each.canonical_id for name, each in zip(translation.results, patterns, strict=True)}
        defined = detect(parse(text), events, sources)
        for engine in ("stepwise", "columnar") if seed % 5 == 0 else ("stepwise",):
            detected = _detected(patterns, events, engine)
            for name, source in sources.items():
                wanted, given = _listed(defined[name]), _listed([each for each in detected if each.source == source])
                assert given == wanted, f"seed {seed}, {engine}, {name}\n{text}\n{events}"
        found += sum(map(len, defined.values()))
        emitting += all(defined.values())
        chained += any(each.type in defined for all_found in defined.values() for each in all_found[:1])
    assert tried > number * 0.6
    assert found > tried
    assert emitting > tried / 3
    assert chained


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_transformers_go_on_from_snapshots(at_length: bool) -> None:
    found = 0
    for seed in range(1_000 if at_length else 60):
        random = Random(seed)
        pattern, events = compile_publication(transformed(random)), make_events(random, random.randrange(3, 20))
        engine, emitted = StepwiseEngine([pattern]), []
        for event in events:
            emitted += engine.feed([event])
            before, engine = engine, StepwiseEngine([pattern])
            restore(engine, snapshot(before))
        emitted = composites([*emitted, *engine.finish()])
        assert emitted == by_engine(pattern, events), f"seed {seed}: {pattern.text}"
        found += len(emitted)
    assert found


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_detectors_of_transformers_that_are_put_away_go_on(at_length: bool) -> None:
    for seed in range(1_000 if at_length else 60):
        random = Random(seed)
        assert_transparent(transformed(random), make_events(random, random.randrange(3, 12)), seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_replays_of_transformers_detect_the_same(at_length: bool) -> None:
    found, ways = 0, ""
    for seed in range(1_000 if at_length else 60):
        number, way = replay_differs(seed, lambda random: [compile_publication(transformed(random))])
        found += number
        ways += way
    assert found
    assert set(ways) == {"w", "k"}
