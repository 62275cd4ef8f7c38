"""Other ways to write a pattern: random rewriting by laws that change nothing of what it means.

Each law is applied at random places, many at a time. They say what the canonical form is held to: whatever comes of it
has the same form, and detects the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from random import Random
from typing import Any

from distced.detectors.language.names import all_registers, all_variables, referenced
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Scope,
    Sequence,
    Timing,
    Window,
    with_delay,
)
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import (
    COMPARISONS,
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Unary,
    transform,
)
from tests.support.random_patterns import TYPES

NAMES = ("p", "q", "r", "x", "y", "n", "m", "x0", "x1", "n_0", "other")
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
EMPTY = Union(())
# A time event has no attributes to be asked after.
PLAIN = tuple(map(TypeSet, TYPES))


class Rewriter:
    """Writes patterns in another way.

    Attributes:
        share: how often a law is applied where it can be.
    """

    def __init__(self, random: Random, share: float = 0.3) -> None:
        self.random = random
        self.share = share
        self.timers = 0

    def publication(self, publication: Publication) -> Publication:
        """Another pattern that means the same."""
        renamed = self._renamed(publication)
        pattern = self.pattern(renamed.pattern, (), frozenset(all_registers(renamed.pattern)))
        output = None if renamed.output is None else self._output(renamed.output)
        return replace(publication, pattern=pattern, output=output)

    def pattern(self, pattern: Pattern, timers: tuple[str, ...], registers: frozenset[str]) -> Pattern:
        """Another pattern that means the same, in the scope of these time events and beside these registers."""
        match pattern:
            case Atom():
                pattern = self._atom(pattern, timers, registers)
            case Concatenation() | Sequence():
                parts, strengths = _row(pattern)
                parts = [self.pattern(part, timers, registers) for part in parts]
                pattern = self._joint(parts, strengths)
            case Alternation(parts=parts):
                branches = [self.pattern(part, timers, registers) for part in parts]
                if self._now():
                    # Again in yet other words; but for the names, which it may share with what is around it.
                    branches.append(self.pattern(self.random.choice(parts), timers, registers))
                self.random.shuffle(branches)
                pattern = self._alternation(branches)
            case Parallel(left=left, right=right):
                sides = [self.pattern(side, (), frozenset(all_registers(side))) for side in (left, right)]
                if self._now():
                    sides.reverse()
                pattern = Parallel(*sides)
            case Timing(first=first, second=second, timer=timer, when=when):
                new = self._timer()
                first = self.pattern(first, timers, registers)
                second = self.pattern(_with_timer(second, timer, new), (*timers, new), registers)
                pattern = with_delay(Timing(first, second, new, when), self._value)
            case Scope(body=body, domain=domain):
                pattern = self._scope(body, domain, timers, registers)
            case Window(body=body, length=length):
                pattern = self._window(self.pattern(body, timers, registers), length)
            case Keyed(body=body, attributes=attributes):
                pattern = self._keyed(self.pattern(body, timers, registers), attributes)
            case _:
                pattern = rebuild(pattern, lambda part: self.pattern(part, timers, registers))
        if isinstance(pattern, Hidden) and self._now():
            pattern = Hidden(pattern)
        if self._now(0.3):
            pattern = Iteration(pattern, 1, 1)
        if self._now(0.3):
            pattern = Scope(pattern, TypeSet(self.random.choice(timers)) if timers and self._now() else EMPTY)
        return pattern

    # Joints and alternatives.

    def _joint(self, parts: list[Pattern], strengths: list[bool]) -> Pattern:
        if len(parts) == 1:
            return parts[0]
        if len(set(strengths)) == 1 and not self._now():
            return (Sequence if strengths[0] else Concatenation)(tuple(parts))
        cut = self.random.randrange(1, len(parts))
        first = self._joint(parts[:cut], strengths[: cut - 1])
        second = self._joint(parts[cut:], strengths[cut:])
        return (Sequence if strengths[cut - 1] else Concatenation)((first, second))

    def _alternation(self, branches: list[Pattern]) -> Pattern:
        if len(branches) == 1:
            return branches[0]
        if not self._now():
            return Alternation(tuple(branches))
        cut = self.random.randrange(1, len(branches))
        return Alternation((self._alternation(branches[:cut]), self._alternation(branches[cut:])))

    # What stands around others.

    def _scope(
        self, body: Pattern, domain: DescribableSet, timers: tuple[str, ...], registers: frozenset[str]
    ) -> Pattern:
        if self._now(2):
            match body:
                case Atom(label=label):
                    wider = Union((label if body.domain is None else body.domain, domain))
                    return self.pattern(replace(body, domain=wider), timers, registers)
                case Parallel():
                    pass
                case _:
                    return self.pattern(rebuild(body, lambda part: Scope(part, domain)), timers, registers)
        return Scope(self.pattern(body, timers, registers), self.set(domain, registers))

    def _window(self, body: Pattern, length: int) -> Pattern:
        if isinstance(body, Keyed) and self._now():
            return Keyed(Window(body.body, length), body.attributes)
        if self._now():
            longer = length + self.random.randrange(3)
            inner, outer = self.random.choice(((length, longer), (longer, length)))
            return Window(Window(body, inner), outer)
        return Window(body, length)

    def _keyed(self, body: Pattern, attributes: tuple[str, ...]) -> Pattern:
        if isinstance(body, Window) and self._now():
            return Window(Keyed(body.body, attributes), body.length)
        if len(attributes) > 1 and self._now():
            return Keyed(Keyed(body, attributes[:1]), attributes[1:])
        if self._now():
            return Keyed(Keyed(body, attributes[::-1]), attributes[:1])
        return Keyed(body, attributes)

    # Atoms.

    def _atom(self, atom: Atom, timers: tuple[str, ...], registers: frozenset[str]) -> Atom:
        label, domain = self.set(atom.label, registers), None
        if atom.domain is not None:
            domain = self.set(atom.domain, registers)
        elif self._now():
            domain = self.set(atom.label, registers)
        if domain is not None and timers and self._now():
            domain = Union((TypeSet(self.random.choice(timers)), domain))

        def own(node: Expression) -> Expression:
            if isinstance(node, Name) and node.name not in registers and self._now():
                return Field(atom.variable, node.name)
            if isinstance(node, Field) and node.variable == atom.variable and node.attribute not in registers:
                return Name(node.attribute) if self._now() else node
            return node

        updates = atom.updates
        if atom.variable:
            updates = tuple((name, transform(value, own)) for name, value in updates)
        return replace(atom, label=label, domain=domain, updates=updates)

    def set(self, described: DescribableSet, registers: frozenset[str]) -> DescribableSet:
        """Another set that holds the same events."""
        match described:
            case Union(members=members):
                shuffled = [self.set(member, registers) for member in members]
                self.random.shuffle(shuffled)
                described = Union(tuple(shuffled))
            case Intersection(left=left, right=right):
                sides = [self.set(left, registers), self.set(right, registers)]
                self.random.shuffle(sides)
                described = Intersection(*sides)
            case Difference(left=left, right=right):
                described = Difference(self.set(left, registers), self.set(right, registers))
            case Filtered(base=base, condition=condition):
                described = Filtered(self.set(base, registers), self.condition(condition))
            case _:
                pass
        if not self._now():
            return described
        match self.random.randrange(8):
            case 0:
                return Union((described,))
            case 1:
                return Union((described, described))
            case 2:
                return Intersection(described, described)
            case 3:
                return Difference(described, EMPTY)
            case 4:
                return Filtered(described, TRUE)
            case 5:
                return Union((described, Difference(described, AnySet())))
            case 6 if described == AnySet() or described in PLAIN:
                some = Binary("<", Name("v"), Literal(1))
                return Union((Filtered(described, some), Filtered(described, Unary("not", some))))
            case _:
                return Difference(described, Difference(EMPTY, described))

    def condition(self, condition: Expression, attribute: str = "w") -> Expression:
        """Another condition that holds of the same events. It may ask for an attribute asked for nowhere else."""
        match condition:
            case Binary(operator="and" | "or" as operator, left=left, right=right):
                sides = [self.condition(left, attribute), self.condition(right, attribute)]
                self.random.shuffle(sides)
                condition = Binary(operator, *sides)
                if self._now():
                    dual = "or" if operator == "and" else "and"
                    condition = Unary("not", Binary(dual, *(Unary("not", side) for side in sides)))
            case Unary(operator="not", operand=operand):
                condition = Unary("not", self.condition(operand, attribute))
            case Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                left, right = self._value(left), self._value(right)
                if self._now():
                    left, right, operator = right, left, TURNED[operator]
                condition = Binary(operator, left, right)
                if operator in ("==", "!=") and self._now():
                    condition = Unary("not", Binary("!=" if operator == "==" else "==", left, right))
            case Call(function="in", arguments=(sought, *options)):
                options = [self._value(each) for each in options]
                self.random.shuffle(options)
                condition = Call("in", (self._value(sought), *options, *options[: self._now()]))
                if self._now():
                    condition = reduce(
                        partial(Binary, "or"), (Binary("==", sought, each) for each in reversed(options))
                    )
            case _:
                pass
        if not self._now():
            return condition
        other = Binary("==", Name(attribute), Literal(self.random.randrange(2)))
        dual = self.random.choice(("and", "or"))
        match self.random.randrange(6):
            case 0:
                return Unary("not", Unary("not", condition))
            case 1:
                return Binary(dual, condition, condition)
            case 2:
                return Binary(dual, condition, Binary("and" if dual == "or" else "or", other, condition))
            case 3:
                return Binary("and", condition, Binary("or", other, Unary("not", other)))
            case 4:
                return Binary("==", TRUE, condition)
            case _:
                return Binary("or", Binary(">", Literal(1), Literal(2)), condition)

    def _value(self, value: Expression) -> Expression:
        if isinstance(value, Literal) and type(value.value) is int and self._now():
            return Binary("-", Literal(value.value + 1), Literal(1))
        match value:
            case Call(function="if", arguments=(condition, then, otherwise)):
                then, otherwise = self._value(then), self._value(otherwise)
                if self._now():
                    return Call("if", (self.condition(Unary("not", condition)), otherwise, then))
                return Call("if", (self.condition(condition), then, otherwise))
            case _ if self._now(0.3):
                return Call("if", (Binary("==", Name("w"), Literal(1)), value, value))
        return value

    # Names and the output.

    def _renamed(self, publication: Publication) -> Publication:
        made = dict.fromkeys((*all_variables(publication.pattern), *all_registers(publication.pattern)))
        # A bare name that is no register is an attribute, which no register may be called as.
        free = [
            name for name in NAMES if name in made or name not in referenced(publication.pattern, publication.output)
        ]
        names = dict(zip(made, self.random.sample(free, len(made)), strict=True)) if self._now(2) else {}
        return renamed(publication, names)

    def _output(self, output: Output) -> Output:
        attributes = list(output.attributes)
        self.random.shuffle(attributes)
        # Conditions of selections are kept: a Boolean law is one for all.
        condition = None if output.condition is None else self.condition(output.condition, "one")
        return replace(output, attributes=tuple(attributes), condition=condition)

    def _timer(self) -> str:
        self.timers += 1
        return f"U{self.timers}"

    def _now(self, factor: float = 1) -> bool:
        return self.random.random() < self.share * factor


def renamed(publication: Publication, names: dict[str, str]) -> Publication:
    """The same with other names for variables and registers."""

    def rename(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                return Name(names.get(name, name))
            case Field(variable=variable, attribute=attribute):
                return Field(names.get(variable, variable), attribute)
            case Moment(end=end, variable=variable):
                return Moment(end, names.get(variable, variable))
            case _:
                return node

    def expression(node: Expression) -> Expression:
        return transform(node, rename)

    def assigned(pairs: tuple[tuple[str, Expression], ...]) -> tuple[tuple[str, Expression], ...]:
        return tuple((names.get(name, name), expression(value)) for name, value in pairs)

    def pattern(node: Pattern) -> Pattern:
        match node:
            case Atom(label=label, domain=domain, variable=variable, updates=updates):
                wider = None if domain is None else _with(domain, {}, expression)
                return Atom(_with(label, {}, expression), wider, names.get(variable, variable), assigned(updates))
            case Scope(body=body, domain=domain):
                return Scope(pattern(body), _with(domain, {}, expression))
            case Init(registers=registers, body=body):
                return Init(assigned(registers), pattern(body))
            case Timing():
                return rebuild(with_delay(node, expression), pattern)
            case _:
                return rebuild(node, pattern)

    output = publication.output
    if output is not None:
        take = tuple(replace(each, variable=names.get(each.variable, each.variable)) for each in output.take)
        output = replace(output, take=take).mapped(expression)
    return replace(publication, pattern=pattern(publication.pattern), output=output)


def _with_timer(pattern: Pattern, old: str, new: str) -> Pattern:
    match pattern:
        case Atom(label=label, domain=domain):
            wider = None if domain is None else _with(domain, {old: new})
            return replace(pattern, label=_with(label, {old: new}), domain=wider)
        case Scope(body=body, domain=domain):
            return Scope(_with_timer(body, old, new), _with(domain, {old: new}))
        case _:
            return rebuild(pattern, lambda part: _with_timer(part, old, new))


def _with(described: Any, types: dict[str, str], change: Any = lambda condition: condition) -> Any:
    match described:
        case TypeSet(name=name):
            return TypeSet(types.get(name, name))
        case Union(members=members):
            return Union(tuple(_with(member, types, change) for member in members))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return type(described)(_with(left, types, change), _with(right, types, change))
        case Filtered(base=base, condition=condition):
            return Filtered(_with(base, types, change), change(condition))
        case _:
            return described


def _row(pattern: Pattern) -> tuple[list[Pattern], list[bool]]:
    if not isinstance(pattern, Concatenation | Sequence):
        return [pattern], []
    parts: list[Pattern] = []
    strengths: list[bool] = []
    for part in pattern.parts:
        inner, inside = _row(part)
        strengths += ([isinstance(pattern, Sequence)] if parts else []) + inside
        parts += inner
    return parts, strengths
