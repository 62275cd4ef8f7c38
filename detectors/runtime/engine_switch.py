"""Replacement of a detector's engine at run time, with the same composite events.

A choice (`detectors.runtime.engine_choice`) selects the engine; a `Readiness` (`detectors.warm_start`) says whether the
columnar one is available at once. State is handed over between two calls. Patterns that the columnar engine would
delegate stay with the stepwise one; a combined engine would cost its detour once per frame.

A columnar engine holds batches, and remembers texts and keys for as long as it lives. So it is compacted periodically,
and after very many events replaced by another one, which continues with the live instances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from distced.detectors.compiler import Compiled
from distced.detectors.limits import UNLIMITED, Limits
from distced.detectors.runtime.engine_choice import LEAST, STEPWISE, EngineChoice, EngineChooser, Forced
from distced.detectors.runtime.engines import EngineName, Kinds, chosen
from distced.detectors.runtime.pass_choice import ForcedPass, PassChoice, PassChooser
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.state_size import StateSize, state_size

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

LET_GO_AFTER: Final = 100_000
"""Number of events after which a columnar engine is compacted: some thirty megabytes."""

CALL: Final = 50
"""Number of events a call counts as: each call adds a batch that later calls go through."""

RENEW_AFTER: Final = 500_000
"""Minimum of events before a columnar engine is replaced: texts that all differ take a hundred megabytes."""

RENEW_PER_INSTANCE: Final = 200
"""Minimum of events per instance before a replacement: a handover and back costs as much as some twenty."""


class Readiness(Protocol):
    """Readiness of the columnar engine; `problem` is what makes it unavailable, empty for nothing known."""

    @property
    def problem(self) -> str: ...

    def ready(self) -> bool:
        """Whether the engine can be used at once. If not, its preparation starts, unless it is unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """Settings of the engines of a node's detectors.

    Attributes:
        readiness: of the columnar one.
        choice: maker of the choice of each detector.
        shared: maker of the choice of the members of each shared pass (`detectors.runtime.shared_pass`).
        begins: estimated work of a stepwise engine before its choice begins, ns; less than a switch costs, so that most
            of ten thousand detectors have none.
    """

    readiness: Readiness
    choice: Callable[[], EngineChooser] = EngineChoice
    shared: Callable[[], PassChooser] = PassChoice
    begins: int = 0


def engines(name: EngineName, readiness: Readiness) -> Engines | None:
    """Settings of the choice of engines by name; None for the stepwise engine. Raises `DistcedError` for an unknown
    name, and if the columnar engine is asked for and unavailable."""
    if chosen(name, 0) == "columnar":
        return Engines(readiness, lambda: Forced("columnar"), ForcedPass)
    return None if name == "stepwise" else Engines(readiness, begins=LEAST)


class SwitchedEngine:
    """The current engine of one pattern."""

    __slots__ = (
        *("_choice", "_compiled", "_consumed", "_engines", "_held", "_kinds", "_limits", "_touched", "_worked"),
        "engine",
    )

    def __init__(
        self,
        compiled: Compiled,
        kinds: Kinds,
        engines: Engines | None = None,
        limits: Limits = UNLIMITED,
        *,
        derivations: bool = False,
    ) -> None:
        """Args: engines: settings of the choice; None for the stepwise engine in any case. limits: of the current
        engine. derivations: attach provenance to each composite event, which keeps the stepwise engine.
        """
        self.engine: StepwiseEngine | ColumnarEngine = StepwiseEngine([compiled], kinds, derivations=derivations)
        self._limits = limits
        self.engine.limit(limits)
        self._compiled = compiled
        self._kinds = kinds
        self._engines = None if derivations else engines
        # Made once it has worked enough: estimated work of its calls, events and composite events until then, ns.
        self._choice: EngineChooser | None = None
        self._worked = 0.0
        # What engines have touched that are gone.
        self._touched = 0
        # How many events the columnar engine has consumed since it was new, and since its last compaction request.
        self._consumed = self._held = 0

    @property
    def at_work(self) -> EngineName:
        """The name of the current engine."""
        return "stepwise" if isinstance(self.engine, StepwiseEngine) else "columnar"

    def level(self, clock: int) -> None:
        """Advance an engine that has nothing to do up to here."""
        engine = self.engine
        if engine.clock < clock:
            found = engine.advance(clock)
            assert not found, (self._compiled.text, clock, found)

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event examined."""
        return self._touched + self.engine.touched

    @property
    def behind(self) -> int:
        """Number of events that arrived behind the clock."""
        return self.engine.behind

    @property
    def live(self) -> int:
        """Approximate number of instances; ended ones may count for a while."""
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            return sum(unit.matcher.store.live for unit in engine.units)
        return engine.live_instances()

    def size(self) -> StateSize:
        """Size of the state of the current engine."""
        engine = self.engine
        return state_size(engine) if isinstance(engine, StepwiseEngine) else engine.size()

    def used(self, calls: int, events: int, found: int, now: int) -> None:
        """Account for a call that consumed n events and detected m composite events; may switch the engine."""
        choice, settings = self._choice, self._engines
        if settings is None:
            return
        if choice is None:
            self._worked += STEPWISE.of(calls, events, 0, found)
            if self._worked + STEPWISE.touched * self.engine.touched < settings.begins:
                return
            choice = self._choice = settings.choice()
        wanted = choice.choose(calls, events, found, now, self)
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            if wanted == "columnar" and settings.readiness.ready():
                self._take_columnar(engine)
        elif wanted == "stepwise":
            self._take(engine.stepwise())
        else:
            self._compact(engine, calls, events)

    def go_on_with(self, engine: StepwiseEngine) -> None:
        """Continue with the state of another engine of the pattern, instead of its own."""
        self._take(engine)

    def home(self) -> StepwiseEngine:
        """Switch to the stepwise engine, and restart the choice."""
        self._choice, self._worked = None, 0.0
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            return engine
        made = engine.stepwise()
        self._take(made)
        return made

    def copied(self) -> StepwiseEngine:
        """A stepwise engine with the present state, to be read at once and not used otherwise."""
        engine = self.engine
        return engine if isinstance(engine, StepwiseEngine) else engine.stepwise()

    def stay(self) -> StepwiseEngine:
        """Switch to the stepwise engine for good."""
        self._engines = self._choice = None
        return self.home()

    def _compact(self, engine: ColumnarEngine, calls: int, events: int) -> None:
        self._consumed += events
        self._held += events + CALL * calls
        if self._consumed >= RENEW_AFTER and self._consumed >= RENEW_PER_INSTANCE * self.live:
            self._take_columnar(engine.stepwise())
        elif self._held >= LET_GO_AFTER:
            self._held = 0
            engine.let_go_soon()

    def _take_columnar(self, engine: StepwiseEngine) -> None:
        from distced.detectors.columnar.engine import ColumnarEngine

        made = ColumnarEngine([self._compiled], self._kinds)
        if made.beside is not None:
            self._engines = self._choice = None
            return
        made.go_on_from(engine)
        self._consumed = self._held = 0
        self._take(made)

    def _take(self, engine: StepwiseEngine | ColumnarEngine) -> None:
        touched = self.touched
        engine.limit(self._limits)
        self.engine = engine
        self._touched = touched - engine.touched
