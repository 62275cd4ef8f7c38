"""Properties of published messages in MQTT 5, as bytes: those that name subscriptions, and pairs of texts of users.

MQTT 5, sections 2.2.2 and 3.3.2.3. paho makes a table of all properties, 60 us a message. Here they are walked over, in
a few. Properties may come from anybody: malformed ones end the connection,
as under paho, and of a great number only the first are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

UserProperties: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of name and value."""

MOST: Final = 256
"""Properties of a message that are looked at; a message without user properties has a few."""

LONGEST: Final = 1024
"""Bytes of a name or a value that is read; longer ones are left out."""

SUBSCRIPTION_IDENTIFIER: Final = 0x0B
_USER_PROPERTY: Final = 0x26
_FIXED: Final = {0x01: 1, 0x02: 4, 0x23: 2}  # payload format, message expiry, topic alias
_TEXTS: Final = (0x03, 0x08, 0x09)  # content type, response topic, correlation data: length and bytes


def pack(pairs: Iterable[tuple[str, str]]) -> bytes:
    """User properties behind their length, as a packet that publishes has them; names and values up to 64 kB."""
    packed = bytearray()
    for pair in pairs:
        packed.append(_USER_PROPERTY)
        for text in pair:
            encoded = text.encode()
            packed += len(encoded).to_bytes(2, "big") + encoded
    length, head = len(packed), bytearray()
    while length > 0x7F:
        head.append(0x80 | length & 0x7F)
        length >>= 7
    head.append(length)
    return bytes(head + packed)


def user_properties(raw: bytes) -> UserProperties:
    """User properties among those of a message, without what is malformed, too long, or behind many others."""
    found: list[tuple[str, str]] = []
    try:
        for kind, start, end in walk(raw):
            if kind != _USER_PROPERTY:
                continue
            middle = start + 2 + (raw[start] << 8 | raw[start + 1])
            if middle - start <= LONGEST + 2 and end - middle <= LONGEST + 2:
                found.append((raw[start + 2 : middle].decode(), raw[middle + 2 : end].decode()))
    except ValueError:
        # The bus ends the connection.
        return ()
    return tuple(found)


def subscription_identifiers(raw: bytes) -> tuple[int, ...]:
    """Subscription identifiers among the properties of a message; `ValueError` for malformed properties."""
    return tuple([_number(raw, start) for kind, start, _ in walk(raw) if kind == SUBSCRIPTION_IDENTIFIER])


def walk(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind of each of the first properties, and where its value begins and ends.

    Args:
        raw: the properties behind their length.

    Raises:
        ValueError: malformed properties, behind those before them.
    """
    position, size = 0, len(raw)
    while position < size and raw[position] > 0x7F:
        position += 1
    position += 1
    for _ in range(MOST):
        if position >= size:
            return
        kind, start = raw[position], position + 1
        if kind == _USER_PROPERTY:
            end = _behind_text(raw, _behind_text(raw, start))
        elif kind == SUBSCRIPTION_IDENTIFIER:
            end = start
            while end < size and end - start < 4 and raw[end] > 0x7F:
                end += 1
            end += 1
        elif kind in _TEXTS:
            end = _behind_text(raw, start)
        elif kind in _FIXED:
            end = start + _FIXED[kind]
        else:
            raise ValueError(f"a property of an unknown kind, {kind}")
        if end > size or (kind == SUBSCRIPTION_IDENTIFIER and (end - start > 4 or not _number(raw, start))):
            raise ValueError("a malformed property")
        yield kind, start, end
        position = end


def _behind_text(raw: bytes, start: int) -> int:
    """Where a text ends that begins with its length; beyond all where there is none."""
    return start + 2 + (raw[start] << 8 | raw[start + 1]) if start + 2 <= len(raw) else len(raw) + 1


def _number(raw: bytes, start: int) -> int:
    """Number of one to four bytes, the last below 128."""
    value = 0
    for shift in range(0, 28, 7):
        byte = raw[start]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        start += 1
    return value
