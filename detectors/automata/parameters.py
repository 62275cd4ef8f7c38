"""Parameters of automata: constants that patterns of one shape differ in.

Of ten thousand patterns that each name a device and a threshold, the automata differ in these constants alone. So the
automaton is built once, with a parameter in the place of each, and every pattern has it with constants of its own
(`Automaton.constants`); conditions are compiled once, too, and find the constants behind the registers of an instance.
An automaton of its own for each pattern, with the constants written in, took two milliseconds and ten kilobytes a
pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from distced.detectors.automata.automaton import Automaton, AutomatonTimer, Position, Register
from distced.middleware.model.events import Attribute
from distced.middleware.patterns.tree import Calculated, Output
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import Expression, Literal, Parameter, transform


def parameterised(automaton: Automaton, numbers: Mapping[Attribute, int]) -> Automaton:
    """Automaton with a parameter for each of these constants, texts or integers, by number; it has no parts."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Literal) and type(node.value) in (str, int) and node.value in numbers:
            return Parameter(numbers[node.value], "string" if type(node.value) is str else "number")
        return node

    return _changed(automaton, change)


def closed(automaton: Automaton) -> Automaton:
    """Automaton with its constants in the places of the parameters, as engines need it that know of none."""
    constants = automaton.constants
    if not constants:
        return automaton

    def change(node: Expression) -> Expression:
        return Literal(constants[node.number]) if isinstance(node, Parameter) else node

    return replace(_changed(automaton, change), constants=())


def _changed(automaton: Automaton, change: Callable[[Expression], Expression]) -> Automaton:
    known: dict[int, ConditionByType] = {}

    def described(form: ConditionByType) -> ConditionByType:
        # Label and domain are often one object.
        made = known.get(id(form))
        if made is None:
            by_type = {name: transform(each, change) for name, each in form.by_type.items()}
            made = known[id(form)] = ConditionByType(by_type, transform(form.others, change))
        return made

    def position(each: Position) -> Position:
        updates = tuple((place, transform(value, change)) for place, value in each.updates)
        return replace(each, label=described(each.label), domain=described(each.domain), updates=updates)

    def register(each: Register) -> Register:
        return replace(each, initials=tuple((number, transform(value, change)) for number, value in each.initials))

    def output(each: Output) -> Output:
        return each.mapped(lambda expression: transform(expression, change))

    def timer(each: AutomatonTimer) -> AutomatonTimer:
        if not isinstance(each.when, Calculated):
            return each
        return replace(each, when=Calculated(transform(each.when.delay, change)))

    return replace(
        automaton,
        timers=tuple(map(timer, automaton.timers)),
        positions=tuple(map(position, automaton.positions)),
        registers=tuple(map(register, automaton.registers)),
        output=None if automaton.output is None else output(automaton.output),
    )
