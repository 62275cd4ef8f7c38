"""Events as JSON at the edge: plain objects and CloudEvents, their ids, and every way they can be wrong."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import Event
from distced.middleware.wire.frames import Frame, decode_any, decode_json

PLAIN = {"type": "Motion", "source": "room5", "seq": 7, "time": 1000, "attributes": {"pir": 22, "raw": None}}
CLOUD = {
    "specversion": "1.0",
    "type": "Motion",
    "source": "/room5",
    "id": "7",
    "time": "1970-01-01T00:00:01.000000002Z",
    "datacontenttype": "application/json",
    "subject": "passed over",
    "data": {"pir": 22},
}


def read(made: Any, **given_: Any) -> Event:
    return decode_json(json.dumps(made).encode(), **given_)


def test_plain_object_is_an_event() -> None:
    assert read(PLAIN) == Event("Motion", 1000, 1000, "room5", 7, {"pir": 22, "raw": None})
    assert read({"type": "M", "source": "s", "seq": 0, "lo": "1970-01-01T00:00:01Z", "hi": 2_000_000_000}) == Event(
        "M", 1_000_000_000, 2_000_000_000, "s", 0, {}
    )


def test_cloud_event_is_an_event() -> None:
    assert read(CLOUD) == Event("Motion", 1_000_000_002, 1_000_000_002, "/room5", 7, {"pir": 22})
    assert read({key: value for key, value in CLOUD.items() if key != "data"}).attributes == {}


def test_type_and_source_of_the_topic_are_defaults() -> None:
    assert read({"seq": 1}, type="A", source="s", now=5) == Event("A", 5, 5, "s", 1, {})
    assert read(PLAIN, type="A", source="s", now=5).source == "room5"


def test_event_without_a_number_gets_a_digest_that_redelivery_repeats() -> None:
    without = {key: value for key, value in PLAIN.items() if key != "seq"}
    assert read(without) == read(dict(reversed(without.items())))
    others = [without | {"time": 1001}, without | {"attributes": {"pir": 23}}, without | {"type": "Other"}]
    assert len({read(made).seq for made in [without, *others]}) == 4
    named = [CLOUD | {"id": text} for text in ("a-1", "a-2", "07", "9" * 30, str(2**63))]
    assert len({read(made).seq for made in named}) == 5
    assert read(named[0]) == read(named[0])


def test_json_and_frames_are_distinguished_by_their_first_byte() -> None:
    event = read(PLAIN)
    for space in (b"", b" \r\n\t", b"\xef\xbb\xbf"):
        assert decode_any(space + json.dumps(PLAIN).encode()) == Frame("e", "Motion", "room5", None, [event])


MALFORMED: list[tuple[Any, str]] = [
    ([PLAIN], "a JSON object"),
    ("text", "a JSON object"),
    (PLAIN | {"source": ""}, "without a source"),
    (PLAIN | {"source": 5}, "without a source"),
    (PLAIN | {"type": None}, "without a type"),
    (PLAIN | {"temp": 20.5}, "mapping"),
    (PLAIN | {"seq": -1}, "sequence number"),
    (PLAIN | {"seq": 1.0}, "sequence number"),
    (PLAIN | {"seq": True}, "sequence number"),
    (PLAIN | {"seq": 2**63}, "sequence number"),
    (PLAIN | {"time": 1.5}, "no instant"),
    (PLAIN | {"time": True}, "no instant"),
    (PLAIN | {"time": "yesterday"}, "ISO 8601"),
    (PLAIN | {"time": 2**63}, "64 bits"),
    (PLAIN | {"lo": 1, "hi": 2}, "two timestamps"),
    ({"type": "A", "source": "s", "lo": 1}, "half a timestamp"),
    ({"type": "A", "source": "s", "lo": 2, "hi": 1}, "lo > hi"),
    ({"type": "A", "source": "s"}, "without a time"),
    (PLAIN | {"attributes": [1]}, "attributes"),
    (PLAIN | {"attributes": {"x": [1]}}, "'x'"),
    (PLAIN | {"attributes": {"x": {"y": 1}}}, "'x'"),
    ({"type": "A", "source": "s", "time": 1, "attributes": {"x": 10**40}}, "'x'"),
    (CLOUD | {"specversion": "0.3"}, "specversion 1.0"),
    (CLOUD | {"id": ""}, "without a id"),
    (CLOUD | {"id": 7}, "without a id"),
    (CLOUD | {"data": "text"}, "data"),
    (CLOUD | {"data": {"x": [1]}}, "'x'"),
    (CLOUD | {"data_base64": "AA=="}, "binary"),
]


@pytest.mark.parametrize(("made", "said"), MALFORMED, ids=[json.dumps(made)[:60] for made, _ in MALFORMED])
def test_malformed_object_is_an_error(made: Any, said: str) -> None:
    with pytest.raises(FrameError) as caught:
        read(made, where="ced/e/Motion/room5")
    assert said in str(caught.value)
    assert caught.value.where == "ced/e/Motion/room5"


@pytest.mark.parametrize(
    "payload", [b"", b"{", b'{"type": NaN}', b'{"a":1}x', b"\xff", b'{"type":"\xff"}', b"[" * 100_000]
)
def test_payload_that_is_no_json_is_an_error(payload: bytes) -> None:
    with pytest.raises(FrameError):
        decode_json(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.sampled_from([PLAIN, CLOUD]), st.dictionaries(st.sampled_from([*PLAIN, *CLOUD, "lo", "hi", "other"]), JSON))
def test_changed_objects_raise_nothing_but_frame_errors(made: dict[str, Any], changed: dict[str, Any]) -> None:
    try:
        event = read(made | changed)
    except FrameError:
        return
    assert event.lo <= event.hi
    assert event.source
