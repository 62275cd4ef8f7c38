"""Sentences and core patterns both ways: what is printed as a sentence reads back as a pattern of the same id.

Texts made of sentences at random are translated and compiled, or refused with an error of ours and its place. One that
failed once is in `FAILED` from then on.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from distced.detectors.compiler import compile_file, compile_publication, compile_translation
from distced.detectors.conformance.cases import load_cases
from distced.detectors.frontends.pretty import translate
from distced.detectors.frontends.pretty.sentence_printer import sentence
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_file
from distced.middleware.patterns.tree import Publication
from tests.support.mutations import mutated_text
from tests.support.random_patterns import PatternMaker
from tests.support.random_sentences import make_sentence

CASES = load_cases(Path(__file__).parents[1] / "conformance" / "languages" / "pretty.toml")
WORDS: Final = frozenset(
    {"alternation", "parallel", "iteration", "timing", "hidden", "window", "key", "guard", "output"}
)
"""Rows of the table of the core language that sentences have words for, in part."""

FAILED: Final = (
    "(" * 3_000 + "A",
    '"A" followed by "B" within 1 s' + ' followed by "B" within 1 s' * 3_000,
    '"A"' + ' and "B"' * 3_000,
    "any event" + " but any event" * 3_000,
    "A where " + " or ".join(f"v > {number}" for number in range(3_000)),
    " ".join(f'"x{number}" is "x{number + 1}".' for number in range(3_000)) + ' "x1"',
    '"x" is "y". "y" is "x". "x"',
    "",
    "# nothing",
    '"x" is A.',
)
"""Texts that failed, or took long, once."""


def ids_of(publication: Publication) -> str:
    return compile_publication(publication).canonical_id


def read_back(text: str) -> str:
    (publication,) = translate(text, TypeRegistry(open=True)).file.publications
    return ids_of(publication)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_sentences_of_patterns_read_back(at_length: bool) -> None:
    said, number = 0, 20_000 if at_length else 800
    for seed in range(number):
        random = Random(seed)
        publication = PatternMaker(random, WORDS).publication(random.choice((1, 2, 3, 4)))
        text = sentence(publication)
        if text is None:
            continue
        try:
            wanted = ids_of(publication)
        except PatternError:
            continue
        assert read_back(text) == wanted, f"seed {seed}: {text}"
        said += 1
    assert said > number / 10


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_sentences_are_printed_and_read_back(at_length: bool) -> None:
    said, tried, number = 0, 0, 20_000 if at_length else 800
    for seed in range(number):
        text = make_sentence(Random(seed))
        try:
            translation = translate(text, TypeRegistry(open=True))
            made, _ = compile_translation(translation)
        except PatternError as error:
            assert error.line or "never match" in error.problem, f"seed {seed}: {text}\n{error}"
            continue
        tried += 1
        again = compile_file(format_file(translation.file), TypeRegistry(open=True))
        assert [each.canonical_id for each in again] == [each.canonical_id for each in made], f"seed {seed}: {text}"
        for publication, compiled in zip(translation.file.publications, made, strict=True):
            printed = sentence(publication)
            if printed is not None:
                assert read_back(printed) == compiled.canonical_id, f"seed {seed}: {text}\n{printed}"
                said += 1
    assert tried > number * 0.6
    assert said > tried / 2


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
def test_mutated_sentences(at_length: bool) -> None:
    random = Random(11)
    corpus = [case.pattern for case in CASES]
    number = 100_000 if at_length else 400
    accepted = 0
    for _ in range(number):
        text = mutated_text(random, random.choice((make_sentence(random), random.choice(corpus))), corpus)
        try:
            accepted += try_text(text)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}") from error
    assert number // 50 < accepted < number
