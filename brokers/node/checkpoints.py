"""Checkpoints of a node's detectors: when they are written, and recovery from them by the next host.

Design, section 4, "Failure". A checkpoint is what a detector takes along on a move (`brokers.node.migration`), written
to a store that outlives the node. The next host of the detector, this node started again or another one with access to
the store, reads it before the detector begins, requests from the publishers what they have published since
(`middleware.wire.numbered_stream`), and finds the same composite events again, in a life of its own that is complete
from the checkpoint on. Readers recognise by its base that nothing is missing, and events that come twice by their ids.

So any checkpoint of a detector is as good as any other, as long as the publishers still keep what came behind it; none
has to agree with those of other detectors, and what a stalled host writes later does no harm. The last frames are part
of a checkpoint, as a reader may lack some of them. Publishers of sources keep what is not covered, by the node's
acknowledgements (`brokers.node.acknowledgements`). Detectors are written in turn, a few at a time, so that events wait
for milliseconds at most; those without news seldom.

A subscription that is new has nothing to do with what was found for others long ago: a checkpoint is used if any of the
subscriptions that it served is still there. Parts are recovered with the cut of the checkpoint.

Rejected: one checkpoint of all detectors at one instant (they would all be paused for it); a log of all inputs (the
publishers have them); checkpoints in retained messages of the MQTT server (an office of them is hundreds of megabytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from distced.brokers.core.directory import part_of
from distced.brokers.core.effects import Effect, Load, Pieces, Save, info, warning
from distced.brokers.core.metrics import CHECKPOINTS_FAILED, CHECKPOINTS_SAVED
from distced.brokers.node.acknowledgements import Acknowledgements, Received
from distced.brokers.node.checkpoint_format import Checkpoint, pack, pack_policy, unpack
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.kept_frames import KeptFrames, detector_of, merged, unpack_run
from distced.brokers.node.planning import cut_of
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.model.errors import SnapshotError
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.node_messages import Hosting, KeptRun

EVERY: Final = SECOND
"""Least interval of two checkpoints of a detector, ns."""

UNCHANGED_EVERY: Final = 30 * SECOND
"""Interval of checkpoints of a detector without news, ns: shorter than publishers keep messages."""

UNCOVERED: Final = 1_000
"""Number of messages of an input after which the checkpoint of a detector without news is written all the same: their
publishers keep them until then."""

FRAMES_FOR: Final = 60 * SECOND
"""Age of the frames in a checkpoint, ns: as long as nodes keep them."""

AT_ONCE: Final = 50
INSTANCES_AT_ONCE: Final = 2_500
"""Number of detectors, and of their instances, in the checkpoints of one tick at most, but for the first of them:
some milliseconds of work."""

READ_WITHIN: Final = 5 * SECOND
SLOW_READ_WITHIN: Final = 15 * SECOND
READ_AGAIN: Final = SECOND // 2
"""Time to read checkpoints, ns, after which a detector begins without: from a store that fails, and from a slow one;
and interval of attempts that fail."""

WRITE_AGAIN: Final = SECOND
"""Interval of attempts to write while the store fails, ns."""

DELETED_AFTER: Final = 120 * SECOND
"""Time for which checkpoints are kept of a detector that is not here any more, ns: its subscriber may be back."""

KEPT_FOR: Final = 24 * 3600 * SECOND
"""Time for which checkpoints are kept of detectors that this node had hosted before its start, ns."""


class _Written(NamedTuple):
    """Last checkpoint of a detector: its instant, ns, and the changes, frames, subscriptions and input of the detector
    until then."""

    at: int
    changes: int
    number: int
    served: tuple[int, str]
    received: Received


@dataclass(slots=True)
class _Reading:
    """Detector whose checkpoints are being read, since an instant, ns, for subscriptions that are to be hosted.

    `again_at`: instant of the next attempt, ns; None for one under way.
    """

    since: int
    again_at: int | None = None
    waiting: dict[str, Hosting] = field(default_factory=dict)


class Checkpoints(NodePart):
    """Checkpoints of a node's detectors.

    Attributes:
        kept: whether there is a store.
        failures: number of writes that have failed in a row.
        written: the last checkpoint of each detector.
        begun_at: instant at which the write under way has begun, ns; None for none.
    """

    def __init__(self, shared: Shared, *, kept: bool) -> None:
        super().__init__(shared)
        self.kept = kept
        self.failures = 0
        self.begun_at: int | None = None
        self.acknowledgements = Acknowledgements(shared)
        self.written: dict[str, _Written] = {}
        # Of an earlier life of this node, until they are written again; and the instant at which these were known, ns.
        self._left: set[str] = set()
        self._known_at = 0
        # Detectors of the present round that have not had their turn, and the begin of the round, ns.
        self._round: Iterator[str] = iter(())
        self._round_at = INSTANT_MIN
        # Number of the write under way, 0 for none, and the detectors in it.
        self._writing = 0
        self._number = 0
        self._in_it: dict[str, _Written | None] = {}
        # Frames kept for durable subscriptions of the detectors in it, and the names of their segments.
        self._kept_in_it: dict[str, KeptFrames] = {}
        self._segments_in_it: tuple[str, ...] = ()
        # Names of segments that are to be deleted: of an earlier life of this node, or not needed any more.
        self._old_segments: dict[str, None] = {}
        self._write_at = INSTANT_MIN
        # Detectors with checkpoints that are not here any more, and since when, ns; and the next look for them, ns.
        self._away: dict[str, int] = {}
        self._gone_at = INSTANT_MIN
        # Names of the segments of each detector in the store.
        self._segments: dict[str, set[str]] = {}
        self._reading: dict[str, _Reading] = {}
        # Read, for a detector that is created next; with the instant, ns.
        self._found: dict[str, tuple[int, list[Checkpoint]]] = {}

    # Writing.

    def stored(self, detectors: Iterable[str], now: int) -> None:
        """Take the detectors whose checkpoints an earlier life of this node has left behind."""
        self._left, self._known_at = set(detectors), now

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: write the checkpoints that are due."""
        if not self.kept:
            return []
        # Read for detectors that were not created after all.
        self._found = {name: each for name, each in self._found.items() if now - each[0] < READ_WITHIN}
        effects: list[Effect] = []
        for detector, reading in self._reading.items():
            if reading.again_at is not None and now >= reading.again_at:
                reading.again_at = None
                effects.append(Load(detector))
        if not self._left or now - self._known_at > DELETED_AFTER:
            # Until then detectors of the earlier life may be recovered, from older checkpoints.
            effects += self.acknowledgements.tick(now)
        if self._writing or now < self._write_at:
            return effects
        entries = self._gone(now)
        policies: dict[int, bytes] = {}
        received: dict[int, Received] = {}
        for hosted in self._due(now):
            effects += self.event_path.report_late(hosted, now)
            entries[hosted.id] = pack(self._checkpoint(hosted, policies, now))
            policy = hosted.detector.policy
            covers = received.get(id(policy))
            if covers is None:
                covers = received[id(policy)] = Received.of(policy, now)
            self._in_it[hosted.id] = _Written(
                now, hosted.detector.changes, hosted.output.number, hosted.subscriptions.mark, covers
            )
            entries |= self._frames_of(hosted.id)
        if not entries:
            return effects
        self._number += 1
        self._writing, self.begun_at = self._number, now
        return [*effects, Save(self._number, entries)]

    def last(self, now: int) -> list[Effect]:
        """Write the checkpoints of all detectors with news, as the node ends."""
        hosted = self.event_path.hosted.values() if self.kept else ()
        policies: dict[int, bytes] = {}
        entries: dict[str, Pieces | None] = {}
        effects: list[Effect] = []
        for each in hosted:
            if self._has_news(each, now):
                effects += self.event_path.report_late(each, now)
                entries[each.id] = pack(self._checkpoint(each, policies, now))
                entries |= self._frames_of(each.id)
        self._number += 1
        return [*effects, Save(self._number, entries)] if entries else []

    def saved(self, number: int, problem: str, now: int) -> list[Effect]:
        """Take the end of a write; why it has failed, empty where it has not."""
        if number != self._writing:
            return []
        self._writing, self.begun_at = 0, None
        written, self._in_it = self._in_it, {}
        if problem:
            self._kept_in_it, self._segments_in_it = {}, ()
            self.failures += 1
            self.event_path.tallies[(CHECKPOINTS_FAILED,)] += 1
            self._write_at = now + WRITE_AGAIN
            # Logged at each power of two.
            once = self.failures.bit_count() == 1
            return [warning("checkpoints failed", reason=problem, so_far=self.failures)] if once else []
        for identity, kept in self._kept_in_it.items():
            kept.written(self._segments_in_it)
            # Of an earlier life of this node, with other frames in them.
            self._old_segments.update(
                dict.fromkeys(each for each in self._left if detector_of(each) == identity and each != identity)
            )
            self._left -= self._old_segments.keys()
        for segment in self._segments_in_it:
            self._old_segments.pop(segment, None)
        self._kept_in_it, self._segments_in_it = {}, ()
        self.event_path.tallies[(CHECKPOINTS_SAVED,)] += sum(each is not None for each in written.values())
        for identity, each in written.items():
            self._left.discard(identity)
            self.acknowledgements.written(identity, None if each is None else each.received)
            if each is None:
                self.written.pop(identity, None)
            else:
                self.written[identity] = each
        if not self.failures:
            return []
        self.failures = 0
        return [info("checkpoints written again")]

    def _frames_of(self, detector: str) -> dict[str, Pieces | None]:
        """Frames kept for durable subscriptions to a detector, as far as they are not in the store."""
        kept = self.event_path.output.durable.get(detector)
        if kept is None:
            return {}
        changes = kept.changes()
        self._kept_in_it[detector] = kept
        self._segments_in_it += tuple(changes)
        self._segments[detector] = kept.names | changes.keys()
        return changes

    def _gone(self, now: int) -> dict[str, Pieces | None]:
        """Checkpoints to be deleted: of detectors that have not been here for a while."""
        self._in_it, self._segments_in_it = {}, ()
        if now < self._gone_at:
            return {}
        self._gone_at = now + EVERY
        hosted, elsewhere = self.event_path.hosted, (self.event_path.moving, self._reading, self._found)

        def away(detector: str) -> bool:
            return detector not in hosted and not any(detector in each for each in elsewhere)

        self._away = {each: self._away.get(each, now) for each in self.written if each not in hosted and away(each)}
        gone = [each for each, since in self._away.items() if now - since > DELETED_AFTER]
        if self._left and now - self._known_at > KEPT_FOR:
            gone += sorted(each for each in self._left if away(detector_of(each)))
        self._in_it = dict.fromkeys(gone)
        for each in [each for each in self._segments if each in gone or each not in self.event_path.output.durable]:
            self._old_segments.update(dict.fromkeys(self._segments.pop(each)))
        self._segments_in_it = tuple(self._old_segments)
        return dict.fromkeys([*gone, *self._old_segments])

    def _due(self, now: int) -> Iterator[HostedDetector]:
        """Detectors whose turn it is, and that have news."""
        hosted = self.event_path.hosted
        if now - self._round_at >= EVERY:
            left = list(self._round)
            self._round, self._round_at = iter(dict.fromkeys([*left, *hosted])), now
        number = instances = 0
        for identity in self._round:
            each = hosted.get(identity)
            if each is None or not self._has_news(each, now):
                continue
            yield each
            number += 1
            instances += each.detector.live
            if number >= AT_ONCE or instances >= INSTANCES_AT_ONCE:
                return

    def _has_news(self, hosted: HostedDetector, now: int) -> bool:
        """Whether a checkpoint of a detector is due."""
        if not hosted.movable or not hosted.primary or not self.event_path.settle_base(hosted):
            return False
        if hosted.detector.policy.base is None:
            # It is not known yet where it has begun to read.
            return False
        written = self.written.get(hosted.id)
        if written is None or now - written.at >= UNCHANGED_EVERY:
            return True
        policy, received = hosted.detector.policy, written.received
        if policy is received.policy and policy.messages - received.messages >= UNCOVERED:
            return True
        # A checkpoint is of use to those that were served then (`take`).
        present = (hosted.detector.changes, hosted.output.number, hosted.subscriptions.mark)
        return present != (written.changes, written.number, written.served)

    def _checkpoint(self, hosted: HostedDetector, policies: dict[int, bytes], now: int) -> Checkpoint:
        """Checkpoint of a detector; `policies`: states of policies at this instant, by identity."""
        policy = hosted.detector.policy
        state = policies.get(id(policy))
        if state is None:
            state = policies[id(policy)] = pack_policy(policy)
        return Checkpoint(
            now,
            tuple(cut_of(place, each) for place, each in hosted.planned.places),
            hosted.planned.parts,
            hosted.detector.snapshot(policy=False),
            tuple(hosted.subscriptions),
            hosted.constituents,
            hosted.derivations,
            self.event_path.output.hand_on(hosted, hosted.detector.watermark, now - FRAMES_FOR),
            {each: read for each, streams in hosted.streams.items() if (read := streams.state())},
            dict(hosted.upstream),
            state,
        )

    # Reading.

    def reads(self, detector: str) -> bool:
        """Whether checkpoints of a detector are being read, so that it is about to be here."""
        return detector in self._reading

    def has_read(self, detector: str) -> bool:
        """Whether checkpoints of a detector were read that it has not been created from yet."""
        return detector in self._found

    def drop(self, detector: str) -> None:
        """Drop checkpoints that were read of a detector that nobody wants any more."""
        self._found.pop(detector, None)

    def read(self, detector: str, name: str, hosting: Hosting, now: int) -> list[Effect] | None:
        """Read the checkpoints of a detector that is to be hosted for a subscription; None where that is done."""
        if not self.kept or detector in self._found:
            return None
        there = self._reading.get(detector)
        if there is None:
            there = self._reading[detector] = _Reading(now)
        there.waiting[name] = hosting
        return [Load(detector)] if len(there.waiting) == 1 else []

    def found(
        self, detector: str, contents: Iterable[Pieces], problem: str, now: int
    ) -> tuple[dict[str, Hosting], list[Effect]]:
        """Take the checkpoints of a detector: what is to be hosted now, by subscription, and effects."""
        reading = self._reading.get(detector)
        if reading is None:
            return {}, []
        effects: list[Effect] = []
        checkpoints: list[Checkpoint] = []
        problems = [problem] if problem else []
        runs: list[KeptRun] = []
        for each in contents:
            try:
                if len(each) == 1:
                    runs.append(unpack_run(each))
                else:
                    checkpoints.append(unpack(each))
            except SnapshotError as error:
                problems.append(str(error))
        kept = merged(runs)
        checkpoints = [replace(each, output=replace(each.output, kept=kept)) for each in checkpoints]
        effects += [warning("checkpoint not read", detector=detector, reason=each) for each in problems]
        if problem and not checkpoints and now - reading.since < READ_WITHIN:
            reading.again_at = now + READ_AGAIN
            return {}, effects
        del self._reading[detector]
        self._found[detector] = now, checkpoints
        return reading.waiting, effects

    def take(self, detector: str, name: str) -> Checkpoint | None:
        """The last checkpoint of a detector that is created for a subscription; None where there is none of use."""
        _, checkpoints = self._found.pop(detector, (0, []))

        def is_there(each: str) -> bool:
            if each == name or each in self.directory.subscriptions:
                return True
            # The subscription of a reader to a part is named after its node, too.
            reader = _reader(each)
            return bool(reader) and (reader == _reader(name) or reader in self.directory.detectors)

        useful = [each for each in checkpoints if any(map(is_there, each.subscriptions))]
        return max(useful, key=lambda each: (each.output.watermark or INSTANT_MIN, each.at), default=None)

    def late(self, now: int) -> list[str]:
        """Detectors whose checkpoints are not read in time."""
        return [
            name
            for name, each in self._reading.items()
            if now - each.since >= (SLOW_READ_WITHIN if each.again_at is None else READ_WITHIN)
        ]


def _reader(subscription: str) -> str:
    """Detector that subscribes to a part by this name; empty for the subscription of an application."""
    return subscription.split(" ")[0] if part_of(subscription) else ""
