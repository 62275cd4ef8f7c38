"""What histories are compared by."""

from __future__ import annotations

from collections.abc import Iterable

from middleware.events import Event


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
