"""Numbered streams: what has come, what is missing, which watermark holds; in any order, with messages left out."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable
from distced.middleware.wire.codec import decode
from distced.middleware.wire.numbered_stream import (
    ASK_AFTER,
    ASK_AGAIN,
    CLAIMS,
    IncompleteStreams,
    Loss,
    NumberedStream,
)
from distced.middleware.wire.published_streams import AT_ONCE, OVERHEAD, KeptMessages, PublishedStreams


def test_watermark_counts_when_all_messages_before_it_have_come() -> None:
    stream = NumberedStream(7)
    assert stream.take(7, 10, None) and stream.watermark == 10 and stream.complete
    assert stream.take(9, 30, 20) and stream.watermark == 10 and not stream.complete
    stream.claim(12, 50, 40)
    assert list(stream.missing()) == [(8, 9), (10, 12)]
    assert stream.take(8, None, 10) and stream.watermark == 30
    assert not stream.take(8, 99, None) and not stream.take(9, 99, None)
    assert stream.take(11, None, None) and list(stream.missing()) == [(10, 11)]
    assert stream.take(10, None, None) and stream.watermark == 50 and stream.complete


def test_what_is_given_up_reaches_as_far_as_the_message_behind_it_says() -> None:
    stream = NumberedStream(1)
    stream.take(1, 10, None)
    stream.take(4, 40, 35)
    assert stream.give_up(4, None, "why") == Loss(10, 40, "why")
    assert stream.next == 5 and stream.watermark == 40 and stream.complete
    stream.claim(9, 60, 70)
    assert stream.give_up(None, None, "why") == Loss(40, 70, "why")
    assert stream.give_up(None, None, "again") is None and stream.give_up(3, 5, "earlier") is None
    fresh = NumberedStream(1)
    fresh.take(2, None, 5)
    assert fresh.give_up(2, 5, "no promise before") == Loss(INSTANT_MIN, 5, "no promise before")


def test_stream_read_from_its_middle_waits_for_its_position() -> None:
    stream = NumberedStream()
    assert list(stream.missing()) == [(0, 0)] and not stream.complete
    assert stream.take(12, 30, 20) and stream.watermark is None
    assert stream.give_up(10, 15, "") is None
    assert list(stream.missing()) == [(10, 12)] and stream.base == 15
    other = NumberedStream()
    other.take(12, 30, 20)
    other.give_up(14, 25, "")
    assert other.next == 13 and other.watermark == 30 and other.base == 20


def test_another_life_continues_without_the_missing_messages_of_the_one_before() -> None:
    stream = NumberedStream(1, 1)
    stream.take(1, 10, None)
    assert stream.begin_life(100, "restarted") is None and stream.next == 100
    stream.take(102, 40, 30)
    assert stream.begin_life(200, "restarted") == Loss(10, 40, "restarted")
    assert stream.next == 200 and stream.complete


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 40), st.floats(0, 0.6))
def test_order_of_arrival_makes_no_difference(seed: int, count: int, lost: float) -> None:
    random = Random(seed)
    stream, top, sent = NumberedStream(100), None, []
    for number in range(100, 100 + count):
        hi = number * 10 + random.randrange(50)
        watermark = number * 10 - 1 if random.random() < 0.5 else None
        sent.append((number, watermark, top))
        top = hi if top is None else max(top, hi)
    came = [each for each in sent if random.random() >= lost]
    shuffled = came + [each for each in came if random.random() < 0.3]
    random.shuffle(shuffled)
    new = sum(stream.take(*each) for each in shuffled)
    assert new == len(came)
    stream.claim(100 + count, 10**6, top)
    missing = {number for begin, end in stream.missing() for number in range(begin, end)}
    assert missing == {number for number, _, _ in sent} - {number for number, _, _ in came}
    copied = stream.copy()
    for each in sent:
        if each not in came:
            # Whatever is missing, no promise beyond what came before it.
            behind = [mark for number, mark, _ in sent if number < min(missing) and mark is not None]
            assert stream.watermark == max(behind, default=None)
            break
    for each in sorted(missing, key=lambda number: random.random()):
        stream.take(*sent[each - 100])
    assert stream.complete and stream.watermark == 10**6 and stream.next == 100 + count
    loss = copied.give_up(None, None, "why")
    assert copied.complete and copied.next == 100 + count and (loss is None) == (not missing)
    if loss is not None:
        # All that was lost is within it.
        his = [sent[number + 1 - 100][2] if number + 1 - 100 < count else top for number in missing]
        assert all(loss.since < hi <= loss.until for hi in his if hi is not None)


def test_promises_that_wait_are_bounded_and_the_last_one_holds() -> None:
    stream = NumberedStream(0)
    for number in range(1, 10 * CLAIMS):
        stream.claim(number, number, None)
    for number in range(CLAIMS - 1):
        stream.take(number, None, None)
    assert stream.watermark == CLAIMS - 1
    for number in range(CLAIMS - 1, 10 * CLAIMS):
        stream.take(number, None, None)
    assert stream.watermark == 10 * CLAIMS - 1 and stream.complete


def test_requests_are_repeated_until_something_comes() -> None:
    incomplete: IncompleteStreams[str] = IncompleteStreams()
    stream = NumberedStream(0)
    stream.take(2, None, None)
    incomplete.note("s", stream, 0)
    assert incomplete.due(ASK_AFTER - 1) == [] and incomplete.due(ASK_AFTER) == [("s", 0, 2)]
    assert incomplete.due(ASK_AFTER + ASK_AGAIN - 1) == []
    stream.take(0, None, None)
    # It progresses: the rest is requested sooner.
    assert incomplete.due(3 * ASK_AFTER) == [("s", 1, 2)]
    stream.take(1, None, None)
    incomplete.note("s", stream, SECOND)
    assert not incomplete and incomplete.due(9 * SECOND) == []


# The publisher's side.


def answers(streams: PublishedStreams, begin: int, end: int | None) -> tuple[list[bytes], list[Unavailable]]:
    asked = Missing("r", (MissingMessages("e", "s", begin, end, "A"),))
    found = list(streams.answer(asked, root="ced"))
    again = [each.payload for each in found if each.topic == "ced/a/again/r/e/s"]
    lost = [decode(each.payload, Unavailable, where="") for each in found if each.topic.startswith("ced/a/lost/r/")]
    assert len(again) + len(lost) == len(found)
    return again, lost


sizes: dict[PublishedStreams, int] = {}


def published(count: int, **limits: int) -> PublishedStreams:
    kept = KeptMessages(**limits)
    streams = PublishedStreams(kept)
    streams.begin("s", "A", 5)
    for number in range(count):
        streams.published("s", "A", b"%d" % number, 10 * number, number * SECOND)
        sizes[streams] = kept.size
    return streams


def test_messages_are_sent_again_as_they_were() -> None:
    streams = published(4)
    assert answers(streams, 6, 8) == ([b"1", b"2"], [])
    assert answers(streams, 7, None) == ([b"2", b"3"], [])
    assert answers(streams, 0, 0) == ([], [Unavailable("e", "s", 9, 30, "A", position=True)])
    assert streams.position("s", "A", 29) == (9, 30) and streams.position("s", "A", 30) == (9, None)
    other = Missing("r", (MissingMessages("e", "t", 1, 2, "A"),))
    assert list(streams.answer(other, root="ced")) == []


@pytest.mark.parametrize("limits", [{"most_bytes": 3 * (OVERHEAD + 1)}, {"longest": 2 * SECOND}])
def test_oldest_messages_are_dropped_and_said_to_be_lost(limits: dict[str, int]) -> None:
    streams = published(10, **limits)
    again, lost = answers(streams, 6, 20)
    assert again == [b"7", b"8", b"9"]
    assert [(each.before, each.top) for each in lost] == [(12, 60)] and "not keep" in lost[0].reason
    # Nothing beyond what was asked for is given up.
    assert [each.before for each in answers(streams, 6, 8)[1]] == [8]
    assert sizes[streams] == 3 * (OVERHEAD + 1)


def test_one_answer_is_bounded() -> None:
    streams = published(AT_ONCE + 10, longest=10**18)
    again, lost = answers(streams, 5, None)
    assert len(again) == AT_ONCE and not lost
