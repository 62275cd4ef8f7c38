"""Findings of the doctor: the state of one thing in words, and what to do about it.

A check that cannot be made is a finding, too, with the reason: silence would read as health.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from distced.middleware.model.timestamps import DAY, HOUR, MILLISECOND, MINUTE, SECOND

FEW: Final = 4
"""Names listed in a finding; of more the number is given."""


class State(StrEnum):
    """State of what was checked, from the best to the worst."""

    OK = "ok"
    INFORMATION = "information"
    NOT_CHECKED = "not checked"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """Result of a check.

    Attributes:
        check: its name, the same in every run.
        subject: what was checked: a node, a source, a server, a file.
        text: what was found.
        remedy: what to do; empty where nothing is to be done.
    """

    check: str
    state: State
    subject: str
    text: str
    remedy: str = ""


def is_bad(findings: Iterable[Finding]) -> bool:
    """Whether there is a warning or an error among them."""
    return any(each.state in (State.WARNING, State.ERROR) for each in findings)


def names(given: Iterable[str]) -> str:
    """Names in order, or some of them and the number of others."""
    listed: Sequence[str] = sorted(given)
    if len(listed) <= FEW:
        return ", ".join(listed)
    return f"{', '.join(listed[:FEW])} and {len(listed) - FEW:,} more"


def counted(count: int, what: str) -> str:
    """Number of things: `1 node`, `2 nodes`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(nanoseconds: int) -> str:
    """Duration for people: below a minute to three digits, then its two largest units."""
    if nanoseconds < SECOND:
        return f"{nanoseconds / MILLISECOND:.3g} ms"
    if nanoseconds < MINUTE:
        return f"{nanoseconds / SECOND:.3g} s"
    steps = (("d", DAY, "h", HOUR), ("h", HOUR, "min", MINUTE), ("min", MINUTE, "s", SECOND))
    unit, size, less, part = next(each for each in steps if nanoseconds >= each[1])
    rest = nanoseconds % size // part
    return f"{nanoseconds // size:,} {unit}" + (f" {rest} {less}" if rest else "")
