"""Plans: effects of an event of a type on an instance in a state, computed once per pair.

The type settles most of a describable set; the rest is a compiled condition, or nothing. Engines look up plans by type
and visit only states that read it. Moves change nothing in place, as forked instances share data.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from distced.detectors.automata.automaton import (
    PART_PREFIX,
    PRIVATE_PREFIX,
    TIMER_PREFIX,
    Automaton,
    AutomatonMove,
    AutomatonState,
    Position,
    due_after,
    due_again,
    due_instant,
    part_type,
    timer_type,
)
from distced.detectors.automata.properties import grows_texts, is_on_event_alone
from distced.detectors.automata.wait_keys import wait_keys
from distced.detectors.stepwise.composites import OutputPlan
from distced.detectors.stepwise.inner_events import PartEvent
from distced.detectors.stepwise.instance import AFTER_ALL, BEFORE_ALL, Instance
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import TIME, Attribute, Event
from distced.middleware.patterns.tree import Calculated, Recurring, When
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

Kinds = tuple[tuple[str, tuple[tuple[str, Kind], ...] | None], ...]
"""Kinds of attributes, by type."""

KeyOf = Callable[[Event], object]
"""The key of an event; None if one of its attributes is null."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target state: `accepting` completes a match, `goes_on` keeps the instance alive, `arms` starts time events;
    `delays` those with a calculated delay; `timers`, `windows` and `keys` are those kept, all others end. A time event
    that `recurs` is kept when it fires. `renews`: what is emitted there is no longer part of the instance, which goes
    on (`once`). `generative`: whether the state is, also where instances do not emit on arrival (`settled`, `take`)."""

    state: int
    accepting: bool
    goes_on: bool
    arms: tuple[tuple[int, When], ...]
    delays: tuple[tuple[int, Value], ...]
    recurs: tuple[tuple[int, Recurring], ...]
    timers: frozenset[int]
    windows: frozenset[int]
    keys: frozenset[int]
    renews: bool = False
    generative: bool = False


@dataclass(frozen=True, slots=True)
class MovePlan:
    """A move for events of one type.

    Attributes:
        label: condition beyond the type; True for none.
        simple: whether matching changes only constituents and timestamp.
        own_keys, entered_keys: inner keys the event is checked against, and those it sets.
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
    """A condition under which an event is in the domain of a state.

    Attributes:
        condition: on the event; True for none.
        inits: registers restarted before the condition is evaluated.
        entered_keys: inner keys to enter; the test counts only for instances that chose their value.
        alone: whether the condition is on the event alone, the same for all instances.
    """

    condition: Condition | bool
    inits: tuple[tuple[int, Value], ...]
    entered_keys: frozenset[int]
    alone: bool


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Inner keys that are entered together, with the functions that give an event's keys, in order of the indices."""

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
        strong: whether only strongly following events are read.
        everything: whether the domain holds every event of the type; else one of `domain` has to hold.
        reads: condition on the event alone that has to hold for any instance to read it; None for no such.
        alike: whether label and domain of each position are equal, so events outside the labels are not read.
        opens: inner keys that may be entered here, those entered together as one group.
        joint: the `&` whose second side is awaited; None for none.
        plain: whether there are no conditions, and simple moves only.
        leaving: plain moves that make a new instance.
        stays: whether the other plain move leads back here and changes only the last match, as in `~[B]* [B]`.
    """

    strong: bool
    everything: bool
    domain: tuple[DomainTest, ...]
    reads: Condition | None
    alike: bool
    moves: tuple[MovePlan, ...]
    opens: tuple[KeyGroup, ...]
    joint: int | None
    plain: bool
    leaving: tuple[MovePlan, ...]
    stays: bool

    def keys_of(self, event: Event) -> frozenset[int]:
        """The inner keys that this event may enter from here: those of which it has a value."""
        return frozenset(key for group in self.opens if None not in group.values(event) for key in group.keys)


@dataclass(frozen=True, slots=True)
class TypePlan:
    """Plan for events of one type: start moves and states, indices of other states, reading start states by index.

    Attributes:
        begins: condition of events that begin a match; None where any may.
        stands: whether an instance that stands in the start (`once`) reads them; it is visited as any other.
    """

    starts: tuple[tuple[MovePlan, StatePlan], ...]
    visits: tuple[tuple[int, StatePlan], ...]
    looks: tuple[tuple[int, StatePlan], ...]
    begins: Condition | None
    stands: bool = False


class Planner:
    """Planner of one automaton, or of all that differ in constants alone: whatever follows from states and positions.
    `kinds` of attributes by type name, where known, make conditions faster.

    Attributes:
        by_type: the plans of events made so far, by type; None for a type that nothing looks at.
        key_of: gives the key of the whole pattern; None for a pattern without one.
        key_attribute: its attribute, where it is a single one.
        match_types: types of delegated parts that are no side of a `&`, so that each of their matches counts.
        window: of the whole pattern, ns.
        nothing, unbound: registers and inner keys, and variables, of the start.
        output: how composite events are made.
        grows_texts: whether texts in registers may grow from event to event.
        waits: wait keys of the states; None where there are none.
    """

    def __init__(self, automaton: Automaton, kinds: Callable[[str], Mapping[str, Kind] | None]) -> None:
        self.automaton = automaton
        self.by_type: dict[str, TypePlan | None] = {}
        self.key_of = key_of(automaton.key) if automaton.key else None
        self.key_attribute = automaton.key[0] if len(automaton.key) == 1 else None
        self.match_types = frozenset(
            part_type(position.part)
            for position in automaton.positions
            if position.part is not None and position.joint is None
        )
        self.window = AFTER_ALL - BEFORE_ALL if automaton.whole_window is None else automaton.whole_window
        self.unbound = (None,) * len(automaton.variables)
        self.nothing: tuple[None, ...] = (None,) * (len(automaton.registers) + len(automaton.inner_keys))
        self._timers: dict[tuple[int, int], StatePlan | None] = {}
        self._made: dict[tuple[int, str, bool], StatePlan | None] = {}
        self.kinds = kinds
        self.variables = {name: place for place, name in enumerate(automaton.variables)}
        self.register_count = len(automaton.registers)
        self._inner_keys = tuple(key_of(attributes) for attributes in automaton.inner_keys)
        self.output = OutputPlan(automaton, self.scope())
        self.grows_texts = grows_texts(automaton)
        self.waits = wait_keys(automaton)

    def of(self, type_name: str) -> TypePlan | None:
        """The plan of events of a type; None if no state reads them."""
        if type_name not in self.by_type:
            self.by_type[type_name] = self._of(type_name)
        return self.by_type[type_name]

    def may_begin(self, event: Event, constants: tuple[Attribute, ...]) -> bool:
        """Whether an event may begin a match of the pattern with these constants."""
        try:
            plan = self.by_type[event.type]
        except KeyError:
            plan = self.of(event.type)
        if plan is None:
            return False
        if plan.begins is None:
            return True
        return plan.begins(event, self.unbound, self.nothing + constants)

    def of_timer(self, state: int, timer: int) -> StatePlan | None:
        """The plan of a time event for instances in a state that has started it."""
        place = (state, timer)
        if place not in self._timers:
            self._timers[place] = self.plan(state, timer_type(timer), timer=True)
        return self._timers[place]

    def _of(self, type_name: str) -> TypePlan | None:
        automaton = self.automaton
        starts: list[tuple[MovePlan, StatePlan]] = []
        looks: list[tuple[int, StatePlan]] = []
        for index in automaton.starts:
            plan = self.plan(index, type_name)
            if plan is not None:
                starts += [(move, plan) for move in plan.moves]
                looks.append((index, plan))
        reached = {state for arrival in automaton.arrivals for state in arrival}
        if automaton.once:
            reached |= set(automaton.starts)
        plans = ((index, self.plan(index, type_name)) for index in sorted(reached))
        visits = [(index, plan) for index, plan in plans if plan is not None]
        if not (looks or visits):
            return None
        if automaton.once:
            # An event that the start reads may end the instance that stands there, too.
            return TypePlan((), tuple(visits), (), None if looks else _never, stands=bool(looks))
        begins = _either((move.label, not (move.inits or move.entered_keys)) for move, _ in starts)
        return TypePlan(tuple(starts), tuple(visits), tuple(looks), begins)

    def plan(self, place: int, type_name: str, *, timer: bool = False) -> StatePlan | None:
        """The plan for events of this type in the state of this index; None if the state does not read them."""
        known = (place, type_name, timer)
        if known not in self._made:
            self._made[known] = self._plan(place, type_name, timer=timer)
        return self._made[known]

    def _plan(self, place: int, type_name: str, *, timer: bool) -> StatePlan | None:
        state = self.automaton.states[place]
        domains = (self.automaton.positions[move.position].domain for move in state.moves)
        if not any(type_name in domain.by_type or domain.others is not FALSE for domain in domains):
            return None
        # Time events and clocks have no attributes, and concern instances of any key.
        keyless = timer or is_clock(type_name)
        scope = self.scope(type_name)
        domain: list[DomainTest] = []
        moves: list[MovePlan] = []
        for move in state.moves:
            position = self.automaton.positions[move.position]
            inits = self._inits(move)
            test = self._condition(position.domain, type_name, position, move, scope, keyless)
            if test is not False:
                alone = not (inits or position.keys) and is_on_event_alone(self.automaton, position.domain, type_name)
                domain.append(DomainTest(test, inits, frozenset() if keyless else move.keys, alone))
            label = self._condition(position.label, type_name, position, move, scope, keyless)
            if label is not False:
                moves.append(self._move(move, position, label, inits, scope, type_name))
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
            reads=_either((test.condition, test.alone) for test in domain),
            alike=all(self._is_alike(move, type_name) for move in state.moves),
            moves=tuple(moves),
            opens=tuple(KeyGroup(keys, tuple(self._inner_keys[key] for key in sorted(keys))) for keys in opens),
            joint=joint,
            plain=plain and not opens,
            leaving=tuple(move for move in moves if not (stays and move is loops[0])),
            stays=stays,
        )

    def scope(self, type_name: str = "") -> Scope:
        """Scope of names in expressions, for events of this type."""
        registers = {register.name: place for place, register in enumerate(self.automaton.registers)}
        parameters = self.register_count + len(self.automaton.inner_keys)
        return Scope(self.variables, registers, self.kinds(type_name), parameters=parameters)

    def _condition(
        self,
        form: ConditionByType,
        type_name: str,
        position: Position,
        move: AutomatonMove,
        scope: Scope,
        keyless: bool,
    ) -> Condition | bool:
        inside = type_name[0] == PART_PREFIX and not type_name.startswith(PRIVATE_PREFIX)
        expression = form.by_type.get(type_name, FALSE if keyless or inside else form.others)
        condition = compile_condition(expression, scope)
        checked = () if keyless else tuple(key for key in position.keys if key not in move.keys)
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
        move: AutomatonMove,
        position: Position,
        label: Condition | bool,
        inits: tuple[tuple[int, Value], ...],
        scope: Scope,
        type_name: str,
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
            strong=move.strong and type_name[0] != TIMER_PREFIX,
            # The constituents of a part's composite event are listed one by one.
            simple=plain and not (updates or inits) and position.variable is None and type_name[0] != PART_PREFIX,
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
        return Scope(scope.variables, scope.registers, scope.kinds, {name: scope.kinds}, scope.parameters)

    def _target(self, index: int) -> Target:
        state = self.automaton.states[index]
        started = [(timer, self.automaton.timers[timer].when) for timer in sorted(state.arms)]
        return Target(
            state=index,
            accepting=state.accepting and not (self.automaton.ends_otherwise and state.moves),
            goes_on=bool(state.moves),
            arms=tuple((timer, when) for timer, when in started if not isinstance(when, Calculated)),
            delays=tuple(
                (timer, compile_value(when.delay, self.scope()))
                for timer, when in started
                if isinstance(when, Calculated)
            ),
            recurs=tuple(
                (timer, when)
                for timer in sorted(state.timers)
                if isinstance(when := self.automaton.timers[timer].when, Recurring)
            ),
            timers=state.timers,
            windows=state.windows,
            keys=state.keys,
            generative=state.accepting,
            renews=self.automaton.once and state.accepting and bool(state.moves),
        )

    def _inits(self, move: AutomatonMove) -> tuple[tuple[int, Value], ...]:
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

    def _is_alike(self, move: AutomatonMove, type_name: str) -> bool:
        position = self.automaton.positions[move.position]
        label, domain = position.label.condition(type_name), position.domain.condition(type_name)
        return label == domain and not move.keys

    def _awaited_joint(self, state: AutomatonState, type_name: str) -> int | None:
        for move in state.moves:
            position = self.automaton.positions[move.position]
            if position.after_first and position.part is not None and type_name == part_type(position.part):
                return position.joint
        return None


def _either(tests: Iterable[tuple[Condition | bool, bool]]) -> Condition | None:
    """Alternative of conditions, of pairs with whether they can be evaluated; None where any event may satisfy it."""
    found: list[Condition] = []
    for condition, evaluable in tests:
        if condition is True or not evaluable:
            return None
        if condition is not False:
            found.append(condition)
    if len(found) == 1:
        return found[0]
    return lambda event, bindings, registers: any(each(event, bindings, registers) for each in found)


def _never(event: Event, bindings: Bindings, registers: Registers) -> bool:
    """Condition of no event."""
    return False


def _loops(move: MovePlan, state: int) -> bool:
    """Whether a move leads back to its state without a constituent."""
    (target, *others) = move.targets
    return move.hidden and not move.strong and not others and target.state == state and not target.generative


_SHARED: Final = 256
"""Number of shapes whose planners are kept for further engines."""

# An ordered dictionary drops its oldest in one step, as nodes of one process have a thread each.
_shared: OrderedDict[tuple[int, int, int], tuple[Automaton, tuple[str, ...] | None, dict[Kinds, Planner]]]
_shared = OrderedDict()


def planner_of(automaton: Automaton, kinds: Callable[[str], Mapping[str, Kind] | None]) -> Planner:
    """Planner of an automaton, shared by its engines and by others of its shape: equal but for constants and the id."""
    place = id(automaton.positions), id(automaton.states), id(automaton.output)
    shared = _shared.get(place)
    if shared is None:
        names = automaton.type_names()
        # The automaton is kept, so that what the key names is its own as long as this is here.
        shared = _shared[place] = automaton, None if names is None else tuple(sorted(names)), {}
        if len(_shared) > _SHARED:
            _shared.popitem(last=False)
    _, named, planners = shared
    if named is None:
        # It may read any type, and what is known of all types is no key.
        return Planner(automaton, kinds)
    known = {name: kinds(name) for name in named}
    described: Kinds = tuple([(name, None if each is None else tuple(each.items())) for name, each in known.items()])
    planner = planners.get(described)
    return planner or planners.setdefault(described, Planner(automaton, known.get))


def key_of(attributes: tuple[str, ...]) -> KeyOf:
    """A function for the key of an event, booleans distinct from 1 and 0; None if an attribute is null."""
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


def initialised(instance: Instance, event: Event, inits: tuple) -> tuple[Attribute, ...]:  # type: ignore[type-arg]
    """The registers of an instance, reset ones at their initial values."""
    if not inits:
        return instance.registers
    values = list(instance.registers)
    for place, initial in inits:
        values[place] = initial(event, instance.bindings, values)
    return tuple(values)


def assigned(
    automaton: Automaton, instance: Instance, event: Event, move: MovePlan
) -> tuple[tuple[Event | None, ...], tuple[Attribute, ...]]:
    """The bindings and the registers, inner keys behind them, after a move."""
    bindings, registers = instance.bindings, instance.registers
    if move.variable is not None:
        bindings = (*bindings[: move.variable], event, *bindings[move.variable + 1 :])
    if isinstance(event, PartEvent):
        bindings = tuple(
            event.bound.get(name, bound) for name, bound in zip(automaton.variables, bindings, strict=True)
        )
    if move.inits or move.updates or move.entered_keys or isinstance(event, PartEvent):
        values = list(initialised(instance, event, move.inits))
        if isinstance(event, PartEvent):
            for place, register in enumerate(automaton.registers):
                values[place] = event.counted.get(register.name, values[place])
        for place, update in move.updates:
            values[place] = update(event, bindings, values)
        for key, of in move.entered_keys:
            values[len(automaton.registers) + key] = of(event)  # type: ignore[call-overload]
        registers = tuple(values)
    return bindings, registers


def kept_registers(automaton: Automaton, registers: tuple[Attribute, ...], target: Target) -> tuple[Attribute, ...]:
    """Registers after arrival: they stay for the output, constants behind them; an inner key ends with its pattern."""
    if not automaton.inner_keys:
        return registers
    begin = len(automaton.registers)
    end = begin + len(automaton.inner_keys)
    keys = (each if place in target.keys else None for place, each in enumerate(registers[begin:end]))
    return (*registers[:begin], *keys, *registers[end:])


def timers_after(
    instance: Instance, event: Event, target: Target, bindings: Bindings, registers: Registers, *, ended: bool
) -> tuple[int | None, ...]:
    """The due instant of each time event after arrival with these values, ns; None for one not started; none recurs if
    `ended`."""
    if not instance.timers:
        return ()
    # A time event happens once, unless it recurs.
    fired = int(event.type[1:]) if event.rank == TIME else -1
    timers = [due if timer in target.timers and timer != fired else None for timer, due in enumerate(instance.timers)]
    if fired >= 0 and not ended:
        for timer, recurring in target.recurs:
            if timer == fired:
                timers[timer] = due_again(recurring, event.hi)
    for timer, when in target.arms:
        timers[timer] = due_instant(when, event.hi)
    for timer, delay in target.delays:
        timers[timer] = due_after(delay(event, bindings, registers), event.hi)
    return tuple(timers)
