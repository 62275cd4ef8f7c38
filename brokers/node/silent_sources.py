"""Silent sources: those that hold back detectors of a node, for which an administrator has to do something.

Design, section 2, "Watermarks": under guaranteed detection a detector waits for the least watermark of its sources, as
long as a source is neither heard nor fenced off by its lease. The node says so in its log, once and again whenever the
silence has doubled, and in its load entry, for `distced nodes`; `distced fence` ends the wait. Rejected: the silence of
all sources of the directory, as a seldom one whose watermark is ahead of the others holds nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from distced.brokers.core.effects import Effect, info, warning
from distced.middleware.model.timestamps import SECOND

SILENT: Final = 10 * SECOND
"""Silence of a source from which it is reported, ns: several heartbeats."""

MOST: Final = 20
"""Number of silent sources in a load entry at most: those that are silent the longest."""


class SilentSources:
    """Sources whose silence holds back detectors here.

    Attributes:
        since: the last message of each, ns.
    """

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        # Silence from which each is logged again, ns.
        self._next: dict[str, int] = {}

    def look(self, slowest: Iterable[tuple[str, int, int]], now: int) -> list[Effect]:
        """Take for each input the source with the least watermark, its last message, ns, and the number of detectors;
        log events."""
        silent: dict[str, int] = {}
        waiting: dict[str, int] = {}
        for source, heard, detectors in slowest:
            if now - heard >= SILENT:
                silent[source] = max(heard, silent.get(source, heard))
                waiting[source] = waiting.get(source, 0) + detectors
        effects: list[Effect] = []
        for source, heard in silent.items():
            silence = now - heard
            if silence >= self._next.get(source, SILENT):
                self._next[source] = 2 * silence
                effects.append(
                    warning(
                        "source silent",
                        source=source,
                        seconds=round(silence / SECOND),
                        detectors=waiting[source],
                        advice=f"detectors wait for it; where it is gone for good: distced fence {source}",
                    )
                )
        for source in self.since.keys() - silent.keys():
            del self._next[source]
            effects.append(info("source no longer waited for", source=source))
        self.since = silent
        return effects

    def longest(self) -> Mapping[str, int]:
        """Those that are silent the longest, with their last message, ns."""
        return dict(sorted(self.since.items(), key=lambda each: each[1])[:MOST])
