"""TOML files of bounded size and depth: a broken or hostile one is an error at once, whatever it holds.

tomllib raises RecursionError for deep arrays and ValueError for long numbers, and its time grows with the square of the
length of a dotted key.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from distced.middleware.model.errors import DistcedError

MOST_BYTES: Final = 1 << 19
DEEPEST_KEY: Final = 20

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
        text = content[:MOST_BYTES].decode("utf-8")
    except (OSError, ValueError) as caught:  # a name with a null, too
        raise error(f"cannot read the {what}", given=str(path), advice=str(caught)) from None
    if len(content) > MOST_BYTES:
        raise error("a TOML file that is too large", given=str(path), allowed=f"{MOST_BYTES:,} bytes")
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
