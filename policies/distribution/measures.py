"""How much there is of everything: rates, bytes, loads; measured where it was, else taken from what is known.

In this order: what hosts have measured; what whoever placed a detector expects of it; what the topology says of
publishers; what a detector reads. Measured delays are not looked at: they hold what no move would change, and compared
with an estimate they would always lose.

`Measured` counts payloads; what links carry is more (`sizes`), and is what `flow` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from middleware.protocol import DetectorEntry, LoadEntry, Measured
from policies.distribution import sizes
from policies.distribution.reading import Reading, Stream
from policies.topology.topology import Topology

DEEPEST: Final = 50
"""Parts of parts are followed so far; what the directory says may be wrong, and go round in a circle."""


class Measures:
    """Rates, bytes and loads.

    Attributes:
        loads: entries of the directory, by node; whoever changes them, or what is read, says so (`forget`).
        expected: what detectors are expected to do that have not been measured yet, by id.
    """

    def __init__(self, reading: Reading, loads: dict[str, LoadEntry], topology: Topology | None) -> None:
        self.reading = reading
        self.loads = loads
        self.topology = topology
        self.expected: dict[str, Measured] = {}
        self.forget_all()

    def forget_all(self) -> None:
        """What is read has changed, or many things."""
        # What each node's detectors tell of the streams they read: bytes a second of payload.
        self._learned: dict[str, dict[Stream, float]] | None = None
        self._beats: dict[str, float] | None = None
        self.forget()

    def forget(self, *nodes: str) -> None:
        """What these nodes tell has changed, or the detectors they host."""
        for node in nodes:
            if self._learned is not None:
                self._learned.pop(node, None)
        self._measured: dict[str, Measured] | None = None
        self._said: dict[Stream, float] | None = None
        self._rates: dict[tuple[str, str], float] = {}
        self._flows: dict[Stream, float] = {}
        self._told: dict[tuple[str, bool], float] = {}
        self._paces: list[float] = []
        self._payload: float | None = None

    def of(self, detector: str) -> Measured:
        """What a detector does: measured, else expected, else roughly by what it reads."""
        known = self._all().get(detector) or self.expected.get(detector)
        if known is not None:
            return known
        entry = self.reading.detectors.get(detector)
        return Measured() if entry is None else self._roughly(detector)

    def at(self, detector: str, node: str) -> Measured:
        """The same at one of the nodes that host it."""
        load = self.loads.get(node)
        own = None if load is None else load.detectors.get(detector)
        return self.of(detector) if own is None else own

    # Events.

    def rate(self, source: str, type_name: str) -> float:
        """Events a second of one type from one source."""
        known = self._rates.get((source, type_name))
        if known is None:
            measured = self._measured_bytes().get(Stream("event", type_name, source))
            if measured is not None:
                known = measured / self.payload
            else:
                known = self._announced(source).get(type_name, sizes.RATE)
            self._rates[source, type_name] = known
        return known

    def is_measured(self, stream: Stream) -> bool:
        """Whether the rate of a stream of primitive events was measured."""
        return stream in self._measured_bytes()

    # Bytes.

    def flow(self, stream: Stream) -> float:
        """Bytes a second of a stream on a link."""
        known = self._flows.get(stream)
        if known is None:
            if stream.kind == "heartbeat":
                known = self._heartbeats().get(stream.name, 0.0)
            elif stream.kind == "composite":
                known = self.output(self.of(stream.name), self.told(stream.name))
            else:
                known = self.bytes_of(self.rate(stream.name, stream.type))
            self._flows[stream] = known
        return known

    def bytes_of(self, events: float) -> float:
        """Bytes a second on a link for so many primitive events a second."""
        return events * (self.payload + sizes.MESSAGE)

    def output(self, does: Measured, told: float) -> float:
        """Bytes a second on a link for what a detector tells, so many times a second."""
        return does.size + told * sizes.MESSAGE

    @property
    def payload(self) -> float:
        """Bytes of the frame of a primitive event, as measured by all detectors that read nothing else."""
        if self._payload is None:
            amount = events = 0.0
            for name, measured in self._all().items():
                entry = self.reading.detectors.get(name)
                if entry is not None and not entry.parts:
                    amount, events = amount + sum(measured.inputs.values()), events + measured.events
            self._payload = amount / events if amount and events else sizes.EVENT
        return self._payload

    # How often something is heard.

    def told(self, detector: str, *, read: bool = False) -> float:
        """How often a second a detector of the directory says how far it is.

        Args:
            read: as if another detector read it.
        """
        if detector not in self.reading.detectors:
            return sizes.HEARTBEATS
        return self._telling(detector, read or self.reading.is_read(detector), DEEPEST)

    def louder(self, detector: str) -> float:
        """Bytes a second more of it on a link once another detector reads it as a part: it says at every step how far
        it is, and of each composite event how it came about, to whoever listens."""
        if detector not in self.reading.detectors or self.reading.is_read(detector):
            return 0.0
        more = max(self.told(detector, read=True) - self.told(detector), 0.0)
        return more * (sizes.FRAME + sizes.MESSAGE) + self.of(detector).rate * sizes.RECORD

    def _telling(self, detector: str, read: bool, depth: int) -> float:
        known = self._told.get((detector, read))
        if known is None:
            if not depth or detector not in self.reading.detectors:
                return sizes.HEARTBEATS
            numbers = self.reading.numbers_of(detector)
            others = self.reading.inputs_of(detector)[1]
            heard = list(map(self._all_paces().__getitem__, numbers))
            heard += [self._telling(each, True, depth - 1) for each in others]
            known = self._told[detector, read] = sizes.told(heard, read=read)
        return known

    # Tables.

    def _all(self) -> dict[str, Measured]:
        if self._measured is None:
            self._measured = {}
            for node in sorted(self.loads):
                for name, measured in self.loads[node].detectors.items():
                    entry = self.reading.detectors.get(name)
                    # The primary's word counts before that of copies, and of where it was before.
                    if name not in self._measured or (entry is not None and entry.node == node):
                        self._measured[name] = measured
        return self._measured

    def _all_paces(self) -> list[float]:
        """How often a second each of the sources is heard that somebody reads, by their numbers."""
        paces = self._paces
        if len(paces) < len(self.reading.pairs):
            for source, types in list(self.reading.pairs)[len(paces) :]:
                paces.append(sizes.HEARTBEATS + sum(self.rate(source, each) for each in types))
        return paces

    def _measured_bytes(self) -> dict[Stream, float]:
        """Bytes a second of payload, by stream of primitive events. Where several nodes tell, the most counts: one
        that has just begun to listen has missed something."""
        if self._said is None:
            if self._learned is None:
                self._learned = {}
            said: dict[Stream, float] = {}
            for node in self.loads:
                learned = self._learned.get(node)
                if learned is None:
                    learned = self._learned[node] = self._learn(node)
                for stream, amount in learned.items():
                    if amount > said.get(stream, -1.0):
                        said[stream] = amount
            self._said = said
        return self._said

    def _learn(self, node: str) -> dict[Stream, float]:
        """What a node's detectors hear of each source, shared out to the types they read, as they are announced."""
        learned: dict[Stream, float] = {}
        for name, measured in self.loads[node].detectors.items():
            if name not in self.reading.detectors:
                continue
            for source, types in self.reading.inputs_of(name)[0]:
                amount = measured.inputs.get(source)
                if amount is None:
                    continue
                announced = self._announced(source)
                weights = [announced.get(each, sizes.RATE) for each in types]
                for each, weight in zip(types, weights, strict=True):
                    stream = Stream("event", each, source)
                    learned[stream] = max(learned.get(stream, 0.0), amount * weight / sum(weights))
        return learned

    def _announced(self, source: str) -> Mapping[str, float]:
        if self.topology is None or source not in self.topology.publishers:
            return {}
        return self.topology.publishers[source].rates

    def _heartbeats(self) -> dict[str, float]:
        """Bytes a second of the heartbeats at each home server."""
        if self._beats is None:
            beating: dict[str, set[str]] = {}
            for name, entry in self.reading.sources.items():
                beating.setdefault(entry.home, set()).add(entry.publisher or name)
            each = sizes.HEARTBEATS * (sizes.HEARTBEAT + sizes.MESSAGE)
            self._beats = {home: len(who) * each for home, who in beating.items()}
        return self._beats

    def _roughly(self, detector: str) -> Measured:
        """What a detector may do of which nothing is known but what it reads."""
        rates = [
            self.rate(each.name, each.type) if each.kind == "event" else sizes.RATE
            for each in self.reading.streams_of(detector)
            if each.kind != "heartbeat"
        ]
        rate = min(rates, default=0.0)
        size = rate * (sizes.COMPOSITE + 2 * sizes.ID) + self.told(detector) * sizes.FRAME
        return Measured(load=sum(rates) * sizes.TOUCHES, rate=rate, size=size, events=sum(rates))


def load_of_entry(entry: LoadEntry | None) -> float:
    """What a node does beside its detectors, instances touched a second."""
    return 0.0 if entry is None else max(entry.load - sum(each.load for each in entry.detectors.values()), 0.0)


def hosting(entry: DetectorEntry) -> dict[str, str]:
    """The nodes that host a detector, the primary first, and the home servers they publish at."""
    return {entry.node: entry.home, **entry.copies}
