"""Aggregates written out as registers: `[P as p]+ -> X(n = count(p))` is `init n = 0 : [P as p set n = n + 1]+ ...`.

Each aggregate that is read becomes one or several registers, named by its text, which the atoms `as p` update before
their own `set`. So engines, cuts, snapshots, replay and the canonical form know nothing of aggregates, and a pattern
with registers by hand is the same detector. `last(p.price)` is `p.price` and needs none.

The registers begin around the smallest part that holds all atoms `as p`, is no round of an iteration and is entered on
each way: then it can be cut out with them. A side of `&` has its registers itself and hands on what is read outside.

Rejected: evaluation over the constituents of a match, which would keep all of them readable, and know no hidden events;
a register for any number of values, as one of the kind set or as a text, which grows with each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Final

from distced.detectors.language.names import all_registers, all_variables
from distced.detectors.language.scanner import error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns import tree
from distced.middleware.patterns.naming import rebuild
from distced.middleware.sets.aggregates import MOST_VALUES, aggregates, is_aggregate
from distced.middleware.sets.describable import DescribableSet, transform_conditions
from distced.middleware.sets.expressions import (
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Unary,
    format_expression,
    transform,
    variables,
)

_NUMBERS: Final = "numbers of "
_NULL: Final = Literal(None)
_ZERO: Final = Literal(0)
_ONE: Final = Literal(1)


def with_aggregates(publication: tree.Publication, *, text: str = "") -> tree.Publication:
    """The pattern with registers in place of aggregates. Raises `PatternError` where a variable is bound in several
    sides of a `&`, or in a side that is repeated, which registers cannot count."""
    pattern, output = publication.pattern, publication.output
    read = (each for node in tree.walk(pattern) for each in tree.expressions_of(node))
    if not any(any(aggregates(each)) for each in (*read, *tree.output_expressions(output))):
        return publication
    whole = _Space(pattern, _Names(text, set(all_registers(pattern))))
    if output is not None:
        output = output.mapped(whole.written)
    whole.read()
    return replace(publication, pattern=whole.pattern_with_registers(), output=output)


@dataclass(slots=True)
class _Names:
    """The text of the pattern, for errors, and the names of registers that are taken."""

    text: str
    taken: set[str]

    def new(self, wanted: str) -> str:
        """A free name."""
        while wanted in self.taken:
            wanted += "'"
        self.taken.add(wanted)
        return wanted


@dataclass(slots=True)
class _Registers:
    """Registers of the aggregates over one variable.

    Attributes:
        names: by what they hold.
        initials: their values before the first event.
        updates: those of one aggregate in order, by its text.
        counts: updates behind all others, which read the count from before.
    """

    names: dict[str, str] = field(default_factory=dict)
    initials: list[tuple[str, Expression]] = field(default_factory=list)
    updates: dict[str, list[tuple[str, Expression]]] = field(default_factory=dict)
    counts: list[tuple[str, Expression]] = field(default_factory=list)

    def in_order(self) -> list[tuple[str, Expression]]:
        """All updates, whatever the order in which the aggregates are read: then they are the same detector."""
        return [*(each for _, updates in sorted(self.updates.items()) for each in updates), *self.counts]


class _Space:
    """A pattern, or a side of `&`, which is detected on its own.

    Attributes:
        own: variables bound in it outside of its sides.
        sides: spaces of its sides by place: the `&` and which of the two; whether it stands in an iteration.
        registers: by variable, of aggregates over events that are bound here.
        begun: variables of sides whose registers begin here, too.
    """

    def __init__(self, pattern: tree.Pattern, names: _Names) -> None:
        self.pattern = pattern
        self.names = names
        self.own: dict[str, None] = {}
        self.sides: list[tuple[_Space, bool]] = []
        self.registers: dict[str, _Registers] = {}
        self.begun: dict[str, _Registers] = {}
        self._collect(pattern, repeated=False)

    def _collect(self, pattern: tree.Pattern, *, repeated: bool) -> None:
        match pattern:
            case tree.Atom(variable=variable) if variable:
                self.own[variable] = None
            case tree.Parallel(left=left, right=right):
                self.sides += [(_Space(side, self.names), repeated) for side in (left, right)]
                return
            case tree.Iteration(most=most):
                repeated = repeated or most != 1
            case _:
                pass
        for child in tree.children(pattern):
            self._collect(child, repeated=repeated)

    def binds(self, variable: str) -> bool:
        """Whether a variable is bound in it or in one of its sides."""
        return variable in self.own or any(side.binds(variable) for side, _ in self.sides)

    def read(self) -> None:
        """Allot the registers of all aggregates that are read in it and in its sides."""
        for expression in self._expressions(self.pattern):
            self.written(expression)
        for side, _ in self.sides:
            side.read()

    def _expressions(self, pattern: tree.Pattern) -> Iterator[Expression]:
        if isinstance(pattern, tree.Parallel):
            return
        yield from tree.expressions_of(pattern)
        for child in tree.children(pattern):
            yield from self._expressions(child)

    # What is read.

    def written(self, expression: Expression) -> Expression:
        """An expression that is read in this space, with registers in place of aggregates."""
        return transform(expression, lambda node: self._value(node) if is_aggregate(node) else node)

    def _value(self, aggregate: Call) -> Expression:
        function, argument = aggregate.function, aggregate.arguments[0]
        (variable,) = variables(argument)
        if function == "last" or (function == "nth" and aggregate.arguments[1] == Literal(-1)):
            return _if_bound(argument, variable)
        return _Writer(self._owner(aggregate, variable), self.names).value(aggregate)

    def _owner(self, aggregate: Call, variable: str) -> _Registers:
        """The registers over a variable in the space that binds it, begun in those around it."""
        holding = [(side, repeated) for side, repeated in self.sides if side.binds(variable)]
        if variable in self.own and not holding:
            return self.registers.setdefault(variable, _Registers())
        if variable in self.own or len(holding) != 1:
            raise self._error(
                aggregate,
                f"{variable} is bound inside a side of & and elsewhere: each is detected on its own",
                "a variable of its own for each side: count(p) + count(q)",
            )
        ((side, repeated),) = holding
        if repeated:
            raise self._error(
                aggregate,
                f"{variable} is bound in a side of & that is repeated, and begins again in each round",
                "an aggregate within the side, or a & outside of iterations",
            )
        found = side._owner(aggregate, variable)
        self.begun[variable] = found
        return found

    def _error(self, aggregate: Call, problem: str, allowed: str) -> PatternError:
        given = format_expression(aggregate)
        return error_at(self.names.text, aggregate.span, problem, given=given, allowed=allowed)

    # What becomes of the pattern.

    def pattern_with_registers(self) -> tree.Pattern:
        """The pattern with updates at its atoms, and its registers begun."""
        pattern = self._with_updates(self.pattern, iter([side for side, _ in self.sides]))
        known = self.registers | self.begun
        for variable in all_variables(pattern):
            if variable in known and known[variable].initials:
                pattern = _begun(pattern, variable, tuple(sorted(known[variable].initials, key=itemgetter(0))))
        return pattern

    def _with_updates(self, pattern: tree.Pattern, sides: Iterator[_Space]) -> tree.Pattern:
        match pattern:
            case tree.Atom(label=label, domain=domain, variable=variable, updates=updates):
                known = self.registers.get(variable, _Registers())
                counted = ((name, self._at_hand(value, variable)) for name, value in known.in_order())
                return replace(
                    pattern,
                    label=self._set(label),
                    domain=None if domain is None else self._set(domain),
                    updates=(*counted, *((name, self.written(value)) for name, value in updates)),
                )
            case tree.Parallel():
                left, right = next(sides), next(sides)
                return replace(pattern, left=left.pattern_with_registers(), right=right.pattern_with_registers())
            case tree.Scope(body=body, domain=domain):
                return replace(pattern, body=self._with_updates(body, sides), domain=self._set(domain))
            case tree.Init(registers=registers, body=body):
                initials = tuple((name, self.written(value)) for name, value in registers)
                return replace(pattern, registers=initials, body=self._with_updates(body, sides))
            case tree.Timing():
                return rebuild(tree.with_delay(pattern, self.written), lambda part: self._with_updates(part, sides))
            case _:
                return rebuild(pattern, lambda part: self._with_updates(part, sides))

    def _at_hand(self, expression: Expression, variable: str) -> Expression:
        """An expression over the event of a variable that is at hand. So it is no read of the variable, which a side
        of `&` would hand on."""

        def leaf(node: Expression) -> Expression:
            match node:
                case Field(variable=bound, attribute=attribute) if bound == variable:
                    return node if attribute in self.names.taken else Name(attribute, span=node.span)
                case Moment(end=end, variable=bound) if bound == variable:
                    return Moment(end, "", span=node.span)
                case _:
                    return node

        return transform(expression, leaf)

    def _set(self, described: DescribableSet) -> DescribableSet:
        return transform_conditions(described, self.written)


class _Writer:
    """Writer of the registers of one variable's aggregates."""

    def __init__(self, registers: _Registers, names: _Names) -> None:
        self.registers = registers
        self.names = names

    def value(self, aggregate: Call) -> Expression:
        """What is read in place of an aggregate."""
        argument = aggregate.arguments[0]
        match aggregate.function:
            case "count" if isinstance(argument, Moment):
                return self.count(argument.variable)
            case "count":
                added = _choice(_is_null(argument), Name(""), Binary("+", Name(""), _ONE))
                return self.register(format_expression(aggregate), _ZERO, added)
            case "sum":
                return self.sum(argument)
            case "avg":
                number = _choice(_is_null(_number(argument)), Name(""), Binary("+", Name(""), _ONE))
                numbers = self.register(f"{_NUMBERS}{format_expression(argument)}", _ZERO, number)
                return Binary("/", self.sum(argument), numbers)
            case "min" | "max":
                operator = "<" if aggregate.function == "min" else ">"
                better = Binary("or", Binary(operator, argument, Name("")), _is_null(Name("")))
                return self.register(format_expression(aggregate), _NULL, _choice(better, argument, Name("")))
            case "first":
                return self.nth(aggregate, argument, 1)
            case "nth":
                (place,) = (each.value for each in aggregate.arguments[1:] if isinstance(each, Literal))
                assert isinstance(place, int)
                return self.nth(aggregate, argument, place) if place > 0 else self.from_last(argument, -place)
            case function:
                (most,) = (each.value for each in aggregate.arguments[1:] if isinstance(each, Literal))
                assert isinstance(most, int)
                many = self.collect if function == "collect" else self.distinct
                return many(aggregate, argument, most)

    def register(self, holds: str, initial: Expression, new: Expression, *, count: bool = False) -> Name:
        """A register by what it holds, with its new value at each event, in which `Name("")` is the old one."""
        name = self.registers.names.get(holds)
        if name is None:
            name = self.registers.names[holds] = self.names.new(holds)
            self.registers.initials.append((name, initial))
            updates = self.registers.counts if count else self.registers.updates.setdefault(holds, [])
            updates.append((name, _over(name, new)))
        return Name(name)

    def count(self, variable: str) -> Name:
        """The number of events, as of before the event at hand where it is read by other updates."""
        text = format_expression(Call("count", (Moment("hi", variable),)))
        return self.register(text, _ZERO, Binary("+", Name(""), _ONE), count=True)

    def sum(self, argument: Expression) -> Name:
        """The sum of those values that are numbers."""
        added = _choice(_is_null(_number(argument)), Name(""), Binary("+", Name(""), argument))
        return self.register(format_expression(Call("sum", (argument,))), _ZERO, added)

    def nth(self, aggregate: Call, argument: Expression, place: int) -> Name:
        """The value of the event at a place from the first on."""
        (variable,) = variables(argument)
        here = Binary("==", self.count(variable), Literal(place - 1))
        return self.register(format_expression(aggregate), _NULL, _choice(here, argument, Name("")))

    def from_last(self, argument: Expression, place: int) -> Name:
        """The value of the event at a place from the last on: each is moved on by one place, the farthest first."""
        found = [format_expression(Call("nth", (argument, Literal(-each)))) for each in range(place, 0, -1)]
        made = [each for each in found if each not in self.registers.names]
        for holds in reversed(made):
            self.registers.names[holds] = self.names.new(holds)
            self.registers.initials.append((self.registers.names[holds], _NULL))
        names = [self.registers.names[each] for each in found]
        moved: list[tuple[str, Expression]] = [(name, Name(nearer)) for name, nearer in pairwise(names)]
        moved.append((names[-1], argument))
        if made:
            self.registers.updates[f"nth({format_expression(argument)})"] = moved
        return Name(names[0])

    def collect(self, aggregate: Call, argument: Expression, most: int) -> Expression:
        """A list in JSON of the first values that are not null, up to `most`; null beyond the longest text."""
        text = format_expression(aggregate)
        if text not in self.registers.names:
            joined = self.registers.names[text] = self.names.new(text)
            count = self.names.new(f"values of {text}")
            self.registers.initials += [(joined, Literal("")), (count, _ZERO)]
            room = Binary("and", Binary("<", Name(count), Literal(most)), Unary("not", _is_null(argument)))
            item = Call("json", (argument,))
            behind = Binary("+", Binary("+", Name(joined), Literal(", ")), item)
            longer = _choice(Binary("==", Name(count), _ZERO), item, behind)
            self.registers.updates[text] = [
                (joined, _choice(room, longer, Name(joined))),
                (count, _choice(room, Binary("+", Name(count), _ONE), Name(count))),
            ]
        return _list_of(Name(self.registers.names[text]))

    def distinct(self, aggregate: Call, argument: Expression, most: int) -> Name:
        """The number of distinct values that are not null, up to `most`, which are kept."""
        text = format_expression(aggregate)
        if text in self.registers.names:
            return Name(self.registers.names[text])
        count = self.registers.names[text] = self.names.new(text)
        kept = [self.names.new(f"value {place} of {text}") for place in range(1, most + 1)]
        new = self.names.new(f"new value of {text}")
        self.registers.initials += [(count, _ZERO), (new, _ZERO), *((name, _NULL) for name in kept)]
        # As long as a value may be kept a place is null: null is among them and never new.
        known = Call("in", (argument, *map(Name, kept)))
        room = Binary("<", Name(count), Literal(most))
        updates = [(new, _choice(Binary("and", room, Unary("not", known)), _ONE, _ZERO))]
        for place, name in enumerate(kept):
            here = Binary("and", Binary("==", Name(new), _ONE), Binary("==", Name(count), Literal(place)))
            updates.append((name, _choice(here, argument, Name(name))))
        self.registers.updates[text] = [*updates, (count, Binary("+", Name(count), Name(new)))]
        return Name(count)


def _over(name: str, expression: Expression) -> Expression:
    """An expression with the register in the place of its old value, `Name("")`."""
    return transform(expression, lambda node: Name(name) if node == Name("") else node)


def _choice(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    return Call("if", (condition, then, otherwise))


def _is_null(expression: Expression) -> Expression:
    return Binary("==", expression, _NULL)


def _list_of(items: Expression) -> Expression:
    """A list in JSON, from the text of its items."""
    return Binary("+", Binary("+", Literal("["), items), Literal("]"))


def _number(expression: Expression) -> Expression:
    """A value that is a number, else null."""
    return Binary("*", expression, _ONE)


def _if_bound(expression: Expression, variable: str) -> Expression:
    """An expression over the event of a variable; null while nothing is bound to it."""
    if isinstance(expression, Field | Moment):
        return expression
    return _choice(_is_null(Moment("hi", variable)), _NULL, expression)


def _binds(pattern: tree.Pattern, variable: str) -> bool:
    return any(isinstance(node, tree.Atom) and node.variable == variable for node in tree.walk(pattern))


def _begun(pattern: tree.Pattern, variable: str, initials: tuple[tuple[str, Expression], ...]) -> tree.Pattern:
    """Pattern with registers begun around the atoms of a variable, in a part that each way enters, once."""

    def inside(part: tree.Pattern) -> tree.Pattern:
        return _begun(part, variable, initials)

    match pattern:
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
            holding = [place for place, part in enumerate(parts) if _binds(part, variable)]
            start, stop = holding[0], holding[-1] + 1
            run = parts[start:stop]
            if not all(map(tree.nullable, run)) and len(run) < len(parts):
                part = inside(run[0]) if len(run) == 1 else inside(replace(pattern, parts=run))
                return replace(pattern, parts=(*parts[:start], part, *parts[stop:]))
        case tree.Timing(first=first, second=second):
            if not _binds(second, variable):
                return replace(pattern, first=inside(first))
            if not _binds(first, variable) and not tree.nullable(second):
                return replace(pattern, second=inside(second))
        case tree.Keyed() | tree.Window() | tree.Scope() | tree.Hidden() | tree.Init():
            return rebuild(pattern, inside)
        case tree.Parallel():
            # A side begins them, and each match has both sides.
            return pattern
        case _:
            pass
    return tree.Init(initials, pattern, span=pattern.span)


# Back, for people.


def written_aggregates(publication: tree.Publication) -> tuple[Call, ...]:
    """The aggregates that a pattern reads, each once, in textual order."""
    expressions = [each for node in tree.walk(publication.pattern) for each in tree.expressions_of(node)]
    found = (each for one in (*expressions, *tree.output_expressions(publication.output)) for each in aggregates(one))
    return tuple(dict.fromkeys(found))


def holds(register: str, aggregate: Call) -> bool:
    """Whether a register, by its name, holds an aggregate."""
    name = register.rstrip("'")
    if aggregate.function == "avg":
        return name == f"{_NUMBERS}{format_expression(aggregate.arguments[0])}"
    return name == format_expression(aggregate)


def holds_part(register: str, aggregate: Call) -> bool:
    """Whether a register, by its name, is needed for an aggregate beside the one that holds it."""
    name, argument = register.rstrip("'"), aggregate.arguments[0]
    match aggregate.function:
        case "avg":
            return name == format_expression(Call("sum", (argument,)))
        case "first":
            return name in _counts(argument)
        case "nth":
            back = (format_expression(Call("nth", (argument, Literal(-each)))) for each in range(1, MOST_VALUES))
            return name in _counts(argument) or name in back
        case "collect":
            return name == f"values of {format_expression(aggregate)}"
        case _:
            return name.endswith(f"value of {format_expression(aggregate)}") or (
                name.startswith("value ") and name.endswith(f" of {format_expression(aggregate)}")
            )


def _counts(argument: Expression) -> set[str]:
    return {format_expression(Call("count", (Moment("hi", each),))) for each in variables(argument)}


def as_written(expression: Expression, read: Collection[Call]) -> Expression:
    """An expression over registers with the aggregates that they hold in their places."""
    by_name = {format_expression(each): each for each in read}

    def change(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                return by_name.get(name.rstrip("'"), node)
            case Binary(left=Binary(right=Call(function="collect") as items)) if node == _list_of(items):
                return items
            case Binary(operator="/", right=Name(name=name)):
                return next((each for each in read if each.function == "avg" and holds(name, each)), node)
            case _:
                return node

    return transform(expression, change)
