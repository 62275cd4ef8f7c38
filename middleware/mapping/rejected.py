"""Rejected input of a mapping, with its place and the reason."""

from __future__ import annotations

import json
from typing import NamedTuple

from distced.middleware.model.errors import DistcedError, MappingError


class Rejected(NamedTuple):
    """Message or row, or a part of one, that should have become an event and did not.

    Attributes:
        where: its topic, or its file and row.
        rule: name of the rule; empty where it failed before any rule.
        reason: payload, row, arrival, each, source, type, attribute, time or sequence.
        given: fields, payload or line, as they came.
    """

    where: str
    rule: str
    reason: str
    error: DistcedError
    given: object


def located(error: DistcedError, where: str) -> MappingError:
    """Copy of an error with the place it happened at."""
    place = where if error.where is None else f"{where}, {error.where}"
    return MappingError(error.problem, given=error.given, allowed=error.allowed, where=place, advice=error.advice)


def rejected_line(rejected: Rejected) -> bytes:
    """JSON line of rejected input."""
    shown = {"where": rejected.where, "rule": rejected.rule, "reason": rejected.reason, **rejected.error.as_dict()}
    line = json.dumps({**shown, "row": rejected.given}, ensure_ascii=False, default=repr)
    # What is no text may be why it was rejected.
    return line.encode(errors="backslashreplace") + b"\n"
