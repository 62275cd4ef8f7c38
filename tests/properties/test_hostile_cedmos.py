"""Texts in CEDMOS made of valid ones at random: translated and compiled, or refused with an error and its place.

In a long run a hundred thousand are tried. A text that failed once is in `FAILED` from then on.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from distced.detectors.compiler import compile_file, compile_translation
from distced.detectors.conformance.cases import load_cases
from distced.detectors.frontends.cedmos import translate
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_file
from tests.support.mutations import mutated_text
from tests.support.random_cedmos import make_cedmos

CASES = load_cases(Path(__file__).parents[1] / "conformance" / "languages" / "cedmos.toml")
NUMBER, LONG = 400, 100_000
"""Texts in a plain run, and in a long one."""

_HEAD: Final = "transformer X state n = 0 visible firing on A do "
FAILED: Final = (
    _HEAD + "if n = 0 then " * 3_000 + "n = 1",
    _HEAD + "n = " + "-" * 3_000 + "1",
    _HEAD + "n = " + "+".join("1" * 3_000),
    _HEAD + "n = " + "if(n = 0, 1, " * 3_000 + "1" + ")" * 3_000,
    _HEAD + "if " + " or ".join(f"n = {number}" for number in range(3_000)) + " then n = 1",
    _HEAD + "if n = 0 then " + "{" * 3_000,
    f"operator X = sequence({', '.join('A' for _ in range(3_000))})",
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


@pytest.mark.parametrize(
    "text",
    [
        _HEAD + "; ".join(["n = n + n"] * 1_000),
        _HEAD + "; ".join(f"if n = {number} then n = n + 1 else n = n - 1" for number in range(300)),
        f"operator X = sequence({', '.join('A' for _ in range(40))})",
        "\n".join(f"transformer X{n} state n = 0 visible firing on X{n + 1} do n = n + 1" for n in range(40)),
    ],
    ids=["assignments", "choices", "sequence", "transformers"],
)
def test_long_texts_are_accepted(text: str) -> None:
    assert try_text(text)


@pytest.mark.timeout(0)
def test_texts_at_random(at_length: bool) -> None:
    random = Random(11)
    corpus = [case.pattern for case in CASES]
    number = LONG if at_length else NUMBER
    accepted = 0
    for _ in range(number):
        text = mutated_text(random, random.choice((make_cedmos(random), random.choice(corpus))), corpus)
        try:
            accepted += try_text(text)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}") from error
    assert number // 50 < accepted < number
