"""Numbers and names in messages, with bounds: what a message brings fits into 64 bits, the sum of two, too, and
into topics.

Python and JSON have integers of any size, msgpack and the engines have none beyond 64 bits: one that came in unbounded
would fail in the next checkpoint or move of a detector, far from the message that has brought it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

COUNT_MAX: Final = INSTANT_MAX
"""Largest number, size or duration in a message."""

Instant: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
"""Instant, ns."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
"""Number of things, number of a message, size in bytes, or duration in ns."""


def following(number: int) -> int:
    """The next number, where there is one."""
    return min(number + 1, COUNT_MAX)


LEVEL_MAX: Final = 5_000
"""Characters of a name at most: two of them, encoded, are levels of one topic."""

Level: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LEVEL_MAX)]
"""Name that is a level of topics."""

Name: TypeAlias = Annotated[str, Meta(max_length=LEVEL_MAX)]
"""The same where it may be left out."""
