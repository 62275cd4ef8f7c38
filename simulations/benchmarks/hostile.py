"""`distced bench hostile`: detections of honest clients beside one with valid rights and the worst intentions.

A mosquitto with the users and the access list of `distced init`, a broker node in a process of its own with the default
limits, an honest publisher and an honest subscriber, and a hostile client in a third process, which may publish events
of two types, any type, and subscribe (`attacks`). Events come at a steady pace, and each is detected. The delay is from
publishing to the callback. Each trial has a phase without the attack and one beside it, at a server and a node of its
own; all attacks take turns, some rounds of them. What an attack costs is the difference of the p99s of a trial, the
median of the rounds.

What part of that is none of the node: a bare subscriber to the events themselves, in a process of its own, measures
what server and machine take, before and beside the attack. On a machine with few processors everybody waits for these;
processor times of server and node for each hostile message do not depend on other work there.

Every event is counted: one that is not detected is a fault, and so is a node that does not answer.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from distced.brokers.deployment.access_list import DeployedUser
from distced.brokers.deployment.deployment_file import Deployment, ServerSite
from distced.brokers.deployment.folder import apply
from distced.brokers.live.mqtt_server import start_server
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.frames import decode
from distced.middleware.wire.topics import event_topic
from distced.simulations.benchmarks.attacks import ATTACKS, HONEST, SOURCE, assail, raw_client
from distced.simulations.benchmarks.live import PATIENCE, quieten
from distced.simulations.benchmarks.many_subscriptions import ask, host_node
from distced.simulations.plots import percentile
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

PATTERN: Final = "[Reading as r] -> Seen(v = r.v)"

WARM_UP: Final = 2.0
"""Time of events that are not measured: engines are compiled meanwhile, s."""

AWAITED: Final = 5.0
"""Time for detections behind the last event of a phase, s; those that have not come by then are missing."""

MOST: Final = 100.0
"""By how much the p99 of detections may exceed that without an attack, ms."""

USERS: Final = {
    "cellar": DeployedUser(("node",)),
    "badges": DeployedUser(("publisher",), sources=(SOURCE,), types=(HONEST.name,)),
    "ada": DeployedUser(("client",)),
    # A bridge may publish events of any source, and types.
    "mallory": DeployedUser(("client", "bridge")),
}


@dataclass(frozen=True)
class Phase:
    """Delays at a steady pace, s, sorted.

    Attributes:
        delays: from publishing to the callback of the subscriber to the pattern.
        bare: to that of a bare subscriber to the events.
        missing: number of events that were not detected in time.
    """

    delays: list[float]
    bare: list[float]
    missing: int


@dataclass(frozen=True)
class Trial:
    """An attack at a server and a node of its own.

    Attributes:
        before, beside: phases without the attack and with it.
        sent: messages of the attack.
        server, node: their processor time beside the attack, as shares of a processor.
        each: that of both for a message of the attack, s, as far as it is more than before; 0 for none.
        memory: resident memory of the node afterwards, bytes.
        counts: counters of the node afterwards.
    """

    before: Phase
    beside: Phase
    sent: int
    server: float
    node: float
    each: float
    memory: int
    counts: dict[str, int]

    def more(self, of: Callable[[Phase], list[float]], share: float = 0.99) -> float:
        """By how much delays beside the attack exceed those before it, ms."""
        before, beside = (percentile(of(each) or [0.0], share) for each in (self.before, self.beside))
        return (beside - before) * 1000


@dataclass
class Hostility:
    """Results of the benchmark.

    Attributes:
        trials: by attack, one for each round.
        failed: what has gone wrong.
    """

    trials: dict[str, list[Trial]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def difference(self, attack: str) -> float:
        """By how much the p99 of detections beside an attack exceeds that before it, ms: the median of the rounds."""
        return statistics.median(each.more(_delays) for each in self.trials[attack])

    def of_others(self, attack: str) -> float:
        """The same of the bare subscriber: what is due to the server and the machine, ms."""
        return statistics.median(each.more(_bare) for each in self.trials[attack])


def _delays(phase: Phase) -> list[float]:
    return phase.delays


def _bare(phase: Phase) -> list[float]:
    return phase.bare


def measure(
    pace: int = 200,
    seconds: float = 3.0,
    size: int = 100_000,
    attacks: tuple[str, ...] = (),
    rounds: int = 3,
    on_progress: OnProgress = no_progress,
) -> Hostility:
    """Run the benchmark on servers of its own. `size`: number of subscriptions, thousandths of the bytes of a frame,
    eight times the types, a thousand times the patterns that explode."""
    made = Hostility()
    chosen = attacks or tuple(ATTACKS)
    if unknown := [each for each in chosen if each not in ATTACKS]:
        raise DistcedError("not an attack", given=unknown[0], allowed=", ".join(ATTACKS), where="--attacks")
    for place, name in enumerate(chosen * rounds):
        on_progress(name, place, len(chosen) * rounds)
        try:
            made.trials.setdefault(name, []).append(_try(name, pace, seconds, size))
        except DistcedError as error:
            made.failed.append(f"{name}: {error.problem}")
    made.trials = {name: trials for name, trials in made.trials.items() if trials}
    return made


def _try(name: str, pace: int, seconds: float, size: int) -> Trial:
    """Try one attack, at a server and a node of its own."""
    with (
        _deployed() as (urls, server),
        _answering(host_node, urls["cellar"], None, name="cellar") as node,
        _answering(_listen, urls["ada"]) as listener,
        Client(urls["badges"], name="badges") as publisher,
        Client(urls["ada"], name="ada") as subscriber,
    ):
        subscriber.wait_for_nodes(1, PATIENCE)
        publisher.register(HONEST)
        honest = _Honest(publisher, subscriber, listener, pace)
        honest.phase(WARM_UP)

        def measured() -> tuple[Phase, float, float]:
            times = processor_time(server), ask(node, "processor")
            phase = honest.phase(seconds)
            return phase, processor_time(server) - times[0], ask(node, "processor") - times[1]

        begin = time.perf_counter()
        before, *quiet = measured()
        middle = time.perf_counter()
        with _assaulting(urls["mallory"], name, size) as sent:
            beside, *busy = measured()
            number = sent.value
        took = time.perf_counter() - middle
        # Phases last longer where events are late.
        more = sum(busy) - sum(quiet) * took / (middle - begin)
        return Trial(
            before,
            beside,
            number,
            busy[0] / took,
            busy[1] / took,
            more / number if number else 0.0,
            ask(node, "memory"),
            ask(node, "counts"),
        )


@contextmanager
def _answering(serve: Callable[..., None], url: str, *arguments: Any, **named: Any) -> Iterator[Any]:
    """Process that answers over a pipe until its stop."""
    context = mp.get_context("spawn")
    asking, asked = context.Pipe()
    process: Any = context.Process(target=serve, args=(url, *arguments, asked), kwargs=named, daemon=True)
    process.start()
    try:
        yield asking
    finally:
        if process.is_alive():
            asking.send("stop")
            process.join(PATIENCE)
        if process.is_alive():
            process.kill()


def _listen(url: str, asked: Any) -> None:
    """Bare subscriber to the events, which sends the delays since the last question, sorted."""
    quieten()
    found: list[float] = []
    client = raw_client(url)
    client.on_message = lambda _client, _data, message: found.append(_age(message.payload))
    client.subscribe(event_topic(HONEST.name, SOURCE), 0)
    while asked.recv() != "stop":
        asked.send(sorted(found))
        found.clear()
    client.disconnect()
    client.loop_stop()


def _age(payload: bytes) -> float:
    now = time.time_ns()
    return (now - decode(payload).events[0].hi) / 1e9


class _Honest:
    """Publisher at a steady pace, and subscriber."""

    def __init__(self, publisher: Client, subscriber: Client, listener: Any, pace: int) -> None:
        self.pace = pace
        self._source = publisher.source(SOURCE, [HONEST.name])
        self._listener = listener
        self._found: dict[float, float] = {}
        self._number = 0
        subscriber.subscribe(PATTERN, lambda event: self._take(event.attributes["v"], event.hi))

    def _take(self, number: Any, at: int) -> None:
        self._found[number] = (time.time_ns() - at) / 1e9

    def phase(self, seconds: float) -> Phase:
        """Publish for a while, and await all detections."""
        self._found.clear()
        ask(self._listener, "delays")
        count = int(seconds * self.pace)
        began = time.perf_counter()
        for place in range(count):
            while (wait := began + place / self.pace - time.perf_counter()) > 0:
                time.sleep(wait)
            self._number += 1
            now = time.time_ns()
            event = self._source.create(HONEST.name, now, dev="meter", v=self._number)
            self._source.publish(event, watermark=now)
        end = time.perf_counter() + AWAITED
        while len(self._found) < count and time.perf_counter() < end:
            time.sleep(0.01)
        return Phase(sorted(self._found.values()), ask(self._listener, "delays"), count - len(self._found))


@contextmanager
def _assaulting(url: str, name: str, size: int) -> Iterator[Any]:
    """Attack, in a process of its own; the number of its messages so far."""
    context = mp.get_context("spawn")
    ready, over, sent = context.Event(), context.Event(), context.Value("q", 0, lock=False)
    process = context.Process(target=assail, args=(url, name, size, sent, ready, over), daemon=True)
    process.start()
    ready.wait(PATIENCE)
    try:
        yield sent
    finally:
        over.set()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()


@contextmanager
def _deployed() -> Iterator[tuple[dict[str, str], int]]:
    """Server with users and access list; URLs by user, and its process id."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        apply(Deployment({"main": ServerSite(("127.0.0.1",))}, USERS), folder, datetime.now(UTC))
        server = folder / "servers" / "main"
        limits = [each for each in (server / "mosquitto.conf").read_text().splitlines() if "max_packet_size" in each]
        # As root, mosquitto gives up its rights otherwise, and with them those to the files.
        user = ["user root"] if os.geteuid() == 0 else []
        settings = [*user, *limits, f"password_file {server / 'users'}", f"acl_file {server / 'access'}"]
        with start_server("mosquitto", settings=settings) as running:
            urls = {
                name: f"mqtt://{name}:{(folder / 'participants' / name / 'password').read_text().strip()}"
                f"@{running.host}:{running.port}"
                for name in USERS
            }
            yield urls, running.pid


def processor_time(pid: int) -> float:
    """Processor time of a process, s; 0 where the system does not tell (no `/proc`)."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def report(figures: Hostility) -> Report:
    """The figures as a report."""
    rows: list[tuple[Any, ...]] = []
    faults = list(figures.failed)
    for name, trials in figures.trials.items():
        difference, others = figures.difference(name), figures.of_others(name)
        delays = [
            statistics.median(percentile(phase.delays or [0.0], share) * 1000 for phase in phases)
            for phases in ([each.before for each in trials], [each.beside for each in trials])
            for share in (0.5, 0.99)
        ]
        sent, server, node, each = (
            statistics.median(getattr(trial, field) for trial in trials) for field in ("sent", "server", "node", "each")
        )
        memory = max(trial.memory for trial in trials) / 1e6
        rows.append((name, *delays, difference, others, sent, 100 * server, 100 * node, 1e6 * each, memory))
        if missing := sum(trial.before.missing + trial.beside.missing for trial in trials):
            faults.append(f"{name}: {missing:,} events were not detected within {AWAITED:.0f} s")
        if difference > MOST:
            faults.append(
                f"{name}: p99 is {difference:.0f} ms more, beyond {MOST:.0f} ms; "
                f"{others:.0f} ms more at a bare subscriber, for server and machine"
            )
    milliseconds = number_columns(
        ".1f", "before p50", "before p99", "beside p50", "beside p99", "p99 more", "bare p99 more", unit="ms"
    )
    shares = number_columns(".0f", "server", "node", unit="% of a processor")
    columns = (
        Column("attack"),
        *milliseconds,
        *number_columns(".0f", "messages"),
        *shares,
        *number_columns(".0f", "each message", unit="µs"),
        *number_columns(".0f", "memory", unit="MB"),
    )
    return Report(
        "hostile",
        {
            "p99 more": {
                name: {
                    "detections": [each.more(_delays) for each in trials],
                    "bare": [each.more(_bare) for each in trials],
                }
                for name, trials in figures.trials.items()
            },
            "counts": {name: trials[-1].counts for name, trials in figures.trials.items()},
        },
        [ReportTable(columns, rows, "delays")],
        [
            "delays of detections of honest clients, from publishing to the callback, before and beside each attack: "
            "medians of the rounds",
            "p99 more: by how much the p99 beside the attack exceeds that before it; bare: of a subscriber to events "
            "without a node, which is what server and machine take",
            "each message: processor time of server and node for a message of the attack",
            "memory is the greatest resident memory of the node after the attack",
        ],
        faults,
    )
