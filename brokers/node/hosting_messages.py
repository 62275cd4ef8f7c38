"""How a cut pattern is told to another node: the places where it was cut, and what is delegated there."""

from __future__ import annotations

from typing import Final

from distced.detectors.cutting.graph import Place
from distced.middleware.patterns.tree import Atom, Delegated
from distced.middleware.sets.describable import Union
from distced.middleware.wire.directory_entries import Cut

_UNKNOWN: Final = Atom(Union(()))


def cut_of(place: Place, delegated: Delegated) -> Cut:
    """A place where a pattern was cut, as a message."""
    path, run = place
    return Cut(
        path,
        run,
        delegated.detector,
        delegated.source,
        delegated.key,
        delegated.bound,
        delegated.counted,
        delegated.repeats,
    )


def delegated_of(cut: Cut) -> tuple[Place, Delegated]:
    """The same read back; the sub-pattern itself is looked up where it stands."""
    delegated = Delegated(_UNKNOWN, cut.detector, cut.source, cut.key, cut.bound, cut.counted, cut.repeats)
    return (cut.path, cut.run), delegated
