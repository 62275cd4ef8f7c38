"""Events in patterns: describable sets, the atoms they make, and time events.

An event object stands for one event of the pattern. Its attributes are read as `door.room`, or `door["by"]` where a
method has the name. Inside its own `where` they are those of the event at hand; anywhere else they are those of the
event that it matched, and it is given a variable in the text. So take a new `event(...)` for each event of the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.operands import AttributeOf, Given, Value, as_value, value
from distced.middleware.patterns.pattern import Condition, Duration, Pattern, SetLike
from distced.middleware.patterns.raw_conditions import check_text


@dataclass(frozen=True, eq=False, slots=True)
class TypeOf:
    """All events of a type; for a derived one with the statement that derives it."""

    name: str
    statement: Derivation | None = None


@dataclass(frozen=True, eq=False, slots=True)
class AnyOf:
    """`any`."""


@dataclass(frozen=True, eq=False, slots=True)
class UnionOf:
    members: tuple[Described, ...]


@dataclass(frozen=True, eq=False, slots=True)
class IntersectionOf:
    left: Described
    right: Described


@dataclass(frozen=True, eq=False, slots=True)
class DifferenceOf:
    left: Described
    right: Described


@dataclass(frozen=True, eq=False, slots=True)
class FilterOf:
    """`A where condition`.

    Attributes:
        conditions: all have to hold; a text as it stands.
        owner: the event at hand in them.
    """

    base: Described
    conditions: tuple[Value | str, ...]
    owner: EventSet


@dataclass(frozen=True, eq=False, slots=True)
class TimerToken:
    """A time event: when it is due, and its name if it was given one."""

    when: str
    name: str | None


Described: TypeAlias = TypeOf | AnyOf | UnionOf | IntersectionOf | DifferenceOf | FilterOf | TimerToken


@dataclass(frozen=True, eq=False, slots=True)
class Derivation:
    """`type Name = Base where condition every 1min by (person, room)`."""

    name: str
    base: Described
    every: str
    by: tuple[str, ...]


class EventSet(Pattern):
    """A describable set, and the atom `[A]` that matches one event of it."""

    _described: Described
    _domain: Described | None
    _variable: str
    _updates: tuple[tuple[str, Value], ...]
    _negated: bool
    _parents: tuple[EventSet, ...]

    def __init__(
        self,
        described: Described,
        *,
        domain: Described | None = None,
        variable: str = "",
        updates: tuple[tuple[str, Value], ...] = (),
        negated: bool = False,
        parents: tuple[EventSet, ...] = (),
    ) -> None:
        self._described = described
        self._domain = domain
        self._variable = variable
        self._updates = updates
        self._negated = negated
        self._parents = parents

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return AttributeOf(self, name)

    def __getitem__(self, name: str) -> Value:
        """An attribute by name, for names that are methods here."""
        return AttributeOf(self, name)

    def __iter__(self) -> Iterator[object]:
        raise TypeError("an event of a pattern is nothing to go through")

    def where(self, *wanted: Condition, **equal: Given) -> EventSet:
        """`A where condition`: only events for which all of this holds.

        Args:
            wanted: conditions, `door.room == other.room`, or their text, `"temp < 15"`.
            equal: attributes and the values they must have, `room="FE02"`.
        """
        if self._negated:
            raise PatternError("a condition on what is excluded", advice="give it before: other_than(a.where(...))")
        made = self._changed()
        given = conditions(wanted, equal)
        if isinstance(self._described, FilterOf):
            given = (*self._described.conditions, *given)
            made._described = FilterOf(self._described.base, given, made)
        elif given:
            made._described = FilterOf(self._described, given, made)
        return made

    def named(self, variable: str) -> EventSet:
        """`[A as x]`: the variable it is bound to, for conditions that are given as text."""
        made = self._changed()
        made._variable = variable
        return made

    def set(self, **updates: Given) -> EventSet:
        """`[A set n = n + 1]`: new values for registers, `set(n=value("n") + 1)`, when it is matched."""
        made = self._changed()
        made._updates = (*self._updates, *((name, as_value(given)) for name, given in updates.items()))
        return made

    def among(self, *sets: SetLike) -> EventSet:
        made = self._changed()
        made._domain = described(sets)
        return made

    def without(self, *sets: SetLike) -> EventSet:
        if self._negated:
            raise PatternError("an event is excluded already", advice="name it among the others: .among(...)")
        made = self._changed()
        domain = self._domain if self._domain is not None else self._described
        before = domain.members if isinstance(domain, UnionOf) else (domain,)
        made._domain = UnionOf((*before, *map(as_set, sets)))
        return made

    def union(self, *others: SetLike) -> EventSet:
        """`{A, B}`: an event of either; one instance, whichever it is."""
        sets = [each for each in others if isinstance(each, EventSet)]
        members = tuple(map(as_set, (self, *others)))
        return EventSet(UnionOf(members) if len(members) > 1 else members[0], parents=(self, *sets))

    def intersection(self, other: SetLike) -> EventSet:
        """`A & B`: an event that is in both."""
        parents = (self, other) if isinstance(other, EventSet) else (self,)
        return EventSet(IntersectionOf(as_set(self), as_set(other)), parents=parents)

    def difference(self, other: SetLike) -> EventSet:
        """`A - B`: an event that is in this one and not in the other."""
        return EventSet(DifferenceOf(as_set(self), as_set(other)), parents=(self,))

    def ancestors(self) -> Iterator[EventSet]:
        """It and the events it was made of."""
        yield self
        for parent in self._parents:
            yield from parent.ancestors()

    def _changed(self) -> EventSet:
        return type(self)(
            self._described,
            domain=self._domain,
            variable=self._variable,
            updates=self._updates,
            negated=self._negated,
            parents=(self,),
        )


class Timer(EventSet):
    """A time event."""


def event(*types: str) -> EventSet:
    """An event of a type, or of one of several."""
    if not types or not all(isinstance(each, str) and each for each in types):
        raise PatternError("not an event type", given=types, allowed="one or more names")
    members = tuple(map(TypeOf, types))
    return EventSet(members[0] if len(members) == 1 else UnionOf(members))


def any_event() -> EventSet:
    """`any`: every event that is published."""
    return EventSet(AnyOf())


def other_than(*sets: SetLike) -> EventSet:
    """`[!A <= Σ]`: the next event of a domain, which must be given by `among`, if it is none of these."""
    return EventSet(described(sets), negated=True)


def derived_type(
    name: str, base: SetLike, *, every: Duration | None = None, by: str | Iterable[str] = ()
) -> EventSet:  # fmt: skip
    """A type derived from another: filtered by `base.where(...)`, thinned to one event per interval and key.

    A `pattern_file` of patterns that use it holds the statement that derives it.
    """
    from distced.middleware.patterns.durations import duration

    plain = as_set(base)
    if not isinstance(plain.base if isinstance(plain, FilterOf) else plain, TypeOf):
        raise PatternError("a type is derived from one other", given=repr(base), allowed="a type, filtered perhaps")
    keys = (by,) if isinstance(by, str) else tuple(by)
    if keys and every is None:
        raise PatternError("by thins, and needs every", given=", ".join(keys), advice="add every='1min'")
    statement = Derivation(name, plain, "" if every is None else duration(every), keys)
    return EventSet(TypeOf(name, statement))


def conditions(wanted: Iterable[Condition], equal: Mapping[str, Given]) -> tuple[Value | str, ...]:
    """Conditions that all have to hold, texts checked."""
    given = tuple(check_text(each) if isinstance(each, str) else as_value(each) for each in wanted)
    return (*given, *(value(name) == expected for name, expected in equal.items()))


def as_set(given: SetLike) -> Described:
    """A describable set of what stands in its place."""
    if isinstance(given, str):
        return TypeOf(given)
    if not isinstance(given, EventSet):
        raise PatternError("not a set of events", given=given, allowed="an event, or the name of an event type")
    if given._domain is not None or given._updates or given._negated:
        raise PatternError(
            "an event with a domain of its own cannot be part of a set",
            given=repr(given),
            advice="take the plain event",
        )
    return given._described


def described(sets: Iterable[SetLike]) -> Described:
    """The union of sets."""
    members = tuple(map(as_set, sets))
    if not members:
        raise PatternError("no events are named", allowed="one or more events or names of event types")
    return members[0] if len(members) == 1 else UnionOf(members)
