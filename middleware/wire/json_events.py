"""Events as JSON, at the edge: distced's own plain objects and CloudEvents 1.0 in structured mode.

    {"type": "Motion", "source": "room5", "seq": 7, "time": "2026-11-21T08:00:00Z", "attributes": {"pir": 22}}
    {"type": "Meeting", "source": "room5", "lo": 1000, "hi": 2000}
    {"specversion": "1.0", "type": "Motion", "source": "/room5", "id": "7", "time": "...", "data": {"pir": 22}}

For devices and scripts; foreign payloads need a mapping. An unknown field is an error in a plain object (usually a
misplaced attribute), and ignored in a CloudEvent, which producers may extend. JSON has no watermarks: a source that
uses it holds guaranteed detection.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from distced.middleware.model.errors import DistcedError, FrameError
from distced.middleware.model.events import CompositeEvent, Event, check_event
from distced.middleware.model.timestamps import format_instant, parse_instant

SEQUENCE_MAX: Final = 2**63 - 1  # greatest sequence number of a primitive event
_PLAIN: Final = ("type", "source", "seq", "time", "lo", "hi", "attributes")
_INSTANT: Final = "integer nanoseconds since the Unix epoch, or ISO 8601"


def decode_json(
    payload: bytes,
    *,
    where: str | None = None,
    type: str | None = None,
    source: str | None = None,
    now: int | None = None,
) -> Event:
    """Event in a JSON object.

    The sequence number is `seq`, or a CloudEvent's decimal `id`; otherwise a digest of the `id` or of the event, so
    that duplicates share one id.

    Args:
        where: the topic, for the error.
        type, source: defaults.
        now: default of the time, ns since the Unix epoch; None makes a missing time an error.

    Raises:
        FrameError: not such an object. Nothing else, whatever the bytes.
    """
    try:
        made = msgspec.json.decode(payload.removeprefix(b"\xef\xbb\xbf"))
        if not isinstance(made, dict):
            raise FrameError("not an event", given=made, allowed="a JSON object")
        named = {"type": type, "source": source}
        named.update({name: made[name] for name in named if name in made})
        if "specversion" in made:
            return check_event(_cloud_event(made, named, now))
        return _plain(made, named, now)
    except DistcedError as error:
        raise FrameError(
            error.problem, given=error.given, allowed=error.allowed, where=where, advice=error.advice
        ) from None
    except RecursionError:
        raise FrameError("JSON nested too deeply", given=repr(payload[:24]), where=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(
            "neither a frame nor JSON",
            given=repr(payload[:24]),
            allowed="a JSON object",
            where=where,
            advice=str(error),
        ) from None


def encode_json(event: CompositeEvent) -> bytes:
    """Composite event as JSON for others than distced's clients.

        {"type": "Alarm", "id": "1f3a.9c02", "start": "2026-11-21T08:00:00Z", "end": "...", "attributes": {"room": "5"}}

    Times are text, as nanoseconds exceed the integers of JavaScript, and so is the id, which tells a second delivery.
    """
    shown = {
        "type": event.type,
        "id": json_id(event),
        "start": format_instant(event.lo),
        "end": format_instant(event.hi),
        "attributes": event.attributes,
    }
    return msgspec.json.encode(shown)


def json_id(event: CompositeEvent) -> str:
    """Id of a composite event as JSON."""
    return f"{event.source}.{event.seq:x}"


def _plain(made: dict[str, Any], named: Mapping[str, Any], now: int | None) -> Event:
    unknown = [name for name in made if name not in _PLAIN]
    if unknown:
        raise FrameError(
            "an event with an unknown field", given=", ".join(unknown), allowed=", ".join(_PLAIN),
            advice="put attributes into attributes, or describe the payload in a mapping",
        )  # fmt: skip
    if "time" in made and ("lo" in made or "hi" in made):
        raise FrameError("an event with two timestamps", given="time, lo and hi", allowed="time, or lo and hi")
    if ("lo" in made) != ("hi" in made):
        raise FrameError("half a timestamp", given="lo" if "lo" in made else "hi", allowed="time, or lo and hi")
    if "lo" in made:
        lo, hi = _instant("lo", made["lo"]), _instant("hi", made["hi"])
    else:
        lo = hi = _time(made, now)
    event = Event(_name("type", named), lo, hi, _name("source", named), 0, _attributes("attributes", made))
    check_event(event)
    content = [event.type, event.lo, event.hi, sorted(event.attributes.items(), key=lambda one: one[0])]
    seq = made["seq"] if "seq" in made else _digest(msgspec.json.encode(content))
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= SEQUENCE_MAX:
        raise FrameError("not a sequence number", given=seq, allowed=f"an integer from 0 to {SEQUENCE_MAX}")
    return msgspec.structs.replace(event, seq=seq)


def _cloud_event(made: dict[str, Any], named: Mapping[str, Any], now: int | None) -> Event:
    if made["specversion"] != "1.0":
        raise FrameError("a CloudEvent of another version", given=made["specversion"], allowed="specversion 1.0")
    if "data_base64" in made:
        raise FrameError("a CloudEvent with binary data", given="data_base64", allowed="data, a JSON object")
    instant = _time(made, now)
    identity = _name("id", made)
    number = int(identity) if identity.isascii() and identity.isdecimal() and len(identity) <= 19 else -1
    seq = number if 0 <= number <= SEQUENCE_MAX and str(number) == identity else _digest(identity.encode())
    return Event(_name("type", named), instant, instant, _name("source", named), seq, _attributes("data", made))


def _name(field: str, fields: Mapping[str, Any]) -> str:
    name = fields.get(field)
    if not isinstance(name, str) or not name:
        raise FrameError(f"an event without a {field}", given=name, allowed="a text that is not empty")
    return name


def _time(made: dict[str, Any], now: int | None) -> int:
    if "time" in made:
        return _instant("time", made["time"])
    if now is None:
        raise FrameError("an event without a time", given=", ".join(made), allowed=_INSTANT)
    return now


def _instant(field: str, value: object) -> int:
    if isinstance(value, str):
        return parse_instant(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise FrameError(f"{field} is no instant", given=value, allowed=_INSTANT)


def _attributes(field: str, made: dict[str, Any]) -> dict[str, Any]:
    attributes = made.get(field)
    if attributes is None:
        return {}
    if not isinstance(attributes, dict):
        raise FrameError(f"{field} holds no attributes", given=attributes, allowed="a JSON object")
    return attributes


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1
