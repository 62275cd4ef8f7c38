"""Literal interpreter of CEDR queries (frontends, section 6.2; cedr-2007, sections 3.3 and 4), by brute force.

Written from the definition: all assignments of events to operands are tried, those that are matches are put into
detections, and detections are selected from and consume one after the other. It knows nothing of branches, automata or
the order in which events come. Conditions are evaluated by the functions that evaluate those of the core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product
from typing import Any

from distced.detectors.frontends.cedr import cedr_tree as tree
from distced.middleware.model.events import Event, EventId
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.expressions import Expression, Field, Moment, transform, variables

_NONE = Event("", 0, 0, "", 0, {})
_AFTER_ALL = 1
"""Place of what is known at the end of an instant, behind all its events."""


@dataclass(frozen=True)
class Detected:
    """A composite event: ids of its constituents, attributes, timestamp."""

    constituents: frozenset[EventId]
    attributes: tuple[tuple[str, Any], ...]
    lo: int
    hi: int


@dataclass(frozen=True)
class Way:
    """One way through a pattern: its operands by name, and what has to hold of their events.

    Attributes:
        operands: type by name, in the order of the pattern.
        strong: pairs of names of which the first has to end before the second begins.
        weak: pairs of names of which the first has to be consumed before the second.
        absences: what must not be, with the names before it, None for none, and behind it.
        cancelled: what cancels, with the names that it concerns.
        unless: the operand of UNLESS.
    """

    operands: tuple[tuple[str, str], ...] = ()
    strong: tuple[tuple[str, str], ...] = ()
    weak: tuple[tuple[str, str], ...] = ()
    absences: tuple[tuple[tree.Absence, frozenset[str] | None, frozenset[str] | None], ...] = ()
    cancelled: tuple[tuple[tree.Operand | tree.TimerOperand, frozenset[str]], ...] = ()
    timers: tuple[tree.TimerOperand, ...] = ()
    unless: tree.Operand | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.operands)

    def __add__(self, other: Way) -> Way:
        return Way(
            self.operands + other.operands,
            self.strong + other.strong,
            self.weak + other.weak,
            self.absences + other.absences,
            self.cancelled + other.cancelled,
            self.timers + other.timers,
            self.unless or other.unless,
        )


def _ways(pattern: tree.Pattern) -> list[Way]:
    match pattern:
        case tree.Operand(type_name=name, variable=variable):
            return [Way(((variable, name),))]
        case tree.TimerOperand():
            return [Way(timers=(pattern,))]
        case tree.All(parts=parts):
            return _joined(parts)
        case tree.AnyOf(parts=parts):
            return [way for part in parts for way in _ways(part)]
        case tree.AtLeast(count=count, parts=(tree.Operand(type_name=name, variable=variable),)):
            names = [copy_name(variable, number) for number in range(count)]
            return [Way(tuple((each, name) for each in names), weak=tuple(pairwise(names)))]
        case tree.AtLeast(count=count, parts=parts):
            return [way for chosen in combinations(parts, count) for way in _joined(chosen)]
        case tree.Sequence(parts=parts):
            return _in_sequence(parts)
        case tree.Unless(pattern=inner, operand=operand):
            return [replace(way, unless=operand) for way in _ways(inner)]
        case tree.Cancelled(pattern=inner, by=by):
            return [replace(way, cancelled=(*way.cancelled, (by, way.names))) for way in _ways(inner)]


def copy_name(variable: str, number: int) -> str:
    """Name of one of the events of `ATLEAST(n, E x)`; the first has the name of the operand."""
    return variable if number == 0 else f"{variable}#{number}"


def _joined(parts: Sequence[tree.Pattern]) -> list[Way]:
    return [sum(chosen, Way()) for chosen in product(*map(_ways, parts))]


def _in_sequence(parts: Sequence[tree.Pattern | tree.Absence]) -> list[Way]:
    positive = [part for part in parts if not isinstance(part, tree.Absence)]
    found = []
    for chosen in product(*(_ways(part) for part in positive)):
        whole = sum(chosen, Way())
        strong = tuple(
            (a, b)
            for place, earlier in enumerate(chosen)
            for later in chosen[place + 1 :]
            for a in earlier.names
            for b in later.names
        )
        absences, place = [], 0
        with_events = [way.names for way in chosen if way.operands]
        for part in parts:
            if isinstance(part, tree.Absence):
                before = with_events[place - 1] if place else None
                behind = with_events[place] if place < len(with_events) else None
                absences.append((part, before, behind))
            elif not isinstance(part, tree.TimerOperand):
                place += 1
        found.append(replace(whole, strong=whole.strong + strong, absences=(*whole.absences, *absences)))
    return found


@dataclass
class _Match:
    events: dict[str, Event]
    extra: list[Event]
    place: tuple[Any, ...]
    hi: int
    last: Event
    by_terminator: bool = False
    way: Way = field(default_factory=Way)

    def ids(self) -> frozenset[EventId]:
        return frozenset(each.id for each in self.events.values())


@dataclass
class Lifetime:
    """A time in which a lifespan is active: the events that queries see, and how it ends; None for not at all."""

    events: list[Event]
    end: int | None = None
    terminator: Event | None = None


def lifetimes(lifespan: tree.Lifespan, events: Sequence[Event]) -> list[Lifetime]:
    """When a lifespan is active, in events in the order of consumption."""
    found: list[Lifetime] = []
    active: dict[Any, tuple[Event, Lifetime]] = {}
    for event in [*events, None]:
        if event is not None and lifespan.by and (value := event.attributes.get(lifespan.by)) is None:
            continue
        key = None if event is None or not lifespan.by else (type(value) is bool, value)
        for each, (initiator, current) in list(active.items()):
            if lifespan.duration is not None and (event is None or event.hi > initiator.hi + lifespan.duration):
                current.end = initiator.hi + lifespan.duration
                del active[each]
        if event is None:
            break
        if key not in active:
            if event.type == lifespan.initiator.type_name and _holds(
                lifespan.begins, {lifespan.initiator.variable: event}
            ):
                active[key] = (event, Lifetime([]))
                found.append(active[key][1])
            continue
        initiator, current = active[key]
        ending = lifespan.terminator
        if ending is not None and event.type == ending.type_name:
            both = {lifespan.initiator.variable: initiator, ending.variable: event}
            if _holds(lifespan.ends, both):
                current.end, current.terminator = event.hi, event
                del active[key]
                continue
        current.events.append(event)
    return found


def detect(query: tree.CedrQuery, events: Sequence[Event], lifespans: Sequence[tree.Lifespan] = ()) -> list[Detected]:
    """What a checked query detects in events in the order of consumption, time going on for ever behind them."""
    if isinstance(query.lifetime, tree.InLifespan):
        named = next(each for each in lifespans if each.name == query.lifetime.name)
        return [each for span in lifetimes(named, events) for each in _Interpreter(query, span.events, span).detected()]
    return _Interpreter(query, events, None).detected()


class _Interpreter:
    def __init__(self, query: tree.CedrQuery, events: Sequence[Event], span: Lifetime | None) -> None:
        self.query, self.events, self.span = query, list(events), span
        self.negated = {each.variable for each in tree.negated_operands(query.pattern)}

    def detected(self) -> list[Detected]:
        matches = [match for way in _ways(self.query.pattern) for match in self.matches(way)]
        places = sorted({match.place for match in matches})
        consumed: set[EventId] = set()
        upto: tuple[Any, ...] | None = None
        found: dict[Any, Detected] = {}
        for place in places:
            group = [
                match
                for match in matches
                if match.place == place
                and match.ids().isdisjoint(consumed)
                and (upto is None or all(_at(event) > upto for event in match.events.values()))
            ]
            group = self.selected(group)
            for match in group:
                each = self.composite(match)
                found.setdefault((each.constituents, repr(each.attributes)), each)
            if self.query.consumption == "exclusive":
                consumed.update(*(match.ids() for match in group))
            elif self.query.consumption == "ext-exclusive" and group:
                upto = place
        return list(found.values())

    # Matches.

    def matches(self, way: Way) -> Iterator[_Match]:
        conjuncts = [each for each in self.conjuncts(way) if not variables(each) & self.negated]
        for events in self.assignments(way, conjuncts, {}, list(way.operands)):
            match = self.match(way, events)
            if match is not None:
                yield match

    def assignments(
        self, way: Way, conjuncts: list[Expression], events: dict[str, Event], left: list[tuple[str, str]]
    ) -> Iterator[dict[str, Event]]:
        if not left:
            if self.keys_hold(events):
                yield events
            return
        (name, type_name), *rest = left
        for event in self.events:
            if event.type != type_name or any(event is each for each in events.values()):
                continue
            tried = {**events, name: event}
            if any(
                not tried[a].hi < tried[b].lo for a, b in way.strong if a in tried and b in tried and name in (a, b)
            ):
                continue
            if any(not tried[a].key < tried[b].key for a, b in way.weak if a in tried and b in tried):
                continue
            ready = [each for each in conjuncts if variables(each) <= tried.keys()]
            if all(_holds(each, tried) for each in ready):
                yield from self.assignments(way, [each for each in conjuncts if each not in ready], tried, rest)

    def conjuncts(self, way: Way) -> list[Expression]:
        """Conjuncts that concern a way: those whose positive operands are all in it, for each event of ATLEAST."""
        copies = _copies(self.query.pattern)
        found: list[Expression] = []
        for conjunct in self.query.where:
            read = sorted(variables(conjunct))
            for names in product(*(copies.get(each, [each]) for each in read)):
                renamed = _renamed(conjunct, dict(zip(read, names, strict=True)))
                if variables(renamed) - self.negated <= way.names:
                    found.append(renamed)
        return found

    def keys_hold(self, events: dict[str, Event]) -> bool:
        for key in self.query.keys:
            values = [event.attributes.get(key.attribute) for event in events.values()]
            if any(value is None for value in values):
                return False
            for place, one in enumerate(values):
                for other in values[place + 1 :]:
                    if _same(one, other) == key.unique:
                        return False
        return True

    def match(self, way: Way, events: dict[str, Event]) -> _Match | None:
        """The match of an assignment; None where something forbids it, or it is never known to be one."""
        query, span = self.query, self.span
        first = min(events.values(), key=_at)
        last = max(events.values(), key=_at)
        known = [events[timer.variable].hi + timer.delay for timer in way.timers]
        at_end = False
        extra: list[Event] = []
        for by, names in way.cancelled:
            concerned = [events[name] for name in names]
            if isinstance(by, tree.TimerOperand):
                if by.variable in events and any(each.hi > events[by.variable].hi + by.delay for each in concerned):
                    return None
                continue
            begin, end = min(map(_at, concerned)), max(map(_at, concerned))
            if any(begin < _at(each) < end for each in self.negating(by, way, events)):
                return None
        for absence, before, behind in way.absences:
            x = None if before is None else max((events[name] for name in before), key=_at)
            z = None if behind is None else min((events[name] for name in behind), key=_at)
            if z is None:
                assert x is not None
                if absence.scope is None:
                    at_end = True
                else:
                    known.append(x.hi + absence.scope)
            met = []
            for operand in absence.operands:
                against = [
                    each
                    for each in self.negating(operand, way, events)
                    if (x is None or _at(each) > _at(x))
                    and (z is None or _at(each) < _at(z))
                    and (x is None or absence.scope is None or each.hi <= x.hi + absence.scope)
                    and (x is not None or z is None or absence.scope is None or each.hi >= z.hi - absence.scope)
                ]
                met += against[:1]
            if len(met) > absence.most:
                return None
            extra += met
        if way.unless is not None:
            against = self.negating(way.unless, way, events)
            if isinstance(query.lifetime, tree.Window):
                until = first.hi + query.lifetime.length
                known.append(until)
                against = [each for each in against if _at(each) > _at(first) and each.hi <= until]
            else:
                at_end = True
            if against:
                return None
        last = max([last, *extra], key=_at)
        hi = max([last.hi, *known])
        place: tuple[Any, ...] = _at(last) if not known or hi > max(known) else (hi, _AFTER_ALL, _at(last))
        by_terminator = False
        if span is not None:
            if at_end:
                if span.end is None or (known and max(known) >= span.end):
                    return None
                hi = span.end
                by_terminator = span.terminator is not None
                place = _at(span.terminator) if span.terminator is not None else (hi, _AFTER_ALL, _at(last))
            elif known and span.end is not None and hi == max(known) and hi >= span.end:
                return None
        lifetime = query.lifetime
        if isinstance(lifetime, tree.Window) and any(hi - each.hi > lifetime.length for each in events.values()):
            return None
        if isinstance(lifetime, tree.TimesToLive):
            for operand, length in lifetime.lengths:
                copies = _copies(query.pattern).get(operand.variable, [operand.variable])
                if any(name in events and hi - events[name].hi > length for name in copies):
                    return None
        return _Match(events, extra, place, hi, last, by_terminator, way)

    def negating(self, operand: tree.Operand, way: Way, events: dict[str, Event]) -> list[Event]:
        """Events of a negated operand that count against a match, wherever they are."""
        conjuncts = [each for each in self.conjuncts(way) if operand.variable in variables(each)]
        return [
            event
            for event in self.events
            if event.type == operand.type_name
            and all(event is not each for each in events.values())
            and all(_holds(each, {**events, operand.variable: event}) for each in conjuncts)
            and self.keys_count(event, events)
        ]

    def keys_count(self, event: Event, events: dict[str, Event]) -> bool:
        for key in self.query.keys:
            value = event.attributes.get(key.attribute)
            alike = [_same(value, each.attributes.get(key.attribute)) for each in events.values()]
            if any(alike) if key.unique else not all(alike):
                return False
        return True

    # Selection.

    def selected(self, group: list[_Match]) -> list[_Match]:
        chosen = {each.variable: each for each in self.query.choices}
        copies = _copies(self.query.pattern)
        for operand in tree.positive_operands(self.query.pattern):
            choice = chosen.get(operand.variable, tree.Choice("first", operand.variable))
            for name in copies.get(operand.variable, [operand.variable]):
                if choice.kind == "where":
                    assert choice.condition is not None
                    condition = _renamed(choice.condition, {operand.variable: name})
                    group = [match for match in group if _holds(condition, match.events)]
                elif choice.kind != "each":
                    bound = [match for match in group if name in match.events]
                    if bound:
                        least = min if choice.kind == "first" else max
                        wanted = least(_at(match.events[name]) for match in bound)
                        group = [match for match in bound if _at(match.events[name]) == wanted]
        return group

    def composite(self, match: _Match) -> Detected:
        constituents = [*match.events.values(), *match.extra]
        attributes = tuple((name, _value(value, match.events)) for name, value in self.query.attributes)
        lo = min(each.lo for each in constituents)
        return Detected(frozenset(each.id for each in constituents), attributes, lo, match.hi)


def _copies(pattern: tree.Pattern) -> dict[str, list[str]]:
    """The names of the events of `ATLEAST(n, E x)`, by that of the operand."""
    found = {}
    for each in tree.walk(pattern):
        if isinstance(each, tree.AtLeast) and len(each.parts) == 1 and isinstance(each.parts[0], tree.Operand):
            variable = each.parts[0].variable
            found[variable] = [copy_name(variable, number) for number in range(each.count)]
    return found


def _renamed(expression: Expression, names: dict[str, str]) -> Expression:
    def change(node: Expression) -> Expression:
        if isinstance(node, Field | Moment) and node.variable in names:
            return replace(node, variable=names[node.variable])
        return node

    return transform(expression, change)


def _at(event: Event) -> tuple[Any, ...]:
    return (event.hi, 0, event.key)


def _same(one: Any, other: Any) -> bool:
    return one is not None and other is not None and (type(one) is bool) == (type(other) is bool) and one == other


def _holds(condition: Expression, events: dict[str, Event]) -> bool:
    names = sorted(variables(condition) | events.keys())
    test = compile_condition(condition, Scope({name: place for place, name in enumerate(names)}))
    return test if isinstance(test, bool) else test(_NONE, [events.get(name) for name in names], [])


def _value(expression: Expression, events: dict[str, Event]) -> Any:
    names = sorted(variables(expression) | events.keys())
    compiled = compile_value(expression, Scope({name: place for place, name in enumerate(names)}))
    return compiled(_NONE, [events.get(name) for name in names], [])
