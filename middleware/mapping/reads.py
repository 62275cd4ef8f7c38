"""Paths that the parts of a rule read, so that each part is evaluated once for all rows with the same values there.

Rules that leave their row (topics, `each`, paths with `$`) or remember messages (`duplicates`) are read row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from distced.middleware.mapping.extraction import compile_regex, template_paths
from distced.middleware.mapping.schema import AttributeSpec, RuleSpec, TimeSpec, TypeSpec, ValuePath

Steps: TypeAlias = tuple[str, ...]
"""Steps of a path, from a field of the row on."""

Reads: TypeAlias = tuple[Steps, ...]
"""Paths of a part, none of which leads into another."""


class RuleReads(NamedTuple):
    """Paths that the parts of a rule read.

    Attributes:
        conditions: of each condition.
        groups: named groups that each condition adds to the fields.
        attributes: by name.
        point, start, end: path of the time, or of its ends, where that is all it reads.
    """

    conditions: tuple[Reads, ...]
    groups: tuple[tuple[str, ...], ...]
    source: Reads
    type: Reads
    attributes: dict[str, Reads]
    time: Reads
    sequence: Reads
    point: Steps | None
    start: Steps | None
    end: Steps | None


def reads_of(spec: RuleSpec, attributes: Mapping[str, AttributeSpec], time: TimeSpec) -> RuleReads | None:
    """Paths of a rule; None for one that is read row by row."""
    if spec.topic is not None or spec.each is not None or spec.duplicates is not None:
        return None
    found = RuleReads(
        tuple(_reads((each.path,), each.text) for each in spec.when),
        tuple(tuple(compile_regex(each.matches).groupindex) if each.matches else () for each in spec.when),
        _reads((), spec.source),
        _reads((spec.type.path,), spec.type.text) if isinstance(spec.type, TypeSpec) else (),
        {
            name: _reads(([name] if each.path is None and each.text is None else each.path,), each.text)
            for name, each in attributes.items()
        },
        _reads((time.path, time.start, time.end), time.text),
        _reads((spec.sequence,), None),
        _steps(time.path),
        _steps(time.start),
        _steps(time.end),
    )
    parts = (*found.conditions, found.source, found.type, *found.attributes.values(), found.time, found.sequence)
    return None if any(steps[0].startswith("$") for part in parts for steps in part) else found


def _reads(paths: Iterable[ValuePath | None], text: str | None) -> Reads:
    given = [*paths, *(() if text is None else template_paths(text))]
    found = dict.fromkeys(steps for path in given if (steps := _steps(path)) is not None)
    # What a path leads to holds what is behind it.
    return tuple(steps for steps in found if not any(steps[:length] in found for length in range(1, len(steps))))


def _steps(path: ValuePath | None) -> Steps | None:
    return None if path is None else tuple(path.split(".") if isinstance(path, str) else path)
