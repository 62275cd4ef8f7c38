"""Loads and capacities of nodes.

Load is the sum over a node's detectors; a report changes its own node only. Nodes with unmeasured detectors are summed
again after every change: their estimates depend on other reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry, NodeEntry
from distced.policies.distribution.situation.rates import StreamRates, hosting, load_of_entry
from distced.policies.topology.topology import Topology


@dataclass
class NodeLoad:
    """Loads, capacities and uses of nodes, computed on demand. Its owner reports changes of the entries, by name."""

    nodes: Mapping[str, NodeEntry]
    detectors: Mapping[str, DetectorEntry]
    loads: Mapping[str, LoadEntry]
    measures: StreamRates
    topology: Topology | None

    def __post_init__(self) -> None:
        # The detectors at each node; None where that is yet to be looked up.
        self._hosted: dict[str, set[str]] | None = None
        self.forget_nodes()

    # What has changed.

    def forget_nodes(self) -> None:
        """Drop all results: nodes or capacities have changed."""
        self._capacities: dict[str, float] | None = None
        self._known_loads: dict[str, float] = {}
        # Nodes with detectors that have not been measured there.
        self._rough: set[str] = set()
        self._uses: dict[str, float] | None = None

    def forget(self, *nodes: str) -> None:
        """Drop the results that depend on any change, and on the reports or detectors of these nodes."""
        for node in self._rough.union(nodes):
            self._known_loads.pop(node, None)
        self._uses = None

    def change(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """Note a changed entry of a detector; None for none."""
        if self._hosted is not None:
            for node in () if before is None else hosting(before):
                self._hosted[node].discard(name)
            for node in () if after is None else hosting(after):
                self._hosted.setdefault(node, set()).add(name)

    # Asked.

    def load(self, node: str) -> float:
        known = self._known_loads.get(node)
        if known is None:
            known = self._known_loads[node] = self._load(node) if node in self.nodes else 0.0
        return known

    def capacity(self, node: str) -> float:
        if self._capacities is None:
            known = {name: self._known_capacity(name) for name in self.nodes}
            said = [each for each in known.values() if each]
            usual = sum(said) / len(said) if said else 1.0
            self._capacities = {name: each or usual for name, each in known.items()}
        return self._capacities.get(node, 1.0)

    @property
    def knows_capacity(self) -> bool:
        return any(map(self._known_capacity, self.nodes))

    @property
    def uses(self) -> Mapping[str, float]:
        if self._uses is None:
            self._uses = {node: self.load(node) / self.capacity(node) for node in sorted(self.nodes)}
        return self._uses

    def _load(self, node: str) -> float:
        hosted, load = self._detectors_at(node), self.loads.get(node)
        told = {} if load is None else load.detectors
        amounts = [load_of_entry(load)]
        measured = True
        for name in hosted:
            own = told.get(name)
            if own is None:
                measured, own = False, self.measures.of(name)
            amounts.append(own.load)
        (self._rough.discard if measured else self._rough.add)(node)
        # Exact, so that it makes no difference in what order they came.
        return fsum(amounts)

    def _detectors_at(self, node: str) -> set[str]:
        if self._hosted is None:
            self._hosted = {}
            for name, entry in self.detectors.items():
                for each in hosting(entry):
                    self._hosted.setdefault(each, set()).add(name)
        return self._hosted.get(node, set())

    def _known_capacity(self, node: str) -> float:
        if self.nodes[node].capacity:
            return self.nodes[node].capacity
        topology = self.topology
        known = None if topology is None or node not in topology.nodes else topology.nodes[node].capacity
        return known or 0.0
