"""Name resolution of a pattern: the occurrences of each variable or register, and whether they are read.

A side of `&` is detected on its own: its names are its own, except those that are read around it
(`detectors.automata.builder`). So a name is resolved in the pattern or in its side, and every distinct thing gets a
place; canonical names follow from places once the order of the tree is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from distced.detectors.canonical.conditions import REGISTER, VARIABLE
from distced.detectors.canonical.pieces import NameSlot
from distced.middleware.patterns import tree
from distced.middleware.sets.expressions import Expression, names, variables


@dataclass(slots=True)
class Space:
    """A pattern or a side of `&`, with the places of its names, and its sides in textual order."""

    variables: dict[str, NameSlot]
    registers: dict[str, NameSlot]
    sides: list[Space]


@dataclass(slots=True)
class Places:
    """The places allocated: the mark of the kind of each, and the variables that are read."""

    kinds: list[str] = field(default_factory=list)
    read: set[NameSlot] = field(default_factory=set)

    def new(self, kind: str) -> NameSlot:
        """A new place."""
        self.kinds.append(kind)
        return len(self.kinds) - 1


@dataclass(slots=True)
class _Found:
    """The names in a pattern or a side, apart from the sides inside it.

    Attributes:
        variables: those read, bare names apart.
        registers: bare names read, and registers changed: registers where one of the name is begun.
        made_variables, made_registers: those bound, and those begun or changed, in the sides inside, too.
    """

    variables: set[str] = field(default_factory=set)
    registers: set[str] = field(default_factory=set)
    made_variables: dict[str, None] = field(default_factory=dict)
    made_registers: dict[str, None] = field(default_factory=dict)
    sides: list[_Found] = field(default_factory=list)

    def collect(self, pattern: tree.Pattern) -> None:
        match pattern:
            case tree.Parallel(left=left, right=right):
                for side in (left, right):
                    found = _Found()
                    found.collect(side)
                    self.sides.append(found)
                    self.made_variables |= found.made_variables
                    self.made_registers |= found.made_registers
                return
            case tree.Atom(variable=variable, updates=updates):
                if variable:
                    self.made_variables[variable] = None
                if updates:
                    self.atom(pattern)
                    return
            case tree.Init(registers=registers):
                self.made_registers |= {name: None for name, _ in registers}
            case _:
                pass
        for expression in tree.expressions_of(pattern):
            self.read(expression)
        for child in tree.children(pattern):
            self.collect(child)

    def atom(self, atom: tree.Atom) -> None:
        """Visit an atom with updates, in which its own variable is the current event and not a read."""
        own = {atom.variable}
        for expression in tree.expressions_of(tree.Atom(atom.label, atom.domain)):
            self.read(expression)
        for name, value in atom.updates:
            self.made_registers[name] = None
            self.registers |= {name, *names(value)}
            self.variables |= variables(value) - own

    def read(self, expression: Expression) -> None:
        self.variables |= variables(expression)
        self.registers |= names(expression)


def resolve(publication: tree.Publication, exports: Collection[str]) -> tuple[Space, Places]:
    """Resolve the names of a pattern; names in `exports` are read from outside."""
    found = _Found()
    found.collect(publication.pattern)
    for expression in tree.output_expressions(publication.output):
        found.read(expression)
    if publication.output is not None and publication.output.consuming == "variables":
        found.variables |= found.made_variables.keys()
    found.variables |= found.made_variables.keys() & set(exports)
    found.registers |= set(exports)
    places = Places()
    return _resolved(found, {}, {}, places), places


def _resolved(
    found: _Found, outer_variables: Mapping[str, NameSlot], outer_registers: Mapping[str, NameSlot], places: Places
) -> Space:
    """The space of a pattern or a side; externally read names have their places there."""
    named = {**found.made_variables, **dict.fromkeys(sorted(found.variables))}
    variables = {name: outer_variables[name] if name in outer_variables else places.new(VARIABLE) for name in named}
    registers = {
        name: outer_registers[name] if name in outer_registers else places.new(REGISTER)
        for name in found.made_registers
    }
    places.read |= {variables[name] for name in found.variables}
    wanted_variables = found.variables | outer_variables.keys()
    wanted_registers = found.registers | outer_registers.keys()
    sides = [
        _resolved(
            side,
            {name: variables[name] for name in side.made_variables if name in wanted_variables},
            {name: registers[name] for name in side.made_registers if name in wanted_registers},
            places,
        )
        for side in found.sides
    ]
    return Space(variables, registers, sides)
