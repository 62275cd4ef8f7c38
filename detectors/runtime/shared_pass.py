"""Shared columnar pass of an input: patterns that many events concern, run by one compiled loop.

The index of a shared input spares events the patterns that they do not concern. Ten thousand patterns such as `[Reading
where v > 90]` are concerned by every event, and cost as many calls of stepwise engines; one loop looks at all of them
in some ten nanoseconds each. So members that are called often are moved into a loop together: a batch of columns for
each release, and the composite events by member. Members that are seldom concerned stay with engines of their own.

A member of the pass is as mobile as one with an engine of its own, as its state is copied or taken out between
two releases. Members come and go some at a time, as adding a pattern takes half a millisecond. A loop keeps texts and
keys for as long as it lives, so it is replaced by another after very many of them, again some members at a time.

Beside the pass stay: patterns with sides of `&` or delegated parts, epochs, throttled types, provenance, those that
enter several inner keys at once, and those with texts that grow in registers, as the loop cannot say whose they are.

A member beyond its limits (`detectors.limits`) loses its instances between two instances of the run, and leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from distced.detectors.automata.properties import grows_texts
from distced.detectors.compiler import Compiled
from distced.detectors.limits import COLUMNAR, TOGETHER, too_many_instances, too_much_work
from distced.detectors.runtime.engine_switch import CALL, LET_GO_AFTER, RENEW_AFTER, Engines
from distced.detectors.runtime.pass_choice import PassLoad, Work
from distced.detectors.shapes import ShapedPattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import LimitError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MILLISECOND

if TYPE_CHECKING:
    from distced.detectors.columnar.loop import Loop
    from distced.detectors.columnar.program.units import Unit
    from distced.detectors.runtime.detector import Detector, DetectorStatistics
    from distced.detectors.runtime.work_shares import WorkShare

AT_ONCE: Final = 40
"""Number of members that enter or leave in one go: some twenty milliseconds."""

_COUNTED: Final = 10_000
_COUNT_EVERY: Final = 10 * MILLISECOND
_AT_LEAST: Final = 10 * COLUMNAR * _COUNTED
"""Work that members may have done from which it is counted for their shares, and that of a piece of a release; time
between two counts, ns, and instances that are counted whatever the time."""

_MOST_TOGETHER: Final = 4_096
"""Number of events that are consumed in one go at most: each may begin an instance of every member."""

LIVE_AFTER: Final = 8
"""Share of instances that may have changed, as a divisor, before they are counted again."""


class PassMember:
    """Member of the pass, with its state in a loop, in place of an engine of its own."""

    __slots__ = ("_behind", "_consumed", "_keeper", "_touched", "detector", "member_loop", "unit")

    def __init__(self, keeper: SharedPass, member_loop: MemberLoop, detector: Detector, unit: Unit) -> None:
        self._keeper = keeper
        self.member_loop = member_loop
        self.detector = detector
        self.unit = unit
        self._touched = member_loop.loop.touched_by(unit)
        self._consumed, self._behind = member_loop.consumed, member_loop.behind

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event examined in the pass."""
        return self.member_loop.loop.touched_by(self.unit) - self._touched

    @property
    def live(self) -> int:
        """Approximate number of instances."""
        return self.member_loop.live().get(self.unit.number, 0)

    def account(self, counts: DetectorStatistics) -> None:
        """Add the events consumed since the last call."""
        counts.consumed += self.member_loop.consumed - self._consumed
        counts.late += self.member_loop.behind - self._behind
        self._consumed, self._behind = self.member_loop.consumed, self.member_loop.behind

    def copy(self) -> StepwiseEngine:
        """A stepwise engine with a copy of the state."""
        (engine,) = self.member_loop.engines([self])
        return engine

    def leave(self) -> None:
        """Take the member out of the pass; its detector continues with an engine of its own."""
        self._keeper.leave([self.detector])


class MemberLoop:
    """A loop with its members.

    Attributes:
        members: by number of unit.
        consumed, behind: number of events consumed, and of those behind consumed ones.
        excesses: members beyond their limits, with none of their state; they are to be taken out.
    """

    def __init__(self, detector: Detector) -> None:
        """Args: detector: one of the members to come, which are all of the same node."""
        from distced.detectors.columnar.loop import Loop

        self.loop: Loop = Loop((), detector.kinds)
        self.members: dict[int, PassMember] = {}
        self.consumed = self.behind = 0
        self.excesses: dict[Detector, LimitError] = {}
        self._limits = detector.limits
        # Number and state, and number and place of the count of touched instances, in pairs; counts before this run.
        self._states: tuple[Any, Any] | None = None
        self._places: tuple[Any, Any] | None = None
        self._counts: Any = None
        self.loop.limit(self._limits, self._oversee)
        self._held = 0
        self._live: dict[int, int] | None = None
        self._stale = 0
        # Since the last request for the work: composite events; counts of touched instances then, and the number of
        # members of each.
        self._found = 0
        self._touched = self.loop.state.touched.copy()
        self._weights: Any = None
        # Counts of touched instances when they were counted for shares.
        self._counted = self._touched

    def enter(self, keeper: SharedPass, detectors: Sequence[Detector], clock: int | None) -> list[PassMember]:
        """Take in members with their state, at the watermark of the input."""
        from distced.detectors.automata.parameters import closed
        from distced.detectors.columnar.handover import take_over

        matchers, members = {}, list[PassMember]()
        if clock is not None:
            self.loop.clock = max(self.loop.clock, clock)
        for detector in detectors:
            engine = detector.stepwise()
            matcher = None if engine is None else engine.units[0].matcher
            # Without instances it shares states with others from now on.
            apart = matcher is not None and bool(matcher.store.instances())
            unit = self.loop.add(closed(detector.compiled.automaton), apart=apart)
            if matcher is not None:
                matchers[unit.number] = matcher
            member = self.members[unit.number] = PassMember(keeper, self, detector, unit)
            members.append(member)
            detector.enter_pass(member)
        if matchers:
            take_over(self.loop, matchers)
        self._live = self._weights = self._states = self._places = None
        return members

    def engines(self, members: Iterable[PassMember]) -> list[StepwiseEngine]:
        """Stepwise engines with copies of the state of members."""
        from distced.detectors.columnar.handover import hand_over

        made = {each.unit.number: StepwiseEngine([each.detector.compiled], each.detector.kinds) for each in members}
        hand_over(self.loop, {number: engine.units[0].matcher for number, engine in made.items()})
        for engine in made.values():
            engine.clock = self.loop.clock
        return list(made.values())

    def leave(self, members: Sequence[PassMember]) -> None:
        """Take out members, which continue with engines of their own."""
        for member, engine in zip(members, self.engines(members), strict=True):
            member.detector.leave_pass(engine)
            del self.members[member.unit.number]
        for member in members:
            self.loop.remove(member.unit.number)
        self._live = self._weights = self._states = self._places = None

    def consume(
        self, events: Sequence[Event], watermark: int | None, found: list[tuple[Detector, list[CompositeEvent]]]
    ) -> int:
        """Consume released events, then everything up to a watermark; the number of events behind consumed ones."""
        loop, late = self.loop, self.loop.late
        self._counts = None
        by_unit: dict[int, list[CompositeEvent]] = {}
        if events:
            for matches in loop.feed_any(events):
                if len(matches):
                    _append(by_unit, loop.events_by_unit(matches))
            self._let_go(len(events))
        if watermark is not None and watermark > loop.clock:
            due = loop.next_due() if loop.has_timers else None
            if due is not None and due <= watermark:
                _append(by_unit, loop.events_by_unit(loop.advance(watermark)))
            loop.clock = watermark
        for number, composites in by_unit.items():
            detector = self.members[number].detector
            if detector in self.excesses:
                continue
            detector.statistics.found += len(composites)
            self._found += len(composites)
            found.append((detector, composites))
        self.behind += loop.late - late
        return loop.late - late

    def _oversee(self) -> None:
        """End the instances of members beyond their limits; the others go on where they are.

        Instances that they share with others stay: in the members' own engines they would be too many, too.
        """
        import numpy as np

        loop, limits = self.loop, self._limits
        work, allowed = loop.work(), COLUMNAR * TOGETHER * limits.work
        many, much = loop.looks_at_instances(), work > allowed
        if self._counts is None and 2 * work > allowed:
            self._counts = loop.state.touched.copy()
        if not (many or much):
            return
        if self._states is None:
            self._states = loop.states_by_unit()
        of_state, states = self._states
        of_count, places = self._count_places()
        beyond: dict[int, LimitError] = {}
        if many:
            numbers = np.bincount(of_state, loop.open_in(states)).astype(np.int64)
            for each in np.flatnonzero(numbers > limits.instances).tolist():
                beyond[each] = too_many_instances(limits, int(numbers[each]))
        if much:
            numbers = np.bincount(of_count, (loop.state.touched - self._counts)[places]).astype(np.int64)
            for each in np.flatnonzero(2 * numbers > allowed).tolist():
                beyond[each] = too_much_work(work, allowed, together=True)
        if beyond:
            self.excesses |= {self.members[number].detector: excess for number, excess in beyond.items()}
            theirs = np.isin(of_state, list(beyond))
            loop.end_instances(loop.rows_of(np.setdiff1d(states[theirs], states[~theirs])))
            self._live = None

    def spent(self, now: int) -> tuple[int, list[Detector]]:
        """Count the work of the members since the last call for their shares (`detectors.runtime.work_shares`).

        Returns: number of instances touched in all, and members of shares that are spent, those first that have done
        most, `AT_ONCE` at most.
        """
        import numpy as np

        touched, before = self.loop.state.touched.copy(), self._counted
        self._counted = touched
        more = touched.copy()
        more[: len(before)] -= before
        # Numbers of patterns that were removed may have begun again.
        more = np.maximum(more, 0)
        of_count, places = self._count_places()
        numbers = np.bincount(of_count, more[places]).astype(np.int64) // COLUMNAR
        spent: dict[int, int] = {}
        done: dict[WorkShare, int] = {}
        for number in np.flatnonzero(numbers).tolist():
            share = self.members[number].detector.share_of_work
            if share is not None:
                done[share] = done.get(share, 0) + int(numbers[number])
                spent[number] = int(numbers[number])
        for share, work in done.items():
            share.charge(work)
        beyond = {share for share in done if share.is_spent(now)}
        # Those beyond their limits have lost their state, and are to be reported first (`take_excesses`).
        going = {number: self.members[number].detector for number in spent}
        theirs = [
            number for number, each in going.items() if each.share_of_work in beyond and each not in self.excesses
        ]
        theirs.sort(key=lambda number: (-spent[number], number))
        return int(more.sum()), [self.members[number].detector for number in theirs[:AT_ONCE]]

    def _count_places(self) -> tuple[Any, Any]:
        """Numbers of members and places of their counts of touched instances, in pairs."""
        import numpy as np

        if self._places is None:
            units = self.loop.assembler.units
            counts = [
                (number, place) for number, unit in units.items() for place in self.loop.assembler.counts_of(unit)
            ]
            of_count, places = np.array(counts, np.int64).reshape(-1, 2).T
            self._places = of_count, places
        return self._places

    def live(self) -> dict[int, int]:
        """Approximate number of instances by number of unit: counted again after as many events."""
        if self._live is None or self.consumed - self._stale > self.loop.live // LIVE_AFTER:
            self._live, self._stale = self.loop.live_by_unit(), self.consumed
        return self._live

    def work(self, calls: int, events: int) -> Work:
        """Work of the members since the last request, within n calls with m events, as their own stepwise engines would
        do it: each touched instance may be one of another call."""
        import numpy as np

        touched, before = self.loop.state.touched.copy(), self._touched
        more = touched.copy()
        more[: len(before)] -= before
        # Numbers of patterns that were removed may have begun again.
        more = np.maximum(more, 0)
        if self._weights is None:
            self._weights = np.zeros(len(touched), np.int64)
            for member in self.members.values():
                self._weights[self.loop.assembler.counts_of(member.unit)] += 1
        found, self._found, self._touched = self._found, 0, touched
        called, consumed = (int((self._weights * np.minimum(more, count)).sum()) for count in (calls, events))
        return Work(called, consumed, int((self._weights * more).sum()), found)

    @property
    def is_worn(self) -> bool:
        """Whether another loop would remember far fewer texts."""
        known = len(self.loop.texts.texts)
        return known > RENEW_AFTER and known > 4 * (self.loop.live + len(self.members))

    def _let_go(self, events: int) -> None:
        from distced.detectors.columnar.results.store import look_soon

        self.consumed += events
        self._held += events + CALL
        if self._held >= LET_GO_AFTER:
            self._held = 0
            look_soon(self.loop.state)


def _append(by_unit: dict[int, list[CompositeEvent]], more: dict[int, list[CompositeEvent]]) -> None:
    for number, composites in more.items():
        if composites:
            by_unit.setdefault(number, []).extend(composites)


class SharedPass:
    """Members of a shared input in a columnar pass, with the choice of them.

    Attributes:
        members: by detector.
    """

    def __init__(self, engines: Engines, entered: Callable[[Detector], None], left: Callable[[Detector], None]) -> None:
        """Args: entered, left: called with each member that enters or leaves."""
        self._entered, self._left = entered, left
        self.members: dict[Detector, PassMember] = {}
        self._engines = engines
        self._choice = engines.shared()
        self._loop: MemberLoop | None = None
        # One that is to be replaced, until its members have left.
        self._worn: MemberLoop | None = None
        # Members that enter or leave as soon as it is their turn.
        self._entering: dict[Detector, None] = {}
        self._leaving: dict[Detector, None] = {}
        self._suited: dict[object, bool] = {}
        # Number of events since work was counted for shares, with the time of that, ns, and the instances that one of
        # them has touched then.
        self._uncounted = self._counted_at = self._each = 0
        self._waiting: list[Detector] = []

    def suits(self, compiled: Compiled) -> bool:
        """Whether the loop can run a pattern together with others."""
        # Patterns of a shape are alike.
        key = compiled.shape if isinstance(compiled, ShapedPattern) else None
        if key is None:
            return is_suited(compiled)
        suited = self._suited.get(key)
        if suited is None:
            suited = self._suited[key] = is_suited(key.template)
        return suited

    def consume(
        self,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        clock: int | None,
        found: list[tuple[Detector, list[CompositeEvent]]],
    ) -> int:
        """Have the members consume released events, then everything up to the watermark; the number of events that were
        behind consumed ones, summed over the members.

        Members of clients that have spent their share of work leave, and what is left of the release is put off for
        them.
        """
        late = 0
        begin = 0
        while True:
            piece = self._piece(len(events) - begin)
            some = events if piece == len(events) else events[begin : begin + piece]
            begin += piece
            ends = begin == len(events)
            late += sum(
                each.consume(some, watermark if ends else None, found) * len(each.members) for each in self._loops()
            )
            self._uncounted += piece
            if self._is_to_count(now):
                spent = self._count(now)
                if spent:
                    self.leave(spent)
                    for detector in spent if not ends else ():
                        detector.wait(events[begin:], watermark, clock)
                        self._waiting.append(detector)
            if ends:
                return late

    def _piece(self, number: int) -> int:
        """Number of events to be consumed in one go, of n."""
        return min(number, max(COLUMNAR * _COUNTED // max(self._each, 1), 1), _MOST_TOGETHER)

    def _is_to_count(self, now: int) -> bool:
        """Whether work is to be counted for shares: there is much as far as it is known, or may be after a while."""
        number = self._uncounted
        if number * self._each > _AT_LEAST:
            return True
        if abs(now - self._counted_at) < _COUNT_EVERY and number < _MOST_TOGETHER:
            return False
        return number * sum(each.loop.live for each in self._loops()) > COLUMNAR * _COUNTED

    def _count(self, now: int) -> list[Detector]:
        """Count work for shares; members of shares that are spent."""
        counted = [each.spent(now) for each in self._loops()]
        self._each = sum(work for work, _ in counted) // max(self._uncounted, 1)
        self._uncounted, self._counted_at = 0, now
        return [detector for _, spent in counted for detector in spent]

    def take_waiting(self) -> list[Detector]:
        """Members that have left and for which events wait, since the last call."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def take_excesses(self) -> list[tuple[Detector, LimitError]]:
        """Members beyond their limits since the last call; they have left the pass."""
        found: list[tuple[Detector, LimitError]] = []
        for each in self._loops():
            if each.excesses:
                found += each.excesses.items()
                each.excesses = {}
        for detector, _ in found:
            self.forget(detector)
        return found

    def change(self, called: Iterable[Detector], events: int, now: int, clock: int | None) -> list[Detector]:
        """Let members enter and leave, after a release of n events that concerned these members with engines of their
        own; those that have entered or left."""
        if self._engines.readiness.problem:
            self._entering.clear()
            return []
        members, live = len(self.members) + len(self._entering), sum(each.loop.live for each in self._loops())
        changes = self._choice.choose(
            [each for each in called if each not in self._entering],
            PassLoad(1, events, now, members, live, self._work),
        )
        for detector in changes.entering:
            share = detector.share_of_work
            apart = share is not None and now < share.apart_until
            if self.suits(detector.compiled) and not detector.keeps_derivations and not apart:
                self._entering[detector] = None
        if changes.ends:
            self._entering.clear()
            self._leaving = dict.fromkeys(self.members)
        changed = self._let_leave() if self._leaving else []
        if self._entering and self._engines.readiness.ready():
            changed += self._let_enter(clock)
        self._renew(clock)
        return changed

    def forget(self, detector: Detector) -> None:
        """Forget a member that leaves the input; its state goes into an engine of its own."""
        self._entering.pop(detector, None)
        self._leaving.pop(detector, None)
        if detector in self.members:
            self.leave([detector])

    def leave(self, detectors: Sequence[Detector]) -> None:
        """Take members out; they continue with engines of their own."""
        by_loop: dict[MemberLoop, list[PassMember]] = {}
        for detector in detectors:
            member = self.members.pop(detector)
            by_loop.setdefault(member.member_loop, []).append(member)
        for member_loop, some in by_loop.items():
            member_loop.leave(some)
        if self._loop is not None and not self._loop.members:
            self._loop = None
        if self._worn is not None and not self._worn.members:
            self._worn = None
        for detector in detectors:
            self._left(detector)

    def _loops(self) -> list[MemberLoop]:
        return [each for each in (self._loop, self._worn) if each is not None]

    def _work(self, calls: int, events: int) -> Work:
        done = [each.work(calls, events) for each in self._loops()]
        return Work._make(map(sum, zip(*done, strict=True))) if done else Work(0, 0, 0, 0)

    def _let_leave(self) -> list[Detector]:
        leaving = list(islice(self._leaving, AT_ONCE))
        for detector in leaving:
            del self._leaving[detector]
        if leaving:
            self.leave(leaving)
        return leaving

    def _let_enter(self, clock: int | None) -> list[Detector]:
        entering = list(islice(self._entering, AT_ONCE))
        for detector in entering:
            del self._entering[detector]
        entering = [each for each in entering if not each.put_off]
        if entering:
            self._enter(entering, clock)
        return entering

    def _enter(self, detectors: Sequence[Detector], clock: int | None) -> None:
        if self._loop is None:
            self._loop = MemberLoop(detectors[0])
        for member in self._loop.enter(self, detectors, clock):
            self.members[member.detector] = member
            self._entered(member.detector)

    def _renew(self, clock: int | None) -> None:
        """Replace a loop by another, some members at a time."""
        if self._worn is None and self._loop is not None and self._loop.is_worn:
            self._worn, self._loop = self._loop, None
        if self._worn is not None:
            moving = [each.detector for each in islice(self._worn.members.values(), AT_ONCE)]
            self.leave(moving)
            self._enter(moving, clock)


def is_suited(compiled: Compiled) -> bool:
    """Whether the loop can run a pattern together with others."""
    from distced.detectors.columnar.program.units import supports

    automaton = compiled.automaton
    if automaton.parts or automaton.indivisible or compiled.throttlings or compiled.computations:
        return False
    if grows_texts(automaton):
        return False
    return supports(automaton)
