"""Streams of a detector that another reads, at one home or at several, with the combined watermark.

A detector with replicas publishes the same events at the home of each, at different times
(`brokers.node.replication`). A reader that subscribes to a further one has missed its earlier events, which its
watermark covers, too. Such a stream is *trusted* when the trusted ones have reached its first received watermark: they
are complete up to there, and it is from there on. Events of an untrusted stream count, its watermarks do not. A home no
longer wanted is unsubscribed from once a wanted one is trusted.

A reader that changes from one home to another at once was rejected: events published too early by one replica and too
late by the other were received from neither.
"""

from __future__ import annotations

from collections.abc import Iterable


class Streams:
    """Homes at which a reader receives a detector's stream: those `wanted`, and those whose watermarks are `trusted`;
    `left` tells that one was left since the last look.
    """

    def __init__(self, homes: Iterable[str] = ()) -> None:
        self.wanted: tuple[str, ...] = tuple(homes)
        self.trusted: set[str] = set(self.wanted)
        self.left = False
        # The others, with the first watermark received there; None for none yet.
        self._first: dict[str, int | None] = {}
        # How far the trusted ones have come, ns; None for nowhere.
        self._watermark: int | None = None

    @property
    def homes(self) -> set[str]:
        """Homes subscribed to."""
        return self.trusted | self._first.keys()

    def want(self, homes: Iterable[str]) -> None:
        """Subscribe at these homes from now on."""
        self.wanted = tuple(homes)
        for home in self.wanted:
            if home not in self.trusted and home not in self._first:
                self._first[home] = None
        self._settle()

    def hear(self, home: str, watermark: int | None) -> int | None:
        """Take a message from a home; the combined watermark, None for none."""
        if home in self._first and watermark is not None:
            if self._first[home] is None:
                self._first[home] = watermark
            self._settle()
        if watermark is None or home not in self.trusted:
            return None
        if self._watermark is None or watermark > self._watermark:
            self._watermark = watermark
            self._settle()
        return watermark

    def lost(self, home: str) -> None:
        """A home is gone, and all its messages have arrived."""
        self.wanted = tuple(each for each in self.wanted if each != home)
        self._first.pop(home, None)
        self.trusted.discard(home)
        self.left = True
        self._settle()

    def _settle(self) -> None:
        for home, first in list(self._first.items()):
            reached = first is not None and self._watermark is not None and first <= self._watermark
            # Without a trusted stream, this one is all there is.
            if home in self.wanted and (reached or not self.trusted):
                del self._first[home]
                self.trusted.add(home)
        if self.trusted.intersection(self.wanted):
            left = self.homes.difference(self.wanted)
            self.trusted -= left
            for home in left:
                self._first.pop(home, None)
            self.left |= bool(left)
