"""Random patterns of three shapes with a given number of atoms, for `distced bench plan`.

Planning depends on the parts of a pattern: names decide on cuts and exports, keys and windows on the properties of a
detector, optional parts and iterations on where a cut is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

TYPES: Final = 40  # number of types of events in the patterns


def plain(random: Random, atoms: int) -> str:
    """Atoms with filters and wider domains, by concatenation and sequence."""
    parts = []
    for _ in range(atoms):
        name = _type(random)
        roll = random.random()
        if roll < 0.4:
            parts.append(f"[{name}]")
        elif roll < 0.7:
            parts.append(f"[{name} where v > {random.randrange(5)}]")
        else:
            parts.append(f"[{name} <= {{{name}, {_type(random)}}}]")
    return _joined(random, parts)


def guarded(random: Random, atoms: int) -> str:
    """Atoms that bind variables, with guards on those bound shortly before."""
    parts = []
    bound: list[int] = []
    for place in range(atoms):
        near = [each for each in bound if place - each <= 4]
        binding, condition = random.random() < 0.4, ""
        if near and random.random() < 0.4:
            attribute, relation = random.choice((("v", ">"), ("room", "==")))
            condition = f" where {attribute} {relation} x{random.choice(near)}.{attribute}"
        parts.append(f"[{_type(random)}{f' as x{place}' if binding else ''}{condition}]")
        if binding:
            bound.append(place)
    return _joined(random, parts)


def nested(random: Random, atoms: int) -> str:
    """Alternations, hidden iterations, windows, timings and keys among the parts; keyed, in a window."""
    parts: list[str] = []
    left, timer = atoms, 0
    while left:
        one, two, three = (_type(random) for _ in range(3))
        form = random.randrange(10)
        if form < 5 or left < 3:
            parts.append(f"[{one}]")
            left -= 1
            continue
        if form == 5:
            parts.append(f"([{one}] | [{two}] ; [{three}])")
            left -= 3
            continue
        left -= 2
        if form == 6:
            # A part of its own, so that it is among the joints.
            parts.append(f"~[{one}]* [{two}]")
        elif form == 7:
            parts.append(f"([{one}] ; [{two}] within {random.randrange(1, 20)}s)")
        elif form == 8:
            timer += 1
            wait = random.randrange(1, 20)
            parts.append(f"(([{one}], [{two} <= {{{two}, T{timer}}}]) @ T{timer} = {wait}min)")
        else:
            parts.append(f"([{one}] ; [{two}] by room)")
    return f"{_joined(random, parts)} by key within 1h"


SHAPES: Final[Mapping[str, Callable[[Random, int], str]]] = {"plain": plain, "guarded": guarded, "nested": nested}


def _type(random: Random) -> str:
    return f"E{random.randrange(TYPES)}"


def _joined(random: Random, parts: list[str]) -> str:
    return parts[0] + "".join(random.choice((" ", " ; ")) + each for each in parts[1:])
