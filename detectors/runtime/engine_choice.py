"""Choice of a detector's engine from its recent work. A pure decision, without a clock.

The cost of a call with either engine is estimated from its events, instances touched and composite events. Of one Xeon
core, in microseconds:

| | each call | each event | each instance touched | each composite event | | --- | --- | --- | --- | --- | | stepwise |
1 | 0.25 | 0.5 | 2.5 | | columnar | 50 | 0.6 | 0.025 | 7 |

These are least squares over sixteen patterns in calls of 1 to 1000 events, right to about a third for nine patterns in
ten. Letting time go on is a call of its own. Most of the columnar engine's cost of an event is making columns of
objects; so the size of batches does not decide: it breaks even at 100 instances touched in a call, with a pattern that
touches one per event in batches of 400 events, with two 80, with ten 11, with fifty 2, and never where only the start
looks at an event.

The rule is the ski-rental rule. Each look puts on an account what the other engine would have saved since the last
look, less a margin; it is never negative. When it reaches the cost of a handover, the other engine is taken. So the
wrong engine costs about that much, and the choice does not flap. Savings of the columnar engine leak away, so that a
load that is over is forgotten within seconds; savings of the stepwise one do not, so that a rarely called columnar
engine is given up. Rejected: a threshold for the size of batches, for no one is right for two patterns; measured time,
for decisions would depend on the machine's other work and could not be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final, Protocol

from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.timestamps import MILLISECOND, SECOND

LEAK: Final = 0.02
"""Leak of the account for the columnar engine, per second. A saving below this share of a core does not pay for
preparing the engine, nor for the hundred megabytes it takes.
"""

LOOK_EVERY: Final = SECOND // 4
"""Interval between evaluations of the work done, ns: one costs a microsecond or two."""

MARGIN: Final = 1.5
"""Factor by which the current engine has to cost more: about the error of the cost figures."""

REMEMBERED: Final = 60 * SECOND
"""Time constant, ns, of the difference in instances touched by the two engines. While only that difference favours the
columnar engine, the other one is retried about this often.
"""

LEAST: Final = 100 * MILLISECOND
"""Least balance of the account for a switch, ns: it leaks away in five seconds. Sources send about once a second, and
their output of some seconds is one load.
"""

MOST_LIVE: Final = 200_000
"""Maximum of instances for a switch to the columnar engine; with more the node would block for two seconds."""

HAND_OVER: Final = MILLISECOND
HAND_OVER_INSTANCE: Final = 10_000
"""Cost of the handover to the other engine, ns: fixed, and per instance. The node blocks meanwhile, as for a snapshot.
"""


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of an engine, ns: each call, event, instance touched, and composite event."""

    call: int
    event: int
    touched: int
    found: int

    def of(self, calls: int, events: int, touched: float, found: int) -> float:
        """Cost of n calls, events, instances touched and composite events, ns."""
        return calls * self.call + events * self.event + touched * self.touched + found * self.found


STEPWISE: Final = Costs(1_000, 500, 500, 2_500)
COLUMNAR: Final = Costs(50_000, 600, 25, 7_000)


class EngineLoad(Protocol):
    """Work of a detector's engine so far: pairs of an instance and an event `touched`, events `behind` the clock, and
    `live` instances."""

    @property
    def at_work(self) -> EngineName: ...

    @property
    def touched(self) -> int: ...

    @property
    def behind(self) -> int: ...

    @property
    def live(self) -> int: ...


class EngineChooser(Protocol):
    """Chooses the engine of one detector."""

    def choose(self, calls: int, events: int, found: int, now: int, load: EngineLoad) -> EngineName:
        """The engine to use from now on, after calls with this many events consumed and composite events detected, at
        `now` ns.
        """
        ...


@dataclass(frozen=True, slots=True)
class Forced:
    """Fixed choice of one engine."""

    engine: EngineName

    def choose(self, calls: int, events: int, found: int, now: int, load: EngineLoad) -> EngineName:
        """The fixed engine."""
        return self.engine


class EngineChoice:
    """The cheaper engine, estimated from recent work."""

    __slots__ = (
        "_account",
        "_at_work",
        "_behind",
        "_calls",
        "_events",
        "_extra",
        "_found",
        "_looked_at",
        "_rate",
        "_touched",
        "_wanted",
    )

    def __init__(self) -> None:
        self._wanted: EngineName = "stepwise"
        self._at_work: EngineName = "stepwise"
        # What the other engine would have saved, ns.
        self._account = 0.0
        # What was done since the last look, and what there was to be read then.
        self._looked_at: int | None = None
        self._calls = self._events = self._found = 0
        self._touched = self._behind = 0
        # Instances that the stepwise engine touched per event, when it was at work; and how many more that is than the
        # columnar one does, which comes by fewer where it can look them up. None for not known yet.
        self._rate = 0.0
        self._extra: float | None = None

    def choose(self, calls: int, events: int, found: int, now: int, load: EngineLoad) -> EngineName:
        """The engine to use from now on, after calls with this many events consumed and composite events detected, at
        `now` ns.
        """
        self._calls += calls
        self._events += events
        self._found += found
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_EVERY:
            return self._wanted
        self._look(now, load)
        return self._wanted

    def _look(self, now: int, load: EngineLoad) -> None:
        at_work = load.at_work
        touched, behind = load.touched, load.behind
        if self._looked_at is not None and at_work == self._at_work:
            # A clock that was set back says nothing of how long it was.
            since = max(0, now - self._looked_at)
            self._add(since, touched - self._touched, behind - self._behind, load)
        else:
            # It begins, or goes on with the other engine.
            self._account, self._extra = 0.0, None
        self._at_work, self._looked_at = at_work, now
        self._touched, self._behind = touched, behind
        self._calls = self._events = self._found = 0
        pays = False
        if self._account >= LEAST:
            live = load.live
            price = max(LEAST, HAND_OVER + HAND_OVER_INSTANCE * live)
            # More would only be remembered longer.
            self._account = min(self._account, price)
            pays = self._account == price and (at_work == "columnar" or live <= MOST_LIVE)
        if at_work == "columnar":
            self._wanted = "stepwise" if pays else "columnar"
        else:
            self._wanted = "columnar" if pays else "stepwise"

    def _add(self, since: int, touched: int, behind: int, load: EngineLoad) -> None:
        """Add the other engine's estimated saving to the account."""
        calls, events, found = self._calls, self._events, self._found
        columnar = COLUMNAR.of(calls, events, touched, found)
        # For an event that is behind it hands the state over to the other engine and takes it back.
        if behind:
            columnar += min(calls, behind) * 2 * (HAND_OVER + HAND_OVER_INSTANCE * load.live)
        if self._at_work == "columnar":
            if self._extra is not None:
                self._extra *= exp(-since / REMEMBERED)
            elif events:
                self._extra = max(0.0, self._rate - touched / events)
            saved = columnar - MARGIN * STEPWISE.of(calls, events, touched + (self._extra or 0.0) * events, found)
        else:
            if events:
                self._rate = touched / events
            saved = STEPWISE.of(calls, events, touched, found) - MARGIN * columnar - LEAK * since
        self._account = max(0.0, self._account + saved)
