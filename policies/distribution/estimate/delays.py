"""Mean delay from an event to its consumption.

Guaranteed detection consumes an event once every input has a later watermark (design, section 3), so the slowest input
decides. Input i arrives at `w + U`: `w` its latency, `U` uniform over the period of its events and heartbeats. The
mean of the greatest is

    E = max w + ∫ (1 − Π P(w_i + U_i <= x)) dx,    x from max w to max (w + period).

The greatest latency alone was rejected: with heartbeats rare compared with latencies all inputs count. Best effort
consumes on arrival, after the mean latency, weighted by rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from distced.middleware.model.timestamps import SECOND
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.rates import DEEPEST
from distced.policies.distribution.situation.situation import Situation

STEPS: Final = 8
"""Steps of the numerical integration."""


class Input(NamedTuple):
    """Input of a detector: `latency` from its source, ns, a part's own delay included; events per second; `heard`:
    events and heartbeats per second."""

    latency: float
    rate: float
    heard: float


def waited(inputs: Sequence[Input], *, guaranteed: bool = True) -> float:
    """Mean delay from an event to its consumption, ns; 0 without inputs."""
    if not inputs:
        return 0.0
    if not guaranteed:
        total = sum(each.rate for each in inputs)
        if not total:
            return sum(each.latency for each in inputs) / len(inputs)
        return sum(each.latency * each.rate for each in inputs) / total
    if len(inputs) == 1:
        # The event says itself how far its source is.
        return inputs[0].latency
    spans = [(each.latency, SECOND / each.heard) for each in inputs]
    return until_all_heard([(latency + period, latency, period) for latency, period in spans])


def until_all_heard(inputs: Sequence[tuple[float, float, float]]) -> float:
    """Mean delay until the last input arrives, ns; inf where one never does. An input: latency plus period, latency,
    period, ns."""
    start = max([latency for _, latency, _ in inputs])
    late = sorted(inputs, reverse=True)
    end = late[0][0]
    if end == inf:
        return end
    step = (end - start) / STEPS
    missing = 0.0
    for number in range(STEPS):
        x = start + (number + 0.5) * step
        heard = 1.0
        for until, latency, period in late:
            if until <= x:
                break
            heard *= (x - latency) / period
        missing += 1.0 - heard
    return start + missing * step


def arrivals(situation: Situation, detector: str) -> dict[str, float]:
    """ns from an event to the arrival of a running detector's composite event at each of its home servers."""
    return _arrivals(situation, detector, DEEPEST)


def from_source(situation: Situation, source: str, node: str) -> float:
    """ns from a source to a node."""
    home = situation.sources[source].home
    return situation.network.local(situation.site_of_home(home)) + situation.to_node(home, node)


def from_detector(situation: Situation, arrived: Mapping[str, float], node: str) -> float:
    """ns from an event to a composite event's arrival at a node, from the nearest server; `arrived` as `arrivals`."""
    return min((at + situation.to_node(home, node) for home, at in arrived.items()), default=0.0)


def _arrivals(situation: Situation, detector: str, depth: int) -> dict[str, float]:
    found: dict[str, float] = {}
    if not depth or detector not in situation.detectors:
        return found
    for node, home in situation.hosts(detector).items():
        known = situation.remembered_delays.get((detector, node))
        if known is None:
            guaranteed = situation.detectors[detector].policy == "guaranteed"
            known = waited(_inputs(situation, detector, node, depth), guaranteed=guaranteed)
            known += situation.to_node(home, node)
            situation.remembered_delays[detector, node] = known
        found[home] = min(known, found.get(home, known))
    return found


def _inputs(situation: Situation, detector: str, node: str, depth: int) -> list[Input]:
    measures = situation.measures
    sources, others = situation.reading.inputs_of(detector)
    found = []
    for source, types in sources:
        rate = sum(measures.rate(source, each) for each in types)
        found.append(Input(from_source(situation, source, node), rate, message_sizes.HEARTBEATS + rate))
    for other in others:
        latency = from_detector(situation, _arrivals(situation, other, depth - 1), node)
        found.append(
            Input(
                latency, measures.of(other).rate, measures.watermark_rate(other, read=True) or message_sizes.HEARTBEATS
            )
        )
    return found


def mean(values: Iterable[float]) -> float:
    """Mean; 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
