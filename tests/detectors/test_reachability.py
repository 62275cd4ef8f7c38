"""Search of automata: patterns that can never match, and their neighbours that can."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.conformance.case_runner import run_case
from distced.detectors.conformance.cases import load_cases
from distced.middleware.cli.command import main
from distced.middleware.model.errors import PatternError

# With events that match.
POSSIBLE = [
    ("[A] [B] within 0s", "A 1, B 1"),
    ("[A] ; [B] ; [C] within 2ns", "A 1, B 2, C 3"),
    ("[A]{5} within 0s", "A 1, A 1, A 1, A 1, A 1"),
    ("([A], [T]) @ T = 5ns within 5ns", "A 1"),
    ("([A], [T] [B]) @ T = 5ns", "A 1, B 7"),
    ("(([A], [T]) @ T = 5ns){2}", "A 1, A 8"),
    ("([A], ([B], [S]) @ S = 1ns) @ T = 5ns", "A 1, B 2"),
    ("([A], ([B], [S]) @ S = 5ns) @ T = 6ns", "A 1, B 1"),
    ("([A], [B] ; [C]) @ T = 1ns", "A 1, B 1, C 2"),
    ("([A as a], [T] [B]) @ T = a.v within 9ns", "A 1 v=3, B 5"),
    ("([A as a], [B] ; [C]) @ T = a.v", "A 1 v='x', B 5, C 6"),
    ("([A as a], [T]) @ T = a.v within 0s", "A 1 v=0"),
    ("([A], [B]) @ T = at 1970-01-01", "A 1, B 2"),
    ("([A], ([B], [S]) @ S = 3ns) @ T = at 1970-01-01", "A 1, B 2"),
    ("([A], [T]) @ T = at 00:00", "A 1"),
    ("[A where v >= 3 and v <= 3 and v != 4]", "A 1 v=3"),
    ("[A where v == 1 or v == 2]", "A 1 v=2"),
    ("[A where not v > 3 and not v < 3]", "A 1"),
    ("[A as x] [B where x.v == 1 and v == 2]", "A 1 v=1, B 2 v=2"),
    ("[A] ([B where v > 3 and v < 2] | [C])", "A 1, C 2"),
    ("[A] [B where (v > 3) <= {B where v < 5, C}]", "A 1, B 2 v=4"),
    ("[ [A] & [B] <= {A, B} ]", "A 1, B 2"),
    ("[ [A] & ([B] ; [C]) <= {A, B, C} ]", "A 1, B 2, C 3"),
    ("init n = 0 : [A set n = n + 1]* [B where n == 2]", "A 1, A 2, B 3"),
]

IMPOSSIBLE = [
    "[A] ; [B] within 0s",
    "[A] [B] within 0s -> Out() consumed epoch",
    "[A] ; [B] ; [C] within 1ns",
    "[X] ([A] ; [B] ; [C] within 1ns)",
    "([A] ; [A]){3} within 2ns",
    "([A], [T]) @ T = 5s within 4s",
    "([A], [T] [T]) @ T = 5s",
    "([A], [T <= {T, B}] [T]) @ T = 5s",
    "([A], ([B], [S]) @ S = 5s) @ T = 1s",
    "([A], ([T], [S]) @ S = at 2026-01-01) @ T = at 2026-01-02",
    "([A], [B] ; [C] ; [D]) @ T = 1ns",
    "([A as a], [T] ; [B] ; [C]) @ T = a.v within 1ns",
    "([A as a], [T] [T]) @ T = a.v",
    "([A], ([B] within 1s) [T] within 1s) @ T = 5s within 2s",
    "[A where v == 1 and v == 2]",
    "[A] ; [B where v > 3 and w == 1 and v < 3]",
    "[A where v > 3 and v < 'b']",
    "[A where v == null and v > 1]",
    "[A as x] [B where x.v == 1 and x.v == 2]",
    "[A] [B where (v > 3) <= {B where v < 2, C}]",
    "[A] & ([B] ; [C] within 0s)",
    "[A as x] -> Out(v = x.v) where v > 3 and v < 2",
    "[A] -> Out(v = 1) where 1 > 2",
]


@pytest.mark.parametrize(("pattern", "events"), POSSIBLE)
def test_patterns_that_can_match_are_accepted_and_match(pattern: str, events: str, tmp_path: Path) -> None:
    compile_pattern(pattern).check_possible()
    listed = ", ".join(f'"{each.strip()}"' for each in events.split(","))
    file = tmp_path / "case.toml"
    file.write_text(f'[[case]]\nname = "x"\npattern = """{pattern}"""\nevents = [{listed}]\nexpect = []\n')
    assert run_case(load_cases(file)[0]).unexpected


@pytest.mark.parametrize("pattern", IMPOSSIBLE)
def test_patterns_that_cannot_match_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="a pattern that can never match"):
        compile_pattern(pattern).check_possible()


def test_large_search_ends_with_the_pattern_accepted() -> None:
    compile_pattern("[A]{1000} within 5s").check_possible()
    compile_pattern("([A] ; [B]){600} within 10us").check_possible()


def test_check_refuses_and_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "office.pattern"
    file.write_text("[A] -> X()\n[A] ; [B] within 0s -> Y()\n")
    assert main(["check", str(file)]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "a pattern that can never match" in shown and "line 2, column 1" in shown and "office.pattern" in shown
