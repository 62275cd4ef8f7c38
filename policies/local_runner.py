"""A graph of detectors in one process, with random delays, to test transparency; conformance cases on cut patterns.

Design, section 2: under guaranteed detection the composite events depend on pattern and published events alone. Each
pair of sender and reader has a queue; a seeded random choice serves the queues, so any interleaving that keeps the
order of each, as MQTT does, may occur. Watermarks travel with events and as heartbeats, optionally in wire format.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

from distced.detectors.automata.properties import recurs
from distced.detectors.compiler import Compiled
from distced.detectors.conformance.case_runner import Run
from distced.detectors.cutting.cut import Choose, DetectorGraph, DetectorPlan, cut, full, none, randomly
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engines import Kinds
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import CompositeEvent, Event, OpenGap
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.frames import decode, encode
from distced.policies.detection.guaranteed import Guaranteed

HowCut: TypeAlias = Literal["none", "full", "random"]

SOURCES: Final = 3
"""Number of sources the events of a case are spread over."""


@dataclass(frozen=True, slots=True)
class LocalMessage:
    """A message of a source or detector; later ones have `hi` after `watermark`; `open`: gaps in derivations."""

    source: str
    events: tuple[Event, ...]
    watermark: int | None
    open: tuple[OpenGap, ...] = ()


@dataclass(slots=True)
class LocalHost:
    """A detector, types it reads (None: all primitive ones), and incoming messages, queued by sender."""

    plan: DetectorPlan
    detector: Detector
    reads: frozenset[str] | None
    queues: dict[str, deque[LocalMessage]] = field(default_factory=dict)

    def wants(self, event: Event) -> bool:
        return self.reads is None or event.type in self.reads


class LocalRunner:
    """Runs a graph of detectors, guaranteed, to the last message; `found`: distinct composite events of each root."""

    def __init__(
        self,
        graph: DetectorGraph,
        random: Random,
        kinds: Callable[[str], Mapping[str, Kind] | None] = lambda _: None,
        *,
        over_wire: bool = False,
    ) -> None:
        self.graph = graph
        self.random = random
        self.over_wire = over_wire
        self.hosts: dict[str, LocalHost] = {}
        self.found: dict[str, dict[tuple[str, int], CompositeEvent]] = {root: {} for root in graph.roots}
        self.messages = 0
        published: dict[str, list[str]] = {}
        for plan in graph.plans.values():
            if plan.compiled.automaton.output is not None and plan.compiled.automaton.output.type_name:
                published.setdefault(plan.compiled.automaton.output.type_name, []).append(plan.id)
        self._kinds = kinds
        self._readers: dict[str, list[LocalHost]] = {}
        for plan in graph.plans.values():
            detector = self.detector(plan)
            host = LocalHost(plan, detector, plan.compiled.automaton.type_names())
            self.hosts[plan.id] = host
            writers = [each for name in sorted(plan.compiled.names()) for each in published.get(name, ())]
            for writer in dict.fromkeys((*plan.parts, *writers)):
                self._readers.setdefault(writer, []).append(host)
                host.queues[writer] = deque()
                detector.join(writer, INSTANT_MIN, 0)

    def detector(self, plan: DetectorPlan) -> Detector:
        return Detector(plan.compiled, Guaranteed(), self._kinds, derivations=self.graph.derivations(plan.id))

    def run(self, sources: Mapping[str, Sequence[Event]], until: int = INSTANT_MAX) -> None:
        """Publish the events of each source, in its order, and promise that no more come up to an instant, ns."""
        ends = [until]
        if any(recurs(plan.compiled.automaton) for plan in self.graph.plans.values()):
            # Behind the last event they recur no more, for every detector.
            ends.insert(0, min(until, max((each.hi for events in sources.values() for each in events), default=until)))
        plans = {source: self._messages(source, events, ends) for source, events in sources.items()}
        for host in self.hosts.values():
            for source in plans:
                host.queues[source] = deque()
                host.detector.join(source, INSTANT_MIN, 0)
        waiting: dict[str, deque[LocalMessage]] = {source: deque(messages) for source, messages in plans.items()}
        if not sources:
            for host in self.hosts.values():
                self._send(host, host.detector.heartbeat((), until, 0))
        while True:
            choices: list[tuple[deque[LocalMessage], LocalHost | None]] = [
                (queue, None) for queue in waiting.values() if queue
            ]
            choices += [(queue, host) for host in self.hosts.values() for queue in host.queues.values() if queue]
            if not choices:
                return
            queue, reader = self.random.choice(choices)
            message = queue.popleft()
            if reader is None:
                for each in self.hosts.values():
                    wanted = tuple(event for event in message.events if each.wants(event))
                    each.queues[message.source].append(LocalMessage(message.source, wanted, message.watermark))
            else:
                self._deliver(reader, message)

    def composites(self, root: str) -> list[CompositeEvent]:
        """Composite events of a pattern, in order of arrival."""
        return list(self.found[root].values())

    def _messages(self, source: str, events: Sequence[Event], ends: Sequence[int]) -> Iterable[LocalMessage]:
        """Events of a source in messages of random length, with watermarks it can keep."""
        at = 0
        while at < len(events):
            size = self.random.randint(1, 3)
            at += size
            rest = min((event.hi for event in events[at:]), default=ends[0] + 1)
            watermark = None if self.random.random() < 0.3 else rest - 1 - self.random.choice((0, 0, 1))
            yield LocalMessage(source, tuple(events[at - size : at]), watermark)
        for end in ends:
            yield LocalMessage(source, (), end)

    def _deliver(self, host: LocalHost, message: LocalMessage) -> None:
        self.messages += 1
        detector = host.detector
        if message.open and message.watermark is not None:
            detector.hear_open(message.source, message.open, message.watermark)
        self._send(host, detector.receive(message.source, message.events, message.watermark, 0))

    def _send(self, host: LocalHost, detected: Detected) -> None:
        found = self.found.get(host.plan.id)
        for event in detected.events:
            if found is not None:
                found.setdefault(event.id, event)
        readers = self._readers.get(host.plan.id, ())
        if not readers or (not detected.events and detected.watermark is None):
            return
        opens = host.detector.open_gaps() if detected.watermark is not None and self.random.random() < 0.5 else ()
        message = LocalMessage(host.plan.id, tuple(detected.events), detected.watermark, tuple(opens))
        if self.over_wire:
            message = self._sent(host, message)
        for reader in readers:
            reader.queues[host.plan.id].append(message)

    def _sent(self, host: LocalHost, message: LocalMessage) -> LocalMessage:
        """The message after the wire format."""
        plan = host.plan
        output = plan.compiled.automaton.output
        frame = decode(
            encode(
                message.events,
                type=plan.id if output is None else output.type_name or plan.id,
                source=plan.id,
                watermark=message.watermark,
                kind="c",
                open=message.open,
            )
        )
        return LocalMessage(frame.source, tuple(frame.events), frame.watermark, frame.open)


def cut_run(how: HowCut, seed: int = 0) -> Run:
    """Runner of cases with each pattern cut; random delays and order between its detectors."""

    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        random = Random(seed)
        choices: dict[HowCut, Choose] = {"none": none, "full": full}
        choose = choices.get(how) or randomly(random)
        runner = LocalRunner(cut(patterns, choose), random, kinds, over_wire=True)
        runner.run(spread(events, random))
        return [each for root in runner.graph.roots for each in runner.composites(root)]

    return run


def spread(events: Sequence[Event], random: Random, *, disorder: float = 0.3) -> dict[str, list[Event]]:
    """Events over several sources in order of publication; `disorder`: probability of exchanging two neighbours."""
    spread_out: dict[str, list[Event]] = {f"source {number}": [] for number in range(SOURCES)}
    for event in events:
        spread_out[random.choice(list(spread_out))].append(event)
    for published in spread_out.values():
        for place in range(1, len(published)):
            if random.random() < disorder:
                published[place - 1], published[place] = published[place], published[place - 1]
    return spread_out
