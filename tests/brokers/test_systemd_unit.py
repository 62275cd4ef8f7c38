"""The systemd unit of a broker node: its verb and options exist, and systemd takes it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from distced.middleware.cli.command import main
from tests.support.verbs import load_verbs

UNIT = Path(__file__).parents[2] / "docker" / "systemd" / "distced@.service"


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_verb_takes_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    load_verbs()
    program, verb, *options = shlex.split(settings()["ExecStart"][0].replace("%i", "cellar"))
    assert Path(program).name == "distced"
    assert main([verb, *options, "--help"]) == 0
    assert "--checkpoints" in capsys.readouterr().out
    assert any(each.startswith("DISTCED_CONFIG=") for each in settings()["Environment"])


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "distced@.service"
    file.write_text(UNIT.read_text().replace("/opt/distced/bin/distced", "/bin/true"))
    named = tmp_path / "distced@cellar.service"
    named.symlink_to(file)
    ran = subprocess.run(["systemd-analyze", "verify", str(named)], capture_output=True, text=True, check=False)
    if "Failed to" in ran.stderr and "connect" in ran.stderr:
        pytest.skip(f"systemd-analyze does not run here: {ran.stderr[:200]}")
    assert ran.returncode == 0 and "Unknown" not in ran.stderr, ran.stderr
