"""Lookup tables from CSV files, such as a list of devices with their rooms."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from distced.middleware.model.errors import MappingError


def read_lookup(path: Path, columns: Sequence[str] | None, name: str) -> dict[str, str]:
    """Values by key of a CSV file with a heading.

    Args:
        columns: of the keys and of the values. Left out, they are the first column, and the column called `name` or
            else the second of two.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            heading = next(reader, [])
            key, value = _places(heading, columns, name, path)
            found: dict[str, str] = {}
            for cells in reader:
                if not cells:
                    continue
                where = f"{path}, line {reader.line_num}"
                if len(cells) != len(heading):
                    raise MappingError(
                        f"{len(cells)} columns in place of {len(heading)}", given=",".join(cells), where=where
                    )
                if found.setdefault(cells[key], cells[value]) != cells[value]:
                    raise MappingError(
                        f"a second value for {cells[key]!r}", given=cells[value], allowed="one value for each key",
                        where=where,
                    )  # fmt: skip
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MappingError(
            "cannot read the lookup", given=str(path), allowed="a CSV file in UTF-8 with a heading, beside the mapping",
            advice=str(error),
        ) from None  # fmt: skip
    if not found:
        raise MappingError("a lookup without rows", given=str(path))
    return found


def _places(heading: Sequence[str], columns: Sequence[str] | None, name: str, path: Path) -> tuple[int, int]:
    if columns is None:
        if len(heading) < 2 or (name not in heading[1:] and len(heading) > 2):
            raise MappingError(
                "which columns of the lookup?", given=", ".join(heading), where=str(path),
                advice=f'give columns = ["key", "value"], or call the column of the values {name!r}',
            )  # fmt: skip
        columns = (heading[0], name if name in heading[1:] else heading[1])
    for each in columns:
        if each not in heading:
            raise MappingError("no such column of the lookup", given=each, allowed=", ".join(heading), where=str(path))
    return heading.index(columns[0]), heading.index(columns[1])
