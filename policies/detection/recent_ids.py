"""Ids of the events received last: what tells a redelivered event from a new or a late one."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from distced.detectors.snapshot_format import pack_id
from distced.middleware.model.events import EventId

REMEMBERED: Final = 10_000
"""How many ids a detection policy remembers: a redelivery that comes later is taken for a late or a new event."""


class RecentIds:
    """The ids seen most recently, a bounded number of them, the oldest forgotten first.

    Attributes:
        limit: how many are remembered.
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self._ids: OrderedDict[EventId, None] = OrderedDict()

    def add(self, identity: EventId) -> bool:
        """Remember an id; False if it was remembered already."""
        if identity in self._ids:
            return False
        self._ids[identity] = None
        if len(self._ids) > self.limit:
            self._ids.popitem(last=False)
        return True

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self) -> list[Any]:
        """What is remembered, the oldest first, as plain values."""
        return [pack_id(identity) for identity in self._ids]
