"""Output streams of a node: frames of its detectors, numbered, and recent ones kept for readers that lack some.

Each host of a detector numbers its frames from 1 in a *life* of its own (`middleware.wire.replica_streams`), which is
complete from a *base* on: the watermark with which the state came, or the first one of a detector without a state. A
detector that moves takes the recent frames of the life before along, so that its readers get from the new host what
they have missed of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.effects import Publish
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.kept_frames import KeptFrames
from distced.brokers.node.output import EndedLife
from distced.middleware.model.events import CompositeEvent, OpenGap
from distced.middleware.model.timestamps import INSTANT_MIN, MINUTE
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.node_messages import HandedOn, KeptFrame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.published_streams import (
    AT_ONCE,
    HANDED_ON_BYTES,
    NOT_KEPT,
    KeptMessages,
    again,
    unavailable,
    within,
)
from distced.middleware.wire.topics import composite_topic

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of kept frames of all detectors of a node."""

KEPT_FOR: Final = 5 * MINUTE
"""Age of kept frames, ns: a reader that was lost without a will is found dead, and has another host, after two minutes
or more (`brokers.node.renewals`)."""

_LOST: Final = "its host was lost"

LIVES_HANDED_ON: Final = 3
"""Number of earlier lives whose last frames a detector takes along: of readers that were away meanwhile."""

MOST_LIVES: Final = 1_000
"""The same of a detector with durable subscriptions, whose readers may be away for long."""

TOO_MUCH: Final = "more than the limit of the durable subscription was to be kept"
"""Reason of a loss."""

CHECKPOINT_BYTES: Final = 1024 * 1024
"""Bytes of the frames in a checkpoint: that of a reader that is lost at the same time may be older by seconds."""


class OutputStreams:
    """Output of a node's detectors."""

    def __init__(self, root: str, events_over: str = "") -> None:
        """Args: events_over: connection of events at the server of the directory."""
        self._root = root
        self._events_over = events_over
        self._kept = KeptMessages(KEPT_BYTES, KEPT_FOR)
        # Of detectors with durable subscriptions.
        self.durable: dict[str, KeptFrames] = {}

    def frame(
        self,
        hosted: HostedDetector,
        found: Sequence[CompositeEvent],
        watermark: int | None,
        now: int,
        losses: Sequence[Loss] = (),
    ) -> Publish:
        """Next frame of a detector."""
        if not hosted.constituents:
            found = [replace(each, events=()) if each.events else each for each in found]
        canonical = hosted.detector.compiled.canonical_id
        opens: list[OpenGap] = []
        if hosted.derivations and hosted.gaps_due and watermark is not None:
            hosted.gaps_sent()
            opens = hosted.detector.open_gaps()
        output = hosted.output
        content = bool(found or opens or losses)
        top = output.top
        payload = encode_frame(
            found,
            type=hosted.detector.compiled.publishes.name or canonical,
            source=canonical,
            watermark=watermark,
            kind="c",
            check=False,
            open=opens,
            number=output.number,
            top=None if top is None or (watermark is not None and top <= watermark) else top,
            losses=losses,
            life=output.life,
            base=None if content and output.number > 1 else output.base,
        )
        if content:
            number = output.number
            self._kept.keep((hosted.id, output.life), number, payload, top, now)
            output.sent(max([each.hi for each in found], default=None))
            output.found += len(found)
            durable = self.durable.get(hosted.id)
            if durable is not None:
                reach = max([each.until for each in losses] + [INSTANT_MIN if output.top is None else output.top])
                durable.keep(output.life, number, KeptFrame(payload, top, reach, len(found), now))
        return Publish(composite_topic(hosted.detector.id, root=self._root), payload, home=self._over(hosted.home))

    def rest(self, now: int) -> None:
        """Drop old frames."""
        self._kept.rest(now)

    # Frames for durable subscriptions.

    def keep(self, detector: str, most_bytes: int) -> KeptFrames:
        """Keep the frames of a detector from now on, up to a limit of bytes, until they are taken."""
        kept = self.durable.get(detector)
        if kept is None:
            kept = self.durable[detector] = KeptFrames(detector, most_bytes)
        kept.most_bytes = most_bytes
        return kept

    def keep_no_more(self, detector: str) -> None:
        """Keep the frames of a detector no longer than others."""
        self.durable.pop(detector, None)

    def _first(self, detector: str, life: int, begin: int, end: int) -> int:
        """Number of the first kept frame at or behind `begin`, `end` where there is none."""
        first, durable = self._kept.first((detector, life), begin, end), self.durable.get(detector)
        number = None if durable is None else durable.first(life)
        return first if number is None or number >= first else max(number, begin)

    def _payloads(self, detector: str, life: int, begin: int, end: int) -> list[bytes]:
        durable = self.durable.get(detector)
        number = None if durable is None else durable.first(life)
        if durable is None or number is None or number > begin:
            return self._kept.payloads((detector, life), begin, end)
        return durable.payloads(life, begin, end)

    def _top(self, detector: str, life: int, number: int) -> int | None:
        top, durable = self._kept.top((detector, life), number), self.durable.get(detector)
        return durable.top(life, number) if top is None and durable is not None else top

    def answer(self, missing: Missing, home: str, hosted: HostedDetector, asked: MissingMessages) -> Iterator[Publish]:
        """Answer to a reader of a detector here; nothing as long as it is not known what there is."""
        output, over = hosted.output, self._over(home)
        lost = Unavailable("c", hosted.id, 0, life=asked.life)
        if not asked.begin and asked.end == 0:
            yield unavailable(missing.reader, self._position(hosted), self._root, over)
            return
        ended = output.ended.get(asked.life)
        for life, each in output.ended.items():
            if life > asked.life or ended is None:
                # The reader may not know of a life between that one and the present, or beside it.
                later = replace(lost, life=life, base=each.base, ended=(each.number, each.watermark))
                yield unavailable(missing.reader, later, self._root, over)
        if asked.life != output.life and ended is None:
            if output.base is not None:
                lost = replace(lost, reason=_LOST)
                yield unavailable(missing.reader, lost, self._root, over)
            return
        following, top = (output.number, output.top) if ended is None else (ended.number, ended.watermark)
        end = following if asked.end is None else min(asked.end, following)
        begin = self._first(hosted.id, asked.life, asked.begin, following)
        if begin > asked.begin:
            first = self._top(hosted.id, asked.life, begin) if begin < following else top
            durable = self.durable.get(hosted.id)
            reason = TOO_MUCH if durable is not None and durable.dropped else NOT_KEPT
            lost = replace(lost, before=min(begin, end), top=first, reason=reason)
        if lost.before or ended is not None:
            of = None if ended is None else (ended.number, ended.watermark)
            yield unavailable(missing.reader, replace(lost, ended=of), self._root, over)
            behind = ended is not None and asked.begin >= ended.number
            if behind and ended is not None and (asked.begin > ended.number or asked.end is not None):
                # Published behind the checkpoint of this host.
                gone = Unavailable("c", hosted.id, 0, life=asked.life, reason=_LOST)
                yield unavailable(missing.reader, gone, self._root, over)
        elif asked.end is None and begin == following:
            # Nothing is missing; the reader looks whether there is still somebody.
            lost = self._position(hosted)
            if ended is None:
                yield unavailable(missing.reader, lost, self._root, over)
        last = min(end, begin + within(asked, AT_ONCE))
        payloads = self._payloads(hosted.id, asked.life, begin, last)
        yield from again(missing.reader, asked, payloads, self._root, over)

    def _position(self, hosted: HostedDetector) -> Unavailable:
        """Position of a detector, with its last watermark."""
        output, policy = hosted.output, hosted.detector.policy
        watermark = None if policy.name == "best-effort" or output.base is None else hosted.published
        return Unavailable(
            "c", hosted.id, output.number, output.top, position=True, life=output.life, base=output.base,
            watermark=watermark,
        )  # fmt: skip

    # For a detector that moves.

    def hand_on(self, hosted: HostedDetector, watermark: int | None, since: int = INSTANT_MIN) -> HandedOn:
        """Output of a detector that leaves, with its last watermark, ns; frames published before an instant are left
        out, ns. Those kept for durable subscriptions go along where the others do, else a store has them."""
        output, durable = hosted.output, self.durable.get(hosted.id)
        lives = list(output.ended.items())[-(LIVES_HANDED_ON if durable is None else MOST_LIVES) :]
        most = HANDED_ON_BYTES if since == INSTANT_MIN else CHECKPOINT_BYTES
        before = tuple(self._life(hosted.id, life, each, since, most) for life, each in lives)
        here = self._life(hosted.id, output.life, EndedLife(output.number, watermark, output.base), since, most)
        kept = durable.runs() if durable is not None and since == INSTANT_MIN else ()
        return replace(here, losses=tuple(output.losses), before=before, kept=kept)

    def _life(self, detector: str, life: int, ended: EndedLife, since: int, most: int) -> HandedOn:
        """Last frames of one life, up to some bytes."""
        stream = detector, life
        frames: list[bytes] = []
        size, number = 0, ended.number
        while number > 1 and size < most:
            number -= 1
            found = self._kept.payloads(stream, number, number + 1)
            if not found or self._kept.at(stream, number) < since:
                number += 1
                break
            frames.append(found[0])
            size += len(found[0])
        frames.reverse()
        top = self._kept.top(stream, number)
        return HandedOn(life, ended.number, ended.watermark, number, tuple(frames), top, base=ended.base)

    def take_over(self, hosted: HostedDetector, before: HandedOn, now: int) -> None:
        """Continue a detector that has come, behind the output of its hosts before."""
        output, detector = hosted.output, hosted.detector
        # With the state it has all that the host before had, and under best effort nobody can wait for more.
        reached = None if detector.policy.name == "best-effort" else detector.watermark
        output.begin(now, before.life, INSTANT_MIN if reached is None else reached, empty=False)
        output.lose(before.losses)
        lives = [*before.before, before]
        output.ended = {
            each.life: EndedLife(each.number, each.watermark, each.base) for each in lives if each.watermark is not None
        }
        for each in lives:
            for number, payload in enumerate(each.frames, each.first):
                top = each.top if number == each.first else None
                self._kept.keep((hosted.id, each.life), number, payload, top, now)
        durable = self.durable.get(hosted.id)
        if durable is not None:
            for run in before.kept:
                ended = output.ended.get(run.life)
                # Of a checkpoint before the last one, what follows is found again.
                frames = () if ended is None else run.frames[: max(ended.number - run.first, 0)]
                for number, frame in enumerate(frames, run.first):
                    durable.keep(run.life, number, frame)

    def _over(self, home: str) -> str:
        return home or self._events_over
