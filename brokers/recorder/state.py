"""State of a recorder: stable and late events, sources waited for, and the operations that change it.

Design, sections 3 and 4. It consumes events by the policy of guaranteed detection: it writes the events that a detector
would have consumed, in that order. Every change is an *operation*, a plain value; an earlier state and the operations
since, the content of the journal (`brokers.live.recorder_journal`), restore it. A restart neither loses events nor
writes any twice: a `StableCut`, applied again, gives the same events, and the history makes the same files.

Journaling of messages was rejected: their meaning depends on the directory and on barriers under way, which are lost at
a restart.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from distced.brokers.core.effects import Effect
from distced.detectors.runtime.detection_policy import Begins, Released
from distced.detectors.snapshot_format import WIDE, pack_event, unpack_event
from distced.middleware.history.late_events import LateEvent
from distced.middleware.history.layout import NotedLoss
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event, EventId
from distced.middleware.model.published_types import PublishedType, agreed
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.numbered_stream import StreamPosition
from distced.policies.detection.guaranteed import Guaranteed
from distced.policies.detection.recent_ids import RecentIds

RUNS: Final = 16
"""Runs remembered of a source: those of the greatest numbers."""

SOURCES: Final = 50_000
"""Sources remembered: those received from last."""


class Runs:
    """Runs without gaps of the sequence numbers received, by source; numbers that are digests form none.

    They distinguish late events from old unacknowledged ones, repeated by a source that was away.
    """

    def __init__(self, state: Mapping[str, Sequence[Sequence[int]]] | None = None) -> None:
        """From the result of `state`."""
        self._runs = {source: [list(run) for run in runs] for source, runs in (state or {}).items()}

    def __contains__(self, identity: EventId) -> bool:
        source, number = identity
        return any(first <= number <= last for first, last in self._runs.get(source, ()))

    def add(self, identity: EventId) -> None:
        """Add the id of an event received."""
        source, number = identity
        if number >= WIDE:
            return
        # Ordered by last reception.
        runs = self._runs[source] = self._runs.pop(source, [])
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
            return
        if len(self._runs) > SOURCES:
            del self._runs[next(iter(self._runs))]
        _insert(runs, number)
        if len(runs) > RUNS:
            del runs[0]

    def state(self) -> dict[str, list[list[int]]]:
        """Runs as plain values, to be remembered."""
        return self._runs


def _insert(runs: list[list[int]], number: int) -> None:
    """Insert a number into ordered, disjoint runs."""
    place = bisect(runs, number, key=lambda run: run[0])
    if place and number <= runs[place - 1][1]:
        return
    begins = place < len(runs) and runs[place][0] == number + 1
    if place and runs[place - 1][1] + 1 == number:
        runs[place - 1][1] = runs.pop(place)[1] if begins else number
    elif begins:
        runs[place][0] = number
    else:
        runs.insert(place, [number, number])


LOSSES: Final = 1_000
"""Losses noted; beyond that the first are united."""

REMEMBERED: Final = 50_000
"""Ids remembered to tell events delivered again from late ones; those of detectors are in no order (`Runs`)."""


class _Operation(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    pass


class TypesChosen(_Operation, frozen=True, tag="Wanted"):
    """Change of the recorded types; None for all."""

    types: tuple[str, ...] | None


class Entered(_Operation, frozen=True):
    """Entry of the directory, of a type, a source or a detector; cleared without a payload."""

    kind: str
    name: str
    payload: bytes


class Met(_Operation, frozen=True):
    """Connection to a home, with messages missing since an instant, ns; None where the server has kept them."""

    home: str
    missing: int | None
    now: int


class Resubscribed(_Operation, frozen=True, tag="Listening"):
    """Repeated subscriptions in force, over a connection begun at an instant, ns."""

    began: int
    now: int


class Begun(_Operation, frozen=True):
    """Lower bound: nothing with `hi` at or before this is recorded any more; None for no bound.

    Attributes:
        since, gaps: notes of an otherwise lost earlier life, from the history.
        heard: end of its reception, ns; events published since may be missing. None for no earlier life.
        losses: as `gaps`.
    """

    watermark: int | None
    since: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    heard: int | None = None
    losses: tuple[NotedLoss, ...] = ()


class Joined(_Operation, frozen=True):
    """Source waited for from now on, at the `home` where it publishes; or detector to be recorded, with None.

    Attributes:
        types, first, running: its numbered streams (`Begins`); none where it has no numbers.
    """

    source: str
    home: str | None
    watermark: int
    lease: int
    now: int
    types: tuple[str, ...] = ()
    first: int = 0
    running: bool = False


class Left(_Operation, frozen=True):
    """Source or detector that has ended."""

    source: str
    now: int


class Fenced(_Operation, frozen=True):
    """Source or detector fenced off: not waited for any more."""

    source: str
    now: int


class Heard(_Operation, frozen=True):
    """Events received from a source, packed; `position`: fields of a `StreamPosition`, None without numbers."""

    source: str
    rows: list[Any]
    watermark: int | None
    now: int
    position: tuple[str, int, int | None] | None = None


class Beat(_Operation, frozen=True):
    """Watermark of sources, with the positions of each."""

    sources: tuple[str, ...]
    watermark: int
    now: int
    positions: tuple[tuple[tuple[str, int, int | None], ...], ...] = ()


class Answered(_Operation, frozen=True):
    """Answer of a publisher about messages that were missing."""

    lost: Unavailable
    now: int


class Lost(_Operation, frozen=True):
    """Losses that a publisher, or a detector, has reported."""

    losses: tuple[NotedLoss, ...]


class StableCut(_Operation, frozen=True, tag="Cut"):
    """Cut of the stable events, to be written."""

    now: int


Operation: TypeAlias = (
    TypesChosen
    | Entered
    | Met
    | Resubscribed
    | Begun
    | Joined
    | Left
    | Fenced
    | Heard
    | Beat
    | Answered
    | Lost
    | StableCut
)

encode_operation = msgspec.msgpack.Encoder().encode
_operations = msgspec.msgpack.Decoder(Operation)


def decode_operation(packed: bytes) -> Operation:
    """Inverse of `encode_operation`."""
    decoded: Operation = _operations.decode(packed)
    return decoded


class Batch(msgspec.Struct, frozen=True):
    """Events written at once.

    Attributes:
        events: in the order of consumption, all beyond those of the batch before.
        late: events behind the watermark, with their arrival.
        watermark: every event with `hi` at or before it is in this batch or in one before; None for unknown.
        types: known types of the events.
        names: the recorded types.
        since, gaps: begin of the recording, and intervals without reception, ns.
        losses: intervals of event time in which events are missing for good.
    """

    events: list[Event]
    late: list[LateEvent]
    watermark: int | None
    types: list[EventType]
    names: tuple[str, ...]
    since: int | None
    gaps: tuple[tuple[int, int], ...]
    losses: tuple[NotedLoss, ...] = ()


class _State(msgspec.Struct, array_like=True):
    wants: tuple[str, ...] | None
    policy: Any
    entries: list[tuple[str, str, bytes]]
    joined: dict[str, str | None]
    met: list[str]
    since: int | None
    heard: int
    gaps: list[tuple[int, int]]
    runs: dict[str, list[list[int]]] = {}
    losses: tuple[NotedLoss, ...] = ()


_states = msgspec.msgpack.Decoder(_State)


class _Recording(Guaranteed):
    """Guaranteed detection that loses no late events: they are recorded as such."""

    def lose_late(self, late: list[Event]) -> None:
        pass


class RecorderState:
    """State of a recorder.

    Attributes:
        wants: types to record; None for all.
        policy: decides which events are stable.
        runs: sequence numbers of all events received.
        entries: payloads of the relevant directory entries, by kind and name.
        joined: inputs waited for: sources with their homes, detectors with None.
        met: all homes ever connected to.
        since, heard, gaps: begin of the recording, last reception, intervals without reception, ns.
        losses: intervals of event time in which events are missing for good: of a greater number the first are united.
        stable, late: events to be written.
        counts: events received, written, late, and duplicates, since the start of the process.
    """

    def __init__(self) -> None:
        self.wants: tuple[str, ...] | None = ()
        self.policy: Guaranteed = _Recording()
        self.policy.recent = RecentIds(REMEMBERED)
        self.runs = Runs()
        self.entries: dict[tuple[str, str], bytes] = {}
        self.joined: dict[str, str | None] = {}
        self.met: set[str] = set()
        self.since: int | None = None
        self.heard = 0
        self.gaps: list[tuple[int, int]] = []
        self.losses: tuple[NotedLoss, ...] = ()
        self.stable: list[Event] = []
        self.late: list[LateEvent] = []
        self.counts = {"events": 0, "written": 0, "late": 0, "duplicates": 0}

    @property
    def floor(self) -> int:
        """Watermark, the least instant before anything was released."""
        return INSTANT_MIN if self.policy.watermark is None else self.policy.watermark

    def wants_type(self, name: str) -> bool:
        """Whether events of a type are recorded."""
        return self.wants is None or name in self.wants

    def expired(self, now: int) -> list[str]:
        """Sources whose leases have expired."""
        return [name for name, each in self.policy.sources.items() if each.lease and now - each.heard > each.lease]

    def packed(self) -> bytes:
        """State as bytes, once everything stable is written."""
        assert not self.stable and not self.late
        *policy, _, intake, _, _ = self.policy.state()
        entries = [(kind, name, payload) for (kind, name), payload in self.entries.items()]
        state = _State(
            self.wants, [*policy, self.policy.recent.ids(), intake], entries, self.joined, sorted(self.met), self.since,
            self.heard, self.gaps, self.runs.state(), self.losses,
        )  # fmt: skip
        return msgspec.msgpack.encode(state)

    def resume(self, state: bytes) -> None:
        """Continue from the result of `packed`."""
        try:
            read = _states.decode(state)
            self.policy.resume(read.policy)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise HistoryError("what a recorder remembered cannot be read", advice=str(error)) from None
        self.wants = read.wants
        self.entries = {(kind, name): payload for kind, name, payload in read.entries}
        self.joined, self.met, self.since = read.joined, set(read.met), read.since
        self.heard, self.gaps, self.runs = read.heard, read.gaps, Runs(read.runs)
        self.losses = read.losses

    # Operations.

    def apply(self, operation: Operation) -> Batch | None:
        """Apply a journaled operation again; of a `StableCut` the events written."""
        match operation:
            case Heard(source=source, rows=rows, watermark=watermark, now=now):
                position = None if operation.position is None else StreamPosition(*operation.position)
                self.hear(source, [unpack_event(each) for each in rows], watermark, now, position)
            case Beat(sources=sources, watermark=watermark, now=now, positions=positions):
                self._took(self.policy.heartbeat(sources, watermark, now, positions), now)
            case Answered(lost=lost, now=now):
                self._took(self.policy.unavailable(lost, now), now)
            case Lost(losses=losses):
                self._lose(losses)
            case Joined():
                self.join(operation)
            case Left(source=source, now=now):
                self.joined.pop(source, None)
                self._took(self.policy.leave(source, now), now)
            case Fenced(source=source, now=now):
                self._took(self.policy.fence(source, now), now)
            case Entered(kind=kind, name=name, payload=payload):
                if payload:
                    self.entries[kind, name] = payload
                else:
                    self.entries.pop((kind, name), None)
            case TypesChosen(types=types):
                self.wants = types
            case Met():
                self.meet(operation)
            case Resubscribed(began=began, now=now):
                self.gaps = [(begin, now if end == began else end) for begin, end in self.gaps]
                self.since = now if self.since == began else self.since
            case Begun():
                self.begin(operation)
            case StableCut():
                return self.cut()
        return None

    def hear(
        self, source: str, events: list[Event], watermark: int | None, now: int, position: StreamPosition | None = None
    ) -> Released:
        """Take events of a source."""
        self.counts["events"] += len(events)
        released = self.policy.receive(source, events, watermark, now, position)
        again = {each.id for each in released.late if each.id in self.runs}
        if again:
            late = [each for each in released.late if each.id not in again]
            released = replace(released, late=late, duplicates=released.duplicates + len(again))
        for each in events:
            self.runs.add(each.id)
        return self._took(released, now)

    def join(self, joined: Joined) -> int:
        """Wait for an input; the watermark of all."""
        self.joined[joined.source] = joined.home
        begins = Begins(joined.types, joined.first, joined.running)
        return self.policy.join(joined.source, joined.watermark, joined.now, joined.lease, begins)

    def begin(self, begun: Begun) -> None:
        """Replace a recorder of which only the history is left."""
        self.policy.watermark = begun.watermark
        if begun.heard is not None:
            self.since, self.gaps, self.heard = begun.since, list(begun.gaps), begun.heard
            self.losses = begun.losses
            # That it was there before makes a gap of what it has not heard since.
            self.met.add("")

    def meet(self, met: Met) -> None:
        """Note a connection."""
        if met.missing is not None:
            self.gaps.append((met.missing, met.now))
        self.met.add(met.home)
        self.since = met.now if self.since is None else self.since
        self.heard = max(self.heard, met.now)
        # No source could be heard meanwhile.
        for each in self.policy.sources.values():
            each.heard = max(each.heard, met.now)

    def cut(self) -> Batch:
        """Stable events, to be written."""
        events, self.stable = self.stable, []
        late, self.late = self.late, []
        self.counts["written"] += len(events)
        known = self._types()
        used = {each.type for each in events}
        names = tuple(sorted(known if self.wants is None else self.wants))
        types = [each for name, each in known.items() if name in used]
        return Batch(events, late, self.policy.watermark, types, names, self.since, tuple(self.gaps), self.losses)

    def _took(self, released: Released, now: int) -> Released:
        self.heard = max(self.heard, now)
        self.stable += released.events
        self.late += [LateEvent(each, now) for each in released.late]
        self.counts["late"] += len(released.late)
        self.counts["duplicates"] += released.duplicates
        self._lose((each.since, each.until, each.reason) for each in released.losses)
        return released

    def _lose(self, losses: Iterable[NotedLoss]) -> None:
        found = [*self.losses, *(each for each in losses if each not in self.losses)]
        while len(found) > LOSSES:
            one, other = found[:2]
            found[:2] = [(min(one[0], other[0]), max(one[1], other[1]), other[2])]
        self.losses = tuple(found)

    def _types(self) -> dict[str, EventType]:
        """Types that events are published under, by name."""
        found: dict[str, EventType] = {}
        published: dict[str, list[PublishedType]] = {}
        for (kind, name), payload in self.entries.items():
            if kind == "detector":
                entry = decode(payload, DetectorEntry, where=name)
                if entry.publishes:
                    published.setdefault(entry.publishes, []).append(entry.published)
            elif kind == "type":
                registered = decode(payload, EventType, where=name)
                if registered.derived is None:
                    found[name] = registered
        return {name: agreed(types).event_type for name, types in published.items()} | found


class JournaledState:
    """State changed by operations only, each of which goes to the journal."""

    def __init__(self, state: RecorderState) -> None:
        self.state = state
        self._operations: list[bytes] = []

    def do(self, operation: Operation) -> Batch | None:
        """Apply an operation; the batch to be written of a `StableCut`."""
        self._operations.append(encode_operation(operation))
        return self.state.apply(operation)

    def hear(
        self, source: str, events: list[Event], watermark: int | None, now: int, position: StreamPosition | None = None
    ) -> None:
        """Take events of a source."""
        heard = Heard(source, [pack_event(event) for event in events], watermark, now, position)
        self._operations.append(encode_operation(heard))
        self.state.hear(source, events, watermark, now, position)

    def join(self, joined: Joined) -> int:
        """Wait for a source or detector; the watermark of the state."""
        self._operations.append(encode_operation(joined))
        return self.state.join(joined)

    def taken(self) -> list[bytes]:
        """Operations since the last call, packed."""
        operations, self._operations = self._operations, []
        return operations


class Append(msgspec.Struct, frozen=True):
    """Journal an operation, packed, before anything received until now is acknowledged."""

    operation: bytes


class Write(msgspec.Struct, frozen=True):
    """Write a batch; operations journaled before it are not needed then."""

    batch: Batch


RecorderEffect: TypeAlias = Effect | Append | Write
