"""Detection policies: when an event may be consumed.

composite-event-framework-2004, "Detection Policies"; design, section 3. Sources have different delays: *best effort*
consumes events on arrival, *guaranteed* once they are stable.

A policy is sans-I/O: it takes arrivals and the time, and returns events to consume. Times are nanoseconds since the
Unix epoch; a watermark W promises that no event with `hi <= W` will come.
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
