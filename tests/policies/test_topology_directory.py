"""Which site's server holds the directory, and which site a home server is at."""

from __future__ import annotations

import pytest

from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import Site
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_drawing import topology_as_text, topology_diagram
from distced.policies.topology.topology_file import parse_topology, topology_as_dict, topology_as_toml

SITES = """
[sites]
milan = { url = "mqtt://user:secret@milan.example" }
rome = { url = "mqtts://rome.example" }
turin = {}
[[links]]
between = ["milan", "rome"]
latency = "5ms"
[[links]]
between = ["turin", "rome"]
latency = "5ms"
"""


def test_directory_site_is_named_or_first() -> None:
    assert parse_topology(SITES).directory == "milan"
    assert parse_topology(f'directory = "rome"\n{SITES}').directory == "rome"
    assert parse_topology(f'directory = "rome"\n{SITES}') != parse_topology(SITES)
    assert Topology([Site("only")]).directory == "only"


@pytest.mark.parametrize("top", ["", 'directory = "rome"\n', 'directory = "turin"\nallow_partitions = true\n'])
def test_directory_site_is_written(top: str) -> None:
    topology = parse_topology(top + SITES)
    assert parse_topology(topology_as_toml(topology)) == topology
    assert ("directory" in topology_as_toml(topology)) == bool(top)


@pytest.mark.parametrize(
    ("top", "problem"),
    [
        ('directory = "rom"', "no site of this name: rom .*at topology, directory; did you mean rome"),
        ("directory = 3", "directory = "),
    ],
)
def test_invalid_directory_site_is_refused(top: str, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        parse_topology(f"{top}\n{SITES}")


def test_directory_site_is_shown() -> None:
    topology = parse_topology(f'directory = "rome"\n{SITES}')
    assert topology_as_dict(topology)["directory"] == "rome"
    nodes = {each.id: [line.text for line in each.lines] for each in topology_diagram(topology).groups[0].nodes}
    assert nodes["rome"][:2] == ["rome", "directory"]
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=120)
    for part in topology_as_text(topology):
        console.print(part)
    assert isinstance(console.file, StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["rome", "directory,", "rome.example:8883", "150us"] in lines
    # Where there is one only, there is nothing to tell.
    (only,) = topology_diagram(Topology([Site("only")])).groups[0].nodes
    assert [line.text for line in only.lines] == ["only"]


@pytest.mark.parametrize(
    ("home", "site"),
    [
        ("", "rome"),
        ("turin", "turin"),
        ("milan", "milan"),
        ("mqtt://milan.example", "milan"),
        ("mqtt://milan.example:1883", "milan"),
        ("mqtt://user:secret@milan.example", "milan"),
        ("mqtts://rome.example:8883", "rome"),
    ],
)
def test_home_server_has_site(home: str, site: str) -> None:
    assert parse_topology(f'directory = "rome"\n{SITES}').site_of_home(home).name == site


def test_unknown_home_server_is_error() -> None:
    with pytest.raises(TopologyError, match=r"no site with this server: milan\.exmple:1883 .*did you mean") as caught:
        parse_topology(SITES).site_of_home("mqtt://a:hidden@milan.exmple")
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)
