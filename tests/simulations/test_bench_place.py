"""`distced bench place`, small: what it measures is what nodes do. How long it takes is not looked at."""

from __future__ import annotations

import io
import json
from random import Random

from rich.console import Console

from policies.distribution.policy import NAMED
from policies.distribution.situation import Situation
from simulations.benchmarks.place import deploy, measure
from simulations.benchmarks.place_report import as_dict, plots, show


def test_figures() -> None:
    told: list[tuple[str, int, int]] = []
    figures = measure(detectors=12, nodes=6, rounds=2, seed=3, tell=lambda *each: told.append(each))
    assert [each.policy for each in figures.rows] == list(NAMED)
    assert (figures.nodes, figures.detectors) == (6, 12)
    for each in figures.rows:
        assert len(each.total_ms) == len(each.anew_ms) == 2
        assert each.candidates >= 6
        assert 1 <= each.sites <= 2
    assert told[-1] == ("placing", 5, 5)
    assert json.loads(json.dumps(as_dict(figures)))["rows"][0]["policy"] == "min-latency"
    console = Console(file=io.StringIO(), width=200)
    show(console, figures)
    assert isinstance(console.file, io.StringIO)
    assert "12 detectors on 6 nodes" in console.file.getvalue()
    assert plots(figures)["place.svg"].startswith("<svg")


def test_the_deployment_is_the_same_for_the_same_seed() -> None:
    one, other = deploy(Random(5), 20, 8), deploy(Random(5), 20, 8)
    assert one.entries.detectors == other.entries.detectors
    assert one.entries.loads == other.entries.loads
    situation = Situation.of(one.entries, one.topology)
    assert len(situation.detectors) == 20
    assert situation.bytes_over_links > 0
    assert situation.busiest[1] > 0
    # Hosts measure what their detectors read.
    read = {source for load in one.entries.loads.values() for each in load.detectors.values() for source in each.inputs}
    assert read <= set(one.entries.sources) | set(one.entries.detectors)
    assert set(one.catalogue.plans) <= set(one.entries.detectors)
