"""Check of CEDR queries: names of operands, and what may stand where (frontends, section 6.5).

The checked tree has a variable for each operand, and conditions that name the operand of each attribute, so that later
stages need not look anything up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.expressions import (
    Expression,
    Field,
    Moment,
    Name,
    Span,
    Spanned,
    transform,
    variables,
    walk,
)


def checked(file: tree.QueryFile, text: str) -> tree.QueryFile:
    """The file with all names resolved. Raises `PatternError` at its first fault."""
    lifespans: dict[str, tree.Lifespan] = {}
    for lifespan in file.lifespans:
        if lifespan.name in lifespans:
            raise error_at(text, lifespan.span, "a lifespan of this name is there already", given=lifespan.name)
        lifespans[lifespan.name] = _Lifespan(text).checked(lifespan)
    queries = tuple(_Query(text, lifespans).checked(each) for each in file.queries)
    return tree.QueryFile(tuple(lifespans.values()), queries)


def notes(file: tree.QueryFile) -> Iterator[str]:
    """Warnings about checked queries."""
    for query in file.queries:
        nodes = list(tree.walk(query.pattern))
        bounded = query.lifetime is not None or any(isinstance(each, tree.Cancelled) for each in nodes)
        repeated = any(isinstance(each, tree.AtLeast) and each.count > 1 for each in nodes)
        joined = any(isinstance(each, tree.All | tree.Sequence | tree.AtLeast) for each in nodes)
        if not bounded and (repeated or (joined and len(tree.positive_operands(query.pattern)) > 1)):
            reason = "as there is no LIFETIME, CANCEL-WHEN or lifespan"
            yield f"events of {query.name} that are not consumed are kept for ever, {reason}"


class _OperandNames:
    """Operands by variable, and the errors of names that are none.

    Attributes:
        operands: those that conditions may read.
        negated: variables of those that have no event in a match.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.operands: dict[str, tree.Operand] = {}
        self.negated: set[str] = set()

    def error(
        self,
        node: Spanned | Span | None,
        problem: str,
        *,
        given: object = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> NoReturn:
        span = node.span if isinstance(node, Spanned) else node
        raise error_at(self.text, span, problem, given=given, allowed=allowed, advice=advice)

    def variable(self, name: str, node: Spanned) -> tree.Operand:
        """The operand of a variable."""
        operand = self.operands.get(name)
        if operand is None:
            allowed = ", ".join(each for each in self.operands if not each.startswith("_")) or "none has a name"
            self.error(node, "unknown operand", given=name, allowed=allowed, advice="an operand is named: INSTALL x")
        return operand

    def positive(self, name: str, node: Spanned, problem: str) -> tree.Operand:
        """The operand of a variable, which has an event in a match."""
        operand = self.variable(name, node)
        if name in self.negated:
            allowed = ", ".join(each for each in self.operands if each not in self.negated)
            self.error(node, problem, given=name, allowed=allowed or None)
        return operand

    def resolved(self, expression: Expression) -> Expression:
        """The expression, with the operand of each attribute."""

        def change(node: Expression) -> Expression:
            if isinstance(node, Name) or node == Moment("hi", ""):
                read = node.name if isinstance(node, Name) else "t"
                if len(self.operands) != 1:
                    named = ", ".join(f"{each}.{read}" for each in self.operands if not each.startswith("_"))
                    self.error(node, f"which operand's {read}", given=read, allowed=named or None)
                return _of_operand(next(iter(self.operands)), node)
            if isinstance(node, Field | Moment):
                self.variable(node.variable, node)
            return node

        return transform(expression, change)

    def with_positive(self, expression: Expression, problem: str) -> Expression:
        """The expression resolved, which reads events of a match only."""
        expression = self.resolved(expression)
        for node in walk(expression):
            if isinstance(node, Field | Moment):
                self.positive(node.variable, node, problem)
        return expression


class _Lifespan(_OperandNames):
    def checked(self, lifespan: tree.Lifespan) -> tree.Lifespan:
        initiator = self.named(lifespan.initiator)
        begins, terminator, ends = self.resolved(lifespan.begins), lifespan.terminator, lifespan.ends
        if terminator is not None:
            terminator = self.named(terminator)
            ends = self.resolved(with_operand(terminator.variable, ends))
        return replace(lifespan, initiator=initiator, begins=begins, terminator=terminator, ends=ends)

    def named(self, operand: tree.Operand) -> tree.Operand:
        name = operand.variable or operand.type_name
        if name in self.operands:
            if operand.variable:
                self.error(operand, "a variable twice", given=name, advice="name each operand differently")
            name = MadeNames(self.operands).make(name)
        self.operands[name] = replace(operand, variable=name)
        return self.operands[name]


def with_operand(variable: str, condition: Expression) -> Expression:
    """Condition in which a bare attribute, and the time of `hour()`, is that of an operand."""
    return transform(condition, lambda node: _of_operand(variable, node))


def _of_operand(variable: str, node: Expression) -> Expression:
    if isinstance(node, Name):
        return Field(variable, node.name, span=node.span)
    return replace(node, variable=variable) if isinstance(node, Moment) and not node.variable else node


class _Query(_OperandNames):
    def __init__(self, text: str, lifespans: dict[str, tree.Lifespan]) -> None:
        super().__init__(text)
        self.lifespans = lifespans

    def checked(self, query: tree.CedrQuery) -> tree.CedrQuery:
        pattern = self.name_operands(query.pattern)
        self.negated = {each.variable for each in tree.negated_operands(pattern)}
        in_lifespan = self.lifetime(query.lifetime)
        self.place(pattern, query, in_lifespan)
        if not tree.positive_operands(pattern):
            self.error(pattern, "a pattern without an event", advice="a timer is of an operand: A x & T[x.t + 5 min]")
        where = tuple(map(self.resolved, query.where))
        for conjunct in where:
            negated = sorted(variables(conjunct) & self.negated)
            if len(negated) > 1:
                advice = "join conditions by AND, each on one of them"
                given = ", ".join(negated)
                self.error(conjunct, "a condition that reads two negated operands", given=given, advice=advice)
        choices: dict[str, tree.Choice] = {}
        for choice in query.choices:
            self.positive(choice.variable, choice, "a negated operand has no event to select")
            if choice.variable in choices:
                self.error(choice, "an operand is selected twice", given=choice.variable)
            condition = choice.condition
            if condition is not None:
                condition = with_operand(choice.variable, condition)
                condition = self.with_positive(condition, "a negated operand has no event to read")
            choices[choice.variable] = replace(choice, condition=condition)
        attributes: dict[str, Expression] = {}
        for name, value in query.attributes:
            if name in attributes:
                self.error(value, "an attribute twice", given=name)
            attributes[name] = self.with_positive(value, "a negated operand has no event to read")
        return replace(
            query, pattern=pattern, where=where, choices=tuple(choices.values()), attributes=tuple(attributes.items())
        )

    def name_operands(self, pattern: tree.Pattern) -> tree.Pattern:
        """The pattern with a variable for each operand: its type, where that is clear."""
        operands = [*tree.positive_operands(pattern), *tree.negated_operands(pattern)]
        given = [each.variable for each in operands if each.variable]
        unnamed = Counter(each.type_name for each in operands if not each.variable)
        made = MadeNames({*given, *unnamed})

        def change(operand: tree.Operand) -> tree.Operand:
            name = operand.variable or operand.type_name
            if not operand.variable and (unnamed[name] > 1 or name in given):
                name = made.make(name)
            operand = replace(operand, variable=name)
            if name in self.operands:
                self.error(operand, "a variable twice", given=name, advice="name each operand differently")
            self.operands[name] = operand
            return operand

        return _with_operands(pattern, change)

    def lifetime(self, lifetime: tree.Lifetime | None) -> bool:
        """Check the lifetime; whether it is a lifespan."""
        if isinstance(lifetime, tree.TimesToLive):
            seen: set[str] = set()
            for operand, _ in lifetime.lengths:
                self.positive(operand.variable, operand, "a negated operand has no time to live")
                if operand.variable in seen:
                    self.error(operand, "a time to live twice", given=operand.variable)
                seen.add(operand.variable)
        if isinstance(lifetime, tree.InLifespan) and lifetime.name not in self.lifespans:
            allowed = ", ".join(self.lifespans) or "none is defined"
            advice = "define it before: LIFESPAN name INITIATOR ... TERMINATOR ..."
            self.error(lifetime, "unknown lifespan", given=lifetime.name, allowed=allowed, advice=advice)
        return isinstance(lifetime, tree.InLifespan)

    # What may stand where.

    def place(self, pattern: tree.Pattern, query: tree.CedrQuery, in_lifespan: bool) -> None:
        if isinstance(pattern, tree.Unless):
            if not isinstance(query.lifetime, tree.Window | tree.InLifespan):
                advice = "say until when: LIFETIME 5 min, or LIFETIME LIFESPAN name"
                self.error(pattern, "UNLESS needs LIFETIME", given="UNLESS", advice=advice)
            pattern = pattern.pattern
        for each in tree.walk(pattern):
            match each:
                case tree.Unless():
                    self.error(each, "UNLESS inside another operator", given="UNLESS", advice=_OWN_QUERY)
                case tree.Sequence(parts=parts):
                    self.sequence(each, parts, in_lifespan)
                case tree.All(parts=parts):
                    self.timers(each, parts)
                case tree.AnyOf(parts=parts) | tree.AtLeast(parts=parts):
                    for part in parts:
                        if isinstance(part, tree.TimerOperand):
                            self.error(part, "a timer that nothing stands beside", allowed="A x & T[x.t + 5 min]")
                    if isinstance(each, tree.AtLeast):
                        self.at_least(each)
                case tree.Cancelled(pattern=inner, by=by):
                    if isinstance(by, tree.TimerOperand):
                        self.positive(by.variable, by, "a negated operand has no time")
                    if isinstance(inner, tree.TimerOperand):
                        self.error(inner, "a timer that nothing stands beside", allowed="A x & T[x.t + 5 min]")
                case tree.TimerOperand(variable=variable):
                    self.positive(variable, each, "a negated operand has no time")
                    if each is pattern:
                        self.error(each, "a timer that nothing stands beside", allowed="A x & T[x.t + 5 min]")
                case _:
                    pass

    def at_least(self, node: tree.AtLeast) -> None:
        if node.count < 1 or (node.count > len(node.parts) > 1):
            allowed = f"1 to {len(node.parts)}" if len(node.parts) > 1 else "1 or more"
            self.error(node, f"ATLEAST {node.count} of {len(node.parts)}", given=node.count, allowed=allowed)
        if len(node.parts) == 1 and node.count > 1 and not isinstance(node.parts[0], tree.Operand):
            advice = f"write one operand, ATLEAST({node.count}, A x), for {node.count} of its events"
            self.error(node, f"ATLEAST {node.count} of 1", given=node.count, allowed="1", advice=advice)

    def timers(self, node: tree.All | tree.Sequence, parts: tuple[tree.Pattern | tree.Absence, ...]) -> None:
        if all(isinstance(each, tree.TimerOperand | tree.Absence) for each in parts):
            self.error(node, "a timer that nothing stands beside", allowed="A x & T[x.t + 5 min]")

    def sequence(self, node: tree.Sequence, parts: tuple[tree.Pattern | tree.Absence, ...], in_lifespan: bool) -> None:
        positive = [place for place, each in enumerate(parts) if not isinstance(each, tree.Absence | tree.TimerOperand)]
        for place, each in enumerate(parts):
            if not isinstance(each, tree.Absence):
                if place < (positive[-1] if positive else 0):
                    self.ends_late(each)
                continue
            word = each.word
            if not positive:
                self.error(each, f"{word} needs something before or behind it", given=word)
            if positive[0] < place < positive[-1]:
                continue
            if each.scope is None and not in_lifespan:
                where = "in front" if place < positive[0] else "at the end"
                advice = f"say for how long: {word}({each.operands[0].type_name} …, WITHIN 5 min)"
                self.error(each, f"{word} {where} needs WITHIN or a LIFESPAN", given=word, advice=advice)
        self.timers(node, parts)

    def ends_late(self, pattern: tree.Pattern | tree.Absence) -> None:
        """Refuse what is known later than by its last event, in a part of a SEQUENCE that others follow."""
        match pattern:
            case tree.TimerOperand():
                advice = "write it beside the whole: SEQUENCE(A x, B y) & T[x.t + 5 min]"
                self.error(pattern, "a timer in a part of a SEQUENCE that is not the last", advice=advice)
            case tree.Absence():
                problem = "NOT at the end of a part of a SEQUENCE that is not the last"
                self.error(pattern, problem, given="NOT", advice=_OWN_QUERY)
            case tree.Sequence(parts=parts):
                for each in parts:
                    if isinstance(each, tree.TimerOperand):
                        self.ends_late(each)
                self.ends_late(parts[-1])
            case _:
                for each in tree.parts_of(pattern):
                    self.ends_late(each)


_OWN_QUERY = "make a query of its own of it, and read its events: EVENT_NAME Late EVENT_PATTERN ..."


def _with_operands(pattern: tree.Pattern, change: Callable[[tree.Operand], tree.Operand]) -> tree.Pattern:
    """The pattern with other operands, changed in the order they are written."""

    def part(each: tree.Pattern | tree.Absence) -> tree.Pattern | tree.Absence:
        if isinstance(each, tree.Absence):
            return replace(each, operands=tuple(map(change, each.operands)))
        return _with_operands(each, change)

    match pattern:
        case tree.Operand():
            return change(pattern)
        case tree.TimerOperand():
            return pattern
        case tree.Sequence(parts=parts):
            return replace(pattern, parts=tuple(map(part, parts)))
        case tree.All(parts=parts) | tree.AnyOf(parts=parts) | tree.AtLeast(parts=parts):
            return replace(pattern, parts=tuple(_with_operands(each, change) for each in parts))
        case tree.Unless(pattern=inner, operand=operand):
            return replace(pattern, pattern=_with_operands(inner, change), operand=change(operand))
        case tree.Cancelled(pattern=inner, by=by):
            inner = _with_operands(inner, change)
            return replace(pattern, pattern=inner, by=change(by) if isinstance(by, tree.Operand) else by)
