"""What a whole node pays to decide where a detector is to stand, for `distced bench place`.

The node that a subscription comes to reads its pattern and gives it its name, looks for what may be reused among the
detectors of the directory, asks the policy, and writes down what is left to others. Measured is the code of `brokers`
that nodes run, with a directory as retained messages would have filled it; encoding and sending is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from distced.brokers.core.directory import Directory
from distced.brokers.node.placement import Deciding, Decision
from distced.brokers.node.planning import Delegating
from distced.brokers.node.policy_settings import PolicySettings
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory import Change, Entries
from distced.middleware.wire.directory_entries import ClientEntry, LoadEntry, SubscriptionEntry, TopologyEntry
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_writer import topology_as_toml

_NAME: Final = "decider"


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """What a node paid under one policy.

    Attributes:
        update_ms: to take in an entry of a detector and one of a node's load, by round.
        identify_ms: to read the pattern and to give it its name, by round.
        decide_ms: to lay out the ways and to decide, by round.
    """

    policy: str
    update_ms: tuple[float, ...]
    identify_ms: tuple[float, ...]
    decide_ms: tuple[float, ...]

    @property
    def total_ms(self) -> list[float]:
        """All together, by round."""
        return [sum(each) for each in zip(self.update_ms, self.identify_ms, self.decide_ms, strict=True)]

    @property
    def median_ms(self) -> float:
        """Of all together."""
        return median(self.total_ms)


class DecidingNode:
    """The part of a node that decides, which knows a directory.

    Attributes:
        decided: what it has decided last; None before.
    """

    def __init__(self, entries: Entries, topology: Topology) -> None:
        self.decided: Decision | None = None
        self._directory = Directory()
        self._delegating = Delegating(_NAME, self._directory)
        self._deciding = Deciding(self._directory, self._delegating, PolicySettings())
        for name in sorted({each for source in entries.sources.values() for each in source.types}):
            self._take_in("type", name, EventType(name, {"x": "number"}))
        for each in topology.subscribers.values():
            home = "" if each.site == topology.directory else each.site
            self._take_in("client", each.name, ClientEntry(0, home))
        for kind in ("node", "source", "detector", "load"):
            for name, entry in entries.table(kind).items():
                self._take_in(kind, name, entry)
        self._take_in("topology", "network", TopologyEntry(topology_as_toml(topology)))
        # The patterns of running detectors are compiled once, when the node hears of them first.
        self._delegating.catalogue(self._directory.registry())
        _ = self._deciding.situation.bytes_over_links, self._deciding.situation.busiest

    def decide(
        self, policy: str, pattern: str, client: str, detector: str, node: str, load: LoadEntry
    ) -> tuple[float, float, float]:
        """Take in that a detector is there still and what a node tells of its load, then decide for a subscription; ms
        for taking in, for giving the pattern its name, and for deciding."""
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
