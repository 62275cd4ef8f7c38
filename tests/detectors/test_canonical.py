"""Canonical ids: equal patterns share one, whatever their names and layout; patterns that differ do not."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors import compiler
from distced.detectors.canonical.form import CanonicalForm, canonical_form
from distced.detectors.compiler import Compiled, check_pattern, compile_pattern, compile_publication
from distced.detectors.language.parser import parse_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event, composite_digest
from distced.middleware.patterns.printer import format_publication
from tests.support.random_patterns import FEATURES, PatternMaker


def id_of(text: str, **options: object) -> str:
    return compile_pattern(text, **options).automaton.canonical_id  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[A <= any]", "[A <= {A, any}]"),
        ("[any, A]", "[A, any - A]"),
        ("[A] ; [B]", "[A];[B] # the same"),
        ("[A, B]", "[{B, A}]"),
        ("[A]", "[A <= A]"),
        ("[A, A]", "[A]"),
        ("[!A <= {A, B}]", "[B <= {A, B}]"),
        ("([A][B])[C]", "[A]([B][C])"),
        ("[A];([B];[C])", "[A];[B];[C]"),
        ("[A]|([B]|[C])", "[C]|[B]|[A]"),
        ("[A]|[A]", "[A]"),
        ("[A]&[B]", "[B]&[A]"),
        ("[A]{1}", "[A]"),
        ("[A]+", "[A]{1,}"),
        ("~~[A][B]", "~[A][B]"),
        ("[ [A][B] <= C ]", "[A <= {A, C}][B <= {B, C}]"),
        ("[ [ [A] <= B ] <= C ]", "[ [A] <= {B, C} ]"),
        ("[A as x][B where v == x.v]", "[A as first][B where v == first.v]"),
        ("[A as unread][B]", "[A][B]"),
        ("init n = 0 : [A set n = n + 1]", "init count = 0 : [A set count = count + 1]"),
        ("([A],[T]) @ T = 60s", "([A],[Timeout]) @ Timeout = 1min"),
        ("[A] by (a, b)", "[A] by (b, a)"),
        ("[A as x] -> Out(v = x.v, w = 1)", "[A as y] -> Out(w = 1, v = y.v)"),
        ("[any - A]", "[any - {A}]"),
        # Joints: a path is strong iff any joint on it is.
        ("[A] ([B] ; [C])", "([A] [B]) ; [C]"),
        ("[A] ; ([B]* [C]) [D]", "([A] ; [B]*) ([C] [D])"),
        ("[A][B] ; [C]", "([A]([B] ; [C])){1}"),
        ("([A][B] | [A][B])[C]", "[A][B][C]"),
        ("[ [A] ([B] ; [C]) <= D ]", "[A <= {A, D}] [B <= {B, D}] ; [C <= {C, D}]"),
        # Scopes, windows, keys, hiding.
        ("[ [A] | [B] <= C ] | [D]", "[D] | [B <= {B, C}] | [A <= {A, C}]"),
        ("[ [A] & [B] <= {} ]", "[A] & [B]"),
        ("[ [ [A] & [B] <= C ] <= D ]", "[ [B] & [A] <= {D, C} ]"),
        ("[ [A] ; ([B] & [C]) <= D ]", "[A <= {A, D}] ; [ [B] & [C] <= D ]"),
        ("[A] within 5s within 7s", "[A] within 7s within 5s"),
        ("[A] within 5s by k", "[A] by k within 5s"),
        ("([A][B] within 5s by k)[C]", "([A][B] by k within 5s)[C]"),
        ("[A] by k by l", "[A] by (l, k)"),
        ("[ [A] by k <= B ]", "[A <= {A, B}] by k"),
        ("~[ ~[A] <= B ][C]", "~[A <= {B, A}][C]"),
        # Time events: in every domain in their scope, whatever they are called.
        ("([A], [B <= {B, T}]) @ T = 5s", "([A], [B]) @ S = 5s"),
        ("([A], [T, B <= {}]) @ T = 5s", "([A], [T, B <= T]) @ T = 5s"),
        ("([A], [any]) @ T = 5s", "([A], [any - T]) @ T = 5s"),
        ("([A], [{B, T} where v > 1]) @ T = 5s", "([A], [B where v > 1]) @ T = 5s"),
        ("([A], [B] & [C]) @ T = 5s", "([A], [ [C] & [B] <= S ]) @ S = 5s"),
        ("([A],[T]) @ T = 5s | [B] | ([A],[S]) @ S = 5s", "[B] | ([A],[T]) @ T = 5s"),
        # Sets.
        ("[{A, B} & {B, C}]", "[B]"),
        ("[A where v > 1, A where w > 1]", "[A where w > 1 or v > 1]"),
        ("[any - A, A where v > 1]", "[any - (A where not v > 1)]"),
        ("[A where v > 1 where w > 1]", "[A where w > 1 and v > 1]"),
        ("[A, B where false]", "[A]"),
        ("[(any - {A, B}) where v > 1]", "[(any where v > 1) - A - B]"),
        ("[(any - A) & B]", "[B]"),
        # Conditions: what holds, holds; null is not true.
        ("[A where v > 3]", "[A where 3 < v]"),
        ("[A where not (v == 3)]", "[A where 3 != v]"),
        ("[A where v > w]", "[A where w < v]"),
        ("[A where a and (b and c)]", "[A where c and a and b and a]"),
        ("[A where not (not a)]", "[A where a]"),
        ("[A where a == true]", "[A where a]"),
        ("[A where not (a and b)]", "[A where not b or not a]"),
        ("[A where a or a and b]", "[A where a]"),
        ("[A where (a or b) and (c or b or a)]", "[A where b or a]"),
        ("[A where a and (b or not b)]", "[A where a]"),
        ("[A where (a and b or c) and b and a]", "[A where a and b]"),
        ("[A where v > 2 * 30]", "[A where v > 60]"),
        ("[A where v * w > 1 + u]", "[A where u + 1 < w * v]"),
        ("[A where lo() + v > 1]", "[A where v + lo() > 1]"),
        ("[A as x][B where v < x.v or v > 3]", "[A as y][B where 3 < v or y.v > v]"),
        # Names that tie where they are read, and are told apart elsewhere.
        ("[A as x][B as y][C where v == x.v or v == y.v]", "[A as x][B as y][C where v == y.v or x.v == v]"),
        ("[A as x][B as y][C where x.v == y.v]", "[A as x][B as y][C where y.v == x.v]"),
        (
            "([A as x] ; [B where v == x.v] | [A as y] ; [B where v == y.v]) [C where v == x.v and w == y.v]",
            "([A as y] ; [B where v == y.v] | [A as x] ; [B where v == x.v]) [C where v == x.v and w == y.v]",
        ),
        (
            "([A as x] ; [B where v == x.v] & [A as y] ; [B where v == y.v]) [C where v == x.v and w == y.v]",
            "([A as y] ; [B where v == y.v] & [A as x] ; [B where v == x.v]) [C where v == x.v and w == y.v]",
        ),
        # A side of & has names of its own.
        (
            "[A as x][B where v == x.v] & [A as x][C where v == x.v]",
            "[A as x][B where v == x.v] & [A as y][C where v == y.v]",
        ),
        (
            "init n = 0 : [A set n = n + 1] ([B where n > 1] & [C])",
            "init m = 0 : [A set m = 1 + m] ([B where n > 1] & [C])",
        ),
        # The event at hand by its own name.
        ("init n = 0 : [A as x set n = n + x.v]", "init n = 0 : [A set n = n + v]"),
        ("init v = 0 : [A as x set v = x.v + v]", "init n = 0 : [A set n = v + n]"),
        # What nobody reads any more.
        ("[A as x][B where v == x.v and false, C]", "[A][C]"),
        (
            "init n = 0 : [A set n = n + 1] -> Out(n = n) where n > 1",
            "init m = 0 : [A set m = 1 + m] -> Out(n = m) where 1 < n",
        ),
        ("[A] -> Out(v = 1) where v > 0 or true", "[A] -> Out(v = 1)"),
        (
            "([A as x][B where v == x.v] & [C]) [D as x][E <= {E, F where v == x.v and false}]",
            "([A as x][B where v == x.v] & [C]) [D][E]",
        ),
    ],
)
def test_equivalent_patterns_have_one_form(one: str, other: str) -> None:
    assert id_of(one) == id_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Composite events of A are in `any` only where A is named.
        ("[any]", "[any, A]"),
        ("[any]", "[any <= {A, any}]"),
        ("[B] ; [any - C]", "[B] ; [any - C, A]"),
        ("[A][B]", "[A];[B]"),
        ("[A]&[B]&[C]", "[A]&([B]&[C])"),
        ("[A]", "~[B][A]"),
        ("[A]*", "[A]+"),
        ("[A where v == 1]", "[A where v == 1.0]"),
        ("[A where v == 1]", "[A where v == true]"),
        ("[A where v == '1']", "[A where v == 1]"),
        ("[A] by k", "[A] by (k, l)"),
        ("[A] by (k, l)", "[A] by `k, l`"),
        ("[A] -> Out()", "[A] -> Other()"),
        ("[A] -> Out()", "[A]"),
        ("[A] within 5s", "[A] within 6s"),
        ("([A],[T]) @ T = 5s", "([A],[T]) @ T = 6s"),
        ("([A],[T]) @ T = at 19:00", "([A],[T]) @ T = at 19:00+01:00"),
        ("[A as x][A as y][B where v == x.v]", "[A as x][A as y][B where v == y.v]"),
        # An attribute called as canonical forms call a register or a variable.
        ("init n = 0 : [A where n > 1]", "init n = 0 : [A where r0 > 1]"),
        ("init n = 0 : [A where n > 1]", "init n = 0 : [A where `0` > 1]"),
        ("[A as x][B where v == x.v]", "[A as x][B where v == x0]"),
        # A variable that is read before it is bound, called as canonical forms would call another.
        (
            "([A as p][B where v == x0.v and v == p.v][C as x0])* -> Out(v = x0.v)",
            "([A as p][B where v == p.v and v == p.v][C as q])* -> Out(v = q.v)",
        ),
        # Registers of one name, and one that comes after them.
        (
            "(init n = 0 : [A set n = n + 1]) (init n = 5 : [B]) (init m = 7 : [C]) -> Out(v = n)",
            "(init n = 0 : [A set n = n + 1]) (init n = 5 : [B]) (init m = 7 : [C]) -> Out(v = m)",
        ),
        ("[ [A]*[B] <= C ]", "[ [A]* <= C ][B]"),
        ("init n = 0 : [A as x set n = x.v]", "init n = 0 : [A as x set n = x.w]"),
        # In a merged state a label counts beyond its own domain.
        ("[B]*[A, B <= A]", "[B]*[A]"),
        # Neither holds of null.
        ("[A where not v < 3]", "[A where v >= 3]"),
        ("[A where not a]", "[A where a == false]"),
        # Strings are joined; sums are rounded.
        ("[A where v + w == 'ab']", "[A where w + v == 'ab']"),
        ("[A where v + (w + 1.5) > 1]", "[A where (v + w) + 1.5 > 1]"),
        # The value of a condition, and a value.
        ("init n = true : [A set n = (v and true)]", "init n = true : [A set n = v]"),
        # The sides of & have domains of their own.
        ("[ [A] & [B] <= C ]", "[A] & [B]"),
        ("[ [A] & [B] <= C ]", "[A <= {A, C}] & [B <= {B, C}]"),
        # A round may read what another branch has bound in the one before.
        (
            "([B where v == x.v][A as x] | [B where v == y.v][A as y])+",
            "([B where v == x.v][A as x])+",
        ),
        ("([A] within 5s)[B]", "[A][B] within 5s"),
        ("([A] by k)[B]", "[A][B] by k"),
        ("~[A][B]", "~([A][B])[C]"),
        ("([A], [B]) @ T = 5s", "[A][B]"),
        ("([A], ([B], [T]) @ S = 5s) @ T = 5s", "([A], ([B], [S]) @ S = 5s) @ T = 5s"),
        ("[A]{2}{3}", "[A]{3}{2}"),
        ("init n = 0, m = 1 : [A set m = n]", "init m = 0, n = 1 : [A set m = n]"),
        # A register of a side that is read outside is not one that is not.
        (
            "((init n = 0 : [A set n = n + 1]) & (init n = 5 : [B set n = n + 2])) -> Out(v = n)",
            "((init n = 0 : [A set n = n + 1]) & (init m = 5 : [B set m = m + 2])) -> Out(v = n)",
        ),
        ("[any - A]", "[any]"),
        ("[any where v > 1]", "[any]"),
    ],
)
def test_different_patterns_have_different_forms(one: str, other: str) -> None:
    assert id_of(one) != id_of(other)


def test_id_depends_on_consumption() -> None:
    assert id_of("[A]") != id_of("[A]", consumption="epoch")


def test_an_id_is_the_same_everywhere() -> None:
    """Ids travel between nodes and go into checkpoints: a change of these is a change of the wire."""
    assert compile_pattern("[A as x] ; [B where x.v == v <= {B, C}] by k").form.text == (
        "[A as x0] ; [B where (v == x0.v) <= {B, C}] by k"
    )
    assert id_of("[A] ; [B]") == "cad71a662c048d8ff"


def form_of(text: str, **options: object) -> CanonicalForm:
    return canonical_form(parse_publication(text), **options)  # type: ignore[arg-type]


def test_a_key_from_outside_is_merged_with_its_own() -> None:
    inside = form_of("[A][B] by (k, m)")
    assert form_of("[A][B] by m", key=("k", "m")).id == inside.id
    assert form_of("[A][B]", key=("m", "k")).publication == inside.publication
    assert form_of("([A][B] within 5s)", key=("k",)).publication == form_of("[A][B] by k within 5s").publication


def test_exported_names_are_kept_and_part_of_the_text() -> None:
    text = "[A as given] ; [B as other where v == given.v][C as unread]"
    alone, exporting = form_of(text), form_of(text, exports=frozenset({"other", "given", "absent"}))
    assert alone.names == {"given": "x0"}
    assert exporting.names == {"given": "x0", "other": "x1"}
    assert exporting.text == "[A as x0] ; [B where (v == x0.v) as x1] [C] # exporting x0, x1"
    assert len({alone.id, exporting.id, form_of(text, exports=frozenset({"given"})).id}) == 3
    assert form_of(text, exports=frozenset()).id == alone.id


def test_form_does_not_depend_on_which_of_two_equal_parts_is_exported() -> None:
    text = "[A as x][B where v == x.v] | [A as y][B where v == y.v]"
    one, other = (form_of(text, exports=frozenset({name})) for name in "xy")
    assert (one.text, one.names["x"]) == (other.text, other.names["y"])


def test_registers_and_sides_have_canonical_names() -> None:
    form = form_of("(init n = 0 : [A as x set n = x.v]) & [B as x where v == 1][C where v == x.v] -> Out(v = n)")
    assert format_publication(form.publication) == (
        "[B where (v == 1) as x0] [C where v == x0.v] & (init n_0 = 0 : [A set n_0 = v]) -> Out(v = n_0)"
    )
    assert form.names == {"n": "n_0", "x": "x0"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("[A as a][B where x0 == a.v]", "[A as x_0] [B where x0 == x_0.v]"),
        ("init a = 0 : [A where n_0 > a]", "init n__0 = 0 : [A where n_0 > n__0]"),
        ("([A], [a, T_7]) @ a = 5s", "([A], [T_7, T__0]) @ T__0 = 5s"),
        # What falls away takes no name.
        ("[A as a][B where v == a.v or x0 == a.v and false]", "[A as x0] [B where v == x0.v]"),
    ],
)
def test_canonical_names_are_no_names_of_others(text: str, canonical: str) -> None:
    form = form_of(text)
    assert form.text == canonical
    assert canonical_form(form.publication).text == canonical


def test_text_of_the_form_tells_consumption() -> None:
    assert form_of("[A] by epochs").text == "[A] by epochs"
    assert form_of("[A]", epochs=True).text == "[A] # by epochs"
    assert form_of("[A as x]", exports=frozenset({"x"}), epochs=True).text == "[A as x0] # exporting x0 # by epochs"


def test_large_conditions_are_parsed_back_unchanged() -> None:
    members = [f"A where v == {number} and w != {number}" for number in range(1000)]
    one = form_of(f"[{', '.join(members)}]")
    other = form_of(f"[{', '.join(reversed(members))}]")
    assert one.id == other.id
    assert parse_publication(format_publication(one.publication)) == one.publication


def test_tied_parts_beyond_the_limit_keep_their_order() -> None:
    branches = [f"([A as x{number}] ; [B where v == x{number}.v])" for number in range(9)]
    form = form_of(" | ".join(branches))
    assert form.id == form_of(" | ".join(reversed(branches))).id
    assert canonical_form(form.publication) == CanonicalForm(
        form.publication, {f"x{number}": f"x{number}" for number in range(9)}, form.text, form.id
    )


SEEDS = st.integers(min_value=0, max_value=2**32)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_names_and_layout_make_no_difference(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        # Without registers: where none of the name is known, a bare name is an attribute, which must keep its own.
        publication = PatternMaker(random, FEATURES - {"register"}).publication(random.randrange(1, 8))
        try:
            compiled = compile_publication(publication)
        except PatternError:
            continue
        text = format_publication(publication)
        for old, new in (("x", "ecks"), ("y", "x"), ("T1", "S"), ("T2", "T1")):
            text = re.sub(rf"\b{old}\b", new, text)
        renamed = compile_pattern(text.replace(" ", "\n  "))
        assert renamed.automaton.canonical_id == compiled.automaton.canonical_id, text


def test_composite_ids_depend_on_constituents_and_attributes_alone() -> None:
    digest = composite_digest((("e", 1), ("e", 2)), {"v": 1})
    assert digest == composite_digest((("e", 1), ("e", 2)), {"v": 1})
    others = [
        composite_digest((("e", 2), ("e", 1)), {"v": 1}),
        composite_digest((("e", 1), ("e", 2)), {}),
        composite_digest((("e", 1), ("e", 2)), {"v": 1.0}),
        composite_digest((("e", 1), ("e", 2)), {"v": True}),
        composite_digest((("e", 1), ("e", 2)), {"w": 1}),
        composite_digest((("e", 12),), {"v": 1}),
        composite_digest((("e", 2**70), ("e", 2)), {"v": 1}),
        composite_digest((), {}),
    ]
    assert len({digest, *others}) == len(others) + 1
    assert composite_digest((), {"a": 1, "b": 2}) == composite_digest((), {"b": 2, "a": 1})


def found_ids(compiled: Compiled, events: list[Event]) -> set[tuple[str, int]]:
    engine = StepwiseEngine([compiled])
    return {each.id for each in [*engine.feed(events), *engine.finish()]}


def test_the_same_detection_has_the_same_id() -> None:
    events = [
        Event("A", 1, 1, "e", 0, {"v": 1}),
        Event("B", 2, 2, "e", 1, {"v": 1}),
        Event("B", 3, 3, "e", 2, {"v": 1}),
    ]
    one = found_ids(compile_pattern("[A as x] ; [B where v == x.v] -> Out(v = x.v)"), events)
    other = found_ids(compile_pattern("[A as y];[B where v == y.v] -> Out(v = y.v)"), events)
    assert one == other
    assert len(one) == 1
    assert found_ids(compile_pattern("[A as x] ; [B where v == x.v] -> Out(v = 2)"), events) != one


def test_id_of_a_pattern_needs_no_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compile_pattern("[A] ; [B]").automaton.canonical_id
    built: list[str] = []
    build = compiler.build
    monkeypatch.setattr(compiler, "build", lambda *given, **more: built.append(given[1]) or build(*given, **more))
    checked = check_pattern("[A] ; [B]")
    assert checked.canonical_id == expected and not built
    assert checked.automaton is checked.automaton
    assert checked.written_as(checked.plain).automaton is checked.automaton
    assert built == [expected]
