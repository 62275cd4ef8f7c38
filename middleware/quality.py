"""Quality of service of a subscription (design, section 3)."""

from __future__ import annotations

from typing import Literal

import msgspec


class QualityOfService(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of service a subscription wants.

    Attributes:
        detection: `guaranteed` consumes events when they are stable, and is right; `best-effort` consumes them as they
            arrive, is fast, and may be wrong where events come late.
        consumption: `ordered`, one event after the other, or `epoch`, all events of an instant together.
        matches: `every` composite event, or the `first` only; the subscription then ends.
        constituents: whether the events a composite event is made of are sent along.
        rate: at most this many composite events a second; what exceeds it is counted and left out. None for no limit.
        queue: how many events wait at most for the application.
        patience: how many seconds the connection waits for an application that is slow, before events are left out.
    """

    detection: Literal["guaranteed", "best-effort"] = "guaranteed"
    consumption: Literal["ordered", "epoch"] = "ordered"
    matches: Literal["every", "first"] = "every"
    constituents: bool = False
    rate: float | None = None
    queue: int = 10_000
    patience: float = 5.0
