"""TOML files of bounded size and depth: a broken or hostile one is an error at once, whatever it holds.

tomllib raises RecursionError for deep arrays and ValueError for long numbers, and its time grows with the square of the
length of a dotted key.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.utf8_text import utf8_text

MOST_BYTES: Final = 1 << 19
DEEPEST_KEY: Final = 20
MOST_LINES: Final = 2_000
"""Lines of a text in which `line_of` looks for a key."""

_PART: Final = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP: Final = re.compile(rf"""(?<![\w"'-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{DEEPEST_KEY}}}""", re.ASCII)


def read_toml(path: Path | str, what: str, error: type[DistcedError]) -> dict[str, Any]:
    """Tables of a TOML file, `-` for standard input.

    Args:
        what: name of the content in errors, such as `mapping` or `types`.
        error: class of errors, for files that cannot be read, are too large, or are no TOML.
    """
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise error("a TOML file that is too large", given=str(path), allowed=f"{MOST_BYTES:,} bytes")
        text = utf8_text(content)
    except (OSError, ValueError) as caught:  # a name with a null, too
        raise error(f"cannot read the {what}", given=str(path), advice=str(caught)) from None
    return parse_toml(text, str(path), error)


def parse_toml(text: str, name: str, error: type[DistcedError]) -> dict[str, Any]:
    """Tables of a TOML text, which errors call `name`."""
    if len(text) > MOST_BYTES:
        raise error("TOML that is too large", allowed=f"{MOST_BYTES:,} bytes", where=name)
    deep = _DEEP.search(text)
    if deep is not None:
        line = text.count("\n", 0, deep.start()) + 1
        raise error(
            "a key nested too deeply",
            given=deep[0],
            allowed=f"{DEEPEST_KEY} parts at most",
            where=f"{name}, line {line}",
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise error(
            "TOML nested too deeply", where=name, allowed="arrays and tables some hundred levels deep"
        ) from None
    except ValueError as caught:
        raise error("not TOML", where=name, advice=str(caught)) from None


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line of a key, table or entry of a list in a TOML text, counted from 1; 0 where it is not there.

    tomllib keeps no lines, so the text is parsed with one line more at a time: a key begins behind the last lines that
    are TOML without it. An entry of a list within brackets has the line of the list.
    """
    lines = text.split("\n")
    without = 0
    for end in range(1, min(len(lines), MOST_LINES) + 1):
        try:
            tables = tomllib.loads("\n".join(lines[:end]))
        except ValueError:
            continue
        if _is_there(tables, path):
            added = range(without, end)
            return next(at for at in added if lines[at].strip() and not lines[at].lstrip().startswith("#")) + 1
        without = end
    return 0


def _is_there(tables: Any, path: Sequence[str | int]) -> bool:
    for step in path:
        match tables:
            case dict() if step in tables:
                tables = tables[step]
            case list() if isinstance(step, int) and step < len(tables):
                tables = tables[step]
            case _:
                return False
    return True
