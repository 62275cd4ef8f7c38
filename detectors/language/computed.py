"""Computed attributes of derived types: `type Reading = Temp with (hour = floor(hi() / 1h))`.

The event stays the same, under another name and with further attributes. Each expression is put in the place of the
attribute's name where it is read, so an engine knows nothing of it, and what is not read costs nothing. Only a key has
to be a value of the event: for a computed one a `Computation` puts the value beside the event, before the automata.

A publication for each event was rejected: it gives the events of an instant another order. So was a value beside the
event everywhere: the engines would copy each event, and a variable's event is handed on without it between detectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, Protocol, TypeAlias

from distced.detectors.language.depth import check_depth
from distced.detectors.language.names import all_registers, all_variables
from distced.detectors.language.scanner import error_at
from distced.detectors.language.states import readers_in
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns import tree
from distced.middleware.patterns.naming import rebuild
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
    walk,
)
from distced.middleware.sets.local_time import LOCAL_TIMES

Computed: TypeAlias = Mapping[str, Expression]
"""Expressions over the attributes of the published type, by name of the computed attribute."""

NONE_COMPUTED: Final[Computed] = {}

MOST_TERMS: Final = 2_000
"""Maximum size of an expression with computed attributes written out: those of types that are derived from one another
may double with each."""

_Branches: TypeAlias = list[tuple[DescribableSet, Computed]]
"""Sets whose union is meant, each with the computed attributes of its events."""


@dataclass(frozen=True, slots=True)
class Computation:
    """Value of a key, put beside each event of some types.

    Attributes:
        mark: the attribute that holds it; no attribute's name.
        values: its expression by published type, over the attributes of that type.
        name: the name of the key in the pattern.
    """

    mark: str
    values: tuple[tuple[str, Expression], ...]
    name: str = field(default="", compare=False)


class Stages(Protocol):
    """Derived types over published ones."""

    registry: TypeRegistry

    def type_named(self, name: str) -> tuple[DescribableSet, Computed]:
        """Events of a type, and its computed attributes."""

    def root(self, name: str) -> str:
        """Published type of a type."""

    def key(self, name: str, values: Mapping[str, Expression]) -> str:
        """Attribute of the published events that holds a key's value."""

    def with_states(
        self, expression: Expression, readers: Iterable[str], variables: Collection[str] = ()
    ) -> Expression:
        """An expression over events of published types with marks in place of the states that it reads."""


def computation(name: str, values: Mapping[str, Expression]) -> Computation:
    """Computation of a key, with a mark that is the same wherever the values are."""
    ordered = tuple(sorted(values.items(), key=lambda each: each[0]))
    content = "; ".join(f"{type_name}: {format_expression(value)}" for type_name, value in ordered)
    return Computation(f"computed {blake2b(content.encode(), digest_size=8).hexdigest()}", ordered, name)


def computes(pattern: tree.Pattern, registry: TypeRegistry) -> bool:
    """Whether a pattern reads types with computed attributes."""
    return any(
        isinstance(each, TypeSet) and registry.computed(each.name)
        for node in tree.walk(pattern)
        for described in tree.sets_of(node)
        for each in walk_set(described)
    )


def substituted(expression: Expression, computed: Computed, variable: str = "") -> Expression:
    """An expression over an event, with computed attributes written out; over the event bound to a variable, if any."""

    def leaf(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                return _of_variable(computed[name], variable) if name in computed else node
            case Field(variable=bound, attribute=attribute) if bound == variable and attribute in computed:
                return _of_variable(computed[attribute], variable)
            case _:
                return node

    return _bounded(expression, transform(expression, leaf))


def _of_variable(expression: Expression, variable: str) -> Expression:
    """An expression over the event at hand, over that of a variable: null while nothing is bound to it."""
    if not variable:
        return expression

    def leaf(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                return Field(variable, name, span=node.span)
            case Moment(end=end, variable=""):
                return Moment(end, variable, span=node.span)
            case _:
                return node

    made = transform(expression, leaf)
    if _is_strict(expression):
        return made
    unbound = Binary("==", Moment("hi", variable), Literal(None))
    return Call("if", (unbound, Literal(None), made))


def _is_strict(expression: Expression) -> bool:
    """Whether an expression over an event is null where there is none."""
    match expression:
        case Name() | Moment():
            return True
        case Unary(operator="-", operand=operand):
            return _is_strict(operand)
        case Binary(operator="+" | "-" | "*" | "/" | "%", left=left, right=right):
            return _is_strict(left) or _is_strict(right)
        case Call(function="abs" | "round" | "floor" | "ceil" | "length" | "lower" | "upper", arguments=(argument,)):
            return _is_strict(argument)
        case Call(function=function, arguments=(instant, _)) if function in LOCAL_TIMES:
            return _is_strict(instant)
        case _:
            return False


def _bounded(given: Expression, made: Expression) -> Expression:
    if given == made:
        return made
    for size, _ in enumerate(walk(made), 1):
        if size > MOST_TERMS:
            raise PatternError(
                "an expression that is too large with its computed attributes written out",
                given=format_expression(given)[:200],
                allowed=f"{MOST_TERMS:,} names, constants and operators",
                advice="compute fewer attributes of computed ones",
            )
    check_depth(made)
    return made


class ComputedWriter:
    """Writer of patterns in which computed attributes are written out."""

    def __init__(self, stages: Stages, text: str) -> None:
        self.stages = stages
        self.text = text
        self.registers: frozenset[str] = frozenset()
        self.variables: frozenset[str] = frozenset()
        self.bound: dict[str, list[Computed]] = {}

    def publication(self, publication: tree.Publication) -> tree.Publication:
        """The pattern with its output."""
        pattern, output = publication.pattern, publication.output
        self.registers = frozenset(all_registers(pattern))
        self.variables = frozenset(all_variables(pattern))
        for node in tree.walk(pattern):
            if isinstance(node, tree.Atom) and node.variable:
                found = self.bound.setdefault(node.variable, [])
                found += [computed for _, computed in self.branches(node.label, plain=True)]
        made = self.pattern(pattern)
        if output is not None:
            shown = {name for name, _ in output.attributes}
            keys = self.whole_keys(pattern)
            others = {name: key for name, key in keys.items() if name not in shown}
            output = output.mapped(lambda value: self.shown(value, keys), lambda each: self.shown(each, others))
        return replace(publication, pattern=made, output=output)

    def pattern(self, pattern: tree.Pattern) -> tree.Pattern:
        match pattern:
            case tree.Atom(label=label, domain=domain, updates=updates):
                at_hand = [computed for _, computed in self.branches(label, plain=True)]
                return replace(
                    pattern,
                    label=self.set(label),
                    domain=None if domain is None else self.set(domain),
                    updates=tuple((name, self.expression(value, at_hand, label)) for name, value in updates),
                )
            case tree.Scope(body=body, domain=domain):
                return replace(pattern, body=self.pattern(body), domain=self.set(domain))
            case tree.Init(body=body, registers=registers):
                begun = tuple((name, self.expression(value, [NONE_COMPUTED])) for name, value in registers)
                return replace(pattern, body=self.pattern(body), registers=begun)
            case tree.Timing():
                timing = tree.with_delay(pattern, lambda delay: self.expression(delay, [NONE_COMPUTED]))
                return rebuild(timing, self.pattern)
            case tree.Keyed(body=body, attributes=attributes):
                keys = dict.fromkeys(self.key(name, pattern) for name in attributes)
                return replace(pattern, body=self.pattern(body), attributes=tuple(keys))
            case _:
                return rebuild(pattern, self.pattern)

    def whole_keys(self, pattern: tree.Pattern) -> dict[str, str]:
        """Attributes that a pattern is keyed by as a whole, as `key` gives them."""
        keys: dict[str, str] = {}
        while isinstance(pattern, tree.Keyed | tree.Window):
            if isinstance(pattern, tree.Keyed):
                for name in pattern.attributes:
                    keys.setdefault(name, self.key(name, pattern))
            pattern = pattern.body
        return keys

    # Expressions.

    def shown(self, expression: Expression, keys: Mapping[str, str]) -> Expression:
        """An expression of the output."""

        def leaf(node: Expression) -> Expression:
            if isinstance(node, Name) and node.name not in self.registers:
                return replace(node, name=keys.get(node.name, node.name))
            return node

        return self.expression(transform(expression, leaf), [NONE_COMPUTED])

    def expression(
        self, expression: Expression, at_hand: Iterable[Computed], described: DescribableSet | None = None
    ) -> Expression:
        """An expression read beside an event, of a set perhaps, with one of these sets of computed attributes."""
        choices = list(at_hand)

        def leaf(node: Expression) -> Expression:
            match node:
                case Name(name=name) if name not in self.registers:
                    return self.one_of(node, name, (each.get(name, Name(name)) for each in choices))
                case Field(variable=variable, attribute=attribute) if variable in self.bound:
                    known = (each.get(attribute, Name(attribute)) for each in self.bound[variable])
                    return _of_variable(self.one_of(node, attribute, known), variable)
                case _:
                    return node

        made = transform(expression, leaf)
        if described is not None:
            types = {self.stages.root(each.name) for each in readers_in(described) if isinstance(each, TypeSet)}
            made = self.stages.with_states(made, types, self.variables)
        return _bounded(expression, made)

    def one_of(self, node: Expression, name: str, values: Iterable[Expression]) -> Expression:
        """The value of an attribute, which has to be one for all events that may be at hand."""
        known = {format_expression(each): each for each in values}
        if len(known) < 2:
            return known.popitem()[1] if known else Name(name)
        raise error_at(
            self.text,
            node.span,
            f"the attribute {name!r} is computed in several ways for the events that this may be",
            given=" or ".join(known),
            advice="let the types have one way to compute it, or match each by an atom and a variable of its own",
        )

    # Sets.

    def set(self, described: DescribableSet) -> DescribableSet:
        """A set over published types."""
        return _union(each for each, _ in self.branches(described))

    def branches(self, described: DescribableSet, *, plain: bool = False) -> _Branches:
        """Parts of a set by computed attributes; `plain` without conditions, for the attributes alone."""
        match described:
            case TypeSet(name=name):
                return [self.stages.type_named(name)]
            case AnySet():
                return [(described, NONE_COMPUTED)]
            case Union(members=members):
                return [part for each in members for part in self.branches(each, plain=plain)]
            case Filtered(base=base, condition=condition):
                parts = self.branches(base, plain=plain)
                if plain:
                    return parts
                return [
                    (Filtered(each, self.expression(condition, [computed], each)), computed) for each, computed in parts
                ]
            case Intersection(left=left, right=right):
                return [
                    (Intersection(one, other), self.both(described, of_one, of_other))
                    for one, of_one in self.branches(left, plain=plain)
                    for other, of_other in self.branches(right, plain=plain)
                ]
            case Difference(left=left, right=right):
                others = AnySet() if plain else self.set(right)
                return [(Difference(each, others), computed) for each, computed in self.branches(left, plain=plain)]

    def both(self, described: DescribableSet, one: Computed, other: Computed) -> Computed:
        """The computed attributes of events that are in two sets."""
        for name in one.keys() & other.keys():
            self.one_of_set(described, name, (one[name], other[name]))
        return {**one, **other}

    def one_of_set(self, described: DescribableSet, name: str, values: Iterable[Expression]) -> None:
        known = dict.fromkeys(map(format_expression, values))
        if len(known) > 1:
            raise error_at(
                self.text,
                described.span,
                f"the attribute {name!r} is computed in two ways for one event",
                given=" and ".join(known),
                advice="take one of the types",
            )

    # Keys.

    def key(self, name: str, keyed: tree.Keyed) -> str:
        """The attribute of published events that holds the value of a key."""
        values: dict[str, Expression] = {}
        anything: AnySet | None = None
        for leaf in _leaves(keyed.body):
            if isinstance(leaf, AnySet):
                anything = leaf
                continue
            value = self.stages.type_named(leaf.name)[1].get(name, Name(name))
            root = self.stages.root(leaf.name)
            self.one_of_set(leaf, name, (values.setdefault(root, value), value))
        own = all(value == Name(name) for value in values.values())
        if anything is not None and not own:
            raise error_at(
                self.text,
                anything.span,
                f"any beside the computed key {name!r}: there would be events with two values of it",
                advice="name the types",
            )
        return name if own else self.stages.key(name, values)


def _leaves(pattern: tree.Pattern) -> Iterator[TypeSet | AnySet]:
    """Types in the sets of a pattern, time events left out."""
    timers = {node.timer for node in tree.walk(pattern) if isinstance(node, tree.Timing)}
    for node in tree.walk(pattern):
        for described in tree.sets_of(node):
            for each in walk_set(described):
                if isinstance(each, AnySet) or (isinstance(each, TypeSet) and each.name not in timers):
                    yield each


def _union(sets: Iterable[DescribableSet]) -> DescribableSet:
    members = tuple(sets)
    return members[0] if len(members) == 1 else Union(members)


def key_names(computations: Iterable[Computation]) -> dict[str, str]:
    """Names of computed keys by mark."""
    return {each.mark: each.name for each in computations}
