"""Span of time that recorders cover, by event type, from their notes; and a part of it to be consumed.

A recorder's span goes from its begin to its watermark: every event of its types in between is in the history. Spans of
several recorders that overlap are one; of several that do not, the last one counts, as what lies between is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MIN, format_instant
from distced.middleware.wire.numbered_stream import Loss


@dataclass(frozen=True, slots=True)
class Span:
    """Covered span, both instants included, ns: no further event in it will be recorded."""

    begin: int
    until: int


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Recorded events for a detector, in the order of consumption.

    Attributes:
        begin: least `hi` of the first part, ns.
        reached: instant up to which everything recorded is in the parts so far, ns.
        more: whether there is more to be read at once.
        losses: intervals in which events may be missing.
        problem: why it cannot be read; None where it can.
    """

    events: Sequence[Event] = ()
    begin: int = 0
    reached: int = 0
    more: bool = False
    losses: tuple[Loss, ...] = ()
    problem: DistcedError | None = None


def spans(notes: Iterable[RecorderNote]) -> dict[str, Span]:
    """Last covered span of each recorded type."""
    found: dict[str, list[Span]] = {}
    for each in notes:
        begin = INSTANT_MIN if each.since is None else each.since
        # One that has received nothing yet covers nothing since its begin.
        until = begin - 1 if each.watermark is None else each.watermark
        for name in each.types if each.watermark is not None or each.since is not None else ():
            found.setdefault(name, []).append(Span(begin, max(until, begin - 1)))
    return {name: _last(each) for name, each in sorted(found.items())}


def _last(spans: list[Span]) -> Span:
    ordered = sorted(spans, key=lambda each: (each.begin, each.until))
    last = ordered[0]
    for each in ordered[1:]:
        overlaps = each.begin - 1 <= last.until
        last = Span(last.begin if overlaps else each.begin, max(last.until, each.until))
    return last


def covered(notes: Iterable[RecorderNote], types: Iterable[str], since: int | None) -> Span:
    """Span that is covered for all of these types from an instant on, None for the begin of the recording, ns.

    Raises `HistoryError` where a type is not recorded, or the recording begins later.
    """
    known = spans(notes)
    recorded = ", ".join(f"{name} since {format_instant(each.begin)}" for name, each in known.items())
    wanted = sorted(types)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise HistoryError(
            "types that no recorder has recorded", given=", ".join(missing), allowed=recorded or "nothing is recorded",
            advice="record them: distced record --types " + ",".join(missing),
        )  # fmt: skip
    begin = max((known[name].begin for name in wanted), default=0)
    if since is not None and since < begin:
        raise HistoryError(
            "the recording begins later", given=format_instant(since), allowed=f"from {format_instant(begin)} on",
            where=recorded, advice="take a later origin, or `beginning`",
        )  # fmt: skip
    return Span(begin if since is None else since, min((known[name].until for name in wanted), default=begin))
