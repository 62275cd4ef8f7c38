"""Output files of verbs: they replace no input, and what exists only with `--force`. Checked before the work begins."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from distced.middleware.model.errors import DistcedError

ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace output files that exist.", show_default=False)
]


def check_output(option: str, path: Path | None, *, force: bool, inputs: Iterable[Path | str | None] = ()) -> None:
    """Check that a file can be written to; devices and pipes can always.

    Args:
        option: names the file, in errors.
        inputs: files that are read, and other files that are written; None and texts that are no paths are left out.
    """
    if path is None:
        return
    if path.is_dir():
        raise DistcedError(
            "a folder where a file should be written", given=str(path), where=option, advice=f"say {path / 'x.jsonl'}"
        )
    if any(_same(path, each) for each in inputs if each is not None):
        raise DistcedError(
            f"{option} would overwrite a file of the same command", given=str(path), allowed="a file of its own"
        )
    if path.is_file() and not force:
        raise DistcedError(f"the file of {option} exists", given=str(path), advice="--force replaces it")


def check_report(
    folder: Path | None, names: Iterable[str], *, force: bool, inputs: Iterable[Path | str | None] = ()
) -> None:
    """Check that files of a report can be written into a folder."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise DistcedError("a file where --report makes a folder", given=str(folder))
    given = list(inputs)
    for name in names:
        check_output("--report", folder / name, force=force, inputs=given)


def _same(path: Path, other: Path | str) -> bool:
    with suppress(OSError, ValueError):
        return path.resolve() == Path(other).resolve() or path.samefile(other)
    return False
