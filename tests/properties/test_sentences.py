"""Sentences and core patterns both ways: what is printed as a sentence reads back as a pattern of the same id.

Texts that are mutated are among those of all languages (`test_hostile_languages`).
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
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.printer import format_file
from distced.middleware.patterns.tree import Publication
from tests.support.random_patterns import PatternMaker
from tests.support.random_sentences import make_sentence

CASES = load_cases(Path(__file__).parents[1] / "conformance" / "languages" / "pretty.toml")
WORDS: Final = frozenset(
    {"alternation", "parallel", "iteration", "timing", "hidden", "window", "key", "guard", "output"}
)
"""Rows of the table of the core language that sentences have words for, in part."""

FAILED: Final = (1436,)
"""Seeds whose sentences once meant something else: a domain that names its time event twice."""


def ids_of(publication: Publication) -> str:
    return compile_publication(publication).canonical_id


def read_back(text: str) -> str:
    (publication,) = translate(text, TypeRegistry(open=True)).file.publications
    return ids_of(publication)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_sentences_of_patterns_read_back(at_length: bool) -> None:
    said, number = 0, 20_000 if at_length else 800
    for seed in (*FAILED, *range(number)):
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
