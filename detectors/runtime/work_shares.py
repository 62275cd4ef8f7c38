"""Shares of a node's time for the detectors of each client; those of a client beyond its share take turns.

Patterns of one client that are offered very many instances stay below every limit of an event (`detectors.limits`), and
all others of the node wait for them. So the work of a client's detectors is counted in a token bucket (Turner 1986),
and while it is spent and there are detectors of others, further releases to its detectors are *put off*: kept in order
behind the detection policy, where the order of consumption is settled, and consumed in slices by client in turn, as in
Nagle's fair queueing (RFC 970). Composite events are the same, and later; watermarks wait for them.

Work is counted in instances, not measured as time, as for the limits; the columnar engine takes a twentieth for each.

Rejected: limits on the work of a second (a source that comes back may release a hundred thousand events at once, and an
innocent pattern would be excluded), priorities by detector (a hundred cheap ones cost as much as an expensive one), and
queues in front of the policy (one release may be all that a silent source has held back).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Protocol

from distced.detectors.limits import Limits
from distced.middleware.model.timestamps import SECOND

BURST: Final = 8
"""Share of a second's work that a client may do at once, as a divisor."""

TURN: Final = 5_000
"""Work of a turn, and from which a release is consumed in pieces: three to five milliseconds in the stepwise engine."""

FOUND: Final = 20
"""Work of a composite event, to be encoded and sent, in instances that are looked at."""

APART: Final = 60 * SECOND
"""Time for which the detectors of a client that has spent its share enter no shared pass, ns."""


class TakesTurns(Protocol):
    """Detector with a share.

    Attributes:
        share_of_work: its share; None for as much as it takes.
    """

    share_of_work: WorkShare | None

    @property
    def id(self) -> str: ...

    @property
    def put_off(self) -> int:
        """Number of events that wait for its turn, at least one while any time waits; 0 for none."""
        ...

    @property
    def put_off_bytes(self) -> int:
        """Memory of these events, bytes; estimated."""
        ...


class WorkShare:
    """Share of one client.

    Attributes:
        left: work until it is spent, in instances; negative where one event took more.
        detectors: number of detectors that it is for.
        apart_until: time up to which its detectors enter no shared pass, ns.
    """

    __slots__ = ("_at", "_shares", "_waiting", "apart_until", "client", "detectors", "left")

    def __init__(self, client: str, shares: WorkShares) -> None:
        self.client = client
        self._shares = shares
        self.left = shares.burst
        # When it was filled up last, ns; None for never.
        self._at: int | None = None
        self.detectors = 0
        self.apart_until = 0
        # Detectors with events that wait, in the order of their turns.
        self._waiting: deque[TakesTurns] = deque()

    @property
    def contested(self) -> bool:
        """Whether there are detectors of others, which wait meanwhile."""
        return self._shares.several

    def charge(self, work: int) -> None:
        """Count work that was done."""
        self.left -= work

    def is_spent(self, now: int) -> bool:
        """Whether its detectors are put off."""
        if self.left > 0:
            return False
        shares = self._shares
        # It was filled up at its begin, and that may be long ago.
        more = shares.burst if self._at is None else (now - self._at) * shares.rate // SECOND
        if more > 0:
            self.left = min(shares.burst, self.left + more)
        # A clock may be set back.
        if more:
            self._at = now
        if self.left > 0 or not self.contested:
            return False
        self.apart_until = now + APART
        return True

    def put_off(self, detector: TakesTurns) -> None:
        """Have a detector take its turn: events wait for it."""
        if detector not in self._waiting:
            self._waiting.append(detector)
            self._shares.turns[self] = None

    def forget(self, detector: TakesTurns) -> None:
        """Give a detector no more turns."""
        if detector in self._waiting:
            self._waiting.remove(detector)
            if not self._waiting:
                del self._shares.turns[self]

    def take(self) -> TakesTurns:
        """The detector whose turn it is, which is the last one then."""
        self._waiting.rotate(-1)
        return self._waiting[-1]

    @property
    def events(self) -> int:
        """Number of events that wait for its detectors."""
        return sum(each.put_off for each in self._waiting)

    @property
    def bytes(self) -> int:
        """Memory of these events; those that several detectors wait for count for each."""
        return sum(each.put_off_bytes for each in self._waiting)

    @property
    def waiting(self) -> list[TakesTurns]:
        """Detectors for which events wait."""
        return list(self._waiting)


class WorkShares:
    """Shares of all clients of a node.

    Attributes:
        rate: work of each client in a second, in instances.
        burst: that at once.
        turns: those with detectors for which events wait, in turn.
    """

    def __init__(self, limits: Limits) -> None:
        self.rate = limits.client_work
        self.burst = max(self.rate // BURST, 1)
        self.turns: OrderedDict[WorkShare, None] = OrderedDict()
        self._shares: dict[str, WorkShare] = {}

    @property
    def several(self) -> bool:
        """Whether there are detectors of several clients, so that there is somebody to wait."""
        return len(self._shares) > 1

    def assign(self, detector: TakesTurns, client: str) -> None:
        """Count the work of a detector for a client from now on, whatever it was counted for before."""
        if detector.share_of_work is not None:
            if detector.share_of_work.client == client:
                return
            self.release(detector)
        share = self._shares.get(client)
        if share is None:
            share = self._shares[client] = WorkShare(client, self)
        share.detectors += 1
        detector.share_of_work = share
        if detector.put_off:
            share.put_off(detector)

    def release(self, detector: TakesTurns) -> None:
        """Count the work of a detector no longer: it has gone."""
        share = detector.share_of_work
        if share is None:
            return
        share.forget(detector)
        share.detectors -= 1
        detector.share_of_work = None
        if not share.detectors:
            del self._shares[share.client]

    def take(self) -> TakesTurns:
        """The detector whose turn it is, of the client whose turn it is."""
        share = next(iter(self.turns))
        self.turns.move_to_end(share)
        return share.take()

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        for client, share in self._shares.items():
            assert share.client == client and share.detectors > 0, client
            assert bool(share.waiting) == (share in self.turns), client
            assert all(each.share_of_work is share and each.put_off for each in share.waiting), client
