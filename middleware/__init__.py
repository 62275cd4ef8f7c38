"""What an application imports, and the ground floor of distced: events, time, describable sets, the bus, the client.

The names below are the public face; the modules they come from are imported when a name is first asked for, so that
whoever needs the ground floor alone (an engine in a worker process) does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from middleware.aio import AsyncClient, AsyncSubscription
    from middleware.client import Client
    from middleware.errors import DistcedError, EventError, PatternError, SubscriptionError, TypeRegistryError
    from middleware.events import CompositeEvent, Event
    from middleware.eventtypes import EventType, derive, event_type
    from middleware.patterns import event, pattern_file
    from middleware.quality import QualityOfService
    from middleware.source import Source
    from middleware.subscription import Subscription
    from middleware.timestamps import Timestamp

_HOMES = {
    "AsyncClient": "aio",
    "AsyncSubscription": "aio",
    "Client": "client",
    "CompositeEvent": "events",
    "DistcedError": "errors",
    "Event": "events",
    "EventError": "errors",
    "EventType": "eventtypes",
    "PatternError": "errors",
    "QualityOfService": "quality",
    "Source": "source",
    "Subscription": "subscription",
    "SubscriptionError": "errors",
    "Timestamp": "timestamps",
    "TypeRegistryError": "errors",
    "derive": "eventtypes",
    "event": "patterns",
    "event_type": "eventtypes",
    "pattern_file": "patterns",
}

__all__ = [
    "AsyncClient",
    "AsyncSubscription",
    "Client",
    "CompositeEvent",
    "DistcedError",
    "Event",
    "EventError",
    "EventType",
    "PatternError",
    "QualityOfService",
    "Source",
    "Subscription",
    "SubscriptionError",
    "Timestamp",
    "TypeRegistryError",
    "derive",
    "event",
    "event_type",
    "pattern_file",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
