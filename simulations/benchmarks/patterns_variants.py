"""Variants compared by `distced bench patterns`: those of the columnar engine, and the baseline.

cayuga-algebra-cesar, section 5.2.1, Figure 17: with indexes, without merging of states, and without any. In the last
Cayuga keeps its index of static predicates, and patterns are by themselves only behind it. Here every event is checked
against every pattern: a mode in which one index works would be there for this figure alone. The baseline is about that
index by itself, and is not in their figure.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.loop import Loop
from distced.simulations.benchmarks.cayuga_queries import CONTINUOUS, DISCRETE
from distced.simulations.benchmarks.static_predicates import StaticPredicates

Variant: TypeAlias = Literal["with indexes", "without merging", "without any", "predicates alone"]

OPTIONS: Final[Mapping[Variant, tuple[bool, bool]]] = {
    "with indexes": (True, True),
    "without merging": (True, False),
    "without any": (False, False),
}
"""Options of each variant of the engine: indexed or not, states shared or not."""


class PatternRunner(ABC):
    """A measured variant, with its time.

    Attributes:
        seconds, events: measured time and number of events.
        found: number of matches in each batch of these.
    """

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.warm()

    def warm(self) -> None:
        """End the warm-up and begin to measure."""
        self.seconds, self.events, self.found = 0.0, 0, list[int]()

    def take(self, batch: Batch) -> None:
        """Consume events."""
        began = time.perf_counter()
        found = self.count(batch)
        self.seconds += time.perf_counter() - began
        self.events += len(batch)
        self.found.append(found)

    @abstractmethod
    def count(self, batch: Batch) -> int:
        """Consume events, and return the number of matches."""


class EngineRunner(PatternRunner):
    """A variant of the engine.

    Attributes:
        added: time to add each pattern, s.
        removed: time to remove each of some patterns, s.
    """

    def __init__(self, variant: Variant) -> None:
        indexed, shared = OPTIONS[variant]
        self.loop = Loop((), indexed=indexed, shared=shared)
        self.added: list[float] = []
        self.removed: list[float] = []
        super().__init__(variant)

    def add(self, automaton: Automaton) -> None:
        """Add a pattern."""
        began = time.perf_counter()
        self.loop.add(automaton)
        self.added.append(time.perf_counter() - began)

    def exchange(self, count: int) -> None:
        """Remove the n patterns added last, and add them again."""
        self.removed = []
        units = list(self.loop.assembler.units.values())[-count:]
        for unit in units:
            began = time.perf_counter()
            self.loop.remove(unit.number)
            self.removed.append(time.perf_counter() - began)
        for unit in units:
            self.loop.add(unit.automaton)

    def warm(self) -> None:
        super().warm()
        self._before = self.loop.touched

    def count(self, batch: Batch) -> int:
        return len(self.loop.feed(batch))

    @property
    def touched(self) -> int:
        """Number of pairs of an instance or a start and an event that were checked."""
        return self.loop.touched - self._before

    def states(self) -> int:
        """Number of states in which instances may wait."""
        return len({state for unit in self.loop.assembler.units.values() for state in unit.states if state})


class BaselineRunner(PatternRunner):
    """The baseline: the static predicates of first steps alone."""

    def __init__(self, predicates: StaticPredicates) -> None:
        self._predicates = predicates
        super().__init__("predicates alone")

    def count(self, batch: Batch) -> int:
        return self._predicates.count(arrays(batch))


def arrays(batch: Batch) -> dict[str, np.ndarray[Any, Any]]:
    """The attributes of a batch of Cayuga's stream."""
    columns = {name: batch.column(name) for name in (*DISCRETE, *CONTINUOUS)}
    words = {name: column.payload for name, column in columns.items() if column is not None}
    return {name: each.view(np.float64) if name in CONTINUOUS else each for name, each in words.items()}
