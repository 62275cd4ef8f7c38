"""Files of experiments: read, checked before anything runs, errors with file and line.

kind = "detection"
title = "Delay against errors"
about = "What the report says first."      # optional
seeds = { from = 1, to = 20 }              # or a list

[detection]                                # the table of the kind
...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from distced.middleware.mapping.schema import shape
from distced.middleware.model.errors import MappingError
from distced.middleware.model.toml_text import line_of, parse_toml, read_toml
from distced.simulations.experiments.kinds import MODULES, kind_named
from distced.simulations.experiments.model import Experiment, ExperimentError, SpecError

MOST_SEEDS: Final = 100_000

_T = TypeVar("_T", bound=msgspec.Struct)


class _Seeds(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}):
    first: int
    last: int


class _File(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    title: str
    seeds: list[int] | _Seeds
    about: str = ""


def shipped() -> list[Path]:
    """Experiment files of the package, by name."""
    folder = Path(str(files("distced.simulations.experiments") / "files"))
    return sorted(folder.glob("*.toml"))


def find_experiment(given: str) -> Path:
    """Path of a file, or of a shipped experiment by its name."""
    known = {path.stem: path for path in shipped()}
    if given in known and not Path(given).is_file():
        return known[given]
    if not Path(given).is_file():
        near = get_close_matches(given, known, n=1)
        raise ExperimentError("no file, and no experiment of this name", given=given, allowed=", ".join(known),
                              advice=f"did you mean {near[0]}?" if near else None)  # fmt: skip
    return Path(given)


def load_experiment(given: Path | str, *, seeds: int | None = None) -> Experiment:
    """Load and check the experiment of a file; raises `ExperimentError` with file and line.

    Args:
        given: path, or name of a shipped experiment.
        seeds: only the first n seeds.
    """
    path = find_experiment(str(given))
    read_toml(path, "experiment", ExperimentError)  # bounds its size
    text = path.read_text(encoding="utf-8-sig")
    made = parse_experiment(text, name=str(path), folder=path.parent, seeds=seeds)
    return replace(made, file=str(given), first=seeds)


def parse_experiment(
    text: str, *, name: str = "experiment", folder: Path | None = None, seeds: int | None = None
) -> Experiment:
    """The experiment of a TOML text.

    Args:
        name: of the file, in errors.
        folder: of the files that it names.
        seeds: only the first n seeds.
    """
    raw = parse_toml(text, name, ExperimentError)
    with _located(text, name):
        named = raw.get("kind")
        if not isinstance(named, str) or named not in MODULES:
            problem = "no kind of experiment" if "kind" in raw else "an experiment without its kind"
            raise SpecError(problem, ("kind",), given=named, allowed=", ".join(MODULES))
        table = raw.pop(named, None)
        file = _shape(raw, _File, ())
        if table is None:
            allowed = f"[{named}]"
            raise SpecError("the table of the kind is missing", ("kind",), given=named, allowed=allowed)
        kind = kind_named(named)
        chosen = _seeds(file.seeds, seeds)
        with _within(named):
            spec = _shape(table, kind.spec, ())
            spec = kind.resolve(spec, folder or Path())
            kind.check(spec)
        made = Experiment(Path(name).stem, file.title, file.about.strip(), kind, chosen, spec)
        if not made.cells():
            raise SpecError("an experiment without cells", (named,), allowed="a value for each factor")
        return made


def stored(experiment: Experiment) -> bytes:
    """An experiment as JSON, complete without its files."""
    content = {
        "name": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "kind": experiment.kind.name,
        "seeds": experiment.seeds,
        "spec": experiment.spec,
        "file": experiment.file,
        "first": experiment.first,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def restored(content: bytes) -> Experiment:
    """The experiment that `stored` has written."""
    try:
        raw = msgspec.json.decode(content)
        kind = kind_named(raw["kind"])
        spec = shape(raw["spec"], kind.spec, "spec")
        return Experiment(
            raw["name"], raw["title"], raw["about"], kind, tuple(raw["seeds"]), spec, raw["file"], raw["first"]
        )
    except (msgspec.MsgspecError, MappingError, KeyError, TypeError) as error:
        raise ExperimentError("not the record of an experiment", advice=f"run it again: {error}") from None


def _seeds(given: list[int] | _Seeds, count: int | None) -> tuple[int, ...]:
    if isinstance(given, _Seeds):
        if not 0 <= given.last - given.first < MOST_SEEDS:
            raise SpecError("no seeds between these numbers", ("seeds",), given=f"{given.first} to {given.last}",
                            allowed=f"1 to {MOST_SEEDS:,} seeds")  # fmt: skip
        found = tuple(range(given.first, given.last + 1))
    else:
        found = tuple(given)
        if not found or len(set(found)) < len(found):
            raise SpecError("not seeds", ("seeds",), given=list(found), allowed="at least one, each once")
    if count is not None and not 1 <= count <= len(found):
        raise ExperimentError("more seeds than the file has", given=count, allowed=f"1 to {len(found)}",
                              advice="write them into the file")  # fmt: skip
    return found[:count]


def _shape(raw: object, wanted: type[_T], path: Sequence[str | int]) -> _T:
    """A table as a struct; errors have the path of the key."""
    try:
        return shape(raw, wanted, "table")
    except MappingError as error:
        steps: list[str | int] = [*path]
        _, _, inside = (error.where or "").partition(", ")
        steps += [int(step) - 1 if step.isdecimal() else step for step in inside.split(".") if step]
        if error.problem == "unknown key":
            steps.append(str(error.given))
        # An empty default is no choice of its own.
        allowed = [each for each in (error.allowed or "").split(", ") if each]
        near = get_close_matches(str(error.given), allowed, n=1)
        advice = f"did you mean {near[0]}?" if near else None
        raise SpecError(error.problem, steps, given=error.given, allowed=", ".join(allowed), advice=advice) from None


@contextmanager
def _within(*outer: str) -> Iterator[None]:
    try:
        yield
    except SpecError as error:
        error.path = (*outer, *error.path)
        raise


@contextmanager
def _located(text: str, name: str) -> Iterator[None]:
    """Errors with the file, the line, and the key."""
    try:
        yield
    except SpecError as error:
        raise ExperimentError(
            error.problem, given=error.given, allowed=error.allowed, where=_place(text, name, error.path),
            advice=error.advice,
        ) from None  # fmt: skip


def _place(text: str, name: str, path: Sequence[str | int]) -> str:
    """File, line of the key or of the nearest table around it, and the key."""
    lines = (line_of(text, path[:length]) for length in range(len(path), 0, -1))
    line = next(filter(None, lines), 0)
    key = ".".join(str(step + 1) if isinstance(step, int) else step for step in path)
    return ", ".join(filter(None, [name, f"line {line}" if line else "", key]))
