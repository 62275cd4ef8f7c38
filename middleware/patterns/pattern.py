"""Patterns as Python values, put together by methods and operators.

Every method gives a new pattern and leaves the old ones as they are. The result is a tree of the core language, with
placeholders for names (`naming`); `str(pattern)` prints it, and broker nodes compile the text. Strings may stand for
event types.

An event object stands for one event of the pattern. Its attributes are read as `door.room`, or `door["by"]` where a
method has the name. Inside its own `where` they are those of the event at hand; anywhere else they are those of the
event that it matched, and it is given a variable in the text. So take a new `event(...)` for each event of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import TypeAlias

from distced.middleware.model.clock_rules import cron_clock, every_clock
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns import operands, tree
from distced.middleware.patterns.naming import Placeholder, placeholder, type_names, with_names
from distced.middleware.patterns.operands import ConditionLike, Given, Value, condition_of, expression_of
from distced.middleware.patterns.printer import format_file, format_pattern, format_private, format_publication
from distced.middleware.patterns.statements import CONSUMPTIONS, NO_STATE, NO_STATE_ADVICE
from distced.middleware.sets.aggregates import OVER, is_aggregate, is_sliding, slides
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
    walk_set,
)
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Moment, Name, transform, walk
from distced.middleware.sets.state_reads import ALL, COUNT, CURRENT, GROUP_READS, LAST

PatternLike: TypeAlias = "Pattern | str"
"""A pattern, or the name of an event type for any event of it."""

SetLike: TypeAlias = "EventSet | str"
"""A describable set, or the name of an event type."""

Duration: TypeAlias = str | timedelta
"""`"5min"`, or a timedelta."""

When: TypeAlias = Value | str | timedelta | time | datetime
"""`"5min"`, a timedelta; `"at 19:00"`, a time of day; `"at 2026-11-21T08:00Z"`, a datetime with a zone."""


class Pattern:
    """Pattern: may be written where the core language has a C."""

    def __init__(self, node: tree.Pattern) -> None:
        self._node = node

    @property
    def _tree(self) -> tree.Pattern:
        """Tree with placeholders."""
        return self._node

    def then(self, *others: PatternLike) -> Pattern:
        """`C1 ; C2`: the others follow in turn, each strongly: it begins after the one before has ended."""
        return _joined(tree.Sequence, self, others)

    def followed_by(self, *others: PatternLike) -> Pattern:
        """`C1 C2`: the others follow in turn, each weakly: it may overlap with the one before."""
        return _joined(tree.Concatenation, self, others)

    def after(self, *others: PatternLike) -> Pattern:
        """`C2 ; C1`: this one after the others, which are in turn."""
        if not others:
            return self
        first, *rest = map(as_pattern, others)
        return first.then(*rest, self)

    def __or__(self, other: PatternLike) -> Pattern:
        """`C1 | C2`: either, each an instance of its own. For events alike in all that follows take a union."""
        return _joined(tree.Alternation, self, (other,))

    def __ror__(self, other: PatternLike) -> Pattern:
        return as_pattern(other) | self

    def __and__(self, other: PatternLike) -> Pattern:
        """`C1 & C2`: both, in any order, overlapping or not."""
        return Pattern(tree.Parallel(self._tree, as_pattern(other)._tree))

    def __rand__(self, other: PatternLike) -> Pattern:
        return as_pattern(other) & self

    def repeated(self, least: int, most: int | None = None) -> Pattern:
        """`C{least,most}`: so often, weakly in turn; exactly `least` times where `most` is left out."""
        return Pattern(tree.Iteration(self._tree, *_times(least, least if most is None else most)))

    def at_least(self, least: int) -> Pattern:
        """`C{least,}`: so often or more."""
        return Pattern(tree.Iteration(self._tree, *_times(least, None)))

    def at_least_once(self) -> Pattern:
        """`C+`."""
        return Pattern(tree.Iteration(self._tree, 1, None))

    def any_times(self) -> Pattern:
        """`C*`: any number of times, or not at all."""
        return Pattern(tree.Iteration(self._tree, 0, None))

    def optional(self) -> Pattern:
        """`C{0,1}`: once, or not at all."""
        return Pattern(tree.Iteration(self._tree, 0, 1))

    def hidden(self) -> Pattern:
        """`~C`: what it matches is no constituent of the composite event."""
        return Pattern(tree.Hidden(self._tree))

    def __invert__(self) -> Pattern:
        return self.hidden()

    def among(self, *sets: SetLike) -> Pattern:
        """`[ C <= Σ ]`: every state inside also looks at these events, and fails by one it has no use for.

        Of an event: `[A <= Σ]`, its domain is just these. Name the event itself too, or it cannot be matched.
        """
        return Pattern(tree.Scope(self._tree, _union(sets)))

    def without(self, *sets: SetLike) -> Pattern:
        """The pattern with none of these events in between: one that comes where it is not matched ends the match.

        Of an event: `[A <= {A, Σ}]`, the next A if none of these comes before it.
        """
        return Pattern(tree.Scope(self._tree, _union(sets)))

    def within(self, length: Duration) -> Pattern:
        """`C within 5s`: all it matches lies within a span of this length."""
        return Pattern(tree.Window(self._tree, operands.duration(length)))

    def by(self, *attributes: str) -> Pattern:
        """`C by room`: everything in it is read for each value of the attributes on its own."""
        if not attributes:
            raise PatternError("by needs an attribute", allowed="one or more names")
        return Pattern(tree.Keyed(self._tree, attributes))

    def timeout(
        self, after: When, second: Callable[[Timer], PatternLike], *, name: str | None = None
    ) -> Pattern:  # fmt: skip
        """`(C1, C2) @ T = 5min`: this pattern, and after it the one that `second` makes of the time event.

        Args:
            after: delay of the time event after the end of this pattern, or its due time.
            second: called with the time event, an event like others; returns the pattern that follows.
            name: in the text; T, T2, ... where left out.
        """
        due = operands.when(after)
        timer = placeholder(name or "")
        following = as_pattern(second(Timer(TypeSet(timer))))
        return Pattern(tree.Timing(self._tree, following._tree, timer, due))

    def unless(self, *sets: SetLike, within: When) -> Pattern:
        """`(C, [T <= {T, A}]) @ T = 5min`: this pattern, if then none of these events comes before the time is up."""
        return self.timeout(within, lambda timer: timer.without(*sets))

    def init(self, **registers: Given) -> Pattern:
        """`init n = 0 : C`: registers with the values they have at the start of each match."""
        if not registers:
            raise PatternError("init needs a register", allowed="name=value")
        return Pattern(tree.Init(_pairs(registers), self._tree))

    def publish(
        self,
        name: str,
        attributes: Mapping[str, Given] | None = None,
        /,
        *,
        where: ConditionLike | Iterable[ConditionLike] = (),
        **more: Given,
    ) -> Publication:
        """`C -> Name(attr = expr) where expr`: name and attributes of its composite events, and a final filter.

        Args:
            attributes: by name, for names that cannot be Python's keywords; the others are given as keywords.
            where: conditions on the attributes of events and on those published here, `value("name")`.
        """
        wanted = (where,) if isinstance(where, Value | str | bool) else where
        pairs = _pairs({**(attributes or {}), **more})
        return Publication(tree.Publication(self._tree, tree.Output(name, pairs, _all(map(condition_of, wanted)))))

    def once(self) -> Publication:
        """`once C`: one instance, or one for each key, begins with the first event that concerns it, never again."""
        return Publication(tree.Publication(self._tree, once=True))

    def __str__(self) -> str:
        return format_pattern(with_names(self._tree)[0])

    def __repr__(self) -> str:
        return f"<{type(self._tree).__name__} {format_pattern(with_names(self._tree, lenient=True)[0])}>"


class EventSet(Pattern):
    """Describable set, and the atom `[A]` that matches one event of it."""

    _label: DescribableSet
    _domain: DescribableSet | None
    _updates: tuple[tuple[str, Expression], ...]
    _excluded: bool
    _variable: Placeholder

    def __init__(
        self,
        label: DescribableSet,
        *,
        domain: DescribableSet | None = None,
        updates: tuple[tuple[str, Expression], ...] = (),
        excluded: bool = False,
        variable: str = "",
        origins: Iterable[EventSet] = (),
    ) -> None:
        self._label = label
        self._domain = domain
        self._updates = updates
        self._excluded = excluded
        made_of = frozenset[str]().union(*(each._variable.origins for each in origins))
        self._variable = placeholder(variable, type_names(label), made_of)

    @property
    def _tree(self) -> tree.Pattern:
        if not self._excluded:
            return tree.Atom(self._label, self._domain, self._variable, self._updates)
        if self._domain is None:
            raise PatternError("a negation needs a domain", given=self._text(), advice="add .among(...)")
        return tree.Atom(Difference(self._domain, self._label), self._domain, self._variable, self._updates)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Value:
        """An attribute by name, for names that are methods here."""
        return Value(Field(self._variable, name))

    def __iter__(self) -> Iterator[object]:
        raise TypeError("an event of a pattern is nothing to go through")

    def where(self, *wanted: ConditionLike, **equal: Given) -> EventSet:
        """`A where condition`: only events for which all of this holds.

        Args:
            wanted: conditions, `door.room == other.room`, or their text, `"temp < 15"`.
            equal: attributes and the values they must have, `room="FE02"`.
        """
        if self._excluded:
            raise PatternError("a condition on what is excluded", advice="give it before: other_than(a.where(...))")
        given = [self._at_hand(condition_of(each)) for each in wanted]
        given += [Binary("==", Name(name), expression_of(each)) for name, each in equal.items()]
        base = self._label
        if isinstance(base, Filtered):
            given.insert(0, base.condition)
            base = base.base
        condition = _all(given)
        return self._changed(label=base if condition is None else Filtered(base, condition))

    def named(self, variable: str) -> EventSet:
        """`[A as x]`: the variable it is bound to, for conditions that are given as text."""
        return self._changed(variable=variable)

    def set(self, **updates: Given) -> EventSet:
        """`[A set n = n + 1]`: new values for registers, `set(n=value("n") + 1)`, when it is matched."""
        added = ((name, self._at_hand(new)) for name, new in _pairs(updates))
        return self._changed(updates=(*self._updates, *added))

    def among(self, *sets: SetLike) -> EventSet:
        return self._changed(domain=_union(sets))

    def without(self, *sets: SetLike) -> EventSet:
        if self._excluded:
            raise PatternError("an event is excluded already", advice="name it among the others: .among(...)")
        domain = self._domain if self._domain is not None else self._label
        before = domain.members if isinstance(domain, Union) else (domain,)
        return self._changed(domain=Union((*before, *map(_as_set, sets))))

    def union(self, *others: SetLike) -> EventSet:
        """`{A, B}`: an event of either; one instance, whichever it is."""
        return EventSet(_union((self, *others)), origins=_events(self, *others))

    def intersection(self, other: SetLike) -> EventSet:
        """`A & B`: an event that is in both."""
        return EventSet(Intersection(_as_set(self), _as_set(other)), origins=_events(self, other))

    def difference(self, other: SetLike) -> EventSet:
        """`A - B`: an event that is in this one and not in the other."""
        return EventSet(Difference(_as_set(self), _as_set(other)), origins=(self,))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._text()}>"

    def _text(self) -> str:
        if self._excluded and self._domain is None:
            return f"[!{EventSet(self._label)._text()[1:-1]}]"
        return format_pattern(with_names(self._tree, lenient=True)[0])

    def _at_hand(self, expression: Expression) -> Expression:
        """Expression with this event, and those it was made of, as the event at hand."""

        kept = dict[str, Expression]()

        def restore(node: Expression) -> Expression:
            return kept.get(node.name, node) if isinstance(node, Name) else node

        def keep(node: Expression) -> Expression:
            # What an aggregate is over are the events before, not the one at hand.
            if is_sliding(node):
                # These are over values of the event at hand.
                return transform(node, restore)
            if any(_states(node)):
                # So are keys of a state.
                return node
            if is_aggregate(node):
                kept[name := f"\n{len(kept)}"] = node
                return Name(name)
            return node

        def change(node: Expression) -> Expression:
            match node:
                case Field(variable=variable, attribute=attribute) if variable in self._variable.origins:
                    return Name(attribute)
                case Moment(end=end, variable=variable) if variable in self._variable.origins:
                    return Moment(end, "")
                case Name(name=name):
                    return kept.get(name, node)
                case _:
                    return node

        return transform(transform(expression, keep), change)

    def _changed(
        self,
        *,
        label: DescribableSet | None = None,
        domain: DescribableSet | None = None,
        updates: tuple[tuple[str, Expression], ...] | None = None,
        variable: str = "",
    ) -> EventSet:
        return type(self)(
            self._label if label is None else label,
            domain=self._domain if domain is None else domain,
            updates=self._updates if updates is None else updates,
            excluded=self._excluded,
            variable=variable or self._variable.wanted,
            origins=(self,),
        )


class Timer(EventSet):
    """Time event."""


class Publication:
    """Pattern with the composite event it publishes."""

    def __init__(self, node: tree.Publication) -> None:
        self._tree = node

    def consumed(self, consumption: str) -> Publication:
        """`C -> Name(...) consumed epoch`: `"epoch"`, all events of an instant together, or `"ordered"`, one by one."""
        if consumption not in CONSUMPTIONS:
            raise PatternError("unknown kind of consumption", given=consumption, allowed=", ".join(CONSUMPTIONS))
        return Publication(replace(self._tree, consumption=consumption))

    def once(self) -> Publication:
        """`once C -> Name(...)`: one instance, or one for each key, begins with the first event that concerns it, and
        never again."""
        return Publication(replace(self._tree, once=True))

    def take_first(self, event: EventSet | str) -> Publication:
        """`C -> Name(...) take first x`: of the matches completed together those with the earliest such event."""
        return self._taking("first", event)

    def take_last(self, event: EventSet | str) -> Publication:
        """`C -> Name(...) take last x`: of the matches completed together those with the latest such event."""
        return self._taking("last", event)

    def take_where(self, event: EventSet | str, condition: ConditionLike) -> Publication:
        """`C -> Name(...) take x where condition`: of the matches completed together those for which it holds."""
        return self._taking("where", event, condition_of(condition))

    def consuming(self, *, all: bool = False) -> Publication:  # noqa: A002
        """`C -> Name(...) consuming`: each event is in one match. With `all` no matches overlap."""
        return self._published(lambda output: replace(output, consuming="all" if all else "variables"))

    def at_most_one_per(self, length: Duration, *, by: str | Iterable[str] = ()) -> Publication:
        """`C -> Name(...) at most 1 per 10min by user`: after a composite event none with the same values of these
        attributes for a time."""
        quiet = tree.Quiet(operands.duration(length), (by,) if isinstance(by, str) else tuple(by))
        if not quiet.length:
            raise PatternError("at most one in no time is every one", given=length, allowed="from 1ns")
        return self._published(lambda output: replace(output, quiet=quiet))

    def _taking(self, kind: str, event: EventSet | str, condition: Expression | None = None) -> Publication:
        selection = tree.Selection(kind, event if isinstance(event, str) else event._variable, condition)
        return self._published(lambda output: replace(output, take=(*output.take, selection)))

    def _published(self, change: Callable[[tree.Output], tree.Output]) -> Publication:
        output = self._tree.output
        if output is None:
            raise PatternError("a selection among matches that have no type", advice='add .publish("Name")')
        return Publication(replace(self._tree, output=change(output)))

    def settled(self) -> Publication:
        """`C -> Name(...) settled`: composite events at the end of an instant, for what then stands."""
        return Publication(replace(self._tree, settled=True))

    def private(self) -> PrivatePublication:
        """`private C -> Name(...)`: read as `event("Name")` in a `pattern_file`, or by `reading`, with its constituents
        in its place; not delivered."""
        if self._tree.output is None:
            raise PatternError("a private publication without a name", advice='add .publish("Name")')
        return PrivatePublication(_complete(self))

    def reading(self, *privates: PrivatePublication) -> Publication:
        """`private C -> Name(...) : C2`: with private publications that only this pattern, and each other, read."""
        if not privates or not all(isinstance(each, PrivatePublication) for each in privates):
            raise PatternError(
                "not private publications", given=privates, allowed='one or more of .publish("X").private()'
            )
        added = tuple(each._tree for each in privates)
        return Publication(replace(self._tree, privates=(*self._tree.privates, *added)))

    def __str__(self) -> str:
        return format_publication(_complete(self))

    def __repr__(self) -> str:
        output = self._tree.output
        return f"<Publication {output.type_name if output else ''}>"


class PrivatePublication:
    """Private publication, complete. `str` of it is its statement in a pattern file."""

    def __init__(self, publication: tree.Publication) -> None:
        self._tree = publication

    def __str__(self) -> str:
        return format_private(self._tree)

    def __repr__(self) -> str:
        return f"<PrivatePublication {self._tree.output.type_name if self._tree.output else ''}>"


class PatternFile:
    """Patterns detected together, and the types they derive. `str` of it is the text of the pattern file."""

    def __init__(self, patterns: tuple[Pattern | Publication | PrivatePublication, ...]) -> None:
        self._patterns = patterns

    def __str__(self) -> str:
        publications = tuple(_complete(each) for each in self._patterns if not isinstance(each, PrivatePublication))
        privates = tuple(each._tree for each in self._patterns if isinstance(each, PrivatePublication))
        every = (*privates, *(each for one in publications for each in (*one.privates, one)))
        types = {each.name: each for publication in every for each in _derived_types(publication.pattern)}
        return format_file(tree.PatternFile(tuple(types.values()), (), publications, privates))


class _DerivedName(str):
    """Name of a derived type, with the statement of its derivation."""

    statement: tree.DerivedType


def event(*types: str) -> EventSet:
    """Event of a type, or of one of several."""
    if not types or not all(isinstance(each, str) and each for each in types):
        raise PatternError("not an event type", given=types, allowed="one or more names")
    return EventSet(_union(types))


def any_event() -> EventSet:
    """`any`: every event that is published."""
    return EventSet(AnySet())


def other_than(*sets: SetLike) -> EventSet:
    """`[!A <= Σ]`: the next event of a domain, which must be given by `among`, if it is none of these."""
    return EventSet(_union(sets), excluded=True)


def lo(event: EventSet) -> Value:
    """Start of an event's timestamp, ns."""
    return Value(Moment("lo", event._variable))


def hi(event: EventSet) -> Value:
    """End of an event's timestamp, ns."""
    return Value(Moment("hi", event._variable))


def count(event: EventSet) -> Value:
    """Number of the events that an event object has stood for in a match: `count(p)` for `p.at_least_once()`."""
    return Value(Call("count", (Moment("hi", event._variable),)))


def over(aggregate: Value, length: Duration) -> Value:
    """Aggregate over a sliding window, for a computed attribute: `over(call("avg", temp.temp), "10min")`."""
    return Value(Call(OVER, (aggregate.expression, Literal(operands.duration(length)))))


def derived_type(
    name: str,
    base: SetLike,
    *,
    computed: Mapping[str, Given] | None = None,
    every: Duration | None = None,
    at_most_one_per: Duration | None = None,
    by: str | Iterable[str] = (),
) -> EventSet:
    """Type derived from another: filtered by `base.where(...)`, with further attributes `computed` of those of `base`,
    throttled to one event per interval and key, or to one and then none for a time.

    A `pattern_file` of patterns that use it holds the statement that derives it.
    """
    described = _as_set(base)
    plain = described.base if isinstance(described, Filtered) else described
    if not isinstance(plain, TypeSet) or isinstance(plain.name, Placeholder):
        raise PatternError("a type is derived from one other", given=repr(base), allowed="a type, filtered perhaps")
    keys = (by,) if isinstance(by, str) else tuple(by)
    values = _pairs(computed or {})
    if keys and every is None and at_most_one_per is None and not any(slides(value) for _, value in values):
        raise PatternError("a key of throttling needs every", given=f"by {', '.join(keys)}", advice="add every='1min'")
    if every is not None and at_most_one_per is not None:
        raise PatternError("every and at_most_one_per in one type", advice="derive one type from the other")
    if isinstance(base, EventSet):
        values = tuple((each, base._at_hand(value)) for each, value in values)
    with_names(tree.Atom(described, updates=values))  # it reads no other event
    condition = described.condition if isinstance(described, Filtered) else None
    interval = 0 if every is None else operands.duration(every)
    quiet = 0 if at_most_one_per is None else operands.duration(at_most_one_per)
    derived = _DerivedName(name)
    derived.statement = tree.DerivedType(name, plain.name, condition, interval, keys, values, quiet)
    return EventSet(TypeSet(derived))


class State:
    """Last event of a type, for each value of a key, in the order of consumption; read in conditions and computed
    attributes of events."""

    def __init__(self, name: _DerivedName) -> None:
        self._name = name

    def last(self, attribute: str, *key: Given) -> Value:
        """Attribute of the last event before the one at hand: `inside.last("temp", door.room)`; null without one."""
        return self._read(LAST, attribute, key)

    def current(self, attribute: str, *key: Given) -> Value:
        """The same with the event at hand, where it is one of the state."""
        return self._read(CURRENT, attribute, key)

    def all(self, attribute: str, *key: Given) -> Value:
        """Whether an attribute is true of the last events of all keys that begin with these values."""
        return self._read(ALL, attribute, key)

    def count(self, attribute: str, *key: Given) -> Value:
        """Number of the keys that begin with these values in whose last event an attribute is not null."""
        return self._read(COUNT, attribute, key)

    def _read(self, function: str, attribute: str, key: tuple[Given, ...]) -> Value:
        by = self._name.statement.by
        if len(key) >= len(by) if function in GROUP_READS else len(key) != len(by):
            raise PatternError(
                f"the state {self._name} is kept by {', '.join(by) or 'nothing'}",
                given=f"{len(key)} values of a key",
                allowed=f"fewer than {len(by)}" if function in GROUP_READS else str(len(by)),
            )
        return Value(Call(function, (Field(self._name, attribute), *map(expression_of, key))))

    def __repr__(self) -> str:
        return f"<State {self._name}>"


def state(
    name: str, base: SetLike, *, computed: Mapping[str, Given] | None = None, by: str | Iterable[str] = ()
) -> State:
    """State of a type, filtered by `base.where(...)` perhaps, with further attributes `computed`: its last event, for
    each value of `by`. A `pattern_file` of patterns that read it holds the statement that defines it."""
    derived = derived_type(name, base, computed=computed)
    (described,) = (each for each in walk_set(derived._label) if isinstance(each, TypeSet))
    assert isinstance(described.name, _DerivedName)
    statement = described.name.statement
    if any(slides(value) for _, value in statement.computed):
        raise PatternError(NO_STATE, given=name, advice=NO_STATE_ADVICE)
    described.name.statement = replace(statement, by=(by,) if isinstance(by, str) else tuple(by), last=True)
    return State(described.name)


def clock_type(name: str, *, every: Duration | None = None, cron: str = "", zone: str = "UTC") -> EventSet:
    """Type of the events of a clock: `every` interval, aligned to the epoch, or by the five fields of `cron` in a time
    zone. A `pattern_file` of patterns that use it holds the statement that says so."""
    if (every is None) == (not cron):
        raise PatternError("not a clock", given=name, allowed="either every='1h' or cron='0 8 * * mon-fri'")
    clock = cron_clock(cron, zone) if every is None else every_clock(operands.duration(every))
    derived = _DerivedName(name)
    derived.statement = tree.DerivedType(name, clock)
    return EventSet(TypeSet(derived))


def pattern_file(*patterns: Publication | PrivatePublication | PatternLike) -> PatternFile:
    """Pattern file; one of the patterns may read what another publishes."""
    if not patterns:
        raise PatternError("a pattern file without a pattern", allowed="one or more")
    complete = (Publication, PrivatePublication)
    return PatternFile(tuple(each if isinstance(each, complete) else as_pattern(each) for each in patterns))


def as_pattern(given: PatternLike) -> Pattern:
    """Pattern; a name stands for any event of that type."""
    if isinstance(given, Pattern):
        return given
    if isinstance(given, str):
        return event(given)
    raise PatternError("not a pattern", given=given, allowed="a pattern, or the name of an event type")


def _joined(
    joint: type[tree.Concatenation] | type[tree.Sequence] | type[tree.Alternation],
    first: Pattern,
    others: Iterable[PatternLike],
) -> Pattern:
    """Joint of any length: `a.then(b).then(c)` is `[A] ; [B] ; [C]`."""
    node = first._tree
    parts = node.parts if isinstance(node, joint) else (node,)
    added = tuple(as_pattern(each)._tree for each in others)
    return Pattern(joint((*parts, *added))) if added else first


def _times(least: int, most: int | None) -> tuple[int, int | None]:
    if least < 0 or (most is not None and (most < least or most == 0)):
        raise PatternError("not a number of times", given=f"{least} to {most}", allowed="0 <= least <= most, most > 0")
    return least, most


def _pairs(given: Mapping[str, Given]) -> tuple[tuple[str, Expression], ...]:
    return tuple((name, expression_of(each)) for name, each in given.items())


def _all(conditions: Iterable[Expression]) -> Expression | None:
    """Conjunction of conditions, as it would be read; None of none."""
    joined: Expression | None = None
    for each in conditions:
        joined = each if joined is None else Binary("and", joined, each)
    return joined


def _complete(given: Pattern | Publication) -> tree.Publication:
    """Tree of a whole pattern, with names."""
    whole = given._tree if isinstance(given, Publication) else tree.Publication(given._tree)
    pattern, output = with_names(whole.pattern, whole.output)
    return replace(whole, pattern=pattern, output=output)


def _derived_types(pattern: tree.Pattern) -> Iterator[tree.DerivedType]:
    """Derived types a pattern uses, each after those it is derived from."""
    for node in tree.walk(pattern):
        for described in tree.sets_of(node):
            for each in walk_set(described):
                if isinstance(each, TypeSet):
                    yield from _statements(each.name)
        for expression in tree.expressions_of(node):
            yield from _states(expression)


def _statements(name: str) -> Iterator[tree.DerivedType]:
    if isinstance(name, _DerivedName):
        statement = name.statement
        yield from _statements(statement.base)
        for expression in (statement.condition, *(value for _, value in statement.computed)):
            yield from () if expression is None else _states(expression)
        yield statement


def _states(expression: Expression) -> Iterator[tree.DerivedType]:
    """Derived types behind the states that an expression reads."""
    for node in walk(expression):
        if isinstance(node, Field):
            yield from _statements(node.variable)


def _as_set(given: SetLike) -> DescribableSet:
    if isinstance(given, str):
        return TypeSet(given)
    if not isinstance(given, EventSet):
        raise PatternError("not a set of events", given=given, allowed="an event, or the name of an event type")
    if given._domain is not None or given._updates or given._excluded:
        raise PatternError(
            "an event with a domain of its own cannot be part of a set",
            given=repr(given),
            advice="take the plain event",
        )
    return given._label


def _union(sets: Iterable[SetLike]) -> DescribableSet:
    members = tuple(map(_as_set, sets))
    if not members:
        raise PatternError("no events are named", allowed="one or more events or names of event types")
    return members[0] if len(members) == 1 else Union(members)


def _events(*given: SetLike) -> tuple[EventSet, ...]:
    return tuple(each for each in given if isinstance(each, EventSet))
