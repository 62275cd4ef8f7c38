"""How much nodes have to do, and how much they can.

What a node does is the sum over its detectors, kept by node: what one node tells changes the load of that node alone.
Only nodes with detectors that have not been measured there are added up again after every change, for what such a
detector may do follows from what others tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry, NodeEntry
from distced.policies.distribution.situation.rates import StreamRates, hosting, load_of_entry
from distced.policies.topology.topology import Topology


class NodeLoad:
    """Loads, capacities and uses of nodes.

    Changes of entries are announced; what follows is computed on demand.

    Attributes:
        nodes, detectors, loads: entries of the directory, by name.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeEntry],
        detectors: Mapping[str, DetectorEntry],
        loads: Mapping[str, LoadEntry],
        measures: StreamRates,
        topology: Topology | None,
    ) -> None:
        self.nodes = nodes
        self.detectors = detectors
        self.loads = loads
        self._measures = measures
        self._topology = topology
        # The detectors at each node; None where that is yet to be looked up.
        self._hosted: dict[str, set[str]] | None = None
        self.forget_nodes()

    # What has changed.

    def forget_nodes(self) -> None:
        """Nodes have come or gone, or have other capacities."""
        self._capacities: dict[str, float] | None = None
        self._known_loads: dict[str, float] = {}
        # Nodes with detectors that have not been measured there.
        self._rough: set[str] = set()
        self._uses: dict[str, float] | None = None

    def forget(self, *nodes: str) -> None:
        """Something has changed; also what these nodes tell, or the detectors they host."""
        for node in self._rough.union(nodes):
            self._known_loads.pop(node, None)
        self._uses = None

    def change(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """The entry of a detector is another, None where there is none."""
        if self._hosted is not None:
            for node in () if before is None else hosting(before):
                self._hosted[node].discard(name)
            for node in () if after is None else hosting(after):
                self._hosted.setdefault(node, set()).add(name)

    # Asked.

    def load(self, node: str) -> float:
        """Instances touched a second at a node, by all its detectors."""
        known = self._known_loads.get(node)
        if known is None:
            known = self._known_loads[node] = self._load(node) if node in self.nodes else 0.0
        return known

    def capacity(self, node: str) -> float:
        """Instances a node can touch a second. Where that is known of some nodes only, others are taken to be like
        their mean; where it is known of none it is 1, so that loads compare as they are."""
        if self._capacities is None:
            known = {name: self._known_capacity(name) for name in self.nodes}
            said = [each for each in known.values() if each]
            usual = sum(said) / len(said) if said else 1.0
            self._capacities = {name: each or usual for name, each in known.items()}
        return self._capacities.get(node, 1.0)

    @property
    def knows_capacity(self) -> bool:
        """Whether the capacity of any node is known, so that uses are shares of it."""
        return any(map(self._known_capacity, self.nodes))

    @property
    def uses(self) -> Mapping[str, float]:
        """By node, sorted, its load as a share of its capacity; the load itself where no capacity is known."""
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
                measured, own = False, self._measures.of(name)
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
        topology = self._topology
        known = None if topology is None or node not in topology.nodes else topology.nodes[node].capacity
        return known or 0.0
