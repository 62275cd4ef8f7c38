"""Views of automata: states and transitions in the pattern's notation, for drawings and as JSON.

Text, diagrams and JSON are made from this view, so they show the same. States are q0, q1, ... and moves are labelled as
in composite-event-framework-2004, Appendix B. Time events, sides of `&` and throttled types have their pattern names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import repeat
from typing import Final, NamedTuple

import msgspec

from distced.detectors.automata.automaton import (
    PART_PREFIX,
    PRIVATE_PREFIX,
    TIMER_PREFIX,
    Automaton,
    AutomatonMove,
    AutomatonState,
)
from distced.detectors.compiler import Compiled, beneath, private_names
from distced.detectors.explain.manner import remarks_of
from distced.detectors.language.aggregates import as_written, holds, holds_part, written_aggregates
from distced.detectors.language.derived import split_mark, throttled_names, without_marks
from distced.middleware.model.clock_rules import CLOCK_PREFIX, format_clock, is_clock
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_assignments, format_pattern, format_when
from distced.middleware.sets import expressions
from distced.middleware.sets.describable import EMPTY, ConditionByType, format_set, union
from distced.middleware.sets.expressions import Span

_KINDS: Final[dict[type, str]] = {tree.Keyed: "key", tree.Init: "registers"}
_WORDS: Final[dict[type, str]] = {
    tree.Concatenation: "one after the other, weakly: they may overlap",
    tree.Sequence: "one after the other, strongly ( ; )",
    tree.Alternation: "either ( | ), an instance for each branch",
    tree.Parallel: "both, in any order ( & )",
    tree.Hidden: "hidden ( ~ ): what it matches is no constituent",
}
_TIMES: Final[dict[tuple[int, int | None], str]] = {
    (0, None): "any number of times ( * )",
    (1, None): "once or more ( + )",
    (0, 1): "once or not at all",
    (1, 1): "once",
}


class MoveView(msgspec.Struct, frozen=True):
    """A transition out of a state: the described set it matches, the next states (several where an instance forks),
    whether its match is no constituent, the variable bound, the registers changed, the windows and keys begun."""

    label: str
    strong: bool
    to: tuple[str, ...]
    forks: bool
    hidden: bool
    binds: str | None
    sets: tuple[str, ...]
    opens: tuple[str, ...]

    def notes(self) -> list[str]:
        """Properties besides matching."""
        notes = ["hidden"] * self.hidden + [f"as {self.binds}"] * bool(self.binds)
        return [*notes, *(f"set {each}" for each in self.sets), *self.opens]


class StateView(msgspec.Struct, frozen=True):
    """A state; a start is always active, and arrival in a generative one emits an output or sets off time events.

    Attributes:
        domain: the described set it looks at; None for a state without moves, where instances end.
        fails: the events of its domain that no move matches, which end an instance.
        timers, windows, keys: those that may be running, open or settled in it.
    """

    name: str
    start: bool
    generative: bool
    emits: str | None
    sets_off: tuple[str, ...]
    domain: str | None
    fails: str | None
    timers: tuple[str, ...]
    windows: tuple[str, ...]
    keys: tuple[str, ...]
    moves: tuple[MoveView, ...]


class AutomatonView(msgspec.Struct, frozen=True):
    """An automaton: its published type or side of a `&`, its key, the window around it, and the automata of its own
    sides of `&` and private publications, which are detected independently."""

    title: str
    canonical_id: str
    key: tuple[str, ...]
    within: str | None
    registers: tuple[str, ...]
    starts: tuple[str, ...]
    states: tuple[StateView, ...]
    sides: tuple[AutomatonView, ...]
    manner: tuple[str, ...] = ()
    once: bool = False

    def every(self) -> Iterator[AutomatonView]:
        """This automaton, and those of all sides and private publications, each once."""
        yield from {(each.title, each.canonical_id): each for each in self._every()}.values()

    def _every(self) -> Iterator[AutomatonView]:
        yield self
        for side in self.sides:
            yield from side._every()

    def remarks(self) -> list[str]:
        """Remarks on the whole automaton."""
        remarks = [f"by {', '.join(self.key)}: independent instances for each value"] if self.key else []
        remarks += self.manner
        remarks += [f"within {self.within}: an instance fails by an event beyond it"] if self.within else []
        return [*remarks, *([f"registers: {', '.join(self.registers)}"] if self.registers else [])]


def view_of(compiled: Compiled, derived: Mapping[str, str] | None = None) -> AutomatonView:
    """The view of a compiled pattern; `derived` are names of throttled types by mark, where known."""
    title, emits = "pattern", "composite event"
    if output := compiled.automaton.output:
        title = output.type_name or title
        emits = _emitted(output)
    aggregates = written_aggregates(compiled.publication)
    names = names_in(compiled, derived)
    return _Viewer(compiled.automaton, title, emits, "", names, aggregates, beneath(compiled)).view()


def _emitted(output: tree.Output) -> str:
    attributes = ", ".join(expressions.quote_name(name) for name, _ in output.attributes)
    return f"{expressions.quote_name(output.type_name)}({attributes})" if output.type_name else f"({attributes})"


def names_in(compiled: Compiled, derived: Mapping[str, str] | None) -> dict[str, str]:
    """The names of throttled types, computed keys, private publications and clocks by mark."""
    clocks = {mark: name for mark, name in (derived or {}).items() if is_clock(mark)}
    throttled = throttled_names(compiled.throttlings, derived or {}, compiled.computations)
    return throttled | private_names(compiled) | clocks


class _Viewer(NamedTuple):
    """Makes the view of one automaton, whose sides are numbered after a prefix."""

    automaton: Automaton
    title: str
    emits: str
    prefix: str
    throttled: Mapping[str, str]
    aggregates: tuple[expressions.Call, ...] = ()
    privates: Mapping[str, Compiled] = {}

    def view(self) -> AutomatonView:
        automaton = self.automaton
        return AutomatonView(
            title=self.title,
            canonical_id=automaton.canonical_id,
            key=tuple(self.throttled.get(name, name) for name in automaton.key),
            within=None if automaton.whole_window is None else format_duration(automaton.whole_window),
            registers=self._held(each.name for each in automaton.registers)
            + tuple(
                f"{each.name} = {self._expression(initial)}"
                for each in automaton.registers
                if not self._made(each.name)
                for initial in dict.fromkeys(initial for _, initial in each.initials)
            ),
            starts=tuple(f"q{place}" for place in automaton.starts),
            states=tuple(self._state(place, state) for place, state in enumerate(automaton.states)),
            sides=tuple(
                self._part(place, part).view()
                for place, part in enumerate(automaton.parts)
                if isinstance(part, Automaton)
            ),
            manner=remarks_of(automaton),
            once=automaton.once,
        )

    def _part(self, place: int, part: Automaton) -> _Viewer:
        prefix, mark = f"{self.prefix}{place + 1}.", self.automaton.type_of_part(place)
        if not part.private or mark not in self.privates:
            side = self._side(place)
            return _Viewer(part, side, side, prefix, self.throttled, self.aggregates, self.privates)
        written = self.privates[mark].publication
        assert written.output is not None
        title, emits = f"private {self._name(mark)}", _emitted(written.output)
        return _Viewer(part, title, emits, prefix, self.throttled, written_aggregates(written), self.privates)

    def _state(self, place: int, state: AutomatonState) -> StateView:
        timers = self.automaton.timers
        domain = self._members(self.automaton.domain(state))
        return StateView(
            name=f"q{place}",
            start=place in self.automaton.starts,
            generative=state.accepting or bool(state.arms),
            emits=self.emits if state.accepting else None,
            sets_off=tuple(f"{timers[each].name} = {format_when(timers[each].when)}" for each in sorted(state.arms)),
            domain=(f"{{{', '.join(domain)}}}" if len(domain) > 1 else "".join(domain)) or None,
            fails=self._failing(state) or None,
            timers=tuple(timers[each].name for each in sorted(state.timers)),
            windows=self._windows(state.windows),
            keys=self._keys(state.keys),
            moves=tuple(map(self._move, state.moves)),
        )

    def _move(self, move: AutomatonMove) -> MoveView:
        automaton = self.automaton
        registers = automaton.registers
        position, to = automaton.positions[move.position], automaton.arrivals[move.position]
        return MoveView(
            label=", ".join(self._members(position.label)) or "nothing",
            strong=move.strong,
            to=tuple(f"q{each}" for each in to),
            forks=len(to) > 1,
            hidden=position.hidden,
            binds=None if position.variable is None else automaton.variables[position.variable],
            sets=tuple(
                f"{registers[place].name} = {self._expression(value, expressions.SUM_LEVEL)}"
                for place, value in position.updates
                if not self._made(registers[place].name)
            ),
            opens=(
                *(f"{each} begins" for each in (*self._windows(move.windows), *self._keys(move.keys))),
                *(f"adds to {each}" for each in self._held(registers[place].name for place, _ in position.updates)),
            ),
        )

    def _made(self, register: str) -> bool:
        """Whether a register is one of an aggregate."""
        return any(holds(register, each) or holds_part(register, each) for each in self.aggregates)

    def _held(self, registers: Iterable[str]) -> tuple[str, ...]:
        """The aggregates that registers hold."""
        names = list(registers)
        return tuple(
            expressions.format_expression(each) for each in self.aggregates if any(holds(name, each) for name in names)
        )

    def _windows(self, indices: frozenset[int]) -> tuple[str, ...]:
        return tuple(f"within {format_duration(self.automaton.windows[each])}" for each in sorted(indices))

    def _keys(self, indices: frozenset[int]) -> tuple[str, ...]:
        return tuple(f"by {', '.join(self.automaton.inner_keys[each])}" for each in sorted(indices))

    def _members(self, form: ConditionByType) -> list[str]:
        """The members of a describable set in pattern notation."""
        members, taken = [], []
        for name, condition in form.by_type.items():
            # `any` is every event that is published: time events and clocks are named, or not meant.
            if condition == form.others and not name.startswith((TIMER_PREFIX, CLOCK_PREFIX)):
                continue
            if condition != expressions.FALSE:
                members.append(self._member(name, condition))
            elif not name.startswith((TIMER_PREFIX, CLOCK_PREFIX)):
                taken.append(self._name(name))
        if form.others != expressions.FALSE:
            less = f" - {{{', '.join(taken)}}}" if len(taken) > 1 else "".join(f" - {name}" for name in taken)
            members.insert(0, self._filtered("any", form.others) + less)
        return members

    def _failing(self, state: AutomatonState) -> str:
        """The events a state reads without a move for them, which end an instance, as far as conditions show."""
        labels = reduce(union, (self.automaton.positions[move.position].label for move in state.moves), EMPTY)
        domain = self.automaton.domain(state)
        members: list[str] = []
        # No type has an empty name: this one stands for all others.
        for name in dict.fromkeys((*domain.by_type, *labels.by_type, "")):
            looked_at, matched = domain.condition(name), labels.condition(name)
            covered = {*expressions.operands(matched, "or"), expressions.FALSE}
            if matched == expressions.TRUE or covered.issuperset(expressions.operands(looked_at, "or")):
                continue
            whole = name and matched == expressions.FALSE
            other = f"any other {self._name(name) if name else 'event'}"
            members.append(self._member(name, looked_at) if whole else other)
        return ", ".join(dict.fromkeys(members))

    def _name(self, type_name: str) -> str:
        """A type, a time event or a side of a `&` by its name in the pattern."""
        if type_name.startswith(TIMER_PREFIX):
            return self.automaton.timers[int(type_name.removeprefix(TIMER_PREFIX))].name
        if type_name.startswith(PRIVATE_PREFIX):
            return expressions.quote_name(self.throttled.get(type_name, type_name))
        if type_name.startswith(PART_PREFIX):
            return self._side(int(type_name.removeprefix(PART_PREFIX)))
        if is_clock(type_name):
            return self.throttled.get(type_name, f"clock {format_clock(type_name)}")
        return expressions.quote_name(type_name)

    def _side(self, place: int) -> str:
        return f"side {self.prefix}{place + 1}"

    def _member(self, name: str, condition: expressions.Expression) -> str:
        throttled, rest = split_mark(condition, self.throttled) or (self._name(name), condition)
        return self._filtered(throttled, rest)

    def _filtered(self, name: str, condition: expressions.Expression) -> str:
        return name if condition == expressions.TRUE else f"{name} where {self._expression(condition)}"

    def _expression(self, expression: expressions.Expression, level: int = 0) -> str:
        shown = as_written(without_marks(expression, self.throttled), self.aggregates)
        return expressions.format_expression(shown, level)


class Outline(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A node of the tree, in JSON as here: its role in the node above, its kind (`atom`, `sequence`, ...), its text,
    how it was written in another language, its parts."""

    role: str = ""
    kind: str
    text: str
    written: str = ""
    parts: tuple[Outline, ...] = ()


def outline(pattern: tree.Pattern, role: str = "", source: str = "") -> Outline:
    """The outline of a pattern; with the text in another language that it comes of, if any."""
    kind = _KINDS.get(type(pattern), type(pattern).__name__.lower())
    roles = ("first", f"then, with {pattern.timer}") if isinstance(pattern, tree.Timing) else repeat("")
    return Outline(
        role=role,
        kind=kind,
        text=_text(pattern),
        written=excerpt(source, pattern.span) if isinstance(pattern, tree.Atom) else "",
        parts=tuple(map(outline, tree.children(pattern), roles, repeat(source))),
    )


def excerpt(source: str, span: Span | None, most: int = 60) -> str:
    """The words at a place of a text, in one line; empty without a place."""
    words = "" if span is None else " ".join(source[span.start : span.end].split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _text(pattern: tree.Pattern) -> str:
    match pattern:
        case tree.Reference(name=name):
            return name
        case tree.Delegated(detector=detector):
            return f"detected by {detector}"
        case tree.Iteration(least=least, most=most):
            return _times(least, most)
        case tree.Timing(timer=timer, when=when):
            relative = isinstance(
                when.first if isinstance(when, tree.Recurring) else when, tree.Relative | tree.Calculated
            )
            after = " after the end of the first" if relative else ""
            return f"the time event {timer} comes {format_when(when)}{after}"
        case tree.Scope(domain=domain):
            return f"every state inside also looks at {format_set(domain)}"
        case tree.Window(length=length):
            return f"within {format_duration(length)}"
        case tree.Keyed(attributes=attributes):
            return f"by {', '.join(attributes)}: for each value on its own"
        case tree.Init(registers=registers):
            return f"registers: {format_assignments(registers)}"
        case _:
            return _WORDS.get(type(pattern)) or format_pattern(pattern)


def _times(least: int, most: int | None) -> str:
    if (least, most) in _TIMES:
        return _TIMES[least, most]
    if most is None:
        return f"{least} times or more"
    return f"{least} times" if least == most else f"{least} to {most} times"
