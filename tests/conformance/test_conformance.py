"""Every conformance case on every engine, on every cut and on the oracle; and that the cases cover the language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distced.detectors.compiler import Compiled, read_pattern
from distced.detectors.conformance.case_runner import ENGINES, compare, compile_case, registry_of, run_case
from distced.detectors.conformance.cases import Case, load_cases
from distced.detectors.language.constants import at_constant
from distced.detectors.language.parser import parse_constant, parse_publication
from distced.middleware.model.clock_rules import clock_event, is_clock
from distced.middleware.model.events import COMPOSITE, CompositeEvent, Event, EventId, composite_digest
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    Hidden,
    Init,
    Instant,
    Iteration,
    Keyed,
    Parallel,
    Publication,
    Recurring,
    Reference,
    Relative,
    Scope,
    Sequence,
    TimeOfDay,
    Timing,
    Window,
    walk,
)
from distced.middleware.sets.describable import AnySet, Difference, Filtered, Intersection, TypeSet, Union, walk_set
from distced.policies.local_runner import HowCut, cut_run
from tests.support.comparison import seen
from tests.support.oracle import Found, Seen, read

FILES = sorted(Path(__file__).parent.glob("*.toml"))
CASES = [case for file in FILES for case in load_cases(file)]


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_engine_detects_the_case(case: Case, engine: str) -> None:
    outcome = run_case(case, engine)
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize(("how", "seed"), [("none", 0), ("full", 1), ("random", 2), ("random", 3)])
@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=by_name)
def test_cut_detects_the_case(case: Case, how: HowCut, seed: int) -> None:
    outcome = run_case(case, run=cut_run(how, seed))
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=by_name)
def test_oracle_detects_the_case(case: Case) -> None:
    outcome = compare(case, _by_oracle(case))
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=by_name)
def test_constituents_are_in_the_order_of_consumption(case: Case) -> None:
    patterns = compile_case(case)
    ordered = sorted(case.events, key=lambda event: event.key)
    for composite in ENGINES["stepwise"](patterns, ordered, lambda _: None):
        keys = [event.key for event in composite.events]
        assert keys == sorted(set(keys))
        assert composite.constituents == tuple(event.id for event in composite.events)


def test_cases_are_many_and_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 150
    assert sorted(set(names)) == sorted(names)


RESTATED = ("core", "esper", "flink-cep", "kafkastreams-cep", "match-recognize", "opencep", "siddhi")
"""Files of tests of other systems, restated."""


def test_restated_cases_name_their_tests() -> None:
    restated = [case for case in CASES if case.source]
    assert len(restated) > 450
    assert {Path(case.where.rsplit(", ", 1)[0]).stem for case in restated} == set(RESTATED)
    assert all(case.source for case in CASES if Path(case.where.rsplit(", ", 1)[0]).stem in RESTATED)


def test_cases_cover_every_row_of_the_table() -> None:
    trees = [_tree(case) for case in CASES if not case.error]
    nodes = [node for tree in trees for node in walk(tree.pattern)]
    kinds = {type(node) for node in nodes}
    rows = {Atom, Concatenation, Sequence, Iteration, Alternation, Timing, Parallel, Scope, Hidden, Window, Init, Keyed}
    assert rows <= kinds
    # The rows that a class alone does not show.
    atoms = [node for node in nodes if isinstance(node, Atom)]
    assert any(isinstance(atom.label, Difference) and atom.label.left == atom.domain for atom in atoms), "[!E <= Σ]"
    assert any(atom.variable for atom in atoms), "binding"
    assert any(atom.updates for atom in atoms), "aggregates"
    assert {type(each) for atom in atoms for each in walk_set(atom.label)} == {
        TypeSet,
        AnySet,
        Union,
        Intersection,
        Difference,
        Filtered,
    }
    whens = {type(node.when) for node in nodes if isinstance(node, Timing)}
    assert whens == {Relative, Calculated, TimeOfDay, Instant, Recurring}
    assert any(tree.output is not None and tree.output.condition is not None for tree in trees), "output"
    times = {(node.least, node.most) for node in nodes if isinstance(node, Iteration)}
    assert times >= {(0, None), (1, None), (2, 2), (1, 2), (2, None)}
    written = [node for case in CASES if not case.error for node in walk(_written(case).pattern)]
    assert any(isinstance(node, Reference) for node in written), "definitions"
    assert {case.consumption for case in CASES} == {"ordered", "epoch"}
    assert any(case.publications for case in CASES)
    assert any([event.key for event in case.events] != sorted(event.key for event in case.events) for case in CASES)
    assert any(not case.events and not case.error for case in CASES), "empty input"


def _written(case: Case) -> Publication:
    let = {name: text for name, text in case.let.items() if not at_constant(text)}
    constants = {name: parse_constant(text, name) for name, text in case.let.items() if name not in let}
    return parse_publication(case.pattern, let, constants)


def _tree(case: Case, text: str | None = None) -> Publication:
    return read_pattern(case.pattern if text is None else text, case.let)


def _epochs(case: Case, text: str | None = None) -> bool:
    return (_tree(case, text).consumption or case.consumption) == "epoch"


def _by_oracle(case: Case) -> list[CompositeEvent]:
    """What the oracle finds. It reads one pattern at a time: publications first, and their events join the others."""
    events = [seen(event) for event in case.events]
    known: dict[EventId, Event] = {event.id: event for event in case.events}
    # Sources as the engine names them, because ids break ties.
    pattern, *beside = compile_case(case)
    registry = registry_of(case) if case.derive else None
    for text, compiled in zip(case.publications, beside, strict=True):
        for found in read(_tree(case, text), events, epochs=_epochs(case, text), registry=registry):
            composite = _composite(found, compiled, known)
            known[composite.id] = composite
            events.append(_as_seen(composite))
    found_last = read(_tree(case), events, epochs=_epochs(case), registry=registry)
    return [_composite(found, pattern, known) for found in found_last]


def _composite(found: Found, compiled: Compiled, known: dict[EventId, Event]) -> CompositeEvent:
    attributes: dict[str, Any] = dict(found.attributes)
    return CompositeEvent(
        compiled.publishes.name,
        found.lo,
        found.hi,
        compiled.automaton.canonical_id,
        composite_digest(found.constituents, attributes),
        attributes,
        constituents=found.constituents,
        events=tuple(clock_event(*each) if is_clock(each[0]) else known[each] for each in found.constituents),
    )


def _as_seen(event: CompositeEvent) -> Seen:
    return Seen(event.type, event.lo, event.hi, COMPOSITE, event.source, event.seq, event.attributes)
