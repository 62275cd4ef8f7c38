"""Random expressions of Cayuga's algebra with their definition: cayuga-algebra-cesar, section 2, with the names and
decisions of frontends, sections 5.2 and 10.

An expression is a node with its text, its attributes, and the events that it has in given streams. The text is written,
not read, here, and the translation has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from distced.middleware.model.events import Attribute
from distced.middleware.sets.expressions import Binary, Expression, Field, Literal, Name, Unary, format_value
from tests.support.cayuga_definition import DUR, Happening, Streams, Values, holds, joined, next_of, value
from tests.support.random_cel import SCHEMAS, Occurring, Query

LAST = ".last"


@dataclass(frozen=True)
class Node:
    """Expression: attributes, events by the definition, and what attributes were renamed from. `loose`: whether the
    text needs parentheses as an operand."""

    text: str
    attributes: tuple[str, ...]
    events: Occurring
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)
    loose: bool = False

    @property
    def operand(self) -> str:
        return f"({self.text})" if self.loose else self.text


@dataclass(frozen=True)
class _Round:
    """Event of an S^[n]: the values of E1's attributes, of those carried on, and of those F made, and the interval."""

    kept: Values
    carried: Values
    made: Values
    begin: int
    end: int
    parts: frozenset[object]


class AlgebraMaker:
    """Maker of random expressions."""

    def __init__(self, random: Random, schemas: Mapping[str, tuple[str, ...]] = SCHEMAS) -> None:
        self.random = random
        self.schemas = schemas
        self._fresh = 0
        self.named: dict[str, Node] = {}

    def query(self, size: int) -> Query:
        """A text of one or two definitions, the last of about this many operators."""
        lines = []
        if self.random.random() < 0.2:
            inner = self._published(self.expression(max(1, size // 2)))
            self.named["X"] = inner
            lines.append(f"X := {inner.text}" + self.random.choice(("", ".")))
        last = self._published(self.expression(size))
        lines.append(self.random.choice(("Out := ", "")) + last.text)
        named = dict(self.named)

        def events(streams: Streams) -> frozenset[Happening]:
            known = dict(streams)
            for name, node in named.items():
                known[name] = frozenset(each.named() for each in node.events(known))
            return last.events(known)

        return Query("\n".join(lines), last.attributes, events)

    def _published(self, node: Node) -> Node:
        names = {name: name.replace(".", "_") for name in node.attributes}
        if len(set(names.values())) < len(names):
            return self._published(self._with_prefix(node))
        return replace(_mapped(node, node.text, names), loose=node.loose)

    # Expressions.

    def expression(self, size: int) -> Node:
        """An expression with about this many operators."""
        if size <= 0:
            return self._stream()
        kind = self.random.choices(
            ("select", "project", "rename", "extend", "as", "union", "sequence", "mu"), (3, 1, 1, 1.5, 1, 1.5, 4, 4)
        )[0]
        if kind in ("sequence", "mu", "union"):
            right = min(self.random.choices((0, 1, 2), (5, 3, 2))[0], size - 1)
            first, second = self.expression(size - 1 - right), self.expression(right)
            return getattr(self, f"_{kind}")(first, second)  # type: ignore[no-any-return]
        return getattr(self, f"_{kind}")(self.expression(size - 1))  # type: ignore[no-any-return]

    def _stream(self) -> Node:
        name = self.random.choice([*self.schemas, *self.named, next(iter(self.schemas))])
        attributes = self.schemas[name] if name in self.schemas else self.named[name].attributes
        origins = {each: (name, each) for each in attributes}
        return Node(name, attributes, lambda streams: streams[name], origins)

    def _select(self, source: Node) -> Node:
        condition = self._condition([Name(each) for each in source.attributes])

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(each for each in source.events(streams) if holds(condition, _reader(each)))

        text = f"{self._sign('σ', 'select')}[{self._text(condition, source.attributes)}] {source.operand}"
        return replace(source, text=text, events=events, loose=False)

    def _project(self, source: Node) -> Node:
        kept = [each for each in source.attributes if self.random.random() < 0.7] or list(source.attributes[:1])
        if not kept:
            return source
        text = f"{self._sign('π', 'project')}[{', '.join(self._short(each, source.attributes) for each in kept)}]"
        return _mapped(source, f"{text} {source.operand}", {each: each for each in kept})

    def _rename(self, source: Node) -> Node:
        names = {each: self._new_name() if self.random.random() < 0.6 else each for each in source.attributes}
        pairs = [f"{self._short(old, source.attributes)} -> {new}" for old, new in names.items() if old != new]
        if not pairs:
            return source
        return _mapped(source, f"{self._sign('ρ', 'rename')}[{', '.join(pairs)}] {source.operand}", names)

    def _extend(self, source: Node) -> Node:
        readings = [Name(each) for each in source.attributes]
        added = [(self._new_name(), self._sum(readings)) for _ in range(self.random.randrange(1, 3))]

        def events(streams: Streams) -> frozenset[Happening]:
            return frozenset(
                replace(each, values=(*each.values, *((name, value(new, _reader(each))) for name, new in added)))
                for each in source.events(streams)
            )

        values = ", ".join(f"{name} = {self._text(new, source.attributes)}" for name, new in added)
        attributes = (*source.attributes, *(name for name, _ in added))
        text = f"{self._sign('α', 'extend')}[{values}] {source.operand}"
        return Node(text, attributes, events, source.origins)

    def _as(self, source: Node) -> Node:
        return self._with_prefix(source)

    def _with_prefix(self, source: Node) -> Node:
        name = self._new_name()
        text = source.text if source.text.isidentifier() else f"({source.text})"
        return _mapped(source, f"({text} as {name})", {each: f"{name}.{each}" for each in source.attributes})

    def _union(self, first: Node, second: Node) -> Node:
        first = self._plain(first)
        if not second.attributes or not first.attributes:
            return first
        few = first.attributes[: len(second.attributes)]
        if few != first.attributes:
            first = _mapped(first, f"π[{', '.join(few)}] {first.operand}", {each: each for each in few})
        # Of equal schemas, in another order.
        names = list(first.attributes)
        self.random.shuffle(names)
        kept = second.attributes[: len(names)]
        pairs = ", ".join(f"{old} -> {new}" for old, new in zip(kept, names, strict=True))
        text = f"ρ[{pairs}] π[{', '.join(kept)}] {second.operand}"
        other = _mapped(second, text, dict(zip(kept, names, strict=True)))

        def events(streams: Streams) -> frozenset[Happening]:
            ordered = (_in_order(each, first.attributes) for each in other.events(streams))
            return first.events(streams) | frozenset(ordered)

        origins = {
            name: origin for name, origin in first.origins.items() if other.origins.get(name) == origin
        }  # fmt: skip
        left = first.operand if first.loose else first.text
        text = f"{left} {self._sign('∪', 'union')} {other.text}"
        return Node(text, first.attributes, events, origins, loose=True)

    def _plain(self, source: Node) -> Node:
        """The expression with attributes without dots."""
        names = {each: self._new_name() for each in source.attributes}
        if not names:
            return source
        pairs = ", ".join(f"{old} -> {new}" for old, new in names.items())
        return _mapped(source, f"ρ[{pairs}] {source.operand}", names)

    def _sequence(self, first: Node, second: Node) -> Node:
        if set(first.attributes) & set(second.attributes):
            return self._sequence(first, self._with_prefix(second))
        overlapping = self.random.random() < 0.3
        known = (*first.attributes, *second.attributes)
        condition = None if self.random.random() < 0.25 else self._condition([Name(each) for each in known])

        def events(streams: Streams) -> frozenset[Happening]:
            seconds = second.events(streams)
            found = set()
            for one in first.events(streams):

                def fits(other: Happening, one: Happening = one) -> bool:
                    return holds(condition, _reader(joined(one, other, (*one.values, *other.values))))

                for other in next_of(one.begin, one.end, seconds, fits, overlapping=overlapping):
                    found.add(joined(one, other, (*one.values, *other.values)))
            return frozenset(found)

        shown = "" if condition is None else f"[{self._text(condition, known)}]"
        left = first.text if first.loose and " ∪ " not in first.text and " union " not in first.text else first.operand
        text = f"{left} ;{' overlapping ' if overlapping else ''}{shown} {second.operand}"
        return Node(text, known, events, {**first.origins, **second.origins}, loose=True)

    def _mu(self, first: Node, second: Node) -> Node:
        random = self.random
        overlapping = random.random() < 0.2
        if not first.attributes:
            return self._sequence(first, second)
        own = [each for each in first.attributes if each not in second.attributes and "." not in each]
        changed = random.sample(own, min(len(own), random.randrange(2)))
        new = [self._new_name() for _ in range(random.choice((0, 0, 0, 1)))]
        carried = (*second.attributes, *changed)
        kept = tuple(each for each in first.attributes if each not in carried)
        begins, said = self._begins(first, second, carried)
        dropped: set[str] = set()
        if random.random() < 0.15:
            dropped = {each for each in (*kept, *carried, *new) if random.random() < 0.3}
        there = [each for each in (*kept, *carried) if each not in dropped or each in second.attributes]
        last = [Field(LAST, each) for each in (*kept, *carried) if each not in dropped]
        condition = None if random.random() < 0.3 else self._condition([*map(Name, there), *last, *last])
        # In the order in which they are applied.
        steps: list[tuple[str, object]] = []
        available = list(there)
        if random.random() < 0.7:
            steps.append(("select", self._condition([*map(Name, available), *last, *last])))
        if changed or new:
            read = [*map(Name, available), *last, *last]
            steps.append(("extend", [(name, self._sum(read)) for name in (*changed, *new)]))
            available += [each for each in (*changed, *new) if each not in available]
            if random.random() < 0.4:
                steps.append(("select", self._condition([*map(Name, available), *last])))
        left = [each for each in (*kept, *carried, *new) if each not in dropped]
        if dropped and left:
            steps.append(("project", left))
        else:
            dropped, left = set(), [*kept, *carried, *new]

        def events(streams: Streams) -> frozenset[Happening]:
            seconds = second.events(streams)
            rounds = {
                _Round(
                    tuple((each, one.attributes[each]) for each in kept),
                    tuple((each, one.attributes[begins[each]]) for each in carried),
                    (),
                    one.begin,
                    one.end,
                    one.parts,
                )
                for one in first.events(streams)
            }
            answers: set[Happening] = set()
            while rounds:
                rounds = {
                    made for each in rounds for made in self._next(each, seconds, condition, steps, new, overlapping)
                }
                for each in rounds:
                    values = dict((*each.kept, *each.carried, *each.made))
                    answers.add(
                        Happening(tuple((name, values[name]) for name in left), each.begin, each.end, each.parts)
                    )
            return frozenset(answers)

        known = (*kept, *carried)
        shown = [self._step(kind, step, (*known, *new)) for kind, step in reversed(steps)]
        fold = self._sign(" ∘ ", " after ").join(shown) or "id"
        origin = f"; {', '.join(f'{name} from {begins[name]}' for name in said)}" if said else ""
        text = f"{self._sign('µ', 'mu')} {'overlapping ' if overlapping else ''}[{fold}; "
        text += f"{'' if condition is None else self._text(condition, known)}{origin}]({first.text}, {second.text})"
        origins = {name: each for name, each in {**first.origins, **second.origins}.items() if name in left}
        for name in (*changed, *new):
            origins.pop(name, None)
        return Node(text, tuple(left), events, origins)

    def _begins(self, first: Node, second: Node, carried: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """What carried attributes begin with, and for which of them the text says so."""
        begins: dict[str, str] = {}
        said: list[str] = []
        for name in carried:
            usual = _usual(name, first, second)
            if usual is not None and self.random.random() < 0.8:
                begins[name] = usual
            else:
                begins[name] = self.random.choice(first.attributes)
                said.append(name)
        return begins, said

    def _next(
        self,
        before: _Round,
        seconds: frozenset[Happening],
        condition: Expression | None,
        steps: list[tuple[str, object]],
        new: list[str],
        overlapping: bool,
    ) -> list[_Round]:
        last = dict((*before.kept, *before.carried))
        begin = Happening((), before.begin, before.end, before.parts)

        def reader(other: Happening, current: dict[str, Attribute]) -> Callable[[Expression], Attribute]:
            def read(node: Expression) -> Attribute:
                match node:
                    case Name() if node == DUR:
                        return other.end - min(before.begin, other.begin)
                    case Name(name=name):
                        return current[name]
                    case Field(attribute=name):
                        return last[name]
                    case _:
                        raise AssertionError(node)

            return read

        found = []
        for other in next_of(
            before.begin,
            before.end,
            seconds,
            lambda other: holds(condition, reader(other, last | other.attributes)),
            overlapping=overlapping,
        ):
            current = last | other.attributes
            for kind, step in steps:
                read = reader(other, current)
                if kind == "select" and not holds(step, read):  # type: ignore[arg-type]
                    break
                if kind == "extend":
                    current = current | {name: value(each, read) for name, each in step}  # type: ignore[attr-defined]
            else:
                whole = joined(begin, other, ())
                carried = tuple((name, current[name]) for name, _ in before.carried)
                made = tuple((name, current[name]) for name in new)
                found.append(_Round(before.kept, carried, made, whole.begin, whole.end, whole.parts))
        return found

    # Texts.

    def _step(self, kind: str, step: object, known: Sequence[str]) -> str:
        if kind == "select":
            return f"{self._sign('σ', 'select')}[{self._text(step, known)}]"  # type: ignore[arg-type]
        if kind == "project":
            return f"{self._sign('π', 'project')}[{', '.join(step)}]"  # type: ignore[arg-type]
        values = ", ".join(f"{name} = {self._text(each, known)}" for name, each in step)  # type: ignore[attr-defined]
        return f"{self._sign('α', 'extend')}[{values}]"

    def _sign(self, letter: str, word: str) -> str:
        return self.random.choice((letter, word))

    def _short(self, name: str, known: Sequence[str]) -> str:
        """The last part of a name where it stands for no other, sometimes."""
        last = name.rpartition(".")[2]
        alone = [each for each in known if each == last or each.endswith(f".{last}")] == [name]
        return last if alone and self.random.random() < 0.3 else name

    def _text(self, expression: Expression | None, known: Sequence[str]) -> str:
        match expression:
            case Literal(value=constant):
                return format_value(constant)
            case Name() if expression == DUR:
                return "DUR"
            case Name(name=name):
                return self._short(name, known) if name in known else name
            case Field(attribute=name):
                return f"{name}.last"
            case Unary(operand=operand):
                return f"{self._sign('¬', 'not')} ({self._text(operand, known)})"
            case Binary(operator=operator, left=left, right=right):
                shown = {"==": "=", "and": self._sign("∧", "and"), "or": self._sign("∨", "or")}.get(operator, operator)
                return f"({self._text(left, known)}) {shown} ({self._text(right, known)})"
            case _:
                raise AssertionError(expression)

    def _new_name(self) -> str:
        self._fresh += 1
        return f"b{self._fresh}"

    def _condition(self, readings: Sequence[Name | Field], depth: int = 0) -> Expression:
        random = self.random
        kind = random.random()
        if depth < 2 and kind < 0.2:
            operator = random.choice(("and", "and", "or"))
            return Binary(operator, self._condition(readings, depth + 1), self._condition(readings, depth + 1))
        if depth < 2 and kind < 0.26:
            return Unary("not", self._condition(readings, depth + 1))
        if kind < 0.4:
            return Binary(random.choice(("<=", ">=", "<", ">")), DUR, Literal(random.randrange(8)))
        operator = random.choice(("==", "==", "!=", "<", "<=", ">", ">="))
        left = random.choice(readings) if readings else Literal(1)
        if kind < 0.75 and readings:
            return Binary(operator, left, random.choice(readings))
        return Binary(operator, left, self._sum(readings))

    def _sum(self, readings: Sequence[Name | Field], depth: int = 0) -> Expression:
        random = self.random
        kind = random.random()
        if depth < 2 and kind < 0.3:
            operator = random.choice(("+", "+", "-", "*", "%"))
            return Binary(operator, self._sum(readings, depth + 1), self._sum(readings, depth + 1))
        if kind < 0.35:
            return DUR
        if kind < 0.75 and readings:
            return random.choice(readings)
        return Literal(random.choice((0, 1, 2, 3, None)))


def _usual(name: str, first: Node, second: Node) -> str | None:
    """What a carried attribute begins with where it is not said; None where it has to be."""
    if name in first.attributes:
        return name
    last = name.rpartition(".")[2]
    alike = [each for each in first.attributes if each.rpartition(".")[2] == last]
    if len(alike) == 1:
        return alike[0]
    origin = second.origins.get(name)
    same = [each for each in first.attributes if origin is not None and first.origins.get(each) == origin]
    return same[0] if len(same) == 1 else None


def _mapped(source: Node, text: str, names: dict[str, str]) -> Node:
    """The expression with these attributes, under other names."""

    def events(streams: Streams) -> frozenset[Happening]:
        return frozenset(
            replace(each, values=tuple((new, each.attributes[old]) for old, new in names.items()))
            for each in source.events(streams)
        )

    origins = {new: source.origins[old] for old, new in names.items() if old in source.origins}
    return Node(text, tuple(names.values()), events, origins)


def _in_order(event: Happening, names: Sequence[str]) -> Happening:
    return replace(event, values=tuple((name, event.attributes[name]) for name in names))


def _reader(event: Happening) -> Callable[[Expression], Attribute]:
    def read(node: Expression) -> Attribute:
        if node == DUR:
            return event.end - event.begin
        assert isinstance(node, Name)
        return event.attributes[node.name]

    return read
