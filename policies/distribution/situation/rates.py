"""How much there is of everything: rates, bytes, loads; measured where it was, else taken from what is known.

In this order: what hosts have measured; what a history has foreseen; what whoever placed a detector expects of it; what
the topology says of publishers; what a detector reads. Measured delays are not looked at: they hold what no move would
change, and compared with an estimate they would always lose.

`Measured` counts payloads; what links carry is more (`sizes`), and is what `flow` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log
from typing import Final

from msgspec.structs import replace

from distced.middleware.wire.directory_entries import DetectorEntry, Foreseen, LoadEntry, Measured, Told
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.load_reports import Reports, announced_rates
from distced.policies.distribution.situation.readers import Stream, StreamReaders
from distced.policies.topology.topology import Topology

DEEPEST: Final = 50
"""Parts of parts are followed so far; what the directory says may be wrong, and go round in a circle."""

LEAST_EXPECTED: Final = 1.0
"""Of detectors that were expected to touch fewer instances a second, what was measured says little."""

FARTHEST_OFF: Final = 10.0
"""By what factor an estimate counts as wrong at the most."""

DOUBT: Final = 2.0
"""Weight of the prior: number of detectors whose estimate counts as exact."""


class StreamRates:
    """Rates, bytes and loads.

    Attributes:
        loads: entries of the directory, by node; whoever changes them, or what is read, says so (`forget`).
        expected: what detectors were expected to do when they were placed, by id.
        foreseen: what a history says that detectors do, by id, whether they run or not; whoever changes it says so.
        streams: the same of streams of primitive events and heartbeats.
    """

    def __init__(self, reading: StreamReaders, loads: dict[str, LoadEntry], topology: Topology | None) -> None:
        self.reading = reading
        self.loads = loads
        self.topology = topology
        self.expected: dict[str, Measured] = {}
        self.foreseen: dict[str, Foreseen] = {}
        self.streams: dict[Stream, Told] = {}
        self._reports = Reports(reading, loads, topology)
        self.forget_all()

    def forget_all(self) -> None:
        """What is read has changed, or many things."""
        self._reports.forget()
        self._at_directory: int | None = None
        # Flows of detectors that follow from nothing but what their hosts report.
        self._kept: dict[Stream, float] = {}
        self.forget()

    def change_load(self, node: str) -> None:
        """There is a new report of a node, or none any more."""
        self._not_kept(self._reports.change_load(node))
        self.forget()

    def change_detector(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """The entry of a detector is another, None where there is none."""
        self._reports.change_detector(name, before, after)
        self._not_kept((name, *(part for each in (before, after) if each is not None for part in each.parts)))
        if after is not None and not self._hears_enough(name):
            # Nor do those who wait for it.
            self._kept.clear()
        self.forget()

    def forget(self) -> None:
        """Something has changed, and with it what follows."""
        self._of_detectors: Mapping[str, Measured] | None = None
        self._rates: dict[tuple[str, str], float] = {}
        self._flows = self._kept.copy()
        # Of detectors that others read.
        self._told: dict[str, float] = {}
        self._paces: list[float] = []
        self._payload: float | None = None
        self._correction: float | None = None

    def of(self, detector: str) -> Measured:
        """What a detector does: measured, else foreseen, else expected, else roughly by what it reads."""
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
            return Measured(load=load, rate=foreseen.rate, size=self._told_now(detector, foreseen).size)
        if known is not None:
            return replace(known, load=known.load * self.correction)
        return Measured() if entry is None else self._roughly(detector)

    @property
    def correction(self) -> float:
        """What an expected load is to be multiplied with, by what was measured of those that were expected before.

        How much filters and guards let through is guessed (`selectivity`), and where guesses are too high, they are so
        for most patterns over the same events. It is the geometric mean of measured by expected load, and 1 as long as
        little was measured.
        """
        if self._correction is None:
            measured = self._measured()
            logs = [
                log(min(max(measured[name].load / each.load, 1 / FARTHEST_OFF), FARTHEST_OFF))
                for name, each in self.expected.items()
                if each.load >= LEAST_EXPECTED and name in measured
            ]
            self._correction = exp(sum(logs) / (len(logs) + DOUBT))
        return self._correction

    def at(self, detector: str, node: str) -> Measured:
        """The same at one of the nodes that host it."""
        load = self.loads.get(node)
        own = None if load is None else load.detectors.get(detector)
        return self.of(detector) if own is None else own

    def unmeasured(self, detector: str) -> Foreseen | None:
        """What a history says of a detector that nobody has measured yet."""
        return None if detector in self._measured() else self.foreseen.get(detector)

    # Events.

    def rate(self, source: str, type_name: str) -> float:
        """Events a second of one type from one source."""
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
        """Bytes a second of a stream on a link."""
        known = self._flows.get(stream)
        if known is None:
            if stream.kind == "heartbeat" and stream not in self.streams:
                publishers = 1 if stream.name else self._publishers_at_directory()
                known = publishers * message_sizes.HEARTBEATS * (message_sizes.HEARTBEAT + message_sizes.MESSAGE)
            elif stream.kind == "composite" and (foreseen := self.unmeasured(stream.name)) is not None:
                known = flow_of(self._told_now(stream.name, foreseen))
            elif stream in self.streams and not self.is_measured(stream):
                known = flow_of(self.streams[stream])
            elif stream.kind == "composite":
                told = self.told(stream.name)
                known = self.output(self.of(stream.name), told)
                if told == message_sizes.QUIET and self._stays(stream.name):
                    self._kept[stream] = known
            else:
                known = self.bytes_of(self.rate(stream.name, stream.type))
            self._flows[stream] = known
        return known

    def bytes_of(self, events: float) -> float:
        """Bytes a second on a link for n primitive events a second."""
        return events * (self.payload + message_sizes.MESSAGE)

    def output(self, does: Measured, told: float) -> float:
        """Bytes a second on a link for the messages of a detector, n a second."""
        return does.size + told * message_sizes.MESSAGE

    @property
    def payload(self) -> float:
        """Bytes of the frame of a primitive event, as measured by all detectors that read nothing else."""
        if self._payload is None:
            self._payload = self._reports.payload() or message_sizes.EVENT
        return self._payload

    # How often something is heard.

    def told(self, detector: str, *, read: bool = False) -> float:
        """How often a second a detector of the directory says how far it is.

        Args:
            read: as if another detector read it.
        """
        foreseen = self.unmeasured(detector)
        if foreseen is not None:
            unread = not read and detector in self.reading.detectors
            return (self._told_now(detector, foreseen) if unread else foreseen.loud).often
        if read or detector not in self.reading.detectors or self.reading.is_read(detector):
            return self._telling(detector, DEEPEST)
        if self._hears_enough(detector):
            return message_sizes.QUIET
        return message_sizes.told(self._heard(detector, DEEPEST), read=False)

    def louder(self, detector: str) -> float:
        """Bytes a second more of it on a link once another detector reads it as a part: it says at every step how far
        it is, and of each composite event how it came about, with its constituents, to whoever listens."""
        if detector not in self.reading.detectors:
            return 0.0
        foreseen = self.unmeasured(detector)
        if foreseen is not None:
            read = foreseen.loud if self.reading.detectors[detector].publishes else foreseen.part
            return max(flow_of(read) - flow_of(self._told_now(detector, foreseen)), 0.0)
        if self.reading.is_read(detector):
            return 0.0
        more = max(self.told(detector, read=True) - self.told(detector), 0.0)
        return more * (message_sizes.FRAME + message_sizes.MESSAGE) + self.of(detector).rate * (
            message_sizes.DERIVATION + 2 * message_sizes.INSIDE
        )

    def _told_now(self, detector: str, foreseen: Foreseen) -> Told:
        """What a detector of the directory tells, by who reads it at present."""
        publishes = self.reading.detectors[detector].publishes
        read = bool(publishes) and self.reading.is_type_read(publishes, but=detector)
        return foreseen.told(part=bool(self.reading.reading_part(detector)), read=read)

    def _telling(self, detector: str, depth: int) -> float:
        """The same, as if another read it."""
        known = self._told.get(detector)
        if known is None:
            if not depth or detector not in self.reading.detectors:
                return message_sizes.HEARTBEATS
            known = self._told[detector] = message_sizes.told(self._heard(detector, depth), read=True)
        return known

    def _heard(self, detector: str, depth: int) -> list[float]:
        """How often a second each of what it reads is heard."""
        numbers, parts = self.reading.numbers_of(detector)
        paces = self._paces
        if len(paces) < len(self.reading.pairs):
            self._add_paces()
        heard = [paces[number] for number in numbers]
        heard += [self._telling(each, depth - 1) for each in parts]
        return heard

    def _hears_enough(self, detector: str) -> bool:
        """Whether it tells as often as it may while no other detector reads it, whatever the rates are: a source is
        heard often enough for that by its heartbeats, and so is a detector that hears of any."""
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
        """Whether what it tells follows from nothing but the report of its host."""
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
        """How often a second each of the sources is heard that somebody reads, by their numbers."""
        paces = self._paces
        for source, types in list(self.reading.pairs)[len(paces) :]:
            paces.append(message_sizes.HEARTBEATS + sum(self.rate(source, each) for each in types))

    def _publishers_at_directory(self) -> int:
        """How many publishers have the server of the directory for their home."""
        if self._at_directory is None:
            sources = self.reading.sources.items()
            self._at_directory = len({entry.publisher or name for name, entry in sources if not entry.home})
        return self._at_directory

    def _roughly(self, detector: str) -> Measured:
        """What a detector may do of which nothing is known but what it reads."""
        rates = [
            self.rate(each.name, each.type) if each.kind == "event" else message_sizes.RATE
            for each in self.reading.streams_of(detector)
            if each.kind != "heartbeat"
        ]
        rate = min(rates, default=0.0)
        size = rate * (message_sizes.COMPOSITE + 2 * message_sizes.ID) + self.told(detector) * message_sizes.FRAME
        return Measured(load=sum(rates) * message_sizes.TOUCHES, rate=rate, size=size, events=sum(rates))


def flow_of(told: Told) -> float:
    """Bytes a second on a link."""
    return told.size + told.often * message_sizes.MESSAGE


def load_of_entry(entry: LoadEntry | None) -> float:
    """What a node does beside its detectors, instances touched a second."""
    return 0.0 if entry is None else max(entry.load - sum(each.load for each in entry.detectors.values()), 0.0)


def hosting(entry: DetectorEntry) -> dict[str, str]:
    """The nodes that host a detector, the primary first, and the home servers they publish at."""
    return {entry.node: entry.home, **entry.replicas}
