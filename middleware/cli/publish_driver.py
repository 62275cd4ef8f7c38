"""The drivers of `distced publish`: one event put together on the command line, and a recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from distced.middleware.client.client import Client
from distced.middleware.event_files import EventReader, read_events
from distced.middleware.event_files.pacing import Feed
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError, EventError, TypeRegistryError
from distced.middleware.model.event_types import KINDS, EventType, Kind, event_type, kind_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import SECOND, format_instant, instant_of

BEAT: Final = 0.25
"""Seconds between promises while nothing is due."""

FLUSH: Final = 60.0
"""Seconds to wait at the end until the server has taken everything."""


@dataclass(frozen=True, slots=True)
class Published:
    """What came of publishing a recording.

    Attributes:
        events: how many.
        types, sources: of how many.
        rejected: rows that gave no event.
        composite: composite events that were left out.
        seconds: how long it took.
    """

    events: int
    types: int
    sources: int
    rejected: int
    composite: int
    seconds: float


# One event.


def publish_event(
    client: Client,
    type_name: str,
    assignments: Iterable[str],
    *,
    source: str,
    at: str | None,
    uncertainty: int,
    register: str | None,
) -> Event:
    """Publish one event.

    Args:
        assignments: attributes, `name=value` each.
        at: its time; the present where left out.
        uncertainty: ns that its timestamp reaches to both sides.
        register: the type's attributes and their kinds, `room:string,temp:number`, to register it first.
    """
    texts = read_assignments(assignments)
    if register is not None:
        client.register(event_type(type_name, read_kinds(register)))
    if type_name not in client.types:
        guessed = ",".join(f"{name}:{kind_of(guess(text)) or 'number'}" for name, text in texts.items())
        raise TypeRegistryError(
            "unknown event type",
            given=type_name,
            allowed=", ".join(sorted(client.types)) or "none is registered yet",
            advice=f"register it with --register '{guessed}'",
        )
    attributes = read_attributes(client.type(type_name), texts)
    instant = None if at is None else read_instant(at)
    floor = None if instant is None else instant + uncertainty - 1
    speaker = client.source(source, [type_name], watermark=floor)
    if instant is None:
        # After the broker nodes have acknowledged the source, and beyond what detectors have consumed already.
        instant = max(client.clock.now(), speaker.watermark + 1)
    event = Event(type_name, instant - uncertainty, instant + uncertainty, source, speaker.next_seq, attributes)
    speaker.publish(event)
    _flush(client)
    return event


def read_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """The texts of attributes by name."""
    texts: dict[str, str] = {}
    for each in assignments:
        name, equals, text = each.partition("=")
        if not equals or not name or name in texts:
            problem = "an attribute twice" if name in texts else "not an attribute"
            raise EventError(problem, given=each, allowed="name=value, each name once", advice="write room=hall")
        texts[name] = text
    return texts


def read_kinds(text: str) -> dict[str, str]:
    """The kinds of attributes by name, from `room:string,temp:number`; none from an empty text."""
    kinds: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = each.partition(":")
        if kind not in KINDS or name in kinds:
            allowed = f"name:kind, each name once, the kind one of {', '.join(KINDS)}"
            raise TypeRegistryError("not an attribute and its kind", given=each, allowed=allowed)
        kinds[name] = kind
    return kinds


def read_attributes(registered: EventType, texts: dict[str, str]) -> dict[str, Attribute]:
    """The attributes of an event of this type; those that are not given are null."""
    unknown = [name for name in texts if name not in registered.attributes]
    if unknown:
        allowed = ", ".join(f"{name}: {kind}" for name, kind in registered.attributes.items()) or "none"
        raise EventError(f"type {registered.name!r} has no attribute {unknown[0]!r}", given=unknown[0], allowed=allowed)
    values: dict[str, Attribute] = dict.fromkeys(registered.attributes)
    for name, text in texts.items():
        values[name] = read_value(text, registered.attributes[name], name)
    return values


def read_value(text: str, kind: Kind, name: str) -> Attribute:
    """The value of an attribute of this kind: JSON, or a string as it stands; `null` is null."""
    value = guess(text)
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else text
    if kind_of(value) != kind:
        examples = {"number": "21.5", "boolean": "true or false"}
        raise EventError(f"the attribute {name!r} is a {kind}", given=text, allowed=f"{examples[kind]}, or null")
    return value


def guess(text: str) -> Attribute:
    """What a text is where nobody knows its kind: a number, a boolean, null, a string in quotes, or itself."""
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return value if isinstance(value, str | int | float) or value is None else text


def read_instant(text: str) -> int:
    """ISO 8601, or nanoseconds since 1970."""
    return instant_of(text)


# A recording.


def open_recording(path: Path, mapping: Path | None, speed: float | None) -> tuple[EventReader, Feed]:
    """The events of a recording, ready to be sent."""
    reader = read_events(path, None if mapping is None else load_mapping(mapping))
    return reader, Feed(reader, speed=speed, name=str(path))


def publish_recording(
    client: Client, reader: EventReader, feed: Feed, watch: Callable[[int], object], *, beyond: int = 0
) -> Published:
    """Publish a recording: its types are registered, its sources come and leave, and promise as they go.

    Args:
        watch: told how many events have been sent.
        beyond: ns to promise beyond the last event, so that time events fire.
    """
    published = {event.type for event in feed.events}
    types = [each for each in reader.types if each.name in published]
    client.register(*types)
    sources = {each.name: each for each in client.sources(feed.sources, watermark=feed.start)}
    reached = max(source.watermark for source in sources.values())
    if reached > feed.start:
        raise EventError(
            "detectors are beyond the beginning of the recording, whose events would be late",
            given=f"it begins at {format_instant(feed.start + 1)}, they are at {format_instant(reached)}",
            advice="end the subscriptions it was published to before, or publish it where no live sources are",
        )
    began = time.monotonic_ns()
    while not feed.done:
        events, watermark = feed.due(time.monotonic_ns() - began)
        by_source: dict[str, list[Event]] = {}
        for event in events:
            by_source.setdefault(event.source, []).append(event)
        for name, group in by_source.items():
            sources[name].publish(*group)
        client.heartbeat(watermark)
        watch(feed.position)
        time.sleep(min(feed.wait(time.monotonic_ns() - began), BEAT))
    if beyond:
        client.heartbeat(feed.end + beyond)
    _flush(client)
    seconds = (time.monotonic_ns() - began) / SECOND
    return Published(
        len(feed.events), len(types), len(sources), reader.counts["rejected"], feed.composite, round(seconds, 3)
    )


def _flush(client: Client) -> None:
    if not client.flush(FLUSH):
        raise DistcedError("the MQTT server has not taken everything", where=str(client.home_bus.address))
