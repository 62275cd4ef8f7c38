"""The columnar engine beside the stepwise one: random patterns in random batches, with time passing and state handed
over in between, and with events that come late."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from unittest.mock import patch

from distced.detectors.columnar import state
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, compile_pattern, register_derived
from distced.detectors.language.parser import parse_file
from distced.detectors.stepwise.engine import StepwiseEngine, in_order
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event
from tests.support.comparison import compiled
from tests.support.event_streams import comparable
from tests.support.random_patterns import FEATURES, TYPES, PatternMaker, make_events


def differences(seed: int, features: frozenset[str] = FEATURES) -> bool:
    """Run both on what a seed says, and hold one to the other; False where there was nothing for the compiled loop."""
    # With little room at first the loop stops for want of it in the middle of everything.
    with patch.object(state, "FIRST", (4, 64)[seed % 2]):
        return _differences(Random(seed), seed, features)


def _differences(random: Random, seed: int, features: frozenset[str]) -> bool:
    late = random.random() < 0.3
    patterns = _patterns(random, features, late=late)
    if not patterns:
        return False
    events = make_events(random, random.randrange(14), span=random.choice((4, 10, 30)))
    if late and len(events) > 1:
        for _ in range(2):
            place = random.randrange(len(events) - 1)
            events[place], events[place + 1] = events[place + 1], events[place]
    stepwise, columnar = StepwiseEngine(patterns), ColumnarEngine(patterns)
    expected, found, script = [], [], list[object]()
    while events:
        size = random.randrange(1, 5)
        batch, events = events[:size], events[size:]
        script.append(batch)
        expected += stepwise.feed(batch)
        found += columnar.feed(batch)
        chance = random.random()
        if chance < 0.3:
            instant = _instant(random, batch, events, late=late)
            script.append(("advance", instant))
            expected += stepwise.advance(instant)
            found += columnar.advance(instant)
        elif chance < 0.4:
            script.append("settle")
            expected += stepwise.settle()
            found += columnar.settle()
        elif chance < 0.6:
            script.append("hand over")
            columnar = _handed_over(random, patterns, columnar)
    expected += stepwise.finish()
    found += columnar.finish()
    said = f"seed {seed}: {[each.text for each in patterns]}, {script}"
    assert comparable(found) == comparable(expected), said
    assert late or columnar.behind == stepwise.behind, said
    return columnar.cascade is not None


def _patterns(random: Random, features: frozenset[str] = FEATURES, *, late: bool) -> list[Compiled]:
    """Some patterns; one may read what another publishes, and throttled types.

    An instance whose window has closed may be swept out, or not, before an event comes late that would have been in it:
    so there are no windows where some do.
    """
    if late:
        features -= {"window"}
    patterns: dict[str, Compiled] = {}
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        publication = PatternMaker(random, features).publication(random.randrange(1, 8))
        if publication.output is not None and random.random() < 0.9:
            output = replace(publication.output, type_name=random.choice(TYPES))
            publication = replace(publication, output=output)
        try:
            made = compiled(publication, epochs=random.random() < 0.1)
            if random.random() < 0.15:
                made = _throttled(random, made)
            # Such as read one another in a circle are refused.
            in_order([*patterns.values(), made])
        except (PatternError, ValueError):
            continue
        patterns.setdefault(made.automaton.canonical_id, made)
    return list(patterns.values())


def _throttled(random: Random, pattern: Compiled) -> Compiled:
    """A pattern in which `A` is the first of each few instants."""
    every = random.choice(("2ns", "5ns", "5ns by k"))
    registry = TypeRegistry(open=True)
    derived = f"type First = A where v != 1 every {every}"
    # Drawn apart, so that seeds make the patterns that they made before.
    apart = Random(f"{every} {pattern.text}")
    if apart.random() < 0.5:
        value = apart.choice(("sum(v)", "avg(v / 3)", "max(v) - min(v)", "count()", "distinct(v)", "first(v)"))
        length, by = apart.choice((1, 3, 6)), apart.choice(("", "", " by k"))
        value = " - ".join(f"{each} over {length}ns" for each in value.split(" - "))
        derived = f"type First = A where k != 2 with (v = {value}){by}"
    register_derived(parse_file(derived), registry)
    return compile_pattern(re.sub(r"\bA\b", "First", pattern.text), registry)


def _instant(random: Random, batch: list[Event], rest: list[Event], *, late: bool) -> int:
    """Up to when time passes: not beyond what is to come, unless that is to be late."""
    if late:
        return random.randrange(31)
    instant = max(event.hi for event in batch) - random.randrange(2)
    return min(instant, rest[0].hi - 1) if rest else instant


def _handed_over(random: Random, patterns: list[Compiled], engine: ColumnarEngine) -> ColumnarEngine:
    """Another engine in the same state, by way of the stepwise one, and maybe of a snapshot."""
    between = engine.stepwise()
    if random.random() < 0.5:
        content = snapshot(between)
        between = StepwiseEngine(patterns)
        restore(between, content)
    made = ColumnarEngine(patterns)
    made.go_on_from(between)
    return made
