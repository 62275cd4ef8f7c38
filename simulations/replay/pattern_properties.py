"""Properties of patterns that a replay is planned by: groups, keys, columns, constituents, reach.

Patterns that read one another are replayed together; key by key where all of them are keyed by an attribute that the
composite events read by others carry: then no instance has events of two values of it. A composite event without
constituents is one event however often it is detected: its id is a digest of these and its attributes.

The *reach* is the greatest age of a constituent: as much is read before a slice of time. An instance does not depend on
events before its first (design, section 1: start states are always active), so the duration of a match bounds it: by a
window around the whole pattern, or by a time event in the domain of a state, which no instance survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

from distced.detectors.automata.automaton import (
    Automaton,
    AutomatonState,
    AutomatonTimer,
    timer_type,
)
from distced.detectors.automata.properties import may_repeat
from distced.detectors.compiler import Compiled, beneath
from distced.detectors.language.computed import key_names
from distced.detectors.language.names import all_registers
from distced.detectors.language.private import output_of
from distced.middleware.model.clock_rules import interval_of, is_clock
from distced.middleware.model.timestamps import DAY, HOUR
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Hidden,
    Iteration,
    Output,
    Publication,
    Recurring,
    Relative,
    TimeOfDay,
    Timing,
    walk,
)
from distced.middleware.sets.describable import TypeSet
from distced.middleware.sets.expressions import FALSE, TRUE, Field, Name


def groups_of(patterns: Sequence[Compiled]) -> list[list[int]]:
    """Indices of the patterns in groups; patterns that read one another share a group."""
    group = list(range(len(patterns)))
    for reader, one in enumerate(patterns):
        for writer, other in enumerate(patterns):
            output = other.automaton.output
            if output is not None and output.type_name in one.names():
                joined, kept = group[writer], group[reader]
                group = [kept if each == joined else each for each in group]
    return [[place for place, each in enumerate(group) if each == number] for number in dict.fromkeys(group)]


def key_of_group(patterns: Sequence[Compiled]) -> tuple[tuple[str, ...], str]:
    """Attributes by which the events of these patterns can be partitioned; where there are none, the reason."""
    every = [*patterns, *(private for each in patterns for private in beneath(each).values())]
    common = [name for name in patterns[0].automaton.key if all(name in each.automaton.key for each in every)]
    if not common:
        return (), "the pattern has no key" if len(patterns) == 1 else "the patterns have no key in common"
    computed = key_names([each for pattern in patterns for each in pattern.computations])
    kept = []
    for name in common:
        hindrance = f"the key {computed[name]} is computed" if name in computed else _hindrance(every, name)
        if hindrance is None:
            kept.append(name)
    return tuple(kept), "" if kept else str(hindrance)


def _hindrance(patterns: Sequence[Compiled], name: str) -> str | None:
    """Why events with two values of an attribute may depend on one another; None if they do not."""
    # Several patterns may publish one type.
    outputs = [each.automaton.output for each in patterns if each.automaton.output is not None]
    for each in patterns:
        for throttling in each.throttlings:
            if throttling.state is not None:
                if not throttling.state.keeps_apart(name):
                    return f"{throttling.state.text} is not kept and read by {name}"
            elif name not in throttling.by:
                how = "throttled" if throttling.sliding is None else "aggregated over a window"
                return f"{throttling.type_name} is {how}, and not by {name}"
        for output in outputs:
            if output.type_name in each.names() and not _carries(output, name):
                return f"{output.type_name} does not carry {name}"
        if (hindrance := _not_by(each, name)) is not None:
            return hindrance
        for private in each.privates:
            if not _carries(private.automaton.output, name):
                return f"{output_of(private.publication).type_name} does not carry {name}"
    return None


def _not_by(pattern: Compiled, name: str) -> str | None:
    """Why composite events of two values of a key may keep one another from being emitted; None if they do not."""
    output = pattern.publication.output
    if output is None or output.quiet is None:
        return None
    values = dict(output.attributes)
    registers = all_registers(pattern.publication.pattern)
    for each in map(values.__getitem__, output.quiet.by):
        shown = isinstance(each, Name) and each.name == name and name not in registers
        if shown or (isinstance(each, Field) and each.attribute == name):
            return None
    return f"{output.type_name} is emitted at most once in a time, and not by {name}"


def _carries(output: Output | None, name: str) -> bool:
    """Whether a composite event has the value of an attribute of its events."""
    value = None if output is None else dict(output.attributes).get(name)
    return isinstance(value, Field) and value.variable is not None and value.attribute == name


def may_lack_constituents(tree: object, timers: frozenset[str] = frozenset()) -> bool:
    """Whether a match may have no constituents; of `once` patterns, those since the last composite event."""
    if isinstance(tree, Publication):
        if tree.once:
            return any(isinstance(each, Hidden | Timing) for each in walk(tree.pattern))
        return may_lack_constituents(tree.pattern, timers)
    if isinstance(tree, Hidden):
        return True
    if isinstance(tree, Atom):
        return bool(_names(tree.label) & timers)
    if isinstance(tree, Alternation):
        return any(may_lack_constituents(each, timers) for each in tree.parts)
    if isinstance(tree, Iteration) and tree.least == 0:
        return True
    if isinstance(tree, Timing):
        timers |= {tree.timer}
    parts = [part for part in _parts(tree) if _is_pattern(part)]
    return all(may_lack_constituents(each, timers) for each in parts)


def _parts(tree: object) -> list[object]:
    if not is_dataclass(tree) or isinstance(tree, type):
        return []
    values = [getattr(tree, each.name) for each in fields(tree)]
    return [part for value in values for part in (value if isinstance(value, tuple) else (value,))]


def _is_pattern(part: object) -> bool:
    return is_dataclass(part) and type(part).__module__ == Atom.__module__


def _names(described: object) -> set[str]:
    """Types named anywhere in a set."""
    if isinstance(described, TypeSet):
        return {described.name}
    return set().union(*(_names(each) for each in _parts(described)))


def reach_of(patterns: Sequence[Compiled]) -> int | None:
    """Greatest age of an event that counts for a composite event, before its `hi`, ns; None for no bound.

    The reach of a reader includes that of its writers: composite events in its domain count like those it matches.
    """
    reaches = [reach_among(each, patterns) for each in patterns]
    return None if None in reaches else max((each for each in reaches if each is not None), default=0)


def reach_among(pattern: Compiled, patterns: Sequence[Compiled]) -> int | None:
    own = longest(pattern.automaton)
    read = [
        each
        for each in patterns
        if each is not pattern
        and each.automaton.output is not None
        and each.automaton.output.type_name in pattern.names()
    ]
    before = reach_of_read([*read, *pattern.privates], patterns)
    # A throttled type is its first event of an interval, so that a slice begins with an interval; one may build on
    # another.
    every = sum(each.every + (each.sliding.length if each.sliding else 0) for each in pattern.throttlings)
    if any(each.quiet or each.state is not None for each in pattern.throttlings):
        # Each event that passes decides over the next, from the first on; the last value may be of any age.
        return None
    return None if own is None or before is None else own + before + every


def reach_of_read(read: Sequence[Compiled], patterns: Sequence[Compiled]) -> int | None:
    """The same for patterns that another reads; None where a composite event may be old and not published again."""
    if any(may_lack_constituents(each.plain) for each in read):
        return None
    reaches = [_reach_of_composites(each, patterns) for each in read]
    return None if None in reaches else max((each for each in reaches if each is not None), default=0)


def _reach_of_composites(pattern: Compiled, patterns: Sequence[Compiled]) -> int | None:
    """The same for a pattern read as first detected; one detected again, with another end, adds a match's length."""
    reach, own = reach_among(pattern, patterns), longest(pattern.automaton)
    if reach is None or own is None:
        return None
    return reach + own if may_repeat(pattern.automaton) else reach


def longest(automaton: Automaton) -> int | None:
    """Greatest duration of a match from its first event, ns; None for no bound.

    The sides of a `&` are added: one that lasts too long ends a match that it does not belong to. A `once` pattern
    depends on all events from its origin on, one that consumes on all that it has consumed, and `at most` on all that
    has passed.
    """
    if automaton.once or (automaton.output is not None and (automaton.output.consuming or automaton.output.quiet)):
        return None
    sides = [longest(each) for each in automaton.sides]
    if None in sides or automaton.delegated:
        return None
    own = automaton.whole_window
    if own is None:
        own = _longest_path(automaton)
    return None if own is None else own + max((each for each in sides if each is not None), default=0)


def _longest_path(automaton: Automaton) -> int | None:
    """The longest path through the states, given the time an instance may stay in each; None for no bound."""
    known: dict[int, int | None] = {}
    on_path: set[int] = set()

    def after(state: int) -> int | None:
        """From the arrival in a state on."""
        if state in on_path:
            return None
        if state not in known:
            on_path.add(state)
            found = automaton.states[state]
            stays = _stay(automaton, found) if found.moves else 0
            ends = [after(each) for move in found.moves for each in automaton.arrivals[move.position]]
            on_path.discard(state)
            bounded = stays is not None and None not in ends
            known[state] = stays + max((each for each in ends if each is not None), default=0) if bounded else None  # type: ignore[operator]
        return known[state]

    lengths = [
        after(state)
        for start in automaton.starts
        for move in automaton.states[start].moves
        for state in automaton.arrivals[move.position]
    ]
    return None if None in lengths else max((each for each in lengths if each is not None), default=0)


def _stay(automaton: Automaton, state: AutomatonState) -> int | None:
    """Greatest stay of an instance in a state, ns, until a time event or a clock in its domain; None for no bound."""
    domain = automaton.domain(state)
    # An earlier time event need not be running, for there may be several paths to this state.
    delays = [
        _delay(automaton.timers[timer]) for timer in state.arms if domain.by_type.get(timer_type(timer), FALSE) == TRUE
    ]
    # The event of a clock concerns it, whatever its key.
    delays += [interval_of(name) for name, condition in domain.by_type.items() if is_clock(name) and condition == TRUE]
    return min((each for each in delays if each is not None), default=None)


def _delay(timer: AutomatonTimer) -> int | None:
    """Greatest delay of a time event, ns."""
    first = timer.when.first if isinstance(timer.when, Recurring) else timer.when
    if isinstance(first, Relative):
        return first.delay
    # The clock may be put back by an hour.
    return DAY + HOUR if isinstance(first, TimeOfDay) else None
