"""Declared reads of a node: what its detectors look at, for sources that leave out other events.

Each detector here, arriving ones and replicas included, is a need (`middleware.wire.declared_reads`). A new detector
begins, and its subscriptions are answered, when the publishers that filter have acknowledged it. One that arrives from
another node, or is promoted, goes on at once: the entry of its former host narrows later. One that continues from a
checkpoint waits as a new one does, and has a loss where events behind the checkpoint were left out.

Entries of nodes and clients that have gone are cleared by one of the nodes, in a while; sources count them until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, Subscribe, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.shared import NodePart, Shared
from distced.detectors.runtime.wanted_sets import wanted_sets
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Filtered
from distced.middleware.wire.declared_reads import EARLIER, DeclaredReads, any_filters
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.source_filter import GONE_FOR, reader_name
from distced.middleware.wire.topics import Area, area_filter

REPORT_AFTER: Final = 5 * SECOND
"""Wait for publishers that filter after which it is logged, ns."""

_CLEARED: Final = {"node": "nodes", "client": "clients"}


class WantedReads(NodePart):
    """Needs of the detectors of a node.

    Attributes:
        reads: the needs, by detector.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.reads = DeclaredReads(reader_name("node", shared.name))
        self._now = 0
        # Whether acknowledgements were subscribed to, over this connection.
        self._asked = False
        # Losses of detectors that have not begun.
        self._lost: dict[str, list[Loss]] = {}
        # Since when detectors wait for publishers, ns; and participants are absent, by the name of their entry.
        self._waiting: dict[str, int] = {}
        self._absent: dict[str, int] = {}

    def need(self, hosted: HostedDetector, *, runs: bool = False) -> None:
        """Declare what a detector looks at, where any source filters."""
        if self.reads.active:
            self.reads.need(hosted.id, wanted_sets(hosted.detector.compiled), self._now, runs=runs)

    def covers(self, hosted: HostedDetector) -> bool:
        """Whether no source leaves out what a detector looks at."""
        return not self.reads.waits_for(hosted.id, self.directory)

    def begun(self, hosted: HostedDetector) -> list[Loss]:
        """Note that a detector runs; what was left out behind its checkpoint."""
        self.reads.runs(hosted.id)
        self._waiting.pop(hosted.id, None)
        return self._lost.pop(hosted.id, [])

    def changed(self, change: Change, now: int, *, known: bool) -> list[Effect]:
        """Take a change of the directory, which was read or is being read."""
        self._now = now
        if change.kind == "reader" and change.name == self.reads.reader:
            self.reads.seen(change.entry, now)
        return self.look(now) if known and change.kind in ("source", "reader") else []

    def look(self, now: int) -> list[Effect]:
        """Declare, from the first source that filters on, and what has changed; the directory was read."""
        self._now = now
        effects: list[Effect] = []
        if not self.reads.active:
            if not any_filters(self.directory):
                return []
            self.reads.activate(now)
            for hosted in self._hosted():
                self.need(hosted, runs=hosted.running)
        if not self._asked:
            self._asked = True
            effects.append(Subscribe(area_filter(Area.ADMINISTRATION, "filtered", self.reads.reader, root=self.root)))
        entry = self.reads.take()
        return effects if entry is None else [*effects, self.put("reader", self.reads.reader, entry)]

    def connected(self) -> None:
        """A connection is established, perhaps again."""
        self._asked = False
        self._absent = {}
        self.reads.repeat()

    def acknowledged(self, publisher: str, ack: Filtered, now: int) -> list[Effect]:
        """Take the acknowledgement of a publisher."""
        self._now = now
        effects: list[Effect] = []
        for name, loss in self.reads.acknowledged(publisher, ack):
            hosted = self.event_path.hosted.get(name)
            if hosted is not None and hosted.running:
                effects += self.event_path.lose(hosted, [loss], now)
            else:
                self._lost.setdefault(name, []).append(loss)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time, every few seconds."""
        self._now = now
        here = {each.id: each for each in self._hosted()}
        for name in [each for each in self.reads.needs if each != EARLIER and each not in here]:
            self.reads.drop(name, now)
            self._lost.pop(name, None)
        self.reads.tick(now)
        waiting = {
            name: (each, publishers)
            for name, each in here.items()
            if not each.running and (publishers := self.reads.waits_for(name, self.directory))
        }
        effects: list[Effect] = [*self.look(now), *self._clear_absent(now)]
        for name in [each for each in self._waiting if each not in waiting]:
            del self._waiting[name]
        for name, (_, publishers) in waiting.items():
            since = self._waiting.setdefault(name, now)
            if 0 <= since <= now - REPORT_AFTER:
                self._waiting[name] = -1
                advice = "they filter, and have not acknowledged what it reads: look whether they run"
                effects.append(warning("detector deferred", detector=name, waits_for=publishers, advice=advice))
        return effects

    def stop(self) -> list[Effect]:
        """Withdraw the declaration, at the end of the node."""
        return [self.clear("reader", self.reads.reader)] if self.reads.active else []

    def _hosted(self) -> Iterable[HostedDetector]:
        return [*self.event_path.hosted.values(), *self.event_path.moving.values()]

    def _clear_absent(self, now: int) -> list[Effect]:
        """Clear declarations of participants that have gone."""
        absent = []
        for each in self.directory.readers:
            kind, _, name = each.partition(":")
            if kind in _CLEARED and name not in getattr(self.directory, _CLEARED[kind]):
                absent.append(each)
        self._absent = {each: self._absent.get(each, now) for each in absent}
        nodes = self.directory.common_nodes
        return [
            self.clear("reader", each)
            for each, since in self._absent.items()
            if now - since > GONE_FOR and chosen(each, nodes) == self.name
        ]
