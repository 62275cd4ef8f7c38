"""What reaches a node's detectors: events checked against their types, and to whom they go."""

from __future__ import annotations

from collections.abc import Callable

from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute, Event

_NUMBER = (int, float, type(None))
_STRING = (str, type(None))
_BOOLEAN = (bool, type(None))
_CLASSES = {"number": _NUMBER, "string": _STRING, "boolean": _BOOLEAN}

Fits = Callable[[dict[str, Attribute]], bool]


def fitting(event_type: EventType) -> Fits:
    """A quick test whether attributes are those of a type; what is wrong with others `EventType.check` tells."""
    wanted = [(name, _CLASSES[kind]) for name, kind in event_type.attributes.items()]
    count = len(wanted)

    def fits(attributes: dict[str, Attribute]) -> bool:
        if len(attributes) != count:
            return False
        try:
            for name, classes in wanted:
                if attributes[name].__class__ not in classes:
                    return False
        except KeyError:
            return False
        return True

    return fits


def what_is_wrong(event: Event, event_type: EventType, topic: str) -> str:
    """Why an event is none of a type."""
    try:
        event_type.check(event, where=topic)
    except EventError as error:
        return str(error)
    return "attributes of other kinds"
