"""Files of topologies: read, written, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.timestamps import MILLISECOND, parse_duration
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.quantities import parse_bandwidth, show_bandwidth, show_duration
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology, topology_as_toml

SITES = "[sites.rome]\n[sites.milan]\n"
LINK = "[[links]]\nbetween = ['rome', 'milan']\nlatency = '20ms'\n"
BOTH = SITES + LINK
BACK = "[[links]]\nbetween = ['milan', 'rome']\nlatency = '20ms'\n"


def publisher(lines: str) -> str:
    return f"{BOTH}[publishers.p]\nsite = 'rome'\n{lines}"


def test_topology_file_with_all_keys() -> None:
    text = """
allow_partitions = true

[sites.rome]
url = "mqtts://user:secret@rome.example"
local_latency = "1.5ms"
[sites.milan]
[nodes."rome 1"]
site = "rome"
capacity = 5000
[publishers.badges]
site = "milan"
types = ["Pers", "Temp"]
rates = { Pers = 0.5, Temp = 3 }
uncertainty = "10ms"
loss = 0.01
[subscribers.pda]
site = "milan"
[[links]]
between = ["rome", "milan"]
latency = "20ms"
jitter = "5ms"
bandwidth = "1Mbit/s"
cost = 4
one_way = true
"""
    assert parse_topology(text) == Topology(
        [Site("rome", "mqtts://user:secret@rome.example", 1_500_000), Site("milan", "", LOCAL_LATENCY)],
        [BrokerNode("rome 1", "rome", 5000.0)],
        [Publisher("badges", "milan", ("Pers", "Temp"), {"Pers": 0.5, "Temp": 3.0}, 10 * MILLISECOND, 0.01)],
        [Subscriber("pda", "milan")],
        [Link(("rome", "milan"), 20 * MILLISECOND, 5 * MILLISECOND, 125_000, 4.0, True)],
        allow_partitions=True,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"without a site \(allowed: at least one\), at f.toml; write \[sites.NAME\]"),
        ("[sites", "not TOML, at f.toml"),
        (BOTH + "[nodes.n]\nsite='rome'\n[nodes.n]\nsite='rome'", r"not TOML, at f.toml; Cannot declare .*'nodes'"),
        ("[site.rome]", r"unknown key: site \(allowed: sites, nodes.*f.toml; did you mean sites\?"),
        (SITES + LINK.replace("links", "link"), r"unknown key: link .*did you mean links\?"),
        ("allow_partition = true\n" + SITES, r"unknown key: allow_partition .*did you mean allow_partitions\?"),
        ("allow_partitions = 1\n" + SITES, "1 .allowed: true or false.*f.toml, allow_partitions"),
        ("[sites]\nrome = 3", r"3 \(allowed: table\), at f.toml, sites.rome"),
        ("links = [3]\n" + SITES, r"3 \(allowed: table\), at f.toml, links 1"),
        ("[sites.rome]\nlocal_latancy = '1s'", r"at f.toml, sites.rome; did you mean local_latency\?"),
        ("[sites.rome]\nlocal_latency = 3", 'sites.rome, local_latency; write local_latency = "200us"'),
        ("[sites.rome]\nurl = 'http://rome'", "not the URL of an MQTT server: http://rome .*sites.rome, url"),
        ("[sites.' rome']", "not a name for a site: ' rome'"),
        (SITES, "no way from rome to milan .*links; add a link, or say allow_partitions = true"),
        (BOTH + "one_way = true", "no way to rome from milan"),
        (BOTH + "[nodes.n]", r"a key is missing: site \(allowed: site, capacity\), at f.toml, nodes.n"),
        (BOTH + "[nodes.n]\nsite = 'Rom'", r"Rom \(allowed: milan, rome\), at f.toml, nodes.n"),
        (BOTH + "[subscribers.s]\nsite = 'mailan'", r"mailan .*subscribers.s; did you mean milan\?"),
        (BOTH + "[nodes.n]\nsite = 'rome'\ncapacity = 0", r"capacity: 0.0 \(allowed: instances touched per second"),
        (BOTH + "[nodes.n]\nsite = 'rome'\ncapacity = true", r"allowed: number\), at f.toml, nodes.n, capacity"),
        (BOTH + LINK, r"two links .*milan → rome .*links 1 is the other.*f.toml, links 2 \(milan – rome\); .*one_way"),
        (BOTH + BACK + "one_way = true", r"two links .*milan → rome .*links 2 \(milan → rome\)"),
        (BOTH + "banwidth = '3B/s'", r"unknown key: banwidth .*links 1; did you mean bandwidth\?"),
        (BOTH + "bandwidth = 10", 'f.toml, links 1, bandwidth; write bandwidth = "10MB/s"'),
        (BOTH + "bandwidth = '10mb/s'", r"10mb/s \(allowed: a number and a unit out of B/s.*links 1, bandwidth"),
        (BOTH + "bandwidth = '0B/s'", "not a bandwidth: 0B/s .*from 1B/s"),
        (BOTH + "bandwidth = '3bit/s'", "not a bandwidth: 3bit/s .*whole number of bytes"),
        (BOTH + "cost = -1", r"not a cost per byte: -1.0 \(allowed: a number from 0\), at f.toml, links 1"),
        (BOTH + "cost = nan", "not a cost per byte: nan"),
        (SITES + LINK.replace("'20ms'", "20"), r'20 \(allowed: text\), at f.toml, links 1, latency; .*"20ms"'),
        (SITES + LINK.replace("20ms", "20msec"), "not a duration: 20msec .*f.toml, links 1, latency"),
        (SITES + LINK.replace("20ms", "1" * 5000 + "s"), "a number with too many digits, at f.toml, links 1"),
        (SITES + LINK.replace("latency", "jitter"), "a key is missing: latency .*links 1"),
        (SITES + LINK.replace("'milan'", "'rome'"), "from a site to itself: rome .*links 1; within a site"),
        (SITES + LINK.replace("'milan'", "'pisa'"), r"no site of this name: pisa .*f.toml, links 1 \(pisa – rome\)"),
        (SITES + LINK.replace(", 'milan'", ""), r"\(allowed: list\), at f.toml, links 1, between; write between = \["),
        (publisher("types = 'A'"), r"publishers.p, types; write types = \["),
        (publisher("types = ['A', 'A']"), r"a type named twice: A .*publishers.p, types"),
        (publisher("types = ['A b']"), "not a name for a type .*: A b .*publishers.p, types"),
        (publisher("rates = { A = 1 }"), "does not publish: A .*publishers.p, rates; add it to types"),
        (publisher("types = ['A']\nrates = { A = -1 }"), "not a number for A: -1.0 .*events per second"),
        (publisher("types = ['A']\nrates = { A = 'x' }"), "not a rate: x .*publishers.p, rates.A"),
        (publisher(f"types = ['A']\nrates = {{ A = 1{'0' * 400} }}"), "not a rate: 1000.*publishers.p, rates.A"),
        (publisher("loss = 1"), "not a probability of loss: 1.0 .*publishers.p; leave it out"),
        (publisher("uncertainty = '-1s'"), "not a duration: -1s .*publishers.p, uncertainty"),
    ],
)  # fmt: skip
def test_file_error_names_place(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        parse_topology(text, name="f.toml")


def test_file_error_hides_password() -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology("[sites.a]\nurl = 'mqtt://user:secret@a/b'")
    assert "secret" not in str(caught.value)


def test_missing_file_is_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="cannot read the topology"):
        load_topology(tmp_path / "topology.toml")
    (tmp_path / "latin.toml").write_bytes(b"[sites.\xe4]")
    with pytest.raises(TopologyError, match="cannot read the topology"):
        load_topology(tmp_path / "latin.toml")


# Written and read.

NAMES = (
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1)
    .map(str.strip)
    .filter(bool)
)
TYPES = st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), unique=True, max_size=4)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
DURATIONS = st.integers(0, 2**63 - 1) | st.integers(0, 10_000).map(lambda each: each * MILLISECOND)
BANDWIDTHS = st.integers(1, 2**60) | st.integers(1, 1000).map(lambda each: each * 1_000_000)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    at = st.sampled_from(names)
    urls = st.sampled_from(
        ("", "mqtt://10.0.0.1", "mqtts://user:se%20cret@host.example:8884", "mqtt://h/", 'mqtt://a"b')
    )
    sites = [Site(name, draw(urls), draw(DURATIONS)) for name in names]
    nodes = [BrokerNode(name, draw(at), draw(st.none() | POSITIVE)) for name in draw(st.sets(NAMES, max_size=3))]
    publishers = []
    for name in draw(st.sets(NAMES, max_size=3)):
        types = draw(TYPES)
        rates = draw(st.dictionaries(st.sampled_from(types), POSITIVE)) if types else {}
        loss = draw(st.floats(0, 1, exclude_max=True))
        publishers.append(Publisher(name, draw(at), tuple(types), rates, draw(DURATIONS), loss))
    subscribers = [Subscriber(name, draw(at)) for name in draw(st.sets(NAMES, max_size=3))]
    links = []
    for place, one in enumerate(names):
        for other in names[:place]:
            for pair in draw(st.sampled_from(([], [(one, other)], [(one, other), (other, one)]))):
                values = (draw(DURATIONS), draw(DURATIONS), draw(st.none() | BANDWIDTHS), draw(POSITIVE | st.just(0.0)))
                links.append(Link(pair, *values, one_way=True))
    return Topology(sites, nodes, publishers, subscribers, links, allow_partitions=True)


@given(topologies())
@settings(max_examples=100)
def test_written_topology_reads_back(topology: Topology) -> None:
    read = parse_topology(topology_as_toml(topology))
    assert read == topology
    assert list(read.sites) == list(topology.sites)
    assert topology_as_toml(read) == topology_as_toml(topology)


def test_defaults_are_not_written() -> None:
    assert topology_as_toml(parse_topology(BOTH + "cost = 1.0\njitter = '0s'\n")) == (
        '[sites.rome]\n\n[sites.milan]\n\n[[links]]\nbetween = ["milan", "rome"]\nlatency = "20ms"\n'
    )


# Quantities.


@pytest.mark.parametrize(
    ("text", "wanted", "shown"),
    [
        ("10MB/s", 10_000_000, "10MB/s"),
        ("1Gbit/s", 125_000_000, "125MB/s"),
        ("1.5 kB/s", 1500, "1.5kB/s"),
        ("8bit/s", 1, "1B/s"),
        ("64KiB/s", 65_536, "64KiB/s"),
        ("0.001kB/s", 1, "1B/s"),
        ("1048577B/s", 1_048_577, "1048577B/s"),
        ("2TB/s", 2 * 10**12, "2TB/s"),
    ],
)
def test_bandwidth_is_parsed(text: str, wanted: int, shown: str) -> None:
    assert parse_bandwidth(text) == wanted
    assert show_bandwidth(wanted) == shown
    assert parse_bandwidth(shown) == wanted


@pytest.mark.parametrize("text", ["", "10", "MB/s", "-1MB/s", "10MB", "10Mb/s", "1e3B/s", "10 MB/s/s", "0.1B/s"])
def test_invalid_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="not a bandwidth"):
        parse_bandwidth(text)


@given(st.integers(1, 2**70))
def test_bandwidth_and_duration_read_back(number: int) -> None:
    assert parse_bandwidth(show_bandwidth(number)) == number
    assert parse_duration(show_duration(number)) == number


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [(0, "0s"), (1, "1ns"), (12_300_000, "12.3ms"), (150_000, "150us"), (90 * 10**9, "90s"), (3600 * 10**9, "1h")],
)
def test_duration_has_decimals(nanoseconds: int, shown: str) -> None:
    assert show_duration(nanoseconds) == shown
