"""Compilation of large patterns beside the messages of a node.

A pattern of ten thousand characters, or of atoms that are written out a thousand times, takes a second and more. So a
request about one waits, with all behind it of its client, until the driver has compiled it on a thread of its own
(`Compile`), and is then served by the cache. One is compiled at a time; one that takes too long is refused, and keeps
its thread until it ends; without a free one the next patterns wait. Small patterns are compiled at once, but for those
in other languages: ALL of five operands is fifty characters of CEDR, and ten thousand of the core language.

Rejected: a process, which starts in a second, and returns compiled patterns through a pipe; a smaller limit for the
length of patterns, as 2,000 characters take 0.1 s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.effects import Compile, Effect
from distced.brokers.node.planning import PatternCache, consumption_of, written_of
from distced.detectors.language.consulted_types import ConsultedTypes
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import SubscriptionEntry

COSTLY: Final = 500
"""Characters of a pattern, times its repetitions, from which it is compiled beside: some 20 ms."""

WITHIN: Final = 30 * SECOND
"""Time for a pattern to be compiled, ns."""

THREADS: Final = 3
"""Threads of a driver for patterns: at most as many are compiled, all but one of them refused already."""

_REPETITIONS: Final = re.compile(r"(\d{1,9}) *\}")


def cost(entry: SubscriptionEntry) -> int:
    """Characters of the pattern of a subscription, times the repetitions of its iterations."""
    texts = (entry.pattern, *entry.definitions.values())
    made = sum(map(len, texts))
    for text in texts:
        for most in _REPETITIONS.findall(text):
            made *= max(int(most), 1)
    return made


def compiled_beside(order: Compile) -> PatternCache:
    """Cache with one pattern, compiled or refused; for a driver, on any thread."""
    cache = PatternCache()
    cache.texts = order.texts
    try:
        cache.check_in_full(
            order.pattern, order.definitions, consumption_of(order.consumption), order.types, order.written
        )
    except Exception as error:
        # Whatever it is, it ends here: a request waits for an answer.
        reason = f"{type(error).__name__}: {error}"
        advice = "name its parts by patterns of their own, and report this as a defect"
        problem = f"a pattern that cannot be compiled, {reason}"
        return _refused(order, DistcedError(problem, given=_shown(order.pattern), advice=advice))
    return cache


def _refused(order: Compile, error: DistcedError) -> PatternCache:
    """Cache with the error of a pattern, whatever types there are."""
    cache = PatternCache()
    kind, types = consumption_of(order.consumption), ConsultedTypes(TypeRegistry())
    cache.refuse(order.pattern, order.definitions, kind, error, types, order.written)
    return cache


@dataclass
class _Awaited:
    """Pattern to be compiled, the clients whose requests wait for it, and when the driver got it, ns."""

    order: Compile
    clients: set[str] = field(default_factory=set)
    given_at: int | None = None


class Compiling:
    """Patterns that are compiled beside, and that wait for their turn."""

    def __init__(self, patterns: PatternCache) -> None:
        self._patterns = patterns
        # By number, in order; the first one is at the driver, where it has a thread for it.
        self._awaited: dict[int, _Awaited] = {}
        # Numbers of those that were refused as late, and that the driver has not ended.
        self._late: set[int] = set()
        self._number = 0

    def needs(self, entry: SubscriptionEntry, types: TypeRegistry) -> bool:
        """Whether the pattern of a subscription is to be compiled beside first."""
        consumption, written = consumption_of(entry.consumption), written_of(entry)
        return (bool(written.language) or cost(entry) >= COSTLY) and not self._patterns.knows(
            entry.pattern, entry.definitions, consumption, types, written
        )

    def begin(self, entry: SubscriptionEntry, types: TypeRegistry, now: int) -> list[Effect]:
        """Compile the pattern of a subscription; requests of its client wait."""
        for each in self._awaited.values():
            order = each.order
            if (order.pattern, order.definitions, order.consumption, order.written) == (
                entry.pattern, entry.definitions, entry.consumption, written_of(entry)
            ):  # fmt: skip
                each.clients.add(entry.client)
                return []
        self._number += 1
        written = written_of(entry)
        order = Compile(self._number, entry.pattern, dict(entry.definitions), entry.consumption, types, written)
        self._awaited[self._number] = _Awaited(order, {entry.client})
        return self._next(now)

    def finished(self, order: Compile, cache: PatternCache, now: int) -> tuple[set[str], list[Effect]]:
        """Take a compiled pattern: the clients whose requests go on, and effects."""
        self._late.discard(order.number)
        return self._end(order, cache, now)

    def _end(self, order: Compile, cache: PatternCache, now: int) -> tuple[set[str], list[Effect]]:
        # It may have been late.
        self._patterns.forget_refusal(
            order.pattern, order.definitions, consumption_of(order.consumption), order.written
        )
        self._patterns.absorb(cache)
        awaited = self._awaited.pop(order.number, None)
        return (set() if awaited is None else awaited.clients), self._next(now)

    def late(self, now: int) -> tuple[set[str], list[Effect]]:
        """Refuse what takes too long, as `finished`."""
        for each in self._awaited.values():
            if each.given_at is None or now - each.given_at < WITHIN:
                break
            order = each.order
            advice = "name its parts by patterns of their own"
            error = DistcedError(
                "a pattern that takes too long to compile", given=_shown(order.pattern),
                allowed=f"{WITHIN // SECOND} s", advice=advice,
            )  # fmt: skip
            self._late.add(order.number)
            return self._end(order, _refused(order, error), now)
        return set(), []

    def _next(self, now: int) -> list[Effect]:
        if len(self._late) >= THREADS:
            # It would wait at the driver, and be late without having begun.
            return []
        for each in self._awaited.values():
            if each.given_at is None:
                each.given_at = now
                order, consumption = each.order, consumption_of(each.order.consumption)
                # Only now, as others of its text were compiled while it waited.
                texts = self._patterns.texts.only(order.pattern, order.written.language, consumption)
                each.order = replace(order, texts=texts)
                return [each.order]
            break
        return []


def _shown(pattern: str) -> str:
    return pattern if len(pattern) <= 60 else f"{pattern[:57]}..."
