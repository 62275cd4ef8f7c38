"""Cost of a placement decision on a whole node, for `distced bench place`.

The node that a subscription comes to parses and names its pattern, looks for detectors of the directory to reuse, asks
the policy, and writes the entries for others. Measured is the code of `brokers` that nodes run, with a directory as
retained messages would have filled it; encoding and sending is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from distced.brokers.core.directory import Directory
from distced.brokers.node.placement import Decision, Placement
from distced.brokers.node.planning import Planner
from distced.brokers.node.policy_settings import PolicySettings
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory import Change, Entries
from distced.middleware.wire.directory_entries import ClientEntry, LoadEntry, SubscriptionEntry, TopologyEntry
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import topology_as_toml

_NAME: Final = "decider"


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """Cost on a node under one policy.

    Attributes:
        update_ms: to handle an entry of a detector and one of a node's load, by round.
        identify_ms: to parse and to name the pattern, by round.
        decide_ms: to enumerate the ways and to decide, by round.
    """

    policy: str
    update_ms: tuple[float, ...]
    identify_ms: tuple[float, ...]
    decide_ms: tuple[float, ...]

    @property
    def total_ms(self) -> list[float]:
        """Total time, ms, by round."""
        return [sum(each) for each in zip(self.update_ms, self.identify_ms, self.decide_ms, strict=True)]

    @property
    def median_ms(self) -> float:
        """Median of the total time, ms."""
        return median(self.total_ms)


class DecidingNode:
    """The deciding part of a node, with a directory.

    Attributes:
        decided: its last decision; None before.
    """

    def __init__(self, entries: Entries, topology: Topology) -> None:
        self.decided: Decision | None = None
        self._directory = Directory()
        self._delegating = Planner(_NAME, self._directory)
        self._deciding = Placement(self._directory, self._delegating, PolicySettings())
        for name in sorted({each for source in entries.sources.values() for each in source.types}):
            self._take_in("type", name, EventType(name, {"x": "number"}))
        for each in topology.subscribers.values():
            home = "" if each.site == topology.directory else each.site
            self._take_in("client", each.name, ClientEntry(0, home))
        for kind in ("node", "source", "detector", "load"):
            for name, entry in entries.table(kind).items():
                self._take_in(kind, name, entry)
        self._take_in("topology", "network", TopologyEntry(topology_as_toml(topology)))
        # The patterns of running detectors are compiled once, when the node receives them first.
        self._delegating.catalogue(self._directory.registry())
        _ = self._deciding.situation.bytes_over_links, self._deciding.situation.busiest

    def decide(
        self, policy: str, pattern: str, client: str, detector: str, node: str, load: LoadEntry
    ) -> tuple[float, float, float]:
        """Handle the renewal of a detector and a node's load report, then decide for a subscription; returns the ms for
        handling them, for naming the pattern, and for deciding.
        """
        entry = SubscriptionEntry(client, pattern, distribution=policy)
        began = time.process_time()
        self._take_in("detector", detector, self._directory.detectors[detector])
        self._take_in("load", node, load)
        updated = time.process_time()
        registry = self._directory.registry()
        found = self._delegating.identify(entry, registry)
        identified = time.process_time()
        self.decided = self._deciding.decide(found, entry, registry)
        ended = time.process_time()
        return (updated - began) * 1000, (identified - updated) * 1000, (ended - identified) * 1000

    def _take_in(self, kind: str, name: str, entry: Any) -> None:
        table = self._directory.table(kind)
        before, table[name] = table.get(name), entry
        self._deciding.changed(Change(kind, name, entry, before))
