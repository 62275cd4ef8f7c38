"""Patterns over clocks: engines, cuts, and an engine that is saved and restored meanwhile, find what the oracle finds;
replays find what a run finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import Compiled, compile_publication
from distced.detectors.conformance.case_runner import ENGINES, Run
from distced.detectors.language.private import read_by
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Output, Publication
from distced.middleware.sets.expressions import Literal
from distced.policies.local_runner import cut_run
from tests.support.comparison import composites, seen
from tests.support.oracle import TooLongError, read
from tests.support.random_patterns import FEATURES, WITH_AGGREGATES, make_events, with_clocks
from tests.support.replay_runs import replay_differs

# A seed has nothing to be made smaller by.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 8
"""How many patterns are tried for each seed."""


def _in_pieces(pattern: Compiled, events: Sequence[Event], random: Random) -> list[CompositeEvent]:
    """What an engine finds that is saved and restored in between."""
    engine = StepwiseEngine([pattern])
    found: list[CompositeEvent] = []
    rest = list(events)
    while rest:
        size = random.randrange(1, 4)
        piece, rest = rest[:size], rest[size:]
        found += engine.feed(piece)
        if rest and random.random() < 0.5:
            found += engine.advance(min(rest[0].hi - 1, piece[-1].hi + random.randrange(3)))
        if random.random() < 0.5:
            saved = snapshot(engine)
            engine = StepwiseEngine([pattern])
            restore(engine, saved)
    return found + engine.finish()


def _reading_private(random: Random, features: frozenset[str]) -> Publication:
    """A pattern that reads a private publication, both with clocks."""
    private = with_clocks(random, random.randrange(1, 4), features)
    output = private.output or Output("P")
    attributes = (*output.attributes, ("v", Literal(1)), ("k", Literal(1)))
    private = replace(private, output=replace(output, type_name="P", attributes=attributes))
    reader = with_clocks(random, random.randrange(1, 4), features, further=("P", "P"))
    return replace(reader, privates=read_by(reader.pattern, [private]))


def _try(seed: int) -> bool:
    """Hold all to the oracle on a random pattern; False where it is refused, reads no clock or takes too long."""
    random = Random(seed)
    features = random.choice((FEATURES, WITH_AGGREGATES))
    if random.random() < 0.3:
        publication = _reading_private(random, features)
    else:
        publication = with_clocks(random, random.randrange(1, 6), features)
    events = make_events(random, random.randrange(9), span=random.choice((3, 6, 10)))
    epochs = random.random() < 0.2
    try:
        pattern = compile_publication(publication, consumption="epoch" if epochs else "ordered")
        if not pattern.clocked:
            return False
        found = read(publication, map(seen, events), epochs=epochs, steps=200_000)
    except (PatternError, TooLongError):
        return False
    expected = sorted((each.constituents, repr(sorted(each.attributes)), each.lo, each.hi) for each in found)
    runs: dict[str, Run] = {**ENGINES, "cut": cut_run("random", seed)}
    runs["in pieces"] = lambda patterns, given, kinds: _in_pieces(patterns[0], given, random)
    for name, run in runs.items():
        given = [tuple(each) for each in composites(run([pattern], events, lambda _: None))]
        assert given == expected, (name, seed, format_publication(publication), events)
    return True


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 20)
def test_all_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        _try(random.randrange(2**32))


def _patterns(random: Random) -> list[Compiled]:
    """Patterns over clocks, one that reads another perhaps."""
    made: list[Compiled] = []
    while len(made) < 2:
        publication = with_clocks(random, random.randrange(1, 5))
        try:
            pattern = compile_publication(publication)
            pattern.automaton  # noqa: B018
        except PatternError:
            continue
        made.append(pattern)
    return made


@pytest.mark.parametrize("seeds", [25, pytest.param(1_000, marks=pytest.mark.properties)])
def test_replays_find_what_a_run_finds(seeds: int) -> None:
    pytest.importorskip("pyarrow", reason="replay needs the extra distced[tables]")
    found, ways = 0, ""
    for seed in range(seeds):
        more, way = replay_differs(seed, _patterns)
        found, ways = found + more, ways + way
    assert found > 30 and len(set(ways)) > 1
