"""What quality of service a subscription may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from distced.middleware.client.quality import QualityOfService, origin_at
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import Hints


@pytest.mark.parametrize("decomposition", ["none", "full", "for-reuse"])
def test_decompositions_are_checked(decomposition: Any) -> None:
    assert QualityOfService(decomposition=decomposition).decomposition == decomposition


def test_distribution_policy_is_left_to_nodes() -> None:
    # Nodes may know policies that clients do not.
    quality = QualityOfService(distribution="mine", hints=Hints(nodes=("attic",), selectivity=0.0))
    assert (quality.distribution, quality.hints.nodes) == ("mine", ("attic",))
    assert QualityOfService().hints == Hints()


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"decomposition": "some"}, "decomposition: some"),
        ({"decomposition": "full", "detection": "best-effort"}, "guaranteed detection only"),
        ({"detection": "perhaps"}, "unknown detection policy: perhaps"),
        ({"matches": "last"}, "matches: last"),
        ({"distribution": 3}, "not a distribution policy: 3"),
        ({"hints": Hints(nodes=("a", "b"), avoid=("b", "c"))}, "to avoid: b"),
        ({"hints": Hints(rates={"A": -1.0})}, "rate of events of the type 'A': -1.0"),
        ({"hints": Hints(rates={"A": float("nan")})}, "rate of events of the type 'A': nan"),
        ({"hints": Hints(selectivity=float("inf"))}, "not a selectivity: inf"),
        ({"hints": Hints(nodes="attic")}, "not hints"),
        ({"hints": {"nodes": ["attic"]}}, "not hints"),
        ({"publish_json": "home/+"}, "wildcard in it: home/+"),
        ({"publish_json": "$SYS/alarms"}, "not a topic for JSON"),
        ({"publish_json": "ced/e/Temp/t1"}, "among distced's own: ced/e/Temp/t1"),
        ({"publish_json": "alarms", "matches": "first"}, "neither limited to the first"),
        ({"publish_json": "alarms", "rate": 1.0}, "neither limited to the first"),
        ({"durable": 5}, "not a name for a durable subscription: 5"),
        ({"durable": " mine"}, "not a name for a durable subscription: ' mine'"),
        ({"durable": "x" * 70_000}, "not a name for a durable subscription: 'xxx"),
        ({"durable": "mine", "keep_for": "soon"}, "not a duration: soon"),
        ({"since": "soon"}, "not an origin: soon"),
        ({"since": "-2 weeks"}, "not an origin: -2 weeks"),
        ({"since": 2**64}, "beyond 64 bits"),
        ({"since": "-2h", "durable": "mine"}, "cannot begin with recorded events: durable"),
        ({"since": "-2h", "decomposition": "full"}, "decomposition full"),
        ({"since": "-2h", "hints": Hints(isolated=True)}, "cannot begin with recorded events: isolated"),
    ],
)
def test_quality_out_of_range_is_an_error(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        QualityOfService(**asked)


@pytest.mark.parametrize(
    ("since", "instant"),
    [
        (None, None),
        ("beginning", None),
        (5, 5),
        (-5, -5),
        ("-5", -5),
        ("-2h", 10**18 - 7200 * 10**9),
        ("- 1.5 s", 10**18 - 15 * 10**8),
        ("1970-01-01T00:00:01Z", 10**9),
    ],
)
def test_origin_is_an_instant_a_time_before_now_or_the_beginning(since: Any, instant: int | None) -> None:
    assert origin_at(QualityOfService(since=since).since, 10**18) == instant
