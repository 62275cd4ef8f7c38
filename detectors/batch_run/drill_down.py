"""Drill-down of a composite event: its constituents, theirs, and so on down to primitive events.

After cedmos-1999, section 3.2.5: the event history "provides a means to drill down [...] a high-level event to the
low-level components from which it was derived". A composite event has the ids of its constituents, which are looked up
among the events of recordings. An event that is a constituent of several is expanded once: the size is that of the
events and not of the paths to them, and ids in a circle, of a file written by hand, end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, Event, EventId

_LOOKS: Final = 'c61b125ebc4b0c85b.2a0f314c, SOURCE:NUMBER, or as JSON: ["SOURCE", NUMBER]'
_SHOWN: Final = 8  # ids that begin alike
_HEX: Final = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class DrillStep:
    """Line of a drill-down, in the order of a tree.

    Attributes:
        depth: 0 for the root.
        id, event: None for the event where it is not recorded.
        is_last: whether it is the last constituent of its composite event.
        is_again: whether it was expanded before.
    """

    depth: int
    id: EventId
    event: Event | None
    is_last: bool
    is_again: bool


@dataclass(frozen=True)
class DrillDown:
    """Composite event with all that it is made of.

    Attributes:
        root: its id.
        events: all that are recorded, by id.
        missing: ids of those that are not.
    """

    root: EventId
    events: dict[EventId, Event]
    missing: tuple[EventId, ...]

    def steps(self) -> Iterator[DrillStep]:
        """The tree, depth first, constituents in the order of consumption."""
        expanded: set[EventId] = set()
        pending = [(0, self.root, True)]
        while pending:
            depth, each, is_last = pending.pop()
            event = self.events.get(each)
            is_again = each in expanded
            yield DrillStep(depth, each, event, is_last, is_again)
            if isinstance(event, CompositeEvent) and not is_again:
                expanded.add(each)
                parts = [(depth + 1, part, False) for part in event.constituents]
                if parts:
                    parts[-1] = (*parts[-1][:2], True)
                pending += reversed(parts)


def drill_down(root: EventId, events: Mapping[EventId, Event]) -> DrillDown:
    """Drill-down of an event among those of recordings."""
    found = {root: events[root]}
    missing: dict[EventId, None] = {}
    pending = [root]
    while pending:
        event = found[pending.pop()]
        for part in event.constituents if isinstance(event, CompositeEvent) else ():
            if part in found:
                continue
            if part in events:
                found[part] = events[part]
                pending.append(part)
            else:
                missing[part] = None
    return DrillDown(root, found, tuple(missing))


def id_text(id: EventId) -> str:  # noqa: A002
    """Id as text: of a composite event as in JSON on a topic, its number in hexadecimal digits behind a point."""
    source, seq = id
    return f"{source}.{seq:x}" if seq >= 2**63 else f"{source}:{seq}"


class IdText:
    """Id as it is given: in full, or its beginning."""

    def __init__(self, given: str) -> None:
        self.given = given
        self._text = text = given.strip()
        self._exact: set[EventId] = set()
        with suppress(ValueError, RecursionError):
            pair = json.loads(text)
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int:
                self._exact.add((pair[0], pair[1]))
        source, _, number = text.rpartition(":")
        if source and number.isascii() and number.isdecimal() and len(number) < 40:
            self._exact.add((source, int(number)))
        source, _, digits = text.rpartition(".")
        if source and len(digits) < 40 and _HEX.fullmatch(digits):
            self._exact.add((source, int(digits, 16)))

    def fits(self, id: EventId) -> bool:  # noqa: A002
        """Whether it is this id, or its beginning."""
        return id in self._exact or (bool(self._text) and id_text(id).startswith(self._text))

    def choose(self, fitting: Iterable[Event]) -> list[Event]:
        """Events that it means of those that fit: one in full, else all whose ids begin so, at most `_SHOWN` + 1."""
        exact: dict[EventId, Event] = {}
        begun: dict[EventId, Event] = {}
        for each in fitting:
            kept = exact if each.id in self._exact else begun
            if len(kept) <= _SHOWN:
                kept.setdefault(each.id, each)
        return list((exact or begun).values())


def the_one(given: IdText, fitting: Iterable[Event], searched: Callable[[], str]) -> Event:
    """The one event that a text means, of those whose ids fit; `searched` names what was.

    Raises:
        EventError: where there is none, or several.
    """
    found = given.choose(fitting)
    if len(found) == 1:
        return found[0]
    if not found:
        raise EventError(
            "no event of this id", given=given.given or "''", allowed=f"ids look like {_LOOKS}", where=searched(),
            advice="distced drill without an id lists the composite events",
        )  # fmt: skip
    names = ", ".join(id_text(each.id) for each in sorted(found, key=lambda each: each.id)[:_SHOWN])
    raise EventError(
        "the ids of several events begin so", given=given.given, allowed=names + " and more" * (len(found) > _SHOWN),
        where=searched(), advice="give more of the id",
    )  # fmt: skip
