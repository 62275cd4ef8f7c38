"""The directory handshake: barrier, repetition, entries that are gone."""

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.mqtt_effects import Publish


def test_barrier_is_repeated_each_half_second_until_it_is_back() -> None:
    handshake = DirectoryHandshake("ann")
    barrier = handshake.begin(0)
    assert barrier == Publish("ced/a/known/ann", b"0")
    assert handshake.again(SECOND // 2 - 1) == []
    assert handshake.again(SECOND // 2) == [barrier]
    assert handshake.again(SECOND // 2 + 1) == []
    assert handshake.reading and not handshake.settled
    assert handshake.answered(barrier.payload)
    assert handshake.settled and not handshake.reading
    assert handshake.again(9 * SECOND) == []


def test_barrier_counts_once_and_only_its_own() -> None:
    handshake = DirectoryHandshake("ann")
    barrier = handshake.begin(7)
    assert not handshake.answered(b"6")
    assert handshake.answered(barrier.payload)
    assert not handshake.answered(barrier.payload)


def test_entries_not_delivered_again_are_gone() -> None:
    handshake = DirectoryHandshake("ann")
    handshake.begin(0)
    handshake.saw("node", "n1")
    handshake.answered(b"0")
    again = handshake.begin(SECOND)
    handshake.saw("node", "n2")
    assert handshake.answered(again.payload)
    assert handshake.settled
    assert handshake.unseen([("node", "n1"), ("node", "n2"), ("type", "A")]) == [("node", "n1"), ("type", "A")]
