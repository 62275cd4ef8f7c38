"""Instances that one instant brings forth by the thousand: equal ones are one, the others stay, in order.

Compared one with another, 30,000 take minutes.
"""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Consumption, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.instance import Instance
from distced.detectors.stepwise.instance_store import InstanceStore
from distced.middleware.model.events import Event

MANY = 30_000


def event(name: str, at: int, seq: int, **attributes: int) -> Event:
    return Event(name, at, at, "e", seq, attributes)


def engine_of(text: str, consumption: Consumption = "ordered") -> StepwiseEngine:
    return StepwiseEngine([compile_pattern(text, consumption=consumption)])


@pytest.mark.parametrize(
    ("text", "consumption"),
    [
        ("[A] ; [B] ; [C]", "ordered"),
        ("[A] ; [B] ; [C]", "epoch"),
        ("[A as x] ; [B where v == 0] ; [C where v >= x.v]", "ordered"),
        ("init n = 0 : [A set n = v] ; [B] ; [C where n >= v]", "ordered"),
        ("([A] ; [B] ; [C]) within 10ns", "epoch"),
    ],
)
def test_instances_with_different_first_events_stay(text: str, consumption: Consumption) -> None:
    engine = engine_of(text, consumption)
    found = engine.feed([*(event("A", 1, seq, v=seq) for seq in range(MANY)), event("B", 2, MANY, v=0)])
    found += engine.feed([event("C", 3, MANY + 1, v=0)])
    found += engine.finish()
    seqs = [[seq for _, seq in each.constituents] for each in found]
    assert seqs == ([[seq, MANY, MANY + 1] for seq in range(MANY)] if "x.v" not in text else [[0, MANY, MANY + 1]])


@pytest.mark.parametrize("count", [1, 2, 3, MANY])
def test_equal_instances_in_crowds_are_one(count: int) -> None:
    # Each of the three alternatives leads to the same instance.
    engine = engine_of("[A] ; (~[B] | ~[{B, C}] | ~[{B, D}]) [E]")
    engine.feed([*(event("A", 1, seq) for seq in range(count)), event("B", 2, count)])
    before = engine.touched
    found = engine.feed([event("E", 3, count + 1)])
    assert engine.touched - before == count
    assert [each.constituents[0] for each in found] == [("e", seq) for seq in range(count)]


def test_instances_of_other_keys_are_not_looked_at_by_an_epoch() -> None:
    engine = engine_of("([A] ; [B] ; [C]) by k", "epoch")
    for name, at in (("A", 0), ("B", MANY), ("C", 2 * MANY)):
        found = engine.feed(event(name, at + number, at + number, k=number) for number in range(MANY))
    found += engine.finish()
    assert [each.constituents[0] for each in found] == [("e", number) for number in range(MANY)]


@pytest.mark.parametrize("last", ["[B]", "([B] | [{B, E}])"])
def test_side_hands_on_each_of_many_events_once(last: str) -> None:
    # What a side finds has the same constituent each time, and binds another event; two alternatives bind the same.
    engine = engine_of(f"((~[A as x] ; {last}) & [C]) ; [D where v == x.v]")
    engine.feed([*(event("A", 1, seq, v=seq) for seq in range(MANY)), event("B", 2, MANY)])
    engine.advance(2)
    assert engine.live_instances() == MANY
    found = engine.feed([event("C", 3, MANY + 1), event("D", 4, MANY + 2, v=17)]) + engine.finish()
    assert [(each.constituents, each.lo) for each in found] == [((("e", MANY), ("e", MANY + 1), ("e", MANY + 2)), 1)]


def test_repeated_instances_are_those_found_by_comparing_one_with_another() -> None:
    random = Random(1)
    born = kept = 0
    for _ in range(400):
        instances = _instances(random, random.randrange(1, 60))
        expected: list[Instance] = []
        for each in instances:
            if not any(each.last is other.last and each.same_as(other) for other in expected):
                expected.append(each)
        store = InstanceStore(2, 100, timed=True)
        store.settle(instances, 5, one_key=False)
        for state in range(2):
            found = store.pools[state].get(None, [])
            assert list(map(id, found)) == [id(each) for each in expected if each.state == state]
        born, kept = born + len(instances), kept + len(expected)
    assert born / 4 < kept < born * 3 / 4


def _instances(random: Random, count: int) -> list[Instance]:
    """Instances of which many are equal, and others differ in one part, perhaps deep in the chain."""
    pool = [Event("A", 1, 1, source, seq, {}) for source in "ef" for seq in range(2)]
    # Ids make events equal, and not their being the same object; but those matched last are.
    pool += [Event("A", 1, 1, each.source, each.seq, {}) for each in pool]
    lasts = pool[:2]
    chains = [None, (None, pool[0])]
    # Long chains with the same end, which share links or not.
    ends = [random.choice(pool) for _ in range(random.randrange(6))]
    for _ in range(6):
        chain = random.choice(chains)
        for each in (random.choice(pool), *ends):
            chain = (chain, each)
        chains.append(chain)
    varied = random.random()

    def choice(usual: object, *others: object) -> object:
        return random.choice(others) if random.random() < varied / 10 else usual

    return [
        Instance(
            choice(0, 1),
            None,
            random.choice(chains),
            choice(1, 0),
            5,
            choice(*lasts),
            (choice(None, *pool), None),
            (choice(1, 1.0, True, None, 2, "1"), choice(0.0, -0.0, 0)),
            (choice(None, 1),),
            (choice(None, 7, 8),),
            (choice(None, 1),),
            choice(frozenset(), frozenset({(frozenset({0}), (1,))})),
            choice(None, (pool[0].key, None, None), (pool[0].key, pool[1].key, 1)),
        )
        for _ in range(count)
    ]
