"""Files of hints: what placement analysis found out about detectors, for the nodes that place them.

`distced place --out` writes one, `distced broker --hints` puts it into the directory, an entry for each detector, so
that every node goes by the same. composite-event-framework-2004, "Distribution Policies": policies are enhanced by
hints; here it is not the application that gives them but a history. JSON, for people read it, and change it.
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
    """What a file of hints holds.

    Attributes:
        metric: what the placement is best at.
        patterns: by id what each detector detects, for people.
        detectors: the hints, by id.
    """

    format: str
    version: int
    metric: str = ""
    patterns: dict[str, str] = {}
    detectors: dict[str, HintEntry] = {}


def write_hints(path: Path, metric: str, patterns: dict[str, str], detectors: dict[str, HintEntry]) -> None:
    """Write a file of hints."""
    content = msgspec.json.encode(HintFile(FORMAT, VERSION, metric, patterns, detectors))
    try:
        path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
    except OSError as error:
        raise DistcedError("cannot write the hints", given=str(path), advice=str(error)) from None


def read_hint_file(path: Path) -> dict[str, HintEntry]:
    """The hints of a file, by detector.

    Raises:
        DistcedError: where there is none, or it holds something else.
    """
    advice = "distced place --out writes one"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=HintFile)
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
