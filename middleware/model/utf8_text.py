"""Text files in UTF-8, with or without the byte-order mark that some editors write."""

from __future__ import annotations

import re
from typing import Final

_UTF16: Final = re.compile(rb"\xff\xfe|\xfe\xff|(?:[ -~]\0){2}|(?:\0[ -~]){2}")  # with a byte-order mark, or without


def utf8_text(content: bytes) -> str:
    """Text without a byte-order mark. Raises `ValueError` for another encoding, with advice."""
    check_not_utf16(content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8: save the file as UTF-8") from None


def check_not_utf16(start: bytes) -> None:
    """Raise `ValueError` for the first bytes of a text in UTF-16, with advice."""
    if _UTF16.match(start):
        raise ValueError("it is in UTF-16, not in UTF-8: save the file as UTF-8")
