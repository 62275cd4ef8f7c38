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
from distced.brokers.node.output import EndedLife
from distced.middleware.model.events import CompositeEvent, OpenGap
from distced.middleware.model.timestamps import INSTANT_MIN, MINUTE
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.node_messages import HandedOn
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.published_streams import AT_ONCE, NOT_KEPT, KeptMessages, again, unavailable, within
from distced.middleware.wire.topics import composite_topic

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of kept frames of all detectors of a node."""

KEPT_FOR: Final = MINUTE
"""Age of kept frames, ns."""

_LOST: Final = "its host was lost"

LIVES_HANDED_ON: Final = 3
"""Number of earlier lives whose last frames a detector takes along: of readers that were away meanwhile."""

HANDED_ON_BYTES: Final = 64 * 1024
"""Bytes of the frames that a detector takes along."""


class OutputStreams:
    """Output of a node's detectors."""

    def __init__(self, root: str, events_over: str = "") -> None:
        """Args: events_over: connection of events at the server of the directory."""
        self._root = root
        self._events_over = events_over
        self._kept = KeptMessages(KEPT_BYTES, KEPT_FOR)

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
            type=hosted.publishes or canonical,
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
            self._kept.keep((hosted.id, output.life), output.number, payload, top, now)
            output.sent(max([each.hi for each in found], default=None))
        return Publish(composite_topic(hosted.detector.id, root=self._root), payload, home=self._over(hosted.home))

    def rest(self, now: int) -> None:
        """Drop old frames."""
        self._kept.rest(now)

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
        stream = hosted.id, asked.life
        end = following if asked.end is None else min(asked.end, following)
        begin = self._kept.first(stream, asked.begin, following)
        if begin > asked.begin:
            first = self._kept.top(stream, begin) if begin < following else top
            lost = replace(lost, before=min(begin, end), top=first, reason=NOT_KEPT)
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
        payloads = self._kept.payloads(stream, begin, min(end, begin + within(asked, AT_ONCE)))
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
        out, ns."""
        output = hosted.output
        before = tuple(
            self._life(hosted.id, life, each, since) for life, each in list(output.ended.items())[-LIVES_HANDED_ON:]
        )
        here = self._life(hosted.id, output.life, EndedLife(output.number, watermark, output.base), since)
        return replace(here, losses=tuple(output.losses), before=before)

    def _life(self, detector: str, life: int, ended: EndedLife, since: int) -> HandedOn:
        """Last frames of one life."""
        stream = detector, life
        frames: list[bytes] = []
        size, number = 0, ended.number
        while number > 1 and size < HANDED_ON_BYTES:
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
        output, policy = hosted.output, hosted.detector.policy
        # With the state it has all that the host before had, and under best effort nobody can wait for more.
        reached = None if policy.name == "best-effort" else policy.watermark
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

    def _over(self, home: str) -> str:
        return home or self._events_over
