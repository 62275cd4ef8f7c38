"""Cayuga's benchmark has the queries of the article, and many patterns in one pass find what each finds by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from rich.console import Console
from typer.testing import CliRunner

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.loop import Loop
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import CompositeEvent
from distced.simulations.benchmarks import patterns as measuring
from distced.simulations.benchmarks.cayuga_queries import (
    LANGUAGES,
    Language,
    Parameters,
    Template,
    compiled_query,
    queries,
    stream,
    text_of,
    with_automata,
)
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.patterns import WITHOUT, measure_template, report
from distced.simulations.report import show
from tests.support.pictures import needs_matplotlib

TEMPLATES: tuple[Template, ...] = get_args(Template)
DENSE = Parameters(domain=2)
"""So few values that patterns match."""


@pytest.fixture(autouse=True)
def _few_patterns_from_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns compiled from their text are measured for the time they take, which is not tested."""
    monkeypatch.setattr(measuring, "FROM_TEXT", 5)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("template", TEMPLATES)
def test_automata_equal_those_of_the_text(template: Template, language: Language) -> None:
    parameters = replace(DENSE, template=template, language=language)
    made = [automaton for _, automaton in with_automata(parameters, 20)]
    for query, automaton in zip(queries(parameters, 20), made, strict=True):
        compiled = compiled_query(text_of(query, template, language), language).automaton
        assert _unnamed(compiled) == _unnamed(automaton)
    assert len({each.canonical_id for each in made}) == 20


LENGTH = 400


@cache
def _by_themselves(template: Template) -> list[tuple[str, list[object]]]:
    """Patterns of 60 queries, with what each finds in a stream by itself."""
    batch = stream(LENGTH, domain=2)
    events = [batch.event(place) for place in range(len(batch))]
    texts = [text_of(query, template) for query in queries(replace(DENSE, template=template), 60)]
    return [(text, _comparable(StepwiseEngine([compile_pattern(text)]).feed(events))) for text in texts]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("template", TEMPLATES)
def test_many_patterns_find_what_each_finds_by_itself(template: Template, indexed: bool) -> None:
    parameters = replace(DENSE, template=template)
    loop = Loop([automaton for _, automaton in with_automata(parameters, 60)], indexed=indexed)
    matches = loop.feed(stream(LENGTH, domain=2))
    found: dict[int, list[CompositeEvent]] = {}
    for event in loop.events_of(matches):
        found.setdefault(int(event.source[1:], 16), []).append(event)
    for number, (text, expected) in enumerate(_by_themselves(template)):
        assert _comparable(found.get(number, [])) == expected, text
    assert sum(map(len, found.values())) == len(matches) > 5


def test_patterns_are_added_to_a_running_engine() -> None:
    """What is added finds what begins from then on."""
    parameters = replace(DENSE, template="NonDeterministic")
    made = [automaton for _, automaton in with_automata(parameters, 40)]
    batches = [stream(400, number, 400 * number, 2) for number in range(4)]
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
        assert _comparable(own) == _comparable(alone.feed(rest))


@pytest.mark.slow
def test_variants_are_measured_up_to_their_numbers_of_patterns() -> None:
    reported: set[str] = set()
    parameters = replace(DENSE, zipf=(2.0, 1.0, 0.8))
    given = measure_template(parameters, [30, 60], 3000, without=30, on_progress=lambda what, *_: reported.add(what))
    figures = {(each.patterns, each.variant): each for each in given}
    variants = ("with indexes", "without merging", "without any", "predicates alone")
    assert list(figures) == [(30, each) for each in variants] + [(60, each) for each in variants if each != variants[2]]
    assert reported >= {f"Filter, {patterns} patterns, {variant}" for patterns, variant in figures}
    for (patterns, variant), each in figures.items():
        baseline = figures[patterns, "predicates alone"]
        assert each.ratio == pytest.approx(each.rate / baseline.rate)
        assert each.events == (WITHOUT if variant == "without any" else 3000)
        if each is not baseline:
            assert each.matches == each.expected
            assert each.matches is not None
            assert each.matches > 5
    for patterns in (30, 60):
        merged, apart = figures[patterns, "with indexes"], figures[patterns, "without merging"]
        assert merged.matches == apart.matches
        assert (merged.states or 0) < (apart.states or 0) == 2 * patterns
        # Every predicate that an event satisfies begins something where nothing is shared.
        assert merged.touched < apart.touched
        assert apart.touched > figures[patterns, "predicates alone"].touched > 0
    assert figures[30, "without any"].touched > figures[30, "with indexes"].touched
    assert [each.variant for each in measure_template(DENSE, [20], 100, merging=False)] == [
        "with indexes",
        "predicates alone",
    ]


def test_variants_that_differ_are_a_fault() -> None:
    (figure, _) = measure_template(DENSE, [20], 100, merging=False)
    assert report([figure]).sound
    wrong = replace(figure, matches=7, expected=8)
    assert not report([figure, wrong]).sound
    console = Console(record=True, width=200)
    show(report([wrong]), console)
    assert "7 of 8" in console.export_text()


@needs_matplotlib
def test_verb_patterns_writes_a_report(tmp_path: Path) -> None:
    arguments = ["patterns", "--templates", "Filter,LinearDyn", "--patterns", "50,100", "--events", "500"]
    result = CliRunner().invoke(bench, [*arguments, "--without", "50", "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    few, many = ["with indexes", "without merging", "without any"], ["with indexes", "without merging"]
    rows = [(50, [*few, "predicates alone"]), (100, [*many, "predicates alone"])]
    expected = [(count, variant) for count, variants in rows for variant in variants]
    assert [(each["patterns"], each["variant"]) for each in figures] == 2 * expected
    assert all(each["rate"] > 0 and each["ratio"] > 0 for each in figures)
    assert _lines(tmp_path / "patterns.svg") == ["LinearDyn", "Filter"]
    for template in ("Filter", "LinearDyn"):
        assert _lines(tmp_path / f"patterns-{template}.svg") == [*few, "predicates alone"]


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.parametrize(
    ("vary", "values"), [("zipf", [0.8, 1.0, 1.2, 1.4]), ("selectivity", [0.5, 0.6, 0.7, 0.8, 0.9])]
)
def test_verb_patterns_varies_a_parameter(vary: str, values: list[float], tmp_path: Path) -> None:
    arguments = ["patterns", "--patterns", "20,50", "--events", "100", "--vary", vary, "--without", "0"]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert [each[vary] for each in figures if each["variant"] == "with indexes"] == values
    assert {each["patterns"] for each in figures} == {50}
    variants = ["with indexes", "without merging", "predicates alone"]
    assert _lines(tmp_path / f"patterns-{vary}-Filter.svg") == variants
    groups = ElementTree.parse(tmp_path / f"patterns-{vary}.svg").iter("{http://www.w3.org/2000/svg}g")
    (line,) = (each for each in groups if each.attrib.get("id") == "line-0")
    assert len(list(line.iter("{http://www.w3.org/2000/svg}use"))) == len(values)


def test_variant_without_indexes_is_measured_with_some_number_of_patterns() -> None:
    arguments = ["patterns", "--patterns", "60", "--events", "100", "--without", "40", "--no-without-merging"]
    result = CliRunner().invoke(bench, [*arguments, "--json"])
    reported = [(each["patterns"], each["variant"]) for each in json.loads(result.stdout)["figures"]]
    without = [(40, "with indexes"), (40, "without any"), (40, "predicates alone")]
    assert reported == [*without, (60, "with indexes"), (60, "predicates alone")]


@pytest.mark.parametrize(
    ("option", "value"), [("--templates", "Filtre"), ("--patterns", "many"), ("--patterns", "0"), ("--vary", "moon")]
)
def test_invalid_options_are_refused(option: str, value: str) -> None:
    result = CliRunner().invoke(bench, ["patterns", option, value])
    assert result.exit_code != 0
    assert value in str(result.exception)


def _lines(file: Path) -> list[str]:
    """The names of the lines of a plot."""
    texts = [each.text or "" for each in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    known = (*TEMPLATES, "with indexes", "without merging", "without any", "predicates alone")
    return [each for each in texts if each in known]


def _unnamed(automaton: Automaton) -> Automaton:
    """Without what is only for people, and what it is called."""
    positions = tuple(replace(each, text="") for each in automaton.positions)
    return replace(automaton, canonical_id="", positions=positions)


def _comparable(events: list[CompositeEvent]) -> list[object]:
    """What they are, but for the names of their patterns."""
    return sorted((each.lo, each.hi, each.constituents, sorted(each.attributes.items())) for each in events)


@needs_matplotlib
@pytest.mark.slow
def test_verb_instances_writes_a_report(tmp_path: Path) -> None:
    arguments = ["instances", "--instances", "100,2000", "--events", "2000", "--report", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert [each["instances"] for each in figures] == [100, 2000]
    assert all(0 < each["used"] <= 128 and each["used"] <= each["allocated"] for each in figures)
    assert all(each["stepwise_rate"] > 0 and each["stepwise_used"] > 0 for each in figures)
    ElementTree.parse(tmp_path / "instances.svg")
