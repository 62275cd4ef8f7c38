"""Reach of patterns: how far back the constituents of composite events may lie, and so what replay in slices of time
has to read before a slice.

An instance owes nothing to events before its first (design, section 1: start states are always active), so a slice has
to begin as far before what it answers for as a match may last. A window around the whole pattern bounds that. So does a
time event in the domain of a state, after which no instance is left there. Events are cut by their `hi`, in which order
they are consumed.
"""

from __future__ import annotations

from collections.abc import Sequence

from distced.detectors.automata.automaton import Automaton, AutomatonState, AutomatonTimer, timer_type
from distced.detectors.automata.properties import may_repeat
from distced.detectors.compiler import Compiled
from distced.middleware.model.timestamps import DAY, HOUR
from distced.middleware.patterns.tree import Relative, TimeOfDay
from distced.middleware.sets.expressions import FALSE, TRUE
from distced.simulations.replay.pattern_properties import may_lack_constituents


def reach_of(patterns: Sequence[Compiled]) -> int | None:
    """Greatest age of an event that counts for a composite event, before its `hi`, ns; None for no bound.

    A pattern that reads what another publishes reaches as far as both together: the composite events in its domain
    count as well as those it matches.
    """
    reaches = [_reach(each, patterns) for each in patterns]
    return None if None in reaches else max((each for each in reaches if each is not None), default=0)


def _reach(pattern: Compiled, patterns: Sequence[Compiled]) -> int | None:
    own = longest(pattern.automaton)
    read = [
        each
        for each in patterns
        if each is not pattern
        and each.automaton.output is not None
        and each.automaton.output.type_name in pattern.names()
    ]
    before = reach_of_read(read, patterns)
    # A throttled type is its first event of an interval, so that a slice begins with an interval; one may build on
    # another.
    every = sum(each.every for each in pattern.throttlings)
    return None if own is None or before is None else own + before + every


def reach_of_read(read: Sequence[Compiled], patterns: Sequence[Compiled]) -> int | None:
    """The same for patterns whose composite events another reads; there is no bound where it may read of an event
    published long ago and not published again.
    """
    if any(may_lack_constituents(each.plain) for each in read):
        return None
    reaches = [_reach_of_told(each, patterns) for each in read]
    return None if None in reaches else max((each for each in reaches if each is not None), default=0)


def _reach_of_told(pattern: Compiled, patterns: Sequence[Compiled]) -> int | None:
    """The same for a pattern whose composite events are read, each the first time that it is detected: where one may be
    detected again, with another end, its constituents lie no further back than a match lasts.
    """
    reach, own = _reach(pattern, patterns), longest(pattern.automaton)
    if reach is None or own is None:
        return None
    return reach + own if may_repeat(pattern.automaton) else reach


def longest(automaton: Automaton) -> int | None:
    """Greatest duration from its first event until the end of a match, ns; None for no bound. The sides of a `&` come
    on top: one that lasts too long ends a match that it does not belong to.
    """
    sides = [longest(each) for each in automaton.inner]
    if None in sides or automaton.delegated:
        return None
    own = automaton.whole_window
    if own is None:
        own = _longest_way(automaton)
    return None if own is None else own + max((each for each in sides if each is not None), default=0)


def _longest_way(automaton: Automaton) -> int | None:
    """The longest path through the states, given the time an instance may stay in each; None where there is no
    bound."""
    known: dict[int, int | None] = {}
    under_way: set[int] = set()

    def after(state: int) -> int | None:
        """From the arrival in a state on."""
        if state in under_way:
            return None
        if state not in known:
            under_way.add(state)
            found = automaton.states[state]
            stays = _stay(automaton, found) if found.moves else 0
            ends = [after(each) for move in found.moves for each in automaton.arrivals[move.position]]
            under_way.discard(state)
            bounded = stays is not None and None not in ends
            known[state] = stays + max((each for each in ends if each is not None), default=0) if bounded else None  # type: ignore[operator]
        return known[state]

    ways = [
        after(state)
        for start in automaton.starts
        for move in automaton.states[start].moves
        for state in automaton.arrivals[move.position]
    ]
    return None if None in ways else max((each for each in ways if each is not None), default=0)


def _stay(automaton: Automaton, state: AutomatonState) -> int | None:
    """Greatest time an instance may stay in a state, ns: until a time event in the domain comes; None for no bound."""
    domain = automaton.domain(state)
    # An earlier time event need not be running, for there may be several paths to this state.
    delays = [
        _delay(automaton.timers[timer]) for timer in state.arms if domain.by_type.get(timer_type(timer), FALSE) == TRUE
    ]
    return min((each for each in delays if each is not None), default=None)


def _delay(timer: AutomatonTimer) -> int | None:
    """Greatest delay of a time event, ns."""
    if isinstance(timer.when, Relative):
        return timer.when.delay
    # The clock may be put back by an hour.
    return DAY + HOUR if isinstance(timer.when, TimeOfDay) else None
