"""Derivations and gaps on the wire: round trips, their layout, what older and later formats make of them, and bad
ones."""

import math
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import COMPOSITE, PRIMITIVE, TIME, CompositeEvent, Derivation, Event, Gap, OpenGap
from distced.middleware.wire.frames import Frame, decode, encode
from tests.support.wire_strategies import ANYTHING, INSTANT, composite_events, open_gaps, order_keys

DIGEST = b"\x00" * 11 + b"\x05"
FIRST = (5, 4, PRIMITIVE, "s", 3)
PART = (7, 1, COMPOSITE, "d00d", 2**80)
FIRED = (9, 9, TIME, "@", 0)
TEMP = Event("Temp", 4, 5, "s", 3, {"room": "FE02"})
PLAIN = Derivation(FIRST, FIRST, 4, Gap())
WHOLE = Derivation(FIRST, FIRED, 1, Gap(PART, 4), ("FE02", None), {"x": TEMP}, {"n": 2})


class Fired(Event, frozen=True, gc=False):
    """A time event, which never leaves its detector."""

    rank = TIME


def detected(*derivations: Derivation, **changed: Any) -> CompositeEvent:
    made = CompositeEvent("C", 1, 9, "c0ffee", 5, {}, constituents=(("s", 3),), derivations=derivations)
    return replace(made, **changed)


def sent(*events: Event, watermark: int | None = None, **more: Any) -> bytes:
    return encode(events, type="C", source="c0ffee", watermark=watermark, kind="c", **more)


def rows(*given_: Any, watermark: int | None = 6, more: tuple[Any, ...] = ()) -> bytes:
    return msgpack.packb(["c", 1, "C", "c0ffee", watermark, given_, *more])


def row(*more: Any) -> list[Any]:
    return [1, 9, DIGEST, {}, [["s", 3]], [], *more]


@settings(deadline=None)
@given(st.lists(composite_events("C", "c0ffee", recorded=True), max_size=3), st.none() | INSTANT, open_gaps())
def test_records_and_open_gaps_come_back_as_they_went(
    events: list[Event], watermark: int | None, open_: tuple[OpenGap, ...]
) -> None:
    made = decode(sent(*events, watermark=watermark, open=open_))
    assert made == Frame("c", "C", "c0ffee", watermark, events, (), open_)
    # One, 1.0 and true are equal, and are not the same.
    assert repr(made.events) == repr(events)
    assert repr(made.open) == repr(open_)


@given(order_keys())
def test_order_keys_come_back_as_they_went(key: tuple[int, int, int, str, int]) -> None:
    derivation = Derivation(key, key, key[1], Gap(key, key[1]))
    assert decode(sent(detected(derivation))).events == [detected(derivation)]


def test_event_without_derivations_has_the_bytes_of_before() -> None:
    assert sent(detected(), watermark=6) == rows(row())
    assert sent(detected(events=(TEMP,))) == rows(
        [*row()[:5], [["Temp", 4, 5, "s", 3, {"room": "FE02"}, None, []]]], watermark=None
    )
    assert sent(watermark=6) == rows()


def test_any_msgpack_library_reads_derivations() -> None:
    first, part, fired = [5, 4, 0, "s", 3], [7, 1, 1, "d00d", (2**80).to_bytes(12, "big")], [9, 9, 2, "@", 0]
    temp = ["Temp", 4, 5, "s", 3, {"room": "FE02"}, None, []]
    cases = [
        (detected(PLAIN), [[[first, first, 4, []]]]),
        (detected(WHOLE, PLAIN, again=True), [
            [[first, fired, 1, [part, 4], ["FE02", None], {"x": temp}, {"n": 2}], [first, first, 4, []]], True,
        ]),
        (detected(Derivation(FIRST, FIRST, 4, Gap(FIRST), counted={"n": None})), [
            [[first, first, 4, [first], [], {}, {"n": None}]],
        ]),
        (detected(Derivation(FIRST, FIRST, 4, Gap(None, 4), (None,))), [[[first, first, 4, [None, 4], [None]]]]),
        (detected(again=True), [[], True]),
    ]  # fmt: skip
    for event, appended in cases:
        assert msgpack.unpackb(sent(event)) == ["c", 1, "C", "c0ffee", None, [row(*appended)]]


def test_any_msgpack_library_reads_open_gaps() -> None:
    open_ = (OpenGap((), Gap()), OpenGap(("FE02",), Gap(FIRST)), OpenGap((None, 2.5), Gap(None, 4)))
    payload = encode([], type="C", source="c0ffee", watermark=6, open=open_)
    assert msgpack.unpackb(payload) == [
        "c", 1, "C", "c0ffee", 6, [], [[[]], [["FE02"], [5, 4, 0, "s", 3]], [[None, 2.5], None, 4]],
    ]  # fmt: skip
    assert decode(payload) == Frame("c", "C", "c0ffee", 6, [], (), open_)


def test_events_inside_others_leave_their_records_at_home() -> None:
    inner = detected(PLAIN, again=True)
    bare = replace(inner, derivations=(), again=False)
    outer = detected(Derivation(FIRST, FIRST, 4, Gap(), bound={"x": inner}), events=(inner,))
    assert decode(sent(outer)).events == [
        detected(Derivation(FIRST, FIRST, 4, Gap(), bound={"x": bare}), events=(bare,))
    ]


class OldRow(msgspec.Struct, array_like=True):
    """A row as it was read before there were derivations."""

    lo: int
    hi: int
    seq: bytes
    attributes: dict[str, Any]
    ids: list[tuple[str, int | bytes]]
    events: list[Any] = []


class OldFrame(msgspec.Struct, array_like=True):
    """A frame as it was read before there were open gaps."""

    kind: str
    version: int
    type: str
    source: str
    watermark: int | None
    rows: list[OldRow]


def test_old_reader_passes_over_records_and_open_gaps() -> None:
    payload = sent(detected(WHOLE, again=True), watermark=6, open=(OpenGap((), Gap(FIRST, 4)),))
    old = msgspec.msgpack.decode(payload, type=OldFrame)
    assert old == OldFrame("c", 1, "C", "c0ffee", 6, [OldRow(1, 9, DIGEST, {}, [("s", 3)])])


def test_fields_of_later_formats_are_passed_over() -> None:
    derivation = [FIRST, FIRST, 4, [None, None, "later"], [], {}, {}, "later"]
    payload = rows(
        row([derivation], False, "later"), more=([[[], None, None, "later"]], None, 0, None, None, [], "later")
    )
    assert decode(payload) == Frame("c", "C", "c0ffee", 6, [detected(PLAIN)], (), (OpenGap((), Gap()),))
    # In a frame of primitive events the tenth field is a later format's, whatever it is.
    good, bad = [1, 2, 3, {}], [2, 1, 3, {}]
    for sent_ in ([good], [good, bad]):
        made = decode(msgpack.packb(["e", 1, "C", "s", 6, sent_, None, None, [], [1]]))
        assert made.watermark == 6
        assert made.events == [Event("C", 1, 2, "s", 3, {})]
        assert [rejected.row for rejected in made.rejected] == [1] * (len(sent_) - 1)


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinities_are_numbers(value: float) -> None:
    warm = Event("Temp", 4, 5, "s", 3, {"x": value})
    event = detected(Derivation(FIRST, FIRST, 4, Gap(), (value,), {"x": warm}, {"n": value}))
    open_ = (OpenGap((value,), Gap()),)
    assert decode(sent(event, watermark=6, open=open_)) == Frame("c", "C", "c0ffee", 6, [event], (), open_)


NO_KEY = "order key"
BAD_KEYS: list[tuple[str, Any, str]] = [
    ("lo > hi", [5, 6, 0, "s", 3], NO_KEY),
    ("a fourth rank", [5, 4, 3, "s", 3], "`int` <= 2"),
    ("a negative rank", [5, 4, -1, "s", 3], "`int` >= 0"),
    ("a truth value for a rank", [5, 4, True, "s", 3], "Expected `int`"),
    ("no source", [5, 4, 0, "", 3], "length >= 1"),
    ("a digest for a primitive event", [5, 4, 0, "s", DIGEST], NO_KEY),
    ("a number for a composite one", [5, 4, 1, "s", 3], NO_KEY),
    ("a digest of 8 bytes", [5, 4, 1, "s", b"12345678"], "length >= 12"),
    ("a sequence number beyond 63 bits", [5, 4, 0, "s", 2**63], "Expected `int` <="),
    ("a negative sequence number", [5, 4, 0, "s", -1], "Expected `int` >= 0"),
    ("an instant beyond 64 bits", [2**63, 4, 0, "s", 3], "Expected `int` <="),
    ("a time event with an interval", [5, 4, 2, "@", 0], NO_KEY),
    ("a time event of a source", [5, 5, 2, "s", 0], NO_KEY),
    ("a time event with a number", [5, 5, 2, "@", 1], NO_KEY),
    ("a time event with a digest", [5, 5, 2, "@", DIGEST], NO_KEY),
    ("four parts", [5, 4, 0, "s"], "length 5"),
    ("six parts", [5, 4, 0, "s", 3, 1], "length 5"),
    ("none", None, "Expected `array`"),
]
BAD_DERIVATIONS: list[tuple[str, Any, str]] = [
    *[(f"first: {what}", [key, FIRED, 1, []], said) for what, key, said in BAD_KEYS],
    *[(f"last: {what}", [[-9, -9, 0, "s", 1], key, -9, []], said) for what, key, said in BAD_KEYS],
    *[(f"previous: {what}", [FIRST, FIRED, 1, [key]], said) for what, key, said in BAD_KEYS if key is not None],
    ("last before first", [[7, 4, 0, "s", 1], FIRST, 1, []], "before its first"),
    ("lo after the first's", [[5, 4, 0, "s", 1], [8, 8, 0, "s", 1], 5, []], "begins after"),
    ("lo after the last's", [[5, 4, 0, "s", 1], [8, 2, 0, "s", 1], 3, []], "begins after"),
    ("lo beyond 64 bits", [FIRST, FIRST, 2**63, []], "Expected `int` <="),
    ("no gap", [FIRST, FIRST, 4], "at least length 4"),
    ("a gap that is none", [FIRST, FIRST, 4, None], "Expected `array`"),
    ("the greatest lo beyond 64 bits", [FIRST, FIRST, 4, [None, 2**63]], "Expected `int` <="),
    ("the greatest lo with a fraction", [FIRST, FIRST, 4, [None, 1.5]], "Expected `int | null`"),
    ("NaN in the key", [FIRST, FIRST, 4, [], [1, math.nan]], "'key 1'"),
    ("a number beyond 64 bits in the key", [FIRST, FIRST, 4, [], [2**63]], "'key 0'"),
    ("bytes in the key", [FIRST, FIRST, 4, [], [b"1"]], "got `bytes`"),
    ("a list in the key", [FIRST, FIRST, 4, [], [[]]], "got `array`"),
    ("a map for the key", [FIRST, FIRST, 4, [], {}], "Expected `array`"),
    ("a variable without a name", [FIRST, FIRST, 4, [], [], {"": ["A", 1, 1, "s", 1, {}]}], "length >= 1"),
    ("a number for a variable", [FIRST, FIRST, 4, [], [], {5: ["A", 1, 1, "s", 1, {}]}], "Expected `str`"),
    ("bound lo > hi", [FIRST, FIRST, 4, [], [], {"x": ["A", 2, 1, "s", 1, {}]}], "lo > hi"),
    ("bound without a type", [FIRST, FIRST, 4, [], [], {"x": ["", 1, 1, "s", 1, {}]}], "length >= 1"),
    ("bound with NaN", [FIRST, FIRST, 4, [], [], {"x": ["A", 1, 1, "s", 1, {"y": math.nan}]}], "'y'"),
    ("bound without ids", [FIRST, FIRST, 4, [], [], {"x": ["A", 1, 1, "s", DIGEST, {}]}], "does not name its own"),
    (
        "NaN inside a bound one",
        [FIRST, FIRST, 4, [], [], {"x": ["A", 1, 1, "s", DIGEST, {}, [], [["A", 1, 1, "s", 1, {"y": math.nan}]]]}],
        "'y'",
    ),
    ("a register without a name", [FIRST, FIRST, 4, [], [], {}, {"": 1}], "length >= 1"),
    ("NaN in a register", [FIRST, FIRST, 4, [], [], {}, {"n": math.nan}], "'n'"),
    ("an event in a register", [FIRST, FIRST, 4, [], [], {}, {"n": ["A", 1, 1, "s", 1, {}]}], "got `array`"),
    ("no derivation at all", None, "Expected `array`"),
]
BAD_ROWS: list[tuple[str, Any, str]] = [
    *[(what, row([derivation]), said) for what, derivation, said in BAD_DERIVATIONS],
    ("one bad derivation of two", row([[FIRST, FIRST, 4, []], [FIRST, FIRST, 5, []]]), "begins after"),
    ("nil for derivations", row(None), "Expected `array`"),
    ("a number for again", row([], 1), "Expected `bool`"),
    ("nil for again", row([], None), "Expected `bool`"),
]


@pytest.mark.parametrize(("bad", "said"), [case[1:] for case in BAD_ROWS], ids=[case[0] for case in BAD_ROWS])
def test_one_bad_record_does_not_lose_other_events(bad: Any, said: str) -> None:
    open_ = [[["FE02"], FIRST, 4]]
    good = row([[FIRST, FIRST, 4, []]])
    made = decode(rows(good, bad, good, more=(open_,)))
    assert made.events == [detected(PLAIN)] * 2
    assert made.watermark == 6
    assert made.open == (OpenGap(("FE02",), Gap(FIRST, 4)),)
    (rejected,) = made.rejected
    assert rejected.row == 1
    assert said in rejected.reason
    assert rejected.raw == msgpack.packb(bad)


BAD_OPEN: list[tuple[str, Any, str]] = [
    *[(what, [[[], None, 4], [[], key]], said) for what, key, said in BAD_KEYS if key is not None],
    ("NaN in the key", [[[], None, 4], [[math.nan]]], "'key 0'"),
    ("the greatest lo beyond 64 bits", [[[], None, 2**63]], "Expected `int` <="),
    ("no key", [[]], "at least length 1"),
    ("a map", {}, "Expected `array`"),
    ("nil", None, "Expected `array`"),
]


@pytest.mark.parametrize(("bad", "said"), [case[1:] for case in BAD_OPEN], ids=[case[0] for case in BAD_OPEN])
def test_bad_open_gaps_lose_no_event_and_promise_nothing(bad: Any, said: str) -> None:
    made = decode(rows(row([[FIRST, FIRST, 4, []]]), more=(bad,)))
    assert made.events == [detected(PLAIN)]
    assert made.watermark is None
    assert made.open == ()
    (rejected,) = made.rejected
    assert rejected.row is None
    assert said in rejected.reason
    assert rejected.raw == msgpack.packb(bad)


def with_derivation(**changed: Any) -> dict[str, Any]:
    return {"events": [detected(), detected(replace(WHOLE, **changed))]}


NOT_SENT: list[tuple[str, dict[str, Any], str]] = [
    ("last before first", with_derivation(first=FIRED, last=FIRST), "before its first"),
    ("lo after the first's", with_derivation(lo=5), "begins after"),
    ("lo beyond 64 bits", with_derivation(lo=-(2**63) - 1), "no instant"),
    ("lo with a fraction", with_derivation(lo=1.0), "no instant"),
    ("the greatest lo beyond 64 bits", with_derivation(gap=Gap(None, 2**63)), "no instant"),
    ("a previous one of 97 bits", with_derivation(gap=Gap((7, 1, COMPOSITE, "d00d", 2**96))), "not to be put"),
    ("hi beyond 64 bits", with_derivation(last=(2**63, 9, PRIMITIVE, "s", 1)), NO_KEY),
    ("lo of a key beyond 64 bits", with_derivation(gap=Gap((1, -(2**63) - 1, PRIMITIVE, "s", 1))), NO_KEY),
    ("hi with a fraction", with_derivation(last=(9.0, 9, PRIMITIVE, "s", 1)), NO_KEY),
    ("64 bits of seq", with_derivation(last=(9, 9, PRIMITIVE, "s", 2**63)), NO_KEY),
    ("a negative digest", with_derivation(last=(9, 9, COMPOSITE, "s", -1)), NO_KEY),
    ("a key without source", with_derivation(last=(9, 9, PRIMITIVE, "", 1)), NO_KEY),
    ("a key of four", with_derivation(last=(9, 9, PRIMITIVE, "s")), "not to be put"),
    ("a fourth rank", with_derivation(last=(9, 9, 3, "s", 1)), NO_KEY),
    ("a time event with a number", with_derivation(last=(9, 9, TIME, "@", 1)), NO_KEY),
    ("NaN in the key", with_derivation(key=(math.nan,)), "'key 0'"),
    ("a variable without a name", with_derivation(bound={"": TEMP}), "without a name"),
    ("a bound event with NaN", with_derivation(bound={"x": replace(TEMP, attributes={"y": math.nan})}), "'y'"),
    ("a bound event without type", with_derivation(bound={"x": replace(TEMP, type="")}), "without a type"),
    ("a bound time event", with_derivation(bound={"x": Fired("@0", 9, 9, "@", 0, {})}), "another kind"),
    ("a register without a name", with_derivation(counted={"": 1}), "without a name"),
    ("a list in a register", with_derivation(counted={"n": [1]}), "'n'"),
]  # fmt: skip


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("given_", "said"), [case[1:] for case in NOT_SENT], ids=[case[0] for case in NOT_SENT])
def test_malformed_derivation_is_not_sent(given_: dict[str, Any], said: str, check: bool) -> None:
    with pytest.raises(FrameError) as caught:
        encode(type="C", source="c0ffee", check=check, **given_)
    assert said in str(caught.value)
    assert caught.value.where == "row 1" or said == "not to be put"


def test_malformed_open_gap_is_not_sent() -> None:
    with pytest.raises(FrameError, match=r"'key 0'.*at open gaps"):
        sent(detected(), open=(OpenGap((math.nan,), Gap()),))
    with pytest.raises(FrameError, match=NO_KEY):
        sent(detected(), open=(OpenGap((), Gap((1, 2, PRIMITIVE, "s", 1))),))
    with pytest.raises(FrameError, match="open gaps in a frame of primitive events"):
        encode([], type="C", source="c0ffee", kind="e", open=(OpenGap((), Gap()),))


@pytest.mark.parametrize("depth", [10, 100, 200, 300, 400, 600, 1000, 3000])
def test_bound_events_nested_however_deeply_are_read_or_refused(depth: int) -> None:
    leaf: bytes = msgpack.packb(["A", 1, 1, "s", 1, {}])
    around = b"\x98" + msgpack.packb(["A", 1, 1, "s", DIGEST, {}, []])[1:] + b"\x91"
    derivation = b"\x96" + msgpack.packb([FIRST, FIRST, 4, [], []])[1:] + b"\x81\xa1x" + around * depth + leaf
    payload = rows()[:-1] + b"\x91\x97" + msgpack.packb(row())[1:] + b"\x91" + derivation
    try:
        made = decode(payload)
    except FrameError as error:
        assert "nested too deeply" in str(error)
        assert depth > 100
    else:
        # How deep the interpreter goes is its own affair.
        assert [each.reason for each in made.rejected] == ["nested too deeply"] * (1 - len(made.events))
        assert depth < 1000
        if depth <= 100:
            assert decode(sent(*made.events, watermark=6)) == made


@settings(deadline=None)
@given(ANYTHING, ANYTHING)
def test_any_msgpack_for_records_and_open_gaps_raises_nothing_but_frame_errors(anything: Any, other: Any) -> None:
    derivation = [FIRST, FIRST, 4, [], [], {}, {}]
    try:
        payloads = [
            rows(row(anything, other)),
            rows(row([anything])),
            rows(row(), more=(anything,)),
            rows(more=([anything, [other, other, other]],)),
            *[
                rows(row([[*derivation[:place], anything, *derivation[place + 1 :]]]))
                for place in range(len(derivation))
            ],
        ]
    except (OverflowError, ValueError):
        return
    for payload in payloads:
        try:
            made = decode(payload)
        except FrameError:
            continue
        again = sent(*made.events, watermark=made.watermark, open=made.open)
        assert decode(again) == Frame("c", "C", "c0ffee", made.watermark, made.events, (), made.open)
