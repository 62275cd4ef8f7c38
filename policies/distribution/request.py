"""What policies are asked: for a detector of a pattern, for somebody who wants to hear of it."""

from __future__ import annotations

from dataclasses import dataclass

from distced.detectors.cutting.graph import DetectorGraph
from distced.middleware.wire.directory_entries import NO_HINTS, Hints
from distced.policies.topology.model import Place


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        id: the id of the detector: of the canonical form, of what it hands on, and of the detection policy.
        graphs: the ways to detect the pattern, cut at the top only, at least one; see `ways`. The detector that is
            asked for is the root of each.
        subscribers: where those are who want to hear of it: `Situation.place_of` the client, at least one.
        hints: what the application knows.
        detection: the detection policy.
        derivations: whether it is read as part of a pattern.
        constituents: whether the events a composite event is made of are sent along.
    """

    id: str
    graphs: tuple[DetectorGraph, ...]
    subscribers: tuple[Place, ...]
    hints: Hints = NO_HINTS
    detection: str = "guaranteed"
    derivations: bool = False
    constituents: bool = False
