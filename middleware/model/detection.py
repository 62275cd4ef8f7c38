"""Detection policies by name: which, and with which parameter (design, section 3).

A name is written `guaranteed`, `best-effort`, `bounded(2s)` or `probabilistic(0.99)`. What each does is a matter of
broker nodes (`policies.detection`); names are read here, as clients check them, too.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import format_duration, parse_duration

GUARANTEED: Final = "guaranteed"
BEST_EFFORT: Final = "best-effort"
BOUNDED: Final = "bounded"
PROBABILISTIC: Final = "probabilistic"

ALLOWED: Final = "guaranteed, best-effort, bounded(T) such as bounded(2s), probabilistic(p) such as probabilistic(0.99)"

_NAME: Final = re.compile(r"\s*([a-z-]+)\s*(?:\(\s*([^()]*?)\s*\)\s*)?")


class DetectionName(Struct, frozen=True):
    """A detection policy as written.

    Attributes:
        kind: without the parameter.
        bound: of a bounded one, ns; otherwise 0.
        probability: of a probabilistic one; otherwise 1.
        text: in its shortest form.
    """

    kind: str
    text: str
    bound: int = 0
    probability: float = 1.0


def parse_detection(text: str) -> DetectionName:
    """Read the name of a detection policy. Raises `DistcedError` for anything else."""
    match = _NAME.fullmatch(text) if isinstance(text, str) else None
    kind, parameter = match.groups() if match is not None else ("", None)
    if kind in (GUARANTEED, BEST_EFFORT) and parameter is None:
        return DetectionName(kind, kind)
    if kind == BOUNDED and parameter:
        bound = parse_duration(parameter)
        if bound > 0:
            return DetectionName(kind, f"{kind}({format_duration(bound)})", bound=bound)
        raise DistcedError(
            "not a bound on the disorder of events", given=text, allowed="more than 0, as in bounded(2s)"
        )
    if kind == PROBABILISTIC and parameter:
        probability = _probability(parameter)
        if probability is not None:
            return DetectionName(kind, f"{kind}({probability!r})", probability=probability)
        raise DistcedError("not a probability", given=text, allowed="between 0 and 1, as in probabilistic(0.99)")
    raise DistcedError("unknown detection policy", given=text, allowed=ALLOWED)


def may_read(reader: str, detector: str) -> bool:
    """Whether detectors of one policy may read the composite events of another: guaranteed ones what is exact, those
    that wait for watermarks what has any, the others everything."""
    if reader == GUARANTEED:
        return detector == GUARANTEED
    return reader == BEST_EFFORT or detector != BEST_EFFORT


def _probability(text: str) -> float | None:
    try:
        probability = float(text)
    except ValueError:
        return None
    return probability if 0 < probability < 1 else None
