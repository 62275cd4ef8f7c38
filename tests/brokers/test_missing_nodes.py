"""Missing nodes of a broker: lost after a while without an entry, and not while the directory is not read."""

from __future__ import annotations

import pytest

from distced.brokers.inspect.missing_nodes import MissingNodes

BOTH, ONE, NONE = ("a", "b"), ("a",), ()


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        ([(0, BOTH), (100, BOTH)], []),
        ([(0, NONE), (10, NONE)], []),
        ([(0, ONE), (10, ONE), (11, ONE)], ["b"]),
        ([(0, NONE), (11, NONE)], ["a", "b"]),
        # It was back in between.
        ([(0, ONE), (8, BOTH), (9, ONE), (19, ONE)], []),
        # The server was away: what was seen before does not count.
        ([(0, ONE), (5, None), (11, ONE), (21, ONE)], []),
        ([(0, ONE), (5, None), (11, ONE), (22, ONE)], ["b"]),
    ],
)
def test_nodes_are_lost_after_a_while(seen: list[tuple[float, tuple[str, ...] | None]], lost: list[str]) -> None:
    missing = MissingNodes(BOTH, patience=10)
    found: list[str] = []
    for now, present in seen:
        found = missing.look(present, now)
    assert found == lost
