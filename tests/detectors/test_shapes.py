"""Patterns compiled by their shape are the patterns compiled in full."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.detectors.automata.parameters import closed
from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime.pattern_index import concerns
from distced.detectors.shapes import ShapedPattern, Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry, derive, event_type
from distced.middleware.model.events import Event

TYPES = [event_type(name, {"d": "string", "e": "string", "v": "number"}) for name in "AB"]
REGISTRY = TypeRegistry(TYPES)

TEXTS = ["", " ", "!", "d1", "d10", "d2", "a", "b", "(", ")", "a)b", "ä", "text 0000", "and", "Z", "~"]

NUMBERS = ["0", "1", "2", "5", "9", "10", "90", "95", "-1", "-5", "1.5", "5.0", "95.0", "007", "100000000000000000000"]

ATOMS = [
    "[A where d == '{}']",
    "[B where d == '{}' and v > 90]",
    "[A where '{}' == d or e != '{}']",
    "[B where d < '{}' and not (e == '{}')]",
    "[A where d == '{}'] <= {{A, B}}",
    "[A as x where d == '{}' and v < 10]",
    "[B where d == '{}' or d == '{}' or d == '{}']",
    "[{{A, B}} where e >= '{}']",
    "[A where v > ?]",
    "[A where v > ? and v <= ? and d != '{}']",
    "[B where v == ? or v<? or not (v >= ?)]",
    "[A where v + 1 > ? and ? < v]",
    "[B where v != ? and d == '{}'] <= {{A where v == ?, B where v > ?}}",
    "[A where v > ? + 1 or v > -?]",
]
FRAMES = [
    "{0}",
    "{0} ; {1}",
    "{0} {1}",
    "({0} | {1}) ; {2}",
    "({0} ; {1}) within 1min",
    "({0} ; {1}) by v",
    "({0})+ ; {1}",
    "init n = 0 in (({0}) ; {1})",
    "({0}, [T]) @ T = 5min ; {1}",
    "{0} ; {1} -> Out(one = 1)",
    "({0} ; {1}) within 9s",
    "init n = 1 in (({0} ; {1} set n = n + 5)) -> Out(count = n) where count > ? and count < 90",
]


@st.composite
def patterns(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """A pattern with holes for texts, and for numbers, and two fillings."""
    atoms = [draw(st.sampled_from(ATOMS)) for _ in range(3)]
    written = draw(st.sampled_from(FRAMES)).format(*atoms)
    # Holes are numbered by what fills them.
    holes = written.count("'{}'")
    numbers = [draw(st.integers(0, 3)) for _ in range(holes)]
    counted = [draw(st.integers(0, 3)) for _ in range(written.count("?"))]
    return written.replace("{{", "{").replace("}}", "}"), *(
        [texts[number] for number in numbers] + [values[number] for number in counted]
        for texts, values in (
            [draw(st.lists(st.sampled_from(each), min_size=4, max_size=4)) for each in (TEXTS, NUMBERS)]
            for _ in range(2)
        )
    )


def filled(written: str, texts: list[str]) -> str:
    holes = written.count("'{}'")
    for each in texts[:holes]:
        written = written.replace("'{}'", f"'{each}'", 1)
    for each in texts[holes:]:
        written = written.replace("?", each, 1)
    return written


def events(random: Random, texts: list[str], count: int = 40) -> list[Event]:
    values = [*texts, "other"]
    return [
        Event(
            random.choice("AB"),
            hi - random.randrange(2),
            hi,
            "s",
            hi,
            {"d": random.choice(values), "e": random.choice(values), "v": random.choice((1, 5, 95))},
        )
        for hi in range(2, 2 + count)
    ]


@given(patterns(), st.integers(0, 10**6))
def test_pattern_of_a_known_shape_is_the_pattern_in_full(made: tuple[str, list[str], list[str]], seed: int) -> None:
    written, first, second = made
    shapes = Shapes()
    shapes.find(filled(written, first), REGISTRY)
    text = filled(written, second)
    shaped = shapes.find(text, REGISTRY)
    try:
        full = compile_pattern(text, REGISTRY)
    except DistcedError:
        assert shaped is None
        return
    if shaped is None:
        return
    assert shaped.canonical_id == full.canonical_id
    assert shaped.text == full.text
    assert (shaped.names(), shaped.named()) == (full.names(), full.named())
    assert shaped.reads(REGISTRY) == full.reads(REGISTRY)
    assert (shaped.publishes, shaped.throttlings, shaped.epochs) == (full.publishes, full.throttlings, full.epochs)
    # Texts for messages alone name the stand-ins.
    assert str(closed(shaped.automaton).states) == str(full.automaton.states)
    for own, other in zip(closed(shaped.automaton).positions, full.automaton.positions, strict=True):
        assert (own.label, own.domain, own.updates) == (other.label, other.domain, other.updates)
    assert closed(shaped.automaton).output == full.automaton.output
    assert concerns(shaped) == concerns(full)

    random = Random(seed)
    stream = events(random, second)
    half = random.randrange(len(stream))
    kinds = {each.name: each.attributes for each in TYPES}.get
    one, other = StepwiseEngine([shaped], kinds), StepwiseEngine([full], kinds)
    assert one.feed(stream[:half]) == other.feed(stream[:half])
    assert snapshot(one) == snapshot(other)
    again = StepwiseEngine([shaped], kinds)
    restore(again, snapshot(other))
    assert again.feed(stream[half:]) == other.feed(stream[half:])
    assert again.finish() == other.finish()


def test_shape_is_compiled_once() -> None:
    shapes = Shapes()
    for number in range(100):
        text = f"[A where d == 'd{number:03}' and v > 90] ; [B where d == 'd{number:03}'] within 1min"
        assert isinstance(shapes.find(text, REGISTRY), ShapedPattern)
    assert shapes.compiled == 1
    # Equal texts are another shape than different ones, and so is the other order.
    assert shapes.find("[A where d == 'b' and v > 90] ; [B where d == 'a'] within 1min", REGISTRY) is not None
    assert shapes.find("[A where d == 'a' and v > 90] ; [B where d == 'b'] within 1min", REGISTRY) is not None
    assert shapes.compiled == 3


def test_numbers_are_no_part_of_the_shape() -> None:
    shapes = Shapes()
    for number in range(10, 99):
        assert (
            shapes.find(f"[A where v > {number}] ; [B where v<={number}.5 and d == 'd{number}']", REGISTRY) is not None
        )
        assert shapes.find(f"[A where v > -{number} and v < {number}]", REGISTRY) is not None
    assert shapes.compiled == 2
    # 9 stands behind 10, 1 and 1.0 are different, and -0 is 0.
    orders = {"9": "10", "10": "9", "8": "8", "1": "1.0"}
    found = [shapes.find(f"[A where v > {one} and v < {other}]", REGISTRY) for one, other in orders.items()]
    assert [each is not None and each.shape.numbers for each in found]
    assert len({each.shape for each in found if each is not None}) == 3
    assert shapes.find("[A where v > -0]", REGISTRY) is None


def test_other_numbers_are_part_of_the_shape() -> None:
    shapes = Shapes()
    for number in range(10):
        for text in (
            f"[A where v > {number} + 1 and d == 'a']",
            f"[A where {number} < v and d == 'a']",
            f"[A where v > {number} and 5 < v and d == 'a']",
            f"[A where d == 'a'] within {number + 1}s",
            f"[A where d == 'a']{{{number + 1}}}",
        ):
            found = shapes.find(text, REGISTRY)
            assert found is not None and found.constants == ("a",), text
    known = TypeRegistry([*TYPES, derive(TYPES[0], "Large", where="v > 50")])
    assert shapes.find("[Large where v < 70]", known) is None


@pytest.mark.parametrize(
    "text",
    [
        "[A]",
        "[A where d == lower('X')]",
        "[A where d == 'a' + 'b']",
        "[A where 'a' == 'b' or v > 1]",
        "[A where d == 'it\\'s']",
        '[A where d == "a"]',
        "[A where d == 'a'] # 'b'",
        "[A where d == '!' or e == '!!'",
        "[A where d == 'a']  ([B] & [A where d == 'c'])",
        "[Some where d == 'a']",
    ],
)
def test_pattern_without_a_shape_is_compiled_in_full(text: str) -> None:
    known = TypeRegistry([*TYPES, derive(TYPES[0], "Some", where="e == 'b'")])
    assert Shapes().find(text, known) is None


def test_shape_is_compiled_again_when_a_type_it_reads_changes() -> None:
    shapes = Shapes()
    text = "[A where d == 'a']"
    first = shapes.find(text, REGISTRY)
    assert shapes.find(text, TypeRegistry([*TYPES, event_type("C")])) is not None
    assert shapes.compiled == 1
    other = TypeRegistry([event_type("A", {"d": "string"}), TYPES[1]])
    again = shapes.find(text, other)
    assert shapes.compiled == 2
    assert first is not None and again is not None and first.shape is not again.shape
    assert shapes.find(text, TypeRegistry([TYPES[1]])) is None


def test_texts_beyond_the_number_of_stand_ins_have_no_shape() -> None:
    many = " or ".join(f"d == '{number:05}'" for number in range(1_001))
    assert Shapes().find(f"[A where {many}]", REGISTRY) is None
