"""Checks of a running deployment by its directory: nodes, detectors, sources, dead letters, and unreadable entries.

Nodes say themselves which sources hold detectors back, how far behind they are, and what they could not use. The doctor
adds what no node sees of itself: entries of nodes that are dead, and differences between nodes.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from distced.brokers.core.exclusions import until
from distced.brokers.core.identity import Identity
from distced.brokers.doctor.checks.findings import Finding, State, counted, duration, names
from distced.brokers.doctor.checks.installation import installation_findings
from distced.middleware.model.detection import GUARANTEED
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.topics import directory_topic

BEHIND: Final = 2 * SECOND
"""Age of the oldest message that a node has not consumed from which it is a warning, ns."""

SHORT: Final = 7
"""Characters of the id of a detector that are shown."""

_LETTERS: Final = "dead letters, "
_WHY: Final = {
    "late": "events behind the watermark: set the clocks of sources, or give them time with lateness",
    "ahead": "instants far beyond the clock: check clocks and units (ns) of sources, and --max-ahead",
    "malformed": "not in the format: check what else publishes to these topics",
    "mistyped": "not of the attributes of their type: compare types and publishers",
    "rejected": "messages of those who may not send them: check users and names",
}


@dataclass(frozen=True)
class DeploymentFacts:
    """Deployment as it was observed.

    Attributes:
        directory: entries at the end of the observation.
        server: name of the server of the directory.
        unreadable: errors of entries that cannot be read.
        before: counters of each node at its begin.
        identities: answers of nodes.
        active: nodes whose entries were published meanwhile.
        seconds: length of the observation.
        now: its end, ns.
        refused: whether the server refuses requests of this user to nodes.
    """

    directory: Entries
    server: str
    now: int
    unreadable: tuple[str, ...] = ()
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    seconds: float = 0.0
    refused: bool = False


def deployment_findings(facts: DeploymentFacts) -> list[Finding]:
    """Findings about a deployment."""
    return [
        *_nodes(facts),
        *_versions(facts),
        *_installations(facts),
        *_homes(facts),
        *_backlogs(facts),
        *_held_back(facts),
        *_detectors(facts),
        *_dead_letters(facts),
        *_unreadable(facts),
    ]


def _nodes(facts: DeploymentFacts) -> Iterator[Finding]:
    nodes = facts.directory.nodes
    if not nodes:
        remedy = f"start one: distced broker --server {facts.server}"
        yield Finding("nodes", State.ERROR, facts.server, "no broker node: nothing is detected", remedy)
        return
    silent = nodes.keys() - facts.identities.keys()
    if facts.refused:
        text = f"{counted(len(nodes), 'node')} ({names(nodes)}), which this user may not ask: no clocks, no versions"
        remedy = "let an operator run the doctor; those of an earlier deployment get the right by distced init"
        yield Finding("nodes", State.NOT_CHECKED, facts.server, text, remedy)
        return
    for node in sorted(silent):
        if node in facts.active:
            text = "it does not say what it is, as nodes of an earlier version: neither its clock nor its version"
            remedy = "upgrade it, as the others"
            yield Finding("nodes", State.NOT_CHECKED, node, text, remedy)
        else:
            text = f"no sign of life in {facts.seconds:g} s, and an entry: it is dead, blocked, or cut off"
            topic = shlex.quote(directory_topic("node", node))
            remedy = (
                "look at its log and start it again; other nodes clear the entry of a dead one in two minutes, and "
                f"without one: mosquitto_pub -r -n -t {topic}"
            )
            yield Finding("nodes", State.ERROR, node, text, remedy)
    for node in sorted(each for each, entry in nodes.items() if entry.draining):
        text = "it is draining: its detectors have moved, and none come"
        yield Finding("nodes", State.INFORMATION, node, text, f"stop it, or distced drain {node} --undo")
    if not silent:
        yield Finding("nodes", State.OK, facts.server, f"{counted(len(nodes), 'node')}: {names(nodes)}")


def _versions(facts: DeploymentFacts) -> Iterator[Finding]:
    versions: dict[str, list[str]] = defaultdict(list)
    formats: dict[tuple[tuple[str, int], ...], list[str]] = defaultdict(list)
    for node, identity in sorted(facts.identities.items()):
        versions[identity.installation.distced or "an unknown version"].append(node)
        formats[tuple(sorted(identity.formats.items()))].append(node)
    if len(formats) > 1:
        groups = "; ".join(names(each) for each in formats.values())
        common = set.intersection(*map(set, formats))
        kinds = names({kind for each in formats for kind, _ in set(each) - common})
        text = f"nodes have different formats ({kinds}): between them no detector moves, and no checkpoint is read"
        yield Finding("formats", State.ERROR, groups, text, "upgrade all nodes to one version, one after the other")
    if len(versions) > 1:
        text = "; ".join(f"{version}: {names(nodes)}" for version, nodes in versions.items())
        remedy = "upgrade all nodes to one version, one after the other (distced drain)"
        yield Finding("versions", State.WARNING, facts.server, f"nodes differ, {text}", remedy)
    elif versions:
        yield Finding("versions", State.OK, facts.server, f"distced {next(iter(versions))} on all nodes")


def _installations(facts: DeploymentFacts) -> Iterator[Finding]:
    for node, identity in sorted(facts.identities.items()):
        yield from installation_findings(identity.installation, node, here=False)


def _homes(facts: DeploymentFacts) -> Iterator[Finding]:
    for node, identity in sorted(facts.identities.items()):
        entry = facts.directory.nodes.get(node)
        for home, reason in sorted(identity.unconnected.items()):
            own = entry is not None and home == entry.home
            text = f"no connection to {'its own' if own else 'the'} home {home}: {reason}"
            remedy = "check the server there; what the node reads and publishes there waits"
            yield Finding("home", State.ERROR if own else State.WARNING, node, text, remedy)


def _backlogs(facts: DeploymentFacts) -> Iterator[Finding]:
    for node, load in sorted(facts.directory.loads.items()):
        entry = facts.directory.nodes.get(node)
        if entry is None:
            continue
        if load.behind >= BEHIND:
            text = f"it consumes messages {duration(load.behind)} after their arrival, and {load.waiting:,} wait"
            remedy = "start further nodes, and let a policy spread detectors: min-load"
            yield Finding("backlog", State.WARNING, node, text, remedy)
        if entry.capacity and load.load > entry.capacity:
            text = f"its detectors take {load.load / entry.capacity:.0%} of its capacity"
            yield Finding(
                "backlog", State.WARNING, node, text, "start further nodes; policy min-load spreads detectors"
            )


def _held_back(facts: DeploymentFacts) -> Iterator[Finding]:
    """Sources that detectors wait for, with the detectors that guaranteed detection holds back."""
    directory = facts.directory
    heard: dict[str, int] = {}
    waiting: dict[str, set[str]] = defaultdict(set)
    for node, load in directory.loads.items():
        if node in directory.nodes:
            for source, at in load.silent.items():
                heard[source] = max(at, heard.get(source, at))
                waiting[source].add(node)
    for source, at in sorted(heard.items()):
        entry = directory.sources.get(source)
        types = frozenset(entry.types) if entry is not None else frozenset()
        held = {
            name: each
            for name, each in directory.detectors.items()
            if each.node in waiting[source] and _waits(each, types)
        }
        publisher = "" if entry is None else entry.publisher
        gone = publisher and publisher not in directory.clients
        text = f"silent for {duration(max(facts.now - at, 0))}, and {_detectors_of(held)} for it"
        text += f", on {names(waiting[source])}"
        text += f"; its publisher {publisher} is gone" if gone else ""
        remedy = f"start its publisher again; if the source is gone for good: distced fence {shlex.quote(source)}"
        yield Finding("silent source", State.WARNING, source, text, remedy)
    if not heard and directory.loads:
        yield Finding("silent source", State.OK, facts.server, "no detector waits for a silent source")


def _waits(detector: DetectorEntry, types: frozenset[str]) -> bool:
    reads = detector.reads is None or not types or not types.isdisjoint(detector.reads)
    return reads and detector.policy.startswith(GUARANTEED)


def _detectors_of(held: Mapping[str, DetectorEntry]) -> str:
    if not held:
        return "detectors wait"
    subscriptions = counted(sum(each.subscriptions for each in held.values()), "subscription")
    wait = "waits" if len(held) == 1 else "wait"
    return f"{counted(len(held), 'detector')} ({_short(held)}) of {subscriptions} {wait}"


def _detectors(facts: DeploymentFacts) -> Iterator[Finding]:
    directory = facts.directory
    lost = {name for name, each in directory.detectors.items() if each.node not in directory.nodes}
    if lost:
        nodes = names({directory.detectors[name].node for name in lost})
        text = f"{counted(len(lost), 'detector')} without a host ({_short(lost)}): {nodes} is gone"
        remedy = "other nodes take them over within seconds; where none is left start one: distced broker"
        yield Finding("detectors", State.ERROR, facts.server, text, remedy)
    for name, entry in sorted(directory.detectors.items()):
        if entry.waits:
            text = f"it finds nothing for now: {entry.waits}"
            yield Finding("detectors", State.WARNING, name[:SHORT], text, "register the type, or start its publisher")
    for name, exclusion in sorted(directory.exclusions.items()):
        if exclusion.reason and until(exclusion) > facts.now:
            rest = duration(until(exclusion) - facts.now)
            text = f"no node hosts it for another {rest}: {exclusion.reason}"
            remedy = f"change its pattern, or raise the limit; distced story {name[:SHORT]} tells more"
            yield Finding("detectors", State.WARNING, name[:SHORT], text, remedy)
    if not lost and directory.detectors:
        hosted = counted(len(directory.detectors), "detector")
        yield Finding("detectors", State.OK, facts.server, f"{hosted}, each with a host")


def _dead_letters(facts: DeploymentFacts) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    more: Counter[str] = Counter()
    for node, entry in facts.directory.nodes.items():
        before = facts.before.get(node, {})
        for key, count in entry.counts.items():
            if key.startswith(_LETTERS):
                reason = key.removeprefix(_LETTERS)
                counts[reason] += count
                # A node that has started again counts from zero.
                more[reason] += max(count - before.get(key, count), 0)
    if not +counts:
        if facts.directory.nodes:
            yield Finding("dead letters", State.OK, facts.server, "none since the start of the nodes")
        return
    top, _ = max((+more or counts).items(), key=lambda each: (each[1], each[0]))
    figures = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common() if count)
    coming = f"; {more.total():,} of them in the last {facts.seconds:g} s" if more.total() else ""
    text = f"{counted(counts.total(), 'message')} could not be used: {figures}{coming}"
    remedy = f"{_WHY.get(top, f'most are {top}')}; mosquitto_sub -t 'ced/x/#' shows them as they come"
    state = State.WARNING if more.total() else State.INFORMATION
    yield Finding("dead letters", state, facts.server, text, remedy)


def _unreadable(facts: DeploymentFacts) -> Iterator[Finding]:
    for error in facts.unreadable[:SHORT]:
        remedy = "clear it, mosquitto_pub -r -n -t TOPIC, and find out who publishes it, as by an access list"
        yield Finding("entries", State.WARNING, facts.server, f"an entry that cannot be read: {error}", remedy)
    if len(facts.unreadable) > SHORT:
        text = f"{len(facts.unreadable) - SHORT:,} further entries cannot be read"
        yield Finding("entries", State.WARNING, facts.server, text, "distced nodes --json lists them: unreadable")


def _short(detectors: Mapping[str, DetectorEntry] | set[str]) -> str:
    return names(each[:SHORT] for each in detectors)
