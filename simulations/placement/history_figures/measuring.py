"""From a history to figures: its days counted, mean rates of streams and detectors, and the placement problem made of
them.

Days are counted in a row, or apart as tasks of Spark. A `DayTask` has paths and texts alone, and its results are
counts, so that little travels. What began before midnight is found as far as the lead goes: as much is read before a
day, and not counted, as a match of any detector may last (`simulations.replay.pattern_properties`). Columns through
`mapInArrow` were rejected: engines need all events of a day in order, and reading them is a thousandth of detecting in
them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import EngineName, Kinds
from distced.middleware.history.history import History, events_of_history
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import DAY, MINUTE, SECOND
from distced.middleware.wire.administration import Heartbeat
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Foreseen, OutputTraffic, SourceEntry
from distced.middleware.wire.topics import administration_topic
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import AT_DIRECTORY, Stream
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.placement.history_figures.counting import (
    NUMBER,
    Counting,
    DetectorCount,
    HistoryCounts,
    frame_size,
    total,
)
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from distced.simulations.placement.problem import PlacementProblem
from distced.simulations.replay.pattern_properties import reach_among
from distced.simulations.replay.runners import INLINE, LOG, session_of

OnProgress: TypeAlias = Callable[[str, int, int], None]

_counts: Final = msgspec.json.Decoder(HistoryCounts)

UNCOUNTED: Final = SECOND
"""Assumed length of a history without any, ns."""


def measured(
    history: History,
    space: SearchSpace,
    sources: Mapping[str, SourceEntry],
    *,
    engine: EngineName = "stepwise",
    on_progress: OnProgress = lambda *_: None,
) -> HistoryCounts:
    """Count a history day by day, each day from the state of the day before, with sources as `located`."""
    types = wanted_types(space)
    begin, last = span_of(history, types)
    kinds = kinds_of(history)
    counting = Counting(space, types_of(sources), kinds, engine=engine)
    days = days_of(history, types)
    done = begin - 1
    for number, day in enumerate(days):
        on_progress("days", number, len(days))
        until = last if day == days[-1] else (day + 1) * DAY - 1
        counting.take(list(events_of_history(history, types, done + 1, until)), done, until)
        done = until
    on_progress("days", len(days), len(days))
    return counting.counts


def opened(root: Path) -> History:
    """The history in a folder. Raises `DistcedError` where there is none, or it has no events."""
    history = History(root)
    span_of(history, None)
    return history


def span_of(history: History, types: Iterable[str] | None) -> tuple[int, int]:
    """Period counted: from the first event until the watermark of these types, ns."""
    first, last = history.first, history.until(types)
    if first is None or last is None:
        raise DistcedError("a history without events", given=str(history.root), advice="record some: distced record")
    return first, max(first, last)


def days_of(history: History, types: Iterable[str] | None) -> list[int]:
    """Days with events of these types, counted from 1 January 1970."""
    return sorted(history.days(types))


def wanted_types(space: SearchSpace) -> tuple[str, ...] | None:
    """Types of primitive events that any pattern reads; None for all."""
    found: set[str] = set()
    for root in space.roots:
        names = space.whole(root).compiled.automaton.type_names()
        if names is None:
            return None
        found |= names
    return tuple(sorted(found - {space.publishes(root) for root in space.roots}))


def sources_of(history: History, types: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """All types of each source with a type that is read."""
    published: dict[str, set[str]] = {}
    for each in history.files:
        for source in each.note.sources:
            published.setdefault(source, set()).add(each.type)
    wanted = None if types is None else set(types)
    return {
        source: tuple(sorted(names)) for source, names in sorted(published.items()) if wanted is None or names & wanted
    }


def kinds_of(history: History) -> Kinds:
    """Kinds of the attributes of a type."""
    types = history.types
    return lambda name: types[name].attributes if name in types else None


def registry_of(history: History) -> TypeRegistry:
    """Registry of the types of a history."""
    return TypeRegistry(history.types.values())


def foreseen_of(counts: HistoryCounts, space: SearchSpace) -> dict[str, Foreseen]:
    """Expected figures of each detector."""
    seconds = counts.duration / SECOND or UNCOUNTED / SECOND
    found = {}
    for name in space.alternatives:
        count = counts.detectors.get(name, DetectorCount())
        listened = count.listened / SECOND or 1.0
        frame = frame_size(name)
        loud, quiet = count.loud / listened, count.quiet / listened
        plain, part = count.plain / seconds, count.part / seconds
        found[name] = Foreseen(
            count.found / seconds,
            OutputTraffic(plain + quiet * frame, quiet),
            OutputTraffic(plain + loud * frame, loud),
            OutputTraffic((part or plain) + loud * frame, loud),
            {key: touched / seconds for key, touched in count.touched.items()},
        )
    return found


def streams_of(counts: HistoryCounts) -> dict[Stream, OutputTraffic]:
    """Rate of each stream of primitive events."""
    seconds = counts.duration / SECOND or UNCOUNTED / SECOND
    return {
        Stream("event", type_name, source): OutputTraffic(each.bytes / seconds, each.events / seconds)
        for type_name, sources in counts.streams.items()
        for source, each in sources.items()
    }


def instance_of(
    counts: HistoryCounts, space: SearchSpace, topology: Topology, sources: Mapping[str, SourceEntry]
) -> PlacementProblem:
    """Placement problem of patterns in a network, with the figures of a history."""
    wanted = wanted_types(space)
    # A silent source does not count with the default rate.
    silent = {
        Stream("event", type_name, source): OutputTraffic(0.0, 0.0)
        for source, entry in sources.items()
        for type_name in entry.types
        if wanted is None or type_name in wanted
    }
    streams = {**heartbeats_of(sources), **silent, **streams_of(counts)}
    return PlacementProblem(topology, space, foreseen_of(counts, space), streams, sources)


def heartbeats_of(sources: Mapping[str, SourceEntry]) -> dict[Stream, OutputTraffic]:
    """Rate of each source's heartbeats; their size depends on the names in them."""
    found: dict[Stream, OutputTraffic] = {}
    for source, entry in sources.items():
        publisher = entry.publisher or source
        # A client is called as it is in the simulator; an instant of the present has 19 digits.
        topic = administration_topic("heartbeat", f"publisher-{publisher}")
        beat = Heartbeat((source,), 2**62, (tuple((NUMBER, None) for _ in entry.types),))
        size = len(encode(beat)) + len(topic.encode())
        # At the server of the directory those of all publishers arrive.
        stream = Stream("heartbeat", entry.home, publisher) if entry.home else AT_DIRECTORY
        known = found.get(stream, OutputTraffic(0.0, 0.0))
        found[stream] = OutputTraffic(
            known.size + size * message_sizes.HEARTBEATS, known.often + message_sizes.HEARTBEATS
        )
    return found


def located(published: Mapping[str, Sequence[str]], topology: Topology) -> dict[str, SourceEntry]:
    """Places of the sources of a history, and the publishers of the topology that are not in it.

    A source is at the publisher of its name, or at the only one of its types; with neither it is a `TopologyError`.
    """
    found: dict[str, SourceEntry] = {}
    for source, types in published.items():
        publisher = topology.publishers.get(source)
        if publisher is None:
            able = [each for each in topology.publishers.values() if set(types) <= set(each.types)]
            if len(able) != 1:
                raise TopologyError(
                    "no publisher of the topology is this source of the history", given=source, where="publishers",
                    allowed=", ".join(sorted(topology.publishers)) or "there is none",
                    advice=f"write [publishers.{source}] with its site and types = {list(types)}",
                )  # fmt: skip
            publisher = able[0]
        every = tuple(sorted({*types, *(publisher.types if publisher.name == source else ())}))
        found[source] = SourceEntry(every, 0, publisher=publisher.name, home=topology.home_of(publisher.site))
    speaking = {entry.publisher for entry in found.values()}
    for each in topology.publishers.values():
        if each.name not in speaking:
            found[each.name] = SourceEntry(each.types, 0, publisher=each.name, home=topology.home_of(each.site))
    return found


def types_of(sources: Mapping[str, SourceEntry]) -> dict[str, tuple[str, ...]]:
    """Types of each source."""
    return {name: entry.types for name, entry in sources.items()}


LEAD: Final = 10 * MINUTE
"""Least time read before a day, ns: some matches have no bound, and instances are touched, and derivations refer to
events, for longer than a match lasts.
"""

Spread: TypeAlias = Callable[[Callable[[int], bytes], Sequence[int]], Iterable[bytes]]
"""Runs a function for each of several days, in any order."""


@dataclass(frozen=True)
class DayTask:
    """Count of one day.

    Attributes:
        root: folder of the history.
        patterns: a pattern, or the text of a pattern file.
        name, language: of the file; empty for a single pattern, and for the core language.
        sources: types of each source.
    """

    root: str
    patterns: str
    name: str
    sources: Mapping[str, tuple[str, ...]]
    engine: EngineName = "stepwise"
    language: str = ""

    def space(self, history: History) -> SearchSpace:
        """Search space of the patterns; subscribers do not affect counts."""
        compiled = compile_source(PatternSource(self.patterns, self.name, self.language), registry_of(history)).compiled
        here = (Place("site", ""),)
        return space_of([PatternRequest(str(number), each, here) for number, each in enumerate(compiled)])

    def __call__(self, day: int) -> bytes:
        """Counts of a day, counted from 1 January 1970, as JSON."""
        history = History(Path(self.root))
        space = self.space(history)
        types = wanted_types(space)
        first, last = span_of(history, types)
        # The first day begins with its first event, the last one ends where the history does.
        begin = max(first - 1, day * DAY - 1) if day > first // DAY else first - 1
        end = min(last, (day + 1) * DAY - 1)
        counting = Counting(space, self.sources, kinds_of(history), engine=self.engine)
        if day > first // DAY:
            before = max(first - 1, begin - lead_of(space))
            counting.take(list(events_of_history(history, types, before + 1, begin)), before, begin, counted=False)
        counting.take(list(events_of_history(history, types, begin + 1, end)), begin, end)
        return msgspec.json.encode(counting.counts)


def count_days(task: DayTask, spread: Spread = map) -> HistoryCounts:
    """Sum of the counts of every day from the first event to the watermark of the types read."""
    history = opened(Path(task.root))
    first, last = span_of(history, wanted_types(task.space(history)))
    days = range(first // DAY, last // DAY + 1)
    return total(map(_counts.decode, spread(task, days)))


def counts_of(
    history: History,
    root: Path,
    source: PatternSource,
    space: SearchSpace,
    sources: Mapping[str, SourceEntry],
    master: str,
    on_progress: Callable[[str], object],
) -> HistoryCounts:
    """Counts of a history, with days as tasks of a Spark master, or inline."""
    if master != INLINE:
        on_progress("counting on Spark")
        task = DayTask(str(root.resolve()), source.text, source.name, types_of(sources), language=source.language)
        return count_days(task, on_spark(master))

    def counted(what: str, done: int, of: int) -> None:
        on_progress(f"counting {what}: {done} of {of}")

    return measured(history, space, sources, on_progress=counted)


def lead_of(space: SearchSpace) -> int:
    """Time read before a day, ns: the longest match of any detector."""
    patterns = [space.whole(root).compiled for root in space.roots]
    reaches = [reach_among(space.whole(name).compiled, patterns) for name in space.alternatives]
    return max(LEAD, *(each for each in reaches if each is not None))


def on_spark(master: str = "local[*]") -> Spread:
    """Days as partitions of a Spark job, whose workers see the history."""

    def spread(task: Callable[[int], bytes], days: Sequence[int]) -> Iterable[bytes]:
        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                yield pa.record_batch([[task(day) for day in batch.column(0).to_pylist()]], ["counts"])

        with tempfile.TemporaryDirectory(prefix="distced-place-") as folder:
            session = session_of(master, Path(folder) / LOG)
            try:
                job = session.range(days[0], days[-1] + 1, 1, len(days)).mapInArrow(counted, "counts binary")
                return [bytes(row.counts) for row in job.collect()]
            finally:
                session.stop()

    return spread
