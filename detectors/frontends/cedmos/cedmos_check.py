"""Rules of CEDMOS transformers, and the meaning of their names (frontends, section 7.3).

A bare name in a statement is a field of the state where there is one, else an attribute of the event. Filters and
categories are functions of the event alone (cedmos-1999, sections 3.3.2 and 4.1.1), so a field is no name there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from distced.detectors.frontends.cedmos.cedmos_tree import (
    STATE,
    Assignment,
    Channel,
    Statement,
    Transformer,
)
from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import Kind, TypeRegistry, kind_of
from distced.middleware.sets.aggregates import AGGREGATES, FUNCTIONS_TOO, OVER
from distced.middleware.sets.expressions import (
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Spanned,
    Unary,
    transform,
    walk,
)
from distced.middleware.sets.state_reads import STATE_READS


def checked(transformers: Sequence[Transformer], registry: TypeRegistry, text: str) -> tuple[Transformer, ...]:
    """The transformers with all names resolved. Raises `PatternError` with the place in the text."""
    _NameErrors(text).distinct(((each.name, each) for each in transformers), "two transformers of one name")
    _check_circles(transformers, text)
    return tuple(_Rules(each, registry, text).checked() for each in transformers)


def _check_circles(transformers: Sequence[Transformer], text: str) -> None:
    """Check that transformers do not read each other in a circle."""
    reads = {each.name: {channel.type_name: channel for channel in each.channels} for each in transformers}
    done: set[str] = set()
    for start in reads:
        path: list[str] = []
        # Places where to go on, innermost last; no recursion, for chains may be long.
        waiting = [iter((start,))]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                circle = [*path[path.index(name) :], name]
                raise error_at(
                    text,
                    reads[path[-1]][name].span,
                    "transformers that read each other in a circle",
                    given=", ".join(circle),
                    advice="what one of them reads has to come from outside of the circle",
                )
            elif name in reads and name not in done:
                path.append(name)
                waiting.append(iter(reads[name]))


class _NameErrors:
    """Errors about names, with their places."""

    def __init__(self, text: str) -> None:
        self.text = text

    def wrong(
        self, problem: str, span: Span | None, given: object = None, allowed: str | None = None, advice: str = ""
    ) -> NoReturn:
        raise error_at(self.text, span, problem, given=given, allowed=allowed, advice=advice or None)

    def distinct(self, named: Iterable[tuple[str, Spanned]], problem: str) -> None:
        """Check that names differ."""
        seen: set[str] = set()
        for name, node in named:
            if name in seen:
                self.wrong(problem, node.span, name)
            seen.add(name)


class _Rules(_NameErrors):
    """Rules of one transformer."""

    def __init__(self, transformer: Transformer, registry: TypeRegistry, text: str) -> None:
        super().__init__(text)
        self.transformer, self.registry = transformer, registry
        self.fields = {each.name: each for each in transformer.fields}
        self.dimensions = [each.name for each in transformer.dimensions]

    def checked(self) -> Transformer:
        made = self.transformer
        self.distinct(((each.name, each) for each in made.dimensions), "a dimension of the category twice")
        self.distinct(((each.name, each) for each in made.fields), "a field of the state twice")
        visible = [each for each in made.fields if each.visible]
        outputs: list[tuple[str, Spanned]] = [(each.name, each) for each in made.dimensions]
        outputs += [(each.name, each) for each in visible]
        outputs += [(f"was_{each.name}", each) for each in visible]
        self.distinct(outputs, "two attributes of one name in what is emitted")
        if not made.channels:
            advice = "let it read a type of events: on A do n = n + 1"
            self.wrong("a transformer without a channel", made.span, made.name, advice=advice)
        if not any(each.firing for each in made.fields):
            allowed = ", ".join(self.fields) or None
            advice = "say firing behind the field whose change is an event: state n = 0 visible firing"
            self.wrong("without a firing field nothing would be emitted", made.span, made.name, allowed, advice)
        for each in made.fields:
            self.initial(each.initial)
        channels = tuple(map(self.channel, made.channels))
        self.one_category(channels)
        return replace(made, channels=channels)

    def initial(self, value: Expression) -> None:
        """Check that an initial value is the same for all categories."""
        self.values(value)
        for node in walk(value):
            if isinstance(node, Name | Field | Moment):
                advice = "begin with a constant, and assign where an event comes: do n = ..."
                self.wrong(
                    "an initial value that reads something", node.span or value.span, allowed="constants", advice=advice
                )

    def channel(self, channel: Channel) -> Channel:
        given = [each.name for each in channel.categories]
        self.distinct(((each.name, each) for each in channel.categories), "a dimension of the category twice")
        for each in channel.categories:
            if each.name not in self.dimensions:
                allowed = ", ".join(self.dimensions) or "none"
                advice = f"name it at the head of the transformer: category {each.name}"
                self.wrong("no dimension of the category", each.span, each.name, allowed, advice)
        if missing := [each for each in self.dimensions if each not in given]:
            example = ", ".join(f"{each} = ..." for each in missing)
            advice = f"write categorize {example}"
            self.wrong("the channel lacks dimensions of the category", channel.span, ", ".join(missing), advice=advice)
        ignored = channel.ignored
        by_name = {each.name: replace(each, value=self.of_event(each.value, channel)) for each in channel.categories}
        return replace(
            channel,
            ignored=None if ignored is None else self.of_event(ignored, channel),
            categories=tuple(by_name[each] for each in self.dimensions),
            statements=self.statements(channel.statements, channel),
        )

    def one_category(self, channels: Sequence[Channel]) -> None:
        """Check that no event is in two categories, or in channels of two types."""
        first: dict[str, Channel] = {}
        for each in channels:
            root = self.registry.root(each.type_name)
            other = first.setdefault(root, each)
            if other.type_name != each.type_name:
                advice = f"read {root}, and say with `ignore when` and `if` what concerns which of its events"
                problem = (
                    f"an event in channels of two types: {each.type_name} and {other.type_name} are both of {root}"
                )
                self.wrong(problem, each.span, each.type_name, advice=advice)
            if other.categories != each.categories:
                advice = "split the transformer"
                self.wrong("one event in two categories", each.span, each.type_name, advice=advice)

    # Statements and expressions.

    def statements(self, statements: tuple[Statement, ...], channel: Channel) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for each in statements:
            if isinstance(each, Assignment):
                if each.name not in self.fields:
                    allowed = ", ".join(self.fields) or "none"
                    advice = f"name it at the head of the transformer: state {each.name} = 0"
                    self.wrong("no field of the state", each.span, each.name, allowed, advice)
                value = self.resolved(each.value, channel)
                made.append(replace(each, value=value))
                wanted, kind = self.kind(self.fields[each.name].initial, channel), self.kind(value, channel)
                if None not in (wanted, kind) and wanted != kind:
                    allowed = f"a {wanted}, as it is at first"
                    self.wrong(f"the field {each.name} gets a value of another kind", each.span, f"a {kind}", allowed)
            else:
                condition = self.resolved(each.condition, channel)
                if self.kind(condition, channel) not in (None, "boolean"):
                    self.wrong("a value where a condition is wanted", each.condition.span or each.span)
                then = self.statements(each.then, channel)
                otherwise = self.statements(each.otherwise, channel)
                made.append(replace(each, condition=condition, then=then, otherwise=otherwise))
        return tuple(made)

    def of_event(self, value: Expression, channel: Channel) -> Expression:
        """An expression of the event alone."""
        for node in walk(value):
            if isinstance(node, Name) and node.name in self.fields:
                advice = f"for an attribute of the name write {channel.variable or 't'}.{node.name}"
                if not channel.variable:
                    advice += f" of on {channel.type_name} as t"
                problem = "a field of the state, where a filter and a category are of the event alone"
                self.wrong(problem, node.span, node.name, advice=advice)
        return self.resolved(value, channel)

    def resolved(self, value: Expression, channel: Channel) -> Expression:
        """An expression with fields of the state behind `STATE`, and attributes as bare names."""
        self.values(value)

        def resolve(node: Expression) -> Expression:
            match node:
                case Name(name=name):
                    return Field(STATE, name, span=node.span) if name in self.fields else node
                case Field(variable=variable, attribute=attribute):
                    self.variable(variable, node, channel)
                    return Name(attribute, span=node.span)
                case Moment(end=end, variable=variable):
                    if variable:
                        self.variable(variable, node, channel)
                    return Moment(end, "", span=node.span)
                case _:
                    return node

        return transform(value, resolve)

    def variable(self, variable: str, node: Spanned, channel: Channel) -> None:
        """Check that a variable is the event of the channel."""
        if variable != channel.variable:
            allowed = channel.variable or "none"
            advice = "" if channel.variable else f"name it: on {channel.type_name} as {variable}"
            self.wrong("not the event of this channel", node.span, variable, allowed, advice)

    def values(self, value: Expression) -> None:
        """Check that an expression is of values: what has been before is in the state."""
        for node in walk(value):
            if not isinstance(node, Call):
                continue
            name, several = node.function, len(node.arguments) > 1
            if (name in AGGREGATES and not (name in FUNCTIONS_TOO and several)) or name in STATE_READS or name == OVER:
                advice = "keep it in a field of the state: sum = sum + t.temp"
                self.wrong("no aggregates in a transformer", node.span or value.span, name, advice=advice)

    def kind(self, value: Expression, channel: Channel) -> Kind | None:
        """Kind of the value of a resolved expression as far as that is plain; the core checks the rest."""
        match value:
            case Literal(value=literal):
                return kind_of(literal)
            case Field(attribute=name):
                return self.kind(self.fields[name].initial, channel)
            case Name(name=name):
                found = None if self.registry.open else self.registry.find(channel.type_name)
                return None if found is None else found.attributes.get(name)
            case Moment():
                return "number"
            case Unary(operator=operator):
                return "boolean" if operator == "not" else "number"
            case Binary(operator="+", left=left, right=right):
                kind = self.kind(left, channel)
                return kind if kind == self.kind(right, channel) else None
            case Binary(operator=operator):
                return "number" if operator in ("-", "*", "/", "%") else "boolean"
            case Call(function="if", arguments=(_, chosen, otherwise)):
                return self.kind(chosen, channel) or self.kind(otherwise, channel)
            case _:
                return None
