"""Topologies written as JSON, and as the TOML text that `topology_file.parse_topology` reads back as the same.

TOML is written by hand: the standard library reads it and does not write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import to_builtins

from distced.middleware.model.server_address import parse_address
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.quantities import show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def topology_as_toml(topology: Topology) -> str:
    """The topology as a file; what is as usual is left out."""
    tables = ["".join(f"{line}\n" for line in _top(topology))] if any(_top(topology)) else []
    tables += [_table(f"[sites.{_key(each.name)}]", _site(each)) for each in topology.sites.values()]
    tables += [_table(f"[nodes.{_key(each.name)}]", _node(each)) for each in topology.nodes.values()]
    tables += [_table(f"[publishers.{_key(each.name)}]", _publisher(each)) for each in topology.publishers.values()]
    tables += [_table(f"[subscribers.{_key(each.name)}]", _subscriber(each)) for each in topology.subscribers.values()]
    tables += [_table("[[links]]", _link(each)) for each in topology.links]
    return "\n".join(tables)


def _top(topology: Topology) -> Iterator[str]:
    if topology.directory != next(iter(topology.sites)):
        yield f"directory = {_text(topology.directory)}"
    if topology.allow_partitions:
        yield "allow_partitions = true"


def _site(site: Site) -> Iterator[str]:
    if site.url:
        yield f"url = {_text(site.url)}"
    if site.local_latency != LOCAL_LATENCY:
        yield f"local_latency = {_text(show_duration(site.local_latency))}"


def _node(node: BrokerNode) -> Iterator[str]:
    yield f"site = {_text(node.site)}"
    if node.capacity is not None:
        yield f"capacity = {show_number(node.capacity)}"


def _publisher(publisher: Publisher) -> Iterator[str]:
    yield f"site = {_text(publisher.site)}"
    if publisher.types:
        yield f"types = [{', '.join(map(_text, publisher.types))}]"
    if publisher.rates:
        rates = (f"{_key(name)} = {show_number(rate)}" for name, rate in publisher.rates.items())
        yield f"rates = {{ {', '.join(rates)} }}"
    if publisher.uncertainty:
        yield f"uncertainty = {_text(show_duration(publisher.uncertainty))}"
    if publisher.loss:
        yield f"loss = {show_number(publisher.loss)}"


def _subscriber(subscriber: Subscriber) -> Iterator[str]:
    yield f"site = {_text(subscriber.site)}"


def _link(link: Link) -> Iterator[str]:
    yield f"between = [{', '.join(map(_text, link.between))}]"
    yield f"latency = {_text(show_duration(link.latency))}"
    if link.jitter:
        yield f"jitter = {_text(show_duration(link.jitter))}"
    if link.bandwidth is not None:
        yield f"bandwidth = {_text(show_bandwidth(link.bandwidth))}"
    if link.cost != 1:
        yield f"cost = {show_number(link.cost)}"
    if link.one_way:
        yield "one_way = true"


def _table(heading: str, lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (heading, *lines))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    # Names and URLs hold nothing that does not print, so nothing else needs escaping.
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
        "nodes": to_builtins(list(topology.nodes.values())),
        "publishers": [_in_ns(to_builtins(each), "uncertainty") for each in topology.publishers.values()],
        "subscribers": to_builtins(list(topology.subscribers.values())),
        "links": [
            _in_ns({"between": None, "one_way": None, **to_builtins(each)}, "latency", "jitter")
            for each in topology.links
        ],
        "directory": topology.directory,
        "allow_partitions": topology.allow_partitions,
    }


def _in_ns(part: dict[str, Any], *durations: str) -> dict[str, Any]:
    return {f"{key}_ns" if key in durations else key: value for key, value in part.items()}
