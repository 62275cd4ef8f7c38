"""Choice of the members of a shared columnar pass from their recent work. A pure decision, without a clock.

Costs are those of `detectors.runtime.engine_choice`. A member with an engine of its own pays its calls; the pass pays a
call and the columns of a release once for all its members, which is why it is worth its while for members that most
releases concern, and for them together only. Each look puts on an account what members would have saved in the pass
since the last one, less a margin; the account pays for their entrance (the ski-rental rule). Those that save most enter
first. A pass that costs more than engines of their own would, for longer than leaving it takes, is given up.

Members that have become quiet stay: in the loop they cost memory only. Rejected: a look at each member of a pass, which
takes as long as the pass itself; its counts of touched instances are summed up as an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from distced.detectors.runtime.engine_choice import (
    COLUMNAR,
    HAND_OVER_INSTANCE,
    LEAK,
    LEAST,
    LOOK_EVERY,
    MARGIN,
    MOST_LIVE,
    STEPWISE,
)
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.timestamps import MICROSECOND

TOGETHER: Final = replace(COLUMNAR, found=3_000)
"""Costs of the pass: composite events of members often have the same constituents, which are looked up once, ns."""

ENTER: Final = 500 * MICROSECOND
LEAVE: Final = 50 * MICROSECOND
"""Cost of a member that enters a pass, or leaves it, ns, without its instances."""

CALLED: Final = MICROSECOND
"""Cost of finding a member and handing it events, ns, beside the call of its engine."""

FEWEST: Final = 2
"""Least number of members: an engine of its own serves a single one as well."""


class Counts(Protocol):
    """Events consumed and composite events found, so far."""

    @property
    def consumed(self) -> int: ...

    @property
    def found(self) -> int: ...


class Member(Protocol):
    """Member of a shared input with an engine of its own, its work so far and its instances."""

    @property
    def at_work(self) -> EngineName: ...

    @property
    def touched(self) -> int: ...

    @property
    def live(self) -> int: ...

    @property
    def statistics(self) -> Counts: ...


M = TypeVar("M", bound=Member)


class Work(NamedTuple):
    """Work of the members of a pass, as their own stepwise engines would do it: calls, events, instances touched and
    composite events."""

    calls: int
    events: int
    touched: int
    found: int


@dataclass(frozen=True, slots=True)
class PassLoad:
    """A release of a shared input.

    Attributes:
        calls, events: number of calls of the pass, and of events.
        now: ns.
        members: number of members in the pass, or about to enter it.
        live: their instances.
        work: work of the members since the last request, within n calls with m events.
    """

    calls: int
    events: int
    now: int
    members: int
    live: int
    work: Callable[[int, int], Work]


class Changes(NamedTuple, Generic[M]):
    """Members to enter a pass, and whether all of its members leave."""

    entering: Sequence[M]
    ends: bool = False


NO_CHANGES: Final[Changes[Any]] = Changes(())


class PassChooser(Protocol):
    """Chooses the members of one pass."""

    def choose(self, called: Sequence[M], load: PassLoad) -> Changes[M]:
        """Members to enter or leave after a release; `called`: those it concerned, with engines of their own."""
        ...


@dataclass(frozen=True, slots=True)
class ForcedPass:
    """Every member that is called enters."""

    def choose(self, called: Sequence[M], load: PassLoad) -> Changes[M]:
        """All of them."""
        return Changes(called)


class PassChoice:
    """The members for which the pass is cheaper, estimated from recent work."""

    __slots__ = ("_account", "_called", "_calls", "_events", "_exit", "_known", "_looked_at")

    def __init__(self) -> None:
        # What the pass would have saved, and what engines of their own would have, ns.
        self._account = self._exit = 0.0
        # Since the last look: calls of each member, and those of the pass.
        self._called: dict[Any, int] = {}
        self._calls = self._events = 0
        self._looked_at: int | None = None
        # What the members that were called had done at the last look.
        self._known: dict[Any, tuple[int, int, int]] = {}

    def choose(self, called: Sequence[M], load: PassLoad) -> Changes[M]:
        """Members to enter or leave after a release; `called`: those it concerned, with engines of their own."""
        counts = self._called
        for member in called:
            counts[member] = counts.get(member, 0) + 1
        self._calls += load.calls
        self._events += load.events
        if self._looked_at is not None and 0 <= load.now - self._looked_at < LOOK_EVERY:
            return NO_CHANGES
        # A clock that was set back says nothing of how long it was.
        since = 0 if self._looked_at is None else max(0, load.now - self._looked_at)
        ends = self._costs_more(load) if load.members else False
        entering = [] if ends else self._to_enter(load, since)
        self._looked_at = load.now
        self._called = {}
        self._calls = self._events = 0
        return Changes(entering, ends)

    def _to_enter(self, load: PassLoad, since: int) -> list[Any]:
        known, self._known = self._known, {}
        savings: list[tuple[float, Any]] = []
        for member, calls in self._called.items():
            work = self._known[member] = member.touched, member.statistics.consumed, member.statistics.found
            before = known.get(member)
            if before is None:
                continue
            touched, consumed, found = (now - then for now, then in zip(work, before, strict=True))
            costs = STEPWISE if member.at_work == "stepwise" else COLUMNAR
            saved = costs.of(calls, consumed, touched, found) + CALLED * calls
            saved -= MARGIN * TOGETHER.of(0, 0, touched, found)
            if saved > 0 and member.live <= MOST_LIVE:
                savings.append((saved, member))
        self._account += sum(saved for saved, _ in savings)
        if not load.members:
            self._account -= MARGIN * TOGETHER.of(self._calls, self._events, 0, 0) + LEAK * since
        self._account = max(0.0, self._account)
        if not load.members and (self._account < LEAST or len(savings) < FEWEST):
            self._account = min(self._account, LEAST)
            return []
        savings.sort(key=lambda each: -each[0])
        entering = []
        for _, member in savings:
            price = ENTER + HAND_OVER_INSTANCE * member.live
            if price > self._account:
                break
            self._account -= price
            entering.append(member)
        else:
            # More would only be remembered longer.
            self._account = 0.0
        return entering

    def _costs_more(self, load: PassLoad) -> bool:
        work = load.work(self._calls, self._events)
        columnar = TOGETHER.of(self._calls, self._events, work.touched, work.found)
        self._exit = max(0.0, self._exit + columnar - MARGIN * (STEPWISE.of(*work) + CALLED * work.calls))
        if self._exit < max(LEAST, LEAVE * load.members + HAND_OVER_INSTANCE * load.live):
            return False
        self._account = self._exit = 0.0
        return True
