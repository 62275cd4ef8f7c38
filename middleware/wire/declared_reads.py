"""Declared reads: primitive events that a participant reads, for the sources that leave out others (CEDR, section 4).

A node, a client or a recorder, a *reader*, has needs: the sets of each detector, subscription or recording. It declares
their union as an entry of the directory (`ReaderEntry`), with a version. A publisher that filters takes the entry in,
and acknowledges its version (`Filtered`); from then on it sends what the entry wants.

A need *begins* when every publisher that filters, is connected, and has a source of its types has acknowledged a
version that holds it. Before that the subscription behind it is not answered, so none misses an event that was
published after its answer. A need that the published entry holds already is in force without a message: a crowd of
similar subscriptions costs one.

The entry widens at once, and narrows in a while (`NARROW_EVERY`), so that a need which moves to another node is
declared there before it is withdrawn here. An entry of the reader's own earlier life counts for a while, too
(`EARLIER_FOR`), for detectors that are recovered.

What was left out nevertheless while a need was running, as a declaration was lost on the way, comes with the
acknowledgement, and is a loss: composite events are the same with and without filters, or a loss says where not.

Nodes and recorders declare nothing as long as no source filters. A client without a declaration reads nothing, so that
a thousand publishers need no thousand entries: it declares the first type that it listens to, filters or not.

Rejected: an entry for each detector (sources would read ten thousand); patterns in the entries (clients do not
compile); a watermark of the source from which the filter holds (a filter is about sending, watermarks about event time:
an event of before may be published later); the generation of the filter in each message (four bytes each, to find at
every message what an acknowledgement settles once).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.sets.wanted import NOTHING, WantedSets, covers, declared, read_sets, union
from distced.middleware.wire.administration import Filtered
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import ReaderEntry
from distced.middleware.wire.numbered_stream import Loss

NARROW_EVERY: Final = 10 * SECOND
"""Least time between the end of a need and a narrower entry, ns."""

EARLIER_FOR: Final = 10 * MINUTE
"""Time for which the entry of an earlier life counts, ns; longer than detectors take to be recovered."""

EARLIER: Final = "an earlier life"
"""Name of the need that stands for it."""

LEFT_OUT: Final = "events were left out by a source that had no declaration of them"


@dataclass(slots=True)
class Need:
    """What one detector, subscription or recording reads.

    Attributes:
        sets: None for everything.
        since: version of the first entry that holds it; 0 for none yet.
        runs: whether what was left out is a loss for it.
    """

    sets: WantedSets | None
    since: int = 0
    runs: bool = False


class DeclaredReads:
    """Needs of a reader, and its entry.

    Attributes:
        reader: name of the entry, `<kind>:<name>`.
        active: whether any source filters, so that the needs are declared.
        needs: by name.
        version, sets: of the entry, published or due.
    """

    def __init__(self, reader: str) -> None:
        self.reader = reader
        self.active = False
        self.needs: dict[str, Need] = {}
        self.version = 0
        self.sets: WantedSets | None = NOTHING
        self._life = 0
        # Version that each publisher has acknowledged last.
        self._acknowledged: dict[str, int] = {}
        self._due = False
        # When the entry may be too wide, ns; None for not. Until when that of an earlier life counts.
        self._wide_since: int | None = None
        self._earlier_until = 0
        self._last_seen = 0
        # Whether the directory has shown the entry as it is.
        self._came_back = False

    # Needs.

    def activate(self, now: int) -> None:
        """Declare from now on, as a source filters."""
        if not self.active:
            self.active = True
            self._declare(union(each.sets for each in self.needs.values()), now)

    def need(self, name: str, sets: WantedSets | None, now: int, *, runs: bool = False) -> None:
        """Add a need, or change it."""
        known = self.needs.get(name)
        if known is not None and known.sets == sets:
            known.runs |= runs
            return
        if known is not None and self._wide_since is None:
            self._wide_since = now
        need = self.needs[name] = Need(sets, runs=runs)
        if not self.active:
            return
        if covers(self.sets, sets):
            need.since = self.version
        else:
            self._declare(union([self.sets, sets]), now)

    def runs(self, name: str) -> None:
        """What is left out from now on is a loss for a need."""
        if name in self.needs:
            self.needs[name].runs = True

    def drop(self, name: str, now: int) -> None:
        """Remove a need; the entry is narrower in a while."""
        if self.needs.pop(name, None) is not None and self._wide_since is None:
            self._wide_since = now

    def tick(self, now: int) -> None:
        """Narrow the entry where that is due."""
        if EARLIER in self.needs and now >= self._earlier_until:
            self.drop(EARLIER, now)
        # Nor does it wait for a clock that was set back.
        if self._wide_since is None or abs(now - self._wide_since) < NARROW_EVERY:
            return
        self._wide_since = None
        sets = union(each.sets for each in self.needs.values())
        if self.active and sets != self.sets:
            self._declare(sets, now)

    def _declare(self, sets: WantedSets | None, now: int) -> None:
        self.version = max(now // 1_000, self.version + 1, self._last_seen + 1)
        self._life = self._life or self.version
        self.sets = sets
        self._due, self._came_back = True, False
        for each in self.needs.values():
            each.since = each.since or self.version

    def take(self) -> ReaderEntry | None:
        """Entry to be published, once; None for none."""
        if not self._due:
            return None
        self._due = False
        return self.entry

    def repeat(self) -> None:
        """Have the entry published again: the server may have forgotten it."""
        self._due = self.active

    @property
    def entry(self) -> ReaderEntry:
        """The entry as it is."""
        return ReaderEntry(self.version, self._life, None if self.sets is None else declared(self.sets))

    def seen(self, entry: ReaderEntry | None, now: int) -> None:
        """Take the entry of this reader in the directory: its own, that of an earlier life, or anybody's.

        An entry only ever widens: what another has written counts for a while, as of an earlier life.
        """
        if entry is None:
            self.repeat()
            return
        if entry == self.entry:
            self._came_back = True
            return
        if not self._came_back and entry.version < self.version and entry.life == self._life > 0:
            # An own one comes back after it was replaced.
            return
        self._last_seen = max(self._last_seen, entry.version)
        self._earlier_until = now + EARLIER_FOR
        self.need(EARLIER, None if entry.types is None else read_sets(entry.types), now)
        if self.active:
            # Nobody knows for how long the other entry has been in force.
            self._declare(self.sets, now)
            for each in self.needs.values():
                each.since = self.version

    # Acknowledgements.

    def acknowledged(self, publisher: str, ack: Filtered) -> Iterator[tuple[str, Loss]]:
        """Take the acknowledgement of a publisher; needs that run, with what they have lost."""
        if not 0 < self._life <= ack.version <= self.version:
            return
        self._acknowledged[publisher] = max(ack.version, self._acknowledged.get(publisher, 0))
        for name, need in self.needs.items():
            if need.runs and need.since > ack.before:
                for type_name, (since, until) in ack.lost.items():
                    if need.sets is None or type_name in need.sets:
                        yield name, Loss(since, until, f"{publisher}: {LEFT_OUT}")

    def waits_for(self, name: str, entries: Entries) -> list[str]:
        """Publishers that have not acknowledged a need yet; none where it has begun."""
        need = self.needs.get(name)
        if need is None or not self.active:
            return []
        return sorted(
            publisher
            for publisher in _filtering(entries, need.sets)
            if not need.since or self._acknowledged.get(publisher, 0) < need.since
        )


def _filtering(entries: Entries, sets: WantedSets | None) -> set[str]:
    """Publishers that filter, are connected, and have a source of a type of these sets.

    One without a connection reads the directory before it filters again.
    """
    return {
        each.publisher
        for each in map(entries.sources.__getitem__, entries.filtering)
        if each.publisher in entries.clients and _reads(sets, each.types)
    }


def _reads(sets: WantedSets | None, types: Iterable[str]) -> bool:
    return sets is None or not sets.keys().isdisjoint(types)


def any_filters(entries: Entries) -> bool:
    """Whether any source filters."""
    return bool(entries.filtering)


def types_whole(names: Iterable[str]) -> WantedSets:
    """All events of some types."""
    sets: Mapping[str, tuple[()]] = dict.fromkeys(names, ())
    return {name: (each,) for name, each in sorted(sets.items())}
