"""Random queries in CEL with their definition: names by frontends, section 4.2, events by section 4.3.

A query is a node with its text, its attributes, and the events that it has in given streams. The text is written, not
read, here, and the translation has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.expressions import Binary, Expression, Field, Literal, Name, Unary, format_value
from tests.support.cayuga_definition import DUR, Happening, Streams, Values, holds, joined, next_of, value

SCHEMAS: Final = {"S": ("p", "n"), "T": ("p", "q"), "U": ("n",)}
"""Attributes of the primitive streams; p and q are numbers, n texts, and each may be null."""

Occurring = Callable[[Streams], "frozenset[Happening]"]


@dataclass(frozen=True)
class Node:
    """Stream of a query.

    Attributes:
        aliases: further names of attributes.
        events: the events by the definition, of the primitive streams and of those published before.
        whole: whether the text stands for itself beside NEXT and FOLD.
    """

    text: str
    attributes: tuple[str, ...]
    events: Occurring
    aliases: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        return name if name in self.attributes else self.aliases.get(name)

    @property
    def names(self) -> list[str]:
        return [*self.attributes, *self.aliases]


@dataclass(frozen=True)
class Query:
    """Text of one or two queries; the last one's attributes and events, and those that the others publish."""

    text: str
    attributes: tuple[str, ...]
    events: Occurring


class CelMaker:
    """Maker of random queries."""

    def __init__(self, random: Random, schemas: Mapping[str, tuple[str, ...]] = SCHEMAS) -> None:
        self.random = random
        self.schemas = schemas
        self._fresh = 0
        # Streams that queries publish, in the order of the text.
        self.published: dict[str, Node] = {}

    def query(self, size: int) -> Query:
        """A text whose last query has about this many operators."""
        before = []
        if self.random.random() < 0.2:
            inner = self.selected(self.stream(max(1, size // 2)))
            name = f"X{len(self.published) + 1}"
            before.append(f"{inner.text} PUBLISH {name}")
            self.published[name] = inner
        last = self.selected(self.stream(size))
        text = "\n".join([*before, last.text])
        published = dict(self.published)

        def events(streams: Streams) -> frozenset[Happening]:
            known = dict(streams)
            for name, node in published.items():
                known[name] = frozenset(each.named() for each in node.events(known))
            return last.events(known)

        return Query(text, last.attributes, events)

    # Streams.

    def stream(self, size: int) -> Node:
        """A stream with about this many operators."""
        random = self.random
        if size <= 0:
            return self._named()
        kind = random.choices(
            ("filter", "next", "fold", "select", "publish"), (3, 4, 3, 2, 0.3 if len(self.published) < 3 else 0)
        )[0]
        if kind == "filter":
            return self._filter(self.stream(size - 1))
        if kind == "select":
            inner = self.selected(self.stream(size - 1))
            return Node(f"({inner.text})", inner.attributes, inner.events, inner.aliases)
        if kind == "publish":
            inner = self.selected(self.stream(size - 1))
            name = f"X{len(self.published) + 1}"
            self.published[name] = inner
            return Node(f"({inner.text} PUBLISH {name})", inner.attributes, lambda streams: streams[name])
        # Composite right inputs are rarer.
        right = random.choices((0, 1, 2, 3), (5, 3, 1, 1))[0]
        right = min(right, size - 1)
        first = self.stream(size - 1 - right)
        second = self.stream(right)
        return self._next(first, second) if kind == "next" else self._fold(first, second)

    def _named(self) -> Node:
        names = [*self.schemas, *self.published]
        name = self.random.choices(names, [*(5, 3, 2)[: len(self.schemas)], *[3] * len(self.published)])[0]
        attributes = self.schemas[name] if name in self.schemas else self.published[name].attributes
        return Node(name, attributes, lambda streams: streams[name])

    def _filter(self, source: Node) -> Node:
        condition = self._condition([Name(each) for each in source.names])

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(each for each in source.events(streams) if holds(condition, _reader(each, source)))

        return Node(f"FILTER{{{_text(condition)}}} {_unary(source)}", source.attributes, events, source.aliases)

    def selected(self, source: Node) -> Node:
        """`SELECT items FROM stream`, sometimes without items."""
        random = self.random
        if random.random() < 0.15:
            return Node(f"FROM {source.text}", source.attributes, source.events, source.aliases)
        items: list[tuple[str, str, Expression]] = []
        for _ in range(random.randrange(1, 4)):
            taken = {name for name, _, _ in items}
            kind = random.random()
            if kind < 0.2 and not taken & set(source.attributes):
                items += [(name, "*" if not place else "", Name(name)) for place, name in enumerate(source.attributes)]
                continue
            expression: Expression = Name(random.choice(source.names)) if source.names else Literal(1)
            if kind > 0.7:
                expression = self._sum([Name(each) for each in source.names])
            if isinstance(expression, Name) and expression != DUR and random.random() < 0.4:
                name = expression.name
                text = name
            else:
                name = self._new_name()
                text = f"{_text(expression)} AS {name}"
            if name not in taken:
                items.append((name, text, expression))
        if not items:
            items = [("c", "1 AS c", Literal(1))]

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(
                Happening(
                    tuple((name, value(each, _reader(event, source))) for name, _, each in items),
                    event.begin,
                    event.end,
                    event.parts,
                )
                for event in source.events(streams)
            )

        shown = ", ".join(text for _, text, _ in items if text)
        return Node(f"SELECT {shown} FROM {source.text}", tuple(name for name, _, _ in items), events)

    def _next(self, first: Node, second: Node) -> Node:
        common = set(first.attributes) & set(second.attributes)
        names = {name: f"{name}_1" if common else name for name in first.attributes}
        made = (*names.values(), *second.attributes)
        if len(set(made)) < len(made):
            return self._next(self._renamed(first), second)
        readings = [Field("$1", each) for each in first.names] + [Field("$2", each) for each in second.names]
        readings += [
            Name(each)
            for each in (*first.names, *second.names)
            if (first.find(each) is None) != (second.find(each) is None)
        ]
        condition = None if self.random.random() < 0.2 else self._condition(readings)

        def fits(one: Happening, other: Happening) -> bool:
            def read(node: Expression) -> Attribute:
                match node:
                    case Name() if node == DUR:
                        return other.end - one.begin
                    case Field(variable="$1", attribute=name):
                        return _of(one, first, name)
                    case Field(variable="$2", attribute=name):
                        return _of(other, second, name)
                    case Name(name=name):
                        return _of(one, first, name) if first.find(name) is not None else _of(other, second, name)
                    case _:
                        raise AssertionError(node)

            return holds(condition, read)

        def events(streams: Streams) -> frozenset[Happening]:
            seconds = second.events(streams)
            return frozenset(
                joined(one, other, (*((names[name], each) for name, each in one.values), *other.values))
                for one in first.events(streams)
                for other in next_of(
                    one.begin, one.end, seconds, lambda other, one=one: fits(one, other), overlapping=False
                )
            )

        braces = "" if condition is None and self.random.random() < 0.7 else f"{{{_text(condition)}}}"
        aliases = {**second.aliases, **{alias: names[name] for alias, name in first.aliases.items()}}
        if common:
            aliases |= {name: f"{name}_1" for name in first.attributes if name not in second.attributes}
        aliases = {alias: name for alias, name in aliases.items() if alias not in made}
        return Node(f"{_left(first)} NEXT{braces} {_unary(second)}", made, events, aliases)

    def _fold(self, first: Node, second: Node) -> Node:
        lacking = [name for name in second.attributes if name not in first.attributes]
        counted = self.random.random() < 0.5
        if lacking or (counted and self.random.random() < 0.7):
            first = self._with(first, lacking, "c" if counted and "c" not in first.attributes else "")
        computable = [name for name in first.attributes if name not in second.attributes]
        sample = self.random.sample(computable, min(len(computable), self.random.randrange(3)))
        carried = (*second.attributes, *sample)
        made = (*(f"{name}_1" if name in carried else name for name in first.attributes), *carried)
        if len(set(made)) < len(made):
            return self._fold(self._renamed(first), self._renamed(second))
        readings: list[Name | Field] = [Field("$1", each) for each in first.names]
        readings += [Field("$2", each) for each in second.names] * 2
        readings += [Field("$", each) for each in first.names] * 2
        readings += [
            Name(each)
            for each in (*first.names, *second.names)
            if (first.find(each) is None) != (second.find(each) is None) and first.find(each) not in sample
        ]
        condition = None if self.random.random() < 0.3 else self._condition(readings)
        going_on = None if self.random.random() < 0.3 else self._condition(readings)
        computed = [(name, self._sum(readings)) for name in sample]

        def read_of(run: _Run, event: Happening) -> Callable[[Expression], Attribute]:
            def read(node: Expression) -> Attribute:
                match node:
                    case Name() if node == DUR:
                        return event.end - run.begin
                    case Field(variable="$1", attribute=name):
                        return dict(run.first)[str(first.find(name))]
                    case Field(variable="$2", attribute=name):
                        return _of(event, second, name)
                    case Field(variable="$", attribute=name):
                        return dict(run.last)[str(first.find(name))]
                    case Name(name=name):
                        found = first.find(name)
                        return dict(run.first)[found] if found is not None else _of(event, second, name)
                    case _:
                        raise AssertionError(node)

            return read

        def events(streams: Streams) -> frozenset[Happening]:
            seconds = second.events(streams)
            runs = {_Run(each.values, each.values, each.begin, each.end, each.parts) for each in first.events(streams)}
            answers: set[Happening] = set()
            while runs:
                going: set[_Run] = set()
                for run in runs:

                    def fits(event: Happening, run: _Run = run) -> bool:
                        return holds(condition, read_of(run, event))

                    for event in next_of(run.begin, run.end, seconds, fits, overlapping=False):
                        read = read_of(run, event)
                        if not holds(going_on, read):
                            continue
                        last = dict(run.last) | event.attributes
                        last |= {name: value(each, read) for name, each in computed}
                        parts = run.parts | event.parts
                        going.add(_Run(run.first, tuple(last.items()), run.begin, event.end, parts))
                runs = going
                for run in runs:
                    kept = tuple((f"{name}_1" if name in carried else name, each) for name, each in run.first)
                    values = (*kept, *((name, dict(run.last)[name]) for name in carried))
                    answers.add(Happening(values, run.begin, run.end, run.parts))
            return frozenset(answers)

        aggregates = ", ".join(f"{_text(each)} AS {name}" for name, each in computed)
        braces = f"{{{_text(condition)}, {_text(going_on)}, {aggregates}}}"
        shown = {name: f"{name}_1" if name in carried else name for name in first.attributes}
        aliases = {**{alias: shown[name] for alias, name in first.aliases.items()}, **second.aliases}
        aliases = {alias: name for alias, name in aliases.items() if alias not in made and name in made}
        return Node(f"{_left(first)} FOLD{braces} {_unary(second)}", made, events, aliases)

    def _with(self, source: Node, names: list[str], counter: str) -> Node:
        """The stream with further attributes."""
        added: list[tuple[str, Expression]] = [
            (name, self._sum([Name(each) for each in source.names])) for name in names
        ]
        if counter and counter not in names:
            added.append((counter, Literal(1)))
        if not added:
            return source

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(
                Happening(
                    (
                        *event.values,
                        *((name, value(each, _reader(event, source))) for name, each in added),
                    ),
                    event.begin,
                    event.end,
                    event.parts,
                )
                for event in source.events(streams)
            )

        items = ", ".join(f"{_text(each)} AS {name}" for name, each in added)
        return Node(
            f"(SELECT *, {items} FROM {source.text})", (*source.attributes, *(name for name, _ in added)), events
        )

    def _renamed(self, source: Node) -> Node:
        """The stream with fresh names, as some collide."""
        names = {name: self._new_name() for name in source.attributes}

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(
                Happening(
                    tuple((names[name], each) for name, each in event.values), event.begin, event.end, event.parts
                )
                for event in source.events(streams)
            )

        items = ", ".join(f"{old} AS {new}" for old, new in names.items()) or "1 AS c"
        if not names:
            return source
        return Node(f"(SELECT {items} FROM {source.text})", tuple(names.values()), events)

    def _new_name(self) -> str:
        self._fresh += 1
        return f"a{self._fresh}"

    # Expressions.

    def _condition(self, readings: list[Name] | list[Name | Field], depth: int = 0) -> Expression:
        random = self.random
        kind = random.random()
        if depth < 2 and kind < 0.25:
            operator = random.choice(("and", "and", "or"))
            return Binary(operator, self._condition(readings, depth + 1), self._condition(readings, depth + 1))
        if depth < 2 and kind < 0.32:
            return Unary("not", self._condition(readings, depth + 1))
        if kind < 0.4:
            return Binary(random.choice(("<=", ">=", "<", ">")), DUR, Literal(random.randrange(8)))
        operator = random.choice(("==", "==", "!=", "<", "<=", ">", ">="))
        left = random.choice(readings) if readings else Literal(1)
        if kind < 0.75 and readings:
            return Binary(operator, left, random.choice(readings))
        return Binary(operator, left, self._sum(readings))

    def _sum(self, readings: list[Name] | list[Name | Field], depth: int = 0) -> Expression:
        random = self.random
        kind = random.random()
        if depth < 2 and kind < 0.3:
            operator = random.choice(("+", "+", "-", "*", "%"))
            return Binary(operator, self._sum(readings, depth + 1), self._sum(readings, depth + 1))
        if kind < 0.35:
            return DUR
        if kind < 0.75 and readings:
            return random.choice(readings)
        return Literal(random.choice((0, 1, 2, 3, None) if depth else (0, 1, 2, 3, "a", None)))


@dataclass(frozen=True)
class _Run:
    """Run of FOLD: values of the first input, and the latest ones of its attributes."""

    first: Values
    last: Values
    begin: int
    end: int
    parts: frozenset[object]


def random_events(random: Random, count: int, *, span: int = 14) -> list[Event]:
    """Events of the primitive streams in the order of consumption, with ties, intervals and nulls."""
    made = []
    for seq in range(count):
        name = random.choices(list(SCHEMAS), (5, 3, 2))[0]
        lo = random.randrange(span)
        hi = lo + (random.randrange(4) if random.random() < 0.3 else 0)
        values: dict[str, Attribute] = {}
        for attribute in SCHEMAS[name]:
            if random.random() < 0.9:
                values[attribute] = random.choice(("a", "b")) if attribute == "n" else random.randrange(4)
        made.append(Event(name, lo, hi, "e", seq, values))
    return sorted(made, key=lambda event: event.key)


def declarations(schemas: Mapping[str, tuple[str, ...]] = SCHEMAS) -> str:
    """Declarations of the primitive streams."""
    return "\n".join(f"STREAM {name}({', '.join(attributes)})" for name, attributes in schemas.items())


def _of(event: Happening, node: Node, name: str) -> Attribute:
    return event.attributes[str(node.find(name))]


def _reader(event: Happening, source: Node) -> Callable[[Expression], Attribute]:
    def read(node: Expression) -> Attribute:
        if node == DUR:
            return event.end - event.begin
        assert isinstance(node, Name)
        return _of(event, source, node.name)

    return read


def _unary(node: Node) -> str:
    """Text of a stream behind FILTER, NEXT or FOLD."""
    plain = node.text.isidentifier() or node.text.startswith("(SELECT") or node.text.startswith("(FROM")
    enclosed = plain and (node.text.isidentifier() or _is_enclosed(node.text))
    return node.text if enclosed else f"({node.text})"


def _left(node: Node) -> str:
    """Text of a stream before NEXT or FOLD, which are left-associative."""
    return node.text if not node.text.startswith(("SELECT", "FROM")) else f"({node.text})"


def _is_enclosed(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if depth == 0:
            return place == len(text) - 1
    return False


def _text(expression: Expression | None) -> str:
    match expression:
        case None:
            return ""
        case Literal(value=constant):
            return format_value(constant)
        case Name(name=name):
            return name
        case Field(variable=reading, attribute=name):
            return f"{reading}.{name}"
        case Unary(operand=operand):
            return f"NOT ({_text(operand)})"
        case Binary(operator=operator, left=left, right=right):
            shown = {"==": "=", "and": "AND", "or": "OR"}.get(operator, operator)
            return f"({_text(left)}) {shown} ({_text(right)})"
        case _:
            raise AssertionError(expression)
