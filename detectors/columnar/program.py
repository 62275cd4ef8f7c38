"""From automata to the program of the columnar engine: records in one memory, where there is room for them.

What an event of some type does in some state is worked out when the type is first seen, as in the stepwise engine: an
event's type settles most of a describable set, and what is left is a condition or nothing at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from detectors.automata.automaton import (
    PART_PREFIX,
    TIMER_PREFIX,
    Automaton,
    Move,
    Position,
    State,
    part_type,
    timer_type,
)
from detectors.columnar import layout
from detectors.columnar.atoms import Atoms, atoms_of
from detectors.columnar.coding import Capture, Names, captures_of, fits
from detectors.columnar.columns import ColumnName, Handed
from detectors.columnar.freeing import Freeing, Left
from detectors.columnar.memory import Program, longer
from detectors.columnar.pools import Pool
from detectors.columnar.prefixes import Key, Node, chain_of
from detectors.columnar.starts import Starts, slot_of
from detectors.columnar.stretches import Stretches
from detectors.columnar.values import Texts
from detectors.language.tree import Output, Relative, When
from detectors.stepwise.findings import may_repeat
from middleware.events import Attribute
from middleware.sets import values
from middleware.sets.describable import ConditionByType
from middleware.sets.expressions import FALSE, TRUE, Expression, Literal, Name, transform

MOST_SIGNATURES: Final = 64
"""Beyond so many pairs of attributes that start conditions of one type ask for, new ones go by one attribute."""

FEW: Final = 4
"""A list of so many moves does not get shorter."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A pattern's automaton among others.

    Attributes:
        number: its number.
        address: of its record.
        states: the records of its states, by their number; 0 for those in which nothing waits.
        captures: the slot of what is kept of the events bound to variables, counted from the extra block's begin.
        variables: the word of the first variable; timers and windows stand before.
        registers: the slot of each register, in order.
        inner_keys: the slot of each inner key's value; behind them is the word of the values that are spent.
        shown: whether matches take along what was bound and counted.
        kept: whether its matches have to be told apart by what they become, not only by their constituents.
    """

    number: int
    automaton: Automaton
    address: int
    states: tuple[int, ...]
    captures: dict[Capture, int]
    variables: int
    registers: tuple[int, ...]
    inner_keys: tuple[int, ...]
    extra: int
    shown: bool
    kept: bool

    def joint(self, position: Position) -> int:
        """The word of the bound of a position's joint."""
        return self.variables + len(self.automaton.variables) + (position.joint or 0)

    @property
    def spent(self) -> int | None:
        """The word of the values of inner keys that have gone their own way; None without inner keys."""
        return self.extra - 1 if self.inner_keys else None


@dataclass(slots=True)
class Columns:
    """The columns that programs read.

    Attributes:
        names: what each holds: an attribute, the values of a key as numbers that are equal iff they are, or what a part
            hands on.
    """

    names: list[ColumnName] = field(default_factory=list)
    _places: dict[ColumnName, int] = field(default_factory=dict)

    def place(self, name: ColumnName) -> int:
        """The column of this."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(slots=True)
class _Type:
    """A type of events.

    Attributes:
        groups: the groups that wait for it, with the column of each.
        signatures: those of its start conditions, by their columns.
        lists: where the two stand in the memory; 0 for an empty one.
        changed: whether they have changed since.
        made_for: how often the table of starts had been made anew then.
    """

    number: int
    groups: dict[int, int] = field(default_factory=dict)
    signatures: dict[tuple[int, int], int] = field(default_factory=dict)
    lists: tuple[int, int] = (0, 0)
    changed: bool = True
    made_for: int = 0


@dataclass(slots=True)
class _Open:
    """A state, or a start state, that looks at types it does not name."""

    unit: Unit
    place: int
    named: frozenset[str]


@dataclass(slots=True)
class _Group:
    """States that wait for the same types, told apart by the same column.

    Attributes:
        types: None for any.
        states: how many they are.
    """

    types: frozenset[str] | None
    column: int
    states: int = 0


class _Begun(NamedTuple):
    """Where something that may begin stands in the index of starts."""

    name: int
    one: int
    other: int
    visit: int
    move: int


class Sizes(NamedTuple):
    """How large all is that patterns take.

    Attributes:
        words: of the program.
        entries, names: of the index of starts, and by how many values they are looked up.
        groups: of states that wait for the same.
        values: constants, and numbers of 64 bits.
        numbers: up to which patterns are numbered.
    """

    words: int
    entries: int
    names: int
    groups: int
    values: int
    numbers: int


class _Sought(NamedTuple):
    """By what a start is looked up.

    Attributes:
        name, one, other: signature and tags, and the two values.
        ranges: at most two attributes with their bounds.
        whole: whether that is all its condition asks for.
    """

    name: int
    one: int
    other: int
    ranges: tuple[tuple[str, tuple[float, float]], ...]
    whole: bool


class Assembler:
    """Puts automata together to one program.

    Attributes:
        columns: what is read of events.
        whens: when the time events are due that are not set off by a delay, by number.
        units: by number.
        removed: how many were removed since instances of such were last looked for.
        nodes: the states that several patterns may share, by their records.
    """

    def __init__(self, texts: Texts, *, indexed: bool = True, shared: bool = True) -> None:
        """
        Args:
            shared: have patterns that begin alike share states.
            indexed: look up by what conditions ask for; without it every event is held to every pattern, which is what
                benchmarks compare with.
        """
        self.texts = texts
        self._indexed = indexed
        self._shared = shared and indexed
        self.columns = Columns()
        self.whens: list[When] = []
        self.units: dict[int, Unit] = {}
        self._numbers = 0
        self._free_numbers: deque[int] = deque()
        self._memory = np.zeros(1024, np.int32)
        # Address 0 stands for nothing, and for the empty list.
        self._room = Stretches(1)
        self._wides = Pool[int]()
        self._constants = Pool[tuple[int, int]](2)
        self._nothing = self._constant(None)
        self._free_whens: list[int] = []
        self._program: Program | None = None
        self._types: dict[str, _Type] = {}
        self._groups: dict[tuple[frozenset[str] | None, int], int] = {}
        self._grouped: dict[int, _Group] = {}
        self._free_groups: list[int] = []
        self._open_groups: dict[int, int] = {}
        self._open_states: dict[int, list[_Open]] = {}
        self._open_starts: dict[int, list[_Open]] = {}
        self._signatures = 0
        self._starts = Starts()
        # By the record of the state it leads to, if that is shared, else by that of the pattern.
        self._begun: dict[int, list[_Begun]] = {}
        self._names: dict[int, Names] = {}
        self.nodes: dict[int, Node] = {}
        self._roots: dict[Key, Node] = {}
        # Of each pattern's record how many states are there that the pattern was the first to have.
        self._made: dict[int, int] = {}
        # What instances may refer to, and what none refers to any more.
        self._left: list[Left] = []
        self._swept: deque[Left] = deque()

    def add(self, automaton: Automaton, *, kept: bool = False) -> Unit:
        """Add an automaton; `supports` says whether that can be.

        Args:
            kept: tell its matches apart by what they become, whatever it is.
        """
        # At least as many as come are freed; all at once would be a pause.
        for _ in range(min(2, len(self._swept))):
            self._free(self._swept.popleft())
        chain = chain_of(automaton) if self._shared and not kept else None
        if chain is not None:
            return self._add_chain(automaton, chain)
        unit = self._unit(automaton, kept=kept)
        self.units[unit.number] = unit
        reached = sorted({state for arrival in automaton.arrivals for state in arrival})
        for place in reached:
            if unit.states[place]:
                self._fill_state(unit, place)
        for place in automaton.starts:
            named = _named(automaton, place)
            for name in sorted(named):
                self._fill_start(unit, place, name)
            if any(automaton.positions[move.position].domain.others != FALSE for move in automaton.states[place].moves):
                self._open_starts.setdefault(unit.number, []).append(_Open(unit, place, named))
                for name in self._types.keys() - named:
                    self._fill_start(unit, place, name)
        return unit

    def remove(self, number: int) -> None:
        """Remove an automaton. Its instances are no longer offered anything, and go when it is looked for such."""
        unit = self.units.pop(number)
        if unit.address in self._made:
            self._left.append(self._remove_chain(unit))
        else:
            self._forget_starts(unit.address)
            self._open_states.pop(number, None)
            self._open_starts.pop(number, None)
            states = tuple(filter(None, unit.states))
            for state in states:
                self._end(state)
            self._left.append(Left(number, (unit.address,), states))
        self._freeing().code(int(self._memory[unit.address + layout.U_FILTER]))
        self._memory[unit.address + layout.U_FILTER] = 0
        del self._names[number]

    @property
    def removed(self) -> int:
        """How many patterns were removed since it was last looked for their instances."""
        return len(self._left)

    def swept(self) -> None:
        """There are no instances of removed patterns any more."""
        self._swept.extend(self._left)
        self._left.clear()

    def sizes(self) -> Sizes:
        """How large all is."""
        starts = self._starts
        values = len(self._constants) + len(self._wides)
        words = self._room.end - sum(length for _, length in self._room.free())
        return Sizes(words, starts.count, starts.names, len(self._grouped), values, self._numbers)

    def program(self) -> Program:
        """The program as it is now."""
        starts = self._starts
        arrays = {
            "memory": self._memory,
            "wide": self._wides.rows,
            "constants": self._constants.rows,
            "lookup": starts.lookup,
            "entries": starts.entries,
            "bounds": starts.bounds,
        }
        if self._program is None or any(getattr(self._program, name) is not array for name, array in arrays.items()):
            self._program = Program(**arrays)
        return self._program

    def lists(self, type_name: str) -> tuple[int, int, int]:
        """The lists of what waits for a type and of what it begins; 0 for nothing; and the number of the type."""
        known = self._type(type_name)
        if known.changed or known.made_for != self._starts.made_anew:
            for width, address in zip((2, 3), known.lists, strict=True):
                if address:
                    self._room.give(address, 1 + width * int(self._memory[address]))
            groups = [word for each in (known.groups, self._open_groups) for pair in each.items() for word in pair]
            signatures = [
                word for columns, number in known.signatures.items() for word in self._place_of(columns, number)
            ]
            known.changed, known.made_for = False, self._starts.made_anew
            known.lists = (
                self._list(groups, len(groups) // 2) if groups else 0,
                self._list(signatures, len(signatures) // 3) if signatures else 0,
            )
        return (*known.lists, known.number)

    def _place_of(self, columns: tuple[int, int], number: int) -> tuple[int, int, int]:
        """A signature and its columns; of one that asks for no value, where it stands, in place of the second."""
        if columns[0] >= 0:
            return (number, *columns)
        return number, -1, int(slot_of(self._starts.lookup, (number << 2 * layout.TAG_BITS) + 1, 0, 0))

    def _type(self, name: str) -> _Type:
        known = self._types.get(name)
        if known is None:
            known = self._types[name] = _Type(len(self._types))
            for states in self._open_states.values():
                for each in states:
                    if name not in each.named:
                        self._add_visit(each.unit, each.place, name)
            for starts in self._open_starts.values():
                for each in starts:
                    if name not in each.named:
                        self._fill_start(each.unit, each.place, name)
        return known

    # States.

    def _fill_state(self, unit: Unit, place: int) -> dict[str, int]:
        """Say what is done in a state, and where its instances wait; by type what is done."""
        automaton = unit.automaton
        address = unit.states[place]
        forms = [automaton.positions[move.position].domain for move in automaton.states[place].moves]
        named = _named(automaton, place)
        looked = [name for name in sorted(named) if any(_condition(form, name) != FALSE for form in forms)]
        is_open = any(form.others != FALSE for form in forms)
        column, value = -1, self._nothing
        if automaton.key:
            column, value = self.columns.place(automaton.key), -1
        elif not is_open and looked and self._indexed:
            column, value = self._told_by(unit, forms, looked, column, value)
        types = None if is_open else frozenset(looked)
        self._memory[address + layout.S_LOCAL] = place
        self._memory[address + layout.S_GROUP] = self._group(types, column)
        self._memory[address + layout.S_VALUE] = value
        visits = {name: self._visit(unit, place, name) for name in looked}
        if is_open:
            self._open_states.setdefault(unit.number, []).append(_Open(unit, place, named))
            visits |= {name: self._visit(unit, place, name) for name in self._types if name not in named}
        words = [word for name, visit in visits.items() if visit for word in (self._type(name).number, visit)]
        self._memory[address + layout.S_VISITS] = self._list(words, len(words) // 2)
        timers = range(len(automaton.timers))
        if timers:
            table = [self._visit(unit, place, timer_type(timer), timer=True) for timer in timers]
            self._memory[address + layout.S_TIMERS] = self._list(table) + 1
        return visits

    def _told_by(
        self, unit: Unit, forms: Sequence[ConditionByType], looked: Sequence[str], column: int, value: int
    ) -> tuple[int, int]:
        """The attribute that every reason to be in the domain asks for the same value; else none.

        A value of an event matched before tells more instances apart than a constant does.
        """
        registers = self._names[unit.number].registers
        conditions = [_condition(form, name) for form in forms for name in looked]
        first, *others = (atoms_of(each, registers) for each in conditions if each != FALSE)
        for attribute, known in first.joined.items():
            if all(each.joined.get(attribute) == known for each in others):
                slot = unit.captures[known.variable, known.attribute]
                return self.columns.place((attribute,)), -2 - slot
        for attribute, wanted in first.equal.items():
            if all(attribute in each.equal and values.same(each.equal[attribute], wanted) for each in others):
                return self.columns.place((attribute,)), self._constant(_plain(wanted))
        return column, value

    def _add_visit(self, unit: Unit, place: int, name: str) -> None:
        """One more type in a state that looks at types it does not name."""
        visit = self._visit(unit, place, name)
        if visit:
            pointer = unit.states[place] + layout.S_VISITS
            visits = int(self._memory[pointer])
            count = int(self._memory[visits])
            words = self._memory[visits + 1 : visits + 1 + 2 * count].tolist()
            self._room.give(visits, 1 + 2 * count)
            address = self._list([*words, self._types[name].number, visit], count + 1)
            self._memory[pointer] = address

    def _group(self, types: frozenset[str] | None, column: int) -> int:
        """The number of the group of states that wait for these types, of any for None; for one state more."""
        number = self._groups.get((types, column))
        if number is None:
            number = self._free_groups.pop() if self._free_groups else len(self._grouped)
            self._groups[types, column], self._grouped[number] = number, _Group(types, column)
            if types is None:
                self._open_groups[number] = column
            for name in self._types if types is None else types:
                known = self._type(name)
                known.changed = True
                if types is not None:
                    known.groups[number] = column
        self._grouped[number].states += 1
        return number

    def _leave(self, number: int) -> None:
        """A group has one state less."""
        group = self._grouped[number]
        group.states -= 1
        if group.states:
            return
        # What still waits there is offered events of other types, and looks at none.
        del self._grouped[number], self._groups[group.types, group.column]
        self._free_groups.append(number)
        if group.types is None:
            del self._open_groups[number]
        for name in self._types if group.types is None else group.types:
            known = self._types[name]
            known.changed = True
            known.groups.pop(number, None)

    def _end(self, state: int, rooms: Mapping[int, int] | None = None) -> None:
        """Nothing is done in a state any more; its instances go when it is looked for such.

        Args:
            rooms: as `Node` has them.
        """
        self._freeing().visits(state, rooms or {})
        memory = self._memory
        self._leave(int(memory[state + layout.S_GROUP]))
        value = int(memory[state + layout.S_VALUE])
        if value >= 0 and value != self._nothing:
            self._constants.release(value)
        memory[state + layout.S_LOCAL] = -1
        memory[state + layout.S_VISITS] = 0
        timers = int(memory[state + layout.S_TIMERS])
        if timers:
            memory[timers : timers + int(memory[timers - 1])] = 0

    # States that patterns share.

    def _add_chain(self, automaton: Automaton, chain: Sequence[tuple[Key, int]]) -> Unit:
        known, nodes, states = self._roots, list[Node](), dict[int, int]()
        for key, place in chain[:-1]:
            node = known.get(key)
            if node is None:
                break
            nodes.append(node)
            states[place] = node.state
            known = node.children
        there = len(nodes)
        unit = self._unit(automaton, states, shares=True)
        self.units[unit.number] = unit
        self._made[unit.address] = len(chain) - there
        for key, place in chain[there:-1]:
            node = Node(unit.states[place], unit.address, len(nodes), key, known)
            known[key] = self.nodes[node.state] = node
            node.visits = self._fill_state(unit, place)
            nodes.append(node)
            known = node.children
        for (_, place), node in zip(chain, nodes, strict=False):
            node.patterns[unit.number] = place
        if there:
            self._add_move(unit, chain[there - 1][1], nodes[there - 1])
        else:
            (place,) = automaton.starts
            for name in sorted(_named(automaton, place)):
                self._fill_start(unit, place, name, nodes[0].state if nodes else 0)
        return unit

    def _add_move(self, unit: Unit, place: int, node: Node) -> None:
        """One more way out of a state that is shared."""
        (move,) = unit.automaton.states[place].moves
        position = unit.automaton.positions[move.position]
        for name, visit in node.visits.items():
            label = _condition(position.label, name)
            if label == FALSE:
                continue
            way = self._move(unit, move, position, label, (), 0, timer=False)
            if self._memory[visit + layout.V_FLAGS] & layout.ALIKE:
                # Labels differ from here on, so the domain has to be asked.
                domain = _condition(position.domain, name)
                code = 0 if domain == TRUE else self._names[unit.number].condition(domain)
                tests = self._list([code, 0, 0], 1)
                self._freeing().tests(int(self._memory[visit + layout.V_TESTS]))
                self._memory[visit + layout.V_TESTS] = tests
            self._memory[visit + layout.V_FLAGS] &= ~(layout.ONE_WAY | layout.ALIKE)
            self._memory[visit + layout.V_NEED] += 1
            self._append_move(node, visit, way)

    def _append_move(self, node: Node, visit: int, move: int) -> None:
        ways = self._ways(node, visit)
        count = len(ways)
        if count >= node.rooms.get(visit, count):
            self._give_room(node, visit, 2 * max(1, count))
        moves = int(self._memory[visit + layout.V_MOVES])
        self._memory[moves + 1 + count] = move
        self._memory[moves] = count + 1
        ways[self._way(move)] = count

    def _give_room(self, node: Node, visit: int, room: int) -> None:
        """Have a list of moves be of another length."""
        moves = int(self._memory[visit + layout.V_MOVES])
        count = int(self._memory[moves])
        words = self._memory[moves : moves + 1 + count].tolist()
        self._room.give(moves, 1 + node.rooms.get(visit, count))
        address = self._place([*words, *[0] * (room - count)])
        self._memory[visit + layout.V_MOVES] = address
        node.rooms[visit] = room

    def _ways(self, node: Node, visit: int) -> dict[int, int]:
        """The places of moves in a list, by what they lead to."""
        ways = node.ways.get(visit)
        if ways is None:
            moves = int(self._memory[visit + layout.V_MOVES])
            words = self._memory[moves + 1 : moves + 1 + int(self._memory[moves])].tolist()
            ways = node.ways[visit] = {self._way(move): place for place, move in enumerate(words)}
        return ways

    def _way(self, move: int) -> int:
        """The state that a move leads to; of the last one of a pattern the pattern's record, below 0."""
        return int(self._memory[move + layout.M_STATE]) or -int(self._memory[move + layout.M_UNIT])

    def _remove_chain(self, unit: Unit) -> Left:
        nodes = sorted((self.nodes[state] for state in unit.states if state), key=lambda node: node.depth)
        for node in nodes:
            del node.patterns[unit.number]
        over = [node for node in nodes if not node.patterns]
        way = over[0].state if over else -unit.address
        if len(over) < len(nodes):
            self._remove_move(nodes[-len(over) - 1], way)
        else:
            self._forget_starts(abs(way))
        for node in over:
            del node.siblings[node.key], self.nodes[node.state]
            self._end(node.state, node.rooms)
        # Whoever was the first to have a state is what its instances are said to be of.
        gone: list[int] = []
        for address in (unit.address, *(node.maker for node in over)):
            self._made[address] -= 1
            if self._made[address] == 0:
                del self._made[address]
                gone.append(address)
        return Left(unit.number, tuple(gone), tuple(node.state for node in over))

    def _remove_move(self, node: Node, way: int) -> None:
        """One way less out of a state that is shared."""
        memory = self._memory
        for visit in node.visits.values():
            ways = self._ways(node, visit)
            place = ways.pop(way, None)
            if place is None:
                continue
            moves, last = int(memory[visit + layout.V_MOVES]), len(ways)
            room = node.rooms.setdefault(visit, last + 1)
            move = int(memory[moves + 1 + place])
            if place < last:
                other = memory[moves + 1 + place] = int(memory[moves + 1 + last])
                ways[self._way(other)] = place
            memory[moves] = last
            memory[visit + layout.V_NEED] -= 1
            memory[visit + layout.V_FLAGS] &= ~layout.ONE_WAY
            self._freeing().move(move)
            if room > FEW and 4 * last <= room:
                self._give_room(node, visit, room // 2)
                memory = self._memory

    # Starts.

    def _fill_start(self, unit: Unit, place: int, name: str, shared: int = 0) -> None:
        """Have what may begin in a start state found by what it asks of an event of this type.

        Args:
            shared: the state that it leads to, where patterns share that.
        """
        visit = self._visit(unit, place, name, start=True)
        if not visit:
            return
        flags = int(self._memory[visit + layout.V_FLAGS])
        looked_at = flags & (layout.ALIKE | layout.EVERYTHING) != 0
        addresses = int(self._memory[visit + layout.V_MOVES])
        begun = self._begun.setdefault(shared or unit.address, [])
        if not self._memory[addresses]:
            self._freeing().visit(visit)
            return
        for number, sought in enumerate(self._sought(unit, place, name)):
            ranges = [(self.columns.place(each), *bounds) for each, bounds in sought.ranges]
            ranges += [(-1, 0.0, 0.0)] * (2 - len(ranges))
            (first, least, most), (second, other_least, other_most) = ranges
            address = int(self._memory[addresses + 1 + number])
            enters = int(self._memory[address + layout.M_FLAGS]) & layout.ENTERS != 0
            entry = (visit, address, int(sought.whole and looked_at and not enters), first, second)
            bounds = (least, most, other_least, other_most)
            self._starts.add(sought.name, sought.one, sought.other, entry, bounds)
            begun.append(_Begun(sought.name, sought.one, sought.other, visit, address))

    def _forget_starts(self, owner: int) -> None:
        """Nothing begins any more what leads to a state, or a pattern."""
        begun = self._begun.pop(owner, [])
        for each in begun:
            self._starts.remove(each.name, each.one, each.other, each.move)
        for visit in {each.visit for each in begun}:
            self._freeing().visit(visit)

    def _sought(self, unit: Unit, place: int, name: str) -> Iterator[_Sought]:
        """By what each way out of a start state is looked up."""
        known = self._type(name)
        for move in unit.automaton.states[place].moves:
            label = _label(unit.automaton, move, name)
            if label == FALSE:
                continue
            atoms = Atoms(whole=False)
            if self._indexed:
                atoms = atoms_of(label, self._names[unit.number].registers)
            names = sorted(atoms.equal)[:2]
            columns = [self.columns.place((each,)) for each in names]
            pair = (columns[0] if columns else -1, columns[1] if len(columns) > 1 else -1)
            if pair not in known.signatures and len(known.signatures) >= MOST_SIGNATURES and pair[1] >= 0:
                names, pair = names[:1], (pair[0], -1)
            signature = known.signatures.get(pair)
            if signature is None:
                signature = known.signatures[pair] = self._signatures
                self._signatures += 1
                known.changed = True
            packed = [self.texts.packed(_plain(atoms.equal[each])) for each in names] + [(0, 0), (0, 0)]
            (one_tag, one), (other_tag, other), *_ = packed
            tags = one_tag | other_tag << layout.TAG_BITS
            ranges = [(each, atoms.ranges[each]) for each in sorted(atoms.ranges)[:2]]
            whole = atoms.whole and len(names) == len(atoms.equal) and len(ranges) == len(atoms.ranges)
            yield _Sought((signature << 2 * layout.TAG_BITS | tags) + 1, one, other, tuple(ranges), whole)

    # Records.

    def _unit(
        self,
        automaton: Automaton,
        shared: Mapping[int, int] | None = None,
        *,
        shares: bool = False,
        kept: bool = False,
    ) -> Unit:
        windows, timers, variables = len(automaton.windows), len(automaton.timers), len(automaton.variables)
        slots = windows + timers + variables + automaton.joints
        read: set[Capture] = set()
        for expression in _expressions(automaton) if variables else ():
            read |= captures_of(expression)
        captures = {each: slots + 2 * place for place, each in enumerate(sorted(read))}
        first = slots + 2 * len(captures)
        registers = tuple(first + 2 * place for place in range(len(automaton.registers)))
        behind = first + 2 * len(registers)
        inner_keys = tuple(behind + 2 * place for place in range(len(automaton.inner_keys)))
        extra = behind + (2 * len(inner_keys) + 1 if inner_keys else 0)
        names = Names(
            {register.name: slot for register, slot in zip(automaton.registers, registers, strict=True)},
            captures,
            self.columns.place,
            self._constant,
            self._code,
        )
        if self._free_numbers:
            number = self._free_numbers.popleft()
        else:
            number, self._numbers = self._numbers, self._numbers + 1
        self._names[number] = names
        output = automaton.output
        # Those that may come again, or merge with others, become objects at once.
        repeats, merges = may_repeat(automaton), _may_merge(automaton)
        attributes = output is not None and bool(output.attributes)
        kept = kept or repeats or (merges and attributes)
        shown = attributes or kept
        flags = (layout.KEYED if automaton.key else 0) | (layout.MERGES if merges else 0)
        flags |= (layout.SHARES if shares else 0) | (layout.SHOWN if shown else 0) | (layout.CHOSEN if not kept else 0)
        window = -1 if automaton.whole_window is None else self._in_pool(automaton.whole_window)
        record = [0] * layout.UNIT
        record[layout.U_NUMBER] = number
        record[layout.U_FLAGS] = flags
        record[layout.U_WINDOW] = window
        record[layout.U_WINDOWS] = windows
        record[layout.U_TIMERS] = timers
        record[layout.U_VARIABLES] = variables
        record[layout.U_JOINTS] = automaton.joints
        record[layout.U_EXTRA] = extra
        record[layout.U_SPENT] = extra if inner_keys else 0
        record[layout.U_FILTER] = self._filter(output, names)
        record[layout.U_KEYS] = self.columns.place(automaton.key) if automaton.key else 0
        address = self._place(record)
        reached = {state for arrival in automaton.arrivals for state in arrival if automaton.states[state].moves}
        places = range(len(automaton.states))
        return Unit(
            number,
            automaton,
            address,
            tuple((shared or {}).get(place) or self._state(place in reached) for place in places),
            captures,
            windows + timers,
            registers,
            inner_keys,
            extra,
            shown,
            kept,
        )

    def _state(self, waits: bool) -> int:
        return self._place([0] * layout.STATE) if waits else 0

    def _visit(
        self,
        unit: Unit,
        place: int,
        type_name: str,
        *,
        start: bool = False,
        timer: bool = False,
    ) -> int:
        """What events of a type do in a state; 0 where it does not look at them."""
        automaton = unit.automaton
        state = automaton.states[place]
        names = self._names[unit.number]
        tests: list[tuple[int, int, int]] = []
        moves: list[int] = []
        joint = 0
        loops: list[int] = []
        need = 0
        everything, alike, plain = False, True, True
        kept = (automaton.timers, automaton.windows, automaton.variables, automaton.registers, automaton.inner_keys)
        simple = not any(kept)
        opens: set[int] = set()
        ways: list[tuple[Move, Position, Expression, Expression, list[tuple[int, int]]]] = []
        for move in state.moves:
            position = automaton.positions[move.position]
            domain = _condition(position.domain, type_name, timer=timer)
            label = _condition(position.label, type_name, timer=timer)
            if position.after_first and position.part is not None and type_name == part_type(position.part):
                joint = 1 + unit.joint(position)
            within = [] if timer else self._within(unit, move, position)
            enters = bool(move.keys) and not timer and domain != FALSE
            alike = alike and not move.keys and (label is domain or label == domain)
            everything = everything or (domain == TRUE and not within and not enters)
            opens |= move.keys if enters or label != FALSE else frozenset()
            ways.append((move, position, domain, label, within))
        if all(domain == FALSE for _, _, domain, _, _ in ways):
            return 0
        for move, position, domain, label, within in ways:
            if domain == FALSE and label == FALSE:
                continue
            inits = self._inits(unit, move)
            if domain != FALSE:
                # Where labels say the same it is not asked.
                asked = (domain != TRUE or within) and not (alike or everything)
                code = names.condition(domain, within) if asked else 0
                tests.append((code, inits, int(bool(move.keys) and not timer)))
            if label != FALSE:
                targets = automaton.arrivals[move.position]
                need += len(targets)
                plain = plain and label == TRUE
                address = self._move(unit, move, position, label, within, inits, timer=timer)
                moves.append(address)
                (first, *others) = targets
                at = automaton.states[first]
                if position.hidden and not move.strong and not others and first == place and not at.accepting:
                    loops.append(address)
        plain = plain and joint == 0
        flags = (layout.STRONG if state.strong and not timer else 0) | (layout.EVERYTHING if everything else 0)
        flags |= layout.ALIKE if alike else 0
        record = [0] * layout.VISIT
        record[layout.V_FLAGS] = flags
        record[layout.V_UNIT] = unit.address
        record[layout.V_NEED] = need
        record[layout.V_TESTS] = self._list([word for test in tests for word in test], len(tests))
        record[layout.V_MOVES] = self._list(moves)
        merges = int(self._memory[unit.address + layout.U_FLAGS]) & layout.MERGES
        record[layout.V_JOINT] = joint
        if opens:
            (inner,) = opens
            record[layout.V_OPENS] = 1 + self.columns.place(automaton.inner_keys[inner])
            record[layout.V_INNER] = inner
            # An event may be taken twice: by the instance of its value, and by the one that stands for all others.
            record[layout.V_NEED] = 2 * need + 1
        if len(moves) == 1 and not merges and joint == 0 and (everything or alike):
            straight = int(self._memory[moves[0] + layout.M_FLAGS]) & layout.STRAIGHT
            # A state is strong iff its only move is.
            record[layout.V_FLAGS] |= layout.ONE_WAY if straight and len(state.moves) == 1 else 0
        in_place = simple and everything and plain and len(loops) == 1 and not start
        record[layout.V_LOOP] = loops[0] if in_place else 0
        return self._place(record)

    def _within(self, unit: Unit, move: Move, position: Position) -> list[tuple[int, int]]:
        """The columns and slots of the inner keys that an event is checked against, for it stands within them."""
        names = unit.automaton.inner_keys
        return [(self.columns.place(names[key]), unit.inner_keys[key]) for key in position.keys if key not in move.keys]

    def _move(
        self,
        unit: Unit,
        move: Move,
        position: Position,
        label: Expression,
        within: Sequence[tuple[int, int]],
        inits: int,
        *,
        timer: bool,
    ) -> int:
        automaton, names = unit.automaton, self._names[unit.number]
        record = [0] * layout.MOVE
        record[layout.M_LABEL] = 0 if label == TRUE and not within else names.condition(label, within)
        windows = [
            word
            for window in position.windows
            for word in (window, self._in_pool(automaton.windows[window]), int(window in move.windows))
        ]
        captures = [
            word
            for key in sorted(move.keys)
            for word in (unit.inner_keys[key], self.columns.place(automaton.inner_keys[key]))
        ]
        updated = names
        variable = -1
        if position.variable is not None:
            bound = automaton.variables[position.variable]
            variable = unit.variables + position.variable
            for (name, what), slot in unit.captures.items():
                if name == bound:
                    column = {"lo()": -1, "hi()": -2}.get(what)
                    captures += [slot, self.columns.place(what) if column is None else column]
        updates = [word for place, value in position.updates for word in (unit.registers[place], updated.value(value))]
        handed: list[int] = []
        if position.part is not None:
            handed, counted = self._handed(unit, position)
            captures += counted
        joint = 0
        if position.joint is not None:
            joint = -1 - unit.joint(position) if position.after_first else 1 + unit.joint(position)
        simple = not (windows or inits or captures or updates or handed or joint) and variable < 0
        arrivals = automaton.arrivals[move.position]
        state = automaton.states[arrivals[0]]
        straight = simple and not unit.extra and len(arrivals) == 1 and state.accepting != bool(state.moves)
        flags = (layout.STRONG if move.strong and not timer else 0) | (layout.HIDDEN if position.hidden else 0)
        flags |= (layout.SIMPLE if simple else 0) | (layout.STRAIGHT if straight else 0)
        flags |= layout.ENTERS if move.keys else 0
        record[layout.M_FLAGS] = flags
        record[layout.M_UNIT] = unit.address
        record[layout.M_STATE] = unit.states[arrivals[0]] if straight and state.moves else 0
        record[layout.M_VARIABLE] = variable
        record[layout.M_JOINT] = joint
        record[layout.M_HANDED] = self._list(handed, len(handed) // 3) if handed else 0
        record[layout.M_CAPTURES] = self._list(captures, len(captures) // 2) if captures else 0
        record[layout.M_INITS] = inits
        record[layout.M_UPDATES] = self._list(updates, len(updates) // 2) if updates else 0
        record[layout.M_WINDOWS] = self._list(windows, len(windows) // 3) if windows else 0
        record[layout.M_TARGETS] = self._list([self._target(unit, each) for each in automaton.arrivals[move.position]])
        return self._place(record)

    def _handed(self, unit: Unit, position: Position) -> tuple[list[int], list[int]]:
        """What a part hands on: its variables as triples of words, its registers as captures."""
        automaton = unit.automaton
        part = automaton.parts[position.part or 0]
        assert isinstance(part, Automaton)
        handed: list[int] = []
        for place, name in enumerate(automaton.variables):
            if name in part.exports and name in part.variables:
                slots = [
                    word
                    for (variable, what), slot in unit.captures.items()
                    if variable == name
                    for word in (slot, self.columns.place(Handed(name, what)))
                ]
                captures = self._list(slots, len(slots) // 2) if slots else 0
                handed += [self.columns.place(Handed(name)), unit.variables + place, captures]
        counted = {register.name for register in part.registers if register.name in part.exports}
        return handed, [
            word
            for slot, register in zip(unit.registers, automaton.registers, strict=True)
            if register.name in counted
            for word in (slot, self.columns.place(Handed(register.name, counted=True)))
        ]

    def _target(self, unit: Unit, place: int) -> int:
        automaton = unit.automaton
        state = automaton.states[place]
        windows, timers = len(automaton.windows), len(automaton.timers)
        over = [word for each in range(windows) if each not in state.windows for word in (each, layout.OPENED)]
        over += [
            word for each in range(timers) if each not in state.timers for word in (windows + each, layout.SET_OFF)
        ]
        over += [
            word for key, slot in enumerate(unit.inner_keys) if key not in state.keys for word in (slot, layout.ENTERED)
        ]
        arms: list[int] = []
        for timer in sorted(state.arms):
            when = automaton.timers[timer].when
            if isinstance(when, Relative):
                arms += [windows + timer, timer, self._in_pool(when.delay)]
            else:
                arms += [windows + timer, timer, -1 - self._when(when)]
        record = [0] * layout.TARGET
        record[layout.T_STATE] = unit.states[place]
        record[layout.T_FLAGS] = (layout.ACCEPTING if state.accepting else 0) | (layout.GOES_ON if state.moves else 0)
        record[layout.T_CLEARS] = self._list(over, len(over) // 2) if over else 0
        record[layout.T_ARMS] = self._list(arms, len(arms) // 3) if arms else 0
        return self._place(record)

    def _inits(self, unit: Unit, move: Move) -> int:
        names = self._names[unit.number]
        entered = [
            (init, place, initial)
            for place, register in enumerate(unit.automaton.registers)
            for init, initial in register.initials
            if init in move.inits
        ]
        # Outer ones first, for an inner one may build on them.
        entered.sort(key=lambda each: each[:2])
        words = [word for _, place, value in entered for word in (unit.registers[place], names.value(value))]
        return self._list(words, len(words) // 2) if words else 0

    def _filter(self, output: Output | None, names: Names) -> int:
        """The final filter, over what is bound and counted: output attributes written out."""
        if output is None or output.condition is None:
            return 0
        shown = {name: transform(value, lambda node: self._as_shown(node, names)) for name, value in output.attributes}

        def written_out(node: Expression) -> Expression:
            if isinstance(node, Name) and node.name not in names.registers:
                return shown.get(node.name, Literal(None))
            return node

        condition = transform(output.condition, written_out)
        return 0 if condition == TRUE else names.condition(condition)

    def _as_shown(self, node: Expression, names: Names) -> Expression:
        """A composite event has no attributes until they are worked out."""
        return Literal(None) if isinstance(node, Name) and node.name not in names.registers else node

    # Memory.

    def _place(self, words: Sequence[int]) -> int:
        address = self._room.take(len(words))
        self._put(address, words)
        return address

    def _put(self, address: int, words: Sequence[int]) -> None:
        end = address + len(words)
        while end > len(self._memory):
            self._memory = longer(self._memory, 2 * len(self._memory))
        self._memory[address:end] = words

    def _list(self, words: Sequence[int], length: int | None = None) -> int:
        return self._place([len(words) if length is None else length, *words])

    def _code(self, words: list[int], jumps: Sequence[int]) -> int:
        address = self._room.take(len(words))
        for jump in jumps:
            words[jump] += address
        self._put(address, words)
        return address

    def _in_pool(self, number: int) -> int:
        return self._wides.number(number)

    def _constant(self, value: Attribute) -> int:
        return self._constants.number(self.texts.packed(value))

    def _when(self, when: When) -> int:
        """The number of the instant of a time event."""
        if not self._free_whens:
            self.whens.append(when)
            return len(self.whens) - 1
        number = self._free_whens.pop()
        self.whens[number] = when
        return number

    def _freeing(self) -> Freeing:
        """What frees records; nothing may be placed before it has."""
        return Freeing(self._memory, self._room, self._wides, self._constants, self._free_whens)

    def _free(self, left: Left) -> None:
        """What a removed pattern has left is used again."""
        self._freeing().left(left)
        self._free_numbers.append(left.number)


def supports(automaton: Automaton) -> bool:
    """Whether the loop runs such an automaton, and its parts.

    Of inner keys one at a time may be entered: instances that stand for the values of several that no event has shown
    yet would split in as many ways as there are sets of keys.
    """
    if not all(isinstance(part, Automaton) and supports(part) for part in automaton.parts):
        return False
    if any(len(keys) > 1 for state in automaton.states for keys in [frozenset().union(*_entered(state))]):
        return False
    kept = (automaton.windows, automaton.timers, automaton.variables, automaton.registers, automaton.inner_keys)
    slots = sum(map(len, kept)) + automaton.joints
    read = {each for expression in _expressions(automaton) for each in captures_of(expression)}
    return slots + 2 * len(read) <= layout.LARGEST // 2 and all(map(fits, _expressions(automaton)))


def _condition(form: ConditionByType, type_name: str, *, timer: bool = False) -> Expression:
    """What an event of a type has to fulfil; those that exist inside an engine only are none of the others."""
    return form.by_type.get(type_name, FALSE if timer or type_name[0] == PART_PREFIX else form.others)


def _entered(state: State) -> Iterator[frozenset[int]]:
    """The inner keys that each way out of a state enters."""
    return (move.keys for move in state.moves)


def _named(automaton: Automaton, place: int) -> frozenset[str]:
    """The types that the domain of a state speaks of."""
    forms = (automaton.positions[move.position].domain for move in automaton.states[place].moves)
    return frozenset(name for form in forms for name in form.by_type if name[0] != TIMER_PREFIX)


def _label(automaton: Automaton, move: Move, type_name: str) -> Expression:
    """The condition under which a move takes an event of a type."""
    return _condition(automaton.positions[move.position].label, type_name)


def _plain(value: Attribute) -> Attribute:
    """A number as columns of keys have it: a whole one as an integer."""
    if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def _may_merge(automaton: Automaton) -> bool:
    """Whether two instances may become equal, or complete with the same constituents: where what is matched is hidden
    or a time event, or an instance has several ways to go on."""
    if automaton.timers or automaton.inner_keys or any(position.hidden for position in automaton.positions):
        return True
    if len(automaton.starts) > 1 or any(len(arrival) > 1 for arrival in automaton.arrivals):
        return True
    return any(len(state.moves) > 1 for state in automaton.states)


def _expressions(automaton: Automaton) -> Iterable[Expression]:
    """All the expressions of an automaton."""
    for position in automaton.positions:
        for form in (position.label, position.domain):
            yield from form.by_type.values()
            yield form.others
        yield from (value for _, value in position.updates)
    for register in automaton.registers:
        yield from (value for _, value in register.initials)
    if automaton.output is not None:
        yield from (value for _, value in automaton.output.attributes)
        if automaton.output.condition is not None:
            yield automaton.output.condition


__all__ = ["Assembler", "Columns", "Unit", "supports"]
