"""Large patterns run, and those beyond measure are refused before they do harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.frontends.algebra import algebra_parser
from distced.detectors.frontends.cel import cel_parser
from distced.detectors.language.parser import parse_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event


def found(text: str, events: list[Event]) -> list[list[int]]:
    engine = StepwiseEngine([compile_pattern(text)])
    return [[each.seq for each in one.events] for one in [*engine.feed(events), *engine.finish()]]


def events_of(*types: str, value: int = 0) -> list[Event]:
    return [Event(name, seq, seq, "e", seq, {"v": value}) for seq, name in enumerate(types)]


def test_pattern_of_a_thousand_atoms_compiles() -> None:
    text = " ".join(f"[A{index}]" for index in range(1000))
    assert found(text, events_of(*(f"A{index}" for index in range(1000)))) == [list(range(1000))]


def test_sequence_of_a_thousand_atoms_compiles() -> None:
    text = ";".join(["[A]"] * 1000)
    assert found(text, events_of(*["A"] * 1001)) == [list(range(1000)), list(range(1, 1001))]


def test_pattern_of_two_hundred_alternatives_compiles() -> None:
    text = "([X] (" + "|".join(f"[A{index}]" for index in range(200)) + "))"
    assert found(text, events_of("X", "A7", "A199", "A7")) == [[0, 1], [0, 2]]


def test_iteration_of_two_hundred_alternatives_compiles() -> None:
    text = "(" + "|".join(f"[A{index}]" for index in range(200)) + "){2}"
    assert found(text, events_of("A7", "A199")) == [[0, 1]]


def test_label_of_a_thousand_conditions_compiles() -> None:
    text = "[" + ", ".join(f"A where v == {index}" for index in range(1000)) + "]"
    assert found(text, events_of("A", value=999)) == [[0]]
    assert found(text, events_of("A", value=1000)) == []


def test_chain_of_ninety_operators_compiles() -> None:
    text = "[A where " + " or ".join(f"v == {index}" for index in range(90)) + "]"
    assert found(text, events_of("A", value=89)) == [[0]]
    assert found("[A where v" + " + 1" * 90 + " == 90]", events_of("A")) == [[0]]


def test_iteration_of_hundreds_of_rounds_compiles() -> None:
    assert found("[A]{400}", events_of(*["A"] * 400)) == [list(range(400))]
    assert found("[A]{399,400}", events_of(*["A"] * 399)) == [list(range(399))]


DEEP = {
    "parentheses": lambda n: "(" * n + "[A]" + ")" * n,
    "brackets": lambda n: "[" * n + "[A] <= A]" * n,
    "hidings": lambda n: "~" * n + "[A]",
    "timings": lambda n: "([A]," * n + "[A]" + ") @ T = 5s" * n,
    "iterations": lambda n: "[A]" + "*" * n,
    "windows": lambda n: "[A]" + " within 5s" * n,
    "keys": lambda n: "[A]" + " by k" * n,
    "registers": lambda n: "init n = 0 : " * n + "[A]",
    "parallels": lambda n: "[A]" + " & [A]" * n,
    "sets in parentheses": lambda n: "[" + "(" * n + "A" + ")" * n + "]",
    "sets in braces": lambda n: "[" + "{" * n + "A" + "}" * n + "]",
    "differences": lambda n: "[any" + " - A" * n + "]",
    "filters": lambda n: "[A" + " where v" * n + "]",
    "expressions in parentheses": lambda n: "[A where " + "(" * n + "v" + ")" * n + "]",
    "negations": lambda n: "[A where " + "not " * n + "v]",
    "minus signs": lambda n: "[A where " + "- " * n + "v > 1]",
    "calls": lambda n: "[A where " + "abs(" * n + "v" + ")" * n + " > 1]",
    "sums": lambda n: "[A where v" + " + v" * n + " > 1]",
    "conditions": lambda n: "[A where v" + " and v" * n + "]",
    "outputs": lambda n: "[A] -> Out(v = 1" + " + 1" * n + ")",
    "final filters": lambda n: "[A] -> Out() where 1" + " + 1" * n + " > 1",
}


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", [200, 10_000])
def test_too_deep_patterns_are_refused(kind: str, depth: int) -> None:
    with pytest.raises(PatternError, match="nested too deeply, or too many operators in a row") as caught:
        parse_publication(DEEP[kind](depth))
    assert caught.value.line == 1
    assert "use definitions" in str(caught.value)


def test_chain_of_operators_is_as_long_as_its_error_says() -> None:
    parse_publication("[A] -> Out(v = 1" + " + 1" * 99 + ")")
    with pytest.raises(PatternError, match="45 levels, 100 with each operator of a row"):
        parse_publication("[A] -> Out(v = 1" + " + 1" * 100 + ")")


@pytest.mark.parametrize(
    ("parse", "text", "joined", "most", "allowed"),
    [
        (cel_parser.parse, "FROM A", " NEXT A", 200, "200 NEXT and FOLD"),
        (cel_parser.parse, "FROM A", " FOLD {,,} A", 200, "200 NEXT and FOLD"),
        (algebra_parser.parse, "A", "; A", 200, "200 ;"),
        (algebra_parser.parse, "A", " ∪ A", 199, "200 streams joined by ∪"),
    ],
)
def test_chain_of_streams_is_as_long_as_its_error_says(
    parse: Callable[[str], object], text: str, joined: str, most: int, allowed: str
) -> None:
    parse(text + joined * most)
    with pytest.raises(PatternError, match="too many in a row") as caught:
        parse(text + joined * (most + 1))
    assert caught.value.allowed == allowed


@pytest.mark.parametrize("kind", DEEP)
def test_deep_patterns_within_the_limit_compile(kind: str) -> None:
    text = DEEP[kind](20)
    if kind in ("timings", "registers"):
        # Each needs a name of its own.
        for index in range(20):
            text = text.replace("T =", f"T{index} =", 1).replace("n =", f"n{index} =", 1)
    if kind == "differences":
        text = text.replace("any - A", "any", 1)
    if kind == "hidings":
        text += "[A]"
    compiled = compile_pattern(text)
    assert parse_publication(compiled.text) == compiled.publication


def test_chained_definitions_compile() -> None:
    chain = "D0 = [A]\n" + "".join(f"D{index} = [A] | D{index - 1} ; [B]\n" for index in range(1, 20))
    (compiled,) = compile_file(chain + "D19 -> Out()\n")
    assert parse_publication(compiled.text) == compiled.publication
    longer = "D0 = [A]\n" + "".join(f"D{index} = ([A] | D{index - 1})*\n" for index in range(1, 2000))
    with pytest.raises(PatternError, match="nested too deeply"):
        compile_file(longer + "D1999 -> Out()\n")


def test_multiplying_definitions_are_refused() -> None:
    text = "D0 = [A]\n" + "".join(f"D{index} = D{index - 1} D{index - 1}\n" for index in range(1, 40))
    with pytest.raises(PatternError, match="definitions that multiply beyond measure"):
        compile_file(text + "D39 -> Out()\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("([A]{1000}){1000}", "up to 2000 atoms"),
        ("(([A]{100}){100}){100}", "up to 2000 atoms"),
        (" ".join(["[A]"] * 2_001), "up to 2000 atoms"),
        ("([A]*){600}", "up to 100000 paths"),
        ("([A]*){1900}", "up to 100000 paths"),
        (" ; ".join(f"[A{index}]*" for index in range(1900)), "up to 100000 paths"),
        ("(" + "|".join(f"[A{index}]" for index in range(400)) + ")*", "up to 100000 paths"),
        (
            "(" + "|".join(f"[A{index}]*" for index in range(20)) + "){4}[B]",
            "alternations combine to too many instances",
        ),
    ],
    ids=[
        "count of a count",
        "three counts",
        "atoms in a row",
        "loops",
        "very many loops",
        "loops in a row",
        "alternatives in a loop",
        "loops in a count",
    ],
)
def test_too_large_patterns_are_refused(text: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "x" * 100_000,
        "9" * 100_000,
        "[A where v == '" + "x" * 100_000,
        "[A where v > " + "9" * 100_000 + "]",
        "[A] within " + "9" * 100_000 + "s",
        "[A] within 0." + "1" * 100_000 + "s",
        "[A]{" + "1" * 100_000 + "}",
        "#" * 100_000,
        "\n" * 100_000 + "]",
    ],
)
def test_huge_texts_give_short_errors(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_publication(text)
    assert len(str(caught.value)) < 1000
