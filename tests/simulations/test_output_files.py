"""Output files of all verbs: no input is overwritten, and what exists is replaced only with `--force`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from distced.middleware.cli.command import app, main
from distced.middleware.cli.output_files import check_output
from distced.middleware.model.errors import DistcedError
from tests.support.verbs import load_verbs

EVENTS = "type,time\nA,1\nB,2\n"
SITES = '[[site]]\nname = "a"\n'
OUTPUTS = {"--out", "--rejected", "--log", "--picture", "--report"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    load_verbs()
    (tmp_path / "events.csv").write_text(EVENTS, encoding="utf-8")
    (tmp_path / "sites.toml").write_text(SITES, encoding="utf-8")
    (tmp_path / "old").write_text("old", encoding="utf-8")
    (tmp_path / "old.jsonl").write_text("old", encoding="utf-8")
    return tmp_path


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Verbs below a command, by their full names."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for each in command.list_commands(None):
        yield from commands(command.get_command(None, each), f"{name} {each}".strip())


def test_every_verb_that_writes_files_has_the_option(folder: Path) -> None:
    options = {
        name: {option for parameter in verb.params for option in parameter.opts}
        for name, verb in commands(typer.main.get_command(app), "")
    }
    writing = {name for name, given in options.items() if given & OUTPUTS} | {"history export"}
    # An experiment goes on with the results that are there.
    writing -= {"experiment run"}
    assert {name for name, given in options.items() if "--force" in given} == writing
    assert {"run", "explain", "topology", "replay", "ingest", "place", "simulate", "demo", "bench seq3"} <= writing


EXISTING = [
    ("run", "[A]", "--input", "events.csv", "--out", "old.jsonl"),
    ("run", "[A]", "--input", "events.csv", "--rejected", "old.jsonl"),
    ("explain", "[A]", "--format", "dot", "--out", "old"),
    ("explain", "[A]", "--policy", "min-load", "--topology", "sites.toml", "--out", "old"),
    ("topology", "sites.toml", "--out", "old"),
    ("replay", "[A]", "--history", ".", "--out", "old.jsonl"),
    ("ingest", "events.csv", "--history", "history", "--rejected", "old"),
    ("place", "--history", ".", "--topology", "sites.toml", "--patterns", "[A]", "--out", "old"),
    ("place", "--history", ".", "--topology", "sites.toml", "--patterns", "[A]", "--picture", "old"),
    ("simulate", "scenario.toml", "--log", "old"),
    ("bench", "seq3", "--report", "."),
    ("demo", "--report", "."),
]


@pytest.mark.parametrize("arguments", EXISTING)
def test_file_that_exists_is_kept(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    for name in ("seq3.md", "summary.json"):
        (folder / name).write_text("old", encoding="utf-8")
    assert main(arguments) == 2
    report = " ".join(capsys.readouterr().err.split())
    assert f"the file of {arguments[-2]} exists" in report
    assert "--force replaces it" in report
    assert {each.read_text() for each in (folder / "old", folder / "old.jsonl", folder / "seq3.md")} == {"old"}
    assert not (folder / "history").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "[A]", "--input", "events.csv", "--out", "./events.csv"),
        ("run", "[A]", "--input", "events.csv", "--rejected", "link.csv"),
        ("run", "[A]", "--input", "events.csv", "--rejected", "new.jsonl", "--out", "new.jsonl"),
        ("run", "events.csv", "--input", "old.jsonl", "--out", "events.csv"),
        ("explain", "events.csv", "--format", "dot", "--out", "events.csv"),
        ("topology", "sites.toml", "--format", "toml", "--out", "sites.toml"),
        ("ingest", "events.csv", "--history", "history", "--rejected", "events.csv"),
        ("simulate", "events.csv", "--log", "events.csv"),
    ],
)
def test_input_is_never_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    (folder / "link.csv").symlink_to("events.csv")
    assert main([*arguments, "--force"]) == 2
    report = " ".join(capsys.readouterr().err.split())
    assert "would overwrite a file of the same command" in report
    assert (folder / "events.csv").read_text() == EVENTS
    assert (folder / "sites.toml").read_text() == SITES


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "[B] -> X()", "--input", "events.csv", "--out", "old.jsonl"),
        ("run", "[B] -> X()", "--input", "events.csv", "--rejected", "old.jsonl"),
        ("explain", "[A]", "--format", "dot", "--out", "old.jsonl"),
        ("topology", "--random", "star", "--out", "old.jsonl"),
    ],
)
def test_option_force_replaces_a_file(folder: Path, arguments: tuple[str, ...]) -> None:
    assert main([*arguments, "--force"]) == 0
    assert (folder / "old.jsonl").read_text() != "old"


def test_hard_link_is_the_same_file(folder: Path) -> None:
    (folder / "link.csv").hardlink_to(folder / "events.csv")
    with pytest.raises(DistcedError, match="--out would overwrite"):
        check_output("--out", Path("link.csv"), force=True, inputs=["events.csv"])


def test_device_is_written_to(folder: Path) -> None:
    check_output("--out", Path("/dev/null"), force=False)
    assert main(["run", "[A]", "--input", "events.csv", "--out", "/dev/null"]) == 0


def test_folder_is_no_output_file(folder: Path) -> None:
    with pytest.raises(DistcedError, match="a folder where a file should be written"):
        check_output("--out", Path(), force=True)
