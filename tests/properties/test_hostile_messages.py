"""Messages made of valid ones at random: a node raises nothing, keeps its invariants, and counts what it cannot read.

The corpus is what is published around nodes with parts, replicas, moves and durable subscriptions: of some schedules of
the fault campaign. A node is given mutations of it, at random amid what it is given anyway. In a long run a million are
tried. What has failed is a case in `tests/brokers/test_senseless_entries.py`.
"""

from __future__ import annotations

import base64
import io
import json
from functools import cache
from random import Random
from typing import Final

import pytest

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.frames import decode
from distced.middleware.wire.topics import Area, administration_topic, parse_topic
from distced.simulations.chaos.schedule import KINDS, scenario
from distced.simulations.network.scenario.run import Simulation
from tests.brokers.test_node import FAST, A, B, event
from tests.support.mutations import mutated_message
from tests.support.reachable import reachable_bytes
from tests.support.virtual_nodes import Network, VirtualNode

SCHEDULES: Final = (3, 4, 21, 67)
"""Schedules of the fault campaign whose messages are mutated."""

START: Final = scenario(SCHEDULES[0], list(KINDS)).start

IN_A_RUN: Final = 2_000
RUNS: Final = 500
"""Messages for each network, and networks of a long run."""

SUBSCRIPTIONS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("[A] ; [B]", {}),
    ("([A] ; [B]) ; [A]+ within 10s", {"decomposition": "full"}),
    ("[Fast] -> Out()", {"distribution": "max-reliability"}),
    ("[Out] ; [B]", {"policy": "best-effort"}),
    ("[A as a] ; [B where k == a.k] within 1min", {"policy": "probabilistic(0.9)"}),
)

Message = tuple[str, bytes]


@cache
def corpus() -> tuple[Message, ...]:
    """Topics and payloads, each once."""
    found: dict[Message, None] = {}
    for seed in SCHEDULES:
        log = io.StringIO()
        Simulation(scenario(seed, list(KINDS)), log=log).run()
        for line in log.getvalue().splitlines():
            _, _, _, topic, text = json.loads(line)
            encoded = text.removeprefix("base64:")
            payload = base64.b64decode(encoded) if encoded != text else text.encode()
            found[_renamed(topic), _renamed_bytes(payload)] = None
    # Of events far more than of all others.
    by_kind: dict[str, list[Message]] = {}
    for each in found:
        by_kind.setdefault("/".join(each[0].split("/")[1:3]), []).append(each)
    return tuple(each for messages in by_kind.values() for each in messages[:300])


NAMES: Final = {"node-1": "n1", "node-2": "n2", "publisher-publisher-1": "c", "publisher-1": "s"}
"""Names in the schedules, and those here."""


def _renamed(text: str) -> str:
    for name, other in NAMES.items():
        text = text.replace(name, other)
    return text


def _renamed_bytes(payload: bytes) -> bytes:
    """With other names in JSON; msgpack has the lengths of its texts."""
    return _renamed(payload.decode()).encode() if payload[:1] in (b"{", b"[") else payload


class Hostile:
    """Network of two nodes, one of which is given mutated messages.

    Attributes:
        given: number of them.
        unread: number of messages with events that could not be read.
    """

    def __init__(self, seed: int, window: str = "") -> None:
        self.window = window
        self.random = Random(seed)
        self.network = Network(seed)
        # As in the corpus: what is far beyond the clock is rejected.
        self.network.now = START
        self.node: VirtualNode = self.network.node("n1")
        self.network.node("n2")
        self.client = self.network.client("c")
        self.network.run()
        self.given = self.unread = 0
        self.payloads = tuple(payload for _, payload in corpus())
        self.subscribe()

    def subscribe(self) -> None:
        """Have detectors, parts, replicas and readers of types on the nodes, whatever has been cleared."""
        if self.given:
            self.network.lose(self.client, for_good=self.random.random() < 0.5)
            self.client = self.network.client(f"c{self.given}")
        self.client.register(A, B, FAST)
        self.client.source(f"s{self.given}", ["A", "B"], watermark=self.network.now)
        self.network.run()
        for number, (pattern, asked) in enumerate(SUBSCRIPTIONS):
            self.client.subscribe(f"q{self.given}.{number}", _windowed(pattern, self.window), **asked)
        self.network.run()

    def give(self) -> None:
        """One message more."""
        topic, payload = self.random.choice(corpus())
        if self.random.random() < 0.05:
            # A topic of another kind.
            topic = self.random.choice(corpus())[0]
        if topic.endswith("/since"):
            # A later node of this name, for which this one ends.
            return
        made = mutated_message(self.random, payload, self.payloads)
        before = self.node.node.dead_letters.counts.total()
        reads = self._reads(topic)
        self.node.receive(topic, made)
        self.given += 1
        if reads and not _is_frame(made, topic):
            self.unread += 1
            assert self.node.node.dead_letters.counts.total() > before, (topic, made)
        if self.given % 10 == 0:
            self.happen()
            self.network.run()
        if self.given % 40 == 0:
            self.network.pass_time(SECOND // 2)
        if self.given % 200 == 0:
            self.subscribe()

    def happen(self) -> None:
        """Events of the client."""
        source, now = next(reversed(self.client.acknowledged)), self.network.now
        for name in ("A", "B"):
            self.client.publish(event(name, now + self.given, source=source, k=20), watermark=now + self.given)

    def _reads(self, topic: str) -> bool:
        """Whether the node reads messages with events on this topic."""
        try:
            area, _ = parse_topic(topic)
        except DistcedError:
            return False
        return area is Area.EVENTS and self.node.node.event_path.routes.known.get(topic) is not None


def _windowed(pattern: str, window: str) -> str:
    body, arrow, output = pattern.partition(" -> ")
    return f"({body}){window}{arrow}{output}" if window else pattern


def _is_frame(payload: bytes, topic: str) -> bool:
    try:
        decode(payload, where=topic)
    except DistcedError:
        return False
    return True


def run(seed: int) -> Hostile:
    hostile = Hostile(seed)
    try:
        while hostile.given < IN_A_RUN:
            hostile.give()
        hostile.node.node.validate()
    except Exception as error:
        raise AssertionError(f"seed {seed}, message {hostile.given}: {type(error).__name__}: {error}") from error
    return hostile


SETTLED, IN_ALL = 50_000, 200_000
"""Messages after which the memory of a node is measured first, and in all."""

GROWTH: Final = 5_000_000
"""Bytes by which it may grow then: what it has at an instant differs."""


def memories(seed: int, *counts: int) -> list[int]:
    """Memory of a node after numbers of messages; clients that are gone leave nothing but their entries, which are
    cleared."""
    # Without a window a detector keeps what waits for the rest of its match, up to its own limits.
    hostile = Hostile(seed, " within 10s")
    network, found = hostile.network, list[int]()
    while len(found) < len(counts):
        hostile.give()
        if hostile.given % 200 == 0:
            # What the harness and the server keep.
            for kept in (network.notes, network.letters, network.json):
                kept.clear()
            for topic in list(network.retained):
                area, levels = parse_topic(topic)
                gone = levels[0] in ("source", "client") and levels[1] not in (hostile.client.name, _last(hostile))
                if area is Area.DIRECTORY and gone:
                    network.publish(topic, b"", retain=True)
            # A source of the corpus that is announced and promises nothing holds detection, and what it waits for.
            for name in hostile.node.node.directory.sources:
                if name != _last(hostile):
                    network.publish(administration_topic("fence", name), b"")
            for each in [each for each in network.participants if not each.connected]:
                network.participants.remove(each)
            network.run()
        if hostile.given == counts[len(found)]:
            network.pass_time(SECOND)
            found.append(reachable_bytes(hostile.node.node, [network, corpus()]))
    return found


def _last(hostile: Hostile) -> str:
    return next(reversed(hostile.client.acknowledged), "")


def test_memory_is_flat() -> None:
    first, last = memories(5, 2_000, 8_000)
    assert last - first < GROWTH, (first, last)


@pytest.mark.properties
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", [6, 7])
def test_memory_is_flat_at_length(seed: int) -> None:
    first, last = memories(seed, SETTLED, IN_ALL)
    assert last - first < GROWTH, (first, last)


@pytest.mark.parametrize("seed", [1, 2])
def test_messages_at_random(seed: int) -> None:
    hostile = run(seed)
    counts = hostile.node.node.counts
    assert hostile.unread > 20 and counts["events"] > 50


@pytest.mark.properties
@pytest.mark.timeout(0)
@pytest.mark.parametrize("start", range(0, RUNS, 50))
def test_messages_at_random_at_length(start: int) -> None:
    assert sum(run(1_000 + seed).given for seed in range(start, start + 50)) == 50 * IN_A_RUN
