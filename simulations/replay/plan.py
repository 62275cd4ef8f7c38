"""Plan of a replay: how it is cut into tasks, with reasons.

In this order: by key, where the patterns of a group have one, since no task then reads more than it needs; by slices of
time, where the duration of a match is bounded, each task reading as much more before its slice; by sub-patterns, where
there are several and the columnar engine cannot run the pattern, since it alone is faster than they are together; else
one task. Patterns that can be cut alike are one group, and so are those that read one another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.detectors.compiler import Compiled, beneath, types_read
from distced.detectors.cutting.cut import DetectorGraph, cut, full
from distced.detectors.runtime.engines import has_columnar
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import INSTANT_MIN, format_duration
from distced.simulations.replay.pattern_properties import groups_of, key_of_group, reach_of

CutWay: TypeAlias = Literal["key", "time", "parts", "whole"]
WAYS: Final[tuple[CutWay, ...]] = ("key", "time", "parts", "whole")

LEAST: Final = 100_000
"""Least number of events of a task: below it, a task costs more to start than it saves."""

_TASKS_PER_CORE: Final = 2
_SLICES_PER_CORE: Final = 4
_OVERLAP: Final = 4
"""Least ratio of the length of a slice to the time read before it."""


class Slice(NamedTuple):
    """A stretch of time: its composite events have `after < hi <= until`, the events read `begin <= hi`, ns."""

    begin: int
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Plan of the replay of a group of patterns, given by their indices.

    Attributes:
        types, events: types of events they read, None for all, and the number of these events.
        way, why: of cutting the work, and the reason, for reports.
        by, slots: the attributes of the key, and the number of partitions; 1 without.
    """

    patterns: tuple[int, ...]
    types: frozenset[str] | None
    events: int
    way: CutWay
    why: str
    slices: tuple[Slice, ...]
    by: tuple[str, ...] = ()
    slots: int = 1
    graph: DetectorGraph | None = None

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return self.slots * len(self.slices) if self.graph is None else len(self.graph.plans)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay, cut into tasks of groups; events with `begin <= hi <= until` are read, and time ends at `until`, ns."""

    groups: tuple[GroupPlan, ...]
    begin: int
    until: int


def plan_of(
    patterns: Sequence[Compiled],
    files: Sequence[HistoryFile],
    *,
    cores: int,
    until: int,
    begin: int = INSTANT_MIN,
    by: str | None = None,
    way: CutWay | None = None,
    least: int = LEAST,
) -> ReplayPlan:
    """Plan of the replay of patterns over files of a history until an instant, ns, on a number of cores.

    A required key or way (`by`, `way`) that the patterns cannot be cut by is a `DistcedError`.
    """
    groups = []
    for places in together(patterns, by) if way is None else groups_of(patterns):
        group = [patterns[place] for place in places]
        types = types_read(group)
        mine = [each for each in files if types is None or each.type in types]
        groups.append(_group(tuple(places), group, types, mine, cores, begin, until, by, way, least))
    return ReplayPlan(tuple(groups), begin, until)


def together(patterns: Sequence[Compiled], by: str | None = None) -> list[list[int]]:
    """Groups of patterns replayed together: those that read one another, and those that can be cut alike.

    An engine with many patterns takes little longer than one with a few.
    """
    keyed: list[tuple[set[str], list[int]]] = []
    bounded: list[int] = []
    others: list[list[int]] = []
    for places in groups_of(patterns):
        group = [patterns[place] for place in places]
        key = set(key_of_group(group)[0])
        if by is not None:
            key &= {by}
        fitting = next((each for each in keyed if each[0] & key), None)
        if fitting is not None:
            fitting[0].intersection_update(key)
            fitting[1].extend(places)
        elif key:
            keyed.append((key, list(places)))
        elif reach_of(group) is not None:
            bounded += places
        else:
            others.append(places)
    return [*(sorted(places) for _, places in keyed), *([sorted(bounded)] if bounded else []), *others]


def _group(
    places: tuple[int, ...],
    group: Sequence[Compiled],
    types: frozenset[str] | None,
    files: Sequence[HistoryFile],
    cores: int,
    begin: int,
    until: int,
    by: str | None,
    way: CutWay | None,
    least: int,
) -> GroupPlan:
    events = sum(each.rows for each in files)
    everything = (Slice(begin, INSTANT_MIN, until),)
    key, no_key = key_of_group(group)
    if by is not None:
        if by not in key:
            raise DistcedError(
                "patterns that cannot be replayed by this key", given=by,
                allowed=", ".join(key) or f"none: {no_key}", where=_named(group),
                advice="leave --by out, and see --plan",
            )  # fmt: skip
        key = (by,)
        way = way or "key"
    reach = reach_of(group)
    slices = _slices(files, reach, min(_SLICES_PER_CORE * cores, max(events // least, 1)), begin, until)
    graph = cut(group, full) if way is not None or (cores > 1 and not runs_columnar(group)) else None
    little = f"{events:,} events are little for more than one task"
    no_bound = f"{no_key}, and nothing bounds how long a match may last"
    if any(each.once for each in group):
        no_bound = f"{no_key}, and `once` counts from the beginning, so no slice of time stands alone"
    elif any(each.quiet for pattern in group for each in (pattern, *beneath(pattern).values())):
        no_bound = f"{no_key}, and `at most` depends on what has passed before, so no slice of time stands alone"
    elif any(each.state is not None for pattern in group for each in pattern.throttlings):
        no_bound = f"{no_key}, and the last value of a type may be of any age, so no slice of time stands alone"
    elif any(each.endless for each in group):
        no_bound = f"{no_key}, and what is consumed depends on all before, so no slice of time stands alone"
    ways: dict[CutWay, str | None] = {
        "key": f"every pattern is keyed by {', '.join(key)}" if key else None,
        "time": None if reach is None else f"no match lasts longer than {format_duration(reach)}",
        "parts": "its sub-patterns are detected side by side" if graph is not None and len(graph.plans) > 1 else None,
        "whole": "as was asked for",
    }
    if way is not None:
        if ways[way] is None:
            raise DistcedError(
                "patterns that cannot be replayed in this way", given=way,
                allowed=", ".join(name for name in WAYS if ways[name] is not None), where=_named(group),
                advice="see --plan",
            )  # fmt: skip
        chosen, why = way, str(ways[way])
    elif events < 2 * least:
        chosen, why = "whole", little
    elif key:
        chosen, why = "key", str(ways["key"])
    elif len(slices) > 1:
        chosen, why = "time", f"{no_key}, and {ways['time']}"
    elif ways["parts"] is not None:
        chosen, why = "parts", f"{no_bound}; {ways['parts']}"
    elif reach is None:
        chosen, why = "whole", no_bound
    else:
        chosen, why = "whole", f"a match may last {format_duration(reach)}, which is long for what there is"
    made = GroupPlan(places, types, events, chosen, why, everything)
    if chosen == "key":
        return replace(made, by=key, slots=max(1, min(_TASKS_PER_CORE * cores, events // least)))
    if chosen == "time":
        return replace(made, slices=slices)
    return replace(made, graph=graph) if chosen == "parts" else made


def _named(group: Sequence[Compiled]) -> str:
    """Names of patterns: the types they publish, or their texts."""
    return ", ".join(each.publishes.name or each.text for each in group)


def runs_columnar(group: Sequence[Compiled]) -> bool:
    """Whether the columnar engine runs all of the patterns in its loops."""
    if not has_columnar():
        return False
    from distced.detectors.columnar.program.units import supports

    return all(supports(each.automaton) for each in group)


def _slices(files: Sequence[HistoryFile], reach: int | None, most: int, begin: int, until: int) -> tuple[Slice, ...]:
    """Stretches of time with about equal numbers of events, each long beside what is read before it."""
    if reach is None or not files:
        return (Slice(begin, INSTANT_MIN, until),)
    first = max(min(each.note.first for each in files), begin)
    last = min(max(each.note.last for each in files), until)
    if reach:
        most = min(most, (last - first) // (_OVERLAP * reach))
    ends: list[int] = []
    for number in range(1, most):
        end = _quantile(files, first, last, number / most)
        if end - (ends[-1] if ends else first) >= _OVERLAP * reach and first < end < last:
            ends.append(end)
    afters = [INSTANT_MIN, *ends]
    return tuple(
        Slice(max(begin, after - reach) if after > INSTANT_MIN else begin, after, end)
        for after, end in zip(afters, [*ends, until], strict=True)
    )


def _quantile(files: Sequence[HistoryFile], first: int, last: int, share: float) -> int:
    """Approximate instant of a share of the events, assumed even within a file."""
    wanted = share * sum(each.rows for each in files)
    return first + bisect_left(
        range(first, last), wanted, key=lambda instant: sum(_come(each, instant) for each in files)
    )


def _come(file: HistoryFile, instant: int) -> float:
    note = file.note
    if instant >= note.last:
        return file.rows
    if instant < note.first:
        return 0.0
    return file.rows * (instant - note.first + 1) / (note.last - note.first + 1)
