"""Input that detectors share: one detection policy, and one pass over the released events.

Detectors that read the same types under the same policy wait for the same sources, so one memory of ids and one
stability buffer serve them all; Cayuga runs its automata behind one queue, too (cayuga-algebra-cesar, section 4). A
released event is handed to the engines it may concern (`detectors.runtime.pattern_index`), and the clock to those with
a time event due. The others are brought to the clock when they are needed, so an event costs what it concerns, not what
there is.

A detector joins at the watermark of the input, and leaves with a policy of its own that continues there. One big engine
for all patterns was rejected: a detector moves alone, and its engine is chosen by its own load. Those that most events
concern are run together, in columns (`detectors.runtime.shared_pass`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Final

from msgspec import Struct

from distced.detectors.automata.automaton import Automaton
from distced.detectors.limits import FAILURES, excess_of
from distced.detectors.runtime.detection_policy import Arrival, Begins, DetectionPolicy, Positions, Released, losses_of
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.pattern_index import PatternIndex, concerns
from distced.detectors.runtime.shared_pass import SharedPass
from distced.middleware.model.errors import LimitError
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss

AT_ONCE: Final = 200
"""Number of members that `rest` looks at."""

LATE: Final = 60 * SECOND
"""How late an event may be, ns, so that what it follows is still there, under best effort."""

_STALE: Final = 64
"""Number of outdated entries of the queue of due instants before it is made again, for each member that is in it."""


_NONE_BEHIND: Final[Mapping[Detector, list[Loss]]] = {}
_NO_EXCESSES: Final[dict[Detector, LimitError]] = {}


class Passed(Struct, frozen=True):
    """Result of a call of a shared input.

    Attributes:
        found: composite events by detector, for those with any.
        watermark, late, duplicates, fenced, losses: as in `Released`; the watermark None under best effort.
        disordered: number of events consumed out of order by a detector, summed over detectors; by best effort only.
        excesses: why members cannot go on, with none of their state; they are to be removed.
        behind: by detector, intervals in which late events may concern its composite events; by best effort only.
    """

    found: list[tuple[Detector, list[CompositeEvent]]]
    watermark: int | None
    late: list[Event]
    duplicates: int
    disordered: int
    fenced: list[str]
    losses: list[Loss]
    excesses: Mapping[Detector, LimitError]
    behind: Mapping[Detector, list[Loss]]


class SharedInput:
    """Detectors behind one detection policy.

    Attributes:
        policy: the policy of all members.
        members: by id.
        touched: members that consumed an event or a time event since the last `take_touched`.
    """

    def __init__(self, policy: DetectionPolicy, engines: Engines | None = None) -> None:
        """Args: engines: settings of the engine choice; None for stepwise engines in any case."""
        self.policy = policy
        self.members: dict[str, Detector] = {}
        self.touched: dict[Detector, None] = {}
        self._at_once = policy.name == "best-effort"
        # The watermark of the last pass, which the engines are level with, or would be.
        self._clock = policy.watermark
        self._index: PatternIndex[Detector] = PatternIndex()
        # Indexed members with an engine, which rest in turn.
        self._awake: dict[Detector, None] = {}
        # Members that see every event and every watermark, as the index does not say what concerns them.
        self._beside: dict[str, Detector] = {}
        # Instants at which members have something to do, ns; an entry counts where it is the earliest of its member.
        self._due: list[tuple[int, int, Detector]] = []
        self._earliest: dict[str, int] = {}
        self._numbers = count()
        # Indexed members whose engine may have something to do without an event: time events, instants.
        self._clocked: set[Detector] = set()
        # Members with time events, under best effort.
        self._timed: set[Detector] = set()
        # Members with releases that are put off.
        self._waiting: dict[Detector, None] = {}
        # Members beyond their limits in this pass.
        self._excesses: dict[Detector, LimitError] = _NO_EXCESSES
        # All members by the events that concern them, and those that see all, under best effort: of late events.
        self._by_event: PatternIndex[Detector] = PatternIndex()
        # Members that one columnar loop runs together.
        self._columnar = None if engines is None else SharedPass(engines, self._ignore, self._watch)

    # Members.

    def add(self, detector: Detector) -> None:
        """Add a detector, which continues behind the watermark of this input. Its own policy is dropped: it is new, or
        `is_level_with` the shared one."""
        self.members[detector.id] = detector
        detector.share(self.policy)
        if detector.put_off:
            self._waiting[detector] = None
        if self._at_once and (described := concerns(detector.compiled)) is not None:
            self._by_event.add(detector, described)
        self._watch(detector)

    def _watch(self, detector: Detector) -> None:
        """Hand to a member with an engine of its own the events that concern it."""
        described = None if self._sees_all(detector) else concerns(detector.compiled)
        if described is None:
            self._beside[detector.id] = detector
            return
        self._index.add(detector, described)
        structure = detector.compiled.structure
        timed = _has_timers(structure) or bool(structure.clocks)
        if timed or structure.parts or structure.by_instants:
            self._clocked.add(detector)
            self._note_due(detector)
        if self._at_once and timed:
            self._timed.add(detector)

    def remove(self, detector: Detector) -> None:
        """Remove a detector, which may continue from here by itself (`Detector.part`)."""
        del self.members[detector.id]
        self.touched.pop(detector, None)
        self._waiting.pop(detector, None)
        if self._at_once and (described := concerns(detector.compiled)) is not None:
            self._by_event.remove(detector, described)
        if self._columnar is not None:
            self._columnar.forget(detector)
        self._ignore(detector)

    def _ignore(self, detector: Detector) -> None:
        """Hand no more events to a member: it has left, or consumes them in the columnar pass."""
        self._awake.pop(detector, None)
        if self._beside.pop(detector.id, None) is None:
            described = concerns(detector.compiled)
            assert described is not None
            self._index.remove(detector, described)
            self._earliest.pop(detector.id, None)
            self._timed.discard(detector)
            self._clocked.discard(detector)

    def take_touched(self) -> list[Detector]:
        """Members that have consumed since the last call."""
        touched, self.touched = list(self.touched), {}
        self._awake |= dict.fromkeys(each for each in touched if each.id not in self._beside)
        return touched

    def rest(self, now: int) -> None:
        """Free what members no longer need, some of them in turn: closed windows, and engines with nothing in them."""
        if self._clock is None:
            return
        # Under best effort the clock is that of any source, and events come behind it.
        clock = min(self._clock, now) - LATE if self._at_once else self._clock
        for member in list(islice(self._awake, AT_ONCE)):
            del self._awake[member]
            if not member.rest(clock):
                self._awake[member] = None

    # Arrivals.

    def receive(self, arrivals: Sequence[Arrival], now: int) -> Passed:
        """Receive what has arrived together, in the order of arrival."""
        return self._pass(self.policy.receive_all(arrivals, now), now)

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Passed:
        """Receive watermarks of sources without events, with the positions of each, if given."""
        return self._pass(self.policy.heartbeat(sources, watermark, now, positions), now)

    def join(self, source: str, watermark: int, now: int, lease: int = 0, begins: Begins | None = None) -> int:
        """Add a source; the watermark beyond which it has to stay."""
        return self.policy.join(source, watermark, now, lease, begins)

    def unavailable(self, lost: Unavailable, now: int) -> Passed:
        """Take the answer of a source to a request for missing messages."""
        return self._pass(self.policy.unavailable(lost, now), now)

    def leave(self, source: str, now: int) -> Passed:
        """Remove a source that has finished."""
        return self._pass(self.policy.leave(source, now), now)

    def fence(self, source: str, now: int) -> Passed:
        """Stop waiting for a source."""
        return self._pass(self.policy.fence(source, now), now)

    def tick(self, now: int) -> Passed:
        """Advance the time."""
        return self._pass(self.policy.tick(now), now)

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        in_pass = set() if self._columnar is None else {each.id for each in self._columnar.members}
        assert self._beside.keys() | in_pass <= self.members.keys() and self._beside.keys().isdisjoint(in_pass)
        assert self._earliest.keys() <= self.members.keys() - self._beside.keys() - in_pass
        for identity, member in self.members.items():
            assert member.policy is self.policy, identity
            assert (member in self._waiting) == bool(member.put_off), identity
            due = None if member.put_off else member.due()
            assert due is None or member in self._clocked or identity in self._beside, identity
            if identity not in self._beside and due is not None:
                assert self._earliest.get(identity, due + 1) <= due, identity

    # The pass.

    def _pass(self, released: Released, now: int) -> Passed:
        events, watermark, clock = released.events, released.watermark, self._clock
        found: list[tuple[Detector, list[CompositeEvent]]] = []
        rises = watermark is not None and (clock is None or watermark > clock)
        if rises:
            self._clock = watermark
        disordered, clocked = 0, self._clocked
        called: dict[Detector, list[Event]] = {}
        if events:
            called = self._concerned(events)
            for member, concerned in called.items():
                disordered += self._consume(member, concerned, watermark, now, clock, found)
                if member in clocked:
                    self._note_due(member)
        if rises and self._due:
            assert watermark is not None
            for member in self._take_due(watermark):
                self._consume(member, (), watermark, now, clock, found)
                self._note_due(member)
        for member in self._beside.values() if events or rises else ():
            disordered += self._consume(member, events, watermark, now, None, found, clock)
        if self._columnar is not None and (events or rises) and (len(self.members) > 1 or self._columnar.members):
            disordered += self._columnar.consume(events, watermark, now, clock, found)
            self._waiting |= dict.fromkeys(self._columnar.take_waiting())
            for member, excess in self._columnar.take_excesses():
                self._exceeds(member, excess)
            if events:
                ready = [each for each in (*called, *self._beside.values()) if each not in self._waiting]
                changed = self._columnar.change(ready, len(events), now, self._clock)
                self.touched |= dict.fromkeys(changed)
        excesses, self._excesses = self._excesses, _NO_EXCESSES
        return Passed(
            found,
            None if self._at_once else watermark,
            released.late,
            released.duplicates,
            disordered,
            released.fenced,
            released.losses,
            excesses,
            self._late(released) if released.behind or released.overdue else _NONE_BEHIND,
        )

    def _late(self, released: Released) -> dict[Detector, list[Loss]]:
        """Intervals in which late events may concern the composite events of members."""
        concerned: dict[Detector, set[EventId]] = {}
        for event, member in self._by_event.concerned((*released.behind, *released.overdue)):
            concerned.setdefault(member, set()).add(event.id)
        found = {
            member: losses_of(member.concerned_late(released), open_end=member.compiled.endless)
            for member in self._beside.values()
        }
        for member, ids in concerned.items():
            late = (each for each in member.concerned_late(released) if each.id in ids)
            found[member] = losses_of(late, open_end=member.compiled.endless)
        return {member: losses for member, losses in found.items() if losses}

    def _consume(
        self,
        member: Detector,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        clock: int | None,
        found: list[tuple[Detector, list[CompositeEvent]]],
        before: int | None = None,
    ) -> int:
        try:
            composites, disordered = member.consume(events, watermark, now, clock, before)
        except FAILURES as error:
            self._exceeds(member, excess_of(error))
            return 0
        if composites:
            found.append((member, composites))
        self.touched[member] = None
        if member.share_of_work is not None and member.put_off:
            self._waiting[member] = None
        return disordered

    def go_on(self, member: Detector, now: int, most: int) -> Detected:
        """Consume releases of a member that were put off, until its work in instances is done (`Detector.go_on`)."""
        found: list[CompositeEvent] = []
        disordered, excess = 0, None
        self.touched[member] = None
        try:
            found, disordered = member.go_on(now, most)
            if not member.put_off:
                self._waiting.pop(member, None)
                if self._clock is not None:
                    # It has been left behind the clock, where it may have something to do.
                    found += member.consume((), self._clock, now)[0]
        except FAILURES as error:
            member.give_up()
            self._waiting.pop(member, None)
            excess = excess_of(error)
        if member in self._clocked:
            self._note_due(member)
        return Detected(found, None if self._at_once else member.watermark, [], 0, disordered, excess=excess)

    def _exceeds(self, member: Detector, excess: LimitError) -> None:
        member.give_up()
        self._waiting.pop(member, None)
        if not self._excesses:
            self._excesses = {}
        self._excesses[member] = excess

    def _concerned(self, events: list[Event]) -> dict[Detector, list[Event]]:
        """Events by the indexed member to consume them, in order."""
        if len(self.members) == 1 and not self._beside and not (self._columnar and self._columnar.members):
            # A look into the index costs as much as one into the pattern.
            return dict.fromkeys(self.members.values(), events)
        if self._timed:
            return self._concerned_beside_timed(events)
        found: dict[Detector, list[Event]] = {}
        for event, member in self._index.concerned(events):
            own = found.get(member)
            if own is None:
                if not member.ignores(event):
                    found[member] = [event]
            elif own[-1] is not event:
                own.append(event)
        return found

    def _concerned_beside_timed(self, events: list[Event]) -> dict[Detector, list[Event]]:
        """Events by indexed member where some have time events, under best effort: any event is a clock."""
        timed = self._timed
        # What waits may bring forth time events that are due.
        found: dict[Detector, list[Event]] = {each: events for each in self._waiting if each in timed}
        for place, event in enumerate(events):
            for member in self._take_due(event.hi - 1):
                found.setdefault(member, events[place:])
            for _, member in self._index.concerned((event,)):
                own = found.get(member)
                if own is None:
                    if member in timed:
                        found[member] = events[place:]
                    elif not member.ignores(event):
                        found[member] = [event]
                elif member not in timed and own[-1] is not event:
                    own.append(event)
        return found

    def _sees_all(self, detector: Detector) -> bool:
        """Whether events that do not concern a detector's pattern count: by best effort any event ends an epoch."""
        return detector.keeps_derivations or (self._at_once and (detector.compiled.epochs or detector.compiled.settled))

    def _take_due(self, watermark: int) -> list[Detector]:
        """Members with something to do up to a watermark."""
        due = self._due
        found: list[Detector] = []
        while due and due[0][0] <= watermark:
            instant, _, member = heappop(due)
            # It may have left, and come back as another object with the same state.
            if self._earliest.get(member.id) == instant and self.members.get(member.id) is member:
                del self._earliest[member.id]
                found.append(member)
        return found

    def _note_due(self, member: Detector) -> None:
        # What waits is brought to the clock behind it.
        due = None if member.put_off else member.due()
        if due is None:
            if self._earliest:
                self._earliest.pop(member.id, None)
            return
        if self._earliest.get(member.id) == due:
            return
        self._earliest[member.id] = due
        heappush(self._due, (due, next(self._numbers), member))
        if len(self._due) > _STALE + 2 * len(self._earliest):
            self._due = [entry for entry in self._due if self._earliest.get(entry[2].id) == entry[0]]
            heapify(self._due)


def _has_timers(automaton: Automaton) -> bool:
    return bool(automaton.timers) or any(map(_has_timers, automaton.inner))
