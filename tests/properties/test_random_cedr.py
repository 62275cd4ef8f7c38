"""Random CEDR queries against a literal interpreter of the definition, and transparency for what they become.

In a long run ten thousand queries are tried. Ties, intervals and nulls are in the events; a query that once made a
difference is a conformance case.
"""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_publication, compile_translation
from distced.detectors.frontends.cedr import translate
from distced.detectors.frontends.cedr.cedr_check import checked
from distced.detectors.frontends.cedr.cedr_parser import parse
from distced.detectors.runtime.engines import make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event, EventId
from distced.middleware.patterns.printer import format_file
from tests.support.cedr_definition import detect
from tests.support.comparison import by_engine, composites
from tests.support.random_cedr import make_cedr, make_cedr_events, translated
from tests.support.random_cuts import assert_transparent
from tests.support.random_patterns import make_events
from tests.support.replay_runs import replay_differs

REFUSED = (
    "a negated operand is compared with what comes later",
    "a timer of an operand that need not occur",
    "a pattern that is never known within its lifetime",
    "an absence in a lifespan that never ends",
    "NOT in front of what another event of its type precedes",
    "NOT in a lifespan in front of what another event precedes",
    "ATMOST in front of what another event precedes",
    "ATMOST in front twice",
    "ATMOST with a scope in front, in a lifespan",
    "ATMOST in front with EXT-EXCLUSIVE",
    "ATMOST in front with two operands of one type",
    "a pattern that can never match: no event is in a label and in its domain on every way through",
)
"""What a query that can be written may be refused for."""


_Found = tuple[list[EventId], int | None, int, str]


def _defined(text: str, events: list[Event], *, begins: bool) -> list[_Found]:
    file = checked(parse(text), text)
    found = detect(file.queries[-1], events, file.lifespans)
    made = [(sorted(e.constituents), e.lo if begins else None, e.hi, repr(e.attributes)) for e in found]
    return sorted(made, key=repr)


def _detected(patterns: tuple[Compiled, ...], events: list[Event], engine: str, *, begins: bool) -> list[_Found]:
    made = make_engine(patterns, lambda _: None, engine=engine)
    found = [*made.feed(events), *made.finish()]
    each = [(sorted(e.constituents), e.lo if begins else None, e.hi, repr(tuple(e.attributes.items()))) for e in found]
    return sorted(each, key=repr)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_queries_detect_what_is_defined(at_length: bool) -> None:
    tried = found = 0
    for seed in range(10_000 if at_length else 250):
        random = Random(seed)
        text = make_cedr(random)
        events = make_cedr_events(random, random.choice((4, 8, 12, 16)))
        try:
            translation = translate(text, TypeRegistry(open=True))
            patterns, _ = compile_translation(translation)
        except PatternError as error:
            assert error.problem in REFUSED, f"seed {seed}: {error}\n{text}"
            assert error.line or "never match" in error.problem, f"seed {seed}: {error}"
            continue
        again = compile_file(format_file(translation.file), TypeRegistry(open=True))
        assert [each.canonical_id for each in again] == [each.canonical_id for each in patterns], f"seed {seed}\n{text}"
        # Without selection the core pattern is a plain one, whose timestamp has the intervals that it skips.
        begins = patterns[0].selects or patterns[0].once or all(each.lo == each.hi for each in events)
        defined = _defined(text, events, begins=begins)
        for engine in ("stepwise", "columnar") if seed % 10 == 0 else ("stepwise",):
            detected = _detected(patterns, events, engine, begins=begins)
            assert detected == defined, f"seed {seed}, {engine}\n{text}\n{format_file(translation.file)}\n{events}"
        tried += 1
        found += len(defined)
    assert tried > seed * 0.75
    assert found > tried * 0.4


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_queries_go_on_from_snapshots(at_length: bool) -> None:
    found = 0
    for seed in range(1_000 if at_length else 60):
        random = Random(seed)
        publication, events = translated(random), make_events(random, random.randrange(3, 12))
        try:
            pattern = compile_publication(publication)
        except PatternError:
            continue
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
def test_cuts_of_queries_detect_the_same(at_length: bool) -> None:
    """Queries without selection are cut; others have a detector that is put away and goes on."""
    tried = 0
    for seed in range(1_000 if at_length else 60):
        random = Random(seed)
        publication, events = translated(random), make_events(random, random.randrange(3, 12))
        tried += assert_transparent(publication, events, seed)
    assert tried


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_replays_of_queries_detect_the_same(at_length: bool) -> None:
    def make(random: Random) -> list[Compiled]:
        while True:
            try:
                return [compile_publication(translated(random))]
            except PatternError:
                continue

    found, ways = 0, ""
    for seed in range(1_000 if at_length else 60):
        number, way = replay_differs(seed, make)
        found += number
        ways += way
    assert found
    assert set(ways) == {"w", "k", "t"}
