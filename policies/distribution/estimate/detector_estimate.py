"""Estimated load and output of a detector that does not run yet.

A flow of instances through its automaton: arrivals per second in each state, share of awaited events that match, next
states. An instance leaves its state with the first event of the state's domain (design, section 1), so the share that
continues is the rate of the state's moves by the rate of its domain; events of the domain's types touch it until then.
So `[A] ; [B]` has as many composite events as A's. Instances that are looked up by a value they wait for
(`detectors.automata.wait_keys`) are touched by the events with it alone, and all
instances by those alone that satisfy a condition on the event.

Results of a history (`Foreseen`) come first. Without one:

- *Rates*: measured; else the hint's, divided among the sources of the type; else the topology's; else `RATE`.
- *Filters, guards*: by the distribution of attribute values, where nodes have published one (`selectivity`).
- *Time events*: by their delay; at a fixed time once a day.
- *Windows* of length W pass `1 - exp(-r W)` of the instances, r the domain's rate of one key.
- *Iterations* return to a state; the flow is followed `ROUNDS` times.
- *The start* is touched by events that begin a match alone, as engines count (`detectors.stepwise.matcher`).
- *Sides of a `&`* are automata of their own. A delegated part is a type with the rate of its detector.

A sum over the pattern's tree was rejected: "about the lesser of both" is no bound for a sequence, and merged states
have no place in a tree.

*Bytes* are those on the wire: composite event, ids of constituents; for a part also derivation and constituents.
Watermarks are about as frequent as messages of the rarest source, once for each source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from distced.detectors.automata.automaton import (
    INSIDE,
    TIMER_PREFIX,
    Automaton,
    AutomatonState,
    AutomatonTimer,
    Position,
)
from distced.detectors.automata.properties import is_on_event_alone
from distced.detectors.automata.wait_keys import wait_keys
from distced.detectors.cutting.candidates import size_of
from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.clock_rules import CLOCK_PREFIX, interval_of
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import DAY, SECOND
from distced.middleware.patterns.tree import Delegated, Recurring, Relative
from distced.middleware.wire.directory_entries import Hints, Measured
from distced.policies.distribution.estimate.selectivity import EQUAL, Selectivity
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, inputs
from distced.policies.distribution.situation.situation import Situation

ROUNDS: Final = 12  # Rounds of the flow around iterations; the rest is negligible
MOST: Final = 1e9  # Upper limit of any rate, per second


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow through an automaton, per second: matches, events tried on instances; mean number of events in a match."""

    found: float
    touched: float
    length: float


class Part(NamedTuple):
    """A part outside the situation: estimated load and output; `watermark_rate`: watermarks per second."""

    does: Measured
    watermark_rate: float


def expected(
    plan: DetectorPlan,
    situation: Situation,
    hints: Hints,
    *,
    derivations: bool = False,
    constituents: bool = False,
    parts: Mapping[str, Part] | None = None,
    promises: bool = True,
) -> Measured:
    """Estimated load and output of a detector.

    Args:
        derivations, constituents: whether it is read as part of a pattern; whether constituents are sent along.
        parts: detectors outside the situation, by id.
        promises: whether it publishes watermarks, as under other than best effort.
    """
    automaton = plan.compiled.structure
    rates = Rates(situation, hints, parts or {})
    streams = streams_of(plan, situation)
    events = sum(rates.of_stream(stream) for stream in streams)
    heard: dict[str, float] = {}
    for stream in streams:
        if stream.kind != "heartbeat":
            heard[stream.name] = heard.get(stream.name, 0.0) + rates.payload_of(stream)
    foreseen = situation.measures.unmeasured(plan.id)
    if foreseen is not None:
        watermark_rate = foreseen.output(part=derivations, read=is_read_by_type(plan, situation))
        inside = foreseen.rate * message_sizes.INSIDE * plan_length(plan) if constituents and not derivations else 0.0
        load = foreseen.load(plan.parts)
        load = flow_of(automaton, rates, plan.compiled.constants).touched if load is None else load
        return Measured(load=load, rate=foreseen.rate, size=watermark_rate.size + inside, inputs=heard, events=events)
    flow = flow_of(automaton, rates, plan.compiled.constants)
    rate = flow.found
    if automaton.output is not None and automaton.output.condition is not None:
        rate *= Selectivity({}).share(automaton.output.condition)
    if hints.selectivity is not None and not derivations:
        rate = events * hints.selectivity
    each = message_sizes.COMPOSITE + message_sizes.ID * flow.length
    each += message_sizes.DERIVATION if derivations else 0.0
    each += message_sizes.INSIDE * flow.length if constituents else 0.0
    read = derivations or automaton.output is not None
    size = rate * each
    if promises:
        size += rates.watermark_rate(streams, read=read) * message_sizes.FRAME
    return Measured(load=flow.touched, rate=rate, size=size, inputs=heard, events=events)


def streams_of(plan: DetectorPlan, situation: Situation) -> tuple[Stream, ...]:
    """Streams a planned detector reads."""
    return situation.reading.streams(plan.compiled.structure.type_names(), plan.parts, but=plan.id)


def is_read_by_type(plan: DetectorPlan, situation: Situation) -> bool:
    """Whether detectors read the type it publishes."""
    output = plan.compiled.structure.output
    return output is not None and situation.reading.is_type_read(output.type_name, but=plan.id)


def is_informed(plan: DetectorPlan, situation: Situation) -> bool:
    """Whether the distribution of values is known of all primitive types that a planned detector reads."""
    types = plan.compiled.structure.type_names()
    published = situation.reading.publishers_of
    return types is not None and all(name in situation.values or published(name) for name in types)


def plan_length(plan: DetectorPlan) -> float:
    """Approximate number of events in a composite event of a plan."""
    return float(size_of(plan.compiled.plain.pattern))


class Rates:
    """Rates of streams for an estimate, with hints and parts that are not in the situation."""

    def __init__(self, situation: Situation, hints: Hints, parts: Mapping[str, Part]) -> None:
        self.situation = situation
        self.hints = hints
        self.parts = parts
        self._types: dict[str, float] = {}

    def of_stream(self, stream: Stream) -> float:
        """Events per second of a stream; heartbeats are none."""
        if stream.kind == "heartbeat":
            return 0.0
        if stream.kind == "composite":
            return self.of_detector(stream.name)
        hinted = self.hints.rates.get(stream.type)
        if hinted is not None and not self.situation.measures.is_measured(stream):
            return hinted / max(len(self.situation.reading.sources_of(stream.type)), 1)
        return self.situation.measures.rate(stream.name, stream.type)

    def bytes_of(self, stream: Stream) -> float:
        """Bytes per second of a stream on a link."""
        measures = self.situation.measures
        if stream.kind == "composite" and stream.name in self.parts:
            return measures.output(*self.parts[stream.name])
        if stream.kind == "event" and self.hints.rates:
            return measures.bytes_of(self.of_stream(stream))
        if stream.kind == "composite":
            return measures.flow(stream) + measures.louder(stream.name)
        return measures.flow(stream)

    def payload_of(self, stream: Stream) -> float:
        """Bytes per second of the payload of a stream."""
        if stream.kind == "composite":
            known = self.parts.get(stream.name)
            return (self.situation.measures.of(stream.name) if known is None else known.does).size
        return self.of_stream(stream) * self.situation.measures.payload

    def heard(self, detector: str) -> float:
        """Watermarks per second of a detector."""
        if detector in self.parts:
            return self.parts[detector].watermark_rate or message_sizes.HEARTBEATS
        return self.situation.measures.watermark_rate(detector, read=True) or message_sizes.HEARTBEATS

    def watermark_rate(self, streams: Iterable[Stream], *, read: bool) -> float:
        """Watermarks per second of a detector that reads these streams, and is read by others or not."""
        sources, detectors = inputs(streams)
        heard = [message_sizes.HEARTBEATS + self.of_source(*each) for each in sources]
        return message_sizes.watermark_rate(heard + [self.heard(each) for each in detectors], read=read)

    def of_source(self, source: str, types: Iterable[str]) -> float:
        return sum(self.of_stream(Stream("event", each, source)) for each in types)

    def of_detector(self, detector: str) -> float:
        known = self.parts.get(detector)
        return known.does.rate if known is not None else self.situation.measures.of(detector).rate

    def of_type(self, name: str) -> float:
        """Events per second of a type, from all sources and detectors; as hinted where none publishes it yet."""
        known = self._types.get(name)
        if known is None:
            sources = [Stream("event", name, each) for each in self.situation.reading.sources_of(name)]
            detectors = self.situation.reading.publishers_of(name)
            known = sum(map(self.of_stream, sources)) + sum(map(self.of_detector, detectors))
            if not sources and not detectors:
                known = self.hints.rates.get(name, 0.0)
            self._types[name] = known
        return known


_KNOWN: Final = 256
"""Number of automata whose flow is remembered."""


class _Shares(NamedTuple):
    """Shares of events that a flow depends on, beside rates.

    Attributes:
        positions: of the events of each type: in the domain of each position, tried on instances there, in its label.
        met: by state and type the share of events with the value that an instance is looked up by; None for no lookup.
        of_key: by state the share of events with the same key.
    """

    positions: Sequence[tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float]]]
    met: Sequence[Mapping[str, float] | None]
    of_key: Sequence[float]

    def flat(self) -> tuple[object, ...]:
        """All of them in order."""
        positions = [tuple(each.items()) for position in self.positions for each in position]
        return (*positions, *(tuple((each or {}).items()) for each in self.met), *self.of_key)


_flows: dict[tuple[int, tuple[tuple[str, float], ...], tuple[object, ...]], tuple[Automaton, Flow]] = {}


def flow_of(automaton: Automaton, rates: Rates, constants: Sequence[Attribute] = ()) -> Flow:
    """Flow through an automaton; remembered for patterns of the same shape, which have the same states, with the same
    rates and shares of events."""
    own, sides, lengths = _rates(automaton, rates)
    values = rates.situation.values
    registers = {each.name for each in automaton.registers}
    selectivity = Selectivity(values, constants or automaton.constants, registers)
    if automaton.parts:
        return _flow(automaton, own, sides, lengths, _shares(automaton, own, selectivity))
    # Without values the shares are those of the shape.
    shares = _shares(automaton, own, selectivity) if values else None
    key = id(automaton.states), tuple(own.items()), () if shares is None else shares.flat()
    known = _flows.get(key)
    if known is not None:
        return known[1]
    flow = _flow(automaton, own, sides, lengths, shares or _shares(automaton, own, selectivity))
    # The automaton is kept, so that its states are those of the key as long as this is here.
    _flows[key] = automaton, flow
    if len(_flows) > _KNOWN:
        _flows.pop(next(iter(_flows)), None)
    return flow


def _shares(automaton: Automaton, own: Mapping[str, float], selectivity: Selectivity) -> _Shares:
    # Of each position once, as each may be reached from all before it.
    positions = [
        (inside := selectivity.shares(each.domain, own), _read(automaton, each, inside),
         selectivity.shares(each.label, own))
        for each in automaton.positions
    ]  # fmt: skip
    waits = wait_keys(automaton)
    met: list[Mapping[str, float] | None] = []
    of_key = []
    for place, state in enumerate(automaton.states):
        read = sorted({name for move in state.moves for name in positions[move.position][0] if _is_event(name)})
        wait = None if waits is None else waits[place]
        met.append(None if wait is None else {name: selectivity.equal(name, wait.attribute) for name in read})
        keys = (*automaton.key, *(name for each in state.keys for name in automaton.inner_keys[each]))
        # Of several attributes that with the most values decides.
        of_key.append(
            min((selectivity.equal(name, key) for key in keys for name in read), default=EQUAL if keys else 1.0)
        )
    return _Shares(positions, met, of_key)


def _is_event(name: str) -> bool:
    return name[0] not in (TIMER_PREFIX, CLOCK_PREFIX)


def _flow(
    automaton: Automaton, own: dict[str, float], sides: Sequence[Flow], lengths: dict[str, float], shares: _Shares
) -> Flow:
    states = [_Waiting.of(automaton, place, own, shares, lengths) for place in range(len(automaton.states))]
    arriving = [0.0] * len(states)
    # How many events have been matched on arrival, times how many arrive.
    matched = [0.0] * len(states)
    found = length = 0.0
    touched = sum(each.touched for each in sides)
    current: dict[int, tuple[float, float]] = {}
    for start in automaton.starts:
        state = states[start]
        touched += min(sum(share for share, _, _ in state.onward), 1.0) * state.domain
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


def _read(automaton: Automaton, position: Position, inside: Mapping[str, float]) -> dict[str, float]:
    """Share of the events of each type in a domain that are tried on instances.

    A condition on the event alone is tested once for all of them.
    """
    return {
        name: 1.0 if position.keys or not is_on_event_alone(automaton, position.domain, name) else share
        for name, share in inside.items()
    }


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A state, and the moves of an instance there.

    Attributes:
        domain: events per second of the domain.
        touches: events tried on an instance until it leaves.
        onward: for each move the share of instances, number of events matched, and target states.
    """

    domain: float
    touches: float
    onward: tuple[tuple[float, float, tuple[int, ...]], ...]
    accepting: bool

    @classmethod
    def of(
        cls, automaton: Automaton, place: int, own: Mapping[str, float], shares: _Shares, lengths: Mapping[str, float]
    ) -> _Waiting:
        state, positions = automaton.states[place], shares.positions
        inside: dict[str, float] = {}
        read: dict[str, float] = {}
        labels: list[Mapping[str, float]] = []
        for move in state.moves:
            looked_at, tried, label = positions[move.position]
            for name, share in looked_at.items():
                inside[name] = max(inside.get(name, 0.0), share)
                read[name] = max(read.get(name, 0.0), tried[name])
            labels.append(label)
        domain = sum(own[name] * share for name, share in inside.items())
        survive = 1.0 if place in automaton.starts else _survive(automaton, state, domain * shares.of_key[place])
        onward = []
        for move, label in zip(state.moves, labels, strict=True):
            rate = sum(own[name] * share for name, share in label.items() if name in inside)
            parts = sum(own[name] * share * lengths.get(name, 1.0) for name, share in label.items() if name in inside)
            if rate and domain:
                size = parts / rate
                onward.append((min(rate / domain, 1.0) * survive, size, automaton.arrivals[move.position]))
        # One that has run out of its window is touched once more, which ends it.
        equal = shares.met[place]
        met = sum(
            own[name] * share * (1.0 if equal is None else equal[name])
            for name, share in read.items()
            if _is_event(name)
        )
        touches = met / domain * survive + 1.0 - survive if domain else 0.0
        return cls(domain, touches, tuple(onward), state.accepting)


def _survive(automaton: Automaton, state: AutomatonState, rate: float) -> float:
    """Share of instances still in their windows at the next event; `rate`: of those of their key in the domain."""
    windows = [automaton.windows[each] for each in state.windows]
    if automaton.whole_window is not None:
        windows.append(automaton.whole_window)
    return -math.expm1(-rate * min(windows) / SECOND) if windows else 1.0


def _rates(automaton: Automaton, rates: Rates) -> tuple[dict[str, float], list[Flow], dict[str, float]]:
    """Events per second by type, with time events and parts; flows through inner automata; events per part."""
    names: set[str] = set()
    for position in automaton.positions:
        names |= {name for name in position.domain.by_type if name[0] not in INSIDE}
        if position.domain.types() is None:
            names |= set(rates.situation.reading.types())
    own = {name: rates.of_type(name) for name in names}
    lengths: dict[str, float] = {}
    for index, timer in enumerate(automaton.timers):
        own[f"{TIMER_PREFIX}{index}"] = _timer_rate(timer)
    own |= {name: SECOND / (interval_of(name) or DAY) for name in automaton.clocks}
    sides: list[Flow] = []
    for index, part in enumerate(automaton.parts):
        name = automaton.type_of_part(index)
        if isinstance(part, Delegated):
            own[name] = rates.of_detector(part.detector)
            lengths[name] = float(size_of(part.whole))
        else:
            flow = flow_of(part, rates)
            own[name] = flow.found
            sides.append(flow)
            lengths[name] = flow.length
    return own, sides, lengths


def _timer_rate(timer: AutomatonTimer) -> float:
    first = timer.when.first if isinstance(timer.when, Recurring) else timer.when
    delay = first.delay if isinstance(first, Relative) else DAY
    return SECOND / max(delay, 1)
