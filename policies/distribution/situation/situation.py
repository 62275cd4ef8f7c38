"""Situation of a decision: the network, and directory entries relevant to policies.

composite-event-framework-2004, "Distribution Policies": detectors that know loads and latencies decide better. A node
keeps one `Situation`; `changed` notes each change of an entry, results are computed on demand. Policies only read it.

*Traffic.* A stream travels from its home server to each reading node by the path of least latency, not as a tree, for
connections are separate; a detector's output to its home server, and from there to each listening connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import HintEntry, Measured, SampleEntry, TypeValues
from distced.policies.distribution.situation.link_traffic import LinkTraffic
from distced.policies.distribution.situation.locations import Locations
from distced.policies.distribution.situation.node_load import NodeLoad
from distced.policies.distribution.situation.rates import StreamRates
from distced.policies.distribution.situation.readers import StreamReaders
from distced.policies.topology.topology import Topology

_TABLES: Final = ("nodes", "sources", "detectors", "loads", "samples", "clients")


class Situation(Locations):
    """The network and the directory, as input of policies.

    Attributes:
        hints: entries of the directory, by detector.
        samples: entries of the directory, by node.
        measures: rates and sizes of streams, measured and expected.
        remembered_delays: by detector and node, of `delays`, valid until the next change.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        super().__init__(topology)
        self.hints: dict[str, HintEntry] = {}
        self.samples: dict[str, SampleEntry] = {}
        self.reading = StreamReaders(self.sources, self.detectors)
        self.measures = StreamRates(self.reading, self.loads, topology)
        self._link_traffic = LinkTraffic(self, self.reading, self.measures)
        self._work = NodeLoad(self.nodes, self.detectors, self.loads, self.measures, topology)
        self._values: dict[str, TypeValues] | None = None
        self._forget_places()

    @classmethod
    def of(cls, entries: Entries, topology: Topology | None = None) -> Situation:
        """Situation of a directory; without a topology all servers are equally far."""
        situation = cls(topology)
        for kind in _TABLES:
            getattr(situation, kind).update(getattr(entries, kind))
        for name, hint in entries.hints.items():
            situation.changed("hint", name, hint)
        return situation

    def copy(self) -> Situation:
        """Independent copy."""
        other = Situation(self.topology)
        other.network = self.network
        for kind in (*_TABLES, "hints"):
            getattr(other, kind).update(getattr(self, kind))
        for kind in ("expected", "foreseen", "streams"):
            getattr(other.measures, kind).update(getattr(self.measures, kind))
        return other

    # Keeping it up to date.

    def changed(self, kind: str, name: str, entry: Any) -> None:
        """Note a new, changed or cleared (None) entry of a known kind; a changed topology needs a new `Situation`."""
        match kind:
            case "detector":
                before = self.detectors.get(name)
                if self.reading.change(name, entry):
                    self.measures.forget_all()
                    self._link_traffic.forget()
                self._link_traffic.change(name, before, entry)
                self.measures.change_detector(name, before, entry)
                if entry is None:
                    self.measures.expect(name, None)
                self._work.change(name, before, entry)
                self._forget()
            case "source":
                _put(self.sources, name, entry)
                self.reading.forget()
                self.measures.forget_all()
                self._link_traffic.forget()
                self._forget()
            case "node":
                known = self.nodes.get(name)
                _put(self.nodes, name, entry)
                # It publishes its counters every few seconds, which make no difference here.
                if known is None or entry is None or (known.home, known.capacity) != (entry.home, entry.capacity):
                    self._forget_places()
            case "load":
                reported = self.loads.get(name)
                _put(self.loads, name, entry)
                self.measures.change_load(name)
                self._work.change_load(name, reported, entry)
                self._forget()
            case "sample":
                _put(self.samples, name, entry)
                self._values = None
            case "client":
                _put(self.clients, name, entry)
            case "hint":
                _put(self.hints, name, entry)
                _put(self.measures.foreseen, name, None if entry is None else entry.foreseen)
                self.measures.forget_all()
                self._work.forget_nodes()
                self._forget()

    def expect(self, detector: str, does: Measured | None) -> None:
        """Set the estimate of a detector until it is measured; None to remove it."""
        self.measures.expect(detector, does)
        self._work.expect(detector)
        self._forget()

    def _forget(self) -> None:
        """Drop results that depend on any change."""
        self._work.forget()
        self._bytes: float | None = None
        # By detector and node; see `delays`.
        self.remembered_delays: dict[tuple[str, str], float] = {}

    def _forget_places(self) -> None:
        self.forget_sites()
        self._link_traffic.forget()
        self._work.forget_nodes()
        self._forget()

    # Values of events.

    @property
    def values(self) -> Mapping[str, TypeValues]:
        """Distribution of attribute values by type, of the node with the largest sample."""
        if self._values is None:
            self._values = {}
            for _, entry in sorted(self.samples.items()):
                for name, each in entry.types.items():
                    known = self._values.get(name)
                    if known is None or known.sample < each.sample:
                        self._values[name] = each
        return self._values

    # How much nodes have to do.

    def load(self, node: str) -> float:
        """Instances touched per second at a node."""
        return self._work.load(node)

    def capacity(self, node: str) -> float:
        """Instances a node can touch per second: the mean of the others where its own is unknown, 1 where all are."""
        return self._work.capacity(node)

    @property
    def knows_capacity(self) -> bool:
        """Whether the capacity of any node is known, so that uses are shares."""
        return self._work.knows_capacity

    def use(self, node: str) -> float:
        """Load of a node as a share of its capacity; the load where no capacity is known."""
        return self.load(node) / self.capacity(node)

    @property
    def uses(self) -> Mapping[str, float]:
        """Use of each node, sorted by name."""
        return self._work.uses

    @property
    def busiest(self) -> tuple[str, float]:
        """The node with the highest use, and that; ("", 0) without nodes."""
        return max(self.uses.items(), key=lambda each: each[1], default=("", 0.0))

    # Bytes over links.

    @property
    def bytes_over_links(self) -> float:
        """Present bytes per second, summed over links."""
        if self._bytes is None:
            self._bytes = self._link_traffic.bytes_over_links
        return self._bytes

    @property
    def bytes_by_link(self) -> dict[tuple[str, str], float]:
        """Present bytes per second by link (from site, to site)."""
        return self._link_traffic.bytes_by_link

    @property
    def bytes_by_ends(self) -> dict[tuple[str, str], float]:
        """Present bytes per second between sites, by (from, to), whatever their paths."""
        return self._link_traffic.bytes_by_ends


def _put(table: dict[str, Any], name: str, entry: Any) -> None:
    if entry is None:
        table.pop(name, None)
    else:
        table[name] = entry
