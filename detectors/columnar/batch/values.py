"""Attribute values as numbers: a tag for the kind, and 64 bits for the value.

Texts are numbers of a dictionary shared by the engine. Operations beyond the compiled loop (order of texts, results
beyond 64 bits) go to `middleware.sets.values`, with equal meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack as pack_bytes
from struct import unpack as unpack_bytes
from typing import Final

from distced.middleware.model.errors import EventError
from distced.middleware.model.events import Attribute

NULL: Final = 0
BOOLEAN: Final = 1
INTEGER: Final = 2
FLOAT: Final = 3
TEXT: Final = 4


class Texts:
    """The dictionary of texts, by number. It only grows, with the texts of the engine's events and patterns."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def numbers(self, texts: Iterable[str]) -> list[int]:
        """The numbers of several texts."""
        return [self.number(text) for text in texts]

    def packed(self, value: Attribute) -> tuple[int, int]:
        """A value as tag and bits."""
        kind = value.__class__
        if kind is int:
            return INTEGER, value  # type: ignore[return-value]
        if kind is str:
            return TEXT, self.number(value)  # type: ignore[arg-type]
        if kind is float:
            return FLOAT, bits(value)  # type: ignore[arg-type]
        if value is None:
            return NULL, 0
        if kind is bool:
            return BOOLEAN, int(value)
        raise EventError("not an attribute's value", given=value, allowed="a number, a text, true, false or null")

    def unpacked(self, tag: int, payload: int) -> Attribute:
        """The value of a tag and bits."""
        if tag == INTEGER:
            return payload
        if tag == TEXT:
            return self.texts[payload]
        if tag == FLOAT:
            return number_of(payload)
        return None if tag == NULL else bool(payload)


def bits(number: float) -> int:
    """The 64 bits of a float, as a signed integer."""
    found: int = unpack_bytes("<q", pack_bytes("<d", number))[0]
    return found


def number_of(payload: int) -> float:
    """The float with these 64 bits."""
    found: float = unpack_bytes("<d", pack_bytes("<q", payload))[0]
    return found


def plain(value: Attribute) -> Attribute:
    """A number in the form of key columns: whole numbers as integers."""
    if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value
