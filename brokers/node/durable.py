"""Durable subscriptions of a node: they stay while no client reads them, within their limits.

A durable subscription is an entry of the directory that its client's end does not clear (`middleware.client.durable`).
Its detector runs as long as the entry is there, whether a client listens or not. The node that hosts it keeps its
frames until they are taken (`brokers.node.kept_frames`), as the entry of the position says, and publishes what is kept,
and since when no client reads it. Where that is longer than the subscription wants, the node ends it: the entry is
cleared, and its state says so to the next client of the name, for a month.

A client is away where its farewell says so, or where its own entry has gone, and since a node has found it so: the
clock of a device may be wrong by decades. Nodes that find it away at different times go by the one published first. A
server without persistence that has restarted has forgotten the entries of clients that are away: the host publishes
them again, where the server has forgotten the detector, too, and one node those that no node serves, where it has
forgotten the claim to the name of that node.

Rejected: a client that stands in for the one that is away (it would take what it cannot hand on), and persistent
sessions of MQTT servers (their limits are the server's, they are lost with it, and nobody knows how much waits there).
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.planning import is_away
from distced.brokers.node.shared import NodePart
from distced.middleware.model.detection import GUARANTEED
from distced.middleware.model.errors import LimitError
from distced.middleware.model.timestamps import DAY, INSTANT_MIN, SECOND, format_duration
from distced.middleware.wire.directory_entries import DurableEntry, PositionEntry, SubscriptionEntry

REMEMBERED_FOR: Final = 30 * DAY
"""Time for which the end of a durable subscription is remembered, ns."""

UNREAD_FOR: Final = 60 * SECOND
"""Time for which frames are kept without a durable subscription here, ns: one that is served again is back by then."""

LEFT_OVER_AFTER: Final = 30 * SECOND
"""Time after which the state of a subscription that is not there is cleared, ns."""


REPORT_EVERY: Final = 5 * SECOND
"""Least interval of states of one subscription that differ in figures alone, ns."""


class DurableSubscriptions(NodePart):
    """Durable subscriptions of a node."""

    def __init__(self, hosting: DetectorHosting, most_bytes: int) -> None:
        """Args: most_bytes: limit of what is kept for all of them."""
        super().__init__(hosting.shared)
        self.hosting = hosting
        self._most_bytes = most_bytes
        # Since when they are away, and states without a subscription are left over, ns.
        self._away: dict[str, int] = {}
        # Client and farewell of that absence.
        self._left_by: dict[str, tuple[str, int]] = {}
        self._left_over: dict[str, int] = {}
        # Since when detectors with kept frames have no durable subscription here, ns.
        self._unread: dict[str, int] = {}
        # When states were published last, ns.
        self._reported: dict[str, int] = {}

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time, every few seconds: what is kept, and ends."""
        effects: list[Effect] = []
        self._note_absences(now)
        readers: dict[str, list[str]] = {}
        for name in list(self.directory.durable_names):
            entry = self.directory.subscriptions[name]
            terms = entry.durable
            assert terms is not None
            identity = self.hosting.by_subscription.get(name, "")
            hosted = self.event_path.hosted.get(identity)
            away = self._away.get(name, 0)
            known = self.directory.durables.get(name)
            if away and terms.keep_for and now - away > terms.keep_for and self._is_mine(name, known):
                effects += self._end(name, entry, now)
                continue
            if hosted is None:
                # Of a replica here, its primary says which subscriptions there are.
                identity = "" if known is None else known.detector
            if identity in self.event_path.hosted:
                readers.setdefault(identity, []).append(name)
        for identity, names in readers.items():
            self._keep(identity, names)
        kept = self.event_path.output.durable
        self._unread = {each: self._unread.get(each, now) for each in kept if each not in readers}
        for identity in [each for each, since in self._unread.items() if now - since > UNREAD_FOR]:
            self.event_path.output.keep_no_more(identity)
        effects += self._shrink()
        for identity, names in readers.items():
            if self.event_path.hosted[identity].primary:
                effects += [each for name in names for each in self._report(name, identity, now)]
        return [*effects, *self._clear_left_over(now)]

    def _is_mine(self, name: str, known: DurableEntry | None) -> bool:
        """Whether this node serves a subscription, or no node does and it stands in."""
        if name in self.hosting.by_subscription:
            return True
        served = known is not None and known.node != self.name and known.node in self.directory.nodes
        return not served and chosen(name, self.directory.common_nodes) == self.name

    def _note_absences(self, now: int) -> None:
        """Note since when clients are away, by the clock of nodes: a farewell may have one that was never set."""
        away: dict[str, int] = {}
        left_by: dict[str, tuple[str, int]] = {}
        for name in self.directory.durable_names:
            entry = self.directory.subscriptions[name]
            if entry.durable is None or not is_away(entry, self.directory):
                continue
            left_by[name] = entry.client, entry.durable.away
            known = self.directory.durables.get(name)
            earlier = self._away.get(name) or (0 if known is None else known.away)
            # A client that was there between two looks has left again.
            same = self._left_by.get(name, left_by[name]) == left_by[name]
            away[name] = (earlier if same else 0) or now
        self._away, self._left_by = away, left_by
        self._reported = {name: at for name, at in self._reported.items() if name in self.directory.durable_names}

    def _keep(self, detector: str, names: list[str]) -> None:
        """Keep the frames of a detector that one of these subscriptions has not taken."""
        most = max(self._limit(name) for name in names)
        if not most:
            self.event_path.output.keep_no_more(detector)
            return
        hosted = self.event_path.hosted[detector]
        exact = hosted.detector.policy.name == GUARANTEED
        kept = self.event_path.output.keep(detector, most)
        positions = [self.directory.positions.get(name) for name in names if self._limit(name)]

        def is_taken(life: int, number: int, reach: int | None) -> bool:
            return all(each is not None and _has_taken(each, life, number, reach, exact=exact) for each in positions)

        kept.take(is_taken)

    def _shrink(self) -> list[Effect]:
        """Drop what is beyond the limit of the node, of those first that have most."""
        kept = list(self.event_path.output.durable.values())
        size, before = sum(each.size for each in kept), sum(each.dropped for each in kept)
        while (excess := sum(each.size for each in kept) - self._most_bytes) > 0:
            largest = max(kept, key=lambda each: each.size)
            largest.shrink(max(largest.size - excess, largest.size // 2))
        dropped = sum(each.dropped for each in kept) - before
        if size <= self._most_bytes:
            return []
        counts = self.event_path.counts
        counts["durable events dropped"] = counts.get("durable events dropped", 0) + dropped
        error = LimitError(
            "more bytes for durable subscriptions than a node keeps",
            given=f"{size:,}",
            allowed=f"{self._most_bytes:,}",
            advice="read them sooner, give them less with keep_bytes, or start nodes with --max-kept-bytes",
        )
        return [warning("durable events dropped", number=dropped, reason=str(error))]

    def _limit(self, name: str) -> int:
        entry = self.directory.subscriptions.get(name)
        return 0 if entry is None or entry.durable is None else entry.durable.keep_bytes

    def _report(self, name: str, detector: str, now: int) -> list[Effect]:
        """Publish the state of a subscription served here, where it has changed; figures alone now and then."""
        kept, known = self.event_path.output.durable.get(detector), self.directory.durables.get(name)
        away = self._away.get(name, 0)
        found = self.event_path.hosted[detector].output.found if self._is_rule(name) else 0
        entry = DurableEntry(self.name, detector, away, found=found)
        if kept is not None:
            entry = DurableEntry(
                self.name, detector, away, kept.frames, kept.events, kept.size, kept.oldest, kept.dropped
            )
        soon = self._reported.get(name, INSTANT_MIN) + REPORT_EVERY > now
        if entry == known or (soon and known is not None and _without_figures(entry) == _without_figures(known)):
            return []
        self._reported[name] = now
        return [self.put("durable", name, entry)]

    def _is_rule(self, name: str) -> bool:
        terms = self.directory.subscriptions[name].durable
        return terms is not None and bool(terms.rules)

    def _end(self, name: str, entry: SubscriptionEntry, now: int) -> list[Effect]:
        """End a subscription whose application was away for too long."""
        assert entry.durable is not None
        limit = format_duration(entry.durable.keep_for)
        reason = f"its application was away for more than {limit}"
        identity = self.hosting.by_subscription.get(name, "")
        kept = self.event_path.output.durable.get(identity)
        events = 0 if kept is None else kept.events
        away = self._away[name]
        state = DurableEntry(self.name, identity, away, dropped=events, ended=now, reason=reason)
        return [
            warning("durable subscription ended", subscription=name, reason=reason, composite_events=events),
            self.put("durable", name, state),
            self.clear("subscription", name),
        ]

    def _clear_left_over(self, now: int) -> list[Effect]:
        """Clear states and positions of subscriptions that are not there, on one node."""
        there = self.directory.subscriptions
        left = {name for name, each in self.directory.durables.items() if name not in there and not each.ended}
        left |= {name for name in self.directory.positions if name not in there and name not in self.directory.durables}
        self._left_over = {name: self._left_over.get(name, now) for name in left}
        gone = [name for name, since in self._left_over.items() if now - since > LEFT_OVER_AFTER]
        gone += [name for name, each in self.directory.durables.items() if 0 < each.ended < now - REMEMBERED_FOR]
        return [
            self.clear(kind, name)
            for name in gone
            if chosen(name, self.directory.common_nodes) == self.name
            for kind in ("durable", "position")
            if name in self.directory.table(kind)
        ]

    # Servers that forget.

    def put_back(self, shown: set[str], *, forgotten: bool) -> list[Effect]:
        """Publish the entries of subscriptions served here that a server has forgotten, with the detectors that are not
        `shown` any more; where it has forgotten everything, on one node also of those that no node serves for now."""
        effects: list[Effect] = []
        for name in self.directory.durable_names:
            identity = self.hosting.by_subscription.get(name, "")
            if identity in shown:
                # Cleared, where its detector is still there.
                continue
            if not identity and not (forgotten and chosen(name, self.directory.common_nodes) == self.name):
                continue
            effects += [
                self.put(kind, name, self.directory.table(kind)[name])
                for kind in ("subscription", "position", *(() if identity else ("durable",)))
                if (kind, name) in self.directory.unconfirmed
            ]
        return effects


def _has_taken(position: PositionEntry, life: int, number: int, reach: int | None, *, exact: bool) -> bool:
    """Whether an application has taken a frame, given the greatest `hi` up to it, ns."""
    known = {each: following for each, following, _ in position.lives}
    if life in known:
        return number < known[life]
    if exact and reach is not None and any(mark is not None and reach <= mark for *_, mark in position.lives):
        return True
    return bool(known) and life < min(known)


def _without_figures(state: DurableEntry) -> tuple[object, ...]:
    """What a state says beside its figures, and whether there are any."""
    return state.node, state.detector, state.away, state.reason, bool(state.frames), bool(state.found)
