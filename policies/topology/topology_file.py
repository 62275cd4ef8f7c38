"""Files of topologies, read and written.

    [sites.office]
    url = "mqtt://10.0.0.1:1883"      # optional
    local_latency = "200us"           # optional

    [nodes.office-1]
    site = "office"
    capacity = 5000                   # instances touched per second, optional

    [publishers.badge-FE02]
    site = "office"
    types = ["Pers"]
    rates = { Pers = 0.5 }            # events per second, optional
    uncertainty = "10ms"              # of its clock, optional
    loss = 0.01                       # at QoS 0, optional

    [subscribers.pda]
    site = "street"

    [[links]]
    between = ["office", "street"]
    latency = "20ms"
    jitter = "5ms"                    # optional
    bandwidth = "1MB/s"               # unlimited by default
    cost = 4.0                        # of a byte, 1 by default
    one_way = false                   # true: from the first to the second

At the top, `directory = "office"` names the site whose server holds the directory, the first by default;
`allow_partitions = true` allows sites that do not reach each other. Errors name the file and the place in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

import msgspec

from distced.middleware.mapping.schema import shape
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.server_address import parse_address
from distced.middleware.model.timestamps import parse_duration
from distced.middleware.model.toml_text import parse_toml, read_toml
from distced.policies.topology.errors import TopologyError, located
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.quantities import parse_bandwidth, show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology

_T = TypeVar("_T", bound=msgspec.Struct)
_Part = TypeVar("_Part", Site, BrokerNode, Publisher, Subscriber)

_EXAMPLES: Final = {
    "latency": 'write latency = "20ms"',
    "jitter": 'write jitter = "5ms"',
    "local_latency": 'write local_latency = "200us"',
    "uncertainty": 'write uncertainty = "10ms"',
    "bandwidth": 'write bandwidth = "10MB/s"',
    "between": 'write between = ["rome", "milan"]',
    "directory": 'write directory = "rome", above the tables',
    "types": 'write types = ["Pers", "Temp"]',
    "rates": "write rates = { Pers = 0.5 }",
}
"""Advice by key."""


_DURATIONS: Final = ("local_latency", "latency", "jitter", "uncertainty")

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class _TopologyFile(msgspec.Struct, forbid_unknown_fields=True):
    sites: dict[str, Any] = {}
    nodes: dict[str, Any] = {}
    publishers: dict[str, Any] = {}
    subscribers: dict[str, Any] = {}
    links: list[Any] = []
    directory: str = ""
    allow_partitions: bool = False


class _Site(msgspec.Struct, forbid_unknown_fields=True):
    url: str = ""
    local_latency: str = show_duration(LOCAL_LATENCY)


class _NodeTable(msgspec.Struct, forbid_unknown_fields=True):
    site: str
    capacity: float | None = None


class _Publisher(msgspec.Struct, forbid_unknown_fields=True):
    site: str
    types: tuple[str, ...] = ()
    rates: dict[str, Any] = {}
    uncertainty: str = "0s"
    loss: float = 0.0


class _Subscriber(msgspec.Struct, forbid_unknown_fields=True):
    site: str


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    between: tuple[str, str]
    latency: str
    jitter: str = "0s"
    bandwidth: str | None = None
    cost: float = 1.0
    one_way: bool = False


def load_topology(path: FilePath | str) -> Topology:
    """Topology of a file, `-` for standard input; raises `TopologyError`."""
    return topology_of(read_toml(path, "topology", TopologyError), name=str(path))


def parse_topology(text: str, *, name: str = "topology") -> Topology:
    """Topology of a TOML text; `name` is its name in errors."""
    return topology_of(parse_toml(text, name, TopologyError), name=name)


def topology_of(raw: dict[str, Any], *, name: str = "topology") -> Topology:
    """The topology that tables of TOML describe. `name` is what errors call it."""
    with _in(name):
        whole = _shape(raw, _TopologyFile, "")
        return Topology(
            _named(Site, _Site, "sites", whole.sites),
            _named(BrokerNode, _NodeTable, "nodes", whole.nodes),
            _named(Publisher, _Publisher, "publishers", whole.publishers),
            _named(Subscriber, _Subscriber, "subscribers", whole.subscribers),
            [_link(number, raw) for number, raw in enumerate(whole.links, 1)],
            directory=whole.directory,
            allow_partitions=whole.allow_partitions,
        )


def topology_as_toml(topology: Topology) -> str:
    """Text of a file, without defaults, for `parse_topology`; hand-written: the standard library only reads TOML."""
    top = []
    if topology.directory != next(iter(topology.sites)):
        top.append(f"directory = {_text(topology.directory)}")
    if topology.allow_partitions:
        top.append("allow_partitions = true")
    tables = [top] if top else []
    for kind in ("sites", "nodes", "publishers", "subscribers"):
        tables += [[f"[{kind}.{_key(name)}]", *_entries(each)] for name, each in getattr(topology, kind).items()]
    tables += [["[[links]]", *_entries(each)] for each in topology.links]
    return "\n".join("".join(f"{line}\n" for line in table) for table in tables)


def topology_as_dict(topology: Topology) -> dict[str, Any]:
    """The JSON document of `distced topology FILE --format json`; servers are named without user and password."""
    return {
        "sites": [
            {
                "name": each.name,
                "server": str(parse_address(each.url)) if each.url else None,
                "local_latency_ns": each.local_latency,
                "nodes": [node.name for node in topology.nodes_at(each.name)],
                "publishers": [publisher.name for publisher in topology.publishers_at(each.name)],
                "subscribers": [subscriber.name for subscriber in topology.subscribers_at(each.name)],
            }
            for each in topology.sites.values()
        ],
        "nodes": msgspec.to_builtins(list(topology.nodes.values())),
        "publishers": [_in_ns(msgspec.to_builtins(each), "uncertainty") for each in topology.publishers.values()],
        "subscribers": msgspec.to_builtins(list(topology.subscribers.values())),
        "links": [
            _in_ns({"between": None, "one_way": None, **msgspec.to_builtins(each)}, "latency", "jitter")
            for each in topology.links
        ],
        "directory": topology.directory,
        "allow_partitions": topology.allow_partitions,
    }


# Reading.


def _named(make: type[_Part], spec: type[msgspec.Struct], kind: str, tables: Mapping[str, Any]) -> list[_Part]:
    return [make(name, **_values(raw, spec, f"{kind}.{name}")) for name, raw in tables.items()]


def _link(number: int, raw: Any) -> Link:
    where = f"links {number}"
    values = _values(raw, _Link, where)
    with _at(where):
        return Link(**values)


def _values(raw: Any, wanted: type[msgspec.Struct], where: str) -> dict[str, Any]:
    """Values of a table by key."""
    spec = _shape(raw, wanted, where)
    return {key: _value(key, getattr(spec, key), f"{where}, {key}") for key in spec.__struct_fields__}


def _value(key: str, given: Any, where: str) -> Any:
    with _at(where):
        if key in _DURATIONS:
            return parse_duration(given)
        if key == "bandwidth":
            return None if given is None else parse_bandwidth(given)
    return {each: _rate(rate, f"{where}.{each}") for each, rate in given.items()} if key == "rates" else given


def _rate(raw: Any, where: str) -> float:
    try:
        return msgspec.convert(raw, float)
    except msgspec.ValidationError:
        raise TopologyError("not a rate", given=raw, allowed="a number of events per second", where=where) from None


def _shape(raw: Any, wanted: type[_T], where: str) -> _T:
    """A table as a struct; errors suggest the nearest key."""
    try:
        return shape(raw, wanted, where)
    except MappingError as error:
        given = error.given if isinstance(error.given, str) else ""
        near = get_close_matches(given, (error.allowed or "").split(", "), n=1)
        place = (error.where or "").removeprefix(", ")
        key = place.rpartition(", ")[2]
        advice = _EXAMPLES.get(key)
        if error.problem == "unknown key" and near:
            advice = f"did you mean {near[0]}?"
        raise TopologyError(
            error.problem,
            given=error.given,
            allowed=(error.allowed or "").replace("array", "list") or None,
            where=place or None,
            advice=advice,
        ) from None


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Errors from inside are located here."""
    try:
        yield
    except DistcedError as error:
        raise located(error, where) from None
    except ValueError as error:
        # Digits by the thousand.
        raise TopologyError("a number with too many digits", where=where, advice=str(error)) from None


@contextmanager
def _in(name: str) -> Iterator[None]:
    """Errors from inside are located in this file."""
    try:
        yield
    except TopologyError as error:
        raise located(error, f"{name}, {error.where}" if error.where else name) from None


# Writing.


def _entries(part: Site | BrokerNode | Publisher | Subscriber | Link) -> Iterator[str]:
    """Lines of a table."""
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name != "name" and value not in (field.default, {}):
            yield f"{field.name} = {_written(field.name, value)}"


def _written(key: str, value: Any) -> str:
    if key in _DURATIONS:
        return _text(show_duration(value))
    match value:
        case bool():
            return "true"
        case str():
            return _text(value)
        case tuple():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_key(name)} = {show_number(rate)}' for name, rate in value.items())} }}"
        case _:
            return _text(show_bandwidth(value)) if key == "bandwidth" else show_number(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    # Names and URLs hold nothing that does not print, so nothing else needs escaping.
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _in_ns(part: dict[str, Any], *durations: str) -> dict[str, Any]:
    return {f"{key}_ns" if key in durations else key: value for key, value in part.items()}
