"""The verbs of `distced` as pyproject.toml has them, also where it was not installed again since."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

from distced.middleware.cli import command


def load_verbs() -> None:
    """Have `middleware.cli.command.main` know them, in this process."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    entries = [EntryPoint(*verb, command.VERBS) for verb in project["entry-points"][command.VERBS].items()]
    command.entry_points = lambda group, name=None: [each for each in entries if name in (None, each.name)]  # type: ignore[attr-defined]
