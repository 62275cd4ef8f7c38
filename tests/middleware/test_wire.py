"""The wire format: round trips, what any msgpack library sees, and everything malformed."""

import math
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.event_encoding import MOST_ATTRIBUTES
from distced.middleware.wire.frames import MOST_REJECTED, MOST_ROWS, Frame, decode, decode_any, decode_json, encode
from distced.middleware.wire.numbered_stream import Loss
from tests.support.wire_strategies import ANYTHING, INSTANT, composite_events, open_gaps, primitive_events


@settings(deadline=None)
@given(st.lists(primitive_events("A", "s"), max_size=5), st.none() | INSTANT)
def test_primitive_events_come_back_as_they_went(events: list[Event], watermark: int | None) -> None:
    payload = encode(events, type="A", source="s", watermark=watermark)
    assert decode(payload) == Frame("e", "A", "s", watermark, events)
    assert decode_any(payload) == decode(payload)


@settings(deadline=None)
@given(st.lists(composite_events("C", "c0ffee"), max_size=3), st.none() | INSTANT)
def test_composite_events_come_back_as_they_went(events: list[Event], watermark: int | None) -> None:
    payload = encode(events, type="C", source="c0ffee", watermark=watermark, kind="c")
    assert decode(payload) == Frame("c", "C", "c0ffee", watermark, events)


def test_heartbeat_is_a_frame_without_events() -> None:
    payload = encode([], type="A", source="s", watermark=7)
    assert decode(payload) == Frame("e", "A", "s", 7, [])
    assert decode(encode([], type="A", source="s", watermark=7, kind="c")).kind == "c"


def test_any_msgpack_library_reads_a_frame() -> None:
    event = Event("Temp", 10, 12, "s", 3, {"room": "FE02", "temp": 14.5, "on": True, "by": None})
    assert msgpack.unpackb(encode([event], type="Temp", source="s", watermark=9)) == [
        "e", 1, "Temp", "s", 9, [[10, 12, 3, {"room": "FE02", "temp": 14.5, "on": True, "by": None}]],
    ]  # fmt: skip
    composite = CompositeEvent(
        "Meeting", 1, 12, "c0ffee", 2**90, {"n": 2}, constituents=(("s", 3), ("d00d", 2**80)), events=(event,)
    )
    assert msgpack.unpackb(encode([composite], type="Meeting", source="c0ffee")) == [
        "c", 1, "Meeting", "c0ffee", None,
        [
            [
                1, 12, (2**90).to_bytes(12, "big"), {"n": 2}, [["s", 3], ["d00d", (2**80).to_bytes(12, "big")]],
                [["Temp", 10, 12, "s", 3, {"room": "FE02", "temp": 14.5, "on": True, "by": None}, None, []]],
            ]
        ],
    ]  # fmt: skip


def test_fields_of_later_formats_are_passed_over_and_missing_ones_filled_in() -> None:
    later = ["e", 1, "A", "s", 5, [[1, 2, 3, {}, "a later field"]], None, None, [], {"another": 1}]
    assert decode(msgpack.packb(later)) == Frame("e", "A", "s", 5, [Event("A", 1, 2, "s", 3, {})])
    earlier = ["c", 1, "A", "s", 5, [[1, 2, b"\x00" * 12, {}, []]]]
    assert decode(msgpack.packb(earlier)).events == [CompositeEvent("A", 1, 2, "s", 0, {}, constituents=())]


@pytest.mark.parametrize("rows", [[], [[1, 2, 3, {}]], [[1, 2, 3, {}], [2, 1, 3, {}]]])
def test_frame_of_a_source_carries_losses(rows: list[Any]) -> None:
    loss = Loss(5, 9, "no connection")
    payload = msgpack.packb(["e", 1, "A", "s", None, rows, 7, 4, [[5, 9, "no connection"]]])
    if not rows:
        assert encode([], type="A", source="s", number=7, top=4, losses=[loss]) == payload
    made = decode(payload)
    assert (made.number, made.top, made.losses, len(made.events)) == (7, 4, (loss,), min(len(rows), 1))


def frame(**changed: Any) -> list[Any]:
    head = {"kind": "e", "version": 1, "type": "A", "source": "s", "watermark": None, "rows": [[1, 2, 3, {}]]}
    return list((head | changed).values())


MALFORMED: list[tuple[str, Any, str]] = [
    ("another version", frame(version=2), "version 1"),
    ("a version that is none", frame(version="1"), "Expected `int`"),
    ("an unknown kind", frame(kind="t"), "Invalid enum value"),
    ("an empty source", frame(source=""), "length >= 1"),
    ("an empty type", frame(type=""), "length >= 1"),
    ("a source of bytes", frame(source=b"s"), "Expected `str`"),
    ("a watermark beyond 64 bits", frame(watermark=2**63), "Expected `int` <="),
    ("a watermark with a fraction", frame(watermark=1.5), "Expected `int | null`"),
    ("rows that are none", frame(rows={}), "Expected `array`"),
    ("no rows", frame()[:5], "at least length 6"),
    ("a map", {"kind": "e"}, "Expected `array`"),
    ("nil", None, "Expected `array`"),
    ("nothing but a number", 123, "Expected `array`"),
]


@pytest.mark.parametrize(("made", "said"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_malformed_frame_is_an_error(made: Any, said: str) -> None:
    with pytest.raises(FrameError) as caught:
        decode(msgpack.packb(made), where="ced/e/A/s")
    assert said in str(caught.value)
    assert caught.value.where == "ced/e/A/s"


def test_frame_cut_off_or_followed_by_bytes_is_an_error() -> None:
    payload = encode([Event("A", 1, 2, "s", 3, {"x": "y"})], type="A", source="s", watermark=7)
    for length in range(len(payload)):
        with pytest.raises(FrameError):
            decode(payload[:length])
    with pytest.raises(FrameError, match="trailing"):
        decode(payload + b"\x00")


def test_text_that_is_no_utf8_is_rejected() -> None:
    with pytest.raises(FrameError, match="UTF-8"):
        decode(encode([], type="A", source="ss").replace(b"ss", b"\xff\xff"))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(FrameError):
        decode(b"\x91" * 100_000)
    row = msgpack.packb(frame(rows=[]))[:-1] + b"\x91" + b"\x94\x01\x02\x03\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(FrameError, match="nested too deeply"):
        decode(row)


BAD_ROWS: list[tuple[str, Any, str]] = [
    ("lo > hi", [2, 1, 3, {}], "lo > hi"),
    ("a NaN", [1, 2, 3, {"x": math.nan}], "'x'"),
    ("an attribute beyond 64 bits", [1, 2, 3, {"x": 2**63}], "64 bits"),
    ("an instant beyond 64 bits", [1, 2**63, 3, {}], "Expected `int` <="),
    ("a sequence number beyond 63 bits", [1, 2, 2**63, {}], "Expected `int` <="),
    ("a negative sequence number", [1, 2, -1, {}], "Expected `int` >= 0"),
    ("a list for an attribute", [1, 2, 3, {"x": [1]}], "got `array`"),
    ("a map for an attribute", [1, 2, 3, {"x": {}}], "got `object`"),
    ("bytes for an attribute", [1, 2, 3, {"x": b"1"}], "got `bytes`"),
    ("an extension for an attribute", [1, 2, 3, {"x": msgpack.ExtType(5, b"1")}], "got `ext`"),
    ("a number for a name", [1, 2, 3, {5: 1}], "Expected `str`"),
    ("a fraction for an instant", [1, 2.5, 3, {}], "Expected `int`"),
    ("a truth value for a number", [1, True, 3, {}], "Expected `int`"),
    ("too short", [1, 2, 3], "at least length 4"),
    ("no row at all", "row", "Expected `array`"),
]


@pytest.mark.parametrize(("row", "said"), [case[1:] for case in BAD_ROWS], ids=[case[0] for case in BAD_ROWS])
def test_one_bad_event_does_not_lose_the_others(row: Any, said: str) -> None:
    good = [1, 2, 7, {"x": -math.inf}]
    made = decode(msgpack.packb(frame(rows=[good, row, good], watermark=1)))
    assert made.events == [Event("A", 1, 2, "s", 7, {"x": -math.inf})] * 2
    assert made.watermark == 1
    (rejected,) = made.rejected
    assert rejected.row == 1
    assert said in rejected.reason
    assert rejected.raw == msgpack.packb(row)


BAD_COMPOSITE_ROWS: list[tuple[str, Any, str]] = [
    ("a digest of 8 bytes", [1, 2, b"12345678", {}, []], "length >= 12"),
    ("a number for a digest", [1, 2, 3, {}, []], "Expected `bytes`"),
    ("an id without a number", [1, 2, b"1" * 12, {}, [["s"]]], "length 2"),
    ("lo > hi among the constituents", [1, 2, b"1" * 12, {}, [], [["A", 2, 1, "s", 1, {}]]], "lo > hi"),
    ("NaN among the constituents", [1, 2, b"1" * 12, {}, [], [["A", 1, 1, "s", 1, {"x": math.nan}]]], "'x'"),
    (
        "a constituent without ids",
        [1, 2, b"1" * 12, {}, [], [["A", 1, 1, "s", b"1" * 12, {}]]],
        "does not name its own",
    ),
]


@pytest.mark.parametrize(
    ("row", "said"), [case[1:] for case in BAD_COMPOSITE_ROWS], ids=[case[0] for case in BAD_COMPOSITE_ROWS]
)
def test_one_bad_composite_event_does_not_lose_the_others(row: Any, said: str) -> None:
    good = [1, 2, b"\x00" * 11 + b"\x05", {}, [["s", 1]], [["A", 1, 1, "s", 1, {}]]]
    made = decode(msgpack.packb(frame(kind="c", rows=[good, row])))
    assert [event.seq for event in made.events] == [5]
    assert [rejected.row for rejected in made.rejected] == [1]
    assert said in made.rejected[0].reason


def composite(seq: int = 3, constituents: tuple[tuple[str, int], ...] = ()) -> CompositeEvent:
    return CompositeEvent("A", 1, 2, "s", seq, {}, constituents=constituents)


NOT_SENT: list[tuple[str, dict[str, Any], str]] = [
    ("another type", {"events": [Event("B", 1, 2, "s", 3, {})]}, "another type or source"),
    ("another source", {"events": [Event("A", 1, 2, "t", 3, {})]}, "another type or source"),
    ("lo > hi", {"events": [Event("A", 1, 2, "s", 3, {}), Event("A", 2, 1, "s", 3, {})]}, "at row 1"),
    ("lo > hi, unchecked", {"events": [Event("A", 2, 1, "s", 3, {})], "check": False}, "lo > hi"),
    ("NaN", {"events": [Event("A", 1, 2, "s", 3, {"x": math.nan})]}, "'x'"),
    ("a list", {"events": [Event("A", 1, 2, "s", 3, {"x": [1]})]}, "'x'"),  # type: ignore[dict-item]
    ("a set, unchecked", {"events": [Event("A", 1, 2, "s", 3, {"x": object()})], "check": False}, "not to be put"),  # type: ignore[dict-item]
    ("64 bits of seq", {"events": [Event("A", 1, 2, "s", 2**63, {})]}, "beyond 63 bits"),
    ("half a character", {"events": [Event("A", 1, 2, "s", 3, {"x": "\ud800"})]}, "not to be put"),
    ("no source", {"events": [], "source": ""}, "without type or source"),
    ("a watermark beyond 64 bits", {"events": [], "watermark": 2**63}, "beyond 64 bits"),
    ("both kinds", {"events": [composite(), Event("A", 1, 2, "s", 3, {})]}, "row 1"),
    ("the other kind", {"events": [Event("A", 1, 2, "s", 3, {})], "kind": "c"}, "a primitive event"),
    ("97 bits", {"events": [composite(seq=2**96)]}, "of 96 bits"),
    ("an id without source", {"events": [composite(constituents=(("", 1),))]}, "id of an event"),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "said"), [case[1:] for case in NOT_SENT], ids=[case[0] for case in NOT_SENT])
def test_malformed_event_is_not_sent(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(FrameError) as caught:
        encode(**({"type": "A", "source": "s"} | given_))
    assert said in str(caught.value)


def only_frame_errors(payload: bytes) -> None:
    for read in (decode, decode_any, decode_json):
        try:
            made = read(payload)
        except FrameError:
            continue
        if isinstance(made, Frame):
            # Whatever is read can be sent, so nothing was let through that is no event, derivation or gap.
            sent = encode(made.events, type=made.type, source=made.source, kind=made.kind, open=made.open)
            assert decode(sent) == Frame(made.kind, made.type, made.source, None, made.events, (), made.open)
        for event in made.events if isinstance(made, Frame) else [made]:
            assert event.lo <= event.hi
            assert event.source
            assert not any(isinstance(value, float) and math.isnan(value) for value in event.attributes.values())


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_nothing_but_frame_errors(payload: bytes) -> None:
    only_frame_errors(payload)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_mutated_frames_raise_nothing_but_frame_errors(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        payload = encode(data.draw(st.lists(primitive_events("A", "s"), max_size=3)), type="A", source="s", watermark=5)
    else:
        composite = data.draw(st.lists(composite_events("A", "s", depth=1, recorded=True), max_size=2))
        payload = encode(composite, type="A", source="s", watermark=5, kind="c", open=data.draw(open_gaps()))
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    only_frame_errors(bytes(changed[: data.draw(st.integers(0, len(changed)))]))
    only_frame_errors(bytes(changed))


@settings(deadline=None)
@given(ANYTHING)
def test_rows_of_any_msgpack_raise_nothing_but_frame_errors(row: Any) -> None:
    for kind in ("e", "c"):
        try:
            payload = msgpack.packb(frame(kind=kind, rows=[row]))
        except (OverflowError, ValueError):
            return
        only_frame_errors(payload)


@pytest.mark.parametrize("row", [b"\xc0", b"\x90", b"\x94\x01\x01\x01\x80"])
def test_frame_of_too_many_events_is_refused_as_a_whole(row: bytes) -> None:
    # 3 MB of nothing were 900 MB of dead letters, and nine seconds.
    number = MOST_ROWS + 1
    head = b"\x96\xa1e\x01\xa1A\xa1s\xc0\xdd" + number.to_bytes(4, "big")
    with pytest.raises(FrameError, match="no frame of events"):
        decode(head + row * number)


def test_rest_of_a_frame_with_many_malformed_events_is_not_read() -> None:
    number = 3 * MOST_REJECTED
    frame = decode(b"\x96\xa1e\x01\xa1A\xa1s\xc0\xdd" + number.to_bytes(4, "big") + b"\xc0" * number)
    assert len(frame.rejected) == MOST_REJECTED + 1
    assert frame.rejected[-1].row is None
    assert frame.rejected[-1].reason.startswith("2,000 further events are not read")


def test_event_of_too_many_attributes_is_rejected_alone() -> None:
    names = {str(number): None for number in range(MOST_ATTRIBUTES + 1)}
    made = frame(rows=[[1, 2, 3, {"k": 1}], [1, 2, 4, names], [1, 2, 5, dict(list(names.items())[1:])]])
    found = decode(msgpack.packb(made))
    assert [each.seq for each in found.events] == [3, 5]
    (rejected,) = found.rejected
    assert rejected.row == 1 and f"length <= {MOST_ATTRIBUTES}" in rejected.reason


def test_message_of_too_many_events_is_not_published() -> None:
    event = Event("A", 1, 1, "s", 1, {})
    with pytest.raises(FrameError, match=r"too many events for a message: 100001 .*several messages"):
        encode([event] * (MOST_ROWS + 1), type="A", source="s")
