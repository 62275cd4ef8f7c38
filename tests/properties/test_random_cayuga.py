"""Random queries in CEL and expressions of Cayuga's algebra against their definitions: engines, cuts, an engine that is
saved and restored meanwhile, and a translation that is printed and read again; replays against a run.

Ten thousand of each in a long run. Those that mix kinds of values are refused, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from distced.detectors.compiler import Compiled, check_pattern, compile_file, compile_translation
from distced.detectors.conformance.case_runner import ENGINES, Run
from distced.detectors.frontends.languages import translate
from distced.detectors.runtime.engines import Kinds
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_file
from distced.policies.local_runner import cut_run
from tests.support.cayuga_definition import answer, found, streams_of
from tests.support.random_algebra import AlgebraMaker
from tests.support.random_cel import SCHEMAS, CelMaker, Query, declarations, random_events
from tests.support.replay_runs import replay_differs

MAKERS: dict[str, Callable[[Random], CelMaker | AlgebraMaker]] = {"cel": CelMaker, "algebra": AlgebraMaker}
FEW, MANY = 120, 10_000

MIXED = ("compares a", "calculates with a", "the attribute ", "can never match", "nested too deeply")
"""Parts of the errors of queries that the core refuses: values of several kinds, conditions that never hold."""

KINDS: Kinds = lambda _: None  # noqa: E731


def _in_pieces(random: Random) -> Run:
    """An engine that is saved and restored in between."""

    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        engine = StepwiseEngine(patterns)
        made: list[CompositeEvent] = []
        rest = list(events)
        while rest:
            size = random.randrange(1, 4)
            piece, rest = rest[:size], rest[size:]
            made += engine.feed(piece)
            if random.random() < 0.5:
                saved = snapshot(engine)
                engine = StepwiseEngine(patterns)
                restore(engine, saved)
        return made + engine.finish()

    return run


def _compiled(text: str, language: str) -> tuple[Compiled, ...]:
    translation = translate(text, language, TypeRegistry(open=True))
    compiled, _ = compile_translation(translation, TypeRegistry(open=True))
    again = compile_file(format_file(translation.file))
    assert [each.canonical_id for each in again] == [each.canonical_id for each in compiled], text
    for each in compiled:
        assert check_pattern(each.text).canonical_id == each.canonical_id, text
    return compiled


def _agrees(text: str, compiled: tuple[Compiled, ...], query: Query, random: Random, runs: dict[str, Run]) -> int:
    """How many events a query has in random streams; fails where a run finds others."""
    events = random_events(random, random.randrange(3, 13))
    expected = answer(query.events(streams_of(events, SCHEMAS)))
    source = compiled[-1].canonical_id
    for name, run in runs.items():
        given = found(each for each in run(compiled, events, KINDS) if each.source == source)
        assert given == expected, (name, text, compiled[-1].text, events)
    return len(expected)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("language", MAKERS)
def test_queries_find_what_their_definition_says(language: str, at_length: bool) -> None:
    number = MANY if at_length else FEW
    start = Random().randrange(2**32) if at_length else 0
    refused = events = 0
    for seed in range(start, start + number):
        random = Random(seed)
        query = MAKERS[language](random).query(random.randrange(6))
        text = f"{declarations()}\n{query.text}"
        try:
            compiled = _compiled(text, language)
        except PatternError as error:
            assert any(each in str(error) for each in MIXED), (seed, text, str(error))
            refused += 1
            continue
        runs = {"stepwise": ENGINES["stepwise"]}
        if seed % 5 == 0:
            runs |= {"columnar": ENGINES["columnar"], "cut": cut_run("random", seed), "in pieces": _in_pieces(random)}
        for _ in range(3):
            events += _agrees(text, compiled, query, random, runs)
    assert refused < number / 20
    assert events > number


@pytest.mark.parametrize("language", MAKERS)
def test_replays_find_what_a_run_finds(language: str, at_length: bool) -> None:
    pytest.importorskip("pyarrow", reason="replay needs the extra distced[tables]")
    schemas = {"A": ("k", "v"), "B": ("k", "v"), "C": ("v",)}

    def make(random: Random) -> Sequence[Compiled]:
        while True:
            maker = {"cel": CelMaker, "algebra": AlgebraMaker}[language](random, schemas)
            text = f"{declarations(schemas)}\n{maker.query(random.randrange(1, 5)).text}"
            try:
                compiled = _compiled(text, language)
                for each in compiled:
                    _ = each.automaton
            except PatternError:
                continue
            return compiled

    events, ways = 0, ""
    for seed in range(1_000 if at_length else 40):
        more, way = replay_differs(seed, make)
        events, ways = events + more, ways + way
    assert events > 30 and ways
