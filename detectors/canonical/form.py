"""The canonical form of a pattern: one tree for all patterns known to be equivalent, and its id.

Sub-patterns are compared in canonical form, so that one detector serves all its readers, and the id goes into the ids
of composite events (design, sections 1 and 2, "Sharing"). Patterns of different form may still be equivalent, where
that would take a proof. The laws are in `trees`, `sets` and `conditions`, name resolution in `names`, the order in
`pieces`. The form is a tree, because parts are cut out of it: a part without names from outside has the same form by
itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from distced.detectors.canonical.conditions import REGISTER, TIMER, VARIABLE
from distced.detectors.canonical.names import Places, Space, resolve
from distced.detectors.canonical.pieces import NameSlot, Ordering, combined, mark, numbering
from distced.detectors.canonical.trees import Trees
from distced.middleware.patterns.naming import renamed, renamed_output
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Atom, Pattern, Publication, walk

_DIGEST_BYTES: Final = 8

_PREFIXES: Final = {VARIABLE: "x", REGISTER: "n_", TIMER: "T_"}
"""Prefixes of canonical names. A register may not share a name with an attribute, nor a time event with a type, even if
only the registry knows it: hence names reserved from users.
"""


@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """The canonical form of a pattern.

    Attributes:
        publication: its tree; it prints, and reads back as the same tree.
        names: the canonical name of each variable and register that is read, by the given one; where sides of `&` have
            one of their own, the outermost.
        text: the text digested into the id: the printed tree, and remarks.
    """

    publication: Publication
    names: Mapping[str, str]
    text: str
    id: str


def canonical_form(
    publication: Publication, *, key: tuple[str, ...] = (), exports: frozenset[str] = frozenset(), epochs: bool = False
) -> CanonicalForm:
    """The canonical form of a pattern with inlined definitions, keyed from outside by `key`; `exports` are its
    variables and registers that are read outside, as given."""
    names: dict[str, str] = {name: name for name in exports}
    privates = publication.privates
    if privates:
        # What is read of them stands in the tree, by their ids.
        publication = replace(publication, privates=())
    first, whole = True, publication
    while True:
        before = publication
        publication, found, settled = _once(
            publication, key, frozenset(names[each] for each in exports if each in names)
        )
        names = found if first else {given: found[name] for given, name in names.items() if name in found}
        if settled or publication == replace(before, once=False, settled=False):
            break
        # What fell away may have been the last that read a variable, or that made one of a side and one outside the
        # same, or an attribute called as a name to be given.
        key, first = (), False
    publication = replace(publication, once=whole.once, settled=whole.settled)
    text = format_publication(publication)
    if shown := sorted({names[name] for name in exports if name in names}):
        text += f" # exporting {', '.join(shown)}"
    if epochs:
        text += " # by epochs"
    if privates:
        publication = replace(publication, privates=privates)
    return CanonicalForm(publication, names, text, identified(text))


def identified(text: str) -> str:
    """The id of a canonical form, by its text."""
    return "c" + blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def canonical_id(
    publication: Publication, *, key: tuple[str, ...] = (), exports: frozenset[str] = frozenset(), epochs: bool = False
) -> str:
    """The canonical id of a pattern with its output, key, externally read variables and consumption."""
    return canonical_form(publication, key=key, exports=exports, epochs=epochs).id


def _once(
    publication: Publication, key: tuple[str, ...], exports: frozenset[str]
) -> tuple[Publication, dict[str, str], bool]:
    """One pass: the form, the canonical names by the given ones, and whether the form is final."""
    space, places = resolve(publication, exports)
    trees = Trees(space, places)
    piece = trees.pattern(publication.pattern, key)
    if publication.output is not None:
        piece = combined("", [[piece, trees.output(publication.output)]], tuple)
        ordering = _least(piece.orderings, _exported(space, exports))
        pattern, output = ordering.node
    else:
        ordering = _least(piece.orderings, _exported(space, exports))
        pattern, output = ordering.node, None
    prefixes = {kind: _free_prefix(prefix, trees.given) for kind, prefix in _PREFIXES.items()}
    canonical = _canonical_names(ordering.names, places, prefixes)
    if canonical:
        marks = {mark(place): name for place, name in canonical.items()}
        unread = _unread(pattern, ordering, places, _exported(space, exports))
        pattern = renamed(pattern, marks)
        output = None if output is None else renamed_output(output, marks)
    else:
        unread = False
    settled = not (unread or (space.sides and canonical)) and prefixes == _PREFIXES
    return Publication(pattern, output), _by_given(space, canonical), settled


def _exported(space: Space, exports: Iterable[str]) -> frozenset[NameSlot]:
    found = [each.get(name) for name in exports for each in (space.variables, space.registers)]
    return frozenset(place for place in found if place is not None)


def _least(orderings: Sequence[Ordering], exported: frozenset[NameSlot]) -> Ordering:
    """The first of several orders that differ in names only: externally read names come first."""
    if len(orderings) == 1 or not exported:
        return orderings[0]

    def numbers(ordering: Ordering) -> list[int]:
        return sorted(
            {n for n, place in zip(numbering(ordering.names), ordering.names, strict=True) if place in exported}
        )

    return min(orderings, key=numbers)


def _unread(pattern: Pattern, ordering: Ordering, places: Places, exported: frozenset[NameSlot]) -> bool:
    """Whether an unread variable is left."""
    if not places.read:
        return False
    bound = Counter(node.variable for node in walk(pattern) if isinstance(node, Atom) and node.variable)
    met = Counter(ordering.names)
    return any(
        met[place] == bound[mark(place)] for place in met if places.kinds[place] == VARIABLE and place not in exported
    )


def _canonical_names(names: Iterable[NameSlot], places: Places, prefixes: Mapping[str, str]) -> dict[NameSlot, str]:
    """Canonical names in the order of first occurrence."""
    counts = dict.fromkeys(prefixes, 0)
    found: dict[NameSlot, str] = {}
    for place in names:
        if place not in found:
            kind = places.kinds[place]
            found[place] = f"{prefixes[kind]}{counts[kind]}"
            counts[kind] += 1
    return found


def _by_given(space: Space, canonical: Mapping[NameSlot, str]) -> dict[str, str]:
    """The canonical names by given ones: the pattern's own before those of its sides."""
    found: dict[str, str] = {}
    for names in (space.variables, space.registers):
        for name, place in names.items():
            if place in canonical:
                found.setdefault(name, canonical[place])
    for side in space.sides:
        for name, given in _by_given(side, canonical).items():
            found.setdefault(name, given)
    return found


def _free_prefix(prefix: str, given: Iterable[str]) -> str:
    """The prefix, lengthened until no remaining name looks like one made with it."""
    looks = re.compile(rf"{prefix}_*\d+")
    taken = {name.rstrip("0123456789") for name in given if looks.fullmatch(name)}
    while prefix in taken:
        prefix += "_"
    return prefix
