"""Checks for participants of one name: a server admits one client of an id, so two of them end each other's connection.

The will of one clears the entry that the other has published, and each publishes its own again when it is back. An
entry that returns to an earlier start has two lives at once, which is certain; one that comes and goes without that may
be a process that is restarted again and again. Where the server publishes its log, that names the client.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from distced.brokers.doctor.checks.findings import Finding, State

RETURNS: Final = 3
"""Number of times that an entry is published with another start, or after its absence, from which it is a finding."""

_TAKEN_OVER: Final = re.compile(
    r"Client (?P<id>.+?) (?:\[[^\]]*\] )?(?:already connected, closing old connection|disconnected: session taken over)"
)


class LifeSeen(NamedTuple):
    """Entry of a participant as it was published: its start, ns; None where it was cleared."""

    kind: str
    name: str
    since: int | None


def taken_over(line: str) -> str | None:
    """Client whose connection was taken over, by a line of a server's log; None for another line."""
    found = _TAKEN_OVER.search(line)
    return None if found is None else found["id"]


def namesake_findings(
    seen: Sequence[LifeSeen], taken: Iterable[str], seconds: float, *, logged: bool, subject: str
) -> list[Finding]:
    """Findings of an observation.

    Args:
        seen: entries in order, the retained ones first.
        taken: clients whose connections were taken over, by the log of the server.
        seconds: length of the observation.
        logged: whether the server publishes its log.
        subject: the server.
    """
    findings = []
    lives: dict[tuple[str, str], list[int | None]] = {}
    for each in seen:
        lives.setdefault((each.kind, each.name), []).append(each.since)
    for (kind, name), order in sorted(lives.items()):
        found = _life(order, seconds)
        if found is not None:
            certain, text = found
            state = State.ERROR if certain else State.WARNING
            findings.append(Finding("client id", state, f"{kind} {name}", text, _REMEDY))
    for client, count in sorted(Counter(taken).items()):
        text = f"its connection was taken over {count} times in {seconds:g} s: two clients have this id"
        text = text.replace("1 times", "once") if count == 1 else text
        findings.append(Finding("client id", State.ERROR, f"client id {client}", text, _REMEDY))
    if findings:
        return findings
    text = f"none is used twice, by entries of {seconds:g} s"
    if not logged:
        text += "; foreign clients are not seen, as the server does not publish its log ($SYS/broker/log)"
    return [Finding("client id", State.OK, subject, text)]


_REMEDY: Final = "end one of the two, or give it another name: one user, and one configuration, for each participant"


def _life(order: list[int | None], seconds: float) -> tuple[bool, str] | None:
    """Whether two participants are certain, and what was seen; None for nothing remarkable."""
    starts: list[int] = []
    returns, absent = 0, False
    for since in order:
        if since is None:
            absent = True
            continue
        if starts and (absent or starts[-1] != since):
            returns += 1
        absent = False
        if not starts or starts[-1] != since:
            starts.append(since)
    if len(starts) > len(set(starts)):
        return True, f"two have this name: in {seconds:g} s its entry changed between {len(set(starts))} starts"
    if returns >= RETURNS:
        text = f"its entry came and went {returns} times in {seconds:g} s"
        return False, f"{text}: two have this name, or one is restarted all the time"
    return None
