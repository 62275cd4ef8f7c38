"""Patterns as Python values, put together by methods and operators.

Every method gives a new pattern and leaves the old ones as they are. Nothing is compiled here: a pattern is written out
as text of the core language (`str(pattern)`), which broker nodes compile. Strings may stand for event types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, TypeAlias

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.durations import duration, when
from distced.middleware.patterns.operands import Given, Value, as_value

if TYPE_CHECKING:
    from distced.middleware.patterns.events import Described, EventSet, Timer, TimerToken

PatternLike: TypeAlias = "Pattern | str"
"""A pattern, or the name of an event type for any event of it."""

SetLike: TypeAlias = "EventSet | str"
"""A describable set, or the name of an event type."""

Duration: TypeAlias = str | timedelta
"""`"5min"`, or a timedelta."""

When: TypeAlias = str | timedelta | time | datetime
"""`"5min"`, a timedelta; `"at 19:00"`, a time of day; `"at 2026-11-21T08:00Z"`, a datetime with a zone."""

Condition: TypeAlias = "Value | bool | str"
"""A condition over attributes, or its text."""


class Pattern:
    """A pattern: what may be written where the core language has a C."""

    def then(self, *others: PatternLike) -> Pattern:
        """`C1 ; C2`: the others follow in turn, each strongly: it begins after the one before has ended."""
        return _joined(Sequence, self, others)

    def followed_by(self, *others: PatternLike) -> Pattern:
        """`C1 C2`: the others follow in turn, each weakly: it may overlap with the one before."""
        return _joined(Concatenation, self, others)

    def after(self, *others: PatternLike) -> Pattern:
        """`C2 ; C1`: this one after the others, which are in turn."""
        if not others:
            return self
        first, *rest = map(as_pattern, others)
        return first.then(*rest, self)

    def __or__(self, other: PatternLike) -> Pattern:
        """`C1 | C2`: either, each an instance of its own. For events alike in all that follows take a union."""
        return _joined(Alternation, self, (other,))

    def __ror__(self, other: PatternLike) -> Pattern:
        return as_pattern(other) | self

    def __and__(self, other: PatternLike) -> Pattern:
        """`C1 & C2`: both, in any order, overlapping or not."""
        return Parallel(self, as_pattern(other))

    def __rand__(self, other: PatternLike) -> Pattern:
        return as_pattern(other) & self

    def repeated(self, least: int, most: int | None = None) -> Pattern:
        """`C{least,most}`: so often, weakly in turn; exactly `least` times where `most` is left out."""
        return Iteration(self, *_times(least, least if most is None else most))

    def at_least(self, least: int) -> Pattern:
        """`C{least,}`: so often or more."""
        return Iteration(self, *_times(least, None))

    def at_least_once(self) -> Pattern:
        """`C+`."""
        return Iteration(self, 1, None)

    def any_times(self) -> Pattern:
        """`C*`: any number of times, or not at all."""
        return Iteration(self, 0, None)

    def optional(self) -> Pattern:
        """`C{0,1}`: once, or not at all."""
        return Iteration(self, 0, 1)

    def hidden(self) -> Pattern:
        """`~C`: what it matches is no constituent of the composite event."""
        return Hidden(self)

    def __invert__(self) -> Pattern:
        return self.hidden()

    def among(self, *sets: SetLike) -> Pattern:
        """`[ C <= Σ ]`: every state inside also looks at these events, and fails by one it has no use for.

        Of an event: `[A <= Σ]`, its domain is just these. Name the event itself too, or it cannot be matched.
        """
        return Scope(self, _described(sets))

    def without(self, *sets: SetLike) -> Pattern:
        """The pattern with none of these events in between: one that comes where it is not matched ends the match.

        Of an event: `[A <= {A, Σ}]`, the next A if none of these comes before it.
        """
        return Scope(self, _described(sets))

    def within(self, length: Duration) -> Pattern:
        """`C within 5s`: all it matches lies within a span of this length."""
        return Window(self, duration(length))

    def by(self, *attributes: str) -> Pattern:
        """`C by room`: everything in it is read for each value of the attributes on its own."""
        if not attributes:
            raise PatternError("by needs an attribute", allowed="one or more names")
        return Keyed(self, attributes)

    def timeout(
        self, after: When, second: Callable[[Timer], PatternLike], *, name: str | None = None
    ) -> Pattern:  # fmt: skip
        """`(C1, C2) @ T = 5min`: this pattern, and after it what `second` makes of the time event.

        Args:
            after: how long after the end of this pattern the time event comes, or when.
            second: is given the time event, an event like others, and returns the pattern that follows.
            name: what it is called in the text; T, T2, ... where it is left out.
        """
        from distced.middleware.patterns.events import Timer, TimerToken

        token = TimerToken(when(after), name)
        return Timing(self, as_pattern(second(Timer(token))), token)

    def unless(self, *sets: SetLike, within: When) -> Pattern:
        """`(C, [T <= {T, A}]) @ T = 5min`: this pattern, if then none of these events comes before the time is up."""
        return self.timeout(within, lambda timer: timer.without(*sets))

    def init(self, **registers: Given) -> Pattern:
        """`init n = 0 : C`: registers with the values they have at the start of each match."""
        if not registers:
            raise PatternError("init needs a register", allowed="name=value")
        return Init(self, tuple((name, as_value(value)) for name, value in registers.items()))

    def publish(
        self,
        name: str,
        attributes: Mapping[str, Given] | None = None,
        /,
        *,
        where: Condition | Iterable[Condition] = (),
        **more: Given,
    ) -> Publication:
        """`C -> Name(attr = expr) where expr`: what its composite events are called and carry, and a final filter.

        Args:
            attributes: by name, for names that cannot be Python's keywords; the others are given as keywords.
            where: conditions on the attributes of events and on those published here, `value("name")`.
        """
        from distced.middleware.patterns.events import conditions

        wanted = (where,) if isinstance(where, Value | str | bool) else tuple(where)
        pairs = {**(attributes or {}), **more}
        published = tuple((key, as_value(given)) for key, given in pairs.items())
        return Publication(self, name, published, conditions(wanted, {}))

    def __str__(self) -> str:
        from distced.middleware.patterns.writing import write

        return write(self)

    def __repr__(self) -> str:
        from distced.middleware.patterns.writing import write

        return f"<{type(self).__name__} {write(self, lenient=True)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Publication:
    """A pattern with what it publishes.

    Attributes:
        pattern: what is detected.
        name: the type of its composite events.
        attributes: their attributes.
        where: the final filter; conditions that all have to hold.
    """

    pattern: Pattern
    name: str
    attributes: tuple[tuple[str, Value], ...]
    where: tuple[Value | str, ...]

    def __str__(self) -> str:
        from distced.middleware.patterns.writing import write

        return write(self)

    def __repr__(self) -> str:
        return f"<Publication {self.name}>"


# What methods build; one class for each row of the language's table.


@dataclass(frozen=True, eq=False, repr=False)
class Concatenation(Pattern):
    parts: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Sequence(Pattern):
    parts: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Alternation(Pattern):
    parts: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Parallel(Pattern):
    left: Pattern
    right: Pattern


@dataclass(frozen=True, eq=False, repr=False)
class Iteration(Pattern):
    body: Pattern
    least: int
    most: int | None


@dataclass(frozen=True, eq=False, repr=False)
class Hidden(Pattern):
    body: Pattern


@dataclass(frozen=True, eq=False, repr=False)
class Scope(Pattern):
    body: Pattern
    domain: Described


@dataclass(frozen=True, eq=False, repr=False)
class Window(Pattern):
    body: Pattern
    length: str


@dataclass(frozen=True, eq=False, repr=False)
class Keyed(Pattern):
    body: Pattern
    attributes: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Timing(Pattern):
    first: Pattern
    second: Pattern
    timer: TimerToken


@dataclass(frozen=True, eq=False, repr=False)
class Init(Pattern):
    body: Pattern
    registers: tuple[tuple[str, Value], ...]


def as_pattern(given: PatternLike) -> Pattern:
    """A pattern of what stands in its place."""
    if isinstance(given, Pattern):
        return given
    if isinstance(given, str):
        from distced.middleware.patterns.events import event

        return event(given)
    raise PatternError("not a pattern", given=given, allowed="a pattern, or the name of an event type")


def _joined(
    joint: type[Concatenation] | type[Sequence] | type[Alternation], first: Pattern, others: Iterable[PatternLike]
) -> Pattern:
    """A joint of any length: `a.then(b).then(c)` is `[A] ; [B] ; [C]`."""
    parts = first.parts if type(first) is joint else (first,)
    added = tuple(map(as_pattern, others))
    return joint((*parts, *added)) if added else first


def _times(least: int, most: int | None) -> tuple[int, int | None]:
    if least < 0 or (most is not None and (most < least or most == 0)):
        raise PatternError("not a number of times", given=f"{least} to {most}", allowed="0 <= least <= most, most > 0")
    return least, most


def _described(sets: Iterable[SetLike]) -> Described:
    from distced.middleware.patterns.events import described

    return described(sets)
