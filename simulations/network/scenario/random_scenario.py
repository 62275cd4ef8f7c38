"""Random scenarios, for experiments with distribution policies: one seed always gives the same scenario.

Patterns are of the kinds that occur (who sits in a cold room, the same alarm three times, a visitor who does not sign
in, two things in one place), over the types `A` to `E`, whose events carry a key and a number. Some are made of
fragments that others have too, so that there is something to reuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.random_topology import TYPES, RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.event_streams import streams_by_rates
from distced.simulations.network.scenario_model import START, Scenario, ScenarioSubscription, ScheduledMove

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
        seed: of all random choices, here and in the run.
        kind, sites, nodes, publishers, subscribers: of the topology, as of `random_topology`.
        shared: probability that a pattern is made of a fragment that others may have, too.
        policy: the distribution policy of all subscriptions; empty for the nodes' own choice.
        moves: number of random moves of detectors.
        duration: of publishing, ns.
        topology: used instead of a random one; its publishers publish types out of `A` to `E`.
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
    told = tuple(ScheduledMove(random.randrange(duration)) for _ in range(moves))
    return Scenario(topology, types, streams, asked, told, seed=seed, duration=duration, distribution=policy)


def random_patterns(random: Random, types: Sequence[str], count: int, *, shared: float = 0.5) -> list[str]:
    """Patterns over some of the types `A` to `E`.

    Args:
        shared: probability that a pattern is made of a fragment that others may have, too.
    """
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
