"""Last value of a type, by key, beside the events that read it: `type Inside = last Temp by room`.

The value changes with the events of the state in the order of consumption, which is also the order in which those that
read it see it; so it does not depend on the engine. By best effort a late event does not replace the value of a later
one. A value stays until the next of its key: memory is one value for each, and counts against the limits of a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from distced.detectors.language.derived import Throttling
from distced.detectors.limits import UNLIMITED, Limits, too_many_instances
from distced.detectors.snapshot_format import pack_key, unpack_key
from distced.middleware.model.events import Attribute, Event, OrderKey
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.expressions import Expression
from distced.middleware.sets.state_reads import LAST

_Value: TypeAlias = Callable[[Event, Any, Any], Any]


class LastValue:
    """Stage that keeps the last value of a type, and puts it beside the events that read it; `passed` has for each key
    the place in consumption of the event whose value it is, and the value."""

    def __init__(self, throttling: Throttling) -> None:
        state = throttling.state
        assert state is not None
        self.throttling = throttling
        self.types = throttling.types
        self.passed: dict[object, tuple[OrderKey, Attribute]] = {}
        self._source = throttling.type_name
        self._readers = frozenset(state.readers)
        self._current = state.function != LAST
        self._condition = compile_condition(throttling.condition, Scope())
        self._value = compile_value(state.value, Scope())
        self._by = _key_of(state.by)
        self._at = _key_of(state.at)
        self._limits = UNLIMITED

    def limit(self, limits: Limits) -> None:
        """Set limits, of which that on instances is one on values."""
        self._limits = limits

    def value(self, event: Event) -> Attribute:
        """The last value for an event that reads it; null for another, without a key, and for one without a value."""
        if event.type == self._source:
            if self._current:
                self._keep(event)
                return self._read(event)
            found = self._read(event)
            self._keep(event)
            return found
        return self._read(event)

    def _read(self, event: Event) -> Attribute:
        if event.type not in self._readers:
            return None
        key = self._at(event)
        if key is None:
            return None
        kept = self.passed.get(key)
        return None if kept is None else kept[1]

    def _keep(self, event: Event) -> None:
        if self._condition is not True and (self._condition is False or not self._condition(event, (), ())):
            return
        key = self._by(event)
        if key is None:
            return
        kept, place = self.passed.get(key), event.key
        if kept is None:
            if len(self.passed) >= self._limits.instances:
                raise too_many_instances(self._limits, len(self.passed) + 1)
        elif place < kept[0]:
            return
        self.passed[key] = place, self._value(event, (), ())

    def packed(self) -> dict[object, Any]:
        """The state as values, for a snapshot."""
        return {key: [pack_key(place), value] for key, (place, value) in self.passed.items()}

    def unpack(self, passed: dict[object, Any]) -> None:
        """Continue from a state."""
        self.passed = {key: (unpack_key(place), value) for key, (place, value) in passed.items()}


def _key_of(expressions: Sequence[Expression]) -> Callable[[Event], object]:
    """A function for a key, booleans distinct from 1 and 0; None if a value is null."""
    values: list[_Value] = [compile_value(each, Scope()) for each in expressions]
    if not values:
        return lambda event: ()
    if len(values) == 1:
        (value,) = values

        def single(event: Event) -> object:
            found = value(event, (), ())
            return found if found.__class__ is not bool else (found,)

        return single

    def several(event: Event) -> object:
        found = [each(event, (), ()) for each in values]
        if None in found:
            return None
        return tuple((each,) if each.__class__ is bool else each for each in found)

    return several
