"""`publish`: one event put together on the command line, or a recording with its types and sources."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from distced.middleware.cli.logs import configure_logging
from distced.middleware.cli.options import DEFAULT, Duration, HomeOption, ServerOption, connected, duration_option, verb
from distced.middleware.cli.output import AsJson, EventLines, output, print_json, progress, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.cli.traces_option import TracesOption
from distced.middleware.client.client import Client
from distced.middleware.event_files import EventReader, json_line, read_events
from distced.middleware.event_files.pacing import Feed
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError, EventError, TypeRegistryError
from distced.middleware.model.event_types import KINDS, EventType, Kind, event_type, kind_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import SECOND, format_instant, instant_of

BEAT: Final = 0.25  # interval of watermarks while no event is due, s
FLUSH: Final = 60.0  # time for the server to acknowledge everything at the end, s


@dataclass(frozen=True)
class PublishOptions:
    """Options of `distced publish`; durations in ns."""

    type_name: Annotated[str | None, typer.Argument(metavar="TYPE", help="The type of the event.")] = None
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Its attributes; those left out are null.")
    ] = None
    server: ServerOption = DEFAULT
    home: HomeOption = None
    source: Annotated[str, typer.Option(help="The name of its source.")] = "console"
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Its time: ISO 8601, or ns since 1970; now where left out.")
    ] = None
    uncertainty: Annotated[int, duration_option(help="Uncertainty of its timestamp, to either side.")] = Duration("0s")
    register: Annotated[
        str | None, typer.Option(metavar="NAME:KIND,...", help="Register the type first: room:string,temp:number.")
    ] = None
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Publish a recording: .jsonl, .csv, .parquet, each with .gz.")
    ] = None
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mapping of rows of the recording to events.")
    ] = None
    speed: Annotated[
        float | None,
        typer.Option(help="Seconds of the recording per second; as fast as possible where left out.", min=1e-6),
    ] = None
    beyond: Annotated[
        int, duration_option(help="Advance the watermark this far beyond the recording, for time events.")
    ] = Duration("0s")
    traces: TracesOption = False
    filters: Annotated[
        bool,
        typer.Option("--filter", help="Do not send events of a recording that no participant has declared to read."),
    ] = False
    as_json: AsJson = False


@verb
def publish(options: PublishOptions) -> int:
    """Publish an event, or a recording with its types and sources.

    The kinds of attributes are those of the registered type. Values are numbers, true, false, null, or text; write
    '"null"' for a text that would be read otherwise. A recording keeps its times and ids. Its types are
    registered; its sources are announced, publish events and watermarks, and end.

    \b
    Examples:
      distced publish Motion room=hall moving=true --register room:string,moving:boolean
      distced publish Temp room=FE02 temp=14.5 --at 2026-11-21T08:00:00Z --uncertainty 1s
      distced publish --file events.jsonl.gz --speed 60
      distced publish --file office.csv.gz --mapping office.toml
      distced publish Motion room=hall --server mqtt://10.0.1.10 --home mqtt://10.0.2.10
    """
    if (options.type_name is None) == (options.file is None):
        raise DistcedError(
            "nothing to publish" if options.file is None else "both an event and a recording",
            allowed="TYPE, or --file",
        )
    configure_logging()
    with ending():
        if options.file is not None:
            return _recording(options, options.file)
        assert options.type_name is not None
        return _event(options, options.type_name)


def _event(options: PublishOptions, type_name: str) -> int:
    with connected(options.server, options.home, traces=options.traces) as client:
        event = publish_event(client, type_name, options)
        notes = _without_nodes(len(client.nodes))
    if options.as_json:
        print_json(json.loads(json_line(event)), indent=None)
    else:
        output().print(EventLines().line(event))
    show_notes(notes)
    return 0


def _recording(options: PublishOptions, file: Path) -> int:
    reader = read_events(file, None if options.mapping is None else load_mapping(options.mapping))
    feed = Feed(reader, speed=options.speed, name=str(file))
    connection = connected(options.server, options.home, traces=options.traces, filters=options.filters)
    with connection as client, progress("publishing", len(feed.events)) as watch:
        done = publish_recording(client, reader, feed, watch, beyond=options.beyond)
        notes = _without_nodes(len(client.nodes))
    if options.as_json:
        print_json(asdict(done), indent=None)
    else:
        rate = done.events / done.seconds if done.seconds else 0.0
        output().print(
            f"{done.events:,} events of {done.types} types from {done.sources} sources "
            f"in {done.seconds:.1f} s, {rate:,.0f} a second"
        )
    if done.rejected:
        rows = "a row" if done.rejected == 1 else f"{done.rejected:,} rows"
        notes.append(f"{rows} gave no event: {reader.rejected[0].error}")
    if reader.mapping is not None:
        notes += map(str, reader.mapping.missing_paths)
    if done.left_out:
        notes.append(f"{done.left_out:,} events were not sent, for nobody reads them")
    if done.composite:
        notes.append(f"{done.composite:,} composite events were left out, for detectors make those")
    show_notes(notes)
    return 0


def _without_nodes(nodes: int) -> list[str]:
    return [] if nodes else ["there is no broker node, so nothing is detected; start one with `distced broker`"]


# One event.


def publish_event(client: Client, type_name: str, options: PublishOptions) -> Event:
    """Publish one event."""
    texts = read_assignments(options.attributes or ())
    if options.register is not None:
        client.register(event_type(type_name, read_kinds(options.register)))
    if type_name not in client.types:
        guessed = ",".join(f"{name}:{kind_of(guess(text)) or 'number'}" for name, text in texts.items())
        raise TypeRegistryError(
            "unknown event type",
            given=type_name,
            allowed=", ".join(sorted(client.types)) or "none is registered yet",
            advice=f"register it with --register '{guessed}'",
        )
    attributes = read_attributes(client.type(type_name), texts)
    instant = None if options.at is None else instant_of(options.at)
    floor = None if instant is None else instant + options.uncertainty - 1
    speaker = client.source(options.source, [type_name], watermark=floor)
    if instant is None:
        # After the broker nodes have acknowledged the source, and beyond what detectors have consumed already.
        instant = max(client.clock.now(), speaker.watermark + 1)
    lo, hi = instant - options.uncertainty, instant + options.uncertainty
    event = Event(type_name, lo, hi, options.source, speaker.next_seq, attributes)
    speaker.publish(event)
    _flush(client)
    return event


def read_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Texts of attributes by name."""
    texts: dict[str, str] = {}
    for each in assignments:
        name, equals, text = each.partition("=")
        if not equals or not name or name in texts:
            problem = "an attribute twice" if name in texts else "not an attribute"
            raise EventError(problem, given=each, allowed="name=value, each name once", advice="write room=hall")
        texts[name] = text
    return texts


def read_kinds(text: str) -> dict[str, str]:
    """Kinds of attributes by name, from `room:string,temp:number`; none from an empty text."""
    kinds: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = each.partition(":")
        if kind not in KINDS or name in kinds:
            allowed = f"name:kind, each name once, the kind one of {', '.join(KINDS)}"
            raise TypeRegistryError("not an attribute and its kind", given=each, allowed=allowed)
        kinds[name] = kind
    return kinds


def read_attributes(registered: EventType, texts: dict[str, str]) -> dict[str, Attribute]:
    """Attributes of an event of this type; those that are not given are null."""
    unknown = [name for name in texts if name not in registered.attributes]
    if unknown:
        allowed = ", ".join(f"{name}: {kind}" for name, kind in registered.attributes.items()) or "none"
        raise EventError(f"type {registered.name!r} has no attribute {unknown[0]!r}", given=unknown[0], allowed=allowed)
    values: dict[str, Attribute] = dict.fromkeys(registered.attributes)
    for name, text in texts.items():
        values[name] = read_value(text, registered.attributes[name], name)
    return values


def read_value(text: str, kind: Kind, name: str) -> Attribute:
    """Value of an attribute of this kind: JSON, or a string as it stands; `null` is null."""
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
    """Value of a text of unknown kind: a number, a boolean, null, a string in quotes, or itself."""
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return value if isinstance(value, str | int | float) or value is None else text


# A recording.


@dataclass(frozen=True, slots=True)
class Published:
    """Result of publishing a recording: counts, among them rows without an event and events that were left out as
    nobody reads them, and duration in seconds."""

    events: int
    types: int
    sources: int
    rejected: int
    composite: int
    left_out: int
    seconds: float


def publish_recording(
    client: Client, reader: EventReader, feed: Feed, watch: Callable[[int], object], *, beyond: int = 0
) -> Published:
    """Publish a recording: its types are registered, its sources come and leave, and promise as they go.

    Args:
        watch: called with the number of events sent.
        beyond: watermark beyond the last event, ns, so that time events fire.
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
        len(feed.events),
        len(types),
        len(sources),
        reader.counts["rejected"],
        feed.composite,
        sum(client.left_out.values()),
        round(seconds, 3),
    )


def _flush(client: Client) -> None:
    if not client.flush(FLUSH):
        raise DistcedError("the MQTT server has not taken everything", where=str(client.home_bus.address))
