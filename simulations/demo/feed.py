"""Feeds of the demonstration: the Active Office, a carrier network, machines that are upgraded, threats to regions, or
a recording, in steps of virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from distced.middleware.event_files import read_events
from distced.middleware.event_files.pacing import Feed
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.carrier import (
    ALARM,
    CLEARED,
    RECORDED_WITHIN,
    CarrierAlarms,
    RootCauses,
    edges_found,
    evaluated,
    fault_patterns,
    made_network,
    placed,
    read_network,
)
from distced.simulations.office import ActiveOffice, OfficeStep
from distced.simulations.office.sensors import TYPES
from distced.simulations.threats import TRANSFORMERS, Battlefield, read_transformers
from distced.simulations.threats import TYPES as THREAT_TYPES
from distced.simulations.upgrades import QUERIES, MachineFleet, read_queries
from distced.simulations.upgrades import TYPES as UPGRADE_TYPES

TICK: Final = SECOND


@dataclass(frozen=True, slots=True)
class DemoFeed:
    """Source of the events of a demonstration.

    Attributes:
        title: one line for people.
        start: no event has `hi` at or before this, ns.
        types: the event types, bases before those derived from them.
        sources: the types each source publishes, by name.
        steps: steps of virtual time, each with its published events; to be iterated once.
        places: returns the present place of each person; empty where unknown.
        patterns: pattern files of this feed by name, in another language by its ending; those of the Active Office
            where empty.
        root_causes: compares composite events with the truth, from these and all events; None where there is none.
    """

    title: str
    start: int
    types: list[EventType]
    sources: Mapping[str, tuple[str, ...]]
    steps: Iterable[OfficeStep]
    places: Callable[[], dict[str, str]] = dict
    patterns: Mapping[str, str] = field(default_factory=dict)
    root_causes: Callable[[Iterable[CompositeEvent], Sequence[Event]], RootCauses] | None = None


def office_feed(seed: int, minutes: float) -> DemoFeed:
    """The Active Office, for a number of minutes of virtual time."""
    office = ActiveOffice(Random(seed))
    title = f"Active Office, seed {seed}, {minutes:g} minutes"
    steps = office.run(round(minutes * MINUTE))
    return DemoFeed(title, office.now - MINUTE, office.types, office.sources, steps, lambda: office.people)


def recorded_feed(path: Path, mapping: Path | None) -> DemoFeed:
    """A recording, replayed in the order of consumption; gaps without events are skipped."""
    reader = read_events(path, load_mapping(mapping) if mapping is not None else None)
    feed = Feed(reader, name=str(path))
    title = f"{path.name}, {len(feed.events):,} events, {reader.counts['rejected']:,} rows set aside"
    sources = {source: tuple(types) for source, types in feed.sources.items()}
    steps = _steps(feed.events, feed.start)
    return DemoFeed(title, feed.start, _with_office_types(list(reader.types)), sources, steps)


def alarm_feed(seed: int, minutes: float) -> DemoFeed:
    """Alarms of a made carrier network, for a number of minutes of virtual time."""
    network = made_network(Random(seed))
    alarms = CarrierAlarms(Random(seed + 1), network)
    title = f"carrier network of {len(network.devices)} devices, seed {seed}, {minutes:g} minutes"
    return DemoFeed(
        title,
        alarms.now,
        [ALARM, CLEARED],
        alarms.sources,
        alarms.run(round(minutes * MINUTE)),
        patterns=fault_patterns(network),
        root_causes=lambda composites, events: evaluated(composites, alarms.truth),
    )


def upgrade_feed(seed: int, minutes: float) -> DemoFeed:
    """Machines that are upgraded, for a number of minutes of virtual time, with the queries of the CEDR article."""
    fleet = MachineFleet(Random(seed))
    title = f"upgrades of {len(fleet.machines)} machines, seed {seed}, {minutes:g} minutes"
    steps = fleet.run(round(minutes * MINUTE))
    return DemoFeed(title, fleet.now, list(UPGRADE_TYPES), fleet.sources, steps, patterns={QUERIES: read_queries()})


def threat_feed(seed: int, minutes: float) -> DemoFeed:
    """Opposing units around regions, for a number of minutes of virtual time, with transformers of CEDMOS."""
    field = Battlefield(Random(seed))
    title = f"threats to {len(field.regions)} regions, seed {seed}, {minutes:g} minutes"
    steps = field.run(round(minutes * MINUTE))
    patterns = {TRANSFORMERS: read_transformers()}
    return DemoFeed(title, field.now, list(THREAT_TYPES), field.sources, steps, patterns=patterns)


def recorded_alarm_feed(path: Path, mapping: Path, causes: Path, links: Path | None) -> DemoFeed:
    """Recorded alarms of a carrier's network, with the causal edges of its experts and its links."""
    reader = read_events(path, load_mapping(mapping))
    events = list(reader)
    for event in events:
        if event.type != ALARM.name or not {"alarm", "device"} <= event.attributes.keys():
            raise EventError(
                "not an alarm", given=f"{event.type} {event.attributes}", where=str(path),
                advice="its mapping has to give events of type Alarm with `alarm` and `device`, as alarms.toml does",
            )  # fmt: skip
    network = read_network(causes, links, (str(event.attributes["device"]) for event in events))
    feed = Feed([placed(event, network) for event in events], name=str(path))
    title = f"{path.name}, {len(feed.events):,} alarms of {len(network.devices)} devices"
    sources = {source: tuple(types) for source, types in feed.sources.items()}
    return DemoFeed(
        title,
        feed.start,
        [ALARM, CLEARED],
        sources,
        _steps(feed.events, feed.start),
        patterns=fault_patterns(network, RECORDED_WITHIN),
        root_causes=lambda composites, events: edges_found(list(events), network),
    )


def _steps(events: list[Event], start: int) -> Iterator[OfficeStep]:
    step: list[Event] = []
    end = start + TICK
    for event in events:
        if event.hi > end:
            if step:
                yield OfficeStep(end, step)
            step = []
            end = event.hi + TICK - (event.hi - start) % TICK
        step.append(event)
    yield OfficeStep(end, step)


def _with_office_types(types: list[EventType]) -> list[EventType]:
    """Types of a recording; of the office all types, because patterns name more than were recorded."""
    office = {each.name: each for each in TYPES}
    if all(each.name in office and each.same_as(office[each.name]) for each in types):
        return list(TYPES)
    return types
