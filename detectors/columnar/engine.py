"""The columnar engine: patterns over batches of events as arrays.

It runs what stands by itself in a compiled loop: patterns that read no other's composite events and have no parts. What
does not (the sides of `&`, delegated parts, consumption by epochs, inner keys, derived types that are thinned, records
for other detectors) it has the stepwise engine run beside, on the same events, so that whoever uses it has one engine
that does everything. State goes from one to the other as instances (`handover`), and so into the same snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detectors.columnar.columns import Batch
from detectors.columnar.handover import hand_over, take_over
from detectors.columnar.looping import Kinds, Loop
from detectors.columnar.matches import Matches
from detectors.columnar.program import supports
from detectors.compilation import Compiled
from detectors.stepwise.engine import StepwiseEngine
from detectors.stepwise.instance import BEFORE_ALL
from detectors.stepwise.matcher import Matcher
from detectors.stepwise.thinning import unmarked
from middleware.errors import EventError
from middleware.events import CompositeEvent, Event, OpenGap, OrderKey
from middleware.timestamps import INSTANT_MAX


class ColumnarEngine:
    """Detects the composite events of one or more patterns, as `StepwiseEngine` does.

    Attributes:
        patterns: what is detected.
        loop: those that the compiled loop runs; None where there are none.
        beside: those that the stepwise engine runs; None where there are none.
    """

    def __init__(self, patterns: Sequence[Compiled], kinds: Kinds = lambda _: None, *, records: bool = False) -> None:
        """
        Args:
            records: say of each composite event how it came about, for the patterns it is part of.
        """
        self.patterns = tuple(patterns)
        self._clock = BEFORE_ALL
        self._kinds = kinds
        self._records = records
        alone = [] if records else _alone(self.patterns)
        others = [each for each in self.patterns if not any(each is other for other in alone)]
        self._alone = alone
        self.loop = self._made(shared=True) if alone else None
        self.beside = StepwiseEngine(others, kinds, records=records) if others else None
        # Where the engine beside waits for the end of an instant, all do, so that there is one place to go on from.
        self._waits = self.beside is not None and self.beside.by_instants
        self._waiting: list[Event] = []

    def feed(self, events: Iterable[Event]) -> list[CompositeEvent]:
        """Consume events in order; the composite events found by them, each with the `hi` of its last event."""
        events = list(events)
        if self._is_late(events):
            return self._feed_late(events)
        found = [] if self.beside is None else self.beside.feed(events)
        return self._found(found + self._consume(events))

    def feed_batch(self, batch: Batch) -> Matches:
        """Consume a batch in the order of consumption; what was found, as arrays.

        Only where the compiled loop runs all patterns, and the batch is behind all that was consumed.
        """
        if self.loop is None or self.beside is not None:
            raise ValueError("not all patterns are run by the compiled loop")
        latest = self.loop.latest
        if len(batch) and latest is not None and batch.hi[0] < latest.hi:
            raise EventError(
                "a batch that begins behind what was consumed",
                given=int(batch.hi[0]),
                allowed=f"{latest.hi} or later",
                advice="give late events to feed, which offers them to those they still follow",
            )
        return self.loop.feed(batch)

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Time has passed: no event with `hi <= watermark` will come any more. What this lets happen is found."""
        if watermark <= self.clock:
            return []
        found = [] if self.beside is None else self.beside.advance(watermark)
        if self._waiting and self._waiting[0].hi <= watermark:
            found += self._consume_now(self._waiting)
            self._waiting = []
        if self.loop is not None:
            found += self.loop.events_of(self.loop.advance(watermark))
        self._clock = watermark
        return self._found(found)

    def settle(self) -> list[CompositeEvent]:
        """Do not wait for more events of the instant at hand: best effort consumes on arrival."""
        found = [] if self.beside is None else self.beside.settle()
        waiting, self._waiting = self._waiting, []
        found += self._consume_now(waiting)
        if waiting and self.loop is not None:
            found += self.loop.events_of(self.loop.advance(self.clock))
        return self._found(found)

    def finish(self) -> list[CompositeEvent]:
        """No event will come any more, and time goes on for ever: every time event fires."""
        return self.advance(INSTANT_MAX)

    def open_gaps(self) -> list[OpenGap]:
        """How far the records of its pattern are complete, as far as that is news since it was asked last."""
        if self.beside is None:
            raise ValueError("no records are kept")
        return self.beside.open_gaps()

    def hear_open(self, detector: str, opens: Iterable[OpenGap]) -> None:
        """The detector of a delegated part has said how far its records are complete: give up what waits in vain."""
        if self.beside is not None:
            self.beside.hear_open(detector, opens)

    def stepwise(self) -> StepwiseEngine:
        """A stepwise engine that goes on from here; this one is not to be used beside it."""
        engine = StepwiseEngine(self.patterns, self._kinds, records=self._records)
        engine.clock = self.clock
        if self.beside is not None:
            engine.pending, engine.late = self.beside.pending, self.beside.late
            engine.thinners = self.beside.thinners
            theirs = {id(unit.matcher.automaton): unit for unit in self.beside.units}
            for unit in engine.units:
                other = theirs.get(id(unit.matcher.automaton))
                if other is not None:
                    unit.matcher, unit.inbox = other.matcher, other.inbox
        if self.loop is not None:
            hand_over(self.loop, self._matchers(engine))
        return engine

    def go_on_from(self, engine: StepwiseEngine) -> None:
        """Go on from a stepwise engine for the same patterns, which is not to be used any more."""
        self._clock = engine.clock
        self._waiting = [unmarked(each) for each in engine.pending] if self._waits else []
        if self.beside is not None:
            self.beside.pending, self.beside.late = engine.pending, engine.late
            self.beside.clock = engine.clock
            self.beside.thinners = engine.thinners
            theirs = {id(unit.matcher.automaton): unit for unit in engine.units}
            for unit in self.beside.units:
                other = theirs[id(unit.matcher.automaton)]
                unit.matcher, unit.inbox = other.matcher, other.inbox
        if self.loop is not None:
            touched = self.loop.touched
            self.loop = self._made()
            self.loop.clock = engine.clock
            matchers = self._matchers(engine)
            take_over(self.loop, matchers)
            self.loop.base = touched + sum(each.touched for each in matchers.values())

    @property
    def clock(self) -> int:
        """Up to this instant, ns, everything has happened."""
        return self.beside.clock if self._waits and self.beside is not None else self._clock

    @property
    def behind(self) -> int:
        """How many events were behind what was consumed already."""
        behind = 0 if self.loop is None else self.loop.late
        return behind if self.beside is None else max(behind, self.beside.behind)

    @property
    def touched(self) -> int:
        """How many pairs of an instance and an event were looked at so far."""
        touched = 0 if self.loop is None else self.loop.touched
        return touched if self.beside is None else touched + self.beside.touched

    def next_due(self) -> int | None:
        """The instant the next time event is due, ns; None if none is set off."""
        dues = [each.next_due() for each in (self.loop, self.beside) if each is not None]
        return min((due for due in dues if due is not None), default=None)

    def live_instances(self) -> int:
        """How many instances there are."""
        live = 0 if self.loop is None else self.loop.live
        return live if self.beside is None else live + self.beside.live_instances()

    def _is_late(self, events: list[Event]) -> bool:
        """Whether one of the events belongs before what was consumed, or waits, where one instant is run after the
        other."""
        if self.loop is None or not self._waits:
            return False
        return any(each.hi <= self.clock for each in events) or not self.loop.follows([*self._waiting, *events])

    def _feed_late(self, events: list[Event]) -> list[CompositeEvent]:
        """An event is behind what was consumed, or waits: by best effort it concerns those it still follows."""
        engine = self.stepwise()
        found = engine.feed(events)
        self.go_on_from(engine)
        return found

    def _consume(self, events: list[Event]) -> list[CompositeEvent]:
        """Have the loop consume events, unless their instant has to be over first."""
        if self.loop is None:
            return []
        if self._waits:
            events = [*self._waiting, *events]
            last = next((place for place, each in enumerate(events) if each.hi == events[-1].hi), 0)
            events, self._waiting = events[:last], events[last:]
            found = self._consume_now(events)
            return found + self.loop.events_of(self.loop.advance(self.clock))
        return self._consume_now(events)

    def _consume_now(self, events: list[Event]) -> list[CompositeEvent]:
        loop = self.loop
        if loop is None or not events:
            return []
        if loop.follows(events):
            return loop.events_of(loop.feed(Batch.of_events(events)))
        # An event is behind what was consumed: by best effort it concerns those it still follows.
        engine = StepwiseEngine(self._alone, self._kinds)
        hand_over(loop, {number: unit.matcher for number, unit in enumerate(engine.units)})
        found = engine.feed(events)
        self.loop = self._made()
        self.loop.clock, self.loop.base = loop.clock, loop.touched + engine.touched
        take_over(self.loop, {number: unit.matcher for number, unit in enumerate(engine.units)})
        return found

    def _made(self, *, shared: bool = False) -> Loop:
        return Loop((each.automaton for each in self._alone), self._kinds, shared=shared)

    def _matchers(self, engine: StepwiseEngine) -> dict[int, Matcher]:
        assert self.loop is not None
        by_automaton = {id(unit.matcher.automaton): unit.matcher for unit in engine.units}
        return {number: by_automaton[id(each.automaton)] for number, each in enumerate(self._alone)}

    def _found(self, found: list[CompositeEvent]) -> list[CompositeEvent]:
        if len(self.patterns) > 1:
            found.sort(key=_order)
        return found


def _alone(patterns: Sequence[Compiled]) -> list[Compiled]:
    """The patterns that the compiled loop can run: those that have nothing to do with others."""
    read = {name for each in patterns for name in each.names()}
    published = {each.automaton.output.type_name for each in patterns if each.automaton.output is not None}
    return [
        each
        for each in patterns
        if supports(each.automaton)
        and not each.thinnings
        and not each.names() & published
        and (each.automaton.output is None or each.automaton.output.type_name not in read)
    ]


def _order(event: Event) -> OrderKey:
    return event.key
