"""Choice of cuts for reuse: the cheapest cover of a pattern by running detectors, and plans for a sequence of patterns.

composite-event-framework-2004, "Distribution Policies" (decomposition and reuse); design, section 3, "for reuse". A
cover is a choice of sub-patterns without overlap; as permission depends on the place alone, dynamic programming along
joints and outwards through the tree finds the cheapest. The rest goes into one new detector. Planned detectors run
before the next pattern is planned, so new patterns reuse one another's; publications are reused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from distced.detectors.automata.automaton import INSIDE, PART_PREFIX, Automaton
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.candidates import Context, JointView, Path, inside, outermost, private_candidates
from distced.detectors.cutting.catalogue import Around, Catalogue, Entry, Word, core_of, entry_of, word_of
from distced.detectors.cutting.cut import Choose, ChosenCut, DetectorGraph, DetectorPlan, cut, full
from distced.detectors.cutting.joints import Joint, joint_of
from distced.detectors.language.names import all_registers
from distced.middleware.patterns.tree import Atom, Pattern, Publication
from distced.middleware.sets.expressions import FALSE

Usable: TypeAlias = Callable[[Entry], float | None]
"""Cost of reading a detector, in atoms; None for an unusable one."""

INLINE: float = 1.0
"""Cost of an atom that the new detector matches."""


class _Reused(NamedTuple):
    """A run read from a running detector, with the names in the run by number."""

    view: JointView
    start: int
    stop: int
    entry: Entry
    names: tuple[str, ...]


class _Cover(NamedTuple):
    """A way to detect a part of the pattern: its cost in atoms, and the runs read from running detectors."""

    cost: float
    reused: tuple[_Reused, ...]


def for_reuse(catalogue: Catalogue, usable: Usable = lambda _: INLINE) -> Choose:
    """Cut out what running detectors detect, with the cheapest cover; reading has to cost less than it saves."""

    def choose(publication: Publication, exports: frozenset[str]) -> tuple[ChosenCut, ...]:
        registers = frozenset(all_registers(publication.pattern))
        finder = _Finder(catalogue, usable, registers)
        cover = finder.cover(publication.pattern, (), outermost(publication, exports))
        chosen = [_choice(catalogue, each) for each in cover.reused]
        for each in private_candidates(publication):
            plan = catalogue.plans.get(each.private.removeprefix(PART_PREFIX))
            if plan is not None and usable(entry_of(plan)) is not None:
                chosen.append(ChosenCut(each, reused=plan))
        return tuple(chosen)

    return choose


class _Finder:
    """Search for the cheapest cover of one pattern with these registers."""

    def __init__(self, catalogue: Catalogue, usable: Usable, registers: frozenset[str]) -> None:
        self.catalogue = catalogue
        self.usable = usable
        self.registers = registers
        # The parts inside keys and windows are asked for once more at each of these.
        self._words: dict[int, Word] = {}

    def cover(self, pattern: Pattern, path: Path, context: Context) -> _Cover:
        """The cheapest cover of a node."""
        view = JointView(path, joint_of(pattern), context)
        if len(view.joint.parts) > 1:
            return self._along(view)
        if isinstance(pattern, Atom):
            return _Cover(INLINE, ())
        below = [
            self.cover(child, (*path, place), around) for place, (child, around) in enumerate(inside(pattern, context))
        ]
        best = _Cover(sum(each.cost for each in below), tuple(reused for each in below for reused in each.reused))
        return min((best, *self._whole(view, pattern)), key=_cost)

    def _along(self, view: JointView) -> _Cover:
        """The cheapest cover of a joint, by dynamic programming over its prefixes."""
        joint, path = view.joint, view.path
        words = self._words_of(joint)
        around = Around(view.context.key, None, view.context.window)
        best: list[_Cover] = [_Cover(0.0, ())] + [_Cover(float("inf"), ())] * len(joint.parts)
        for start, part in enumerate(joint.parts):
            before = best[start]
            alone = self.cover(part, (*path, start), view.context_at(start, start + 1))
            _improve(best, start + 1, before, alone)
            for stop, entry, names in self.catalogue.find(words, joint, start, around):
                if stop - start > 1:
                    cost = self.usable(entry)
                    if cost is not None and before.cost + cost < best[stop].cost:
                        reused = self._reuse(_Reused(view, start, stop, entry, names), cost)
                        if reused is not None:
                            _improve(best, stop, before, reused)
        return best[-1]

    def _whole(self, view: JointView, pattern: Pattern) -> list[_Cover]:
        """Covers of a node other than a joint by one detector each."""
        core, key, window = core_of(pattern)
        context = view.context
        around = Around(tuple(sorted({*context.key, *key})), window, context.window)
        joint = joint_of(core)
        words = self._words_of(joint)
        found = []
        for stop, entry, names in self.catalogue.find(words, joint, 0, around):
            cost = self.usable(entry)
            if stop == len(joint.parts) and cost is not None:
                reused = self._reuse(_Reused(view, 0, 1, entry, names), cost)
                found += [] if reused is None else [reused]
        return found

    def _words_of(self, joint: Joint) -> list[Word]:
        return [self._words.get(id(part)) or self._word(part) for part in joint.parts]

    def _word(self, part: Pattern) -> Word:
        word = self._words[id(part)] = word_of(part, self.registers)
        return word

    def _reuse(self, reused: _Reused, cost: float) -> _Cover | None:
        """A run read from a running detector, if that hands on the required names and the rule permits it."""
        view, start, stop, entry, names = reused
        if not {names.index(name) for name in view.exports(start, stop)} <= entry.exports:
            return None
        return _Cover(cost, (reused,)) if view.allows(start, stop) else None


def _choice(catalogue: Catalogue, reused: _Reused) -> ChosenCut:
    view, start, stop, entry, names = reused
    handed_on = {name: entry.names[names.index(name)] for name in view.exports(start, stop)}
    return ChosenCut(view.candidate(start, stop), reused=catalogue.plans[entry.id], names=handed_on)


def _improve(best: list[_Cover], place: int, before: _Cover, more: _Cover) -> None:
    cost = before.cost + more.cost
    if cost < best[place].cost:
        best[place] = _Cover(cost, before.reused + more.reused)


def _cost(cover: _Cover) -> float:
    return cover.cost


def catalogue_of(patterns: Sequence[Compiled]) -> Catalogue:
    """The catalogue of these patterns as running detectors, fully decomposed."""
    catalogue = Catalogue()
    for plan in cut(patterns, full).plans.values():
        catalogue.add(plan)
    return catalogue


def plan_for_reuse(patterns: Sequence[Compiled], catalogue: Catalogue) -> DetectorGraph:
    """The detectors that new patterns need, running ones marked as reused; new ones are added to the catalogue."""
    before = frozenset(catalogue.plans)
    graph = DetectorGraph()
    for compiled in patterns:
        one = cut([compiled], for_reuse(catalogue), running=catalogue.plans)
        graph.roots += one.roots
        for plan in one.plans.values():
            graph.plans.setdefault(plan.id, plan)
            catalogue.add(plan)
    _add_publishers(graph, catalogue)
    graph.reused = {each for each in graph.plans if each in before}
    return graph


def _add_publishers(graph: DetectorGraph, catalogue: Catalogue) -> None:
    """Add the publishers of types that the graph reads by name, and of those they read in turn."""
    publishers: dict[str, list[DetectorPlan]] = {}
    for plan in catalogue.plans.values():
        if plan.compiled.automaton.output is not None:
            publishers.setdefault(plan.compiled.automaton.output.type_name, []).append(plan)
    waiting = list(graph.plans.values())
    while waiting:
        for name in sorted(set(_read_by_name(waiting.pop().compiled.automaton))):
            for publisher in publishers.get(name, ()):
                waiting += _add(graph, catalogue, publisher)


def _add(graph: DetectorGraph, catalogue: Catalogue, plan: DetectorPlan) -> Iterator[DetectorPlan]:
    """Add a running detector to the graph, behind those it reads; the detectors added."""
    if plan.id not in graph.plans:
        for part in plan.parts:
            yield from _add(graph, catalogue, catalogue.plans[part])
        graph.plans[plan.id] = plan
        yield plan


def _read_by_name(automaton: Automaton) -> Iterator[str]:
    """The types an automaton itself names and reads, without its parts."""
    for position in automaton.positions:
        for name, condition in position.domain.by_type.items():
            if name[0] not in INSIDE and condition != FALSE:
                yield name
    for side in automaton.inner:
        yield from _read_by_name(side)
