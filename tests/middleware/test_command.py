"""The frame of the command line: verbs of all packages, loaded when they are called; errors for people and programs."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path

import pytest

from distced.middleware.cli import command
from distced.middleware.cli.command import main
from distced.middleware.cli.output import messages, print_json, show_error
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.extras import EXTRAS

HEAVY = ("ray", "pyarrow", "numpy", "pandas", "polars", "amqtt", "networkx", "scipy", "numba", "pyspark")
MINE = ("check", "explain", "run", "test")


def in_a_process(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which tells at the end what it imported."""
    code = (
        "import sys; from distced.middleware.cli.command import main; code = main(sys.argv[1:]);"
        "print('imported', *sorted(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=plain | (environment or {}),
        check=False,
    )


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    return set(done.stderr.splitlines()[-1].split()[1:])


def test_list_of_verbs_has_a_line_for_each_and_imports_no_verb() -> None:
    done = in_a_process("--help")
    assert done.returncode == 0
    for verb in MINE:
        line = next(line for line in done.stdout.splitlines() if line.strip().startswith(verb))
        assert len(line.split()) > 3
    assert not imported(done) & set(HEAVY)
    assert not [module for module in imported(done) if ".cli." in module and ".middleware." not in module]


def test_help_read_from_the_source_is_that_of_the_loaded_verb() -> None:
    for entry in entry_points(group=command.VERBS):
        loaded = command._command(entry)
        assert inspect.cleandoc(command._help(entry)) == inspect.cleandoc(loaded.help), entry.name


def test_only_the_module_of_the_verb_that_is_called_is_imported() -> None:
    done = in_a_process("check", "[A]")
    assert done.returncode == 0
    packages = {name.split(".")[1] for name in imported(done) if name.startswith("distced.")}
    assert packages == {"middleware", "detectors"}
    assert not imported(done) & set(HEAVY)


def test_command_without_anything_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "check" in capsys.readouterr().err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"distced {version('distced')}\n"


@pytest.mark.parametrize("verb", MINE)
def test_every_verb_has_help_with_examples_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"  distced {verb}" in text
    assert "--json" in text


def test_unknown_verb_is_reported_with_the_known_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chek"]) == 2
    shown = capsys.readouterr()
    assert "no verb of this name: chek" in shown.err
    assert "did you mean check?" in shown.err
    assert "explain" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "Missing argument"),
        (["check", "--typs", "[A]"], "--typs"),
        (["explain", "[A]", "--format", "p"], "'p'"),
    ],
)
def test_wrong_command_line_is_an_error_with_advice(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert main([*arguments, "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["error"] == "UsageError"
    assert message in report["problem"]


def test_error_in_a_pattern_shows_the_place_with_a_caret(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[A] ; Door"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0] == "error: no definition of this name: Door"
    assert lines[1] == "  at line 1, column 7"
    assert lines[2].index("Door") == lines[3].index("^^^^")
    assert any("write [Door]" in line for line in lines)


def test_error_is_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[A] ; Door", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.err == ""
    report = json.loads(shown.out)
    assert (report["error"], report["line"], report["column"], report["given"]) == ("PatternError", 1, 7, "Door")
    assert report["snippet"].splitlines()[1].strip() == "^^^^"


def test_errors_without_a_place_have_no_snippet(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(DistcedError("nothing there", where="here.toml", allowed="something", advice="put it there"))
    assert capsys.readouterr().err.splitlines() == [
        "error: nothing there",
        "  at here.toml",
        "  allowed: something",
        "  advice: put it there",
    ]


def test_brackets_of_patterns_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(PatternError("odd", given="[red]A[/red]"))
    assert "[red]A[/red]" in capsys.readouterr().err


def test_output_has_no_colours_without_a_terminal() -> None:
    assert "\x1b" not in in_a_process("check", "[A").stderr
    coloured = in_a_process("check", "[A", environment={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    assert "\x1b[" in coloured.stderr
    refused = in_a_process("check", "[A", environment={"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": "1"})
    assert "\x1b[1;31m" not in refused.stderr


def test_lines_are_not_broken_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    messages().print("x" * 500)
    assert capsys.readouterr().err == "x" * 500 + "\n"


def test_unexpected_exceptions_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("distced.detectors.cli.check.compile_source", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["check", "[A]"])


@pytest.mark.parametrize(("package", "extra"), sorted(EXTRAS.items()))
def test_extra_that_is_missing_is_named(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(f"No module named '{package}.sub'", name=f"{package}.sub")

    monkeypatch.setattr("distced.detectors.cli.check.compile_source", without)
    assert main(["check", "[A]"]) == 2
    report = capsys.readouterr().err
    assert f"{package}, which is not installed" in report
    assert f"distced[{extra}]" in report


def test_extras_bring_what_they_are_said_to_bring() -> None:
    """As pyproject.toml has them; an extra may bring others along."""
    file = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(file.read_text())["project"]["optional-dependencies"]

    def packages(extra: str) -> set[str]:
        found = {re.match(r"[a-z0-9-]+", each)[0] for each in extras[extra]}  # type: ignore[index]
        for each in extras[extra]:
            if also := re.match(r"distced\[(.*)\]", each):
                found |= {one for name in also[1].split(",") for one in packages(name)}
        return found

    for package, extra in EXTRAS.items():
        name = package.replace("_", "-")
        # A namespace has several packages.
        assert any(each == name or each.startswith(f"{name}-") for each in packages(extra)), package
    assert "ray" not in packages("broker")
    assert packages("all") >= {package for extra in set(extras) - {"dev", "fast"} for package in packages(extra)}


def test_interrupted_verb_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("distced.detectors.cli.check.compile_source", interrupted)
    assert main(["check", "[A]"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_verb_that_cannot_be_loaded_is_listed_and_fails_when_it_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("gone", "no.such.module:verb", command.VERBS)
    monkeypatch.setattr(command, "entry_points", lambda group, name="gone": [broken])
    assert main(["--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    with pytest.raises(ModuleNotFoundError):
        main(["gone"])


def test_verb_may_have_verbs_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    group = typer.Typer(help="Administer.")

    @group.command()
    def say(word: str) -> int:
        """Say a word."""
        print(word)
        return 7

    class Loaded:
        name = "admin"

        def load(self) -> typer.Typer:
            return group

    monkeypatch.setattr(command, "entry_points", lambda group, name="admin": [Loaded()])
    assert main(["admin", "say", "hello"]) == 7
    assert capsys.readouterr().out == "hello\n"


def test_json_is_readable_whatever_the_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"unit": "°C"})
    assert json.loads(capsys.readouterr().out) == {"unit": "°C"}
    done = in_a_process("check", "[`Wärme`]", "--json", environment={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["patterns"][0]["reads"] == ["Wärme"]


def test_terminal_that_lacks_characters_shows_their_numbers() -> None:
    done = in_a_process("explain", "[A] | [B]", environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "q0" in done.stdout
