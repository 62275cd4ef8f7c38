"""`distced bench detection`: delay and errors of the detection policies on networks with several distributions of
delays, in virtual time, all policies on the same messages.

Each network has sources that publish at random instants and send heartbeats. Messages of a source keep their order, as
over MQTT, so that a delayed one holds up those behind it. A policy takes each message when it arrives, and the time
every tenth of a second, as in a node. The delay of an event is the time from its `hi` to its consumption. An event is
*unstable* where an earlier one arrives behind its consumption, counted here from arrivals and consumptions, not by the
policy itself. What comes in the first part of a run, in which a policy learns, is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from random import Random
from typing import Final, NamedTuple, TypeAlias

from distced.detectors.runtime.detection_policy import DetectionPolicy, Released
from distced.middleware.model.detection import parse_detection
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND, SECOND
from distced.policies.detection import detection_policy
from distced.simulations.plots import lines, percentile
from distced.simulations.report import Cell, Column, OnProgress, Report, ReportTable, no_progress

POLICIES: Final = (
    "best-effort",
    "bounded(100ms)",
    "probabilistic(0.9)",
    "probabilistic(0.99)",
    "probabilistic(0.999)",
    "probabilistic(0.9999)",
    "guaranteed",
)

TICK: Final = SECOND // 10
"""Interval between ticks of a policy, ns; as in a live node."""

LEARNING: Final = 0.2
"""Share of a run whose events are not counted."""

STEADY: Final = "steady"
TAIL: Final = "heavy tail"

MOST_DELAY: Final = 60 * SECOND
"""Greatest delay of a message by itself, ns."""

Delay: TypeAlias = Callable[[int], float]
"""Delay of a message by itself, ns, given the time of its publication, ns."""


class Network(NamedTuple):
    """Sources of a network.

    Attributes:
        about: in words, for the report.
        rates: events/s of each source.
        beats: interval of heartbeats of each source, ns.
        delay: of a source, given its number and a random source.
    """

    about: str
    rates: tuple[float, ...]
    beats: tuple[int, ...]
    delay: Callable[[int, Random], Delay]


class Message(NamedTuple):
    """Message of a source: when it arrives, ns, its events, none in a heartbeat, and its watermark, ns."""

    arrival: int
    source: str
    events: tuple[Event, ...]
    watermark: int


# Delays.


def _short(random: Random) -> Delay:
    return lambda at: random.lognormvariate(0.0, 0.5) * 2 * MILLISECOND


def _heavy(random: Random) -> Delay:
    """Pareto's distribution, whose variance is infinite."""
    return lambda at: min(random.paretovariate(1.5) * 20 * MILLISECOND, MOST_DELAY)


def _standing_still(random: Random) -> Delay:
    """A connection that stands still at times: delays of messages in a row go together."""
    short = _short(random)
    until, following = 0.0, random.expovariate(1 / 20) * SECOND

    def delay(at: int) -> float:
        nonlocal until, following
        while at >= following:
            until = following + random.expovariate(1 / 2) * SECOND
            following = until + random.expovariate(1 / 20) * SECOND
        return short(at) + max(until - at, 0)

    return delay


def _last(number: int, random: Random, *, others: int, delay: Callable[[Random], Delay]) -> Delay:
    return _short(random) if number < others else delay(random)


_QUARTER: Final = SECOND // 4

NETWORKS: Final[dict[str, Network]] = {
    STEADY: Network(
        "five sources, 20 events/s each, delays of 2 ms",
        (20.0,) * 5,
        (_QUARTER,) * 5,
        lambda number, random: lambda at: 2 * MILLISECOND,
    ),
    TAIL: Network(
        "four sources of 50 events/s; one with an event in 5 s, heartbeats each second, and delays by Pareto (1.5)",
        (50.0,) * 4 + (0.2,),
        (_QUARTER,) * 4 + (SECOND,),
        partial(_last, others=4, delay=_heavy),
    ),
    "heavy tail, busy": Network(
        "four sources of 50 events/s; one of 5 events/s, heartbeats each quarter of a second, the same delays",
        (50.0,) * 4 + (5.0,),
        (_QUARTER,) * 5,
        partial(_last, others=4, delay=_heavy),
    ),
    "standstills": Network(
        "five sources of 20 events/s; the connection of one stands still for 2 s in 20",
        (20.0,) * 5,
        (_QUARTER,) * 5,
        partial(_last, others=4, delay=_standing_still),
    ),
    "all stand still": Network(
        "five sources of 20 events/s; each connection stands still for 2 s in 20",
        (20.0,) * 5,
        (_QUARTER,) * 5,
        lambda number, random: _standing_still(random),
    ),
}


def messages(network: Network, seed: int, seconds: float) -> list[Message]:
    """Messages of a network, by arrival."""
    found: list[Message] = []
    for number, (rate, beat) in enumerate(zip(network.rates, network.beats, strict=True)):
        random = Random(f"{seed} {number}")
        delay = network.delay(number, random)
        found += _of_source(f"s{number}", rate, beat, delay, random, round(seconds * SECOND))
    found.sort(key=lambda each: each.arrival)
    return found


def _of_source(name: str, rate: float, beat: int, delay: Delay, random: Random, end: int) -> list[Message]:
    instants: dict[int, bool] = dict.fromkeys(range(random.randrange(beat), end, beat), False)
    at = random.expovariate(rate)
    while at * SECOND < end:
        instants[round(at * SECOND)] = True
        at += random.expovariate(rate)
    found: list[Message] = []
    arrival = 0
    for seq, (instant, is_event) in enumerate(sorted(instants.items())):
        # Behind the message before, whatever its own delay.
        arrival = max(instant + round(delay(instant)), arrival)
        events = (Event("E", instant, instant, name, seq, {}),) if is_event else ()
        found.append(Message(arrival, name, events, instant))
    return found


# A run.


@dataclass
class PolicyRun:
    """Consumption of the events of a network by one policy.

    Attributes:
        delays: of the counted events, ns, ascending.
        late: number of counted events that were not consumed, or behind a later one.
        unstable: number of counted events behind which an earlier one arrived.
        incidents: number of these earlier ones.
    """

    delays: list[int] = field(default_factory=list)
    late: int = 0
    unstable: int = 0
    incidents: int = 0

    @property
    def share(self) -> float:
        """Share of unstable ones among the consumed events."""
        return self.unstable / len(self.delays) if self.delays else 0.0

    @property
    def mean(self) -> float:
        """Mean delay, ns."""
        return sum(self.delays) / len(self.delays) if self.delays else 0.0

    def delay(self, share: float) -> float:
        """Delay that a share of the events does not exceed, ns."""
        return percentile(self.delays, share) if self.delays else 0.0


def consumed(policy: DetectionPolicy, arriving: Sequence[Message]) -> tuple[list[tuple[Event, int]], list[Released]]:
    """Events with the instants at which a policy consumes them, and all that it has released."""
    for source in sorted({each.source for each in arriving}):
        policy.join(source, INSTANT_MIN, 0)
    found: list[tuple[Event, int]] = []
    released: list[Released] = []

    def take(each: Released, now: int) -> None:
        found.extend((event, now) for event in each.events)
        released.append(each)

    tick = 0
    for arrival, source, events, watermark in arriving:
        while tick <= arrival:
            take(policy.tick(tick), tick)
            tick += TICK
        if events:
            take(policy.receive(source, events, watermark, arrival), arrival)
        else:
            take(policy.heartbeat([source], watermark, arrival), arrival)
    return found, released


def run(policy: DetectionPolicy, arriving: Sequence[Message]) -> PolicyRun:
    """Run a policy over the messages of a network."""
    found, released = consumed(policy, arriving)
    arrivals = {event.id: each.arrival for each in arriving for event in each.events}
    counted_from = arriving[-1].arrival * LEARNING
    made = PolicyRun(sorted(at - event.hi for event, at in found if at >= counted_from))
    late = [event for each in released for event in each.late]
    greatest = INSTANT_MIN
    for event, _ in found:
        if event.hi < greatest:
            late.append(event)
        greatest = max(greatest, event.hi)
    made.late = sum(arrivals[each.id] >= counted_from for each in late)
    at_of = {event.id: at for event, at in found}
    # Last arrival of an event up to the one before, and that event.
    latest, last = 0, None
    incidents: set[object] = set()
    for event in sorted((event for each in arriving for event in each.events), key=lambda each: each.key):
        at = at_of.get(event.id)
        if at is not None and counted_from <= at < latest:
            made.unstable += 1
            incidents.add(last)
        if arrivals[event.id] > latest:
            latest, last = arrivals[event.id], event.id
    made.incidents = len(incidents)
    return made


@dataclass
class DetectionFigures:
    """Results of the benchmark: runs by network and policy, with the settings."""

    seed: int = 0
    seconds: float = 0.0
    runs: dict[tuple[str, str], PolicyRun] = field(default_factory=dict)


def measure(
    seconds: float = 600.0, seed: int = 1, on_progress: OnProgress = no_progress, policies: Sequence[str] = POLICIES
) -> DetectionFigures:
    """Run all policies on all networks."""
    figures = DetectionFigures(seed, seconds)
    steps = len(NETWORKS) * len(policies)
    for name, network in NETWORKS.items():
        arriving = messages(network, seed, seconds)
        for policy in policies:
            on_progress(f"{name}, {policy}", len(figures.runs), steps)
            figures.runs[name, policy] = run(detection_policy(policy), arriving)
    return figures


# The report.


def upper_share(unstable: int, incidents: int, number: int) -> float:
    """Lower end of Wilson's interval (95 %) of a share: what is above a threshold there is above it for certain.

    One event that arrives late makes all unstable that were consumed before it: they count as one observation.
    """
    if not number or not unstable:
        return 0.0
    consumed_events = number * max(incidents, 1) / unstable
    z, share = 1.96, unstable / number
    middle = share + z * z / (2 * consumed_events)
    spread = z * sqrt(share * (1 - share) / consumed_events + z * z / (4 * consumed_events**2))
    return (middle - spread) / (1 + z * z / consumed_events)


def report(figures: DetectionFigures) -> Report:
    """The figures as a report."""
    faults: list[str] = []
    rows: list[Sequence[Cell]] = []
    for (name, policy), made in figures.runs.items():
        slowest = figures.runs.get((name, "guaranteed"), PolicyRun())
        bar = _bar(name, policy, made, slowest)
        if bar.startswith("not"):
            faults.append(f"{name}, {policy}: {bar}")
        part = made.mean / slowest.mean if slowest.mean else 0.0
        delays = (each / MILLISECOND for each in (made.mean, made.delay(0.5), made.delay(0.99)))
        rows.append((name, policy, *delays, part, made.late, made.share, bar))
    columns = (
        Column("network"), Column("policy"), Column("mean, ms", format=",.1f"), Column("p50", format=",.1f"),
        Column("p99", format=",.1f"), Column("of guaranteed", format=".2f"), Column("late", format=","),
        Column("unstable", format=".5f"), Column("bar"),
    )  # fmt: skip
    return Report(
        "detection",
        {
            "seed": figures.seed,
            "seconds": figures.seconds,
            "runs": [
                {"network": name, "policy": policy, "events": len(each.delays), "mean": each.mean,
                 "p50": each.delay(0.5), "p99": each.delay(0.99), "late": each.late, "unstable": each.unstable,
                 "incidents": each.incidents}
                for (name, policy), each in figures.runs.items()
            ],
        },
        [ReportTable(columns, rows)],
        [*(f"{name}: {each.about}" for name, each in NETWORKS.items()),
         f"{figures.seconds:,.0f} s of virtual time, of which the first {LEARNING:.0%} are not counted",
         "delays from the `hi` of an event to its consumption"],
        faults=faults,
        plots={
            f"detection-{name.replace(', ', '-').replace(' ', '-')}.svg": partial(_plot, figures, name)
            for name in NETWORKS
        },
    )  # fmt: skip


def _bar(name: str, policy: str, made: PolicyRun, guaranteed: PolicyRun) -> str:
    """What a run is held to, and whether it is."""
    parsed = parse_detection(policy)
    if policy == "guaranteed":
        if made.unstable or made.late:
            return "not stable"
        if name == STEADY:
            most = max(NETWORKS[name].beats) + 7 * MILLISECOND
            return f"{'p99 ≤' if made.delay(0.99) <= most else 'not p99 ≤'} {most // MILLISECOND} ms"
        return "no error"
    if parsed.probability == 1.0:
        return ""
    allowed = 1 - parsed.probability
    if upper_share(made.unstable, made.incidents, len(made.delays)) > allowed:
        return f"not ≤ {allowed:.4g} unstable"
    if name == TAIL and parsed.probability == 0.99 and made.mean > guaranteed.mean / 2:
        return "not half the delay"
    return f"≤ {allowed:.4g} unstable"


def _plot(figures: DetectionFigures, name: str) -> str:
    shares = [0.01, *(each / 20 for each in range(1, 20)), 0.99]
    series = {
        policy: [(share, made.delay(share) / SECOND) for share in shares]
        for (network, policy), made in figures.runs.items()
        if network == name
    }
    return lines(series, title=f"Delay to consumption: {name}", across="share of events", unit="s", logarithmic=True)
