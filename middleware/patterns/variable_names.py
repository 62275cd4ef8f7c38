"""What events are called in the text of a pattern: which of them need a variable, and its name."""

from __future__ import annotations

from collections.abc import Iterator

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.events import (
    AnyOf,
    Derivation,
    Described,
    DifferenceOf,
    EventSet,
    FilterOf,
    IntersectionOf,
    TimerToken,
    TypeOf,
    UnionOf,
)
from distced.middleware.patterns.operands import Value
from distced.middleware.patterns.pattern import (
    Alternation,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Parallel,
    Pattern,
    Publication,
    Scope,
    Sequence,
    Timing,
    Window,
)


class Names:
    """The names in one pattern.

    Attributes:
        atoms: the events it matches, in the order they are written.
        timers: the names of its time events.
    """

    def __init__(self, whole: Pattern | Publication, *, lenient: bool = False) -> None:
        pattern = whole.pattern if isinstance(whole, Publication) else whole
        self.lenient = lenient
        nodes = list(_walk(pattern))
        self.atoms = list(dict.fromkeys(node for node in nodes if isinstance(node, EventSet)))
        self._taken = {name for node in nodes for each in _sets(node) for name in type_names(each)}
        self._taken |= {name for node in nodes if isinstance(node, Init) for name, _ in node.registers}
        self._taken |= {atom._variable for atom in self.atoms}
        self.timers = self._name_timers(list(_timers(pattern)))
        self._variables: dict[EventSet, str] = {atom: atom._variable for atom in self.atoms if atom._variable}
        for reader, owner in _reads(nodes, whole):
            if reader is None or not _same(owner, reader):
                self._name(self.find(owner))

    def variable(self, owner: object, at_hand: EventSet | None) -> str:
        """The variable of an event that is read; empty where it is the event at hand."""
        if at_hand is not None and _same(owner, at_hand):
            return ""
        return self._variables[self.find(owner)]

    def bound(self, atom: EventSet) -> str:
        """The variable an atom is bound to; empty for none."""
        return self._variables.get(atom, "")

    def timer(self, token: TimerToken) -> str:
        """The name of a time event."""
        if token not in self.timers:
            if self.lenient:
                return token.name or "T"
            raise PatternError("a time event outside the pattern it belongs to", given=token.when)
        return self.timers[token]

    def find(self, owner: object) -> EventSet:
        """The atom that stands for an event that is read: itself, else the only one that was made of it."""
        assert isinstance(owner, EventSet)
        if owner in self.atoms:
            return owner
        made_of_it = [atom for atom in self.atoms if any(each is owner for each in atom.ancestors())]
        if len(made_of_it) == 1:
            return made_of_it[0]
        if self.lenient:
            self._name(owner)
            return owner
        if not made_of_it:
            raise PatternError(
                "an event is read that the pattern does not match",
                given=_readable(owner),
                advice="take the object that stands in the pattern, or one it was made of",
            )
        raise PatternError(
            "several events of the pattern are made of the one that is read",
            given=_readable(owner),
            advice="take the object that stands in the pattern: first = a.where(...), then first.room",
        )

    def _name(self, atom: EventSet) -> None:
        if atom in self._variables:
            return
        first = next(iter(type_names(atom._described)), "event")
        self._variables[atom] = self._fresh(first[0].lower() + first[1:])

    def _name_timers(self, tokens: list[TimerToken]) -> dict[TimerToken, str]:
        names = {token: token.name for token in tokens if token.name}
        self._taken |= set(names.values())
        return {token: names.get(token) or self._fresh("T") for token in dict.fromkeys(tokens)}

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}{number}"
        self._taken.add(name)
        return name


def _same(owner: object, at_hand: EventSet) -> bool:
    return any(each is owner for each in at_hand.ancestors())


def _readable(owner: EventSet) -> str:
    return ", ".join(type_names(owner._described)) or "any"


def derivations(whole: Pattern | Publication) -> Iterator[Derivation]:
    """The derived types a pattern uses, each after those it is derived from."""
    pattern = whole.pattern if isinstance(whole, Publication) else whole
    for node in _walk(pattern):
        for each in _sets(node):
            yield from _derivations(each)


def _derivations(described: Described) -> Iterator[Derivation]:
    match described:
        case TypeOf(statement=Derivation() as statement):
            yield from _derivations(statement.base)
            yield statement
        case _:
            for child in _inside(described):
                yield from _derivations(child)


def type_names(described: Described) -> Iterator[str]:
    """The event types a set names."""
    if isinstance(described, TypeOf):
        yield described.name
    for child in _inside(described):
        yield from type_names(child)


def _inside(described: Described) -> tuple[Described, ...]:
    match described:
        case UnionOf(members=members):
            return members
        case IntersectionOf(left=left, right=right) | DifferenceOf(left=left, right=right):
            return (left, right)
        case FilterOf(base=base):
            return (base,)
        case TypeOf() | AnyOf() | TimerToken():
            return ()


def _filters(described: Described) -> Iterator[FilterOf]:
    if isinstance(described, FilterOf):
        yield described
    for child in _inside(described):
        yield from _filters(child)


def _timers(pattern: Pattern) -> Iterator[TimerToken]:
    """The time events, each before those of what it sets in."""
    if isinstance(pattern, Timing):
        yield from _timers(pattern.first)
        yield pattern.timer
        yield from _timers(pattern.second)
        return
    for child in children(pattern):
        yield from _timers(child)


def _walk(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for child in children(pattern):
        yield from _walk(child)


def children(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside, in the order they are written."""
    match pattern:
        case Concatenation(parts=parts) | Sequence(parts=parts) | Alternation(parts=parts):
            return parts
        case Parallel(left=left, right=right):
            return (left, right)
        case Timing(first=first, second=second):
            return (first, second)
        case (
            Iteration(body=body)
            | Scope(body=body)
            | Hidden(body=body)
            | Window(body=body)
            | Keyed(body=body)
            | Init(body=body)
        ):
            return (body,)
        case _:
            return ()


def _sets(node: Pattern) -> list[Described]:
    if isinstance(node, EventSet):
        return [node._described] if node._domain is None else [node._described, node._domain]
    return [node.domain] if isinstance(node, Scope) else []


def _reads(nodes: list[Pattern], whole: Pattern | Publication) -> Iterator[tuple[EventSet | None, object]]:
    """Every event that is read, with the event at hand where it is read."""
    for node in nodes:
        for each in _sets(node):
            for filtered in _filters(each):
                for condition in filtered.conditions:
                    yield from _read_by(filtered.owner, condition)
        if isinstance(node, EventSet):
            for _, value in node._updates:
                yield from _read_by(node, value)
        if isinstance(node, Init):
            for _, value in node.registers:
                yield from _read_by(None, value)
    if isinstance(whole, Publication):
        for _, value in whole.attributes:
            yield from _read_by(None, value)
        for condition in whole.where:
            yield from _read_by(None, condition)


def _read_by(at_hand: EventSet | None, value: Value | str) -> Iterator[tuple[EventSet | None, object]]:
    if isinstance(value, Value):
        for owner in value.events():
            yield at_hand, owner
