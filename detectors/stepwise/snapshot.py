"""Snapshots of the whole state of an engine: for checkpoints, migration, and handover between engines.

Versioned msgpack, for engines of patterns with the same canonical ids. Events and chain links are written once,
referred to by number, so sharing persists. There may be a million instances, nearly all of them with one event: each is
a row with its event, written in half the time. Rejected: pickle; snapshots travel between nodes and outlive upgrades;
columns instead of rows, as most of the time goes into reading a dozen objects an instance from memory.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from distced.detectors.snapshot_format import (
    WIDE,
    pack_id,
    pack_key,
    pack_seq,
    seal,
    unpack_id,
    unpack_key,
    unpack_seq,
    unseal,
)
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.inner_events import PartEvent, PartMatch, TimeEvent
from distced.detectors.stepwise.instance import Instance, Origin
from distced.detectors.stepwise.matcher import Matcher
from distced.detectors.stepwise.provenance import StartGaps
from distced.middleware.model.errors import SnapshotError
from distced.middleware.model.events import Attribute, CompositeEvent, Derivation, Event, Gap

FORMAT: Final = "distced engine"
VERSION: Final = 3


class _MatcherState(msgspec.Struct, array_like=True):
    latest: int
    late: int
    numbers: int
    reported: list[Any]
    instances: list[Any]
    others: list[Any]
    gaps: list[Any]
    begun: list[Any] = []
    quiet: list[Any] = []


class _EngineState(msgspec.Struct, array_like=True):
    patterns: list[str]
    events: list[Any]
    links: list[tuple[int, int]]
    clock: int | None
    late: int
    pending: list[int]
    throttlers: list[list[Any]]
    matchers: list[_MatcherState]
    clocks: list[tuple[int, int]] | None = None


_NOTHING_SPENT: Final[frozenset[Any]] = frozenset()

_decoder = msgspec.msgpack.Decoder(_EngineState)


def snapshot(engine: StepwiseEngine) -> bytes:
    """The state of an engine between two calls."""
    writer = _SnapshotWriter()
    matchers = [writer.matcher(unit.matcher) for unit in engine.units]
    state = _EngineState(
        [pattern.canonical_id for pattern in engine.patterns],
        writer.events,
        writer.links,
        engine.clock if engine.clock >= -WIDE else None,
        engine.late,
        [writer.event(event) for event in engine.pending],
        [list(throttler.packed().items()) for throttler in engine.throttlers],
        matchers,
        None if engine.clocks is None else engine.clocks.packed(),
    )
    return seal(FORMAT, VERSION, msgspec.msgpack.encode(state))


def restore(engine: StepwiseEngine, content: bytes) -> None:
    """Restore a new engine for the same patterns; `SnapshotError` for invalid bytes, another version or patterns."""
    state = _decode(content)
    patterns = [pattern.canonical_id for pattern in engine.patterns]
    if state.patterns != patterns:
        raise SnapshotError("a snapshot of other patterns", given=state.patterns, allowed=", ".join(patterns))
    try:
        reader = _SnapshotReader(state)
        engine.clock = -WIDE - 1 if state.clock is None else state.clock
        engine.late = state.late
        engine.pending = [reader.events[place] for place in state.pending]
        for throttler, passed in zip(engine.throttlers, state.throttlers, strict=True):
            throttler.unpack({_unpack(key): interval for key, interval in passed})
        if engine.clocks is not None:
            engine.clocks.unpack(state.clocks)
        if any(each.gaps for each in state.matchers):
            engine.keep_derivations()
        for unit, each in zip(engine.units, state.matchers, strict=True):
            reader.fill(unit.matcher, each)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise SnapshotError("a damaged snapshot", given=str(error)) from error


def _decode(content: bytes) -> _EngineState:
    try:
        return _decoder.decode(unseal(FORMAT, VERSION, content))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError("a damaged snapshot of an engine", given=str(error)) from None


class _SnapshotWriter:
    """Writer of a snapshot that numbers events and links at their first occurrence, after those they refer to.

    Numbers go by identity: all events and links belong to the engine, which does not change meanwhile.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.links: list[tuple[int, int]] = []
        self._event_numbers: dict[int, int] = {}
        self._link_numbers: dict[int, int] = {}
        # Events of matchers whose instances have rows with their event.
        self._inlined: set[int] = set()

    def matcher(self, matcher: Matcher) -> _MatcherState:
        reported = [
            [pack_id(identity), [pack_id(each) for each in constituents], lo]
            for identity, (constituents, lo) in matcher.composites.reported.items()
        ]
        return _MatcherState(
            self.event(matcher.latest),
            matcher.late,
            matcher.store.numbers,
            reported,
            *self.instances(matcher),
            [] if matcher.gaps is None else _pack_gaps(matcher.gaps),
            list(matcher.begun or ()),
            [] if matcher.quiet is None else list(matcher.quiet.passed.items()),
        )

    def instances(self, matcher: Matcher) -> tuple[list[Any], list[Any]]:
        """Rows of instances of one event, with None for each of the others; and these."""
        instances, constants = matcher.store.instances(), len(matcher.constants)
        events = {id(each.last) for each in instances}
        if 2 * len(events) < len(instances) or not self._inlined.isdisjoint(events):
            # Events are referred to by many, perhaps of other matchers.
            return [None] * len(instances), [self._instance(each, constants) for each in instances]
        # All instances have as many of these as the start.
        root, bound = matcher.root, len(matcher.root.bindings)
        more = bool(root.windows or root.timers or root.bounds or len(root.registers) > constants)
        rows = [
            (
                each.state,
                each.key,
                each.lo,
                last.type,
                last.lo,
                last.hi,
                last.source,
                last.seq,
                last.attributes,
                (_registers(each, constants), each.windows, each.timers, each.bounds) if more else (),
            )
            if (chain := each.chain) is not None
            and chain[1] is (last := each.last)
            and chain[0] is None
            and last.__class__ is Event
            and last.seq < WIDE
            and (not bound or (bound == 1 and each.bindings[0] is last))
            and each.origin is None
            and not each.spent
            else None
            for each in instances
        ]
        self._inlined |= events
        others = [self._instance(each, constants) for each, row in zip(instances, rows, strict=True) if row is None]
        return rows, others

    def _instance(self, each: Instance, constants: int) -> tuple[Any, ...]:
        return (
            each.state,
            each.key,
            self.chain(each.chain),
            each.lo,
            self.event(each.last),
            [self.event(event) for event in each.bindings],
            _registers(each, constants),
            each.windows,
            each.timers,
            each.bounds,
            [[sorted(keys), values] for keys, values in each.spent],
            None if each.origin is None else _pack_origin(each.origin),
        )

    def chain(self, chain: Any) -> int:
        if chain is None:
            return -1
        numbers = self._link_numbers
        known = numbers.get(id(chain))
        if known is not None:
            return known
        if chain[0] is None:
            number = numbers[id(chain)] = len(self.links)
            self.links.append((-1, self.event(chain[1])))
            return number
        waiting = [chain]
        chain = chain[0]
        while chain is not None and id(chain) not in numbers:
            waiting.append(chain)
            chain = chain[0]
        number = -1 if chain is None else numbers[id(chain)]
        for link in reversed(waiting):
            self.links.append((number, self.event(link[1])))
            number = len(self.links) - 1
            self._link_numbers[id(link)] = number
        return number

    def event(self, event: Event | None) -> int:
        if event is None:
            return -1
        number = self._event_numbers.get(id(event))
        if number is None:
            packed = self._packed(event)
            number = self._event_numbers[id(event)] = len(self.events)
            self.events.append(packed)
        return number

    def _packed(self, event: Event) -> list[Any]:
        seq = event.seq
        if event.__class__ is Event:
            plain = seq if seq < WIDE else pack_seq(seq)
            return ["e", event.type, event.lo, event.hi, event.source, plain, event.attributes]
        head = [event.type, event.lo, event.hi, event.source, pack_seq(seq), event.attributes]
        if isinstance(event, TimeEvent):
            return ["t", *head]
        if not isinstance(event, CompositeEvent):
            return ["e", *head]
        ids = [pack_id(identity) for identity in event.constituents]
        body = [*head, ids, [self.event(each) for each in event.events]]
        if isinstance(event, PartEvent):
            handed_on = [{name: self.event(each) for name, each in event.bound.items()}, event.counted]
            if isinstance(event, PartMatch):
                return ["m", *body, *handed_on, pack_key(event.derivation.last)]
            return ["p", *body, *handed_on]
        if event.derivations:
            return ["r", *body, [self.derivation(each) for each in event.derivations], event.again]
        return ["c", *body]

    def derivation(self, derivation: Derivation) -> list[Any]:
        bound = {name: self.event(each) for name, each in derivation.bound.items()}
        origin = _pack_origin((derivation.first, derivation.gap.previous, derivation.gap.greatest_lo))
        return [origin, pack_key(derivation.last), derivation.lo, list(derivation.key), bound, derivation.counted]


class _SnapshotReader:
    def __init__(self, state: _EngineState) -> None:
        self.events: list[Event] = []
        for packed in state.events:
            self.events.append(self._event(packed))
        self.chains: list[Any] = []
        for parent, event in state.links:
            self.chains.append((self.chains[parent] if parent >= 0 else None, self.events[event]))
        # An event of a single instance may be one of another instance, too.
        self._plain = {each.id: each for each in self.events if each.__class__ is Event}

    def fill(self, matcher: Matcher, state: _MatcherState) -> None:
        matcher.resume(self._at(state.latest), state.numbers)
        matcher.late = state.late
        matcher.composites.reported = {
            unpack_id(identity): (tuple(unpack_id(each) for each in constituents), lo)
            for identity, constituents, lo in state.reported
        }
        if matcher.automaton.once:
            matcher.stand_again(map(_unpack, state.begun))
        if matcher.quiet is not None:
            matcher.quiet.passed = {_unpack(key): hi for key, hi in state.quiet}
        others = iter(state.others)
        for row in state.instances:
            if row is None:
                matcher.store.add(self._instance(next(others), matcher.constants))
            else:
                matcher.store.add(self._single(row, matcher))
        if state.gaps:
            matcher.keep_derivations()
            assert matcher.gaps is not None
            _unpack_gaps(matcher.gaps, state.gaps)
        elif matcher.gaps is not None:
            # It kept none so far; from now on it does.
            matcher.gaps = None
            matcher.keep_derivations()

    def _single(self, packed: list[Any], matcher: Matcher) -> Instance:
        state, key, lo, type_name, event_lo, hi, source, seq, attributes, more = packed
        event = self._plain.get((source, seq)) if self._plain else None
        if event is None or (event.type, event.lo, event.hi, event.attributes) != (type_name, event_lo, hi, attributes):
            event = Event(type_name, event_lo, hi, source, seq, attributes)
        registers, windows, timers, bounds = map(tuple, more) if more else ((), (), (), ())
        return Instance(
            state,
            _unpack(key),
            (None, event),
            lo,
            hi,
            event,
            (event,) * len(matcher.root.bindings),
            (*map(_unpack, registers), *matcher.constants) if registers else matcher.constants,
            windows,
            timers,
            bounds,
            _NOTHING_SPENT,
        )

    def _instance(self, packed: list[Any], constants: tuple[Attribute, ...]) -> Instance:
        state, key, chain, lo, last, bindings, registers, windows, timers, bounds, spent, origin = packed
        event = self._at(last)
        return Instance(
            state,
            _unpack(key),
            self.chains[chain] if chain >= 0 else None,
            lo,
            event.hi if event is not None else -WIDE - 1,
            event,
            tuple(self._at(each) for each in bindings),
            (*map(_unpack, registers), *constants),
            tuple(windows),
            tuple(timers),
            tuple(bounds),
            frozenset((frozenset(keys), tuple(_unpack(value) for value in values)) for keys, values in spent),
            None if origin is None else _unpack_origin(origin),
        )

    def _at(self, number: int) -> Event | None:
        return self.events[number] if number >= 0 else None

    def _event(self, packed: list[Any]) -> Event:
        kind, type_name, lo, hi, source, seq, attributes, *rest = packed
        head = (type_name, lo, hi, source, unpack_seq(seq), attributes)
        if kind == "e":
            return Event(*head)
        if kind == "t":
            return TimeEvent(*head)
        constituents = tuple(unpack_id(identity) for identity in rest[0])
        events = tuple(self.events[each] for each in rest[1])
        if kind == "c":
            return CompositeEvent(*head, constituents=constituents, events=events)
        if kind == "r":
            derivations = tuple(map(self._derivation, rest[2]))
            return CompositeEvent(
                *head, constituents=constituents, events=events, derivations=derivations, again=rest[3]
            )
        bound = {name: self.events[each] for name, each in rest[2].items()}
        if kind == "p":
            return PartEvent(*head, constituents=constituents, events=events, bound=bound, counted=rest[3])
        last = unpack_key(rest[4])
        # It has been consumed already, so it does not matter any more when it began.
        derivation = Derivation(last, last, lo, Gap(), bound=bound, counted=rest[3])
        return PartMatch(
            *head, constituents=constituents, events=events, bound=bound, counted=rest[3], derivation=derivation
        )

    def _derivation(self, packed: list[Any]) -> Derivation:
        origin, last, lo, key, bound, counted = packed
        first, previous, greatest_lo = _unpack_origin(origin)
        bound = {name: self.events[each] for name, each in bound.items()}
        return Derivation(first, unpack_key(last), lo, Gap(previous, greatest_lo), tuple(key), bound, counted)


def _registers(instance: Instance, constants: int) -> tuple[Attribute, ...]:
    return instance.registers[:-constants] if constants else instance.registers


def _pack_origin(origin: Origin) -> list[Any]:
    first, previous, greatest_lo = origin
    return [pack_key(first), None if previous is None else pack_key(previous), greatest_lo]


def _unpack_origin(packed: list[Any]) -> Origin:
    first, previous, greatest_lo = packed
    return unpack_key(first), None if previous is None else unpack_key(previous), greatest_lo


def _pack_gap(gap: Gap) -> list[Any]:
    return [None if gap.previous is None else pack_key(gap.previous), gap.greatest_lo]


def _unpack_gap(packed: list[Any]) -> Gap:
    previous, greatest_lo = packed
    return Gap(None if previous is None else unpack_key(previous), greatest_lo)


def _pack_gaps(gaps: StartGaps) -> list[Any]:
    seen = [
        [state, key, sorted(keys), values, pack_key(previous), lo]
        for (state, key, keys, values), (previous, lo) in gaps.seen.items()
    ]
    answered = [[name, key, _pack_gap(gap)] for (name, key), gap in gaps.answered.items()]
    announced = [[key, _pack_gap(gap)] for key, gap in gaps.announced.items()]
    floor = None if gaps.floor is None else [pack_key(gaps.floor[0]), gaps.floor[1]]
    return [seen, answered, list(gaps.touched), announced, floor]


def _unpack_gaps(gaps: StartGaps, packed: list[Any]) -> None:
    seen, answered, touched, announced, floor = packed
    gaps.floor = None if floor is None else (unpack_key(floor[0]), floor[1])
    gaps.seen = {
        (state, _unpack(key), frozenset(keys), tuple(_unpack(value) for value in values)): (unpack_key(previous), lo)
        for state, key, keys, values, previous, lo in seen
    }
    gaps.answered = {(name, _unpack(key)): _unpack_gap(gap) for name, key, gap in answered}
    gaps.touched = {_unpack(key) for key in touched}
    gaps.announced = {_unpack(key): _unpack_gap(gap) for key, gap in announced}


# A key keeps booleans in tuples, apart from 0 and 1, and several attributes in a tuple: an array says which.
def _unpack(value: Any) -> Any:
    return tuple(_unpack(each) for each in value) if isinstance(value, list) else value
