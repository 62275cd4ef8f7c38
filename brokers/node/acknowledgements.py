"""Durable acknowledgements: what a node's checkpoints cover of the streams of sources, published to their publishers.

These keep what is not covered (`middleware.wire.outbox`), so that the next host of a detector gets what came behind its
checkpoint. A stream is covered as far as in the checkpoints of all detectors that read it. Changes are published once a
second at most, and seldom where there are very many streams; everything again every half minute, as a message may be
lost, or the publisher may have started again.

Detectors of one input have one policy. Of their checkpoints the oldest counts, without a look at the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from distced.brokers.core.effects import Effect
from distced.brokers.node.shared import NodePart, Shared
from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.middleware.model.timestamps import MICROSECOND, SECOND
from distced.middleware.wire.administration import Covered
from distced.middleware.wire.codec import encode
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import administration_topic

EVERY: Final = SECOND
"""Least interval of acknowledgements, ns."""

STREAM_EVERY: Final = 20 * MICROSECOND
"""Interval for each stream of each input, ns: comparing takes 1 % of the time at most."""

ALL_EVERY: Final = 30 * SECOND
"""Interval at which all acknowledgements are repeated, ns."""

Numbers: TypeAlias = Mapping[tuple[str, str], int]
"""By source and type the number of the first message that is not covered."""


class Received(NamedTuple):
    """What a policy had received at an instant, ns; `messages`: their number so far."""

    policy: DetectionPolicy
    at: int
    numbers: Numbers
    messages: int = 0

    @classmethod
    def of(cls, policy: DetectionPolicy, now: int) -> Received:
        """What a policy has received so far."""
        return cls(policy, now, policy.received(), policy.messages)


class Acknowledgements(NodePart):
    """Durable acknowledgements of a node."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # What the last checkpoint of each detector covers.
        self._covered: dict[str, Received] = {}
        self._published: dict[tuple[str, str], int] = {}
        self._news = False
        self._next_at = self._all_at = 0

    def written(self, detector: str, received: Received | None) -> None:
        """Take a checkpoint that is written, by what it covers; None for one that is deleted."""
        if received is None:
            self._covered.pop(detector, None)
        else:
            self._covered[detector] = received
        self._news = True

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: acknowledge."""
        again = now >= self._all_at
        if now < self._next_at or not (self._news or (again and self._published)):
            return []
        self._news = False
        least, looked_at = self._least()
        self._next_at = now + max(EVERY, looked_at * STREAM_EVERY)
        known = self._published
        changed = {each: 0 for each in known if each not in least}
        if again:
            self._all_at, known = now + ALL_EVERY, {}
        changed |= {each: number for each, number in least.items() if known.get(each) != number}
        self._published = least
        return self._messages(changed)

    def _least(self) -> tuple[dict[tuple[str, str], int], int]:
        """Least numbers over all detectors, and the number of those that were looked at."""
        oldest: dict[int, Received] = {}
        for each in self._covered.values():
            there = oldest.get(id(each.policy))
            if there is None or each.at < there.at:
                oldest[id(each.policy)] = each
        least: dict[tuple[str, str], int] = {}
        looked_at = 0
        for received in oldest.values():
            looked_at += len(received.numbers)
            for stream, number in received.numbers.items():
                known = least.get(stream)
                if known is None or number < known:
                    least[stream] = number
        return least, looked_at

    def _messages(self, numbers: Numbers) -> list[Effect]:
        """Messages to the publishers of streams."""
        found: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        for (source, stream), number in numbers.items():
            entry = self.directory.sources.get(source)
            if entry is None:
                # To be published again when its publisher is back.
                self._published.pop((source, stream), None)
            else:
                found.setdefault((entry.publisher, entry.home), []).append((source, stream, number))
        return [
            Publish(
                administration_topic("covered", publisher, root=self.root),
                encode(Covered(self.name, tuple(messages))),
                home=self.homes.over(home),
            )
            for (publisher, home), messages in found.items()
        ]
