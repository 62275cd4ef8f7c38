"""The article's two scenarios and variants, as patterns in the core language: a `.pattern` file each."""

from __future__ import annotations

from importlib.resources import files

from distced.middleware.model.errors import DistcedError

_SUFFIX = ".pattern"


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios, sorted."""
    names = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def read_scenario(name: str) -> str:
    """Text of a scenario's pattern file, or an error that lists the scenarios."""
    if name not in scenario_names():
        raise DistcedError("no such scenario", given=name, allowed=", ".join(scenario_names()))
    return files(__name__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")
