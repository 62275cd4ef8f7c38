"""States shared by patterns with a common prefix, as patterns are added and removed.

cayuga-algebra-cesar, section 4.2: automata merge by equal prefixes. Here only chains of single steps that keep only
constituents: instances that reach a state alike, and wait for the same events, have one fate. A shared state has the
moves of all its patterns and stays while one does; moves are found by target, in lists with spare room, so adding a
pattern costs the same however many share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.program.record_space import Left, RecordSpace
from distced.detectors.columnar.program.record_writer import RecordWriter
from distced.detectors.columnar.program.start_index import StartIndex
from distced.detectors.columnar.program.units import Unit, condition_of, named
from distced.detectors.columnar.program.wait_index import WaitIndex
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, TRUE

FEW: Final = 4
"""Minimum capacity of a list of moves."""

Key: TypeAlias = tuple[object, ...]
"""Parts of a step that must be equal for two steps to share a state."""


@dataclass(slots=True)
class SharedState:
    """A state shared by patterns.

    Attributes:
        state: its record.
        maker: record of the first pattern with it.
        depth: number of shared states before it.
        count: place of the count of its instances touched.
        key, siblings: its step, and the other steps from the state before.
        visits, rooms, indexes: by type its visit, room for moves, and index of each move by target.
        patterns: patterns that share it, with its number in each.
        children: target states of its moves.
    """

    state: int
    maker: int
    depth: int
    count: int
    key: Key
    siblings: dict[Key, SharedState] = field(repr=False)
    visits: dict[str, int] = field(default_factory=dict)
    rooms: dict[int, int] = field(default_factory=dict)
    move_indexes: dict[int, dict[int, int]] = field(default_factory=dict)
    patterns: dict[int, int] = field(default_factory=dict)
    children: dict[Key, SharedState] = field(default_factory=dict)


def chain_of(automaton: Automaton) -> list[tuple[Key, int]] | None:
    """Key and target state (none for the last) of each step of a chain of single steps; None for other automata."""
    kept = (automaton.variables, automaton.registers, automaton.windows, automaton.timers, automaton.inner_keys)
    if any(kept) or len(automaton.starts) != 1:
        return None
    (place,) = automaton.starts
    found: list[tuple[Key, int]] = []
    begins: Key = (automaton.whole_window, automaton.key)
    while True:
        moves = automaton.states[place].moves
        if len(moves) != 1 or len(automaton.arrivals[moves[0].position]) != 1:
            return None
        (move,) = moves
        position = automaton.positions[move.position]
        (place,) = automaton.arrivals[move.position]
        state = automaton.states[place]
        if position.hidden or position.domain.others != FALSE or state.accepting == bool(state.moves):
            return None
        asked = (_form(position.label), _form(position.domain), move.strong)
        if not state.moves:
            return [*found, ((*begins, *asked), place)]
        following = automaton.positions[state.moves[0].position].domain
        found.append(((*begins, *asked, _form(following), state.strong), place))
        begins = ()


def _form(condition: ConditionByType) -> tuple[object, ...]:
    return tuple(sorted(condition.by_type.items(), key=lambda item: item[0]))


class Sharing:
    """The shared states by record; `made` counts those that each unit's record was the first to have."""

    def __init__(
        self, records: RecordSpace, writer: RecordWriter, wait_index: WaitIndex, start_index: StartIndex
    ) -> None:
        self.records = records
        self._writer = writer
        self._wait_index = wait_index
        self._start_index = start_index
        self.nodes: dict[int, SharedState] = {}
        self.made: dict[int, int] = {}
        self._roots: dict[Key, SharedState] = {}

    def add(self, automaton: Automaton, chain: Sequence[tuple[Key, int]], number: int) -> Unit:
        """Add a chain; it shares the states of its longest known prefix."""
        known, nodes, states = self._roots, list[SharedState](), dict[int, int]()
        for key, place in chain[:-1]:
            node = known.get(key)
            if node is None:
                break
            nodes.append(node)
            states[place] = node.state
            known = node.children
        there = len(nodes)
        unit = self._writer.unit(automaton, number, states, shares=True)
        self.made[unit.address] = len(chain) - there
        for key, place in chain[there:-1]:
            node = SharedState(unit.states[place], unit.address, len(nodes), self.records.counts.take(), key, known)
            known[key] = self.nodes[node.state] = node
            node.visits = self._wait_index.fill(unit, place, node.count)
            nodes.append(node)
            known = node.children
        for (_, place), node in zip(chain, nodes, strict=False):
            node.patterns[unit.number] = place
        if there:
            self._add_move(unit, chain[there - 1][1], nodes[there - 1])
        else:
            (place,) = automaton.starts
            for name in sorted(named(automaton, place)):
                self._start_index.fill(unit, place, name, nodes[0] if nodes else None)
        return unit

    def _add_move(self, unit: Unit, place: int, node: SharedState) -> None:
        """Add a move out of a shared state."""
        (move,) = unit.automaton.states[place].moves
        position = unit.automaton.positions[move.position]
        for name, visit in node.visits.items():
            label = condition_of(position.label, name)
            if label == FALSE:
                continue
            added = self._writer.move(unit, move, position, label, (), 0, timer=False)
            if self.records.memory[visit + word_offsets.V_FLAGS] & word_offsets.ALIKE:
                # Labels differ from here on, so the domain has to be asked.
                domain = condition_of(position.domain, name)
                code = 0 if domain == TRUE else self._writer.names[unit.number].condition(domain)
                tests = self.records.place_list([code, 0, 0], 1)
                self.records.release().tests(int(self.records.memory[visit + word_offsets.V_TESTS]))
                self.records.memory[visit + word_offsets.V_TESTS] = tests
            self.records.memory[visit + word_offsets.V_FLAGS] &= ~(word_offsets.SINGLE_MOVE | word_offsets.ALIKE)
            self.records.memory[visit + word_offsets.V_NEED] += 1
            self._append_move(node, visit, added)

    def _append_move(self, node: SharedState, visit: int, move: int) -> None:
        indexes = self._move_indexes(node, visit)
        count = len(indexes)
        if count >= node.rooms.get(visit, count):
            self._give_room(node, visit, 2 * max(1, count))
        moves = int(self.records.memory[visit + word_offsets.V_MOVES])
        self.records.memory[moves + 1 + count] = move
        self.records.memory[moves] = count + 1
        indexes[self._target(move)] = count

    def _give_room(self, node: SharedState, visit: int, room: int) -> None:
        """Change the capacity of a list of moves."""
        moves = int(self.records.memory[visit + word_offsets.V_MOVES])
        count = int(self.records.memory[moves])
        words = self.records.memory[moves : moves + 1 + count].tolist()
        self.records.room.give(moves, 1 + node.rooms.get(visit, count))
        address = self.records.place([*words, *[0] * (room - count)])
        self.records.memory[visit + word_offsets.V_MOVES] = address
        node.rooms[visit] = room

    def _move_indexes(self, node: SharedState, visit: int) -> dict[int, int]:
        """The indexes of moves in a list, by target."""
        indexes = node.move_indexes.get(visit)
        if indexes is None:
            moves = int(self.records.memory[visit + word_offsets.V_MOVES])
            words = self.records.memory[moves + 1 : moves + 1 + int(self.records.memory[moves])].tolist()
            indexes = node.move_indexes[visit] = {self._target(move): place for place, move in enumerate(words)}
        return indexes

    def _target(self, move: int) -> int:
        """The target state of a move; for the last one of a pattern the pattern's record, negative."""
        return int(self.records.memory[move + word_offsets.M_STATE]) or -int(
            self.records.memory[move + word_offsets.M_UNIT]
        )

    def remove(self, unit: Unit) -> Left:
        """Remove a chain, and the states no other chain has; the records to which instances may still refer."""
        nodes = sorted((self.nodes[state] for state in unit.states if state), key=lambda node: node.depth)
        for node in nodes:
            del node.patterns[unit.number]
        over = [node for node in nodes if not node.patterns]
        target = over[0].state if over else -unit.address
        if len(over) < len(nodes):
            self._remove_move(nodes[-len(over) - 1], target)
        else:
            self._start_index.forget(abs(target))
        for node in over:
            del node.siblings[node.key], self.nodes[node.state]
            self.records.counts.give(node.count)
            self._wait_index.end(node.state, node.rooms)
        # Instances of a state count as those of the pattern that was the first to have it.
        gone: list[int] = []
        for address in (unit.address, *(node.maker for node in over)):
            self.made[address] -= 1
            if self.made[address] == 0:
                del self.made[address]
                gone.append(address)
        return Left(unit.number, tuple(gone), tuple(node.state for node in over))

    def _remove_move(self, node: SharedState, target: int) -> None:
        """Remove a move out of a shared state."""
        memory = self.records.memory
        for visit in node.visits.values():
            indexes = self._move_indexes(node, visit)
            place = indexes.pop(target, None)
            if place is None:
                continue
            moves, last = int(memory[visit + word_offsets.V_MOVES]), len(indexes)
            room = node.rooms.setdefault(visit, last + 1)
            move = int(memory[moves + 1 + place])
            if place < last:
                other = memory[moves + 1 + place] = int(memory[moves + 1 + last])
                indexes[self._target(other)] = place
            memory[moves] = last
            memory[visit + word_offsets.V_NEED] -= 1
            memory[visit + word_offsets.V_FLAGS] &= ~word_offsets.SINGLE_MOVE
            self.records.release().move(move)
            if room > FEW and 4 * last <= room:
                self._give_room(node, visit, room // 2)
                memory = self.records.memory
