"""The design space of distribution policies, and how people write them."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.policy import NAMED, Decomposition, DistributionPolicy, Locality, Reuse, parse_policy


def test_named_policies_are_those_of_table() -> None:
    table = {name: (each.decomposition, each.reuse, each.locality) for name, each in NAMED.items()}
    assert table == {
        "min-latency": ("none", "local-only", "subscribers"),
        "min-bandwidth": ("for-reuse", "maximum", "publishers"),
        "min-impact": ("for-reuse", "maximum", "none"),
        "min-load": ("full", "maximum", "none"),
        "max-reliability": ("for-reuse", "at-least-2", "none"),
    }
    assert {name for name, each in NAMED.items() if each.replicas > 1} == {"max-reliability"}


@pytest.mark.parametrize("name", NAMED)
def test_policy_is_parsed_from_name(name: str) -> None:
    assert parse_policy(name) is NAMED[name]
    assert parse_policy(NAMED[name].text) is NAMED[name]


def test_every_point_of_space_can_be_written() -> None:
    points = set()
    for point in product(get_args(Decomposition), get_args(Reuse), get_args(Locality)):
        policy = parse_policy(" ".join(point))
        assert (policy.decomposition, policy.reuse, policy.locality) == point
        assert parse_policy(policy.text) == policy
        assert parse_policy(dict(zip(("decomposition", "reuse", "locality"), point, strict=True))) == policy
        points.add(policy)
    assert len(points) == 36
    assert set(NAMED.values()) <= points


def test_point_of_named_policy_has_its_name() -> None:
    assert parse_policy("full maximum none").name == "min-load"
    assert parse_policy("full maximum publishers").name == "full maximum publishers"


def test_number_of_replicas_is_parsed() -> None:
    given = {"decomposition": "none", "reuse": "none", "locality": "none", "replicas": 3}
    assert parse_policy(given) == DistributionPolicy("none none none", "none", "none", "none", replicas=3)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("min-latencies", "did you mean min-latency"),
        ("fast", "three words"),
        ("full maximum everywhere", "locality: everywhere"),
        ({"decomposition": "full", "reuse": "maximum"}, "locality"),
        ({"decomposition": "full", "reuse": "maximum", "locality": "none", "speed": 1}, "speed"),
        ({"decomposition": "none", "reuse": "none", "locality": "none", "replicas": 0}, "replicas: 0"),
        ({"decomposition": "none", "reuse": "none", "locality": "none", "replicas": True}, "replicas"),
        (7, "not a distribution policy: 7"),
    ],
)
def test_invalid_policy_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        parse_policy(given)
