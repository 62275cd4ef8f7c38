"""Images and deployments of docker/ on the engine of this machine, under names of their own, and removed at the end.

They are built, not pulled: base images that are not there yet are made, and removed with the others. Bases that are
there (`make images`) stay, and so does what the engine has cached of the builds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.support.docker_engine import FOLDER, RECOVERIES, Deployment, Engine, run

BASES = ("python:3.11-slim-bookworm", "debian:bookworm-slim")
OWN = f"test-{os.getpid()}"
UNREACHABLE = ("Could not resolve", "Temporary failure", "Failed to fetch", "No matching distribution", "Max retries")
"""Parts of error messages of apt and pip where no mirror or index is reached."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECOVERIES] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, seconds in config.stash[RECOVERIES].items():
        terminalreporter.write_line(f"longest delay {seconds:7.3f} s  {name}")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine; the test skips where there is none."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    found = run(FOLDER / "client.sh")
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return Engine(found.stdout.strip())


@pytest.fixture(scope="session")
def images(engine: Engine) -> Iterator[tuple[str, str]]:
    """Names of the images of distced, also as `-next`, and of its MQTT server, built; the test skips where no packages
    are reached."""
    names = (f"distced:{OWN}", f"distced-mosquitto:{OWN}")
    upgraded = f"{names[0]}-next"
    made = [*names, upgraded, *(base for base in BASES if not engine.has(base))]
    try:
        built = run(FOLDER / "build.sh", env={**os.environ, "TAG": OWN})
        if built.returncode == 3 or any(each in built.stdout + built.stderr for each in UNREACHABLE):
            pytest.skip(f"images cannot be built: {built.stderr[-500:]}")
        assert built.returncode == 0, built.stdout + built.stderr
        engine("tag", names[0], upgraded)
        yield names
    finally:
        run(engine.command, "image", "rm", "--force", *made)


@pytest.fixture(scope="module")
def deployment(images: tuple[str, str]) -> Iterator[Deployment]:
    """The deployment, running."""
    compose = run(FOLDER / "compose.sh", "version")
    if compose.returncode:
        pytest.skip(compose.stderr.strip())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TAG": OWN, "PROJECT": f"distced-{OWN}", "SPEED": "240"}.items():
            patch.setenv(name, value)
        with Deployment(FOLDER, wait=False) as running:
            yield running
