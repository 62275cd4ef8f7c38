"""Where broker nodes are, as options and a topology say."""

from __future__ import annotations

import pytest

from distced.brokers.cli.node_locations import Described, _without_logins, node_locations
from distced.brokers.core.node_location import NodeLocation
from distced.middleware.model.errors import DistcedError
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.topology_file import parse_topology

TEXT = """
# The first site has the directory.
[sites.cellar]

[sites.roof]
url = "mqtt://ada:secret@10.0.0.2"

[sites.street]

[nodes.n1]
site = "roof"
capacity = 500

[nodes.n2]
site = "cellar"

[[links]]
between = ["cellar", "roof"]
latency = "1ms"

[[links]]
between = ["cellar", "street"]
latency = "1ms"
"""
ROOF = "mqtt://ada:secret@10.0.0.2"


@pytest.fixture
def described() -> Described:
    return Described("building.toml", TEXT, parse_topology(TEXT))


def test_nodes_are_at_the_directory_by_default(described: Described) -> None:
    assert node_locations(["x", "y"], None) == {"x": NodeLocation(), "y": NodeLocation()}
    assert node_locations(["x"], described) == {"x": NodeLocation()}
    assert node_locations(["x"], None, home="mqtt://a", capacity=3) == {"x": NodeLocation("mqtt://a", 3)}


def test_topology_locates_its_nodes(described: Described) -> None:
    assert node_locations(["n1", "n2"], described) == {
        "n1": NodeLocation(ROOF, 500.0, "roof"),
        "n2": NodeLocation("", 0.0, "cellar"),
    }
    assert node_locations(["n1"], described, home="mqtt://b", capacity=1) == {"n1": NodeLocation("mqtt://b", 1)}


def test_site_is_found_by_its_name(described: Described) -> None:
    assert node_locations(["x"], described, site="roof") == {"x": NodeLocation(ROOF, site="roof")}
    # Its server is that of the directory, whatever that is called.
    assert node_locations(["x"], described, site="cellar") == {"x": NodeLocation(site="cellar")}


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("x", {"site": "rof"}, r"no site of this name: rof .*building.toml; did you mean roof"),
        ("x", {"site": "street"}, r"whose server is not known: street.*sites.street"),
        ("n1", {"site": "cellar"}, r"'n1' is at another site: cellar .allowed: roof.*nodes.n1"),
        ("x", {"site": "roof", "home": "mqtt://b"}, "both --home and --site"),
    ],
)
def test_location_that_cannot_be_is_refused(
    described: Described, name: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(DistcedError, match=problem):
        node_locations([name], described, **options)


def test_passwords_are_not_for_everybody(described: Described) -> None:
    text = _without_logins(described)
    assert "secret" not in text
    published, own = parse_topology(text), described.topology
    assert published.sites["roof"].url == "mqtt://10.0.0.2:1883"
    assert (published.nodes, published.links, published.directory) == (own.nodes, own.links, own.directory)
    plain = TEXT.replace("ada:secret@", "")
    assert _without_logins(Described("b", plain, parse_topology(plain))) == plain


def test_broken_topology_is_refused_before_anything_is_done() -> None:
    from pathlib import Path

    from distced.brokers.cli.node_locations import read_described

    with pytest.raises(TopologyError, match="cannot read the topology"):
        read_described(Path("nowhere.toml"))
