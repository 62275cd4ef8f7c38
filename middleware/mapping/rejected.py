"""What became of input that was no event: kept, with where it stood and why."""

from __future__ import annotations

import json
from typing import NamedTuple

from distced.middleware.model.errors import DistcedError, MappingError


class Rejected(NamedTuple):
    """A message or row, or a part of one, that should have become an event and did not.

    Attributes:
        where: its topic, or its file and row.
        rule: the name of the rule; empty where it failed before any rule.
        reason: what it failed on: payload, row, arrival, each, source, type, attribute, time or sequence.
        error: what was given, what is allowed, what to do.
        given: the fields, the payload or the line, as they came.
    """

    where: str
    rule: str
    reason: str
    error: DistcedError
    given: object


def located(error: DistcedError, where: str) -> MappingError:
    """The same error, with the place it happened at."""
    place = where if error.where is None else f"{where}, {error.where}"
    return MappingError(error.problem, given=error.given, allowed=error.allowed, where=place, advice=error.advice)


def rejected_line(rejected: Rejected) -> bytes:
    """A line of JSON for it, with its end."""
    shown = {"where": rejected.where, "rule": rejected.rule, "reason": rejected.reason, **rejected.error.as_dict()}
    line = json.dumps({**shown, "row": rejected.given}, ensure_ascii=False, default=repr)
    # What is no text may be why it was rejected.
    return line.encode(errors="backslashreplace") + b"\n"
