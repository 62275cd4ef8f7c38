"""Metering of detectors by their node: rates, sizes, load, recent delays.

Distribution policies place detectors by this (design, section 3: "they watch rates, load and latencies"). A rate is an
exponentially decayed mean over about `TIME_CONSTANT`: what was counted t seconds ago weighs exp(-t / time constant),
and the sum is divided by the weight of the time that was watched, not by that of all time; so a steady rate is told
exactly from the first reading on, however far apart readings are. A window of fixed length was rejected: it needs a
history, and jumps when a burst falls out of it. What is counted between two readings is taken as spread evenly.

Warm-up: of a detector that was watched for less than `WARM_UP` nothing is said, because one frame would look like a
stream. A source that joins later counts as silent before: its rate rises over the time constant.

Nothing here reads a clock, and a frame costs some additions: what is decayed is decayed at readings, once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from typing import Final

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import LoadEntry, Measured

TIME_CONSTANT: Final = 30 * SECOND
"""Time constant of the decay of counts, ns: after this long, a count weighs 1/e. Of a detector that touches a few
instances a second, the count of ten seconds is as often half as twice as much, and others are placed by it.
"""

WARM_UP: Final = 2 * SECOND
"""Time of measurement before the first figures of a detector are published, ns."""

READ_EVERY: Final = SECOND
"""Interval of readings, ns."""

PUBLISH_EVERY: Final = 30 * SECOND
"""Interval of publications of an entry without changes, ns."""

CHANGE: Final = 0.2
"""Least relative difference of a figure that counts as a change."""

_LEAST_FOUND: Final = 1e-3
"""Decayed number of composite events below which no delay is given: one is forgotten after some minutes."""

_LEAST_INPUT: Final = 1e-2
"""Decayed bytes below which an input counts as gone."""

# Least changes of figures, so that a single event more or less is no change.
_LEAST_LOAD: Final = 10.0
_LEAST_RATE: Final = 1.0
_LEAST_BYTES: Final = 200.0
_LEAST_STATE: Final = 4096.0
_LEAST_TIME: Final = float(2 * MILLISECOND)


class DetectorMeter:
    """Meter of one detector.

    Attributes:
        since: when counting began, ns.
        state: bytes of its state at the last measurement; 0 before the first.
        engine: the one it ran on then.
    """

    __slots__ = (
        "_at",
        "_delay",
        "_delays",
        "_events",
        "_found",
        "_heard",
        "_inputs",
        "_load",
        "_rate",
        "_read",
        "_sent",
        "_size",
        "_touched",
        "_weight",
        "engine",
        "since",
        "state",
    )

    def __init__(self, now: int, touched: int = 0) -> None:
        """
        Args:
            touched: instances its engine has touched already.
        """
        self.since = now
        self.state = 0
        self.engine = ""
        # Since the last reading, which was at `_at`, ns: events read; bytes by input; composite events, the bytes of
        # their frames, and the sum of their delays, ns.
        self._at = now
        self._events = 0
        self._heard: dict[str, int] = {}
        self._found = 0
        self._sent = 0
        self._delay = 0
        # Instances touched in all, up to the last reading.
        self._touched = touched
        # Decayed sums up to the last reading: the weight of the seconds watched, and what was counted in them.
        self._weight = 0.0
        self._load = 0.0
        self._read = 0.0
        self._inputs: dict[str, float] = {}
        self._rate = 0.0
        self._size = 0.0
        self._delays = 0.0

    def received(self, source: str, size: int, events: int) -> None:
        """Count a frame of `size` bytes and n `events`, from a source, or from another detector by its id."""
        heard = self._heard
        heard[source] = heard.get(source, 0) + size
        self._events += events

    def sent(self, size: int, found: Sequence[Event], now: int) -> None:
        """Count a published frame of `size` bytes, with these composite events; a heartbeat has none."""
        self._sent += size
        if found:
            self._found += len(found)
            # Of an event that is ahead of this clock the delay is not known, and taken for none.
            self._delay += sum(now - each.hi for each in found if each.hi < now)

    def read(self, now: int, touched: int) -> None:
        """Read the meter.

        Args:
            touched: instances its engine has touched so far; less than before where the engine began from nothing.
        """
        seconds = (now - self._at) / SECOND
        if seconds <= 0:
            return
        decay = exp(-seconds * SECOND / TIME_CONSTANT)
        watched = TIME_CONSTANT / SECOND * (1.0 - decay)
        # What an event counted since the last reading weighs on average.
        each = watched / seconds
        self._at = now
        self._weight = self._weight * decay + watched
        more = touched - self._touched if touched >= self._touched else touched
        self._touched = touched
        self._load = self._load * decay + more * each
        self._read = self._read * decay + self._events * each
        self._rate = self._rate * decay + self._found * each
        self._size = self._size * decay + self._sent * each
        self._delays = self._delays * decay + self._delay * each
        inputs = {name: level * decay for name, level in self._inputs.items() if level > _LEAST_INPUT}
        for name, size in self._heard.items():
            inputs[name] = inputs.get(name, 0.0) + size * each
        self._inputs = inputs
        self._heard = {}
        self._events = self._found = self._sent = self._delay = 0

    def measured(self) -> Measured | None:
        """Figures of the last reading; None during warm-up."""
        if self._at - self.since < WARM_UP:
            return None
        weight = self._weight
        return Measured(
            load=_rounded(self._load / weight),
            rate=_rounded(self._rate / weight),
            size=_rounded(self._size / weight),
            inputs={name: _rounded(level / weight) for name, level in sorted(self._inputs.items())},
            events=_rounded(self._read / weight),
            state=self.state,
            delay=round(self._delays / self._rate) if self._rate >= _LEAST_FOUND else 0,
            engine=self.engine,
        )


class Meter:
    """Meters of a node's detectors, and the entry of its load.

    Attributes:
        detectors: by id. Who handles frames keeps hold of them, so that a frame costs no look-up.
        published: the entry published last; None for none.
    """

    def __init__(self) -> None:
        self.detectors: dict[str, DetectorMeter] = {}
        self.published: LoadEntry | None = None
        self._published_at = 0
        self._read_at: int | None = None

    def begin(self, detector: str, now: int, touched: int = 0) -> DetectorMeter:
        """Meter of a detector that runs here from now on; one that ran here before is measured from the start."""
        made = self.detectors[detector] = DetectorMeter(now, touched)
        return made

    def end(self, detector: str) -> None:
        """Remove the meter of a detector."""
        self.detectors.pop(detector, None)

    def tick(self, now: int, touched: Callable[[str], int]) -> bool:
        """Effects of the time; True where the meters were read, which is once a second.

        Args:
            touched: gives the number of instances that a detector's engine has touched so far.
        """
        if self._read_at is not None and 0 <= now - self._read_at < READ_EVERY:
            return False
        self._read_at = now
        for identity, meter in self.detectors.items():
            meter.read(now, touched(identity))
        return True

    def entry(self, latencies: Mapping[str, int]) -> LoadEntry:
        """Load of the node at the last reading.

        Args:
            latencies: how long a message takes to a server, ns, by home server.
        """
        measured = {identity: meter.measured() for identity, meter in sorted(self.detectors.items())}
        known = {identity: each for identity, each in measured.items() if each is not None}
        return LoadEntry(_rounded(sum(each.load for each in known.values())), known, dict(latencies))

    def news(self, now: int, latencies: Mapping[str, int]) -> LoadEntry | None:
        """Entry, where it is due; None where it equals the published one."""
        entry = self.entry(latencies)
        published = self.published
        if published is not None and 0 <= now - self._published_at < PUBLISH_EVERY and not changed(published, entry):
            return None
        self.published, self._published_at = entry, now
        return entry


def changed(before: LoadEntry, entry: LoadEntry) -> bool:
    """Whether an entry differs from the one before: in a figure by more than `CHANGE`, in detectors or engines."""
    if before.detectors.keys() != entry.detectors.keys() or before.latencies.keys() != entry.latencies.keys():
        return True
    # Each detector's load is looked at below; many small changes may add up to one of the whole.
    figures = [(before.load, entry.load, _LEAST_LOAD)]
    figures += [(latency, entry.latencies[home], _LEAST_TIME) for home, latency in before.latencies.items()]
    pairs = [(each, entry.detectors[identity]) for identity, each in before.detectors.items()]
    return _differ(figures) or any(each.engine != now.engine or _differ(_figures(each, now)) for each, now in pairs)


def _figures(before: Measured, after: Measured) -> Iterable[tuple[float, float, float]]:
    """Pairs of figures, each with its least change."""
    yield before.load, after.load, _LEAST_LOAD
    yield before.rate, after.rate, _LEAST_RATE
    yield before.size, after.size, _LEAST_BYTES
    yield before.events, after.events, _LEAST_RATE
    yield before.state, after.state, _LEAST_STATE
    yield before.delay, after.delay, _LEAST_TIME
    for name in before.inputs.keys() | after.inputs.keys():
        yield before.inputs.get(name, 0.0), after.inputs.get(name, 0.0), _LEAST_BYTES


def _differ(figures: Iterable[tuple[float, float, float]]) -> bool:
    return any(abs(one - other) > max(CHANGE * max(one, other), least) for one, other, least in figures)


def _rounded(value: float) -> float:
    """Figure rounded to four digits: more would be noise, and make entries long."""
    return float(f"{value:.4g}")
