"""Subscriptions that a detector serves: figures of a crowd, against those of going over all."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distced.brokers.node.coordinated import CoordinatedSubscriptions
from distced.brokers.node.served import FEW, ServedSubscriptions
from distced.middleware.wire.directory_entries import SubscriptionEntry


def home_of(client: str) -> str:
    return client[-1]


@pytest.mark.parametrize("seed", range(20))
def test_figures_are_those_of_all_subscriptions(seed: int) -> None:
    random, served = Random(seed), ServedSubscriptions()
    known: dict[str, tuple[str, bool, str]] = {}
    for _ in range(120):
        name = f"s{random.randrange(3 * FEW)}"
        action = random.random()
        if action < 0.5:
            entry = SubscriptionEntry(f"app{random.randrange(5)}", "[A]", constituents=random.random() < 0.3)
            served.serve(name, entry, "n2" if random.random() < 0.2 else "")
            near = served[name].terms.near
            known[name] = entry.client, False, near
        elif name not in known:
            assert name not in served and served.get(name) is None
        elif action < 0.75:
            served.change(name, ready=True)
            known[name] = known[name][0], True, known[name][2]
        else:
            served.remove(name)
            del known[name]
        served.validate()
        assert {name: (each.client, each.terms.ready, each.terms.near) for name, each in served.items()} == known
        assert len(served) == len(known) and list(served) == list(dict(served.items()))
        assert {(each.ready, each.near) for each in served.terms()} == {each[1:] for each in known.values()}
        assert served.readers(home_of) == Counter(home_of(client) for client in {each[0] for each in known.values()})


def test_subscription_begun_again_keeps_its_replica() -> None:
    served, entry = ServedSubscriptions(), SubscriptionEntry("app", "[A]")
    served.serve("s", entry, "n2")
    served.change("s", ready=True)
    served.serve("s", entry)
    assert served["s"].terms.near == "n2" and not served["s"].terms.ready
    with pytest.raises(KeyError):
        served.remove("other")


@pytest.mark.parametrize("seed", range(10))
def test_coordinator_finds_subscriptions_by_detector_and_node(seed: int) -> None:
    random, served = Random(seed), CoordinatedSubscriptions()
    known: dict[str, tuple[str, str]] = {}
    for _ in range(200):
        name = f"s{random.randrange(12)}"
        if random.random() < 0.7:
            known[name] = random.choice(["n1", "n2"]), random.choice(["", "d1", "d2"])
            served.put(name, *known[name])
        else:
            served.remove(name)
            known.pop(name, None)
        assert len(served) == len(known) and all(each in served for each in known)
        for detector in ("", "d1", "d2"):
            for but in ("", "n1", "n2"):
                found = {each for each, (node, of) in known.items() if of == detector and node != but}
                assert set(served.by(detector, but=but)) == found
        assert set(served.on("n1")) == {each for each, (node, _) in known.items() if node == "n1"}
