"""Provenance of matches: start and preceding gap, for patterns whose matches are parts of others.

Design, section 2, "Cutting". A reader has to know whether a match began with the first start event after some moment,
which depends on earlier events in the *domain* of the start alternative: one per branch of an alternation, and per key
value. So a part records before each match the last event its alternatives read (`start_recorded`) and announces the
completeness of its derivations (`open_gaps`); its reader drops what no derivation can answer (`hear_open`). Other
patterns do without, hence the separation from the matcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from distced.detectors.automata.automaton import Automaton, part_type
from distced.detectors.stepwise.composites import key_values
from distced.detectors.stepwise.instance import Instance
from distced.detectors.stepwise.instance_store import InstanceStore
from distced.detectors.stepwise.plans import KeyOf, MovePlan, Planner, StatePlan, TypePlan, initialised
from distced.middleware.model.events import Attribute, Event, Gap, OpenGap, OrderKey
from distced.middleware.patterns.tree import Delegated

_NO_GAP: Final = Gap()

KeyValues: TypeAlias = dict[frozenset[int], tuple[object, ...]]
"""For inner keys that may be entered together, an event's values of them."""

Place: TypeAlias = tuple[int, object, frozenset[int], tuple[object, ...]]
"""A start state, the value of the pattern's key, inner keys and their chosen values."""

NO_KEYS: frozenset[int] = frozenset()


class StartGaps:
    """Last event and greatest `lo` in the domain of each start alternative.

    Attributes:
        seen: by alternative; grows with the key values.
        answered: least gap a delegated first part may still report, by its type and key.
        touched: keys with possible changes.
        announced: least open gap announced last, by key.
        floor: gap before the first recorded event, for every alternative; None without one.
    """

    def __init__(self, floor: tuple[OrderKey, int] | None = None) -> None:
        self.floor = floor
        self.seen: dict[Place, tuple[OrderKey, int]] = {}
        self.answered: dict[tuple[str, object], Gap] = {}
        self.touched: set[object] = set()
        self.announced: dict[object, Gap] = {}

    def before(
        self, state: int, key: object, chosen: frozenset[int], values: KeyValues
    ) -> tuple[OrderKey | None, int | None]:
        """The gap of the alternative in which these inner keys have these values, and the others any not seen yet."""
        found = self.seen.get((state, key, NO_KEYS, ()), self.floor)
        if not values:
            return (None, None) if found is None else found
        every = [] if found is None else [found]
        for keys, each in values.items():
            if keys <= chosen:
                seen = self.seen.get((state, key, keys, each))
                every += [] if seen is None else [seen]
        if not every:
            return None, None
        return max(previous for previous, _ in every), max(lo for _, lo in every)

    def note(self, state: int, key: object, keys: frozenset[int], values: KeyValues, event: Event) -> None:
        """Record an event read by a start state under these inner keys."""
        place = (state, key, keys, values[keys] if keys else ())
        found = self.seen.get(place)
        self.touched.add(key)
        if found is None:
            self.seen[place] = (event.key, event.lo)
        else:
            previous, lo = found
            self.seen[place] = (max(previous, event.key), max(lo, event.lo))


class Recorded(Protocol):
    """The part of a `Matcher` that provenance needs: its start, its instances and its rules."""

    automaton: Automaton
    store: InstanceStore
    plans: Planner
    gaps: StartGaps | None
    root: Instance
    key_of: KeyOf | None
    touched: int

    def in_domain(self, instance: Instance, event: Event, plan: StatePlan, keys: frozenset[int]) -> bool: ...

    def labelled(self, instance: Instance, event: Event, move: MovePlan) -> bool: ...

    def follow(self, instance: Instance, event: Event, move: MovePlan) -> None: ...


def start_recorded(matcher: Recorded, event: Event, plan: TypePlan, key: object, gaps: StartGaps) -> None:
    """Begin matches with an event, and record the gap before it for each alternative start."""
    root = matcher.root
    root.key = key
    begins = 0
    for index, state in plan.looks:
        if not state.opens:
            if state.everything or matcher.in_domain(root, event, state, NO_KEYS):
                root.origin = (event.key, *gaps.before(index, key, NO_KEYS, {}))
                for move in state.moves:
                    if matcher.labelled(root, event, move):
                        begins = 1
                        matcher.follow(root, event, move)
                gaps.note(index, key, NO_KEYS, {}, event)
            continue
        values: KeyValues = {group.keys: group.values(event) for group in state.opens}
        values = {keys: each for keys, each in values.items() if None not in each}
        shown = {keys for keys in _shown(root, event, state) if not keys or keys in values}
        if not shown:
            continue
        for move in state.moves:
            entered = frozenset(inner for inner, _ in move.entered_keys)
            if (entered and entered not in values) or not matcher.labelled(root, event, move):
                continue
            for alternative in _least({entered | keys for keys in shown}):
                begins = 1
                root.origin = (event.key, *gaps.before(index, key, alternative, values))
                matcher.follow(root, event, move)
        for keys in shown:
            gaps.note(index, key, keys, values, event)
    matcher.touched += begins


def open_gaps(matcher: Recorded) -> list[OpenGap]:
    """The least gap of all derivations still to come, for each key with a change."""
    gaps = matcher.gaps
    if gaps is None:
        return []
    open_now: dict[object, list[Gap]] = {}
    for key, bucket in _buckets(matcher.store, gaps.touched):
        known = [each.origin for each in bucket if each.alive and each.origin is not None]
        if known:
            open_now.setdefault(key, []).extend(Gap(*origin[1:]) for origin in known)
    news: list[OpenGap] = []
    starts = matcher.automaton.starts
    for key in list(gaps.touched):
        gap = least([*open_now.get(key, ()), *(_start_gap(matcher, state, key, gaps) for state in starts)])
        if key not in open_now:
            gaps.touched.discard(key)
        if gap != gaps.announced.get(key, _NO_GAP):
            gaps.announced[key] = gap
            news.append(OpenGap(key_values(matcher.automaton.key, key), gap))
    return news


def _buckets(store: InstanceStore, keys: set[object]) -> Iterator[tuple[object, list[Instance]]]:
    """Instances with some keys of the whole pattern. Where there are wait keys, there is no such key (`Matcher`)."""
    for state, pool in enumerate(store.pools):
        if store.waits is None or store.waits[state] is None:
            yield from ((key, pool[key]) for key in keys & pool.keys())
        elif keys:
            yield from ((None, bucket) for bucket in pool.values())


def hear_open(matcher: Recorded, type_name: str, part: Delegated, news: OpenGap) -> None:
    """Drop instances that no later derivation of a part can advance."""
    if set(part.key) != set(matcher.automaton.key):
        return
    key = _key_from(matcher, part.key, news.key)
    if matcher.gaps is not None:
        matcher.gaps.answered[type_name, key] = news.gap
        matcher.gaps.touched.add(key)
    plan = matcher.plans.of(type_name)
    for index, state in () if plan is None else plan.visits:
        bucket = matcher.store.pools[index].get(key)
        if bucket:
            (move,) = state.moves
            kept = [each for each in bucket if not _in_vain(each, news.gap, move.strong)]
            matcher.store.keep(index, key, bucket, kept)


def _shown(root: Instance, event: Event, state: StatePlan) -> set[frozenset[int]]:
    """The conditions under which a start state reads an event, each as the inner keys it requires."""
    return {
        test.entered_keys
        for test in state.domain
        if test.condition is True or test.condition(event, root.bindings, initialised(root, event, test.inits))  # type: ignore[operator]
    }


def _least(sets: set[frozenset[int]]) -> list[frozenset[int]]:
    """The minimal sets, which contain no other one."""
    return [each for each in sets if not any(other < each for other in sets)]


def _start_gap(matcher: Recorded, state: int, key: object, gaps: StartGaps) -> Gap:
    """The least gap of a match that begins from now on in a start state."""
    automaton = matcher.automaton
    at = automaton.states[state]
    positions = [automaton.positions[move.position] for move in at.moves]
    if any(move.keys for move in at.moves):
        return _NO_GAP
    (position, *_) = positions
    if position.part is not None:
        return gaps.answered.get((part_type(position.part), key), _NO_GAP)
    return Gap(*gaps.before(state, key, frozenset(), {}))


def _key_from(matcher: Recorded, names: tuple[str, ...], values: tuple[Attribute, ...]) -> object:
    if matcher.key_of is None:
        return None
    return matcher.key_of(Event("", 0, 0, "", 0, dict(zip(names, values, strict=True))))


def _in_vain(instance: Instance, gap: Gap, strong: bool) -> bool:
    """Whether every later derivation begins too late for a waiting instance."""
    if instance.last is None:
        return False
    if strong:
        return gap.greatest_lo is not None and instance.hi < gap.greatest_lo
    return gap.previous is not None and instance.last.key < gap.previous


def least(gaps: Iterable[Gap]) -> Gap:
    """The component-wise minimum; None is the least."""
    previous: list[OrderKey | None] = []
    greatest: list[int | None] = []
    for gap in gaps:
        previous.append(gap.previous)
        greatest.append(gap.greatest_lo)
    known, los = [each for each in previous if each is not None], [each for each in greatest if each is not None]
    return Gap(
        min(known) if known and len(known) == len(previous) else None,
        min(los) if los and len(los) == len(greatest) else None,
    )
