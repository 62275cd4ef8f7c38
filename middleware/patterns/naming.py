"""Names of variables and time events in patterns of the Python binding, and trees with names and sets replaced.

Until a pattern is complete, its tree holds placeholders: which events need a variable shows only in what is read
elsewhere, and a name must not collide with any other of the whole pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Final

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns import tree
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
from distced.middleware.sets.expressions import Expression, Field, Moment, Name, transform, variables
from distced.middleware.sets.expressions import walk as walk_expression

_NUMBERS: Final = count()


class Placeholder(str):
    """Variable or time event of a pattern, before it has its name. Its text is unique, and no name.

    Attributes:
        wanted: the name asked for; empty for any.
        types: event types of the event, in the order they are written; empty for a time event.
        origins: placeholders of the events it was made of, with its own.
    """

    wanted: str
    types: tuple[str, ...]
    origins: frozenset[str]


def placeholder(wanted: str = "", types: tuple[str, ...] = (), origins: frozenset[str] = frozenset()) -> Placeholder:
    """New placeholder, of an event made of those behind `origins`."""
    # No name of the language has a line break, not even in back-quotes.
    made = Placeholder(f"\n{next(_NUMBERS)}")
    made.wanted, made.types, made.origins = wanted, types, origins | {made}
    return made


def type_names(described: DescribableSet) -> tuple[str, ...]:
    """Event types in a set."""
    names = (each.name for each in walk_set(described) if isinstance(each, TypeSet))
    return tuple(name for name in names if not isinstance(name, Placeholder))


def with_names(
    pattern: tree.Pattern, output: tree.Output | None = None, *, lenient: bool = False
) -> tuple[tree.Pattern, tree.Output | None]:
    """Pattern and output with names in the place of placeholders; events that are not read get none.

    Args:
        lenient: for a part of a pattern, whose events may be bound elsewhere.

    Raises:
        PatternError: an event is read that the pattern does not match, or one of several made of it; a time event
            stands
            outside its pattern.
    """
    names = _Names(pattern, output, lenient).names
    return renamed(pattern, names), None if output is None else renamed_output(output, names)


class _Names:
    """Choice of names, by placeholder."""

    def __init__(self, pattern: tree.Pattern, output: tree.Output | None, lenient: bool) -> None:
        nodes = list(tree.walk(pattern))
        sets = [each for node in nodes for each in tree.sets_of(node)]
        self.names: dict[str, str] = {}
        self._lenient = lenient
        bound = dict.fromkeys(node.variable for node in nodes if isinstance(node, tree.Atom))
        self._events = [each for each in bound if isinstance(each, Placeholder)]
        timers = [each for each in dict.fromkeys(_timers(pattern)) if isinstance(each, Placeholder)]
        self._taken = {name for each in sets for name in type_names(each)}
        self._taken |= {name for node in nodes if isinstance(node, tree.Init) for name, _ in node.registers}
        self._taken |= {each.wanted for each in (*self._events, *timers)}
        for timer in timers:
            self.names[timer] = timer.wanted or self._fresh("T")
        for each in (each for described in sets for each in walk_set(described)):
            if isinstance(each, TypeSet) and isinstance(each.name, Placeholder) and each.name not in self.names:
                self._outside(each.name)
        self.names |= {event: event.wanted for event in self._events if event.wanted}
        if output is not None and output.consuming == "variables":
            # The events that are consumed have a variable.
            for event in self._events:
                self._variable(event)
        expressions = [each for node in nodes for each in tree.expressions_of(node)]
        # A variable would hide a state of its name.
        self._taken |= {name for each in expressions for name in variables(each) if not isinstance(name, Placeholder)}
        for expression in (*expressions, *tree.output_expressions(output)):
            for read in _read(expression):
                self.names[read] = self._variable(self._matched(read))

    def _variable(self, event: Placeholder) -> str:
        if event not in self.names:
            first = event.types[0] if event.types else "event"
            self.names[event] = self._fresh(first[0].lower() + first[1:])
        return self.names[event]

    def _matched(self, read: Placeholder) -> Placeholder:
        """Event the pattern matches for one that is read: itself, else the only one that was made of it."""
        if read in self._events:
            return read
        made_of_it = [event for event in self._events if read in event.origins]
        if len(made_of_it) == 1:
            return made_of_it[0]
        if self._lenient:
            return read
        if not made_of_it:
            raise PatternError(
                "an event is read that the pattern does not match",
                given=", ".join(read.types) or "any",
                advice="take the object that stands in the pattern, or one it was made of",
            )
        raise PatternError(
            "several events of the pattern are made of the one that is read",
            given=", ".join(read.types) or "any",
            advice="take the object that stands in the pattern: first = a.where(...), then first.room",
        )

    def _outside(self, timer: Placeholder) -> None:
        if not self._lenient:
            raise PatternError("a time event outside the pattern it belongs to", given=timer.wanted or "a time event")
        self.names[timer] = timer.wanted or "T"

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}{number}"
        self._taken.add(name)
        return name


def _timers(pattern: tree.Pattern) -> Iterator[str]:
    """The time events, each before those of what it sets in."""
    if isinstance(pattern, tree.Timing):
        yield from _timers(pattern.first)
        yield pattern.timer
        yield from _timers(pattern.second)
        return
    for child in tree.children(pattern):
        yield from _timers(child)


def _read(expression: Expression) -> Iterator[Placeholder]:
    for node in walk_expression(expression):
        if isinstance(node, Field | Moment) and isinstance(node.variable, Placeholder):
            yield node.variable


def rebuild(pattern: tree.Pattern, change: Callable[[tree.Pattern], tree.Pattern]) -> tree.Pattern:
    """Pattern with `change` applied to each pattern directly inside it."""
    match pattern:
        case tree.Atom() | tree.Reference() | tree.Delegated():
            return pattern
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts) | tree.Alternation(parts=parts):
            return replace(pattern, parts=tuple(change(part) for part in parts))
        case tree.Parallel(left=left, right=right):
            return replace(pattern, left=change(left), right=change(right))
        case tree.Timing(first=first, second=second):
            return replace(pattern, first=change(first), second=change(second))
        case _:
            return replace(pattern, body=change(pattern.body))


def replace_sets(pattern: tree.Pattern, change: Callable[[DescribableSet], DescribableSet]) -> tree.Pattern:
    """Pattern with `change` applied to every label and domain in it."""
    match pattern:
        case tree.Atom(label=label, domain=domain):
            return replace(pattern, label=change(label), domain=None if domain is None else change(domain))
        case tree.Scope(body=body, domain=domain):
            return replace(pattern, body=replace_sets(body, change), domain=change(domain))
        case _:
            return rebuild(pattern, lambda part: replace_sets(part, change))


def renamed(pattern: tree.Pattern, names: Mapping[str, str]) -> tree.Pattern:
    """Pattern with other names for variables, time events and registers.

    `names` holds every variable that is read and every time event; other variables are left out, other registers keep
    their names.
    """

    def expression(node: Expression) -> Expression:
        return renamed_expression(node, names)

    match pattern:
        case tree.Atom(label=label, domain=domain, variable=variable, updates=updates):
            return tree.Atom(
                renamed_set(label, names),
                None if domain is None else renamed_set(domain, names),
                names.get(variable, ""),
                tuple((names.get(name, name), expression(value)) for name, value in updates),
            )
        case tree.Timing(first=first, second=second, timer=timer, when=when):
            made = tree.Timing(renamed(first, names), renamed(second, names), names[timer], when)
            return tree.with_delay(made, expression)
        case tree.Scope(body=body, domain=domain):
            return tree.Scope(renamed(body, names), renamed_set(domain, names))
        case tree.Init(registers=registers, body=body):
            begun = tuple((names.get(name, name), expression(value)) for name, value in registers)
            return tree.Init(begun, renamed(body, names))
        case _:
            return rebuild(pattern, lambda part: renamed(part, names))


def renamed_output(output: tree.Output, names: Mapping[str, str]) -> tree.Output:
    """Output with other names in attributes, final filter and selections."""
    made = output.mapped(lambda expression: renamed_expression(expression, names))
    return replace(
        made, take=tuple(replace(each, variable=names.get(each.variable, each.variable)) for each in made.take)
    )


def renamed_set(described: DescribableSet, names: Mapping[str, str]) -> DescribableSet:
    """Set with other names for time events, and in its conditions."""
    match described:
        case TypeSet(name=name):
            return TypeSet(names[name]) if name in names else described
        case AnySet():
            return described
        case Union(members=members):
            return Union(tuple(renamed_set(each, names) for each in members))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=renamed_set(left, names), right=renamed_set(right, names))
        case Filtered(base=base, condition=condition):
            return Filtered(renamed_set(base, names), renamed_expression(condition, names))


def renamed_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Expression with other names for variables and registers."""

    def rename(node: Expression) -> Expression:
        match node:
            case Name(name=name) if name in names:
                return Name(names[name])
            case Field(variable=variable, attribute=attribute):
                # What is no placeholder is the name of a state.
                known = isinstance(variable, Placeholder) or variable in names
                return Field(names[variable] if known else variable, attribute)
            case Moment(end=end, variable=variable) if variable:
                return Moment(end, names[variable])
            case _:
                return node

    return transform(expression, rename) if names else expression
