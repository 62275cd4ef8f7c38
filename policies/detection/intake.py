"""Intake of an input: numbered streams of its sources, by which it is complete or not (design, sections 2 and 4).

A watermark counts once all messages before it have come, over all streams of its source that are read; so a detector
that may have missed something stops promising. What is missing is requested by the node, and given up only where the
publisher does not have it, or the source is fenced off or has left; then it is a loss. Messages that come twice are
recognised by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import Begins, Positions
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import ASK_AGAIN, IncompleteStreams, Loss, NumberedStream, StreamPosition

_RESTARTED: Final = "its publisher has begun again"


class Intake:
    """Numbered streams of the sources of one input. Sources without numbers have none, and are taken as complete.

    Attributes:
        base: greatest `hi` of what sources may have published before they were read, ns; None for nothing.
        messages: number taken so far, here.
        unlocated: streams read from their middle whose positions are not known yet, so that `base` may rise.
    """

    def __init__(self) -> None:
        self.base: int | None = None
        self.messages = 0
        self.unlocated: set[tuple[str, str]] = set()
        # By source, then by name (type).
        self._streams: dict[str, dict[str, NumberedStream]] = {}
        self._incomplete: IncompleteStreams[tuple[str, str]] = IncompleteStreams()
        # Complete streams that continue from a state, and the instants of the next requests for their positions, ns.
        self._sought: dict[tuple[str, str], int] = {}

    def begin(self, source: str, begins: Begins, now: int) -> list[Loss]:
        """Begin the streams of a source, or continue them in another life of its publisher."""
        if not begins.first:
            return []
        losses: list[Loss] = []
        streams = self._streams.setdefault(source, {})
        for name in begins.streams:
            known = streams.get(name)
            if known is None:
                known = streams[name] = NumberedStream(None if begins.running else begins.first, begins.first)
                self._incomplete.note((source, name), known, now)
                if begins.running:
                    self.unlocated.add((source, name))
            elif not known.life and known.next is not None and known.next >= begins.first:
                # Read before it was announced, as by a server that had forgotten it: the same life.
                known.life = begins.first
            elif known.life != begins.first:
                loss = known.begin_life(begins.first, f"{source}: {_RESTARTED}")
                losses += [] if loss is None else [loss]
                self._incomplete.forget((source, name))
                self.unlocated.discard((source, name))
            elif not begins.running:
                # What has come since may be the last messages of the source.
                self._sought[source, name] = now
        return losses

    def take(self, source: str, position: StreamPosition, watermark: int | None, now: int) -> tuple[bool, int | None]:
        """Take a message: whether it is new, and the watermark of its source as far as everything has come, ns."""
        name, number, top = position
        self.messages += 1
        streams = self._streams.get(source)
        if streams is None:
            streams = self._streams[source] = {}
        stream = streams.get(name)
        if stream is None:
            # Of an unannounced source.
            stream = streams[name] = NumberedStream(number)
        new = stream.take(number, watermark, top)
        if self._incomplete or not stream.complete:
            self._incomplete.note((source, name), stream, now)
        return new, stream.watermark if len(streams) == 1 else _least(streams.values())

    def claim(self, source: str, positions: Positions, watermark: int, now: int) -> int | None:
        """Take a heartbeat with positions: the watermark of its source as far as everything has come, ns."""
        streams = self._streams.get(source)
        if not streams:
            return watermark
        # Without positions, of a source that is not in the directory for the moment, it says nothing.
        for name, number, top in positions:
            stream = streams.get(name)
            if stream is not None:
                stream.claim(number, watermark, top)
                if self._incomplete or not stream.complete:
                    self._incomplete.note((source, name), stream, now)
        return _least(streams.values())

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing, and all positions are known."""
        return not (self._incomplete or self._sought)

    def reads(self, source: str) -> bool:
        """Whether the messages of a source have numbers."""
        return bool(self._streams.get(source))

    def missing(self, now: int) -> list[tuple[str, str, int, int]]:
        """Missing messages to be requested now: source, stream, numbers from and to, the latter exclusive."""
        found = [(*key, begin, end) for key, begin, end in self._incomplete.due(now)] if self._incomplete else []
        for key, at in self._sought.items():
            if now >= at:
                self._sought[key] = now + ASK_AGAIN
                found.append((*key, 0, 0))
        return found

    def unavailable(self, lost: Unavailable, now: int) -> tuple[Loss | None, int | None]:
        """Take the answer to a request: the loss, and the watermark of the source as far as everything else has come,
        ns."""
        streams = self._streams.get(lost.source, {})
        stream = streams.get(lost.type)
        if stream is None:
            return None, None
        loss: Loss | None = None
        if lost.position:
            stream.located(lost.before, lost.top, lost.watermark)
            self.unlocated.discard((lost.source, lost.type))
            self._sought.pop((lost.source, lost.type), None)
            if stream.base is not None and (self.base is None or stream.base > self.base):
                self.base = stream.base
        else:
            loss = stream.give_up(lost.before, lost.top, f"{lost.source}: {lost.reason}")
        self._incomplete.note((lost.source, lost.type), stream, now)
        return loss, _least(streams.values())

    def streams(self) -> Iterator[tuple[str, str]]:
        """Streams that are read: source and name."""
        return ((source, name) for source, streams in self._streams.items() for name in streams)

    def received(self) -> dict[tuple[str, str], int]:
        """Of each stream the number of the first message that has not come; only where it is known."""
        return {
            (source, name): stream.next
            for source, streams in self._streams.items()
            for name, stream in streams.items()
            if stream.next is not None
        }

    def end(self, source: str, reason: str) -> list[Loss]:
        """End the streams of a source that is not waited for any more; what is missing is lost."""
        losses: list[Loss] = []
        for name, stream in self._streams.pop(source, {}).items():
            self._incomplete.forget((source, name))
            self.unlocated.discard((source, name))
            self._sought.pop((source, name), None)
            loss = None if stream.complete else stream.give_up(None, None, f"{source}: {reason}")
            losses += [] if loss is None else [loss]
        return losses

    # For a detector that moves.

    def is_level_with(self, other: Intake) -> bool:
        """Whether another intake has received the same messages, and nothing is missing."""
        if self._incomplete or other._incomplete or self._sought or other._sought:
            return False
        if self._streams.keys() != other._streams.keys():
            return False
        return all(
            streams.keys() == others.keys() and all(streams[name].is_level_with(others[name]) for name in streams)
            for streams, others in ((each, other._streams[source]) for source, each in self._streams.items())
        )

    def copy(self) -> Self:
        """An independent intake that continues from here."""
        made = type(self)()
        made.base, made.unlocated = self.base, set(self.unlocated)
        made._streams = {
            source: {name: stream.copy() for name, stream in streams.items()}
            for source, streams in self._streams.items()
        }
        made._note_all()
        return made

    def state(self) -> Any:
        """State as plain values."""
        return {
            source: {name: stream.state() for name, stream in streams.items()}
            for source, streams in self._streams.items()
        }

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        self._streams = {
            source: {name: NumberedStream.of(each) for name, each in streams.items()}
            for source, streams in state.items()
        }
        self._note_all()

    def _note_all(self) -> None:
        # Requested at once: the time until the first request has passed elsewhere.
        for source, streams in self._streams.items():
            for name, stream in streams.items():
                if not stream.complete:
                    self._incomplete.note((source, name), stream, 0)
                if stream.next is None:
                    self.unlocated.add((source, name))


class ReadsStreams:
    """Base of the detection policies: what they report of the numbered streams that they read.

    Attributes:
        intake: these streams.
    """

    intake: Intake

    @property
    def base(self) -> int | None:
        """Instant up to which sources may have published before they were read, ns; None for unknown as yet."""
        base = self.intake.base
        return None if self.intake.unlocated else INSTANT_MIN if base is None else base

    def streams(self) -> list[tuple[str, str]]:
        return list(self.intake.streams())

    @property
    def messages(self) -> int:
        """Number of messages with numbers taken so far, here."""
        return self.intake.messages

    def received(self) -> dict[tuple[str, str], int]:
        return self.intake.received()

    def missing(self, now: int) -> list[tuple[str, str, int, int]]:
        return self.intake.missing(now)


def _least(streams: Iterable[NumberedStream]) -> int | None:
    """Watermark of several streams: the least, None where one has none."""
    least: int | None = None
    for each in streams:
        if each.watermark is None:
            return None
        if least is None or each.watermark < least:
            least = each.watermark
    return least
