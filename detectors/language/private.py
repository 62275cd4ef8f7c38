"""Private publications: `private C -> Name(...)`, read by their name in one file or pattern only.

frontends, section 2, N2. A private publication is an automaton of its own, whose composite events its readers take by
their type, as they take those of a side of `&`: with their constituents in place of the event. Its type is its
canonical id, so in the canonical form of a reader stands what is read and not what it is called. Rejected: to inline
it as a definition, which fails with its reader's events, has no attributes, and is no member of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.published_types import PublishedType
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.tree import Output, Pattern, Publication, Timing, sets_of, walk
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
    walk_set,
)


class WithPrivates(TypeRegistry):
    """Registry with the types of private publications before others of their names."""

    def __init__(self, registry: TypeRegistry, types: Iterable[PublishedType]) -> None:
        super().__init__(open=registry.open)
        self._others = registry
        privates = list(types)
        self._types = {each.name: each.event_type for each in privates}
        self._open_kinds = {each.name: each.undetermined for each in privates}

    def private(self, name: str) -> bool:
        """Whether a type is that of a private publication."""
        return name in self._types

    def find(self, name: str) -> EventType | None:
        return self._types.get(name) or self._others.find(name)

    def get(self, name: str) -> EventType:
        return self._types.get(name) or self._others.get(name)

    def root(self, name: str) -> str:
        return name if name in self._types else self._others.root(name)

    def undetermined(self, name: str) -> frozenset[str]:
        return self._open_kinds[name] if name in self._types else self._others.undetermined(name)

    def computed(self, name: str) -> frozenset[str]:
        return frozenset() if name in self._types else self._others.computed(name)

    def __contains__(self, name: object) -> bool:
        return name in self._types or name in self._others

    def __iter__(self) -> Iterator[EventType]:
        yield from self._types.values()
        yield from (each for each in self._others if each.name not in self._types)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def types_named(pattern: Pattern) -> set[str]:
    """Types that stand in the sets of a pattern."""
    sets = [described for node in walk(pattern) for described in sets_of(node)]
    timers = {node.timer for node in walk(pattern) if isinstance(node, Timing)}
    return {each.name for described in sets for each in walk_set(described) if isinstance(each, TypeSet)} - timers


def output_of(private: Publication) -> Output:
    """The output of a private publication, which has a name."""
    assert private.output is not None
    return private.output


def without_name(output: Output) -> Output | None:
    """The output of a private publication for its canonical form: what it is called makes no difference."""
    made = replace(output, type_name="")
    return None if made == Output("") else made


def in_reading_order(privates: Iterable[Publication], text: str) -> list[Publication]:
    """Private publications, each behind those that it reads. Raises `PatternError` for a circle."""
    ordered: list[Publication] = []
    waiting = list(privates)
    while waiting:
        names = {output_of(each).type_name for each in waiting}
        ready = [each for each in waiting if names.isdisjoint(types_named(each.pattern))]
        if not ready:
            problem = "private publications that read each other in a circle"
            raise error_at(text, output_of(waiting[0]).span, problem, given=", ".join(sorted(names)))
        ordered += ready
        waiting = [each for each in waiting if each not in ready]
    return ordered


def read_by(pattern: Pattern, privates: Iterable[Publication]) -> tuple[Publication, ...]:
    """Private publications that a pattern reads, directly or by others, in their order."""
    by_name = {output_of(each).type_name: each for each in privates}
    read: set[str] = set()
    waiting = [pattern]
    while waiting:
        added = (types_named(waiting.pop()) & by_name.keys()) - read
        read |= added
        waiting += [by_name[name].pattern for name in added]
    return tuple(each for name, each in by_name.items() if name in read)


def with_privates(publication: Publication, beside: Iterable[Publication], text: str) -> Publication:
    """The publication with all private ones that it reads: its own, and others of those beside it, in their order."""
    own = publication.privates
    check_names(own, {} if publication.output is None else {publication.output.type_name: "another publication"}, text)
    hidden = {output_of(each).type_name for each in own}
    others = [each for each in beside if output_of(each).type_name not in hidden]
    privates = [*others, *in_reading_order(own, text)] if own else others
    made = replace(publication, privates=read_by(publication.pattern, privates))
    check_read(own, [made], text)
    return made


def check_read(privates: Iterable[Publication], publications: Iterable[Publication], text: str) -> None:
    """Raise `PatternError` for a private publication that none of the publications reads."""
    read = {output_of(each).type_name for publication in publications for each in publication.privates}
    for each in privates:
        output = output_of(each)
        if output.type_name not in read:
            raise error_at(
                text,
                output.span,
                "a private publication that nothing reads",
                given=output.type_name,
                advice=f"read it, [{output.type_name}], or take private away, and it is delivered",
            )


def check_names(privates: Iterable[Publication], taken: Mapping[str, str], text: str) -> None:
    """Raise `PatternError` for a private publication with a name that is taken: names, and what has them."""
    seen = dict(taken)
    for each in privates:
        output = output_of(each)
        if output.type_name in seen:
            problem = f"a private publication with the name of {seen[output.type_name]}"
            raise error_at(text, output.span, problem, given=output.type_name, advice="choose another name")
        seen[output.type_name] = "another one"


def marked(pattern: Pattern, marks: Mapping[str, str]) -> Pattern:
    """The pattern with other names for some types."""
    return replace_sets(pattern, lambda described: _marked(described, marks))


def _marked(described: DescribableSet, marks: Mapping[str, str]) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return replace(described, name=marks.get(name, name))
        case AnySet():
            return described
        case Union(members=members):
            return replace(described, members=tuple(_marked(each, marks) for each in members))
        case Filtered(base=base):
            return replace(described, base=_marked(base, marks))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=_marked(left, marks), right=_marked(right, marks))
