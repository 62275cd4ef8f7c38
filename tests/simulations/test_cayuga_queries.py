"""Cayuga's benchmark asks what it says it asks, and many patterns in one pass find what each finds by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from typer.testing import CliRunner

from detectors.automata.automaton import Automaton
from detectors.columnar.looping import Loop
from detectors.compilation import compile_pattern
from detectors.stepwise.engine import StepwiseEngine
from middleware.events import CompositeEvent
from simulations.benchmarks.cayuga_queries import Parameters, Template, automata, queries, stream, text_of
from simulations.console import bench

TEMPLATES: tuple[Template, ...] = get_args(Template)
DENSE = Parameters(domain=2)
"""So few values that patterns match."""


@pytest.mark.parametrize("template", TEMPLATES)
def test_automata_are_those_of_the_text(template: Template) -> None:
    parameters = replace(DENSE, template=template)
    made = list(automata(parameters, 20))
    for query, automaton in zip(queries(parameters, 20), made, strict=True):
        compiled = compile_pattern(text_of(query, template)).automaton
        assert _unnamed(compiled) == _unnamed(automaton)
    assert len({each.canonical_id for each in made}) == 20


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("template", TEMPLATES)
def test_many_patterns_find_what_each_finds_by_itself(template: Template, indexed: bool) -> None:
    parameters = replace(DENSE, template=template)
    given = list(queries(parameters, 60))
    batch = stream(3000, domain=2)
    events = [batch.event(place) for place in range(len(batch))]
    loop = Loop(automata(parameters, 60), indexed=indexed)
    matches = loop.feed(batch)
    found: dict[int, list[CompositeEvent]] = {}
    for event in loop.events_of(matches):
        found.setdefault(int(event.source[1:], 16), []).append(event)
    for number, query in enumerate(given):
        expected = StepwiseEngine([compile_pattern(text_of(query, template))]).feed(events)
        assert _told(found.get(number, [])) == _told(expected), text_of(query, template)
    assert sum(map(len, found.values())) == len(matches) > 5


def test_patterns_are_added_while_it_runs() -> None:
    """What is added finds what begins from then on."""
    parameters = replace(DENSE, template="NonDeterministic")
    made, batches = list(automata(parameters, 40)), [stream(400, number, 400 * number, 2) for number in range(4)]
    loop = Loop(())
    found: list[CompositeEvent] = []
    for number, batch in enumerate(batches):
        for automaton in made[10 * number : 10 * number + 10]:
            loop.add(automaton)
        found += loop.events_of(loop.feed(batch))
    for number, query in enumerate(queries(parameters, 40)):
        alone = StepwiseEngine([compile_pattern(text_of(query, "NonDeterministic"))])
        rest = [batch.event(place) for batch in batches[number // 10 :] for place in range(len(batch))]
        own = [event for event in found if int(event.source[1:], 16) == number]
        assert _told(own) == _told(alone.feed(rest))


def test_the_verb(tmp_path: Path) -> None:
    arguments = ["patterns", "--templates", "Filter,LinearDyn", "--patterns", "50,100", "--events", "500"]
    result = CliRunner().invoke(bench, [*arguments, "--without", "50", "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert [(each["patterns"], each["indexed"]) for each in figures] == 2 * [(50, True), (100, True), (50, False)]
    assert all(each["rate"] > 0 for each in figures)
    ElementTree.parse(tmp_path / "patterns.svg")
    varied = CliRunner().invoke(
        bench, ["patterns", "--patterns", "50", "--events", "100", "--vary", "zipf", "--without", "0", "--json"]
    )
    assert [each["zipf"] for each in json.loads(varied.stdout)] == [0.8, 1.0, 1.2, 1.4]


@pytest.mark.parametrize(
    ("option", "value"), [("--templates", "Filtre"), ("--patterns", "many"), ("--patterns", "0"), ("--vary", "moon")]
)
def test_what_cannot_be_measured_is_refused(option: str, value: str) -> None:
    result = CliRunner().invoke(bench, ["patterns", option, value])
    assert result.exit_code != 0
    assert value in str(result.exception)


def _unnamed(automaton: Automaton) -> Automaton:
    """Without what is only for people, and what it is called."""
    positions = tuple(replace(each, text="") for each in automaton.positions)
    return replace(automaton, canonical_id="", positions=positions)


def _told(events: list[CompositeEvent]) -> list[object]:
    """What they are, but for the names of their patterns."""
    return sorted((each.lo, each.hi, each.constituents, sorted(each.attributes.items())) for each in events)


def test_the_verb_for_instances(tmp_path: Path) -> None:
    arguments = ["instances", "--instances", "100,2000", "--events", "2000", "--report", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert [each["instances"] for each in figures] == [100, 2000]
    assert all(0 < each["used"] <= 128 and each["used"] <= each["allocated"] for each in figures)
    assert all(each["stepwise_rate"] > 0 and each["stepwise_used"] > 0 for each in figures)
    ElementTree.parse(tmp_path / "instances.svg")
