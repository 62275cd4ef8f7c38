"""Texts in CEDR made of valid ones at random: translated and compiled, or refused with an error of ours and its place.

In a long run a hundred thousand are tried. A text that failed once is in `FAILED` from then on.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from distced.detectors.compiler import compile_file, compile_translation
from distced.detectors.conformance.cases import load_cases
from distced.detectors.frontends.cedr import translate
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_file
from tests.support.mutations import mutated_text
from tests.support.random_cedr import make_cedr

CASES = load_cases(Path(__file__).parents[1] / "conformance" / "languages" / "cedr.toml")
NUMBER, LONG = 400, 100_000
"""Texts in a plain run, and in a long one."""

FAILED: Final = (
    "Q: X EVENT_PATTERN A a WHERE " + " OR ".join(f"v > {number}" for number in range(3_000)),
    "Q: X EVENT_PATTERN A a WHERE v > " + "+".join("1" * 3_000),
    "Q: X EVENT_PATTERN A a WHERE v = " + "-" * 3_000 + "1",
    "Q: X EVENT_PATTERN A a WHERE " + "NOT " * 3_000 + "v = 1",
    "Q: X EVENT_PATTERN A a " + "CANCEL-WHEN B " * 3_000,
    "Q: X EVENT_PATTERN ALL(ATLEAST(40, A x), ATLEAST(40, B y)) WHERE x.v < y.v",
    "Q: X EVENT_PATTERN ALL(ATLEAST(100, A x), ATLEAST(100, B y), ATLEAST(100, C z))",
    f"Q: X EVENT_PATTERN SEQUENCE({', '.join(f'ANY(A a{number}, B b{number})' for number in range(30))})",
    "Q: X EVENT_PATTERN ATLEAST(100, A x) WHERE CorrelationKey(m, Unique)",
    "",
    "# nothing",
)
"""Texts that failed, or took long, once."""


def try_text(text: str) -> bool:
    """Whether a text is accepted."""
    try:
        translation = translate(text, TypeRegistry(open=True))
        made, _ = compile_translation(translation)
        again = compile_file(format_file(translation.file), TypeRegistry(open=True))
        assert [each.canonical_id for each in again] == [each.canonical_id for each in made]
    except DistcedError as error:
        assert str(error)
        return False
    return True


@pytest.mark.parametrize("text", FAILED, ids=range(len(FAILED)))
def test_texts_that_failed_once_are_refused(text: str) -> None:
    assert not try_text(text)


@pytest.mark.timeout(0)
def test_texts_at_random(at_length: bool) -> None:
    random = Random(11)
    corpus = [case.pattern for case in CASES]
    number = LONG if at_length else NUMBER
    accepted = 0
    for _ in range(number):
        text = mutated_text(random, random.choice((make_cedr(random), random.choice(corpus))), corpus)
        try:
            accepted += try_text(text)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}") from error
    assert number // 50 < accepted < number
