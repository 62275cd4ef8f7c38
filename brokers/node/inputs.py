"""Inputs of a node: detectors that wait for the same sources share a policy and a pass over the released events.

A detector shares an input where it reads primitive events only, and nobody reads its derivations. Detectors of cut
patterns, their parts, and readers of composite events have inputs of their own, as what they wait for comes and goes
with other detectors; such a detector costs a call for each of its frames, however few events concern it.

A new detector joins its input at once. One that has arrived from another node runs by itself until it is level with the
input, so that nothing is consumed twice or never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from distced.brokers.node.hosted import UNREAD_EVERY, HostedDetector
from distced.brokers.node.metering import DetectorMeter
from distced.detectors.runtime.detection_policy import Arrival
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.shared_input import SharedInput
from distced.middleware.model.timestamps import MICROSECOND, MILLISECOND

UNREAD_AT_ONCE: Final = 25
"""Number of watermarks that no detector waits for, published at once by an input; more detectors take turns."""

PUBLISHED_AT_ONCE: Final = 2_000
"""Largest number of detectors in a turn whose clients hear the watermark together, in one message each."""

UNREAD_PAUSE: Final = 20 * MILLISECOND
"""Least time between two turns, ns: short turns, as events wait for them."""

PUBLISHED_EVERY: Final = 50 * MICROSECOND
"""Time per detector of a turn, ns: a hundred thousand detectors have theirs in five seconds."""

UNREAD_ONE_EVERY: Final = 10 * MILLISECOND
"""Time per detector of a turn whose watermark goes out by itself, ns."""

InputKey: TypeAlias = tuple[str, frozenset[str] | None]
"""Detection policy, and types of primitive events; None for every type."""


@dataclass(slots=True, eq=False)
class HostedInput:
    """Input of several detectors here.

    Attributes:
        reads: types of primitive events; None for every type. Constant.
        hosted: all detectors of the node, by id.
        read: members whose composite events a detector reads by their type, and waits for; by id.
        meter: bytes and events received, on behalf of the members.
        arrivals: frames since the last pass, in the order of arrival.
    """

    shared: SharedInput
    reads: frozenset[str] | None
    meter: DetectorMeter
    hosted: Mapping[str, HostedDetector]
    read: dict[str, HostedDetector] = field(default_factory=dict)
    arrivals: Sequence[Arrival] = ()
    # Ids of the members whose turn is yet to come, in a crowd; None between two rounds. Time of the next turn, ns.
    _round: Iterator[str] | None = None
    _turn_at: int = 0
    # The watermark at the beginning of the round, and of few members the number that have not had theirs at it.
    _watermark: int | None = None
    _behind: int = 0

    @property
    def members(self) -> list[HostedDetector]:
        """Its detectors; all run."""
        return [self.hosted[identity] for identity in self.shared.members]

    @property
    def name(self) -> str:
        """Its only detector, or the number of its detectors, for messages."""
        members = self.shared.members
        return next(iter(members)) if len(members) == 1 else f"{len(members)} detectors"

    def takes(self, type_name: str) -> bool:
        """Whether it reads primitive events of a type."""
        return self.reads is None or type_name in self.reads

    def add(self, hosted: HostedDetector) -> None:
        """Add a detector, behind the watermark of the input."""
        self.shared.add(hosted.detector)
        self.readers_known(hosted)
        self.due_again()
        if hosted.meter is not None:
            hosted.meter.input = self.meter

    def remove(self, hosted: HostedDetector) -> None:
        """Remove a detector; its own policy is for the caller to set up (`Detector.part`)."""
        self.read.pop(hosted.id, None)
        self.shared.remove(hosted.detector)
        if hosted.meter is not None:
            hosted.meter.input = None

    def readers_known(self, hosted: HostedDetector) -> None:
        """Note whether a member's composite events are read by their type."""
        if hosted.has_readers:
            self.read[hosted.id] = hosted
        else:
            self.read.pop(hosted.id, None)

    def due_again(self) -> None:
        """Mark the watermarks of members as due."""
        self._turn_at, self._watermark = 0, None

    def is_turn(self, watermark: int, now: int) -> bool:
        """Whether any watermark may be due."""
        if self.read:
            return True
        in_progress = self._behind > 0 or self._round is not None
        return now >= self._turn_at and (in_progress or watermark != self._watermark)

    def watermarks_due(self, watermark: int, now: int) -> Iterator[HostedDetector]:
        """Members whose watermark is due now: those with readers, and where there is no crowd the others."""
        yield from self.read.values()
        if len(self.shared.members) > UNREAD_AT_ONCE:
            return
        self._round = None
        if watermark != self._watermark:
            self._watermark, self._behind = watermark, len(self.shared.members)
        if not self._behind or now < self._turn_at:
            return
        self._turn_at, self._behind = now + UNREAD_EVERY, 0
        for hosted in self.members:
            at, every = hosted.published_at, hosted.unread_every
            if at is None or (hosted.published != watermark and now - at >= every):
                yield hosted
            else:
                self._turn_at = min(self._turn_at, at + every)
                self._behind += hosted.published != watermark

    def turn(self, watermark: int, now: int) -> list[HostedDetector]:
        """Next members of a large input for the publication of their watermark; more, the later it is."""
        found: list[HostedDetector] = []
        if len(self.shared.members) <= UNREAD_AT_ONCE or now < self._turn_at:
            return found
        if self._round is None and watermark != self._watermark:
            self._round, self._watermark = iter(list(self.shared.members)), watermark
        if self._round is None:
            return found
        since = now - self._turn_at + UNREAD_PAUSE
        most, most_alone = (
            min(PUBLISHED_AT_ONCE, since // PUBLISHED_EVERY),
            min(UNREAD_AT_ONCE, since // UNREAD_ONE_EVERY),
        )
        self._turn_at, self._behind = now + UNREAD_PAUSE, 0
        alone = 0
        for identity in self._round:
            if identity not in self.shared.members:
                continue
            found.append(self.hosted[identity])
            alone += not found[-1].published_together
            if len(found) == most or alone == most_alone:
                return found
        self._round = None
        return found

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        assert self.shared.members and self.read.keys() <= self.shared.members.keys(), self.name
        for hosted in self.members:
            assert hosted.running and hosted.reads == self.reads, hosted.id
            assert (hosted.id in self.read) == hosted.has_readers, hosted.id
        self.shared.validate()


class Inputs:
    """Shared inputs of a node, and the running detectors with inputs of their own.

    Attributes:
        shared: by what they read; none is empty.
        alone: detectors by id.
    """

    def __init__(self, hosted: Mapping[str, HostedDetector], engines: Engines | None = None) -> None:
        """Args: hosted: the detectors of the node, by id. engines: settings of the engine choice; None for stepwise
        engines in any case."""
        self._engines = engines
        self.shared: dict[InputKey, HostedInput] = {}
        self.alone: dict[str, HostedDetector] = {}
        self._hosted = hosted

    def readers(self) -> list[HostedInput | HostedDetector]:
        """All inputs: shared ones, and detectors with inputs of their own."""
        return [*self.shared.values(), *self.alone.values()]

    def of(self, hosted: HostedDetector) -> HostedInput | None:
        """Shared input of a detector; None for one of its own."""
        there = self.shared.get(_key(hosted))
        return there if there is not None and hosted.id in there.shared.members else None

    def members(self) -> set[str]:
        """Ids of all detectors with an input."""
        return self.alone.keys() | {each for there in self.shared.values() for each in there.shared.members}

    def begin(self, hosted: HostedDetector) -> None:
        """Give a detector that runs from now on an input of its own, unless it has joined one."""
        if self.of(hosted) is None:
            self.alone[hosted.id] = hosted

    def end(self, hosted: HostedDetector) -> None:
        """Remove a detector, which does not run here any more."""
        self.alone.pop(hosted.id, None)
        there = self.of(hosted)
        if there is not None:
            there.remove(hosted)
            if not there.shared.members:
                del self.shared[_key(hosted)]

    def join(self, hosted: HostedDetector) -> bool:
        """Let a new detector share an input that is there; False where there is none for it."""
        there = self.shared.get(_key(hosted)) if may_share(hosted) else None
        if there is None:
            return False
        there.add(hosted)
        return True

    def separate(self, hosted: HostedDetector) -> None:
        """Give a running detector an input of its own, from where its shared one is."""
        if self.of(hosted) is not None:
            self.end(hosted)
            hosted.detector.part()
            self.alone[hosted.id] = hosted

    def merge(self, now: int) -> bool:
        """Let detectors with inputs of their own share, where they may and are level; True where any did."""
        return sum(self.merge_one(hosted, now) for hosted in list(self.alone.values())) > 0

    def merge_one(self, hosted: HostedDetector, now: int) -> bool:
        """Let a detector with an input of its own share, as the first one or where it is level; True where it does."""
        if not may_share(hosted):
            return False
        policy, key = hosted.detector.policy, _key(hosted)
        there = self.shared.get(key)
        if there is None:
            made = SharedInput(policy, self._engines)
            there = self.shared[key] = HostedInput(made, hosted.reads, DetectorMeter(now), self._hosted)
        elif not policy.is_level_with(there.shared.policy):
            return False
        del self.alone[hosted.id]
        there.add(hosted)
        return True

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        for key, there in self.shared.items():
            there.validate()
            assert all(_key(each) == key and may_share(each) for each in there.members), key
            assert there.shared.members.keys().isdisjoint(self.alone)
        for identity, hosted in self.alone.items():
            assert hosted.running, identity


def may_share(hosted: HostedDetector) -> bool:
    """Whether a detector waits for sources of primitive events only, keeps no derivations, and consumes no recorded
    events."""
    return not (hosted.parts or hosted.upstream or hosted.detector.keeps_derivations or hosted.detector.in_history)


def _key(hosted: HostedDetector) -> InputKey:
    return hosted.detector.policy.name, hosted.reads
