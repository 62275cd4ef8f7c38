"""From counts to figures: rates of streams and detectors in a history, and the placement problem made of them.

Pure functions over `HistoryCounts`; a rate is a mean over the time that was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from distced.detectors.runtime.engines import EngineName, Kinds
from distced.middleware.history.history import History
from distced.middleware.history.layout import day_number
from distced.middleware.history.reader import events_of_history
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import DAY, SECOND
from distced.middleware.wire.administration import Heartbeat
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Foreseen, SourceEntry, Told
from distced.middleware.wire.topics import administration_topic
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import AT_DIRECTORY, Stream
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.topology import Topology
from distced.simulations.placement.history_figures.counting import Counting, DetectorCount, HistoryCounts, frame_size
from distced.simulations.placement.optimum.search_space import SearchSpace
from distced.simulations.placement.problem import PlacementProblem

OnProgress: TypeAlias = Callable[[str, int, int], None]

UNCOUNTED: Final = SECOND
"""Length assumed of a history without any length, ns."""


def measured(
    history: History,
    space: SearchSpace,
    sources: Mapping[str, SourceEntry],
    *,
    engine: EngineName = "stepwise",
    on_progress: OnProgress = lambda *_: None,
) -> HistoryCounts:
    """Count a history day by day, each continuing the state of the day before.

    Args:
        sources: as `located`.
        tell: called with the progress, in days.
    """
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
    """The history in a folder.

    Raises:
        DistcedError: where there is none, or it has no events; of patterns over them nothing could be said.
    """
    history = History(root)
    span_of(history, None)
    return history


def span_of(history: History, types: Iterable[str] | None) -> tuple[int, int]:
    """Period counted: from the first event of a history until the watermark of these types, ns."""
    first, last = history.first, history.until(types)
    if first is None or last is None:
        raise DistcedError("a history without events", given=str(history.root), advice="record some: distced record")
    return first, max(first, last)


def days_of(history: History, types: Iterable[str] | None) -> list[int]:
    """The days with events of these types, counted from 1 January 1970."""
    return sorted({day_number(each.day) for each in history.select(types)})


def wanted_types(space: SearchSpace) -> tuple[str, ...] | None:
    """The types of events that any of the patterns reads; None where a pattern reads all."""
    found: set[str] = set()
    for root in space.roots:
        names = space.whole(root).compiled.automaton.type_names()
        if names is None:
            return None
        found |= names
    return tuple(sorted(found - {space.publishes(root) for root in space.roots}))


def sources_of(history: History, types: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """The types of each source with a type that is read: all of its types, read or not."""
    published: dict[str, set[str]] = {}
    for each in history.files:
        for source in each.note.sources:
            published.setdefault(source, set()).add(each.type)
    wanted = None if types is None else set(types)
    return {
        source: tuple(sorted(names)) for source, names in sorted(published.items()) if wanted is None or names & wanted
    }


def kinds_of(history: History) -> Kinds:
    """The kinds of the attributes of a type."""
    types = history.types
    return lambda name: types[name].attributes if name in types else None


def registry_of(history: History) -> TypeRegistry:
    """The registry of the types of a history, to check patterns against."""
    return TypeRegistry(history.types.values())


def foreseen_of(counts: HistoryCounts, space: SearchSpace) -> dict[str, Foreseen]:
    """Expected figures of each detector."""
    seconds = counts.duration / SECOND or UNCOUNTED / SECOND
    found = {}
    for name in space.ways:
        count = counts.detectors.get(name, DetectorCount())
        listened = count.listened / SECOND or 1.0
        frame = frame_size(name)
        loud, quiet = count.loud / listened, count.quiet / listened
        plain, part = count.plain / seconds, count.part / seconds
        found[name] = Foreseen(
            count.found / seconds,
            Told(plain + quiet * frame, quiet),
            Told(plain + loud * frame, loud),
            Told((part or plain) + loud * frame, loud),
            {key: touched / seconds for key, touched in count.touched.items()},
        )
    return found


def streams_of(counts: HistoryCounts) -> dict[Stream, Told]:
    """Rate of each stream of primitive events."""
    seconds = counts.duration / SECOND or UNCOUNTED / SECOND
    return {
        Stream("event", type_name, source): Told(each.bytes / seconds, each.events / seconds)
        for type_name, sources in counts.streams.items()
        for source, each in sources.items()
    }


def instance_of(
    counts: HistoryCounts, space: SearchSpace, topology: Topology, sources: Mapping[str, SourceEntry]
) -> PlacementProblem:
    """The placement problem of patterns in a network with the figures of a history."""
    wanted = wanted_types(space)
    # A silent source does not count with the default rate.
    silent = {
        Stream("event", type_name, source): Told(0.0, 0.0)
        for source, entry in sources.items()
        for type_name in entry.types
        if wanted is None or type_name in wanted
    }
    streams = {**heartbeats_of(sources), **silent, **streams_of(counts)}
    return PlacementProblem(topology, space, foreseen_of(counts, space), streams, sources)


def heartbeats_of(sources: Mapping[str, SourceEntry]) -> dict[Stream, Told]:
    """Rate of the heartbeats of each source; their size depends on the names in them."""
    found: dict[Stream, Told] = {}
    for source, entry in sources.items():
        publisher = entry.publisher or source
        # A client is called as it is in the simulator; an instant of the present has 19 digits.
        topic = administration_topic("heartbeat", f"publisher-{publisher}")
        size = len(encode(Heartbeat((source,), 2**62))) + len(topic.encode())
        # At the server of the directory those of all publishers arrive.
        stream = Stream("heartbeat", entry.home, publisher) if entry.home else AT_DIRECTORY
        known = found.get(stream, Told(0.0, 0.0))
        found[stream] = Told(known.size + size * message_sizes.HEARTBEATS, known.often + message_sizes.HEARTBEATS)
    return found


def located(published: Mapping[str, Sequence[str]], topology: Topology) -> dict[str, SourceEntry]:
    """Places of the sources of a history, and the publishers of the topology that are not in it.

    A source is where the publisher of its name is, or the only one of its types.

    Raises:
        TopologyError: for a source without a place in the topology.
    """
    found: dict[str, SourceEntry] = {}
    for source, types in published.items():
        publisher = topology.publishers.get(source)
        if publisher is None:
            able = [each for each in topology.publishers.values() if set(types) <= set(each.types)]
            if len(able) != 1:
                raise TopologyError(
                    "no publisher of the topology is this source of the history",
                    given=source,
                    allowed=", ".join(sorted(topology.publishers)) or "there is none",
                    where="publishers",
                    advice=f"write [publishers.{source}] with its site and types = {list(types)}",
                )
            publisher = able[0]
        every = tuple(sorted({*types, *(publisher.types if publisher.name == source else ())}))
        found[source] = SourceEntry(every, 0, publisher=publisher.name, home=topology.home_of(publisher.site))
    speaking = {entry.publisher for entry in found.values()}
    for each in topology.publishers.values():
        if each.name not in speaking:
            found[each.name] = SourceEntry(each.types, 0, publisher=each.name, home=topology.home_of(each.site))
    return found


def types_of(sources: Mapping[str, SourceEntry]) -> dict[str, tuple[str, ...]]:
    """The types of each source."""
    return {name: entry.types for name, entry in sources.items()}
