"""Positions of durable subscriptions: what an application has taken, by the items it got and the marks behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.client.client_effects import Done, Ended, SetTimer
from distced.middleware.client.durable import MOST_IDS, RECENT, TakenItems, differences, durable_id
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription_session import NO_POSITION
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, INSTANT_MIN
from distced.middleware.wire.administration import Answer, Answers
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import Durable, DurableEntry, PositionEntry, SubscriptionEntry
from distced.middleware.wire.numbered_stream import Loss
from tests.middleware.test_client_session import Driven

LOSS = Loss(0, 1, "lost")


def _event(number: int) -> Event:
    return Event("A", number, number, "s", number, {})


def _lives(number: int) -> tuple[tuple[int, int, int | None], ...]:
    return ((2, number, number),)


@given(st.lists(st.one_of(st.integers(0, 3), st.just("take")), max_size=60))
def test_position_covers_exactly_what_was_taken(steps: list[int | str]) -> None:
    """Messages of some events each, and takes of the application, in any order."""
    items = TakenItems("guaranteed")
    waiting: list[int] = []
    behind: dict[tuple[tuple[int, int, int | None], ...], int] = {}
    put = taken = 0
    items.mark(_lives(0))
    behind[_lives(0)] = 0
    for place, step in enumerate(steps, 1):
        if isinstance(step, int):
            for _ in range(step):
                put += 1
                items.put()
                waiting.append(put)
            items.mark(_lives(place))
            behind[_lives(place)] = put
        else:
            # It asks for the next one, so it has taken what it had.
            items.confirm(len(waiting))
            taken = put - len(waiting)
            if waiting:
                items.handed_out(_event(waiting.pop(0)), len(waiting))
        position = items.position(place)
        assert position is not None
        reached = behind[position.lives]
        assert [int(each, 16) for each in position.ids] == list(range(reached + 1, taken + 1))
        assert all(not reached < behind[each] <= taken for each in behind)


def test_position_is_published_once_for_all_takes() -> None:
    items = TakenItems("guaranteed")
    assert items.position(0) is None
    for _ in range(3):
        items.put()
    items.mark(_lives(1))
    items.handed_out(_event(1), 2)
    assert not items.confirm(3) and items.confirm(2) and not items.confirm(1)
    items.position(0)
    assert items.confirm(0)
    items.close()
    items.position(0)
    items.put()
    assert not items.confirm(0)


def test_ids_are_limited_between_farewells_and_recent_without_watermarks() -> None:
    items = TakenItems("guaranteed")
    items.mark(_lives(0))
    for number in range(MOST_IDS + 1):
        items.put()
        items.handed_out(_event(number), 0)
    items.confirm(0)
    assert items.position(0) is None
    last = items.position(0, last=True)
    assert last is not None and len(last.ids) == MOST_IDS + 1
    items = TakenItems("best-effort")
    for number in range(3 * RECENT):
        items.put()
        items.handed_out(_event(number), 0)
    items.mark(_lives(1))
    items.confirm(0)
    recent = items.position(0)
    assert recent is not None and len(recent.ids) == RECENT and recent.ids[-1] == f"{3 * RECENT - 1:x}"


@pytest.mark.parametrize("detection", ["guaranteed", "best-effort"])
def test_ids_of_resumed_position_stay_until_an_item_behind_them_is_taken(detection: str) -> None:
    items = TakenItems(detection)
    items.resume(["1", "2"])
    for place in range(2):
        # Lives at the begin, and behind a message that has nothing new.
        items.mark(_lives(place))
        assert items.position(0) == PositionEntry(0, _lives(place), ("1", "2"))
    items.put()
    items.mark(_lives(2))
    items.handed_out(_event(3), 0)
    assert items.position(0) == PositionEntry(0, _lives(1), ("1", "2"))
    items.confirm(0)
    taken = () if detection == "guaranteed" else ("1", "2", "3")
    assert items.position(0) == PositionEntry(0, _lives(2), taken)


def test_losses_are_items_without_an_id() -> None:
    items = TakenItems("guaranteed")
    items.put()
    items.mark(_lives(1))
    items.handed_out(LOSS, 0)
    items.confirm(0)
    assert items.position(5) == PositionEntry(5, _lives(1))


# The session.


def _entry(client: str = "ann", **terms: object) -> SubscriptionEntry:
    return SubscriptionEntry(client, "[A]", durable=Durable(name="x", keep_for=HOUR, keep_bytes=100), **terms)  # type: ignore[arg-type]


def _subscribe(driven: Driven, pattern: str = "[A]") -> SubscriptionState:
    quality = QualityOfService(durable="x", keep_for="1h", keep_bytes=100)
    state = SubscriptionState(durable_id("x"), pattern, quality)
    driven.take(driven.session.subscribe(state, {}, "op"))
    return state


def _put(driven: Driven, kind: str) -> bytes:
    (payload,) = driven.published(f"ced/d/{kind}/durable:x")
    return payload


def test_new_durable_subscription_is_put_once_the_name_is_known_to_be_free() -> None:
    driven = Driven()
    _subscribe(driven)
    assert driven.published("ced/d/subscription/durable:x") == []
    driven.pass_barrier("durable:x")
    assert decode(_put(driven, "subscription"), SubscriptionEntry, where="") == _entry()


def test_resumed_subscription_goes_on_at_its_position_and_waits_for_its_types() -> None:
    driven = Driven()
    state = _subscribe(driven)
    barrier = "ced/a/known/ann/detectors/durable:x"
    driven.entry("subscription", "durable:x", _entry("bob"))
    driven.entry("position", "durable:x", PositionEntry(1, ((8, 5, 70),), ("ff",)))
    driven.receive(barrier, b"")
    assert decode(_put(driven, "subscription"), SubscriptionEntry, where="") == _entry(again=True)
    assert state.lives == ((8, 5, 70),)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (SubscriptionEntry("bob", "[B]"), r"pattern \[B\]"),
        (SubscriptionEntry("bob", "[A]", policy="best-effort"), "detection best-effort"),
    ],
)
def test_other_terms_under_the_name_are_refused(there: SubscriptionEntry, told: str) -> None:
    driven = Driven()
    _subscribe(driven)
    driven.entry("subscription", "durable:x", there)
    driven.receive("ced/a/known/ann/detectors/durable:x", b"")
    (done,) = driven.of(Done)
    with pytest.raises(SubscriptionError, match=told):
        raise done.error
    assert driven.published("ced/d/subscription/durable:x") == []
    assert [name for name, *_ in differences(there, _entry())] == [told.split()[0].replace("\\", "")]


def test_earlier_client_ends_where_the_entry_stays_another_clients() -> None:
    driven = Driven()
    _subscribe(driven)
    driven.pass_barrier("durable:x")
    driven.entry("subscription", "durable:x", _entry("bob"))
    (timer,) = driven.of(SetTimer)
    driven.fire(timer)
    (done,) = driven.of(Done)
    assert "bob" in str(done.error) and driven.published("ced/d/subscription/durable:x") == []


def test_of_two_at_once_the_later_one_stays() -> None:
    driven = Driven()
    _subscribe(driven)
    driven.pass_barrier("durable:x")
    own = _put(driven, "subscription")
    driven.entry("subscription", "durable:x", _entry("bob"))
    (timer,) = driven.of(SetTimer)
    # Its own entry came to the server behind that.
    driven.entry("subscription", "durable:x", own)
    driven.fire(timer)
    assert driven.of(Ended) == driven.of(Done) == []


def test_end_that_was_remembered_is_a_loss() -> None:
    driven = Driven()
    state = _subscribe(driven)
    driven.entry("durable", "durable:x", DurableEntry("n", ended=50, reason="away for too long"))
    driven.entry("position", "durable:x", PositionEntry(1, ((8, 5, 30),)))
    driven.receive("ced/a/known/ann/detectors/durable:x", b"")
    state.detector = "d"
    assert list(state._taken([], None, "", 90)) == [Loss(30, 90, "away for too long")]


def test_entry_without_a_position_is_a_loss() -> None:
    driven = Driven()
    state = _subscribe(driven)
    driven.entry("subscription", "durable:x", _entry("bob"))
    driven.receive("ced/a/known/ann/detectors/durable:x", b"")
    (loss,) = state._taken([], None, "", 90)
    assert loss == Loss(INSTANT_MIN, 90, NO_POSITION)


def test_refusal_leaves_resumed_subscription_to_its_nodes() -> None:
    driven = Driven()
    _subscribe(driven)
    driven.entry("subscription", "durable:x", _entry("bob"))
    driven.receive("ced/a/known/ann/detectors/durable:x", b"")
    driven.receive("ced/a/answer/ann", Answers((Answer("durable:x", "refused", message="beyond a limit"),)))
    left = decode(_put(driven, "subscription"), SubscriptionEntry, where="").durable
    assert left is not None and left.away
    (done,) = driven.of(Done)
    assert "beyond a limit" in str(done.error)


def test_farewell_leaves_entry_and_forgetting_clears_all() -> None:
    driven = Driven()
    _subscribe(driven)
    driven.pass_barrier("durable:x")
    driven.now = 7
    driven.read()
    driven.take(driven.session.unsubscribe("durable:x"))
    left = decode(_put(driven, "subscription"), SubscriptionEntry, where="").durable
    assert left is not None and left.away == 7
    driven.take(driven.session.subscriptions.forget("x"))
    assert [_put(driven, kind) for kind in ("subscription", "durable", "position")] == [b"", b"", b""]


def test_type_and_first_match_cannot_be_durable() -> None:
    driven = Driven()
    with pytest.raises(SubscriptionError, match=r"subscribe to \[A\]"):
        _subscribe(driven, "A")
    with pytest.raises(DistcedError, match="every match"):
        QualityOfService(durable="x", matches="first")
    with pytest.raises(DistcedError, match=r"drops nothing.*keep_bytes"):
        QualityOfService(durable="x", overflow="drop")
    with pytest.raises(DistcedError, match="not a limit, keep_bytes"):
        QualityOfService(durable="x", keep_bytes=0)
    with pytest.raises(DistcedError, match="not a name"):
        QualityOfService(durable=" x")
    assert QualityOfService(durable="x", keep_for="2h").keep_for == 2 * HOUR
    assert durable_id("a.b%") == "durable:a%2Eb%25"
