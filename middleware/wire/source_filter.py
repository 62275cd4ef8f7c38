"""Source filter: events that nobody reads are not sent (composite-event-framework-2004, Fig. 4; CEDR, section 4).

The filter of a publisher is the union of what all readers have declared (`middleware.wire.declared_reads`). An event
outside it is neither numbered nor sent, and so is no gap of the numbered stream; watermarks go on. The filter is for
events of primitive types alone, and by choice of the publisher (`Client(filters=True)`, `distced bridge --filter`).

**Off unless chosen.** Anything may subscribe to a topic of events without the directory: a dashboard, a script. Filters
would keep events from it, without a word. So they are for deployments whose readers are all distced's, and a
participant of the directory without a declaration, as one of an older version, reads everything; so does one with an
entry that cannot be read.

**It widens at once and narrows late.** A filter is *open*, and holds nothing back: without a connection to the server
of the directory; until the directory was read; without any node; as long as a node or recorder there has not declared
itself, or a client does not say that it declares what it reads; and for `NARROW_AFTER` behind the last of these. A
reader that disappears from the directory counts for `GONE_FOR`: its detectors are taken over, it is back, or the server
has forgotten it; so does an earlier life of one. A narrower filter follows only the entry of the reader's same life.

**What was left out is known.** The filter remembers between which instants it has left out events, and what it held
meanwhile (`Epoch`). Each declaration is acknowledged with the interval of those that it may have wanted, and with the
version in force before: a reader that was served all the time has lost nothing, one that comes back too late has a
loss, and not a silent difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MIN, MINUTE, SECOND
from distced.middleware.sets.wanted import NOTHING, Conjunction, Test, WantedSets, covers, read_sets, union
from distced.middleware.wire.administration import Filtered
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import ReaderEntry

NARROW_AFTER: Final = 5 * SECOND
"""Time for which everything that keeps a filter open has to be over before it narrows, ns."""

GONE_FOR: Final = 10 * MINUTE
"""Time for which a reader counts that has disappeared from the directory, ns."""

EPOCHS: Final = 32
"""Number of epochs that are told apart; older ones count as having held nothing."""

CONCERNS: Final = frozenset(("node", "client", "recorder", "source", "reader"))
"""Kinds of entries of the directory that matter to filters."""

Passes: TypeAlias = Callable[[Mapping[str, Attribute]], bool]


@dataclass(slots=True)
class _Reader:
    """Declaration of a reader; `gone_at`: since when it is not in the directory, ns; None where it is."""

    version: int
    life: int
    sets: WantedSets | None
    gone_at: int | None = None


@dataclass(slots=True)
class Epoch:
    """Time in which a filter was the same.

    Attributes:
        sets: what it held; None for everything.
        left_out: by type the least and the greatest `hi` of events that were left out, ns.
    """

    sets: WantedSets | None
    left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    _tests: dict[str, Passes | None] = field(default_factory=dict)

    def passes(self, event: Event) -> bool:
        """Whether an event is sent."""
        if self.sets is None:
            return True
        tests = self._tests
        if event.type not in tests:
            tests[event.type] = _compiled(self.sets.get(event.type, ()))
        test = tests[event.type]
        return test is None or test(event.attributes)

    def leave_out(self, event: Event) -> None:
        """Note an event that is not sent."""
        least, most = self.left_out.get(event.type, (event.hi, event.hi))
        self.left_out[event.type] = min(least, event.hi), max(most, event.hi)


class SourceFilter:
    """Filter of a publisher.

    One thread at a time lets events pass; entries may come on another, under the lock of their session.

    Attributes:
        enabled: whether it may hold anything back.
        left_out: number of events that were not sent, by type.
        epoch: the filter as it is.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        # Types that are published; acknowledgements of declarations of others would be for nobody.
        self._types: set[str] = set()
        self.left_out: Counter[str] = Counter()
        self.epoch = Epoch(None)
        self._readers: dict[str, _Reader] = {}
        # Entries that cannot be read.
        self._unreadable: set[str] = set()
        self._earlier: list[Epoch] = []
        # Since when nothing keeps it open, ns; None as long as something does.
        self._closed_since: int | None = None
        self._known = False
        # Union of all declarations; valid until the next one.
        self._joined: WantedSets | None = NOTHING

    def passes(self, event: Event) -> bool:
        """Whether an event is to be sent; one that is not counts as left out."""
        epoch = self.epoch
        if epoch.passes(event):
            return True
        epoch.leave_out(event)
        self.left_out[event.type] += 1
        return False

    def publishes(self, types: Iterable[str], now: int) -> list[tuple[str, Filtered]]:
        """Types are published from now on: acknowledgements of declarations that want them, and no others so far."""
        new = set(types) - self._types
        self._types |= new
        return [
            (name, Filtered(each.version, each.version, self._lost(each.sets, now)))
            for name, each in self._readers.items()
            if self._known and each.gone_at is None and _wants_any(each.sets, new)
        ]

    # The directory.

    def lost(self) -> None:
        """The directory cannot be read (any more): everything is sent."""
        self._known = False
        self._open()

    def known(self, entries: Entries, now: int) -> list[tuple[str, Filtered]]:
        """The directory was read; acknowledgements of all declarations."""
        self._known = True
        for name, each in self._readers.items():
            if name not in entries.readers and each.gone_at is None:
                each.gone_at = now
        acks = [ack for name, entry in entries.readers.items() for ack in self.declared(name, entry, now)]
        self.look(entries, now)
        return acks

    def unreadable(self, reader: str) -> None:
        """The entry of a reader cannot be read: it may want everything."""
        if self.enabled:
            self._unreadable.add(reader)
            self._open()

    def declared(self, reader: str, entry: ReaderEntry | None, now: int) -> list[tuple[str, Filtered]]:
        """Take a declaration, None where it was cleared; its acknowledgement where it wants a type that
        is published, once the directory was read."""
        if not self.enabled:
            return []
        self._unreadable.discard(reader)
        known = self._readers.get(reader)
        if entry is None:
            if known is not None:
                known.gone_at = now
            return []
        if not self._known:
            # Everything is sent; it is taken when the directory was read.
            return []
        sets = None if entry.types is None else read_sets(entry.types)
        before = 0
        if known is not None and known.life == entry.life:
            before = known.version
        elif known is not None:
            # Its detectors are recovered in a while.
            self._readers[f"{reader}, life {known.life}"] = replace(known, gone_at=now)
        self._readers[reader] = _Reader(entry.version, entry.life, sets)
        self._widen()
        return (
            [(reader, Filtered(entry.version, before, self._lost(sets, now)))] if _wants_any(sets, self._types) else []
        )

    def look(self, entries: Entries, now: int) -> None:
        """Narrow the filter where nothing keeps it open: at every change of the directory, and from time to time."""
        if not self.enabled:
            return
        for name in [
            name
            for name, each in self._readers.items()
            if each.gone_at is not None and abs(now - each.gone_at) >= GONE_FOR
        ]:
            del self._readers[name]
            self._joined = self._union()
        if not self._known or self._unreadable or not entries.nodes or not self._all_declared(entries):
            self._open()
            return
        if self._closed_since is None:
            self._closed_since = now
        if abs(now - self._closed_since) >= NARROW_AFTER:
            self._become(self._joined)

    def _all_declared(self, entries: Entries) -> bool:
        tables: tuple[tuple[str, Iterable[str]], ...] = (
            ("node", entries.nodes),
            ("client", [name for name, each in entries.clients.items() if not each.declares]),
            ("recorder", entries.recorders),
        )
        return all(reader_name(kind, name) in self._readers for kind, names in tables for name in names)

    def _union(self) -> WantedSets | None:
        return union(each.sets for _, each in sorted(self._readers.items()))

    def _open(self) -> None:
        self._closed_since = None
        self._become(None)

    def _widen(self) -> None:
        """Let everything pass that is declared by now, and what has passed before."""
        self._joined = self._union()
        if self.epoch.sets is not None:
            self._become(union([self.epoch.sets, self._joined]))

    def _become(self, sets: WantedSets | None) -> None:
        if sets == self.epoch.sets:
            return
        before, self.epoch = self.epoch, Epoch(sets)
        if before.left_out:
            self._earlier.append(before)
        if len(self._earlier) > EPOCHS:
            oldest, second, *rest = self._earlier
            for name, (least, most) in oldest.left_out.items():
                found = second.left_out.get(name, (least, most))
                second.left_out[name] = min(found[0], least), max(found[1], most)
            self._earlier = [Epoch(NOTHING, second.left_out), *rest]

    def _lost(self, sets: WantedSets | None, now: int) -> dict[str, tuple[int, int]]:
        """Event time of events left out of which sets may want some, by type: exclusive, inclusive, ns."""
        found: dict[str, tuple[int, int]] = {}
        for epoch in [*self._earlier, self.epoch]:
            for name, (least, most) in list(epoch.left_out.items()):
                if (sets is None or name in sets) and not covers(epoch.sets, sets, [name]):
                    known = found.get(name, (least - 1, most))
                    # One may just be left out on another thread.
                    found[name] = min(known[0], max(least - 1, INSTANT_MIN)), max(known[1], most, now)
        return found


def _wants_any(sets: WantedSets | None, types: set[str]) -> bool:
    return bool(types) if sets is None else not types.isdisjoint(sets)


def reader_name(kind: str, name: str) -> str:
    """Name of the declaration of a node, client or recorder."""
    return f"{kind}:{name}"


def _compiled(conjunctions: Iterable[Conjunction]) -> Passes | None:
    """Function that tests the attributes of an event; None where all pass."""
    made = [[(name, _test(test)) for name, test in each] for each in conjunctions]
    if any(not each for each in made):
        return None
    return lambda attributes: any(all(test(attributes.get(name)) for name, test in each) for each in made)


def _test(test: Test) -> Callable[[Attribute], bool]:
    if test.values is None:
        return test.passes
    truths = frozenset(each for each in test.values if type(each) is bool)
    allowed = frozenset(each for each in test.values if type(each) is not bool)
    return lambda value: value in (truths if value.__class__ is bool else allowed)
