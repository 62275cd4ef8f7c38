"""Engine of a run over recorded events: the stepwise one, until the columnar one is expected to be faster.

The number of events alone does not tell: a pattern with a thousand instances at a time costs a thousand times that of
one with none. The work done so far says what is left to be saved; the cost figures are those of `engine_choice`. Work
is counted and not timed, so that the choice is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from distced.detectors.compiler import Compiled
from distced.detectors.runtime.engine_choice import COLUMNAR, MARGIN, STEPWISE
from distced.detectors.runtime.engines import EngineName, chosen, has_columnar, is_compiled, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND

if TYPE_CHECKING:
    from distced.detectors.columnar.batch.columns import Batch

START: Final = SECOND
COMPILATION: Final = 20 * SECOND
"""Cost of taking the columnar engine, ns: the import of numba and the first use of the compiled loop, and its
compilation where it is not on disk.
"""

STEPWISE_STEP: Final = 5_000
COLUMNAR_STEP: Final = 131_072
"""Approximate numbers of events consumed at once."""


class BatchEngine:
    """Engine that consumes whole instants, all behind those before.

    Attributes:
        on_switch: called before the columnar engine is taken.
    """

    def __init__(self, patterns: Sequence[Compiled], name: EngineName, events: int) -> None:
        """Args: events: number of those to be consumed, as far as known."""
        self._patterns = patterns
        self._engine = make_engine(patterns, engine=chosen(name, events))
        self._may_switch = name == "auto" and has_columnar() and isinstance(self._engine, StepwiseEngine)
        self.on_switch: Callable[[], None] = lambda: None

    @property
    def step(self) -> int:
        """Approximate number of events to be consumed at once."""
        return STEPWISE_STEP if isinstance(self._engine, StepwiseEngine) else COLUMNAR_STEP

    def consume(self, events: Sequence[Event] | Batch, until: int, remaining: int) -> list[CompositeEvent]:
        """Consume events, and fire the time events due until the instant of the last; `remaining`: number to come."""
        engine = self._engine
        if not isinstance(engine, StepwiseEngine):
            if isinstance(events, Sequence):
                return [*engine.feed(events), *engine.advance(until)]
            return engine.consume(events, until)
        if not isinstance(events, Sequence):
            events = [events.event(place) for place in range(len(events))]
        touched = engine.touched
        found = [*engine.feed(events), *engine.advance(until)]
        if self._may_switch and self._saves(len(events), engine.touched - touched, len(found), remaining):
            self._switch(engine)
        return found

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Let time go on until an instant."""
        return self._engine.advance(watermark)

    def finish(self) -> list[CompositeEvent]:
        """Let time go on for ever."""
        return self._engine.finish()

    def next_due(self) -> int | None:
        """The instant of the next time event, ns; None without one."""
        return self._engine.next_due()

    @staticmethod
    def _saves(events: int, touched: int, found: int, remaining: int) -> bool:
        """Whether the columnar engine would save more than it costs to take it, if all is as just now."""
        saved = STEPWISE.of(1, events, touched, found) - MARGIN * COLUMNAR.of(1, events, touched, found)
        saved *= remaining / max(1, events)
        return saved > START and (saved > START + COMPILATION or is_compiled())

    def _switch(self, engine: StepwiseEngine) -> None:
        from distced.detectors.columnar.engine import ColumnarEngine

        self._may_switch = False
        made = ColumnarEngine(self._patterns)
        if made.cascade is None:
            return
        self.on_switch()
        made.go_on_from(engine)
        self._engine = made
