"""What is counted of a history: by hand, beside `run`, and in stretches."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.detectors.batch_run.runner import run
from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.history.history import History
from distced.middleware.history.writer import HistoryWriter
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, SECOND
from distced.middleware.wire.directory_entries import OutputTraffic
from distced.middleware.wire.frames import encode
from distced.middleware.wire.topics import event_topic
from distced.policies.distribution.situation.readers import Stream
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import random_topology
from distced.policies.topology.topology_file import parse_topology
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.placement.history_figures.counting import (
    NUMBER,
    Counting,
    HistoryCounts,
    add,
    count,
    frame_size,
    total,
)
from distced.simulations.placement.history_figures.heartbeat_rates import WatermarkStep, heartbeat_counts, steps
from distced.simulations.placement.history_figures.measuring import (
    foreseen_of,
    instance_of,
    located,
    measured,
    registry_of,
    sources_of,
    streams_of,
    types_of,
    wanted_types,
)
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from tests.support.random_placements import START, TYPES, kinds, published, random_events, space_of_texts

HERE = Place("site", "here")

ROOMS = parse_topology(
    """
    [sites.here]
    [nodes.n]
    site = "here"
    [publishers.a]
    site = "here"
    types = ["A"]
    [publishers.b]
    site = "here"
    types = ["B", "C"]
    """
)


def test_counts_are_those_made_by_hand() -> None:
    """A A B C A B, a second apart: two pairs that follow one another, and what is looked at for them."""
    space = _space("[A] ; [B] ; [C]")
    events = [_event(name, second) for second, name in enumerate("AABCAB", 1)]
    counts = count(space, events, {"a": ("A",), "b": ("B", "C")}, START, START + 10 * SECOND)
    assert (counts.seconds, counts.events) == (10.0, 6)
    whole, part = space.roots[0], next(iter(space.parts))
    # Both A's are followed by the first B; the third A by the second B. Then one C, for the first two.
    assert counts.detectors[part].found == 3
    assert counts.detectors[whole].found == 2
    assert counts.selectivity(whole, "ABC") == pytest.approx(2 / 6)
    streams = {(name, source): each for name, sources in counts.streams.items() for source, each in sources.items()}
    assert {key: each.events for key, each in streams.items()} == {("A", "a"): 3, ("B", "b"): 2, ("C", "b"): 1}
    # Of a source of one type the promise travels with the event; of others it does not.
    first, third = events[0], events[2]
    one = len(encode([first], type="A", source="a", watermark=first.hi, number=NUMBER)) + len(event_topic("A", "a"))
    other = len(encode([third], type="B", source="b", number=NUMBER, top=third.hi)) + len(event_topic("B", "b"))
    assert counts.streams["A"]["a"].bytes == 3 * one
    assert counts.streams["B"]["b"].bytes == 2 * other
    assert streams_of(counts)[Stream("event", "A", "a")] == OutputTraffic(3 * one / 10, 0.3)
    foreseen = foreseen_of(counts, space)[whole]
    assert foreseen.rate == pytest.approx(0.2)
    assert foreseen.part == foreseen.loud
    assert foreseen_of(counts, space)[part].part.size > foreseen_of(counts, space)[part].loud.size
    # Whoever reads the part looks at its composite events and at C's alone.
    loads = foreseen.loads
    assert set(loads) == {"", part}
    assert 0 < loads[part] < loads[""]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_counts_are_those_of_a_run(seed: int) -> None:
    """As many composite events as one engine finds, of the patterns and of all their parts; however it is taken."""
    random = Random(seed)
    topology = random_topology("star", random, sites=3, nodes=2, publishers=6, subscribers=2)
    space = space_of_texts(random_patterns(random, topology.types, 3, shared=0.7), topology, random)
    events = random_events(topology, seed, 20)
    sources, end = published(topology), START + 21 * SECOND
    counts = count(space, events, sources, START, end, kinds)
    for name in space.alternatives:
        found = run(space.compiled[name][0], events, types=TYPES)
        # What is still waiting for a time event when the recording ends may fire until then.
        late = [each for each in found if each.hi > end]
        assert not late
        fires = "@" in space.whole(name).compiled.text
        assert counts.detectors[name].found == len(found) or (fires and counts.detectors[name].found >= len(found))
    middle = START + 9 * SECOND
    stretches = Counting(space, sources, kinds)
    stretches.take([each for each in events if each.hi <= middle], START, middle)
    stretches.take([each for each in events if each.hi > middle], middle, end)
    for name, each in counts.detectors.items():
        other = stretches.counts.detectors[name]
        assert (each.found, each.plain, each.part, each.touched) == (
            other.found, other.plain, other.part, other.touched,
        )  # fmt: skip
    assert counts.streams == stretches.counts.streams


def test_days_counted_apart_with_a_lead_add_up() -> None:
    """Counted each by itself, days give what they give one after the other, if no window is longer than the lead."""
    space = _space("[A] ; [B] within 5s")
    sources = {"a": ("A",), "b": ("B", "C")}
    events = [_event(name, second) for second, name in enumerate("AABABBAABAABBA", 1)]
    whole = count(space, events, sources, START, START + 15 * SECOND)
    middle = START + 8 * SECOND
    days = []
    for begin, end in ((START, middle), (middle, START + 15 * SECOND)):
        counting = Counting(space, sources)
        lead = [each for each in events if begin - 6 * SECOND < each.hi <= begin]
        counting.take(lead, begin - 6 * SECOND, begin, counted=False)
        counting.take([each for each in events if begin < each.hi <= end], begin, end)
        days.append(counting.counts)
    together = total(days)
    name = space.roots[0]
    assert together.detectors[name].found == whole.detectors[name].found
    assert together.duration == whole.duration
    assert together.streams == whole.streams


def test_counts_are_added_in_any_order() -> None:
    space, sources = _space("[A] ; [B]"), {"a": ("A",), "b": ("B", "C")}
    one = count(space, [_event("A", 1), _event("B", 2)], sources, START, START + 3 * SECOND)
    other = count(space, [_event("A", 5), _event("C", 6)], sources, START + 3 * SECOND, START + 9 * SECOND)
    assert add(one, other) == add(other, one)
    assert add(one, HistoryCounts()) == one
    assert add(one, other).events == 4
    assert add(one, other).stream("A", "a").events == 2


def test_silent_source_has_no_rate() -> None:
    """Nothing is made up for a source that had nothing to say, or that the history does not know."""
    space = _space("[A] ; [B]")
    sources = located({"b": ("B", "C")}, ROOMS)
    counts = count(space, [_event("B", 1), _event("C", 2)], types_of(sources), START, START + 10 * SECOND)
    instance = instance_of(counts, space, ROOMS, sources)
    rates = {(source, name): instance.empty.measures.rate(source, name) for source, name in (("a", "A"), ("b", "B"))}
    assert rates == {("a", "A"): 0.0, ("b", "B"): 0.1}


def test_heartbeats_follow_the_advances_of_the_watermark() -> None:
    """One source promises every second, the other every three: it gets further twice in three seconds."""
    space = _space("[A] ; [B]")
    promises = {"a": [at * SECOND for at in range(1, 10)], "b": [at * SECOND + SECOND // 2 for at in (1, 4, 7)]}
    found = steps(space, promises, {"a": ("A",), "b": ("B", "C")})[space.roots[0]]
    # Until b is heard, nothing; then as far as a, and once more when a is heard beyond what b has said.
    assert [(each.at / SECOND, each.until / SECOND) for each in found] == [
        (1.5, 1.0), (2.0, 1.5), (4.5, 4.0), (5.0, 4.5), (7.5, 7.0), (8.0, 7.5),
    ]  # fmt: skip
    assert heartbeat_counts(found, [], SECOND // 2) == (6, 3)
    # What is found is said at once.
    assert heartbeat_counts(found, [round(4.3 * SECOND)], SECOND // 2) == (6, 4)
    # To those that have begun to listen it is said again every two seconds.
    assert heartbeat_counts(found, [], 9 * SECOND) == (6 + 4, 3)
    assert heartbeat_counts([], [], 9 * SECOND) == (0, 0)
    assert heartbeat_counts([WatermarkStep(1, 1)], [], SECOND // 2) == (1, 1)


def test_history_counted_day_by_day_has_the_counts_of_its_events(tmp_path: Path) -> None:
    """Over midnight, from files: as from the events at hand."""
    space = _space("[A] ; [B] within 5s")
    midnight = (START // DAY + 1) * DAY
    events = [_event(name, second, midnight - 7 * SECOND) for second, name in enumerate("AABABBAABAABBA", 1)]
    HistoryWriter(tmp_path / "history", "test").write(events, None)
    history = History(tmp_path / "history")
    assert registry_of(history).find("A") is not None
    assert wanted_types(space) == ("A", "B")
    assert sources_of(history, wanted_types(space)) == {"a": ("A",), "b": ("B",)}
    sources = located(sources_of(history, wanted_types(space)), ROOMS)
    assert types_of(sources) == {"a": ("A",), "b": ("B", "C")}
    reported: list[tuple[int, int]] = []
    counts = measured(history, space, sources, on_progress=lambda _, done, of: reported.append((done, of)))
    assert reported == [(0, 2), (1, 2), (2, 2)]
    begin = events[0].hi - 1
    whole = count(space, events, types_of(sources), begin, events[-1].hi)
    name = space.roots[0]
    assert counts.detectors[name].found == whole.detectors[name].found == len(run("[A] ; [B] within 5s", events))
    assert counts.detectors[name].touched == whole.detectors[name].touched
    assert counts.duration == whole.duration
    assert counts.streams == whole.streams


def test_source_without_a_publisher_is_refused() -> None:
    assert located({"sensor": ("B",)}, ROOMS)["sensor"].publisher == "b"
    with pytest.raises(TopologyError, match="no publisher of the topology is this source") as raised:
        located({"door": ("D",)}, ROOMS)
    assert "[publishers.door]" in str(raised.value)


def test_frame_size_is_that_of_an_empty_frame_with_its_topic() -> None:
    name = _space("[A] ; [B]").roots[0]
    empty = encode((), type=name, source=name, watermark=START, kind="c", number=1, life=START, base=START)
    assert frame_size(name) == len(empty) + len(f"ced/c/{name}")


def test_detectors_are_ordered_behind_those_they_read() -> None:
    """Each detector behind what it reads."""
    space = _space("[A] ; [B] ; [C] -> Three()", "[Three] ; [A]")
    seen: list[str] = []
    for name in space.ordered():
        for plan in space.alternatives[name].values():
            assert isinstance(plan, DetectorPlan)
            assert {*plan.parts, *space.named(plan)} <= set(seen)
        seen.append(name)
    assert [space.depth(root) for root in space.roots] == [0, 1]
    assert space.read_by_type == {space.roots[0]}


def _space(*texts: str) -> SearchSpace:
    return space_of([PatternRequest(f"q{number}", compile_pattern(text), (HERE,)) for number, text in enumerate(texts)])


def _event(name: str, second: int, start: int = START) -> Event:
    at = start + second * SECOND
    return Event(name, at, at, "a" if name == "A" else "b", second, {})


def test_type_beside_any_is_read() -> None:
    space = _space("[A] -> Met()", "[any, Met]", "[any]")
    met, beside, alone = space.roots
    assert space.named(space.whole(beside)) == (met,)
    assert space.named(space.whole(alone)) == ()
