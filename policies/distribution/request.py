"""Request to a policy: a detector of a pattern, for its subscribers."""

from __future__ import annotations

from dataclasses import dataclass

from distced.detectors.cutting.graph import DetectorGraph
from distced.middleware.wire.directory_entries import NO_HINTS, Hints
from distced.policies.topology.model import Place


@dataclass(frozen=True, slots=True)
class Request:
    """A detector that is asked for.

    Attributes:
        id: of the detector: canonical form, exports and detection policy.
        graphs: alternatives to detect the pattern, cut at the top only, at least one; the detector is the root of each.
        subscribers: their places, `Situation.place_of` the client, at least one.
        hints: of the application.
        detection: the detection policy.
        records: whether it is read as part of a pattern.
        constituents: whether the constituents are sent along.
    """

    id: str
    graphs: tuple[DetectorGraph, ...]
    subscribers: tuple[Place, ...]
    hints: Hints = NO_HINTS
    detection: str = "guaranteed"
    records: bool = False
    constituents: bool = False
