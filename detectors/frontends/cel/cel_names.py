"""Names of the Cayuga Event Language: attributes, decorators and schemas, resolved into plans (frontends, section 4.2).

Decisions where the articles are ambiguous are in frontends, section 10; D2 is the second name of attributes that NEXT
renames, D6d the second predicate of FOLD, which is the condition to go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

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
    attributes,
)
from distced.detectors.frontends.cayuga.algebra_plan import Stream as StreamPlan
from distced.detectors.frontends.cel.cel_tree import Filter, Fold, Item, Named, Next, Query, Stream
from distced.detectors.frontends.function_names import check_functions
from distced.detectors.frontends.schemas import Schemas
from distced.detectors.language.scanner import error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import (
    TRUE,
    Expression,
    Field,
    Name,
    Span,
    transform,
    walk,
)

_NO_ALIASES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Scoped:
    """Plan of a stream, with further names of some of its attributes."""

    plan: Plan
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def attributes(self) -> tuple[str, ...]:
        return attributes(self.plan)

    def find(self, name: str) -> str | None:
        """The attribute of a name; None for none."""
        return name if name in self.attributes else self.aliases.get(name)


class CelResolver:
    """Plans of the queries of a text; `publish` is called with each that publishes a stream, inner ones first."""

    def __init__(self, text: str, schemas: Schemas, publish: Callable[[Query, Plan], None]) -> None:
        self._text = text
        self._schemas = schemas
        self._publish = publish

    def query(self, query: Query) -> Scoped:
        """Plan of a query, without what it is published as."""
        source = self.stream(query.source)
        if not query.items:
            return source
        values: dict[str, Expression] = {}
        for item in query.items:
            added: list[tuple[str, Expression]]
            if item.value is None:
                added = [(name, Name(name, span=item.span)) for name in source.attributes]
            else:
                added = [(item.name, self._selected(item, source))]
            for name, value in added:
                if name in values:
                    raise self._error("an attribute twice in SELECT", item.span, given=name, advice="name it with AS")
                values[name] = value
        return Scoped(Compute(source.plan, tuple(values.items()), span=query.span))

    def stream(self, stream: Stream) -> Scoped:
        """Plan of a stream."""
        match stream:
            case Named(name=name, span=span):
                assert span is not None
                return Scoped(StreamPlan(name, self._schemas.of(name, span), span=span))
            case Query():
                return self._inner(stream)
            case Filter(source=source, condition=condition):
                inner = self.stream(source)
                chosen = self._resolved(condition, lambda node: self._of_one(node, inner, "FILTER"))
                return replace(inner, plan=Select(inner.plan, chosen, span=stream.span))
            case Next():
                return self._next(stream)
            case Fold():
                return self._fold(stream)

    def _inner(self, query: Query) -> Scoped:
        """A query within another; one that publishes a stream is read by its name."""
        made = self.query(query)
        if not query.name:
            return made
        self._publish(query, made.plan)
        return Scoped(StreamPlan(query.name, made.attributes, span=query.name_span))

    def _next(self, stream: Next) -> Scoped:
        first, second = self.stream(stream.first), self.stream(stream.second)
        names = {name: name for name in first.attributes}
        common = set(first.attributes) & set(second.attributes)
        if common:
            names = {name: f"{name}_1" for name in first.attributes}
        self._check_unlike([*names.values(), *second.attributes], stream.span)

        def value(node: Expression) -> Expression:
            match node:
                case Field(variable="$", attribute=name):
                    raise self._error("`$` outside of FOLD", node.span, given=f"$.{name}", advice=_ADVICE_LAST)
                case Field(variable=reading, attribute=name):
                    side = first if reading == FIRST else second
                    found = self._attribute(name, side, node.span)
                    return Name(names[found] if reading == FIRST else found, span=node.span)
                case Name(name=name):
                    one, other = first.find(name), second.find(name)
                    self._check_one(name, one, other, first, second, node.span)
                    return (
                        Name(names[one] if one is not None else name, span=node.span)
                        if other is None
                        else (Name(other, span=node.span))
                    )
                case _:
                    return node

        condition = self._resolved(stream.condition, value)
        left = first.plan
        if common:
            values = tuple((new, Name(old, span=stream.first.span)) for old, new in names.items())
            left = Compute(left, values, span=stream.first.span)
        plan = Follow(left, second.plan, condition, span=stream.span)
        aliases = {**second.aliases, **{alias: names[name] for alias, name in first.aliases.items()}}
        if common:
            aliases |= {name: new for name, new in names.items() if name not in common}
        return Scoped(plan, _unlike(aliases, attributes(plan)))

    def _fold(self, stream: Fold) -> Scoped:
        first, second = self.stream(stream.first), self.stream(stream.second)
        missing = [name for name in second.attributes if name not in first.attributes]
        if missing:
            raise self._error(
                f"the first input of FOLD lacks {', '.join(missing)} of the second",
                stream.second.span,
                allowed=", ".join(first.attributes) or "none",
            )
        computed: dict[str, Item] = {}
        for item in stream.aggregates:
            if item.name in computed:
                raise self._error("an aggregate twice", item.span, given=item.name)
            if item.name in second.attributes or item.name not in first.attributes:
                where = "of the second" if item.name in second.attributes else "not of the first"
                raise self._error(
                    f"the aggregate {item.name} has no initial value: it is an attribute {where} input",
                    item.span,
                    allowed=", ".join(each for each in first.attributes if each not in second.attributes) or "none",
                    advice=f"give the first input one: SELECT *, 0 AS {item.name}",
                )
            computed[item.name] = item
        carried = (*second.attributes, *computed)
        kept = tuple((f"{name}_1" if name in carried else name, name) for name in first.attributes)
        self._check_unlike([*(name for name, _ in kept), *carried], stream.span)

        def value(node: Expression) -> Expression:
            match node:
                case Field(variable="$2", attribute=name):
                    return Field(SECOND, self._attribute(name, second, node.span), span=node.span)
                case Field(variable=reading, attribute=name):
                    found = self._attribute(name, first, node.span)
                    changes = reading == "$" and found in carried
                    return Field(LAST if changes else FIRST, found, span=node.span)
                case Name(name=name):
                    one, other = first.find(name), second.find(name)
                    self._check_one(name, one, other, first, second, node.span)
                    if one in computed:
                        raise self._error(
                            f"{name} changes from round to round",
                            node.span,
                            allowed=f"$.{name}, of the last round; $1.{name}, before any",
                        )
                    return (
                        Field(FIRST, str(one), span=node.span)
                        if other is None
                        else (Field(SECOND, other, span=node.span))
                    )
                case _:
                    return node

        steps = []
        if stream.going_on != TRUE:
            steps.append(Step(self._resolved(stream.going_on, value), span=stream.going_on.span))
        if computed:
            new = tuple(
                (name, self._resolved(item.value, value)) for name, item in computed.items() if item.value is not None
            )
            steps.append(Step(values=new, span=stream.span))
        plan = Iterate(
            first.plan,
            second.plan,
            self._resolved(stream.condition, value),
            tuple(steps),
            tuple((name, Name(name, span=stream.first.span)) for name in carried),
            kept,
            span=stream.span,
        )
        shown = {inner: name for name, inner in kept}
        aliases = {alias: shown[name] for alias, name in first.aliases.items()}
        return Scoped(plan, _unlike({**aliases, **second.aliases}, attributes(plan)))

    # Expressions.

    def _selected(self, item: Item, source: Scoped) -> Expression:
        assert item.value is not None
        for node in walk(item.value):
            if isinstance(node, Field) and node.variable.startswith("$"):
                given = f"{node.variable}.{node.attribute}"
                name = node.attribute
                advice = f"decorators are for predicates: write {name}, or {name}_1 of a first input"
                raise self._error(f"decorator {node.variable} in SELECT", node.span, given=given, advice=advice)
        return self._resolved(item.value, lambda node: self._of_one(node, source, "SELECT"))

    def _of_one(self, node: Expression, source: Scoped, where: str) -> Expression:
        """A node over a single input."""
        match node:
            case Field(variable=reading, attribute=name):
                given, advice = f"{reading}.{name}", f"there is one input here: write {name}"
                problem = "`$` outside of FOLD" if reading == "$" else f"decorator {reading} in {where}"
                raise self._error(problem, node.span, given=given, advice=advice)
            case Name(name=name):
                return Name(self._attribute(name, source, node.span), span=node.span)
            case _:
                return node

    def _resolved(self, expression: Expression, value: Callable[[Expression], Expression]) -> Expression:
        """An expression with attributes of a plan; `value` gives those of names and decorators."""
        check_functions(expression, self._text, "CEL", "aggregates are those of FOLD: $.sum + $2.price AS sum")
        for node in walk(expression):
            match node:
                case Field(variable=variable, attribute=name) if not variable.startswith("$"):
                    advice = f"write {name}, or $1.{name}"
                    raise self._error("CEL has no variables", node.span, given=f"{variable}.{name}", advice=advice)
                case _:
                    pass
        return transform(expression, value)

    def _attribute(self, name: str, source: Scoped, span: Span | None) -> str:
        found = source.find(name)
        if found is not None:
            return found
        allowed = ", ".join((*source.attributes, *source.aliases)) or "none"
        raise self._error(f"no attribute {name}", span, allowed=allowed)

    def _check_one(
        self, name: str, one: str | None, other: str | None, first: Scoped, second: Scoped, span: Span | None
    ) -> None:
        """Raise `PatternError` for a name that is in both inputs of NEXT or FOLD, or in none."""
        if one is not None and other is not None:
            advice = f"write $1.{name} or $2.{name}"
            raise self._error(f"{name} is in both inputs", span, advice=advice)
        if one is None and other is None:
            allowed = ", ".join(dict.fromkeys((*first.attributes, *second.attributes))) or "none"
            raise self._error(f"no attribute {name}", span, allowed=allowed)

    def _check_unlike(self, names: list[str], span: Span | None) -> None:
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            advice = "rename attributes of one input with SELECT ... AS"
            raise self._error("names of attributes collide", span, given=", ".join(twice), advice=advice)

    def _error(
        self,
        problem: str,
        span: Span | None,
        *,
        given: str | None = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> PatternError:
        return error_at(self._text, span, problem, given=given, allowed=allowed, advice=advice)


_ADVICE_LAST: Final = "the inputs of NEXT are $1 and $2; $ is the last round of FOLD"


def _unlike(aliases: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Aliases that are no attributes themselves."""
    known = set(names)
    return {alias: name for alias, name in aliases.items() if alias not in known and name in known}
