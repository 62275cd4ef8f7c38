"""Report of permitted and refused cuts: the output of `distced explain --cuts`.

Rule in `candidates` (design, section 2, "Cutting"); names are those of the pattern where unambiguous. A hundred atoms
have five thousand sub-patterns: judged on demand, of long joints only prefixes and single parts are listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from distced.detectors.canonical.form import CanonicalForm
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.candidates import Candidate, JointView, private_candidates, views
from distced.detectors.language.derived import split_mark, without_marks
from distced.detectors.language.names import all_registers, all_variables
from distced.middleware.patterns.naming import rebuild, renamed, renamed_output, replace_sets
from distced.middleware.patterns.printer import format_pattern, format_publication
from distced.middleware.patterns.tree import Atom, Keyed, Pattern, Publication, Timing, When, walk
from distced.middleware.sets.describable import DescribableSet, Difference, Filtered, Intersection, TypeSet, Union
from distced.middleware.sets.expressions import TRUE

MOST_PARTS: Final = 8
"""Maximum of parts of a joint for a listing of all its runs."""

_COMPOSES: Final = "it composes with others through the composite events it publishes"
NOT_CUT: Final = f"consumed by epochs it is not cut; {_COMPOSES}"
BY_CLOCKS: Final = f"clocks come between the events of a whole pattern, so it is not cut; {_COMPOSES}"
AT_THE_END: Final = f"settled is said of a whole pattern, so it is not cut; {_COMPOSES}"
AMONG_OTHERS: Final = f"take and consuming are said of a whole pattern, so it is not cut; {_COMPOSES}"
ONE_START: Final = f"once is said of a whole pattern, so it is not cut; {_COMPOSES}"


@dataclass(frozen=True, slots=True)
class Cuts:
    """A pattern with its cut candidates: `text` as written, canonical `publication` in its own names, `epochs` if
    consumed by epochs; `note`: the reason why it is never cut, empty for none."""

    text: str
    canonical_id: str
    publication: Publication
    epochs: bool
    note: str

    def everything(self) -> Iterator[Candidate]:
        """Every sub-pattern, the pattern as a whole first."""
        for view in () if self.note else views(self.publication):
            yield from (view.candidate(*run) for run in _runs(view))
        yield from () if self.note else private_candidates(self.publication)

    def for_people(self, *, atoms: bool = False) -> Listing:
        """The sub-patterns worth listing, single atoms on request; the pattern as a whole is none."""
        rows: list[Candidate] = []
        atoms_left = runs_left = 0
        for view in () if self.note else views(self.publication):
            count = len(view.joint.parts)
            for start, stop in _runs(view):
                if not view.path and stop - start == count:
                    continue
                if count > MOST_PARTS and start > 0:
                    runs_left += 1
                elif isinstance(view.joint.parts[start], Atom) and count == 1 and not atoms:
                    atoms_left += 1
                else:
                    rows.append(view.candidate(start, stop))
        rows += () if self.note else private_candidates(self.publication)
        return Listing(tuple(rows), atoms_left, runs_left)

    def as_dict(self) -> dict[str, Any]:
        """All sub-patterns, as JSON."""
        return {
            "text": self.text,
            "canonical_id": self.canonical_id,
            "canonical": format_publication(self.publication),
            "consumption": "epoch" if self.epochs else "ordered",
            "note": self.note or None,
            "sub_patterns": [_as_dict(each) for each in self.everything()],
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """Listed sub-patterns, and the numbers of single atoms and of runs of long joints left out."""

    rows: tuple[Candidate, ...]
    atoms_left: int
    runs_left: int

    @property
    def allowed(self) -> int:
        """Number of listed sub-patterns that may become detectors of their own."""
        return sum(each.allowed for each in self.rows)


def cuts_of(compiled: Compiled, throttled: Mapping[str, str]) -> Cuts:
    """Sub-patterns that may be cut out of a compiled pattern; `throttled` are names of throttled types by mark."""
    form = compiled.form
    publication = with_throttled_names(_with_own_names(form, compiled.plain), throttled)
    reasons = (
        (NOT_CUT, compiled.epochs),
        (ONE_START, compiled.once),
        (AT_THE_END, compiled.settled),
        (BY_CLOCKS, compiled.clocked),
        (AMONG_OTHERS, compiled.selects),
    )
    note = next((reason for reason, holds in reasons if holds), "")
    return Cuts(compiled.text, form.id, publication, compiled.epochs, note)


def with_throttled_names(publication: Publication, throttled: Mapping[str, str]) -> Publication:
    """The pattern with the names of throttled types, computed keys and private publications in place of marks."""
    if not throttled:
        return publication
    pattern = replace_sets(publication.pattern, lambda described: _named(described, throttled))
    output = publication.output
    if output is not None:
        named = throttled.get(output.type_name, output.type_name)
        output = replace(output.mapped(lambda value: without_marks(value, throttled)), type_name=named)
    privates = tuple(with_throttled_names(each, throttled) for each in publication.privates)
    return replace(publication, pattern=_with_key_names(pattern, throttled), output=output, privates=privates)


def _with_key_names(pattern: Pattern, names: Mapping[str, str]) -> Pattern:
    match pattern:
        case Atom(updates=updates) if updates:
            return replace(pattern, updates=tuple((name, without_marks(value, names)) for name, value in updates))
        case Keyed(body=body, attributes=attributes):
            keys = tuple(names.get(name, name) for name in attributes)
            return replace(pattern, body=_with_key_names(body, names), attributes=keys)
        case _:
            return rebuild(pattern, lambda part: _with_key_names(part, names))


def _runs(view: JointView) -> Iterator[tuple[int, int]]:
    """The runs of a joint, prefixes first; single parts have views of their own."""
    count = len(view.joint.parts)
    if count == 1:
        yield 0, 1
        return
    for start in range(count):
        for stop in range(start + 2, count + 1):
            yield start, stop


def _as_dict(candidate: Candidate) -> dict[str, Any]:
    return {
        "path": list(candidate.path),
        "run": None if candidate.run is None else list(candidate.run),
        "text": format_pattern(candidate.pattern),
        "atoms": candidate.size,
        "stand": candidate.stand,
        "allowed": candidate.allowed,
        "failures": [{"condition": each.condition, "reason": each.reason} for each in candidate.failures],
        "key": list(candidate.key),
        "window_ns": candidate.window,
        "exports": sorted(candidate.exports),
    }


def _with_own_names(form: CanonicalForm, given: Publication) -> Publication:
    """The canonical form in the given names. An ambiguous name keeps its canonical names."""
    canonical = form.publication
    variables, registers = all_variables(canonical.pattern), all_registers(canonical.pattern)
    timers = _timers(canonical.pattern)
    own = {each: each for each in (*variables, *registers, *timers)}
    back = {name: given_name for given_name, name in reversed(list(form.names.items()))} | _own_timers(form, given)
    wanted = own | {name: given_name for name, given_name in back.items() if name in own}
    if len(set(wanted.values())) < len(wanted):
        return canonical
    output = canonical.output
    return replace(
        canonical,
        pattern=renamed(canonical.pattern, wanted),
        output=None if output is None else renamed_output(output, wanted),
    )


def _own_timers(form: CanonicalForm, given: Publication) -> dict[str, str]:
    """The given names of time events, by canonical name. They are matched by their due instants."""
    due: dict[When, set[str]] = defaultdict(set)
    for name, when in _timers(given.pattern).items():
        due[when].add(name)
    canonical = _timers(form.publication.pattern)
    return {
        name: next(iter(due[when]))
        for name, when in canonical.items()
        if len(due[when]) == 1 and sum(other == when for other in canonical.values()) == 1
    }


def _timers(pattern: Pattern) -> dict[str, When]:
    return {node.timer: node.when for node in walk(pattern) if isinstance(node, Timing)}


def _named(described: DescribableSet, throttled: Mapping[str, str]) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return replace(described, name=throttled.get(name, name))
        case Filtered(base=TypeSet(), condition=condition):
            split = split_mark(condition, throttled)
            if split is not None:
                name, rest = split
                return TypeSet(name) if rest == TRUE else Filtered(TypeSet(name), rest)
            return replace(
                described, base=_named(described.base, throttled), condition=without_marks(condition, throttled)
            )
        case Filtered(base=base, condition=condition):
            return Filtered(_named(base, throttled), without_marks(condition, throttled))
        case Union(members=members):
            return replace(described, members=tuple(_named(each, throttled) for each in members))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=_named(left, throttled), right=_named(right, throttled))
        case _:
            return described
