"""The engine of a detector, whichever it is at the moment: replaced while it runs, and nobody notices.

Which one it should be is said by a choice (`detectors.runtime.engine_choice`), and whether the columnar one may be had
at once by a readiness (`detectors.readiness`). State is handed over as it is between two calls, so what is found stays
the same. What the columnar engine would have the stepwise one run inside anyway stays with the stepwise engine. An
engine that is both was rejected: whoever has the engine at work calls it without a detour, and that is once for every
frame.

A columnar engine is made for long recordings: it holds batches until there are very many, and remembers texts and keys
for as long as it lives. A detector lives on. So every now and then it is told to let go of what nobody refers to, and
after very many events it is replaced by another one, which goes on with what is alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from distced.detectors.compiler import Compiled
from distced.detectors.readiness import Readiness
from distced.detectors.runtime.engine_choice import Choice, EngineChoice, Forced
from distced.detectors.runtime.engines import EngineName, Kinds, chosen
from distced.detectors.stepwise.engine import StepwiseEngine

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

LET_GO_AFTER: Final = 100_000
"""After how many events a columnar engine is to let go of those that nobody refers to: some thirty megabytes."""

CALL: Final = 50
"""How many events a call counts for, because each is a batch that is held, and that is gone through with every call."""

RENEW_AFTER: Final = 500_000
"""After how many events it is replaced, at the least: texts that are all different take a hundred megabytes."""

RENEW_PER_INSTANCE: Final = 200
"""And at the least so many events for each instance: to hand one over and back costs as much as some twenty."""


@dataclass(frozen=True, slots=True)
class Engines:
    """How engines are chosen for the detectors of a node.

    Attributes:
        readiness: whether the columnar engine may be had.
        choice: makes the choice for a detector; it is made again where it has to begin anew.
    """

    readiness: Readiness
    choice: Callable[[], Choice] = EngineChoice


def engines(name: EngineName, readiness: Readiness) -> Engines | None:
    """How engines of this name are chosen; None for the stepwise engine in any case.

    Raises:
        DistcedError: for a name that is none, and where the columnar engine is asked for and cannot be had.
    """
    if chosen(name, 0) == "columnar":
        return Engines(readiness, lambda: Forced("columnar"))
    return None if name == "stepwise" else Engines(readiness)


class SwitchedEngine:
    """The engine of one pattern.

    Attributes:
        engine: the one at work.
    """

    def __init__(
        self, compiled: Compiled, kinds: Kinds, engines: Engines | None = None, *, records: bool = False
    ) -> None:
        """
        Args:
            engines: how it is chosen; None for the stepwise engine in any case.
            records: say of each composite event how it came about; then it stays with the stepwise engine.
        """
        self.engine: StepwiseEngine | ColumnarEngine = StepwiseEngine([compiled], kinds, records=records)
        self._compiled = compiled
        self._kinds = kinds
        self._engines = None if records else engines
        self._choice = None if self._engines is None else self._engines.choice()
        # What engines have touched that are gone.
        self._touched = 0
        # How many events the columnar engine has consumed since it was new, and since it was told to let go.
        self._consumed = self._held = 0

    @property
    def at_work(self) -> EngineName:
        """Which engine it is."""
        return "stepwise" if isinstance(self.engine, StepwiseEngine) else "columnar"

    @property
    def touched(self) -> int:
        """How many pairs of an instance and an event were looked at so far."""
        return self._touched + self.engine.touched

    @property
    def behind(self) -> int:
        """How many events were behind what was consumed already."""
        return self.engine.behind

    @property
    def live(self) -> int:
        """About how many instances there are; those that are gone may count for a while."""
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            return sum(unit.matcher.waiting.live for unit in engine.units)
        return engine.live_instances()

    def used(self, calls: int, events: int, found: int, now: int) -> None:
        """The engine was called, and has consumed so many events and found so many composite ones; perhaps another one
        goes on."""
        choice, settings = self._choice, self._engines
        if choice is None or settings is None:
            return
        wanted = choice.told(calls, events, found, now, self)
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            if wanted == "columnar" and settings.readiness.ready():
                self._take_columnar(engine)
        elif wanted == "stepwise":
            self._take(engine.stepwise())
        else:
            self._keep_house(engine, calls, events)

    def home(self) -> StepwiseEngine:
        """The stepwise engine is at work now, and the choice begins anew."""
        if self._engines is not None:
            self._choice = self._engines.choice()
        engine = self.engine
        if isinstance(engine, StepwiseEngine):
            return engine
        made = engine.stepwise()
        self._take(made)
        return made

    def stay(self) -> StepwiseEngine:
        """The stepwise engine is at work from now on."""
        self._engines = self._choice = None
        return self.home()

    def _keep_house(self, engine: ColumnarEngine, calls: int, events: int) -> None:
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
        self.engine = engine
        self._touched = touched - engine.touched
