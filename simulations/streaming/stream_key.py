"""Key by which the events of a stream are partitioned, and the time until a key is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from distced.detectors.compiler import Compiled
from distced.middleware.model.errors import DistcedError
from distced.simulations.replay.pattern_properties import key_of_group, may_lack_constituents
from distced.simulations.replay.reach import reach_of


def stream_key(patterns: Sequence[Compiled], by: Sequence[str] | None = None) -> tuple[str, ...]:
    """The attributes of the key, or those of them in `by`; none where one task detects everything.

    Raises:
        DistcedError: where the patterns cannot be detected by one of `by`.
    """
    key, hindrance = key_of_group(patterns)
    if any(may_lack_constituents(each.plain) for each in patterns):
        # Ids come from constituents: without any, the composite events of two values of a key are one.
        key, hindrance = (), "a match may have nothing but hidden events and time events"
    if by is None:
        return key
    strange = [name for name in by if name not in key]
    if strange:
        raise DistcedError(
            "patterns that cannot be detected by this key", given=", ".join(strange),
            allowed=", ".join(key) or f"none: {hindrance}", advice="leave by out",
        )  # fmt: skip
    return tuple(by)


def stream_reach(patterns: Sequence[Compiled]) -> int | None:
    """Greatest time an event counts for later ones, ns, after which a key can be forgotten; None for ever."""
    # Ids without constituents repeat, and the first of them counts.
    return None if any(may_lack_constituents(each.plain) for each in patterns) else reach_of(patterns)
