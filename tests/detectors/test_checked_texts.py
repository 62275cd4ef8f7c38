"""Texts in other languages are checked once for all of their queries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from distced.detectors.checked_texts import MOST, CheckedTexts
from distced.detectors.compiler import check_text
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry, derive, event_type
from distced.middleware.model.published_types import PublishedType, publish
from tests.support.random_algebra import AlgebraMaker
from tests.support.random_cedmos import make_cedmos
from tests.support.random_cel import SCHEMAS, CelMaker
from tests.support.random_sentences import make_sentence

A, B = event_type("A", {"v": "number"}), event_type("B", {"v": "number"})
TWO = "SELECT v FROM A PUBLISH P SELECT v FROM P PUBLISH Q"


def find(texts: CheckedTexts, *types: EventType, text: str = TWO) -> object:
    return texts.find(text, "cel", TypeRegistry(types))[0]


def test_text_is_checked_again_when_a_type_changes() -> None:
    texts = CheckedTexts()
    first = find(texts, A)
    assert find(texts, A, B) is first
    assert find(texts, event_type("A", {"v": "number", "w": "number"})) is not first
    assert find(texts, event_type("P", {"v": "number"})) is not first
    assert texts.checked == 3


def test_types_that_a_text_publishes_change_nothing() -> None:
    texts = CheckedTexts()
    first = find(texts, A)
    assert find(texts, A, event_type("P", {"v": "number"}), event_type("Q", {"v": "number"})) is first
    others = find(texts, A, event_type("P", {"v": "string"}))
    assert others is not first
    again = TypeRegistry([A])
    derived = derive(A, "P", where="v > 3")
    assert find(texts, A, derived) is not first
    # What a pattern leaves open is part of the type.
    publish(again, PublishedType("P", {"v": "number"}, frozenset({"w"})))
    assert texts.find(TWO, "cel", again)[0] is not first


def test_text_used_last_is_kept() -> None:
    texts = CheckedTexts()
    given = [f"SELECT v FROM FILTER{{v > {number}}} A PUBLISH P" for number in range(MOST)]
    for text in given:
        find(texts, A, text=text)
    texts.absorb(texts.only(given[0], "cel", "ordered"))
    find(texts, A, text="SELECT v FROM A PUBLISH P")
    checked = texts.checked
    find(texts, A, text=given[0])
    assert texts.checked == checked


def test_faulty_text_is_checked_once() -> None:
    texts = CheckedTexts()
    found = [texts.find(f"{TWO} SELECT w FROM A PUBLISH R", "cel", TypeRegistry([A]))[0] for _ in range(2)]
    for each in (*found, *found):
        with pytest.raises(DistcedError, match="no attribute w") as caught:
            each.query("P")
        depth = len(caught.traceback)
    assert depth <= 2, "it keeps the stacks of its callers"
    assert texts.checked == 1


def test_number_of_texts_is_bounded() -> None:
    texts = CheckedTexts()
    for number in range(MOST + 1):
        find(texts, A, text=f"SELECT v FROM FILTER{{v > {number}}} A")
    find(texts, A, text="SELECT v FROM FILTER{v > 1} A")
    assert texts.checked == MOST + 1
    find(texts, A, text="SELECT v FROM FILTER{v > 0} A")
    assert texts.checked == MOST + 2
    other = CheckedTexts()
    other.absorb(texts)
    other.absorb(texts.only("SELECT v FROM FILTER{v > 0} A", "cel", "ordered"))
    find(other, A, text="SELECT v FROM FILTER{v > 1} A")
    assert other.checked == MOST + 2


STREAMS = [
    EventType(name, {each: "string" if each == "n" else "number" for each in names}) for name, names in SCHEMAS.items()
]
PLAIN = [EventType(name, dict.fromkeys(("k", "v", "n", "w"), "number")) for name in "ABCD"]
MAKERS: dict[str, tuple[Callable[[Random], str], list[EventType]]] = {
    "cel": (lambda random: f"{CelMaker(random).query(4).text} PUBLISH Y", STREAMS),
    "algebra": (lambda random: AlgebraMaker(random).query(4).text, STREAMS),
    "cedmos": (make_cedmos, PLAIN),
    "pretty": (make_sentence, PLAIN),
}


@pytest.mark.parametrize("language", MAKERS)
def test_random_texts_mean_the_same_once_their_types_are_published(language: str) -> None:
    make, types = MAKERS[language]
    tried = 0
    for seed in range(100):
        text, registry = make(Random(seed)), TypeRegistry(types)
        before = check_text(text, language, registry)
        for each in before.published.values():
            publish(registry, each)
        after = check_text(text, language, registry)
        assert after.published == before.published and str(after.error) == str(before.error)
        found = [[(each.canonical_id, each.published) for each in one.compiled.values()] for one in (before, after)]
        assert found[0] == found[1], f"seed {seed}\n{text}"
        tried += len(before.published) > 0
    assert tried > 10
