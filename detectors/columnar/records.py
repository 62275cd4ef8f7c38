"""The words of a program: records are placed where there is room, and refer to values, columns and instants by number.

cayuga-algebra-cesar, section 4.3, has an object for each state and each edge; here all is words, so that the loop is
the same for every pattern (design, section 4, Engines). Where a record stands nobody but those that refer to it knows;
what has been placed for whom is found again by taking records apart (`freeing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from distced.detectors.columnar.batch.columns import ColumnName
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.pools import Pool
from distced.detectors.columnar.program.free_list import Stretches
from distced.detectors.columnar.program.record_space import Freeing
from distced.detectors.columnar.state import longer
from distced.middleware.model.events import Attribute
from distced.middleware.patterns.tree import When


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


class Records:
    """Where records are placed, and what they refer to.

    Attributes:
        texts: the dictionary of texts.
        columns: what is read of events.
        memory: the words; another array when they have become too many for this one.
        room: which of them are taken.
        wides, constants: numbers of 64 bits, and constants of expressions.
        nothing: the number of the constant null.
        whens: when the time events are due that are not set off by a delay, by number.
        free_whens: the numbers that nothing refers to.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.columns = Columns()
        self.memory = np.zeros(1024, np.int32)
        # Address 0 stands for nothing, and for the empty list.
        self.room = Stretches(1)
        self.wides = Pool[int]()
        self.constants = Pool[tuple[int, int]](2)
        self.nothing = self.constant(None)
        self.whens: list[When] = []
        self.free_whens: list[int] = []

    def place(self, words: Sequence[int]) -> int:
        """The address of words that are placed."""
        address = self.room.take(len(words))
        self._put(address, words)
        return address

    def place_list(self, words: Sequence[int], length: int | None = None) -> int:
        """The address of a list: its length, and what is in it.

        Args:
            length: how many there are, where each has several words.
        """
        return self.place([len(words) if length is None else length, *words])

    def place_code(self, words: list[int], jumps: Sequence[int]) -> int:
        """The address of code.

        Args:
            jumps: the words that are addresses, counted from the begin of the code.
        """
        address = self.room.take(len(words))
        for jump in jumps:
            words[jump] += address
        self._put(address, words)
        return address

    def _put(self, address: int, words: Sequence[int]) -> None:
        end = address + len(words)
        while end > len(self.memory):
            self.memory = longer(self.memory, 2 * len(self.memory))
        self.memory[address:end] = words

    def wide(self, number: int) -> int:
        """A number of 64 bits, for one more that refers to it."""
        return self.wides.number(number)

    def constant(self, value: Attribute) -> int:
        """A constant, for one more that refers to it."""
        return self.constants.number(self.texts.packed(value))

    def when(self, when: When) -> int:
        """The number of the instant of a time event."""
        if not self.free_whens:
            self.whens.append(when)
            return len(self.whens) - 1
        number = self.free_whens.pop()
        self.whens[number] = when
        return number

    def freeing(self) -> Freeing:
        """What frees records; nothing may be placed before it has."""
        return Freeing(self.memory, self.room, self.wides, self.constants, self.free_whens)

    @property
    def words(self) -> int:
        """How many words are taken."""
        return self.room.end - sum(length for _, length in self.room.free())
