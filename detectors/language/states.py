"""States that a pattern reads, `last(Inside.temp, room)`, by the names that stand in its guards and updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distced.detectors.language.names import all_variables
from distced.detectors.language.parser import parse_expression
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import Derivation, TypeRegistry
from distced.middleware.patterns import tree
from distced.middleware.sets import describable
from distced.middleware.sets.describable import AnySet, DescribableSet, TypeSet, set_children
from distced.middleware.sets.expressions import Expression
from distced.middleware.sets.state_reads import STATE_READS, states_in

MOST_STATES = 20
"""Maximum of states that are read within one another."""


def states_read(pattern: tree.Pattern) -> frozenset[str]:
    """Names of the states that the guards and updates of a pattern may read."""
    read = {name for each in _over_events(pattern) for name in states_in(each)}
    return frozenset(read - set(all_variables(pattern))) if read else frozenset()


def states_of(derived: tree.DerivedType) -> frozenset[str]:
    """Names of the states that the expressions of a derived type read."""
    read = [value for _, value in derived.computed]
    if derived.condition is not None:
        read.append(derived.condition)
    return frozenset(name for each in read for name in states_in(each))


def types_behind(names: Iterable[str], registry: TypeRegistry) -> list[str]:
    """Types, and those that they are derived from or read the states of, each once. Raises `PatternError` for a circle,
    and for states that build on one another beyond measure."""
    found: dict[str, None] = {}

    def visit(name: str, around: tuple[str, ...], level: int) -> None:
        """Args: around: types that are being visited; level: number of states among them."""
        if level > MOST_STATES:
            allowed = f"{MOST_STATES} of one another"
            raise PatternError("states that are read within one another too often", given=name, allowed=allowed)
        while name not in found or name in around:
            if name in around:
                raise PatternError("a state that depends on itself", given=name, advice="read another type's state")
            found[name] = None
            around = (*around, name)
            event_type = registry.find(name)
            if event_type is None or event_type.derived is None:
                return
            for state in sorted(_states_of(event_type.name, event_type.derived)):
                if registry.find(state) is not None:
                    visit(state, around, level + 1)
            name = event_type.derived.base

    for name in names:
        visit(name, (), 0)
    return list(found)


def _states_of(name: str, derived: Derivation) -> set[str]:
    """Names of the states that the expressions of a derived type read."""
    texts = (derived.where, *(value for _, value in derived.computed))
    try:
        return {
            state
            for text in texts
            if any(each in text for each in STATE_READS)
            for state in states_in(parse_expression(text))
        }
    except PatternError as error:
        error.where = f"derived type {name}, {error.where}" if error.where else f"derived type {name}"
        raise


def readers_in(described: DescribableSet) -> Iterator[TypeSet | AnySet]:
    """Sets that the events of a set are taken from: what is taken away adds none."""
    if isinstance(described, TypeSet | AnySet):
        yield described
        return
    children: Iterable[DescribableSet] = set_children(described)
    for child in tuple(children)[:1] if hasattr(described, "left") and hasattr(described, "right") else children:
        yield from readers_in(child)


def _over_events(pattern: tree.Pattern) -> Iterator[Expression]:
    """Expressions that are read beside an event at hand."""
    for node in tree.walk(pattern):
        for described in tree.sets_of(node):
            yield from describable.conditions(described)
        if isinstance(node, tree.Atom):
            yield from (value for _, value in node.updates)
