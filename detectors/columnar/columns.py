"""A batch of events as columns, in the order of consumption.

Built from events, or from arrays as they are (a recording, a frame of raw columns), when events are made into objects
only if somebody asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.columnar.values import BOOLEAN, FLOAT, INTEGER, NULL, TEXT, Texts, bits
from middleware.errors import EventError
from middleware.events import Event

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute of a batch of events.

    Attributes:
        tags: the kind of each value (uint8), or one for all.
        payload: 64 bits each.
        texts: the dictionary that the payload of texts counts in; None where it has none.
    """

    tags: NDArray[np.uint8] | int
    payload: Ints
    texts: Sequence[str] | None = None

    @classmethod
    def of(cls, values: Any) -> Column:
        """From an array of integers, floats (NaN as null) or booleans, or from any sequence of attribute values."""
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
        texts = Texts()
        packed = [texts.packed(value) for value in values]
        tags = np.fromiter((tag for tag, _ in packed), np.uint8, len(packed))
        return cls(tags, np.fromiter((payload for _, payload in packed), np.int64, len(packed)), texts.texts)

    @classmethod
    def coded(cls, codes: NDArray[Any], texts: Sequence[str]) -> Column:
        """Texts as numbers into a dictionary; a negative number is null."""
        payload = np.ascontiguousarray(codes, dtype=np.int64)
        missing = payload < 0
        return cls(np.where(missing, NULL, TEXT).astype(np.uint8) if missing.any() else TEXT, payload, texts)

    def values(self) -> list[Any]:
        """As attribute values."""
        kept = Texts()
        kept.texts = list(self.texts or ())
        tags = np.broadcast_to(np.asarray(self.tags, np.uint8), self.payload.shape)
        return [kept.unpacked(tag, payload) for tag, payload in zip(tags.tolist(), self.payload.tolist(), strict=True)]


class Batch:
    """Events in the order of consumption, as columns.

    Attributes:
        types: for each event the number of its type's name in `type_names`.
        lo, hi: timestamps, ns.
    """

    def __init__(
        self,
        types: NDArray[np.int32],
        type_names: Sequence[str],
        lo: Ints,
        hi: Ints,
        columns: Callable[[str], Column | None],
        event: Callable[[int], Event],
    ) -> None:
        self.types = types
        self.type_names = type_names
        self.lo = lo
        self.hi = hi
        self._columns = columns
        self._event = event

    def __len__(self) -> int:
        return len(self.types)

    def column(self, name: str) -> Column | None:
        """An attribute of all events; None where none has it."""
        return self._columns(name)

    def event(self, place: int) -> Event:
        """One of the events."""
        return self._event(place)

    @classmethod
    def of_events(cls, events: Sequence[Event]) -> Batch:
        """From events in the order of consumption."""
        names: dict[str, int] = {}
        types = np.array([names.setdefault(event.type, len(names)) for event in events], np.int32)
        lo = np.array([event.lo for event in events], np.int64)
        hi = np.array([event.hi for event in events], np.int64)

        def column(name: str) -> Column:
            return Column.of([event.attributes.get(name) for event in events])

        return cls(types, list(names), lo, hi, column, events.__getitem__)

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
    ) -> Batch:
        """From arrays of one length; the sequence number of the first event is `first`."""
        columns = {name: each if isinstance(each, Column) else Column.of(each) for name, each in attributes.items()}
        ends = np.ascontiguousarray(hi, dtype=np.int64)
        begins = ends if lo is None else np.ascontiguousarray(lo, dtype=np.int64)
        lengths = {"types": len(types), "lo": len(begins), "hi": len(ends)}
        lengths |= {name: len(each.payload) for name, each in columns.items()}
        if len(set(lengths.values())) > 1:
            raise EventError("columns of different lengths", given=lengths, allowed="one length for all")

        def event(place: int) -> Event:
            attributes = {}
            for name, each in columns.items():
                tag = each.tags if isinstance(each.tags, int) else int(each.tags[place])
                value = Texts().unpacked(tag, int(each.payload[place])) if tag != TEXT else None
                attributes[name] = each.texts[int(each.payload[place])] if tag == TEXT and each.texts else value
            name = type_names[int(types[place])]
            return Event(name, int(begins[place]), int(ends[place]), source, first + place, attributes)

        return cls(np.ascontiguousarray(types, dtype=np.int32), type_names, begins, ends, columns.get, event)


def packed_floats(values: Sequence[float]) -> Ints:
    """Floats as 64 bits each."""
    return np.array([bits(value) for value in values], np.int64)
