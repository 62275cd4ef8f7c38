"""Conformance cases in other languages than the core: on every engine, on every cut, and in batches; and
translated, printed and compiled again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, compile_file, compile_translation, register_published
from distced.detectors.conformance.case_runner import ENGINES, compare, compile_case, run_case
from distced.detectors.conformance.cases import Case, load_cases
from distced.detectors.frontends.languages import LANGUAGES, translate
from distced.detectors.language.private import output_of
from distced.detectors.runtime.engines import Kinds
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_file
from distced.policies.local_runner import HowCut, cut_run

FILES = sorted((Path(__file__).parent / "languages").glob("*.toml"))
CASES = [case for file in FILES for case in load_cases(file)]
RUN = [case for case in CASES if not case.error]


def by_name(case: Case) -> str:
    return f"{case.language}-{case.name}"


def registry_of(case: Case) -> TypeRegistry:
    return TypeRegistry((case.types or {}).values(), open=case.types is None)


def test_every_language_has_cases() -> None:
    assert {case.language for case in CASES} == set(LANGUAGES)
    names = [by_name(case) for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_engine_detects_the_case(case: Case, engine: str) -> None:
    outcome = run_case(case, engine)
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize(("how", "seed"), [("none", 0), ("full", 1), ("random", 2), ("random", 3)])
@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_cut_detects_the_case(case: Case, how: HowCut, seed: int) -> None:
    outcome = run_case(case, run=cut_run(how, seed))
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_case_holds_in_batches_of_any_size(case: Case, size: int) -> None:
    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        engine = ColumnarEngine(patterns, kinds)
        found = []
        for start in range(0, len(events), size):
            found += engine.feed(events[start : start + size])
        return found + engine.finish()

    outcome = run_case(case, run=run)
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_printed_translation_has_the_same_ids(case: Case) -> None:
    translation = translate(case.pattern, case.language, registry_of(case))
    made, _ = compile_translation(translation, registry_of(case))
    again = compile_file(format_file(translation.file), registry_of(case))
    assert [each.canonical_id for each in again] == [each.canonical_id for each in made]
    assert len(translation.results) == len(made)


@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_each_pattern_as_a_single_text_has_the_same_id(case: Case) -> None:
    """As nodes hand it on."""
    registry = registry_of(case)
    last, *others = compile_case(case)
    for each in (*others, last):
        if translate(case.pattern, case.language, registry_of(case)).file.types:
            continue
        (again,) = compile_file(each.text, registry)
        assert again.canonical_id == each.canonical_id
        if each.publishes.name:
            register_published(each, registry)


@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=by_name)
def test_error_has_a_place_in_the_text(case: Case) -> None:
    with pytest.raises(Exception, match="line ") as caught:
        compile_case(case)
    assert case.error in str(caught.value)


@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_names_that_are_made_up_are_no_names_of_the_case(case: Case) -> None:
    translation = translate(case.pattern, case.language, registry_of(case))
    taken = {*(case.types or {}), *(name for each in (case.types or {}).values() for name in each.attributes)}
    made = {output_of(each).type_name for each in translation.file.privates}
    assert not made & taken
    assert all(name.startswith("_") for name in made)


def test_comparison_finds_differences() -> None:
    case = next(case for case in RUN if case.expect)
    assert not compare(case, []).passed
