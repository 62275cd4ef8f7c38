"""What detectors do of late, as the node that hosts them sees it: rates, sizes, load, delays.

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
"""How fast what was counted is forgotten, ns: after this long it weighs 1/e. Of a detector that touches a few instances
a second, what is counted in ten seconds is as often half as twice as much, and others are placed by it."""

WARM_UP: Final = 2 * SECOND
"""How long a detector is watched before something is said of it, ns."""

READ_EVERY: Final = SECOND
"""How often what was counted is read, ns."""

TELL_EVERY: Final = 30 * SECOND
"""After how long an entry is told again though nothing has changed, ns."""

CHANGE: Final = 0.2
"""Which share of a figure counts as a change."""

_LEAST_FOUND: Final = 1e-3
"""Below this many composite events, decayed, there is no delay to speak of: one is forgotten after some minutes."""

_LEAST_INPUT: Final = 1e-2
"""Below this many bytes, decayed, an input is gone."""

# What a figure has to change by at the least, so that a single event more or less is no news.
_LEAST_LOAD: Final = 10.0
_LEAST_RATE: Final = 1.0
_LEAST_BYTES: Final = 200.0
_LEAST_STATE: Final = 4096.0
_LEAST_TIME: Final = float(2 * MILLISECOND)


class DetectorMeter:
    """Counts what one detector does.

    Attributes:
        since: when counting began, ns.
        state: bytes of its state when somebody looked last; 0 for not yet.
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

    def came(self, source: str, size: int, events: int) -> None:
        """A frame has come in, of so many bytes and events: from a source, or from another detector by its id."""
        heard = self._heard
        heard[source] = heard.get(source, 0) + size
        self._events += events

    def went(self, size: int, found: Sequence[Event], now: int) -> None:
        """A frame has gone out, of so many bytes, with these composite events; a heartbeat has none."""
        self._sent += size
        if found:
            self._found += len(found)
            # Of an event that is ahead of this clock the delay is not known, and taken for none.
            self._delay += sum(now - each.hi for each in found if each.hi < now)

    def read(self, now: int, touched: int) -> None:
        """Take stock.

        Args:
            touched: instances its engine has touched so far; less than before where the engine began anew.
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
        """What it did of late, as of the last reading; None while it is too early to say."""
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
    """The meters of a node's detectors, and what the node tells of them.

    Attributes:
        detectors: by id. Who handles frames keeps hold of them, so that a frame costs no look-up.
        told: the entry told last; None for none.
    """

    def __init__(self) -> None:
        self.detectors: dict[str, DetectorMeter] = {}
        self.told: LoadEntry | None = None
        self._told_at = 0
        self._read_at: int | None = None

    def begin(self, detector: str, now: int, touched: int = 0) -> DetectorMeter:
        """A detector is at work here from now on; its meter. One that was here before is measured anew."""
        made = self.detectors[detector] = DetectorMeter(now, touched)
        return made

    def end(self, detector: str) -> None:
        """A detector is not here any more."""
        self.detectors.pop(detector, None)

    def tick(self, now: int, touched: Callable[[str], int]) -> bool:
        """Time has passed; whether the meters were read, which is once a second.

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
        """What the node has to do, as of the last reading.

        Args:
            latencies: how long a message takes to a server, ns, by home server.
        """
        measured = {identity: meter.measured() for identity, meter in sorted(self.detectors.items())}
        known = {identity: each for identity, each in measured.items() if each is not None}
        return LoadEntry(_rounded(sum(each.load for each in known.values())), known, dict(latencies))

    def news(self, now: int, latencies: Mapping[str, int]) -> LoadEntry | None:
        """The entry, where it is to be told (again); None where it says what was told already."""
        entry = self.entry(latencies)
        told = self.told
        if told is not None and 0 <= now - self._told_at < TELL_EVERY and not changed(told, entry):
            return None
        self.told, self._told_at = entry, now
        return entry

    def forget_told(self) -> None:
        """Tell the entry again in any case: the directory may have dropped it."""
        self.told = None


def changed(before: LoadEntry, entry: LoadEntry) -> bool:
    """Whether an entry says something else than the one before: a figure by more than `CHANGE`, other detectors or
    engines."""
    if before.detectors.keys() != entry.detectors.keys() or before.latencies.keys() != entry.latencies.keys():
        return True
    # Each detector's load is looked at below; many small changes may add up to one of the whole.
    figures = [(before.load, entry.load, _LEAST_LOAD)]
    figures += [(latency, entry.latencies[home], _LEAST_TIME) for home, latency in before.latencies.items()]
    pairs = [(each, entry.detectors[identity]) for identity, each in before.detectors.items()]
    return _differ(figures) or any(each.engine != now.engine or _differ(_figures(each, now)) for each, now in pairs)


def _figures(before: Measured, after: Measured) -> Iterable[tuple[float, float, float]]:
    """Pairs of figures, and what each has to change by at the least."""
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
    """Four digits: more would be noise, and make entries long."""
    return float(f"{value:.4g}")
