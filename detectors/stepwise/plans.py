"""What to do when an event of a given type meets an instance in a given state, worked out once for each such pair.

An event's type settles most of a describable set; what is left is a condition, compiled to a function, or nothing at
all. So an engine looks up a plan by type and visits only the states that look at such events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from distced.detectors.automata.automaton import Automaton, Move, Position, State, part_type
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Event
from distced.middleware.patterns.tree import When
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.evaluation import (
    Bindings,
    Condition,
    Registers,
    Scope,
    Value,
    compile_condition,
    compile_value,
)
from distced.middleware.sets.expressions import FALSE

KeyOf = Callable[[Event], object]
"""The key of an event; None if one of its attributes is null."""


@dataclass(frozen=True, slots=True)
class Target:
    """A state an instance goes on in.

    Attributes:
        state: its index.
        accepting: whether arriving there completes a match.
        goes_on: whether there are moves out of it, so that the instance lives on.
        arms: the time events set off on arrival.
        timers, windows, keys: what stays; whatever is not listed is over.
    """

    state: int
    accepting: bool
    goes_on: bool
    arms: tuple[tuple[int, When], ...]
    timers: frozenset[int]
    windows: frozenset[int]
    keys: frozenset[int]


@dataclass(frozen=True, slots=True)
class MovePlan:
    """A move for events of one type.

    Attributes:
        label: what the event has to fulfil beyond its type; True for nothing.
        simple: whether matching changes nothing but the constituents and the timestamp.
        own_keys: the inner keys the event is checked against; `entered_keys` those it sets.
    """

    label: Condition | bool
    strong: bool
    simple: bool
    hidden: bool
    variable: int | None
    updates: tuple[tuple[int, Value], ...]
    inits: tuple[tuple[int, Value], ...]
    windows: tuple[tuple[int, int, bool], ...]
    entered_keys: tuple[tuple[int, KeyOf], ...]
    part: int | None
    joint: int | None
    after_first: bool
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class DomainTest:
    """One reason why an event may be in the domain of a state.

    Attributes:
        condition: what it has to fulfil; True for nothing.
        inits: registers that begin anew on the way there, and so before the condition is evaluated.
        entered_keys: inner keys that would be entered; the reason counts only for an instance that chose their value.
    """

    condition: Condition | bool
    inits: tuple[tuple[int, Value], ...]
    entered_keys: frozenset[int]


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Inner keys that are entered together.

    Attributes:
        keys: their indices.
        of: in the order of the indices, the function that gives an event's key.
    """

    keys: frozenset[int]
    of: tuple[KeyOf, ...]

    def values(self, event: Event) -> tuple[object, ...]:
        """The event's value of each key, in the order of the indices."""
        return tuple(of(event) for of in self.of)

    def meet(
        self, keys: frozenset[int], values: tuple[object, ...], others: tuple[object, ...]
    ) -> Iterator[tuple[object, object]]:
        """Pairs of the group's values with those of a smaller group."""
        by_key = dict(zip(sorted(self.keys), values, strict=True))
        return ((by_key[key], other) for key, other in zip(sorted(keys), others, strict=True))


@dataclass(frozen=True, slots=True)
class StatePlan:
    """A state for events of one type.

    Attributes:
        strong: whether events have to follow strongly to be looked at.
        everything: whether every event of the type is in the domain.
        domain: else the reasons why one may be.
        alike: whether each position's label and domain are the same, so that what no label holds is not looked at.
        opens: the inner keys that may be entered from here, those entered together as one group.
        joint: the `&` whose second side is awaited, for its composite events; None for none.
        plain: whether nothing of this needs a look: no conditions, and simple moves only.
        leaving: of plain moves those that make a new instance.
        stays: whether the other one leads back here and changes only what was matched last, as in `~[B]* [B]`.
    """

    strong: bool
    everything: bool
    domain: tuple[DomainTest, ...]
    alike: bool
    moves: tuple[MovePlan, ...]
    opens: tuple[KeyGroup, ...]
    joint: int | None
    plain: bool
    leaving: tuple[MovePlan, ...]
    stays: bool

    def keys_of(self, event: Event) -> frozenset[int]:
        """The inner keys that may be entered from here by this event: those of which it has a value."""
        return frozenset(key for group in self.opens if None not in group.values(event) for key in group.keys)


class Planner:
    """Makes plans for one automaton.

    Attributes:
        kinds: the kinds of a type's attributes by type name, where they are known; they make conditions faster.
    """

    def __init__(self, automaton: Automaton, kinds: Callable[[str], Mapping[str, Kind] | None]) -> None:
        self.automaton = automaton
        self.kinds = kinds
        self.variables = {name: place for place, name in enumerate(automaton.variables)}
        self.register_count = len(automaton.registers)
        self._inner_keys = tuple(key_of(attributes) for attributes in automaton.inner_keys)

    def plan(self, place: int, type_name: str, *, timer: bool = False) -> StatePlan | None:
        """The plan for events of this type in the state of this index; None where it does not look at them."""
        state = self.automaton.states[place]
        domains = (self.automaton.positions[move.position].domain for move in state.moves)
        if not any(type_name in domain.by_type or domain.others is not FALSE for domain in domains):
            return None
        scope = self.scope(type_name)
        domain: list[DomainTest] = []
        moves: list[MovePlan] = []
        for move in state.moves:
            position = self.automaton.positions[move.position]
            inits = self._inits(move)
            test = self._condition(position.domain, type_name, position, move, scope, timer)
            if test is not False:
                domain.append(DomainTest(test, inits, frozenset() if timer else move.keys))
            label = self._condition(position.label, type_name, position, move, scope, timer)
            if label is not False:
                moves.append(self._move(move, position, label, inits, scope, timer))
        if not domain:
            return None
        everything = any(test.condition is True and not test.entered_keys for test in domain)
        joint = self._awaited_joint(state, type_name)
        plain = everything and joint is None and all(move.simple and move.label is True for move in moves)
        loops = [move for move in moves if _loops(move, place)]
        stays = plain and len(loops) == 1
        # A label counts within the domain of the whole state, so a key may be entered by what only others look at.
        entered = [frozenset(key for key, _ in move.entered_keys) for move in moves]
        opens = dict.fromkeys(keys for keys in (*(test.entered_keys for test in domain), *entered) if keys)
        return StatePlan(
            strong=state.strong and not timer,
            everything=everything,
            domain=tuple(domain),
            alike=all(self._is_alike(move, type_name) for move in state.moves),
            moves=tuple(moves),
            opens=tuple(KeyGroup(keys, tuple(self._inner_keys[key] for key in sorted(keys))) for keys in opens),
            joint=joint,
            plain=plain and not opens,
            leaving=tuple(move for move in moves if not (stays and move is loops[0])),
            stays=stays,
        )

    def scope(self, type_name: str = "") -> Scope:
        """What names in expressions stand for, for events of this type."""
        registers = {register.name: place for place, register in enumerate(self.automaton.registers)}
        return Scope(self.variables, registers, self.kinds(type_name))

    def _condition(
        self, form: ConditionByType, type_name: str, position: Position, move: Move, scope: Scope, timer: bool
    ) -> Condition | bool:
        expression = form.by_type.get(type_name, FALSE if timer or type_name[0] == "&" else form.others)
        condition = compile_condition(expression, scope)
        checked = () if timer else tuple(key for key in position.keys if key not in move.keys)
        if condition is False or not checked:
            return condition
        keys = tuple((self._inner_keys[key], self.register_count + key) for key in checked)

        def within_keys(event: Event, bindings: Bindings, registers: Registers) -> bool:
            for key, place in keys:
                value = key(event)
                if value is None or value != registers[place]:
                    return False
            return condition is True or condition(event, bindings, registers)

        return within_keys

    def _move(
        self,
        move: Move,
        position: Position,
        label: Condition | bool,
        inits: tuple[tuple[int, Value], ...],
        scope: Scope,
        timer: bool,
    ) -> MovePlan:
        targets = tuple(self._target(state) for state in self.automaton.arrivals[move.position])
        updates = tuple(
            (place, compile_value(value, self._after_binding(position, scope))) for place, value in position.updates
        )
        windows = tuple((window, self.automaton.windows[window], window in move.windows) for window in position.windows)
        entered = tuple((key, self._inner_keys[key]) for key in sorted(move.keys))
        plain = not self.automaton.timers and not self.automaton.inner_keys and not self.automaton.windows
        return MovePlan(
            label=label,
            # A time event follows if it is due at or after the last event, also behind a `;`.
            strong=move.strong and not timer,
            simple=plain and not (updates or inits) and position.variable is None and position.part is None,
            hidden=position.hidden,
            variable=position.variable,
            updates=updates,
            inits=inits,
            windows=windows,
            entered_keys=entered,
            part=position.part,
            joint=position.joint,
            after_first=position.after_first,
            targets=targets,
        )

    def _after_binding(self, position: Position, scope: Scope) -> Scope:
        if position.variable is None:
            return scope
        name = self.automaton.variables[position.variable]
        return Scope(scope.variables, scope.registers, scope.kinds, {name: scope.kinds})

    def _target(self, index: int) -> Target:
        state = self.automaton.states[index]
        return Target(
            state=index,
            accepting=state.accepting,
            goes_on=bool(state.moves),
            arms=tuple((timer, self.automaton.timers[timer].when) for timer in sorted(state.arms)),
            timers=state.timers,
            windows=state.windows,
            keys=state.keys,
        )

    def _inits(self, move: Move) -> tuple[tuple[int, Value], ...]:
        scope = self.scope()
        entered = [
            (init, place, initial)
            for place, register in enumerate(self.automaton.registers)
            for init, initial in register.initials
            if init in move.inits
        ]
        # Outer ones first, for an inner one may build on them.
        entered.sort(key=lambda each: each[:2])
        return tuple((place, compile_value(initial, scope)) for _, place, initial in entered)

    def _is_alike(self, move: Move, type_name: str) -> bool:
        position = self.automaton.positions[move.position]
        label, domain = position.label.condition(type_name), position.domain.condition(type_name)
        return label == domain and not move.keys

    def _awaited_joint(self, state: State, type_name: str) -> int | None:
        for move in state.moves:
            position = self.automaton.positions[move.position]
            if position.after_first and position.part is not None and type_name == part_type(position.part):
                return position.joint
        return None


def _loops(move: MovePlan, state: int) -> bool:
    """Whether a move leads back to its state without a constituent."""
    (target, *others) = move.targets
    return move.hidden and not move.strong and not others and target.state == state and not target.accepting


def key_of(attributes: tuple[str, ...]) -> KeyOf:
    """A function that gives the key of an event by these attributes; None if one of them is null.

    Booleans are set apart, because true equals 1 to Python.
    """
    if len(attributes) == 1:
        (name,) = attributes

        def single(event: Event) -> object:
            value = event.attributes.get(name)
            return value if value.__class__ is not bool else (value,)

        return single

    def several(event: Event) -> object:
        values = tuple(map(event.attributes.get, attributes))
        if None in values:
            return None
        return tuple((value,) if value.__class__ is bool else value for value in values)

    return several
