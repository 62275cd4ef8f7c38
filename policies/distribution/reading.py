"""Who reads what: the streams of each detector, and what each node reads for all its detectors.

A `Stream` is a topic: the events of one type from one source, the composite events of a detector, the heartbeats of the
sources at one server. A node reads it once, however many detectors there do, because it has one connection to each
server. Counted by node, so that a detector more or less changes what its own nodes read and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from middleware.protocol import DetectorEntry, SourceEntry

Kind: TypeAlias = Literal["event", "composite", "heartbeat"]


class Stream(NamedTuple):
    """What is carried as a whole to whoever reads it.

    Attributes:
        type: of primitive events; else empty.
        name: the source; of composite events the detector; of heartbeats the home server.
    """

    kind: Kind
    type: str
    name: str


Inputs: TypeAlias = tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]
"""Sources, each with the types that are read of it, and detectors."""

_NOTHING: Final[Mapping[Stream, int]] = {}


class Reading:
    """What the detectors of a directory read.

    Attributes:
        sources, detectors: entries by name; whoever changes them says so.
        pairs: a number for each source with some of its types that a detector reads.
    """

    def __init__(self, sources: dict[str, SourceEntry], detectors: dict[str, DetectorEntry]) -> None:
        self.sources = sources
        self.detectors = detectors
        self.forget()

    def forget(self) -> None:
        """Sources have changed, or what is published under a name: everybody may read something else."""
        self._streams: dict[str, tuple[Stream, ...]] = {}
        self._inputs: dict[str, Inputs] = {}
        self._numbers: dict[str, tuple[int, ...]] = {}
        self.pairs: dict[tuple[str, tuple[str, ...]], int] = {}
        self._counts: dict[str, Counter[Stream]] | None = None
        self._parts: Counter[str] | None = None
        self._by_type: dict[str, list[str]] | None = None
        self._named: dict[str, list[str]] | None = None

    def change(self, name: str, entry: DetectorEntry | None) -> bool:
        """Take in an entry of a detector, None for one that is gone; whether others may read something else now."""
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
        if self._parts is not None:
            self._parts.subtract(() if before is None else before.parts)
            self._parts.update(() if entry is None else entry.parts)
        self._streams.pop(name, None)
        self._inputs.pop(name, None)
        self._numbers.pop(name, None)
        if entry is not None and self._counts is not None:
            self._count(name, entry, 1, self._counts)
        return False

    def streams_of(self, detector: str) -> tuple[Stream, ...]:
        """What a detector of the directory reads."""
        known = self._streams.get(detector)
        if known is None:
            entry = self.detectors[detector]
            known = self._streams[detector] = self.streams(entry.reads, entry.parts, but=detector)
        return known

    def inputs_of(self, detector: str) -> Inputs:
        """The same, by whom it has to hear of to get on."""
        known = self._inputs.get(detector)
        if known is None:
            known = self._inputs[detector] = inputs(self.streams_of(detector))
        return known

    def is_read(self, detector: str) -> bool:
        """Whether other detectors read it: as a part, or what it publishes under a name, as anybody may."""
        if self._parts is None:
            self._parts = Counter(part for entry in self.detectors.values() for part in entry.parts)
        return bool(self._parts[detector] or self.detectors[detector].publishes)

    def numbers_of(self, detector: str) -> tuple[int, ...]:
        """The sources a detector reads, as the numbers of these `pairs`."""
        known = self._numbers.get(detector)
        if known is None:
            pairs = self.pairs
            known = tuple(pairs.setdefault(pair, len(pairs)) for pair in self.inputs_of(detector)[0])
            self._numbers[detector] = known
        return known

    def streams(self, reads: Iterable[str] | None, parts: Iterable[str] = (), *, but: str = "") -> tuple[Stream, ...]:
        """What a detector reads of these types, None for all primitive ones, and as parts; each stream once.

        Args:
            but: a detector whose own composite events are not meant.
        """
        by_type, named = self._index()
        found: dict[Stream, None] = {}
        homes: dict[str, None] = {}
        for name in sorted(by_type if reads is None else reads):
            for source in by_type.get(name, ()):
                found[Stream("event", name, source)] = None
                homes[self.sources[source].home] = None
            if reads is not None:
                for each in named.get(name, ()):
                    if each != but:
                        found[Stream("composite", "", each)] = None
        for part in parts:
            found[Stream("composite", "", part)] = None
        for home in homes:
            found[Stream("heartbeat", "", home)] = None
        return tuple(found)

    def at(self, node: str) -> Mapping[Stream, int]:
        """What a node reads, with the number of detectors there that do."""
        return self.by_node().get(node, _NOTHING)

    def by_node(self) -> Mapping[str, Mapping[Stream, int]]:
        """The same for all nodes that host detectors."""
        if self._counts is None:
            self._counts = {}
            for name, entry in self.detectors.items():
                self._count(name, entry, 1, self._counts)
        return self._counts

    def types(self) -> list[str]:
        """The types that sources publish."""
        return sorted(self._index()[0])

    def sources_of(self, type_name: str) -> list[str]:
        """The sources of a type, by name."""
        return self._index()[0].get(type_name, [])

    def publishers_of(self, type_name: str) -> list[str]:
        """The detectors whose composite events are of a type, by id."""
        return self._index()[1].get(type_name, [])

    def _count(self, name: str, entry: DetectorEntry, by: int, counts: dict[str, Counter[Stream]]) -> None:
        for node in (entry.node, *entry.copies):
            counter = counts.setdefault(node, Counter())
            for stream in self.streams_of(name):
                counter[stream] += by
                if not counter[stream]:
                    del counter[stream]

    def _index(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The sources of each primitive type, the detectors of each composite one."""
        if self._by_type is None or self._named is None:
            self._by_type, self._named = {}, {}
            for name in sorted(self.sources):
                for each in self.sources[name].types:
                    self._by_type.setdefault(each, []).append(name)
            for name in sorted(self.detectors):
                if self.detectors[name].publishes:
                    self._named.setdefault(self.detectors[name].publishes, []).append(name)
        return self._by_type, self._named


def inputs(streams: Iterable[Stream]) -> Inputs:
    """The sources of streams, each with its types, and the detectors."""
    sources: dict[str, list[str]] = {}
    detectors = []
    for stream in streams:
        if stream.kind == "event":
            sources.setdefault(stream.name, []).append(stream.type)
        elif stream.kind == "composite":
            detectors.append(stream.name)
    return tuple((source, tuple(types)) for source, types in sources.items()), tuple(detectors)


def _published(entry: DetectorEntry | None) -> str:
    """What of a detector makes a difference to those who read by type."""
    return "" if entry is None else entry.publishes
