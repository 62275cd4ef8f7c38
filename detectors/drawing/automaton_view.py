"""View of a pattern and its automaton, in words and independent of the form of drawing.

Text, diagrams and JSON are made from this view, so they show the same. States are called q0, q1, ... as in
composite-event-framework-2004, Appendix B; a move there is a transition with its label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from distced.detectors.automata.automaton import Automaton, AutomatonMove, Position
from distced.detectors.compiler import Compiled
from distced.detectors.drawing.wording import Wording, throttled_names
from distced.middleware.model.timestamps import format_duration


@dataclass(frozen=True, slots=True)
class MoveView:
    """A way out of a state.

    Attributes:
        source: the state it leaves.
        targets: the states it leads to; several where an instance forks.
        label: the described set it matches.
        strong: whether it has to follow strongly.
        hidden: whether its match is no constituent.
        binds: the variable the event is bound to; empty for none.
        sets: the registers it changes.
        opens: the windows that begin with it and the keys whose value it settles.
    """

    source: int
    targets: tuple[int, ...]
    label: str
    strong: bool
    hidden: bool = False
    binds: str = ""
    sets: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Actions besides matching."""
        notes = ["hidden"] if self.hidden else []
        notes += [f"as {self.binds}"] if self.binds else []
        return (*notes, *(f"set {each}" for each in self.sets), *self.opens)


@dataclass(frozen=True, slots=True)
class StateView:
    """A state.

    Attributes:
        name: q0, q1, ...
        start: whether it is a start state, which is always active.
        emits: the output on arrival; empty for none.
        arms: the time events started on arrival.
        domain: the described set it looks at; empty for a state without moves, where instances end.
        fails: the events of its domain that no move matches, which end an instance.
        running: the time events that may be running in it.
        windows: the windows that may be open in it.
        keys: the inner keys that have a value in it.
    """

    name: str
    start: bool = False
    emits: str = ""
    arms: tuple[str, ...] = ()
    domain: str = ""
    fails: str = ""
    running: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def generative(self) -> bool:
        """Whether arrival has an effect: a composite event, or a time event."""
        return bool(self.emits or self.arms)


@dataclass(frozen=True, slots=True)
class AutomatonView:
    """An automaton.

    Attributes:
        title: its published type, or its side of a `&`.
        canonical_id: the name of its canonical form.
        key: the attributes the whole is keyed by.
        within: the window around the whole; empty for none.
        registers: with their initial values.
        states, moves: by index; the moves of a state stand together.
        sides: the automata of the sides of `&`, which are detected on their own.
    """

    title: str
    canonical_id: str
    key: tuple[str, ...]
    within: str
    registers: tuple[str, ...]
    states: tuple[StateView, ...]
    moves: tuple[MoveView, ...]
    sides: tuple[AutomatonView, ...]

    def every(self) -> Iterator[AutomatonView]:
        """This automaton, and those of all sides."""
        yield self
        for side in self.sides:
            yield from side.every()

    @property
    def starts(self) -> tuple[int, ...]:
        """The start states."""
        return tuple(place for place, state in enumerate(self.states) if state.start)

    def moves_of(self, state: int) -> tuple[MoveView, ...]:
        """The ways out of a state."""
        return tuple(move for move in self.moves if move.source == state)

    def remarks(self) -> tuple[str, ...]:
        """Remarks on the whole automaton."""
        remarks = []
        if self.key:
            remarks.append(f"by {', '.join(self.key)}: independent instances for each value")
        if self.within:
            remarks.append(f"within {self.within}: an instance fails by an event beyond it")
        if self.registers:
            remarks.append(f"registers: {', '.join(self.registers)}")
        return tuple(remarks)


def view_of(compiled: Compiled, derived: Mapping[str, str] | None = None) -> AutomatonView:
    """The view of a compiled pattern.

    Args:
        derived: the names of derived types by the marks of their throttlings, where they are known.
    """
    output = compiled.automaton.output
    title = "pattern" if output is None else output.type_name
    return _view(compiled.automaton, title, "", throttled_names(compiled.throttlings, derived or {}))


def _view(automaton: Automaton, title: str, prefix: str, throttled: Mapping[str, str]) -> AutomatonView:
    numbers = [f"{prefix}{place + 1}" for place in range(len(automaton.parts))]
    sides = tuple(f"side {number}" for number in numbers)
    wording = Wording(automaton, sides, throttled)
    moves = [
        _move(automaton, wording, place, move) for place, state in enumerate(automaton.states) for move in state.moves
    ]
    emission = title if title.startswith("side ") else wording.emission()
    states = []
    for place, state in enumerate(automaton.states):
        arms = sorted(state.arms)
        states.append(
            StateView(
                name=f"q{place}",
                start=place in automaton.starts,
                emits=emission if state.accepting else "",
                arms=tuple(wording.timer(timer) for timer in arms),
                domain=wording.domain(automaton.domain(state)),
                fails=wording.failing(state),
                running=tuple(automaton.timers[timer].name for timer in sorted(state.timers)),
                windows=tuple(f"within {format_duration(automaton.windows[each])}" for each in sorted(state.windows)),
                keys=tuple(f"by {', '.join(automaton.inner_keys[each])}" for each in sorted(state.keys)),
            )
        )
    return AutomatonView(
        title=title,
        canonical_id=automaton.canonical_id,
        key=automaton.key,
        within="" if automaton.whole_window is None else format_duration(automaton.whole_window),
        registers=wording.registers(),
        states=tuple(states),
        moves=tuple(moves),
        sides=tuple(
            _view(part, side, f"{number}.", throttled)
            for part, side, number in zip(automaton.parts, sides, numbers, strict=True)
            if isinstance(part, Automaton)
        ),
    )


def _move(automaton: Automaton, wording: Wording, source: int, move: AutomatonMove) -> MoveView:
    position: Position = automaton.positions[move.position]
    opens = [f"within {format_duration(automaton.windows[each])} begins" for each in sorted(move.windows)]
    opens += [f"by {', '.join(automaton.inner_keys[each])} begins" for each in sorted(move.keys)]
    return MoveView(
        source=source,
        targets=automaton.arrivals[move.position],
        label=wording.label(position),
        strong=move.strong,
        hidden=position.hidden,
        binds="" if position.variable is None else automaton.variables[position.variable],
        sets=wording.updates(position),
        opens=tuple(opens),
    )
