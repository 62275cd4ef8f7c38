"""Random events for histories, and what histories are compared by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from distced.middleware.history import History, events_of_history
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import DAY

ATTRIBUTES = st.dictionaries(
    st.sampled_from(("x", "type", "hi", "room")),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=3) | st.booleans(),
    max_size=3,
)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Events of three days, with all kinds of values and wide numbers."""
    made: list[Event] = []
    for seq in range(draw(st.integers(0, 8))):
        hi = draw(st.integers(-3 * DAY, 3 * DAY))
        name, attributes = draw(st.sampled_from(("A", "B", "Ärger"))), draw(ATTRIBUTES)
        lo, source = hi - draw(st.integers(0, DAY)), draw(st.sampled_from(("s", "t é")))
        if draw(st.booleans()):
            made.append(Event(name, lo, hi, source, seq, attributes))
        else:
            wide = seq + draw(st.sampled_from((0, 2**64, 2**95)))
            made.append(CompositeEvent(name, lo, hi, source, wide, attributes, constituents=(("s", 1), ("t", wide))))
    return made


def in_order(found: Iterable[Event]) -> list[Event]:
    """In the order of consumption."""
    return sorted(found, key=lambda event: event.key)


def without_nulls(found: Iterable[Event]) -> list[tuple[object, ...]]:
    """What there is of events where a missing attribute reads as null, with the kinds of numbers."""
    return [
        (
            each.type,
            each.key,
            getattr(each, "constituents", None),
            sorted((name, repr(value)) for name, value in each.attributes.items() if value is not None),
        )
        for each in found
    ]


def seen(root: Path) -> list[tuple[object, ...]]:
    """What a reader finds in a history that has no problems."""
    history = History(root)
    assert not history.problems
    return without_nulls(events_of_history(history))
