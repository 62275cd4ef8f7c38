"""The queue of requests by client: order within a client, turns between clients."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.node.request_queue import RequestQueue

CASES = [
    ("one client in order", "a1 a2 a3", "a1 a2 a3"),
    ("clients in turn", "a1 a2 a3 b1 c1 c2", "a1 b1 c1 a2 c2 a3"),
    ("the same again keeps its place", "a1 a2 b1 a1", "a1 b1 a2"),
    ("first of its client", "a1 a2 b1 a3! a1!", "a3 b1 a1 a2"),
]


def filled(requests: str) -> RequestQueue[str, str]:
    queue: RequestQueue[str, str] = RequestQueue()
    for each in requests.split():
        name = each.removesuffix("!")
        queue.put(name[0], name[1:], name, first=name != each)
    return queue


@pytest.mark.parametrize(("requests", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_requests_are_served_in_turn(requests: str, expected: str) -> None:
    queue = filled(requests)
    assert [queue.take() for _ in range(len(queue))] == expected.split()
    with pytest.raises(LookupError):
        queue.take()


def test_request_is_found_and_removed() -> None:
    queue = filled("a1 a2 b1")
    assert (queue.get("a", "2"), queue.get("a", "3"), queue.get("c", "1")) == ("a2", None, None)
    queue.discard("b", "1")
    queue.discard("a", "1")
    queue.discard("a", "1")
    queue.discard("c", "1")
    assert (len(queue), queue.take(), len(queue)) == (1, "a2", 0)


@given(st.lists(st.one_of(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), st.none()), max_size=80))
def test_client_is_served_as_often_as_any_other_that_waits(steps: list[tuple[str, int] | None]) -> None:
    queue: RequestQueue[int, tuple[str, int]] = RequestQueue()
    waiting: dict[str, deque[int]] = {}
    # Clients that wait, with the number served since.
    passed: dict[str, dict[str, int]] = {}
    for step in [*steps, *(None for _ in steps)]:
        if step is not None:
            client, number = step
            queue.put(client, number, step)
            requests = waiting.setdefault(client, deque())
            if number not in requests:
                requests.append(number)
            passed.setdefault(client, {})
        elif len(queue):
            client, number = queue.take()
            assert number == waiting[client].popleft()
            del passed[client]
            for others in passed.values():
                others[client] = others.get(client, 0) + 1
                assert others[client] == 1
            if waiting[client]:
                passed[client] = {}
            else:
                del waiting[client]
        assert len(queue) == sum(map(len, waiting.values()))


def test_requests_of_a_held_client_wait() -> None:
    queue = filled("a1 a2 b1")
    queue.hold("a")
    queue.put("a", "3", "a3")
    queue.put("a", "0", "a0", first=True)
    queue.discard("a", "2")
    assert (len(queue), queue.get("a", "3"), queue.clients()) == (1, "a3", {"a", "b"})
    assert queue.take() == "b1"
    queue.release("a")
    assert [queue.take() for _ in range(len(queue))] == ["a0", "a1", "a3"]
    queue.hold("c")
    queue.release("c")
    assert queue.clients() == frozenset()
