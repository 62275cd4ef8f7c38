"""Formats of event files, by the ending of their names; opening them, compressed or not."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, cast

from distced.middleware.mapping.schema import FileFormat
from distced.middleware.model.errors import EventError

FORMATS: Final[dict[str, FileFormat]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".log": "text",
    ".txt": "text",
    ".dat": "text",
}


def format_of(path: Path) -> FileFormat:
    """Format of a file by its name, a final `.gz` aside."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    found = FORMATS.get(suffix.lower())
    if found is None:
        raise EventError(
            "a file whose name does not tell its format",
            given=str(path),
            allowed=f"{', '.join(FORMATS)}, each with .gz",
            advice="rename it, or give file.format in its mapping",
        )
    return found


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Bytes of a file, decompressed where its name ends in `.gz`; `EventError` where it cannot be read."""
    try:
        # The block runs inside, because a broken file shows only while it is read.
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (OSError, EOFError, zlib.error) as error:
        raise EventError("cannot read the recording", given=str(path), advice=str(error)) from None


@contextmanager
def opened_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Text of a file in UTF-8; other bytes are kept, as backslash escapes."""
    with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig", errors="backslashreplace", newline="") as text:
        yield text


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """File to be written to, compressed where its name ends in `.gz`; it appears whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as raw:
            if path.suffix.lower() == ".gz":
                # Without the time, so that the same events give the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield raw
        part.replace(path)
    except OSError as error:
        raise EventError("cannot write the recording", given=str(path), advice=str(error)) from None
    finally:
        # Where nothing could be written there is nothing to be removed.
        with suppress(OSError):
            part.unlink(missing_ok=True)
