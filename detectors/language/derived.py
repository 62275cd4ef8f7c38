"""Derived types in patterns: filtered ones are inlined, throttled ones become a mark set before the automata.

A type may be derived from another: filtered, or throttled to one event per interval and key (design, section 1). A
filter becomes part of the sets; throttling needs a memory, so a `Throttling` is run before the automata, in the order
of consumption, and marks the events that pass, for the sets to ask after. Computed attributes are written out where
they are read (`detectors.language.computed`).

A state, `type Inside = last Temp by room`, is a stage, too: it puts the value of the last event of a type and key
beside the events in whose guards and computed attributes it is read, `last(Inside.temp, room)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import zip_longest

from distced.detectors.language.computed import (
    NONE_COMPUTED,
    Computation,
    Computed,
    ComputedWriter,
    computation,
    computes,
    key_names,
    substituted,
)
from distced.detectors.language.parser import parse_expression
from distced.detectors.language.states import states_read
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MAX, format_duration
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.tree import Pattern, Publication
from distced.middleware.sets.aggregates import OVER, is_sliding, slides
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
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Name,
    conjunction,
    format_expression,
    transform,
)
from distced.middleware.sets.expressions import names as expression_names
from distced.middleware.sets.state_reads import STATE_READS, over_event, state_of


@dataclass(frozen=True, slots=True)
class Throttling:
    """Stage before an automaton: one event per interval and key; an aggregate over a sliding window, which each event
    passes; or a state, the last value of a type, which is put beside the events that read it.

    Attributes:
        mark: the attribute of events that passed, or of the value of the aggregate; no attribute's name.
        type_name, condition: the published type that is throttled, and which of its events; the others do not pass.
        every: the interval, ns, aligned to the epoch; 0 for `quiet`.
        quiet: for how long no other event passes after one, ns; 0 for `every`.
        by: the attributes whose values are throttled separately.
        sliding: the aggregate; None for others.
        state: the state; None for others.
    """

    mark: str
    type_name: str
    condition: Expression
    every: int
    by: tuple[str, ...]
    quiet: int = 0
    sliding: Sliding | None = None
    state: StateRead | None = None

    @property
    def types(self) -> frozenset[str]:
        """Published types whose events the stage looks at."""
        return frozenset((self.type_name,) if self.state is None else (self.type_name, *self.state.readers))

    @property
    def names(self) -> frozenset[str]:
        """Attributes and marks that the stage reads."""
        read = [self.condition]
        if self.sliding is not None:
            read.append(self.sliding.argument)
        if self.state is not None:
            read += (self.state.value, *self.state.by, *self.state.at)
        return frozenset(self.by).union(*map(expression_names, read))


@dataclass(frozen=True, slots=True)
class StateRead:
    """Last value of a type, by key.

    Attributes:
        value, by: what is kept, and its key, over the events of the state.
        readers, at: the published types that read it, and the values of the key, over their events.
        function: which of `STATE_READS`; those over a key group leave out its end.
        text: how it is read, for people.
    """

    value: Expression
    by: tuple[Expression, ...]
    readers: tuple[str, ...]
    at: tuple[Expression, ...]
    function: str
    text: str = field(default="", compare=False)

    def keeps_apart(self, name: str) -> bool:
        """Whether events with one value of an attribute read values of events with the same only."""
        return any(one == other == Name(name) for one, other in zip(self.by, self.at, strict=False))


@dataclass(frozen=True, slots=True)
class Sliding:
    """Aggregate of a value over the events of a key in a time, ns, up to the event at hand."""

    function: str
    argument: Expression
    length: int


def reach_of_loss(throttlings: Iterable[Throttling], until: int) -> int:
    """Instant up to which lost events up to `until` make a difference, ns: another event of their interval passes in
    place of one that was lost."""
    for each in throttlings:
        if each.quiet or each.state is not None:
            # Each event that passes decides over the next; a value is kept until the next one.
            return INSTANT_MAX
        if each.sliding is not None:
            until = min(until + each.sliding.length, INSTANT_MAX)
            continue
        until = min((until // each.every + 1) * each.every - 1, INSTANT_MAX)
    return until


def needed_throttlings(throttlings: Sequence[Throttling], names: Collection[str]) -> tuple[Throttling, ...]:
    """Those of the throttlings whose marks are read, with those that they build on."""
    read = set(names)
    for each in reversed(throttlings):
        if each.mark in read:
            read |= each.names
    return tuple(each for each in throttlings if each.mark in read)


def without_derived(pattern: Pattern, registry: TypeRegistry) -> tuple[Pattern, tuple[Throttling, ...]]:
    """The pattern over published types alone, and its throttlings, each before those that build on it."""
    written = written_out(Publication(pattern), registry)
    return written.publication.pattern, written.throttlings


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """Pattern over published types alone, and the stages before its automaton, each before those that build on it."""

    publication: Publication
    throttlings: tuple[Throttling, ...]
    computations: tuple[Computation, ...]


def written_out(publication: Publication, registry: TypeRegistry, *, text: str = "") -> WrittenOut:
    """The pattern over published types alone. Raises `PatternError` for an attribute that would be several things."""
    stages = _Stages(registry)
    if computes(publication.pattern, registry) or states_read(publication.pattern):
        publication = ComputedWriter(stages, text).publication(publication)
    else:
        plain = replace_sets(publication.pattern, lambda described: _published(described, stages))
        publication = replace(publication, pattern=plain)
    return WrittenOut(publication, tuple(stages.throttlings.values()), tuple(stages.computations.values()))


def _published(described: DescribableSet, stages: _Stages) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return stages.type_named(name)[0]
        case AnySet():
            return described
        case Union(members=members):
            return replace(described, members=tuple(_published(each, stages) for each in members))
        case Filtered(base=base):
            return replace(described, base=_published(base, stages))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=_published(left, stages), right=_published(right, stages))


class _Stages:
    """Derived types over published ones, with the stages that their events pass."""

    def __init__(self, registry: TypeRegistry) -> None:
        self.registry = registry
        self.throttlings: dict[str, Throttling] = {}
        self.computations: dict[str, Computation] = {}
        self._known: dict[str, tuple[DescribableSet, Computed]] = {}

    def type_named(self, name: str) -> tuple[DescribableSet, Computed]:
        """Events of a type, and its computed attributes."""
        if name not in self._known:
            self._known[name] = self._written_out(name)
        return self._known[name]

    def root(self, name: str) -> str:
        return self.registry.root(name)

    def key(self, name: str, values: Mapping[str, Expression]) -> str:
        """Attribute of the published events that holds a key's value: one of their own, or a mark."""
        read = [self.throttlings.get(each) for value in values.values() for each in expression_names(value)]
        if any(each is not None for each in read):
            state = any(each is not None and each.state is not None for each in read)
            what = "the value of a state" if state else "an aggregate over a window"
            raise PatternError(
                f"{what} as a key: it is known only when the key is",
                given=name,
                allowed="attributes of the events, and calculations with them",
            )
        texts = {format_expression(each): each for each in values.values()}
        if len(texts) == 1 and isinstance(first := next(iter(texts.values())), Name):
            return first.name
        made = computation(name, values)
        return self.computations.setdefault(made.mark, made).mark

    def _written_out(self, name: str) -> tuple[DescribableSet, Computed]:
        event_type = self.registry.find(name)
        if event_type is None or event_type.derived is None:
            return TypeSet(name), NONE_COMPUTED
        derived = event_type.derived
        described, computed = self.type_named(derived.base)
        if derived.where:
            described = Filtered(described, self._over(parse_expression(derived.where), computed, name))
        if derived.computed:
            parsed = {each: parse_expression(value) for each, value in derived.computed}
            added = {each: self._over(value, computed, name) for each, value in parsed.items() if not slides(value)}
            keys = {**computed, **added}
            added |= {
                each: self._with_marks(self._over(value, computed, name), name, described, keys, derived.by)
                for each, value in parsed.items()
                if slides(value)
            }
            computed = {**computed, **added}
        if not (derived.every or derived.quiet):
            return described, computed
        condition, root = _condition(described), self.root(name)
        if is_clock(root):
            raise PatternError(
                "a clock that is throttled",
                given=name,
                allowed="where and with",
                advice="choose another clock",
            )
        by = tuple(sorted(self.key(each, {root: computed.get(each, Name(each))}) for each in derived.by))
        often = f"at most 1 per {derived.quiet}" if derived.quiet else f"every {derived.every}"
        content = f"{root} where {format_expression(condition)} {often} by {list(by)}"
        mark = f"throttled {blake2b(content.encode(), digest_size=8).hexdigest()}"
        self.throttlings.setdefault(mark, Throttling(mark, root, condition, derived.every, by, derived.quiet))
        return Filtered(TypeSet(root), Name(mark)), computed

    def _over(self, expression: Expression, computed: Computed, name: str) -> Expression:
        """An expression of a derived type over the events of the published type."""
        return self.with_states(substituted(expression, computed), (self.root(name),))

    def with_states(
        self, expression: Expression, readers: Iterable[str], variables: Collection[str] = ()
    ) -> Expression:
        """An expression over events of published types with marks in place of the states that it reads; a variable
        hides a state of its name."""
        types = tuple(sorted(set(readers)))

        def change(node: Expression) -> Expression:
            name = state_of(node)
            found = self.registry.find(name) if name and name not in variables else None
            if found is None or found.derived is None or not found.derived.last:
                return node
            assert isinstance(node, Call)
            described, computed = self.type_named(name)
            value = substituted(over_event(node.arguments[0], name), computed)
            by = tuple(substituted(Name(each), computed) for each in found.derived.by)
            if is_clock(self.root(name)):
                raise PatternError(
                    "a state of a clock, which has no attributes", given=name, allowed="states of events"
                )
            state = StateRead(value, by, types, node.arguments[1:], node.function, format_expression(node))
            condition, root = _condition(described), self.root(name)
            pairs = zip_longest(map(format_expression, by), map(format_expression, state.at), fillvalue="any")
            keys = "; ".join(f"{one} is {two}" for one, two in pairs)
            content = f"{format_expression(value)} of {root} where {format_expression(condition)}; {keys}; for {types}"
            mark = f"{node.function} {blake2b(content.encode(), digest_size=8).hexdigest()}"
            self.throttlings.setdefault(mark, Throttling(mark, root, condition, 0, (), state=state))
            return Name(mark, span=node.span)

        return transform(expression, change)

    def _with_marks(
        self, value: Expression, name: str, described: DescribableSet, keys: Computed, by: Iterable[str]
    ) -> Expression:
        """A computed attribute with marks in place of its aggregates over windows."""
        condition, root = _condition(described), self.root(name)
        if is_clock(root):
            raise PatternError("an aggregate over the events of a clock", given=name, allowed="calculations")
        named = tuple(sorted(self.key(each, {root: keys.get(each, Name(each))}) for each in by))

        def change(node: Expression) -> Expression:
            if not is_sliding(node):
                return node
            aggregate, length = node.arguments
            assert isinstance(aggregate, Call) and isinstance(length, Literal) and isinstance(length.value, int)
            content = f"{root} where {format_expression(condition)} {format_expression(node)} by {list(named)}"
            mark = f"sliding {blake2b(content.encode(), digest_size=8).hexdigest()}"
            sliding = Sliding(aggregate.function, aggregate.arguments[0], length.value)
            self.throttlings.setdefault(mark, Throttling(mark, root, condition, 0, named, sliding=sliding))
            return Name(mark, span=node.span)

        return transform(value, change)


def _condition(described: DescribableSet) -> Expression:
    return conjunction(_condition(described.base), described.condition) if isinstance(described, Filtered) else TRUE


def throttled_names(
    throttlings: Iterable[Throttling], derived: Mapping[str, str], computations: Iterable[Computation] = ()
) -> dict[str, str]:
    """Names of throttled events by mark: the derived type's if known, else a description of the throttling. With those
    of computed keys."""
    keys = key_names(computations)
    names = dict(keys)
    for each in throttlings:
        if each.sliding is not None:
            aggregate = Call(each.sliding.function, (each.sliding.argument,))
            names[each.mark] = format_expression(Call(OVER, (aggregate, Literal(each.sliding.length))))
            continue
        if each.state is not None:
            names[each.mark] = each.state.text
            continue
        by = f" by ({', '.join(keys.get(name, name) for name in each.by)})" if each.by else ""
        condition = "" if each.condition == TRUE else f" where {format_expression(each.condition)}"
        often = f"at most 1 per {format_duration(each.quiet)}" if each.quiet else f"every {format_duration(each.every)}"
        described = f"{each.type_name}{condition} {often}{by}"
        names[each.mark] = derived.get(each.mark, described)
    return names


def last_values(throttlings: Iterable[Throttling]) -> dict[str, str]:
    """What the states among stages keep, by mark."""
    stages = tuple(throttlings)
    names = {each.mark: each.state.text for each in stages if each.state is not None}

    def text(expression: Expression) -> str:
        return format_expression(without_marks(expression, names))

    found = {}
    for each in stages:
        if each.state is not None:
            condition = "" if each.condition == TRUE else f" where {text(each.condition)}"
            by = f" by ({', '.join(map(text, each.state.by))})" if each.state.by else ""
            found[each.mark] = f"last {text(each.state.value)} of {each.type_name}{condition}{by}"
    return found


def without_marks(expression: Expression, throttled: Mapping[str, str]) -> Expression:
    """An expression with the names of throttled events in place of their marks."""

    def named(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                shown = throttled.get(name, name)
                is_value = name in throttled and (f" {OVER} " in shown or name.split(" ")[0] in STATE_READS)
                return parse_expression(shown) if is_value else Name(shown)
            case Field(variable=variable, attribute=attribute):
                return Field(variable, throttled.get(attribute, attribute))
            case _:
                return node

    return transform(expression, named)


def split_mark(condition: Expression, throttled: Mapping[str, str]) -> tuple[str, Expression] | None:
    """The name of the throttled events that a condition asks for, and the rest of it; None if it asks for none."""
    for mark, name in throttled.items():
        if mark.split(" ")[0] in ("sliding", *STATE_READS):
            # A value that is a condition.
            continue
        rest = TRUE if condition == Name(mark) else _without(condition, Name(mark))
        if rest is not None:
            return name, without_marks(rest, throttled)
    return None


def _without(condition: Expression, conjunct: Expression) -> Expression | None:
    """A conjunction without one of its members; None for a non-member."""
    if not isinstance(condition, Binary) or condition.operator != "and":
        return None
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if one == conjunct:
            return other
    left = _without(condition.left, conjunct)
    if left is not None:
        return Binary("and", left, condition.right)
    right = _without(condition.right, conjunct)
    return None if right is None else Binary("and", condition.left, right)
