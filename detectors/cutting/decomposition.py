"""Choice of cuts: which of the permitted sub-patterns become detectors of their own; `graph.cut` makes these cuts.

Design, section 3: *none* leaves the pattern whole; *full* makes every permitted cut, down to two atoms, to share as
much as possible (composite-event-framework-2004, "Decomposition"); *for reuse* cuts only where a detector exists
(`reuse`). *Random* is for tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from distced.detectors.cutting.candidates import Candidate, JointView, candidates, size_of, views
from distced.detectors.cutting.graph import Choose, ChosenCut
from distced.middleware.patterns.tree import Publication


def none(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
    """No cut."""
    return ()


def full(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
    """Cut out the largest permitted sub-patterns, and cut these further.

    The pattern as a whole and single atoms are none: a reader of an atom can as well read the events. A joint is cut as
    if written with brackets on its left, so that patterns with a common prefix share.
    """
    taken: list[ChosenCut] = []
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
        random.shuffle(allowed)
        taken: list[ChosenCut] = []
        for candidate in allowed:
            if random.random() < share and not any(_meet(candidate, each.candidate) for each in taken):
                taken.append(ChosenCut(candidate, candidate.window if random.random() < 0.5 else None))
        return taken

    return choose


def _inside(view: JointView, candidate: Candidate) -> bool:
    """Whether a node is part of a candidate."""
    depth = len(candidate.path)
    if view.path[:depth] != candidate.path:
        return False
    if candidate.run is None:
        return True
    return len(view.path) > depth and candidate.run[0] <= view.path[depth] < candidate.run[1]


def _meet(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates overlap."""
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
