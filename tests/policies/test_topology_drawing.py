"""Topologies shown: nothing lies on anything else, and everything is there."""

from __future__ import annotations

import json
from random import Random

import pytest

from distced.detectors.drawing.diagram import DiagramForm, drawn
from distced.policies.topology.model import Publisher, Site
from distced.policies.topology.notes import notes_on
from distced.policies.topology.random_topology import RANDOM_KINDS, RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_drawing import topology_diagram
from distced.policies.topology.topology_file import parse_topology, topology_as_dict
from tests.support.pictures import needs_dot, overlapping, svg_texts

OFFICE = """
[sites.office]
url = "mqtt://user:secret@10.0.0.1"
[sites."<street>"]
local_latency = "30ms"
[nodes.n1]
site = "office"
capacity = 5000
[publishers.badges]
site = "office"
types = ["Pers", "Door"]
rates = { Pers = 0.5 }
uncertainty = "10ms"
[subscribers.pda]
site = "<street>"
[[links]]
between = ["office", "<street>"]
latency = "20ms"
jitter = "5ms"
bandwidth = "1MB/s"
cost = 4
one_way = true
[[links]]
between = ["<street>", "office"]
latency = "30ms"
one_way = true
"""


def picture(topology: Topology, form: DiagramForm) -> str:
    shown = drawn(topology_diagram(topology), form)
    assert isinstance(shown, str)
    return shown


@pytest.mark.parametrize("form", [pytest.param("svg", marks=needs_dot), "dot", "mermaid"])
def test_picture_has_all_parts(form: DiagramForm) -> None:
    content = picture(parse_topology(OFFICE), form)
    shown = content
    if form == "svg":
        shown = "\n".join(svg_texts(content))
    elif form == "dot":
        shown = content.replace("&lt;", "<").replace("&gt;", ">")
    else:
        shown = content.replace("#60;", "<").replace("#62;", ">")
    for wanted in (
        "2 sites, 1 node, 1 publisher, 1 subscriber, 2 links",
        "office",
        "directory",
        "10.0.0.1:1883",
        "<street>",
        "local 30ms",
        "n1: 5000/s",
        "badges ±10ms: Pers 0.5/s, Door",
        "pda",
        "20ms..25ms",
        "1MB/s",
        "cost 4",
        "30ms",
        "one way only",
    ):
        assert wanted in shown
    assert "secret" not in content


def test_one_way_links_have_arrowheads() -> None:
    (group,) = topology_diagram(parse_topology(OFFICE)).groups
    assert [each.heads for each in group.edges] == [1, 1]
    ring = random_topology("ring", Random(0), sites=5)
    assert {each.heads for each in topology_diagram(ring).groups[0].edges} == {0}
    assert picture(ring, "dot").count("dir=none") == 10
    assert picture(ring, "mermaid").count(" ---|") == 5


def test_crowded_site_counts_the_rest() -> None:
    crowd = Topology([Site("a")], publishers=[Publisher(f"p{number}", "a") for number in range(20)])
    (site,) = topology_diagram(crowd).groups[0].nodes
    shown = [each.text for each in site.lines]
    assert "▷ p4" in shown
    assert "  and 15 more publishers" in shown
    assert "▷ p5" not in shown


@needs_dot
def test_pictures_repeat() -> None:
    one, other = (picture(random_topology("metro", Random(4)), "svg") for _ in range(2))
    assert one == other


@needs_dot
@pytest.mark.parametrize("kind", RANDOM_KINDS)
@pytest.mark.parametrize(("sites", "seed"), [(3, 1), (7, 2), (12, 3), (18, 4)])
def test_picture_elements_do_not_overlap(kind: RandomKind, sites: int, seed: int) -> None:
    topology = random_topology(kind, Random(seed), sites=sites, publishers=2 * sites)
    assert overlapping(picture(topology, "dot")) == []


def test_topology_as_json() -> None:
    document = json.loads(json.dumps(topology_as_dict(parse_topology(OFFICE))))
    assert document["sites"][0] == {
        "name": "office", "server": "10.0.0.1:1883", "local_latency_ns": 150_000,
        "nodes": ["n1"], "publishers": ["badges"], "subscribers": [],
    }  # fmt: skip
    assert document["nodes"] == [{"name": "n1", "site": "office", "capacity": 5000.0}]
    assert document["publishers"][0]["uncertainty_ns"] == 10_000_000
    assert document["links"][0] == {
        "between": ["office", "<street>"], "one_way": True, "latency_ns": 20_000_000, "jitter_ns": 5_000_000,
        "bandwidth": 1_000_000, "cost": 4.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (OFFICE, ["no broker node at <street>: nothing is detected there"]),
        (
            "[sites.a]",
            ["there is no broker node, so no detector can be placed", "no publisher", "no subscriber"],
        ),
        (
            "allow_partitions = true\n[sites.a]\n[sites.b]\n"
            "[nodes.n]\nsite = 'a'\ncapacity = 1\n[nodes.m]\nsite = 'a'\n"
            "[publishers.p]\nsite = 'a'\n[subscribers.s]\nsite = 'a'\n",
            [
                "no participants at b: messages only pass through",
                "no capacity is known of m, of the other nodes it is",
                "no event types are given for p",
                "no path a → b, b → a",
            ],
        ),
    ],
)  # fmt: skip
def test_notes_on_unusual_topology(text: str, notes: list[str]) -> None:
    assert notes_on(parse_topology(text)) == notes
