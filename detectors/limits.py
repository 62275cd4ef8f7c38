"""Limits of a detector: what one pattern may take of its node, before it is excluded.

A pattern of a few characters may double its instances with every event, or the length of a text in a register. Numbers
need no limit, as those that leave 64 bits go on as floats (`middleware.sets.values`). An engine counts in any case, and
compares where a count has become large: in buckets of many instances, as arrays grow, with every sweep. So an event
costs the same with limits, and one that would bring forth a million instances is cut short.

Work is counted in instances, not measured as time: the decision is then the same on every machine, and in every replay
of the same calls. Rejected: to drop the oldest instances (composite events would be missing silently), and an event
consumed in several goes (all others of the node would wait for it all the same, as one that is begun has to end before
the next event of any pattern that it shares an input with).

One event is cut short after some twentieth of a second. Many events, each a little below the limit, take turns
with the events of other clients (`detectors.runtime.work_shares`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from distced.middleware.model.errors import LimitError

TOGETHER: Final = 100
"""Work of all events consumed in one go, as a multiple of that of one event: a silent source may release very many."""

BIRTH: Final = 8
"""Work of an instance that is brought forth, in instances that are looked at: up to nine microseconds in the stepwise
engine, where a look takes half of one to one."""

COLUMNAR: Final = 20
"""Instances that the columnar engine looks at in the time of one of the stepwise engine (`runtime.engine_choice`)."""

FAILURES: Final = (LimitError, MemoryError, RecursionError)
"""Exceptions of an engine that are the fault of its pattern."""

UNBOUNDED: Final = 2**62
"""Number beyond any count."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each detector of a node; approximate, as not everything is counted at once.

    Attributes:
        instances: instances at a time; a million take half a gigabyte in the stepwise engine.
        work: instances that one event is offered to, and those that it brings forth, each of which counts as `BIRTH`: a
            twentieth of a second in the stepwise engine, for which all other detectors of the node wait. The events
            consumed in one go may take `TOGETHER` times as much. Also the events of clocks in one go.
        memory: bytes of instances, with their events and texts.
        text: characters of a text in a register.
        losses: nodes lost with it within ten minutes (`brokers.node.exclusion`).
        composites: composite events that one event completes, or that end at one instant.
        client_memory: bytes of instances of all detectors of one client, with its share of those that it has with
            others.
        client_work: work of all detectors of one client in a second, counted as that of an event; beyond it, and where
            there are detectors of others, they take turns (`detectors.runtime.work_shares`): a fifth to two fifths of a
            processor. An eighth of it may be done at once.
        waiting: events that wait for sources whose watermark is behind (`brokers.node.silent_sources`); beyond them
            the slowest source is fenced off for the detector. Ten thousand take some megabytes. Also those that wait
            for the turns of one client's detectors; beyond them that with most is excluded; and those that wait for the
            recorded events of one detector; beyond them it is excluded.
        waiting_bytes: bytes of these events, as an event may have as many as a message.
    """

    instances: int = 1_000_000
    work: int = 50_000
    memory: int = 2**30
    text: int = 100_000
    losses: int = 4
    composites: int = 100_000
    client_memory: int = 2**32
    client_work: int = 400_000
    waiting: int = 1_000_000
    waiting_bytes: int = 2**29


LIMITS: Final = Limits()

UNLIMITED: Final = Limits(*[UNBOUNDED] * 10)
"""Limits of a replay, which takes what it needs."""


def too_many_instances(limits: Limits, number: int) -> LimitError:
    """Error of a detector with n instances."""
    return LimitError(
        "more instances of a pattern than nodes hold",
        given=f"{number:,}",
        allowed=f"{limits.instances:,}",
        advice="give it a window or a key, or start nodes with --max-instances",
    )


def too_much_work(number: int, allowed: int, *, together: bool = False) -> LimitError:
    """Error of an event, or of several consumed in one go, with n instances to be looked at or made."""
    subject = "events that arrived together concern" if together else "one event concerns"
    return LimitError(
        f"{subject} more instances of a pattern than nodes look at",
        given=f"{number:,}",
        allowed=f"{allowed:,}",
        advice="give it a window or a key, or start nodes with --max-work",
    )


def too_many_clock_events(allowed: int) -> LimitError:
    """Error of clocks with more events than allowed between two events, or two watermarks."""
    return LimitError(
        "clocks come more often than nodes look at",
        given=f"more than {allowed:,} between two messages",
        allowed=f"{allowed:,}",
        advice="take a longer interval, or start nodes with --max-work",
    )


def too_many_time_events(allowed: int) -> LimitError:
    """Error of instances for which time events recur more often than allowed between two events, or two watermarks."""
    return LimitError(
        "time events recur more often than nodes look at",
        given=f"more than {allowed:,} for each instance between two messages",
        allowed=f"{allowed:,}",
        advice="take a longer interval, or start nodes with --max-work",
    )


def too_much_memory(limits: Limits, number: int) -> LimitError:
    """Error of a detector with n bytes of state."""
    return LimitError(
        "more memory for the instances of a pattern than nodes give it",
        given=f"{number:,} bytes",
        allowed=f"{limits.memory:,}",
        advice="give it a window, or start nodes with --max-memory",
    )


def too_many_composites(limits: Limits, number: int) -> LimitError:
    """Error of an event that has completed n composite events."""
    return LimitError(
        "one event completes more composite events than nodes publish",
        given=f"{number:,}",
        allowed=f"{limits.composites:,}",
        advice="give the pattern a window or a key, or start nodes with --max-composites",
    )


def too_much_memory_of_client(limits: Limits, client: str, number: int) -> LimitError:
    """Error of the largest detector of a client whose detectors have n bytes of state."""
    return LimitError(
        "more memory for the detectors of one client than nodes give them",
        given=f"{number:,} bytes of {client}",
        allowed=f"{limits.client_memory:,}",
        advice="give its patterns windows, or start nodes with --max-client-memory",
    )


def too_many_wait(limits: Limits, source: str, number: int) -> LimitError:
    """Error of n events that wait for a silent source."""
    return LimitError(
        "more events wait for a silent source than nodes hold",
        given=f"{number:,} for {source}",
        allowed=f"{limits.waiting:,}",
        advice="give it a lease, or start nodes with --max-waiting",
    )


def too_many_bytes_wait(limits: Limits, source: str, number: int) -> LimitError:
    """Error of events with n bytes that wait for a silent source."""
    return LimitError(
        "more bytes of events wait for a silent source than nodes hold",
        given=f"{number:,} bytes for {source}",
        allowed=f"{limits.waiting_bytes:,}",
        advice="give it a lease, or start nodes with --max-waiting-bytes",
    )


def too_many_put_off(limits: Limits, client: str, number: int) -> LimitError:
    """Error of the detector for which most of n events of a client's detectors wait."""
    return LimitError(
        "patterns of one client that take longer than their events take to come, while more wait than nodes hold",
        given=f"{number:,} events for {client}",
        allowed=f"{limits.waiting:,}, {limits.waiting_bytes:,} bytes",
        advice="give them windows or keys, or start nodes with --max-client-work or --max-waiting",
    )


def too_many_behind_history(limits: Limits, number: int) -> LimitError:
    """Error of a detector for which n live events wait while it consumes recorded ones."""
    return LimitError(
        "more live events wait for the recorded ones of a subscription than nodes hold",
        given=f"{number:,}",
        allowed=f"{limits.waiting:,}",
        advice="begin with fewer recorded events, let the recorder write oftener, or start nodes with --max-waiting",
    )


def too_long_text(number: int, allowed: int) -> LimitError:
    """Error of a register with a text of n characters."""
    return LimitError(
        "a longer text in a register of a pattern than nodes hold",
        given=f"{number:,} characters",
        allowed=f"{allowed:,}",
        advice="join fewer texts, or start nodes with --max-text",
    )


def excess_of(error: BaseException) -> LimitError:
    """Error of a detector whose engine has failed."""
    if isinstance(error, LimitError):
        return error
    return LimitError("an engine that could not go on", given=type(error).__name__, advice="simplify the pattern")
