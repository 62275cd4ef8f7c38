"""Frames of a detector kept for durable subscriptions, until they are taken, within a limit of bytes.

Recent frames are kept for every reader (`middleware.wire.published_streams`); these are beside them, for readers that
are away for longer. They are kept in segments, in the order of publication, which are what a checkpoint writes: one is
written again until it is full, and never afterwards, so that a checkpoint of 64 MB costs what is new in it. A frame of
a life and a number is the same wherever it is found, so segments of several hosts are merged without agreement.

Rejected: a queue of composite events for each subscription (several share a detector, and a reader that resumes is one
that was disconnected for long: it knows what it lacks).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from distced.brokers.core.effects import Pieces
from distced.detectors.snapshot_format import seal, unseal
from distced.middleware.model.errors import SnapshotError
from distced.middleware.wire.node_messages import KeptFrame, KeptRun
from distced.middleware.wire.published_streams import OVERHEAD

SEGMENT_BYTES: Final = 128 * 1024
"""Size from which a segment is full."""

FORMAT: Final = "distced frames"
VERSION: Final = 1
SEPARATOR: Final = " "
"""Between a detector and the rest of the name of a segment in a store; no id of a detector has one."""

IsTaken = Callable[[int, int, int | None], bool]
"""Whether a frame is taken by all, by its life, its number, and the greatest `hi` up to it, ns; None for none."""

_decoder = msgspec.msgpack.Decoder(KeptRun)


class _Segment:
    """Frames of one life in a row; `begin` of them are dropped, and `written` of them are in the store."""

    __slots__ = ("begin", "first", "frames", "life", "size", "written")

    def __init__(self, life: int, first: int) -> None:
        self.life = life
        self.first = first
        self.frames: list[KeptFrame] = []
        self.begin = 0
        self.size = 0
        self.written = 0

    @property
    def end(self) -> int:
        """Number of the frame behind the last one."""
        return self.first + len(self.frames)

    def run(self) -> KeptRun:
        """Its frames that are not dropped."""
        return KeptRun(self.life, self.first + self.begin, tuple(self.frames[self.begin :]))


class KeptFrames:
    """Frames kept of one detector.

    Attributes:
        most_bytes: limit of their size.
        size, frames, events: bytes, with what it takes to keep them; numbers of frames, and of their composite events.
        dropped: number of composite events dropped beyond the limit.
    """

    def __init__(self, detector: str, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.size = self.frames = self.events = self.dropped = 0
        self._detector = detector
        self._segments: list[_Segment] = []
        # Names of segments in the store that are not needed any more; number of frames by segment in a write under way.
        self._gone: dict[str, None] = {}
        self._in_write: dict[str, int] = {}

    def keep(self, life: int, number: int, frame: KeptFrame) -> None:
        """Keep a frame; beyond the limit the oldest ones are dropped."""
        last = self._segments[-1] if self._segments else None
        if last is None or (last.life, last.end) != (life, number) or last.size >= SEGMENT_BYTES:
            last = _Segment(life, number)
            self._segments.append(last)
            self._gone.pop(self._name(last), None)
        last.frames.append(frame)
        last.size += len(frame.payload)
        self.size += len(frame.payload) + OVERHEAD
        self.frames += 1
        self.events += frame.events
        self.shrink(self.most_bytes)

    def shrink(self, most_bytes: int) -> None:
        """Drop the oldest frames beyond a limit of bytes."""
        while self.size > most_bytes:
            self.dropped += self._drop()

    def take(self, is_taken: IsTaken) -> None:
        """Drop the frames in front that are taken."""
        while self._segments:
            segment = self._segments[0]
            if not is_taken(segment.life, segment.first + segment.begin, segment.frames[segment.begin].reach):
                return
            self._drop()

    def _drop(self) -> int:
        """Drop the oldest frame; the number of its composite events."""
        segment = self._segments[0]
        dropped = segment.frames[segment.begin]
        segment.begin += 1
        self.size -= len(dropped.payload) + OVERHEAD
        self.frames -= 1
        self.events -= dropped.events
        if segment.begin == len(segment.frames):
            del self._segments[0]
            if segment.written or self._name(segment) in self._in_write:
                self._gone[self._name(segment)] = None
        return dropped.events

    @property
    def oldest(self) -> int:
        """Publication of the oldest frame, ns; 0 for none."""
        return self._segments[0].frames[self._segments[0].begin].at if self._segments else 0

    @property
    def lives(self) -> set[int]:
        """Lives with frames."""
        return {each.life for each in self._segments}

    # For readers.

    def first(self, life: int) -> int | None:
        """Number of the first kept frame of a life, from which on all are kept; None for none."""
        return next((each.first + each.begin for each in self._segments if each.life == life), None)

    def payloads(self, life: int, begin: int, end: int) -> list[bytes]:
        """Kept frames of a life from a number to another, exclusive."""
        of_life = [each for each in self._segments if each.life == life]
        found: list[bytes] = []
        place = max(bisect_right(of_life, begin, key=lambda each: each.first) - 1, 0)
        for each in of_life[place:]:
            if each.first >= end:
                break
            first = max(begin - each.first, each.begin)
            found += [frame.payload for frame in each.frames[first : max(end - each.first, 0)]]
        return found

    def top(self, life: int, number: int) -> int | None:
        """Greatest `hi` of all frames before a kept one, ns."""
        for each in self._segments:
            if each.life == life and each.first + each.begin <= number < each.end:
                return each.frames[number - each.first].top
        return None

    # For hosts, and stores.

    def runs(self) -> tuple[KeptRun, ...]:
        """All of them, in order."""
        return tuple(each.run() for each in self._segments)

    def changes(self) -> dict[str, Pieces | None]:
        """What a store lacks, by name of the segment; None for those to be deleted."""
        changed = [each for each in self._segments if len(each.frames) > each.written]
        self._in_write = {self._name(each): len(each.frames) for each in changed}
        found: dict[str, Pieces | None] = {
            self._name(each): (seal(FORMAT, VERSION, msgspec.msgpack.encode(each.run())),) for each in changed
        }
        return found | dict.fromkeys(self._gone)

    def written(self, names: Iterable[str]) -> None:
        """Take the end of a write of `changes` with these names."""
        number, self._in_write = self._in_write, {}
        for name in names:
            self._gone.pop(name, None)
        for each in self._segments:
            each.written = number.get(self._name(each), each.written)
        held = {self._name(each) for each in self._segments}
        self._gone.update(dict.fromkeys(name for name in number if name not in held))

    @property
    def names(self) -> set[str]:
        """Names of its segments in a store."""
        return {self._name(each) for each in self._segments if each.written} | self._gone.keys()

    def _name(self, segment: _Segment) -> str:
        return SEPARATOR.join((self._detector, str(segment.life), str(segment.first)))


def detector_of(name: str) -> str:
    """Detector of a checkpoint, or of a segment, by its name in a store."""
    return name.partition(SEPARATOR)[0]


def unpack_run(pieces: Pieces) -> KeptRun:
    """Frames of a segment from a store. Raises `SnapshotError` for another version, or damage."""
    try:
        return _decoder.decode(unseal(FORMAT, VERSION, pieces[0]))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise SnapshotError("damaged frames", given=str(error)) from None


def merged(runs: Iterable[KeptRun]) -> tuple[KeptRun, ...]:
    """Frames of several hosts as runs without gaps, by life; of each life the last run, up to which nothing is needed
    that is not there."""
    lives: dict[int, dict[int, KeptFrame]] = {}
    for run in runs:
        lives.setdefault(run.life, {}).update(enumerate(run.frames, run.first))
    found: list[KeptRun] = []
    for life, frames in sorted(lives.items()):
        first = last = max(frames)
        while first - 1 in frames:
            first -= 1
        found.append(KeptRun(life, first, tuple(frames[number] for number in range(first, last + 1))))
    return tuple(found)
