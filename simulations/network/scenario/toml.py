"""Scenario files in TOML; `docs/explanation/simulation.md` has their keys, with an example.

Durations are written as in patterns. A misspelled or missing key is an error that names the file and the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from distced.detectors.conformance.cases import parse_event
from distced.middleware.mapping.schema import shape
from distced.middleware.model.detection import parse_detection
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.event_types import EventType, event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MINUTE, SECOND, parse_duration
from distced.middleware.model.toml_text import parse_toml, read_toml
from distced.middleware.patterns.statements import pattern_text
from distced.middleware.wire.directory_entries import Hints
from distced.middleware.wire.topics import check_json_topic
from distced.policies.distribution.policy import parse_policy
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, topology_of
from distced.simulations.network.scenario.random_scenario import HEARTBEAT, streams_by_rates
from distced.simulations.network.scenario_model import (
    START,
    Fault,
    Scenario,
    ScenarioError,
    ScenarioSubscription,
    ScheduledMove,
    ScheduledPolicy,
    Send,
    SourceStream,
)

_T = TypeVar("_T", bound=msgspec.Struct)

_DURATIONS: Final = frozenset(
    {"at", "until", "duration", "lead", "patience", "keepalive", "heartbeat", "by", "slowest"}
)
_FAULTS: Final = {each.__struct_config__.tag: each for each in get_args(Fault)}


class _Streams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    heartbeat: int = HEARTBEAT
    rate: float | None = None


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    publisher: str
    event: str


class _Subscription(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    subscriber: str
    pattern: str = ""
    file: str = ""
    at: int | None = None
    until: int | None = None
    policy: str = ""
    detection: str = "guaranteed"
    consumption: Literal["ordered", "epoch"] = "ordered"
    decomposition: Literal["", "none", "full", "for-reuse"] = ""
    constituents: bool = False
    definitions: dict[str, str] = {}
    hints: dict[str, Any] = {}
    publish_json: str = ""


class _ScenarioFile(msgspec.Struct, forbid_unknown_fields=True):
    topology: Any
    types: dict[str, Any]
    seed: int = 0
    duration: int = MINUTE
    lead: int = 10 * SECOND
    patience: int = MINUTE
    keepalive: int = 30 * SECOND
    again: float = 0.0
    one_home: bool = False
    filters: bool = False
    policy: str = ""
    values: dict[str, dict[str, Any]] = {}
    streams: dict[str, Any] = {}
    events: list[Any] = []
    subscriptions: list[Any] = []
    moves: list[Any] = []
    policies: list[Any] = []
    faults: list[Any] = []


def load_scenario(path: Path | str, *, seed: int | None = None) -> Scenario:
    """Load the scenario of a file. Raises `ScenarioError` or `TopologyError`, with file and place of the fault.

    Args:
        seed: replaces that of the file.
    """
    return _read(read_toml(path, "scenario", ScenarioError), str(path), Path(path).parent, seed)


def parse_scenario(
    text: str, *, name: str = "scenario", folder: Path | None = None, seed: int | None = None
) -> Scenario:
    """The scenario of a TOML text.

    Args:
        name: its name in errors.
        folder: of the files that it names.
        seed: replaces that of the text.
    """
    return _read(parse_toml(text, name, ScenarioError), name, folder or Path(), seed)


def _read(raw: dict[str, Any], name: str, folder: Path, seed: int | None) -> Scenario:
    with _at(name):
        return _scenario(_shape(raw, _ScenarioFile, ""), folder, seed)


def _scenario(file: _ScenarioFile, folder: Path, seed: int | None) -> Scenario:
    seed = file.seed if seed is None else seed
    topology = _topology(file.topology, folder)
    types = tuple(_type(name, attributes) for name, attributes in file.types.items())
    streams = _listed(file.events, types, file.duration) if file.events else _by_rates(file, topology, types, seed)
    _check_policy(file.policy, "policy")
    return Scenario(
        topology,
        types,
        streams,
        tuple(_subscription(number, raw, folder) for number, raw in enumerate(file.subscriptions, 1)),
        tuple(_shape(raw, ScheduledMove, f"moves {number}") for number, raw in enumerate(file.moves, 1)),
        tuple(_fault(raw, f"faults {number}") for number, raw in enumerate(file.faults, 1)),
        seed=seed,
        lead=file.lead,
        duration=file.duration,
        patience=file.patience,
        keepalive=file.keepalive,
        again=file.again,
        one_home=file.one_home,
        filters=file.filters,
        distribution=file.policy,
        policies=tuple(_policy(raw, f"policies {number}") for number, raw in enumerate(file.policies, 1)),
    )


def _topology(raw: Any, folder: Path) -> Topology:
    if isinstance(raw, str):
        return load_topology(folder / raw)
    if isinstance(raw, dict):
        return topology_of(raw)
    raise ScenarioError("not a topology", given=raw, allowed="the name of a file, or its tables", where="topology")


def _type(name: str, attributes: Any) -> EventType:
    with _at(f"types.{name}"):
        if not isinstance(attributes, dict):
            raise ScenarioError("not the attributes of a type", given=attributes, allowed="name = kind")
        return event_type(name, attributes)


def _by_rates(
    file: _ScenarioFile, topology: Topology, types: tuple[EventType, ...], seed: int
) -> tuple[SourceStream, ...]:
    known = {each.name: each for each in types}
    values: dict[str, dict[str, list[Attribute]]] = {}
    for name, attributes in file.values.items():
        if name not in known:
            raise ScenarioError("values of an unknown type", given=name, allowed=", ".join(known), where="values")
        for attribute, raw in attributes.items():
            where = f"values.{name}.{attribute}"
            if attribute not in known[name].attributes:
                allowed = ", ".join(known[name].attributes)
                raise ScenarioError("values of an unknown attribute", given=attribute, allowed=allowed, where=where)
            values.setdefault(name, {})[attribute] = _values(raw, where)
    given = _shape(file.streams, _Streams, "streams")
    return streams_by_rates(
        topology, types, Random(seed), start=START, duration=file.duration, values=values, heartbeat=given.heartbeat,
        rate=given.rate,
    )  # fmt: skip


def _values(raw: Any, where: str) -> list[Attribute]:
    if isinstance(raw, list) and raw:
        return raw
    match raw:
        case {"from": int(least), "to": int(most), **rest} if least <= most and not rest:
            return list(range(least, most + 1))
    raise ScenarioError(
        "nothing to draw values from", given=raw, allowed="a list, or { from = 10, to = 25 }", where=where
    )


def _listed(events: list[Any], types: tuple[EventType, ...], duration: int) -> tuple[SourceStream, ...]:
    """Streams of listed events; each publisher promises with them, and promises the end after the last."""
    known = {each.name: each for each in types}
    by_publisher: dict[str, list[Event]] = {}
    for number, raw in enumerate(events, 1):
        with _at(f"events {number}"):
            spec = _shape(raw, _Event, "")
            event = parse_event(spec.event, 0)
            if event.type not in known:
                raise ScenarioError("an event of an unknown type", given=event.type, allowed=", ".join(known))
            whole = {**dict.fromkeys(known[event.type].attributes), **event.attributes}
            shifted = Event(event.type, START + event.lo, START + event.hi, spec.publisher, 0, whole)
            known[event.type].check(shifted)
            by_publisher.setdefault(spec.publisher, []).append(shifted)
    last = max(duration, max(each.hi - START for own in by_publisher.values() for each in own))
    return tuple(_stream(publisher, own, last) for publisher, own in by_publisher.items())


def _stream(publisher: str, events: list[Event], last: int) -> SourceStream:
    ordered = sorted(events, key=lambda event: event.key)
    sends = []
    for place, event in enumerate(ordered):
        numbered = msgspec.structs.replace(event, seq=place)
        later = ordered[place + 1].hi if place + 1 < len(ordered) else None
        sends.append(Send(event.hi - START, (numbered,), event.hi if later is None or later > event.hi else None))
    types = tuple(dict.fromkeys(event.type for event in ordered))
    # Between events it promises as time goes by, so that detectors do not wait for it.
    beats = [Send(at, (), START + at) for at in range(HEARTBEAT, last, HEARTBEAT)]
    whole = sorted([*sends, *beats], key=lambda send: send.at)
    return SourceStream(publisher, publisher, types, (*whole, Send(last, (), START + last)))


def _subscription(number: int, raw: Any, folder: Path) -> ScenarioSubscription:
    with _at(f"subscriptions {number}"):
        given = _shape(raw, _Subscription, "")
        if bool(given.pattern) == bool(given.file):
            raise ScenarioError("a subscription needs a pattern or a file", given=given.name, allowed="one of them")
        _check_policy(given.policy, "policy")
        pattern = given.pattern
        if given.file:
            try:
                pattern = pattern_text((folder / given.file).read_bytes())
            except (OSError, ValueError) as error:
                raise ScenarioError("cannot read the pattern", given=given.file, advice=str(error)) from None
        return ScenarioSubscription(
            given.name, given.subscriber, pattern.strip(), given.at, given.until, given.definitions, given.consumption,
            parse_detection(given.detection).text, given.constituents, given.decomposition, given.policy,
            _shape(given.hints, Hints, "hints"),
            check_json_topic(given.publish_json) if given.publish_json else "",
        )  # fmt: skip


def _policy(raw: Any, where: str) -> ScheduledPolicy:
    given = _shape(raw, ScheduledPolicy, where)
    _check_policy(given.policy, where)
    return given


def _check_policy(text: str, where: str) -> None:
    if text:
        parse_policy(text, where=where)


def _fault(raw: Any, where: str) -> Fault:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in _FAULTS:
        raise ScenarioError(
            "not a kind of fault", given=kind, allowed=", ".join(map(str, _FAULTS)), where=f"{where}, kind"
        )
    fault: Fault = _shape(raw, _FAULTS[kind], where)
    return fault


def _duration(text: object, where: str) -> int:
    if not isinstance(text, str):
        raise ScenarioError("not a duration", given=text, allowed='a text such as "40s"', where=where)
    with _at(where):
        return parse_duration(text)


def _shape(raw: Any, wanted: type[_T], where: str) -> _T:
    """A table as a struct, its durations in ns."""
    if isinstance(raw, dict):
        raw = {
            key: _duration(each, f"{where}, {key}".removeprefix(", ")) if key in _DURATIONS else each
            for key, each in raw.items()
        }
    try:
        return shape(raw, wanted, where)
    except MappingError as error:
        near = get_close_matches(str(error.given), (error.allowed or "").split(", "), n=1)
        advice = f"did you mean {near[0]}?" if error.problem == "unknown key" and near else None
        place = (error.where or "").removeprefix(", ")
        raise ScenarioError(
            error.problem, given=error.given, allowed=error.allowed, where=place or None, advice=advice
        ) from None


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Add this place to errors from inside."""
    try:
        yield
    except DistcedError as error:
        place = f"{where}, {error.where}" if error.where else where
        raise ScenarioError(
            error.problem, given=error.given, allowed=error.allowed, where=place, advice=error.advice
        ) from None
