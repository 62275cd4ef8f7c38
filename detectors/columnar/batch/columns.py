"""Batches of events as columns, in order of consumption, from events or arrays (objects on demand)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar.batch.values import BOOLEAN, FLOAT, INTEGER, NULL, TEXT, Texts
from distced.detectors.stepwise.inner_events import PartEvent
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import Attribute, Event

Ints = NDArray[np.int64]

_NO_TEXTS: Final = Texts()


@dataclass(frozen=True, slots=True)
class Handed:
    """A value a side of a `&` hands on: of a register if `counted`, else `what` of a bound event, an attribute, `lo()`
    or `hi()`; None for whether one is bound."""

    name: str
    what: str | None = None
    counted: bool = False

    def of(self, event: Event) -> Attribute:
        """The value that an event hands on; null for none."""
        if not isinstance(event, PartEvent):
            return None
        if self.counted:
            return event.counted.get(self.name)
        bound = event.bound.get(self.name)
        if bound is None:
            return None
        return True if self.what is None else read_of(bound, self.what)


ColumnName: TypeAlias = str | tuple[str, ...] | Handed
"""Name of a column: an attribute, the values of a key as one number, or a value handed on by a part."""


def read_of(event: Event, what: str) -> Attribute:
    """The accessor of an attribute of an event, or of an end of its timestamp, by capture names."""
    if what in ("lo()", "hi()"):
        return event.lo if what == "lo()" else event.hi
    return event.attributes.get(what)


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute of a batch: kind of each value (uint8) or of all, 64 bits each, dictionary of texts or None."""

    tags: NDArray[np.uint8] | int
    payload: Ints
    texts: Sequence[str] | None = None

    @classmethod
    def of(cls, values: Any) -> Column:
        """A column of integers, floats (NaN as null), booleans, or any sequence of attribute values."""
        if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
            if values.dtype.kind == "b":
                return cls(BOOLEAN, values.astype(np.int64))
            if values.dtype.kind in "iu":
                if values.dtype == np.uint64 and len(values) and values.max() > np.uint64(2**63 - 1):
                    raise EventError("an integer beyond 64 bits", given=int(values.max()), allowed="up to 2^63 - 1")
                return cls(INTEGER, np.ascontiguousarray(values, dtype=np.int64))
            floats = np.ascontiguousarray(values, dtype=np.float64)
            missing = np.isnan(floats)
            tags = np.where(missing, NULL, FLOAT).astype(np.uint8) if missing.any() else FLOAT
            return cls(tags, floats.view(np.int64))
        kinds = set(map(type, values))
        found = cls._of_one_kind(values, kinds) if len(kinds - {NoneType}) == 1 else None
        if found is not None:
            return found
        texts = Texts()
        packed = [texts.packed(value) for value in values]
        tags = np.fromiter((tag for tag, _ in packed), np.uint8, len(packed))
        return cls(tags, np.fromiter((payload for _, payload in packed), np.int64, len(packed)), texts.texts)

    @classmethod
    def _of_one_kind(cls, values: Sequence[Attribute], kinds: set[type]) -> Column | None:
        """A column of values of one kind and null, the common case, in a tenth of the time."""
        (kind,) = kinds - {NoneType}
        tag = {int: INTEGER, float: FLOAT, str: TEXT, bool: BOOLEAN}.get(kind)
        if tag is None:
            return None
        tags: NDArray[np.uint8] | int = tag
        if NoneType in kinds:
            tags = np.array([NULL if value is None else tag for value in values], np.uint8)
            values = [kind() if value is None else value for value in values]
        if kind is str:
            texts = Texts()
            return cls(tags, np.array(texts.numbers(values), np.int64), texts.texts)  # type: ignore[arg-type]
        if kind is float:
            return cls(tags, np.array(values, np.float64).view(np.int64))
        try:
            return cls(tags, np.array(values, np.int64))
        except OverflowError as error:
            given = max(values, key=abs)  # type: ignore[arg-type]
            raise EventError("an integer beyond 64 bits", given=given, allowed="-2^63 to 2^63 - 1") from error

    @classmethod
    def coded(cls, codes: NDArray[Any], texts: Sequence[str]) -> Column:
        """Texts as numbers into a dictionary; a negative number is null."""
        payload = np.ascontiguousarray(codes, dtype=np.int64)
        missing = payload < 0
        return cls(np.where(missing, NULL, TEXT).astype(np.uint8) if missing.any() else TEXT, payload, texts)

    def value(self, place: int) -> Attribute:
        """The attribute value at a position."""
        tag = self.tags if isinstance(self.tags, int) else int(self.tags[place])
        payload = int(self.payload[place])
        return self.texts[payload] if tag == TEXT and self.texts is not None else _NO_TEXTS.unpacked(tag, payload)

    def select(self, places: Ints) -> Column:
        """The column at some positions."""
        tags = self.tags if isinstance(self.tags, int) else self.tags[places]
        return Column(tags, self.payload[places], self.texts)

    def values(self) -> list[Attribute]:
        """All attribute values."""
        return [self.value(place) for place in range(len(self.payload))]


class Batch(ABC):
    """Events in the order of consumption, as columns; `types` are numbers in `type_names`, `lo` and `hi` ns."""

    def __init__(self, types: NDArray[np.int32], type_names: Sequence[str], lo: Ints, hi: Ints) -> None:
        self.types = types
        self.type_names = type_names
        self.lo = lo
        self.hi = hi

    def __len__(self) -> int:
        return len(self.types)

    @property
    def pieces(self) -> Sequence[tuple[Batch, Ints | slice]]:
        """The batches merged into this one, each with the positions of its events."""
        return ((self, slice(None)),)

    @abstractmethod
    def column(self, name: str | Handed) -> Column | None:
        """The column of an attribute or handed-on value; None where no event has it."""

    @abstractmethod
    def event(self, place: int) -> Event:
        """The event at a position."""

    @abstractmethod
    def select(self, places: Ints) -> Batch:
        """The batch of some of the events; the others are released."""

    @classmethod
    def of_events(cls, events: Sequence[Event]) -> Batch:
        """A batch of events in the order of consumption."""
        return _OfEvents(events)

    @classmethod
    def of_arrays(
        cls,
        types: NDArray[Any],
        type_names: Sequence[str],
        hi: NDArray[Any],
        attributes: Mapping[str, Column | Any],
        *,
        lo: NDArray[Any] | None = None,
        source: str = "columns",
        first: int = 0,
        numbers: NDArray[Any] | None = None,
    ) -> Batch:
        """A batch of arrays of equal length; `EventError` for invalid events, unchecked in the loop. Sequence numbers
        are `numbers`, by default consecutive from `first`."""
        columns = {name: each if isinstance(each, Column) else Column.of(each) for name, each in attributes.items()}
        ends = np.ascontiguousarray(hi, dtype=np.int64)
        begins = ends if lo is None else np.ascontiguousarray(lo, dtype=np.int64)
        lengths = {"types": len(types), "lo": len(begins), "hi": len(ends)}
        lengths |= {name: len(each.payload) for name, each in columns.items()}
        lengths |= {} if numbers is None else {"numbers": len(numbers)}
        if len(set(lengths.values())) > 1:
            raise EventError("columns of different lengths", given=lengths, allowed="one length for all")
        kinds = np.ascontiguousarray(types, dtype=np.int32)
        if len(kinds):
            _check(types, type_names, begins, ends)
        return _OfArrays(kinds, type_names, begins, ends, columns, source, first, numbers)


def _check(types: NDArray[Any], type_names: Sequence[str], lo: Ints, hi: Ints) -> None:
    """Raise `EventError` for types without a name, invalid timestamps, and events out of order."""
    least, most = int(types.min()), int(types.max())
    if least < 0 or most >= len(type_names):
        wrong = least if least < 0 else most
        raise EventError("a type without a name", given=wrong, allowed=f"numbers from 0 to {len(type_names) - 1}")
    if len(set(type_names)) < len(type_names):
        twice = next(name for place, name in enumerate(type_names) if name in type_names[:place])
        raise EventError("a type with two numbers", given=twice, allowed="each name once")
    if lo is not hi and (lo > hi).any():
        row = int((lo > hi).argmax())
        raise EventError("a timestamp with lo > hi", given=f"[{lo[row]}, {hi[row]}]", where=f"row {row}")
    behind = hi[1:] < hi[:-1]
    if behind.any():
        row = int(behind.argmax()) + 1
        raise EventError(
            "an event behind the one before it",
            given=int(hi[row]),
            allowed=f"{hi[row - 1]} or later",
            where=f"row {row}",
            advice="sort the columns by hi first",
        )


class _OfEvents(Batch):
    def __init__(self, events: Sequence[Event]) -> None:
        names: dict[str, int] = {}
        types = np.array([names.setdefault(event.type, len(names)) for event in events], np.int32)
        lo = np.array([event.lo for event in events], np.int64)
        hi = np.array([event.hi for event in events], np.int64)
        super().__init__(types, list(names), lo, hi)
        self._events = events
        # Several loops may ask for the same.
        self._columns: dict[str, Column] = {}

    def column(self, name: str | Handed) -> Column:
        if isinstance(name, Handed):
            return Column.of([name.of(event) for event in self._events])
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = Column.of([event.attributes.get(name) for event in self._events])
        return known

    def event(self, place: int) -> Event:
        return self._events[place]

    def select(self, places: Ints) -> Batch:
        return _OfEvents([self._events[place] for place in places.tolist()])


class _OfArrays(Batch):
    def __init__(
        self,
        types: NDArray[np.int32],
        type_names: Sequence[str],
        lo: Ints,
        hi: Ints,
        columns: Mapping[str, Column],
        source: str,
        first: int,
        numbers: NDArray[Any] | None,
    ) -> None:
        super().__init__(types, type_names, lo, hi)
        self._attributes = columns
        self._source = source
        self._first = first
        self._numbers = numbers

    def column(self, name: str | Handed) -> Column | None:
        return None if isinstance(name, Handed) else self._attributes.get(name)

    def event(self, place: int) -> Event:
        attributes = {name: each.value(place) for name, each in self._attributes.items()}
        number = self._first + place if self._numbers is None else int(self._numbers[place])
        name = self.type_names[int(self.types[place])]
        return Event(name, int(self.lo[place]), int(self.hi[place]), self._source, number, attributes)

    def select(self, places: Ints) -> Batch:
        columns = {name: each.select(places) for name, each in self._attributes.items()}
        numbers = self._first + places if self._numbers is None else self._numbers[places]
        kept = (self.types[places], self.type_names, self.lo[places], self.hi[places])
        return _OfArrays(*kept, columns, self._source, 0, numbers)
