"""What hosts report: of each detector what it does, of each stream how much of it there is.

Reports are entries of the directory and come one after the other, from each node every few seconds. What they say
together is kept, and changed by what a new one says: a thousand detectors need not be gone through for the ten of one
node.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry, Measured
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, StreamReaders
from distced.policies.topology.topology import Topology


class Reports:
    """What all hosts report together.

    Attributes:
        loads: entries of the directory, by node; whoever changes them, or what is read, says so.
    """

    def __init__(self, reading: StreamReaders, loads: Mapping[str, LoadEntry], topology: Topology | None) -> None:
        self.loads = loads
        self._reading = reading
        self._topology = topology
        self.forget()

    # What has changed.

    def forget(self) -> None:
        """Everybody may read something else, or many things have changed."""
        self._begun = False
        # The detectors that each node tells of, and the nodes that tell of each detector.
        self._names: dict[str, tuple[str, ...]] = {}
        self._tellers: dict[str, set[str]] = {}
        self._measured: dict[str, Measured] = {}
        # Of detectors that read no parts: bytes of payload a second, and events.
        self._amounts: dict[str, float] = {}
        self._events: dict[str, float] = {}
        # Bytes of payload a second, by node and stream, by stream and node, and by stream.
        self._learned: dict[str, dict[Stream, float]] = {}
        self._learned_of: dict[Stream, dict[str, float]] = {}
        self._bytes: dict[Stream, float] = {}
        # What is to be looked at again: nodes with new reports, detectors, nodes with detectors that read other things.
        self._nodes: set[str] = set()
        self._detectors: set[str] = set()
        self._learners: set[str] = set()

    def change_load(self, node: str) -> set[str]:
        """There is a new report of a node, or none any more; the detectors of which it tells, or did."""
        self._nodes.add(node)
        load = self.loads.get(node)
        return {*self._names.get(node, ()), *(() if load is None else load.detectors)}

    def change_detector(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """The entry of a detector is another, None where there is none."""
        self._detectors.add(name)
        if before is None or after is None or before.reads != after.reads:
            self._learners.update(self._tellers.get(name, ()))

    # Asked.

    def of_detectors(self) -> Mapping[str, Measured]:
        """What detectors do, of which anybody tells."""
        self._look()
        return self._measured

    def of_streams(self) -> Mapping[Stream, float]:
        """Bytes a second of payload, by stream of primitive events. Where several nodes tell, the most counts: one
        that has just begun to listen has missed something."""
        self._look()
        return self._bytes

    def payload(self) -> float | None:
        """Bytes of the frame of a primitive event, by all detectors that read nothing else; None where none tells."""
        self._look()
        amount, events = fsum(self._amounts.values()), fsum(self._events.values())
        return amount / events if amount and events else None

    def _look(self) -> None:
        if not self._begun:
            self.forget()
            self._begun = True
            self._nodes.update(self.loads)
        if self._nodes:
            for node in self._nodes:
                self._look_at_node(node)
            self._learners |= self._nodes
            self._nodes = set()
        if self._detectors:
            for name in self._detectors:
                self._look_at_detector(name)
            self._detectors = set()
        if self._learners:
            for node in self._learners:
                self._look_at_streams(node)
            self._learners = set()

    def _look_at_node(self, node: str) -> None:
        """Who tells of which detector."""
        load = self.loads.get(node)
        names = () if load is None else tuple(load.detectors)
        before = self._names.get(node, ())
        if names != before:
            for name in before:
                self._tellers[name].discard(node)
            for name in names:
                self._tellers.setdefault(name, set()).add(node)
            self._names[node] = names
            self._detectors.update(before)
        self._detectors.update(names)

    def _look_at_detector(self, name: str) -> None:
        entry, tellers = self._reading.detectors.get(name), self._tellers.get(name)
        for table in (self._measured, self._amounts, self._events):
            table.pop(name, None)
        if not tellers:
            return
        # The primary's word counts before that of replicas, and of where it was before.
        node = entry.node if entry is not None and entry.node in tellers else min(tellers)
        measured = self._measured[name] = self.loads[node].detectors[name]
        if entry is not None and not entry.parts:
            self._amounts[name] = fsum(measured.inputs.values())
            self._events[name] = measured.events

    def _look_at_streams(self, node: str) -> None:
        before, after = self._learned.get(node, {}), self._learn(node)
        self._learned[node] = after
        for stream in before.keys() - after.keys():
            self._put(stream, node, None)
        for stream, amount in after.items():
            if before.get(stream) != amount:
                self._put(stream, node, amount)

    def _put(self, stream: Stream, node: str, amount: float | None) -> None:
        told = self._learned_of.setdefault(stream, {})
        if amount is not None:
            told[node] = amount
        else:
            del told[node]
        if told:
            self._bytes[stream] = max(told.values())
        else:
            self._bytes.pop(stream, None)

    def _learn(self, node: str) -> dict[Stream, float]:
        """What a node's detectors hear of each source, shared out to the types they read, as they are announced."""
        learned: dict[Stream, float] = {}
        load = self.loads.get(node)
        for name, measured in () if load is None else load.detectors.items():
            if name not in self._reading.detectors:
                continue
            for source, types in self._reading.inputs_of(name)[0]:
                amount = measured.inputs.get(source)
                if amount is None:
                    continue
                announced = announced_rates(self._topology, source) if len(types) > 1 else {}
                weights = [announced.get(each, message_sizes.RATE) for each in types]
                total = sum(weights)
                for each, weight in zip(types, weights, strict=True):
                    stream = Stream("event", each, source)
                    learned[stream] = max(learned.get(stream, 0.0), amount * weight / total)
        return learned


def announced_rates(topology: Topology | None, source: str) -> Mapping[str, float]:
    """By type, events a second of a source as the topology has it; nothing where it does not know the source."""
    if topology is None or source not in topology.publishers:
        return {}
    return topology.publishers[source].rates
