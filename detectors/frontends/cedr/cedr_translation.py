"""Translation of CEDR queries into core patterns (frontends, section 6.3; cedr-2007, sections 3 and 4).

A query is one publication: an alternation of its branches, which share their beginnings, with a skipping iteration
before each atom, `~[B where g]* [B where g as y]`, so that an instance stays with every event it may take and one goes
on. That gives every match; `take` selects among those of a detection, and `consuming` ends what holds their events.
Rejected: `A ; B` and `A & B`, which take the first event that follows; `by` for EXT-EXCLUSIVE, which forgets the events
of all keys; a state for a lifespan, which cannot tell what of an instant precedes its begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import combinations

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.cedr.branches import (
    MOST_ORDERS,
    MOST_ORDERS_OF_TEXT,
    Branches,
    BranchStep,
    End,
    Member,
    Unwanted,
    conjunction_of,
    disjunction_of,
)
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.language.scanner import error_at
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    DerivedType,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Output,
    Pattern,
    PatternFile,
    Publication,
    Relative,
    Scope,
    Selection,
    Timing,
)
from distced.middleware.sets.describable import DescribableSet, Filtered, TypeSet, Union
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
    conjunction,
    disjunction,
    negation,
    transform,
    walk,
)


def core_file(file: tree.QueryFile, text: str) -> PatternFile:
    """Core statements of checked queries. Raises `PatternError` with the place in the text."""
    names = MadeNames(_words(file))
    types: list[DerivedType] = []
    publications: list[Publication] = []
    orders = 0
    for query in file.queries:
        made = _Query(file, query, names, text)
        publications.append(made.publication())
        types += made.states()
        orders += made.branches.orders
        if orders > MOST_ORDERS_OF_TEXT:
            raise error_at(
                text,
                query.span,
                "too many orders of events in the queries of one text",
                given=f"more than {MOST_ORDERS_OF_TEXT:,}",
                allowed=f"{MOST_ORDERS_OF_TEXT:,} in all",
                advice="divide the text",
            )
    return PatternFile(tuple(types), (), tuple(publications))


def _words(file: tree.QueryFile) -> Iterator[str]:
    """Names of types, attributes and variables of a file."""
    expressions: list[Expression] = []
    for query in file.queries:
        yield query.name
        for operand in (*tree.positive_operands(query.pattern), *tree.negated_operands(query.pattern)):
            yield from (operand.type_name, operand.variable)
        yield from (key.attribute for key in query.keys)
        yield from (name for name, _ in query.attributes)
        expressions += [*query.where, *(value for _, value in query.attributes)]
        expressions += [choice.condition for choice in query.choices if choice.condition is not None]
    for lifespan in file.lifespans:
        for each in (lifespan.initiator, lifespan.terminator):
            if each is not None:
                yield from (each.type_name, each.variable)
        yield lifespan.by
        expressions += [lifespan.begins, lifespan.ends]
    for expression in expressions:
        yield from (node.attribute for node in walk(expression) if isinstance(node, Field))


@dataclass(slots=True)
class _Node:
    """Steps that branches share: what follows each step, and how matches end there."""

    next: dict[tuple[BranchStep, End | None], _Node] = field(default_factory=dict)


@dataclass(slots=True)
class _Term:
    """Terminator of a lifespan: a type, and a condition of the event at hand."""

    type_name: str
    condition: Expression
    span: Span | None

    @property
    def set(self) -> DescribableSet:
        """The events that end a lifespan."""
        return _set(self.type_name, self.condition, self.span)


class _Query:
    """Translation of one query."""

    def __init__(self, file: tree.QueryFile, query: tree.CedrQuery, names: MadeNames, text: str) -> None:
        self.query, self.text, self.names = query, text, names
        lifetime = query.lifetime
        self.lifespan: tree.Lifespan | None = None
        if isinstance(lifetime, tree.InLifespan):
            self.lifespan = next(each for each in file.lifespans if each.name == lifetime.name)
            if query.consumption == "ext-exclusive":
                raise error_at(
                    text,
                    lifetime.span,
                    "EXT-EXCLUSIVE in a lifespan",
                    given=lifetime.name,
                    allowed="EXCLUSIVE, SHARED",
                    advice="with EXCLUSIVE, what is selected is consumed",
                )
        self.by = self._key()
        self.branches = Branches(query, names, text, keyed=self.by, in_lifespan=self.lifespan is not None)
        self.timer, self.end_timer, self.front_timer = names.make("T"), names.make("end"), names.make("front")
        self.initiator: dict[Expression, str] = {}
        self.term: _Term | None = None
        if self.lifespan is not None and self.lifespan.terminator is not None:
            self.term = self.terminator(self.lifespan, self.lifespan.terminator)

    def _key(self) -> tuple[str, ...]:
        """Attributes that the whole pattern is keyed by."""
        equal = [key.attribute for key in self.query.keys if not key.unique]
        if self.lifespan is not None:
            # The initiator, too, is read by the key.
            return (self.lifespan.by,) if self.lifespan.by else ()
        return () if self.query.consumption == "ext-exclusive" else tuple(dict.fromkeys(equal))

    def publication(self) -> Publication:
        """The core publication."""
        query = self.query
        root = _Node()
        bound: set[str] = set()
        steps = 0
        for branch in self.branches.all():
            bound.update(step.slot.name for step in branch.steps)
            node = root
            for place, step in enumerate(branch.steps, 1):
                end = branch.end if place == len(branch.steps) else None
                steps += (step, end) not in node.next
                node = node.next.setdefault((step, end), _Node())
            if steps > MOST_ORDERS:
                self.branches.too_many()
        if not root.next:
            raise error_at(
                self.text,
                query.pattern.span,
                "a pattern that is never known within its lifetime",
                advice="give it a longer LIFETIME",
            )
        body = replace(self.alternatives(root, first=self.lifespan is None), span=query.pattern.span)
        flags = [(name, Literal(0)) for name in self.branches.flags.values()]
        times = [(name, Literal(None)) for name in self.branches.registers.values()]
        if flags or times:
            body = Init((*flags, *times), body, span=query.pattern.span)
        if self.lifespan is not None:
            body = self.in_lifespan(self.lifespan, body)
        if self.by:
            body = Keyed(body, self.by, span=query.pattern.span)
        return Publication(body, self.output(bound), consumption="ordered", once=self.lifespan is not None)

    def output(self, bound: AbstractSet[str]) -> Output:
        """Name, attributes, selection and consumption, given the variables that matches bind."""
        query = self.query
        choices = {choice.variable: choice for choice in query.choices}
        take: list[Selection] = []
        slots = self.branches.slots()
        for slot in slots:
            variable = slot.operand.variable
            choice = choices.get(variable, tree.Choice("first", variable, span=slot.operand.span))
            if choice.condition is not None:
                condition = _null_unless(bound, self.branches.renamed(choice.condition, variable, slot.name))
                # Of a condition the variable is a name only, and there is a match with another.
                name = slot.name if slot.name in bound else next(each.name for each in slots if each.name in bound)
                take.append(Selection(choice.kind, name, condition, span=choice.span))
            elif choice.kind != "each" and slot.name in bound:
                take.append(Selection(choice.kind, slot.name, span=choice.span))
        attributes = tuple((name, _null_unless(bound, value)) for name, value in query.attributes)
        consuming = {"exclusive": "variables", "ext-exclusive": "all", "shared": ""}[query.consumption]
        return Output(query.name, attributes, take=tuple(take), consuming=consuming, span=query.span)

    def states(self) -> Iterator[DerivedType]:
        """States that NOT in front reads."""
        for front, name in self.branches.fronts.items():
            condition = None if front.condition == TRUE else front.condition
            operand = front.operand
            yield DerivedType(name, operand.type_name, condition, by=front.by, last=True, span=operand.span)

    # Steps.

    def alternatives(self, node: _Node, *, first: bool) -> Pattern:
        """Pattern of what may follow; the start of a match that is `first` is always active, and waits for nothing."""
        parts = [self.step(step, end, following, first=first) for (step, end), following in node.next.items()]
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts), span=self.query.pattern.span)

    def step(self, step: BranchStep, end: End | None, following: _Node, *, first: bool) -> Pattern:
        """Pattern of a step, and of what follows it."""
        span = step.slot.operand.span
        parts = self.awaited(step, first=first and not step.fronts)
        if step.fronts:
            parts = [self.fronted(step, parts)]
        if end is None:
            return _concatenation([*parts, self.alternatives(following, first=False)], span)
        *parts, taken = parts
        return _concatenation([*parts, self.ended(taken, end)], span)

    def awaited(self, step: BranchStep, *, first: bool) -> list[Pattern]:
        """Parts of a step; the last one takes its event."""
        operand = step.slot.operand
        if step.by:
            # Null equals null, and is no key.
            subsets = (nulls for count in range(len(step.by) + 1) for nulls in combinations(step.by, count))
            return [Alternation(tuple(self.valued(step, nulls) for nulls in subsets), span=operand.span)]
        waiting = _Waiting(self, step.unwanted, step.noted)
        guard = self.seen(operand.type_name, step.guard)
        label = _set(operand.type_name, guard, operand.span)
        atom = Atom(label, waiting.domain(label), variable=step.slot.name, span=operand.span)
        return [atom] if first else [self.skip(atom, guard, operand, waiting), atom]

    def valued(self, step: BranchStep, nulls: Sequence[str]) -> Pattern:
        """A step that waits by attributes, of which these are null."""
        span = step.slot.operand.span
        null = conjunction_of(Binary("==", Name(each), Literal(None)) for each in nulls)
        unwanted = tuple(
            replace(
                each, members=tuple(replace(one, condition=conjunction(one.condition, null)) for one in each.members)
            )
            for each in step.unwanted
        )
        made = replace(step, guard=conjunction(step.guard, null), unwanted=unwanted, by=())
        whole = _concatenation(self.awaited(made, first=False), span)
        by = tuple(each for each in step.by if each not in nulls)
        return Keyed(whole, by, span=span) if by else whole

    def fronted(self, step: BranchStep, behind: Sequence[Pattern]) -> Pattern:
        """The first events of ATMOST in front, with what they are in front of while the oldest of them counts."""
        atoms: list[Pattern] = []
        for each in step.fronts:
            label = _set(each.operand.type_name, each.condition, each.operand.span)
            if atoms:
                atoms.append(Hidden(_any_number(Atom(label, span=each.operand.span)), span=each.operand.span))
            atoms.append(Atom(label, updates=each.updates, span=each.operand.span))
        begin, *others = atoms
        rest = _concatenation([*others, *behind], begin.span)
        return Timing(begin, rest, self.front_timer, Relative(step.scope), span=begin.span)

    def skip(self, atom: Atom, guard: Expression, operand: tree.Operand, waiting: _Waiting) -> Pattern:
        """Iteration in which an instance stays with events that it may take, and what counts in the meantime."""
        passing = conjunction(guard, negation(waiting.looked_at(operand.type_name)))
        label = _set(operand.type_name, passing, operand.span)
        staying = Atom(label, waiting.domain(label), span=operand.span)
        return _repeated([Hidden(_any_number(staying), span=operand.span), *waiting.loops()], operand.span)

    def ended(self, atom: Pattern, end: End) -> Pattern:
        """The last step of a match, and what makes it known."""
        waiting = _Waiting(self, end.unwanted)
        before = [_repeated(loops, end.span)] if (loops := waiting.loops()) else []
        if end.at_end:
            return _concatenation([atom, *before, self.end_of_lifespan(end, waiting)], atom.span)
        if end.delay is None:
            return atom
        time = TypeSet(self.timer, span=end.span)
        timed = Atom(time, waiting.domain(time), span=end.span)
        when = Relative(end.delay) if isinstance(end.delay, int) else Calculated(end.delay)
        return Timing(atom, _concatenation([*before, timed], end.span), self.timer, when, span=atom.span)

    def seen(self, type_name: str, condition: Expression) -> Expression:
        """Condition of events that a query sees: a terminator of its lifespan is none of them."""
        if self.term is None or self.term.type_name != type_name:
            return condition
        return conjunction(condition, negation(self.term.condition))

    # Lifespans.

    def in_lifespan(self, lifespan: tree.Lifespan, body: Pattern) -> Pattern:
        """Pattern of one instance that stands in the lifespan or outside of it, and of the matches of one lifespan."""
        span = lifespan.span
        condition = transform(lifespan.begins, _of_event_at_hand(lifespan.initiator.variable))
        updates = tuple(
            (name, transform(value, _of_event_at_hand(lifespan.initiator.variable)))
            for value, name in self.initiator.items()
        )
        initiator = Atom(
            _set(lifespan.initiator.type_name, condition, lifespan.initiator.span),
            updates=updates,
            span=lifespan.initiator.span,
        )
        begin = Hidden(initiator, span=span)
        ends: list[DescribableSet] = [] if self.term is None else [self.term.set]
        if self.term is not None:
            body = Scope(body, self.term.set, span=span)
        if lifespan.duration is None:
            whole = _concatenation([begin, body], span)
        else:
            ends.append(TypeSet(self.end_timer, span=span))
            whole = Timing(begin, body, self.end_timer, Relative(lifespan.duration), span=span)
        if ends:
            label = ends[0] if len(ends) == 1 else Union(tuple(ends), span=span)
            ended = Atom(label, span=span)
            once: Pattern = Concatenation((initiator, ended), span=span)
            if lifespan.duration is not None:
                once = Timing(initiator, ended, self.end_timer, Relative(lifespan.duration), span=span)
            whole = _concatenation([Hidden(_any_number(once), span=span), whole], span)
        if self.initiator:
            whole = Init(tuple((name, Literal(None)) for name in self.initiator.values()), whole, span=span)
        return whole

    def end_of_lifespan(self, end: End, waiting: _Waiting) -> Pattern:
        """Atom that tells what is known when the lifespan ends."""
        assert self.lifespan is not None
        ends: list[DescribableSet] = []
        if self.term is not None:
            ends.append(_set(self.term.type_name, conjunction(self.term.condition, end.behind), self.term.span))
        if self.lifespan.duration is not None:
            ends.append(_set(self.end_timer, end.behind, self.lifespan.span))
        if not ends:
            raise error_at(
                self.text,
                end.span,
                "an absence in a lifespan that never ends",
                given=self.lifespan.name,
                advice="give the lifespan a TERMINATOR or a DURATION, or the absence WITHIN",
            )
        label = ends[0] if len(ends) == 1 else Union(tuple(ends), span=end.span)
        return Hidden(Atom(label, waiting.domain(label), span=end.span), span=end.span)

    def terminator(self, lifespan: tree.Lifespan, operand: tree.Operand) -> _Term:
        """The terminator, whose condition reads the initiator's values in registers."""
        own = _of_event_at_hand(operand.variable)

        def change(node: Expression) -> Expression:
            if isinstance(node, Field | Moment) and node.variable == lifespan.initiator.variable:
                if node not in self.initiator:
                    self.initiator[node] = self.names.make("begun")
                return Name(self.initiator[node], span=node.span)
            return own(node)

        return _Term(operand.type_name, transform(lifespan.ends, change), operand.span)


class _Waiting:
    """What an instance looks at beside what it waits for: events that must not come, or that count."""

    def __init__(self, query: _Query, unwanted: Sequence[Unwanted], noted: Sequence[Member] = ()) -> None:
        self.query, self.unwanted, self.noted = query, unwanted, noted
        members = [member for each in unwanted for member in each.members]
        self.types = tuple(dict.fromkeys(each.operand.type_name for each in members))
        self.members = members

    def domain(self, label: DescribableSet) -> DescribableSet | None:
        """Domain of an atom with this label; None where it is the label itself."""
        if not self.types:
            return None
        return Union((label, *(_set(each, self._against(each), self._span(each)) for each in self.types)))

    def looked_at(self, type_name: str) -> Expression:
        """Condition of the events of a type that count in any way."""
        noted = (each.condition for each in self.noted if each.operand.type_name == type_name)
        return disjunction_of((self._against(type_name), *noted))

    def loops(self) -> list[Pattern]:
        """Iterations over events that may come, and count."""
        found: list[Pattern] = []
        for type_name in self.types:
            flagged = [each for each in self.members if each.flag and each.operand.type_name == type_name]
            if not flagged:
                continue
            counting = disjunction_of(_first(each) for each in flagged)
            allowed = self.query.seen(type_name, conjunction(counting, negation(self._too_many(type_name))))
            alone = len(flagged) == 1
            updates = tuple((each.flag, Literal(1) if alone else _set_by(each)) for each in flagged)
            label = _set(type_name, allowed, self._span(type_name))
            found.append(_any_number(Atom(label, self.domain(label), updates=updates, span=self._span(type_name))))
        by_type: dict[str, list[Member]] = {}
        for each in self.noted:
            by_type.setdefault(each.operand.type_name, []).append(each)
        for type_name, noted in by_type.items():
            span = noted[0].operand.span
            counting = disjunction_of(each.condition for each in noted)
            updates = tuple(
                (each.flag, Call("if", (each.condition, Moment("hi", ""), Name(each.flag)))) for each in noted
            )
            label = _set(type_name, self.query.seen(type_name, counting), span)
            noting = Atom(label, self.domain(label), updates=updates, span=span)
            found.append(Hidden(_any_number(noting), span=span))
        return found

    def _against(self, type_name: str) -> Expression:
        own = (each for each in self.members if each.operand.type_name == type_name)
        return disjunction_of(_first(each) if each.flag else each.condition for each in own)

    def _too_many(self, type_name: str) -> Expression:
        """Condition under which an event of a type is one too many."""
        found: Expression = FALSE
        for each in self.unwanted:
            own = [member for member in each.members if member.operand.type_name == type_name]
            if not own:
                continue
            if not each.most:
                found = disjunction(found, disjunction_of(member.condition for member in own))
                continue
            if each.most >= len(each.members):
                continue
            if len(own) == 1:
                others = [Name(member.flag) for member in each.members if member is not own[0]]
                full = Binary(">=", _sum(others), Literal(each.most))
            else:
                counts = [_set_by(member) if member in own else Name(member.flag) for member in each.members]
                full = Binary(">", _sum(counts), Literal(each.most))
            found = disjunction(found, conjunction(disjunction_of(map(_first, own)), full))
        return found

    def _span(self, type_name: str) -> Span | None:
        return next(each.operand.span for each in self.members if each.operand.type_name == type_name)


def _null_unless(bound: AbstractSet[str], expression: Expression) -> Expression:
    """Expression in which what is read of other variables is null."""

    def change(node: Expression) -> Expression:
        read = isinstance(node, Field | Moment) and node.variable not in bound
        return Literal(None, span=node.span) if read else node

    return transform(expression, change)


def _sum(terms: Sequence[Expression]) -> Expression:
    found, *others = terms
    for each in others:
        found = Binary("+", found, each)
    return found


def _first(member: Member) -> Expression:
    """Condition of an event that is the first of an operand of ATMOST."""
    return conjunction(Binary("==", Name(member.flag), Literal(0)), member.condition)


def _set_by(member: Member) -> Expression:
    """Value of the register of an operand of ATMOST behind an event."""
    return Call("if", (_first(member), Literal(1), Name(member.flag)))


def _of_event_at_hand(variable: str) -> Callable[[Expression], Expression]:
    def change(node: Expression) -> Expression:
        match node:
            case Field(variable=name, attribute=attribute) if name == variable:
                return Name(attribute, span=node.span)
            case Moment(end=end, variable=name) if name == variable:
                return Moment(end, "", span=node.span)
            case _:
                return node

    return change


def _set(type_name: str, condition: Expression, span: Span | None) -> DescribableSet:
    base = TypeSet(type_name, span=span)
    return base if condition == TRUE else Filtered(base, condition, span=span)


def _any_number(pattern: Pattern) -> Pattern:
    return Iteration(pattern, 0, None, span=pattern.span)


def _repeated(parts: Sequence[Pattern], span: Span | None) -> Pattern:
    """Iterations in any order, which merge."""
    return parts[0] if len(parts) == 1 else _any_number(Concatenation(tuple(parts), span=span))


def _concatenation(parts: Sequence[Pattern], span: Span | None) -> Pattern:
    flat: list[Pattern] = []
    for each in parts:
        flat += each.parts if isinstance(each, Concatenation) else [each]
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat), span=span)
