"""Texts in other languages made of valid ones at random: taken, or refused with an error of ours that has a place.

They are translated and compiled as on a node, and run on some events. In a long run a hundred thousand of each language
are tried.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pytest

from distced.brokers.core.node_location import LIMITS
from distced.detectors.compiler import compile_file, compile_translation
from distced.detectors.conformance.cases import load_cases
from distced.detectors.frontends.languages import LANGUAGES, translate
from distced.detectors.limits import Limits
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.patterns.printer import format_file
from tests.support.mutations import mutated_text

CASES: Final = Path(__file__).parents[1] / "conformance" / "languages"
NUMBER, LONG = 400, 100_000
FEW: Final = Limits(instances=2_000, work=2_000, memory=2**22, text=1_000)

FAILED: Final = (
    ("pretty", "".join(f"s{number} is s{number - 1} or s{number - 1}. " for number in range(1, 40)) + "s39."),
    ("pretty", f"a is {' or '.join('A' * 1_000)}. b is {' or '.join('a' * 1_000)}. c is {' or '.join('b' * 500)}. c."),
    ("pretty", f"a is {' or '.join('A' * 900)}. {'a then ' * 1_000}a."),
    ("cedr", f"Q: X EVENT_PATTERN ALL({', '.join(f'A a{number}' for number in range(1_000))})"),
    ("cedr", f"Q: X EVENT_PATTERN ALL({', '.join(f'ALL(A a{number}, A b{number})' for number in range(500))})"),
    ("cedr", f"Q: X EVENT_PATTERN SEQUENCE({', '.join(f'A a{number}' for number in range(900))})"),
    ("cedr", " ".join(f"Q: X{each} EVENT_PATTERN ALL(A a, B b, C c, D d, E e)" for each in range(100))),
    ("pretty", "a is A where " + "+".join("1" * 90) + " > v. " + "a then " * 1_000 + "a."),
)
"""Texts that failed, or took long, once, with their languages: refused."""


@cache
def texts(language: str) -> tuple[tuple[str, tuple[EventType, ...] | None, tuple[Event, ...]], ...]:
    """Texts of the conformance cases, with their types and events."""
    return tuple(
        (case.pattern, None if case.types is None else tuple(case.types.values()), case.events)
        for file in sorted(CASES.glob("*.toml"))
        for case in load_cases(file)
        if case.language == language
    )


def attempt(text: str, language: str, registry: TypeRegistry, events: tuple[Event, ...]) -> bool:
    """Translate, print, compile and run; False for a text that is refused."""
    if len(text) > LIMITS.pattern_length:
        return False
    try:
        translation = translate(text, language, registry)
        compiled, _ = compile_translation(translation, registry)
    except DistcedError as error:
        assert str(error)
        return False
    again = compile_file(format_file(translation.file), registry)
    assert [each.canonical_id for each in again] == [each.canonical_id for each in compiled]
    engine = StepwiseEngine(compiled)
    engine.limit(FEW)
    try:
        engine.feed(sorted(events, key=lambda each: each.key))
        engine.finish()
    except DistcedError as error:
        assert str(error)
    return True


@pytest.mark.timeout(0)
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_at_random(language: str, at_length: bool) -> None:
    random = Random(7)
    corpus = [text for text, _, _ in texts(language)]
    taken = 0
    number = LONG if at_length else NUMBER
    for _ in range(number):
        given, types, events = random.choice(texts(language))
        registry = TypeRegistry(types or (), open=types is None)
        text = mutated_text(random, given, corpus)
        try:
            taken += attempt(text, language, registry, events)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for the text {text!r}") from error
    assert 0 < taken < number


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("piece", ["(", "[", "{", "NOT ", "S ", "¬", "((S", "SELECT ", "σ[p=1]", "FILTER{p=1}", "1+"])
def test_deep_or_long_text_is_taken_or_refused(language: str, piece: str) -> None:
    for number in (60, 2_000):
        with suppress(DistcedError):
            translate(piece * number, language, TypeRegistry([EventType("S", {"p": "number"})]))


@pytest.mark.parametrize(("language", "text"), FAILED, ids=range(len(FAILED)))
def test_text_that_failed_or_took_long_once_is_refused(language: str, text: str) -> None:
    with pytest.raises(DistcedError, match="at line"):
        translate(text, language, TypeRegistry(open=True))
