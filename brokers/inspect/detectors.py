"""Read-only view of detectors: a report of the directory for programs, and its text for a terminal.

A report is a function from `Directory` to plain values, which `--json` prints as they are; no participant is asked. The
detector of a client's subscription is in no entry; the id of a node's subscription to a part holds reader, part and
node (`brokers.node.hosting`).

In the text detectors are a tree: those that serve clients at the top, below each the detectors of parts of its pattern.
A part with several readers is shown in full once, and "as above" again. A table was rejected: patterns are long, and
there is nothing to line up in a tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from distced.brokers.core.directory import Directory
from distced.brokers.core.exclusions import until
from distced.brokers.inspect.lookup import At, Sites, short_ids
from distced.middleware.model.timestamps import SECOND, format_instant
from distced.middleware.wire.directory_entries import NODE_CLIENT, Measured
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time


class Related(msgspec.Struct, frozen=True):
    """Detector related to another one.

    Attributes:
        short: shortest unique prefix of the id.
        node: its node; None for a detector without an entry.
    """

    id: str
    short: str
    node: str | None


class Input(msgspec.Struct, frozen=True):
    """Type that a detector reads, with the sources and detectors that publish it."""

    type: str
    sources: tuple[str, ...]
    detectors: tuple[Related, ...]


class JsonPlace(msgspec.Struct, frozen=True):
    """Topic for composite events as JSON, and its home."""

    topic: str
    at: At


class DetectorHost(msgspec.Struct, frozen=True):
    """Node that hosts a replica of a detector.

    Attributes:
        there: whether the node is present.
        at: place where the replica publishes.
    """

    node: str
    there: bool
    at: At


class Listeners(msgspec.Struct, frozen=True):
    """Number of connections at a place that are subscribed to a detector."""

    at: At
    connections: int


class DetectorReport(msgspec.Struct, frozen=True):
    """Report on a detector.

    Attributes:
        id, short: name in the directory, and its shortest unique prefix.
        node_there: whether its node is present.
        policy: detection policy.
        publishes, attributes: type of its composite events, empty without a name, with the kinds of attributes, "" for
            an open one.
        exports: variables and registers that its derivations hand on.
        subscriptions: number served; `readers` of them are of nodes, for detectors that read it as a part.
        every: whether it reads every primitive event, whatever its type.
        inputs: types it reads.
        parts, part_of: detectors it reads as parts of its pattern, and those that read it as a part.
        read_by: detectors that read its composite events by the name of their type.
        distribution: distribution policy; empty where none is named.
        at: home of its topic, which stays when it moves.
        replicas: nodes with replicas.
        listening: connections to its topic, by place.
        measured: recent measurements by its node; None before the first.
        expected: measurements expected when it was placed; None for unknown, or measured by now.
        json: topics on which its composite events leave as JSON, with the place of each.
        waits: why it can find nothing for the time being; empty where it is complete.
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
    replicas: tuple[DetectorHost, ...]
    listening: tuple[Listeners, ...]
    measured: Measured | None
    expected: Measured | None
    json: tuple[JsonPlace, ...] = ()
    waits: str = ""

    @property
    def hosts(self) -> list[str]:
        """Nodes that host it, replicas included."""
        return [self.node, *(each.node for each in self.replicas)]

    @property
    def for_clients(self) -> int:
        """Number of subscriptions of clients. A node's may exist before the detector counts it."""
        return max(self.subscriptions - self.readers, 0)

    @property
    def reads(self) -> list[Related]:
        """Detectors it reads."""
        return [*self.parts, *(each for read in self.inputs for each in read.detectors)]

    @property
    def readers_of_it(self) -> list[Related]:
        """Detectors that read it."""
        return [*self.part_of, *self.read_by]


class Excluded(msgspec.Struct, frozen=True):
    """Detector that no node hosts for a time, or a suspect.

    Attributes:
        reason: as a sentence; empty for a suspect, which may be hosted.
        node: where it was beyond a limit, or the node lost last.
        lost: number of nodes lost while it ran there.
        since, until: the entry is written, and cleared again, ns.
    """

    id: str
    pattern: str
    reason: str
    node: str
    lost: int
    since: int
    until: int


class DetectorsReport(msgspec.Struct, frozen=True):
    """Report on detectors.

    Attributes:
        node: their node; None for all nodes.
        about: id of the detector in detail; the others are all it reads, and all that read it. None for all.
        detectors: ordered by id.
        excluded: of all nodes, ordered by id; none in a report about one detector or node.
    """

    node: str | None
    about: str | None
    detectors: tuple[DetectorReport, ...]
    excluded: tuple[Excluded, ...] = ()


def detectors_report(directory: Directory, *, node: str | None = None, about: str | None = None) -> DetectorsReport:
    """Report on all detectors, those on a node, or one (by its full id) with all it reads and all that read it.

    A node or a detector that is not there (any more) gives a report without detectors.
    """
    reports = _reports(directory)
    excluded: tuple[Excluded, ...] = ()
    if about is not None:
        node, reports = None, _related(reports, about)
    elif node is not None:
        reports = {name: each for name, each in reports.items() if node in each.hosts}
    else:
        excluded = tuple(
            Excluded(name, each.pattern, each.reason, each.node, each.lost, each.at, until(each))
            for name, each in sorted(directory.exclusions.items())
        )
    return DetectorsReport(node, about, tuple(reports[name] for name in sorted(reports)), excluded)


# Detectors and their readers.

_PARTS, _READS, _READERS = attrgetter("parts"), attrgetter("reads"), attrgetter("readers_of_it")


def _reports(directory: Directory) -> dict[str, DetectorReport]:
    """Reports on all detectors, by id."""
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
            entry.published.all_kinds,
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
            tuple(
                DetectorHost(node, node in directory.nodes, sites.at(home))
                for node, home in sorted(entry.replicas.items())
            ),
            tuple(Listeners(sites.at(home), count) for home, count in sorted(entry.readers.items()) if count),
            directory.loads[entry.node].detectors.get(name) if entry.node in directory.loads else None,
            entry.expected,
            tuple(JsonPlace(topic, sites.at(home)) for home, topic in entry.json),
            entry.waits,
        )
        for name, entry in entries.items()
    }


def _upstream(directory: Directory) -> dict[str, dict[str, list[str]]]:
    """Types that each detector reads, and by type the detectors whose composite events it reads by this name."""
    wanted = {(each, entry.policy) for entry in directory.detectors.values() for each in entry.reads or ()}
    publishers = {(each, policy): directory.publishers(each, policy) for each, policy in wanted}
    return {
        name: {each: publishers[each, entry.policy] for each in sorted(entry.reads or ())}
        for name, entry in directory.detectors.items()
    }


def _readers(directory: Directory) -> Counter[str]:
    """Number of nodes' subscriptions, by detector."""
    readers: Counter[str] = Counter()
    for name, entry in directory.subscriptions.items():
        words = name.split(" ", 2)
        if entry.client.startswith(NODE_CLIENT) and len(words) == 3:
            readers[words[1]] += 1
    return readers


def _inverse(reads: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Ids of the readers, by detector."""
    read: dict[str, list[str]] = defaultdict(list)
    for name in sorted(reads):
        for each in dict.fromkeys(reads[name]):
            read[each].append(name)
    return read


def _related(reports: dict[str, DetectorReport], about: str) -> dict[str, DetectorReport]:
    """Detector, all that it reads, and all that read it, directly or through others."""
    found = {about} if about in reports else set()
    for related in (_READS, _READERS):
        waiting = [about] if about in reports else []
        seen = set(waiting)
        while waiting:
            new = {each.id for each in related(reports[waiting.pop()])} & reports.keys() - seen
            seen |= new
            waiting += new
        found |= seen
    return {name: reports[name] for name in found}


# Text.


def detectors_text(report: DetectorsReport) -> Iterator[RenderableType]:
    """Parts to be printed below one another: a tree of detectors, or the details of one."""
    if report.about is not None:
        yield from _about(report, report.about)
    elif not report.detectors:
        yield Text(f"no detectors{'' if report.node is None else f' on the node {report.node}'}", "yellow")
    else:
        detectors = report.detectors
        nodes = len({host for each in detectors for host in each.hosts})
        clients = sum(each.for_clients for each in detectors)
        served = _counted(clients, "subscription of a client", "subscriptions of clients")
        yield _forest(report)
        yield Text(f"\n{_counted(len(detectors), 'detector')} on {_counted(nodes, 'node')}, {served}", "bold")
    for each in report.excluded:
        yield _excluded(each)


def _excluded(excluded: Excluded) -> Text:
    """Excluded detector, or suspect, on a line of its own behind an empty one."""
    text = Text("\n", overflow="fold", no_wrap=False).append(excluded.id, "bold cyan")
    end = format_instant(excluded.until - excluded.until % SECOND).replace("T", " ")
    if excluded.reason:
        return text.append(f" excluded until {end}: ", "red").append(excluded.reason)
    lost = f"{_counted(excluded.lost, 'node')} lost while it ran there, the last {excluded.node}"
    return text.append(f" suspected until {end}: ", "yellow").append(f"{lost}, at pattern {excluded.pattern}")


# One detector.


def _about(report: DetectorsReport, name: str) -> Iterator[RenderableType]:
    reports = {each.id: each for each in report.detectors}
    detector = reports.get(name)
    if detector is None:
        yield Text(f"the detector {name} is not there any more", "yellow")
        return
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for label, text in _facts(detector):
        table.add_row(label, text)
    yield table
    for label, related in (("reads", _READS), ("is read by", _READERS)):
        if related(detector):
            yield Text(f"\n{label}", "bold")
            tree = _tree()
            _grow(tree, related(detector), reports, related, {name})
            yield tree


def _facts(detector: DetectorReport) -> Iterator[tuple[str, Text]]:
    yield "detector", Text(detector.id, "bold cyan")
    yield "pattern", Text(detector.pattern)
    yield "node", _place(detector.node, detector.node_there)
    if detector.replicas:
        yield "replicas", Text(", ".join(_host(each) for each in detector.replicas))
    if _has_sites(detector):
        yield "home", Text(str(detector.at))
    yield "policy", Text(detector.policy)
    if detector.distribution:
        yield "distribution", Text(detector.distribution)
    attributes = ", ".join(f"{name}: {kind or 'any kind'}" for name, kind in detector.attributes.items())
    if detector.publishes:
        yield "publishes", Text(f"{detector.publishes}({attributes})")
    if detector.waits:
        yield "waits", Text(detector.waits, "yellow")
    if detector.json:
        yield "JSON", Text(", ".join(f"{each.topic} at {each.at}" for each in detector.json))
    if detector.exports:
        yield "exports", Text(", ".join(detector.exports))
    yield "serves", Text(_served(detector))
    if detector.listening and _has_sites(detector):
        yield "heard at", Text(", ".join(f"{each.at} ({each.connections})" for each in detector.listening))
    for label, does in (("measured", detector.measured), ("expected", detector.expected)):
        if does is not None:
            yield label, Text(does_text(does, measured=label == "measured"))
    if detector.every:
        yield "types", Text("every primitive event")
    for place, each in enumerate(detector.inputs):
        by = [*each.sources, *(other.short for other in each.detectors)]
        said = f" from {', '.join(by)}" if by else ", not published yet"
        yield "" if place else "types", Text.assemble(each.type, (said, "dim" if by else "yellow"))


def does_text(does: Measured, *, measured: bool = True) -> str:
    """Measurements of a detector on one line; bytes are those of payloads.

    Args:
        measured: whether it is more than an expectation, which knows of no state and no delay.
    """
    said = [
        f"load {show_figure(does.load)}/s",
        f"finds {show_figure(does.rate)}/s",
        f"sends {show_rate(does.size)}",
        f"reads {show_figure(does.events)} events/s in {show_rate(sum(does.inputs.values()))}",
    ]
    if measured:
        said.append(f"delay {show_time(does.delay)}" if does.delay else "nothing found of late")
        said.append(f"state {does.state:,} bytes")
    if does.engine:
        said.append(f"{does.engine} engine")
    return ", ".join(said)


def _has_sites(detector: DetectorReport) -> bool:
    """Whether the places of a detector and its listeners are worth showing: one has a home or site."""
    every = [detector.at, *(each.at for each in detector.replicas), *(each.at for each in detector.listening)]
    return any(each.home or each.site for each in every)


def _host(host: DetectorHost) -> str:
    where = f" at {host.at}" if host.at.home or host.at.site else ""
    return f"{host.node}{where}{'' if host.there else ', which is gone'}"


# Trees.


def _forest(report: DetectorsReport) -> Tree:
    """Detectors that serve clients, each with its parts below it, then the detectors not shown there."""
    reports = {each.id: each for each in report.detectors}
    read = {part.id for each in report.detectors for part in each.parts}
    serving = [each for each in report.detectors if each.for_clients]
    others = [each for each in report.detectors if not each.for_clients]
    tree, shown = _tree(), set[str]()
    # Those that others read come first, so that these say "as above".
    serving.sort(key=lambda each: each.id not in read)
    others.sort(key=lambda each: each.id in read)
    for each in (*serving, *others):
        if each.for_clients or each.id not in shown:
            _grow(tree, [Related(each.id, each.short, each.node)], reports, _PARTS, shown)
    return tree


def _grow(
    tree: Tree,
    tops: Sequence[Related],
    reports: Mapping[str, DetectorReport],
    below: Callable[[DetectorReport], Sequence[Related]],
    shown: set[str],
) -> None:
    """Add detectors to a tree, and below each its inputs, each in full once.

    Args:
        reports: detectors shown in full; of others only the node is shown.
        below: the detectors below one.
        shown: ids of the detectors shown in full so far; it grows.
    """
    waiting = [(each, tree) for each in reversed(tops)]
    while waiting:
        related, branch = waiting.pop()
        detector = reports.get(related.id)
        if detector is None or related.id in shown:
            branch.add(_mentioned(related, related.id in shown))
            continue
        shown.add(related.id)
        grown = branch.add(_described(detector))
        waiting += [(each, grown) for each in reversed(below(detector))]


def _tree() -> Tree:
    return Tree("", hide_root=True, guide_style="dim")


def _described(detector: DetectorReport) -> RenderableType:
    """Detector with its node and subscriptions, and its pattern below."""
    said = [detector.policy]
    if detector.publishes:
        said.append(f"publishes {detector.publishes}")
    said.append(f"serves {_served(detector)}")
    head = Text.assemble((detector.short, "bold cyan"), " on ", _place(detector.node, detector.node_there))
    for replica in detector.replicas:
        head.append_text(Text.assemble(" and ", _place(replica.node, replica.there)))
    head.append(f", {', '.join(said)}", "dim")
    pattern = Text(detector.pattern)
    for each in (head, pattern):
        each.overflow, each.no_wrap = "fold", False
    return Group(head, Padding(pattern, (0, 0, 0, 2), expand=False))


def _mentioned(related: Related, shown: bool) -> Text:
    """Detector described elsewhere, or not at all."""
    text = Text.assemble((related.short, "cyan"), overflow="fold", no_wrap=False)
    if related.node is None:
        return text.append(", not in the directory", "yellow")
    return text.append(f" on {related.node}").append(", as above" if shown else "", "dim")


def _place(node: str, there: bool) -> Text:
    return Text(node) if there else Text(f"{node}, which is gone", "yellow")


def _served(detector: DetectorReport) -> str:
    """Number of subscriptions to a detector, those of readers included."""
    said = _counted(detector.subscriptions, "subscription")
    return f"{said} ({_counted(detector.readers, 'reader')})" if detector.readers else said


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
