"""Value of a key group, beside the events that read it: `all(not Here.inside, room)`, `count(Here, room)`.

Beside the last value of each key stands, for each key group, how many of them are not null and how many are true. A new
value takes back the one before, so an event costs the same however many keys there are. These numbers follow from the
values: only the values are in a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping

from distced.detectors.language.derived import Throttling
from distced.detectors.stepwise.last_value import LastValue
from distced.middleware.model.events import Attribute, Event, OrderKey
from distced.middleware.sets.state_reads import ALL


class _Numbers:
    """Numbers of the last values of a key group, of those that are not null, and of those that are true."""

    __slots__ = ("known", "true", "values")

    def __init__(self) -> None:
        self.values = self.known = self.true = 0

    def add(self, value: Attribute, number: int) -> None:
        """Count a value, or with -1 take it back."""
        self.values += number
        if value is not None:
            self.known += number
        if value is True:
            self.true += number


class GroupValue(LastValue):
    """Stage that puts the value of a key group beside the events that read it; an event of the state counts itself."""

    def __init__(self, throttling: Throttling) -> None:
        state = throttling.state
        assert state is not None
        self._all = state.function == ALL
        self._single = len(state.by) == 1
        self._length = len(state.at)
        self._groups: dict[object, _Numbers] = {}
        self._passed: dict[object, tuple[OrderKey, Attribute]] = {}
        super().__init__(throttling)

    @property
    def passed(self) -> dict[object, tuple[OrderKey, Attribute]]:
        """The last value of each key, with the place of its event."""
        return self._passed

    @passed.setter
    def passed(self, passed: Mapping[object, tuple[OrderKey, Attribute]]) -> None:
        self._passed = dict(passed)
        self._groups = {}
        for key, (_, value) in self._passed.items():
            self._of(key).add(value, 1)

    def _keep(self, event: Event) -> None:
        key = self._by(event)
        before = None if key is None else self._passed.get(key)
        super()._keep(event)
        after = None if key is None else self._passed.get(key)
        if after is before or after is None:
            return
        numbers = self._of(key)
        if before is not None:
            numbers.add(before[1], -1)
        numbers.add(after[1], 1)

    def _read(self, event: Event) -> Attribute:
        if event.type not in self._readers:
            return None
        group = self._at(event)
        if group is None:
            return None
        numbers = self._groups.get(group)
        if self._all:
            return numbers is None or numbers.true == numbers.values
        return 0 if numbers is None else numbers.known

    def _of(self, key: object) -> _Numbers:
        """The numbers of the key group of a key, which has the values that the key begins with."""
        group: object = ()
        if self._length and not self._single:
            assert isinstance(key, tuple)
            group = key[0] if self._length == 1 else key[: self._length]
        numbers = self._groups.get(group)
        if numbers is None:
            numbers = self._groups[group] = _Numbers()
        return numbers
