"""The systemd units of broker nodes and recorders: their verbs and options exist, and systemd takes them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from distced.middleware.cli.command import main
from tests.support.verbs import load_verbs

UNITS = sorted((Path(__file__).parents[2] / "docker" / "systemd").iterdir())


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_verb_takes_the_options(unit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_verbs()
    program, verb, *options = shlex.split(settings(unit)["ExecStart"][0].replace("%i", "cellar"))
    assert Path(program).name == "distced"
    assert main([verb, *options, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in options if each.startswith("--"))
    assert any(each.startswith("DISTCED_CONFIG=") for each in settings(unit)["Environment"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / unit.name
    file.write_text(unit.read_text().replace("/opt/distced/bin/distced", "/bin/true"))
    named = tmp_path / unit.name.replace("@", "@cellar")
    named.symlink_to(file)
    ran = subprocess.run(["systemd-analyze", "verify", str(named)], capture_output=True, text=True, check=False)
    if "Failed to" in ran.stderr and "connect" in ran.stderr:
        pytest.skip(f"systemd-analyze does not run here: {ran.stderr[:200]}")
    assert ran.returncode == 0 and "Unknown" not in ran.stderr, ran.stderr
