"""Chains: automata under construction, for left-associated expressions of Cayuga's algebra.

cayuga-algebra-cesar, section 3.2, Definition 1 and Theorem 4: a linear-plus expression is one automaton, with as many
states as operators. A chain is a core pattern whose last atom is still open: a selection around it joins the *label* of
that atom, not its domain, because it rules out and does not look further. The filter of the automaton's state is the
domain, the predicates of its edges are labels (Fig. 5).

µ is `(init r = ..., h = hi(x) : R* F)`: R is the rebind edge, on which a run goes on, F the forward edge, on which it
is an answer, of one domain. Rejected: `R+`, which merges the run with what waits behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from distced.detectors.frontends.cayuga.algebra_plan import (
    DURATION,
    FIRST,
    LAST,
    SECOND,
    Compute,
    Iterate,
    Plan,
    Select,
    Step,
    Stream,
)
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.language.depth import MOST_LEVELS
from distced.middleware.patterns.tree import Atom, Concatenation, Init, Iteration, Pattern, Sequence, Window
from distced.middleware.sets.describable import DescribableSet, Filtered, TypeSet
from distced.middleware.sets.expressions import (
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    children,
    conjunction,
    operands,
    transform,
)
from distced.middleware.sets.expressions import names as names_in

MOST_NODES: Final = 2_000
"""Parts of an expression at most, with values in place of names."""

_HI: Final = Moment("hi", "")
_LO: Final = Moment("lo", "")


@dataclass(frozen=True)
class Values:
    """Values of attributes, and the ends of the events, as core expressions.

    Attributes:
        of: by attribute.
        lo, hi: ends.
    """

    of: Mapping[str, Expression]
    lo: Expression = _LO
    hi: Expression = _HI

    def put(self, expression: Expression, others: Mapping[str, Mapping[str, Expression]] | None = None) -> Expression:
        """An expression of a plan with the values in place of names; `others` by further readings."""

        if isinstance(expression, Name):
            return self.of[expression.name]

        def value(node: Expression) -> Expression:
            match node:
                case Name(name=name):
                    return replace(self.of[name], span=node.span)
                case Field(variable=reading, attribute=name) if others is not None:
                    return replace(others[reading][name], span=node.span)
                case Moment(end=end, variable=""):
                    return replace(self.lo if end == "lo" else self.hi, span=node.span)
                case _:
                    return node

        return _bounded(transform(expression, value))

    def computed(self, values: Iterable[tuple[str, Expression]]) -> Values:
        """These ends, with attributes computed of these."""
        return replace(self, of={name: self.put(value) for name, value in values})


class TooLargeError(Exception):
    """Expression that is too large with values in place of names: those that use a name twice multiply."""

    def __init__(self, span: Span | None) -> None:
        self.span = span


def _bounded(expression: Expression) -> Expression:
    waiting, count = [(expression, 1)], 0
    while waiting:
        node, level = waiting.pop()
        count += 1
        if count > MOST_NODES or level > 2 * MOST_LEVELS:
            raise TooLargeError(expression.span)
        waiting += [(each, level + 1) for each in children(node)]
    return expression


@dataclass(frozen=True)
class Flat:
    """σ, π, ρ and α over a stream: its type, a condition, and the values while its event is at hand."""

    stream: str
    condition: Expression
    now: Values
    span: Span | None

    @property
    def events(self) -> DescribableSet:
        return TypeSet(self.stream, span=self.span)


def flat(plan: Plan) -> Flat | None:
    """A plan over a single stream; None for another one."""
    match plan:
        case Stream(name=name, attributes=attributes):
            return Flat(name, TRUE, Values({each: Name(each) for each in attributes}), plan.span)
        case Select(source=source, condition=condition):
            inner = flat(source)
            if inner is None:
                return None
            return replace(inner, condition=conjunction(inner.condition, inner.now.put(condition)))
        case Compute(source=source, values=values):
            inner = flat(source)
            return None if inner is None else replace(inner, now=inner.now.computed(values))
        case _:
            return None


@dataclass(frozen=True)
class Chain:
    """Automaton under construction.

    Attributes:
        before: what comes before the last atom; None for nothing.
        joined: whether the last atom may overlap with what comes before it.
        events: the domain of the last atom.
        condition: what the label has beside.
        variable: that the last event is bound to.
        now, env: values while the last event is at hand, and behind it.
        rounds: of an iteration its registers; None for a single atom.
        within: longest span of what has been matched so far, ns; None for any.
    """

    before: Pattern | None
    joined: bool
    events: DescribableSet
    condition: Expression
    variable: str
    now: Values
    env: Values
    span: Span | None
    rounds: _Rounds | None = None
    within: int | None = None

    def select(self, condition: Expression) -> Chain:
        """The chain with a selection around it."""
        within, rest = _bound(condition, self.now)
        return replace(
            self, condition=conjunction(self.condition, self.now.put(rest)), within=_least(self.within, within)
        )

    def compute(self, values: tuple[tuple[str, Expression], ...]) -> Chain:
        """The chain with other attributes."""
        return replace(self, now=self.now.computed(values), env=self.env.computed(values))

    def closed(self, updates: tuple[tuple[str, Expression], ...] = ()) -> Pattern:
        """The pattern, whose last atom sets these registers to values of `now`."""
        label: DescribableSet = self.events
        narrower = self.condition != TRUE
        if narrower:
            label = Filtered(self.events, self.condition, span=self.span)
            if isinstance(self.events, Filtered):
                both = conjunction(self.events.condition, self.condition)
                label = Filtered(self.events.base, both, span=self.span)
        domain = self.events if narrower and (self.before is not None or self.rounds is not None) else None
        # Of a run the values of the round before are read, so they are changed behind.
        changed = (*updates, *(self.rounds.updates if self.rounds is not None else ()))
        made: Pattern = Atom(label, domain, self.variable, changed, span=self.span)
        if self.rounds is not None:
            made = self.rounds.around(made, self.span)
        if self.before is not None:
            made = _joined(self.before, made, overlapping=self.joined, span=self.span)
        return made if self.within is None else Window(made, self.within, span=self.span)


@dataclass(frozen=True)
class _Rounds:
    """Registers of an iteration with their initial values, the atom of a round that goes on, the updates, and what the
    registers stand for."""

    registers: tuple[tuple[str, Expression], ...]
    again: Atom
    updates: tuple[tuple[str, Expression], ...]
    written: tuple[tuple[str, str], ...]

    def around(self, last: Pattern, span: Span | None) -> Pattern:
        runs = Iteration(replace(self.again, updates=self.updates), 0, None, span=self.again.span)
        return Init(self.registers, Concatenation((runs, last), span=span), written=self.written, span=span)


def begun(source: Flat, names: MadeNames) -> Chain:
    """The chain of a single atom."""
    variable = names.make("x")
    env = _behind(source.now, variable)
    # A condition of the only atom is in its domain as well, and what is selected around rules out the same.
    return Chain(None, False, source.events, source.condition, variable, source.now, env, source.span)


def followed(
    chain: Chain, second: Flat, condition: Expression, names: MadeNames, span: Span | None, *, overlapping: bool
) -> Chain:
    """The chain with a sequence behind it."""
    variable = names.make("x")
    lo = _earlier(chain.env.lo, _LO) if overlapping else chain.env.lo
    now = Values({**chain.env.of, **second.now.of}, lo)
    within, rest = _bound(condition, now)
    events = _where(second, now.put(rest), span)
    behind = _behind(second.now, variable)
    lo_behind = _earlier(chain.env.lo, behind.lo) if overlapping else chain.env.lo
    env = Values({**chain.env.of, **behind.of}, lo_behind, behind.hi)
    return Chain(chain.closed(), overlapping, events, TRUE, variable, now, env, span, within=within)


def iterated(chain: Chain, second: Flat, plan: Iterate, names: MadeNames) -> Chain:
    """The chain with an iteration behind it."""
    before, at_hand = chain.env, second.now.of
    constant = _constant(plan, at_hand)
    registers: dict[str, str] = {}
    last: dict[str, Expression] = {}
    initial: list[tuple[str, Expression]] = []
    for name, value in plan.initial:
        start = before.put(value)
        if name in constant:
            last[name] = start
            continue
        registers[name] = names.make(name)
        last[name] = Name(registers[name])
        initial.append((registers[name], start))
    lo: Expression = before.lo
    if plan.overlapping:
        begin = names.make("lo")
        initial.append((begin, before.lo))
        lo = _earlier(Name(begin), _LO)
    readings = {FIRST: before.of, SECOND: at_hand, LAST: {**before.of, **last}}
    current = Values({**before.of, **last, **at_hand}, lo)
    within, rest = _bound(plan.condition, current)
    theta = current.put(rest, readings)
    end = names.make("hi")
    if not plan.overlapping:
        # Rounds of an iteration follow weakly.
        theta = conjunction(theta, Binary(">", _LO, Name(end)))
        initial.append((end, before.hi))
    events = _where(second, theta, plan.span)
    condition: Expression = TRUE
    for step in plan.steps:
        if step.condition is not None:
            condition = conjunction(condition, current.put(step.condition, readings))
        current = replace(current, of={**current.of, **_new(step, current, readings)})
    variable = names.make("x")
    updates, kept = _in_turn([(registers[name], current.of[name]) for name in registers], names)
    initial += [(each, Literal(None)) for each in kept]
    env = dict(before.of)
    for name, _ in plan.initial:
        value = current.of[name]
        behind = Field(variable, value.name) if isinstance(value, Name) and value == at_hand.get(name) else None
        env[name] = last[name] if name in constant else behind or last[name]
    updates = (*updates, (begin, lo) if plan.overlapping else (end, _HI))
    label = _narrowed(events, condition, plan.span)
    domain = None if condition == TRUE else events
    written = tuple((register, f"the attribute {name}") for name, register in registers.items())
    rounds = _Rounds(tuple(initial), Atom(label, domain, span=plan.span), updates, written)
    shown = [*((name, before.of[inner]) for name, inner in plan.kept), *((name, env[name]) for name, _ in plan.initial)]
    seen = [*((name, before.of[inner]) for name, inner in plan.kept)]
    seen += [(name, current.of[name]) for name, _ in plan.initial]
    lo_behind = Name(begin) if plan.overlapping else before.lo
    return Chain(
        chain.closed(),
        plan.overlapping,
        events,
        condition,
        variable,
        Values(dict(seen), lo),
        Values(dict(shown), lo_behind, Moment("hi", variable)),
        plan.span,
        rounds,
        within,
    )


def _bound(condition: Expression, values: Values) -> tuple[int | None, Expression]:
    """Longest duration that a condition allows, ns, None for any, and what else it asks for. Later events are no
    shorter, so that a window rules out the same; it needs durations to be the span of what is matched."""
    if not isinstance(values.lo, Moment):
        return None, condition
    found: int | None = None
    rest: Expression = TRUE
    for each in operands(condition, "and"):
        match each:
            case Binary(operator="<" | "<=" as operator, left=left, right=Literal(value=int(length))) if (
                left == DURATION and not isinstance(length, bool) and length >= (operator == "<")
            ):
                found = _least(found, length - (operator == "<"))
            case _:
                rest = conjunction(rest, each)
    return found, rest


def _new(step: Step, current: Values, readings: Mapping[str, Mapping[str, Expression]]) -> dict[str, Expression]:
    return {name: current.put(value, readings) for name, value in step.values}


def _constant(plan: Iterate, at_hand: Mapping[str, Expression]) -> frozenset[str]:
    """Carried attributes of the second input that θ equates with those of the round before: they never change."""
    computed = {name for step in plan.steps for name, _ in step.values}
    found: set[str] = set()
    for each in operands(plan.condition, "and"):
        match each:
            case Binary(
                operator="==", left=Field(variable=one, attribute=name), right=Field(variable=other, attribute=again)
            ) if name == again and {one, other} == {SECOND, LAST} and name in at_hand and name not in computed:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def _behind(now: Values, variable: str) -> Values:
    """Values of an event, of the variable that it is bound to."""

    def bound(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                return Field(variable, name, span=node.span)
            case Moment(end=end, variable=""):
                return Moment(end, variable, span=node.span)
            case _:
                return node

    of = {name: transform(value, bound) for name, value in now.of.items()}
    return Values(of, Moment("lo", variable), Moment("hi", variable))


def _where(source: Flat, condition: Expression, span: Span | None) -> DescribableSet:
    chosen = conjunction(source.condition, condition)
    return source.events if chosen == TRUE else Filtered(source.events, chosen, span=span)


def _narrowed(events: DescribableSet, condition: Expression, span: Span | None) -> DescribableSet:
    if condition == TRUE:
        return events
    if isinstance(events, Filtered):
        return Filtered(events.base, conjunction(events.condition, condition), span=span)
    return Filtered(events, condition, span=span)


def _joined(first: Pattern, second: Pattern, *, overlapping: bool, span: Span | None) -> Pattern:
    kind = Concatenation if overlapping else Sequence
    parts = first.parts if isinstance(first, kind) else (first,)
    return kind((*parts, second), span=span)


def _in_turn(
    updates: list[tuple[str, Expression]], names: MadeNames
) -> tuple[tuple[tuple[str, Expression], ...], list[str]]:
    """Updates that are computed all at once, in an order in which they may be done one after the other, each behind
    those that read its register; in a circle by registers for new values, which are the second result."""
    waiting, made, later = list(updates), list[tuple[str, Expression]](), list[tuple[str, Name]]()
    while waiting:
        read = [names_in(value) for _, value in waiting]
        free = next(
            (
                place
                for place, (name, _) in enumerate(waiting)
                if not any(name in each for other, each in enumerate(read) if other != place)
            ),
            None,
        )
        if free is not None:
            made.append(waiting.pop(free))
            continue
        name, value = waiting.pop(0)
        kept = names.make("new")
        made.append((kept, value))
        later.append((name, Name(kept)))
    return (*made, *later), [each.name for _, each in later]


def _earlier(one: Expression, other: Expression) -> Expression:
    """The lesser of two instants."""
    arguments = (*(one.arguments if isinstance(one, Call) and one.function == "min" else (one,)), other)
    return Call("min", arguments)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
