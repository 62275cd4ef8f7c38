"""Files of topologies, read.

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
    bandwidth = "1MB/s"               # unlimited where it is left out
    cost = 4.0                        # of a byte, 1 where it is left out
    one_way = false                   # where true: from the first to the second

At the top, `directory = "office"` says which site's server holds the directory, the first one where it is left out, and
`allow_partitions = true` lets there be sites that do not reach each other. Whatever is misspelled, missing
or contradictory is an error that names the file and the place in it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

import msgspec

from distced.middleware.mapping.schema_check import shape
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.timestamps import parse_duration
from distced.policies.topology.errors import TopologyError, located
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.quantities import parse_bandwidth
from distced.policies.topology.topology import Topology

_T = TypeVar("_T", bound=msgspec.Struct)

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
"""What to do about a value that is of no use for a key."""


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
    local_latency: str | None = None


class _NodeTable(msgspec.Struct, forbid_unknown_fields=True):
    site: str
    capacity: float | None = None


class _Publisher(msgspec.Struct, forbid_unknown_fields=True):
    site: str
    types: list[str] = []
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
    """The topology of a file; a `TopologyError` that names file and place where it is wrong."""
    try:
        text = FilePath(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError("cannot read the topology", given=str(path), advice=str(error)) from None
    return parse_topology(text, name=str(path))


def parse_topology(text: str, *, name: str = "topology") -> Topology:
    """The topology that a TOML text describes. `name` is what errors call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TopologyError("not TOML", where=name, advice=str(error)) from None
    return topology_of(raw, name=name)


def topology_of(raw: dict[str, Any], *, name: str = "topology") -> Topology:
    """The topology that tables of TOML describe. `name` is what errors call it."""
    with _in(name):
        whole = _shape(raw, _TopologyFile, "")
        return Topology(
            [_site(key, each) for key, each in whole.sites.items()],
            [_node(key, each) for key, each in whole.nodes.items()],
            [_publisher(key, each) for key, each in whole.publishers.items()],
            [_subscriber(key, each) for key, each in whole.subscribers.items()],
            [_link(number, each) for number, each in enumerate(whole.links, 1)],
            directory=whole.directory,
            allow_partitions=whole.allow_partitions,
        )


def _site(name: str, raw: Any) -> Site:
    where = f"sites.{name}"
    spec = _shape(raw, _Site, where)
    return Site(name, spec.url, _duration(spec.local_latency, f"{where}, local_latency", LOCAL_LATENCY))


def _node(name: str, raw: Any) -> BrokerNode:
    spec = _shape(raw, _NodeTable, f"nodes.{name}")
    return BrokerNode(name, spec.site, spec.capacity)


def _publisher(name: str, raw: Any) -> Publisher:
    where = f"publishers.{name}"
    spec = _shape(raw, _Publisher, where)
    uncertainty = _duration(spec.uncertainty, f"{where}, uncertainty")
    rates = {each: _rate(rate, f"{where}, rates.{each}") for each, rate in spec.rates.items()}
    return Publisher(name, spec.site, tuple(spec.types), rates, uncertainty, spec.loss)


def _rate(raw: Any, where: str) -> float:
    try:
        return msgspec.convert(raw, float)
    except msgspec.ValidationError:
        raise TopologyError("not a rate", given=raw, allowed="a number of events per second", where=where) from None


def _subscriber(name: str, raw: Any) -> Subscriber:
    return Subscriber(name, _shape(raw, _Subscriber, f"subscribers.{name}").site)


def _link(number: int, raw: Any) -> Link:
    where = f"links {number}"
    spec = _shape(raw, _Link, where)
    latency, jitter = _duration(spec.latency, f"{where}, latency"), _duration(spec.jitter, f"{where}, jitter")
    bandwidth = None
    if spec.bandwidth is not None:
        with _at(f"{where}, bandwidth"):
            bandwidth = parse_bandwidth(spec.bandwidth)
    with _at(where):
        return Link(spec.between, latency, jitter, bandwidth, spec.cost, spec.one_way)


def _duration(text: str | None, where: str, otherwise: int = 0) -> int:
    if text is None:
        return otherwise
    with _at(where):
        return parse_duration(text)


def _shape(raw: Any, wanted: type[_T], where: str) -> _T:
    """A table as a struct; errors say which key was probably meant."""
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
    """Errors from inside are about this place."""
    try:
        yield
    except DistcedError as error:
        raise located(error, where) from None
    except ValueError as error:
        # Digits by the thousand.
        raise TopologyError("not a number that anybody means", where=where, advice=str(error)) from None


@contextmanager
def _in(name: str) -> Iterator[None]:
    """Errors from inside are about this file."""
    try:
        yield
    except TopologyError as error:
        raise located(error, f"{name}, {error.where}" if error.where else name) from None
