"""Index by event type: waiting groups of states, and signatures of start moves.

Cayuga's AN index (cayuga-algebra-cesar, section 4.3); changed lists are written at the next event of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.kernel.start_lookup import slot_of
from distced.detectors.columnar.program.record_space import RecordSpace
from distced.detectors.columnar.program.start_table import StartTable
from distced.detectors.columnar.program.units import Unit

MOST_SIGNATURES: Final = 64
"""Maximum of attribute pairs in start conditions of one type; further conditions are indexed by one attribute."""


@dataclass(slots=True)
class Open:
    """A state, or a start state, that reads types it does not name."""

    unit: Unit
    place: int
    named: frozenset[str]


@dataclass(slots=True)
class _Type:
    """An event type: waiting groups and start signatures, by columns; addresses of both `lists`, 0 if empty; `changed`
    since; `rebuilt` of the start table then."""

    number: int
    groups: dict[int, int] = field(default_factory=dict)
    signatures: dict[tuple[int, int], int] = field(default_factory=dict)
    lists: tuple[int, int] = (0, 0)
    changed: bool = True
    made_for: int = 0


@dataclass(slots=True)
class _Group:
    """A number of states that wait for the same types (None for any), distinguished by the same column."""

    types: frozenset[str] | None
    column: int
    states: int = 0


class TypeIndex:
    """Types seen or named, by name, and groups waiting for them, by number; `on_new` is called with each new type."""

    def __init__(self, records: RecordSpace, starts: StartTable) -> None:
        self.records = records
        self._starts = starts
        self.on_new: list[Callable[[str], None]] = []
        self.types: dict[str, _Type] = {}
        self.groups: dict[int, _Group] = {}
        self._numbers: dict[tuple[frozenset[str] | None, int], int] = {}
        self._free: list[int] = []
        self._open: dict[int, int] = {}
        self._signatures = 0

    def known(self, name: str) -> _Type:
        """The entry of a type, created if new."""
        known = self.types.get(name)
        if known is None:
            known = self.types[name] = _Type(len(self.types))
            for notify in self.on_new:
                notify(name)
        return known

    def signature(self, name: str, names: list[str]) -> tuple[int, list[str]]:
        """Number of the signature of a start on these required attributes of the type, and its indexed attributes."""
        known = self.known(name)
        columns = [self.records.columns.place((each,)) for each in names]
        pair = (columns[0] if columns else -1, columns[1] if len(columns) > 1 else -1)
        if pair not in known.signatures and len(known.signatures) >= MOST_SIGNATURES and pair[1] >= 0:
            names, pair = names[:1], (pair[0], -1)
        number = known.signatures.get(pair)
        if number is None:
            number = known.signatures[pair] = self._signatures
            self._signatures += 1
            known.changed = True
        return number, names

    def lists(self, type_name: str) -> tuple[int, int, int]:
        """The lists of states waiting for a type and of start moves, 0 for none; and the number of the type."""
        known = self.known(type_name)
        if known.changed or known.made_for != self._starts.rebuilt:
            for width, address in zip((2, 3), known.lists, strict=True):
                if address:
                    self.records.room.give(address, 1 + width * int(self.records.memory[address]))
            groups = [word for each in (known.groups, self._open) for pair in each.items() for word in pair]
            signatures = [
                word for columns, number in known.signatures.items() for word in self._place_of(columns, number)
            ]
            known.changed, known.made_for = False, self._starts.rebuilt
            known.lists = (
                self.records.place_list(groups, len(groups) // 2) if groups else 0,
                self.records.place_list(signatures, len(signatures) // 3) if signatures else 0,
            )
        return (*known.lists, known.number)

    def _place_of(self, columns: tuple[int, int], number: int) -> tuple[int, int, int]:
        """A signature and its columns; for a signature without values its slot instead of the second."""
        if columns[0] >= 0:
            return (number, *columns)
        return number, -1, int(slot_of(self._starts.lookup, (number << 2 * word_offsets.TAG_BITS) + 1, 0, 0))

    def group(self, types: frozenset[str] | None, column: int) -> int:
        """The number of the group of states that wait for these types, of any for None; adds one state."""
        number = self._numbers.get((types, column))
        if number is None:
            number = self._free.pop() if self._free else len(self.groups)
            self._numbers[types, column], self.groups[number] = number, _Group(types, column)
            if types is None:
                self._open[number] = column
            for name in self.types if types is None else types:
                known = self.known(name)
                known.changed = True
                if types is not None:
                    known.groups[number] = column
        self.groups[number].states += 1
        return number

    def leave(self, number: int) -> None:
        """Remove one state from a group."""
        group = self.groups[number]
        group.states -= 1
        if group.states:
            return
        # What still waits there is offered events of other types, and looks at none.
        del self.groups[number], self._numbers[group.types, group.column]
        self._free.append(number)
        if group.types is None:
            del self._open[number]
        for name in self.types if group.types is None else group.types:
            known = self.types[name]
            known.changed = True
            known.groups.pop(number, None)
