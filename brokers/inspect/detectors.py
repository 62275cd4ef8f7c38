"""What the directory says of detectors, put together for people and programs; of nodes, `brokers.inspect.nodes`.

An entry tells of one thing; who reads whom, and what a node hosts, shows only in all of them. So these are functions
from `Directory` to plain values, which `brokers.inspect.detectors_text` lays out and `--json` prints as they are.
Nobody is asked anything: what a report says is what the retained messages said last.

A detector serves clients and other detectors alike, by subscriptions. Which detector a client's subscription led to is
in no entry; of a node's subscription to a part its id says it: the reader, the part, and the node
(`brokers.node.hosting`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from operator import attrgetter
from typing import Final

import msgspec

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.sites import At, Sites
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import NODE_CLIENT, Measured

SHORTEST: Final = 6
"""Characters of an id that are shown at the least; the fewer, the sooner a new detector would lengthen the others."""

_MOST: Final = 8


class Related(msgspec.Struct, frozen=True):
    """A detector that another one has to do with.

    Attributes:
        id: its name in the directory.
        short: as much of it as tells it apart.
        node: where it is; None where the directory knows of no such detector.
    """

    id: str
    short: str
    node: str | None


class Input(msgspec.Struct, frozen=True):
    """What a detector reads under the name of a type.

    Attributes:
        type: the type.
        sources: those that publish it.
        detectors: those whose composite events are of this type.
    """

    type: str
    sources: tuple[str, ...]
    detectors: tuple[Related, ...]


class Host(msgspec.Struct, frozen=True):
    """A node that hosts a detector.

    Attributes:
        node: its name.
        there: whether it is there.
        at: where the detector publishes from there: the home of its topic, or of the copy's.
    """

    node: str
    there: bool
    at: At


class Listening(msgspec.Struct, frozen=True):
    """Connections that listen to a detector.

    Attributes:
        at: the site of who listens.
        connections: how many.
    """

    at: At
    connections: int


class DetectorReport(msgspec.Struct, frozen=True):
    """A detector.

    Attributes:
        id, short: its name in the directory, and as much of it as tells it apart.
        node: where it is.
        node_there: whether that node is there.
        pattern: what it detects, as text.
        policy: its detection policy.
        publishes: the type of its composite events; empty without a name.
        attributes: the kinds of their attributes.
        exports: the variables and registers that its records hand on.
        subscriptions: how many it serves.
        readers: how many of them are of nodes, for detectors that read it as part of their pattern.
        every: whether it reads every primitive event, whatever its type.
        inputs: the types it reads.
        parts: the detectors it reads as parts of its pattern.
        part_of: those that read it as part of theirs.
        read_by: those that read its composite events by the name of their type.
        distribution: its distribution policy; empty where none is named.
        at: the home of its topic, which stays when it moves.
        copies: further nodes that host it in the same state.
        listening: who listens to its topic, by site.
        measured: what its node has seen it do of late; None where that has not been measured yet.
        expected: what it was expected to do when it was placed; None where that is not known, or measured by now.
    """

    id: str
    short: str
    node: str
    node_there: bool
    pattern: str
    policy: str
    publishes: str
    attributes: dict[str, str]
    exports: tuple[str, ...]
    subscriptions: int
    readers: int
    every: bool
    inputs: tuple[Input, ...]
    parts: tuple[Related, ...]
    part_of: tuple[Related, ...]
    read_by: tuple[Related, ...]
    distribution: str
    at: At
    copies: tuple[Host, ...]
    listening: tuple[Listening, ...]
    measured: Measured | None
    expected: Measured | None

    @property
    def hosts(self) -> list[str]:
        """The nodes that host it, copies included."""
        return [self.node, *(each.node for each in self.copies)]

    @property
    def for_clients(self) -> int:
        """How many of its subscriptions are of clients. A node's may be there before the detector counts it."""
        return max(self.subscriptions - self.readers, 0)

    @property
    def reads(self) -> list[Related]:
        """All detectors it reads."""
        return [*self.parts, *(each for read in self.inputs for each in read.detectors)]

    @property
    def readers_of_it(self) -> list[Related]:
        """All detectors that read it."""
        return [*self.part_of, *self.read_by]


class DetectorsReport(msgspec.Struct, frozen=True):
    """Detectors.

    Attributes:
        node: the node they are all on; None for all nodes.
        about: the id of the one that was asked for; the others are all it reads, and all that read it. None for all.
        detectors: by id.
    """

    node: str | None
    about: str | None
    detectors: tuple[DetectorReport, ...]


def detectors_report(directory: Directory, *, node: str | None = None, about: str | None = None) -> DetectorsReport:
    """Detectors: all, those on a node, or one (by its full id) with all it reads and all that read it, wherever.

    A node or a detector that is not there (any more) gives a report without detectors.
    """
    reports = _reports(directory)
    if about is not None:
        node, reports = None, _related(reports, about)
    elif node is not None:
        reports = {name: each for name, each in reports.items() if node in each.hosts}
    return DetectorsReport(node, about, tuple(reports[name] for name in sorted(reports)))


def check_node(directory: Directory, name: str) -> None:
    """Raise `DistcedError` for a node that nobody speaks of; one that is gone is known by what it has left."""
    known = directory.nodes.keys() | {entry.node for entry in directory.detectors.values()}
    if name not in known:
        near = get_close_matches(name, sorted(known), n=1)
        raise DistcedError(
            "no broker node of this name",
            given=name or "''",
            allowed=_listed(sorted(known)) or "none is there",
            advice=f"did you mean {near[0]}?" if near else "distced nodes lists them",
        )


def find_detector(directory: Directory, prefix: str, *, node: str | None = None) -> str:
    """The id of the one detector, of this node where one is named, whose id begins so.

    Raises:
        DistcedError: where there is none, or more than one and none is called just this.
    """
    known = [name for name, entry in sorted(directory.detectors.items()) if node in (None, entry.node, *entry.copies)]
    if prefix in known:
        return prefix
    found = [name for name in known if name.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    short = short_ids(directory.detectors)
    if found:
        raise DistcedError(
            "several detectors whose ids begin so",
            given=prefix or "''",
            allowed=_listed([short[name] for name in found]),
            advice="give more of the id",
        )
    on_it = "" if node is None else f" on the node {node}"
    if prefix in directory.detectors:
        raise DistcedError(
            f"a detector that is not{on_it}", given=prefix, where=f"node {directory.detectors[prefix].node}"
        )
    # An id is compared as far as it was given.
    heads = {name[: max(len(prefix), SHORTEST)]: short[name] for name in known}
    near = [heads[head] for head in get_close_matches(prefix, list(heads), n=3)]
    raise DistcedError(
        f"no detector whose id begins so{on_it}",
        given=prefix,
        allowed=_listed([short[name] for name in known]) or "none is there",
        advice=f"did you mean {' or '.join(near)}?" if near else "distced detectors lists them",
    )


def short_ids(names: Collection[str]) -> dict[str, str]:
    """By id as much of it as tells it apart from the others: no other one begins so, unless it is the whole id."""
    ordered = sorted(names)
    short: dict[str, str] = {}
    for place, name in enumerate(ordered):
        beside = ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2]
        common = max((_common(name, other) for other in beside), default=0)
        head = name[: max(common + 1, SHORTEST)]
        # What comes behind the point is a policy, and reads as such in full only.
        short[name] = name if "." in head else head
    return short


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


# Detectors, and who reads whom.


def _reports(directory: Directory) -> dict[str, DetectorReport]:
    """All detectors, by id."""
    entries, sites = directory.detectors, Sites(directory)
    short = short_ids({*entries, *(part for entry in entries.values() for part in entry.parts)})
    readers = _readers(directory)
    sources: dict[str, list[str]] = defaultdict(list)
    for name, source in sorted(directory.sources.items()):
        for each in source.types:
            sources[each].append(name)
    upstream = _upstream(directory)
    part_of = _inverse({name: entry.parts for name, entry in entries.items()})
    read_by = _inverse({name: {each for ids in types.values() for each in ids} for name, types in upstream.items()})

    def related(names: Iterable[str]) -> tuple[Related, ...]:
        return tuple(Related(each, short[each], entries[each].node if each in entries else None) for each in names)

    return {
        name: DetectorReport(
            name,
            short[name],
            entry.node,
            entry.node in directory.nodes,
            entry.pattern,
            entry.policy,
            entry.publishes,
            dict(entry.attributes),
            entry.exports,
            entry.subscriptions,
            readers[name],
            entry.reads is None,
            tuple(Input(each, tuple(sources.get(each, ())), related(upstream[name][each])) for each in upstream[name]),
            related(entry.parts),
            related(part_of.get(name, ())),
            related(read_by.get(name, ())),
            entry.distribution,
            sites.at(entry.home),
            tuple(Host(node, node in directory.nodes, sites.at(home)) for node, home in sorted(entry.copies.items())),
            tuple(Listening(sites.at(home), count) for home, count in sorted(entry.readers.items()) if count),
            _measured(directory, name, entry.node),
            entry.expected,
        )
        for name, entry in entries.items()
    }


def _measured(directory: Directory, detector: str, node: str) -> Measured | None:
    """What a detector does, as its node has it."""
    load = directory.loads.get(node)
    return None if load is None else load.detectors.get(detector)


def _upstream(directory: Directory) -> dict[str, dict[str, list[str]]]:
    """By detector the types it reads, and by type the detectors whose composite events it reads by this name."""
    wanted = {(each, entry.policy) for entry in directory.detectors.values() for each in entry.reads or ()}
    publishers = {(each, policy): directory.publishers(each, policy) for each, policy in wanted}
    return {
        name: {each: publishers[each, entry.policy] for each in sorted(entry.reads or ())}
        for name, entry in directory.detectors.items()
    }


def _readers(directory: Directory) -> Counter[str]:
    """By detector how many subscriptions nodes have to it."""
    readers: Counter[str] = Counter()
    for name, entry in directory.subscriptions.items():
        words = name.split(" ", 2)
        if entry.client.startswith(NODE_CLIENT) and len(words) == 3:
            readers[words[1]] += 1
    return readers


def _inverse(reads: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """By detector the ids of those that read it."""
    read: dict[str, list[str]] = defaultdict(list)
    for name in sorted(reads):
        for each in dict.fromkeys(reads[name]):
            read[each].append(name)
    return read


def _related(reports: dict[str, DetectorReport], about: str) -> dict[str, DetectorReport]:
    """A detector, all that it reads, and all that read it, directly or through others."""
    found = {about} if about in reports else set()
    for related in (attrgetter("reads"), attrgetter("readers_of_it")):
        waiting = [about] if about in reports else []
        seen = set(waiting)
        while waiting:
            new = {each.id for each in related(reports[waiting.pop()])} & reports.keys() - seen
            seen |= new
            waiting += new
        found |= seen
    return {name: reports[name] for name in found}
