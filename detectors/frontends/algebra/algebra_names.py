"""Names of Cayuga's algebra: schemas, resolved into plans (frontends, section 5.2).

`E as S1` renames every attribute `a` to `S1.a`. A name stands for the attribute of this name, else for the only one
that ends with it. What µ begins with, where it is not said, is found by names, and by what attributes were renamed
from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from distced.detectors.frontends.algebra.algebra_tree import (
    BEFORE,
    Algebra,
    Alpha,
    Cup,
    FoldStep,
    Followed,
    Mu,
    Pi,
    Prefixed,
    Rho,
    Sigma,
    StreamName,
)
from distced.detectors.frontends.cayuga.algebra_plan import (
    FIRST,
    LAST,
    SECOND,
    Compute,
    Follow,
    Iterate,
    Plan,
    Select,
    Step,
    Stream,
    Union,
    attributes,
)
from distced.detectors.frontends.function_names import check_functions
from distced.detectors.frontends.schemas import Schemas
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.expressions import Expression, Field, Literal, Name, Span, transform

Origin = tuple[str, str]


@dataclass(frozen=True)
class Relation:
    """Plan of an expression, and the stream and attribute that its attributes were renamed from."""

    plan: Plan
    origins: Mapping[str, Origin]

    @property
    def attributes(self) -> tuple[str, ...]:
        return attributes(self.plan)


class AlgebraResolver:
    """Plans of the expressions of a text."""

    def __init__(self, text: str, schemas: Schemas) -> None:
        self._text = text
        self._schemas = schemas

    def published(self, expression: Algebra) -> Plan:
        """Plan of an expression, with attributes as they are published: `_` for `.`."""
        made = self.relation(expression)
        names = {name: name.replace(".", "_") for name in made.attributes}
        twice = sorted(name for name, count in Counter(names.values()).items() if count > 1)
        if twice:
            advice = "rename them with ρ[... -> ...]"
            self._refuse("attributes that would be published under one name", expression.span, ", ".join(twice), advice)
        if all(old == new for old, new in names.items()):
            return made.plan
        values = tuple((new, Name(old, span=expression.span)) for old, new in names.items())
        return Compute(made.plan, values, span=expression.span)

    def relation(self, expression: Algebra) -> Relation:
        """Plan of an expression."""
        match expression:
            case StreamName(name=name, span=span):
                assert span is not None
                known = self._schemas.of(name, span)
                return Relation(Stream(name, known, span=span), {each: (name, each) for each in known})
            case Prefixed(source=source, name=name, span=span):
                inner = self.relation(source)
                return self._renamed(inner, {each: f"{name}.{each}" for each in inner.attributes}, span)
            case Sigma(source=source, condition=condition, span=span):
                inner = self.relation(source)
                chosen = self._over(condition, inner.attributes)
                return Relation(Select(inner.plan, chosen, span=span), inner.origins)
            case Pi(source=source, attributes=names, span=span):
                inner = self.relation(source)
                kept = self._unlike([self._find(each, inner.attributes) for each in names], span)
                values = tuple((each, Name(each, span=span)) for each in kept)
                origins = {each: inner.origins[each] for each in kept if each in inner.origins}
                return Relation(Compute(inner.plan, values, span=span), origins)
            case Rho(source=source, pairs=pairs, span=span):
                inner = self.relation(source)
                old = self._unlike([self._find(each, inner.attributes) for each, _ in pairs], span)
                new = dict(zip(old, (name.name for _, name in pairs), strict=True))
                return self._renamed(inner, {each: new.get(each, each) for each in inner.attributes}, span)
            case Alpha(source=source, values=added, span=span):
                return self._extended(self.relation(source), added, span)
            case Followed():
                return self._sequence(expression)
            case Mu():
                return self._iteration(expression)
            case Cup():
                return self._union(expression)

    def _renamed(self, inner: Relation, names: Mapping[str, str], span: Span | None) -> Relation:
        self._unlike(list(names.values()), span)
        values = tuple((new, Name(old, span=span)) for old, new in names.items())
        origins = {names[old]: origin for old, origin in inner.origins.items()}
        return Relation(Compute(inner.plan, values, span=span), origins)

    def _extended(self, inner: Relation, added: Iterable[tuple[Name, Expression]], span: Span | None) -> Relation:
        values = {each: Name(each, span=span) for each in inner.attributes}
        new: dict[str, Expression] = {}
        for name, value in added:
            if name.name in values or name.name in new:
                advice = "choose another name"
                self._refuse("α makes new attributes, and this one is there", name.span, name.name, advice)
            new[name.name] = self._over(value, inner.attributes)
        return Relation(Compute(inner.plan, (*values.items(), *new.items()), span=span), inner.origins)

    def _sequence(self, expression: Followed) -> Relation:
        first, second = self.relation(expression.first), self.relation(expression.second)
        common = [name for name in second.attributes if name in first.attributes]
        if common:
            advice = "name them with `as`: S as S1 ; S as S2"
            self._refuse(
                "both inputs of a sequence have the same attribute", expression.span, ", ".join(common), advice
            )
        known = (*first.attributes, *second.attributes)
        condition = self._over(expression.condition, known)
        plan = Follow(first.plan, second.plan, condition, expression.overlapping, span=expression.span)
        return Relation(plan, {**first.origins, **second.origins})

    def _union(self, expression: Cup) -> Relation:
        members = [self.relation(each) for each in expression.members]
        known = members[0].attributes
        for each, written in zip(members[1:], expression.members[1:], strict=True):
            if set(each.attributes) != set(known):
                shown = ", ".join(each.attributes) or "none"
                problem, allowed = "a union of different schemas", ", ".join(known) or "none"
                raise error_at(
                    self._text,
                    written.span,
                    problem,
                    given=shown,
                    allowed=allowed,
                    advice="rename with ρ, or drop with π",
                )
        plans = [
            each.plan
            if each.attributes == known
            else Compute(each.plan, tuple((name, Name(name)) for name in known), span=each.plan.span)
            for each in members
        ]
        origins = {
            name: origin
            for name, origin in members[0].origins.items()
            if all(each.origins.get(name) == origin for each in members)
        }
        return Relation(Union(tuple(plans), span=expression.span), origins)

    # Iterations.

    def _iteration(self, expression: Mu) -> Relation:
        first, second = self.relation(expression.first), self.relation(expression.second)
        assigned = {name.name for step in expression.steps for name, _ in step.values}
        carried = [
            *second.attributes,
            *(each for each in first.attributes if each in assigned - set(second.attributes)),
        ]
        new = [each for each in sorted(assigned) if each not in carried]
        begins = self._begins(expression, first, second, carried)
        kept = tuple((each, each) for each in first.attributes if each not in carried)
        known = [each for each, _ in kept] + carried
        dropped = self._dropped(expression.steps, [*known, *new])

        def reading(available: list[str]) -> Callable[[Expression], Expression]:
            def value(node: Expression) -> Expression:
                match node:
                    case Field(variable=variable, attribute=name) if variable == BEFORE:
                        found = self._find(Name(name, span=node.span), known)
                        if found in dropped:
                            self._refuse("`.last` of an attribute that F drops", node.span, f"{name}.last")
                        return Field(LAST if found in carried else FIRST, found, span=node.span)
                    case Name():
                        found = self._find(node, available)
                        return Name(found, span=node.span)
                    case _:
                        return node

            return value

        # What F drops is not there in the next round, but for what the event at hand has.
        begun = [each for each in known if each not in dropped or each in second.attributes]
        condition = self._resolved(expression.condition, reading(begun))
        # θ reads the event at hand.
        condition = transform(condition, lambda node: self._at_hand(node, second))
        available, steps = list(begun), list[Step]()
        for step in expression.steps:
            read = reading(available)
            if step.condition is not None:
                chosen = self._resolved(step.condition, read)
                steps.append(Step(chosen, span=step.span))
            elif step.attributes is not None:
                available = self._unlike([self._find(each, available) for each in step.attributes], step.span)
            else:
                values = [(name.name, self._resolved(value, read)) for name, value in step.values]
                self._unlike([name for name, _ in values], step.span)
                available += [name for name, _ in values if name not in available]
                steps.append(Step(values=tuple(values), span=step.span))
        initial = [*begins.items(), *((each, Literal(None, span=expression.span)) for each in new)]
        plan: Plan = Iterate(
            first.plan,
            second.plan,
            condition,
            tuple(steps),
            tuple(initial),
            kept,
            expression.overlapping,
            span=expression.span,
        )
        origins = {**{each: first.origins[each] for each, _ in kept if each in first.origins}, **second.origins}
        if dropped:
            left = [each for each in attributes(plan) if each not in dropped]
            plan = Compute(plan, tuple((each, Name(each)) for each in left), span=expression.span)
        return Relation(plan, {name: each for name, each in origins.items() if name not in dropped | assigned})

    def _at_hand(self, node: Expression, second: Relation) -> Expression:
        if isinstance(node, Name) and node.name in second.attributes:
            return Field(SECOND, node.name, span=node.span)
        return node

    def _dropped(self, steps: Iterable[FoldStep], known: list[str]) -> set[str]:
        """Attributes that projections of F drop, and none later makes again."""
        left = list(known)
        for step in steps:
            if step.attributes is not None:
                left = [self._find(each, left) for each in step.attributes]
            left += [name.name for name, _ in step.values if name.name not in left]
        return set(known) - set(left)

    def _begins(self, expression: Mu, first: Relation, second: Relation, carried: list[str]) -> dict[str, Expression]:
        """Initial values of the carried attributes, over the first input."""
        said: dict[str, Name] = {}
        for named, source in expression.begins:
            found = self._find(named, carried)
            if found in said:
                self._refuse("two initial values for one attribute", named.span, found)
            said[found] = Name(self._find(source, first.attributes), span=source.span)
        made: dict[str, Expression] = {}
        for name in carried:
            value = said.get(name)
            if value is None:
                begin = self._begin(name, first, second)
                if begin is None:
                    raise error_at(
                        self._text,
                        expression.span,
                        f"which attribute {name} begins with is not known",
                        allowed=", ".join(first.attributes) or "none",
                        advice=f"say `; {name} from ...` behind the condition of µ",
                    )
                value = Name(begin, span=expression.first.span)
            made[name] = value
        return made

    def _begin(self, name: str, first: Relation, second: Relation) -> str | None:
        if name in first.attributes:
            return name
        last = name.rpartition(".")[2]
        alike = [each for each in first.attributes if each.rpartition(".")[2] == last]
        if len(alike) == 1:
            return alike[0]
        origin = second.origins.get(name)
        same = [each for each in first.attributes if origin is not None and first.origins.get(each) == origin]
        return same[0] if len(same) == 1 else None

    # Names and expressions.

    def _over(self, expression: Expression, known: Iterable[str]) -> Expression:
        """An expression over the attributes of one schema."""
        names = list(known)

        def value(node: Expression) -> Expression:
            match node:
                case Field(variable=variable, attribute=name) if variable == BEFORE:
                    self._refuse("`.last` outside of µ", node.span, f"{name}.last", f"write {name}")
                case Name():
                    node = Name(self._find(node, names), span=node.span)
                case _:
                    pass
            return node

        return self._resolved(expression, value)

    def _resolved(self, expression: Expression, value: Callable[[Expression], Expression]) -> Expression:
        check_functions(
            expression, self._text, "the algebra", "aggregates are those of µ: α[SUM = SUM.last + S2.price]"
        )
        return transform(expression, value)

    def _find(self, name: Name, known: Iterable[str]) -> str:
        """The attribute of a name: of this name, else the only one that ends with it."""
        names = list(known)
        if name.name in names:
            return name.name
        found = [each for each in names if each.endswith(f".{name.name}")]
        if len(found) == 1:
            return found[0]
        allowed = ", ".join(found or names) or "none"
        problem = f"more than one attribute of this name, {name.name}" if found else f"no attribute {name.name}"
        raise error_at(self._text, name.span, problem, allowed=allowed)

    def _unlike(self, names: list[str], span: Span | None) -> list[str]:
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            self._refuse("two attributes of one name", span, ", ".join(twice), "rename one of them with ρ")
        return names

    def _refuse(self, problem: str, span: Span | None, given: str, advice: str | None = None) -> NoReturn:
        raise error_at(self._text, span, problem, given=given, advice=advice)
