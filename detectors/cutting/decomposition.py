"""Decompositions: what of a pattern becomes detectors of its own.

Design, section 3: *none* leaves the pattern whole; *full* cuts wherever the rule allows it, down to patterns of two
atoms, so that as much as possible can be shared (composite-event-framework-2004, "Decomposition"); *for reuse* cuts
only where a detector is there already, and is found in `cover`. *Random* is for tests: any cut the rule allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from detectors.cutting.candidates import Candidate, JointView, candidates, size_of, views
from detectors.cutting.graph import Choice, Choose
from detectors.language.tree import Publication


def none(publication: Publication, exports: frozenset[str]) -> Iterable[Choice]:
    """Leave it whole."""
    return ()


def full(publication: Publication, exports: frozenset[str]) -> Iterable[Choice]:
    """Cut out the largest sub-patterns that may be; they are cut further in their turn.

    The pattern as a whole is what the detector at hand is for, and an atom by itself is none: whoever reads it can as
    well read the events. A joint is cut as if it were written
    with brackets on its left, so that patterns that begin alike share.
    """
    taken: list[Choice] = []
    for view in views(publication, exports=exports):
        if any(_inside(view, each.candidate) for each in taken):
            continue
        for start, stop in _by_size(view):
            if view.context.stand == "whole" and stop - start == len(view.joint.parts):
                continue
            if any(_overlap(view, start, stop, each.candidate) for each in taken):
                continue
            if size_of(view.joint.run(start, stop)) > 1 and view.allows(start, stop):
                taken.append(Choice(view.candidate(start, stop), view.context.window))
    return taken


def randomly(random: Random, *, share: float = 0.5, without: frozenset[str] = frozenset()) -> Choose:
    """Cut out some of the sub-patterns that may be.

    Args:
        share: about how many of them.
        without: conditions to leave out.
    """

    def choose(publication: Publication, exports: frozenset[str]) -> list[Choice]:
        allowed = [each for each in candidates(publication, exports=exports, without=without) if each.allowed]
        random.shuffle(allowed)
        taken: list[Choice] = []
        for candidate in allowed:
            if random.random() < share and not any(_meet(candidate, each.candidate) for each in taken):
                taken.append(Choice(candidate, candidate.window if random.random() < 0.5 else None))
        return taken

    return choose


def _by_size(view: JointView) -> Iterator[tuple[int, int]]:
    """The runs of a joint, those from its beginning first, the longest first."""
    count = len(view.joint.parts)
    if count == 1:
        yield 0, 1
        return
    for start in range(count):
        for stop in range(count, start + 1, -1):
            yield start, stop


def _inside(view: JointView, candidate: Candidate) -> bool:
    """Whether a node is part of a candidate."""
    depth = len(candidate.path)
    if view.path[:depth] != candidate.path:
        return False
    if candidate.run is None:
        return True
    return len(view.path) > depth and candidate.run[0] <= view.path[depth] < candidate.run[1]


def _overlap(view: JointView, start: int, stop: int, candidate: Candidate) -> bool:
    return _meet(view.candidate(start, stop), candidate)


def _meet(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates have a part in common."""
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
