"""The lock of the image: it has every dependency of pyproject.toml, in a version that is allowed, by hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

from tests.support.docker_engine import pinned

ROOT = Path(__file__).parents[2]
EXTRAS = ("broker", "ray", "remote", "tables", "init", "metrics", "traces")
"""Extras of the image, as in `make lock`."""


def wanted() -> list[Requirement]:
    """What distced, its extras and its build ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = project["build-system"]["requires"] + project["project"]["dependencies"]
    for extra in EXTRAS:
        texts += project["project"]["optional-dependencies"][extra]
    # A line that is continued there has a backslash before the end.
    requirements = [Requirement(re.sub(r"\\?\n", " ", text)) for text in texts]
    return [each for each in requirements if each.name != "distced"]


def test_lock_has_every_dependency_in_a_version_that_is_allowed() -> None:
    locked = pinned()
    assert default_environment()["implementation_name"] == "cpython"
    for requirement in wanted():
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.name in locked, f"{requirement.name}: make lock"
            assert requirement.specifier.contains(locked[requirement.name]), f"{requirement}: make lock"


def test_lock_names_no_index() -> None:
    assert "://" not in (ROOT / "docker" / "requirements.lock").read_text()
