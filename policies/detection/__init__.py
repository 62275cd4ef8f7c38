"""Detection policies: the instant of an event's consumption.

composite-event-framework-2004, "Detection Policies"; design, section 3. Sources have different delays: *best effort*
consumes on arrival, *guaranteed* on stability, *bounded* after a delay, *probabilistic* on stability with some
probability. A policy is sans-I/O: arrivals and time in, events to consume out. Times are ns since the Unix epoch; a
watermark W promises no further event with `hi <= W`.
"""

from __future__ import annotations

from sys import intern

from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.middleware.model.detection import BEST_EFFORT, BOUNDED, PROBABILISTIC, parse_detection
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.bounded import Bounded
from distced.policies.detection.guaranteed import Guaranteed
from distced.policies.detection.probabilistic import Probabilistic


def check_detection_policy(name: str) -> str:
    """A name of a policy in its shortest form. Raises `DistcedError` for anything else."""
    # One object for all that name it.
    return intern(parse_detection(name).text)


def detection_policy(name: str) -> DetectionPolicy:
    """A new policy by its name."""
    parsed = parse_detection(name)
    if parsed.kind == BEST_EFFORT:
        return BestEffort()
    if parsed.kind == BOUNDED:
        return Bounded(parsed.text, parsed.bound)
    if parsed.kind == PROBABILISTIC:
        return Probabilistic(parsed.text, parsed.probability)
    return Guaranteed()
