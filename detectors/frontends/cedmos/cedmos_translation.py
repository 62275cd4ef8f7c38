"""Translation of CEDMOS transformers into core patterns (frontends, section 7.4; cedmos-1999, section 4.2.1).

A transformer is one `once` pattern, settled: an instance for each category, in which each event of a channel is matched
and the fields of the state are registers; its composite events are emitted at the end of an instant, where a firing
field differs from what it was before.

Registers of an atom are set in order, each once. So a field that several statements of a channel assign has a register
for each of its values, of which the last one is its own; conditions of choices are registers, too. Rejected: one atom
for each way through the choices, which doubles with each of them, and values after the statements over the values
before, which may double with each statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from distced.detectors.frontends.cedmos.cedmos_tree import (
    STATE,
    Assignment,
    Channel,
    Statement,
    Transformer,
    assignments,
)
from distced.detectors.frontends.made_names import MadeNames
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import (
    Atom,
    Concatenation,
    DerivedType,
    Init,
    Iteration,
    Keyed,
    Output,
    Pattern,
    PatternFile,
    Publication,
)
from distced.middleware.sets.describable import DescribableSet, Filtered, TypeSet
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

_NULL: Final = Literal(None)


def core_file(transformers: Sequence[Transformer], registry: TypeRegistry) -> PatternFile:
    """Core statements of checked transformers."""
    emitted = {each.name: frozenset(_emitted(each)) for each in transformers}
    channels = [channel for each in transformers for channel in each.channels]
    types = MadeNames([*emitted, *(each.type_name for each in channels), *(each.name for each in registry)])
    made = [_Translation(each, emitted, registry, types) for each in transformers]
    publications = tuple(each.publication() for each in made)
    return PatternFile(tuple(derived for each in made for derived in each.types), (), publications)


def _emitted(transformer: Transformer) -> Iterator[str]:
    """Names of the attributes that a transformer emits."""
    yield from (each.name for each in transformer.dimensions)
    for each in transformer.fields:
        if each.visible:
            yield from (each.name, f"was_{each.name}")


class _Translation:
    """Translation of one transformer."""

    def __init__(
        self,
        transformer: Transformer,
        emitted: dict[str, frozenset[str]],
        registry: TypeRegistry,
        types: MadeNames,
    ) -> None:
        self.transformer, self.registry, self.emitted = transformer, registry, emitted
        self.types: list[DerivedType] = []
        self._type_names = types
        fields = transformer.fields
        # A field has another name where an event that is read has an attribute of its own.
        read = {*self._attributes(), *(each.name for each in transformer.dimensions)}
        read |= {f"was_{each.name}" for each in fields if each.visible}
        self.names = MadeNames({*read, *(each.name for each in fields)})
        self.registers = {each.name: self._register(each.name, read) for each in fields}
        self.before = {each.name: self.names.make(f"was_{each.name}") for each in fields if each.visible or each.firing}
        self.last = self.names.make("last")
        self.made: dict[str, Expression] = {}

    def _register(self, name: str, read: set[str]) -> str:
        return self.names.make(name) if name in read else name

    def publication(self) -> Publication:
        transformer = self.transformer
        key = self._key()
        body = self._body(key)
        initials = {self.registers[each.name]: each.initial for each in transformer.fields}
        initials |= {self.before[each]: _NULL for each in self.before}
        initials |= {self.last: _NULL, **self.made}
        pattern: Pattern = Init(tuple(initials.items()), body, span=transformer.span)
        if key:
            pattern = Keyed(pattern, tuple(key.values()), span=transformer.span)
        return Publication(pattern, self._output(key), consumption="ordered", once=True, settled=True)

    def _output(self, key: dict[str, str]) -> Output:
        transformer = self.transformer
        attributes: list[tuple[str, Expression]] = [(name, Name(attribute)) for name, attribute in key.items()]
        changed: Expression = FALSE
        for each in transformer.fields:
            if each.visible:
                attributes.append((each.name, Name(self.registers[each.name], span=each.span)))
                attributes.append((f"was_{each.name}", Name(self.before[each.name], span=each.span)))
            if each.firing:
                value, before = Name(self.registers[each.name]), Name(self.before[each.name])
                changed = disjunction(changed, Binary("!=", value, before, span=each.span))
        return Output(transformer.name, tuple(attributes), changed, span=transformer.span)

    def _body(self, key: dict[str, str]) -> Pattern:
        by_type: dict[str, list[Channel]] = {}
        for each in self.transformer.channels:
            by_type.setdefault(each.type_name, []).append(each)
        parts = [self._events(channels, key) for channels in by_type.values()]
        if len(parts) == 1:
            return parts[0]
        span = self.transformer.span
        return Iteration(Concatenation(tuple(parts), span=span), 0, None, span=span)

    def _events(self, channels: list[Channel], key: dict[str, str]) -> Pattern:
        """The events of a type: what the channels that do not ignore one do, one after the other."""
        first = channels[0]
        ignored: Expression = TRUE
        for each in channels:
            ignored = conjunction(ignored, FALSE if each.ignored is None else each.ignored)
        label: DescribableSet = TypeSet(self._type(first, key), span=first.span)
        if ignored != FALSE:
            label = Filtered(label, negation(ignored), span=first.span)
        assigned = (each.name for channel in channels for each in assignments(channel.statements))
        updates = _Updates(self, Counter(assigned))
        for each in channels:
            guard = None
            if len(channels) > 1 and each.ignored is not None:
                guard = updates.condition(negation(each.ignored), each.span)
            updates.statements(each.statements, guard)
        atom = Atom(label, None, "", tuple(updates.made), span=first.span)
        return Iteration(atom, 0, None, span=first.span)

    # Categories.

    def _key(self) -> dict[str, str]:
        """Attributes of the key by dimension: the attribute itself where all channels have it, else a computed one."""
        key: dict[str, str] = {}
        for place, dimension in enumerate(self.transformer.dimensions):
            values = [each.categories[place].value for each in self.transformer.channels]
            plain = all(value == Name(dimension.name) for value in values)
            key[dimension.name] = dimension.name if plain else self.names.make(dimension.name)
        return key

    def _type(self, channel: Channel, key: dict[str, str]) -> str:
        """The type of a channel, or one derived from it with the category as further attributes."""
        computed = tuple((key[each.name], each.value) for each in channel.categories if key[each.name] != each.name)
        if not computed:
            return channel.type_name
        name = self._type_names.make(channel.type_name)
        self.types.append(DerivedType(name, channel.type_name, computed=computed, span=channel.span))
        return name

    def _attributes(self) -> Iterator[str]:
        """Names of attributes of the events that are read, as far as they are known."""
        for channel in self.transformer.channels:
            yield from self.emitted.get(channel.type_name, ())
            found = self.registry.find(channel.type_name)
            if found is not None:
                name = channel.type_name
                yield from found.attributes
                yield from self.registry.undetermined(name) | self.registry.computed(name)
            values = [each.value for each in channel.categories]
            if channel.ignored is not None:
                values.append(channel.ignored)
            for value in (*values, *_values(channel.statements)):
                yield from (node.name for node in walk(value) if isinstance(node, Name))


def _values(statements: tuple[Statement, ...]) -> Iterator[Expression]:
    for each in statements:
        if isinstance(each, Assignment):
            yield each.value
        else:
            yield each.condition
            yield from _values((*each.then, *each.otherwise))


@dataclass
class _Updates:
    """Updates of the registers by one event.

    Attributes:
        left: assignments to come, by field.
        current: the register that has the value of a field at this place of the statements.
        made: the updates, in order.
    """

    of: _Translation
    left: Counter[str]
    current: dict[str, str] = field(init=False)
    made: list[tuple[str, Expression]] = field(init=False)

    def __post_init__(self) -> None:
        of = self.of
        self.current = dict(of.registers)
        # The first event of an instant keeps the values before it; null is no time, so it differs.
        new = Binary("!=", Moment("hi", ""), Name(of.last))
        self.made = [
            (before, Call("if", (new, Name(of.registers[name]), Name(before)))) for name, before in of.before.items()
        ]
        self.made.append((of.last, Moment("hi", "")))

    def statements(self, statements: tuple[Statement, ...], guard: Expression | None) -> None:
        """Add statements, which are done where the guard holds."""
        for each in statements:
            if isinstance(each, Assignment):
                self._assign(each, guard)
                continue
            condition = self._read(each.condition)
            if guard is not None:
                condition = conjunction(guard, condition)
            only = len(each.then) == 1 and isinstance(each.then[0], Assignment)
            if not only or each.otherwise:
                condition = self.condition(condition, each.span)
            self.statements(each.then, condition)
            if each.otherwise:
                other = negation(condition)
                if guard is not None:
                    other = self.condition(conjunction(guard, other), each.span)
                self.statements(each.otherwise, other)

    def condition(self, condition: Expression, span: Span | None) -> Expression:
        """A register that has whether a condition holds here."""
        name = self.of.names.make("if")
        self.of.made[name] = FALSE
        self.made.append((name, condition))
        return Name(name, span=span)

    def _assign(self, each: Assignment, guard: Expression | None) -> None:
        value = self._read(each.value)
        if guard is not None:
            value = Call("if", (guard, value, Name(self.current[each.name], span=each.span)), span=each.span)
        self.left[each.name] -= 1
        register = self.of.registers[each.name]
        if self.left[each.name]:
            register = self.of.names.make(each.name)
            self.of.made[register] = _NULL
        self.made.append((register, value))
        self.current[each.name] = register

    def _read(self, value: Expression) -> Expression:
        """A value over registers."""

        def register(node: Expression) -> Expression:
            if isinstance(node, Field) and node.variable == STATE:
                return Name(self.current[node.attribute], span=node.span)
            return node

        return transform(value, register)
