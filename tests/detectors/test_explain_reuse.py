"""`distced explain --decomposition for-reuse`: what new patterns would reuse of what is detected already."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from distced.detectors.compiler import compile_file
from distced.detectors.cutting.reuse import catalogue_of, plan_for_reuse
from distced.middleware.cli.command import main
from tests.support.random_cuts import described, in_parts, whole
from tests.support.random_patterns import make_events

ROOMS = """[Door] ; [Motion] ; [Light] -> Entered()
[Door] ; [Motion] ; [Alarm] -> Intruder()
[Intruder] ; [Guard] -> Checked()
"""
SEEN = "type Seen = Pers every 1min by (person, room)\n"

# What runs; what is new; what is shown of the one and of the other, and the summary.
CASES = [
    (
        ROOMS,
        "[Door] ; [Motion] ; [Guard]",
        {"[Door] ; [Motion]"},
        {"[Door] ; [Motion] ; [Guard]"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
    (ROOMS, "[Light] ; [Alarm]", set(), {"[Light] ; [Alarm]"}, "1 pattern, 1 detector: 0 run already, 1 new"),
    # What is published is no part of another pattern.
    (
        ROOMS,
        "[Door] ; [Motion] ; [Light] ; [Off]",
        {"[Door] ; [Motion]"},
        {"[Door] ; [Motion] ; [Light] ; [Off]"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
    # All of it runs, with what it publishes or without.
    (
        ROOMS,
        "[Door] ; [Motion] ; [Light] -> Entered()",
        {"[Door] ; [Motion]", "[Door] ; [Motion] ; [Light] -> Entered()"},
        set(),
        "1 pattern, 2 detectors: 2 run already, 0 new",
    ),
    (
        ROOMS,
        "[Door] ; [Motion] -> Moved()",
        {"[Door] ; [Motion]"},
        {"[Door] ; [Motion] -> Moved()"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
    # What is read by its name is reused, too, with all that this needs.
    (
        ROOMS,
        "[Checked] ; [Off]",
        {
            "[Door] ; [Motion]",
            "[Door] ; [Motion] ; [Alarm] -> Intruder()",
            "[Intruder] ; [Guard] -> Checked()",
        },
        {"[Checked] ; [Off]"},
        "1 pattern, 4 detectors: 3 run already, 1 new",
    ),
    # What is left out of the domain is not read.
    (
        ROOMS,
        "[Off <= any - Intruder] ; [On]",
        set(),
        {"[Off <= any - Intruder] ; [On]"},
        "1 pattern, 1 detector: 0 run already, 1 new",
    ),
    # New ones reuse what was planned for those before them, which is new all the same.
    (
        "[A] ; [B]",
        "[C] ; [A] ; [B]\n[C] ; [A] ; [B] ; [D] -> X()\n[A] ; [B]",
        {"[A] ; [B]"},
        {"[C] ; [A] ; [B]", "[C] ; [A] ; [B] ; [D] -> X()"},
        "3 patterns, 3 detectors: 1 runs already, 2 new; 2 shared",
    ),
    # Variables are called as in the canonical form.
    (
        "[A as x] ; [B where v > x.v] ; [C where v == x.v] -> X()",
        "[C] ; [A as y] ; [B where v > y.v] ; [D where v == y.v]",
        {"[A as x0] ; [B where v > x0.v]"},
        {"[C] ; [A as x0] ; [B where v > x0.v] ; [D where v == x0.v]"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
    # Throttled events have the names of the derived types, of either file.
    (
        SEEN + "[Seen] ; [Door] ; [Light] -> X()",
        SEEN + "[Seen] ; [Door] ; [Off]",
        {"[Seen] ; [Door]"},
        {"[Seen] ; [Door] ; [Off]"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
    (
        SEEN + "[Seen] ; [Door] -> X()",
        "[X] ; [Off]",
        {"[Seen] ; [Door] -> X()"},
        {"[X] ; [Off]"},
        "1 pattern, 2 detectors: 1 runs already, 1 new",
    ),
]


def explained(folder: Path, there: str, new: str, *more: str) -> list[str]:
    """The arguments for two pattern files of these texts."""
    for name, text in (("there", there), ("new", new)):
        (folder / f"{name}.pattern").write_text(text, encoding="utf-8")
    files = [str(folder / "new.pattern"), "--running", str(folder / "there.pattern")]
    return ["explain", *files, "--decomposition", "for-reuse", *more]


@pytest.mark.parametrize(
    ("there", "new", "running", "made", "summary"), CASES, ids=[f"{new} / {there}" for there, new, *_ in CASES]
)
def test_explain_shows_reused_detectors(
    there: str,
    new: str,
    running: set[str],
    made: set[str],
    summary: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(explained(tmp_path, there, new, "--json")) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {each["text"] for each in shown["detectors"] if each["running"]} == running
    assert {each["text"] for each in shown["detectors"] if not each["running"]} == made
    assert len(shown["detectors"]) == len(running) + len(made)
    assert main(explained(tmp_path, there, new)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"decomposition for-reuse: {summary}"
    for each in shown["detectors"]:
        described = [line for line in lines if each["id"][:7] in line]
        assert described
        assert {" runs already " in line for line in described} == {each["running"]}
    for form in ("dot", "mermaid"):
        assert main(explained(tmp_path, there, new, "--format", form)) == 0
        picture = capsys.readouterr().out
        assert f"decomposition for-reuse: {summary}" in picture
        assert ("runs already" in picture) == bool(running)


def test_single_pattern_reuses_a_running_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = explained(tmp_path, ROOMS, "")
    arguments[1] = "[Door] ; [Motion] ; [Guard]"
    assert main(arguments) == 0
    assert "2 detectors: 1 runs already, 1 new" in capsys.readouterr().out


def test_pattern_by_epochs_is_reused_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = "[A] ; [B] -> X()\n[A] ; [B] ; [C] -> Y()"
    assert main(explained(tmp_path, "[A] ; [B] -> X()", new, "--consumption", "epoch")) == 0
    assert "2 patterns, 2 detectors: 1 runs already, 1 new\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("[A] ; [B] ; [C]", "[C] ; [A] ; [B]\n[C] ; [A] ; [B] ; [C] -> X()"),
        ("[A] ; [B] | [C]\n[B] ; [C] within 4ns", "[A] ; ([B] ; [C] within 4ns)\n[B] ; ([A] ; [B] | [C]) ; [C]"),
        (
            "[A as x] ; [B where v >= x.v] ; [C]",
            "[A as y] ; [B where v >= y.v] ; [A]\n[C] ; [A as z] ; [B where v >= z.v]",
        ),
        ("[A] ; [B] -> X()\n[A] ; [B] ; [C]", "[X] ; [C] -> Y()\n[Y] ; [A] ; [B]"),
        ("[A] ; [B] by k\n[B] ; [C]", "[A] ; [B] ; [C] by k\n[A] & [B] ; [C]"),
    ],
)
def test_reused_detectors_find_the_same(there: str, new: str) -> None:
    running, patterns = compile_file(there), compile_file(new)
    graph = plan_for_reuse(patterns, catalogue_of(running))
    assert graph.reused
    found = 0
    for seed in range(25):
        events = make_events(Random(seed), 9)
        every = whole([*running, *patterns], events)
        expected = {root: every[root] for root in graph.roots}
        assert in_parts(graph, events, seed) == expected, described(graph)
        found += sum(len(each.composites) for each in expected.values())
    assert found > 10


TYPES = '[types.A]\nx = "number"\n[types.B]\n'


@pytest.mark.parametrize(
    ("there", "new", "more", "message"),
    [
        ("[A] ; [B] -> X()", "[A] ; [C]", ["--types"], "unknown event type"),
        ("[A] ; [C] -> X()", "[A] ; [B]", ["--types"], "there.pattern, line 1, column 8"),
        ("[A as a] ; [B] -> X(x = a.x)", "[X where y == 1]", ["--types"], "new.pattern"),
        ("[A as a] ; [B] -> X(x = a.x)", "[A] -> X()", ["--types"], "known with other attributes"),
        ("[A ;", "[A] ; [B]", [], "there.pattern, line 1"),
        ("[A] ; [B]", "[A ;", [], "new.pattern, line 1"),
        ("P = [A] ; [B]", "[A] ; [B]", [], "a pattern file that publishes nothing"),
        ("[A] ; [B]", "[A] ; [B]", ["--verbose"], "--verbose goes with --cuts"),
        ("[A] ; [B]", "[A] ; [B]", ["--cuts"], "--cuts and --decomposition ask for different things"),
        ("[A] ; [B]", "[A] ; [B]", ["--format", "dot", "--out", "/no/such/folder/x.dot"], "cannot write the file"),
    ],
)
def test_errors_name_their_file(
    there: str, new: str, more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "types.toml").write_text(TYPES, encoding="utf-8")
    more = [*more, str(tmp_path / "types.toml")] if more == ["--types"] else more
    assert main(explained(tmp_path, there, new, *more)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_types_hold_for_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the running patterns publish is known to the new ones."""
    (tmp_path / "types.toml").write_text(TYPES, encoding="utf-8")
    new = "[X where x > 1] ; [B]"
    arguments = explained(tmp_path, "[A as a] ; [B] -> X(x = a.x)", new, "--types", str(tmp_path / "types.toml"))
    assert main(arguments) == 0
    assert "2 detectors: 1 runs already, 1 new" in capsys.readouterr().out


def test_notes_name_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(explained(tmp_path, SEEN + "[A] ; [B]", "[A] ; [B] ; [C]")) == 0
    assert "there.pattern: the derived type Seen is used nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message", "advice"),
    [
        (["--decomposition", "for-reuse"], "--decomposition for-reuse goes with --running FILE", "nothing to reuse"),
        (["--running", "FILE"], "--running goes with --decomposition for-reuse\n", "what is detected already"),
        (
            ["--running", "FILE", "--decomposition", "full"],
            "--running goes with --decomposition for-reuse: --decomposition full",
            "what is detected already",
        ),
        (["--running", "FILE", "--cuts"], "--running goes with --decomposition for-reuse", "what is detected already"),
        (
            ["--running", "none.pattern", "--decomposition", "for-reuse"],
            "no such pattern file: none.pattern",
            "--running takes a pattern file",
        ),
        (["--running", "x" * 300, "--decomposition", "for-reuse"], "no such pattern file", "takes a pattern file"),
        (["--running", "FOLDER", "--decomposition", "for-reuse"], "cannot read the pattern file", "directory"),
    ],
)
def test_explain_refuses_invalid_options(
    arguments: list[str], message: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.pattern").write_text(ROOMS, encoding="utf-8")
    names = {"FILE": str(tmp_path / "there.pattern"), "FOLDER": str(tmp_path)}
    assert main(["explain", "[A] ; [B]", *(names.get(each, each) for each in arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert advice in shown.err
    assert "Traceback" not in shown.err
