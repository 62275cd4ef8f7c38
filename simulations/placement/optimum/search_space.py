"""Search space: the detectors that patterns may be made of, and the ways to detect each.

composite-event-framework-2004, "Decomposition" and "Distribution Policies". A pattern may stay whole, be cut wherever
the rule allows it, or read what others need anyway; and so may each of its parts. Canonical forms identify detectors
in common. Only the load of a detector depends on its cut (design, section 2).

All sets of cuts that the rule allows were rejected: a pattern of ten atoms has thousands, of which policies use these
alone. Further cuts of a policy are added (`SearchSpace.add`), so that every compared placement is included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from distced.detectors.compiler import Compiled
from distced.detectors.cutting.catalogue import Catalogue, Entry
from distced.detectors.cutting.cut import Choose, ChosenCut, DetectorGraph, DetectorPlan, cut, full, none
from distced.detectors.cutting.reuse import INLINE, Usable, for_reuse
from distced.middleware.model.errors import DistcedError
from distced.middleware.patterns.tree import Publication
from distced.middleware.wire.directory_entries import parts_key
from distced.policies.topology.model import Place


@dataclass(frozen=True, slots=True)
class PatternRequest:
    """A pattern with a name for reports, and its subscribers, at least one."""

    name: str
    compiled: Compiled
    subscribers: tuple[Place, ...]


@dataclass(slots=True)
class SearchSpace:
    """The detectors that patterns may be made of.

    Attributes:
        roots: ids of the detectors of the requested patterns, in order; patterns of one meaning share one.
        alternatives, compiled: of each detector its plans, by `parts_key`, the whole first; its pattern to be cut, and
            exports.
    """

    asked: tuple[PatternRequest, ...]
    roots: tuple[str, ...] = ()
    alternatives: dict[str, dict[str, DetectorPlan]] = field(default_factory=dict)
    compiled: dict[str, tuple[Compiled, frozenset[str]]] = field(default_factory=dict)

    def plans(self) -> Iterator[DetectorPlan]:
        """All plans of all detectors, parts before their readers."""
        for name in self.ordered():
            yield from self.alternatives[name].values()

    def ordered(self) -> list[str]:
        """Detectors, each after all that it may read."""
        found: dict[str, None] = {}

        def visit(name: str, above: frozenset[str]) -> None:
            if name in found or name in above:
                return
            for plan in self.alternatives[name].values():
                for other in (*plan.parts, *self.named(plan)):
                    if other in self.alternatives:
                        visit(other, above | {name})
            found[name] = None

        for name in sorted(self.alternatives):
            visit(name, frozenset())
        return list(found)

    def whole(self, name: str) -> DetectorPlan:
        """Plan of a detector without parts."""
        return self.alternatives[name][""]

    def named(self, plan: DetectorPlan) -> tuple[str, ...]:
        """Detectors whose composite events a plan reads by type."""
        names = plan.compiled.names()
        return tuple(root for root in dict.fromkeys(self.roots)
                     if self.publishes(root) and self.publishes(root) in names and root != plan.id)  # fmt: skip

    def depth(self, name: str) -> int:
        """Longest chain of patterns, each reading the next by type, below a detector."""
        return max((1 + self.depth(other) for other in self.named(self.whole(name))), default=0)

    def publishes(self, name: str) -> str:
        """Type of its composite events; empty where they have none."""
        output = self.whole(name).compiled.automaton.output
        return "" if output is None else output.type_name

    def made_of(self, root: str) -> frozenset[str]:
        """A detector, and those that it may be made of."""
        found, waiting = {root}, [root]
        while waiting:
            for plan in self.alternatives[waiting.pop()].values():
                waiting += [part for part in plan.parts if part not in found]
                found.update(plan.parts)
        return frozenset(found)

    @property
    def parts(self) -> frozenset[str]:
        """Detectors that others may read as parts."""
        return frozenset(
            part for alternatives in self.alternatives.values() for plan in alternatives.values() for part in plan.parts
        )

    def is_part(self, name: str) -> bool:
        """Whether others may read a detector as a part."""
        return name not in self.roots or name in self.parts

    @property
    def read_by_type(self) -> frozenset[str]:
        """Detectors that others read by type."""
        return frozenset(each for name in self.alternatives for each in self.named(self.whole(name)))

    def add(self, plans: Mapping[str, DetectorPlan]) -> bool:
        """Add plans of a policy; returns whether any is new."""
        new = False
        for name, plan in plans.items():
            if name not in self.alternatives:
                part = plan.compiled.written_as(plan.compiled.plain)
                self._add_detector(part, plan.exports)
                new = True
            if parts_key(plan.parts) not in self.alternatives[name]:
                self.alternatives[name][parts_key(plan.parts)] = plan
                new = True
        return new

    def _add_detector(self, compiled: Compiled, exports: frozenset[str]) -> str:
        whole = _top(cut([compiled], none, exports=exports))
        if whole.id not in self.alternatives:
            self.alternatives[whole.id] = {"": whole}
            self.compiled[whole.id] = (compiled, exports)
        return whole.id

    def _fill(self) -> None:
        """Add the parts of all patterns, cut as far as the rule allows, and each detector from what others need."""
        waiting = list(self.alternatives)
        while waiting:
            name = waiting.pop()
            compiled, exports = self.compiled[name]
            if compiled.indivisible:
                continue
            graph = cut([compiled], _at_the_top(full), exports=exports)
            self._keep(graph)
            for part in _top(graph).parts:
                if part not in self.alternatives:
                    plan = graph.plans[part]
                    self._add_detector(plan.compiled.written_as(plan.compiled.plain), plan.exports)
                    waiting.append(part)
        catalogue = Catalogue()
        for alternatives in self.alternatives.values():
            # What publishes under a name is read by its type, not as a part.
            if alternatives[""].compiled.automaton.output is None and not alternatives[""].compiled.throttlings:
                catalogue.add(alternatives[""])
        for name in list(self.alternatives):
            compiled, exports = self.compiled[name]
            if not compiled.indivisible:
                choose = for_reuse(catalogue, _all_but(name))
                self._keep(cut([compiled], _at_the_top(choose), running=catalogue.plans, exports=exports))

    def _keep(self, graph: DetectorGraph) -> None:
        plan = _top(graph)
        if plan.id in self.alternatives and plan.id not in plan.parts:
            self.alternatives[plan.id].setdefault(parts_key(plan.parts), plan)


def space_of(asked: Sequence[PatternRequest]) -> SearchSpace:
    """Search space of patterns. Raises `DistcedError` without any pattern."""
    if not asked:
        raise DistcedError("no pattern to place detectors for", allowed="at least one")
    space = SearchSpace(tuple(asked))
    # A node reads the requested pattern, with its publication.
    space.roots = tuple(space._add_detector(each.compiled, frozenset()) for each in asked)
    space._fill()
    return space


def _top(graph: DetectorGraph) -> DetectorPlan:
    return graph.plans[graph.roots[0]]


def _at_the_top(choose: Choose) -> Choose:
    """Cut the pattern itself, and leave its parts whole."""
    left = [choose]

    def at_the_top(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
        return left.pop()(publication, exports) if left else ()

    return at_the_top


def _all_but(name: str) -> Usable:
    def usable(entry: Entry) -> float | None:
        return None if entry.id == name else INLINE

    return usable
