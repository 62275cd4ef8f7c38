"""Mutations of messages and texts, seeded: bytes, values within msgpack or JSON, and tokens of a text.

What a fuzzer with coverage would find by itself, structure, is taken from a corpus of valid messages and texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgpack

LEAVES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.5, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
    *(
        "",
        "A",
        "s",
        "q",
        "\0",
        "ä",
        "\ud800"[:0],
        "+",
        "#",
        "a/b",
        "x" * 300,
        "x" * 70_000,
        "mqtt://127.0.0.1:1",
        "[A]",
    ),
    *("guaranteed", "c", "e", "-1", "1e999", "2262-04-11T23:47:16Z"),
    *([], {}, [[]], {"": {}}, [None] * 20),
)
"""Values put in the place of others."""

DEEP: Final = (
    b"\x91" * 3_000,
    b"[" * 3_000,
    b'{"a":' * 3_000,
    b"\x81\xa1a" * 3_000,
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff",
)
"""Payloads that are nested deeply, or claim to be long."""


def mutated_message(random: Random, payload: bytes, corpus: Sequence[bytes]) -> bytes:
    """A message made of a valid one."""
    choice = random.random()
    if choice < 0.5:
        return _structured(random, payload)
    if choice < 0.95:
        return mutated_bytes(random, payload, corpus)
    return random.choice((b"", b"\0", b"null", b"[]", b"{}", *DEEP, random.randbytes(random.randrange(200))))


def mutated_bytes(random: Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    """Bytes changed, left out, repeated, cut off, or put together with others of the corpus."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        place = random.randrange(len(made) + 1)
        match random.randrange(6):
            case 0 if place < len(made):
                made[place] ^= 1 << random.randrange(8)
            case 1 if place < len(made):
                made[place] = random.choice((0, 0x7F, 0x80, 0xC0, 0xDC, 0xDF, 0xFF, random.randrange(256)))
            case 2:
                del made[place : place + random.choice((1, 2, 8, 64))]
            case 3:
                made[place:place] = made[place : place + random.choice((1, 4, 32))]
            case 4:
                del made[place:]
            case _:
                other = random.choice(corpus)
                begin = random.randrange(len(other) + 1)
                made[place:] = other[begin:]
    return bytes(made)


def _structured(random: Random, payload: bytes) -> bytes:
    """A message with one or two of its values replaced."""
    load, dump = _codec(payload)
    try:
        value = load(payload)
        for _ in range(random.choice((1, 1, 2))):
            value = _replaced(random, value)
        return dump(value)
    except (ValueError, RecursionError, OverflowError, TypeError, UnicodeError):
        # No message that these read, or a value that they cannot write.
        return payload[: random.randrange(len(payload) + 1)]


def _codec(payload: bytes) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    if payload[:1] in (b"{", b"["):
        return json.loads, lambda value: json.dumps(value).encode()
    return lambda given: msgpack.unpackb(given, strict_map_key=False), lambda value: bytes(msgpack.packb(value))


def _replaced(random: Random, value: Any, depth: int = 0) -> Any:
    inner = isinstance(value, (dict, list)) and len(value) > 0
    if not inner or random.random() < 0.1 + 0.05 * depth:
        return random.choice((random.choice(LEAVES), [value], {"a": value}, [value] * 3))
    if isinstance(value, dict):
        key = random.choice(sorted(value, key=repr))
        made = dict(value)
        match random.randrange(8):
            case 0:
                del made[key]
            case 1:
                made[random.choice(("", "x", "k", "ä" * 100))] = made[key]
            case _:
                made[key] = _replaced(random, made[key], depth + 1)
        return made
    place = random.randrange(len(value))
    match random.randrange(10):
        case 0:
            return value[:place] + value[place + 1 :]
        case 1:
            return value[:place] + [value[place]] * random.choice((2, 10, 1_000)) + value[place:]
        case _:
            return [*value[:place], _replaced(random, value[place], depth + 1), *value[place + 1 :]]


NUMBERS: Final = ("0", "-1", "9" * 30, "1e400", "0.1", "nan", "ä", "\0", "\n", "é" * 9)

_TOKENS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def mutated_text(random: Random, text: str, corpus: Sequence[str]) -> str:
    """A text with tokens left out, repeated, swapped, or taken from others of the corpus, and perhaps characters
    changed."""
    tokens = _TOKENS.findall(text)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        place = random.randrange(len(tokens) + 1)
        match random.randrange(8):
            case 0:
                del tokens[place : place + random.choice((1, 1, 3))]
            case 1:
                tokens[place:place] = tokens[max(0, place - random.choice((1, 4, 20))) : place]
            case 2 if len(tokens) > 1:
                other = random.randrange(len(tokens))
                place = min(place, len(tokens) - 1)
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 3:
                tokens[place:place] = random.choice(("(", "[", "{", '"', "'", "-", "+" * 3, "!" * 40)) * random.choice(
                    (1, 1, 5, 200)
                )
            case 4:
                tokens.insert(
                    place, random.choice(("0", "-1", "9" * 30, "1e400", "0.1", "nan", "ä", "\0", "\n", "é" * 9))
                )
            case 5:
                del tokens[place:]
            case _:
                other_tokens = _TOKENS.findall(random.choice(corpus))
                begin = random.randrange(len(other_tokens) + 1)
                tokens[place:place] = other_tokens[begin : begin + random.choice((1, 3, 10))]
    return "".join(tokens)


TOML_VALUES: Final = (
    *(
        "0",
        "-1",
        "1",
        "9" * 18,
        "9" * 30,
        "0.5",
        "1e308",
        "nan",
        "-inf",
        "true",
        '""',
        '"x"',
        "'a/b'",
        '"\\u0000"',
        "[]",
    ),
    *(
        '["x", "x"]',
        "{}",
        "{ a = 1 }",
        "[[[[]]]]",
        "2004-02-29",
        "2004-02-29T24:00:00Z",
        '"10ms"',
        '"-1s"',
        '"mqtt://h"',
    ),
    *('"mqtt://[::1"', '"[A]"', '"(((((a*)*)*)*)*)"', '"%Y"', '"\\\\"', f'"{"x" * 5_000}"'),
)
"""Values put in the place of others."""

_ENTRY: Final = re.compile(r"(?m)^(\s*[\w.\"'-]+\s*=\s*)(.*)$")


def mutated_toml(random: Random, text: str, corpus: Sequence[str]) -> str:
    """A TOML text with values replaced, and lines left out, repeated, or taken from others of the corpus."""
    lines = text.split("\n")
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randrange(len(lines))
        match random.randrange(6):
            case 0:
                del lines[place]
            case 1:
                lines.insert(random.randrange(len(lines)), lines[place])
            case 2:
                lines.insert(place, random.choice(random.choice(corpus).split("\n")))
            case _:
                entries = [number for number, each in enumerate(lines) if _ENTRY.match(each)]
                for number in random.sample(entries, min(1, len(entries))):
                    lines[number] = _ENTRY.sub(lambda found: found[1] + random.choice(TOML_VALUES), lines[number])
        if not lines:
            break
    return "\n".join(lines)
