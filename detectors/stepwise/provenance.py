"""What a matcher says as a part of other patterns, and hears of its own parts: where matches begin, and open gaps.

Design, section 2, "Cutting". A part notes before each match what its start alternatives looked at last
(`start_recorded` takes the place of the plain way to begin), and says from time to time how far its records are
complete (`open_gaps`). Whoever reads it gives up what no record can answer any more (`hear_open`). A pattern that is no
part of another, and has none, never comes here; so this stands apart from the three rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from distced.detectors.automata.automaton import Delegated, part_type
from distced.detectors.stepwise.changes import initialised
from distced.detectors.stepwise.composites import key_values
from distced.detectors.stepwise.gaps import NO_KEYS, KeyValues, StartGaps, least
from distced.detectors.stepwise.instance import Instance
from distced.detectors.stepwise.plans import StatePlan
from distced.middleware.model.events import Attribute, Event, Gap, OpenGap

if TYPE_CHECKING:
    from distced.detectors.stepwise.matcher import Matcher
    from distced.detectors.stepwise.type_plans import TypePlan

_NO_GAP: Final = Gap()


def start_recorded(matcher: Matcher, event: Event, plan: TypePlan, key: object, gaps: StartGaps) -> None:
    """Begin what an event begins, and note what went before: for each alternative a match may begin in."""
    root = matcher.root
    root.key = key
    for index, state in plan.looks:
        if not state.opens:
            if state.everything or matcher.in_domain(root, event, state, NO_KEYS):
                root.origin = (event.key, *gaps.before(index, key, NO_KEYS, {}))
                for move in state.moves:
                    if matcher.labelled(root, event, move):
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
                root.origin = (event.key, *gaps.before(index, key, alternative, values))
                matcher.follow(root, event, move)
        for keys in shown:
            gaps.note(index, key, keys, values, event)


def open_gaps(matcher: Matcher) -> list[OpenGap]:
    """The least gap of all records that are still to come, for each key of which there is news."""
    gaps = matcher.gaps
    if gaps is None:
        return []
    open_now: dict[object, list[Gap]] = {}
    for pool in matcher.waiting.pools:
        for key in gaps.touched & pool.keys():
            known = [each.origin for each in pool[key] if each.alive and each.origin is not None]
            if known:
                open_now.setdefault(key, []).extend(Gap(*origin[1:]) for origin in known)
    news: list[OpenGap] = []
    starts = matcher.automaton.starts
    for key in list(gaps.touched):
        gap = least([*open_now.get(key, ()), *(_start_gap(matcher, state, key, gaps) for state in starts)])
        if key not in open_now:
            gaps.touched.discard(key)
        if gap != gaps.told.get(key, _NO_GAP):
            gaps.told[key] = gap
            news.append(OpenGap(key_values(matcher.automaton.key, key), gap))
    return news


def hear_open(matcher: Matcher, type_name: str, part: Delegated, news: OpenGap) -> None:
    """Give up instances that no record of a part can answer any more."""
    if set(part.key) != set(matcher.automaton.key):
        return
    key = _key_from(matcher, part.key, news.key)
    if matcher.gaps is not None:
        matcher.gaps.answered[type_name, key] = news.gap
        matcher.gaps.touched.add(key)
    plan = matcher.plans.of(type_name)
    for pool, state in () if plan is None else plan.visits:
        bucket = pool.get(key)
        if bucket:
            (move,) = state.moves
            kept = [each for each in bucket if not _in_vain(each, news.gap, move.strong)]
            matcher.waiting.keep(pool, key, bucket, kept)


def _shown(root: Instance, event: Event, state: StatePlan) -> set[frozenset[int]]:
    """The reasons why a start state looks at an event: the inner keys each needs to be chosen."""
    return {
        test.entered_keys
        for test in state.domain
        if test.condition is True or test.condition(event, root.bindings, initialised(root, event, test.inits))  # type: ignore[operator]
    }


def _least(sets: set[frozenset[int]]) -> list[frozenset[int]]:
    """Those that hold no other one."""
    return [each for each in sets if not any(other < each for other in sets)]


def _start_gap(matcher: Matcher, state: int, key: object, gaps: StartGaps) -> Gap:
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


def _key_from(matcher: Matcher, names: tuple[str, ...], values: tuple[Attribute, ...]) -> object:
    if matcher.key_of is None:
        return None
    return matcher.key_of(Event("", 0, 0, "", 0, dict(zip(names, values, strict=True))))


def _in_vain(instance: Instance, gap: Gap, strong: bool) -> bool:
    """Whether every record to come begins too late for an instance that waits."""
    if instance.last is None:
        return False
    if strong:
        return gap.greatest_lo is not None and instance.hi < gap.greatest_lo
    return gap.previous is not None and instance.last.key < gap.previous
