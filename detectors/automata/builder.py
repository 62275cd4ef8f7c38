"""Construction of the automaton from the tree of a checked pattern.

composite-event-framework-2004, Appendix B, with the extensions of design, section 1. Each node of the tree knows the
way into it (`_entry`) and receives the way on behind it; an atom becomes a position, and the way on behind it becomes
the states an instance is in after matching it. The sides of a `&` become automata of their own (Fig. 14g).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from distced.detectors.automata.automaton import (
    Automaton,
    AutomatonMove,
    AutomatonState,
    AutomatonTimer,
    Position,
    Register,
    part_type,
    timer_type,
)
from distced.detectors.automata.entries import (
    SKIP,
    WEAK,
    Alternative,
    Entry,
    Item,
    either,
    followed_by,
    has_holes,
    marked,
    optional,
    single,
)
from distced.detectors.automata.taken_events import without_taken
from distced.detectors.canonical.form import canonical_id
from distced.detectors.language.inlining import undelegated
from distced.detectors.language.names import all_registers, all_variables, referenced, updated
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.sets import describable
from distced.middleware.sets.expressions import FALSE, TRUE

# Iterations are written out and may multiply; what is larger than this was hardly meant.
MOST_POSITIONS: Final = 2_000
MOST_PATHS: Final = 100_000
MOST_AUTOMATA: Final = 1_000
_PATHS: Final = f"{MOST_PATHS} paths from one part to the next"

Onward: TypeAlias = Callable[[], Entry]
"""Path onward behind a node; requested once all positions exist, because an iteration leads back into itself."""


def build(
    publication: tree.Publication,
    name: str,
    *,
    epochs: bool = False,
    key: tuple[str, ...] = (),
    exports: frozenset[str] = frozenset(),
    privates: Mapping[str, Automaton | tree.Delegated] | None = None,
    beside: frozenset[str] = frozenset(),
) -> Automaton:
    """The automaton of a checked pattern with inlined definitions and the name of its canonical form; `key` is its key
    from outside, `exports` the variables and registers that are read outside, `privates` the private publications that
    it may read, by their types, `beside` the types that are read before it."""
    output = publication.output
    wanted = referenced(publication.pattern, output) | exports
    automaton = _Builder(publication.pattern, output, wanted, exports, epochs, name, key, privates or {}).automaton()
    if privates and _size(automaton) > MOST_AUTOMATA:
        raise PatternError(
            "private publications that multiply beyond measure",
            allowed=f"{MOST_AUTOMATA} altogether, each counted for every other that reads it",
            advice="publish some without private",
        )
    if not (publication.once or publication.settled or beside):
        return automaton
    return replace(automaton, once=publication.once, settled=publication.settled, beside=beside)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Surroundings of a node: `scope` is added to the domain of every state, `timers` are indices by name, the rest as
    in `Position`."""

    scope: describable.ConditionByType = describable.EMPTY
    timers: Mapping[str, int] = field(default_factory=dict)
    hidden: bool = False
    windows: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


class _EntryNode:
    """A node of the tree during construction, with the way into it computed once."""

    def __init__(self, entry: Callable[[], Entry]) -> None:
        self._compute = entry
        self._entry: Entry | None = None

    def entry(self) -> Entry:
        if self._entry is None:
            self._entry = self._compute()
        return self._entry


class _Chain:
    """Parts behind one another, the last one before what follows, with the way into each and on, computed once."""

    def __init__(self, part: Callable[[int], Entry], length: int, onward: Onward) -> None:
        """`part` gives the way into the part at a place."""
        self.part = part
        self._length = length
        self._onward = onward
        self._known: dict[int, Entry] = {}
        self._paths = 0

    def entry(self, start: int) -> Entry:
        """The way into the parts from a place on and, where they may be empty, into what follows."""
        known, end = self._known, start
        while end not in known:
            if end == self._length:
                known[end] = followed_by(SKIP, self._onward())
            elif not has_holes(own := self.part(end)):
                known[end] = own
            else:
                end += 1
        # From behind: what one part is followed by serves all before it.
        for place in range(end - 1, start - 1, -1):
            known[place] = followed_by(self.part(place), known[place + 1])
            # Each of these ways is a path in the end; to look then only would be too late.
            self._paths += sum(len(alternative.items) for alternative in known[place])
            if self._paths > MOST_PATHS:
                raise _too_large(_PATHS)
        return known[start]


class _Builder:
    def __init__(
        self,
        pattern: tree.Pattern,
        output: tree.Output | None,
        wanted: frozenset[str],
        exports: frozenset[str],
        epochs: bool,
        name: str,
        outer_key: tuple[str, ...],
        privates: Mapping[str, Automaton | tree.Delegated],
    ) -> None:
        self.name = name
        self.privates = privates
        self.pattern = pattern
        self.output = output
        self.epochs = epochs
        self.exports = exports
        self.variables = tuple(name for name in all_variables(pattern) if name in wanted)
        self.registers: list[Register] = []
        self.register_places: dict[str, int] = {}
        self.positions: list[Position] = []
        self.onward: list[Onward] = []
        self.windows: list[int] = []
        self.timers: list[AutomatonTimer] = []
        self.inner_keys: list[tuple[str, ...]] = []
        self.parts: list[Automaton | tree.Delegated] = []
        self.joints = 0
        self.inits = 0
        self.key = outer_key
        self.wanted = wanted

    def automaton(self) -> Automaton:
        pattern, whole_window = self.pattern, None
        # A key or a window around the whole pattern gets a place of its own: engines index and expire by them.
        while isinstance(pattern, tree.Keyed | tree.Window):
            if isinstance(pattern, tree.Keyed):
                self.key = (*self.key, *(name for name in pattern.attributes if name not in self.key))
            else:
                whole_window = pattern.length if whole_window is None else min(whole_window, pattern.length)
            pattern = pattern.body
        root = self._node(pattern, _Surroundings(), lambda: SKIP)
        starts = root.entry()
        arrivals: list[Entry] = []
        count = 0
        for onward in self.onward:
            arrivals.append(onward())
            count += sum(1 + len(alternative.items) for alternative in arrivals[-1])
            if count > MOST_PATHS:
                raise _too_large(_PATHS)
        domains = [position.domain for position in self.positions]
        named = {name for domain in domains for name in domain.by_type}
        # `any` covers composite events that the pattern names anywhere.
        reads_any = any(domain.others != FALSE for domain in domains)
        for name in sorted(each for each in self.privates if reads_any or each in named):
            part = self.privates[name]
            self.parts.append(replace(part, private=True) if isinstance(part, Automaton) else part)
        return self._assemble(starts, arrivals, whole_window)

    def _assemble(self, starts: Entry, arrivals: list[Entry], whole_window: int | None) -> Automaton:
        places: dict[AutomatonState, int] = {}

        def place(alternative: Alternative) -> int:
            return places.setdefault(self._state(alternative), len(places))

        # The empty match is never reported: a start state is not generative.
        start_places = tuple(dict.fromkeys(place(replace(each, holes=frozenset())) for each in starts if each.items))
        arrival_places = tuple(tuple(dict.fromkeys(map(place, entry))) for entry in arrivals)
        return Automaton(
            canonical_id=self.name,
            positions=tuple(self.positions),
            states=tuple(places),
            starts=start_places,
            arrivals=arrival_places,
            variables=self.variables,
            registers=tuple(self.registers),
            windows=tuple(self.windows),
            whole_window=whole_window,
            timers=tuple(self.timers),
            inner_keys=tuple(self.inner_keys),
            key=self.key,
            parts=tuple(self.parts),
            joints=self.joints,
            exports=self.exports,
            output=self.output,
            epochs=self.epochs,
        )

    def _state(self, alternative: Alternative) -> AutomatonState:
        items = sorted(
            alternative.items,
            key=lambda item: (item.position, item.strong, sorted(item.windows), sorted(item.inits), sorted(item.keys)),
        )
        positions = [self.positions[item.position] for item in items]
        moves = tuple(dict.fromkeys(AutomatonMove(i.position, i.strong, i.windows, i.inits, i.keys) for i in items))
        pairs = list(zip(items, positions, strict=True))
        return AutomatonState(
            moves=moves,
            accepting=bool(alternative.holes),
            arms=frozenset(timer for item in items for timer in item.arms),
            timers=frozenset(timer for position in positions for timer in position.timers),
            windows=frozenset(window for item, at in pairs for window in at.windows if window not in item.windows),
            keys=frozenset(key for item, at in pairs for key in at.keys if key not in item.keys),
        )

    # The construction, node by node.

    def _node(self, pattern: tree.Pattern, around: _Surroundings, onward: Onward) -> _EntryNode:
        match pattern:
            case tree.Atom():
                return self._atom(pattern, around, onward)
            case tree.Concatenation(parts=parts):
                return self._joined(parts, around, onward, strong=False)
            case tree.Sequence(parts=parts):
                return self._joined(parts, around, onward, strong=True)
            case tree.Alternation(parts=parts):
                nodes = [self._node(part, around, onward) for part in parts]
                return _EntryNode(lambda: either(node.entry() for node in nodes))
            case tree.Iteration():
                return self._iteration(pattern, around, onward)
            case tree.Timing():
                return self._timing(pattern, around, onward)
            case tree.Parallel():
                return self._parallel(pattern, around, onward)
            case tree.Scope(body=body, domain=domain):
                added = describable.union(around.scope, self._form(domain, around))
                return self._node(body, replace(around, scope=added), onward)
            case tree.Hidden(body=body):
                return self._node(body, replace(around, hidden=True), onward)
            case tree.Window(body=body, length=length):
                self.windows.append(length)
                window = len(self.windows) - 1
                node = self._node(body, replace(around, windows=(*around.windows, window)), onward)
                return _EntryNode(lambda: marked(node.entry(), lambda i: replace(i, windows=i.windows | {window})))
            case tree.Keyed(body=body, attributes=attributes):
                self.inner_keys.append(attributes)
                key = len(self.inner_keys) - 1
                node = self._node(body, replace(around, keys=(*around.keys, key)), onward)
                return _EntryNode(lambda: marked(node.entry(), lambda i: replace(i, keys=i.keys | {key})))
            case tree.Init():
                return self._init(pattern, around, onward)
            case tree.Delegated():
                return self._delegated(pattern, around, onward)
            case tree.Reference(name=name):
                raise TypeError(f"{name} was not inlined")

    def _delegated(self, part: tree.Delegated, around: _Surroundings, onward: Onward) -> _EntryNode:
        """One position for the whole sub-pattern; scopes and time events belong to the sub-pattern's own states."""
        index = self._part(part)
        position = Position(
            label=self._of_part(index),
            domain=self._of_part(index),
            text=f"[{part.detector}]",
            hidden=around.hidden,
            windows=around.windows,
            keys=around.keys,
            part=index,
        )
        return self._position(position, onward)

    def _part(self, part: tree.Delegated) -> int:
        for _, register in part.counted:
            self._register(register)
        self.parts.append(part)
        return len(self.parts) - 1

    def _atom(self, atom: tree.Atom, around: _Surroundings, onward: Onward) -> _EntryNode:
        label = self._form(atom.label, around)
        domain = label if atom.domain is None else self._form(atom.domain, around)
        variable = self.variables.index(atom.variable) if atom.variable in self.variables else None
        position = Position(
            label=label,
            domain=self._widened(domain, around),
            text=format_pattern(atom),
            variable=variable,
            updates=tuple((self.register_places[name], value) for name, value in atom.updates),
            hidden=around.hidden,
            windows=around.windows,
            keys=around.keys,
            timers=tuple(around.timers.values()),
        )
        return self._position(position, onward)

    def _joined(
        self, parts: tuple[tree.Pattern, ...], around: _Surroundings, onward: Onward, *, strong: bool
    ) -> _EntryNode:
        nodes: list[_EntryNode] = []
        behind = _Chain(lambda place: followed_by(SKIP, nodes[place].entry(), strong), len(parts), onward)
        inside = _Chain(behind.part, len(parts), lambda: SKIP)
        for index, part in enumerate(parts):
            nodes.append(self._node(part, around, partial(behind.entry, index + 1)))

        def entry() -> Entry:
            first = nodes[0].entry()
            return followed_by(first, inside.entry(1)) if has_holes(first) else first

        return _EntryNode(entry)

    def _iteration(self, pattern: tree.Iteration, around: _Surroundings, onward: Onward) -> _EntryNode:
        """`C{m,n}` as n copies of C, the last n-m of them optional; without an n the last copy leads back to itself."""
        least, most = pattern.least, pattern.most
        copies: list[_EntryNode] = []
        needed = max(least, 1) if most is None else most

        def beyond(done: int) -> Entry:
            """Entry after this number of rounds, as many as are required."""
            # `C{m,}` is m times C and then `C*`, also where those m rounds may be empty.
            further = copies[done] if done < needed else None
            if most is None:
                further = copies[-1]
            # Merged: another round and what comes behind, in every combination of their alternatives.
            return SKIP if further is None else followed_by(SKIP, optional(further.entry()))

        required = _Chain(lambda place: copies[place].entry(), least, lambda: beyond(least))

        def after(done: int) -> Entry:
            """Entry after this number of rounds."""
            return required.entry(done) if done < least else beyond(done)

        def behind(done: int) -> Onward:
            return lambda: followed_by(after(done), onward())

        copies += [self._node(pattern.body, around, behind(done + 1)) for done in range(needed)]
        return _EntryNode(lambda: after(0))

    def _timing(self, pattern: tree.Timing, around: _Surroundings, onward: Onward) -> _EntryNode:
        self.timers.append(AutomatonTimer(pattern.timer, pattern.when))
        timer = len(self.timers) - 1
        second: _EntryNode

        def between() -> Entry:
            armed = marked(second.entry(), lambda item: replace(item, arms=item.arms | {timer}))
            return followed_by(armed, onward())

        first = self._node(pattern.first, around, between)
        inside = replace(around, timers={**around.timers, pattern.timer: timer})
        second = self._node(pattern.second, inside, onward)
        return first

    def _init(self, pattern: tree.Init, around: _Surroundings, onward: Onward) -> _EntryNode:
        init = self.inits
        self.inits += 1
        for name, initial in pattern.registers:
            place = self._register(name)
            register = self.registers[place]
            self.registers[place] = replace(register, initials=(*register.initials, (init, initial)))
        node = self._node(pattern.body, around, onward)
        return _EntryNode(lambda: marked(node.entry(), lambda item: replace(item, inits=item.inits | {init})))

    def _register(self, name: str) -> int:
        """The index of a register. One name is one register, in every copy of an iteration and in every branch."""
        if name not in self.register_places:
            self.register_places[name] = len(self.registers)
            self.registers.append(Register(name, ()))
        return self.register_places[name]

    def _parallel(self, pattern: tree.Parallel, around: _Surroundings, onward: Onward) -> _EntryNode:
        """Fig. 14g: either side first, then the other; each side is detected separately."""
        joint = self.joints
        self.joints += 1
        left, right = (self._side(side, around) for side in (pattern.left, pattern.right))
        around = replace(around, scope=without_taken(around.scope, (pattern.left, pattern.right)))
        both = describable.ConditionByType({part_type(left): TRUE, part_type(right): TRUE}, describable.EMPTY.others)
        second = [
            self._joint(side, self._of_part(side), around, onward, joint, after_first=True) for side in (right, left)
        ]
        first = [
            self._joint(side, both, around, then.entry, joint, after_first=False)
            for side, then in zip((left, right), second, strict=True)
        ]
        merged = frozenset(item for node in first for each in node.entry() for item in each.items)
        return _EntryNode(lambda: (Alternative(merged, frozenset()),))

    def _joint(
        self,
        side: int,
        domain: describable.ConditionByType,
        around: _Surroundings,
        onward: Onward,
        joint: int,
        *,
        after_first: bool,
    ) -> _EntryNode:
        position = Position(
            label=self._of_part(side),
            domain=self._widened(domain, around),
            text=f"[{part_type(side)}]",
            hidden=around.hidden,
            windows=around.windows,
            keys=around.keys,
            timers=tuple(around.timers.values()),
            part=side,
            after_first=after_first,
            joint=joint,
        )
        return self._position(position, onward)

    def _side(self, side: tree.Pattern, around: _Surroundings) -> int:
        if isinstance(side, tree.Delegated):
            return self._part(side)
        made = frozenset((*all_variables(side), *all_registers(side)))
        outside = referenced(self.pattern, self.output, without=side) | updated(self.pattern, without=side)
        exports = made & (outside | self.exports)
        key = tuple(dict.fromkeys((*self.key, *(name for key in around.keys for name in self.inner_keys[key]))))
        # Its composite events sort under the name of its own canonical form.
        name = canonical_id(tree.Publication(undelegated(side)), key=key, epochs=self.epochs)
        wanted = referenced(side, None) | exports
        automaton = _Builder(side, None, wanted, exports, self.epochs, name, key, self.privates).automaton()
        self.parts.append(automaton)
        # A register set inside a side is readable behind the `&`: it gets a place here, filled when the side is taken.
        for register in automaton.registers:
            if register.name in exports:
                self._register(register.name)
        return len(self.parts) - 1

    def _of_part(self, side: int) -> describable.ConditionByType:
        return describable.ConditionByType({part_type(side): TRUE}, describable.EMPTY.others)

    def _position(self, position: Position, onward: Onward) -> _EntryNode:
        if len(self.positions) >= MOST_POSITIONS:
            raise _too_large(f"{MOST_POSITIONS} atoms with iterations written out")
        entry = single(Item(len(self.positions), WEAK))
        self.positions.append(position)
        self.onward.append(onward)
        return _EntryNode(lambda: entry)

    # Sets.

    def _form(self, described: describable.DescribableSet, around: _Surroundings) -> describable.ConditionByType:
        names = {name: timer_type(index) for name, index in around.timers.items()}
        return describable.normal_form(_with_timers(described, names), names.values())

    def _widened(self, domain: describable.ConditionByType, around: _Surroundings) -> describable.ConditionByType:
        timers = describable.ConditionByType(
            {timer_type(index): TRUE for index in around.timers.values()}, describable.EMPTY.others
        )
        return describable.union(describable.union(domain, around.scope), timers)


def _size(automaton: Automaton) -> int:
    """Number of automata, with those inside."""
    return 1 + sum(map(_size, automaton.inner))


def _too_large(limit: str) -> PatternError:
    return PatternError(
        "a pattern too large to be run",
        allowed=f"up to {limit}",
        advice="take iterations and alternations out of iterations, or count in a register: init n = 0 : ...",
    )


def _with_timers(described: describable.DescribableSet, names: Mapping[str, str]) -> describable.DescribableSet:
    """The set with the time events in scope, under their types inside the automaton."""
    match described:
        case describable.TypeSet(name=name):
            return describable.TypeSet(names[name]) if name in names else described
        case describable.AnySet():
            return described
        case describable.Union(members=members):
            return describable.Union(tuple(_with_timers(member, names) for member in members))
        case describable.Intersection(left=left, right=right):
            return describable.Intersection(_with_timers(left, names), _with_timers(right, names))
        case describable.Difference(left=left, right=right):
            return describable.Difference(_with_timers(left, names), _with_timers(right, names))
        case describable.Filtered(base=base, condition=condition):
            return describable.Filtered(_with_timers(base, names), condition)
