"""Parameters of automata: texts that patterns of one shape differ in.

Of ten thousand patterns that each name a device, the automata differ in these texts alone. So the automaton is built
once, with a parameter in the place of each text, and every pattern has it with texts of its own (`Automaton.texts`);
conditions are compiled once, too, and find the texts behind the registers of an instance. An automaton of its own for
each pattern, with the texts written in, took two milliseconds and ten kilobytes a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from distced.detectors.automata.automaton import Automaton, Position, Register
from distced.middleware.patterns.tree import Output
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import Expression, Literal, Parameter, transform


def parameterised(automaton: Automaton, numbers: Mapping[str, int]) -> Automaton:
    """Automaton with a parameter for each of these texts, by number; it has no parts."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Literal) and isinstance(node.value, str) and node.value in numbers:
            return Parameter(numbers[node.value])
        return node

    return _changed(automaton, change)


def closed(automaton: Automaton) -> Automaton:
    """Automaton with its texts in the places of the parameters, as engines need it that know of none."""
    texts = automaton.texts
    if not texts:
        return automaton

    def change(node: Expression) -> Expression:
        return Literal(texts[node.number]) if isinstance(node, Parameter) else node

    return replace(_changed(automaton, change), texts=())


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
        return replace(
            each,
            attributes=tuple((name, transform(value, change)) for name, value in each.attributes),
            condition=None if each.condition is None else transform(each.condition, change),
        )

    return replace(
        automaton,
        positions=tuple(map(position, automaton.positions)),
        registers=tuple(map(register, automaton.registers)),
        output=None if automaton.output is None else output(automaton.output),
    )
