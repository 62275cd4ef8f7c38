"""One detector heard at several homes: which watermarks count."""

from __future__ import annotations

from distced.middleware.wire.replica_streams import Streams


def test_streams_of_one_home_give_its_watermark() -> None:
    streams = Streams()
    streams.want(["a"])
    assert streams.homes == {"a"}
    assert [streams.hear("a", each) for each in (3, None, 5)] == [3, None, 5]
    assert streams.hear("b", 9) is None


def test_further_home_counts_when_the_first_has_come_to_where_it_began() -> None:
    streams = Streams(["a"])
    streams.hear("a", 3)
    streams.want(["a", "b"])
    assert streams.homes == {"a", "b"}
    # What was said at b before this is unknown, and a may have it still on its way.
    assert streams.hear("b", 10) is None
    assert streams.hear("b", 12) is None
    assert streams.hear("a", 9) == 9
    assert streams.hear("b", 13) is None
    assert streams.hear("a", 10) == 10
    assert streams.hear("b", 13) == 13
    assert streams.trusted == {"a", "b"}


def test_home_that_is_behind_counts_at_once() -> None:
    streams = Streams(["a"])
    streams.hear("a", 30)
    streams.want(["a", "b"])
    assert streams.hear("b", 10) == 30


def test_home_is_left_when_another_can_be_trusted() -> None:
    streams = Streams(["a"])
    streams.hear("a", 3)
    streams.want(["b"])
    assert streams.homes == {"a", "b"}
    streams.hear("b", 7)
    assert not streams.left
    streams.hear("a", 8)
    assert streams.homes == {"b"} and streams.left
    assert streams.hear("a", 20) is None
    assert streams.hear("b", 9) == 9


def test_home_that_is_lost_is_not_waited_for() -> None:
    streams = Streams(["a"])
    streams.hear("a", 3)
    streams.want(["b"])
    assert streams.hear("b", 7) is None
    streams.lost("a")
    assert streams.homes == {"b"}
    assert streams.hear("b", 8) == 8


def test_stream_takes_another_home_when_all_are_lost() -> None:
    streams = Streams(["a"])
    streams.lost("a")
    assert streams.homes == set()
    streams.want(["c"])
    assert streams.hear("c", 1) == 1


def test_home_no_longer_wanted_is_left_before_it_is_trusted() -> None:
    streams = Streams(["a"])
    streams.hear("a", 3)
    streams.want(["b"])
    streams.want(["a"])
    assert streams.homes == {"a"}
    assert streams.hear("b", 9) is None
