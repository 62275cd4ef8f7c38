"""What a detector says that is read by another: at one home or at several, and how far it is complete.

A detector with copies publishes at the home of each (`brokers.node.replicas`). They say the same, but not at the same
time; so who begins to listen to one of them, beside another or in its place, has missed what it had said before, and
its watermark covers that, too. Such a stream is *trusted* when those that are trusted already have come to the first
watermark it was heard with: up to there they have told everything, and from there on it does. What an untrusted stream
tells counts, its watermarks do not. A home that is to be left is listened to until one that is wanted is trusted.

That a reader listens to one home only, and changes at once, was tried first: what one copy had said too early and the
other said too late was heard from neither.
"""

from __future__ import annotations

from collections.abc import Iterable


class Streams:
    """The homes at which a detector is listened to, for one that reads it.

    Attributes:
        wanted: where it is to be listened to.
        trusted: the homes whose watermarks count.
        left: whether a home is not listened to any more since somebody looked.
    """

    def __init__(self, homes: Iterable[str] = ()) -> None:
        self.wanted: tuple[str, ...] = tuple(homes)
        self.trusted: set[str] = set(self.wanted)
        self.left = False
        # The others, with the first watermark heard there; None for none yet.
        self._first: dict[str, int | None] = {}
        # How far the trusted ones have come, ns; None for nowhere.
        self._watermark: int | None = None

    @property
    def homes(self) -> set[str]:
        """Where it is listened to."""
        return self.trusted | self._first.keys()

    def want(self, homes: Iterable[str]) -> None:
        """Listen at these homes from now on."""
        self.wanted = tuple(homes)
        for home in self.wanted:
            if home not in self.trusted and home not in self._first:
                self._first[home] = None
        self._settle()

    def hear(self, home: str, watermark: int | None) -> int | None:
        """A message has come from a home; the watermark that counts, None for none."""
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
        """Nothing will come from a home any more, and what it had has come."""
        self.wanted = tuple(each for each in self.wanted if each != home)
        self._first.pop(home, None)
        self.trusted.discard(home)
        self.left = True
        self._settle()

    def _settle(self) -> None:
        for home, first in list(self._first.items()):
            reached = first is not None and self._watermark is not None and first <= self._watermark
            # Where there is nothing else to go by, what it says is all there is.
            if home in self.wanted and (reached or not self.trusted):
                del self._first[home]
                self.trusted.add(home)
        if self.trusted.intersection(self.wanted):
            left = self.homes.difference(self.wanted)
            self.trusted -= left
            for home in left:
                self._first.pop(home, None)
            self.left |= bool(left)
