"""Metering of detectors by their node: rates, sizes, load, recent delays.

Input of distribution policies (design, section 3: "they watch rates, load and latencies"). A rate is an exponentially
decayed mean over about `TIME_CONSTANT`: a count of t seconds ago weighs exp(-t / time constant), and the sum is divided
by the weight of the time watched, so a steady rate is exact from the first reading on, at any spacing. Counts between
readings are taken as spread evenly. A window of fixed length was rejected: it needs a history, and jumps when a burst
leaves it.

Crowds: a node reads `AT_ONCE` meters a second, in turn, and names as many detectors in its entry, those with the most
load; with a hundred thousand it would do nothing else. Sum and selection are updated with each turn, so that an entry
takes no look at the others; one whose load has fallen gives way to those that are read then or later.

Warm-up: no figures before `WARM_UP`, because one frame would look like a stream. A source that joins later counts as
silent before. Nothing here reads a clock; a frame costs a few additions, and decay is computed at readings, once a
second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from math import exp
from struct import Struct
from types import MappingProxyType
from typing import Final

from distced.brokers.node.backlog import BEHIND, WAITING, Backlog
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, MINUTE, SECOND
from distced.middleware.wire.directory_entries import LoadEntry, Measured
from distced.middleware.wire.published_streams import HANDED_ON_BYTES, KEPT_FOR

TIME_CONSTANT: Final = 30 * SECOND
"""Time constant of the decay of counts, ns: after this long, a count weighs 1/e. Of a detector that touches a few
instances a second, the count of ten seconds is as often half as twice as much, and others are placed by it.
"""

WARM_UP: Final = 2 * SECOND
"""Time of measurement before the first figures of a detector are published, ns."""

READ_EVERY: Final = SECOND
"""Interval of readings, ns."""

AT_ONCE: Final = 250
"""Number of meters read at once, and of detectors that an entry names."""

CROWD_EVERY: Final = 10 * SECOND
"""Least interval between entries of a node with more detectors than that, ns."""

PUBLISH_EVERY: Final = 2 * MINUTE
"""Interval of publications of an entry without changes, ns."""

CHANGE: Final = 0.2
"""Least relative difference of a figure that counts as a change."""

_LEAST_FOUND: Final = 1e-3
"""Decayed number of composite events below which no delay is given: one is forgotten after some minutes."""

_LEAST_INPUT: Final = 1e-2
"""Decayed bytes below which an input counts as gone."""

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
"""Bytes by input of a detector that shares its input, which counts them."""

# Sums of a meter in bytes, as numbers take three times the room.
_SUMS: Final = Struct("5d")
_NOTHING_SUMMED: Final = _SUMS.pack(*(0.0,) * 5)

# Least changes of figures, so that a single event more or less is no change.
_LEAST_LOAD: Final = 1.0
_LEAST_BYTES: Final = 200.0
_LEAST_TIME: Final = float(2 * MILLISECOND)
_LEAST: Final = {
    "load": _LEAST_LOAD,
    "rate": 1.0,
    "size": _LEAST_BYTES,
    "events": 1.0,
    "state": 4096.0,
    "delay": _LEAST_TIME,
}


@dataclass(slots=True, eq=False)
class DetectorMeter:
    """Meter of one detector.

    Attributes:
        since: begin of counting, ns.
        touched: instances touched by its engine at the last reading.
        state, engine: bytes of its state at the last measurement, 0 before the first; the engine then.
        input: meter of the shared input that receives on its behalf; None for an input of its own.
    """

    since: int
    touched: int = 0
    state: int = 0
    engine: str = ""
    input: DetectorMeter | None = None
    # Since the last reading, which was at `_at`, ns: events read; bytes by input; composite events, the bytes of their
    # frames, and the sum of their delays, ns.
    _at: int = field(init=False)
    _events: int = 0
    _heard: dict[str, int] | None = None
    _found: int = 0
    _sent: int = 0
    _delay: int = 0
    # Decayed sums up to the last reading: the weight of the seconds watched; of touched instances, events read,
    # composite events, bytes sent, and delays; and of bytes by input.
    _weight: float = 0.0
    _sums: bytes = _NOTHING_SUMMED
    _inputs: Mapping[str, float] = field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        self._at = self.since

    def received(self, source: str, size: int, events: int) -> None:
        """Count a frame of `size` bytes and n `events`, from a source, or from another detector by its id."""
        heard = self._heard
        if heard is None:
            heard = self._heard = {}
        heard[source] = heard.get(source, 0) + size
        self._events += events

    def sent(self, size: int, found: Sequence[Event], now: int) -> None:
        """Count a published frame of `size` bytes, with these composite events; a heartbeat has none."""
        self._sent += size
        if found:
            self._found += len(found)
            # The delay of an event ahead of this clock is unknown, and counts as none.
            self._delay += sum(now - each.hi for each in found if each.hi < now)

    def read(self, now: int, touched: int) -> None:
        """Read the meter; `touched`: instances touched so far, fewer than before if the engine began from nothing."""
        seconds = (now - self._at) / SECOND
        if seconds <= 0:
            return
        decay = exp(-seconds * SECOND / TIME_CONSTANT)
        watched = TIME_CONSTANT / SECOND * (1.0 - decay)
        # Mean weight of an event counted since the last reading.
        each = watched / seconds
        self._at = now
        self._weight = self._weight * decay + watched
        more = touched - self.touched if touched >= self.touched else touched
        self.touched = touched
        counted = (more, self._events, self._found, self._sent, self._delay)
        if any(counted) or self._sums is not _NOTHING_SUMMED:
            sums = zip(_SUMS.unpack(self._sums), counted, strict=True)
            self._sums = _SUMS.pack(*[total * decay + count * each for total, count in sums])
        if self._inputs or self._heard:
            inputs = {name: level * decay for name, level in self._inputs.items() if level > _LEAST_INPUT}
            for name, size in (self._heard or _NOTHING).items():
                inputs[name] = inputs.get(name, 0.0) + size * each
            self._inputs, self._heard = inputs, None
        self._events = self._found = self._sent = self._delay = 0

    @property
    def load(self) -> float:
        """Instances touched a second at the last reading; 0 during warm-up."""
        if self._sums is _NOTHING_SUMMED or self._at - self.since < WARM_UP:
            return 0.0
        return float(_SUMS.unpack(self._sums)[0] / self._weight)

    def measured(self) -> Measured | None:
        """Figures of the last reading; None during warm-up."""
        if self._at - self.since < WARM_UP:
            return None
        sums = _SUMS.unpack(self._sums)
        load, events, rate, size, _ = (_rounded(total / self._weight) for total in sums)
        received = self.input or self
        if received is not self and received._weight:
            events = _rounded(_SUMS.unpack(received._sums)[1] / received._weight)
        found, delays = sums[2], sums[4]
        return Measured(
            load=load,
            rate=rate,
            size=size,
            inputs={name: _rounded(level / received._weight) for name, level in sorted(received._inputs.items())},
            events=events,
            state=self.state + self._handed_on(size),
            delay=round(delays / found) if found >= _LEAST_FOUND else 0,
            engine=self.engine,
        )

    def stays(self, published: Measured) -> bool:
        """Whether its figures are certainly as published, up to a change by `CHANGE`; without rounding, for speed."""
        received, weight = self.input or self, self._weight
        if self.engine != published.engine or not weight or not received._weight:
            return False
        touched, events, found, sent, delays = _SUMS.unpack(self._sums)
        if received is not self:
            events = _SUMS.unpack(received._sums)[1] / received._weight * weight
        size = sent / weight
        if (
            _apart(published.load, touched / weight, _LEAST_LOAD)
            or _apart(published.rate, found / weight, _LEAST["rate"])
            or _apart(published.size, size, _LEAST_BYTES)
            or _apart(published.events, events / weight, _LEAST["events"])
            or _apart(published.state, self.state + self._handed_on(size), _LEAST["state"])
            or _apart(published.delay, delays / found if found >= _LEAST_FOUND else 0.0, _LEAST_TIME)
        ):
            return False
        weight, before = received._weight, published.inputs
        for name, level in received._inputs.items():
            if _apart(before.get(name, 0.0), level / weight, _LEAST_BYTES):
                return False
        return all(size <= _LEAST_BYTES for name, size in before.items() if name not in received._inputs)

    def _handed_on(self, size: float) -> int:
        """Approximate bytes of recent composite events that a move takes along; `size`: bytes a second."""
        return round(min(size * min(self._at - self.since, KEPT_FOR) / SECOND, HANDED_ON_BYTES))


class Meter:
    """Meters of a node's detectors, and the entry of its load.

    Attributes:
        detectors: by id; handlers of frames keep a reference and need no look-up.
        published: entry published last; None for none.
    """

    def __init__(self) -> None:
        self.detectors: dict[str, DetectorMeter] = {}
        self.published: LoadEntry | None = None
        self._published_at = 0
        self._read_at: int | None = None
        # Ids of the detectors whose turn it is, in a crowd.
        self._turns: Iterator[str] = iter(())
        # Sum of all loads at their last readings, in thousandths, so that it is exact; ids of the greatest.
        self._load = 0
        self._most: list[str] = []

    @property
    def load(self) -> float:
        """Instances touched a second by all detectors, at their last readings."""
        return self._load / 1000

    def begin(self, detector: str, now: int, touched: int = 0) -> DetectorMeter:
        """Meter of a detector that runs here from now on, from zero also where it ran here before."""
        self.end(detector)
        made = self.detectors[detector] = DetectorMeter(now, touched)
        return made

    def end(self, detector: str) -> None:
        """Remove the meter of a detector."""
        gone = self.detectors.pop(detector, None)
        if gone is not None:
            self._load -= _thousandths(gone.load)

    def tick(self, now: int, touched: Callable[[str], int], inputs: Iterable[DetectorMeter] = ()) -> bool:
        """Effects of the time; True where meters were read (once a second). `touched`: instances, by detector;
        `inputs`: meters of shared inputs."""
        if self._read_at is not None and 0 <= now - self._read_at < READ_EVERY:
            return False
        self._read_at = now
        turn = self._turn()
        for identity in turn:
            detector = self.detectors[identity]
            self._load -= _thousandths(detector.load)
            detector.read(now, touched(identity))
            self._load += _thousandths(detector.load)
        candidates = dict.fromkeys((*(each for each in self._most if each in self.detectors), *turn))
        self._most = nlargest(AT_ONCE, candidates, key=lambda identity: self.detectors[identity].load)
        for meter in inputs:
            meter.read(now, 0)
        return True

    def _turn(self) -> list[str]:
        """Ids of the meters to be read now."""
        if len(self.detectors) <= AT_ONCE:
            return list(self.detectors)
        found = [each for each in islice(self._turns, AT_ONCE) if each in self.detectors]
        if len(found) < AT_ONCE:
            self._turns = iter(list(self.detectors))
            found += islice((each for each in self._turns if each not in found), AT_ONCE - len(found))
        return found

    def named(self) -> list[str]:
        """Ids of the detectors that the entry names, sorted."""
        if len(self.detectors) <= AT_ONCE:
            return sorted(self.detectors)
        return sorted(each for each in self._most if each in self.detectors)

    def entry(
        self, latencies: Mapping[str, int], backlog: Backlog | None = None, silent: Mapping[str, int] = _NOTHING
    ) -> LoadEntry:
        """Load of the node at the last reading; `latencies` are delays of a message to a server, ns, by home."""
        backlog = backlog or Backlog()
        named = self.named()
        measured = {identity: self.detectors[identity].measured() for identity in named}
        known = {identity: each for identity, each in measured.items() if each is not None}
        others = len(self.detectors) - len(named)
        load = _rounded(self.load)
        return LoadEntry(load, known, dict(latencies), others, backlog.behind, backlog.waiting, dict(silent))

    def is_due(self, now: int) -> bool:
        """Whether the entry is due: with many detectors not every second."""
        return len(self.detectors) <= AT_ONCE or not 0 <= now - self._published_at < CROWD_EVERY

    def news(
        self,
        now: int,
        latencies: Mapping[str, int],
        backlog: Backlog | None = None,
        silent: Mapping[str, int] = _NOTHING,
    ) -> LoadEntry | None:
        """Entry, where it is due; None where it equals the published one."""
        published = self.published
        recent = published is not None and 0 <= now - self._published_at < PUBLISH_EVERY
        if published is not None and recent and self._stays(published, latencies, backlog or Backlog(), silent):
            return None
        entry = self.entry(latencies, backlog, silent)
        if published is not None and recent and not changed(published, entry):
            return None
        self.published, self._published_at = entry, now
        return entry

    def _stays(
        self, published: LoadEntry, latencies: Mapping[str, int], backlog: Backlog, silent: Mapping[str, int]
    ) -> bool:
        """Whether the entry would certainly be as published; most times it would, and need not be made."""
        measured, detectors = published.detectors, self.detectors
        if (
            len(detectors) != len(measured)
            or published.others
            or published.latencies.keys() != latencies.keys()
            or published.silent.keys() != silent.keys()
            or _apart(published.load, self.load, _LEAST_LOAD)
            or _apart(published.behind, backlog.behind, BEHIND)
            or _apart(published.waiting, backlog.waiting, WAITING)
        ):
            return False
        for identity, each in measured.items():
            meter = detectors.get(identity)
            if meter is None or not meter.stays(each):
                return False
        return not any(_apart(published.latencies[home], each, _LEAST_TIME) for home, each in latencies.items())


def changed(before: LoadEntry, entry: LoadEntry) -> bool:
    """Whether an entry differs from the one before: in a figure by more than `CHANGE`, in detectors or engines."""
    if before.detectors.keys() != entry.detectors.keys() or before.latencies.keys() != entry.latencies.keys():
        return True
    if before.others != entry.others or before.silent.keys() != entry.silent.keys():
        return True
    # The load of each detector is compared below; many small changes may add up to one of the whole.
    figures = [(before.load, entry.load, _LEAST_LOAD), (before.behind, entry.behind, float(BEHIND))]
    figures.append((before.waiting, entry.waiting, float(WAITING)))
    figures += [(latency, entry.latencies[home], _LEAST_TIME) for home, latency in before.latencies.items()]
    return _differ(figures) or any(
        _measured_apart(each, entry.detectors[name]) for name, each in before.detectors.items()
    )


def _measured_apart(before: Measured, after: Measured) -> bool:
    """Whether the figures of a detector differ, those of its inputs last: there are many, and most are equal."""
    if before.engine != after.engine:
        return True
    if _differ([(getattr(before, figure), getattr(after, figure), least) for figure, least in _LEAST.items()]):
        return True
    old, new = before.inputs, after.inputs
    for name, size in old.items():
        other = new.get(name, 0.0)
        if abs(size - other) > _LEAST_BYTES and abs(size - other) > CHANGE * max(size, other):
            return True
    return any(size > _LEAST_BYTES and name not in old for name, size in new.items())


def _apart(one: float, other: float, least: float) -> bool:
    """Whether figures may differ, rounding included, by more than is no change."""
    apart = abs(one - other)
    return apart > 0.99 * least and apart > 0.99 * CHANGE * max(one, other)


def _differ(figures: Iterable[tuple[float, float, float]]) -> bool:
    for one, other, least in figures:
        apart = abs(one - other)
        if apart > least and apart > CHANGE * max(one, other):
            return True
    return False


def _thousandths(load: float) -> int:
    return round(load * 1000)


def _rounded(value: float) -> float:
    """Figure rounded to four digits: more would be noise, and make entries long."""
    return float(f"{value:.4g}")
