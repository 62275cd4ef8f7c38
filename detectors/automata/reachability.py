"""Search of an automaton for a match: whether any events can reach a generative state.

A state is reached with a *zone*, a set of differences between instants: now, the due instants of pending time events,
the beginnings of open windows. These are the difference-bound matrices of timed automata (Dill 1989), with integers. An
event moves an instance where its condition in label and domain can hold (`satisfiable`) and the zone leaves an instant
for it: behind the previous one, before time events that would fail it, within its windows. What stays open is taken as
possible: guards, the beginning of a composite event, more than `MOST_ZONES` zones. So no pattern is refused that can
match; some that cannot are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from distced.detectors.automata.automaton import (
    TIMER_PREFIX,
    Automaton,
    AutomatonMove,
    AutomatonState,
    Position,
    timer_type,
)
from distced.detectors.automata.satisfiable import satisfiable
from distced.middleware.model.timestamps import HOUR
from distced.middleware.patterns.tree import Calculated, Instant, Recurring, Relative
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, Expression, conjunction

MOST_ZONES: Final = 500
"""Zones looked at; beyond them a pattern can match, as far as is known."""

_ORIGIN: Final = "origin"
_NOW: Final = "now"
_LONGEST_DAY: Final = 50 * HOUR
"""Time to the next time of day at most, in any zone."""

_Zone = frozenset[tuple[str, str, int]]
"""Bounds `x - y <= c`, closed: the least that follow from each other."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A state with what is known of time there.

    Attributes:
        armed: pending time events.
        windows: open windows; -1 is that of the whole.
        fired: whether a time event was matched last: it sorts behind all events of its instant.
    """

    state: int
    zone: _Zone = frozenset()
    armed: frozenset[int] = frozenset()
    windows: frozenset[int] = frozenset()
    fired: bool = False


def can_match(automaton: Automaton, *, in_full: bool = True) -> bool:
    """Whether events can reach a generative state; `in_full`: in time, and with regard to constants in conditions."""
    search = _Search(automaton, in_full=in_full)
    seen = {_Place(start) for start in automaton.starts}
    waiting = list(seen)
    while waiting:
        place = waiting.pop()
        for after in search.after(place):
            if automaton.states[after.state].accepting:
                return True
            if after not in seen:
                seen.add(after)
                waiting.append(after)
        if len(seen) > MOST_ZONES and search.timed:
            return True
    return False


class _Search:
    """Moves between places; without time events and windows all zones are empty, and the search is complete."""

    def __init__(self, automaton: Automaton, *, in_full: bool) -> None:
        self.automaton = automaton
        self.possible: Callable[[Expression], bool] = satisfiable if in_full else _is_not_false
        self.timed = in_full and bool(automaton.timers or automaton.windows or automaton.whole_window is not None)
        self.domains: dict[int, ConditionByType] = {}
        self.never = {
            place
            for place, part in enumerate(automaton.parts)
            if isinstance(part, Automaton) and not can_match(part, in_full=in_full)
        }

    def after(self, place: _Place) -> Iterator[_Place]:
        """Places that one event leads to."""
        state = self.automaton.states[place.state]
        domain = self.domains.get(place.state)
        if domain is None:
            domain = self.domains[place.state] = self.automaton.domain(state)
        for move in state.moves:
            position = self.automaton.positions[move.position]
            if position.part in self.never:
                continue
            timers = [each for each in sorted(place.armed) if self._hold(position.label, domain, timer_type(each))]
            if self._overlap(position.label, domain):
                yield from self.at_event(place, state, move, domain)
            for timer in timers:
                yield from self.at_timer(place, move, domain, timer)

    def _overlap(self, label: ConditionByType, domain: ConditionByType) -> bool:
        """Whether an event can be in both; of time events where time does not count."""
        names = {name for name in (*label.by_type, *domain.by_type) if name[0] != TIMER_PREFIX or not self.timed}
        if self.possible(conjunction(label.others, domain.others)):
            return True
        return any(self._hold(label, domain, name) for name in names)

    def _hold(self, label: ConditionByType, domain: ConditionByType, name: str) -> bool:
        return self.possible(conjunction(label.condition(name), domain.condition(name)))

    def at_event(
        self, place: _Place, state: AutomatonState, move: AutomatonMove, domain: ConditionByType
    ) -> Iterator[_Place]:
        bounds = _bounds(place.zone)
        if self.timed:
            begun = (_NOW, _NOW) in bounds
            gap = move.strong or state.strong or place.fired or self.automaton.epochs
            bounds = _advanced(bounds, int(gap)) if begun else {(_NOW, _NOW): 0}
            for timer in self._watched(place, domain):
                _bound(bounds, _NOW, _due(timer), 0)
        yield from self._arrivals(place, move, bounds, fired=False)

    def at_timer(self, place: _Place, move: AutomatonMove, domain: ConditionByType, timer: int) -> Iterator[_Place]:
        bounds = _advanced(_bounds(place.zone), 0)
        _bound(bounds, _NOW, _due(timer), 0)
        _bound(bounds, _due(timer), _NOW, 0)
        for other in self._watched(place, domain):
            _bound(bounds, _due(timer), _due(other), 0)
        yield from self._arrivals(place, move, bounds, fired=True, without=timer)

    def _watched(self, place: _Place, domain: ConditionByType) -> list[int]:
        """Pending time events that would be offered to an instance in the state."""
        return [each for each in sorted(place.armed) if domain.condition(timer_type(each)) != FALSE]

    def _arrivals(
        self, place: _Place, move: AutomatonMove, bounds: dict[tuple[str, str], int], *, fired: bool, without: int = -1
    ) -> Iterator[_Place]:
        automaton = self.automaton
        position = automaton.positions[move.position]
        windows = place.windows
        if self.timed:
            bounds = dict(bounds)
            windows = self._within(place, move, position, bounds)
            if not _close(bounds):
                return
        for target in automaton.arrivals[move.position]:
            state = automaton.states[target]
            if not self.timed:
                yield _Place(target)
                continue
            again = {without} if without >= 0 and self._recurs(without) else set()
            armed = (place.armed - {without} - state.arms) & state.timers
            open_windows = windows & (state.windows | {-1})
            for choice in self._armings(sorted(state.arms | (again & state.timers)), bounds):
                now, started = choice
                kept = {_ORIGIN, _NOW, *map(_due, armed | started), *map(_begin, open_windows)}
                reduced = frozenset((a, b, c) for (a, b), c in now.items() if a in kept and b in kept)
                yield _Place(target, reduced, armed | started, open_windows, fired)

    def _recurs(self, timer: int) -> bool:
        return isinstance(self.automaton.timers[timer].when, Recurring)

    def _within(
        self, place: _Place, move: AutomatonMove, position: Position, bounds: dict[tuple[str, str], int]
    ) -> frozenset[int]:
        """Windows open behind an event, with the bounds of those that it has to lie in."""
        automaton = self.automaton
        windows = set(place.windows)
        lengths = {each: automaton.windows[each] for each in position.windows}
        if automaton.whole_window is not None:
            lengths[-1] = automaton.whole_window
        for window, length in lengths.items():
            if window in windows and window not in move.windows:
                _bound(bounds, _NOW, _begin(window), length)
                continue
            _forget(bounds, _begin(window))
            windows.add(window)
            # The event may end where it begins.
            _bound(bounds, _NOW, _begin(window), 0)
            _bound(bounds, _begin(window), _NOW, 0)
        return frozenset(windows)

    def _armings(
        self, timers: list[int], bounds: dict[tuple[str, str], int]
    ) -> Iterator[tuple[dict[tuple[str, str], int], frozenset[int]]]:
        """Bounds with time events started now; an absolute instant may be past, so that it never comes."""
        absolute = [each for each in timers if isinstance(self.automaton.timers[each].when, Instant)]
        for past in product((False, True), repeat=len(absolute)):
            over = {each for each, is_past in zip(absolute, past, strict=True) if is_past}
            made = dict(bounds)
            for timer in timers:
                _forget(made, _due(timer))
                when = self.automaton.timers[timer].when
                if isinstance(when, Recurring):
                    when = when.first
                if isinstance(when, Relative):
                    _bound(made, _due(timer), _NOW, when.delay)
                    _bound(made, _NOW, _due(timer), -when.delay)
                elif isinstance(when, Instant) and timer in over:
                    _bound(made, _ORIGIN, _NOW, -when.instant - 1)
                elif isinstance(when, Instant):
                    _bound(made, _due(timer), _ORIGIN, when.instant)
                    _bound(made, _ORIGIN, _due(timer), -when.instant)
                    _bound(made, _NOW, _due(timer), 0)
                elif isinstance(when, Calculated):
                    # Any delay.
                    _bound(made, _NOW, _due(timer), 0)
                else:
                    _bound(made, _NOW, _due(timer), 0)
                    _bound(made, _due(timer), _NOW, _LONGEST_DAY)
            if _close(made):
                yield made, frozenset(timers) - over


def _is_not_false(condition: Expression) -> bool:
    return condition != FALSE


# Zones.


def _due(timer: int) -> str:
    return f"due {timer}"


def _begin(window: int) -> str:
    return f"begin {window}"


def _bounds(zone: _Zone) -> dict[tuple[str, str], int]:
    return {(one, other): bound for one, other, bound in zone}


def _bound(bounds: dict[tuple[str, str], int], one: str, other: str, most: int) -> None:
    """`one - other <= most`."""
    bounds.setdefault((one, one), 0)
    bounds.setdefault((other, other), 0)
    bounds[one, other] = min(most, bounds.get((one, other), most))


def _forget(bounds: dict[tuple[str, str], int], name: str) -> None:
    for pair in [pair for pair in bounds if name in pair]:
        del bounds[pair]


def _advanced(bounds: dict[tuple[str, str], int], gap: int) -> dict[tuple[str, str], int]:
    """Bounds at a later now, at least by a gap: what bounds it from above is gone."""
    made: dict[tuple[str, str], int] = {}
    for (one, other), most in bounds.items():
        if one == other:
            made[one, other] = most
        elif other == _NOW:
            made[one, _NOW] = most - gap
        elif one != _NOW:
            made[one, other] = most
    made[_NOW, _NOW] = 0
    return made


def _close(bounds: dict[tuple[str, str], int]) -> bool:
    """Make the bounds the least that follow from each other; False where no instants meet them."""
    names = [one for one, other in bounds if one == other]
    for middle in names:
        for one in names:
            first = bounds.get((one, middle))
            if first is None:
                continue
            for other in names:
                second = bounds.get((middle, other))
                if second is not None and first + second < bounds.get((one, other), first + second + 1):
                    bounds[one, other] = first + second
    return all(bounds[name, name] >= 0 for name in names)
