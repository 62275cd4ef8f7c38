"""Private publications: the engine finds what the oracle finds, whole and cut, one by one, restored, and replayed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.language.parser import parse_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Keyed, Output, Publication, Window
from distced.middleware.sets.expressions import Field
from tests.support.comparison import as_case, assert_alike, by_engine, compiled, composites
from tests.support.random_cuts import assert_transparent
from tests.support.random_patterns import FEATURES, WITH_AGGREGATES, make_events, with_privates

ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 8
PLAIN = (frozenset({"output", "guard", "key", "hidden", "timing"}), frozenset({"output", "guard", "parallel", "scope"}))


def made(random: Random) -> tuple[Publication, list[Event], bool]:
    features = random.choice((FEATURES, WITH_AGGREGATES, *PLAIN))
    publication = with_privates(random, random.randrange(1, 5), features)
    events = make_events(random, random.randrange(10), span=random.choice((3, 6, 10)))
    return publication, events, random.random() < 0.2


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_agrees_with_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication, events, epochs = made(random)
        assert_alike(publication, events, epochs=epochs)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_cuts_detect_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication, events, _ = made(random)
        assert_transparent(publication, events, random.randrange(2**32))


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_goes_on_from_snapshots(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication, events, epochs = made(random)
        try:
            pattern = compiled(publication, epochs=epochs)
        except PatternError:
            continue
        engine, found = StepwiseEngine([pattern]), []
        for event in events:
            found += engine.feed([event])
            before = engine
            engine = StepwiseEngine([pattern])
            restore(engine, snapshot(before))
        found = composites([*found, *engine.finish()])
        expected = by_engine(pattern, events)
        assert found == expected, as_case(publication, events, expected, epochs=epochs)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_text_reads_back_with_the_same_id(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication, _, epochs = made(random)
        text = format_publication(publication)
        assert parse_publication(text) == publication, text
        try:
            pattern = compiled(publication, epochs=epochs)
        except PatternError:
            continue
        consumption = "epoch" if epochs else "ordered"
        assert compile_pattern(pattern.text, consumption=consumption).canonical_id == pattern.canonical_id
        assert compile_pattern(pattern.plain_text).canonical_id == pattern.canonical_id, pattern.plain_text


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_patterns_of_one_engine_detect_as_alone(seed: int) -> None:
    """Readers of one private publication share it."""
    random = Random(seed)
    one, events, _ = made(random)
    other = replace(made(random)[0], privates=one.privates)
    try:
        patterns = [compiled(one), compiled(other)]
    except PatternError:
        return
    if patterns[0].canonical_id == patterns[1].canonical_id:
        return
    engine = StepwiseEngine(patterns)
    found = [*engine.feed(events), *engine.finish()]
    for pattern in patterns:
        own = composites(each for each in found if each.source == pattern.canonical_id)
        assert own == by_engine(pattern, events), pattern.text


def replayable(random: Random) -> list[Compiled]:
    """A pattern, often within windows and by a key, so that it is replayed in every way."""
    keyed, length = random.random() < 0.5, random.randrange(2, 9)

    def bounded(publication: Publication, *, private: bool) -> Publication:
        pattern = Window(publication.pattern, length)
        output = publication.output or Output("Out")
        if not keyed:
            return replace(publication, pattern=pattern, output=output)
        variables = [value for _, value in output.attributes if isinstance(value, Field)]
        named = tuple(each for each in output.attributes if each[0] != "k")
        carried = (("k", Field(variables[0].variable, "k")),) if variables and private else ()
        return replace(publication, pattern=Keyed(pattern, ("k",)), output=replace(output, attributes=named + carried))

    while True:
        publication, _, epochs = made(random)
        privates = tuple(bounded(each, private=True) for each in publication.privates)
        try:
            return [compiled(replace(bounded(publication, private=False), privates=privates), epochs=epochs)]
        except PatternError:
            continue


def test_replay_detects_as_a_run(at_length: bool) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    from tests.support.replay_runs import replay_differs

    found, ways = 0, ""
    for seed in range(5_000 if at_length else 100):
        count, how = replay_differs(seed, replayable)
        found += count
        ways += how
    assert found > 150
    assert min(ways.count(each) for each in "wtk") > 3
