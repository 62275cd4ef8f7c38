"""Memory of guaranteed detection: what waits is counted in bytes, and what was fenced off is forgotten one day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.events import CompositeEvent, Event, held_bytes
from distced.policies.detection import guaranteed
from distced.policies.detection.guaranteed import Guaranteed

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.sampled_from("abc"), st.integers(0, 40), st.text(max_size=20)),
        st.tuples(st.just("watermark"), st.sampled_from("abc"), st.integers(0, 40), st.just("")),
        st.tuples(
            st.sampled_from(["join", "leave", "fence", "copy", "resume"]),
            st.sampled_from("abc"),
            st.just(0),
            st.just(""),
        ),
    ),
    max_size=40,
)


def events_held(policy: Guaranteed) -> int:
    return sum(held_bytes(each) for each in policy.waiting.values())


@given(STEPS)
def test_bytes_of_what_waits_are_those_of_its_events(steps: list[tuple[str, str, int, str]]) -> None:
    policy = Guaranteed()
    policy.join("a", 0, 0)
    for number, (kind, source, at, text) in enumerate(steps):
        match kind:
            case "event":
                policy.receive(source, [Event("A", at, at, source, number, {"k": 1, "t": text})], None, number)
            case "watermark":
                policy.heartbeat([source], at, number)
            case "join":
                policy.join(source, at, number)
            case "leave":
                policy.leave(source, number)
            case "fence":
                policy.fence(source, number)
            case "copy":
                policy = policy.copy()
            case "resume":
                state = policy.state()
                policy = Guaranteed()
                policy.resume(state)
        assert policy.waiting_bytes == events_held(policy)


def test_bytes_of_an_event_are_those_of_all_that_it_has() -> None:
    plain = Event("A", 1, 1, "s", 1, {})
    with_text = Event("A", 1, 1, "s", 1, {"t": "x" * 5_000})
    assert held_bytes(with_text) >= held_bytes(plain) + 5_000
    made = CompositeEvent("C", 1, 1, "c", 1, {}, constituents=(("s", 1), ("s", 2)), events=(with_text,))
    assert held_bytes(made) > held_bytes(plain) + held_bytes(with_text)


def test_sources_fenced_off_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guaranteed, "MOST_FENCED", 3)
    policy = Guaranteed()
    policy.join("a", 0, 0)
    policy.heartbeat(["a"], 100, 1)
    for number in range(10):
        policy.join(f"s{number}", 0, 2)
        policy.fence(f"s{number}", 2)
    policy.join("s7", 0, 2)
    policy.fence("s7", 2)
    assert list(policy.fenced) == ["s8", "s9", "s7"]
    # What it sends is late where it is behind the watermark, as of any other.
    late = policy.receive("s0", [Event("A", 50, 50, "s0", 1, {})], None, 3)
    assert [each.seq for each in late.late] == [1] and not late.events
    # Of one that is remembered it is late in any case.
    assert policy.receive("s9", [Event("A", 200, 200, "s9", 1, {})], None, 3).late
