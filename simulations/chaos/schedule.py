"""Random schedules of a fault campaign: a small deployment with dense streams, and faults of chosen kinds.

All is a function of the seed. The patterns are those in which losses show: every event, pairs, sequences over seconds
(an event that is missing pairs the next one), absence, both sides of `&`, cut ones and composite events of others.
Faults come at any moment while events flow, several at once, and end within `LONGEST`; the last node comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import structs

from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.policies.topology.random_topology import RANDOM_KINDS, TYPES, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.random_scenario import streams_by_rates
from distced.simulations.network.scenario_model import (
    START,
    ClockJump,
    Crash,
    Cut,
    Delay,
    Disk,
    Fault,
    Kill,
    Partition,
    PublisherCrash,
    Reorder,
    Scenario,
    ScenarioSubscription,
    ServerRestart,
)

DURATION: Final = 12 * SECOND
"""Time of publishing, ns."""

LONGEST: Final = 20 * SECOND
"""Longest fault, ns."""

MOST: Final = 4
"""Number of faults of a run at most."""

KEYS: Final = 4
"""Number of values of the key of events."""

PATTERNS: Final[Mapping[str, str]] = {
    "each": "[{0}]",
    "pair": "[{0} as x] ; [{1} where k == x.k] within 5s",
    "long": "[{0} where v > 5] ; [{1} where v > 5] within 10s",
    "absence": "([{0} as x where v > 5], [T <= {{T, {1} where k == x.k}}]) @ T = 1s",
    "both": "[{0} where v > 3] & [{1} where v > 3] within 2s",
    "cut": "([{0} as x] ; [{1} where k == x.k]) ; [{2} where k == x.k] within 8s",
    "read": "[First_{3}] ; [{1}] within 3s",
}
"""Patterns by name, over three types, and the name of another pattern's composite events."""


def scenario(seed: int, kinds: Sequence[str]) -> Scenario:
    """Schedule of a run, with faults of these kinds."""
    random = Random(seed)
    sites = random.randrange(1, 5)
    kind = random.choice(RANDOM_KINDS if sites > 2 else RANDOM_KINDS[:1])
    nodes, publishers, subscribers = random.randrange(1, 4), random.randrange(1, 4), random.randrange(1, 3)
    topology = random_topology(kind, random, sites=sites, nodes=nodes, publishers=publishers, subscribers=subscribers)
    types = tuple(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
    values = {name: {"k": tuple(range(KEYS)), "v": tuple(range(10))} for name in TYPES}
    streams = streams_by_rates(topology, types, random, start=START, duration=DURATION, values=values, rate=2.0)
    return Scenario(
        topology,
        types,
        streams,
        _subscriptions(random, topology),
        faults=faults(random, topology, kinds),
        seed=seed,
        duration=DURATION,
        patience=200 * SECOND,
        keepalive=5 * SECOND,
        again=random.choice((0.0, 0.3)) if "twice" in kinds else 0.0,
        one_home=random.random() < 0.3,
        checkpoints=True,
        store_fails=random.choice((0.0, 0.2)) if "disk" in kinds else 0.0,
        torn="torn" in kinds,
        clock_error=random.randrange(10 * SECOND) if "clock" in kinds else 0,
        outboxes="publisher" in kinds,
        # By a choice of its own: schedules are as they were without it.
        filters="filters" in kinds and Random(-seed - 1).random() < 0.5,
    )


def _subscriptions(random: Random, topology: Topology) -> tuple[ScenarioSubscription, ...]:
    published = topology.types or TYPES
    made: list[ScenarioSubscription] = []
    for number, name in enumerate(random.sample(sorted(PATTERNS), 3)):
        types = [random.choice(sorted(published)) for _ in range(3)]
        subscriber = random.choice(sorted(topology.subscribers))
        if name == "read":
            first = f"[{types[0]} where v > 2] -> First_{number}(k = 1)"
            made.append(ScenarioSubscription(f"first {number}", subscriber, first, at=-8 * SECOND))
        made.append(
            ScenarioSubscription(
                f"{name} {number}",
                subscriber,
                PATTERNS[name].format(*types, number),
                at=-4 * SECOND,
                decomposition="full" if name == "cut" else random.choice(("", "full")),
                distribution="max-reliability" if random.random() < 0.15 and len(topology.nodes) > 1 else "",
            )
        )
    return tuple(made)


# Faults.


def faults(random: Random, topology: Topology, kinds: Sequence[str]) -> tuple[Fault, ...]:
    """Random faults of these kinds; those that a topology does not have are left out."""
    made: list[Fault] = []
    scheduled = [each for each in kinds if each in _MAKERS]
    for _ in range(random.randrange(1, MOST + 1) if scheduled else 0):
        at = random.randrange(DURATION)
        made += _MAKERS[random.choice(scheduled)](random, topology, at, at + random.randrange(LONGEST))
    return tuple(_with_a_node(made, topology))


def _cut(random: Random, topology: Topology, at: int, _: int) -> list[Fault]:
    role = random.choice(("node", "publisher", "subscriber"))
    names = {"node": topology.nodes, "publisher": topology.publishers, "subscriber": topology.subscribers}
    return [Cut(at, role, random.choice(sorted(names[role])))]


def _partition(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Partition(at, until, random.choice(topology.links).between)] if topology.links else []


def _isolation(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Partition(at, until, site=random.choice(sorted(topology.sites)))] if topology.links else []


def _crash(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    returns = random.random() < 0.7
    return [Crash(at, random.choice(sorted(topology.nodes)), until if returns else None, silent=random.random() < 0.5)]


def _all_nodes(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    silent = random.random() < 0.5
    return [Crash(at, node, until + random.randrange(SECOND), silent=silent) for node in topology.nodes]


def _server(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [ServerRestart(at, at + (until - at) // 4, random.choice(sorted(topology.sites)))]


def _power(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    """Everything at a site: its server, which may forget, and its nodes, which may stay away."""
    site = random.choice(sorted(topology.sites))
    made: list[Fault] = [ServerRestart(at, until, site, remembers=random.random() < 0.5)]
    for node, described in topology.nodes.items():
        if described.site == site:
            back = until + random.randrange(2 * SECOND) if random.random() < 0.7 else None
            made.append(Crash(at, node, back))
    return made


def _delay(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    site = random.choice(sorted(topology.sites))
    return [Delay(at, until, site, random.randrange(SECOND))] if topology.links else []


def _reorder(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Reorder(at, until, random.choice(sorted(topology.sites)))]


def _jump(random: Random, topology: Topology, at: int, _: int) -> list[Fault]:
    return [ClockJump(at, random.choice(sorted(topology.nodes)), random.randrange(-LONGEST, LONGEST))]


def _full(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Disk(at, until)]


def _slow(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Disk(at, until, random.randrange(SECOND, 4 * SECOND))]


def _kill(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    return [Kill(at, random.choice(sorted(topology.subscribers)), until, random.random() < 0.5)]


def _publisher(random: Random, topology: Topology, at: int, until: int) -> list[Fault]:
    """A publisher, half of the time with its server."""
    name = random.choice(sorted(topology.publishers))
    made: list[Fault] = [PublisherCrash(at, until, name, silent=random.random() < 0.5)]
    if random.random() < 0.5:
        made.append(ServerRestart(at, at + (until - at) // 4, topology.publishers[name].site))
    return made


_MAKERS: Final[Mapping[str, Callable[[Random, Topology, int, int], list[Fault]]]] = {
    "cut": _cut,
    "partition": _partition,
    "isolation": _isolation,
    "crash": _crash,
    "all-nodes": _all_nodes,
    "server": _server,
    "power": _power,
    "delay": _delay,
    "reorder": _reorder,
    "clock-jump": _jump,
    "disk-full": _full,
    "disk-slow": _slow,
    "client": _kill,
    "publisher": _publisher,
}

KINDS: Final[Mapping[str, str]] = {
    "cut": "a connection is cut, and at once back",
    "partition": "a link is down for a while",
    "isolation": "all links of a site are down for a while",
    "crash": "a node is lost, with or without a sign, and comes back or does not",
    "all-nodes": "all nodes are lost at once, and come back",
    "server": "an MQTT server restarts, without its memory",
    "power": "server and nodes of a site are lost at once; some nodes stay away",
    "twice": "servers deliver messages twice",
    "clock": "clocks of nodes are wrong by seconds, by others after each start",
    "disk": "the store of checkpoints fails at times",
    "torn": "checkpoints whose node is lost as it writes them may be written in part",
    "filters": "publishers of half of the runs leave out events that nobody reads",
    "delay": "messages over the links of a site take longer for a while",
    "reorder": "a server lets messages with events overtake each other for a while",
    "clock-jump": "the clock of a node is set forward or back",
    "disk-full": "the store of checkpoints takes no writes for a while",
    "disk-slow": "the store of checkpoints takes seconds for a while",
    "client": "a subscriber is killed, and comes back",
    "publisher": "a publisher is killed, and starts again with its outbox on disk",
}
"""Kinds of faults in virtual time."""


def _with_a_node(made: list[Fault], topology: Topology) -> list[Fault]:
    """Faults after which there is a node: the last one that is lost comes back."""
    away = [place for place, each in enumerate(made) if isinstance(each, Crash) and each.until is None]
    lost = {made[place].node for place in away}  # type: ignore[union-attr]
    if lost < set(topology.nodes):
        return made
    last = max(away, key=lambda place: made[place].at)
    return [structs.replace(each, until=each.at + SECOND) if place == last else each for place, each in enumerate(made)]
