"""What a detector that does not run yet may be expected to do.

Computed over its automaton, as a flow of instances: how many arrive in each state a second, how many of the events they
wait for match, and where they go on. In the model of the design, section 1, an instance leaves its state with the first
event of the state's domain, so of the instances that arrive somewhere a share goes on that is the rate of what the
state's moves match, by the rate of its domain; and each is touched by as many events as come, of the types in the
domain, before one of them is in it. So for `[A] ; [B]` there are as many composite events as A's: each A is completed
by the next B.

What a history has foreseen of a detector (`Foreseen`) counts before all that. Where nothing was foreseen:

- *Rates* of events: as measured; else the hint's, shared out to the sources of the type; else the topology's; else
  `sizes.RATE`.
- *Filters, guards*: by their form (`selectivity`).
- *A time event* comes at the rate of one by its delay; one at a fixed time once a day.
- *A window* of length W lets `1 - exp(-r W)` of the instances go on, r the rate of the state's domain, of one key of
  `KEYS`.
- *An iteration* is a state that is arrived at again; the flow is followed around `ROUNDS` times.
- *The sides of a `&`* are automata of their own. A delegated part is a type whose rate is that of its detector.

A sum over the tree of the pattern was rejected: "about the lesser of both" for a sequence is no bound (see above), and
merged states have no place in a tree.

*Bytes* go by what is on the wire: a composite event, the ids of its constituents, and where it is read as a part, its
derivation and the constituents themselves. A detector says how far it is whenever it has got further, that is about as
often as the source that is heard the least often, once for each source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton, AutomatonState, AutomatonTimer
from distced.detectors.cutting.candidates import size_of
from distced.detectors.cutting.graph import DetectorPlan
from distced.middleware.model.timestamps import DAY, SECOND
from distced.middleware.patterns.tree import Delegated, Relative
from distced.middleware.wire.directory_entries import Hints, Measured
from distced.policies.distribution.estimate.selectivity import share_of, shares
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, inputs
from distced.policies.distribution.situation.situation import Situation

KEYS: Final = 10.0
"""How many values a key has."""

ROUNDS: Final = 12
"""How often the flow of instances is followed around iterations; what is left then is little."""

MOST: Final = 1e9
"""Nothing comes more often than this a second, whatever the model says."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What runs through an automaton, a second.

    Attributes:
        found: matches.
        touched: instances that events are tried on.
        length: how many events a match consists of, on average.
    """

    found: float
    touched: float
    length: float


class Part(NamedTuple):
    """A detector that is not in the situation yet.

    Attributes:
        does: what it is expected to do.
        told: how often a second it says how far it is.
    """

    does: Measured
    told: float


def expected(
    plan: DetectorPlan,
    situation: Situation,
    hints: Hints,
    *,
    derivations: bool = False,
    constituents: bool = False,
    parts: Mapping[str, Part] | None = None,
) -> Measured:
    """What a detector may be expected to do.

    Args:
        derivations: whether it is read as part of a pattern.
        constituents: whether the constituents are sent along.
        parts: detectors that are not in the situation, by id.
    """
    automaton = plan.compiled.automaton
    rates = Rates(situation, hints, parts or {})
    streams = streams_of(plan, situation)
    events = sum(rates.of_stream(stream) for stream in streams)
    heard: dict[str, float] = {}
    for stream in streams:
        if stream.kind != "heartbeat":
            heard[stream.name] = heard.get(stream.name, 0.0) + rates.payload_of(stream)
    foreseen = situation.measures.unmeasured(plan.id)
    if foreseen is not None:
        told = foreseen.told(part=derivations, read=is_read_by_type(plan, situation))
        inside = foreseen.rate * message_sizes.INSIDE * plan_length(plan) if constituents and not derivations else 0.0
        load = foreseen.load(plan.parts)
        load = flow_of(automaton, rates).touched if load is None else load
        return Measured(load=load, rate=foreseen.rate, size=told.size + inside, inputs=heard, events=events)
    flow = flow_of(automaton, rates)
    rate = flow.found
    if automaton.output is not None and automaton.output.condition is not None:
        rate *= share_of(automaton.output.condition)
    if hints.selectivity is not None and not derivations:
        rate = events * hints.selectivity
    each = message_sizes.COMPOSITE + message_sizes.ID * flow.length
    each += message_sizes.DERIVATION if derivations else 0.0
    each += message_sizes.INSIDE * flow.length if constituents else 0.0
    read = derivations or automaton.output is not None
    size = rate * each + rates.told(streams, read=read) * message_sizes.FRAME
    return Measured(load=flow.touched, rate=rate, size=size, inputs=heard, events=events)


def streams_of(plan: DetectorPlan, situation: Situation) -> tuple[Stream, ...]:
    """What a detector will read."""
    return situation.reading.streams(plan.compiled.automaton.type_names(), plan.parts, but=plan.id)


def is_read_by_type(plan: DetectorPlan, situation: Situation) -> bool:
    """Whether detectors read what it publishes under a name."""
    output = plan.compiled.automaton.output
    return output is not None and situation.reading.is_type_read(output.type_name, but=plan.id)


def plan_length(plan: DetectorPlan) -> float:
    """How many events a composite event of a plan consists of, about."""
    return float(size_of(plan.compiled.plain.pattern))


class Rates:
    """How often events come, as far as anybody knows.

    Attributes:
        parts: detectors that are not in the situation, by id.
    """

    def __init__(self, situation: Situation, hints: Hints, parts: Mapping[str, Part]) -> None:
        self.situation = situation
        self.hints = hints
        self.parts = parts
        self._types: dict[str, float] = {}

    def of_stream(self, stream: Stream) -> float:
        """Events a second of a stream; heartbeats are none."""
        if stream.kind == "heartbeat":
            return 0.0
        if stream.kind == "composite":
            return self.of_detector(stream.name)
        hinted = self.hints.rates.get(stream.type)
        if hinted is not None and not self.situation.measures.is_measured(stream):
            return hinted / max(len(self.situation.reading.sources_of(stream.type)), 1)
        return self.situation.measures.rate(stream.name, stream.type)

    def bytes_of(self, stream: Stream) -> float:
        """Bytes a second of a stream on a link."""
        measures = self.situation.measures
        if stream.kind == "composite" and stream.name in self.parts:
            return measures.output(*self.parts[stream.name])
        if stream.kind == "event" and self.hints.rates:
            return measures.bytes_of(self.of_stream(stream))
        if stream.kind == "composite":
            return measures.flow(stream) + measures.louder(stream.name)
        return measures.flow(stream)

    def payload_of(self, stream: Stream) -> float:
        """Bytes a second of the payload of a stream."""
        if stream.kind == "composite":
            known = self.parts.get(stream.name)
            return (self.situation.measures.of(stream.name) if known is None else known.does).size
        return self.of_stream(stream) * self.situation.measures.payload

    def heard(self, detector: str) -> float:
        """How often a second a detector says how far it is."""
        if detector in self.parts:
            return self.parts[detector].told or message_sizes.HEARTBEATS
        return self.situation.measures.told(detector, read=True) or message_sizes.HEARTBEATS

    def told(self, streams: Iterable[Stream], *, read: bool) -> float:
        """How often a second a detector says how far it is that reads these, and is read by others or not."""
        sources, detectors = inputs(streams)
        heard = [message_sizes.HEARTBEATS + self.of_source(*each) for each in sources]
        return message_sizes.told(heard + [self.heard(each) for each in detectors], read=read)

    def of_source(self, source: str, types: Iterable[str]) -> float:
        """Events a second of some types from a source."""
        return sum(self.of_stream(Stream("event", each, source)) for each in types)

    def of_detector(self, detector: str) -> float:
        """Composite events a second of a detector."""
        known = self.parts.get(detector)
        return known.does.rate if known is not None else self.situation.measures.of(detector).rate

    def of_type(self, name: str) -> float:
        """Events a second of a type, from all sources and all detectors that publish it.

        A type that nobody publishes yet is taken as hinted, else as coming not at all.
        """
        known = self._types.get(name)
        if known is None:
            sources = [Stream("event", name, each) for each in self.situation.reading.sources_of(name)]
            detectors = self.situation.reading.publishers_of(name)
            known = sum(map(self.of_stream, sources)) + sum(map(self.of_detector, detectors))
            if not sources and not detectors:
                known = self.hints.rates.get(name, 0.0)
            self._types[name] = known
        return known


def flow_of(automaton: Automaton, rates: Rates) -> Flow:
    """What runs through an automaton."""
    own, inner_touched, lengths = _rates(automaton, rates)
    types = frozenset(own)
    states = [
        _Waiting.of(automaton, state, own, types, lengths, begins=place in automaton.starts)
        for place, state in enumerate(automaton.states)
    ]
    arriving = [0.0] * len(states)
    # How many events have been matched on arrival, times how many arrive.
    matched = [0.0] * len(states)
    found = length = 0.0
    touched = inner_touched
    current: dict[int, tuple[float, float]] = {}
    for start in automaton.starts:
        state = states[start]
        touched += state.seen
        for share, size, targets in state.onward:
            # At the start nobody waits: every event that matches begins an instance.
            for target in targets:
                count, total = current.get(target, (0.0, 0.0))
                more = share * state.domain
                current[target] = (count + more, total + more * size)
    for _ in range(len(states) + ROUNDS):
        following: dict[int, tuple[float, float]] = {}
        for place, (count, total) in current.items():
            state = states[place]
            if state.accepting:
                found += count
                length += total
            arriving[place] += count
            matched[place] += total
            for share, size, targets in state.onward:
                for target in targets:
                    known, so_far = following.get(target, (0.0, 0.0))
                    following[target] = (
                        min(known + count * share, MOST),
                        min(so_far + (total + count * size) * share, MOST),
                    )
        current = {place: flow for place, flow in following.items() if flow[0] > 1e-9}
        if not current:
            break
    touched += sum(count * state.touches for count, state in zip(arriving, states, strict=True))
    return Flow(found, touched, length / found if found else 1.0)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A state, and what becomes of an instance there.

    Attributes:
        seen: how often a second events of the types in its domain come.
        domain: how often events of its domain come.
        touches: how many events are tried on an instance until it leaves.
        onward: for each move the share of instances that take it, how many events that matches, and the states they
            arrive in.
        accepting: whether arriving here completes a match.
    """

    seen: float
    domain: float
    touches: float
    onward: tuple[tuple[float, float, tuple[int, ...]], ...]
    accepting: bool

    @classmethod
    def of(
        cls, automaton: Automaton, state: AutomatonState, own: Mapping[str, float], types: frozenset[str],
        lengths: Mapping[str, float], *, begins: bool,
    ) -> _Waiting:  # fmt: skip
        inside: dict[str, float] = {}
        labels: list[dict[str, float]] = []
        for move in state.moves:
            position = automaton.positions[move.position]
            for name, share in shares(position.domain, types).items():
                inside[name] = max(inside.get(name, 0.0), share)
            labels.append(shares(position.label, types))
        domain = sum(own[name] * share for name, share in inside.items())
        seen = sum(own[name] for name in inside if name[0] != TIMER_PREFIX)
        survive = 1.0 if begins else _survive(automaton, state, domain)
        onward = []
        for move, label in zip(state.moves, labels, strict=True):
            rate = sum(own[name] * share for name, share in label.items() if name in inside)
            parts = sum(own[name] * share * lengths.get(name, 1.0) for name, share in label.items() if name in inside)
            if rate and domain:
                size = parts / rate
                onward.append((min(rate / domain, 1.0) * survive, size, automaton.arrivals[move.position]))
        # One that has run out of its window is touched once more, which ends it.
        touches = seen / domain * survive + 1.0 - survive if domain else 0.0
        return cls(seen, domain, touches, tuple(onward), state.accepting)


def _survive(automaton: Automaton, state: AutomatonState, domain: float) -> float:
    """The share of instances that are still in their windows when the next event of the domain comes."""
    windows = [automaton.windows[each] for each in state.windows]
    if automaton.whole_window is not None:
        windows.append(automaton.whole_window)
    if not windows:
        return 1.0
    length = min(windows) / SECOND
    keyed = bool(automaton.key or state.keys)
    return -math.expm1(-domain * length / (KEYS if keyed else 1.0))


def _rates(automaton: Automaton, rates: Rates) -> tuple[dict[str, float], float, dict[str, float]]:
    """By type, as the automaton knows them: events a second, time events and parts included; how many instances its
    inner automata touch; and how many events a part's composite event is made of."""
    names: set[str] = set()
    for position in automaton.positions:
        names |= {name for name in position.domain.by_type if name[0] not in (TIMER_PREFIX, PART_PREFIX)}
        if position.domain.types() is None:
            names |= set(rates.situation.reading.types())
    own = {name: rates.of_type(name) for name in names}
    lengths: dict[str, float] = {}
    for index, timer in enumerate(automaton.timers):
        own[f"{TIMER_PREFIX}{index}"] = _timer_rate(timer)
    touched = 0.0
    for index, part in enumerate(automaton.parts):
        name = f"{PART_PREFIX}{index}"
        if isinstance(part, Delegated):
            own[name] = rates.of_detector(part.detector)
            lengths[name] = float(size_of(part.whole))
        else:
            flow = flow_of(part, rates)
            own[name] = flow.found
            touched += flow.touched
            lengths[name] = flow.length
    return own, touched, lengths


def _timer_rate(timer: AutomatonTimer) -> float:
    delay = timer.when.delay if isinstance(timer.when, Relative) else DAY
    return SECOND / max(delay, 1)
