"""Explanation of policies as JSON: times in nanoseconds, bytes and instances per second."""

from __future__ import annotations

from typing import Any

import msgspec

from distced.middleware.cli.output import error_as_dict
from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.candidate import Candidate
from distced.policies.distribution.choose.place_all import Placed, Placement
from distced.policies.explaining.explained import Explained, form_of


def explained_as_dict(name: str, explained: Explained | DistcedError) -> dict[str, Any]:
    """Document of one policy; `error` in place of the rest where it cannot place the patterns."""
    if isinstance(explained, DistcedError):
        return {"policy": name, "error": error_as_dict(explained)}
    before, after = explained.before, explained.after
    return {
        "policy": name,
        "decomposition": explained.policy.decomposition,
        "reuse": explained.policy.reuse,
        "replicas": explained.policy.replicas,
        "patterns": [_pattern(explained, each) for each in explained.placements],
        "detectors": [_detector(explained, each) for each in explained.touched],
        "links": msgspec.to_builtins(explained.links),
        "flows": [
            {
                "what": each.what,
                "reader": each.reader or None,
                "to": each.to._asdict(),
                "sites": list(each.sites),
                "bytes": each.bytes,
            }
            for each in explained.flows()
        ],
        "nodes": [
            {
                "node": node,
                "site": after.site_of_node(node),
                "load_before": before.load(node),
                "load": after.load(node),
                "use": after.use(node) if after.knows_capacity else None,
            }
            for node in sorted(after.nodes)
        ],
        "bytes_before": before.bytes_over_links,
        "bytes_more": explained.bytes_more,
        "cost_more": explained.cost_more,
        "load_more": explained.load_more,
    }


def _pattern(explained: Explained, placement: Placement) -> dict[str, Any]:
    return {
        "pattern": placement.root.pattern,
        "detector": placement.root.id,
        "subscribers": [
            {
                **place._asdict(),
                "site": explained.after.site_of(place),
                "delay_ns": round(explained.delay(placement, place)),
            }
            for place in explained.asked.subscribers
        ],
        "placed": [_placed(each) for each in placement.placed],
    }


def _placed(placed: Placed) -> dict[str, Any]:
    suggestion = placed.suggestion
    return {
        "detector": placed.id,
        "reader": placed.reader or None,
        "reason": suggestion.reason,
        **_candidate(placed, suggestion.chosen),
        "alternatives": [_candidate(placed, each) for each in suggestion.alternatives],
    }


def _candidate(placed: Placed, candidate: Candidate) -> dict[str, Any]:
    return {
        "action": candidate.action,
        "nodes": list(candidate.nodes),
        "detected": form_of(placed, candidate),
        "delay_ns": round(candidate.delay),
        "bytes_more": candidate.bytes,
        "cost_more": candidate.cost,
        "load_more": candidate.load,
        "busiest_before": candidate.peak_before,
        "busiest": candidate.peak,
        "overloaded": candidate.overloaded,
    }


def _detector(explained: Explained, name: str) -> dict[str, Any]:
    after = explained.after
    entry = after.detectors[name]
    return {
        "id": name,
        "pattern": entry.pattern,
        "publishes": entry.publishes or None,
        "new": name in explained.new,
        "parts": list(entry.parts),
        "hosts": [
            {"node": node, "site": after.site_of_node(node), "home": home} for node, home in after.hosts(name).items()
        ],
        "expected": msgspec.to_builtins(after.measures.of(name)),
    }
