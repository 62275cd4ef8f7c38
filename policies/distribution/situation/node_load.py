"""Loads and capacities of nodes.

Load is the sum over a node's detectors: measured ones by its report, others as expected at their placement, corrected
by what earlier ones did. Both sums are kept up to date with each detector, exactly, so that the order of changes makes
no difference. Estimates from inputs depend on other reports, and are summed again after every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry, NodeEntry
from distced.policies.distribution.situation.rates import StreamRates, hosting, load_of_entry
from distced.policies.topology.topology import Topology

_SCALE: Final = 1 << 1074
"""Denominator of all floats: with it sums of them are whole numbers, exact in any order."""


@dataclass(slots=True)
class _Sum:
    """Loads at a node, in multiples of 1 / `_SCALE`.

    Attributes:
        measured, expected: of the detectors in its report and of the rest; of those expected at their placement.
        amounts: expected loads by detector.
        others: detectors to be estimated from their inputs, by a history or by other nodes' reports.
    """

    measured: int
    expected: int = 0
    amounts: dict[str, float] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)


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
        self._hosted: dict[str, dict[str, None]] | None = None
        self.forget_nodes()

    # What has changed.

    def forget_nodes(self) -> None:
        """Drop all results: nodes, capacities, or results of a history have changed."""
        self._capacities: dict[str, float] | None = None
        self._known_loads: dict[str, float] = {}
        self._sums: dict[str, _Sum] = {}
        self._uses: dict[str, float] | None = None

    def forget(self) -> None:
        """Drop the results that depend on any change."""
        for node, known in self._sums.items():
            if known.expected or known.others:
                self._known_loads.pop(node, None)
        self._uses = None

    def change(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """Note a changed entry of a detector; None for none."""
        gone, come = ({} if each is None else hosting(each) for each in (before, after))
        if self._hosted is not None:
            for node in gone:
                self._hosted[node].pop(name, None)
            for node in come:
                self._hosted.setdefault(node, {})[name] = None
        for node in gone.keys() | come.keys():
            load = self.loads.get(node)
            if (node in gone) != (node in come) and load is not None and name in load.detectors:
                # What a report says of a detector counts while it is there.
                self._drop(node)
            elif node in come:
                self._estimate(node, name)
            else:
                self._remove(node, name)

    def expect(self, name: str) -> None:
        """Note a changed estimate of a detector."""
        entry = self.detectors.get(name)
        for node in () if entry is None else hosting(entry):
            self._estimate(node, name)

    def change_load(self, node: str, before: LoadEntry | None, after: LoadEntry | None) -> None:
        """Note a new or removed report of a node."""
        self._drop(node)
        # Detectors that have moved, and replicas, are reported by several nodes.
        names = {name for each in (before, after) if each is not None for name in each.detectors}
        for name in names:
            self.expect(name)

    def _drop(self, node: str) -> None:
        self._sums.pop(node, None)
        self._known_loads.pop(node, None)
        self._uses = None

    def _estimate(self, node: str, name: str) -> None:
        """Add a detector without a measurement by the node to its sum, or change its estimate."""
        known, load = self._sums.get(node), self.loads.get(node)
        if known is None or (load is not None and (name in load.detectors or load.others)):
            return
        self._remove(node, name)
        amount = self.measures.expected_load(name)
        if amount is None:
            known.others[name] = None
        else:
            known.amounts[name] = amount
            known.expected += _exact(amount)
        self._known_loads.pop(node, None)

    def _remove(self, node: str, name: str) -> None:
        known = self._sums.get(node)
        if known is not None:
            self._known_loads.pop(node, None)
            known.others.pop(name, None)
            amount = known.amounts.pop(name, None)
            if amount is not None:
                known.expected -= _exact(amount)

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
        known = self._sums.get(node) or self._sum(node)
        others = [self.measures.of(name).load for name in known.others]
        return fsum((known.measured / _SCALE, self.measures.correction * (known.expected / _SCALE), *others))

    def _sum(self, node: str) -> _Sum:
        load = self.loads.get(node)
        made = self._sums[node] = _Sum(_exact(load_of_entry(load)))
        reported = {} if load is None else load.detectors
        hosted = self._detectors_at(node)
        made.measured += sum(_exact(each.load) for name, each in reported.items() if name in hosted)
        for name in hosted if load is None or not load.others else ():
            if name not in reported:
                self._estimate(node, name)
        return made

    def _detectors_at(self, node: str) -> dict[str, None]:
        if self._hosted is None:
            self._hosted = {}
            for name, entry in self.detectors.items():
                for each in hosting(entry):
                    self._hosted.setdefault(each, {})[name] = None
        return self._hosted.get(node, {})

    def _known_capacity(self, node: str) -> float:
        if self.nodes[node].capacity:
            return self.nodes[node].capacity
        topology = self.topology
        known = None if topology is None or node not in topology.nodes else topology.nodes[node].capacity
        return known or 0.0


def _exact(amount: float) -> int:
    numerator, denominator = amount.as_integer_ratio()
    return numerator * (_SCALE // denominator)
