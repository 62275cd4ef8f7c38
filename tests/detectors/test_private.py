"""Private publications: files and statements, ids, errors, `explain`, cuts, limits, plans of replay, the binding."""

from __future__ import annotations

from textwrap import dedent

import pytest

from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import cut, full, none
from distced.detectors.cutting.cut_report import cuts_of
from distced.detectors.cutting.reuse import plan_for_reuse
from distced.detectors.explain.automaton_view import names_in, view_of
from distced.detectors.explain.facts import facts_of
from distced.detectors.explain.graph_view import graph_view
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.patterns import event as binding_event
from distced.middleware.patterns import pattern_file
from distced.middleware.patterns.statements import read_statements, used_definitions

FILE = """
private [A as a] ; [B] -> Pair(k = a.k)
[Pair as p] ; [C where k == p.k] -> One(k = p.k)
[D] ; [Pair] -> Two()
"""


def event(type_name: str, at: int, seq: int, **attributes: int) -> Event:
    return Event(type_name, at, at, "s", seq, attributes)


def test_private_publication_of_a_file_is_not_delivered() -> None:
    patterns = compile_file(FILE)
    assert [each.publishes.name for each in patterns] == ["One", "Two"]
    events = [event(name, at, at, k=1) for at, name in enumerate("DABC")]
    found = StepwiseEngine(patterns).feed([*events, event("D", 9, 9)])
    assert [(each.type, [one.seq for one in each.events]) for each in found] == [("Two", [0, 1, 2]), ("One", [1, 2, 3])]


def test_readers_in_one_engine_share_it() -> None:
    assert len(StepwiseEngine(compile_file(FILE)).units) == 3


def test_names_make_no_difference() -> None:
    one = compile_pattern("private [A as x] ; [B] -> P(v = x.v) : [P as q where v > 1] -> X(v = q.v)")
    other = compile_pattern("private [A as a] ; [B] -> Q(v = a.v) : [Q where v > 1 as r] -> X(v = r.v)")
    assert one.canonical_id == other.canonical_id
    assert one.canonical_id != compile_pattern("private [A as x] ; [B] -> P() : [P] -> X()").canonical_id
    # It is that of a pattern without a name.
    (private,) = compile_pattern("private [A] ; [B] -> P() : [P] ; [C]").privates
    assert private.canonical_id == compile_pattern("[A] ; [B]").canonical_id


def test_pattern_without_one_has_the_id_it_had() -> None:
    assert compile_pattern("[A as a] ; [B where v == a.v] -> X(v = a.v)").canonical_id == "cba6a937f07e16b26"


def test_kinds_of_attributes_are_checked() -> None:
    registry = TypeRegistry([event_type("A", {"v": "number"}), event_type("B", {})])
    text = "private [A as a] -> P(v = a.v) : [P where v == 'x'] ; [B]"
    with pytest.raises(PatternError, match="v == 'x'"):
        compile_pattern(text, registry)
    with pytest.raises(PatternError, match="unknown attribute: w"):
        compile_pattern(text.replace("v == 'x'", "w > 1"), registry)
    assert compile_pattern(text.replace("'x'", "1"), registry).publishes.name == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("private [A] -> P()\n[B] -> X()", "a private publication that nothing reads: P, at file, line 1"),
        ("private [A] -> P()\n[P] -> P()", "with the name of another publication"),
        ("private [A] -> P()\nprivate [B] -> P()\n[P] -> X()", "with the name of another one"),
        ("private [A] -> D()\nD = [B]\n[D] -> X()", "with the name of a definition"),
        ("private [A] -> T()\ntype T = B\n[T] -> X()", "with the name of a derived type"),
        ("private [A] -> B()\n[B] -> X()", "with the name of an event type"),
        ("private [A] -> P()\ntype T = P where v > 1\n[T] -> X()", "a type derived from a private publication"),
        ("private [Q] -> P()\nprivate [P] -> Q()\n[P] -> X()", "read each other in a circle"),
        ("private [X] -> P()\n[P] -> X()", "read each other's composite events in a circle"),
        ("private [A]\n[B] -> X()", "a private publication without a name"),
        ("private [A] -> `a b`()\n[`a b`] -> X()", "not a name for a type"),
        ("private [A] -> P() :\n[P] -> X()", "unexpected"),
    ],
)
def test_errors_of_files(text: str, problem: str) -> None:
    registry = TypeRegistry([event_type(name, {"v": "number"}) for name in "AB"])
    with pytest.raises(PatternError, match=problem):
        compile_source(PatternSource(text, "file"), registry)


def test_computed_keys_are_refused() -> None:
    text = "type R = A with (h = floor(v / 2))\nprivate [B as b] -> P(h = b.h)\n[R] ; [P] by h -> X()"
    with pytest.raises(PatternError, match="a computed key of private publications"):
        compile_file(text)


def test_private_publications_that_multiply_are_refused() -> None:
    lines = ["private [A] -> P0()", "private [P0] -> P1()"]
    lines += [f"private [P{each - 1}] [P{each - 2}] -> P{each}()" for each in range(2, 30)]
    with pytest.raises(PatternError, match="multiply beyond measure"):
        compile_file("\n".join([*lines, "[P29] -> X()"]))


def test_statements_of_a_file_are_sent_as_definitions() -> None:
    statements = read_statements("E = [P] ; [C]\n" + FILE.replace("Pair", "P") + "E -> Three()\n")
    assert [each.publishes for each in statements.publications] == ["One", "Two", "Three"]
    assert list(used_definitions("E", statements.texts)) == ["E", "P"]
    texts = statements.texts
    for statement, whole in zip(statements.publications, compile_file(FILE), strict=False):
        assert compile_pattern(statement.text, definitions=texts).canonical_id == whole.canonical_id


def test_definition_under_another_name_is_refused() -> None:
    with pytest.raises(PatternError, match=r"under another name: P \(allowed: Q\), at definition Q"):
        compile_pattern("[P]", definitions={"Q": "private [A] -> P()"})


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("private [A] -> P()\n  where 1 > 0 # : \n[P] -> X()", ["P"]),
        ("private init n = 0 : [A] -> P(t = ': ')\n[P] -> X()", ["P"]),
        ("private [A] -> P() : [P] -> X()", []),
        ("private [A] -> P()\nprivate [B] -> Q() :\n  [P, Q] -> X()", ["P"]),
    ],
)
def test_statements_and_parser_agree(text: str, private: list[str]) -> None:
    statements = read_statements(text)
    assert list(statements.definitions) == private
    (statement,) = statements.publications
    (compiled,) = compile_file(text)
    assert compile_pattern(statement.text, definitions=statements.texts).canonical_id == compiled.canonical_id


def test_consumption_of_a_file_holds_for_those_below() -> None:
    text = "consumption epoch\nprivate [A] [A] -> P()\nconsumption ordered\n[P] -> X()"
    (pattern,) = compile_file(text)
    assert (pattern.epochs, pattern.privates[0].epochs) == (False, True)
    statements = read_statements(text)
    (statement,) = statements.publications
    assert compile_pattern(statement.text, definitions=statements.texts).canonical_id == pattern.canonical_id


@pytest.mark.parametrize("text", ["private [A] -> P()\n[B] -> X()", "private [A] -> P()\ntype T = P\n[P] -> X()"])
def test_statements_are_refused_as_by_the_compiler(text: str) -> None:
    with pytest.raises(PatternError) as by_client:
        read_statements(text)
    with pytest.raises(PatternError) as by_compiler:
        compile_file(text)
    assert by_client.value.problem == by_compiler.value.problem


def test_explained_under_its_name() -> None:
    first, _ = compile_file(FILE)
    facts = facts_of(first)
    assert facts.private == ("Pair(k: any kind)",)
    assert facts.reads == ("A", "B", "C")
    view = view_of(first)
    assert [each.title for each in view.every()] == ["One", "private Pair"]
    assert view.states[0].domain == "Pair"
    (listed,) = cuts_of(first, names_in(first, {})).for_people().rows
    assert (listed.stand, listed.allowed) == ("private", True)


def test_cut_is_always_allowed_and_shared() -> None:
    patterns = compile_file(FILE)
    graph = cut(patterns, full)
    (private,) = graph.shared
    assert private == patterns[0].privates[0].canonical_id
    assert graph.derivations(private)
    view = graph_view(patterns, graph, "full")
    assert view.detector(private).publishes is None
    assert {each.carries for each in view.flows if each.kind == "records"} == {("composite events", "private Pair")}
    assert len(cut(patterns, none).plans) == 2


def test_detected_whole_it_has_no_derivations() -> None:
    (pattern,) = compile_file("private once [A as a]+ -> N(n = count(a))\n[N where n > 1] ; [B] -> X()")
    graph = cut([pattern], full)
    assert [graph.derivations(each) for each in graph.plans] == [False, False]


def test_running_detector_is_reused() -> None:
    pattern, _ = compile_file(FILE)
    catalogue = Catalogue()
    (running,) = cut([pattern.privates[0]], none).plans.values()
    catalogue.add(running)
    graph = plan_for_reuse([pattern], catalogue)
    assert graph.reused == {running.id}
    assert graph.plans[graph.roots[0]].parts == (running.id,)


def test_columnar_engine_leaves_it_to_the_stepwise_one() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    events = [event(name, at, at, k=1) for at, name in enumerate("ABC")]
    engine = make_engine(compile_file(FILE), engine="columnar")
    assert len([*engine.feed(events), *engine.finish()]) == 1


def test_nothing_is_remembered_beyond_an_instant() -> None:
    engine = StepwiseEngine([compile_pattern("private [A] ; [B] -> P() : [P] ; [C] -> X()")])
    for round_ in range(50):
        engine.feed([event(name, 10 * round_ + at, 10 * round_ + at) for at, name in enumerate("ABC")])
    assert len(engine.units[-1].matcher.composites.reported) <= 1


def test_binding_writes_what_the_parser_reads() -> None:
    a, b, pair = binding_event("A"), binding_event("B"), binding_event("Pair")
    private = a.then(b).publish("Pair", k=a.k).private()
    reader = pair.then("C").publish("One", k=pair.k)
    (of_file,) = compile_file(str(pattern_file(private, reader)))
    assert compile_pattern(str(reader.reading(private))).canonical_id == of_file.canonical_id
    with pytest.raises(PatternError, match="not private publications"):
        reader.reading(reader)  # type: ignore[arg-type]


def test_plan_of_replay() -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    from distced.simulations.replay.pattern_properties import key_of_group, reach_of

    def properties(text: str) -> tuple[int | None, tuple[tuple[str, ...], str]]:
        patterns = compile_file(dedent(text).strip())
        return reach_of(patterns), key_of_group(patterns)

    private = "private [A as a] ; [B] within 5ns by k -> P(k = a.k)\n"
    assert properties(f"{private}[P] ; [C] within 9ns by k -> X()") == (14, (("k",), ""))
    assert properties(f"{private.replace('k = a.k', '')}[P] ; [C] within 9ns by k -> X()")[1] == (
        (),
        "P does not carry k",
    )
    assert properties(f"{private.replace('by k', '')}[P] ; [C] within 9ns by k -> X()")[1][0] == ()
    assert properties(f"{private.replace('private', 'private once')}[P] ; [C] within 9ns by k -> X()")[0] is None
