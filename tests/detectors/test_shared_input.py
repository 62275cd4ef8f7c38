"""A shared input: each member detects what it would with an input of its own, whoever joins, leaves and comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from msgspec import structs

from distced.detectors.compiler import Compiled, compile_file, compile_pattern, compile_publication
from distced.detectors.runtime.detection_policy import Arrival, DetectionPolicy
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engines import has_columnar
from distced.detectors.runtime.pattern_index import ANY_EVENT, PatternIndex, concerns
from distced.detectors.runtime.shared_input import Passed, SharedInput
from distced.detectors.shapes import Shapes
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event, EventId, OrderKey
from distced.policies.detection import detection_policy
from tests.support.engine_switches import by_chance
from tests.support.event_streams import Message, comparable, interleaved, messages, spread
from tests.support.random_patterns import PatternMaker

NAMED = (
    "[A where k == 1 as x] ; [B where k == 1 and v > x.v]",
    "[A where k == 2] ; ~[C where k == 2]* [B where k == 2] within 6ns",
    "([A where k == 1], [T <= {T, B where k == 1}]) @ T = 4ns",
    "([A where k == 0] & [C where v == 1]) ; [B where k == 0 or v == 2]",
    "[{A, B} where k == 1] [D where k == 1] by v",
    "[A where k == 1] ; [A where k == 2] within 3ns",
    "([A where k == 1], [T] [B where k == 2]) @ T = 4ns",
)
"""Patterns that look at events with constants."""

SHAPED = (
    "[A where d == '{0}' and v > 0] ; [B where d == '{0}' and v < 2] within 6ns",
    "[A where d == '{0}' as x] ; ~[A where d == '{1}']* [B where d == '{1}' and v >= x.v]",
    "init n = 0 : [A where d == '{0}' set n = n + v] [B where d == '{0}' or d == '{1}']+",
    "([A where d == '{0}'], [T <= {{T, B where d == '{1}'}}]) @ T = 4ns",
    "[{{A, B}} where d == '{0}'] ; [D where d != '{1}'] by v",
    "([A where d == '{0}'], [T] [B where d == '{1}']) @ T = 4ns",
)
"""Patterns of shapes, whose events have texts."""

_SHAPES, _OPEN = Shapes(), TypeRegistry(open=True)


def compiled_by_chance(random: Random) -> Compiled | None:
    if random.random() < 0.3:
        made = _SHAPES.find(random.choice(SHAPED).format(*random.choices(("k0", "k1", "k2"), k=2)), _OPEN)
        assert made is not None
        return made
    if random.random() < 0.5:
        return compile_pattern(random.choice(NAMED))
    if random.random() < 0.1:
        return compile_file("type Seen = A every 3ns by k\n[Seen] ; [B]\n")[0]
    consumption = random.choice(("ordered", "ordered", "epoch"))
    try:
        made = PatternMaker(random).publication(random.randrange(1, 6))
        return compile_publication(made, consumption=consumption)  # type: ignore[arg-type]
    except PatternError:
        return None


class Crowd:
    """A shared input with its members; and for each detector a reference with an input of its own, which receives the
    same from the same watermark on."""

    def __init__(self, random: Random, policy: str, names: Sequence[str], seed: int, *, disordered: bool) -> None:
        self.random = random
        # Late events by best effort: engines differ in how long they keep matches whose window has closed.
        self.disordered = disordered
        self._engines = by_chance(seed) if has_columnar() and not disordered else None
        self.together = 0
        self.shared = SharedInput(detection_policy(policy), self._engines if random.random() < 0.7 else None)
        for name in names:
            self.shared.join(name, -5, 0, 7)
        self.members: dict[str, Detector] = {}
        # Members that have left, and go on by themselves.
        self.apart: dict[str, Detector] = {}
        self.references: dict[str, Detector] = {}
        self.found = self.back = self.rested = 0

    def made(self, pattern: Compiled, policy: DetectionPolicy) -> Detector:
        return Detector(pattern, policy, engines=self._engines if self.random.random() < 0.3 else None)

    def join(self, pattern: Compiled | None) -> None:
        # Behind a late event an epoch may be over for one input and not for another.
        if pattern is None or (self.disordered and pattern.epochs):
            return
        made = self.made(pattern, self.shared.policy)
        if made.id in self.references:
            return
        self.shared.add(made)
        self.members[made.id] = made
        reference = self.references[made.id] = Detector(pattern, self.shared.policy.copy())
        if self.shared.policy.watermark is not None:
            reference.engine.advance(self.shared.policy.watermark)

    def leave(self) -> None:
        if not self.members:
            return
        detector = self.members.pop(self.random.choice(sorted(self.members)))
        self.shared.remove(detector)
        if self.random.random() < 0.2:
            del self.references[detector.id]
            return
        detector.part()
        if self.random.random() < 0.5:
            # As on another node.
            arrived = self.made(detector.compiled, detection_policy(self.shared.policy.name))
            arrived.resume(detector.snapshot())
            detector = arrived
        self.apart[detector.id] = detector

    def come_back(self) -> None:
        for identity, detector in list(self.apart.items()):
            if detector.policy.is_level_with(self.shared.policy):
                del self.apart[identity]
                self.members[identity] = detector
                self.shared.add(detector)
                self.back += 1

    def replicate(self) -> None:
        """A snapshot is taken of some members, which go on."""
        for detector in self.members.values():
            if self.random.random() < 0.3:
                detector.snapshot()

    def do(self, call: Callable[[Any], Any]) -> None:
        """Let everybody receive the same, and compare what is found."""
        passed: Passed = call(self.shared)
        found = {detector.id: events for detector, events in passed.found}
        assert len(found) == len(passed.found)
        assert found.keys() <= self.members.keys()
        for identity, detector in self.apart.items():
            found[identity] = call(detector).events
        for identity, reference in self.references.items():
            expected: Detected = call(reference)
            assert comparable(found.get(identity, [])) == comparable(expected.events), reference.compiled.text
            assert expected.watermark == passed.watermark or identity in self.apart
            if identity in self.members:
                assert (expected.late, expected.duplicates) == (passed.late, passed.duplicates)
            self.found += len(expected.events)
        if self.shared._columnar is not None:
            self.together += len(self.shared._columnar.members) > 1
        self.shared.validate()

    def rest(self, now: int) -> None:
        """Free what is no longer needed, however much there is."""
        before = len(self._awake())
        self.shared.take_touched()
        self.shared.rest(now)
        self.rested += before - len(self._awake())
        self.shared.validate()

    def _awake(self) -> list[Detector]:
        return [each for each in self.members.values() if each._engine is not None]


def in_order(arriving: list[Message]) -> list[Message]:
    """Messages without those whose events have a place before what has arrived: what best effort makes of a late event
    depends on what there still is to follow it."""
    kept: list[Message] = []
    latest: OrderKey | None = None
    known: set[EventId] = set()
    for message in arriving:
        keys = [event.key for event in message.events if event.id not in known]
        if latest is not None and any(key < latest for key in keys):
            continue
        known |= {event.id for event in message.events}
        latest = max(keys, default=latest) if latest is None else max([latest, *keys])
        kept.append(message)
    return kept


def _arrival(message: Message) -> Arrival:
    return message.source, message.events, message.watermark, None


def received(arriving: Sequence[Message], now: int) -> Callable[[Any], Any]:
    """Receive messages, or a single one as a heartbeat where it has no events."""
    first = arriving[0]
    if len(arriving) == 1 and not first.events and first.watermark is not None:
        return lambda target: target.heartbeat([first.source, "unknown"], first.watermark, now)
    arrivals = [_arrival(each) for each in arriving]
    return lambda target: (
        target.receive(arrivals, now) if isinstance(target, SharedInput) else target.receive_all(arrivals, now)
    )


@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_member_detects_what_it_would_by_itself(policy: str, at_length: bool) -> None:
    found = back = rested = passes = 0
    seeds = 2_000 if at_length else 50
    for seed in range(seeds):
        random = Random(seed)
        sources = random.randrange(1, 4)
        events = [
            structs.replace(each, attributes={**each.attributes, "d": f"k{each.attributes.get('k')}"})
            for each in spread(random, random.randrange(4, 30), sources, span=20)
        ]
        names = [f"s{number}" for number in range(sources)]
        streams = [messages(random, events, name, shuffled=random.random() < 0.3) for name in names]
        arriving = interleaved(random, *streams, again=0.2)
        disordered = policy == "best-effort" and seed % 2 == 1
        if policy == "best-effort" and not disordered:
            arriving = in_order(arriving)
        crowd = Crowd(random, policy, names, seed, disordered=disordered)
        for _ in range(random.randrange(6)):
            crowd.join(compiled_by_chance(random))
        now = 0
        while arriving:
            match random.randrange(10):
                case 0 | 1:
                    crowd.join(compiled_by_chance(random))
                case 2:
                    crowd.leave()
                case 3:
                    crowd.replicate()
                case 4:
                    crowd.come_back()
                case 5 if random.random() < 0.2:
                    name = random.choice(names)
                    if random.random() < 0.5:
                        crowd.do(lambda target, name=name, now=now: target.fence(name, now))  # type: ignore[misc]
                    else:
                        crowd.do(lambda target, name=name, now=now: target.leave(name, now))  # type: ignore[misc]
                case 6:
                    now += random.randrange(4)
                    crowd.do(lambda target, now=now: target.tick(now))  # type: ignore[misc]
                case _:
                    together = [arriving.pop(0) for _ in range(min(len(arriving), random.choice((1, 1, 2, 5))))]
                    crowd.do(received(together, now))
            if random.random() < 0.3:
                crowd.rest(now)
        found, back, rested = found + crowd.found, back + crowd.back, rested + crowd.rested
        passes += crowd.together
    assert found > seeds
    assert back > seeds // 10
    assert rested > seeds // 10
    assert passes > seeds // 10 or not has_columnar()


@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_event_behind_a_time_event_is_looked_at_after_it(policy: str) -> None:
    shared = SharedInput(detection_policy(policy))
    shared.join("s", -5, 0, 0)
    for text in ("([A], [T][B]) @ T = 5ns", "[A where v > 3] ; [B where v > 3]"):
        shared.add(Detector(compile_pattern(text), shared.policy))
    found = []
    for seq, (name, at) in enumerate((("A", 1), ("B", 3), ("B", 8))):
        found += shared.receive([("s", [Event(name, at, at, "s", seq, {})], at, None)], at).found
    ((_, composites),) = found
    assert [[each.hi for each in composite.events] for composite in composites] == [[1, 8]]


def test_index_says_which_events_may_concern_a_pattern() -> None:
    described = {
        "[A where k == 1] ; [B where 2 == k and v > 1]": {"A": {(("k", 1),)}, "B": {(("k", 2),)}},
        "[A where k == 1 or v == 2] ; [B]": {"A": {(("k", 1),), (("v", 2),)}, "B": {ANY_EVENT}},
        "[A where k == 1] ; [A]": {"A": {ANY_EVENT}},
        "[A where k == 1 as x] ; [A where k == 2 and v == x.v]": {"A": {(("k", 1),), (("k", 2),)}},
        # An event with another value ends a match.
        "[A where k == 1] [B where k == 1]": {"A": {(("k", 1),)}, "B": {(("k", 1),)}},
        "[A where v == 2 and k == 1]": {"A": {(("k", 1), ("v", 2))}},
        "([A where k == 1], [T <= {T, B}]) @ T = 1s": {"A": {(("k", 1),)}, "B": {ANY_EVENT}},
        "[A] ; [B] by k": {"A": {ANY_EVENT}, "B": {ANY_EVENT}},
        "[any where k == 1]": None,
        "[A - {B}] ; [any - C]": None,
    }
    for text, expected in described.items():
        assert concerns(compile_pattern(text)) == expected, text


def test_event_concerns_those_that_name_its_value() -> None:
    index: PatternIndex[str] = PatternIndex()
    added: dict[str, dict[str, set[tuple[tuple[str, Any], ...]]]] = {
        "one": {"A": {(("k", 1),)}},
        "many": {"A": {(("k", 1),), (("k", 2),), (("v", 3),)}},
        "every": {"A": {ANY_EVENT}, "B": {(("k", 1),)}},
    }
    for name, described in added.items():
        index.add(name, described)

    def concerned(type_name: str, **attributes: Any) -> set[str]:
        return {member for _, member in index.concerned([Event(type_name, 0, 0, "s", 0, attributes)])}

    assert concerned("A", k=1) == {"one", "many", "every"}
    assert concerned("A", k=1.0) == {"one", "many", "every"}
    assert concerned("A", k=3, v=3) == {"many", "every"}
    assert concerned("A", k=None) == concerned("A") == {"every"}
    assert concerned("B", k=1) == {"every"}
    assert concerned("C", k=1) == set()
    for name, described in added.items():
        index.remove(name, described)
        assert name not in concerned("A", k=1, v=3)
    assert not index.types


def test_of_several_equalities_that_of_the_fewest_patterns_is_looked_up() -> None:
    index: PatternIndex[str] = PatternIndex()
    added = {
        f"m{number}": {"A": {(("half", 0), ("key", number)), (("half", 1), ("key", number))}} for number in range(9)
    }
    for name, described in added.items():
        index.add(name, described)
    for key in range(9):
        found = {member for _, member in index.concerned([Event("A", 0, 0, "s", 0, {"half": 0, "key": key})])}
        assert found == {"m0", f"m{key}"}
    for name in sorted(added, reverse=True):
        index.remove(name, added[name])
    assert not index.types
