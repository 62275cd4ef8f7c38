"""Inventory of a node's detectors, with figures over all of them that are kept up to date.

A node with a hundred thousand detectors cannot go over them for each subscription, nor every second. So a detector that
changes is noted by its id, and the next question looks at the noted ones alone (dask's scheduler keeps its counts of
workers and tasks in the same way). Most are *settled*: they run, all their clients listen, and they read primitive
events only. What is done every few seconds concerns the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from distced.brokers.node.hosted import HostedDetector


class _Figures(NamedTuple):
    """Figures of one detector: types it reads, whether it runs or moves, home of its topic, whether it reads others,
    whether it is settled, and whether it keeps JSON."""

    reads: frozenset[str] | None
    active: bool
    home: str
    streaming: bool
    settled: bool
    keeps_json: bool = False


class Inventory:
    """Detectors of a node.

    Attributes:
        hosted, moving: detectors by id: those here, and those on their way here or from here. Only the methods of this
            class change them.
    """

    def __init__(self, several: Callable[[HostedDetector], bool] = lambda hosted: False) -> None:
        """`several`: whether a subscription wants a detector on several nodes."""
        self.hosted: dict[str, HostedDetector] = {}
        self.moving: dict[str, HostedDetector] = {}
        self.several = several
        # Ordered, so that effects do not depend on hashes.
        self._noted: dict[str, None] = {}
        self._figures: dict[str, _Figures] = {}
        # Equal figures are one object, for there are few.
        self._alike: dict[_Figures, _Figures] = {}
        self._counts: Counter[_Figures] = Counter()
        # Their order depends on when the figures were last read, so readers get them in another.
        self._streaming: dict[str, None] = {}
        self._unsettled: dict[str, None] = {}
        self._keeping: dict[str, None] = {}
        self._naming: dict[str, dict[str, None]] = {}

    # Changes.

    def changed(self, detector: str) -> None:
        """Note that a detector has changed."""
        self._noted[detector] = None

    def all_changed(self) -> None:
        """Note that a policy has changed, which may concern any detector."""
        self._noted |= dict.fromkeys((*self.hosted, *self.moving))

    def host(self, hosted: HostedDetector) -> None:
        """Add a detector that is here, from now on, or after a move."""
        self.moving.pop(hosted.id, None)
        self.hosted[hosted.id] = hosted
        for name in hosted.names:
            self._naming.setdefault(name, {})[hosted.id] = None
        self.changed(hosted.id)

    def move(self, hosted: HostedDetector) -> None:
        """Add a detector on its way here, or from here."""
        if self.hosted.pop(hosted.id, None) is not None:
            self._unname(hosted)
        self.moving[hosted.id] = hosted
        self.changed(hosted.id)

    def remove(self, detector: str) -> HostedDetector:
        """Remove a detector. Raises `KeyError` where it is not here."""
        hosted = self.hosted.pop(detector, None)
        if hosted is None:
            hosted = self.moving.pop(detector)
        else:
            self._unname(hosted)
        self.changed(detector)
        return hosted

    def _unname(self, hosted: HostedDetector) -> None:
        for name in hosted.names:
            known = self._naming[name]
            del known[hosted.id]
            if not known:
                del self._naming[name]

    # Figures.

    def __iter__(self) -> Iterator[HostedDetector]:
        """All detectors, also on their way."""
        yield from self.hosted.values()
        yield from self.moving.values()

    def reads(self, *, active: bool) -> set[frozenset[str] | None]:
        """Sets of types of primitive events that detectors read, each once: of all, or of those that run or move."""
        self._look()
        return {each.reads for each in self._counts if each.active or not active}

    @property
    def homes(self) -> set[str]:
        """Homes of the topics of all detectors, that of the directory left out."""
        self._look()
        return {each.home for each in self._counts if each.home}

    def streaming(self) -> list[HostedDetector]:
        """Detectors that read others."""
        self._look()
        return self._in_order(self._streaming)

    def unsettled(self) -> list[HostedDetector]:
        """Detectors here that are to be looked at every few seconds."""
        self._look()
        return [each for each in self._in_order(self._unsettled) if each.id in self.hosted]

    def keeping_json(self) -> list[HostedDetector]:
        """Detectors that keep composite events as JSON, for another node publishes them."""
        self._look()
        return self._in_order(self._keeping)

    def naming(self, types: Iterable[str]) -> list[HostedDetector]:
        """Detectors here that name any of these types."""
        found = {detector: None for name in types for detector in self._naming.get(name, ())}
        return self._those(found)

    def _those(self, detectors: Iterable[str]) -> list[HostedDetector]:
        return [self.hosted.get(each) or self.moving[each] for each in detectors]

    def _in_order(self, detectors: Iterable[str]) -> list[HostedDetector]:
        """Detectors in the order of their arrival."""
        return sorted(self._those(detectors), key=lambda each: (each.since, each.id))

    def _look(self) -> None:
        for detector in self._noted:
            hosted = self.hosted.get(detector) or self.moving.get(detector)
            before = self._figures.pop(detector, None)
            if before is not None:
                self._counts[before] -= 1
                if not self._counts[before]:
                    del self._counts[before], self._alike[before]
            self._streaming.pop(detector, None)
            self._unsettled.pop(detector, None)
            self._keeping.pop(detector, None)
            if hosted is None:
                continue
            made = self._of(hosted)
            figures = self._figures[detector] = self._alike.setdefault(made, made)
            self._counts[figures] += 1
            if figures.streaming:
                self._streaming[detector] = None
            if not figures.settled:
                self._unsettled[detector] = None
            if figures.keeps_json:
                self._keeping[detector] = None
        self._noted.clear()

    def _of(self, hosted: HostedDetector) -> _Figures:
        settled = hosted.settled and not self.several(hosted)
        keeps = hosted.json is not None and not hosted.json.publishes
        active = hosted.running or hosted.moving
        return _Figures(hosted.reads, active, hosted.home, bool(hosted.streams), settled, keeps)

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        self._look()
        assert self.hosted.keys().isdisjoint(self.moving)
        assert self._figures.keys() == self.hosted.keys() | self.moving.keys()
        for hosted in self:
            assert self._figures[hosted.id] == self._of(hosted), hosted.id
        assert self._counts == Counter(self._figures.values())
        named = {(name, each.id) for each in self.hosted.values() for name in each.names}
        assert named == {(name, each) for name, known in self._naming.items() for each in known}
