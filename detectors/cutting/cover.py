"""The cheapest cover of a pattern by detectors that are there already; what is missing goes into one new detector.

composite-event-framework-2004, "Distribution Policies" (decomposition and reuse); design, section 3, "for reuse". A
cover is a choice of sub-patterns without overlap. Whether one may be cut out depends on its place in the pattern alone,
not on what else is, so the cheapest cover is found by dynamic programming: along each joint over the places where
something ends, and from the inside of the tree to the outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from distced.detectors.cutting.candidates import Context, JointView, Path, inside, outermost
from distced.detectors.cutting.catalogue import Around, Catalogue, Entry, Word, core_of, word_of
from distced.detectors.cutting.graph import Choice, Choose
from distced.detectors.cutting.joints import Joint, joint_of
from distced.detectors.language.names import all_registers
from distced.middleware.patterns.tree import Atom, Pattern, Publication

Usable: TypeAlias = Callable[[Entry], float | None]
"""What it costs to read a detector, in atoms; None where it is not to be used."""

INLINE: float = 1.0
"""What an atom costs that the new detector matches itself."""


class _Reused(NamedTuple):
    """A run that is read from a running detector.

    Attributes:
        names: those in the run, by number.
    """

    view: JointView
    start: int
    stop: int
    entry: Entry
    names: tuple[str, ...]


class _Cover(NamedTuple):
    """A way to detect a part of the pattern.

    Attributes:
        cost: in atoms.
        reused: what is read from running detectors.
    """

    cost: float
    reused: tuple[_Reused, ...]


def for_reuse(catalogue: Catalogue, usable: Usable = lambda _: INLINE) -> Choose:
    """Cut out what is detected already, so that the least is left to do.

    Args:
        usable: what each detector costs whoever reads it; one that costs as much as it saves is not read.
    """

    def choose(publication: Publication, exports: frozenset[str]) -> tuple[Choice, ...]:
        registers = frozenset(all_registers(publication.pattern))
        finder = _Finder(catalogue, usable, registers)
        cover = finder.cover(publication.pattern, (), outermost(publication, exports))
        return tuple(_choice(catalogue, each) for each in cover.reused)

    return choose


class _Finder:
    """Finds the cheapest cover of one pattern.

    Attributes:
        registers: those the pattern begins.
    """

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
        """The cheapest cover of a joint: for each place in it the cheapest of everything before."""
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
        """What a node that is no joint can be read from as a whole."""
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
        """A run read from a running detector, if that hands on what is needed, and the rule allows it."""
        view, start, stop, entry, names = reused
        if not {names.index(name) for name in view.exports(start, stop)} <= entry.exports:
            return None
        return _Cover(cost, (reused,)) if view.allows(start, stop) else None


def _choice(catalogue: Catalogue, reused: _Reused) -> Choice:
    view, start, stop, entry, names = reused
    handed_on = {name: entry.names[names.index(name)] for name in view.exports(start, stop)}
    return Choice(view.candidate(start, stop), reused=catalogue.plans[entry.id], names=handed_on)


def _improve(best: list[_Cover], place: int, before: _Cover, more: _Cover) -> None:
    cost = before.cost + more.cost
    if cost < best[place].cost:
        best[place] = _Cover(cost, before.reused + more.reused)


def _cost(cover: _Cover) -> float:
    return cover.cost
