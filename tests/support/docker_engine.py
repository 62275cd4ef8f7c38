"""Docker Engine of this machine, and the deployment of docker/ on it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from testcontainers.compose import DockerCompose

FOLDER = Path(__file__).parents[2] / "docker"

RECOVERIES = pytest.StashKey[dict[str, float]]()
"""Longest delay of a composite event, s, by test."""


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@dataclass(frozen=True)
class Engine:
    """Docker Engine of this machine, by a command that can build."""

    command: str

    def __call__(self, *arguments: str) -> str:
        """Output of a command that succeeds."""
        done = run(self.command, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def logs(self, container: str, since: float = 0.0) -> str:
        """Both outputs of a container, from a time on, s."""
        done = run(self.command, "logs", "--since", str(int(since)), container)
        return done.stdout + done.stderr

    def has(self, image: str) -> bool:
        return run(self.command, "image", "inspect", image).returncode == 0


def pinned() -> dict[str, str]:
    """Version of each package that is installed here, of those that the lock has for several Pythons and systems."""
    text = (FOLDER / "requirements.lock").read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        given, *hashes = line.split("--hash=")
        requirement = Requirement(given)
        assert hashes, f"{requirement.name} has no hash"
        if requirement.marker is None or requirement.marker.evaluate():
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            found[requirement.name] = specifier.version
    return found


class Deployment(DockerCompose):
    """Deployment of compose.yaml, by either Compose tool, of which the older cannot all that `DockerCompose` asks for.

    The environment has TAG, PROJECT and SPEED.
    """

    @cached_property
    def compose_command_property(self) -> list[str]:
        return [str(FOLDER / "compose.sh")]

    def container(self, service: str) -> str:
        """Id of the container of a service, ended or not."""
        return (
            self._run_command([*self.compose_command_property, "ps", "--all", "--quiet", service])
            .stdout.decode()
            .strip()
        )

    def stop_services(self, *services: str) -> None:
        """Stop services, as the engine does it: with a signal first."""
        self._run_command([*self.compose_command_property, "stop", *services])

    def upgrade(self, service: str) -> None:
        """Stop a service, and start it from the image whose tag ends in `-next`."""
        command = [*self.compose_command_property, "up", "--detach", "--no-deps", service]
        done = run(*command, env={**os.environ, "TAG": f"{os.environ['TAG']}-next"})
        assert done.returncode == 0, done.stderr

    def run(self, service: str, *arguments: str, entrypoint: str = "") -> subprocess.Popen[str]:
        """Start a further container of a service with arguments of its own."""
        program = ["--entrypoint", entrypoint] if entrypoint else []
        command = [*self.compose_command_property, "run", "--rm", "--no-deps", "-T", *program, service, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
