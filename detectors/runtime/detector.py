"""The mobile detector: an automaton with its state; events go in, composite events come out.

composite-event-framework-2004, "Mobile Composite Event Detectors": an agent-like thing that encapsulates an automaton
and is governed by policies. It is sans-I/O: a broker node subscribes, publishes and moves it. Its whole state goes into
one snapshot, so that it can go on elsewhere. Its engine may change while it runs (`detectors.runtime.engine_switch`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from distced.detectors.automata.properties import takes_one_event
from distced.detectors.compiler import Compiled
from distced.detectors.limits import (
    COLUMNAR,
    FAILURES,
    UNLIMITED,
    Limits,
    excess_of,
    too_many_behind_history,
    too_much_memory,
)
from distced.detectors.runtime.detection_policy import (
    Arrival,
    Begins,
    DetectionPolicy,
    FollowsHistory,
    Positions,
    Released,
    losses_of,
)
from distced.detectors.runtime.engine_switch import Engines, SwitchedEngine
from distced.detectors.runtime.engines import EngineName, Kinds
from distced.detectors.runtime.history_first import HistoryFirst
from distced.detectors.runtime.put_off import PutOff
from distced.detectors.runtime.work_shares import FOUND, TURN, WorkShare
from distced.detectors.shapes import ShapedPattern
from distced.detectors.snapshot_format import pack_key, seal, unpack_key, unseal
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.plans import Planner, planner_of
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import LimitError, SnapshotError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import CompositeEvent, Event, Gap, OpenGap
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss, StreamPosition

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

FORMAT: Final = "distced detector"
VERSION: Final = 3

# Of a snapshot in all, and of an instance: rough means of what was measured.
_BYTES: Final = 400
_INSTANCE_BYTES: Final = 120

_LONG_BYTES: Final = 100_000
"""Bytes of an instance with long texts."""

_FIRST_TOGETHER: Final = 64
_MOST_TOGETHER: Final[Mapping[EngineName, int]] = {"stepwise": 512, "columnar": 2_048}
"""Number of events that are consumed in one go at most, where there are many, of a detector that has done little, and
of others: each may begin another instance."""

_LOOK_EVERY: Final = 16
_LOOK_AFTER: Final = 500
"""Number of events from which the work of a detector is counted again, and work from which it is earlier."""


class Detected(msgspec.Struct, frozen=True):
    """Result of a call of a detector.

    Attributes:
        events: the composite events, in order of detection.
        watermark: no later composite event has `hi` at or before it; None if unknown.
        late, duplicates, fenced: as in `Released`.
        disordered: number of events consumed out of order, so that results may be wrong; by best effort only.
        losses: intervals in which events were lost, which the composite events depend on.
        excess: why it cannot go on, with none of its state; None for as usual.
        behind: intervals in which late events may concern the composite events; by best effort only.
    """

    events: list[CompositeEvent]
    watermark: int | None
    late: list[Event]
    duplicates: int = 0
    disordered: int = 0
    fenced: list[str] = msgspec.field(default_factory=list)
    losses: list[Loss] = msgspec.field(default_factory=list)
    excess: LimitError | None = None
    behind: list[Loss] = msgspec.field(default_factory=list)


class DetectorStatistics(msgspec.Struct, gc=False):
    """Counts of a detector so far. Events consumed out of order count as late, too."""

    consumed: int = 0
    found: int = 0
    late: int = 0
    duplicates: int = 0


class PassMember(Protocol):
    """Member of a shared pass (`detectors.runtime.shared_pass`), instead of an engine of its own."""

    @property
    def touched(self) -> int: ...

    @property
    def live(self) -> int: ...

    def account(self, counts: DetectorStatistics) -> None:
        """Add the events consumed since the last call."""
        ...

    def copy(self) -> StepwiseEngine:
        """A stepwise engine with a copy of the state."""
        ...

    def leave(self) -> None:
        """Leave the pass (`Detector.leave_pass`)."""
        ...


class Detector:
    """Detects one pattern under one detection policy, which decides when events are consumed.

    Its `id` in the directory and the topic it publishes on is the canonical id, with the policy where that is not
    guaranteed: one detector per canonical form, kind of consumption and policy.

    Attributes:
        policy: its own, or that of the input it shares (`detectors.runtime.shared_input`), which then calls `consume`.
        keeps_derivations: whether it attaches provenance to composite events.
        share_of_work: share that its work counts for (`WorkShares.assign`); None for as much as it takes.
    """

    __slots__ = (
        "_at_once",
        "_behind",
        "_charged",
        "_each",
        "_engine",
        "_history",
        "_kinds",
        "_limits",
        "_look_at",
        "_measure_at",
        "_memory",
        "_opens",
        "_plans",
        "_put_off",
        "_settings",
        "_statistics",
        "_touched",
        "_waited",
        "compiled",
        "id",
        "keeps_derivations",
        "policy",
        "share_of_work",
    )

    def __init__(
        self,
        compiled: Compiled,
        policy: DetectionPolicy,
        kinds: Callable[[str], Mapping[str, Kind] | None] = lambda _: None,
        *,
        derivations: bool = False,
        engines: Engines | None = None,
        limits: Limits = UNLIMITED,
        identity: str = "",
    ) -> None:
        """Args: derivations: attach provenance to each composite event, for the patterns it is part of. engines:
        settings of the engine choice; None for the stepwise engine in any case. limits: what is beyond them is an
        `excess`. identity: its id, where it is not that of all detectors of its pattern and policy.
        """
        self._limits = limits
        # Instances touched and events from which its memory is to be measured: the first time as if all had long texts.
        self._measure_at = limits.memory // _LONG_BYTES
        self._memory = 0
        self.id = identity or detector_id(compiled, policy.name)
        self.compiled = compiled
        self.policy = policy
        self._statistics = DetectorStatistics()
        self.keeps_derivations = derivations
        self._at_once = policy.name == "best-effort"
        # Made when the first event is consumed: most of a thousand detectors are seldom concerned.
        self._engine: SwitchedEngine | PassMember | None = None
        self._kinds, self._settings = kinds, engines
        # Plans of its shape, to look at events without an engine.
        self._plans: Planner | None = None
        # What delegated parts said of the gaps still open, until everything up to that watermark is consumed.
        self._opens: deque[tuple[str, int, list[OpenGap]]] | None = None
        # What engines have touched that were given up.
        self._touched = 0
        # Events that ever waited for its turn.
        self._waited = 0
        # How many events the engine had consumed behind their place when it was asked last.
        self._behind = 0
        self.share_of_work: WorkShare | None = None
        # Releases that wait for its turn; never empty, None for none.
        self._put_off: PutOff | None = None
        # While it consumes recorded events first; None otherwise.
        self._history: HistoryFirst | None = None
        # Work that was counted for its share, and number of events consumed from which it is counted again.
        self._charged, self._look_at = 0, _LOOK_EVERY
        # Work of an event when several were consumed last.
        self._each = 0

    def receive(
        self,
        source: str,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        position: StreamPosition | None = None,
    ) -> Detected:
        """Receive events of a source, with its watermark and the position of the message if given."""
        return self._consume(self.policy.receive(source, events, watermark, now, position), now)

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Detected:
        """Receive what has arrived together, in the order of arrival."""
        return self._consume(self.policy.receive_all(arrivals, now), now)

    def hear_open(self, part: str, opens: Iterable[OpenGap], watermark: int) -> None:
        """Receive the completeness bound of a part's derivations, together with a watermark."""
        if self._opens is None:
            self._opens = deque()
        self._opens.append((part, watermark, list(opens)))

    def keep_derivations(self) -> None:
        """Attach provenance to composite events from now on; matches already begun have none."""
        self.keeps_derivations = True
        self._switched.stay().keep_derivations()

    def open_gaps(self) -> list[OpenGap]:
        """Completeness bounds of the detector's own derivations, as far as changed since the last call."""
        return self.engine.open_gaps()

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Detected:
        """Receive watermarks of sources without events, with the positions of each, if given."""
        return self._consume(self.policy.heartbeat(sources, watermark, now, positions), now)

    def join(self, source: str, watermark: int, now: int, lease: int = 0, begins: Begins | None = None) -> int:
        """Add a source; the watermark beyond which it has to stay."""
        return self.policy.join(source, watermark, now, lease, begins)

    def unavailable(self, lost: Unavailable, now: int) -> Detected:
        """Take the answer of a source to a request for missing messages."""
        return self._consume(self.policy.unavailable(lost, now), now)

    def leave(self, source: str, now: int) -> Detected:
        """Remove a source that has finished."""
        return self._consume(self.policy.leave(source, now), now)

    def fence(self, source: str, now: int) -> Detected:
        """Stop waiting for a source."""
        return self._consume(self.policy.fence(source, now), now)

    def tick(self, now: int) -> Detected:
        """Advance the time."""
        return self._consume(self.policy.tick(now), now)

    @property
    def engine(self) -> StepwiseEngine | ColumnarEngine:
        """The current engine."""
        return self._switched.engine

    @property
    def at_work(self) -> EngineName:
        """The name of the current engine."""
        engine = self._engine
        if isinstance(engine, SwitchedEngine):
            return engine.at_work
        return "stepwise" if engine is None else "columnar"

    @property
    def statistics(self) -> DetectorStatistics:
        """Its counts."""
        if self._engine is not None and not isinstance(self._engine, SwitchedEngine):
            self._engine.account(self._statistics)
        return self._statistics

    @statistics.setter
    def statistics(self, counts: DetectorStatistics) -> None:
        self._statistics = counts

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event examined, over all engines: the load so far."""
        return self._touched + (0 if self._engine is None else self._engine.touched)

    @property
    def changes(self) -> int:
        """Number that grows with every change of its state, for checkpoints."""
        return self.touched + self.statistics.consumed + self._waited

    @property
    def kinds(self) -> Kinds:
        """The kinds of a type's attributes, where known."""
        return self._kinds

    @property
    def size(self) -> int:
        """Approximate size of a snapshot, in bytes: estimated from its instances and events."""
        return _BYTES + _INSTANCE_BYTES * self.live + self.policy.size

    @property
    def live(self) -> int:
        """Approximate number of instances."""
        return 0 if self._engine is None else self._engine.live

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._limits

    @property
    def put_off(self) -> int:
        """Number of events released that wait for its turn, and at least one while any time waits; 0 for none."""
        return 0 if self._put_off is None else max(self._put_off.events, 1)

    @property
    def put_off_bytes(self) -> int:
        """Memory of the events that wait for its turn, bytes; estimated."""
        return 0 if self._put_off is None else self._put_off.size

    # Recorded events before those to come.

    def read_history(self, behind: int) -> None:
        """Consume recorded events behind an instant first, ns, before it joins any source: what its policy releases
        waits until `go_live`."""
        self._history = HistoryFirst(behind)

    @property
    def in_history(self) -> bool:
        """Whether it consumes recorded events, and live ones wait."""
        return self._history is not None

    def recorded(self, events: Sequence[Event], reached: int, now: int) -> Detected:
        """Consume recorded events, in order: with those before all up to an instant, ns."""
        history = self._history
        assert history is not None, self.id
        history.advance(reached)
        return self._of_history(events, reached, now)

    def go_live(self, now: int) -> Detected:
        """Consume the live events that have waited, and others from now on as they are released."""
        history, policy = self._history, self.policy
        assert history is not None and isinstance(policy, FollowsHistory), self.id
        policy.begin_behind(history.reached)
        self._history = None
        detected = self._of_history(history.behind, policy.watermark, now)
        return msgspec.structs.replace(detected, losses=history.losses)

    def _of_history(self, events: Sequence[Event], watermark: int | None, now: int) -> Detected:
        found: list[CompositeEvent] = []
        begin = 0
        try:
            while True:
                # In pieces, as a limit of work is for what is consumed in one go.
                piece = self._piece() if self._each else min(self._piece(), _FIRST_TOGETHER)
                some = events[begin : begin + piece]
                begin += piece
                ends = begin >= len(events)
                found += self._feed(some, watermark if ends else None, now, None, ends=ends)[0]
                work = 0 if self.share_of_work is None else self._charge(self.share_of_work)
                if some:
                    self._each = work // len(some)
                if ends:
                    return Detected(found, None if self._at_once else watermark, [])
        except FAILURES as error:
            excess = excess_of(error)
            self.give_up()
            return Detected([], None, [], excess=excess)

    @property
    def watermark(self) -> int | None:
        """Instant up to which everything is consumed, ns; None for unknown."""
        if self._history is not None:
            return self._history.reached
        return self.policy.watermark if self._put_off is None else self._put_off.reached

    # As a member of a shared input.

    def share(self, policy: DetectionPolicy) -> None:
        """Continue behind the policy of a shared input."""
        self.policy = policy
        if self._engine is not None and policy.watermark is not None and self._put_off is None:
            self._switched.level(policy.watermark)

    def part(self) -> None:
        """Continue with a policy of its own, from where that of the shared input is."""
        if self._put_off is not None:
            self._put_off.go_on_to(self.policy.watermark)
        elif self.policy.watermark is not None:
            self._switched.level(self.policy.watermark)
        self.policy = self.policy.copy()

    def rest(self, clock: int) -> bool:
        """Drop what no event behind an instant, ns, can concern, and an engine that is then as new; whether it is
        gone."""
        switched = self._engine
        if not isinstance(switched, SwitchedEngine):
            return True
        if self._put_off is not None:
            return False
        engine = switched.engine
        if not isinstance(engine, StepwiseEngine) or self._opens or not engine.sweep(clock):
            return False
        self._touched += switched.touched
        self._engine, self._behind = None, 0
        return True

    def ignores(self, event: Event) -> bool:
        """Whether an event certainly changes nothing, so that it is not handed to the engine; it counts as consumed."""
        if self._put_off is not None:
            return False
        switched = self._engine
        if switched.__class__ is SwitchedEngine:
            engine = switched.engine
            if engine.__class__ is not StepwiseEngine or (matcher := engine.single) is None:
                return False
            if not matcher.ignores(event):
                return False
        elif switched is not None or self._may_begin(event):
            return False
        self._statistics.consumed += 1
        return True

    def _may_begin(self, event: Event) -> bool:
        """Whether an event may change something where there is no engine."""
        compiled, plans = self.compiled, self._plans
        if compiled.__class__ is not ShapedPattern:
            return True
        if plans is None:
            structure = compiled.structure
            if structure.parts or structure.indivisible or self.keeps_derivations:
                return True
            plans = self._plans = planner_of(structure, self._kinds)
        return plans.may_begin(event, compiled.constants)

    def due(self) -> int | None:
        """The least instant up to which the engine has something to do, ns; None for nothing."""
        return self._engine.engine.waits_for() if isinstance(self._engine, SwitchedEngine) else None

    def stepwise(self) -> StepwiseEngine | None:
        """The state, in a stepwise engine; None for an engine that is as new."""
        if self._engine is None:
            return None
        return self._engine.home() if isinstance(self._engine, SwitchedEngine) else self._engine.copy()

    def enter_pass(self, member: PassMember) -> None:
        """Continue in a shared pass, which has the state of the engine so far."""
        self._touched, self._behind = self.touched, 0
        self._engine = member

    def leave_pass(self, engine: StepwiseEngine) -> None:
        """Continue with an engine of its own, which has the state from the shared pass."""
        self._statistics, self._touched = self.statistics, self.touched
        self._engine = None
        self._switched.go_on_with(engine)
        self._behind = engine.behind

    def consume(
        self,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        clock: int | None = None,
        before: int | None = None,
    ) -> tuple[list[CompositeEvent], int]:
        """Consume released events, then everything up to the watermark.

        Args:
            events: those that may concern it, in the order of consumption.
            clock: watermark before these events, ns, for an engine that is brought to the clock only where it has
                something to do; None for one that is kept level.
            before: that watermark, ns, of a member of a shared input that is kept level.

        Returns: the composite events, and the number of events consumed out of order, by best effort.

        Raises:
            LimitError: it is beyond its limits; it has to `give_up`.
        """
        share = self.share_of_work
        if share is None:
            assert self._put_off is None, self.id
            return self._feed(events, watermark, now, clock)
        if self._put_off is not None or (share.left <= 0 and events and share.is_spent(now)):
            self.wait(events, watermark, clock, before)
            return [], 0
        number = len(events)
        if number > 1 and share.contested and not self.keeps_derivations and (self.live + number) * number > TURN:
            self.wait(events, watermark, clock, before)
            return self.go_on(now, max(share.left, TURN))
        result = self._feed(events, watermark, now, clock)
        if self._statistics.consumed >= self._look_at:
            self._charge(share)
        return result

    def _feed(
        self, events: Sequence[Event], watermark: int | None, now: int, clock: int | None, *, ends: bool = True
    ) -> tuple[list[CompositeEvent], int]:
        """Consume events, as of `consume`; `ends`: there are no more of the release."""
        switched = self._engine if isinstance(self._engine, SwitchedEngine) else self._switched
        engine = switched.engine
        if clock is not None and engine.with_clock and engine.clock < clock:
            switched.level(clock)
        found: list[CompositeEvent] = []
        calls = disordered = 0
        if events:
            calls = 1
            found = engine.feed(events)
            if self._at_once:
                if ends:
                    found += engine.settle()
                behind = engine.behind
                disordered, self._behind = behind - self._behind, behind
        if watermark is not None and watermark > engine.clock:
            due = watermark if clock is None else engine.waits_for()
            if due is not None and due <= watermark:
                calls += 1
                found += engine.advance(watermark)
                if self._opens:
                    self._hear_what_is_due()
        if calls:
            switched.used(calls, len(events), len(found), now)
        counts = self._statistics
        counts.consumed += len(events)
        counts.found += len(found)
        counts.late += disordered
        return found, disordered

    # Its share of the work.

    def wait(
        self, events: Sequence[Event], watermark: int | None, clock: int | None, before: int | None = None
    ) -> None:
        """Put off a release, until it is its turn; arguments as of `consume`."""
        put_off, share = self._put_off, self.share_of_work
        assert share is not None, self.id
        if put_off is None:
            reached = before if clock is None else clock
            if reached is None and (level := self._switched.engine.clock) >= INSTANT_MIN:
                reached = level
            put_off = self._put_off = PutOff(reached)
            share.put_off(self)
        put_off.add(events, watermark, clock)
        self._waited += len(events)

    def go_on(self, now: int, most: int) -> tuple[list[CompositeEvent], int]:
        """Consume releases that were put off, until this work is done, in instances, or there are no more; composite
        events and number of events out of order, as of `consume`.

        Raises:
            LimitError: it is beyond its limits; it has to `give_up`.
        """
        share, put_off = self.share_of_work, self._put_off
        assert share is not None and put_off is not None, self.id
        found: list[CompositeEvent] = []
        disordered = 0
        piece = self._piece() if self._each else min(self._piece(), _FIRST_TOGETHER)
        while put_off:
            release = put_off.first
            # Derivations of an instant go together, and what they wait for is known behind a release alone.
            some = put_off.take(len(release.events) if self.keeps_derivations else piece)
            ends = release.begin == len(release.events)
            more, late = self._feed(some, release.watermark if ends else None, now, release.clock, ends=ends)
            if ends:
                put_off.end_first()
            found += more
            disordered += late
            work = self._charge(share)
            most -= work
            if some:
                self._each = work // len(some)
                piece = min(4 * piece, self._piece())
            if most <= 0:
                break
        if not put_off:
            self._put_off = None
            share.forget(self)
            if put_off.reached is not None:
                self._switched.level(put_off.reached)
        return found, disordered

    def _piece(self) -> int:
        """Number of events that are consumed in one go: a `TURN` of work, as far as that is known."""
        return max(1, min(TURN // max(self._each, 1), _MOST_TOGETHER[self.at_work]))

    def _charge(self, share: WorkShare) -> int:
        """Count the work since the last time for its share."""
        counts = self._statistics
        work = self.touched // (COLUMNAR if self.at_work == "columnar" else 1) + FOUND * counts.found
        # Events that begin nothing take time, too.
        work += counts.consumed // 2
        # Another engine counts in other units.
        done, self._charged = max(work - self._charged, 0), work
        self._look_at = counts.consumed + max(1, min(_LOOK_AFTER // (self.live + 1), _LOOK_EVERY))
        share.charge(done)
        return done

    def drop_put_off(self) -> None:
        """Drop what waits for its turn."""
        if self._put_off is not None and self.share_of_work is not None:
            self.share_of_work.forget(self)
        self._put_off = None

    def measure(self) -> LimitError | None:
        """Error of a state that takes more memory than the limit, measured where the work since the last time may have
        made it so; None for as usual."""
        switched = self._engine
        # Stages before the automata keep values of events that touch no instance.
        grown = self.touched + self._statistics.consumed
        if not isinstance(switched, SwitchedEngine) or grown < self._measure_at:
            return None
        limit = self._limits.memory
        size = switched.size()
        if size.memory > limit and self.at_work == "columnar":
            # It keeps what is no longer needed for a while.
            switched.home()
            size = switched.size()
        if size.memory > limit:
            return too_much_memory(self._limits, size.memory)
        self._memory = size.memory
        # An instance touched makes one or two, each with an event.
        self._measure_at = grown + max(limit - size.memory, limit // 8) // (4 * max(size.mean, _INSTANCE_BYTES))
        return None

    @property
    def memory(self) -> int:
        """Bytes of its state as measured last; 0 where it never was large."""
        return self._memory

    def give_up(self) -> None:
        """Drop the state of the engine, which is beyond the limits."""
        self._engine, self._behind = None, 0
        self.drop_put_off()

    def snapshot(self, *, policy: bool = True) -> bytes:
        """The whole state: engine, policy and statistics; or without the policy, whose `state` several share.

        It goes on as before.
        """
        counts = self.statistics
        if self._engine is None or isinstance(self._engine, SwitchedEngine):
            if self._put_off is not None:
                self._put_off.go_on_to(self.policy.watermark)
            else:
                self._switched.level(INSTANT_MIN if self.policy.watermark is None else self.policy.watermark)
            engine = self._switched.copied()
        else:
            # A copy: it goes on in the pass.
            engine = self._engine.copy()
        body = [
            self.id,
            snapshot(engine),
            self.policy.state() if policy else None,
            [counts.consumed, counts.found, counts.late, counts.duplicates],
            [[part, heard, [_pack_open(each) for each in opens]] for part, heard, opens in self._opens or ()],
        ]
        if self._put_off is not None:
            body.append(self._put_off.state())
        return seal(FORMAT, VERSION, msgspec.msgpack.encode(body))

    def resume(self, content: bytes, policy_state: Any = None) -> None:
        """Restore a new detector from a snapshot of the same one, and from the state of its policy where that is not in
        it. Raises `SnapshotError` for anything else; then it is unusable."""
        try:
            body: Any = msgspec.msgpack.decode(unseal(FORMAT, VERSION, content))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SnapshotError("a damaged snapshot of a detector", given=str(error)) from error
        if not isinstance(body, list) or body[:1] != [self.id]:
            raise SnapshotError("a snapshot of another detector", given=body, allowed=self.id)
        try:
            _, engine, policy, counts, opens, *put_off = body
            restore(self._switched.home(), engine)
            self._behind = self.engine.behind
            self.policy.resume(policy_state if policy is None else policy)
            self.statistics = DetectorStatistics(*counts)
            self._put_off = PutOff.of(*put_off) if put_off else None
            for part, heard, packed in opens:
                self.hear_open(part, map(_unpack_open, packed), heard)
        except (ValueError, TypeError, AttributeError, LookupError, msgspec.MsgspecError) as error:
            raise SnapshotError("a damaged snapshot of a detector", given=str(error)) from error

    def concerned_late(self, released: Released) -> list[Event]:
        """Late events that may concern its composite events, by their order, or because of its time events."""
        structure = self.compiled.structure
        if takes_one_event(structure):
            return []
        names = structure.type_names()
        timed = structure.timers or structure.clocks
        late = released.overdue if timed else released.behind
        if timed and released.behind:
            late = list({each.id: each for each in (*released.behind, *released.overdue)}.values())
        return [each for each in late if names is None or each.type in names]

    def _hear_what_is_due(self) -> None:
        """Pass on due completeness bounds. Watermarks of a part only rise; those of one part may wait behind those of
        another.
        """
        waiting = deque[tuple[str, int, list[OpenGap]]]()
        for part, heard, opens in self._opens or ():
            if heard <= self.engine.clock:
                self.engine.hear_open(part, opens)
            else:
                waiting.append((part, heard, opens))
        self._opens = waiting or None

    def _consume(self, released: Released, now: int) -> Detected:
        if self._history is not None:
            return self._wait_behind(self._history, released)
        try:
            found, disordered = self.consume(released.events, released.watermark, now)
        except FAILURES as error:
            excess = excess_of(error)
            self.give_up()
            return Detected([], None, released.late, released.duplicates, 0, released.fenced, released.losses, excess)
        counts = self.statistics
        counts.late += len(released.late)
        counts.duplicates += released.duplicates
        watermark = None if self._at_once else self._reached(released.watermark)
        late = self.concerned_late(released) if released.behind or released.overdue else []
        return Detected(
            found, watermark, released.late, released.duplicates, disordered, released.fenced, released.losses,
            behind=losses_of(late, open_end=self.compiled.endless),
        )  # fmt: skip

    def _wait_behind(self, history: HistoryFirst, released: Released) -> Detected:
        """Hold a release back, behind the recorded events."""
        history.hold(released.events, released.losses)
        number, excess = len(history.held), None
        if number > self._limits.waiting:
            excess = too_many_behind_history(self._limits, number)
            self.give_up()
        watermark = None if self._at_once else history.reached
        return Detected([], watermark, [], released.duplicates, fenced=released.fenced, excess=excess)

    def continued(self, now: int, most: int) -> Detected:
        """Consume releases that were put off, of a detector with a policy of its own; as of `go_on`."""
        try:
            found, disordered = self.go_on(now, most)
        except FAILURES as error:
            excess = excess_of(error)
            self.give_up()
            return Detected([], None, [], excess=excess)
        return Detected(
            found, None if self._at_once else self._reached(self.policy.watermark), [], disordered=disordered
        )

    def _reached(self, watermark: int | None) -> int | None:
        """Watermark of what is consumed, behind a release up to a watermark."""
        return watermark if self._put_off is None else self._put_off.reached

    @property
    def _switched(self) -> SwitchedEngine:
        """The engine of its own, made where missing; a member of a shared pass leaves it."""
        if self._engine is not None and not isinstance(self._engine, SwitchedEngine):
            self._engine.leave()
        if not isinstance(self._engine, SwitchedEngine):
            self._engine = SwitchedEngine(
                self.compiled, self._kinds, self._settings, self._limits, derivations=self.keeps_derivations
            )
        return self._engine


def _pack_open(news: OpenGap) -> list[Any]:
    previous = news.gap.previous
    return [list(news.key), None if previous is None else pack_key(previous), news.gap.greatest_lo]


def _unpack_open(packed: Any) -> OpenGap:
    key, previous, greatest_lo = packed
    return OpenGap(tuple(key), Gap(None if previous is None else unpack_key(previous), greatest_lo))


def detector_id(compiled: Compiled, policy: str) -> str:
    """The id of the detector of a pattern under a policy."""
    identity = compiled.canonical_id
    return identity if policy == "guaranteed" else f"{identity}.{policy.replace('(', '-').rstrip(')')}"
