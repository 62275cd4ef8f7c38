"""How events come to the engine makes no difference: in one go or one by one, with time passing in between, twice."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import Compiled, compile_file
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from tests.support.comparison import Composite, by_engine, compiled, composites
from tests.support.random_patterns import PatternMaker, make_events

SEEDS = st.integers(min_value=0, max_value=2**32)
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SHARE = 8


def _made(seed: int) -> list[tuple[Compiled, list[Event], Random]]:
    random = Random(seed)
    made = []
    for _ in range(SHARE):
        publication = PatternMaker(random).publication(random.randrange(1, 7))
        events = make_events(random, random.randrange(10), span=random.choice((4, 10)))
        try:
            made.append((compiled(publication, epochs=random.random() < 0.3), events, random))
        except PatternError:
            continue
    return made


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_detects_the_same_one_by_one(seed: int) -> None:
    for pattern, events, random in _made(seed):
        assert _one_by_one(pattern, events, random) == by_engine(pattern, events), (pattern.text, events)


def _one_by_one(pattern: Compiled, events: Sequence[Event], random: Random) -> list[Composite]:
    """Every event by itself; time passes to any instant before the next event, in one step or in several."""
    engine = StepwiseEngine([pattern])
    found = []
    now = -10
    for event in events:
        while random.random() < 0.4 and now < event.hi - 1:
            now = random.randrange(now, event.hi)
            found += engine.advance(now)
        found += engine.feed([event])
    found += engine.advance(now + random.randrange(20))
    return composites([*found, *engine.finish()])


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_composite_events_are_detected_in_time(seed: int) -> None:
    """When time has passed to an instant, all that was detected until then has been handed out, and nothing else."""
    for pattern, events, _ in _made(seed):
        whole = by_engine(pattern, events)
        engine = StepwiseEngine([pattern])
        found = []
        for instant in range(-5, 16):
            found += engine.feed([event for event in events if event.hi == instant])
            found += engine.advance(instant)
            assert composites(found) == [each for each in whole if each.hi <= instant], (pattern.text, instant)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_duplicate_events_count_once(seed: int) -> None:
    for pattern, events, random in _made(seed):
        twice = [each for event in events for each in [event] * random.choice((1, 2, 3))]
        assert by_engine(pattern, twice) == by_engine(pattern, events), (pattern.text, events)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_ids_matter_by_their_order_alone(seed: int) -> None:
    for pattern, events, _ in _made(seed):
        if pattern.automaton.parts:
            # Composite events of its sides that tie are ordered by their ids, which are digests.
            continue
        renamed = [Event(e.type, e.lo, e.hi, f"s{e.seq // 3}", 10 * e.seq + 3, e.attributes) for e in events]
        back = {new.id: old.id for new, old in zip(renamed, events, strict=True)}
        found = by_engine(pattern, renamed)
        reported = [each._replace(constituents=tuple(back[one] for one in each.constituents)) for each in found]
        assert sorted(reported) == by_engine(pattern, events), (pattern.text, events)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_patterns_in_one_engine_detect_as_alone(seed: int) -> None:
    made = _made(seed)
    # Patterns of one canonical id find the same composite events; here each is told by its own.
    by_id = {pattern.automaton.canonical_id: pattern for pattern, _, _ in made}
    if not made:
        return
    events = made[0][1]
    engine = StepwiseEngine(list(by_id.values()))
    together = [*engine.feed(events), *engine.finish()]
    for pattern in by_id.values():
        own = [each for each in together if each.source == pattern.automaton.canonical_id]
        assert composites(own) == by_engine(pattern, events), pattern.text


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_composite_events_have_one_id_each(seed: int) -> None:
    for pattern, events, _ in _made(seed):
        engine = StepwiseEngine([pattern])
        found = [*engine.feed(events), *engine.finish()]
        assert len({each.id for each in found}) == len(found), pattern.text


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_pattern_reads_published_composite_events(seed: int) -> None:
    """A composite event that is read is an event like any other: the same as if it had been published from outside."""
    random = Random(seed)
    publisher, reader = compile_file(
        f"""
[A as x] {random.choice([";", "", "[B]*"])} [B] -> Pair(v = x.v)
{random.choice(["[Pair] ; [C]", "[C] [Pair where v > 0]", "[Pair]+", "[Pair] & [C]", "~[Pair] [A]"])} -> Out()
"""
    )
    events = make_events(random, random.randrange(12))
    engine = StepwiseEngine([publisher, reader])
    found = [*engine.feed(events), *engine.finish()]
    pairs = [each for each in found if each.type == "Pair"]
    alone = StepwiseEngine([publisher])
    assert composites(pairs) == composites([*alone.feed(events), *alone.finish()])
    outs = [each for each in found if each.type == "Out"]
    assert composites(outs) == by_engine(reader, sorted([*events, *pairs], key=lambda event: event.key))
