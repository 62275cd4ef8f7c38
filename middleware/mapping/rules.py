"""Rule of a mapping at work: from a message it applies to, to an event or the reason why there is none.

MQTT delivers at least once at QoS 1, and recorders often listen twice. A delivery counts as the second of an event
where rule, source and the values named by the rule (or else the whole payload) are the same within a duration.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from distced.middleware.mapping.clocks import Claim, ClockPolicy, SourceClock, TimeReader
from distced.middleware.mapping.conversion import AttributeReader, keys_text, to_number
from distced.middleware.mapping.extraction import (
    DeviceMessage,
    Pick,
    RuleCondition,
    TopicFilter,
    as_fields,
    compile_path,
    text_of,
)
from distced.middleware.mapping.missing_paths import Probe, Unseen
from distced.middleware.mapping.reads import RuleReads
from distced.middleware.mapping.schema import DuplicatesSpec, PayloadFormat
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MIN, parse_duration


class Lookup(NamedTuple):
    """Event type looked up by a value of the message."""

    pick: Pick
    types: dict[str, str]
    default: str | None


@dataclass(slots=True)
class Memory:
    """Memory of a mapping; rules themselves have no state.

    Attributes:
        first_seq: sequence number of each source's first event.
        sources: by name, every source that an event has come from.
        deliveries: by the name of the rule, where it looks for second deliveries.
        counts: by the name of the rule and by outcome.
        unseen: by the name of the rule, its paths that have not had a value.
    """

    first_seq: int
    sources: dict[str, SourceClock] = field(default_factory=dict)
    deliveries: defaultdict[str, Deliveries] = field(default_factory=lambda: defaultdict(Deliveries))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    unseen: dict[str, Unseen] = field(default_factory=dict)


@dataclass(slots=True)
class Rule:
    """Compiled rule; the fields are those of `RuleSpec`.

    Attributes:
        payload: format, columns and separator of a payload.
        kinds: the kind of each attribute.
        going, choosing, reading: its paths, which are probed for a value: of `each`, of the conditions, of the event.
        reads: paths of its parts; None where it is read row by row.
        unknown: attributes that only other rules of the same event type know; they are null.
    """

    name: str
    topic: TopicFilter | None
    payload: tuple[PayloadFormat, tuple[str, ...], str]
    when: tuple[RuleCondition, ...]
    each: Pick | None
    final: bool
    type: str | Lookup
    source: Pick
    sequence: Pick | None
    attributes: dict[str, AttributeReader]
    kinds: dict[str, Kind]
    time: TimeReader
    clock: ClockPolicy
    duplicates: Duplicates | None
    going: tuple[Probe, ...] = ()
    choosing: tuple[Probe, ...] = ()
    reading: tuple[Probe, ...] = ()
    reads: RuleReads | None = None
    unknown: dict[str, Attribute] = field(default_factory=dict)

    @property
    def types(self) -> set[str]:
        """Event types it can give."""
        if isinstance(self.type, str):
            return {self.type}
        return {*self.type.types.values()} | ({self.type.default} if self.type.default is not None else set())

    def apply(
        self, message: DeviceMessage, arrival: int | None, where: str, memory: Memory
    ) -> tuple[bool, list[Event], list[Rejected]]:
        """Whether the rule applies to a message or row, its events, and its rejections."""
        events: list[Event] = []
        rejected: list[Rejected] = []
        applies = False
        unseen = memory.unseen.get(self.name)
        if unseen is None:
            unseen = memory.unseen[self.name] = Unseen(self.going, self.choosing, self.reading)
        if unseen.going:
            unseen.go(message)
        for element in self._elements(message):
            if isinstance(element, MappingError):
                return True, events, [self._reject(where, "each", element, message.fields, memory)]
            if unseen.choosing:
                unseen.choose(element)
            for condition in self.when:
                if not condition(element):
                    break
            else:
                applies = True
                if unseen.reading:
                    unseen.read(element)
                made = self._make(element, arrival, where, memory)
                if isinstance(made, Event):
                    events.append(made)
                elif made is not None:
                    rejected.append(made)
        return applies, events, rejected

    def _elements(self, message: DeviceMessage) -> Iterator[DeviceMessage | MappingError]:
        if self.each is None:
            yield message
            return
        found = self.each(message)
        if isinstance(found, dict):
            items = [(str(key), value) for key, value in found.items()]
        elif isinstance(found, list):
            items = [(str(place), value) for place, value in enumerate(found)]
        else:
            if found is not None:
                yield MappingError("nothing to go through", given=found, allowed="an array or a table")
            return
        for key, value in items:
            yield DeviceMessage(as_fields(value), {**message.outside, "key": key})

    def _make(self, message: DeviceMessage, arrival: int | None, where: str, memory: Memory) -> Event | Rejected | None:
        """Event of a message; None for a second delivery. Nothing is remembered of a message that is rejected."""
        stage = "source"
        try:
            source = self.read_source(message)
            # A number of the source's own starts where the source does.
            first = memory.first_seq if self.sequence is None else 0
            state = memory.sources.get(source) or SourceClock(first - 1)

            stage = "time"
            claim, problem = self._claim(message, arrival, state)
            now = arrival
            if now is None and claim is not None and not self.clock.needs_arrival:
                now = claim.hi
            if self.duplicates is not None:
                delivery = self.duplicates.key(message, source)
                if memory.deliveries[self.name].known(delivery, now, self.duplicates.within):
                    memory.counts[self.name, "duplicate"] += 1
                    return None

            stage = "type"
            event_type = self.read_type(message)
            stage = "attribute"
            attributes = self._read_attributes(message, memory)
            stage = "sequence"
            seq = state.seq + 1 if self.sequence is None else self._grown(self.read_number(message), state)
            stage = "time"
            lo, hi, remarks = self.clock.settle(claim, problem, arrival, state)
        except MappingError as error:
            return self._reject(where, stage, error, message.fields, memory)
        if self.duplicates is not None:
            memory.deliveries[self.name].remember(delivery, hi if now is None else now, self.duplicates.within)
        for remark in remarks:
            memory.counts[self.name, remark] += 1
        memory.counts[self.name, "event"] += 1
        state.seq = seq
        memory.sources[source] = state
        return Event(event_type, lo, hi, source, seq, attributes)

    def read_source(self, message: DeviceMessage) -> str:
        """Source of a message."""
        source = self.source(message)
        if not isinstance(source, str) or not source:
            raise MappingError("no source", advice="a field or level that its template names is missing")
        return source

    def _read_attributes(self, message: DeviceMessage, memory: Memory) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        for name, reader in self.attributes.items():
            try:
                attributes[name] = reader.read(message)
            except MappingError:
                if not reader.forgiving:
                    raise
                attributes[name] = reader.default
                memory.counts[self.name, "nulled"] += 1
        if self.unknown:
            attributes.update(self.unknown)
        return attributes

    def _claim(
        self, message: DeviceMessage, arrival: int | None, state: SourceClock
    ) -> tuple[Claim | None, MappingError | None]:
        try:
            return self.time.read(message, arrival, state.claim), None
        except MappingError as error:
            return None, error

    def read_type(self, message: DeviceMessage) -> str:
        """Event type of a message."""
        if isinstance(self.type, str):
            return self.type
        value = self.type.pick(message)
        found = self.type.types.get(text_of(value) or "", self.type.default)
        if found is None:
            raise MappingError(
                "no event type for this value", given=value, allowed=keys_text(self.type.types),
                advice="add it to type.lookup, give type.default, or exclude it by a condition",
            )  # fmt: skip
        return found

    def read_number(self, message: DeviceMessage) -> int:
        """Sequence number of a message of a rule that has a path for it."""
        assert self.sequence is not None
        value = self.sequence(message)
        number = None if value is None else to_number(value)
        if type(number) is not int or number < 0:
            raise MappingError("not a sequence number", given=value, allowed="an integer from 0, of 64 bits")
        return number

    @staticmethod
    def _grown(number: int, state: SourceClock) -> int:
        if number <= state.seq:
            raise MappingError(
                "a sequence number that does not grow", given=number, allowed=f"more than {state.seq}",
                advice="leave out sequence, and events are counted; or give each rule a source of its own",
            )  # fmt: skip
        return number

    def _reject(self, where: str, reason: str, error: MappingError, given: object, memory: Memory) -> Rejected:
        memory.counts[self.name, f"rejected: {reason}"] += 1
        return Rejected(where, self.name, reason, located(error, f"{where}, rule {self.name}"), given)


REMEMBERED: Final = 100_000  # most deliveries a rule remembers; the oldest are forgotten first
_encoder = msgspec.json.Encoder(order="sorted")


class Duplicates:
    """Recognition of second deliveries; each is remembered for `within` ns."""

    def __init__(self, spec: DuplicatesSpec, outside: Callable[[str], bool]) -> None:
        try:
            self.within = parse_duration(spec.within)
        except DistcedError as error:
            raise MappingError("within is no duration", given=spec.within, allowed=error.allowed) from None
        self._by = [compile_path(path, outside) for path in spec.by]

    def key(self, message: DeviceMessage, source: str) -> Hashable:
        """Key that two deliveries of one event share."""
        values = [pick(message) for pick in self._by]
        if values and None not in values:
            # As JSON, because a value may be a table, and true is not 1 there.
            return source, _encoder.encode(values)
        whole = _encoder.encode([message.outside.get("topic"), message.outside.get("key"), message.fields])
        return source, blake2b(whole, digest_size=16).digest()


class Deliveries:
    """Deliveries remembered for a rule.

    Attributes:
        seen: when each was seen, ns, by its key, in the order of coming; at most `REMEMBERED`.
        latest: the latest time seen, ns; it only grows.
    """

    def __init__(self) -> None:
        self.seen: OrderedDict[Hashable, int] = OrderedDict()
        self.latest = INSTANT_MIN

    def known(self, key: Hashable, now: int | None, within: int) -> bool:
        """Whether a delivery with this key was seen within `within` ns of `now`; None for unknown."""
        seen = self.seen.get(key)
        return seen is not None and (now is None or abs(now - seen) <= within)

    def remember(self, key: Hashable, now: int, within: int) -> None:
        """Remember a delivery, and forget those too old to matter."""
        self.latest = max(self.latest, now)
        self.seen.pop(key, None)
        self.seen[key] = now
        while len(self.seen) > REMEMBERED or self.latest - next(iter(self.seen.values())) > within:
            self.seen.popitem(last=False)
            if not self.seen:
                break


class Rejected(NamedTuple):
    """Message or row, or a part of one, that should have become an event and did not.

    Attributes:
        where: its topic, or its file and row.
        rule: name of the rule; empty where it failed before any rule.
        reason: payload, row, arrival, each, source, type, attribute, time or sequence.
        given: fields, payload or line, as they came.
    """

    where: str
    rule: str
    reason: str
    error: DistcedError
    given: object


def located(error: DistcedError, where: str) -> MappingError:
    """Copy of an error with the place it happened at."""
    place = where if error.where is None else f"{where}, {error.where}"
    return MappingError(error.problem, given=error.given, allowed=error.allowed, where=place, advice=error.advice)


def rejected_line(rejected: Rejected) -> bytes:
    """JSON line of rejected input."""
    shown = {"where": rejected.where, "rule": rejected.rule, "reason": rejected.reason, **rejected.error.as_dict()}
    line = json.dumps({**shown, "row": rejected.given}, ensure_ascii=False, default=repr)
    # What is no text may be why it was rejected.
    return line.encode(errors="backslashreplace") + b"\n"
