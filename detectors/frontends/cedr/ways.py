"""Ways through a CEDR pattern: which operands have an event in a match, and what has to hold between them.

ANY and ATLEAST choose among their parts; SEQUENCE puts parts in order. A match is of one way, and its events come in
one of the orders that the way allows. Rejected: operators of the core for operators of CEDR, because `A & B` and
`A ; B` take the first event that follows, and CEDR selects among all (frontends, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from distced.detectors.frontends.cedr import cedr_tree as tree


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of a match that an event takes.

    Attributes:
        name: variable of the core; that of the operand but for further events of `ATLEAST(n, E x)`.
    """

    name: str
    operand: tree.Operand


@dataclass(frozen=True, slots=True)
class Between:
    """Absence, from behind the last event of what precedes it to the first event of what follows.

    Attributes:
        before, behind: names of the slots on both sides; None for none.
    """

    absence: tree.Absence
    before: frozenset[str] | None
    behind: frozenset[str] | None

    @property
    def limits_front(self) -> bool:
        """Whether it is ATMOST with a scope in front of something."""
        return self.before is None and bool(self.absence.most) and self.absence.scope is not None


@dataclass(frozen=True, slots=True)
class Cancelling:
    """What cancels, and the names of the slots that it concerns."""

    by: tree.Operand | tree.TimerOperand
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a pattern.

    Attributes:
        slots: in the order of the pattern.
        strong: for a name those of slots that have to end before its event begins.
        weak: for a name those of slots whose event is consumed before.
        unless: operand of UNLESS.
    """

    slots: tuple[Slot, ...] = ()
    strong: Mapping[str, frozenset[str]] = field(default_factory=dict)
    weak: Mapping[str, frozenset[str]] = field(default_factory=dict)
    absences: tuple[Between, ...] = ()
    cancelling: tuple[Cancelling, ...] = ()
    timers: tuple[tree.TimerOperand, ...] = ()
    unless: tree.Operand | None = None

    @property
    def names(self) -> frozenset[str]:
        """Names of all slots."""
        return frozenset(each.name for each in self.slots)

    def orders(self) -> Iterator[tuple[Slot, ...]]:
        """The orders in which the events of a match may come."""

        def behind(taken: tuple[Slot, ...], left: tuple[Slot, ...]) -> Iterator[tuple[Slot, ...]]:
            if not left:
                yield taken
            names = {each.name for each in left}
            for slot in left:
                needed = self.strong.get(slot.name, frozenset()) | self.weak.get(slot.name, frozenset())
                if names.isdisjoint(needed):
                    yield from behind((*taken, slot), tuple(each for each in left if each is not slot))

        return behind((), self.slots)


def ways(pattern: tree.Pattern, copies: Mapping[str, Sequence[str]]) -> Iterator[Way]:
    """The ways through a checked pattern; `copies` are the names of slots of `ATLEAST(n, E x)` by the variable."""
    match pattern:
        case tree.Operand(variable=name):
            yield Way((Slot(name, pattern),))
        case tree.TimerOperand():
            yield Way(timers=(pattern,))
        case tree.All(parts=parts):
            yield from _all(parts, copies)
        case tree.AnyOf(parts=parts):
            for part in parts:
                yield from ways(part, copies)
        case tree.AtLeast(parts=(tree.Operand() as operand,)):
            names = copies[operand.variable]
            weak = {name: frozenset({before}) for before, name in pairwise(names)}
            yield Way(tuple(Slot(name, operand) for name in names), weak=weak)
        case tree.AtLeast(count=count, parts=parts):
            for chosen in combinations(parts, count):
                yield from _all(chosen, copies)
        case tree.Sequence(parts=parts):
            yield from _sequence(parts, copies)
        case tree.Unless(pattern=inner, operand=operand):
            for way in ways(inner, copies):
                yield _joined((way,), unless=operand)
        case tree.Cancelled(pattern=inner, by=by):
            for way in ways(inner, copies):
                yield _joined((way,), cancelling=Cancelling(by, way.names))


def repeated_operands(pattern: tree.Pattern) -> Iterator[tuple[str, int]]:
    """Variables of `ATLEAST(n, E x)`, and n."""
    for each in tree.walk(pattern):
        match each:
            case tree.AtLeast(count=count, parts=(tree.Operand(variable=variable),)):
                yield variable, count
            case _:
                pass


def _all(parts: Sequence[tree.Pattern], copies: Mapping[str, Sequence[str]]) -> Iterator[Way]:
    for chosen in _chosen(parts, copies):
        yield _joined(chosen)


def _chosen(parts: Sequence[tree.Pattern], copies: Mapping[str, Sequence[str]]) -> Iterator[tuple[Way, ...]]:
    """A way through each part, in every combination. `itertools.product` would hold all ways of all parts, and a
    recursion over a thousand parts is too deep."""
    if not parts:
        yield ()
        return
    chosen: list[Way] = []
    # Further ways through each part that has one, and through the next.
    waiting = [ways(parts[0], copies)]
    while waiting:
        way = next(waiting[-1], None)
        if way is None:
            waiting.pop()
            del chosen[-1:]
        elif len(chosen) + 1 == len(parts):
            yield (*chosen, way)
        else:
            chosen.append(way)
            waiting.append(ways(parts[len(chosen)], copies))


def _sequence(parts: Sequence[tree.Pattern | tree.Absence], copies: Mapping[str, Sequence[str]]) -> Iterator[Way]:
    for chosen in _chosen([each for each in parts if not isinstance(each, tree.Absence)], copies):
        strong: dict[str, frozenset[str]] = {}
        before: frozenset[str] = frozenset()
        for way in chosen:
            strong |= {name: before for name in way.names if before}
            before |= way.names
        groups = [way.names for way in chosen if way.slots]
        absences: list[Between] = []
        place = 0
        for part in parts:
            if isinstance(part, tree.Absence):
                behind = groups[place] if place < len(groups) else None
                absences.append(Between(part, groups[place - 1] if place else None, behind))
            elif not isinstance(part, tree.TimerOperand):
                place += 1
        yield _joined(chosen, strong=strong, absences=tuple(absences))


def _joined(
    parts: Sequence[Way],
    *,
    strong: Mapping[str, frozenset[str]] | None = None,
    absences: tuple[Between, ...] = (),
    cancelling: Cancelling | None = None,
    unless: tree.Operand | None = None,
) -> Way:
    order: dict[str, frozenset[str]] = {}
    for each in (*(part.strong for part in parts), strong or {}):
        for name, before in each.items():
            order[name] = order.get(name, frozenset()) | before
    return Way(
        tuple(slot for part in parts for slot in part.slots),
        order,
        {name: before for part in parts for name, before in part.weak.items()},
        (*(each for part in parts for each in part.absences), *absences),
        (*(each for part in parts for each in part.cancelling), *((cancelling,) if cancelling else ())),
        tuple(timer for part in parts for timer in part.timers),
        unless or next((part.unless for part in parts if part.unless), None),
    )
