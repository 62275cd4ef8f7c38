"""Replay in tasks against a run over all events: what the properties of replay share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from distced.detectors.batch_run.runner import Replay
from distced.detectors.batch_run.table_run import names_in
from distced.detectors.compiler import Compiled, types_read
from distced.detectors.runtime.engines import EngineName
from distced.middleware.event_files.tables import columns_read, table_of
from distced.middleware.event_files.writer import TableColumns
from distced.middleware.history import History, HistoryWriter
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.simulations.replay.file_ranges import slots_of
from distced.simulations.replay.pattern_properties import groups_of, key_of_group, reach_of
from distced.simulations.replay.plan import CutWay, Slice
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import Inline
from distced.simulations.replay.tasks import detect
from tests.support.columnar_engine import _patterns
from tests.support.random_patterns import TYPES, make_events

FAR = 2**62
ODD = (1.0, -0.0, True, False, "1", 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 1.5)
"""Values of a key of which some are equal and others only look alike."""


def replay_differs(
    seed: int, make: Callable[[Random], Sequence[Compiled]] = lambda random: _patterns(random, late=False)
) -> tuple[int, str]:
    """How many composite events a random replay has, and how it was cut; fails where a run finds others."""
    random = Random(seed)
    patterns = make(random)
    patterns = list({each.automaton.canonical_id: each for each in patterns}.values())
    events = make_events(random, random.randrange(1, 40), span=random.choice((6, 20, 60)))
    events = list({each.id: each for each in events}.values())
    until = max(each.hi for each in events) + random.choice((0, 0, 5))
    begin = random.choice((-FAR, -FAR, 3))
    kept = [each for each in events if each.hi >= begin]
    engine: EngineName = random.choice(("stepwise", "columnar"))
    found: list[CompositeEvent] = []
    ways = ""
    for places in groups_of(patterns):
        group = [patterns[place] for place in places]
        mine, way = _cut(random, group, _tables(random, events, group), begin, until, engine)
        found += mine
        ways += way
    expected = whole(patterns, kept, until)
    assert seen(found) == seen(expected), (seed, ways)
    return len(expected), ways


def whole(patterns: Sequence[Compiled], events: Sequence[Event], until: int) -> list[CompositeEvent]:
    """What a run finds, and what time events bring until an instant."""
    run = Replay(patterns, events, engine="stepwise")
    run.read()
    run.last = max(run.last, until)
    return list(run)


def seen(found: Sequence[CompositeEvent]) -> list[tuple[Any, ...]]:
    """What subscribers see of composite events, in order."""
    return [
        (each.key, each.type, each.constituents, sorted((name, repr(each)) for name, each in each.attributes.items()))
        for each in sorted(found, key=lambda event: event.key)
    ]


def made_of(found: Sequence[CompositeEvent]) -> list[tuple[Any, ...]]:
    """What composite events are made of, in order: of each constituent all there is. What is null is as if absent."""
    return [(each.id, [_all_of(event) for event in each.events]) for each in sorted(found, key=lambda event: event.key)]


def _all_of(event: Event) -> tuple[Any, ...]:
    attributes = sorted((name, repr(value)) for name, value in event.attributes.items() if value is not None)
    return (event.id, event.type, event.lo, event.hi, attributes)


def _tables(random: Random, events: Sequence[Event], group: Sequence[Compiled]) -> list[Any]:
    """Events as tables of one type each, some of them cut, in any order, some events twice; with what is read alone."""
    types = types_read(group)
    made = []
    for name in {each.type for each in events}:
        if types is not None and name not in types:
            continue
        mine = [each for each in events if each.type == name]
        mine += random.sample(mine, random.randrange(2))
        random.shuffle(mine)
        cut = random.randrange(len(mine) + 1)
        for part in (mine[:cut], mine[cut:]):
            columns = TableColumns(part)
            table = table_of(part, columns.kinds, columns.types)
            made.append(table.select(columns_read(names_in(group), table.schema.names)))
    random.shuffle(made)
    return made


def _cut(
    random: Random, group: Sequence[Compiled], tables: list[Any], begin: int, until: int, engine: EngineName
) -> tuple[list[CompositeEvent], str]:
    key, _ = key_of_group(group)
    reach = reach_of(group)
    ways = ["w"] + ["k"] * bool(key) + ["t"] * (reach is not None)
    way = random.choice(ways)
    if way == "k":
        by, slots = random.sample(key, random.randint(1, len(key))), random.randint(1, 4)
        parts = []
        for slot in range(slots):
            dealt = [each.filter(slots_of(each, by, slots) == slot) for each in tables]
            parts.append((dealt, Slice(begin, -FAR, until)))
    elif way == "t":
        assert reach is not None
        ends = sorted(random.sample(range(-2, until), min(random.randrange(4), until + 2)))
        afters = [-FAR, *ends]
        parts = [
            (tables, Slice(max(begin, after - reach) if after > -FAR else begin, after, end))
            for after, end in zip(afters, [*ends, until], strict=True)
        ]
    else:
        parts = [(tables, Slice(begin, -FAR, until))]
    found: dict[Any, CompositeEvent] = {}
    for mine, wanted in parts:
        for stretch in detect(group, _days(mine), wanted, engine=engine):
            for each in stretch:
                found.setdefault(each.id, each)
    return list(found.values()), way


def _days(tables: Sequence[Any]) -> list[list[Any]]:
    """What there is by `day`, for which one a few nanoseconds long stands here."""
    days: dict[int, list[Any]] = {}
    for table in tables:
        hi = np.asarray(table["hi"]) // 16
        for day in set(hi.tolist()):
            days.setdefault(day, []).append(table.filter(hi == day))
    return [days[day] for day in sorted(days)]


def _odd(random: Random, event: Event) -> Event:
    """The same event, or one whose values are of other kinds, or missing."""
    attributes = dict(event.attributes)
    if random.random() < 0.2:
        attributes["k"] = random.choice(ODD)
    if random.random() < 0.1:
        attributes["v"] = random.choice((0.0, -0.0, 2.0, None))
    if random.random() < 0.1:
        del attributes["k"]
    return replace(event, attributes=attributes)


def _recorded(random: Random, patterns: Sequence[Compiled], events: Sequence[Event]) -> list[Event]:
    """Some of the composite events that are found in these, as a recorder keeps those of live detection; the patterns
    find them again, so that they are read twice."""
    if random.random() < 0.5:
        return []
    found = whole(patterns, events, max(each.hi for each in events))
    return [replace(each, events=(), derivations=()) for each in found if each.type in TYPES and random.random() < 0.5]


def disk_differs(seed: int, folder: Path) -> tuple[int, str]:
    """The same through files, as `distced replay` does it, in days of 16 ns; the caller sees to that."""
    random = Random(seed)
    patterns = _patterns(random, late=False)
    events = make_events(random, random.randrange(1, 40), span=random.choice((6, 20, 60)))
    events = list({each.id: each for each in events}.values())
    events = [_odd(random, each) for each in events] + _recorded(random, patterns, events)
    for part in range(3):
        HistoryWriter(folder / "h", "test").write(events[part::3])
    way: CutWay | None = random.choice((None, "parts", "parts", "key", "time"))
    least = random.choice((1, 5, 100))
    cores = random.randint(1, 3)
    until = random.choice((None, max(each.hi for each in events) - 3))
    begin = random.choice((None, None, 3))
    with_events = random.random() < 0.3
    made = None
    while made is None:
        try:
            made = HistoryReplay(
                patterns,
                History(folder / "h"),
                folder / "w",
                cores=cores,
                least=least,
                way=way,
                begin=begin,
                until=until,
                with_events=with_events,
            )
        except DistcedError as error:
            assert "cannot be replayed in this way" in str(error)
            way = None
    made.perform(Inline())
    end = max(each.hi for each in events) if until is None else until
    expected = whole(made.patterns, [each for each in events if (begin or -FAR) <= each.hi <= end], end)
    found = list(made)
    assert seen(found) == seen(expected), (seed, [each.way for each in made.plan.groups])
    if with_events:
        assert made_of(found) == made_of(expected), (seed, [each.way for each in made.plan.groups])
    else:
        assert not any(each.events for each in found)
    return len(expected), "".join(each.way[0] for each in made.plan.groups)
