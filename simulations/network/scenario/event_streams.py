"""Random streams of events, at the rates a topology gives its publishers.

A sensor that noticed something at the instant t cannot tell it better than its clock: it publishes [t' - u, t' + u],
where t' is what its clock shows and u how far that may be off, once its clock shows t' + u, as those of the Active
Office do. How far each clock is off is drawn once, within u.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from random import Random
from typing import Final, TypeAlias

from distced.middleware.model.event_types import EventType, Kind
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Publisher
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario_model import ScenarioError, Send, SourceStream

HEARTBEAT: Final = 250 * MILLISECOND
"""Default interval between promises of publishers, ns."""

Values: TypeAlias = Mapping[str, Mapping[str, Sequence[Attribute]]]
"""Ranges of the random values of attributes, by type and attribute."""

_USUAL: Final[dict[Kind, Sequence[Attribute]]] = {
    "number": tuple(range(10)),
    "string": ("a", "b", "c", "d"),
    "boolean": (False, True),
}


def streams_by_rates(
    topology: Topology,
    types: Iterable[EventType],
    random: Random,
    *,
    start: int,
    duration: int,
    values: Values | None = None,
    heartbeat: int = HEARTBEAT,
    rate: float | None = None,
) -> tuple[SourceStream, ...]:
    """Streams of all publishers of a topology: a Poisson process for each of their types.

    All of them end with the same promise, so that it is known when everything has been detected.

    Args:
        start: the virtual instant of the start, ns.
        duration: of the streams, ns.
        values: ranges of random attributes; by default digits, a few letters and truth values.
        heartbeat: interval between promises, ns.
        rate: events a second of each type whose rate the topology does not give; None for an error.
    """
    known = {each.name: each for each in types}
    last = duration + 2 * max((each.uncertainty for each in topology.publishers.values()), default=0)
    return tuple(
        _stream(publisher, known, random, start, duration, last, values or {}, heartbeat, rate)
        for publisher in topology.publishers.values()
    )


def _stream(
    publisher: Publisher,
    known: Mapping[str, EventType],
    random: Random,
    start: int,
    duration: int,
    last: int,
    values: Values,
    heartbeat: int,
    rate: float | None,
) -> SourceStream:
    uncertainty = publisher.uncertainty
    offset = random.randint(-uncertainty, uncertainty)
    happened: list[tuple[int, str]] = []
    for name in publisher.types:
        if name not in known:
            raise ScenarioError(
                "a publisher of a type that the scenario does not have",
                given=name,
                allowed=", ".join(known),
                where=f"publisher {publisher.name}",
            )
        often = publisher.rates.get(name, rate)
        if often is None:
            raise ScenarioError(
                "no rate is known",
                given=name,
                where=f"publisher {publisher.name}",
                advice="write rates in the topology",
            )
        instant = random.expovariate(often)
        while instant * SECOND < duration:
            happened.append((int(instant * SECOND), name))
            instant += random.expovariate(often)
    happened.sort()
    # With one type the promise travels along.
    along = len(publisher.types) == 1
    sends: list[Send] = []
    before = -1
    for seq, (happens, name) in enumerate(happened):
        instant = before = max(happens, before + 1)
        shown = start + instant + offset
        attributes = {
            attribute: random.choice(values.get(name, {}).get(attribute) or _USUAL[kind])
            for attribute, kind in known[name].attributes.items()
        }
        event = Event(name, shown - uncertainty, shown + uncertainty, publisher.name, seq, attributes)
        sends.append(Send(instant + uncertainty, (event,), event.hi if along else None))
    first = random.randrange(heartbeat)
    beats = [Send(at, (), start + at + offset) for at in range(first, last, heartbeat)]
    ordered = merge(sends, beats, key=lambda send: send.at)
    final = Send(last + uncertainty, (), start + last)
    return SourceStream(publisher.name, publisher.name, publisher.types, (*ordered, final))
