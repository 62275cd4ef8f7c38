"""A topology as JSON."""

from __future__ import annotations

from typing import Any

from distced.middleware.model.server_address import parse_address
from distced.policies.topology.model import BrokerNode, Link, Publisher, Site
from distced.policies.topology.topology import Topology


def topology_as_dict(topology: Topology) -> dict[str, Any]:
    """What `distced topology FILE --format json` prints. Servers are named without user and password."""
    return {
        "sites": [_site(topology, each) for each in topology.sites.values()],
        "nodes": [_node(each) for each in topology.nodes.values()],
        "publishers": [_publisher(each) for each in topology.publishers.values()],
        "subscribers": [{"name": each.name, "site": each.site} for each in topology.subscribers.values()],
        "links": [_link(each) for each in topology.links],
        "directory": topology.directory,
        "allow_partitions": topology.allow_partitions,
    }


def _site(topology: Topology, site: Site) -> dict[str, Any]:
    return {
        "name": site.name,
        "server": str(parse_address(site.url)) if site.url else None,
        "local_latency_ns": site.local_latency,
        "nodes": [each.name for each in topology.nodes_at(site.name)],
        "publishers": [each.name for each in topology.publishers_at(site.name)],
        "subscribers": [each.name for each in topology.subscribers_at(site.name)],
    }


def _node(node: BrokerNode) -> dict[str, Any]:
    return {"name": node.name, "site": node.site, "capacity": node.capacity}


def _publisher(publisher: Publisher) -> dict[str, Any]:
    return {
        "name": publisher.name,
        "site": publisher.site,
        "types": list(publisher.types),
        "rates": dict(publisher.rates),
        "uncertainty_ns": publisher.uncertainty,
        "loss": publisher.loss,
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "between": list(link.between),
        "one_way": link.one_way,
        "latency_ns": link.latency,
        "jitter_ns": link.jitter,
        "bandwidth": link.bandwidth,
        "cost": link.cost,
    }
