"""A pattern as a graph of detectors: the sub-pattern of each, and the detectors it reads.

composite-event-framework-2004, "Decomposition" and "Distributed Detection"; design, section 2. Which sub-patterns
become detectors is for a `Choose` to say (`decomposition`); here they are taken out of the canonical tree and put
together. Equal sub-patterns, of one pattern or of several, are one detector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from distced.detectors.automata.properties import may_repeat
from distced.detectors.canonical.form import CanonicalForm, canonical_form
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.candidates import Candidate, Path, candidates
from distced.detectors.cutting.joints import flat_children, joined, joint_of
from distced.detectors.language.derived import Throttling
from distced.detectors.language.names import referenced
from distced.middleware.model.event_types import EventType
from distced.middleware.patterns.rewriting import rebuild
from distced.middleware.patterns.tree import Concatenation, Delegated, Pattern, Publication, Window
from distced.middleware.patterns.tree import Sequence as SequenceNode

CutPlace: TypeAlias = tuple[Path, tuple[int, int] | None]
"""A node of the canonical tree, or a run of parts of a joint."""

Choose: TypeAlias = Callable[[Publication, frozenset[str]], Iterable["ChosenCut"]]
"""Choice of cuts for a pattern in canonical form, given its externally read names."""


@dataclass(frozen=True, slots=True)
class ChosenCut:
    """A sub-pattern chosen for a detector of its own.

    Attributes:
        candidate: which.
        window: the window that is put around it, ns; None for none. One around the place it stands in changes nothing.
        reused: the detector of it that runs already; None for one that is to be made.
        names: for a reused one, what it hands on: its canonical names by the names here.
    """

    candidate: Candidate
    window: int | None = None
    reused: DetectorPlan | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DetectorPlan:
    """A detector of the graph.

    Attributes:
        id: its id: that of the canonical form of its pattern, and of its exports.
        source: the id without the exports.
        compiled: its pattern in canonical form, with the automaton to run; parts of that may be delegated.
        parts: the detectors it reads, each once.
        exports: the names its derivations hand on, by canonical name.
        places: the delegated parts, with their places in the canonical tree.
    """

    id: str
    source: str
    compiled: Compiled
    parts: tuple[str, ...]
    exports: frozenset[str] = frozenset()
    places: tuple[tuple[CutPlace, Delegated], ...] = ()


@dataclass(slots=True)
class DetectorGraph:
    """Detectors that together detect one or more patterns.

    Attributes:
        plans: by id; each behind those it reads.
        roots: the detectors of the patterns themselves, in the order of the patterns.
        reused: those that were there before.
    """

    plans: dict[str, DetectorPlan] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    reused: set[str] = field(default_factory=set)

    def readers(self, detector: str) -> tuple[str, ...]:
        """The detectors that read a detector's derivations."""
        return tuple(each.id for each in self.plans.values() if detector in each.parts)

    def derivations(self, detector: str) -> bool:
        """Whether a detector reads this one as part of a pattern, so that its composite events need derivations."""
        return any(detector in each.parts for each in self.plans.values())

    @property
    def shared(self) -> frozenset[str]:
        """The detectors with several readers, or with a reader and a pattern of their own."""
        return frozenset(each for each in self.plans if len(self.readers(each)) + self.roots.count(each) > 1)


def cut(
    patterns: Sequence[Compiled],
    choose: Choose,
    *,
    running: Mapping[str, DetectorPlan] | None = None,
    exports: frozenset[str] = frozenset(),
) -> DetectorGraph:
    """The graph of detectors for patterns, cut as chosen.

    Args:
        running: the detectors there are already, by id.
        exports: variables and registers of the patterns that are read outside.
    """
    graph = DetectorGraph()
    for compiled in patterns:
        if compiled.epochs:
            # Consumed by epochs it is not cut (design, section 1).
            plan = DetectorPlan(compiled.canonical_id, compiled.canonical_id, compiled, ())
            graph.plans.setdefault(plan.id, plan)
            graph.roots.append(plan.id)
            continue
        form = canonical_form(compiled.plain, exports=exports) if exports else compiled.form
        maker = _Maker(graph, choose, compiled.throttlings, running or {})
        read = frozenset(form.names[name] for name in exports)
        graph.roots.append(maker.plan(form, read, (), compiled.publishes).id)
    for root in graph.roots:
        _read_whole(graph, root)
    return graph


def _read_whole(graph: DetectorGraph, root: str) -> None:
    """Let a published pattern read a detector of the same pattern as a part, instead of detecting it a second time."""
    plan = graph.plans[root]
    whole = plan.compiled.plain
    if whole.output is None or plan.compiled.epochs or root in graph.reused:
        return
    everything = next(candidates(whole))
    form = canonical_form(Publication(whole.pattern), exports=everything.exports)
    part = graph.plans.get(form.id)
    if part is None or not graph.derivations(part.id) or part.id in plan.parts or not everything.allowed:
        return
    delegated = _delegated(everything, part, form.names)
    # Behind what it reads now.
    del graph.plans[root]
    graph.plans[root] = replace(
        plan,
        compiled=replace(plan.compiled, cut=Publication(delegated, whole.output)),
        parts=(part.id,),
        places=((((), None), delegated),),
    )


@dataclass(slots=True)
class _Maker:
    """Builder of the detectors of one pattern.

    Attributes:
        throttlings: those the pattern needs; each detector gets those it needs.
        running: the detectors there are already, by id.
    """

    graph: DetectorGraph
    choose: Choose
    throttlings: tuple[Throttling, ...]
    running: Mapping[str, DetectorPlan]

    def plan(
        self, form: CanonicalForm, exports: frozenset[str], under: tuple[str, ...], publishes: EventType | None = None
    ) -> DetectorPlan:
        """The detector of a canonical form, and those it needs, added to the graph where missing.

        Args:
            under: the detectors that wait for this one; a pattern is no part of itself.
        """
        known = self.graph.plans.get(form.id)
        if known is not None:
            return known
        if form.id in self.running:
            return self.reuse(self.running[form.id])
        whole, under = form.publication, (*under, form.id)
        places: dict[CutPlace, Delegated] = {}
        for choice in self.choose(whole, exports):
            part = self.delegated(choice, under)
            if part is not None:
                places[choice.candidate.path, choice.candidate.run] = part
        plan = _assembled(form, exports, places, self.throttlings, publishes)
        self.graph.plans[form.id] = plan
        return plan

    def delegated(self, choice: ChosenCut, under: tuple[str, ...]) -> Delegated | None:
        """The node that replaces a sub-pattern; None inside the sub-pattern's own detector."""
        candidate = choice.candidate
        if choice.reused is not None:
            return _delegated(candidate, self.reuse(choice.reused), choice.names)
        pattern = candidate.pattern if choice.window is None else Window(candidate.pattern, choice.window)
        form = canonical_form(Publication(pattern), key=candidate.key, exports=candidate.exports)
        if form.id in under:
            return None
        exports = frozenset(form.names[name] for name in candidate.exports)
        return _delegated(candidate, self.plan(form, exports, under), form.names)

    def reuse(self, plan: DetectorPlan) -> DetectorPlan:
        """Add a running detector to the graph, behind those it reads."""
        if plan.id not in self.graph.plans:
            for part in plan.parts:
                self.reuse(self.running[part])
            self.graph.plans[plan.id] = plan
            self.graph.reused.add(plan.id)
        return plan


def cut_at(compiled: Compiled, places: Mapping[CutPlace, Delegated], exports: frozenset[str]) -> DetectorPlan:
    """The detector of a pattern already cut at the same places.

    Args:
        places: what is delegated; of each the sub-pattern is looked up.
        exports: variables and registers of the pattern that are read outside.
    """
    form = canonical_form(compiled.plain, exports=exports) if exports else compiled.form
    whole = {
        place: replace(delegated, whole=_standing_at(form.publication.pattern, place))
        for place, delegated in places.items()
    }
    read = frozenset(form.names[name] for name in exports)
    return _assembled(form, read, whole, compiled.throttlings, compiled.publishes)


def _assembled(
    form: CanonicalForm,
    exports: frozenset[str],
    places: Mapping[CutPlace, Delegated],
    throttlings: tuple[Throttling, ...],
    publishes: EventType | None,
) -> DetectorPlan:
    whole = form.publication
    pattern = _replaced(whole.pattern, (), places)
    delegating = Publication(pattern, whole.output)
    marks = referenced(whole.pattern, None)
    needed = tuple(each for each in throttlings if each.mark in marks)
    publishes = publishes or EventType(form.id, {})
    compiled = Compiled(whole, needed, publishes, whole, delegating, exports=exports, known_form=form)
    source = canonical_form(whole).id if exports else form.id
    parts = tuple(dict.fromkeys(each.detector for each in compiled.automaton.delegated))
    return DetectorPlan(form.id, source, compiled, parts, exports, tuple(places.items()))


def _standing_at(pattern: Pattern, place: CutPlace) -> Pattern:
    path, run = place
    for child in path:
        pattern = flat_children(pattern)[child]
    return pattern if run is None else joint_of(pattern).run(*run)


def _delegated(candidate: Candidate, plan: DetectorPlan, canonical: Mapping[str, str]) -> Delegated:
    automaton = plan.compiled.automaton
    registers = {register.name for register in automaton.registers}
    names = sorted((canonical[name], name) for name in candidate.exports)
    return Delegated(
        whole=candidate.pattern,
        detector=plan.id,
        source=plan.source,
        key=automaton.key,
        bound=tuple(pair for pair in names if pair[0] not in registers),
        counted=tuple(pair for pair in names if pair[0] in registers),
        repeats=may_repeat(automaton),
    )


def _replaced(pattern: Pattern, path: Path, places: Mapping[CutPlace, Delegated]) -> Pattern:
    """The pattern with parts delegated."""
    if (path, None) in places:
        return places[path, None]
    if not isinstance(pattern, Concatenation | SequenceNode):
        inside = iter(enumerate(flat_children(pattern)))

        def change(child: Pattern) -> Pattern:
            place, _ = next(inside)
            return _replaced(child, (*path, place), places)

        return rebuild(pattern, change)
    joint = joint_of(pattern)
    parts = [_replaced(part, (*path, place), places) for place, part in enumerate(joint.parts)]
    signs = list(joint.strong)
    runs = sorted((run for at, run in places if at == path and run is not None), reverse=True)
    for start, stop in runs:
        parts[start:stop] = [places[path, (start, stop)]]
        signs[start : stop - 1] = []
    return joined(tuple(parts), tuple(signs))
