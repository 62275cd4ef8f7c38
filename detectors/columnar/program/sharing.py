"""States that patterns share, as patterns come and go.

cayuga-algebra-cesar, section 4.2; which may be shared says `prefixes`. A state has the moves of all that share it, and
is there as long as one of them is. The moves of a state are found by what they lead to, and a list of them has room for
more, so that to add or remove a pattern costs the same however many share a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.by_type import condition_of, named
from distced.detectors.columnar.prefixes import Key, Node
from distced.detectors.columnar.program.record_space import Left
from distced.detectors.columnar.program.record_writer import Writer
from distced.detectors.columnar.program.start_index import Beginnings
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.program.wait_index import Waiting
from distced.detectors.columnar.records import Records
from distced.middleware.sets.expressions import FALSE, TRUE

FEW: Final = 4
"""A list of so many moves does not get shorter."""


class Sharing:
    """The states that are shared.

    Attributes:
        nodes: by record.
        made: of each unit's record how many states are there that the unit was the first to have.
    """

    def __init__(self, records: Records, writer: Writer, waiting: Waiting, beginnings: Beginnings) -> None:
        self.records = records
        self._writer = writer
        self._waiting = waiting
        self._beginnings = beginnings
        self.nodes: dict[int, Node] = {}
        self.made: dict[int, int] = {}
        self._roots: dict[Key, Node] = {}

    def add(self, automaton: Automaton, chain: Sequence[tuple[Key, int]], number: int) -> Unit:
        """Add a chain; it shares the states it begins with with those that begin alike."""
        known, nodes, states = self._roots, list[Node](), dict[int, int]()
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
            node = Node(unit.states[place], unit.address, len(nodes), key, known)
            known[key] = self.nodes[node.state] = node
            node.visits = self._waiting.fill(unit, place)
            nodes.append(node)
            known = node.children
        for (_, place), node in zip(chain, nodes, strict=False):
            node.patterns[unit.number] = place
        if there:
            self._add_move(unit, chain[there - 1][1], nodes[there - 1])
        else:
            (place,) = automaton.starts
            for name in sorted(named(automaton, place)):
                self._beginnings.fill(unit, place, name, nodes[0].state if nodes else 0)
        return unit

    def _add_move(self, unit: Unit, place: int, node: Node) -> None:
        """One more way out of a state that is shared."""
        (move,) = unit.automaton.states[place].moves
        position = unit.automaton.positions[move.position]
        for name, visit in node.visits.items():
            label = condition_of(position.label, name)
            if label == FALSE:
                continue
            way = self._writer.move(unit, move, position, label, (), 0, timer=False)
            if self.records.memory[visit + layout.V_FLAGS] & layout.ALIKE:
                # Labels differ from here on, so the domain has to be asked.
                domain = condition_of(position.domain, name)
                code = 0 if domain == TRUE else self._writer.names[unit.number].condition(domain)
                tests = self.records.place_list([code, 0, 0], 1)
                self.records.freeing().tests(int(self.records.memory[visit + layout.V_TESTS]))
                self.records.memory[visit + layout.V_TESTS] = tests
            self.records.memory[visit + layout.V_FLAGS] &= ~(layout.ONE_WAY | layout.ALIKE)
            self.records.memory[visit + layout.V_NEED] += 1
            self._append_move(node, visit, way)

    def _append_move(self, node: Node, visit: int, move: int) -> None:
        ways = self._ways(node, visit)
        count = len(ways)
        if count >= node.rooms.get(visit, count):
            self._give_room(node, visit, 2 * max(1, count))
        moves = int(self.records.memory[visit + layout.V_MOVES])
        self.records.memory[moves + 1 + count] = move
        self.records.memory[moves] = count + 1
        ways[self._way(move)] = count

    def _give_room(self, node: Node, visit: int, room: int) -> None:
        """Have a list of moves be of another length."""
        moves = int(self.records.memory[visit + layout.V_MOVES])
        count = int(self.records.memory[moves])
        words = self.records.memory[moves : moves + 1 + count].tolist()
        self.records.room.give(moves, 1 + node.rooms.get(visit, count))
        address = self.records.place([*words, *[0] * (room - count)])
        self.records.memory[visit + layout.V_MOVES] = address
        node.rooms[visit] = room

    def _ways(self, node: Node, visit: int) -> dict[int, int]:
        """The places of moves in a list, by what they lead to."""
        ways = node.ways.get(visit)
        if ways is None:
            moves = int(self.records.memory[visit + layout.V_MOVES])
            words = self.records.memory[moves + 1 : moves + 1 + int(self.records.memory[moves])].tolist()
            ways = node.ways[visit] = {self._way(move): place for place, move in enumerate(words)}
        return ways

    def _way(self, move: int) -> int:
        """The state that a move leads to; of the last one of a pattern the pattern's record, below 0."""
        return int(self.records.memory[move + layout.M_STATE]) or -int(self.records.memory[move + layout.M_UNIT])

    def remove(self, unit: Unit) -> Left:
        """Remove a chain, and the states that no other has; what instances may still refer to."""
        nodes = sorted((self.nodes[state] for state in unit.states if state), key=lambda node: node.depth)
        for node in nodes:
            del node.patterns[unit.number]
        over = [node for node in nodes if not node.patterns]
        way = over[0].state if over else -unit.address
        if len(over) < len(nodes):
            self._remove_move(nodes[-len(over) - 1], way)
        else:
            self._beginnings.forget(abs(way))
        for node in over:
            del node.siblings[node.key], self.nodes[node.state]
            self._waiting.end(node.state, node.rooms)
        # Whoever was the first to have a state is what its instances are said to be of.
        gone: list[int] = []
        for address in (unit.address, *(node.maker for node in over)):
            self.made[address] -= 1
            if self.made[address] == 0:
                del self.made[address]
                gone.append(address)
        return Left(unit.number, tuple(gone), tuple(node.state for node in over))

    def _remove_move(self, node: Node, way: int) -> None:
        """One way less out of a state that is shared."""
        memory = self.records.memory
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
            self.records.freeing().move(move)
            if room > FEW and 4 * last <= room:
                self._give_room(node, visit, room // 2)
                memory = self.records.memory
