"""Workloads of experiments: streams and subscriptions on a topology.

* *synthetic*: random patterns over random streams, some with fragments in common (`random_scenario`).
* *drift*: the same, while the rates of publishers change: in turns those at one half of the sites publish at their
  rates, and the others at a tenth of it.
* *zipf*: many subscriptions to few patterns, with Zipf's popularity.
* *office*: the Active Office (composite-event-framework-2004, "Motivation"): its sensors are at the sites of the
  topology's publishers, room by room, and its scenarios are subscribed to by the topology's subscribers in turn.
* *alarms*: network fault monitoring (Fig. 1 of the same): alarms of a made carrier network, whose devices are at the
  sites of the topology's publishers, ten neighbours at one, and the patterns of root causes (`simulations.carrier`).
* *recorded*: stretches of a history, such as alarms of a network or contacts of badges (`recorded_workload`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final, Literal

import msgspec

from distced.detectors.compiler import compile_publication
from distced.detectors.language.inlining import inline_file
from distced.detectors.language.parser import parse_file
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND, parse_duration
from distced.policies.topology.model import Publisher
from distced.policies.topology.random_topology import TYPES
from distced.policies.topology.topology import Topology
from distced.simulations.carrier import ALARM, CLEARED, CarrierAlarms, fault_patterns, made_network
from distced.simulations.carrier.alarms import UNCERTAINTY as ALARM_UNCERTAINTY
from distced.simulations.carrier.alarms import site_of
from distced.simulations.experiments.model import ExperimentError, SpecError
from distced.simulations.experiments.recorded_workload import (
    RecordedSpec,
    check_recorded,
    patterns_of,
    resolved,
    stretch,
)
from distced.simulations.experiments.spec_checks import at_key, check_known, check_range
from distced.simulations.network.scenario.random_scenario import random_patterns, random_scenario
from distced.simulations.network.scenario_model import (
    START,
    Scenario,
    ScenarioSubscription,
    Send,
    SourceStream,
)
from distced.simulations.office import ActiveOffice, read_scenario, scenario_names
from distced.simulations.office.sensors import UNCERTAINTY

FIRST: Final = 3 * SECOND
"""First subscription, ns after the start: sources have published, and rates are known."""

APART: Final = 2 * SECOND
"""Greatest interval between subscriptions, ns."""

SUBSCRIBED_WITHIN: Final = 0.25
"""Share of the duration in which all subscriptions are made."""

QUIET: Final = 0.1
"""Share of its events that a publisher publishes in a quiet phase."""


DRIFT_HEARTBEAT: Final = SECOND
"""Least interval between promises under a drift, ns: with more of them, the rates of events hardly matter."""


class WorkloadSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workload of an experiment.

    Attributes:
        subscriptions: number of them; of the office those of `scenarios` over and over.
        duration: of publishing, as text.
        phases: of a drift, alternately with publishers at one and the other half of the sites.
        types_apart: whether each half of the sites of a drift publishes types of its own, so that patterns are better
            detected near the one half in one phase, and near the other in the next.
        patterns, exponent: of Zipf's popularity: number of patterns, and of popularity by rank.
        heartbeat: interval between promises of the office's sensors, of devices, and of recorded sources, as text.
        recorded: history and patterns of the kind `recorded`.
    """

    name: str
    kind: Literal["synthetic", "drift", "zipf", "office", "alarms", "recorded"]
    subscriptions: int = 5
    duration: str = "80s"
    phases: int = 2
    types_apart: bool = False
    patterns: int = 20
    exponent: float = 1.0
    heartbeat: str = "5s"
    scenarios: tuple[str, ...] = ("scenario1", "scenario2-residents")
    recorded: RecordedSpec | None = None


def resolved_workload(spec: WorkloadSpec, folder: Path, path: Sequence[str | int]) -> WorkloadSpec:
    """The spec with what it needs of its files."""
    if spec.recorded is None:
        return spec
    with at_key(*path, "recorded"):
        return msgspec.structs.replace(spec, recorded=resolved(spec.recorded, folder))


def check_workload(spec: WorkloadSpec, path: Sequence[str | int]) -> None:
    """Check a spec; raises `SpecError`."""
    check_range(spec.subscriptions, 1, 100_000, (*path, "subscriptions"), "number of subscriptions")
    for key, least in (("duration", 10), ("heartbeat", 0.01)):
        with at_key(*path, key):
            duration = parse_duration(getattr(spec, key))
        check_range(duration / SECOND, least, 86_400, (*path, key), f"{key} of this many seconds")
    check_range(spec.phases, 2, 1_000, (*path, "phases"), "number of phases")
    check_range(spec.patterns, 1, 100_000, (*path, "patterns"), "number of patterns")
    check_range(spec.exponent, 0, 10, (*path, "exponent"), "exponent")
    if spec.types_apart and spec.kind != "drift":
        raise SpecError("types of each half of the sites without a drift", (*path, "types_apart"), given=spec.kind,
                        allowed='kind = "drift"')  # fmt: skip
    if (spec.kind == "recorded") != (spec.recorded is not None):
        raise SpecError("a table that goes with the kind recorded, and with no other", path, given=spec.kind,
                        allowed='kind = "recorded" and a table recorded')  # fmt: skip
    if spec.recorded is not None:
        with at_key(*path, "recorded"):
            check_recorded(spec.recorded, (*path, "recorded"))
    if not spec.scenarios:
        raise SpecError("no scenario of the office", (*path, "scenarios"), allowed=", ".join(scenario_names()))
    for place, name in enumerate(spec.scenarios):
        check_known(name, scenario_names(), (*path, "scenarios", place), "no scenario of the office")


def scenario_of(spec: WorkloadSpec, topology: Topology, seed: int) -> Scenario:
    """The workload on a topology; a function of the seed."""
    random = Random(f"{spec.kind} {seed}")
    match spec.kind:
        case "office":
            made = _office(spec, topology, random, seed)
        case "alarms":
            made = _alarms(spec, topology, random, seed)
        case "recorded" if spec.recorded is not None:
            made = _recorded(spec, spec.recorded, topology, random, seed)
        case _:
            if spec.types_apart:
                topology = _apart(topology, _late(topology, seed))
            made = random_scenario(
                seed, topology=topology, subscriptions=spec.subscriptions, duration=parse_duration(spec.duration)
            )
    if spec.kind == "zipf":
        made = replace(made, subscriptions=tuple(_popular(spec, topology, random)))
    if spec.kind == "drift":
        # Rates that publishers announced would be wrong; without them nodes measure.
        announced = [replace(each, rates={}) for each in topology.publishers.values()]
        measured = Topology(
            topology.sites.values(), topology.nodes.values(), announced, topology.subscribers.values(), topology.links
        )
        late = _late(topology, seed)
        made = replace(made, topology=measured, streams=tuple(_drifting(spec, made, late, random)))
    apart = min(APART, round(made.duration * SUBSCRIBED_WITHIN / len(made.subscriptions)))
    asked = tuple(replace(each, at=FIRST + place * apart) for place, each in enumerate(made.subscriptions))
    return replace(made, subscriptions=asked, lead=5 * SECOND, validates=False)


def drifts_at(spec: WorkloadSpec) -> int:
    """First change of the rates, ns after the start."""
    return parse_duration(spec.duration) // spec.phases


def _popular(spec: WorkloadSpec, topology: Topology, random: Random) -> Iterator[ScenarioSubscription]:
    """Subscriptions to few patterns: the one of rank n is n**-exponent times as popular as the first."""
    patterns = random_patterns(random, topology.types, spec.patterns)
    weights = [(rank + 1) ** -spec.exponent for rank in range(len(patterns))]
    subscribers = sorted(topology.subscribers)
    for number, pattern in enumerate(random.choices(patterns, weights, k=spec.subscriptions), 1):
        yield ScenarioSubscription(f"q{number}", random.choice(subscribers), pattern)


def _late(topology: Topology, seed: int) -> frozenset[str]:
    """Publishers of one half of the sites, quiet in the first phase; with a single site every second one."""
    publishers = topology.publishers
    sites = sorted({each.site for each in publishers.values()})
    Random(f"halves {seed}").shuffle(sites)
    half = sites[: len(sites) // 2]
    return frozenset(name for name, each in publishers.items() if each.site in half) or frozenset(
        sorted(publishers)[::2]
    )


def _apart(topology: Topology, late: Collection[str]) -> Topology:
    """The topology with types of their own for each half of the publishers, at the rates of those they replace."""
    own = {True: TYPES[: len(TYPES) // 2], False: TYPES[len(TYPES) // 2 :]}
    publishers = []
    for name, each in topology.publishers.items():
        types = own[name in late]
        # Two types may become one, with the rates of both.
        rates: dict[str, float] = {}
        for given in each.types:
            if given not in TYPES or given not in each.rates:
                raise ExperimentError(
                    "types of each half of the sites for a publisher without their rates", given=f"{name}, {given}",
                    allowed=f"types out of {', '.join(TYPES)}, with rates", advice="write them into the topology",
                )  # fmt: skip
            kind = types[TYPES.index(given) % len(types)]
            rates[kind] = rates.get(kind, 0.0) + each.rates[given]
        publishers.append(replace(each, types=tuple(rates), rates=rates))
    return Topology(
        topology.sites.values(), topology.nodes.values(), publishers, topology.subscribers.values(), topology.links
    )


def _drifting(spec: WorkloadSpec, scenario: Scenario, late: Collection[str], random: Random) -> Iterator[SourceStream]:
    """Streams of which in each phase one half is quiet; heartbeats go on, but not as often."""
    phase = drifts_at(spec)
    for stream in scenario.streams:
        sends, seq, promised = [], 0, -DRIFT_HEARTBEAT
        for send in stream.sends:
            if not send.events and send is not stream.sends[-1]:
                if send.at - promised < DRIFT_HEARTBEAT:
                    continue
                promised = send.at
            quiet = (send.at // phase + (stream.publisher in late)) % 2 == 1
            kept = tuple(event for event in send.events if not quiet or random.random() < QUIET)
            if send.events and not kept:
                continue
            numbered = tuple(msgspec.structs.replace(event, seq=seq + place) for place, event in enumerate(kept))
            seq += len(kept)
            sends.append(replace(send, events=numbered))
        yield replace(stream, sends=tuple(sends))


def _office(spec: WorkloadSpec, topology: Topology, random: Random, seed: int) -> Scenario:
    duration, heartbeat = parse_duration(spec.duration), parse_duration(spec.heartbeat)
    types, sources, events = _office_events(seed, duration)
    # A room's sensors are at one site; those of the topology's publishers in turn.
    sites = [each.site for each in topology.publishers.values()]
    rooms = sorted({source.partition("-")[2] for source in sources})
    at = {room: sites[place % len(sites)] for place, room in enumerate(rooms)}
    publishers, streams = [], []
    for source, names in sources.items():
        sensor, _, room = source.partition("-")
        publishers.append(Publisher(source, at[room], names, {}, UNCERTAINTY[sensor]))
        streams.append(_stream(source, names, events.get(source, ()), duration, heartbeat, random))
    placed = Topology(
        topology.sites.values(), topology.nodes.values(), publishers, topology.subscribers.values(), topology.links
    )
    asked = _in_turns(_patterns(map(read_scenario, spec.scenarios), types), topology, spec.subscriptions)
    return Scenario(placed, types, tuple(streams), asked, seed=seed, duration=duration)


def _alarms(spec: WorkloadSpec, topology: Topology, random: Random, seed: int) -> Scenario:
    duration, heartbeat = parse_duration(spec.duration), parse_duration(spec.heartbeat)
    types, patterns, events = _alarm_events(seed, duration)
    names = tuple(each.name for each in types)
    sites = [each.site for each in topology.publishers.values()]
    regions = sorted({site_of(device) for device in events})
    at = {region: sites[place % len(sites)] for place, region in enumerate(regions)}
    publishers = [Publisher(device, at[site_of(device)], names, {}, ALARM_UNCERTAINTY) for device in events]
    streams = [_stream(device, names, own, duration, heartbeat, random) for device, own in events.items()]
    placed = Topology(
        topology.sites.values(), topology.nodes.values(), publishers, topology.subscribers.values(), topology.links
    )
    asked = _in_turns(patterns, topology, spec.subscriptions)
    return Scenario(placed, types, tuple(streams), asked, seed=seed, duration=duration)


def _recorded(spec: WorkloadSpec, recorded: RecordedSpec, topology: Topology, random: Random, seed: int) -> Scenario:
    duration, heartbeat = parse_duration(spec.duration), parse_duration(spec.heartbeat)
    types, events = stretch(recorded, topology, duration, random)
    names = tuple(each.name for each in types)
    publishers = [replace(each, types=names, rates={}, uncertainty=0) for each in topology.publishers.values()]
    placed = Topology(
        topology.sites.values(), topology.nodes.values(), publishers, topology.subscribers.values(), topology.links
    )
    streams = tuple(_stream(name, names, own, duration, heartbeat, random) for name, own in events.items())
    asked = _in_turns(patterns_of(recorded, types), topology, spec.subscriptions)
    return Scenario(placed, types, streams, asked, seed=seed, duration=duration)


def _in_turns(patterns: Sequence[str], topology: Topology, count: int) -> tuple[ScenarioSubscription, ...]:
    """Subscriptions of the topology's subscribers in turn, to the patterns in turn."""
    subscribers = sorted(topology.subscribers)
    return tuple(
        ScenarioSubscription(f"q{place + 1}", subscribers[place % len(subscribers)], patterns[place % len(patterns)])
        for place in range(count)
    )


def _patterns(texts: Iterable[str], types: Sequence[EventType]) -> list[str]:
    """Patterns of files, without definitions."""
    registry = TypeRegistry(types)
    found = []
    for text in texts:
        publications = inline_file(parse_file(text), text=text)
        found += [compile_publication(publication, registry, text=text).text for publication in publications]
    return found


@lru_cache(maxsize=2)
def _office_events(
    seed: int, duration: int
) -> tuple[tuple[EventType, ...], dict[str, tuple[str, ...]], dict[str, tuple[Event, ...]]]:
    """Types, sources and events of the office, by source; the same for every policy of a process."""
    office = ActiveOffice(Random(seed), START)
    by_source: dict[str, list[Event]] = {}
    for event in office.events(duration):
        by_source.setdefault(event.source, []).append(event)
    events = {source: tuple(sorted(found, key=lambda each: each.key)) for source, found in by_source.items()}
    return tuple(office.types), dict(office.sources), events


@lru_cache(maxsize=2)
def _alarm_events(seed: int, duration: int) -> tuple[tuple[EventType, ...], list[str], dict[str, tuple[Event, ...]]]:
    """Types, patterns and events of a carrier network, by device; the same for every policy of a process."""
    network, types = made_network(Random(seed)), (ALARM, CLEARED)
    by_device: dict[str, list[Event]] = {device: [] for device in network.devices}
    for step in CarrierAlarms(Random(seed + 1), network, START).run(duration):
        for event in step.events:
            if event.hi <= START + duration:
                by_device[event.source].append(event)
    events = {device: tuple(sorted(found, key=lambda each: each.key)) for device, found in by_device.items()}
    return types, _patterns(fault_patterns(network).values(), types), events


def _stream(
    source: str, types: tuple[str, ...], events: Sequence[Event], duration: int, heartbeat: int, random: Random
) -> SourceStream:
    """Events at the end of their timestamps, and promises of the present between them."""
    sends = [Send(each.hi - START, (each,), None) for each in events]
    sends += [
        Send(at, (), START + at - MILLISECOND) for at in range(random.randrange(1, heartbeat), duration, heartbeat)
    ]
    sends.sort(key=lambda send: (send.at, not send.events))
    last = Send(duration + SECOND, (), START + duration + SECOND)
    return SourceStream(source, source, types, (*sends, last))
