"""What a pattern cannot mean, told with its place, what was given, what is allowed and what to do; and what it can."""

from __future__ import annotations

import pytest

from distced.detectors import compiler
from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.language.check import check
from distced.detectors.language.parser import parse_publication
from distced.detectors.language.private import types_named
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.patterns.tree import Pattern

TYPES = (
    EventType("Pers", {"person": "string", "room": "string"}),
    EventType("Temp", {"temp": "number", "room": "string"}),
    EventType("Door", {"room": "string", "open": "boolean"}),
)


def registry() -> TypeRegistry:
    return TypeRegistry(TYPES)


@pytest.mark.parametrize(
    ("text", "column", "given", "message"),
    [
        ("[Prs]", 2, "Prs", "unknown event type: Prs (allowed: Door, Pers, Temp)"),
        ("[Temp <= {Temp, Prs}]", 17, "Prs", "unknown event type"),
        ("[ [Temp][Door] <= Prs ]", 19, "Prs", "unknown event type"),
        ("([Temp],[T]) @ T = 5s [T]", 24, "T", "unknown event type"),
        ("[Temp where tmp < 5]", 13, "tmp", "unknown attribute: tmp (allowed: temp, room)"),
        ("[{Temp, Door} where temp < 5]", 21, "temp", "unknown attribute: temp (allowed: room)"),
        ("[Temp where room < 5]", 13, "room < 5", "compares a string with a number"),
        ("[Temp where temp == 'a']", 13, "temp == 'a'", "compares a number with a string"),
        ("[Door where open == 1]", 13, "open == 1", "compares a boolean with a number"),
        ("[Temp where temp]", 13, "temp", "a number where a condition is wanted"),
        ("[Door where not room]", 17, "room", "a string where a condition is wanted"),
        ("[Temp where temp > 1 and temp]", 26, "temp", "a number where a condition is wanted"),
        (
            "[Temp where room * 2 > 1]",
            13,
            "room",
            "calculates with a string: room (allowed: numbers)",
        ),
        ("[Temp where -room > 1]", 14, "room", "calculates with a string"),
        ("[Door where open + open]", 13, "open", "adds a boolean: open (allowed: two numbers, or two strings)"),
        ("[Temp where lower(temp) == 'a']", 19, "temp", "lower of a number"),
        ("[Temp where max(temp, room) > 1]", 23, "room", "max of a string"),
        ("[Temp as x];[Pers where room == x.rom]", 33, "rom", "the events bound to 'x' have no such attribute"),
        ("[Temp as x];[Pers where room == y.room]", 33, "y", "nothing is bound to this variable: y (allowed: x)"),
        ("[Temp as x];[Pers where room == x]", 33, "x", "x is a variable: write x.attribute"),
        ("[Temp as x];[Pers where person == x.temp]", 25, "person == x.temp", "compares a string with a number"),
        ("[Temp];[Pers] by person", 2, "Temp", "the pattern is keyed by 'person', which 'Temp' does not have"),
        ("([Temp],[Pers]) @ Door = 5s", 1, "Door", "a time event may not hide a type"),
        ("([Temp],([Door],[T]) @ T = 1s) @ T = 5s", 9, "T", "a time event may not hide another"),
        ("([Temp]*,[T]) @ T = 5s", 2, "[Temp]*", "what comes before a time event can match nothing"),
        ("init n = 0 : [Temp set n = room]", 28, "a string", "the register n is a number"),
        ("init n = 0 : [Temp set m = 1]", 14, "m", "no register of this name: m (allowed: n)"),
        ("[Temp set n = 1]", 1, "n", "begin the pattern with `init n = 0 :`"),
        ("init temp = 0 : [Temp where temp > 1]", 29, "temp", "both a register and an attribute"),
        ("[Temp as n] (init n = 0 : [Door])", 14, "n", "a variable and a register of one name"),
        ("init n = 0 : [Temp as n]", 14, "n", "a variable and a register of one name"),
        ("init n = 0 : [Temp] (init n = 1 : [Door])", 22, "n", "a register may not hide another"),
        ("init n = 0 : ([Temp] & (init n = 1 : [Door]))", 25, "n", "a register may not hide another"),
        ("init s = hi() : [Temp]", 10, "hi()", "no event is at hand where a register begins"),
        ("init s = temp : [Temp]", 10, "temp", "unknown attribute"),
        ("[Temp as x] & [Pers where room == x.room]", 35, "x", "a side of & is detected on its own"),
        ("[Temp as x] ([Pers where room == x.room] & [Door])", 34, "x", "a side of & is detected on its own"),
        ("(init n = 0 : [Temp]) & [Pers where n > 1]", 37, "n", "a side of & is detected on its own"),
        ("([Temp], [T] & [Door]) @ T = 5s", 11, "T", "a side of & is detected on its own"),
        ("[Temp] & ~[Door]", 10, "~[Door]", "a side of & that would match nothing"),
        ("~[Temp]", 1, "~[Temp]", "a pattern that would match nothing"),
        ("(~[Temp],[T]) @ T = 5s", 1, "(~[Temp],[T]) @ T = 5s", "would match nothing"),
        ("([Temp],([T];[Door] by room)) @ T = 5s", 11, "T", "[T] (... by ...)"),
        ("[Temp - Temp]", 1, "[Temp - Temp]", "can never match"),
        ("[Temp][Door <= Pers]", 1, "[Temp] [Door <= Pers]", "can never match"),
        ("[Temp] & [{}]", 1, "[Temp] & [{}]", "can never match"),
        ("[Temp as t] -> Cold(room = room)", 28, "room", "unknown attribute"),
        ("[Temp as t] -> Cold(room = t.rom)", 28, "rom", "have no such attribute"),
        ("[Temp as t] -> Temp(room = t.room)", 16, "Temp", "reads what it publishes itself"),
        ("[Temp as t] -> Cold(v = t.temp) where v == 'a'", 39, "v == 'a'", "compares a number with a string"),
        ("[Temp as t] -> Cold(v = t.temp) where v", 39, "v", "a number where a condition is wanted"),
        ("[Temp] -> `a b`()", 11, "a b", "not a name for a type: a b (allowed: letters, digits and _, no digit first)"),
        ("[Temp] -> Cold(`a b` = 1)", 11, "a b", "not a name for an attribute"),
    ],
)
def test_invalid_patterns_are_refused(text: str, column: int, given: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(text, registry())
    error = caught.value
    assert message in str(error)
    assert (error.line, error.column) == (1, column)
    assert error.given == given
    assert error.snippet.split("\n")[0] == f"  {text}"


@pytest.mark.parametrize(
    "text",
    [
        "[Temp where temp < 5 and room == null]",
        "[any where temp < 5]",
        "[(any - Temp) where anything]",
        "[{Temp, Door} where room == 'a']",
        "[Temp, Door where open]",
        "[Temp as x] ; [Pers where room == x.room]",
        "([Temp as x] | [Door as x]) [Pers where room == x.room]",
        # What was bound on either way may be read; the other way it is null.
        "([Temp as x] | [Door as x]) [Pers where x.temp > 1 or x.open]",
        "[Temp as x] [Door as x]{0,1} [Pers where x.temp > 1 or x.open]",
        # What a round binds can be read in the next.
        "([Temp where temp > x.temp as x])+",
        "[Temp as x] ([Pers where room == x.room] [Door as x])*",
        "([Temp],[T]) @ T = 1s ; ([Door],[T]) @ T = 2s",
        "([Temp],[T]) @ T = 5s",
        "init n = 0 : [Temp set n = n + temp] [Door where n > 5]",
        "(init n = 0 : [Temp set n = n + 1]) (init n = 5 : [Door set n = n + 1])",
        "(init n = 0 : [Temp set n = n + 1]) | (init n = 5 : [Door set n = n + 1]) -> Out(n = n)",
        "((init n = 0 : [Temp set n = temp]) & [Door as y]) [Pers where room == y.room and n > 1]",
        "init n = 0 : [Temp set n = n + 1]+ -> Out(n = n) where n == 3",
        "[Temp as t] -> Cold(v = t.temp) where v < 5 and lo() > 0",
        "[Temp as t] -> Cold(start = lo(t), end = hi())",
        "[Temp] & ~[Door] [Pers]",
        "~([Temp] & [Door]) [Pers]",
        "([Temp], [T] ([Door] by room)) @ T = 5s",
        "[Temp] by room",
        "[any] by person",
    ],
)
def test_valid_patterns_are_accepted(text: str) -> None:
    assert compile_pattern(text, registry()).text


def test_an_open_registry_takes_types_and_attributes_as_known() -> None:
    compile_pattern("[Nowhere where anything > 1 and other == 'x'] by whatever")
    with pytest.raises(PatternError, match="nothing is bound to this variable"):
        compile_pattern("[A where v == x.v]")
    with pytest.raises(PatternError, match="compares a number with a string"):
        compile_pattern("[A where v == (1 == 'x')]")
    with pytest.raises(PatternError, match="not a name for a type: @0"):
        compile_pattern("([A],[`@0`]) @ T = 5s")


def test_type_of_composite_events_has_kinds_of_attributes() -> None:
    text = (
        "init n = 0 : [Temp as t set n = n + 1]+ -> Out(n = n, room = t.room, cold = t.temp < 5, twice = 2 * t.temp, "
        "label = t.room + '!', most = max(n, 3), none = null)"
    )
    event_type = check(parse_publication(text), registry())
    assert event_type == EventType(
        "Out",
        {"n": "number", "room": "string", "cold": "boolean", "twice": "number", "label": "string", "most": "number"},
    )
    assert check(parse_publication("[Temp]"), registry()) == EventType("", {})


def test_published_types_of_a_file_are_checked_by_readers() -> None:
    first = "[Temp as t] -> Cold(room = t.room, v = t.temp)\n"
    assert len(compile_file(first + "[Cold where v < 5] -> Freezing()", registry())) == 2
    with pytest.raises(PatternError, match=r"unknown attribute: w \(allowed: room, v\)"):
        compile_file(first + "[Cold where w < 5] -> Freezing()", registry())
    with pytest.raises(PatternError, match="compares a number with a string"):
        compile_file("[Cold where v == 'x'] -> Freezing()\n" + first, registry())


def test_errors_in_a_file_have_their_line() -> None:
    with pytest.raises(PatternError) as caught:
        compile_file("[Temp] -> Out()\n\n[Pers] ;\n  [Dor] -> Other()\n", registry())
    assert (caught.value.line, caught.value.column) == (4, 4)
    assert caught.value.snippet == "    [Dor] -> Other()\n     ^^^"


def test_errors_in_a_definition_name_its_place() -> None:
    with pytest.raises(PatternError) as caught:
        compile_file("Cold = [Temp where tmp < 5]\nCold ; [Door] -> Out()\n", registry())
    assert (caught.value.line, caught.value.column) == (1, 20)


def test_circular_patterns_are_refused() -> None:
    with pytest.raises(PatternError, match=r"in a circle: Four, Two"):
        compile_file("[Four] ; [Temp] -> Two()\n[Two] ; [Two] -> Four()\n")


def test_circle_beside_patterns_without_a_name_has_its_place() -> None:
    with pytest.raises(PatternError, match=r"in a circle: Four, Two, at") as caught:
        compile_file("[Temp]\n[Two] ; [Temp]\n[Four] ; [Temp] -> Two()\n[Two] ; [Two] -> Four()\n")
    assert (caught.value.line, caught.value.column) == (3, 20)


def test_names_of_each_pattern_of_a_long_chain_are_looked_for_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def counted(pattern: Pattern) -> set[str]:
        looked.append(pattern)
        return set(types_named(pattern))

    monkeypatch.setattr(compiler, "types_named", counted)
    chain = [f"[T{number}] -> T{number + 1}()" for number in range(50)]
    compiled = compile_file("\n".join(reversed(chain)) + "\n")
    # In the order of the file.
    assert [each.publishes.name for each in compiled] == [f"T{number}" for number in range(50, 0, -1)]
    assert len(looked) <= 2 * 50


def test_recursive_definitions_are_refused() -> None:
    with pytest.raises(PatternError, match="leads back to itself: Loop -> Pair -> Loop") as caught:
        compile_file("Loop = [A] Pair\nPair = [B] | Loop\nLoop -> Out()\n")
    assert (caught.value.line, caught.value.column) == (2, 14)
    with pytest.raises(PatternError, match="leads back to itself: Pair -> Loop -> Pair") as caught:
        compile_pattern("[A] ; Pair", definitions={"Loop": "[A]\n\n Pair", "Pair": "[B] | Loop"})
    # The definitions are texts of their own: what is shown is where the first of them is used.
    assert (caught.value.line, caught.value.column, caught.value.snippet) == (1, 7, "  [A] ; Pair\n        ^^^^")
