"""`distced explain --cuts`: which sub-patterns may become detectors of their own, and why the others may not."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import compile_pattern, compile_publication
from distced.detectors.conformance.cases import parse_event
from distced.detectors.cutting.candidates import CONDITIONS, Candidate, candidates
from distced.detectors.cutting.cut import ChosenCut, cut
from distced.detectors.cutting.cut_report import MOST_PARTS, NOT_CUT, cuts_of, with_throttled_names
from distced.detectors.language.derived import throttled_names
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.printer import format_pattern, format_publication
from distced.middleware.patterns.tree import Publication
from tests.support.random_cuts import in_parts, whole
from tests.support.random_patterns import PatternMaker

Row = tuple[str, str, str]

# The pattern; and of each sub-pattern that is shown its text, where it stands, and the conditions that fail.
CUTS: list[tuple[str, list[Row]]] = [
    ("[A] ; [B]", []),
    (
        "[A] ; [B] ; [C]",
        [("[A] ; [B]", "prefix", ""), ("[B] ; [C]", "right-hand side", "")],
    ),
    (
        "[A] ([B] [D] | [C])",
        [("[B] [D] | [C]", "right-hand side", ""), ("[B] [D]", "nowhere", "stand")],
    ),
    ("([A] ; [B])+", [("[A] ; [B]", "nowhere", "stand")]),
    (
        "[A as first] ; [B where x == first.x] [C]",
        [
            ("[A as first] ; [B where x == first.x]", "prefix", ""),
            ("[B where x == first.x] [C]", "right-hand side", "closed"),
        ],
    ),
    (
        "([A] [B], [C] [Late]) @ Late = 5s",
        [("[A] [B]", "timed", ""), ("[C] [Late]", "right-hand side", "closed")],
    ),
    ("[A] ; [B]*", [("[B]*", "right-hand side", "empty")]),
    (
        "[A] [B]* [C] [D]",
        [
            ("[A] [B]*", "prefix", "c"),
            ("[A] [B]* [C]", "prefix", ""),
            ("[B]* [C]", "right-hand side", ""),
            ("[B]* [C] [D]", "right-hand side", ""),
            ("[C] [D]", "right-hand side", "a"),
            ("[B]*", "right-hand side", "empty c"),
        ],
    ),
    (
        "[A] ; [B]* ; [C]",
        [
            ("[A] ; [B]*", "prefix", "c"),
            ("[B]* ; [C]", "right-hand side", "b"),
            ("[B]*", "right-hand side", "empty c"),
        ],
    ),
    (
        "[A] ; ([B] & [C]) [D]",
        [
            ("[A] ; ([B] & [C])", "prefix", ""),
            ("([B] & [C]) [D]", "right-hand side", "b"),
            ("[B] & [C]", "right-hand side", "b"),
        ],
    ),
    (
        "[A] ; [B] | [C] ; [D]",
        [("[A] ; [B]", "branch", ""), ("[C] ; [D]", "branch", "")],
    ),
    (
        "([A] ; [B]) & ([C as c] ; [D where x == c.x]) -> X(v = c.x)",
        [("[A] ; [B]", "side", ""), ("[C as c] ; [D where x == c.x]", "side", "")],
    ),
]


def conditions(candidate: Candidate) -> str:
    return " ".join(failure.condition for failure in candidate.failures)


@pytest.mark.parametrize(("text", "expected"), CUTS, ids=[text for text, _ in CUTS])
def test_table_lists_permitted_cuts(text: str, expected: list[Row]) -> None:
    rows = cuts_of(compile_pattern(text), {}).for_people().rows
    assert [(format_pattern(row.pattern), row.stand, conditions(row)) for row in rows] == expected


def test_every_condition_has_a_case() -> None:
    assert {name for _, rows in CUTS for _, _, failed in rows for name in failed.split()} == set(CONDITIONS)


@pytest.mark.parametrize(("text", "expected"), CUTS, ids=[text for text, _ in CUTS])
def test_table_shows_candidates(text: str, expected: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text, "--cuts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == compile_pattern(text).text
    table = [line.split() for line in lines if line[:1] in ("✓", "✗")]
    assert len(table) == len(expected)
    for row, (shown, stand, failed) in zip(table, expected, strict=True):
        begins = [("✗" if failed else "✓"), *stand.split(), *shown.split()]
        assert row[: len(begins)] == begins
        assert row[len(begins) :][:1] == [f"{name}:" for name in failed.split()[:1]] or not failed
    allowed = sum(not failed for _, _, failed in expected)
    count = next((line for line in lines if "listed:" in line), "")
    if expected:
        assert f"{len(expected)} sub-pattern" in count
        assert f"{allowed} may become" in count
        assert f"{len(expected) - allowed} may not" in count
    else:
        assert "nothing but single atoms" in "\n".join(lines)
    for name in {name for _, _, failed in expected for name in failed.split()}:
        assert CONDITIONS[name] in "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[A as first] ; [B where x == first.x] [C]", "closed: first is bound outside, too"),
        ("([A] [B], [C] [Late]) @ Late = 5s", "closed: the time event Late is set off outside"),
        ("[A] [B]* [C] [D]", "a: [B]* before it may go on or be left out"),
        ("([A] ; [B])+", "stand: inside an iteration"),
        ("init n = 0 : [A set n = n + 1] [B] ; [C where x > n]", "closed: n is bound outside, too"),
    ],
)
def test_reasons_are_in_the_patterns_own_names(text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text, "--cuts"]) == 0
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[A as x1] ; [B as x0 where v > x1.v] ; [C where v == x0.v]",
         "[A as x1] ; [B where (v > x1.v) as x0] ; [C where v == x0.v]"),
        # Variables of two sides that are called alike: the inner one keeps its canonical name.
        ("([A as p] ; [B where v == p.v]) & ([A as p] ; [C where v == p.v])",
         "[A as p] ; [B where v == p.v] & [A as x1] ; [C where v == x1.v]"),
        # Two time events due alike cannot be told apart.
        ("([A], [B] [T]) @ T = 5s ; ([C], [U]) @ U = 5s", "([A], [B] [T_0]) @ T_0 = 5s ; ([C], [T_1]) @ T_1 = 5s"),
        ("([A], [B] [Tea]) @ Tea = 5s ; ([C], [Cake]) @ Cake = 6s",
         "([A], [B] [Tea]) @ Tea = 5s ; ([C], [Cake]) @ Cake = 6s"),
        ("init count = 0 : [A as a set count = count + 1] ; [B where x > count and x > a.x] -> X(n = count, a = a.x)",
         "init count = 0 : [A as a set count = 1 + count] ; [B where x > count and x > a.x] -> X(a = a.x, n = count)"),
    ],
)  # fmt: skip
def test_report_has_the_patterns_own_names(text: str, shown: str) -> None:
    assert format_publication(cuts_of(compile_pattern(text), {}).publication) == shown


def test_throttled_types_have_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seen.pattern"
    path.write_text(
        "type Seen = Pers every 1min by room\n"
        "[Seen where room == 'x'] ; [any - {Seen, Door}] ; [ [Seen][Door] <= Seen ] -> X()\n",
        encoding="utf-8",
    )
    assert main(["explain", str(path), "--cuts", "--json"]) == 0
    out = capsys.readouterr().out
    assert "throttled" not in out
    canonical = json.loads(out)["patterns"][0]["canonical"]
    assert canonical.startswith("[Seen where room == 'x'] ; [")
    # A type whose name is not known is called by what it is.
    patterns = compile_source(read_source(path))
    (compiled,) = patterns.compiled
    shown = format_publication(with_throttled_names(compiled.plain, throttled_names(compiled.throttlings, {})))
    assert "`Pers every 1min by (room)` where room == 'x'" in shown
    assert with_throttled_names(compiled.plain, {}) == compiled.plain


def test_names_do_not_change_the_cuts() -> None:
    tried = 0
    for seed in range(200):
        random = Random(seed)
        try:
            compiled = compile_publication(PatternMaker(random).publication(random.randrange(2, 8)))
        except PatternError:
            continue
        form = canonical_form(compiled.plain)
        cuts = cuts_of(compiled, {})
        assert cuts.canonical_id == form.id == canonical_form(cuts.publication).id
        mine = [(each.path, each.run, each.stand, conditions(each), each.key) for each in cuts.everything()]
        canonical = [(each.path, each.run, each.stand, conditions(each), each.key)
                     for each in candidates(form.publication)]  # fmt: skip
        assert mine == ([] if compiled.indivisible else canonical)
        assert bool(cuts.note) == compiled.indivisible
        tried += 1
    assert tried > 100


def test_single_atoms_are_listed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A] ; [B] ; [C]", "--cuts"]) == 0
    short = capsys.readouterr().out
    assert "left out: 3 single atoms" in short
    assert main(["explain", "[A] ; [B] ; [C]", "--cuts", "--verbose"]) == 0
    full = capsys.readouterr().out
    assert "left out" not in full
    assert [line.split()[-1] for line in full.splitlines() if line[:1] == "✓"][-3:] == [
        "[A]", "[B]", "[C]"
    ]  # fmt: skip
    assert "5 sub-patterns listed" in full


@pytest.mark.parametrize(("count", "rows", "left"), [(MOST_PARTS, 8 * 7 // 2 - 1, 0), (9, 7, 28), (60, 58, 1711)])
def test_long_joints_list_prefixes_only(count: int, rows: int, left: int) -> None:
    cuts = cuts_of(compile_pattern(" ; ".join(f"[A{number}]" for number in range(count))), {})
    listing = cuts.for_people()
    assert (len(listing.rows), listing.runs_left, listing.atoms_left) == (rows, left, count)
    # All runs, the whole among them, and all parts.
    assert len(list(cuts.everything())) == count * (count - 1) // 2 + count
    assert len(listing.rows) + listing.runs_left + listing.atoms_left + 1 == len(list(cuts.everything()))


def test_report_counts_omissions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", " ; ".join("[A] ([B] | [C])" for _ in range(5)), "--cuts"]) == 0
    out = capsys.readouterr().out
    assert "left out: 36 runs" in out
    assert "--json lists all" in out
    # Single parts that are no atoms are shown.
    assert sum(line.endswith("  [B] | [C]") for line in out.splitlines()) == 5


def test_json_lists_every_sub_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[A as a] ; [B where x > a.x] ; [C]* within 5s by room -> X(v = a.v)"
    assert main(["explain", text, "--cuts", "--json"]) == 0
    by_option = capsys.readouterr().out
    assert main(["explain", text, "--cuts", "--format", "json"]) == 0
    assert capsys.readouterr().out == by_option
    report = json.loads(by_option)
    assert report["conditions"] == CONDITIONS
    (pattern,) = report["patterns"]
    assert set(pattern) == {"text", "canonical_id", "canonical", "consumption", "note", "sub_patterns"}
    assert (pattern["consumption"], pattern["note"]) == ("ordered", None)
    compiled = compile_pattern(text)
    assert (pattern["text"], pattern["canonical_id"]) == (compiled.text, compiled.automaton.canonical_id)
    kinds: dict[str, Any] = {
        "path": list, "run": list | None, "text": str, "atoms": int, "stand": str, "allowed": bool, "failures": list,
        "key": list, "window_ns": int | None, "exports": list,
    }  # fmt: skip
    for each in pattern["sub_patterns"]:
        assert {name: isinstance(each[name], kind) for name, kind in kinds.items()} == dict.fromkeys(each, True)
        assert each["allowed"] == (not each["failures"])
        for failure in each["failures"]:
            assert set(failure) == {"condition", "reason"}
            assert failure["condition"] in CONDITIONS
    found = {(tuple(each["path"]), tuple(each["run"] or ())): each for each in pattern["sub_patterns"]}
    assert found[(), ()]["stand"] == "whole"
    prefix = found[(0, 0), (0, 2)]
    assert (prefix["text"], prefix["atoms"], prefix["stand"], prefix["allowed"]) == (
        "[A as a] ; [B where x > a.x]", 2, "prefix", True
    )  # fmt: skip
    assert (prefix["key"], prefix["window_ns"], prefix["exports"]) == (["room"], 5_000_000_000, ["a"])
    alone = found[(0, 0, 1), ()]
    assert (alone["text"], [each["condition"] for each in alone["failures"]]) == ("[B where x > a.x]", ["closed"])


def test_report_covers_all_patterns_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.pattern"
    path.write_text("[A] ; [B] ; [C] -> X()\n[X] [X] [D]* -> Y()\n", encoding="utf-8")
    out = tmp_path / "cuts.txt"
    assert main(["explain", str(path), "--cuts"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if "->" in line] == ["[A] ; [B] ; [C] -> X()", "[X] [X] [D]* -> Y()"]
    assert main(["explain", str(path), "--cuts", "--out", str(out)]) == 0
    written = out.read_text(encoding="utf-8")
    assert [line.rstrip() for line in shown.splitlines()] == written.splitlines()
    assert main(["explain", str(path), "--cuts", "--json", "--force", "--out", str(out)]) == 0
    assert [each["text"] for each in json.loads(out.read_text(encoding="utf-8"))["patterns"]] == [
        "[A] ; [B] ; [C] -> X()", "[X] [X] [D]* -> Y()"
    ]  # fmt: skip


def test_patterns_by_epochs_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", "[A] ; [B] ; [C]", "--cuts", "--consumption", "epoch"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert NOT_CUT in shown
    assert "✓" not in shown
    assert main([*arguments, "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["patterns"]
    assert (report["consumption"], report["note"], report["sub_patterns"]) == ("epoch", NOT_CUT, [])
    expected = compile_pattern("[A] ; [B] ; [C]", consumption="epoch").automaton.canonical_id
    assert report["canonical_id"] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cuts", "--decomposition", "full"], "--cuts and --decomposition ask for different things"),
        (["--cuts", "--format", "svg"], "cuts are not drawn: --format svg"),
        (["--cuts", "--format", "dot"], "cuts are not drawn: --format dot"),
        (["--verbose"], "--verbose goes with --cuts"),
        (["--decomposition", "full", "--verbose"], "--verbose goes with --cuts"),
        (["--cuts", "--out", "/no/such/folder/x"], "cannot write the file"),
    ],
)
def test_explain_refuses_invalid_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "[A] ; [B]", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_terminal_gets_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", "[A] ; [B] [C]* ; [D]", "--cuts"]) == 0
    out = capsys.readouterr().out
    assert "\x1b[1;32m✓" in out
    assert "\x1b[31m✗" in out


# The page about it.

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "cutting.md").read_text(encoding="utf-8")


def test_sessions_of_the_docs_are_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"^`(\S+)`:\n\n```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    sessions = re.findall(r"^```console\n\$ distced (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(sessions) > 1
    for line, wanted in sessions:
        assert main(shlex.split(line)) == 0
        assert capsys.readouterr().out == wanted


@pytest.mark.parametrize(
    ("whole", "part", "stand", "failed"),
    [
        ("[A] ; [B] ; [C]", "[A] ; [B]", "prefix", ""),
        ("[A] ; [B] | [C]", "[A] ; [B]", "branch", ""),
        ("([A] & [B] ; [C]) ; [D]", "[B] ; [C]", "side", ""),
        ("([A] ; [B], [T <= {T, C}]) @ T = 5s", "[A] ; [B]", "timed", ""),
        ("[A] ; [B] ; [C]", "[B] ; [C]", "right-hand side", ""),
        ("([A] ; [B])+", "[A] ; [B]", "nowhere", "stand"),
        ("[A] ([B] [C] | [D])", "[B] [C]", "nowhere", "stand"),
        ("[A as a] ; [B where x == a.x] [C]", "[B where x == a.x] [C]", "right-hand side", "closed"),
        ("[A as a] ; [B where x == a.x] [C]", "[A as a] ; [B where x == a.x]", "prefix", ""),
        ("[A] ; [B]*", "[B]*", "right-hand side", "empty"),
        ("[A] [B]* [C] [D]", "[C] [D]", "right-hand side", "a"),
        ("[A] [B]* ; [C]", "[B]* ; [C]", "right-hand side", "b"),
        ("[A] ; ([B] & [C]) [D]", "([B] & [C]) [D]", "right-hand side", "b"),
        ("[A] ; ([B] & [C]) [D]", "[B] & [C]", "right-hand side", "b"),
        ("[A] [B]* [C]", "[A] [B]*", "prefix", "c"),
        ("[A] ; [B]+ | [C]", "[A] ; [B]+", "branch", ""),
    ],
)
def test_examples_of_the_docs_hold(whole: str, part: str, stand: str, failed: str) -> None:
    assert f"`{whole}`" in PAGE.replace("\\|", "|")
    assert f"`{part}`" in PAGE
    found = {format_pattern(row.pattern): row for row in cuts_of(compile_pattern(whole), {}).everything()}
    assert (found[part].stand, conditions(found[part])) == (stand, failed)


@pytest.mark.parametrize(
    ("whole_text", "part", "condition", "events", "found"),
    [
        ("[A] [B]* [C] [D]", "[C] [D]", "a", ["A 1", "C 2", "B 3", "D 4"], (1, 0)),
        ("[A] [B]* ; [C]", "[B]* ; [C]", "b", ["A 10", "C 5 15"], (0, 1)),
        ("[A] [B]* [C]", "[A] [B]*", "c", ["A 1", "B 2", "C 3"], (1, 2)),
    ],
)
def test_every_condition_is_needed(
    whole_text: str, part: str, condition: str, events: list[str], found: tuple[int, int]
) -> None:
    """What the page says would happen: how many composite events are found whole, and cut against the rule."""

    def choose(publication: Publication, exports: frozenset[str]) -> list[ChosenCut]:
        judged = candidates(publication, exports=exports, without=frozenset(condition))
        return [ChosenCut(each) for each in judged if format_pattern(each.pattern) == part and each.allowed]

    compiled = compile_pattern(whole_text)
    given = [parse_event(each, place) for place, each in enumerate(events)]
    graph = cut([compiled], choose)
    assert len(graph.plans) == 2
    (expected,) = whole([compiled], given).values()
    (seen,) = in_parts(graph, given, 1).values()
    assert (len(expected.composites), len(seen.composites)) == found
