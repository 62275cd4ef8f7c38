"""Thread that reads recorded events for detectors with an origin in the past, so that no connection waits for a disk.

The files of a history are read as far as its recorders have come. Parts end between two instants, as a detector
consumes an instant as one. Where a recorder has come no further, its note alone is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distced.brokers.core.effects import ReadHistory
from distced.middleware.history.coverage import HistoryPart, covered
from distced.middleware.history.history import History, events_of_history, notes_of
from distced.middleware.history.history_file import Problem
from distced.middleware.history.layout import check_history
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.numbered_stream import Loss

AT_ONCE: Final = 2_000
"""Number of events of a part from which on it ends with its instant: some milliseconds of a node."""

UNUSED_FOR: Final = 60.0
"""Time for which the events of a detector are kept that asks for no more, s."""

MOST_NAMED: Final = 3
"""Number of unreadable files named in the reason of a loss."""

Read = Callable[[HistoryPart], None]
"""Takes a part of a history."""


@dataclass(slots=True)
class _Course:
    """Events of a detector that are yet to be handed over.

    Attributes:
        begin: least `hi` of all events, ns.
        behind: instant up to which events were handed over, ns.
        until: instant up to which there are events, ns.
        rest: these events.
        following: the first of them, taken already; None for none.
        losses: that are yet to be reported.
        unread: problems of files and rows that are yet to be reported.
        used_at: time of the last part, s.
    """

    begin: int
    behind: int
    until: int
    rest: Iterator[Event]
    following: Event | None
    losses: list[Loss]
    unread: list[Problem]
    used_at: float = 0.0


class HistoryThread:
    """Reader of the history at a folder."""

    def __init__(self, root: Path | str) -> None:
        """Raises `HistoryError` where there is no history."""
        self.root = Path(root)
        check_history(self.root)
        self._pool = ThreadPoolExecutor(1, "history")
        self._courses: dict[str, _Course] = {}

    def read(self, wanted: ReadHistory, then: Read) -> None:
        """Read a part, without waiting."""
        self._pool.submit(self._read, wanted, then)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, wanted: ReadHistory, then: Read) -> None:
        try:
            part = self._part(wanted)
        except DistcedError as error:
            self._courses.pop(wanted.detector, None)
            part = HistoryPart(problem=error)
        except Exception as error:
            # Of a library, or a file system: whatever it is, the node goes on.
            self._courses.pop(wanted.detector, None)
            part = HistoryPart(problem=HistoryError("cannot read the history", given=repr(error), where=str(self.root)))
        then(part)

    def _part(self, wanted: ReadHistory) -> HistoryPart:
        now = time.monotonic()
        # Of detectors that have gone.
        self._courses = {name: each for name, each in self._courses.items() if now - each.used_at < UNUSED_FOR}
        course = self._courses.pop(wanted.detector, None)
        if course is None or course.behind != wanted.behind:
            span = covered(notes_of(self.root).values(), wanted.types, wanted.since)
            if wanted.behind is None:
                # The subscription is answered before files are opened, of which there may be thousands.
                return HistoryPart((), span.begin, max(span.begin - 1, INSTANT_MIN), more=True)
            if span.until <= wanted.behind:
                return HistoryPart((), span.begin, wanted.behind)
            course = self._begun(wanted, span.begin, wanted.behind, span.until)
        events: list[Event] = []
        each = course.following
        while each is not None and (len(events) < AT_ONCE or each.hi == events[-1].hi):
            events.append(each)
            each = next(course.rest, None)
        course.following = each
        if course.unread:
            reason = "; ".join(str(each.error) for each in course.unread[:MOST_NAMED])
            course.losses.append(Loss(course.begin - 1, course.until, reason))
            course.unread.clear()
        losses = tuple(course.losses)
        course.losses.clear()
        if each is None:
            return HistoryPart(events, course.begin, max(course.until, course.begin - 1), False, losses)
        course.behind, course.used_at = events[-1].hi, now
        self._courses[wanted.detector] = course
        return HistoryPart(events, course.begin, course.behind, True, losses)

    def _begun(self, wanted: ReadHistory, begin: int, behind: int, until: int) -> _Course:
        """Events behind what was handed over, as far as recorders have come."""
        history = History(self.root)
        first = behind + 1
        gaps, noted = history.missing(wanted.types, first, until)
        losses = [Loss(*each, "the recorder received nothing") for each in gaps]
        losses += [Loss(*each) for each in noted]
        unread = list(history.problems)
        events = events_of_history(history, wanted.types, first, until, unread.append)
        return _Course(begin, behind, until, events, next(events, None), losses, unread)
