"""Subscriptions that begin with recorded events: history first, then live, in order, nothing lost and nothing twice."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from distced.brokers.core.effects import Load, Pieces, ReadHistory, Save
from distced.detectors.compiler import compile_pattern
from distced.detectors.limits import Limits
from distced.detectors.runtime.engines import make_engine
from distced.middleware.client.source_session import SourceState, heartbeat
from distced.middleware.history.coverage import HistoryPart, covered
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import Derivation, EventType, TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Hints
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_recording import RecordingNetwork, VirtualRecorder
from tests.support.virtual_nodes import VirtualNode

PRIMITIVE = [event_type(name, {"k": "number"}) for name in "ABC"]
TYPES = [
    *PRIMITIVE,
    EventType("Tick", {}, Derivation("%every 1500ms")),
    EventType("Was", PRIMITIVE[0].attributes, Derivation("A", by=("k",), last=True)),
]
PROMISE = SECOND // 2 - 1
"""Age of the events that sources may still publish, ns."""

PAIRS = "[A as a] ; [B where k == a.k] -> Out(k = a.k)"


class StoringNetwork(RecordingNetwork):
    """A network whose nodes have one store of checkpoints."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.store: dict[str, Pieces] = {}

    def _serve(self, participant: Any, effect: Any) -> None:
        match effect:
            case Save(number=number, entries=entries):
                self.store |= {name: each for name, each in entries.items() if each is not None}
                participant.do(participant.node.saved(number, "", self.now))
            case Load(detector=detector):
                found = [self.store[detector]] if detector in self.store else []
                participant.do(participant.node.loaded(detector, found, "", self.now))
            case _:
                super()._serve(participant, effect)


class Scene:
    """A recorder, nodes that read its history, an application, and sources of A, B and C."""

    def __init__(
        self,
        seed: int = 0,
        nodes: int = 2,
        *,
        numbered: bool = False,
        checkpoints: bool = False,
        types: tuple[str, ...] = ("A", "B"),
    ) -> None:
        self.network = network = StoringNetwork(seed)
        self.options = {"history": True, "checkpoints": checkpoints}
        self.random = Random(seed)
        for number in range(nodes):
            network.node(f"n{number}", **self.options)
        self.app = network.client("app")
        self.app.register(*TYPES)
        network.run()
        self.recorder: VirtualRecorder = network.recorder(types=types, flush_every=2 * SECOND)
        network.run()
        self.source = network.client("publisher")
        self.sequence = 0
        self.events: list[Event] = []
        network.history = self.read
        network.pass_time(SECOND)
        self.most = 3
        # Sources with numbered messages, as those of applications; others are without.
        self.numbered: dict[str, SourceState] = {}
        promised = self.network.now - PROMISE
        for name in ("s", "t"):
            if numbered:
                streams = self.source.session.sources.streams
                types = {each.name: each for each in PRIMITIVE[:2]}
                self.numbered[name] = SourceState("publisher", name, types, promised, 0, network.now, streams=streams)
            else:
                self.source.source(name, "AB", watermark=promised)
        if numbered:
            self.source.do(self.source.session.open_sources(list(self.numbered.values()), 0, "op"))
        network.run()

    @property
    def nodes(self) -> list[VirtualNode]:
        return self.network.nodes

    # History.

    def read(self, wanted: ReadHistory) -> HistoryPart:
        """A part of what the recorder has written, of a few events."""
        batches = self.recorder.batches
        notes = [RecorderNote(each.names, each.watermark, each.since, tuple(each.gaps)) for each in batches[-1:]]
        try:
            span = covered(notes, wanted.types, wanted.since)
        except DistcedError as error:
            return HistoryPart(problem=error)
        behind = span.begin - 1 if wanted.behind is None else wanted.behind
        events = sorted(
            (
                each
                for batch in batches
                for each in batch.events
                if behind < each.hi <= span.until and each.type in wanted.types
            ),
            key=lambda each: each.key,
        )
        part = events[: self.most]
        part += [each for each in events[self.most :] if part and each.hi == part[-1].hi]
        more = len(part) < len(events)
        return HistoryPart(part, span.begin, part[-1].hi if more else max(span.until, behind), more)

    # What happens.

    def happen(self, text: str, source: str = "s", at: int | None = None, k: int = 1, *, run: bool = True) -> None:
        """Events of an instant, that of the network if none is named, and a heartbeat of all sources behind them."""
        at = self.network.now if at is None else at
        for name in text:
            self.sequence += 1
            if self.numbered:
                event = self.numbered[source].create(name, at, k=k)
                for _, message in self.numbered[source].messages([event], None, self.network.now):
                    self.source.do([message])
            else:
                event = Event(name, at, at, source, self.sequence, {"k": k})
                self.source.publish(event)
            self.events.append(event)
        self.beat()
        if run:
            self.network.run()

    def beat(self) -> None:
        """A promise of all sources."""
        promised = self.network.now - PROMISE
        if self.numbered:
            self.source.do([heartbeat("publisher", list(self.numbered.values()), promised, self.network.now)])
        else:
            self.source.heartbeat(promised, "s", "t")

    def play(self, text: str) -> None:
        """Letters as events, half a second apart; those of a group are at one instant."""
        for group in re.findall(r"\(\w+\)|.", text):
            for each in group.strip("() "):
                self.happen(each.upper(), "s" if each.isupper() else "t")
            self.pass_time(0.5)

    def pass_time(self, seconds: float) -> None:
        """Time passes, with heartbeats."""
        for _ in range(round(2 * seconds)):
            self.network.pass_time(SECOND // 2)
            self.beat()
            self.network.run()

    def subscribe(
        self, name: str, pattern: str = PAIRS, *, since: int | str | None = "beginning", **asked: Any
    ) -> None:
        self.app.subscribe(name, pattern, since=since, **asked)
        self.network.run()

    def expected(self, pattern: str = PAIRS, since: int = 0, late: tuple[Event, ...] = ()) -> list[Any]:
        """Ids of the composite events over all events since an instant, in order."""
        engine = make_engine([compile_pattern(pattern, TypeRegistry(TYPES))], engine="stepwise")
        events = sorted((each for each in self.events if each.hi >= since and each not in late), key=lambda e: e.key)
        found = engine.feed(events) + engine.advance(self.network.now - PROMISE)
        return [each.id for each in found]

    def found(self, name: str) -> list[Any]:
        return [each.id for each in self.app.composites(name)]

    @property
    def reading(self) -> bool:
        """Whether a detector consumes recorded events."""
        return any(each.detector.in_history for node in self.network.nodes for each in node.node.hosted.values())

    @property
    def host(self) -> VirtualNode:
        (found,) = [each for each in self.network.nodes if each.node.hosted]
        return found

    def state(self, name: str) -> str:
        return self.app.states(name)[-1]


CASES: dict[str, tuple[Any, ...]] = {
    # What happens before the subscription, while its history is read, and behind that; each letter half a second later,
    # ` ` for nothing, lower case from the other source, (..) at one instant.
    "empty history": ("", "AB", "AB"),
    "nothing at all": ("", "", ""),
    "history only": ("ABAB", "", ""),
    "live only": ("", "", "ABB"),
    "a match across the seam": ("A", "", "B"),
    "a match begun in the history, ended while it is read": ("A", "B", ""),
    "matches everywhere": ("ABA", "BAB", "AB"),
    "ties in the history": ("A(Bb)(ab)", "B", ""),
    "ties while it is read": ("A", "(Bb)(Aa)(Bb)", "B"),
    "ties behind it": ("A", "A", "(Bb)(bB)"),
    "one source alone": ("AAA", "B", "BB"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("pattern", "policy"),
    [
        (PAIRS, "guaranteed"),
        ("[A as a] ; [B where k == a.k] by k -> Out(k = a.k)", "guaranteed"),
        (PAIRS, "best-effort"),
        (PAIRS, "bounded(3s)"),
        (PAIRS, "probabilistic(0.9)"),
    ],
)
def test_recorded_and_live_events_are_one_input(name: str, pattern: str, policy: str) -> None:
    before, meanwhile, behind = CASES[name]
    scene = Scene(sum(map(ord, name)))
    scene.play(before)
    scene.subscribe("s", pattern, policy=policy)
    scene.play(meanwhile)
    scene.pass_time(20)
    assert not scene.reading
    scene.play(behind)
    scene.pass_time(3)
    found, expected, on_arrival = scene.found("s"), scene.expected(pattern), policy == "best-effort"
    # On arrival, events of one instant come in no order, so that some are late.
    assert found == expected or (on_arrival and sorted(found) == sorted(expected))
    assert on_arrival or scene.app.losses.get("s", []) == []


def test_origin_is_an_instant() -> None:
    scene = Scene()
    scene.play("ABAB")
    since = scene.events[2].hi
    scene.subscribe("s", since=since)
    scene.subscribe("all")
    scene.subscribe("relative", since="-10s")
    scene.pass_time(20)
    scene.play("B")
    scene.pass_time(3)
    assert scene.found("s") == scene.expected(since=since) != scene.expected() == scene.found("all")


def test_recorder_that_is_behind_is_waited_for() -> None:
    scene = Scene()
    scene.play("A")
    scene.pass_time(3)
    scene.subscribe("s")
    scene.network.lose(scene.recorder)
    scene.play("B")
    scene.pass_time(30)
    assert scene.reading, "what was published before the subscription may be yet to be recorded"
    assert any(each.event == "history stands still" for each in scene.network.notes) is False
    scene.recorder.connect()
    scene.pass_time(30)
    assert not scene.reading
    scene.play("B")
    scene.pass_time(3)
    assert scene.found("s") == scene.expected()


def test_event_that_is_late_is_late_for_all() -> None:
    scene = Scene()
    scene.play("A")
    scene.pass_time(4)
    late = scene.events[-1].hi + 1
    scene.happen("B", at=late)
    scene.subscribe("s")
    scene.happen("B", at=late + 1)
    scene.pass_time(20)
    scene.happen("B", at=late + 2)
    scene.play("B")
    scene.pass_time(3)
    assert scene.found("s") == scene.expected(late=tuple(scene.events[1:4]))
    assert len(scene.found("s")) == 1


def test_detector_moves_once_its_history_is_consumed() -> None:
    scene = Scene()
    scene.play("A")
    scene.subscribe("s")
    host, other = scene.host, next(each for each in scene.nodes if not each.node.hosted)
    for expected in (host, other):
        topic = administration_topic("move", scene.app._subscriptions["s"].detector)
        scene.network.publish(topic, encode(MoveRequest(other.name)))
        scene.network.run()
        assert scene.host is expected
        scene.play("B")
        scene.pass_time(20)
    assert any("consumes recorded events" in str(each.fields) for each in scene.network.notes)
    assert scene.found("s") == scene.expected()


@pytest.mark.parametrize("seconds", [0, 1, 20])
def test_lost_host_is_followed_by_one_that_begins_again(seconds: int) -> None:
    scene = Scene()
    scene.play("AB")
    scene.subscribe("s")
    scene.pass_time(seconds)
    scene.network.lose(scene.host, for_good=True)
    scene.network.run()
    scene.play("AB")
    scene.pass_time(30)
    scene.play("B")
    scene.pass_time(3)
    assert scene.found("s") == scene.expected()
    assert scene.app.losses.get("s", []) == []


def test_checkpoint_goes_on_where_it_is() -> None:
    scene = Scene(numbered=True, checkpoints=True)
    scene.play("ABA")
    scene.subscribe("s")
    scene.pass_time(20)
    scene.play("B")
    scene.pass_time(3)
    scene.network.lose(scene.host, for_good=True)
    scene.network.run()
    scene.play("AB")
    scene.pass_time(20)
    assert any(each.event == "detector recovered" for each in scene.network.notes)
    assert sum(each.event == "history consumed" for each in scene.network.notes) == 1
    assert scene.found("s") == scene.expected()
    assert scene.app.losses.get("s", []) == []


def test_recorded_composite_events_are_read_like_others() -> None:
    scene = Scene(numbered=True, types=("A", "B", "Out"))
    scene.subscribe("out", PAIRS, since=None)
    scene.play("ABAB")
    scene.pass_time(4)
    reader = "[Out as o] ; [A where k == o.k] -> Again(k = o.k)"
    scene.subscribe("s", reader)
    scene.play("A")
    scene.pass_time(20)
    assert not scene.reading
    scene.play("ABA")
    scene.pass_time(5)
    found = scene.app.composites("s")
    assert [(each.lo, each.hi) for each in found] == again(scene)
    assert len(found) > 2


def again(scene: Scene) -> list[tuple[int, int]]:
    """Intervals of what follows pairs of A and B, over all events."""
    first = make_engine([compile_pattern(PAIRS)], engine="stepwise")
    events = sorted(scene.events, key=lambda each: each.key)
    pairs = first.feed(events) + first.advance(scene.network.now)
    second = make_engine([compile_pattern("[Out as o] ; [A where k == o.k] -> Again(k = o.k)")], engine="stepwise")
    return [(each.lo, each.hi) for each in second.feed(sorted([*events, *pairs], key=lambda each: each.key))]


def test_two_subscriptions_have_detectors_of_their_own() -> None:
    scene = Scene()
    scene.play("AB")
    scene.subscribe("first")
    scene.pass_time(20)
    scene.subscribe("second")
    scene.app.subscribe("live", PAIRS)
    scene.pass_time(20)
    scene.play("B")
    scene.pass_time(3)
    assert scene.found("first") == scene.found("second") == scene.expected()
    assert scene.found("live") == []


@pytest.mark.parametrize(
    ("pattern", "asked", "message"),
    [
        ("[C]", {}, "types that no recorder records now: C (allowed: A, B)"),
        ("[any]", {}, "a pattern that reads any event"),
        (PAIRS, {"since": -5}, "the recording begins later"),
        (PAIRS, {"hints": Hints(isolated=True)}, "cannot begin with recorded events: isolated"),
    ],
)
def test_origin_that_is_not_possible_is_refused(pattern: str, asked: dict[str, Any], message: str) -> None:
    scene = Scene()
    scene.play("AB")
    scene.pass_time(4)
    scene.subscribe("s", pattern, **asked)
    (refused,) = [each for each in scene.app.answers["s"] if each.state == "refused"]
    assert message in refused.message
    assert not scene.reading and not any(each.node.hosted for each in scene.nodes)


def test_more_live_events_than_may_wait_are_an_error() -> None:
    scene = Scene(nodes=0)
    scene.network.node("n", history=True, detector_limits=Limits(waiting=3))
    scene.network.run()
    scene.play("A")
    scene.subscribe("s")
    scene.network.lose(scene.recorder)
    scene.play("AABAA")
    scene.pass_time(3)
    assert "more live events wait for the recorded ones" in scene.app.answers["s"][-1].message


def test_node_without_a_history_hosts_none() -> None:
    scene = Scene(nodes=0)
    scene.network.node("n", history=False)
    scene.network.run()
    scene.subscribe("s")
    assert scene.state("s") == "refused"
    assert "no node that reads a history" in scene.app.answers["s"][-1].message


PATTERNS = (
    PAIRS,
    "[A as a] ; [B where k == a.k] by k -> Out(k = a.k)",
    "([A] & [B]) -> Out()",
    "([A], [T <= {T, B}]) @ T = 2s -> Out(at = hi())",
    "[A]+ ; [B] within 4s -> Out()",
    "init n = 0 : [A set n = n + 1]* -> Out(n = n)",
    "once init n = 0 : [A set n = n + 1]* -> Out(n = n)",
    "[B <= {A, B}] | [A] ; [A] -> Out()",
    "[A as a] [Tick <= {Tick, B}] -> Out(at = hi())",
    "[A as a] ; [B where last(Was.k, k) == a.k] -> Out()",
)


def random_run(seed: int) -> None:
    """A random course of events, subscriptions, moves and lost nodes; what is found is that over all events."""
    random = Random(seed)
    numbered = random.random() < 0.7
    # Without numbers, what comes while a node is lost cannot be sent again.
    scene = Scene(seed, numbered=numbered, checkpoints=numbered and random.random() < 0.6)
    scene.most = random.choice((1, 3, 1_000))
    asked: dict[str, tuple[str, int]] = {}
    for step in range(random.randrange(20, 45)):
        action = random.random()
        if action < 0.55:
            scene.happen(
                "".join(random.choices("AB", k=random.randrange(1, 3))),
                random.choice("st"),
                scene.network.now + random.randrange(-4, 5) * SECOND // 10,
                random.randrange(2),
                run=random.random() < 0.5,
            )
        elif action < 0.7 and len(asked) < 3:
            since = random.choice(scene.events).hi if scene.events and random.random() < 0.5 else None
            pattern, name = random.choice(PATTERNS), f"s{len(asked)}"
            asked[name] = pattern, since or 0
            scene.app.subscribe(name, pattern, since="beginning" if since is None else since)
        elif action < 0.75 and asked:
            name = random.choice(sorted(asked))
            topic = administration_topic("move", scene.app._subscriptions[name].detector or "none")
            scene.network.publish(
                topic, encode(MoveRequest(random.choice([*(each.name for each in scene.nodes), "m"])))
            )
        elif action < 0.79:
            scene.network.lose(random.choice(scene.network.nodes), for_good=True)
            if len(scene.network.nodes) < 2:
                scene.network.node(f"n{step}-{scene.sequence}", **scene.options)
        scene.network.some(random.randrange(30))
        if random.random() < 0.6:
            scene.pass_time(random.choice((0.5, 1, 4)))
    scene.pass_time(40)
    assert not scene.reading
    for name, (pattern, since) in asked.items():
        assert scene.state(name) == "active"
        assert scene.found(name) == scene.expected(pattern, since), (seed, name, pattern, since)


@pytest.mark.parametrize("seed", range(12))
def test_random_runs_are_one_run_over_all_events(seed: int) -> None:
    random_run(seed)
