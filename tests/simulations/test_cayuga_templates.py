"""Cayuga's technical benchmark in its own languages: the templates find what their patterns in the core find.

cayuga-algebra-cesar, section 5.1: the stream has one event a tick, so consumption by epochs makes no difference. What
the nondeterministic templates skip is hidden in the core, and a part of the run in µ: intervals and numbers are equal.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import pytest

from distced.detectors.compiler import Compiled, compile_pattern, compile_translation
from distced.detectors.frontends.languages import translate
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.sets.expressions import format_expression
from distced.simulations.benchmarks.cayuga_queries import (
    CONTINUOUS,
    DISCRETE,
    TEMPLATES,
    Parameters,
    Query,
    Template,
    compiled_query,
    queries,
    text_of,
)

KINDS: Final = dict.fromkeys((*DISCRETE, *CONTINUOUS), "number")
REGISTRY: Final = TypeRegistry([EventType("S", KINDS)])  # type: ignore[arg-type]

IN_CAYUGA: Final[dict[Template, str]] = {
    "LinearStat": "σ[{2}] (σ[{1}] (σ[{0}] S as S1 ; S as S2) ; S as S3)",
    "LinearDyn": "σ[{2} ∧ S3.w >= S2.w] (σ[{1} ∧ S2.w >= S1.w] (σ[{0}] S as S1 ; S as S2) ; S as S3)",
    "Filter": "σ[{2}] (σ[{1}] (σ[{0}] S as S1 ;[DUR < 20 ∧ {4}] S as S2) ;[DUR < 20 ∧ {5}] S as S3)",
    "NonDeterministic": (
        "σ[{2}] µ[id; DUR < 20 ∧ {5}; {3}](σ[{1}] µ[id; DUR < 20 ∧ {4}](σ[{0}] S as S1, S as S2), S as S3)"
    ),
    "NonDeterministicAgg": (
        "α[s = S1.w + S2.w + S3.w] "
        "σ[{2}] µ[id; DUR < 20 ∧ {5}; {3}](σ[{1}] µ[id; DUR < 20 ∧ {4}](σ[{0}] S as S1, S as S2), S as S3)"
    ),
}


def _in_step(text: str, step: int) -> str:
    """A condition over the event of a step."""
    return " ".join(f"S{step}.{word}" if word in KINDS else word for word in text.split())


def _text(template: Template, steps: list[str], primary: str) -> str:
    first, second, third = steps
    # Of two earlier steps the last one is what the round before is.
    begins = ", ".join(f"S3.{name} from S2.{name}" for name in KINDS)
    conditions = (first, _in_step(second, 2), _in_step(third, 3), begins, _in_step(primary, 2), _in_step(primary, 3))
    return IN_CAYUGA[template].format(*conditions).replace(" and ", " ∧ ").replace(" == ", " = ")


def _compiled(query: Query, template: Template, language: str) -> Compiled:
    if language == "cel":
        return compiled_query(text_of(query, template, "cel"), "cel")
    text = _text(template, [format_expression(each) for each in query.steps], format_expression(query.primary))
    return compile_translation(translate(text, "algebra", REGISTRY), REGISTRY)[0][0]


@pytest.mark.parametrize("language", ["algebra", "cel"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_template_finds_what_its_pattern_in_the_core_finds(template: Template, language: str) -> None:
    # Consecutive events are rarely those that are asked for.
    domain = 1 if template.startswith("Linear") else 2
    parameters = Parameters(template, selectivity=0.95, domain=domain)
    random = Random(1)
    events = [
        Event(
            "S", tick, tick, "stream", tick,
            {**{name: random.randrange(domain) for name in DISCRETE}, **{name: random.random() for name in CONTINUOUS}},
        )
        for tick in range(300)
    ]  # fmt: skip
    matches = 0
    for query in queries(parameters, 6):
        core = StepwiseEngine([compile_pattern(text_of(query, template), REGISTRY)])
        cayuga = StepwiseEngine([_compiled(query, template, language)])
        expected, found = core.feed(events) + core.finish(), cayuga.feed(events) + cayuga.finish()
        if template == "NonDeterministicAgg":
            sums = [
                Counter((each.lo, each.hi, round(float(str(each.attributes["s"])), 9)) for each in some)
                for some in (expected, found)
            ]
            assert sums[0] == sums[1]
        assert Counter((each.lo, each.hi) for each in found) == Counter((each.lo, each.hi) for each in expected)
        matches += len(expected)
    assert matches > 20
