"""What a policy would do, as it is drawn on the topology."""

from __future__ import annotations

from distced.policies.distribution.choose.reasons import show_rate
from distced.policies.explaining.explained import Explained
from distced.policies.explaining.placement_text import SHORT
from distced.policies.topology.topology_drawing import Hosted, Overlay


def overlay_of(explained: Explained) -> Overlay:
    """The detectors that the patterns have to do with, and the bytes on links, with what was there before."""
    hosted: dict[str, list[Hosted]] = {}
    new = frozenset(explained.new)
    for name in explained.touched:
        text = f"{name[:SHORT]} {explained.after.detectors[name].pattern}"
        before = explained.before.hosts(name)
        for node in explained.after.hosts(name):
            hosted.setdefault(node, []).append(Hosted(text, new=name in new or node not in before))
    flowing = {
        (each.origin, each.target): show_rate(each.before + each.more)
        for each in explained.links
        if each.before + each.more
    }
    patterns = "; ".join(each.root.pattern for each in explained.placements)
    return Overlay(f"{explained.policy.text}: {patterns}", hosted, flowing)
