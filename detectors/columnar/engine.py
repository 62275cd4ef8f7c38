"""The columnar engine: patterns over batches of events as arrays.

Compiled loops run automata, those that read one another's composite events in sequence (`cascade`). The stepwise engine
runs the rest (several inner keys, delegated parts, derivations for other detectors) on the same events. State passes
between both as instances (`handover`), hence equal snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.cascade import Cascade
from distced.detectors.columnar.handover import hand_over, take_over
from distced.detectors.columnar.loop import Kinds, Loop
from distced.detectors.columnar.program.stages import ColumnStages, are_columnar
from distced.detectors.columnar.program.units import supports
from distced.detectors.columnar.python_calls import Callback
from distced.detectors.columnar.results.matches import Matches
from distced.detectors.columnar.results.store import look_soon
from distced.detectors.compiler import Compiled
from distced.detectors.limits import UNLIMITED, Limits
from distced.detectors.stepwise.engine import StepwiseEngine, as_published, in_order
from distced.detectors.stepwise.instance import BEFORE_ALL
from distced.detectors.stepwise.last_value import LastValue
from distced.detectors.stepwise.matcher import Matcher
from distced.detectors.stepwise.state_size import EVENT, StateSize, state_size, values_size
from distced.detectors.stepwise.throttling import Computer, Stage, computers_of, go_on_from, mark, stage_of
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import Attribute, CompositeEvent, Event, OpenGap, OrderKey
from distced.middleware.model.timestamps import INSTANT_MAX


class ColumnarEngine:
    """Detector of the composite events of one or more patterns, equivalent to `StepwiseEngine`.

    Attributes:
        cascade: stages of compiled loops; None without any.
        beside: stepwise engine for other patterns; None without any.
        stages: by column, of outside events; None without any, and where some run event by event.
        throttlers: of outside events, each after those it builds on, event by event.
        computers: of the values of computed keys of outside events, event by event.
        by_instants: whether events wait for the end of their instant.
        with_clock: whether results may depend on the clock.
    """

    def __init__(
        self, patterns: Sequence[Compiled], kinds: Kinds = lambda _: None, *, derivations: bool = False
    ) -> None:
        """Args: derivations: attach provenance to each composite event, for the patterns it is part of."""
        self.patterns = tuple(patterns)
        self._clock = BEFORE_ALL
        self._kinds = kinds
        self._derivations = derivations
        self._limits = UNLIMITED
        others = list(self.patterns) if derivations else _for_others(self.patterns)
        beside = set(map(id, others))
        self._looped = [each for each in in_order(self.patterns) if id(each) not in beside]
        self.cascade = self._made(shared=True) if self._looped else None
        self.beside = StepwiseEngine(others, kinds, derivations=derivations) if others else None
        throttlings = {each.mark: each for pattern in self._looped for each in pattern.throttlings}
        computations = {each.mark: each for pattern in self._looped for each in pattern.computations}
        self.stages: ColumnStages | None = None
        self.throttlers: list[Stage] = []
        self.computers: tuple[Computer, ...] = ()
        if (throttlings or computations) and are_columnar([*throttlings.values()], [*computations.values()]):
            self.stages = ColumnStages([*throttlings.values()], [*computations.values()], Callback)
        else:
            self.throttlers = list(map(stage_of, throttlings.values()))
            self.computers = computers_of(self._looped)
        computed = frozenset(name for each in self.computers for name, _ in each.computation.values)
        # Types whose events are marked one by one.
        self._throttled = computed.union(*(each.types for each in self.throttlers))
        # Where some wait for the end of an instant all do, so that there is one place to go on from.
        self.by_instants = self.cascade is not None and (
            self.cascade.by_instants or (self.beside is not None and self.beside.by_instants)
        )
        self.with_clock = True
        self._pending: list[Event] = []
        self._late = 0
        # Whether late events have started time events already due; matches these complete are late, too.
        self._overdue = False

    def limit(self, limits: Limits) -> None:
        """Set limits. What is beyond them raises `LimitError`; the engine is then unusable."""
        self._limits = limits
        for stage in () if self.cascade is None else self.cascade.stages:
            stage.loop.limit(limits)
        for each in self.throttlers:
            if isinstance(each, LastValue):
                each.limit(limits)
        if self.beside is not None:
            self.beside.limit(limits)

    def feed(self, events: Iterable[Event]) -> list[CompositeEvent]:
        """Consume events in order; the composite events detected, each with the `hi` of its last event."""
        if self.cascade is None:
            return [] if self.beside is None else self.beside.feed(events)
        events = list(events)
        if not events:
            return []
        if self._is_late(events):
            # By best effort such an event concerns those it still follows.
            return self._stepwise(lambda engine: engine.feed(events))
        if not self.by_instants:
            found = [] if self.beside is None else self.beside.feed(events)
            return self._found(found + self.cascade.run(self._batch(events), None))
        events = [*self._pending, *events]
        last = next(place for place, each in enumerate(events) if each.hi == events[-1].hi)
        self._pending = events[last:]
        return self._found(self._run(events[:last], events[-1].hi - 1))

    def consume(self, batch: Batch, until: int) -> list[CompositeEvent]:
        """Consume whole instants as columns behind `clock`, fire due time events: `feed` and `advance` in one."""
        if self.cascade is None or self.beside is not None or self._throttled or self._pending or self._overdue:
            events = [batch.event(place) for place in range(len(batch))]
            return [*self.feed(events), *self.advance(until)]
        self._clock = max(self._clock, until)
        return self._found(self.cascade.run(batch if self.stages is None else self.stages.marked(batch), until))

    def feed_batch(self, batch: Batch) -> Matches:
        """Consume a batch in order, behind all events consumed; detections as arrays. Independent patterns only."""
        loop = self.loop
        if loop is None or self.beside is not None or self.by_instants or self._throttled or self.stages is not None:
            raise ValueError("some patterns are not run by themselves in the compiled loop")
        latest = loop.latest
        if len(batch) and latest is not None and batch.hi[0] < latest.hi:
            raise EventError(
                "a batch that begins behind what was consumed",
                given=int(batch.hi[0]),
                allowed=f"{latest.hi} or later",
                advice="give late events to feed, which offers them to those they still follow",
            )
        return loop.feed(batch)

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Advance time: no event with `hi <= watermark` comes any more. The composite events thereby detected."""
        if self.cascade is None:
            return [] if self.beside is None else self.beside.advance(watermark)
        if watermark <= self.clock:
            return []
        if self._overdue or not _rise(self._pending):
            return self._stepwise(lambda engine: engine.advance(watermark))
        pending: list[Event] = []
        if self._pending and self._pending[0].hi <= watermark:
            pending, self._pending = self._pending, []
        if watermark < INSTANT_MAX:
            return self._found(self._run(pending, watermark))
        # Behind the last event time events recur no more.
        last = max([self.clock, self.cascade.last, *(each.hi for each in pending)])
        found = self._run(pending, last)
        self.cascade.end()
        return self._found([*found, *self._run([], watermark)])

    def settle(self) -> list[CompositeEvent]:
        """Do not wait for more events of the current instant: best effort consumes on arrival."""
        if self.cascade is None:
            return [] if self.beside is None else self.beside.settle()
        if self._overdue or not _rise(self._pending):
            return self._stepwise(StepwiseEngine.settle)
        pending, self._pending = self._pending, []
        return self._found(self._run(pending, pending[0].hi)) if pending else []

    def finish(self) -> list[CompositeEvent]:
        """End of the input: time goes on for ever, and every time event fires, a recurring one once more."""
        return self.advance(INSTANT_MAX)

    def open_gaps(self) -> list[OpenGap]:
        """Completeness bounds of the pattern's derivations, as far as changed since the last call."""
        if self.beside is None:
            raise ValueError("no derivations are kept")
        return self.beside.open_gaps()

    def hear_open(self, detector: str, opens: Iterable[OpenGap]) -> None:
        """Receive a completeness bound of the derivations of a delegated part; drop what waits in vain."""
        if self.beside is not None:
            self.beside.hear_open(detector, opens)

    def waits_for(self) -> int | None:
        """The least instant up to which `advance` has something to do, ns; None for nothing."""
        instants = [self.next_due(), *(each[0].hi for each in (self._pending, self._pending_beside()) if each)]
        return min((each for each in instants if each is not None), default=None)

    def let_go_soon(self) -> None:
        """Compact with the next batch, whatever its size."""
        for stage in () if self.cascade is None else self.cascade.stages:
            look_soon(stage.loop.state)

    def stepwise(self) -> StepwiseEngine:
        """A stepwise engine that continues from here; this one must not be used afterwards."""
        engine = StepwiseEngine(self.patterns, self._kinds, derivations=self._derivations)
        engine.clock, engine.late, engine.pending = self.clock, self._late, self._pending
        passed = {each.throttling.mark: each for each in self.throttlers}
        if self.beside is not None:
            if self.cascade is None:
                engine.late, engine.pending = self.beside.late, self.beside.pending
            passed = {each.throttling.mark: each for each in self.beside.throttlers} | passed
            theirs = {(id(unit.matcher.automaton), unit.matcher.constants): unit for unit in self.beside.units}
            for unit in engine.units:
                other = theirs.get((id(unit.matcher.automaton), unit.matcher.constants))
                if other is not None:
                    unit.matcher, unit.inbox = other.matcher, other.inbox
            engine.renew_single()
            if engine.clocks is not None and self.beside.clocks is not None:
                engine.clocks.unpack(self.beside.clocks.packed())
        for throttler in engine.throttlers:
            if (known := passed.get(throttler.throttling.mark)) is not None:
                go_on_from(throttler, known)
        if self.stages is not None:
            self.stages.hand_over(engine.throttlers)
        if self.cascade is not None:
            for loop, matchers in self._matchers(engine):
                hand_over(loop, matchers)
            if self._pending:
                engine.hold(self._pending)
        return engine

    def go_on_from(self, engine: StepwiseEngine) -> None:
        """Continue from a stepwise engine of the same patterns, which must not be used afterwards."""
        self._clock, self._late, self._pending = engine.clock, engine.late, engine.pending
        passed = {each.throttling.mark: each for each in engine.throttlers}
        for throttler in self.throttlers:
            # Those beside have theirs.
            throttler.unpack(dict(passed[throttler.throttling.mark].packed()))
        if self.stages is not None:
            self.stages.take_over(engine.throttlers)
        if self.beside is not None:
            self.beside.clock = engine.clock
            if self.cascade is None:
                self.beside.late, self.beside.pending = engine.late, engine.pending
            for throttler in self.beside.throttlers:
                go_on_from(throttler, passed[throttler.throttling.mark])
            theirs = {(id(unit.matcher.automaton), unit.matcher.constants): unit for unit in engine.units}
            for unit in self.beside.units:
                other = theirs[id(unit.matcher.automaton), unit.matcher.constants]
                unit.matcher, unit.inbox = other.matcher, other.inbox
            self.beside.renew_single()
            if engine.clocks is not None and self.beside.clocks is not None:
                self.beside.clocks.unpack(engine.clocks.packed())
        if self.cascade is not None:
            assert self.by_instants or not self._pending
            touched = self._loops_touched()
            self.cascade = self._made(shared=False)
            self.limit(self._limits)
            for loop, matchers in self._matchers(engine):
                loop.clock = engine.clock
                take_over(loop, matchers)
                touched += sum(each.touched for each in matchers.values())
            self.cascade.stages[0].loop.base = touched
            due = self.next_due()
            self._overdue = self.by_instants and due is not None and due <= self.clock

    @property
    def clock(self) -> int:
        """The instant, ns, up to which everything has been processed."""
        return self.beside.clock if self.cascade is None and self.beside is not None else self._clock

    @property
    def loop(self) -> Loop | None:
        """The loop of the independent patterns; None without any."""
        return None if self.cascade is None else self.cascade.plain

    @property
    def behind(self) -> int:
        """Number of events that arrived behind the clock."""
        behind = self._late if self.beside is None else max(self._late, self.beside.behind)
        for stage in () if self.cascade is None else self.cascade.stages:
            behind = max(behind, stage.loop.late)
        return behind

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event examined."""
        touched = self._loops_touched()
        return touched if self.beside is None else touched + self.beside.touched

    def next_due(self) -> int | None:
        """The instant the next time event is due, ns; None without a pending one."""
        dues = [] if self.cascade is None else [stage.loop.next_due() for stage in self.cascade.stages]
        dues += [] if self.beside is None else [self.beside.next_due()]
        return min((due for due in dues if due is not None), default=None)

    def live_instances(self) -> int:
        """Number of live instances."""
        live = 0 if self.cascade is None else sum(stage.loop.live for stage in self.cascade.stages)
        return live if self.beside is None else live + self.beside.live_instances()

    def size(self) -> StateSize:
        """Size of the state."""
        count, memory = values_size(self.throttlers)
        count += self.live_instances()
        for stage in () if self.cascade is None else self.cascade.stages:
            loop = stage.loop
            count += loop.store.held
            memory += loop.memory()[0] + loop.store.held * EVENT + sum(map(len, loop.texts.texts))
        if self.stages is not None:
            count += self.stages.held
            memory += self.stages.memory()
        if self.beside is not None:
            memory += state_size(self.beside).memory
        return StateSize(memory, memory // max(count, 1))

    def _run(self, events: list[Event], until: int) -> list[CompositeEvent]:
        """Consume whole instants, and process due time events until then."""
        self._clock = max(self._clock, until)
        found: list[CompositeEvent] = []
        if self.beside is not None:
            found = [*self.beside.feed(events), *self.beside.advance(until)]
        return found if self.cascade is None else found + self.cascade.run(self._batch(events), until)

    def _batch(self, events: list[Event]) -> Batch:
        """Events for the loops, with the marks of their stages; without those of clocks, which a stepwise engine before
        this one may have left among those that wait, and `any` does not hold."""
        if self.beside is not None and self.beside.clocks is not None:
            events = [each for each in events if not is_clock(each.type)]
        if self._throttled:
            events = [
                mark(self.throttlers, each, self.computers) if each.type in self._throttled else each for each in events
            ]
        batch = Batch.of_events(events)
        return batch if self.stages is None else self.stages.marked(batch)

    def _is_late(self, events: list[Event]) -> bool:
        """Whether an event belongs before the clock, or waits; the loops take events in order only."""
        if self.by_instants:
            late = self._overdue or any(each.hi <= self.clock for each in events)
            return late or not _rise([*self._pending, *events])
        loop = self.loop
        assert loop is not None
        return not loop.follows(events)

    def _stepwise(self, step: Callable[[StepwiseEngine], list[CompositeEvent]]) -> list[CompositeEvent]:
        """Delegate a call to the stepwise engine."""
        engine = self.stepwise()
        engine.limit(self._limits)
        found = step(engine)
        self.go_on_from(engine)
        return found

    def _made(self, *, shared: bool) -> Cascade:
        return Cascade(self._looped, self._kinds, shared=shared)

    def _matchers(self, engine: StepwiseEngine) -> list[tuple[Loop, dict[int, Matcher]]]:
        """Each loop with the matchers of its automata, by unit number."""
        # A pattern of a shape makes its automaton with each request; states are those of the shape.
        waiting: dict[tuple[int, tuple[Attribute, ...]], list[Matcher]] = {}
        for unit in engine.units:
            place = id(unit.matcher.automaton.states), unit.matcher.constants
            waiting.setdefault(place, []).append(unit.matcher)
        return [
            (
                stage.loop,
                {number: waiting[id(each.states), each.constants].pop(0) for number, each in enumerate(stage.automata)},
            )
            for stage in (() if self.cascade is None else self.cascade.stages)
        ]

    def _pending_beside(self) -> list[Event]:
        return [] if self.beside is None else self.beside.pending

    def _loops_touched(self) -> int:
        return 0 if self.cascade is None else sum(stage.loop.touched for stage in self.cascade.stages)

    def _found(self, found: list[CompositeEvent]) -> list[CompositeEvent]:
        if len(self.patterns) > 1:
            found.sort(key=_order)
        return [as_published(each) for each in found] if self._throttled or self.stages is not None else found


def _for_others(patterns: Sequence[Compiled]) -> list[Compiled]:
    """The patterns that the compiled loops cannot run, with those they read or are read by."""
    outputs = {id(each): each.automaton.output for each in patterns}
    published = {output.type_name for output in outputs.values() if output is not None}
    others = [
        each
        for each in patterns
        if not supports(each.automaton)
        or any(not throttling.types.isdisjoint(published) for throttling in each.throttlings)
        or any(name in published for computation in each.computations for name, _ in computation.values)
    ]
    while others:
        known = set(map(id, others))
        theirs = {output.type_name for each in others if (output := outputs[id(each)]) is not None}
        read = {name for each in others for name in each.names()}
        more = [
            each
            for each in patterns
            if id(each) not in known
            and (each.names() & theirs or ((output := outputs[id(each)]) is not None and output.type_name in read))
        ]
        if not more:
            break
        others += more
    return others


def _rise(events: Sequence[Event]) -> bool:
    """Whether order keys strictly rise."""
    keys = [each.key for each in events]
    return all(one < other for one, other in pairwise(keys))


def _order(event: Event) -> OrderKey:
    return event.key
