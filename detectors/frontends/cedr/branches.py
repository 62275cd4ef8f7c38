"""Branches of the core pattern for a CEDR query: one for each order in which the events of a match may come.

A branch is a list of steps, each of which waits for the event of one operand, and a last instant at which the match is
known (frontends, section 6.3). All conditions stand at the step that completes them; what must not come in the meantime
is part of the step, because it depends on what precedes in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import perm
from typing import Final, NoReturn

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.cedr.ways import Between, Slot, Way, repeated_operands, ways
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.expressions import (
    FALSE,
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Spanned,
    conjunction,
    disjunction,
    transform,
    variables,
)

MOST_ORDERS: Final = 1_000
"""Orders of events that one query may have, and steps, beginnings being shared: ALL of five operands has 120 orders and
325 steps, of six 720 and 1,956. A step is two atoms, of which a pattern has at most 2,000."""

MOST_ORDERS_OF_TEXT: Final = 5_000
"""Orders that the queries of one text may have together: they take some three seconds to check."""

MOST_EQUAL: Final = 3
"""Attributes of a negated operand that may be compared with the operand behind it: a branch for each that are null."""

MOST_CONDITIONS: Final = 2_000
"""Conditions of one query, each being one for every event of `ATLEAST(n, E x)` that it concerns."""

_MOST_WORK: Final = 50_000
"""Conditions, pairs of events, and absences in all orders: a query of more takes too long to translate."""


@dataclass(frozen=True, slots=True)
class Member:
    """Events of a negated operand that count, the condition being one of the event at hand.

    Attributes:
        flag: register that tells whether one has come, for ATMOST, or when the last one came, for NOT in front in a
            lifespan; empty for others.
        by: attributes that are equal to those of the event that is awaited.
    """

    operand: tree.Operand
    condition: Expression
    flag: str = ""
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Negated operands, of which at most a number may have an event while a step waits."""

    most: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class FrontStep:
    """First event of an operand of ATMOST in front, the condition being one of the event at hand.

    Attributes:
        updates: registers, with values of the event at hand: when the one before it came, and what has to be equal.
    """

    operand: tree.Operand
    condition: Expression
    updates: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Wait for the event of a slot.

    Attributes:
        guard: condition of the event at hand.
        unwanted: what must not come before it.
        noted: events whose time is kept in a register while it waits, for NOT in front in a lifespan.
        by: attributes by which it waits, with what must not come: for each value by itself.
        fronts: what comes in front of it, none of it longer before than `scope`, ns.
    """

    slot: Slot
    guard: Expression
    unwanted: tuple[Unwanted, ...] = ()
    noted: tuple[Member, ...] = ()
    by: tuple[str, ...] = ()
    fronts: tuple[FrontStep, ...] = ()
    scope: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """How a match is known: by its last event, at an instant behind it, or at the end of the lifespan.

    Attributes:
        delay: from the last event to the time event, ns, or an expression of it; None for no time event.
        at_end: whether the end of the lifespan tells; `behind` is what it has to be behind.
        unwanted: what must not come before it.
        span: place in the source of what makes it wait.
    """

    delay: int | Expression | None = None
    at_end: bool = False
    behind: Expression = TRUE
    unwanted: tuple[Unwanted, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Steps in the order of their events, and the end."""

    steps: tuple[BranchStep, ...]
    end: End


@dataclass(frozen=True, slots=True)
class Front:
    """NOT in front, as a state: the last event of an operand, by the correlation keys, and by what is compared with the
    event behind it."""

    operand: tree.Operand
    condition: Expression
    by: tuple[str, ...]


class Branches:
    """The branches of a query.

    Attributes:
        keyed: attributes that the whole pattern is keyed by.
        copies: names of the slots of `ATLEAST(n, E x)` by the variable of the operand.
        flags: registers of ATMOST by the variable of the operand.
        fronts: names of states, for absences in front.
        registers: registers of absences in front by the variable of the operand, and an attribute.
        orders: number of the orders of its events.
    """

    def __init__(
        self,
        query: tree.CedrQuery,
        names: MadeNames,
        text: str,
        *,
        keyed: Iterable[str],
        in_lifespan: bool,
    ) -> None:
        """Args: names: for variables and registers. keyed: attributes that the whole pattern is keyed by."""
        self.query, self.text, self.in_lifespan = query, text, in_lifespan
        self.negated = {each.variable: each for each in tree.negated_operands(query.pattern)}
        self.copies = {
            variable: (variable, *(names.make(f"{variable}{number}") for number in range(2, count + 1)))
            for variable, count in repeated_operands(query.pattern)
        }
        self.flags: dict[str, str] = {}
        self.fronts: dict[Front, str] = {}
        self.registers: dict[tuple[str, str], str] = {}
        self.orders = 0
        self._names = names
        self.keyed = frozenset(keyed)
        self._conjuncts = tuple((each, variables(each)) for each in self._for_each_event(query.where))

    def names_of(self, variable: str) -> tuple[str, ...]:
        """Names of the slots of an operand: several for `ATLEAST(n, E x)`, the first of which is the variable."""
        return self.copies.get(variable, (variable,))

    def slots(self) -> tuple[Slot, ...]:
        """All slots in the order of the pattern."""
        return tuple(
            Slot(name, operand)
            for operand in tree.positive_operands(self.query.pattern)
            for name in self.names_of(operand.variable)
        )

    def all(self) -> list[Branch]:
        """The branches. Raises `PatternError` where there are too many, or an absence depends on what comes later."""
        found: list[Branch] = []
        work = 0
        for way in ways(self.query.pattern, self.copies):
            absent = sum(len(each.absence.operands) for each in way.absences)
            for timer in way.timers:
                if timer.variable not in way.names:
                    self._error(timer, "a timer of an operand that need not occur", timer.variable)
            conjuncts = self.conjuncts(way)
            if len(way.slots) ** 2 // 2 > _MOST_WORK:
                # Orders are made by recursion over the slots.
                self.too_many()
            # `product` would hold all orders.
            for order, fronts in ((order, fronts) for order in way.orders() for fronts in self._fronts(way)):
                self.orders += 1
                work += len(conjuncts) + len(order) ** 2 // 2 + absent
                if self.orders > MOST_ORDERS or work > _MOST_WORK:
                    self.too_many()
                made = _Order(self, way, order, conjuncts, fronts)
                # One whose lifetime ends before it is known is none.
                found += (each for each in made.branches() if each.steps[-1].guard != FALSE)
        return found

    def _fronts(self, way: Way) -> Iterator[tuple[tree.Operand, ...]]:
        """Operands of ATMOST in front that have an event, in the orders of their first ones."""
        limits = [each.absence for each in way.absences if each.limits_front]
        if not limits:
            yield ()
            return
        absence, operands = limits[0], limits[0].operands
        problem = ""
        if len(limits) > 1:
            problem, absence = "ATMOST in front twice", limits[1]
        elif self.in_lifespan:
            problem = "ATMOST with a scope in front, in a lifespan"
        elif self.query.consumption == "ext-exclusive":
            problem = "ATMOST in front with EXT-EXCLUSIVE"
        elif len({each.type_name for each in operands}) < len(operands):
            problem = "ATMOST in front with two operands of one type"
        if problem:
            self._error(absence, problem, "ATMOST", advice="make a query of its own of what comes behind it")
        counts = range(min(absence.most, len(operands)) + 1)
        if sum(perm(len(operands), count) for count in counts) > MOST_ORDERS:
            self.too_many()
        for count in counts:
            yield from permutations(operands, count)

    def too_many(self) -> NoReturn:
        """Refuse a query of too many orders."""
        self._error(
            self.query.pattern,
            "too many orders in which events may come",
            f"more than {MOST_ORDERS:,}",
            allowed="ALL of five operands, or fewer",
            advice="divide it: queries of fewer operands, and one that reads their events",
        )

    def renamed(self, expression: Expression, variable: str, name: str) -> Expression:
        """Expression that reads one of the events of `ATLEAST(n, E x)` in place of x."""
        return _renamed(expression, {variable: name})

    def _for_each_event(self, where: Iterable[Expression]) -> Iterator[Expression]:
        number = 0
        for conjunct in where:
            read = [each for each in sorted(variables(conjunct)) if each in self.copies]
            for names in product(*(self.copies[each] for each in read)):
                number += 1
                if number > MOST_CONDITIONS:
                    allowed, advice = f"{MOST_CONDITIONS:,}", "compare fewer events with each other"
                    self._error(conjunct, "too many conditions", f"more than {allowed}", allowed=allowed, advice=advice)
                yield _renamed(conjunct, dict(zip(read, names, strict=True)))

    def conjuncts(self, way: Way) -> list[tuple[Expression, frozenset[str]]]:
        """Conjuncts whose operands are in a way, negated ones apart, with what they read."""
        names = way.names | self.negated.keys()
        return [each for each in self._conjuncts if each[1] <= names]

    def flag(self, operand: tree.Operand) -> str:
        """Register that tells whether an event of an operand of ATMOST has come."""
        if operand.variable not in self.flags:
            self.flags[operand.variable] = self._names.make(f"met_{operand.variable}")
        return self.flags[operand.variable]

    def state(self, front: Front) -> str:
        """Name of a state for NOT in front."""
        if front not in self.fronts:
            self.fronts[front] = self._names.make(f"last_{front.operand.variable}")
        return self.fronts[front]

    def register(self, operand: tree.Operand, attribute: str = "") -> str:
        """Register for an absence in front: for an attribute of the event of an operand, or for the time of the last
        event of it."""
        key = operand.variable, attribute
        if key not in self.registers:
            self.registers[key] = self._names.make(f"{attribute or 'last'}_{operand.variable}")
        return self.registers[key]

    @property
    def unkeyed(self) -> tuple[tree.CorrelationKey, ...]:
        """Correlation keys that the whole pattern is not keyed by."""
        return tuple(each for each in self.query.keys if each.unique or each.attribute not in self.keyed)

    def _error(
        self, node: Spanned, problem: str, given: object, *, allowed: str | None = None, advice: str | None = None
    ) -> NoReturn:
        raise error_at(self.text, node.span, problem, given=given, allowed=allowed, advice=advice)


class _Order:
    """One order of the events of a way; positions begin with 1."""

    def __init__(
        self,
        branches: Branches,
        way: Way,
        order: tuple[Slot, ...],
        conjuncts: Sequence[tuple[Expression, frozenset[str]]],
        fronts: tuple[tree.Operand, ...],
    ) -> None:
        self.of, self.way, self.order, self.fronts = branches, way, order, fronts
        self.query = branches.query
        self.position = {slot.name: place for place, slot in enumerate(order, 1)}
        self.conjuncts = conjuncts
        self.last = len(order)
        self.gaps: list[list[Unwanted]] = [[] for _ in range(self.last + 1)]
        self.guards: list[list[Expression]] = [[] for _ in range(self.last + 1)]
        # Instants at which a match is known: the position of an event and a delay, and the span of what tells.
        self.known: list[tuple[int, int, Span | None]] = []
        self.at_end: Spanned | None = None
        self.noted: list[Member] = []
        self.front_steps: dict[tree.Operand, FrontStep] = {}
        self.front_scope = 0
        # Conditions that compare a negated operand with what comes later, with that.
        self.later: dict[str, tuple[Spanned, str]] = {}

    def branches(self) -> Iterator[Branch]:
        self._guards()
        for timer in self.way.timers:
            self.known.append((self.position[timer.variable], timer.delay, timer.span))
        if self.way.unless is not None:
            self._unless(self.way.unless)
        for each in self.way.cancelling:
            names = each.names
            if isinstance(each.by, tree.Operand):
                places = sorted(self.position[name] for name in names)
                self._unwanted(0, (each.by,), places[0], places[-1], None)
            elif each.by.variable in self.position:
                self._until(each.by, [self.position[name] for name in names])
        for between in self.way.absences:
            self._absence(between)
        yield from self._ends()

    # Conditions of events.

    def _guards(self) -> None:
        for conjunct, read in self.conjuncts:
            if read.isdisjoint(self.of.negated):
                self.guards[max((self.position[name] for name in read), default=1)].append(conjunct)
        for place, slot in enumerate(self.order, 1):
            for key in self.of.unkeyed:
                self.guards[place] += self._key(key, slot, place)
            before = [self.position[name] for name in self.way.strong.get(slot.name, ())]
            if before:
                # That of the others is earlier, by the order of consumption.
                latest = self.order[max(before) - 1].name
                self.guards[place].append(_compared(Moment("lo", slot.name), ">", Moment("hi", latest)))

    def _key(self, key: tree.CorrelationKey, slot: Slot, place: int) -> Iterator[Expression]:
        own = Field(slot.name, key.attribute, span=key.span)
        if key.unique or place == 1:
            yield _compared(own, "!=", Literal(None), key.span)
        others = self.order[: place - 1] if key.unique else self.order[: min(1, place - 1)]
        for other in others:
            sign = "!=" if key.unique else "=="
            yield _compared(own, sign, Field(other.name, key.attribute, span=key.span), key.span)

    # What must not be.

    def _absence(self, between: Between) -> None:
        absence = between.absence
        before = max((self.position[name] for name in between.before or ()), default=0)
        behind = min((self.position[name] for name in between.behind or ()), default=0)
        if not before and absence.scope is not None:
            for operand in absence.operands:
                self._in_front(operand, absence, behind)
            return
        if behind:
            self._unwanted(absence.most, absence.operands, before, behind, absence.scope)
            return
        if absence.scope is None:
            self.at_end = absence
        else:
            self.known.append((before, absence.scope, absence.span))
        scope = absence.scope if self._goes_on(before, absence.scope) else None
        self._unwanted(absence.most, absence.operands, before, self.last + 1, scope)

    def _goes_on(self, before: int, scope: int | None) -> bool:
        """Whether a match may be known later than the scope of a NOT at the end is over."""
        scopes = [(before, each.absence.scope) for each in self.way.absences if each.behind is None]
        ends = [(place, delay) for place, delay, _ in self.known] + scopes
        at_end = any(each is None for _, each in scopes)
        return before < self.last or at_end or any(each != (before, scope) for each in ends)

    def _unless(self, operand: tree.Operand) -> None:
        lifetime = self.query.lifetime
        if isinstance(lifetime, tree.Window):
            # The lifetime ends with the scope.
            self._unwanted(0, (operand,), 1, self.last + 1, None)
            self.known.append((1, lifetime.length, operand.span))
        else:
            self._unwanted(0, (operand,), 0, self.last + 1, None)
            self.at_end = operand

    def _unwanted(self, most: int, operands: Sequence[tree.Operand], begin: int, end: int, scope: int | None) -> None:
        """Limit the operands that may have an event from one position to another; behind the last one, until the match
        is known."""
        members = []
        for operand in operands:
            condition, by = self._condition(operand, begin, end)
            if scope is not None:
                passed = Binary("-", Moment("hi", ""), Moment("hi", self.order[begin - 1].name))
                condition = conjunction(condition, _compared(passed, "<=", Literal(scope)))
            members.append(Member(operand, condition, self.of.flag(operand) if most else "", by))
        for gap in range(begin, end):
            self.gaps[gap].append(Unwanted(most, tuple(members)))

    def _condition(self, operand: tree.Operand, begin: int, end: int) -> tuple[Expression, tuple[str, ...]]:
        """Condition under which an event counts, which reads what precedes a position; attributes that are equal to
        those of the event at the next one."""
        found: Expression = TRUE
        by: list[str] = []
        next_one = self.order[begin].name if begin + 1 == end <= self.last and not self.of.in_lifespan else ""
        for conjunct, read in self.conjuncts:
            if operand.variable not in read:
                continue
            if read == {operand.variable, next_one} and (same := _equal(conjunct, operand.variable)):
                attribute, value = same
                if attribute == value.attribute and len({*by, attribute}) <= MOST_EQUAL:
                    by.append(attribute)
                    self.later[operand.variable] = conjunct, next_one
                    continue
            for name in sorted(read - {operand.variable}):
                self._precedes(operand, name, begin, conjunct)
            found = conjunction(found, self._at_hand(conjunct, operand.variable))
        for key in self.of.unkeyed:
            own = Name(key.attribute, span=key.span)
            for slot in self.order if key.unique else self.order[:1]:
                self._precedes(operand, slot.name, begin, key)
                sign = "!=" if key.unique else "=="
                one = _compared(own, sign, Field(slot.name, key.attribute, span=key.span), key.span)
                found = conjunction(found, one)
        # What the whole pattern is keyed by is equal.
        return found, tuple(dict.fromkeys(each for each in by if each not in self.of.keyed))

    def _precedes(self, operand: tree.Operand, other: str, begin: int, node: Spanned) -> None:
        if self.position[other] > begin:
            self._compared_later(operand, other, node)

    def _compared_later(self, operand: tree.Operand, other: str, node: Spanned) -> NoReturn:
        known = self.order[self.position[other] - 1].operand.variable
        raise error_at(
            self.of.text,
            node.span,
            "a negated operand is compared with what comes later",
            given=f"{operand.variable}, {known}",
            advice="compare it with what comes before it, by CorrelationKey(attribute, Equal), or by = with the same "
            "attribute of the operand behind it",
        )

    def _by(self, unwanted: Iterable[Unwanted]) -> tuple[str, ...]:
        """Attributes by which a step waits: all that must not come in the meantime is compared by them."""
        members = [member for each in unwanted for member in each.members]
        found = {frozenset(each.by) for each in members}
        if len(found) > 1:
            # What is compared otherwise would count for one value only.
            wrong = next(each for each in members if each.by)
            node, other = self.later[wrong.operand.variable]
            self._compared_later(wrong.operand, other, node)
        return members[0].by if members else ()

    def _in_front(self, operand: tree.Operand, absence: tree.Absence, behind: int) -> None:
        """Ask that no event of an operand came for some time before the one at a position, or its first one in that
        time as a part of the match."""
        slot = self.order[behind - 1]
        if any(each.operand.type_name == operand.type_name for each in self.order[: behind - 1]):
            self._late(absence, "NOT in front of what another event of its type precedes", operand)
        if absence.most and behind > 1:
            self._late(absence, "ATMOST in front of what another event precedes", operand)
        assert absence.scope is not None
        condition: Expression = TRUE
        keys = {each.attribute: Field(slot.name, each.attribute) for each in self.query.keys}
        equal: tuple[str, Field] | None = None
        for conjunct, read in self.conjuncts:
            if operand.variable in read:
                same = None if self.of.in_lifespan or equal else _equal(conjunct, operand.variable)
                if same is not None and self.position[same[1].variable] <= behind and same[0] not in keys:
                    equal = same
                    continue
                for other in sorted(read - {operand.variable}):
                    self._precedes(operand, other, 0, conjunct)
                condition = conjunction(condition, self._at_hand(conjunct, operand.variable))
        last: Expression
        if self.of.in_lifespan:
            if behind > 1:
                self._late(absence, "NOT in a lifespan in front of what another event precedes", operand)
            if self.of.unkeyed:
                self._precedes(operand, slot.name, 0, self.of.unkeyed[0])
            last = Name(self.of.register(operand))
            self.noted.append(Member(operand, condition, self.of.register(operand)))
        else:
            if unique := [each for each in self.of.unkeyed if each.unique]:
                self._precedes(operand, slot.name, 0, unique[0])
            last = self._last(operand, condition, keys, equal)
            if operand in self.fronts:
                before = self._last(
                    operand, condition, {each: Name(each) for each in keys}, equal and (equal[0], Name(equal[0]))
                )
                compared = {**keys, **dict([equal] if equal else ())}
                own = [(each, self.of.register(operand, each)) for each in compared if each not in self.of.keyed]
                self.guards[behind] += (_compared(compared[each], "==", Name(register)) for each, register in own)
                last = Name(self.of.register(operand))
                kept = ((register, Name(each)) for each, register in own)
                self.front_scope = absence.scope
                self.front_steps[operand] = FrontStep(operand, condition, ((last.name, before), *kept))
        passed = Binary("-", Moment("hi", slot.name), last)
        never = _compared(last, "==", Literal(None), absence.span)
        long_ago = _compared(passed, ">", Literal(absence.scope), absence.span)
        self.guards[behind].append(disjunction(never, long_ago))

    def _last(
        self,
        operand: tree.Operand,
        condition: Expression,
        keys: Mapping[str, Expression],
        equal: tuple[str, Expression] | None,
    ) -> Expression:
        """When the last event of an operand came that has these values of attributes."""

        def read(condition: Expression, values: Mapping[str, Expression]) -> Expression:
            state = self.of.state(Front(operand, condition, tuple(values)))
            return Call("last", (Moment("hi", state), *values.values()), span=operand.span)

        if equal is None:
            return read(condition, keys)
        own, value = equal
        # Null equals null, and is no key.
        null = read(conjunction(condition, _compared(Name(own), "==", Literal(None))), keys)
        return Call("if", (_compared(value, "==", Literal(None)), null, read(condition, {**keys, own: value})))

    def _late(self, node: Spanned, problem: str, operand: tree.Operand) -> None:
        advice = "make a query of its own of it, and read its events"
        raise error_at(self.of.text, node.span, problem, given=operand.variable, advice=advice)

    def _until(self, timer: tree.TimerOperand, places: Iterable[int]) -> None:
        since = self.position[timer.variable]
        for place in places:
            if place > since:
                passed = Binary("-", Moment("hi", self.order[place - 1].name), Moment("hi", timer.variable))
                self.guards[place].append(_compared(passed, "<=", Literal(timer.delay), timer.span))

    # How a match is known.

    def _ends(self) -> Iterator[Branch]:
        known = list(dict.fromkeys((place, delay) for place, delay, _ in self.known))
        own = [delay for place, delay in known if place == self.last]
        unwanted = tuple(self.gaps[self.last])
        here = Moment("hi", self.order[-1].name)
        before = [_compared(here, ">", self._instant(place, delay)) for place, delay in known]
        if self.at_end is not None:
            behind = [_compared(Moment("hi", ""), ">", self._instant(place, delay)) for place, delay in known]
            lasts = conjunction_of(behind)
            yield self._branch(End(at_end=True, behind=lasts, unwanted=unwanted, span=self.at_end.span))
            return
        # UNLESS is never known before its lifetime ends.
        if not own and not (self.way.unless and isinstance(self.query.lifetime, tree.Window)):
            yield self._branch(End(), *before, *self._alive([(self.last, 0)]))
        if not known:
            return
        span = next(span for *_, span in self.known)
        if len(own) == len(known):
            yield self._branch(End(max(own), unwanted=unwanted, span=span), *self._alive([(self.last, max(own))]))
            return
        instants = [self._instant(place, delay) for place, delay in known]
        latest = instants[0] if len(instants) == 1 else Call("max", tuple(instants), span=span)
        passed = Binary("-", latest, here, span=span)
        extra = [] if own else [_compared(here, "<=", latest)]
        yield self._branch(End(passed, unwanted=unwanted, span=span), *extra, *self._alive(known))

    def _instant(self, place: int, delay: int) -> Expression:
        instant = Moment("hi", self.order[place - 1].name)
        return Binary("+", instant, Literal(delay)) if delay else instant

    def _alive(self, detected: Sequence[tuple[int, int]]) -> Iterator[Expression]:
        """Conditions of the lifetime at the last event, the match being detected at the latest of these instants."""
        lifetime = self.query.lifetime
        if isinstance(lifetime, tree.Window):
            yield from self._lives(1, detected, lifetime.length, lifetime.span)
        elif isinstance(lifetime, tree.TimesToLive):
            for operand, length in lifetime.lengths:
                for name in self.of.names_of(operand.variable):
                    if name in self.position:
                        yield from self._lives(self.position[name], detected, length, operand.span)

    def _lives(
        self, since: int, detected: Sequence[tuple[int, int]], length: int, span: Span | None
    ) -> Iterator[Expression]:
        for place, delay in detected:
            if place == since:
                if delay > length:
                    yield FALSE
                continue
            passed = Binary("-", self._instant(place, delay), Moment("hi", self.order[since - 1].name))
            yield _compared(passed, "<=", Literal(length), span)

    def _branch(self, end: End, *last: Expression) -> Branch:
        steps = []
        for place, slot in enumerate(self.order, 1):
            guards = [*self.guards[place]]
            if isinstance(self.query.lifetime, tree.Window) and 1 < place < self.last:
                passed = Binary("-", Moment("hi", slot.name), Moment("hi", self.order[0].name))
                guards.append(_compared(passed, "<=", Literal(self.query.lifetime.length), self.query.lifetime.span))
            if place == self.last:
                guards += last
            guard = conjunction_of(self._at_hand(each, slot.name) for each in guards)
            unwanted = tuple(self.gaps[place - 1])
            step = BranchStep(slot, guard, unwanted, by=self._by(unwanted))
            if place == 1:
                fronts = tuple(self.front_steps[each] for each in self.fronts)
                step = replace(step, noted=tuple(self.noted), fronts=fronts, scope=self.front_scope)
            steps.append(step)
        return Branch(tuple(steps), end)

    def _at_hand(self, expression: Expression, name: str) -> Expression:
        """Expression in which what is read of a slot or an operand is that of the event at hand."""

        def change(node: Expression) -> Expression:
            match node:
                case Field(variable=variable, attribute=attribute) if variable == name:
                    return Name(attribute, span=node.span)
                case Moment(end=end, variable=variable) if variable == name:
                    return Moment(end, "", span=node.span)
                case _:
                    return node

        return transform(expression, change)


def _equal(condition: Expression, variable: str) -> tuple[str, Field] | None:
    """`x.a = y.b` as the attribute of one of the operands and the field of the other; None for anything else."""
    match condition:
        case Binary(operator="==", left=Field() as one, right=Field() as other) if one.variable != other.variable:
            own, value = (one, other) if one.variable == variable else (other, one)
            return (own.attribute, value) if own.variable == variable else None
        case _:
            return None


def conjunction_of(conditions: Iterable[Expression]) -> Expression:
    """`a and b and c`."""
    found: Expression = TRUE
    for each in conditions:
        found = conjunction(found, each)
    return found


def disjunction_of(conditions: Iterable[Expression]) -> Expression:
    """`a or b or c`."""
    found: Expression = FALSE
    for each in conditions:
        found = disjunction(found, each)
    return found


def _compared(left: Expression, sign: str, right: Expression, span: Span | None = None) -> Expression:
    return Binary(sign, left, right, span=span)


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    def change(node: Expression) -> Expression:
        if isinstance(node, Field | Moment) and node.variable in names:
            return replace(node, variable=names[node.variable])
        return node

    return transform(expression, change) if names else expression
