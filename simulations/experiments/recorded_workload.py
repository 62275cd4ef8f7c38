"""Recorded events as a workload: a stretch of a history, at the sites of a topology's publishers.

The alarms of a network are published where its devices are, and badges see one another in different rooms; a
recording has no sites. So the events are divided among the topology's publishers by the value of an attribute: those of
one device come from one publisher. With the links between these values neighbours come from the same publisher, or from
near ones: both networks are cut into stretches of a breadth-first search. A partition with the fewest links across was
rejected: it needs a solver of its own, and says nothing of which part is near which.

With the causal edges of a carrier network (`simulations.carrier`) the patterns are those of root causes.

The stretch is another one for each seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from distced.detectors.compiler import compile_publication, register_derived
from distced.detectors.language.inlining import inline_file
from distced.detectors.language.parser import parse_file
from distced.middleware.history.history import History, events_of_history
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.policies.topology.topology import Topology
from distced.simulations.carrier import (
    ALARM,
    CLEARED,
    RECORDED_WITHIN,
    CarrierNetwork,
    fault_patterns,
    placed,
    read_network,
)
from distced.simulations.experiments.model import SpecError
from distced.simulations.network.scenario_model import START

if TYPE_CHECKING:
    import networkx


class RecordedSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recording and the patterns of it.

    Attributes:
        history: folder of an event history; absolute after `resolved`.
        patterns: file of patterns; their text after `resolved`.
        divide_by: attribute by which events are divided among publishers.
        causes: file of the causal edges of alarms, with its patterns instead of `patterns`; absolute after `resolved`.
        links: file of the links between devices; absolute after `resolved`.
        content: digest of the history and of these files, filled in.
    """

    history: str
    divide_by: str
    patterns: str = ""
    causes: str = ""
    links: str = ""
    content: str = ""


def resolved(spec: RecordedSpec, folder: Path) -> RecordedSpec:
    """The spec with the path and digest of its history, and the text of its patterns."""
    root = (folder / spec.history).resolve()
    files = History(root).files
    digest = sha256()
    for file in files:
        digest.update(Path(file.path).name.encode() + Path(file.path).read_bytes())
    if not files:
        raise HistoryError("a history without events", given=str(root))
    found = {}
    for name in filter(None, (spec.patterns, spec.causes, spec.links)):
        try:
            found[name] = (folder / name).read_bytes()
        except OSError as error:
            raise DistcedError("a file that cannot be read", given=name, advice=str(error)) from None
    for name in filter(None, (spec.causes, spec.links)):
        digest.update(found[name])
    try:
        text = found.get(spec.patterns, b"").decode()
    except UnicodeDecodeError as error:
        raise DistcedError("cannot read the patterns", given=spec.patterns, advice=str(error)) from None
    causes, links = (str((folder / name).resolve()) if name else "" for name in (spec.causes, spec.links))
    return RecordedSpec(str(root), spec.divide_by, text, causes, links, digest.hexdigest()[:16])


def patterns_of(spec: RecordedSpec, types: Sequence[EventType]) -> list[str]:
    """Patterns of the file, or of the causal edges, each alone."""
    if not spec.causes:
        return _each_of(spec.patterns, TypeRegistry(types))
    texts = fault_patterns(_network(spec, ()), RECORDED_WITHIN).values()
    return [each for text in texts for each in _each_of(text, TypeRegistry((ALARM, CLEARED)))]


def _each_of(text: str, registry: TypeRegistry) -> list[str]:
    file = parse_file(text)
    register_derived(file, registry)
    publications = inline_file(file, text=text)
    return [compile_publication(each, registry, text=text).text for each in publications]


def _network(spec: RecordedSpec, devices: Iterable[str]) -> CarrierNetwork:
    return read_network(Path(spec.causes), Path(spec.links) if spec.links else None, devices)


def check_recorded(spec: RecordedSpec, path: Sequence[str | int]) -> None:
    """Check that types have the attribute, and that patterns compile; raises `DistcedError`."""
    types = list(History(spec.history).types.values())
    if bool(spec.patterns) == bool(spec.causes):
        raise SpecError("a recording needs patterns or causal edges", path, given=spec.history, allowed="one of them")
    if spec.links and not spec.causes:
        raise SpecError("links without causal edges", (*path, "links"), given=spec.links, advice="add causes")
    for each in types if spec.causes else ():
        if each.name != ALARM.name or not {"alarm", "device"} <= each.attributes.keys():
            raise SpecError("no alarms", (*path, "causes"), given=each.name,
                            allowed=f"{ALARM.name} with alarm and device")  # fmt: skip
    for each in types:
        if spec.divide_by not in each.attributes:
            raise SpecError("no attribute of the recorded events", (*path, "divide_by"), given=spec.divide_by,
                            allowed=", ".join(each.attributes))  # fmt: skip
    patterns_of(spec, types)


def stretch(
    spec: RecordedSpec, topology: Topology, duration: int, random: Random
) -> tuple[tuple[EventType, ...], dict[str, list[Event]]]:
    """Types, and events by publisher, of a random stretch; moved to the start of scenarios."""
    history = History(spec.history)
    # On a day by its number of events, so that nights and holidays are rare.
    [file] = random.choices(history.files, [each.rows for each in history.files])
    begin = random.randint(file.note.first, max(file.note.last - duration, file.note.first)) - 1
    events = list(events_of_history(history, None, begin + 1, begin + duration))
    values = dict.fromkeys(str(each.attributes.get(spec.divide_by)) for each in events)
    network = _network(spec, values) if spec.causes else None
    if network is None or not spec.links:
        names = sorted(topology.publishers)
        at = {value: names[crc32(value.encode()) % len(names)] for value in values}
    else:
        at = _near_each_other(network, topology)
    by_publisher: dict[str, list[Event]] = {name: [] for name in sorted(topology.publishers)}
    moved = START - begin
    for event in events:
        name = at[str(event.attributes.get(spec.divide_by))]
        own = by_publisher[name]
        if network is not None:
            event = placed(event, network)
        own.append(Event(event.type, event.lo + moved, event.hi + moved, name, len(own), event.attributes))
    return (ALARM, CLEARED) if network is not None else tuple(history.types.values()), by_publisher


def _near_each_other(network: CarrierNetwork, topology: Topology) -> dict[str, str]:
    """Publisher of each device, equal numbers of devices for each; neighbours at the same or at near sites."""
    import networkx

    devices = networkx.Graph(sorted(network.links))
    devices.add_nodes_from(sorted(network.devices))
    sites = networkx.Graph([link.between for link in topology.links])
    sites.add_nodes_from(topology.sites)
    places = {site: place for place, site in enumerate(_breadth_first(sites))}
    names = sorted(topology.publishers, key=lambda each: (places[topology.publishers[each].site], each))
    order = _breadth_first(devices)
    return {device: names[place * len(names) // len(order)] for place, device in enumerate(order)}


def _breadth_first(graph: networkx.Graph[str]) -> list[str]:
    """Nodes in the order of a breadth-first search, each component from its least node."""
    import networkx

    found: list[str] = []
    for component in sorted(networkx.connected_components(graph), key=min):
        first = min(component)
        found += [first, *(node for _, node in networkx.bfs_edges(graph, first, sort_neighbors=sorted))]
    return found
