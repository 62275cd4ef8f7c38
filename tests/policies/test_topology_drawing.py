"""Topologies shown: nothing lies on anything else, and everything is there."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pytest

from distced.middleware.model.errors import DistcedError
from distced.policies.topology.drawing.arranging import Line, Rect, arrange
from distced.policies.topology.drawing.dot import topology_dot
from distced.policies.topology.drawing.spreading import spread
from distced.policies.topology.drawing.svg import topology_svg
from distced.policies.topology.drawing.topology_json import topology_as_dict
from distced.policies.topology.model import Publisher, Site
from distced.policies.topology.notes import notes_on
from distced.policies.topology.random_topology import RANDOM_KINDS, RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology

SVG = "{http://www.w3.org/2000/svg}"

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


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_everything_is_in_the_picture() -> None:
    svg = topology_svg(parse_topology(OFFICE))
    shown = texts(svg)
    assert shown[0] == "2 sites, 1 node, 1 publisher, 1 subscriber, 2 links"
    for wanted in (
        "office",
        "10.0.0.1:1883",
        "<street>",
        "local 30ms",
        "n1: 5000/s",
        "badges: Pers 0.5/s, Door",
        "pda",
    ):
        assert wanted in shown
    for wanted in ("20ms..25ms", "1MB/s", "cost 4", "30ms", "one way only"):
        assert wanted in shown
    assert "secret" not in svg
    # An arrowhead for each of the two links, one in the legend.
    assert svg.count("<polygon") == 3


def test_a_crowded_site_says_how_many_more_there_are() -> None:
    crowd = Topology([Site("a")], publishers=[Publisher(f"p{number}", "a") for number in range(20)])
    shown = texts(topology_svg(crowd))
    assert "p4" in shown
    assert "and 15 more publishers" in shown
    assert "p5" not in shown


def test_too_large_a_picture_is_refused() -> None:
    with pytest.raises(DistcedError, match=r"too many sites for a picture: 61 .*at most 60.*json"):
        topology_svg(Topology([Site(f"s{number}") for number in range(61)], allow_partitions=True))


def test_pictures_are_the_same_every_time() -> None:
    assert topology_svg(random_topology("metro", Random(4))) == topology_svg(random_topology("metro", Random(4)))


@pytest.mark.parametrize("kind", RANDOM_KINDS)
@pytest.mark.parametrize(("sites", "seed"), [(3, 1), (7, 2), (12, 3), (18, 4)])
def test_nothing_lies_on_anything_else(kind: RandomKind, sites: int, seed: int) -> None:
    random = Random(seed)
    topology = random_topology(kind, random, sites=sites)
    numbers = {name: number for number, name in enumerate(topology.sites)}
    sizes = [(random.uniform(60, 280), random.uniform(30, 150)) for _ in topology.sites]
    lines = [
        Line(*(numbers[name] for name in link.between), (random.uniform(40, 110), 40.0)) for link in topology.links
    ]
    arranged = arrange(sizes, lines)
    assert (arranged.conflicts.overlaps, arranged.conflicts.through) == (0, 0)
    # What it says of itself, looked at once more.
    for one, other in combinations([*arranged.boxes, *arranged.labels], 2):
        assert not one.overlaps(other)
    for line, ends in zip(lines, arranged.lines, strict=True):
        for place, box in enumerate(arranged.boxes):
            assert place in (line.one, line.other) or box.inside(*ends) is None
    for (width, height), box in zip(sizes, arranged.boxes, strict=True):
        assert (box.right - box.left, box.bottom - box.top) == pytest.approx((width, height))
    for ends, label in zip(arranged.lines, arranged.labels, strict=True):
        assert label.inside(*ends) is not None


def test_two_one_way_links_lie_side_by_side() -> None:
    arranged = arrange([(100, 60), (100, 60)], [Line(0, 1, (60, 30), True), Line(1, 0, (60, 30), True)])
    one, other = arranged.labels
    assert not one.overlaps(other)
    assert other.inside(*arranged.lines[0]) is None
    assert one.inside(*arranged.lines[1]) is None


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        (((-10, 5), (20, 5)), (1 / 3, 2 / 3)),
        (((5, 5), (20, 5)), (0.0, 1 / 3)),
        (((-10, 11), (20, 11)), None),
        (((5, -10), (5, -1)), None),
        (((-5, 0), (0, -5)), None),
        (((0, 0), (10, 10)), (0.0, 1.0)),
    ],
)
def test_which_part_of_a_line_is_inside(ends, wanted: tuple[float, float] | None) -> None:  # type: ignore[no-untyped-def]
    found = Rect(0, 0, 10, 10).inside(*ends)
    assert found == (None if wanted is None else pytest.approx(wanted))


def test_neighbours_lie_a_link_apart() -> None:
    points = spread([[1], [0, 2], [1, 3], [2]], Random(1))
    xs = [x for x, _ in points]
    assert xs in (sorted(xs), sorted(xs, reverse=True))
    assert all(abs(y) < 0.2 for _, y in points)
    assert max(xs) - min(xs) == pytest.approx(3, abs=0.2)
    assert spread([[]], Random(1)) == [(0.0, 0.0)]


def test_dot() -> None:
    dot = topology_dot(parse_topology(OFFICE))
    assert (
        r'"office" [label="office\ndirectory\n10.0.0.1:1883\nnode n1: 5000/s\npublisher badges: Pers 0.5/s, Door"];'
        in dot
    )
    assert r'"office" -> "<street>" [label="20ms..25ms\n1MB/s\ncost 4"];' in dot
    assert "secret" not in dot
    assert topology_dot(random_topology("ring", Random(0), sites=5)).count("dir=none") == 5


def test_json() -> None:
    document = topology_as_dict(parse_topology(OFFICE))
    assert json.loads(json.dumps(document)) == document
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
            ["there is no broker node, so no detector can stand anywhere", "nobody publishes", "nobody subscribes"],
        ),
        (
            "allow_partitions = true\n[sites.a]\n[sites.b]\n"
            "[nodes.n]\nsite = 'a'\ncapacity = 1\n[nodes.m]\nsite = 'a'\n"
            "[publishers.p]\nsite = 'a'\n[subscribers.s]\nsite = 'a'\n",
            [
                "nobody is at b: messages only pass through",
                "no capacity is known of m, of the other nodes it is",
                "no event types are given for p",
                "there is no way a → b, b → a",
            ],
        ),
    ],
)  # fmt: skip
def test_notes(text: str, notes: list[str]) -> None:
    assert notes_on(parse_topology(text)) == notes
