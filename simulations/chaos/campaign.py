"""Fault campaign in virtual time: runs of random schedules, what each subscription got, and a small failing schedule.

Expected is what one engine finds over the published events. A composite event is *lost* where it did not come, *wrong*
where it came and is not expected, *doubled* where the application got it twice; *reported* are those of the lost and
wrong ones that lie within a `Loss` of their subscription. A subscription that is behind the last promise of the sources
at the end has fallen silent. Runs are spread over processes; of a run only its figures are kept, and its schedule if
it fails, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from typing import Final, TypeVar

from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.numbered_stream import Loss
from distced.simulations.chaos.schedule import scenario
from distced.simulations.network.scenario.outcome import compare
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Fault, Scenario

T = TypeVar("T")

AHEAD: Final = 4
"""Number of runs for each process that have begun, or wait, before the first of them is taken."""

LOOK_EVERY: Final = 100 * MILLISECOND
"""Interval at which recovery is looked for, ns of virtual time."""


@dataclass
class Verdict:
    """Verdict on a run.

    Attributes:
        seed: of its schedule.
        scenario: what was run.
        expected, lost, wrong, doubled, reported: numbers of composite events.
        losses: number of losses reported to subscriptions.
        silent: subscriptions that have not come to the end, with their patterns.
        recovery: by fault, from its end (of a crash: its begin) until all subscriptions were beyond it, ns.
        problem: error of the run; empty for none.
    """

    seed: int
    scenario: Scenario
    expected: int = 0
    lost: int = 0
    wrong: int = 0
    doubled: int = 0
    reported: int = 0
    losses: int = 0
    silent: list[str] = field(default_factory=list)
    recovery: list[tuple[Fault, int]] = field(default_factory=list)
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, wrong or doubled, and nothing has fallen silent."""
        return not (self.lost or self.wrong or self.doubled or self.silent or self.problem)

    @property
    def failed(self) -> bool:
        """Whether it breaks the promise; with a store that fails only what is lost without a report does."""
        return not self.holds and not (self.scenario.store_fails and self.is_honest)

    @property
    def is_honest(self) -> bool:
        """Whether what was lost or wrong was reported."""
        return not (self.doubled or self.silent or self.problem) and self.reported == self.lost + self.wrong

    @property
    def text(self) -> str:
        """The verdict in words."""
        parts = [f"{getattr(self, name)} {name}" for name in ("lost", "wrong", "doubled") if getattr(self, name)]
        parts += [f"silent: {each}" for each in self.silent]
        parts += [self.problem] if self.problem else []
        if self.lost or self.wrong:
            parts.append(f"{self.reported} of them reported")
        return "; ".join(parts) or "as one engine"


def run(seed: int, kinds: Sequence[str]) -> Verdict:
    """Run the schedule of a seed."""
    return judge(seed, scenario(seed, kinds))


def judge(seed: int, planned: Scenario) -> Verdict:
    """Run a scenario, and compare."""
    verdict = Verdict(seed, planned)
    try:
        simulation = Simulation(planned)
        _advance(simulation, verdict)
        outcome = simulation.run()
    except Exception as error:
        # Whatever a node, a client or the simulation raises is what a campaign is there to find.
        verdict.problem = f"{type(error).__name__}: {error}"
        return verdict
    compared = compare(outcome)
    for name, subscribed in outcome.subscriptions.items():
        if name not in compared:
            # One that began amid the streams has no single right answer.
            if subscribed.refused or (subscribed.active_at is None and not subscribed.killed):
                if subscribed.is_back and subscribed.asked.distribution and len(outcome.nodes) == 1:
                    # It wants more replicas than there are nodes.
                    continue
                verdict.silent.append(f"{name}, {subscribed.refused or 'never active'}")
            continue
        found = compared[name]
        unlike = (*found.missing, *found.unexpected)
        verdict.expected += found.same + len(found.missing)
        verdict.lost += len(found.missing)
        verdict.wrong += len(found.unexpected)
        verdict.doubled += subscribed.twice
        verdict.losses += len(subscribed.lost)
        verdict.reported += sum(is_reported(each, subscribed.lost) for each in unlike)
        if subscribed.refused:
            verdict.silent.append(f"{name}, {subscribed.refused}")
        elif subscribed.killed:
            continue
        elif outcome.final is None or subscribed.watermark is None or subscribed.watermark < outcome.final:
            verdict.silent.append(f"{name}, {subscribed.pattern}")
    return verdict


def is_reported(event: CompositeEvent, losses: Sequence[Loss]) -> bool:
    """Whether a composite event lies within a loss, as missing or wrong."""
    return any(each.concerns(event.lo, event.hi) for each in losses)


def _advance(simulation: Simulation, verdict: Verdict) -> None:
    """Run until all has arrived, and note when all subscriptions are beyond each fault."""
    planned, engine = simulation.scenario, simulation.network.engine
    end = planned.start + planned.duration
    open_faults = sorted(planned.faults, key=lambda each: each.at)
    while engine.instant < end or (not simulation.complete and engine.instant < end + planned.patience):
        engine.run(engine.instant + LOOK_EVERY)
        marks = [each.watermark for each in simulation.subscribed.values() if not (each.refused or each.killed)]
        reached = min((-1 if each is None else each for each in marks), default=-1)
        for fault in [each for each in open_faults if planned.start + each.at < reached]:
            open_faults.remove(fault)
            verdict.recovery.append((fault, max(engine.instant - planned.start - over_at(fault), 0)))


def over_at(fault: Fault) -> int:
    """Instant from which detection may go on, ns after the start: the end of a fault, the begin of a lost node."""
    until = getattr(fault, "until", None)
    return fault.at if until is None or hasattr(fault, "node") else int(until)


# A failing schedule made small.


def shrunk(verdict: Verdict, fails: Callable[[Verdict], bool]) -> Verdict:
    """A verdict that fails as well, with fewer faults, subscriptions and streams."""
    while True:
        for smaller in _smaller(verdict.scenario):
            tried = judge(verdict.seed, smaller)
            if fails(tried):
                verdict = tried
                break
        else:
            return verdict


def _smaller(planned: Scenario) -> Iterator[Scenario]:
    for place in range(len(planned.faults)):
        yield replace(planned, faults=_without(planned.faults, place))
    for place, each in enumerate(planned.subscriptions):
        # Another may read its composite events.
        name = each.pattern.partition(" -> ")[2].partition("(")[0]
        if len(planned.subscriptions) > 1 and not (
            name and any(name in one.pattern for one in _without(planned.subscriptions, place))
        ):
            yield replace(planned, subscriptions=_without(planned.subscriptions, place))
    if planned.again:
        yield replace(planned, again=0.0)
    if planned.store_fails:
        yield replace(planned, store_fails=0.0)
    for place, stream in enumerate(planned.streams):
        sends = stream.sends
        half = [each for number, each in enumerate(sends) if not each.events or number % 2]
        if len(half) < len(sends):
            streams = list(planned.streams)
            streams[place] = replace(stream, sends=tuple(half))
            yield replace(planned, streams=tuple(streams))


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]


@dataclass
class Tally:
    """Figures of many runs, in bounded memory.

    Attributes:
        runs: number of them.
        counts: composite events of each verdict, and losses, by name.
        faults: number by kind, as in scenario files.
        recovery: times to recovery by kind, s.
        failed: verdicts that break the promise.
    """

    runs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    recovery: dict[str, list[float]] = field(default_factory=dict)
    failed: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count a run."""
        self.runs += 1
        for name in ("expected", "lost", "wrong", "doubled", "reported", "losses"):
            self.counts[name] += getattr(verdict, name)
        self.faults.update(map(kind_of, verdict.scenario.faults))
        for fault, took in verdict.recovery:
            self.recovery.setdefault(kind_of(fault), []).append(took / SECOND)
        if verdict.failed:
            self.failed.append(verdict)


def run_all(seeds: Sequence[int], kinds: Sequence[str], jobs: int = 1) -> Iterator[Verdict]:
    """Verdicts of the schedules of these seeds, in their order, in several processes at once; streams of those that do
    not fail are left out.
    """
    if jobs == 1:
        yield from (_brief(seed, kinds) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        left = iter(seeds)
        begun: deque[Future[Verdict]] = deque()
        try:
            while True:
                begun += [pool.submit(_brief, each, kinds) for each in islice(left, jobs * AHEAD - len(begun))]
                if not begun:
                    return
                yield begun.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _brief(seed: int, kinds: Sequence[str]) -> Verdict:
    verdict = run(seed, kinds)
    return verdict if verdict.failed else replace(verdict, scenario=replace(verdict.scenario, streams=()))


def kind_of(fault: Fault) -> str:
    """Kind of a fault, as in scenario files."""
    return str(fault.__struct_config__.tag)
