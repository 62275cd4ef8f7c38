"""Texts in other languages made of valid ones at random: taken, or refused with an error of ours that has a place.

They are translated and compiled as on a node, and run on some events. In a long run a hundred thousand of each language
are tried.
"""

from __future__ import annotations

from collections.abc import Callable
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
from tests.support.random_cedmos import make_cedmos
from tests.support.random_cedr import make_cedr
from tests.support.random_sentences import make_sentence

CASES: Final = Path(__file__).parents[1] / "conformance" / "languages"
NUMBER, LONG = 400, 100_000
FEW: Final = Limits(instances=2_000, work=2_000, memory=2**22, text=1_000)

MAKERS: Final[dict[str, Callable[[Random], str]]] = {
    "cedmos": make_cedmos,
    "cedr": make_cedr,
    "pretty": make_sentence,
}
"""Makers of valid texts, whose types are open."""

_HEAD: Final = "transformer X state n = 0 visible firing on A do "
FAILED: Final = (
    ("pretty", "".join(f"s{number} is s{number - 1} or s{number - 1}. " for number in range(1, 40)) + "s39."),
    ("pretty", f"a is {' or '.join('A' * 1_000)}. b is {' or '.join('a' * 1_000)}. c is {' or '.join('b' * 500)}. c."),
    ("pretty", f"a is {' or '.join('A' * 900)}. {'a then ' * 1_000}a."),
    ("cedr", f"Q: X EVENT_PATTERN ALL({', '.join(f'A a{number}' for number in range(1_000))})"),
    ("cedr", f"Q: X EVENT_PATTERN ALL({', '.join(f'ALL(A a{number}, A b{number})' for number in range(500))})"),
    ("cedr", f"Q: X EVENT_PATTERN SEQUENCE({', '.join(f'A a{number}' for number in range(900))})"),
    ("cedr", " ".join(f"Q: X{each} EVENT_PATTERN ALL(A a, B b, C c, D d, E e)" for each in range(100))),
    ("pretty", "a is A where " + "+".join("1" * 90) + " > v. " + "a then " * 1_000 + "a."),
    ("cedmos", _HEAD + "if n = 0 then " * 3_000 + "n = 1"),
    ("cedmos", _HEAD + "n = " + "-" * 3_000 + "1"),
    ("cedmos", _HEAD + "n = " + "+".join("1" * 3_000)),
    ("cedmos", _HEAD + "n = " + "if(n = 0, 1, " * 3_000 + "1" + ")" * 3_000),
    ("cedmos", _HEAD + "if " + " or ".join(f"n = {number}" for number in range(3_000)) + " then n = 1"),
    ("cedmos", _HEAD + "if n = 0 then " + "{" * 3_000),
    ("cedmos", f"operator X = sequence({', '.join('A' for _ in range(3_000))})"),
    ("cedmos", "# nothing"),
    ("cedr", "Q: X EVENT_PATTERN A a WHERE " + " OR ".join(f"v > {number}" for number in range(3_000))),
    ("cedr", "Q: X EVENT_PATTERN A a WHERE v > " + "+".join("1" * 3_000)),
    ("cedr", "Q: X EVENT_PATTERN A a WHERE v = " + "-" * 3_000 + "1"),
    ("cedr", "Q: X EVENT_PATTERN A a WHERE " + "NOT " * 3_000 + "v = 1"),
    ("cedr", "Q: X EVENT_PATTERN A a " + "CANCEL-WHEN B " * 3_000),
    ("cedr", "Q: X EVENT_PATTERN ALL(ATLEAST(40, A x), ATLEAST(40, B y)) WHERE x.v < y.v"),
    ("cedr", "Q: X EVENT_PATTERN ALL(ATLEAST(100, A x), ATLEAST(100, B y), ATLEAST(100, C z))"),
    ("cedr", f"Q: X EVENT_PATTERN SEQUENCE({', '.join(f'ANY(A a{number}, B b{number})' for number in range(30))})"),
    ("cedr", "Q: X EVENT_PATTERN ATLEAST(100, A x) WHERE CorrelationKey(m, Unique)"),
    ("cedr", "# nothing"),
    ("pretty", "(" * 3_000 + "A"),
    ("pretty", '"A" followed by "B" within 1 s' + ' followed by "B" within 1 s' * 3_000),
    ("pretty", '"A"' + ' and "B"' * 3_000),
    ("pretty", "any event" + " but any event" * 3_000),
    ("pretty", "A where " + " or ".join(f"v > {number}" for number in range(3_000))),
    ("pretty", " ".join(f'"x{number}" is "x{number + 1}".' for number in range(3_000)) + ' "x1"'),
    ("pretty", '"x" is "y". "y" is "x". "x"'),
    ("pretty", "# nothing"),
    ("pretty", '"x" is A.'),
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
        if language in MAKERS and random.random() < 0.5:
            given, types = MAKERS[language](random), None
        registry = TypeRegistry(types or (), open=types is None)
        text = mutated_text(random, given, corpus)
        try:
            taken += len(text) <= LIMITS.pattern_length and attempt(text, language, registry, events)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for the text {text!r}") from error
    assert number // 50 < taken < number


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("piece", ["(", "[", "{", "NOT ", "S ", "¬", "((S", "SELECT ", "σ[p=1]", "FILTER{p=1}", "1+"])
def test_deep_or_long_text_is_taken_or_refused(language: str, piece: str) -> None:
    for number in (60, 2_000):
        with suppress(DistcedError):
            translate(piece * number, language, TypeRegistry([EventType("S", {"p": "number"})]))


@pytest.mark.parametrize(("language", "text"), FAILED, ids=range(len(FAILED)))
def test_text_that_failed_or_took_long_once_is_refused(language: str, text: str) -> None:
    with pytest.raises(DistcedError, match="at line"):
        compile_translation(translate(text, language, TypeRegistry(open=True)))


@pytest.mark.parametrize("language", MAKERS)
def test_empty_text_is_refused(language: str) -> None:
    with pytest.raises(DistcedError, match="a text without"):
        translate("", language, TypeRegistry(open=True))


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
def test_long_text_is_taken(text: str) -> None:
    assert attempt(text, "cedmos", TypeRegistry(open=True), ())
