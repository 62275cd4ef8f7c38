"""Patterns and files of configuration made of valid ones at random: taken, or refused with an error of ours.

Patterns are compiled and cut as on a node, with its limits, and run on some events. In a long run a hundred thousand
patterns and files of each kind are tried. A text that failed once is in `FAILED` from then on.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pytest

from distced.brokers.core.node_location import LIMITS
from distced.brokers.deployment.deployment_file import read_deployment
from distced.detectors.compiler import Compiled, check_pattern
from distced.detectors.limits import Limits
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.bus.access import read_configuration
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry, derive, event_type
from distced.middleware.patterns.printer import format_publication
from distced.policies.distribution.hint_files import read_hint_file
from distced.policies.topology.topology_file import parse_topology
from distced.simulations.network.scenario.toml import load_scenario
from tests.support.mutations import mutated_text, mutated_toml
from tests.support.random_patterns import make_events

ROOT: Final = Path(__file__).parents[2]

NUMBER, LONG = 600, 100_000
"""Texts of each kind in a plain run, and in a long one."""

FEW: Final = Limits(instances=2_000, work=2_000, memory=2**22, text=1_000)

FAILED: Final = {
    "scenario": (
        'topology = "\\u0000"\nduration = "2min"',
        'topology = "building.toml"\nduration = "2min"\n[[faults]]\nkind = []\n',
        'topology = "building.toml"\nduration = "2min"\n[[faults]]\nkind = { a = 1 }\n',
    )
}
"""Texts that failed once, by kind."""


@cache
def registry() -> TypeRegistry:
    made = TypeRegistry()
    attributes = {"k": "number", "v": "number", "room": "string", "s": "string", "on": "boolean"}
    for name in "ABCDE":
        made.register(event_type(name, attributes))
    made.register(derive(made.find("A"), "Fast", where="k > 10"))
    return made


@cache
def patterns() -> tuple[str, ...]:
    """Patterns of the conformance cases."""
    found: dict[str, None] = {}
    for path in sorted((ROOT / "tests" / "conformance").glob("*.toml")):
        for case in tomllib.loads(path.read_text())["case"]:
            found |= dict.fromkeys([case["pattern"], *case.get("definitions", {}).values()])
    return tuple(found)


def run_pattern(text: str, random: Random) -> None:
    """Compile a pattern as a node does, and run it on events."""
    if len(text) > LIMITS.pattern_length:
        return
    known = registry() if random.random() < 0.5 else None
    consumption = "epoch" if random.random() < 0.2 else "ordered"
    try:
        compiled: Compiled = check_pattern(text, known, consumption=consumption)  # type: ignore[arg-type]
        _ = compiled.structure, compiled.canonical_id
        # The consumption that the text says is an attribute of what is compiled, no longer of the pattern.
        again = format_publication(replace(compiled.plain, consumption="epoch" if compiled.epochs else "ordered"))
        assert check_pattern(again, known).canonical_id == compiled.canonical_id
        engine = StepwiseEngine([compiled])
        engine.limit(FEW)
        engine.feed(sorted(make_events(random, 20), key=lambda each: each.key))
        engine.finish()
    except DistcedError as error:
        assert str(error)


def texts(*patterns: str) -> tuple[str, ...]:
    """Contents of files of this repository."""
    return tuple(path.read_text() for each in patterns for path in sorted(ROOT.glob(each)))


@cache
def files() -> dict[str, tuple[tuple[str, ...], Callable[[Path], object]]]:
    """Texts of valid files, and what reads them, by kind."""

    configuration = 'name = "ada"\nserver = "mqtts://h:8883"\nhome = "mqtt://[::1]:1"\nuser = "ada"\nca = "ca.pem"\n'
    configuration += (
        'cert = "c.pem"\nkey = "k.pem"\npassword_file = "ada.password"\nservers = ["mqtts://b", "mqtt://c:2"]\n'
    )
    deployment = """
        [servers.hall]
        hosts = ["h.example", "10.0.0.1"]
        port = 8883
        directory = true
        [servers.roof]
        hosts = ["r.example"]
        [participants.cellar]
        roles = ["node"]
        topics = ["out/#"]
        [participants.badges]
        roles = ["publisher"]
        sources = ["a", "b"]
        types = ["A"]
        [participants.ada]
        roles = ["client"]
        durable = ["alarms"]
        [homes]
        cellar = "roof"
    """
    hints = json.dumps(
        {
            "format": "distced hints",
            "version": 1,
            "metric": "latency",
            "patterns": {"c1": "[A]"},
            "detectors": {"c1": {"nodes": ["n"], "parts": ["c2"], "metric": "latency"}},
        }
    )
    return {
        "configuration": ((configuration,), read_configuration),
        "deployment": ((deployment,), read_deployment),
        "hints": ((hints,), read_hint_file),
        "mapping": (texts("simulations/recordings/*.toml"), load_mapping),
        "topology": (
            texts("docker/topology.toml", "simulations/network/examples/building.toml"),
            lambda path: parse_topology(path.read_text()),
        ),
        "scenario": (texts("simulations/network/examples/cold-rooms.toml"), load_scenario),
    }


def number(at_length: bool) -> int:
    return LONG if at_length else NUMBER


@pytest.mark.timeout(0)
def test_patterns_at_random(at_length: bool) -> None:
    random = Random(7)
    for _ in range(number(at_length)):
        text = mutated_text(random, random.choice(patterns()), patterns())
        try:
            run_pattern(text, random)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for the pattern {text!r}") from error


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", sorted(files()))
def test_files_at_random(kind: str, at_length: bool, tmp_path: Path) -> None:
    random = Random(7)
    valid, read = files()[kind]
    path = tmp_path / f"some.{'json' if kind == 'hints' else 'toml'}"
    # Which a scenario names.
    (tmp_path / "building.toml").write_text(texts("simulations/network/examples/building.toml")[0])
    ways = (mutated_text, mutated_text if kind == "hints" else mutated_toml)
    made = [random.choice(ways)(random, random.choice(valid), valid) for _ in range(number(at_length))]
    for text in valid:
        path.write_text(text)
        read(path)
    refused = 0
    for text in (*FAILED.get(kind, ()), *made):
        path.write_text(text, "utf-8", errors="surrogatepass")
        try:
            read(path)
        except DistcedError as error:
            refused += 1
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}") from error
    assert 0 < refused < len(made)
