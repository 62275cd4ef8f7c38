"""Detection policies: the instant of an event's consumption.

composite-event-framework-2004, "Detection Policies"; design, section 3. Sources have different delays: *best effort*
consumes on arrival, *guaranteed* on stability. A policy is sans-I/O: arrivals and time in, events to consume out. Times
are ns since the Unix epoch; a watermark W promises no further event with `hi <= W`.
"""

from __future__ import annotations

from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.middleware.model.errors import DistcedError
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.guaranteed import Guaranteed


def detection_policy(name: str) -> DetectionPolicy:
    """A new policy by its name."""
    policies: dict[str, type[BestEffort] | type[Guaranteed]] = {each.name: each for each in (BestEffort, Guaranteed)}
    if name not in policies:
        raise DistcedError("unknown detection policy", given=name, allowed=", ".join(policies))
    return policies[name]()
