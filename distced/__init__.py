"""distced, composite-event middleware: the names that applications import.

A name is imported from its module on first use, so that a process that needs one part (an engine in a worker process)
does not load the others. Everything else is in `distced.middleware`, `distced.detectors`, `distced.policies`,
`distced.brokers` and `distced.simulations`, relative symbolic links to the folders at the top of the repository:
setuptools, editable installs, editors and mypy follow them, where a mapping of package directories needs an import hook
that editors and mypy do not know.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distced.middleware.aio import AsyncClient, AsyncSubscription
    from distced.middleware.client import Client
    from distced.middleware.errors import DistcedError, EventError, PatternError, SubscriptionError, TypeRegistryError
    from distced.middleware.events import CompositeEvent, Event
    from distced.middleware.eventtypes import EventType, derive, event_type
    from distced.middleware.patterns import event, pattern_file
    from distced.middleware.quality import QualityOfService
    from distced.middleware.source import Source
    from distced.middleware.subscription import Subscription
    from distced.middleware.timestamps import Timestamp

_HOMES = {
    "AsyncClient": "middleware.aio",
    "AsyncSubscription": "middleware.aio",
    "Client": "middleware.client",
    "CompositeEvent": "middleware.events",
    "DistcedError": "middleware.errors",
    "Event": "middleware.events",
    "EventError": "middleware.errors",
    "EventType": "middleware.eventtypes",
    "PatternError": "middleware.errors",
    "QualityOfService": "middleware.quality",
    "Source": "middleware.source",
    "Subscription": "middleware.subscription",
    "SubscriptionError": "middleware.errors",
    "Timestamp": "middleware.timestamps",
    "TypeRegistryError": "middleware.errors",
    "derive": "middleware.eventtypes",
    "event": "middleware.patterns",
    "event_type": "middleware.eventtypes",
    "pattern_file": "middleware.patterns",
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
