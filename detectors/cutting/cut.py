"""Cut of patterns into a graph of detectors: places, sub-patterns, detectors read.

composite-event-framework-2004, "Decomposition" and "Distributed Detection"; design, sections 2 and 3. A `Choose`
selects from the permitted cuts (`candidates`): *none*; *full*, all down to two atoms, for most sharing; *for reuse*,
only where a detector exists (`reuse`); *random*, for tests. Equal canonical sub-patterns are one detector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeAlias

from distced.detectors.automata.properties import may_repeat
from distced.detectors.canonical.form import CanonicalForm, canonical_form
from distced.detectors.compiler import Compiled, beneath, under_marks
from distced.detectors.cutting.candidates import (
    Candidate,
    JointView,
    Path,
    candidates,
    private_candidates,
    size_of,
    views,
)
from distced.detectors.cutting.joints import flat_children, joined, joint_of
from distced.detectors.language.computed import Computation
from distced.detectors.language.derived import Throttling, needed_throttlings
from distced.detectors.language.names import attributes_read
from distced.detectors.language.private import types_named
from distced.detectors.shapes import ShapedPattern
from distced.middleware.model.event_types import EventType
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.tree import Concatenation, Delegated, Keyed, Pattern, Publication, Window, walk
from distced.middleware.patterns.tree import Sequence as SequenceNode

CutPlace: TypeAlias = tuple[Path, tuple[int, int] | None]
"""A node of the canonical tree, or a run of parts of a joint; an empty run at a number is a private publication."""

Choose: TypeAlias = Callable[[Publication, frozenset[str]], Iterable["ChosenCut"]]
"""Choice of cuts for a pattern in canonical form, given its externally read names."""

MOST_CUT: Final = 64
"""Number of atoms of the largest pattern that is fully cut. A sequence of n atoms gives n detectors with up to n atoms
each, a tenth of a second for 64; their hosts cut them again. One of 600 took twelve seconds of a node, and its stack.
"""


@dataclass(frozen=True, slots=True)
class ChosenCut:
    """A sub-pattern chosen for a detector of its own.

    Attributes:
        window: window put around it, ns; None for none; changes nothing if it surrounds the place already.
        reused: its running detector; None for a new one.
        names: canonical names of a reused detector, by the names here.
    """

    candidate: Candidate
    window: int | None = None
    reused: DetectorPlan | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DetectorPlan:
    """A detector of the graph.

    Attributes:
        id: of the canonical form and its exports; `source` is the id without exports.
        compiled: canonical pattern and automaton; its parts may be delegated.
        parts: the detectors it reads, each once.
        exports: names in its derivations, by canonical name.
        places: delegated parts, by place in the canonical tree.
    """

    id: str
    source: str
    compiled: Compiled
    parts: tuple[str, ...]
    exports: frozenset[str] = frozenset()
    places: tuple[tuple[CutPlace, Delegated], ...] = ()


@dataclass(slots=True)
class DetectorGraph:
    """Detectors for patterns: all by id, each after those it reads; `roots` in pattern order; `reused` ones."""

    plans: dict[str, DetectorPlan] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    reused: set[str] = field(default_factory=set)

    def readers(self, detector: str) -> tuple[str, ...]:
        """The detectors that read a detector's derivations."""
        return tuple(each.id for each in self.plans.values() if detector in each.parts)

    def derivations(self, detector: str) -> bool:
        """Whether a detector reads this one as part of a pattern, so that its composite events need derivations; one
        detected whole is read as a private publication only, and has none."""
        read = any(detector in each.parts for each in self.plans.values())
        return read and not self.plans[detector].compiled.is_no_part

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
    """Cut patterns into a graph; `running` detectors by id, `exports` the variables and registers read outside."""
    graph = DetectorGraph()
    for compiled in patterns:
        if compiled.indivisible or (choose is none and not exports and isinstance(compiled, ShapedPattern)):
            # Consumed by epochs it is not cut (design, section 1). Uncut, one of a known shape is left as it is.
            plan = DetectorPlan(compiled.canonical_id, compiled.canonical_id, compiled, ())
            graph.plans.setdefault(plan.id, plan)
            graph.roots.append(plan.id)
            continue
        form = canonical_form(compiled.plain, exports=exports) if exports else compiled.form
        maker = _Maker(graph, choose, compiled.throttlings, compiled.computations, running or {}, beneath(compiled))
        read = frozenset(form.names[name] for name in exports)
        graph.roots.append(maker.plan(form, read, (), compiled).id)
    for root in graph.roots if len(graph.plans) > 1 else ():
        _read_whole(graph, root)
    return graph


def _read_whole(graph: DetectorGraph, root: str) -> None:
    """Let a published pattern read a detector of the same pattern as a part, instead of detecting it a second time."""
    plan = graph.plans[root]
    whole = plan.compiled.plain
    if whole.output is None or plan.compiled.indivisible or root in graph.reused:
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
        compiled=replace(plan.compiled, cut=Publication(delegated, whole.output), privates=(), away=()),
        parts=(part.id,),
        places=((((), None), delegated),),
    )


@dataclass(slots=True)
class _Maker:
    """Builder of the detectors of one pattern, with the stages it needs, the running detectors by id, and its private
    publications by mark, in one another, too."""

    graph: DetectorGraph
    choose: Choose
    throttlings: tuple[Throttling, ...]
    computations: tuple[Computation, ...]
    running: Mapping[str, DetectorPlan]
    privates: Mapping[str, Compiled]

    def plan(
        self, form: CanonicalForm, exports: frozenset[str], under: tuple[str, ...], written: Compiled | None = None
    ) -> DetectorPlan:
        """Add the detector of a canonical form and those it needs to the graph, except its ancestors `under`."""
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
        read = _read_by(whole, self.privates)
        plan = _assembled(form, exports, places, self.throttlings, self.computations, written, read)
        self.graph.plans[form.id] = plan
        return plan

    def delegated(self, choice: ChosenCut, under: tuple[str, ...]) -> Delegated | None:
        """The node that replaces a sub-pattern; None inside the sub-pattern's own detector."""
        candidate = choice.candidate
        if candidate.private:
            detector = self.reuse(choice.reused) if choice.reused else self.private(candidate.private, under)
            return _private(candidate.pattern, detector)
        if choice.reused is not None:
            return _delegated(candidate, self.reuse(choice.reused), choice.names)
        pattern = candidate.pattern if choice.window is None else Window(candidate.pattern, choice.window)
        form = canonical_form(Publication(pattern), key=candidate.key, exports=candidate.exports)
        if form.id in under:
            return None
        form = _with_privates(form, self.privates)
        exports = frozenset(form.names[name] for name in candidate.exports)
        return _delegated(candidate, self.plan(form, exports, under), form.names)

    def private(self, mark: str, under: tuple[str, ...]) -> DetectorPlan:
        """Add the detector of a private publication."""
        compiled = self.privates[mark]
        if not compiled.indivisible or compiled.canonical_id in self.running:
            return self.plan(compiled.form, frozenset(), under, compiled)
        unnamed = compiled.written_as(compiled.plain)
        plan = DetectorPlan(compiled.canonical_id, compiled.canonical_id, unnamed, ())
        return self.graph.plans.setdefault(plan.id, plan)

    def reuse(self, plan: DetectorPlan) -> DetectorPlan:
        """Add a running detector to the graph, behind those it reads."""
        if plan.id not in self.graph.plans:
            for part in plan.parts:
                self.reuse(self.running[part])
            self.graph.plans[plan.id] = plan
            self.graph.reused.add(plan.id)
        return plan


def cut_at(compiled: Compiled, places: Mapping[CutPlace, Delegated], exports: frozenset[str]) -> DetectorPlan:
    """The detector of a pattern cut before: sub-patterns at these places are delegated; `exports` are read outside."""
    form = canonical_form(compiled.plain, exports=exports) if exports else compiled.form
    whole = {
        place: replace(delegated, whole=_standing_at(form.publication.pattern, place, compiled.privates))
        for place, delegated in places.items()
    }
    read = frozenset(form.names[name] for name in exports)
    return _assembled(form, read, whole, compiled.throttlings, compiled.computations, compiled, compiled.privates)


def _assembled(
    form: CanonicalForm,
    exports: frozenset[str],
    places: Mapping[CutPlace, Delegated],
    throttlings: tuple[Throttling, ...],
    computations: tuple[Computation, ...],
    written: Compiled | None,
    privates: tuple[Compiled, ...],
) -> DetectorPlan:
    whole = form.publication if written is None else _as_written(form.publication, written.plain)
    away = tuple(each for each in places.values() if each.private)
    pattern = _replaced(whole.pattern, (), {place: each for place, each in places.items() if not each.private})
    delegating = Publication(pattern, whole.output)
    inside = [each for each in privates if each.canonical_id not in {part.source for part in away}]
    marks = {each.mark for each in needed_throttlings(throttlings, attributes_read(whole.pattern, whole.output))}
    marks |= {stage.mark for each in inside for stage in each.throttlings}
    needed = tuple(each for each in throttlings if each.mark in marks)
    publishes = EventType(form.id, {}) if written is None else written.publishes
    keys = {name for each in needed for name in each.by}.union(
        *(node.attributes for node in walk(whole.pattern) if isinstance(node, Keyed))
    )
    keys |= {stage.mark for each in inside for stage in each.computations}
    compiled = Compiled(
        whole,
        needed,
        publishes,
        whole,
        delegating,
        exports=exports,
        computations=tuple(each for each in computations if each.mark in keys),
        known_form=form,
        privates=privates,
        away=away,
    )
    source = canonical_form(whole).id if exports else form.id
    parts = tuple(dict.fromkeys(each.detector for each in compiled.automaton.delegated))
    return DetectorPlan(form.id, source, compiled, parts, exports, tuple(places.items()))


def _as_written(whole: Publication, written: Publication) -> Publication:
    """Canonical publication with its attributes in the order in which the pattern names them."""
    if whole.output is None or written.output is None:
        return whole
    order = {name: place for place, (name, _) in enumerate(written.output.attributes)}
    attributes = sorted(whole.output.attributes, key=lambda each: order[each[0]])
    return replace(whole, output=replace(whole.output, attributes=tuple(attributes)))


def _standing_at(pattern: Pattern, place: CutPlace, privates: Sequence[Compiled]) -> Pattern:
    path, run = place
    if is_private(place):
        assert run is not None
        return privates[run[0]].form.publication.pattern
    for child in path:
        pattern = flat_children(pattern)[child]
    return pattern if run is None else joint_of(pattern).run(*run)


def is_private(place: CutPlace) -> bool:
    """Whether a place is that of a private publication."""
    _, run = place
    return run is not None and run[0] == run[1]


def _private(pattern: Pattern, plan: DetectorPlan) -> Delegated:
    return Delegated(pattern, plan.id, plan.source, repeats=may_repeat(plan.compiled.automaton), private=True)


def _read_by(publication: Publication, privates: Mapping[str, Compiled]) -> tuple[Compiled, ...]:
    """Those that a pattern in canonical form reads, in the order of their marks."""
    return tuple(privates[name] for name in sorted(types_named(publication.pattern) & privates.keys()))


def _with_privates(form: CanonicalForm, privates: Mapping[str, Compiled]) -> CanonicalForm:
    """The canonical form of a part with the private publications that it reads."""
    read = _read_by(form.publication, privates) if privates else ()
    return replace(form, publication=replace(form.publication, privates=under_marks(read))) if read else form


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


def none(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
    """No cut."""
    return ()


def full(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
    """Cut out the largest permitted sub-patterns, recursively; not the whole, nor single atoms, which readers read as
    events. Joints are cut as left-bracketed, so patterns with a common prefix share. Patterns of more than `MOST_CUT`
    atoms are left whole."""
    taken = [ChosenCut(each) for each in private_candidates(publication)]
    if size_of(publication.pattern) > MOST_CUT:
        return taken
    for view in views(publication, exports=exports):
        if any(_inside(view, each.candidate) for each in taken):
            continue
        for start, stop in _largest(view):
            taken.append(ChosenCut(view.candidate(start, stop), view.context.window))
    return taken


def _largest(view: JointView) -> Iterator[tuple[int, int]]:
    """Permitted runs of a joint that do not overlap: from the beginning on, the longest each time."""
    parts = view.joint.parts
    count = len(parts)
    if count == 1:
        if view.context.stand != "whole" and size_of(parts[0]) > 1 and view.allows(0, 1):
            yield 0, 1
        return
    start = 0
    while start < count - 1:
        last = count - 1 if start == 0 and view.context.stand == "whole" else count
        for stop in range(last, start + 1, -1):
            if view.allows(start, stop):
                yield start, stop
                start = stop
                break
        else:
            start += 1


def randomly(random: Random, *, share: float = 0.5, without: frozenset[str] = frozenset()) -> Choose:
    """Cut out about this share of the permitted sub-patterns at random; `without` are conditions to leave out."""

    def choose(publication: Publication, exports: frozenset[str]) -> list[ChosenCut]:
        allowed = [each for each in candidates(publication, exports=exports, without=without) if each.allowed]
        allowed += private_candidates(publication)
        random.shuffle(allowed)
        taken: list[ChosenCut] = []
        for candidate in allowed:
            if random.random() < share and not any(_meet(candidate, each.candidate) for each in taken):
                taken.append(ChosenCut(candidate, candidate.window if random.random() < 0.5 else None))
        return taken

    return choose


def _inside(view: JointView, candidate: Candidate) -> bool:
    """Whether a node is part of a candidate."""
    if candidate.private:
        return False
    depth = len(candidate.path)
    if view.path[:depth] != candidate.path:
        return False
    if candidate.run is None:
        return True
    return len(view.path) > depth and candidate.run[0] <= view.path[depth] < candidate.run[1]


def _meet(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates overlap."""
    if one.private or other.private:
        return False
    if len(one.path) > len(other.path):
        one, other = other, one
    depth = len(one.path)
    if other.path[:depth] != one.path:
        return False
    if one.run is None:
        return True
    if len(other.path) == depth:
        return other.run is None or (one.run[0] < other.run[1] and other.run[0] < one.run[1])
    return one.run[0] <= other.path[depth] < one.run[1]
