"""Cascade of loops: automata that read one another's composite events, as sides of `&` and as readers of outputs.

They run over the same batch, publishers before readers; composite events join the input of the next. Batches hold whole
instants, and their own detections, so their size changes nothing. Automata without reads share one loop; others have
their own, for their own input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distced.detectors.automata.automaton import Automaton, part_type
from distced.detectors.automata.parameters import closed
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.batch.merging import MergedBatch, Places, together_by_instant, together_by_key
from distced.detectors.columnar.loop import Kinds, Loop
from distced.detectors.compiler import Compiled
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import INSTANT_MIN


@dataclass(slots=True)
class Stage:
    """A loop in a cascade.

    Attributes:
        automata: by number of unit; in the loop they have their constants in the places of parameters.
        publishes: whether its composite events leave the engine, or serve the pattern it is a side of.
        reads: types named in its pattern that other stages may supply.
        readers: receiving stages, by type.
        inbox: composite events of other stages in the current batch.
    """

    loop: Loop
    automata: list[Automaton]
    publishes: bool
    reads: frozenset[str] = frozenset()
    readers: dict[str, list[Stage]] = field(default_factory=dict)
    epochs: bool = False
    inbox: list[CompositeEvent] = field(default_factory=list)

    def run(self, batch: Batch, until: int | None) -> list[CompositeEvent]:
        """Consume a batch, and process due time events until an instant; the composite events detected."""
        if self.inbox:
            batch = MergedBatch(batch, self.inbox)
            self.inbox = []
        found: list[CompositeEvent] = []
        if len(batch):
            found = self.loop.events_of(self.loop.feed(batch, self._together(batch)))
        if until is not None:
            found += self.loop.events_of(self.loop.advance(until))
        for each in found if self.readers else ():
            for reader in self.readers.get(each.type, ()):
                reader.inbox.append(each)
        return found if self.publishes else []

    def _together(self, batch: Batch) -> Places | None:
        return together_by_instant(batch) if self.epochs else together_by_key(batch)


class Cascade:
    """Stages in the order they run; `by_instants` if batches have to hold whole instants."""

    def __init__(self, patterns: Sequence[Compiled], kinds: Kinds, *, shared: bool) -> None:
        """Patterns each after those whose composite events it reads; `shared` as in `Loop`."""
        self.stages: list[Stage] = []
        self._kinds = kinds
        self._shared = shared
        published = {each.automaton.output.type_name for each in patterns if each.automaton.output is not None}
        plain: list[Automaton] = []
        for pattern in patterns:
            automaton = pattern.automaton
            reads = pattern.names() & published
            if not (reads or automaton.parts or automaton.epochs):
                plain.append(automaton)
            else:
                self._add(automaton, reads, None)
        if plain:
            self.stages.insert(0, Stage(Loop(map(closed, plain), kinds, shared=shared), plain, True))
        self.by_instants = any(stage.reads or stage.epochs or not stage.publishes for stage in self.stages)
        self._link()

    @property
    def plain(self) -> Loop | None:
        """The loop of the independent automata; None without any."""
        stage = self.stages[0]
        alone = stage.publishes and not stage.epochs and not stage.reads and not stage.automata[0].parts
        return stage.loop if alone else None

    def run(self, batch: Batch, until: int | None) -> list[CompositeEvent]:
        """Consume a batch, and process due time events until an instant; the composite events detected."""
        found: list[CompositeEvent] = []
        for stage in self.stages:
            found += stage.run(batch, until)
        return found

    @property
    def last(self) -> int:
        """End of the last event, ns."""
        return max(INSTANT_MIN if each.loop.latest is None else each.loop.latest.hi for each in self.stages)

    def end(self) -> None:
        """End the input: recurring time events come once more."""
        for stage in self.stages:
            stage.loop.end()

    def _add(self, automaton: Automaton, reads: frozenset[str], own_type: str | None) -> Stage:
        sides = [
            (part_type(number), self._add(part, reads, part_type(number)))
            for number, part in enumerate(automaton.parts)
            if isinstance(part, Automaton)
        ]
        tells_apart = bool(reads or sides)
        loop = Loop([closed(automaton)], self._kinds, shared=False, reads=tells_apart, own_type=own_type)
        stage = Stage(loop, [automaton], own_type is None, reads, epochs=automaton.epochs)
        for side_type, side in sides:
            side.readers[side_type] = [stage]
        self.stages.append(stage)
        return stage

    def _link(self) -> None:
        by_name: dict[str, list[Stage]] = {}
        for stage in self.stages:
            for name in stage.reads:
                by_name.setdefault(name, []).append(stage)
        for writer in self.stages:
            outputs = (each.output for each in writer.automata) if writer.publishes else ()
            for name in {output.type_name for output in outputs if output is not None}:
                readers = [each for each in by_name.get(name, ()) if each is not writer]
                if readers:
                    writer.readers[name] = readers
