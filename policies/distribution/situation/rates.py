"""Rates, bytes and loads of streams and detectors.

Order of sources: measured by hosts, foreseen by a history, expected at placement, announced by the topology, estimated
from inputs. Measured delays were rejected: they include delays that no move changes, and always lose to an estimate.

`Measured` counts payloads; `flow` adds the rest of the bytes on links (`message_sizes`). The union of the nodes'
reports is kept and updated, so one report does not recompute all detectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, fsum, log
from typing import Final

from msgspec.structs import replace

from distced.middleware.model.detection import BEST_EFFORT
from distced.middleware.wire.directory_entries import DetectorEntry, Foreseen, LoadEntry, Measured, OutputTraffic
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, StreamReaders
from distced.policies.topology.topology import Topology

DEEPEST: Final = 50  # Limit of the depth of parts, for the directory may have a cycle
LEAST_EXPECTED: Final = 1.0  # Least expected load, instances per second, for a measurement to correct estimates
FARTHEST_OFF: Final = 10.0  # Largest factor of a correction by one detector
DOUBT: Final = 2.0  # Weight of the prior: number of detectors whose estimate counts as exact


class StreamRates:
    """Rates, bytes and loads of streams and detectors. The owner reports changes.

    Attributes:
        loads: entries of the directory, by node.
        expected: estimates of detectors at their placement, by id.
        foreseen, streams: results of a history: of detectors by id, running or not; of primitive events and heartbeats.
    """

    def __init__(self, reading: StreamReaders, loads: dict[str, LoadEntry], topology: Topology | None) -> None:
        self.reading = reading
        self.loads = loads
        self.topology = topology
        self.expected: dict[str, Measured] = {}
        self.foreseen: dict[str, Foreseen] = {}
        self.streams: dict[Stream, OutputTraffic] = {}
        self._reports = Reports(reading, loads, topology)
        self.forget_all()

    def forget_all(self) -> None:
        """Drop all results: inputs of detectors have changed, or many entries."""
        self._reports.forget()
        self._at_directory: int | None = None
        # Flows of detectors that follow from nothing but what their hosts report.
        self._kept: dict[Stream, float] = {}
        self._correction: float | None = None
        self.forget()

    def change_load(self, node: str) -> None:
        """Note a new or removed report of a node."""
        self._not_kept(self._reports.change_load(node))
        self._correction = None
        self.forget()

    def expect(self, detector: str, does: Measured | None) -> None:
        """Set the estimate of a detector until it is measured; None to remove it."""
        if does is None:
            self.expected.pop(detector, None)
        else:
            self.expected[detector] = does
        if self._reports.tells_of(detector):
            self._correction = None
        self.forget()

    def change_detector(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """Note a changed entry of a detector; None for none."""
        self._reports.change_detector(name, before, after)
        if self._reports.tells_of(name):
            self._correction = None
        self._not_kept((name, *(part for each in (before, after) if each is not None for part in each.parts)))
        if after is not None and not self._hears_enough(name):
            # Nor do those who wait for it.
            self._kept.clear()
        self.forget()

    def forget(self) -> None:
        """Drop the results that depend on any change."""
        self._of_detectors: Mapping[str, Measured] | None = None
        self._rates: dict[tuple[str, str], float] = {}
        self._flows: dict[Stream, float] = {}
        # Of detectors that others read.
        self._watermark_rates: dict[str, float] = {}
        self._paces: list[float] = []
        self._payload: float | None = None

    def of(self, detector: str) -> Measured:
        """Load and output of a detector: measured, else foreseen, else expected, else roughly by its inputs."""
        known = self._measured().get(detector)
        if known is not None:
            return known
        known = self.expected.get(detector)
        entry = self.reading.detectors.get(detector)
        foreseen = self.foreseen.get(detector)
        if foreseen is not None and entry is not None:
            load = foreseen.load(entry.parts)
            if load is None:
                # As a whole it has more to do than when it reads parts.
                load = foreseen.loads.get("", 0.0) if known is None else known.load
            return Measured(load=load, rate=foreseen.rate, size=self._present_output(detector, foreseen).size)
        if known is not None:
            return replace(known, load=known.load * self.correction)
        return Measured() if entry is None else self._roughly(detector)

    def expected_load(self, detector: str) -> float | None:
        """Load expected of a detector at its placement, not corrected; None where `of` goes by other things."""
        known = self.expected.get(detector)
        other = known is None or detector in self.foreseen or detector in self._measured()
        return None if known is None or other else known.load

    @property
    def correction(self) -> float:
        """Factor of expected loads: geometric mean of measured by expected load of earlier detectors, near 1 with few.

        Guessed selectivities err alike for most patterns over the same events.
        """
        if self._correction is None:
            measured = self._measured()
            logs = [
                log(min(max(measured[name].load / each.load, 1 / FARTHEST_OFF), FARTHEST_OFF))
                for name, each in ((name, self.expected[name]) for name in measured if name in self.expected)
                if each.load >= LEAST_EXPECTED
            ]
            self._correction = exp(fsum(logs) / (len(logs) + DOUBT))
        return self._correction

    def at(self, detector: str, node: str) -> Measured:
        """Load and output of a detector at one of its hosts."""
        load = self.loads.get(node)
        own = None if load is None else load.detectors.get(detector)
        return self.of(detector) if own is None else own

    def is_known(self, detector: str) -> bool:
        """Whether load and output of a detector are measured, or foreseen by a history."""
        return detector in self._measured() or detector in self.foreseen

    def unmeasured(self, detector: str) -> Foreseen | None:
        """Result of a history for a detector that is not measured yet."""
        return None if detector in self._measured() else self.foreseen.get(detector)

    # Events.

    def rate(self, source: str, type_name: str) -> float:
        """Events per second of a type from a source."""
        known = self._rates.get((source, type_name))
        if known is None:
            measured = self._reports.of_streams().get(Stream("event", type_name, source))
            if measured is not None:
                known = measured / self.payload
            elif Stream("event", type_name, source) in self.streams:
                known = self.streams[Stream("event", type_name, source)].often
            else:
                known = announced_rates(self.topology, source).get(type_name, message_sizes.RATE)
            self._rates[source, type_name] = known
        return known

    def is_measured(self, stream: Stream) -> bool:
        """Whether the rate of a stream of primitive events was measured."""
        return stream in self._reports.of_streams()

    # Bytes.

    def flow(self, stream: Stream) -> float:
        """Bytes per second of a stream on a link."""
        known = self._flows.get(stream)
        if known is None:
            known = self._kept.get(stream)
        if known is None:
            if stream.kind == "heartbeat" and stream not in self.streams:
                publishers = 1 if stream.name else self._publishers_at_directory()
                known = publishers * message_sizes.HEARTBEATS * (message_sizes.HEARTBEAT + message_sizes.MESSAGE)
            elif stream.kind == "composite" and (foreseen := self.unmeasured(stream.name)) is not None:
                known = flow_of(self._present_output(stream.name, foreseen))
            elif stream in self.streams and not self.is_measured(stream):
                known = flow_of(self.streams[stream])
            elif stream.kind == "composite":
                watermark_rate = self.watermark_rate(stream.name)
                known = self.output(self.of(stream.name), watermark_rate)
                if watermark_rate == message_sizes.QUIET and self._stays(stream.name):
                    self._kept[stream] = known
            else:
                known = self.bytes_of(self.rate(stream.name, stream.type))
            self._flows[stream] = known
        return known

    def bytes_of(self, events: float) -> float:
        """Bytes per second on a link of n primitive events per second."""
        return events * (self.payload + message_sizes.MESSAGE)

    def output(self, does: Measured, watermark_rate: float) -> float:
        """Bytes per second on a link of a detector with n messages per second."""
        return does.size + watermark_rate * message_sizes.MESSAGE

    @property
    def payload(self) -> float:
        """Bytes of the frame of a primitive event, measured by detectors that read nothing else."""
        if self._payload is None:
            self._payload = self._reports.payload() or message_sizes.EVENT
        return self._payload

    # How often something is heard.

    def watermark_rate(self, detector: str, *, read: bool = False) -> float:
        """Watermarks per second of a detector; with `read` as if read by another. None by best effort."""
        entry = self.reading.detectors.get(detector)
        if entry is not None and entry.policy == BEST_EFFORT:
            return 0.0
        foreseen = self.unmeasured(detector)
        if foreseen is not None:
            unread = not read and detector in self.reading.detectors
            return (self._present_output(detector, foreseen) if unread else foreseen.loud).often
        if read or detector not in self.reading.detectors or self.reading.is_read(detector):
            return self._rate_when_read(detector, DEEPEST)
        if self._hears_enough(detector):
            return message_sizes.QUIET
        return message_sizes.watermark_rate(self._heard(detector, DEEPEST), read=False)

    def louder(self, detector: str) -> float:
        """Additional bytes per second of a detector read as a part: all watermarks, derivations with constituents."""
        if detector not in self.reading.detectors:
            return 0.0
        foreseen = self.unmeasured(detector)
        if foreseen is not None:
            read = foreseen.loud if self.reading.detectors[detector].publishes else foreseen.part
            return max(flow_of(read) - flow_of(self._present_output(detector, foreseen)), 0.0)
        if self.reading.is_read(detector):
            return 0.0
        more = max(self.watermark_rate(detector, read=True) - self.watermark_rate(detector), 0.0)
        return more * (message_sizes.FRAME + message_sizes.MESSAGE) + self.of(detector).rate * (
            message_sizes.DERIVATION + 2 * message_sizes.INSIDE
        )

    def _present_output(self, detector: str, foreseen: Foreseen) -> OutputTraffic:
        """Foreseen messages of a detector, given its present readers."""
        publishes = self.reading.detectors[detector].publishes
        read = bool(publishes) and self.reading.is_type_read(publishes, but=detector)
        return foreseen.output(part=bool(self.reading.reading_part(detector)), read=read)

    def _rate_when_read(self, detector: str, depth: int) -> float:
        """Watermarks per second of a detector as if another read it."""
        known = self._watermark_rates.get(detector)
        if known is None:
            if not depth or detector not in self.reading.detectors:
                return message_sizes.HEARTBEATS
            known = self._watermark_rates[detector] = message_sizes.watermark_rate(
                self._heard(detector, depth), read=True
            )
        return known

    def _heard(self, detector: str, depth: int) -> list[float]:
        """Messages per second of each input."""
        numbers, parts = self.reading.numbers_of(detector)
        paces = self._paces
        if len(paces) < len(self.reading.pairs):
            self._add_paces()
        heard = [paces[number] for number in numbers]
        heard += [self._rate_when_read(each, depth - 1) for each in parts]
        return heard

    def _hears_enough(self, detector: str) -> bool:
        """Whether its inputs' heartbeats alone allow it the most watermarks of a detector that no other reads."""
        ahead, seen = [detector], {detector}
        while ahead:
            each = ahead.pop()
            if each in self.reading.detectors:
                numbers, parts = self.reading.numbers_of(each)
                if not numbers and not parts:
                    return False
                ahead += [part for part in parts if part not in seen]
                seen.update(parts)
        return message_sizes.HEARTBEATS >= message_sizes.QUIET

    def _stays(self, detector: str) -> bool:
        """Whether its output follows from the report of its host alone."""
        known = detector in self.reading.detectors and detector in self._measured()
        return known and not self.reading.is_read(detector) and self._hears_enough(detector)

    def _not_kept(self, detectors: Iterable[str]) -> None:
        for name in detectors:
            self._kept.pop(Stream("composite", "", name), None)

    # Tables.

    def _measured(self) -> Mapping[str, Measured]:
        if self._of_detectors is None:
            self._of_detectors = self._reports.of_detectors()
        return self._of_detectors

    def _add_paces(self) -> None:
        """Messages per second of each source, by number."""
        paces = self._paces
        for source, types in list(self.reading.pairs)[len(paces) :]:
            paces.append(message_sizes.HEARTBEATS + sum(self.rate(source, each) for each in types))

    def _publishers_at_directory(self) -> int:
        """Number of publishers at home on the server of the directory."""
        if self._at_directory is None:
            sources = self.reading.sources.items()
            self._at_directory = len({entry.publisher or name for name, entry in sources if not entry.home})
        return self._at_directory

    def _roughly(self, detector: str) -> Measured:
        """Rough load and output of a detector by its inputs."""
        rates = [
            self.rate(each.name, each.type) if each.kind == "event" else message_sizes.RATE
            for each in self.reading.streams_of(detector)
            if each.kind != "heartbeat"
        ]
        rate = min(rates, default=0.0)
        size = (
            rate * (message_sizes.COMPOSITE + 2 * message_sizes.ID)
            + self.watermark_rate(detector) * message_sizes.FRAME
        )
        return Measured(load=sum(rates) * message_sizes.TOUCHES, rate=rate, size=size, events=sum(rates))


def flow_of(traffic: OutputTraffic) -> float:
    return traffic.size + traffic.often * message_sizes.MESSAGE


def load_of_entry(entry: LoadEntry | None) -> float:
    """Load of a node beside its detectors, instances touched per second."""
    return 0.0 if entry is None else max(entry.load - sum(each.load for each in entry.detectors.values()), 0.0)


def hosting(entry: DetectorEntry) -> dict[str, str]:
    """Nodes that host a detector, the primary first, and the home servers they publish at."""
    return {entry.node: entry.home, **entry.replicas}


class Reports:
    """The union of all reports. Its owner reports changes of `loads`, the entries by node."""

    def __init__(self, reading: StreamReaders, loads: Mapping[str, LoadEntry], topology: Topology | None) -> None:
        self.loads = loads
        self._reading = reading
        self._topology = topology
        self.forget()

    # What has changed.

    def forget(self) -> None:
        """Drop all results."""
        self._begun = False
        # The detectors that each node reports, and the nodes that report each detector.
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
        """Note a new or removed report of a node; the detectors it names, or named."""
        self._nodes.add(node)
        load = self.loads.get(node)
        return {*self._names.get(node, ()), *(() if load is None else load.detectors)}

    def change_detector(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """Note a changed entry of a detector; None for none."""
        self._detectors.add(name)
        if before is None or after is None or before.reads != after.reads:
            self._learners.update(self._tellers.get(name, ()))

    # Asked.

    def tells_of(self, detector: str) -> bool:
        """Whether a report names a detector, or may."""
        return not self._begun or bool(self._nodes) or bool(self._tellers.get(detector))

    def of_detectors(self) -> Mapping[str, Measured]:
        """Measured load and output by detector."""
        self._look()
        return self._measured

    def of_streams(self) -> Mapping[Stream, float]:
        """Measured payload, bytes per second by primitive stream: the nodes' greatest, as new readers miss some."""
        self._look()
        return self._bytes

    def payload(self) -> float | None:
        """Bytes of the frame of a primitive event, by detectors that read nothing else; None without a report."""
        self._look()
        amount, events = fsum(self._amounts.values()), fsum(self._events.values())
        return amount / events if amount and events else None

    def _look(self) -> None:
        if not self._begun:
            self.forget()
            self._begun = True
            self._nodes.update(self.loads)
        for node in self._nodes:
            self._look_at_node(node)
        self._learners |= self._nodes
        for name in self._detectors:
            self._look_at_detector(name)
        for node in self._learners:
            self._look_at_streams(node)
        for done in (self._nodes, self._detectors, self._learners):
            done.clear()

    def _look_at_node(self, node: str) -> None:
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
        known = self._learned_of.setdefault(stream, {})
        if amount is not None:
            known[node] = amount
        else:
            del known[node]
        if known:
            self._bytes[stream] = max(known.values())
        else:
            self._bytes.pop(stream, None)

    def _learn(self, node: str) -> dict[Stream, float]:
        """Bytes per second of each source's streams at a node, divided among types as announced."""
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
    """Events per second by type of a source in the topology; empty for an unknown source."""
    if topology is None or source not in topology.publishers:
        return {}
    return topology.publishers[source].rates
