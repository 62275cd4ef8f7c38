"""Arrival gaps of a source: the probability that an event of it is under way, learnt from its messages.

Design, section 3: with rate λ and delay distribution F that probability is 1 − exp(−∫ λ(1 − F(now − t)) dt), over t
from the source's last confirmed instant. It holds for independent delays. MQTT keeps the order of a source, so one
message that is delayed delays all behind it, and silence itself says that delays are long just now. So what is learnt
is the joint distribution of two durations that are seen at every message of a source:

- the *gap*: time until the next message arrives, by the clock of the reader;
- the *offset*: event time from the instant confirmed by the message to the next event that arrives.

While a gap lasts, an event within x of the confirmed instant is under way just where the offset is at most x. So for a
gap that has lasted for z, the probability is the share of offsets up to x among the gaps longer than z: delays,
heartbeats, bursts, standstills and their correlation are in it, whatever their distributions, and neither clocks nor
delays have to be compared. Where few gaps were as long, the share among all gaps counts beside it: it is the one where
delays do not depend on what a source publishes.

Durations are counted in bins that grow by an eighth; memory is bounded by their number. Rejected: rates and delays by
themselves, whose product is wrong by orders of magnitude behind a connection that stands still; a fitted distribution,
as tails are what matters; samples in place of bins, as a thousand are too few for 0.9999.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, Self

from distced.middleware.model.timestamps import MILLISECOND

_PER_OCTAVE: Final = 6
_OCTAVES: Final = 20

EDGES: Final[tuple[int, ...]] = tuple(
    round(MILLISECOND / 2 * 2 ** (place / _PER_OCTAVE)) for place in range(_OCTAVES * _PER_OCTAVE + 1)
)
"""Upper edges of bins, ns: from half a millisecond to nine minutes; a further bin is without an upper edge."""

BINS: Final = len(EDGES) + 1

MOST_GAPS: Final = 50_000
"""Number of gaps from which on all counts are halved, so that what is learnt follows changes."""

FEW: Final = 2.0
"""Weight of all gaps beside those that were as long, in gaps."""

MOST_OPEN: Final = 256
"""Number of gaps whose offsets are not known yet; beyond it the oldest counts as if its event came just then."""

RENEWED_AT: Final = 1.05
"""Growth of the number of gaps with which probabilities are computed again, from `RENEWED_BY` gaps on."""

RENEWED_BY: Final = 20


class ArrivalGaps:
    """Gaps between the messages of one source, and offsets of the events that followed.

    Attributes:
        confirmed: instant up to which all its events have arrived, ns; None for unknown.
        heard: arrival of its last message, ns of the reader's clock; None for none.
        total: number of gaps counted.
    """

    __slots__ = ("_asked_at", "_counts", "_open", "_pair", "_rows", "confirmed", "heard", "total")

    def __init__(self) -> None:
        self.confirmed: int | None = None
        self.heard: int | None = None
        self.total = 0
        # Number of gaps by the bins of gap and offset, as gap * BINS + offset.
        self._counts: dict[int, int] = {}
        # Gaps whose offsets may still fall: confirmed instant at their begin, bin, and least offset so far.
        self._open: deque[tuple[int, int, int | None]] = deque()
        # Shares of offsets by the bin of the gap, half a kilobyte each, and the total that they were computed from.
        self._rows: dict[int, tuple[int, Sequence[float]]] = {}
        # Of the bin of the gap that is open, and of the next one, with the instant they were asked for at, ns; None
        # after a message. A search asks for many offsets at one instant.
        self._asked_at: int | None = None
        self._pair: tuple[Sequence[float], Sequence[float]] = (), ()

    def arrived(self, first: int | None, confirmed: int | None, now: int) -> None:
        """Take a message: the least `hi` of its events, None for none, and the instant confirmed by it, ns."""
        heard, before = self.heard, self.confirmed
        self.heard, self._asked_at = now, None
        if confirmed is not None and (before is None or confirmed > before):
            self.confirmed = confirmed
        if heard is None or before is None:
            return
        self._open.append((before, bisect_left(EDGES, now - heard), None))
        if first is not None:
            for place, (begin, gap, least) in enumerate(self._open):
                if first > begin and (least is None or first - begin < least):
                    self._open[place] = begin, gap, first - begin
        self._settle()

    def _settle(self) -> None:
        """Count the gaps whose offsets are known for certain."""
        open_, confirmed = self._open, self.confirmed
        assert confirmed is not None
        while open_:
            begin, gap, least = open_[0]
            reached = confirmed - begin
            if least is None or least > reached:
                if reached <= EDGES[-1] and len(open_) <= MOST_OPEN:
                    return
                least = reached
            open_.popleft()
            place = gap * BINS + bisect_left(EDGES, least)
            self._counts[place] = self._counts.get(place, 0) + 1
            self.total += 1
        if self.total >= MOST_GAPS:
            self._counts = {place: count // 2 for place, count in self._counts.items() if count > 1}
            self.total = sum(self._counts.values())
            self._rows = {}

    def under_way(self, until: int, now: int) -> float:
        """Probability that an event with `hi` up to an instant, ns, is under way; 1 where nothing is known."""
        if self.confirmed is None or self.heard is None:
            return 1.0
        offset = until - self.confirmed
        if offset <= 0:
            return 0.0
        place = bisect_left(EDGES, offset)
        if place == BINS - 1:
            return 1.0
        low = EDGES[place - 1] if place else 0
        share = (offset - low) / (EDGES[place] - low)
        if self._asked_at != now:
            gap = bisect_left(EDGES, now - self.heard)
            row = self._row(gap)
            self._asked_at, self._pair = now, (row, row if gap == BINS - 1 else self._row(gap + 1))
        # In a bin of gaps the probability may rise or fall: the greater one of its ends counts.
        row, longer = self._pair
        if not place:
            return max(row[0] * share, longer[0] * share)
        one, other = row[place - 1], longer[place - 1]
        return max(one + (row[place] - one) * share, other + (longer[place] - other) * share)

    def _row(self, gap: int) -> Sequence[float]:
        """Shares of offsets up to the upper edge of each bin, among gaps of a bin and all longer ones."""
        known = self._rows.get(gap)
        if known is not None and self.total <= max(known[0] * RENEWED_AT, known[0] + RENEWED_BY):
            return known[1]
        among, first = [0] * BINS, gap * BINS
        for place, count in self._counts.items():
            if place >= first:
                among[place % BINS] += count
        cumulative = list(accumulate(among))
        if gap:
            prior = self._row(0)
            weight = cumulative[-1] + FEW
            row = array("f", [(each + FEW * share) / weight for each, share in zip(cumulative, prior, strict=True)])
        else:
            # One more gap, with an event at once: what was not seen yet may be.
            weight = self.total + 1
            row = array("f", [(each + 1) / weight for each in cumulative])
        self._rows[gap] = self.total, row
        return row

    # For a detector that moves.

    def state(self) -> Any:
        """State as plain values."""
        return [self.confirmed, self.heard, sorted(self._counts.items()), [list(each) for each in self._open]]

    @classmethod
    def of(cls, state: Any) -> Self:
        """Gaps that continue from a `state`."""
        made = cls()
        made.confirmed, made.heard, counts, begun = state
        made._counts = dict(counts)
        made.total = sum(made._counts.values())
        made._open = deque((begin, gap, least) for begin, gap, least in begun)
        return made

    def copy(self) -> Self:
        """Independent gaps that continue from here."""
        made = type(self)()
        made.confirmed, made.heard, made.total = self.confirmed, self.heard, self.total
        made._counts, made._open = dict(self._counts), self._open.copy()
        return made
