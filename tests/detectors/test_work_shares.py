"""Shares of work: releases that are put off are consumed in order, in pieces, wherever the detector is by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from msgspec import structs

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.limits import Limits
from distced.detectors.runtime import detector as detector_module
from distced.detectors.runtime.detection_policy import DetectionPolicy
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.engines import has_columnar
from distced.detectors.runtime.pass_choice import ForcedPass
from distced.detectors.runtime.shared_input import Passed, SharedInput
from distced.detectors.runtime.work_shares import APART, BURST, WorkShare, WorkShares
from distced.middleware.model.errors import LimitError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.detection import detection_policy
from tests.detectors.test_shared_input import Crowd, compiled_by_chance, in_order, received
from tests.support.engine_switches import AtOnce
from tests.support.event_streams import comparable, interleaved, messages, spread

CLIENTS = ("ada", "bob", "eve")


class PutOffCrowd(Crowd):
    """Crowd whose detectors have shares, and are put off at random; what they find is compared at the end."""

    def __init__(self, random: Random, policy: str, names: Sequence[str], seed: int, *, disordered: bool) -> None:
        super().__init__(random, policy, names, seed, disordered=disordered)
        self.shares = WorkShares(Limits(client_work=1))
        self.all_found: dict[str, list[CompositeEvent]] = {}
        self.all_expected: dict[str, list[CompositeEvent]] = {}
        self.reached: dict[str, int] = {}
        self.put_off = self.pieces = 0

    def made(self, pattern: Compiled, policy: DetectionPolicy) -> Detector:
        made = super().made(pattern, policy)
        self.shares.assign(made, self.random.choice(CLIENTS))
        return made

    def join(self, pattern: Compiled | None) -> None:
        if pattern is None or (self.disordered and (pattern.structure.parts or pattern.structure.by_instants)):
            # What a late event completes there depends on events that do not concern the pattern.
            return
        before = set(self.members)
        super().join(pattern)
        for identity in self.members.keys() - before:
            self.all_found[identity], self.all_expected[identity] = [], []

    def leave(self) -> None:
        before = dict(self.members)
        super().leave()
        for identity, detector in before.items():
            if identity not in self.members and self.apart.get(identity) is not detector:
                self.shares.release(detector)
            if identity not in self.references:
                # A later one of this pattern begins again.
                for known in (self.all_found, self.all_expected, self.reached):
                    known.pop(identity, None)
        for detector in self.apart.values():
            self.shares.assign(detector, self.random.choice(CLIENTS))

    def do(self, call: Callable[[Any], Any]) -> None:
        passed: Passed = call(self.shared)
        for detector, found in passed.found:
            self._take(detector, found)
        for detector in self.apart.values():
            self._take(detector, call(detector).events)
        for identity, reference in self.references.items():
            expected: Detected = call(reference)
            self.all_expected[identity] += expected.events
        if self.shared._columnar is not None:
            self.together += len(self.shared._columnar.members) > 1
        self._check()

    def turns(self, number: int, most: int) -> None:
        """Some turns, of so much work each."""
        for _ in range(number):
            if not self.shares.turns:
                return
            detector = self.shares.take()
            before = detector.put_off
            if detector.id in self.members:
                found = self.shared.go_on(detector, 0, most).events
            else:
                found = detector.continued(0, most).events
            assert detector.put_off < before or before == 1
            self.pieces += bool(detector.put_off)
            self._take(detector, found)
            self._check()

    def _take(self, detector: Detector, found: list[CompositeEvent]) -> None:
        if self.shared.policy.name == "guaranteed":
            reached = self.reached.get(detector.id)
            assert all(reached is None or each.hi > reached for each in found), detector.compiled.text
        self.all_found[detector.id] += found

    def _check(self) -> None:
        self.shared.validate()
        self.shares.validate()
        for detector in (*self.members.values(), *self.apart.values()):
            self.put_off += detector.put_off
            reached, watermark = self.reached.get(detector.id), detector.watermark
            if self.shared.policy.name == "guaranteed":
                assert reached is None or (watermark is not None and watermark >= reached), detector.compiled.text
            if watermark is not None:
                self.reached[detector.id] = watermark
            if not detector.put_off:
                found, expected = self.all_found[detector.id], self.all_expected[detector.id]
                assert comparable(found) == comparable(expected), detector.compiled.text

    def end(self) -> None:
        self.turns(10_000, 1)
        assert not self.shares.turns
        self.found += sum(map(len, self.all_found.values()))


@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_what_is_put_off_is_detected_all_the_same(
    policy: str, at_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = put_off = pieces = passes = 0
    seeds = 3_000 if at_length else 60
    for seed in range(seeds):
        random = Random(seed)
        share = random.choice((0.1, 0.5, 0.9))
        monkeypatch.setattr(WorkShare, "is_spent", lambda *_, random=random, share=share: random.random() < share)
        monkeypatch.setattr(detector_module, "TURN", random.choice((1, 3, 10)))
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
        crowd = PutOffCrowd(random, policy, names, seed, disordered=disordered)
        for _ in range(random.randrange(6)):
            crowd.join(compiled_by_chance(random))
        now = 0
        while arriving:
            match random.randrange(12):
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
                    crowd.do(lambda target, name=name, now=now: target.fence(name, now))  # type: ignore[misc]
                case 6:
                    now += random.randrange(4)
                    crowd.do(lambda target, now=now: target.tick(now))  # type: ignore[misc]
                case 7 | 8:
                    crowd.turns(random.randrange(1, 4), random.choice((1, 5, 1_000)))
                case _:
                    together = [arriving.pop(0) for _ in range(min(len(arriving), random.choice((1, 1, 2, 5))))]
                    crowd.do(received(together, now))
            if random.random() < 0.3:
                crowd.rest(now)
        crowd.end()
        found, put_off, pieces = found + crowd.found, put_off + crowd.put_off, pieces + crowd.pieces
        passes += crowd.together
    assert found > seeds and put_off > 10 * seeds and pieces > seeds
    assert passes > seeds // 10 or not has_columnar()


def _events(number: int, begin: int = 0) -> list[Event]:
    return [Event("A", place, place, "s", place, {"k": place}) for place in range(begin, begin + number)]


def _alone(shares: WorkShares, client: str, text: str) -> Detector:
    made = Detector(compile_pattern(text), detection_policy("best-effort"))
    shares.assign(made, client)
    return made


HUNGRY = "[A as a] ; [A where k > a.k + 100000]"


def test_nothing_is_put_off_while_there_is_one_client() -> None:
    shares = WorkShares(Limits(client_work=100))
    hungry = _alone(shares, "eve", HUNGRY)
    hungry.receive("s", _events(200), None, 0)
    assert not hungry.put_off and not shares.turns
    assert not shares.several


def test_client_beyond_its_share_waits_until_it_has_some_again() -> None:
    shares = WorkShares(Limits(client_work=8_000))
    hungry, modest = _alone(shares, "eve", HUNGRY), _alone(shares, "ada", "[A where k < 0]")
    hungry.receive("s", _events(300), None, 0)
    assert hungry.put_off and shares.turns and hungry.share_of_work is not None
    left = hungry.share_of_work.left
    assert left <= 0
    assert modest.receive("s", _events(300), None, 0).events == [] and not modest.put_off
    while shares.turns:
        assert shares.take() is hungry
        hungry.continued(0, 1_000)
    assert hungry.statistics.consumed == 300
    # What turns do counts as well; the time is that since its share was spent.
    owed = -hungry.share_of_work.left
    hungry.receive("s", _events(1, 300), None, 1)
    assert hungry.put_off == 1
    hungry.continued(1, 1_000)
    later = 2 * SECOND + owed * SECOND // 8_000
    hungry.receive("s", _events(1, 301), None, later)
    assert not hungry.put_off
    assert 0 < hungry.share_of_work.left <= 8_000 // BURST


def test_share_does_not_depend_on_a_clock_that_is_set_back() -> None:
    shares = WorkShares(Limits(client_work=8_000))
    hungry = _alone(shares, "eve", HUNGRY)
    _alone(shares, "ada", "[A where k < 0]")
    share = hungry.share_of_work
    assert share is not None
    share.charge(3_000)
    # As it was filled up at its begin, and has been full since.
    assert share.is_spent(10 * SECOND) and share.left == -1_000
    assert share.apart_until == 10 * SECOND + APART
    assert share.is_spent(5 * SECOND)
    assert share.is_spent(5 * SECOND + MILLISECOND)
    assert not share.is_spent(7 * SECOND)


def test_turns_go_by_client_and_by_detector() -> None:
    shares = WorkShares(Limits(client_work=1))
    detectors = [_alone(shares, "eve", f"[A as a] ; [A where k > a.k + {1000 + number}]") for number in range(3)]
    detectors.append(_alone(shares, "ada", HUNGRY))
    for each in detectors:
        each.wait(_events(5), None, None)
    order = [detectors.index(shares.take()) for _ in range(8)]
    assert order == [0, 3, 1, 3, 2, 3, 0, 3]
    detectors[0].give_up()
    assert not detectors[0].put_off
    assert [detectors.index(shares.take()) for _ in range(4)] == [1, 3, 2, 3]
    shares.release(detectors[3])
    assert {detectors.index(shares.take()) for _ in range(4)} == {1, 2}
    shares.validate()


def test_detector_that_is_beyond_a_limit_in_its_turn_is_reported() -> None:
    shares = WorkShares(Limits(client_work=1))
    made = Detector(compile_pattern(HUNGRY), detection_policy("best-effort"), limits=Limits(instances=50))
    shares.assign(made, "eve")
    made.wait(_events(20_000), None, None)
    for _ in range(100_000):
        result = made.continued(0, 1_000)
        if result.excess is not None:
            break
    assert result.excess is not None and result.excess.problem == "more instances of a pattern than nodes hold"
    assert not made.put_off and not shares.turns


def test_member_of_the_pass_beyond_a_limit_and_its_share_is_reported() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    shares = WorkShares(Limits(client_work=1))
    shared = SharedInput(detection_policy("best-effort"), Engines(AtOnce(), shared=ForcedPass))
    members = [
        Detector(compile_pattern(f"[A as a] ; [A where k > a.k + {10**6 + each}]"), shared.policy, limits=Limits())
        for each in range(2)
    ]
    for member in members:
        shared.add(member)
    for begin in range(5):
        shared.receive([("s", _events(20, 20 * begin), None, None)], begin)
    entered = shared._columnar
    assert entered is not None and entered.members.keys() == set(members)
    for member in members:
        shares.assign(member, "eve")
    _alone(shares, "ada", "[A where k < 0]")
    (loop,) = entered._loops()
    error = LimitError("too many instances", given="2", allowed="1")
    for member in members:
        loop.excesses[member] = error
    # Of one event that touches many, the work is more than the share.
    passed = shared.receive([("s", _events(1_500, 200), None, None)], SECOND)
    assert passed.excesses == dict.fromkeys(members, error)
    assert not entered.members and not shares.turns


def test_member_beyond_a_limit_in_its_turn_leaves_the_others() -> None:
    shares = WorkShares(Limits(client_work=1))
    shared = SharedInput(detection_policy("best-effort"))
    hungry = Detector(compile_pattern(HUNGRY), shared.policy, limits=Limits(instances=50))
    other = Detector(compile_pattern("[A] ; [B]"), shared.policy)
    for member, client in ((hungry, "eve"), (other, "ada")):
        shares.assign(member, client)
        shared.add(member)
    hungry.wait(_events(20_000), None, None)
    while shared.go_on(hungry, 0, 1_000).excess is None:
        assert hungry.put_off
    assert not hungry.put_off and not shares.turns
    assert shared.receive([("s", [Event("A", 1, 1, "s", 1, {}), Event("B", 2, 2, "s", 2, {})], None, None)], 0).found
