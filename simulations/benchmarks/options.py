"""What benchmarks are asked for, as people write it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from distced.middleware.model.errors import DistcedError
from distced.simulations.benchmarks.cayuga_queries import Template

TEMPLATES: Final[tuple[Template, ...]] = get_args(Template)

Vary: TypeAlias = Literal["", "zipf", "selectivity"]
VARIED: Final[tuple[Vary, ...]] = get_args(Vary)


def parse_templates(text: str) -> tuple[Template, ...]:
    """Some of Cayuga's templates, apart by commas, or all."""
    asked = TEMPLATES if text == "all" else tuple(each.strip() for each in text.split(","))
    found = tuple(each for each in TEMPLATES if each in asked)
    if len(found) != len(set(asked)):
        allowed = f"{', '.join(TEMPLATES)}, or all"
        raise DistcedError("no such template", given=text, allowed=allowed, where="--templates")
    return found


def parse_vary(text: str) -> Vary:
    """What is to vary with the largest number of patterns; nothing for an empty text."""
    for each in VARIED:
        if each == text:
            return each
    raise DistcedError("nothing to vary", given=text, allowed=", ".join(VARIED[1:]), where="--vary")


def numbers(text: str, where: str) -> list[int]:
    """Several numbers from 1, apart by commas, the least first."""
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DistcedError("not whole numbers", given=text, allowed="numbers from 1, apart by commas", where=where)
    return sorted(set(counts))
