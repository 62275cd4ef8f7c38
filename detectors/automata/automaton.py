"""Detection automata, independent of the state of a run.

composite-event-framework-2004, "Composite Event Detectors" and "Formal Definition of Automata", extended by bindings,
guards, registers, windows, keys and hiding (design, section 1). States have an input domain, and moves that are strong
or weak. In place of the article's empty transitions (Appendix B) a *position* is one atom of the pattern, a state is
the set of positions that may match next, and each position leads to the next states, several where an alternation
forks. That is Glushkov's construction with Appendix B's merging; Thompson's, with empty transitions at run time, was
rejected because an instance must have one fate.

An automaton is a value: it holds no events and no functions, and every engine runs the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from distced.middleware.model.clock_rules import CLOCK_PREFIX, is_clock
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MAX, MINUTE, SECOND
from distced.middleware.patterns.tree import Delegated, Instant, Output, Quiet, Recurring, Relative, TimeOfDay, When
from distced.middleware.sets.describable import EMPTY, ConditionByType, union
from distced.middleware.sets.expressions import FALSE, Expression

TIMER_PREFIX: Final = "@"
PART_PREFIX: Final = "&"
PRIVATE_PREFIX: Final = f"{PART_PREFIX}c"
"""Of the types of private publications: a canonical id behind the prefix of parts."""

INSIDE: Final = (TIMER_PREFIX, PART_PREFIX, CLOCK_PREFIX)
"""How types begin that no source publishes."""

PositionIndex: TypeAlias = int
StateIndex: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Position:
    """One atom of the pattern, or one joint of a `&`.

    Attributes:
        label: the events it matches, those bound or keyed by the instance included.
        domain: the events it looks at, scopes and time events of the surroundings included.
        text: for messages.
        variable: the place the matched event is bound to; None for none.
        updates: registers it changes, in order, with their new values.
        hidden: whether its match is no constituent.
        windows, keys, timers: those it stands in; of keys not that of the whole.
        part: the part whose composite events it matches; None for an atom.
        after_first: whether it takes the second side of a `&`, so that the bound of the joint holds for it.
        joint: which `&` it belongs to; None for an atom and for a delegated part that is no side.
    """

    label: ConditionByType
    domain: ConditionByType
    text: str
    variable: int | None = None
    updates: tuple[tuple[int, Expression], ...] = ()
    hidden: bool = False
    windows: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    timers: tuple[int, ...] = ()
    part: int | None = None
    after_first: bool = False
    joint: int | None = None


@dataclass(frozen=True, slots=True)
class AutomatonMove:
    """A transition to the next atom, strong or weak; windows, `init` and keys that it enters begin again."""

    position: PositionIndex
    strong: bool
    windows: frozenset[int] = frozenset()
    inits: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class AutomatonState:
    """A state: the moves of an instance in it, all with one fate; none for a state that only completes the match.

    Attributes:
        accepting: whether it is generative: arriving there completes a match.
        arms: the time events started on arrival.
        timers, windows, keys: those that may be pending or open in it; `timers` with those started on arrival.
    """

    moves: tuple[AutomatonMove, ...]
    accepting: bool
    arms: frozenset[int] = frozenset()
    timers: frozenset[int] = frozenset()
    windows: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()

    @property
    def strong(self) -> bool:
        """Whether all moves are strong, so that only a directly following event is offered."""
        return bool(self.moves) and all(move.strong for move in self.moves)


@dataclass(frozen=True, slots=True)
class AutomatonTimer:
    """A time event: its name in the pattern and the rule for its due instant."""

    name: str
    when: When


@dataclass(frozen=True, slots=True)
class Register:
    """A register; all of one name are one register.

    For each `init` that begins it, `initials` has its number and the value, an expression over variables bound before;
    none where a side of a `&` fills it.
    """

    name: str
    initials: tuple[tuple[int, Expression], ...]


@dataclass(frozen=True, slots=True)
class Automaton:
    """The automaton that detects one pattern; its parts are tuples by index.

    Attributes:
        canonical_id: the name of the pattern's canonical form; the source of its composite events.
        starts: the start states, always active; one for each alternative a match may begin with.
        arrivals: for each position the states an instance is in after matching it.
        variables: the names events are bound to.
        windows: the length of each window, ns.
        whole_window: the least length of a window around the whole pattern, ns; None for none.
        inner_keys: for each key inside the pattern its attributes.
        key: the attributes the whole pattern is keyed by; empty for none.
        parts: the automata of the sides of `&`, those of private publications, and parts delegated to other detectors.
        joints: number of `&`.
        exports: for a side of a `&`: the variables and registers whose values its composite events carry.
        output: the published output; None for a composite event without a name.
        epochs: whether events are consumed by epochs.
        once: whether one instance for each key stands in each start state, instead of a start that is always active.
        settled: whether generative states emit at the end of an instant, for the instances that then stand there.
        constants: values of its parameters; empty for an automaton without any.
        private: whether it is that of a private publication, a part of others.
        beside: types whose events count for what stands beside others (states), read before the automaton.
    """

    canonical_id: str
    positions: tuple[Position, ...]
    states: tuple[AutomatonState, ...]
    starts: tuple[StateIndex, ...]
    arrivals: tuple[tuple[StateIndex, ...], ...]
    variables: tuple[str, ...] = ()
    registers: tuple[Register, ...] = ()
    windows: tuple[int, ...] = ()
    whole_window: int | None = None
    timers: tuple[AutomatonTimer, ...] = ()
    inner_keys: tuple[tuple[str, ...], ...] = ()
    key: tuple[str, ...] = ()
    parts: tuple[Automaton | Delegated, ...] = ()
    joints: int = 0
    exports: frozenset[str] = frozenset()
    output: Output | None = None
    epochs: bool = False
    once: bool = False
    settled: bool = False
    constants: tuple[Attribute, ...] = ()
    private: bool = False
    beside: frozenset[str] = frozenset()
    # As `type_names` has found them; ... before.
    _names: frozenset[str] | EllipsisType | None = field(default=..., init=False, compare=False, repr=False)
    # As `clocks` has found them.
    _clocks: frozenset[str] | EllipsisType = field(default=..., init=False, compare=False, repr=False)
    # As `properties.guard_cost` has found it; -1 before.
    guard: int = field(default=-1, init=False, compare=False, repr=False)

    @property
    def indivisible(self) -> bool:
        """Whether it is detected whole: never cut, and no part of another pattern."""
        return self.epochs or self.once or self.settled or self.selects or bool(self.clocks)

    @property
    def clocks(self) -> frozenset[str]:
        """The clocks read, parts included."""
        if isinstance(self._clocks, EllipsisType):
            named = (name for position in self.positions for name in position.domain.by_type if is_clock(name))
            object.__setattr__(self, "_clocks", frozenset(named).union(*(part.clocks for part in self.inner)))
        return self._clocks  # type: ignore[return-value]

    @property
    def begins_by_clock(self) -> bool:
        """Whether an instance that stands in the start, or the first event of a match, of a part, too, is a clock's."""
        begins = (self.positions[move.position] for start in self.starts for move in self.states[start].moves)
        read = (form for each in begins for form in ((each.label, each.domain) if self.once else (each.label,)))
        own = any(is_clock(name) and condition != FALSE for form in read for name, condition in form.by_type.items())
        return own or any(part.begins_by_clock for part in self.inner)

    @property
    def selects(self) -> bool:
        """Whether its matches depend on others (`take`, `consuming`)."""
        return self.output is not None and self.output.selects

    @property
    def quiet(self) -> Quiet | None:
        """Which of its composite events are not emitted (`at most`); None for none."""
        return None if self.output is None else self.output.quiet

    @property
    def ends_otherwise(self) -> bool:
        """Whether an instance may be over where no event is offered to it, or emit where it has been."""
        return self.settled or self.selects

    @property
    def by_instants(self) -> bool:
        """Whether the end of an instant counts."""
        return self.epochs or self.settled or self.quiet is not None

    @property
    def inner(self) -> tuple[Automaton, ...]:
        """The parts that run inside the automaton."""
        return tuple(part for part in self.parts if isinstance(part, Automaton))

    @property
    def sides(self) -> tuple[Automaton, ...]:
        """The sides of `&` that run inside the automaton."""
        return tuple(part for part in self.inner if not part.private)

    @property
    def has_privates(self) -> bool:
        """Whether it reads private publications, the sides of `&` left aside."""
        return any(part.private for part in self.parts)

    def type_of_part(self, index: int) -> str:
        """The type of a part's composite events inside the automaton."""
        part = self.parts[index]
        if not part.private:
            return part_type(index)
        return PART_PREFIX + (part.source if isinstance(part, Delegated) else part.canonical_id)

    @property
    def delegated(self) -> tuple[Delegated, ...]:
        """The parts that detectors of their own detect, those of inner automata included."""
        own = tuple(part for part in self.parts if isinstance(part, Delegated))
        return own + tuple(each for part in self.inner for each in part.delegated)

    def with_constants(self, canonical_id: str, constants: tuple[Attribute, ...]) -> Automaton:
        """The automaton of another pattern of the same shape."""
        # Ten thousand are made; `dataclasses.replace` takes four times as long.
        made = object.__new__(Automaton)
        for name in Automaton.__slots__:
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "canonical_id", canonical_id)
        object.__setattr__(made, "constants", constants)
        return made

    def domain(self, state: AutomatonState) -> ConditionByType:
        """The input domain of a state: the union of its positions'."""
        form = EMPTY
        for move in state.moves:
            form = union(form, self.positions[move.position].domain)
        return form

    def type_names(self) -> frozenset[str] | None:
        """The published event types read, parts included; None where `any` leaves them open."""
        if isinstance(self._names, EllipsisType):
            object.__setattr__(self, "_names", self._find_names())
        return self._names  # type: ignore[return-value]

    def _find_names(self) -> frozenset[str] | None:
        names: set[str] = set(self.beside)
        for position in self.positions:
            found = position.domain.types()
            if found is None:
                return None
            names |= {name for name in found if name[0] not in INSIDE}
        for part in self.inner:
            found = part.type_names()
            if found is None:
                return None
            names |= found
        return frozenset(names)


def timer_type(index: int) -> str:
    """The type of a time event inside its automaton."""
    return f"{TIMER_PREFIX}{index}"


def part_type(index: int) -> str:
    """The type of a part's composite events inside the automaton."""
    return f"{PART_PREFIX}{index}"


def due_after(delay: Attribute, end: int) -> int | None:
    """The due instant, ns, of a time event with a calculated delay, started at `end`; None for never."""
    if not isinstance(delay, int | float) or type(delay) is bool or not 0 <= delay <= INSTANT_MAX:
        return None
    # The greatest float that is no more is below the bound by itself.
    due = end + int(delay)
    return due if due <= INSTANT_MAX else None


def due_again(when: When, fired: int) -> int | None:
    """The due instant, ns, of a recurring time event behind the one at `fired`; None for never."""
    match when:
        case Recurring(first=Relative() as first):
            return due_instant(first, fired)
        case Recurring(first=TimeOfDay() as first):
            return due_instant(first, fired + 1)
    return None


_MIDNIGHT_ORDINAL = 719_163  # 1970-01-01 in the proleptic Gregorian calendar


def due_instant(when: When, end: int) -> int | None:
    """The due instant, ns, of a time event started at `end`, the `hi` of the event that sets it off; None for never, as
    an absolute instant that is past. A time of day is the next one at or after `end`."""
    match when:
        case Recurring(first=first):
            return due_instant(first, end)
        case Relative(delay=delay):
            due = end + delay
            return due if due <= INSTANT_MAX else None
        case Instant(instant=instant):
            return instant if instant >= end else None
        case TimeOfDay(nanosecond=nanosecond, zone=int(minutes)):
            due = end + (nanosecond - minutes * MINUTE - end) % DAY
            return due if due <= INSTANT_MAX else None
        case TimeOfDay(nanosecond=nanosecond, zone=str(name)):
            return _next_in_zone(nanosecond, ZoneInfo(name), end)
    raise TypeError(when)


def _next_in_zone(nanosecond: int, zone: ZoneInfo, end: int) -> int | None:
    # In a zone with summer time days differ in length, so candidates are made day by day. A time that a spring night
    # leaves out is read by the offset before it, one that an autumn night has twice is the first (PEP 495, fold 0).
    day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=end // SECOND)).astimezone(zone).toordinal()
    for ordinal in range(day - 1, day + 3):
        midnight = datetime.fromordinal(ordinal)
        local = midnight.replace(
            hour=nanosecond // HOUR, minute=nanosecond // MINUTE % 60, second=nanosecond // SECOND % 60, tzinfo=zone
        )
        offset = local.utcoffset() or timedelta()
        due = (ordinal - _MIDNIGHT_ORDINAL) * DAY + nanosecond - round(offset.total_seconds()) * SECOND
        if due >= end:
            return due if due <= INSTANT_MAX else None
    return None
