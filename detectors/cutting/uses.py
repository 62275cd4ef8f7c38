"""Counts of variables and registers made and read in a sub-pattern, to distinguish internal from external names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from distced.middleware.patterns import tree
from distced.middleware.sets.describable import AnySet, TypeSet, walk_set
from distced.middleware.sets.expressions import Expression, names, variables


@dataclass(slots=True)
class Uses:
    """Use counts of names in a part: binding atoms, `init` and changes of registers, reading expressions (a bare name
    that is no register is an attribute); named types; whether a set is open (`any` or its remainder)."""

    bound: Counter[str] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    types: set[str] = field(default_factory=set)
    anything: bool = False

    def add(self, other: Uses) -> None:
        """Add the counts of a neighbour."""
        self.bound.update(other.bound)
        self.begun.update(other.begun)
        self.updated.update(other.updated)
        self.read.update(other.read)
        self.types |= other.types
        self.anything = self.anything or other.anything

    @property
    def nothing(self) -> bool:
        """Whether only attribute names can be meant here, and no set is open."""
        return not (self.bound or self.begun or self.updated or self.anything)

    def foreign(self, whole: Uses) -> list[str]:
        """The names used here but made elsewhere in the whole, sorted."""
        variables_read = [name for name in self.read if whole.bound[name] > self.bound[name]]
        registers_used = [
            name
            for name in {*self.read, *self.updated}
            if whole.begun[name] > self.begun[name] or whole.updated[name] > self.updated[name]
        ]
        return sorted({*variables_read, *registers_used})

    def meant(self, whole: Uses) -> list[str]:
        """Types covered by an open set, as named elsewhere in the whole, sorted: `any` excludes unnamed composites."""
        return sorted(whole.types - self.types) if self.anything else []

    def exported(self, whole: Uses) -> frozenset[str]:
        """The names made here and read, or changed, elsewhere in the whole."""
        return frozenset(
            name
            for name in {*self.bound, *self.begun}
            if whole.read[name] > self.read[name] or whole.updated[name] > self.updated[name]
        )


def uses_of(pattern: tree.Pattern) -> Uses:
    """The uses in a pattern."""
    uses = Uses()
    for node in tree.walk(pattern):
        match node:
            case tree.Atom(variable=variable, updates=updates):
                if variable:
                    uses.bound[variable] += 1
                uses.updated.update(name for name, _ in updates)
            case tree.Init(registers=registers):
                uses.begun.update(name for name, _ in registers)
            case tree.Delegated(bound=bound, counted=counted):
                uses.bound.update(name for _, name in bound)
                uses.begun.update(name for _, name in counted)
            case _:
                pass
        for expression in tree.expressions_of(node):
            uses.read.update(_read(expression))
        for described in tree.sets_of(node):
            for each in walk_set(described):
                if isinstance(each, TypeSet):
                    uses.types.add(each.name)
                uses.anything = uses.anything or isinstance(each, AnySet)
    uses.types -= {node.timer for node in tree.walk(pattern) if isinstance(node, tree.Timing)}
    return uses


def uses_of_output(output: tree.Output | None) -> Uses:
    """The names an output reads."""
    uses = Uses()
    for expression in tree.output_expressions(output):
        uses.read.update(_read(expression))
    return uses


def _read(expression: Expression) -> frozenset[str]:
    return frozenset(variables(expression) | names(expression))
