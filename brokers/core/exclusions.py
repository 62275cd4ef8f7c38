"""Errors of excluded detectors, by their entries in the directory (`brokers.node.exclusion`)."""

from __future__ import annotations

from typing import Final

from distced.middleware.model.errors import LimitError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import ExclusionEntry

EXCLUDED_FOR: Final = 3600 * SECOND
"""Time for which no node hosts an excluded detector, ns; its applications have been notified long before."""


LOST_WITHIN: Final = 600 * SECOND
"""Time within which a detector that is lost with several nodes is excluded, ns."""


def until(entry: ExclusionEntry) -> int:
    """Instant at which an entry is cleared, ns."""
    return entry.at + (EXCLUDED_FOR if entry.reason else LOST_WITHIN)


def is_excluded(entry: ExclusionEntry | None, now: int) -> bool:
    """Whether no node is to host a detector with this entry, None for none."""
    return entry is not None and bool(entry.reason) and now - entry.at < EXCLUDED_FOR


def error_of(entry: ExclusionEntry) -> LimitError:
    """Error of a subscription to an excluded detector."""
    parts = entry.error
    return LimitError(
        parts.get("problem", entry.reason),
        given=parts.get("given"),
        allowed=parts.get("allowed"),
        where=parts.get("where"),
        advice=parts.get("advice"),
    )


def of_part(entry: ExclusionEntry) -> LimitError:
    """Error of a detector that reads an excluded one as a part of its pattern."""
    parts = entry.error
    return LimitError(
        "a part of the pattern is excluded", given=parts.get("problem", entry.reason), advice=parts.get("advice")
    )
