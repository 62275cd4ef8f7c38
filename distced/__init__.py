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
    from distced.middleware.client.aio import AsyncClient, AsyncSource, AsyncSubscription
    from distced.middleware.client.client import Client, Source
    from distced.middleware.client.quality import QualityOfService
    from distced.middleware.client.subscription import Subscription
    from distced.middleware.model.errors import (
        DistcedError,
        EventError,
        PatternError,
        SubscriptionError,
        SubscriptionsError,
        TypeRegistryError,
    )
    from distced.middleware.model.event_types import EventType, derive, event_type
    from distced.middleware.model.events import CompositeEvent, Event
    from distced.middleware.model.timestamps import Timestamp
    from distced.middleware.patterns import event, pattern_file
    from distced.middleware.wire.outbox import Outbox

_HOMES = {
    "AsyncClient": "middleware.client.aio",
    "AsyncSource": "middleware.client.aio",
    "AsyncSubscription": "middleware.client.aio",
    "Client": "middleware.client.client",
    "CompositeEvent": "middleware.model.events",
    "DistcedError": "middleware.model.errors",
    "Event": "middleware.model.events",
    "EventError": "middleware.model.errors",
    "EventType": "middleware.model.event_types",
    "Outbox": "middleware.wire.outbox",
    "PatternError": "middleware.model.errors",
    "QualityOfService": "middleware.client.quality",
    "Source": "middleware.client.client",
    "Subscription": "middleware.client.subscription",
    "SubscriptionError": "middleware.model.errors",
    "SubscriptionsError": "middleware.model.errors",
    "Timestamp": "middleware.model.timestamps",
    "TypeRegistryError": "middleware.model.errors",
    "derive": "middleware.model.event_types",
    "event": "middleware.patterns",
    "event_type": "middleware.model.event_types",
    "pattern_file": "middleware.patterns",
}

__all__ = [
    "AsyncClient",
    "AsyncSource",
    "AsyncSubscription",
    "Client",
    "CompositeEvent",
    "DistcedError",
    "Event",
    "EventError",
    "EventType",
    "Outbox",
    "PatternError",
    "QualityOfService",
    "Source",
    "Subscription",
    "SubscriptionError",
    "SubscriptionsError",
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
