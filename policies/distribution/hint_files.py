"""Files of hints: results of placement analysis for the nodes that place detectors, JSON.

`distced place --out` writes one, `distced broker --hints` publishes an entry per detector to the directory.
composite-event-framework-2004, "Distribution Policies": hints enhance policies; these come from a history.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import HintEntry

FORMAT: Final = "distced hints"
VERSION: Final = 1


class HintFile(msgspec.Struct, frozen=True):
    """Content of a file of hints: objective of the placement; by detector id, patterns (for display) and hints."""

    format: str
    version: int
    metric: str = ""
    patterns: dict[str, str] = {}
    detectors: dict[str, HintEntry] = {}


_decoder: Final = msgspec.json.Decoder(HintFile)


def write_hints(path: Path, metric: str, patterns: dict[str, str], detectors: dict[str, HintEntry]) -> None:
    """Write a file of hints."""
    content = msgspec.json.encode(HintFile(FORMAT, VERSION, metric, patterns, detectors))
    try:
        path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
    except OSError as error:
        raise DistcedError("cannot write the hints", given=str(path), advice=str(error)) from None


def read_hint_file(path: Path) -> dict[str, HintEntry]:
    """Hints of a file, by detector; raises `DistcedError` for a missing or unreadable file."""
    advice = "distced place --out writes one"
    try:
        found = _decoder.decode(path.read_bytes())
    except OSError as error:
        raise DistcedError("cannot read the hints", given=str(path), advice=f"{error}; {advice}") from None
    except msgspec.DecodeError as error:
        raise DistcedError("not a file of hints", where=str(path), given=str(error), advice=advice) from None
    if found.format != FORMAT or found.version > VERSION:
        raise DistcedError(
            "not a file of hints, or one of a later version",
            given=f"{found.format} {found.version}",
            allowed=f"{FORMAT} up to {VERSION}",
            where=str(path),
            advice=advice,
        )
    return found.detectors
