"""Random streams and scenarios, functions of their seed.

Streams have the rates of a topology's publishers. A sensor publishes [t' - u, t' + u] when its clock shows t' + u,
where t' is the reading of its clock at the event and u the greatest error; the error of each clock is drawn once,
within u.

Patterns are of kinds that occur (a person in a cold room, the same alarm three times, a visitor who does not sign in,
two events in one place), over the types `A` to `E` with a key and a number. Some share fragments, so that there is
something to reuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import merge
from random import Random
from typing import Final, TypeAlias

from distced.middleware.model.event_types import EventType, Kind, event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Publisher
from distced.policies.topology.random_topology import TYPES, RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario_model import (
    START,
    Scenario,
    ScenarioError,
    ScenarioSubscription,
    ScheduledMove,
    Send,
    SourceStream,
)

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
    """Streams of all publishers: a Poisson process for each of their types. All end with the same promise, which marks
    the end of detection.

    Args:
        start: virtual instant of the start, ns.
        duration: ns.
        values: ranges of attributes; by default digits, a few letters, and truth values.
        heartbeat: interval between promises, ns.
        rate: events a second of types without a rate in the topology; None for an error.
    """
    known = {each.name: each for each in types}
    last = duration + 2 * max((each.uncertainty for each in topology.publishers.values()), default=0)
    streams = []
    for publisher in topology.publishers.values():
        uncertainty = publisher.uncertainty
        offset = random.randint(-uncertainty, uncertainty)
        # With one type the promise travels along.
        along = len(publisher.types) == 1
        sends: list[Send] = []
        before = -1
        for seq, (happens, name) in enumerate(_happenings(publisher, known, random, duration, rate)):
            instant = before = max(happens, before + 1)
            shown = start + instant + offset
            attributes = {
                attribute: random.choice((values or {}).get(name, {}).get(attribute) or _USUAL[kind])
                for attribute, kind in known[name].attributes.items()
            }
            event = Event(name, shown - uncertainty, shown + uncertainty, publisher.name, seq, attributes)
            sends.append(Send(instant + uncertainty, (event,), event.hi if along else None))
        first = random.randrange(heartbeat)
        beats = [Send(at, (), start + at + offset) for at in range(first, last, heartbeat)]
        ordered = merge(sends, beats, key=lambda send: send.at)
        final = Send(last + uncertainty, (), start + last)
        streams.append(SourceStream(publisher.name, publisher.name, publisher.types, (*ordered, final)))
    return tuple(streams)


def _happenings(
    publisher: Publisher, known: Collection[str], random: Random, duration: int, rate: float | None
) -> list[tuple[int, str]]:
    """Instants and types of a publisher's events, in order."""
    happened: list[tuple[int, str]] = []
    where = f"publisher {publisher.name}"
    for name in publisher.types:
        if name not in known:
            allowed = ", ".join(known)
            raise ScenarioError(
                "a publisher of a type unknown to the scenario", given=name, allowed=allowed, where=where
            )
        often = publisher.rates.get(name, rate)
        if often is None:
            raise ScenarioError("no rate is known", given=name, where=where, advice="write rates in the topology")
        instant = random.expovariate(often)
        while instant * SECOND < duration:
            happened.append((int(instant * SECOND), name))
            instant += random.expovariate(often)
    return sorted(happened)


KEYS: Final = 5
"""Number of values of the key of events."""

_ATTRIBUTES: Final = {"k": "number", "v": "number"}


def random_scenario(
    seed: int,
    *,
    kind: RandomKind = "metro",
    sites: int = 8,
    nodes: int = 6,
    publishers: int = 10,
    subscribers: int = 4,
    subscriptions: int = 8,
    shared: float = 0.5,
    policy: str = "",
    moves: int = 0,
    duration: int = 60 * SECOND,
    topology: Topology | None = None,
) -> Scenario:
    """A scenario of given size.

    Args:
        kind, sites, nodes, publishers, subscribers: as of `random_topology`.
        shared: probability that a pattern has a fragment in common with others.
        policy: distribution policy of all subscriptions; empty for the nodes' default.
        moves: number of random moves.
        duration: of publishing, ns.
        topology: instead of a random one; its publishers publish types out of `A` to `E`.
    """
    random = Random(seed)
    if topology is None:
        topology = random_topology(
            kind, random, sites=sites, nodes=nodes, publishers=publishers, subscribers=subscribers
        )
    types = tuple(event_type(name, _ATTRIBUTES) for name in TYPES)
    published = topology.types or TYPES
    fragments = _fragments(random, published)
    asked = tuple(
        ScenarioSubscription(
            f"q{number}", random.choice(sorted(topology.subscribers)), _pattern(random, published, fragments, shared)
        )
        for number in range(1, subscriptions + 1)
    )
    values = {name: {"k": tuple(range(KEYS)), "v": tuple(range(10))} for name in TYPES}
    streams = streams_by_rates(topology, types, random, start=START, duration=duration, values=values)
    scheduled = tuple(ScheduledMove(random.randrange(duration)) for _ in range(moves))
    return Scenario(topology, types, streams, asked, scheduled, seed=seed, duration=duration, distribution=policy)


def random_patterns(random: Random, types: Sequence[str], count: int, *, shared: float = 0.5) -> list[str]:
    """Patterns over some of the types `A` to `E`; `shared` is the probability of a fragment in common with others."""
    fragments = _fragments(random, types)
    return [_pattern(random, types, fragments, shared) for _ in range(count)]


def _fragments(random: Random, types: Sequence[str]) -> list[str]:
    return [_pair(random, types) for _ in range(3)]


def _pattern(random: Random, types: Sequence[str], fragments: Sequence[str], shared: float) -> str:
    if random.random() < shared:
        fragment = random.choice(fragments)
        other, threshold = random.choice(types), random.randrange(5, 9)
        if random.random() < 0.3:
            return f"({fragment}) & [{other} where v > {threshold}] within {_window(random)}"
        return f"({fragment}) ; [{other} where v > {threshold}] within {_window(random)}"
    return random.choice(_KINDS)(random, types)


def _pair(random: Random, types: Sequence[str]) -> str:
    """A rare event, then another event in the same place."""
    one, other = random.choice(types), random.choice(types)
    return f"[{one} as x where v > 7] ; [{other} where k == x.k and v > {random.randrange(3, 8)}] within 2s"


def _again(random: Random, types: Sequence[str]) -> str:
    """The same event three times in one place."""
    name = random.choice(types)
    return " ; ".join([f"[{name} where v > {random.randrange(6, 9)}]"] * 3) + f" within {_window(random)} by k"


def _missing(random: Random, types: Sequence[str]) -> str:
    """An event that is not followed by another one in time."""
    one, other = random.choice(types), random.choice(types)
    return f"([{one} as x where v > 8], [T <= {{T, {other} where k == x.k}}]) @ T = {random.randrange(1, 4)}s"


def _both(random: Random, types: Sequence[str]) -> str:
    """Two rare events, in any order."""
    one, other = random.choice(types), random.choice(types)
    return f"[{one} where v > 8] & [{other} where v > 8] within {random.randrange(200, 1000)}ms"


def _chain(random: Random, types: Sequence[str]) -> str:
    """Three events in one place, one after the other."""
    names = [random.choice(types) for _ in range(3)]
    return (
        f"[{names[0]} as x where v > 6] ; [{names[1]} where k == x.k and v > 5] ; "
        f"[{names[2]} where k == x.k and v > 5] within {_window(random)}"
    )


_KINDS: Final[tuple[Callable[[Random, Sequence[str]], str], ...]] = (_pair, _again, _missing, _both, _chain)


def _window(random: Random) -> str:
    return f"{random.randrange(500 * MILLISECOND, 3 * SECOND, 100 * MILLISECOND) // MILLISECOND}ms"
