"""Inputs of a node: detectors that wait for the same sources share a policy and a pass over the released events.

A detector shares an input where it reads primitive events only, and nobody reads its derivations. Detectors of cut
patterns, their parts, and readers of composite events have inputs of their own, as what they wait for comes and goes
with other detectors; such a detector costs a call for each of its frames, however few events concern it.

A new detector joins its input at once. One that has arrived from another node runs by itself until it is level with the
input, so that nothing is consumed twice or never.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from distced.brokers.node.hosted import UNREAD_EVERY, HostedDetector
from distced.brokers.node.metering import DetectorMeter
from distced.detectors.runtime.detection_policy import Arrival
from distced.detectors.runtime.shared_input import SharedInput
from distced.middleware.model.timestamps import MILLISECOND

UNREAD_AT_ONCE: Final = 25
"""Number of watermarks that no detector waits for, published at once by an input; more detectors take turns."""

UNREAD_PAUSE: Final = 250 * MILLISECOND
"""Time between two turns, ns: a hundred watermarks per second."""

InputKey: TypeAlias = tuple[str, frozenset[str] | None]
"""Detection policy, and types of primitive events; None for every type."""


@dataclass(slots=True, eq=False)
class HostedInput:
    """Input of several detectors here.

    Attributes:
        reads: types of primitive events; None for every type. Constant.
        members: by id; all run, and refer to this input.
        read: members whose composite events a detector reads by their type, and waits for; by id.
        meter: bytes and events received, on behalf of the members.
        arrivals: frames since the last pass, in the order of arrival.
    """

    shared: SharedInput
    reads: frozenset[str] | None
    meter: DetectorMeter
    members: dict[str, HostedDetector] = field(default_factory=dict)
    read: dict[str, HostedDetector] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    # Members in the order in which their watermarks are published, and the time of the next turn, ns.
    _turns: OrderedDict[str, HostedDetector] = field(default_factory=OrderedDict)
    _turn_at: int = 0
    # The watermark of the turns, and the number of members that have not had theirs at it.
    _watermark: int | None = None
    _behind: int = 0

    @property
    def name(self) -> str:
        """Its only detector, or the number of its detectors, for messages."""
        return next(iter(self.members), "") if len(self.members) == 1 else f"{len(self.members)} detectors"

    def takes(self, type_name: str) -> bool:
        """Whether it reads primitive events of a type."""
        return self.reads is None or type_name in self.reads

    def add(self, hosted: HostedDetector) -> None:
        """Add a detector, behind the watermark of the input."""
        self.members[hosted.id] = hosted
        self.shared.add(hosted.detector)
        self.readers_known(hosted)
        self._turns[hosted.id] = hosted
        self._turns.move_to_end(hosted.id, last=False)
        self._turn_at, self._watermark = 0, None
        if hosted.meter is not None:
            hosted.meter.input = self.meter

    def remove(self, hosted: HostedDetector) -> None:
        """Remove a detector; its own policy is for the caller to set up (`Detector.part`)."""
        del self.members[hosted.id]
        self.read.pop(hosted.id, None)
        del self._turns[hosted.id]
        self.shared.remove(hosted.detector)
        if hosted.meter is not None:
            hosted.meter.input = None

    def readers_known(self, hosted: HostedDetector) -> None:
        """Note whether a member's composite events are read by their type."""
        if hosted.has_readers:
            self.read[hosted.id] = hosted
        else:
            self.read.pop(hosted.id, None)

    def is_turn(self, watermark: int, now: int) -> bool:
        """Whether any watermark may be due."""
        return bool(self.read) or (now >= self._turn_at and (self._behind > 0 or watermark != self._watermark))

    def watermarks_due(self, watermark: int, now: int) -> Iterator[HostedDetector]:
        """Members whose watermark is to be published now, with or without readers."""
        yield from self.read.values()
        if watermark != self._watermark:
            self._watermark, self._behind = watermark, len(self._turns)
        if not self._behind or now < self._turn_at:
            return
        if len(self._turns) <= UNREAD_AT_ONCE:
            self._turn_at, self._behind = now + UNREAD_EVERY, 0
            for hosted in self._turns.values():
                at = hosted.published_at
                if at is None or (hosted.published != watermark and now - at >= UNREAD_EVERY):
                    yield hosted
                else:
                    self._turn_at = min(self._turn_at, at + UNREAD_EVERY)
                    self._behind += hosted.published != watermark
            return
        self._turn_at = now + UNREAD_PAUSE
        for _ in range(min(UNREAD_AT_ONCE, self._behind)):
            identity = next(iter(self._turns))
            self._turns.move_to_end(identity)
            self._behind -= 1
            yield self._turns[identity]

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        assert self.members and self.members.keys() == self.shared.members.keys(), self.name
        assert self._turns.keys() == self.members.keys() >= self.read.keys(), self.name
        for identity, hosted in self.members.items():
            assert hosted.running and hosted.reads == self.reads, identity
            assert (identity in self.read) == hosted.has_readers, identity
        self.shared.validate()


class Inputs:
    """Shared inputs of a node, and the running detectors with inputs of their own.

    Attributes:
        shared: by what they read; none is empty.
        alone: detectors by id.
    """

    def __init__(self) -> None:
        self.shared: dict[InputKey, HostedInput] = {}
        self.alone: dict[str, HostedDetector] = {}
        # Shared input of each member, by its id.
        self._of: dict[str, HostedInput] = {}

    def readers(self) -> list[HostedInput | HostedDetector]:
        """All inputs: shared ones, and detectors with inputs of their own."""
        return [*self.shared.values(), *self.alone.values()]

    def of(self, identity: str) -> HostedInput | None:
        """Shared input of a detector; None for one of its own."""
        return self._of.get(identity)

    def members(self) -> set[str]:
        """Ids of all detectors with an input."""
        return self.alone.keys() | self._of.keys()

    def begin(self, hosted: HostedDetector) -> None:
        """Give a detector that runs from now on an input of its own, unless it has joined one."""
        if hosted.id not in self._of:
            self.alone[hosted.id] = hosted

    def end(self, hosted: HostedDetector) -> None:
        """Remove a detector, which does not run here any more."""
        self.alone.pop(hosted.id, None)
        there = self._of.pop(hosted.id, None)
        if there is not None:
            there.remove(hosted)
            if not there.members:
                del self.shared[_key(hosted)]

    def join(self, hosted: HostedDetector) -> bool:
        """Let a new detector share an input that is there; False where there is none for it."""
        there = self.shared.get(_key(hosted)) if may_share(hosted) else None
        if there is None:
            return False
        self._add(there, hosted)
        return True

    def separate(self, hosted: HostedDetector) -> None:
        """Give a running detector an input of its own, from where its shared one is."""
        if hosted.id in self._of:
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
            there = self.shared[key] = HostedInput(SharedInput(policy), hosted.reads, DetectorMeter(now))
        elif not policy.is_level_with(there.shared.policy):
            return False
        del self.alone[hosted.id]
        self._add(there, hosted)
        return True

    def _add(self, there: HostedInput, hosted: HostedDetector) -> None:
        self._of[hosted.id] = there
        there.add(hosted)

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        members = dict[str, HostedInput]()
        for key, shared in self.shared.items():
            shared.validate()
            assert all(_key(each) == key and may_share(each) for each in shared.members.values()), key
            members |= dict.fromkeys(shared.members, shared)
        assert members == self._of and members.keys().isdisjoint(self.alone)
        for identity, hosted in self.alone.items():
            assert hosted.running, identity


def may_share(hosted: HostedDetector) -> bool:
    """Whether a detector waits for sources of primitive events only, and keeps no derivations."""
    return not (hosted.parts or hosted.upstream or hosted.detector.keeps_derivations)


def _key(hosted: HostedDetector) -> InputKey:
    return hosted.detector.policy.name, hosted.reads
