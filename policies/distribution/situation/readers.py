"""Streams read by each detector, and by each node for all its detectors.

A `Stream` is a topic: events of one type from one source, composite events of a detector, heartbeats of a publisher. A
node reads it once, by one connection to each server. Counts by node confine a detector's change to its nodes. At the
directory's server a node with detectors receives all heartbeats, for unannounced sources (`brokers.node.upstream`);
elsewhere those of the publishers it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.wire.directory_entries import DetectorEntry, SourceEntry

StreamKind: TypeAlias = Literal["event", "composite", "heartbeat"]


class Stream(NamedTuple):
    """A topic, carried as a whole to its readers.

    Attributes:
        type: event type; of heartbeats the home server; of composite events empty.
        name: source, detector, or publisher of heartbeats (empty for all at the server).
    """

    kind: StreamKind
    type: str
    name: str


Inputs: TypeAlias = tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]
"""Sources with the types read of each, and detectors."""

_EVERY_TYPE: Final = "*"

_NOTHING: Final[Mapping[Stream, int]] = {}

AT_DIRECTORY: Final = Stream("heartbeat", "", "")
"""All heartbeats at the server of the directory."""


class StreamReaders:
    """Readers of streams, from the directory's detectors. The owner reports changes.

    Attributes:
        pairs: numbers of sources with the types a detector reads.
        changed: streams with changed readers; emptied by its reader.
    """

    def __init__(self, sources: dict[str, SourceEntry], detectors: dict[str, DetectorEntry]) -> None:
        self.sources = sources
        self.detectors = detectors
        self.forget()

    def forget(self) -> None:
        """Drop all results: sources or published types have changed."""
        self._streams: dict[str, tuple[Stream, ...]] = {}
        self._alike: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], tuple[Stream, ...]] = {}
        self._inputs: dict[tuple[Stream, ...], Inputs] = {}
        self._numbers: dict[tuple[Stream, ...], tuple[tuple[int, ...], tuple[str, ...]]] = {}
        self.pairs: dict[tuple[str, tuple[str, ...]], int] = {}
        self._counts: dict[str, Counter[Stream]] | None = None
        self._readers: dict[Stream, set[str]] = {}
        self.changed: set[Stream] = set()
        # By part the nodes with detectors that read it as a part, and how many of them do.
        self._parts: dict[str, Counter[str]] | None = None
        # How many detectors read each type.
        self._types_read: Counter[str] | None = None
        self._by_type: dict[str, list[str]] | None = None
        # Whether anybody publishes at the server of the directory.
        self._beats_at_directory = False
        self._named: dict[str, list[str]] | None = None

    def change(self, name: str, entry: DetectorEntry | None) -> bool:
        """Set the entry of a detector, None to remove it; whether inputs of others may have changed."""
        before = self.detectors.get(name)
        if before is not None and self._counts is not None:
            self._count(name, before, -1, self._counts)
        if entry is None:
            self.detectors.pop(name, None)
        else:
            self.detectors[name] = entry
        if _published(before) != _published(entry):
            self.forget()
            return True
        for each, by in ((before, -1), (entry, 1)):
            if each is not None and self._parts is not None:
                _count_parts(each, by, self._parts)
            if each is not None and self._types_read is not None:
                _count_types(each, by, self._types_read)
        self._streams.pop(name, None)
        if entry is not None and self._counts is not None:
            self._count(name, entry, 1, self._counts)
        return False

    def streams_of(self, detector: str) -> tuple[Stream, ...]:
        """Streams a detector of the directory reads."""
        known = self._streams.get(detector)
        if known is None:
            entry = self.detectors[detector]
            if entry.publishes:
                return self._streams.setdefault(detector, self.streams(entry.reads, entry.parts, but=detector))
            # The same for all that read the same.
            key = entry.reads, entry.parts
            known = self._alike.get(key)
            if known is None:
                known = self._alike[key] = self.streams(entry.reads, entry.parts)
        return known

    def inputs_of(self, detector: str) -> Inputs:
        """Its sources and detectors."""
        streams = self.streams_of(detector)
        known = self._inputs.get(streams)
        if known is None:
            known = self._inputs[streams] = inputs(streams)
        return known

    def is_read(self, detector: str) -> bool:
        """Whether detectors may read it: as a part, or by the type it publishes."""
        return detector in self._part_readers() or bool(self.detectors[detector].publishes)

    def is_type_read(self, type_name: str, *, but: str = "") -> bool:
        """Whether detectors other than `but` read a type, or all events."""
        if self._types_read is None:
            self._types_read = Counter()
            for entry in self.detectors.values():
                _count_types(entry, 1, self._types_read)
        own: Counter[str] = Counter()
        if but in self.detectors:
            _count_types(self.detectors[but], 1, own)
        return any(self._types_read[each] > own[each] for each in (type_name, _EVERY_TYPE))

    def reading_part(self, detector: str) -> Collection[str]:
        """Nodes with detectors that read it as a part."""
        return self._part_readers().get(detector, ())

    def _part_readers(self) -> Mapping[str, Mapping[str, int]]:
        if self._parts is None:
            self._parts = {}
            for entry in self.detectors.values():
                _count_parts(entry, 1, self._parts)
        return self._parts

    def numbers_of(self, detector: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Sources of a detector, as numbers of `pairs`, and the detectors it reads."""
        streams = self.streams_of(detector)
        known = self._numbers.get(streams)
        if known is None:
            pairs = self.pairs
            sources, detectors = self.inputs_of(detector)
            numbers = tuple(pairs.setdefault(pair, len(pairs)) for pair in sources)
            known = self._numbers[streams] = (numbers, detectors)
        return known

    def streams(self, reads: Iterable[str] | None, parts: Iterable[str] = (), *, but: str = "") -> tuple[Stream, ...]:
        """Streams of these types (None: all primitive ones) and parts, without composite events of `but`; each once."""
        by_type, named = self._index()
        found: dict[Stream, None] = {}
        beats: dict[Stream, None] = {AT_DIRECTORY: None} if self._beats_at_directory else {}
        for name in sorted(by_type if reads is None else reads):
            for source in by_type.get(name, ()):
                found[Stream("event", name, source)] = None
                entry = self.sources[source]
                if entry.home:
                    beats[Stream("heartbeat", entry.home, entry.publisher or source)] = None
            if reads is not None:
                for each in named.get(name, ()):
                    if each != but:
                        found[Stream("composite", "", each)] = None
        for part in parts:
            found[Stream("composite", "", part)] = None
        return (*found, *beats)

    def at(self, node: str) -> Mapping[Stream, int]:
        """Streams a node reads, with the number of its detectors that do."""
        return self.by_node().get(node, _NOTHING)

    def by_node(self) -> Mapping[str, Mapping[Stream, int]]:
        if self._counts is None:
            self._counts, self._readers = {}, {}
            for name, entry in self.detectors.items():
                self._count(name, entry, 1, self._counts)
        return self._counts

    def readers(self) -> Mapping[Stream, Collection[str]]:
        """Nodes that read each stream."""
        self.by_node()
        return self._readers

    def types(self) -> list[str]:
        return sorted(self._index()[0])

    def sources_of(self, type_name: str) -> list[str]:
        return self._index()[0].get(type_name, [])

    def publishers_of(self, type_name: str) -> list[str]:
        """Detectors whose composite events are of a type, by id."""
        return self._index()[1].get(type_name, [])

    def _count(self, name: str, entry: DetectorEntry, by: int, counts: dict[str, Counter[Stream]]) -> None:
        for node in (entry.node, *entry.replicas):
            counter = counts.setdefault(node, Counter())
            for stream in self.streams_of(name):
                number = counter.get(stream, 0) + by
                if not number:
                    del counter[stream]
                    self._readers[stream].discard(node)
                    self.changed.add(stream)
                else:
                    if number == by:
                        self._readers.setdefault(stream, set()).add(node)
                        self.changed.add(stream)
                    counter[stream] = number

    def _index(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Sources of each primitive type, detectors of each composite one."""
        if self._by_type is None or self._named is None:
            self._by_type, self._named = {}, {}
            self._beats_at_directory = any(not each.home for each in self.sources.values())
            for name in sorted(self.sources):
                for each in self.sources[name].types:
                    self._by_type.setdefault(each, []).append(name)
            for name in sorted(self.detectors):
                if self.detectors[name].publishes:
                    self._named.setdefault(self.detectors[name].publishes, []).append(name)
        return self._by_type, self._named


def inputs(streams: Iterable[Stream]) -> Inputs:
    """Sources of streams, each with its types, and detectors."""
    sources: dict[str, list[str]] = {}
    detectors = []
    for stream in streams:
        if stream.kind == "event":
            sources.setdefault(stream.name, []).append(stream.type)
        elif stream.kind == "composite":
            detectors.append(stream.name)
    return tuple((source, tuple(types)) for source, types in sources.items()), tuple(detectors)


def _count_parts(entry: DetectorEntry, by: int, parts: dict[str, Counter[str]]) -> None:
    for part in entry.parts:
        counter = parts.setdefault(part, Counter())
        for node in (entry.node, *entry.replicas):
            counter[node] += by
            if not counter[node]:
                del counter[node]
        if not counter:
            del parts[part]


def _count_types(entry: DetectorEntry, by: int, types: Counter[str]) -> None:
    for name in (_EVERY_TYPE,) if entry.reads is None else entry.reads:
        types[name] += by


def _published(entry: DetectorEntry | None) -> str:
    return "" if entry is None else entry.publishes
