"""Detection policies: the instant of an event's consumption.

composite-event-framework-2004, "Detection Policies"; design, section 3. Sources have different delays: *best effort*
consumes on arrival, *guaranteed* on stability. A policy is sans-I/O: arrivals and time in, events to consume out. Times
are ns since the Unix epoch; a watermark W promises no further event with `hi <= W`.
"""

from __future__ import annotations

from typing import Final

from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.middleware.model.errors import DistcedError
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.guaranteed import Guaranteed

_POLICIES: Final[dict[str, type[BestEffort] | type[Guaranteed]]] = {
    each.name: each for each in (BestEffort, Guaranteed)
}


def check_detection_policy(name: str) -> str:
    """A name of a policy. Raises `DistcedError` for another one."""
    if name not in _POLICIES:
        raise DistcedError("unknown detection policy", given=name, allowed=", ".join(_POLICIES))
    # One object for all that name it.
    return _POLICIES[name].name


def detection_policy(name: str) -> DetectionPolicy:
    """A new policy by its name."""
    return _POLICIES[check_detection_policy(name)]()
